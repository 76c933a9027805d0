"""Every bit of a header that the specification does not leave to the producer is watched: a change of it is found.

The bits come from the declarations: those of sizes, lengths, counts, references, constants, reserved bits, and values
without a name.  A record with all its parts is in a sound trace; one bit after the other is flipped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from fxtio.codec.generate import Order, encode
from fxtio.codec.parts import Many, Number, Sized, Stream, Words
from fxtio.codec.record import SIZE, Record, layout_of
from fxtio.codec.word import Field
from fxtio.fxt import FxtTrace
from fxtio.fxt.records import RECORDS, StringArgument, StringReference, Thread, ThreadReference
from fxtio.fxt.rules import check
from support.broken.fxt import FOLLOWING, preamble
from support.fxt_samples import for_orders

TEXT = "eight by"
"""A text that fills its word, so that no other length is right."""

ARGUMENT = StringArgument(TEXT, TEXT)


def value_of(part: Any) -> Any:
    """Return a value for a part of a record."""
    if isinstance(part, Many):
        return (ARGUMENT,)
    if isinstance(part, StringReference):
        return TEXT
    if isinstance(part, ThreadReference):
        return Thread(1, None) if part.process_only else Thread(1, 2)
    if isinstance(part, Words):
        return (1, 2)
    if isinstance(part, Stream | Sized):
        return TEXT if getattr(part, "text", False) else TEXT.encode()
    if isinstance(part, Number):
        return None if part.optional else 50
    return next((one.value for one in part.field.meaning or () if one >= part.field.least), max(1, part.field.least))


def whole(cls: type[Record]) -> Record:
    """Return a record with all of its parts."""
    return cls(**{name: value_of(part) for name, part in layout_of(cls).parts})


@cache
def rules_with(record: bytes, order: Order) -> frozenset[str]:
    """Return the rules that a trace with a record breaks."""
    parts = (part if isinstance(part, bytes) else encode(part, order) for part in preamble())
    following = b"".join(encode(part, order) for part in FOLLOWING if isinstance(part, Record))
    trace = FxtTrace(b"".join(parts) + record + following)
    check(trace)
    return frozenset(trace.findings.counts)


def is_watched(cls: type[Record], field: Field, bit: int, word: int) -> bool:
    """Return whether the specification forbids to flip a bit of a field in a record."""
    if field.role in ("reserved", "const") or field.name == SIZE:
        return True
    if field.role != "bits":
        return False  # another type of record
    if any(field.name in part.owns for _, part in layout_of(cls).parts):
        return True
    if field.meaning:
        named = {one.value for one in field.meaning}
        return field.get(word) in named and field.get(word ^ 1 << bit) not in named
    return False


def flips() -> list[Any]:
    return [
        pytest.param(cls, number, field, id=f"{cls.__name__}-{field.name}")
        for cls in RECORDS.classes
        for number, word in enumerate(cls.words)
        for field in word.fields.values()
    ]


@pytest.mark.full
@for_orders
@pytest.mark.parametrize(("cls", "number", "field"), flips())
def test_each_change_that_is_forbidden_is_found(cls: type[Record], number: int, field: Field, order: Order) -> None:
    right = encode(whole(cls), order)
    sound = rules_with(right, order)
    word = int.from_bytes(right[number * 8 : number * 8 + 8], order)
    for bit in range(field.lo, field.hi + 1):
        if is_watched(cls, field, bit, word):
            wrong = right[: number * 8] + (word ^ 1 << bit).to_bytes(8, order) + right[number * 8 + 8 :]
            assert rules_with(wrong, order) - sound, f"bit {bit}"


def test_each_change_of_an_argument_is_found() -> None:
    right = encode(whole(RECORDS.classes[8]))
    at = right.index(encode(ARGUMENT)[:8])
    sound = rules_with(right, "little")
    for bit in (*range(4, 64),):  # bits 0 to 3 are the type
        wrong = bytearray(right)
        wrong[at + bit // 8] ^= 1 << bit % 8
        assert rules_with(bytes(wrong), "little") - sound, f"bit {bit}"
