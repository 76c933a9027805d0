"""Functions that harnesses in Python share: the values of a timeline, and both modes of the protocol."""

from __future__ import annotations

import json
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUSES = {"ok": 0, "refused": 1, "unsupported": 77}


class Refused(Exception):
    """The testee refuses the trace."""


class Unsupported(Exception):
    """The testee does not have a feature."""


def text(value: str | None) -> dict[str, Any]:
    """Return a text as canonical JSON; bytes that are not UTF-8 are surrogate escapes."""
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        return {"hex": (value or "").encode("utf-8", "surrogateescape").hex()}
    return {"text": value}


def value(content: Any) -> Any:
    """Return the value of an argument as canonical JSON."""
    if content is None or isinstance(content, bool):
        return content
    if isinstance(content, bytes):
        return content.hex()
    return (
        text(content) if isinstance(content, str) else double(content) if isinstance(content, float) else str(content)
    )


def double(number: float | None) -> str | None:
    """Return a number as the canonical form of a double."""
    return None if number is None else f"f64:{struct.pack('>d', number).hex()}"


def arguments(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of an event as canonical JSON, ordered by name."""
    return [{"name": text(name), "value": value(item)} for name, item in sorted(content.items())]


def thread(process: int | None, thread: int | None) -> dict[str, str]:
    """Return a process and a thread as canonical JSON."""
    return {"process": str(process), "thread": str(thread)}


Operation = Callable[[Path, Path], None]
"""A function that reads the first file or directory, and writes the second one."""


def run(name: str, version: str, read: Callable[[Path], dict[str, Any]], form: str = "fxt") -> int:
    """Run a harness that reads traces in the mode that the arguments say, and return its exit status.

    Args:
        name: the name of the testee.
        version: its version.
        read: returns the timeline of a trace, or raises `Refused` or `Unsupported`.
        form: the name of the format.
    """

    def operation(source: Path, target: Path) -> None:
        target.write_text(json.dumps({"timeline": read(source)}), "utf-8")

    return _run({"protocol": 1, "name": name, "version": version, "formats": {form: ["read"]}}, operation)


def run_writer(name: str, version: str, write: Callable[[dict[str, Any], Path], None], form: str = "fxt") -> int:
    """Run a harness that writes traces in the mode that the arguments say, and return its exit status.

    Args:
        name: the name of the testee.
        version: its version.
        write: writes the trace of a scenario, or raises `Refused` or `Unsupported`.
        form: the name of the format.
    """

    def operation(source: Path, target: Path) -> None:
        write(json.loads(source.read_bytes()), target)

    return _run({"protocol": 1, "name": name, "version": version, "formats": {form: ["write"]}}, operation)


def _run(hello: dict[str, Any], operation: Operation) -> int:
    """Run a harness with one operation, that of its answer to the handshake."""
    (known,) = next(iter(hello["formats"].values()))
    try:
        if sys.argv[1:] == ["serve"]:
            return _serve(hello, operation)
        if sys.argv[1] != known:
            sys.stderr.write(f"it can only {known}")
            return STATUSES["unsupported"]
        answer = _perform(sys.argv[2], sys.argv[3], operation)
    except Exception:
        traceback.print_exc()
        return 2
    sys.stderr.write(answer.get("reason", ""))
    return STATUSES[answer["status"]]


def _perform(source: str, target: str, operation: Operation) -> dict[str, str]:
    try:
        operation(Path(source), Path(target))
    except Refused as error:
        return {"status": "refused", "reason": str(error)}
    except Unsupported as error:
        return {"status": "unsupported", "reason": str(error)}
    return {"status": "ok"}


def _serve(hello: dict[str, Any], operation: Operation) -> int:
    for line in sys.stdin:
        request = json.loads(line)
        answer = hello if request["op"] == "hello" else _perform(request["in"], request["out"], operation)
        sys.stdout.write(json.dumps({"id": request["id"], **answer}) + "\n")
        sys.stdout.flush()
    return 0
