"""What the kernels for byte streams can do: the operations of a program, and the faults that they tell.

`events.c` and its twin `events.py` know these numbers; programs are made of them in `fxtio.codec.stream_program`.
"""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """An operation.  A step is the operation, two operands `a` and `b`, a column (-1 for none), and a slot."""

    END = 0
    "The record is over."
    CONST = 1
    "Write the byte `a`; a reader has read it."
    BEGIN = 2
    "The record is of the kind `a`; its place goes to the column.  What is read begins at `b`."
    SUBTYPE = 3
    "Read a byte, go on where the table at `a` of the jumps says."
    CLOCK = 4
    "An unsigned number, added to the register `a`."
    NOW = 5
    "The register `a`, without reading."
    PUT = 6
    "The number `a`, without reading."
    BYTE = 7
    "A byte."
    ULEB = 8
    "An unsigned number."
    SLEB = 9
    "A signed number; an address if `a`."
    RELATIVE = 10
    "A signed number, added to the register `a`, times 2 to the power of `b`; an address."
    RUNNING = 11
    "A signed number, added to the register `a`, which keeps the sum; an address."
    SUMMED = 12
    "An unsigned number, added to the one before it in the same list."
    DOUBLE = 13
    "Eight bytes."
    TEXT = 14
    "Bytes up to a zero byte: their place, and their length in the next column; after a byte that is 1 if `a`."
    UNLESS = 15
    "Go on at `b` unless the slot holds `a`."
    JUMP = 16
    "Go on at `b`."
    FAIL = 17
    "Nobody knows the form of the value."
    COUNT = 18
    "The number of items; if `a`, it is not written, and an item that begins with 0 ends the list."
    LOOP = 19
    "The next item, a row of the owner `a`, or on at `b` behind the last; the slot is 1 for a list that 0 ends."
    NEXT = 20
    "Back to `b`."


class Fault(IntEnum):
    """Why a block was left."""

    NONE = 0
    CUT = 1
    TOO_LONG = 2
    UNKNOWN = 3
    NO_END = 4
    BEYOND = 5
    FORM = 6


RULES = ("", "event-cut", "varint-too-long", "unknown-event", "text-without-end", "count-beyond-end", "unknown-form")
"""The rule that each fault breaks."""
