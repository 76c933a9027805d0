"""Find the file and the line of functions, which the first slice of each function has as arguments.

A trace that says it with the first slice of a function, and not with each of them, costs nothing; so the place belongs
to the name.  The arguments are named as Perfetto names them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline.arguments import ArgumentRows, Arguments
from fxtio.timeline.parts import Names, Registry
from fxtio.timeline.schema import ArgumentKind

FILE, LINE = "source.file_name", "source.line_number"
"""The names of the arguments."""

CODE_FILE, CODE_LINE = "code.file.path", "code.line.number"
"""The names of the attributes of OpenTelemetry that mean the same, where each span may have them."""

CODE_FUNCTION = "code.function.name"
"""The name of the attribute beside them that has the name of the function."""

RECORDED_NAMES = {FILE: "file", LINE: "line"}
"""The parts of a place by the names of arguments of a recording."""

NAMES = RECORDED_NAMES | {CODE_FILE: "file", CODE_LINE: "line"}
"""The parts of a place by the names of arguments of a recording, and of attributes."""

AWAITED = "await "
"""The prefix of the name of a whole call of a coroutine: it is defined where the function is."""


class Place(NamedTuple):
    """The file and the line at which a function is defined.

    Attributes:
        file: the path of the file.
        line: the number of the line.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


PlaceT = TypeVar("PlaceT", Place, str)


class Places:
    """The places of the functions of a reading, by the names of slices.

    A consumer of a timeline calls `enter` at the start of each batch, `note` for its slices, and `leave` at the end.

    Args:
        registry: the registry of the reading.
        names: the names of the arguments to look at, and the part of a place that each has.
    """

    def __init__(self, registry: Registry, names: Mapping[str, str] = NAMES) -> None:
        self._part_of = names
        self._names = registry.names
        self._arguments = Arguments(
            registry, accepts=lambda args: self._are_parts(args["name"].codes, args["type"].codes)
        )
        self._parts: dict[int, dict[str, Any]] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the arguments of a batch."""
        self._arguments.enter(tables)

    def note(self, slices: Table) -> int:
        """Take the slices of a batch, and return how many of their arguments are parts of places."""
        found = self._arguments.of(slices["event"], slices["end_event"])
        values, texts = found.values(self._names.values), self._names.values
        codes = slices["name"].codes[found.row].tolist()
        for code, argument, value in zip(codes, found.name.tolist(), values, strict=True):
            self._parts.setdefault(code, {}).setdefault(self._part_of[texts[argument]], value)
        return len(found)

    def leave(self, tables: Mapping[str, Table]) -> None:
        """Forget the arguments of the batch that no later slice needs."""
        self._arguments.leave(tables)

    def found(self) -> dict[str, Place]:
        """Return the places by the names of functions."""
        texts = self._names.values
        return {
            texts[code]: Place(**parts)
            for code, parts in self._parts.items()
            if code >= 0 and len(parts) == _PLACE_PARTS
        }

    @property
    def loose_parts(self) -> int:
        """The number of files without a line, and of lines without a file."""
        return sum(len(parts) == 1 for parts in self._parts.values())

    def by_name(self) -> dict[str, str]:
        """Return the places by the names of functions as texts, such as `/home/ada/app.py:24`."""
        return {name: str(place) for name, place in self.found().items()}

    def are_parts(self, rows: ArgumentRows) -> Array:
        """Return which arguments are parts of places (bool)."""
        return self._are_parts(rows.name, rows.kind)

    def _are_parts(self, name: Array, kind: Array) -> Array:
        result = np.zeros(len(name), bool)
        for each, part in self._part_of.items():
            result |= (name == self._names.code(each)) & (kind == _KINDS[part])
        return result


_KINDS = {"file": ArgumentKind.TEXT, "line": ArgumentKind.INTEGER}
_PLACE_PARTS = len(_KINDS)


def names_with_places(name: Array, file: Array, names: Names, line: Array | None = None) -> Array:
    """Return the names of functions, with the place where functions of several places have one name.

    A name such as `main (app.py:24)` has the file without its folder, unless that does not tell the functions apart.
    Functions without a file keep their names.

    Args:
        name: the code of the name of each function, -1 for none.
        file: the code of its file, -1 for none.
        names: the names, which the new ones join.
        line: the line at which it is defined, -1 for none; by default only files tell functions apart.

    Returns:
        The codes of the names (int64).
    """
    line = np.full(len(name), -1) if line is None else line
    functions, function = np.unique(np.stack([name, file, line]).astype(np.int64), axis=1, return_inverse=True)
    is_placed = (functions[0] >= 0) & (functions[1] >= 0)
    _, first, count = np.unique(functions[0, is_placed], return_index=True, return_counts=True)
    result = functions[0].copy()
    texts = names.values
    rows = np.flatnonzero(is_placed)
    for start, number in zip(first[count > 1].tolist(), count[count > 1].tolist(), strict=True):
        same = rows[start : start + number].tolist()
        places = [_place_text(texts[functions[1, row]], int(functions[2, row])) for row in same]
        short = [short_place(place) for place in places]
        for row, place in zip(same, short if len(set(short)) == number else places, strict=True):
            result[row] = names.code(f"{texts[functions[0, row]]} ({place})")
    of_each: Array = result[function.reshape(-1)]
    return of_each


def _place_text(file: str, line: int) -> str:
    return f"{file}:{line}" if line >= 0 else file


def place_of(name: str | None, places: Mapping[str, PlaceT]) -> PlaceT | None:
    """Return the place of the function that a slice has the name of, None if it is not known."""
    return None if name is None else places.get(name) or places.get(name.removeprefix(AWAITED))


def short_place(place: str | None) -> str:
    """Return a place without its folder, an empty text for None.  Files such as `__init__.py` keep one folder."""
    if place is None:
        return ""
    folder, _, name = place.rpartition(os.sep)
    return f"{folder.rpartition(os.sep)[2]}{os.sep}{name}" if folder and name.startswith("__") else name
