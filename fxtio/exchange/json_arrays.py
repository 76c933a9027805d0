"""Takes long JSON arrays in memory apart, few items at a time: what is made of a tiny item may be large."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

ItemT = TypeVar("ItemT")

MAX_ITEM = 1 << 24
"""The greatest number of bytes of an item."""

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""The errors of msgspec for what is not valid."""

_PIECE = 1 << 18
_TRIES = 8


def _all_of(*alternatives: bytes) -> bytes:
    """Return a pattern of as many of these as follow each other, which never gives any of them back.

    The last alternative fails at once: before CPython 3.11.5 (gh-106052), matching went on where an alternative had
    failed, and not where it had begun.
    """
    return rb"(?:%b|(?!))*+" % b"|".join(alternatives)


_PLAIN = rb'[^"{}\[\]]++', rb'"(?:[^"\\]++|\\.)*+"'
_TO_BRACKET = re.compile(
    # What has no brackets within it is skipped at once.
    _all_of(*_PLAIN, rb"\{%b\}" % _all_of(*_PLAIN), rb"\[%b\]" % _all_of(*_PLAIN)) + rb"([{}\[\]\"]?)",
    re.DOTALL,
)
_BORDERS = {
    b"{": re.compile(rb"(.*\})\s*,\s*(?=\{)", re.DOTALL),
    b"[": re.compile(rb"(.*\])\s*,\s*(?=\[)", re.DOTALL),
}
_BORDER = re.compile(rb"(.*),", re.DOTALL)
_OPENING = ord("[")
_START = re.compile(rb"[^\s,]")


def next_bracket(data: bytearray | memoryview, position: int, depth: int) -> tuple[int, int, bytes]:
    """Go on within a value, behind its first bracket.

    Returns:
        The position behind the next bracket that matters, the number of brackets that are open there, and the bracket;
        a quote if the data ends within a string, nothing if it ends elsewhere.
    """
    match = _TO_BRACKET.match(data, position)
    if match is None:  # it always matches
        return len(data), depth, b""
    mark = bytes(match[1])
    return match.end(), depth + (mark in (b"{", b"[")) - (mark in (b"}", b"]")), mark


def objects(array: msgspec.Raw) -> Iterator[memoryview | None]:
    """Yield the text of each object in an array; None for another item, or for what is no array, with which it ends."""
    data, position = memoryview(array), 1
    while (start := _START.search(data, position)) is not None and start[0] != b"]":
        if start[0] != b"{" or data[0] != _OPENING:
            yield None
            return
        position, depth = start.end(), 1
        while depth:
            position, depth, _ = next_bracket(data, position, depth)
        yield data[start.start() : position]


def items(array: msgspec.Raw, item: type[ItemT]) -> Iterator[ItemT]:
    """Yield the items of an array.

    Args:
        array: the array.
        item: their type: a structure, a list of numbers, or a number.

    Raises:
        msgspec.MsgspecError: it is no array of such items, or one is too long; those before it were yielded.
        RecursionError, UnicodeError: the same.
    """
    decoder: msgspec.json.Decoder[list[ItemT]] = msgspec.json.Decoder(list[item])  # type: ignore[valid-type]
    data, begin, size = memoryview(array), 1, _PIECE
    while data[0] == _OPENING and begin + size < len(data):
        piece = bytes(data[begin : begin + size])
        start = _START.search(piece)
        border = _BORDERS.get(start[0] if start else b"", _BORDER)
        last = border.match(piece)
        if last is None and size < MAX_ITEM:
            size *= 4
            continue
        decoded, skipped = _decoded(decoder, piece, border, last)
        yield from decoded
        begin += skipped
        size = _PIECE
    yield from decoder.decode(b"[" + data[begin:] if begin > 1 else data)


def _decoded(
    decoder: msgspec.json.Decoder[list[ItemT]], piece: bytes, border: re.Pattern[bytes], last: re.Match[bytes] | None
) -> tuple[list[ItemT], int]:
    """Return the items before the last border that is one between items, and where those behind it begin."""
    error: Exception = msgspec.DecodeError("an item is too long")
    for _ in range(_TRIES):
        if last is None:
            break
        try:
            return decoder.decode(b"[" + last[1] + b"]"), last.end()
        except UNREADABLE as reason:  # perhaps a border within a string
            error = reason
        last = border.match(piece, 0, last.end(1))
    raise error
