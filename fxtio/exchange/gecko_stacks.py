"""The stacks of profiles of the Firefox Profiler: frames are texts in the raw form, and functions in the other."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.exchange.gecko_tables import UNREADABLE_TABLE, GeckoTable
from fxtio.exchange.json_columns import EMPTY, NOTHING, ROWS, at_each
from fxtio.exchange.json_events import UNREADABLE, items
from fxtio.timeline.parts import MAX_NAMES, Registry
from fxtio.timeline.stacks import MAX_FRAMES, Stacks

_HAS_ADDRESS, _HAS_LINE, _HAS_RESOURCE, _HAS_SOURCE = 2, 16, 4, 8
"""The bits of `flags`, which frames have since version 71, and functions since 75: columns that say something."""

_LIBRARY_TYPE = 1
"""The type of a resource that is a library."""

_ADDRESS = re.compile(r"0x([0-9a-fA-F]{1,16})")
_PLACE = re.compile(r"(.+) \((.+?):(\d{1,9})(?::\d{1,9})?\)", re.DOTALL)
_IN_LIBRARY = re.compile(r"(.+) \(in ([^()]+)\)(?: \+ \d+)?", re.DOTALL)


class SharedTables(msgspec.Struct):
    """The tables that say what stacks are: those of a thread, or since version 60 of all threads."""

    stringArray: msgspec.Raw = NOTHING  # noqa: N815
    stringTable: msgspec.Raw = NOTHING  # noqa: N815
    sources: msgspec.Raw = NOTHING
    stackTable: msgspec.Raw = NOTHING  # noqa: N815
    frameTable: msgspec.Raw = NOTHING  # noqa: N815
    funcTable: msgspec.Raw = NOTHING  # noqa: N815
    resourceTable: msgspec.Raw = NOTHING  # noqa: N815


class Libraries(Protocol):
    """The libraries of a profile: their names, and which one has an address."""

    libraries: list[str | None]

    def library_at(self, address: int) -> str | None:
        """Return the name of the library that has an address, None if none does."""


class GeckoStacks:
    """Numbers the stacks of a profile.

    Args:
        registry: the registry of the reading.
    """

    def __init__(self, registry: Registry) -> None:
        self._losses = registry.losses
        self._stacks = Stacks(registry)
        self.new_tables = self._stacks.new_tables

    def strings(self, tables: SharedTables) -> list[str]:
        """Return the strings of a thread, or of a profile."""
        strings: list[str] = []
        try:
            each = items(tables.stringArray or tables.stringTable or EMPTY, Any)
            strings.extend(text if isinstance(text, str) else "" for text in islice(each, MAX_NAMES))
        except UNREADABLE:
            self._losses[UNREADABLE_TABLE] += 1
        return strings

    def numbers(self, tables: SharedTables, strings: Sequence[str], libraries: Libraries) -> Array:
        """Return the number of each stack of a thread, or of a profile (int32)."""
        frames = np.fromiter(self._frames(tables, strings, libraries), np.int32)
        table = self._table(tables.stackTable)
        frame, prefix, offset = table.integers("frame", "prefix", "prefixOffset")
        has_offset = table.has("prefixOffset")  # since version 66: how many rows the outer stack is before, 0 for none
        result = array("i")
        for rows in _pieces(len(frame)):
            row = np.arange(rows.start, rows.start + len(frame[rows]))
            outer = np.where(offset[rows] > 0, row - offset[rows], -1) if has_offset else prefix[rows]
            is_wrong = (outer >= row) | (outer < -1)
            inner = at_each(frames, frame[rows])
            self._losses["outer stacks that are not before the stack, which is cut"] += int(is_wrong.sum())
            self._losses["stacks of frames that are not defined"] += int((inner < 0).sum())
            for around, own in zip(np.where(is_wrong, -1, outer).tolist(), inner.tolist(), strict=True):
                number = result[around] if around >= 0 else -1
                result.append(self._stacks.on(number, own) if own >= 0 else number)
        return np.array(result, np.int32)

    def _table(self, raw: msgspec.Raw) -> GeckoTable:
        return GeckoTable(raw, self._losses)

    def _frames(self, tables: SharedTables, strings: Sequence[str], libraries: Libraries) -> Iterator[int]:
        """Yield the number of each frame."""
        table = self._table(tables.frameTable)
        names = ("location", "func", "line", "address", "lib", "flags", "category")
        columns = table.integers(*names, limit=MAX_FRAMES)
        functions = None if table.has("location") else _Functions(tables, self._losses)
        for rows in _pieces(len(columns[0])):
            location, func, line, address, lib, flags, category = (column[rows] for column in columns)
            self._losses["categories of frames"] += int((category >= 0).sum())
            line = np.where(flags & _HAS_LINE, line, -1)  # where there are no flags they are -1, which has all bits
            if functions is None:
                for text, number in zip(_texts(location, strings), line.tolist(), strict=True):
                    yield self._frame_of(text or "", number, libraries)
                continue
            name, file, first, module, library = functions.at(func)
            address, lib = (np.where(flags & _HAS_ADDRESS, each, -1) for each in (address, lib))
            lib = np.where(lib >= 0, lib, library)  # since version 70, frames have it themselves
            values = (
                _texts(name, strings), _texts(lib, libraries.libraries), _texts(module, strings), _texts(file, strings),
                np.where(line >= 0, line, first).tolist(), np.maximum(address, 0).tolist(),
            )  # fmt: skip
            for text, own, other, path, number, code in zip(*values, strict=True):
                yield self._stacks.frame(text or None, own or other or None, path or None, number, code)

    def _frame_of(self, text: str, line: int, libraries: Libraries) -> int:
        """Return the frame of a text such as `0x7f00`, `name (file:line:column)`, `name (in library)` or `name`."""
        if match := _ADDRESS.fullmatch(text):
            address = int(match[1], 16)
            return self._stacks.frame(None, libraries.library_at(address), line=line, address=address)
        if match := _PLACE.fullmatch(text):
            return self._stacks.frame(match[1], file=match[2], line=line if line >= 0 else int(match[3]))
        if match := _IN_LIBRARY.fullmatch(text):
            return self._stacks.frame(match[1], match[2], line=line)
        return self._stacks.frame(text, line=line)


class _Functions:
    """The functions of frames."""

    def __init__(self, tables: SharedTables, losses: Counter[str]) -> None:
        self._functions = GeckoTable(tables.funcTable, losses).integers(
            "name", "resource", "source", "fileName", "lineNumber", "flags", limit=MAX_FRAMES
        )
        (self._paths,) = GeckoTable(tables.sources, losses).integers("filename", limit=MAX_FRAMES)
        self._resources = GeckoTable(tables.resourceTable, losses).integers("lib", "name", "type", limit=MAX_FRAMES)

    def at(self, func: Array) -> tuple[Array, ...]:
        """Return name, file, line, resource, library of functions, as numbers of strings or libraries, -1 for none."""
        name, resource, source, file, line, flags = (at_each(column, func) for column in self._functions)
        # A function has `fileName`, a number of a string, up to version 57, and since then one of a source.
        file = np.where(source >= 0, at_each(self._paths, source), file)
        resource = np.where(flags & _HAS_RESOURCE, resource, -1)
        library, title, kind = (at_each(column, resource) for column in self._resources)
        file, line = np.where(flags & _HAS_SOURCE, file, -1), np.where(flags & _HAS_LINE, line, -1)
        return name, file, line, np.where(kind == _LIBRARY_TYPE, title, -1), library


def _pieces(count: int) -> Iterator[slice]:
    """Yield ranges of rows, of which there are few at a time."""
    return (slice(begin, begin + ROWS) for begin in range(0, count, ROWS))


def _texts(column: Array, texts: Sequence[str | None]) -> Iterator[str | None]:
    """Yield the texts of numbers, None for a number that has none."""
    count = len(texts)
    return (texts[number] if 0 <= number < count else None for number in column.tolist())


def text_or_none(value: Any) -> str | None:
    """Return a value of JSON if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None
