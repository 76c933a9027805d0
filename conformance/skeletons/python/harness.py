"""A harness for the conformance kit, in both modes.

    python harness.py read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
    python harness.py write SCENARIO OUT    write the trace that the scenario asks for to OUT
    python harness.py serve                 do the same on request, one JSON object on each line

The kit's PROTOCOL.md and CANONICAL.md describe the arguments, files and lines.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

MAGIC = b"\x10\x00\x04\x46\x78\x54\x16\x00"
RESULT = {"format": "fxt", "records": [{"type": "magic"}]}
"""The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does."""


class Refused(Exception):
    """The testee says that the trace is not valid, or that the format cannot express the scenario."""


class Unsupported(Exception):
    """The testee does not have a feature that the case needs."""


HELLO = {"protocol": 1, "name": "my testee", "version": "", "formats": {"fxt": ["read", "write"]}}
STATUSES = {"ok": 0, "refused": 1, "unsupported": 77}


def read(source: str, target: str) -> None:
    """Call your reader here."""
    if Path(source).is_file() and Path(source).read_bytes() == MAGIC:
        Path(target).write_text(json.dumps(RESULT), encoding="utf-8")
        return
    raise Unsupported("reading is not implemented")


def write(scenario: str, target: str) -> None:
    """Call your writer here."""
    raise Unsupported("writing is not implemented")


OPERATIONS = {"read": read, "write": write}


def perform(operation: str, source: str, target: str) -> dict[str, str]:
    """Do one operation; any other exception means that the testee crashed."""
    try:
        OPERATIONS[operation](source, target)
    except Refused as error:
        return {"status": "refused", "reason": str(error)}
    except Unsupported as error:
        return {"status": "unsupported", "reason": str(error)}
    return {"status": "ok"}


def serve() -> int:
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = HELLO if request["op"] == "hello" else perform(request["op"], request["in"], request["out"])
        print(json.dumps({"id": request["id"], **answer}), flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """Run the harness, and return its exit status."""
    if arguments == ["serve"]:
        return serve()
    if len(arguments) != 3 or arguments[0] not in OPERATIONS:
        print("usage: harness.py read IN OUT | write SCENARIO OUT | serve", file=sys.stderr)
        return 2
    answer = perform(*arguments)
    print(answer.get("reason", ""), file=sys.stderr)
    return STATUSES[answer["status"]]


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except Exception:  # without this, Python would end with status 1, which means refused
        traceback.print_exc()
        status = 2
    sys.exit(status)
