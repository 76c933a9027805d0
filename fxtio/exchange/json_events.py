"""Splits a JSON file into the items of one long array and the other members of its object, in bounded memory.

Many items at once are decoded by msgspec: the bytes up to a place where one item seems to end and the next to begin.
If that was a place within an item, they do not form an array, and an earlier place is tried.  What msgspec refuses,
such as the number NaN, is decoded item by item with `json`.  Items that are not valid JSON are left out and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from fxtio.io.source import Source

ItemT = TypeVar("ItemT")

BLOCK = 1 << 20
"""The number of bytes that are decoded at once."""

MAX_ITEM = 1 << 24
"""The greatest number of bytes of an item."""

MAX_MEMBER = 1 << 26
"""The greatest number of bytes of another member of the object."""

INVALID = "events that are not valid JSON"
CUT = "objects that the end of the file cuts off"

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]]', re.DOTALL)
_FOLLOWED = re.compile(rb"\s*,\s*\{|\s*\]")
_KEPT = re.compile(rb"[^ \t\r\n,]")
_TRIES = 8
_SCANNED = 1 << 20
_SCANNED_PER_BYTE = 8  # on average, so that no file takes more than linear time
_FIRST_SLICE = 1 << 8
_NEAR_END = 16  # an error so close to the end of a slice may be due to the end


class JsonEvents(Generic[ItemT]):
    """The items of an array, which is the whole file or a member of the object that is the file.

    The array may lack its end, and may have a comma behind its last item.

    Args:
        source: the file.
        member: the name of the array in the object.
        item: the type of the items for msgspec, which must take any object.
        make: makes an item of an object that Python's `json` decoded.
        losses: counts what is not valid.

    Attributes:
        members: the other members of the object, complete when the items have been read.
    """

    def __init__(
        self,
        source: Source,
        member: str,
        item: type[ItemT],
        make: Callable[[dict[str, Any]], ItemT],
        losses: Counter[str],
    ) -> None:
        self.members: dict[str, Any] = {}
        self._source = source
        self._member = member
        self._losses = losses
        self._decoder = msgspec.json.Decoder(list[item])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(item)
        self._make = make
        self._latest = ""
        self._text = json.JSONDecoder()
        self._data = bytearray()
        self._ended = False
        self._left_to_scan = 0  # bytes, see `_resume`

    def __iter__(self) -> Iterator[list[ItemT]]:
        """Yield lists of items, in the order of the file."""
        start = self._next_byte()
        if start == b"\xef":  # a byte order mark
            del self._data[:3]
            start = self._next_byte()
        if start == b"[":
            del self._data[:1]
            yield from self._array()
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
        """Remove spaces and commas from the begin of what is in memory."""
        first = _KEPT.search(self._data)
        del self._data[: first.start() if first else len(self._data)]

    def _object(self) -> Iterator[list[ItemT]]:
        while True:
            start = self._next_byte()
            if start in (b"}", b""):
                self._losses[CUT] += start == b""
                return
            found, name = self._value(MAX_MEMBER)
            if not found or not isinstance(name, str) or self._next_byte() != b":":
                self._losses["members of the file's object that are not valid, and all that follows them"] += 1
                return
            del self._data[:1]
            start = self._next_byte()
            if name == self._member and start == b"[":
                del self._data[:1]
                yield from self._array()
                continue
            found, value = self._value(MAX_MEMBER)
            if not found:
                self._losses["members of the file's object that are not valid, and all that follows them"] += 1
                return
            self.members[name] = value

    def _array(self) -> Iterator[list[ItemT]]:
        while True:
            start = self._next_byte()
            if start in (b"]", b""):
                del self._data[:1]
                return
            items = self._block()
            if items is None:
                items = self._one_by_one()
            if items:
                yield items

    def _block(self) -> list[ItemT] | None:
        """Return the items of the next block, which are removed from it; None if they cannot be decoded together."""
        while len(self._data) < BLOCK and self._read():
            pass
        data, end = self._data, min(len(self._data), 2 * BLOCK)
        for _ in range(_TRIES):
            cut = data.rfind(b"}", 0, end)
            while cut >= 0 and not _BETWEEN.match(data, cut):
                cut = data.rfind(b"}", 0, cut)
            if cut < 0:
                return None
            try:
                items = self._decoder.decode(b"[" + memoryview(data)[: cut + 1] + b"]")
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                end = cut
                continue
            del data[: cut + 1]
            return items
        return None

    def _one_by_one(self) -> list[ItemT]:
        """Return items that were decoded one by one, as many as are in memory; at least one is removed from there."""
        items: list[ItemT] = []
        for _ in range(4096):
            if items:  # these are given away before more is read
                self._skip()
            start = bytes(self._data[:1]) if items else self._next_byte()
            if start in (b"]", b""):
                break
            found, value = self._value(MAX_ITEM)
            if found and isinstance(value, dict):
                items.append(self._item(value))
            elif found:
                self._losses[INVALID] += 1
            elif not self._resume():
                break
        return items

    def _item(self, value: dict[str, Any]) -> ItemT:
        """Return the item that `_value` returned last, decoded by msgspec if possible, which keeps numbers exact."""
        try:
            return self._one.decode(self._latest.encode())
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            return self._make(value)

    def _value(self, limit: int) -> tuple[bool, Any]:
        """Return whether the next value is valid, and the value, which is removed from the data."""
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
                if whole or not is_cut or size >= limit:
                    return False, None
            except (RecursionError, ValueError):
                return False, None
            else:
                if end < len(text) or whole:  # a number may go on behind the slice
                    self._latest = text[:end]
                    del self._data[: len(self._latest.encode("utf-8", "surrogateescape"))]
                    return True, value
            size = min(size * 4, limit)

    def _resume(self) -> bool:
        """Go behind an item that is not valid, to the next one; return whether there is one."""
        limit = min(len(self._data), _SCANNED, self._left_to_scan)
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
