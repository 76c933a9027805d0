"""Splits a JSON file into the items of long arrays and the other members of its object, in bounded memory.

Of the items of an array, only the places of the members that are asked for are noted, many items at once; what stands
there is decoded by those who need it, see `Objects`.  An item that the kernel leaves aside, such as one with the number
NaN, is decoded by itself.  Items that are not valid JSON are left out and counted.  Members of the file's object that
nobody asks for are passed over, of whatever size they are.

Long arrays that are in memory are taken apart few items at a time, too: what is made of a tiny item may be large.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.distinct import hash_texts, number_texts
from fxtio.io.source import Source

BLOCK = 1 << 21
"""The number of bytes that are walked at once."""

MAX_MEMBER = 1 << 24
"""The greatest number of bytes of another member of the object, of which some twenty times as much is made."""

INVALID = "events that are not valid JSON"
UNREADABLE_VALUES = "values of events that cannot be decoded"
NO_OBJECTS = "items that are no objects, or what follows one that is nested too deep"
CUT = "objects that the end of the file cuts off"
INVALID_MEMBER = f"members of the file's object that are not valid, or larger than {MAX_MEMBER:,} bytes"
REST = "members of the file's object that are not valid, and all that follows them"

VALUE = ""
"""Stands for the name of a member where an item itself is meant."""

_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]]', re.DOTALL)
_FOLLOWED = re.compile(rb"\s*,\s*\{|\s*\]")
_KEPT = re.compile(rb"[^ \t\r\n,]")
_ALL = slice(None)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_LONG = 4096  # items
_LARGE = 4 * BLOCK  # bytes of items
_MOST_ITEMS = 1 << 15  # of a walk
_FEW = 16  # items for which a walk does not pay
_SCANNED = 1 << 20
_SCANNED_PER_BYTE = 8  # on average, so that no file takes more than linear time
_FIRST_SLICE = 1 << 8
_NEAR_END = 16  # an error so close to the end of a slice may be due to the end


class JsonEvents:
    """The items of arrays, which are members of the object that is the file; or the file is the first of them.

    An array may lack its end, and may have a comma after its last item.

    Args:
        source: the file.
        arrays: the names of the members of items that are asked for, by the names of the arrays.
        members: the names of the other members that are kept.
        losses: counts what is not valid.

    Attributes:
        members: the other members of the object, complete when the items have been read.
    """

    def __init__(
        self, source: Source, arrays: Mapping[str, Sequence[str]], members: Collection[str], losses: Counter[str]
    ) -> None:
        self.members: dict[str, Any] = {}
        self._source = source
        self._arrays = arrays
        self._names = {name: _encoded(members) for name, members in arrays.items()}
        self._kept = members
        self._losses = losses
        self._latest = ""
        self._text = json.JSONDecoder()
        self._data = bytearray()
        self._ended = False
        self._left_to_scan = 0  # bytes that may be looked at in vain
        self._alone = 1  # the number of items that are decoded by themselves before the next walk, if it finds none
        self._places = _room(max(map(len, arrays.values())), _MOST_ITEMS)

    def __iter__(self) -> Iterator[tuple[str, Objects]]:
        """Yield names of arrays and their items, which are in the order of the file.

        They are many at a time, however short the arrays are, since each time costs those who take them something.
        """
        waiting: dict[str, list[Objects]] = {name: [] for name in self._arrays}
        counts, sizes = Counter[str](), Counter[str]()
        for name, items in self._runs():
            waiting[name].append(items)
            counts[name] += len(items)
            sizes[name] += len(items.data)
            if counts[name] >= _LONG or sizes[name] >= _LARGE:
                yield name, Objects.joined(waiting[name])
                waiting[name], counts[name], sizes[name] = [], 0, 0
        yield from ((name, Objects.joined(runs)) for name, runs in waiting.items() if runs)

    def _runs(self) -> Iterator[tuple[str, Objects]]:
        """Yield names of arrays and items that follow each other."""
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

    def _object(self) -> Iterator[tuple[str, Objects]]:
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

    def _array(self, name: str) -> Iterator[tuple[str, Objects]]:
        members = self._arrays[name]
        while True:
            start = self._next_byte()
            if start in (b"]", b""):
                del self._data[:1]
                return
            items = self._many(members, *self._names[name])
            self._alone = min(2 * self._alone, _LONG) if len(items) < _FEW else 1
            yield name, items if len(items) else self._one_by_one(members, self._alone)

    def _many(self, members: Sequence[str], names: Array, ends: Array) -> Objects:
        """Return the items up to the first that is to be decoded by itself; they are removed from the data."""
        while len(self._data) < BLOCK and self._read():
            pass
        places = self._places[: 1 + len(members)]
        count, end = _native.walk_objects(self._data, names, ends, places)
        data, found = bytes(memoryview(self._data)[:end]), places[1:, :, :count].copy()
        del self._data[:end]
        return Objects(members, data, found)

    def _one_by_one(self, members: Sequence[str], count: int) -> Objects:
        """Return items that were decoded by themselves, as many as are in memory, and not more than a count.

        At least one is removed from there.
        """
        items: list[Mapping[str, bytes]] = []
        for _ in range(count):
            if items:  # these are given away before more is read
                self._skip()
            start = bytes(self._data[:1]) if items else self._next_byte()
            if start in (b"]", b""):
                break
            found, value = self._value(MAX_ITEM, is_item=True)
            if found and isinstance(value, dict):
                items.append(_texts_of(self._latest.encode("utf-8", "surrogateescape"), value))
            elif found:
                self._losses[INVALID] += 1
            elif not self._resume():
                break
        return Objects.of(members, items)

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


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects of a file, of which some members are asked for.

    Attributes:
        members: the names of these members.
        data: has the objects: bytes, or a view of some.
        places: where the value of each member of each object begins and ends; where they are equal, it is missing
            (int32, of shape (members, 2, objects)).
    """

    members: Sequence[str]
    data: bytes
    places: Array

    @classmethod
    def of(cls, members: Sequence[str], objects: Sequence[Mapping[str, bytes]]) -> Objects:
        """Return objects whose members have these texts."""
        texts = [each.get(name, b"") for each in objects for name in members]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        places = np.stack([ends[:-1], ends[1:]], axis=1)
        return cls(members, b"".join(texts), places.reshape(len(objects), len(members), 2).transpose(1, 2, 0))

    @classmethod
    def joined(cls, runs: Sequence[Objects]) -> Objects:
        """Return objects with the same members together."""
        if len(runs) == 1:
            return runs[0]
        offsets = np.cumsum([0, *(len(run.data) for run in runs[:-1])])
        places = [run.places + np.int32(offset) for run, offset in zip(runs, offsets, strict=True)]
        return cls(runs[0].members, b"".join(run.data for run in runs), np.concatenate(places, axis=2))

    def __len__(self) -> int:
        return int(self.places.shape[2])

    def take(self, rows: Array) -> Objects:
        """Return some objects."""
        return Objects(self.members, self.data, self.places[:, :, rows])

    def _places(self, *members: str) -> tuple[Array, Array]:
        """Return where the values of some members begin and end, member by member."""
        places = [self.places[self.members.index(member)] for member in members]
        return np.concatenate([begin for begin, _ in places]), np.concatenate([end for _, end in places])

    def given(self, member: str) -> bool:
        """Return whether any object has a member."""
        return bool(self.places[self.members.index(member), 1].any())

    def text(self, member: str, row: int) -> bytes:
        """Return the text of a member of an object, nothing if it is missing."""
        return next(self.texts(member, np.array([row])))

    def texts(self, member: str, rows: Array | slice = _ALL) -> Iterator[bytes]:
        """Return the texts of a member of some objects, in turn."""
        begin, end = self.places[self.members.index(member)][:, rows].tolist()
        return (self.data[first:last] for first, last in zip(begin, end, strict=True))

    def decimals(self, member: str, digits: int) -> Array:
        """Return the numbers of a member, see `fxtio._native.python_json.read_decimals`."""
        out = np.empty(len(self), np.int64)
        _native.read_decimals(self.data, *self._places(member), digits, out)
        return out

    def ids(self, members: Sequence[str]) -> Array:
        """Return a number for each string that is one of some members, see `hash_texts`; 0 for what is empty or none.

        Returns:
            The numbers, as uint64 of shape (members, objects).
        """
        begin, end = self._places(*members)
        ids = np.zeros(len(begin), np.uint64)
        rows = self._beginning(begin, end, b'"')
        rows = rows[end[rows] - begin[rows] > 2]
        ids[rows] = hash_texts(self.data, begin[rows], end[rows])
        for row in self._with_escapes(begin, end, rows):  # which are the same as without
            plain = f'"{value_of(self.data[begin[row] : end[row]])}"'.encode("utf-8", "surrogatepass")
            ids[row] = hash_texts(plain, np.array([0], np.int32), np.array([len(plain)], np.int32))[0]
        return ids.reshape(len(members), -1)

    def _with_escapes(self, begin: Array, end: Array, rows: Array) -> list[int]:
        """Return the rows whose texts have a backslash."""
        escapes = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\\"))
        if not len(escapes):
            return []
        result: list[int] = rows[np.searchsorted(escapes, begin[rows]) < np.searchsorted(escapes, end[rows])].tolist()
        return result

    def within(self, member: str, members: Sequence[str], losses: Counter[str]) -> Iterator[tuple[Objects, Array]]:
        """Yield the objects in the arrays that are a member, see `objects_in`, and the row of each (int64)."""
        begin, end = self._places(member)
        rows, done = self._beginning(begin, end, b"["), 0
        begin, end = begin[rows], end[rows]
        names = _encoded(members)
        while done < len(rows):
            places, owner = _room(len(members), _MOST_ITEMS), np.empty(_MOST_ITEMS, np.int64)
            arrays, count = _native.walk_arrays(self.data, begin[done:], end[done:], *names, places, owner)
            if not arrays:  # one with other items, or very many
                break
            if count:
                yield Objects(members, self.data, places[1:, :, :count]), rows[done:][owner[:count]]
            done += arrays
        left = zip(begin[done:].tolist(), end[done:].tolist(), strict=True)
        for objects, at in objects_in_each([self.data[first + 1 : last - 1] for first, last in left], members, losses):
            yield objects, rows[done:][at]

    def _beginning(self, begin: Array, end: Array, first: bytes) -> Array:
        """Return which texts begin with a byte."""
        rows = np.flatnonzero(end > begin)
        is_first = np.frombuffer(self.data, np.uint8)[begin[rows]] == first[0]
        result: Array = rows[is_first]
        return result

    def distinct(
        self, members: Sequence[str], losses: Counter[str], make: Callable[[Any], Any] = lambda value: value
    ) -> tuple[list[Any], list[Array]]:
        """Decode the distinct values of some members.

        Args:
            members: the members.
            losses: counts what cannot be decoded.
            make: returns what is to be kept of a value.

        Returns:
            What is kept of the distinct values, which are None for what is missing or cannot be decoded; and for each
            member a column of their numbers (int32).
        """
        begin, end = self._places(*members)
        codes, first = number_texts(self.data, begin, end)
        values, failed = [], []
        for number, row in enumerate(first.tolist()):
            value = None
            try:
                value = value_of(self.data[begin[row] : end[row]])
            except (RecursionError, ValueError):
                failed.append(number)
            values.append(make(value))
        if failed:
            losses[UNREADABLE_VALUES] += int(np.bincount(codes)[failed].sum())
        return values, list(codes.reshape(len(members), -1))


def _encoded(members: Sequence[str]) -> tuple[Array, Array]:
    """Return names of members as `fxtio._native.python_json.walk_objects` takes them, and where each ends."""
    names = [name.encode() for name in members]
    return np.frombuffer(b"".join(names), np.uint8), np.cumsum([*map(len, names)], dtype=np.int64)


def _room(members: int, items: int) -> Array:
    """Return room for the places of items and of their members, see `fxtio._native.python_json.walk_objects`."""
    return np.empty((1 + members, 2, items), np.int32)


def _texts_of(text: bytes, value: Mapping[str, Any]) -> Mapping[str, bytes]:
    """Return the name of each member of an object, and its value as a JSON text.

    Args:
        text: the object.
        value: likewise, as Python's `json` has decoded it.
    """
    found = _members_of(text)
    return {name: json.dumps(each).encode() for name, each in value.items()} if found is None else found


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
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def value_of(text: bytes) -> Any:
    """Return a JSON value, None for an empty text.

    Raises:
        ValueError, RecursionError: it cannot be decoded: a number is too long, or it is nested too deep.
    """
    if not text:
        return None
    try:
        return _ANY.decode(text)
    except UNREADABLE:
        return json.loads(bytes(text).decode("utf-8", "surrogateescape"))


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
_ITEM = re.compile(rb"[^ \t\r\n,\]]")


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


def is_array(text: bytes | msgspec.Raw) -> bool:
    """Return whether JSON is an array."""
    return bytes(memoryview(text)[:1]) == b"["


def objects_in(array: bytes | msgspec.Raw, members: Sequence[str], losses: Counter[str]) -> Iterator[Objects]:
    """Yield the objects in an array, many at a time; without members any values, each as its member `VALUE`.

    Args:
        array: valid JSON; what is no array has no items.
        members: the names of the members that are asked for.
        losses: counts other items, and those that are nested too deep, with what follows them.
    """
    view = memoryview(array)
    return (objects for objects, _ in _walks(view[is_array(array) or len(view) :], members, losses))


def objects_in_each(
    arrays: Sequence[bytes | memoryview], members: Sequence[str], losses: Counter[str]
) -> Iterator[tuple[Objects, Array]]:
    """Yield the objects in arrays, whose brackets are left out, and for each the number of its array (int64)."""
    ends = np.cumsum([*map(len, arrays)]) + np.arange(1, len(arrays) + 1)
    for objects, begin in _walks(memoryview(b",".join([*arrays, b"]"])), members, losses):
        yield objects, np.searchsorted(ends, begin, "right")


def _walks(data: memoryview, members: Sequence[str], losses: Counter[str]) -> Iterator[tuple[Objects, Array]]:
    """Yield the objects in the rest of an array, or any values if no members are asked for, and where each begins."""
    at, size, alone, names = 0, BLOCK, 1, _encoded(members)
    while rest := _ITEM.search(data, at):
        at = rest.start()
        piece = data[at : at + size]
        objects, begin, end = _walk(piece, members, names, _MOST_ITEMS)
        alone = min(2 * alone, _LONG) if len(objects) < _FEW else 1
        if not len(objects):
            values, begin, end = _walk(piece, (), _encoded(()), alone)
            if not len(values) and at + size < len(data):  # an item that is longer
                size = len(data)
                continue
            found = [*map(_members_of, values.texts(VALUE))]
            kept = [row for row, each in enumerate(found) if each is not None]
            losses[NO_OBJECTS] += max(len(found) - len(kept), not found)
            objects, begin = Objects.of(members, [found[row] or {} for row in kept]), begin[kept]
        if len(objects):
            yield objects, begin + at
        at, size = at + (end or len(data)), BLOCK


def _walk(
    data: memoryview, members: Sequence[str], names: tuple[Array, Array], most: int
) -> tuple[Objects, Array, int]:
    """Return the objects at the start of data, or any values, up to `most`; where each begins, and the last ends."""
    places = _room(len(members), most)
    count, end = _native.walk_objects(data, *names, places)
    found = places[:, :, :count]
    view = cast(bytes, data[:end])  # a view does as well
    return Objects(members or [VALUE], view, found[bool(members) :]), found[0, 0], end


def _members_of(text: bytes) -> Mapping[str, bytes] | None:
    """Return the texts of the members of an object, None for another value."""
    try:
        return {name: bytes(raw) for name, raw in _MEMBERS.decode(text).items()}
    except UNREADABLE:
        return None


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
        start = _ITEM.search(piece)
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
