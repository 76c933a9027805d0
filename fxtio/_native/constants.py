"""The numbers on which the kernels in C and the Python that calls them must agree, declared here only.

`c_header` renders them as C, and `constants.h` is its output.  After a change, run

    python fxtio/_native/constants.py > fxtio/_native/constants.h

A test compares the two.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from enum import IntEnum


class WalkEnd(IntEnum):
    """The reason why a walk over FXT records stopped."""

    END = 0
    "At the end of the words."
    ZERO = 1
    "At a record of size 0."
    PARTIAL = 2
    "At a record that goes beyond the end."
    FULL = 3
    "The output is full."


class PayloadWalkEnd(IntEnum):
    """The reason why a walk over uftrace records with payloads stopped."""

    END = 0
    "At the end."
    BAD = 1
    "At a record without the magic bits."
    PARTIAL = 2
    "At a record that goes beyond the end."
    FULL = 3
    "The output is full."
    LATER = 4
    "At a record of the time limit or later."
    UNKNOWN = 5
    "At a record whose payload no program describes."


class SpanStep(IntEnum):
    """The effect of a row on the stack of open spans of its track."""

    NONE = 0
    "Nothing."
    BEGIN = 1
    "A span begins."
    END = 2
    "The innermost span that began, and has not ended, ends."
    COMPLETE = 3
    "A span with begin and end."
    INSTANT = 4
    "A point in time."
    FLOW = 5
    "An arrow begins or ends in the innermost span."
    RESET = 6
    "The open spans of its level and deeper ones end, without an end of their own."


class SliceState(IntEnum):
    """The end of a slice of a timeline."""

    CLOSED = 0
    "It has a begin and an end."
    OPEN = 1
    "Its end is missing; it lasts until an outer slice ends, or until the end of the trace."
    OVERLAPPING = 2
    "It ends after the slice in which it began."
    THROWN = 3
    "An exception left it."


class PlainValue(IntEnum):
    """The place of the value of an argument in a plain event."""

    HEADER = 0
    "In a field of the header."
    WORD = 1
    "In the word after the header."
    TEXT = 2
    "In the slot of a string, which is in a field of the header."


class Op(IntEnum):
    """An operation of a program over a byte stream.

    A step of a program is the operation, two operands `a` and `b`, a column (-1 for none), and a slot (-1 for none).
    """

    END = 0
    "The record is complete."
    CONST = 1
    "Write the byte `a`.  When reading, it was read before."
    BEGIN = 2
    "The record is of the kind `a`; its offset goes to the column."
    SUBTYPE = 3
    "Read a byte and go on where the table at `a` of the places says."
    CLOCK = 4
    "An unsigned number, added to the register `a`."
    NOW = 5
    "The register `a`; nothing is read."
    PUT = 6
    "The number `a`; nothing is read."
    BYTE = 7
    "A byte."
    ULEB = 8
    "An unsigned number."
    SLEB = 9
    "A signed number; an address if `a` is 1."
    RELATIVE = 10
    "An address: a signed number plus the register `a`, times 2 to the power of `b`."
    RUNNING = 11
    "An address: a signed number plus the register `a`, which is set to the sum."
    SUMMED = 12
    "An unsigned number plus the previous one of the same list."
    DOUBLE = 13
    "Eight bytes."
    TEXT = 14
    "Bytes up to a zero byte: their offset, and their size in the next column; if `a` is 1, a byte 0 or 1 before them."
    UNLESS = 15
    "Go on at `b` unless the slot holds `a`."
    JUMP = 16
    "Go on at `b`."
    FAIL = 17
    "The encoding of a value is not known."
    COUNT = 18
    "The number of items; if `a` is 1, it is not stored, and a 0 in place of an item ends the list."
    LOOP = 19
    "The next item, a row of the owner `a`; after the last, go on at `b`.  The slot is 1 for a list that a 0 ends."
    NEXT = 20
    "Go back to `b`."


class Fault(IntEnum):
    """The reason why reading a block of a byte stream stopped before its end."""

    NONE = 0
    CUT = 1
    TOO_LONG = 2
    UNKNOWN = 3
    NO_END = 4
    BEYOND = 5
    FORM = 6


class FieldUse(IntEnum):
    """Says what is done with a field of a message that has no column."""

    OTHER = -1
    "It is marked."
    IGNORED = -2
    "Nothing."
    LISTED = -3
    "It is listed."


class FieldMark(IntEnum):
    """The bits that mark a message, beside one for each column that it has."""

    REPEATED = 61
    "A field with a column came again."
    OTHER = 62
    "It has other fields."
    DAMAGED = 63
    "It is damaged, and was read up to there."


class TimeFault(IntEnum):
    """Names the faults of the times in a block of a byte stream; a block may have the sum of several."""

    LATE = 1
    "A time does not fit in 63 bits."
    BACK = 2
    "A time is before the one that was read last, or before that of the block."


RULES = ("", "event.cut", "event.varint", "event.unknown", "event.text-end", "event.count", "event.unknown-form")
"""The rule that each fault breaks."""

STEP_FIELDS = 5
"""The numbers of a step."""

MAX_SLOTS = 4
"""The most values that a program can keep for later tests within a record."""

MAX_REGISTERS = 16
"""The most bases and running values of a block."""

MAX_SEARCH = 512
"""The most open spans of a track that are examined for the one that an end closes, the innermost first."""

UNWIND = -2
"""The level of an END that also ends the open spans within its span; a BEGIN has the level around it."""

FITTING = -3
"""The level of a complete span that is left out if it ends after the complete span in which it begins."""

_PREFIXES = {
    "WALK": WalkEnd,
    "PAYLOAD_WALK": PayloadWalkEnd,
    "SPAN": SpanStep,
    "SLICE": SliceState,
    "PLAIN": PlainValue,
    "OP": Op,
    "FAULT": Fault,
    "USE": FieldUse,
    "MARK": FieldMark,
    "TIME": TimeFault,
}


def c_header() -> str:
    """Return the text of `constants.h`."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "/* Generated by fxtio/_native/constants.py; do not edit. */"
    yield "#ifndef FXTIO_CONSTANTS_H"
    yield "#define FXTIO_CONSTANTS_H"
    for prefix, enumeration in _PREFIXES.items():
        yield ""
        yield f"/* {enumeration.__name__} */"
        members = [f"{prefix}_{member.name}={member.value}" for member in enumeration]
        text = f"enum {{ {', '.join(members)}, {prefix}_MEMBERS={len(enumeration)} }};"
        yield from (line.replace("=", " = ") for line in textwrap.wrap(text, 90, subsequent_indent="    "))
    yield ""
    yield f"enum {{ MAX_SEARCH = {MAX_SEARCH}, UNWIND = {UNWIND}, FITTING = {FITTING} }};"
    yield f"enum {{ STEP_FIELDS = {STEP_FIELDS}, MAX_SLOTS = {MAX_SLOTS}, MAX_REGISTERS = {MAX_REGISTERS} }};"
    yield ""
    yield "#endif"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(c_header())
