"""fxtio itself as a testee: a harness in both modes of the protocol, `python -m fxtio.conformance.testee`.

It reads and writes canonical JSON with `fxtio.conformance.canonical`, and reports the rules that a trace breaks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fxtio.conformance import canonical
from fxtio.conformance.harness import OPERATIONS, PROTOCOL, REFUSED_STATUS, UNSUPPORTED_STATUS
from fxtio.errors import FxtioError
from fxtio.validate import validate

_STATUSES = {"ok": 0, "refused": REFUSED_STATUS, "unsupported": UNSUPPORTED_STATUS}


def perform(operation: str, source: Path, target: Path, format: str = "") -> tuple[str, str]:
    """Do one operation.

    Args:
        operation: `read` or `write`.
        source: the trace, or the scenario.
        target: the file for the result, or the trace to write.
        format: the name of the format of a trace; if empty, it is recognized.

    Returns:
        The status (`ok`, `refused` or `unsupported`) and a reason.

    Raises:
        OSError: the source cannot be read, or the target cannot be written.
    """
    try:
        if operation == "write":
            canonical.write(json.loads(source.read_bytes()), target)
        else:
            name = format or _format_of(source)
            result = canonical.read(source, name)
            result["findings"] = list(validate(source, format=name).counts)
            target.write_text(json.dumps(result), "utf-8")
    except canonical.UnsupportedError as error:
        return "unsupported", str(error)
    except FxtioError as error:
        return "refused", str(error)
    return "ok", ""


def _format_of(path: Path) -> str:
    """Return the name of the format of a trace, by the ending of its name."""
    from fxtio.formats import by_suffix

    known = by_suffix(path.name)
    if known is None:
        raise canonical.UnsupportedError(f"the ending of {path.name} is that of no format")
    return known.name


def _serve() -> int:
    """Answer the requests of serve mode until standard input ends."""
    for line in sys.stdin.buffer:
        request: dict[str, Any] = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"]}
        if request["op"] == "hello":
            answer |= _greeting()
        else:
            status, reason = perform(request["op"], Path(request["in"]), Path(request["out"]), request["format"])
            answer |= {"status": status, "reason": reason}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
    return 0


def _greeting() -> dict[str, Any]:
    """Return the answer to the handshake."""
    from fxtio import __version__

    formats = {name: list(OPERATIONS) for name in canonical.formats()}
    return {"protocol": PROTOCOL, "name": "fxtio", "version": __version__, "formats": formats}


def main(arguments: list[str]) -> int:
    """Run the harness and return its exit status; an exception that is no refusal ends it with status 2."""
    if arguments == ["serve"]:
        return _serve()
    if len(arguments) != 3 or arguments[0] not in OPERATIONS:
        sys.stderr.write("usage: testee read IN OUT | write SCENARIO OUT | serve\n")
        return 2
    status, reason = perform(arguments[0], Path(arguments[1]), Path(arguments[2]))
    sys.stderr.write(reason)
    return _STATUSES[status]


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception:  # noqa: BLE001  # a traceback ends with status 1, which means refused
        import traceback

        traceback.print_exc()
        code = 2
    sys.exit(code)
