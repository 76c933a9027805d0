"""Find the file and the line of functions, which the first slice of each function has as arguments.

A trace that says it with the first slice of a function, and not with each of them, costs nothing; so the place belongs
to the name.  The arguments are named as Perfetto names them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fxtio.table import Table
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind

Array = np.ndarray[Any, Any]

FILE, LINE = "source.file_name", "source.line_number"
"""The names of the arguments."""

AWAITED = "await "
"""The prefix of the name of a whole call of a coroutine: it is defined where the function is."""


class Places:
    """The places of the functions of a reading, by the names of slices.

    A consumer of a timeline calls `enter` at the begin of each batch, `note` for its slices, and `leave` at the end.

    Args:
        registry: the registry of the reading.
    """

    def __init__(self, registry: Registry) -> None:
        self._names = registry.names
        self._arguments = Arguments(registry, accepts=self._is_asked_for)
        self._parts: dict[int, dict[str, str]] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the arguments of a batch."""
        self._arguments.enter(tables)

    def note(self, slices: Table) -> None:
        """Take the slices of a batch."""
        found = self._arguments.of(slices["event"], slices["end_event"])
        values, texts = found.values(self._names.values), self._names.values
        codes = slices["name"].codes[found.row].tolist()
        for code, argument, value in zip(codes, found.name.tolist(), values, strict=True):
            self._parts.setdefault(code, {}).setdefault(texts[argument], str(value))

    def leave(self, tables: Mapping[str, Table]) -> None:
        """Forget the arguments of the batch that no later slice needs."""
        self._arguments.leave(tables)

    def by_name(self) -> dict[str, str]:
        """Return the places by the names of functions, such as `/home/ada/app.py:24`."""
        texts = self._names.values
        return {
            texts[code]: f"{parts[FILE]}:{parts[LINE]}"
            for code, parts in self._parts.items()
            if code >= 0 and FILE in parts and LINE in parts
        }

    def _is_asked_for(self, args: Table) -> Array:
        name, kind = args["name"].codes, args["type"].codes
        is_file = (name == self._names.code(FILE)) & (kind == ArgumentKind.TEXT)
        result: Array = is_file | ((name == self._names.code(LINE)) & (kind == ArgumentKind.INTEGER))
        return result


def place_of(name: str | None, places: Mapping[str, str]) -> str | None:
    """Return the place of the function that a slice has the name of, None if it is not known."""
    return None if name is None else places.get(name) or places.get(name.removeprefix(AWAITED))


def short_place(place: str | None) -> str:
    """Return a place without its folder, an empty text for None.  Files such as `__init__.py` keep one folder."""
    if place is None:
        return ""
    folder, _, name = place.rpartition(os.sep)
    return f"{folder.rpartition(os.sep)[2]}{os.sep}{name}" if folder and name.startswith("__") else name
