"""Splits a JSON file into the items of long arrays and the other members of its object, in bounded memory.

Many items at once are decoded by msgspec: the bytes up to a place where one item seems to end and the next to begin.
If that was a place within an item, they do not form an array, and an earlier place is tried.  What msgspec refuses,
such as the number NaN, is decoded item by item with `json`.  Items that are not valid JSON are left out and counted.
Members that nobody asks for are passed over, of whatever size they are.

Long arrays that are in memory are taken apart few items at a time, too: what is made of a tiny item may be large.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from fxtio.io.source import Source

BLOCK = 1 << 20
"""The number of bytes that are decoded at once."""

MAX_MEMBER = 1 << 24
"""The greatest number of bytes of another member of the object, of which some twenty times as much is made."""

INVALID = "events that are not valid JSON"
CUT = "objects that the end of the file cuts off"
INVALID_MEMBER = f"members of the file's object that are not valid, or larger than {MAX_MEMBER:,} bytes"
REST = "members of the file's object that are not valid, and all that follows them"

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]]', re.DOTALL)
_FOLLOWED = re.compile(rb"\s*,\s*\{|\s*\]")
_KEPT = re.compile(rb"[^ \t\r\n,]")
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_LONG = 4096  # items
_LEAST_BLOCK = 1 << 10
_SCANNED = 1 << 20
_SCANNED_PER_BYTE = 8  # on average, so that no file takes more than linear time
_FIRST_SLICE = 1 << 8
_NEAR_END = 16  # an error so close to the end of a slice may be due to the end


class JsonEvents:
    """The items of arrays, which are members of the object that is the file; or the file is the first of them.

    An array may lack its end, and may have a comma after its last item.

    Args:
        source: the file.
        arrays: the types of the items by the names of their arrays, which must take any object.
        members: the names of the other members that are kept.
        losses: counts what is not valid.

    Attributes:
        members: the other members of the object, complete when the items have been read.
    """

    def __init__(
        self, source: Source, arrays: Mapping[str, type[msgspec.Struct]], members: Collection[str], losses: Counter[str]
    ) -> None:
        self.members: dict[str, Any] = {}
        self._source = source
        self._arrays = {name: _Items(item) for name, item in arrays.items()}
        self._kept = members
        self._losses = losses
        self._latest = ""
        self._text = json.JSONDecoder()
        self._data = bytearray()
        self._ended = False
        self._left_to_scan = 0  # bytes that may be looked at in vain
        self._block_size = 2 * BLOCK  # as many bytes are tried at once

    def __iter__(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield names of arrays and lists of their items, which are in the order of the file.

        Lists are long, however short the arrays are, since each costs those who take them something.
        """
        waiting: dict[str, list[Any]] = {name: [] for name in self._arrays}
        for name, items in self._lists():
            waiting[name] += items
            if len(waiting[name]) >= _LONG:
                yield name, waiting[name]
                waiting[name] = []
        yield from waiting.items()

    def _lists(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield names of arrays and lists of items."""
        start = self._next_byte()
        if start == b"\xef":  # a byte order mark
            del self._data[:3]
            start = self._next_byte()
        if start == b"[":
            del self._data[:1]
            yield from self._array(next(iter(self._arrays)))
        elif start == b"{":
            del self._data[:1]
            yield from self._object()
        elif start:
            self._losses["files that are neither a JSON array nor an object"] += 1

    def _read(self, count: int = BLOCK) -> bool:
        """Append bytes of the file; return whether there were any."""
        if self._ended:
            return False
        block = bytearray(count)
        filled = self._source.readinto(memoryview(block))
        self._data += block[:filled]
        self._left_to_scan += filled * _SCANNED_PER_BYTE
        self._ended = filled < count
        if self._ended and self._source.fault is not None:
            self._losses[self._source.fault] += 1
        return filled > 0

    def _next_byte(self) -> bytes:
        """Skip spaces and commas, and return the next byte, none at the end of the file."""
        while True:
            self._skip()
            if self._data:
                return bytes(self._data[:1])
            if not self._read():
                return b""

    def _skip(self) -> None:
        """Remove spaces and commas from the start of what is in memory."""
        first = _KEPT.search(self._data)
        del self._data[: first.start() if first else len(self._data)]

    def _object(self) -> Iterator[tuple[str, list[Any]]]:
        while True:
            start = self._next_byte()
            if start in (b"}", b""):
                self._losses[CUT] += start == b""
                return
            found, name = self._value(MAX_MEMBER)
            if not found or not isinstance(name, str) or self._next_byte() != b":":
                self._losses[REST] += 1
                return
            del self._data[:1]
            start = self._next_byte()
            if name in self._arrays and start == b"[":
                del self._data[:1]
                yield from self._array(name)
                continue
            is_long = start in (b"{", b"[", b'"')
            if name in self._kept or not is_long:
                found, value = self._value(MAX_MEMBER)
                if found:
                    self.members[name] = value
                    continue
                self._losses[INVALID_MEMBER] += is_long
            if not (is_long and self._pass_over(start)):
                self._losses[REST] += 1
                return

    def _pass_over(self, start: bytes) -> bool:
        """Remove the next value, which begins with this byte; return whether its end was found."""
        data, depth, position = self._data, 1, 0
        del data[:1]
        if start == b'"':
            return self._pass_over_string()
        while True:
            position, depth, mark = next_bracket(data, position, depth)
            if not depth:
                del data[:position]
                return True
            if mark in (b"", b'"'):  # all that is in memory ends here, perhaps within a string
                del data[:position]
                position = 0
                if not (self._pass_over_string() if mark else self._read()):
                    return False

    def _pass_over_string(self) -> bool:
        """Remove the rest of a string; return whether its end was found."""
        while True:
            match = _IN_STRING.match(self._data)
            del self._data[: match.end() if match else 0]
            if self._data[:1] == b'"':
                del self._data[:1]
                return True
            if not self._read():
                return False

    def _array(self, name: str) -> Iterator[tuple[str, list[Any]]]:
        kind = self._arrays[name]
        while True:
            start = self._next_byte()
            if start in (b"]", b""):
                del self._data[:1]
                return
            items = self._block(kind)
            if items is None:
                items = self._one_by_one(kind)
            if items:
                yield name, items

    def _block(self, kind: _Items) -> list[Any] | None:
        """Return the items of the next block, which are removed from it; None if they cannot be decoded together.

        Half of a block that cannot be decoded is tried next.  A block is at most twice as long as what was decoded
        before it, so all attempts together take linear time, also where arrays are short.
        """
        while len(self._data) < BLOCK and self._read():
            pass
        size, border = min(self._block_size, len(self._data)), _BORDERS[b"{"]
        while True:
            piece = bytes(self._data[:size])
            try:
                items, end = _decoded(kind.many, piece, border, border.match(piece))
            except UNREADABLE:
                if size <= _LEAST_BLOCK:
                    return None
                size //= 2
                continue
            del self._data[:end]
            self._block_size = min(2 * size, 2 * BLOCK)
            return items

    def _one_by_one(self, kind: _Items) -> list[Any]:
        """Return items that were decoded one by one, as many as are in memory; at least one is removed from there."""
        items: list[Any] = []
        before = self._source.position - len(self._data)
        for _ in range(_LONG):
            if items:  # these are given away before more is read
                self._skip()
            start = bytes(self._data[:1]) if items else self._next_byte()
            if start in (b"]", b""):
                break
            found, value = self._value(MAX_ITEM, is_item=True)
            if found and isinstance(value, dict):
                items.append(self._item(kind, value))
            elif found:
                self._losses[INVALID] += 1
            elif not self._resume():
                break
        done = self._source.position - len(self._data) - before
        self._block_size = min(max(2 * done, _LEAST_BLOCK), 2 * BLOCK)
        return items

    def _item(self, kind: _Items, value: dict[str, Any]) -> Any:
        """Return the item that `_value` returned last, decoded by msgspec if possible, which keeps numbers exact."""
        try:
            return kind.one.decode(self._latest.encode())
        except UNREADABLE:
            return kind.made(value)

    def _value(self, limit: int, *, is_item: bool = False) -> tuple[bool, Any]:
        """Return whether the next value is valid, and the value, which is removed from the data.

        Args:
            limit: the most bytes of a value.
            is_item: it may be one of very many, so that there is a limit for all that are looked at in vain as well.
        """
        size = _FIRST_SLICE
        while True:
            while len(self._data) < size and self._read():
                pass
            whole = self._ended and len(self._data) <= size
            text = self._data[:size].decode("utf-8", "surrogateescape")
            try:
                value, end = self._text.raw_decode(text)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(text) - _NEAR_END
                most = max(min(limit, self._left_to_scan), _FIRST_SLICE) if is_item else limit
                if whole or not is_cut or size >= most:
                    self._left_to_scan -= size
                    return False, None
            except (RecursionError, ValueError):
                self._left_to_scan -= size
                return False, None
            else:
                if end < len(text) or whole:  # a number may go on after the slice
                    self._latest = text[:end]
                    del self._data[: len(self._latest.encode("utf-8", "surrogateescape"))]
                    return True, value
            size = min(size * 4, limit)

    def _resume(self) -> bool:
        """Go past an item that is not valid, to the next one; return whether there is one."""
        limit = max(min(len(self._data), _SCANNED, self._left_to_scan), 0)
        end, scanned = _balanced_end(self._data, limit)
        self._left_to_scan -= scanned
        if end:
            self._losses[INVALID] += 1
            del self._data[:end]
            return True
        while True:
            found = _BETWEEN.search(self._data)
            if found:
                self._losses[INVALID] += 1
                del self._data[: found.end() - 1]
                return True
            del self._data[: max(len(self._data) - _NEAR_END, 0)]
            if not self._read():
                self._losses[CUT] += 1
                self._data.clear()
                return False


class _Items:
    """The items of an array: the decoders of `many` and of `one`.

    Args:
        item: their type.
    """

    def __init__(self, item: type[msgspec.Struct]) -> None:
        self._item = item
        self.many: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[item])  # type: ignore[valid-type]
        self.one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(item)

    def made(self, members: Mapping[str, Any]) -> msgspec.Struct:
        """Return an item of an object that Python's `json` decoded."""
        return self._item(**{name: members[name] for name in self._item.__struct_fields__ if name in members})


def _balanced_end(data: bytearray, limit: int) -> tuple[int, int]:
    """Return the end of an item with as many closing brackets as opening ones, if another follows it; else 0.

    Args:
        data: the item, and what follows it.
        limit: the most bytes to look at.

    Returns:
        The end, and the number of bytes that were looked at.
    """
    depth = 0
    for token in _TOKEN.finditer(data, 0, limit):
        bracket = token[0]
        depth += bracket in (b"{", b"[")
        depth -= bracket in (b"}", b"]")
        if depth <= 0 and bracket in (b"}", b"]"):
            return token.end() if _FOLLOWED.match(data, token.end()) else 0, token.end()
    return 0, limit


ItemT = TypeVar("ItemT")

MAX_ITEM = 1 << 24
"""The greatest number of bytes of an item."""

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""The errors of msgspec for what is not valid."""

_ANY = msgspec.json.Decoder()


def value_of(value: Any) -> Any:
    """Return a JSON value that msgspec has left as it is; any other value is returned as it is, None for an empty one.

    Raises:
        ValueError, RecursionError: it cannot be decoded.  Where msgspec leaves a value as it is, it checks neither the
            encoding of texts, nor the size of numbers, nor how deep the value is nested.
    """
    if not isinstance(value, msgspec.Raw):
        return value
    if not value:
        return None
    try:
        return _ANY.decode(value)
    except UNREADABLE:
        return json.loads(bytes(value).decode("utf-8", "surrogateescape"))


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
    """Go on within a value, after its first bracket.

    Returns:
        The position after the next bracket that matters, the number of brackets that are open there, and the bracket;
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
    """Return the items before the last border that is one between items, and where those after it begin."""
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
