"""Damaged records and traces, as hypothesis strategies: valid ones with bits, words and sizes changed."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Record, TaggedUnion
from fxtio.testing import strategies

from .fxt_samples import union_of

WORDS = st.sampled_from([0, 1, 0x10, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


def resized(data: bytes, order: Order, union: TaggedUnion) -> bytes:
    """Return the bytes with their real size in the header."""
    first = int.from_bytes(data[:8], order)
    field = union.sizes[union.type_of(first)]
    first = first & ~(field.mask << field.lo) | int(field.put(min(len(data) // 8, field.mask)))
    return first.to_bytes(8, order) + data[8:]


def retagged(data: bytes, order: Order, cls: type[Record]) -> bytes:
    """Return the bytes with the tags of a class in the header."""
    mask, value = cls.words[0].pattern("tag")
    first: int = int.from_bytes(data[:8], order) & ~mask | value
    return first.to_bytes(8, order) + data[8:]


@cache
@st.composite
def damaged(draw: st.DrawFn, cls: type[Record], order: Order = "little") -> bytes:
    """Generate a record of the class with changes in its words, or with words more or less; tags and size are right."""
    data = bytearray(encode(draw(strategies.records(cls, order=order)), order))
    for change in draw(st.lists(st.sampled_from(["bit", "header", "word", "cut", "more"]), min_size=1, max_size=4)):
        at = draw(st.integers(0, len(data) // 8 - 1)) * 8
        if change in {"bit", "header"}:
            bit = draw(st.integers(0, 63)) + (0 if change == "header" else at * 8)
            data[bit // 8] ^= 1 << bit % 8
        elif change == "word":
            data[at : at + 8] = draw(WORDS).to_bytes(8, order)
        elif change == "cut":
            del data[max(at, 8) :]
        else:
            data += b"".join([word.to_bytes(8, order) for word in draw(st.lists(WORDS, min_size=1, max_size=4))])
    union = union_of(cls)
    result = resized(retagged(bytes(data), order, cls), order, union)
    assume(union.classes[union.kind_of(int.from_bytes(result[:8], order))] is cls)  # the magic number is trace info too
    return result


@cache
@st.composite
def damaged_traces(draw: st.DrawFn, order: Order = "little", *, framed: bool = False) -> bytes:
    """Generate a trace in which some records are damaged, some bytes overwritten, and the end may be missing.

    Args:
        draw: given by hypothesis.
        order: the byte order.
        framed: damage nothing but what is inside of records; their sizes and types stay right.
    """
    pieces: list[bytes] = []
    for record in draw(strategies.traces(order=order, most=10)):
        raw = encode(record, order)
        if isinstance(record, Record) and pieces and draw(st.integers(0, 3)) == 0:
            raw = draw(damaged(type(record), order))
        pieces.append(raw)
    data = bytearray(b"".join(pieces))
    if framed:
        return bytes(data)
    for junk in draw(st.lists(st.binary(min_size=1, max_size=24), max_size=2)):
        at = draw(st.integers(8, len(data)))
        data[at : at + len(junk)] = junk
    stop = draw(st.none() | st.integers(0, len(data)))
    return bytes(data[:stop])


def arbitrary(order: Order = "little") -> st.SearchStrategy[bytes]:
    """Return the magic number and any bytes after it, often such as look like headers."""
    head = encode_magic(order)
    header = st.builds(lambda kind, size, rest: kind + size * 16 + rest * 65536, SMALL, st.integers(0, 6), SMALL48)
    words = st.lists(header | WORDS, max_size=20)
    return st.one_of(
        st.binary(max_size=120).map(lambda junk: head + junk),
        words.map(lambda values: head + b"".join([value.to_bytes(8, order) for value in values])),
        st.binary(max_size=80),
    )


def encode_magic(order: Order) -> bytes:
    from fxtio.fxt.records import Magic

    return encode(Magic(), order)


SMALL: st.SearchStrategy[Any] = st.integers(0, 15)
SMALL48 = st.integers(0, 2**48 - 1) | st.integers(0, 255)
