"""A small conformance kit, and harnesses that are wrong on purpose, for the tests of the runner."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

TRACE = bytes.fromhex("1000044678541600")
RECORDS: list[dict[str, Any]] = [{"type": "magic"}]
TWO: list[dict[str, Any]] = [
    {"type": "magic"},
    {"type": "provider-info", "provider_id": "1", "name": {"text": "p"}},
    {"type": "provider-event", "provider_id": "1", "event_id": "0"},
]

PRELUDE = """
    import json, os, signal, sys, time
    from pathlib import Path

    def answer(text):
        sys.stdout.write(text + "\\n")
        sys.stdout.flush()

    HELLO = {"id": 0, "protocol": 1, "name": "small", "version": "3", "formats": {"fxt": ["read", "write"]}}
    operation = sys.argv[1]
    if operation != "serve":
        source, target = Path(sys.argv[2]), Path(sys.argv[3])
        case = os.environ["FXTIO_CASE"]
"""

TWO_BYTES = TRACE + bytes.fromhex("20001100000010007000000000000000 1000130000000000")
CUT_BYTES = TWO_BYTES[:16]
ANSWERS = {
    TRACE: {"records": RECORDS, "findings": []},
    TWO_BYTES: {"records": TWO, "findings": ["fxt.provider.lost"]},
    CUT_BYTES: {"records": RECORDS, "findings": ["fxt.framing.truncated"]},
}
"""The right answers about the traces of the kit.  A harness that has them starts faster than one that imports fxtio."""

RIGHT = f"""
    ANSWERS = {ANSWERS}

    def perform(operation, source, target):
        if operation == "read":
            target.write_text(json.dumps(ANSWERS[source.read_bytes()]))
        else:
            target.write_bytes({TWO_BYTES!r})
        return "ok"
"""


def make_kit(folder: Path) -> Path:
    """Write a kit with two valid cases, an invalid one and a scenario."""
    (folder / "cases" / "fxt" / "valid").mkdir(parents=True)
    (folder / "cases" / "fxt" / "invalid").mkdir(parents=True)
    (folder / "scenarios" / "fxt").mkdir(parents=True)
    (folder / "kit.toml").write_text('version = "9"\n[formats.fxt]\nsuffix = ".fxt"\n', "utf-8")
    add_case(folder, "fxt/valid/magic", TRACE, RECORDS, tags=["record.magic"])
    add_case(folder, "fxt/valid/two", TWO_BYTES, TWO, tags=["record.provider-event"], remarks=["fxt.provider.lost"])
    broken = [{"type": "magic"}, {**TWO[1], "optional": True}]
    add_case(folder, "fxt/invalid/cut", CUT_BYTES, broken, rules=["fxt.framing.truncated"])
    scenario = {
        "id": "fxt/events",
        "format": "fxt",
        "since": "1",
        "title": "A provider event",
        "sections": ["Events"],
        "tags": [],
        "write": TWO,
        "expect": {"records": TWO[1:]},
        "bytes": TWO_BYTES.hex(),
    }
    (folder / "scenarios" / "fxt" / "events.json").write_text(json.dumps(scenario), "utf-8")
    return folder


def add_case(
    kit: Path,
    name: str,
    trace: bytes,
    records: list[dict[str, Any]],
    *,
    tags: Any = (),
    rules: Any = (),
    remarks: Any = (),
    may_refuse: bool = True,
) -> None:
    """Write a case of a kit; it is invalid if it breaks rules, and then readers may refuse it by default."""
    content: dict[str, Any] = {
        "id": name,
        "format": "fxt",
        "since": "1",
        "title": "A case",
        "sections": ["Overview"],
        "verdict": "invalid" if rules else "valid",
        "tags": list(tags),
        "expect": {"records": records, **({"refuse": "may"} if rules and may_refuse else {})},
        **({"rules": list(rules)} if rules else {}),
        **({"remarks": list(remarks)} if remarks else {}),
    }
    path = kit / "cases" / name
    path.with_suffix(".json").write_text(json.dumps(content), "utf-8")
    path.with_suffix(".fxt").write_bytes(trace)


def right_harness(path: Path) -> list[str]:
    """Write a harness in exec mode that passes all cases of the kit, and return its command."""
    return make_harness(path, RIGHT + "    perform(operation, source, target)\n")


def make_harness(path: Path, source: str) -> list[str]:
    """Write a harness in Python, whose text begins with `PRELUDE`, and return its command."""
    path.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(source), "utf-8")
    return [sys.executable, str(path)]
