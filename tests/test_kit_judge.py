"""uftrace reads the calls of the valid cases of the kit as the cases say; the kit does not depend on fxtio alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.checkout import CHECKOUT
from support.uftrace_judge import needs_uftrace, run

pytestmark = pytest.mark.once

CASES = CHECKOUT / "conformance" / "cases" / "uftrace"
WITHOUT = {
    "argument-f80": "it aborts on an 80-bit float",
    "argument-o16": "it does not know octal numbers, and drops the specification",
    "time-greatest": "it shows seconds modulo 2**32",
    "symbols-sized": "symbols with sizes are too new for it, so it shows addresses",
}
"""Cases that Debian's uftrace 0.13 cannot read, and why."""
VALID = [path for kind in ("valid", "stories") for path in sorted((CASES / kind).glob("*.json"))]
_CALL = re.compile(r"^(\d+)\.(\d+) +(\d+): \[(entry|exit) *\] (.*)\(([0-9a-f]+)\) depth: (\d+)$", re.MULTILINE)


def calls_of_uftrace(directory: Path) -> list[tuple[str, ...]]:
    shown = run("dump", directory).decode("utf-8", "surrogateescape")
    return [
        (tid, kind, str(int(seconds) * 10**9 + int(fraction)), depth, str(int(address, 16)), name)
        for seconds, fraction, tid, kind, name, address, depth in _CALL.findall(shown)
    ]


def calls_of_case(path: Path) -> list[tuple[str, ...]]:
    records = json.loads(path.read_text("utf-8"))["expect"]["records"]
    return [
        (item["tid"], item["type"], item["timestamp"], item["depth"], item["address"], item["function"]["text"])
        for item in records
        if item["type"] in ("entry", "exit")
    ]


@needs_uftrace
@pytest.mark.parametrize("path", [path for path in VALID if path.stem not in WITHOUT], ids=lambda path: path.stem)
def test_uftrace_reads_the_calls(path: Path) -> None:
    expected = calls_of_case(path)
    assert expected
    assert calls_of_uftrace(path.with_suffix("")) == expected


def test_the_exceptions_are_cases() -> None:
    assert {path.stem for path in VALID} > set(WITHOUT)
