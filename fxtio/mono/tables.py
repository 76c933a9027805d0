"""Tables put together from batches, and the columns that follow from others: names, and which row a list is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fxtio.mono.batch import Batch, nothing
from fxtio.mono.catalog import LISTS, TABLES, Texts, columns_of, owners_of
from fxtio.mono.derived import DERIVED
from fxtio.mono.names import Lookup, Names
from fxtio.table import Categories, Column, Derived, Growing, Table

Array = np.ndarray[Any, Any]
Known = Callable[[], Names]
"""Gives the names of the recording when they are asked for."""

TABLE_NAMES = (*TABLES, *LISTS, *DERIVED)
"""All tables."""

_METHODS = frozenset({"calls", "clauses", *(name for name, (_, _, plain) in LISTS.items() if plain == "method")})
_TYPED = frozenset({"allocations", "heap_objects"})


class Collector:
    """Puts the tables of many batches together.

    Args:
        names: which tables.

    Raises:
        KeyError: there is no such table.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        unknown = [name for name in names if name not in TABLE_NAMES]
        if unknown:
            raise KeyError(f"no table {unknown[0]!r}; there are {', '.join(TABLE_NAMES)}")
        stored = [source for name in names for source in (DERIVED[name][0] if name in DERIVED else (name,))]
        stored += [LISTS[name][0] for name in stored if name in LISTS]  # a list's times are those of its events
        self._stored = list(dict.fromkeys(stored))
        self._columns: dict[str, dict[str, Growing]] = {name: {} for name in self._stored}
        self._texts = Texts()
        self._first: dict[str, dict[str, Column]] | None = None  # the only piece needs no copy
        self._pieces = 0

    def add(self, batch: Batch, share: float = 0.0) -> None:
        """Take in the next batch.

        Args:
            batch: the batch.
            share: how much of the whole the batches so far are (0 to 1, 0 unknown): a guess saves growing.
        """
        batch.fill(owners_of(batch, self._stored))
        piece = {name: columns_of(batch, name, self._texts) for name in self._stored}
        if self._pieces == 0:
            self._first = piece
        else:
            if self._first is not None:
                self._grow(self._first, 0.0)
                self._first = None
            self._grow(piece, share)
        self._pieces += 1

    def _grow(self, piece: dict[str, dict[str, Column]], share: float) -> None:
        for name, columns in piece.items():
            for column, values in columns.items():
                self._columns[name].setdefault(column, Growing()).append(values, share)

    def tables(self, names: tuple[str, ...], known: Known) -> dict[str, Table]:
        """Some of the tables.

        Args:
            names: which.
            known: gives the names of the recording.
        """
        if self._pieces == 0:  # the columns are there all the same
            self.add(nothing())
        whole = self._first or {
            name: {column: growing.column() for column, growing in columns.items()}
            for name, columns in self._columns.items()
        }
        stored = {name: _finish(name, columns, whole, known) for name, columns in whole.items()}
        return {
            name: DERIVED[name][1](stored, known) if name in DERIVED else stored[name] for name in dict.fromkeys(names)
        }


def _finish(name: str, columns: dict[str, Column], whole: dict[str, dict[str, Column]], known: Known) -> Table:
    """The table with the columns that are computed when they are asked for."""
    made: dict[str, Column | Derived] = dict(columns)
    if name in LISTS:
        counts: Any = made.pop("counts")
        times: Any = whole[LISTS[name][0]]["time"]
        made = {"event": Derived(lambda: np.repeat(np.arange(len(counts)), counts)), **made}

        def time() -> Array:
            return np.repeat(times, counts)
    else:
        writers: Any = made.pop("writers")
        rows: Any = made.pop("rows")

        def thread() -> Array:
            return np.repeat(writers, rows)

        def time() -> Array:
            found: Array = whole[name]["time"]  # type: ignore[assignment]
            return found

        made = {"offset": made.pop("offset"), "time": made.pop("time"), "thread": Derived(thread), **made}
        made["thread_name"] = Derived(lambda: _named(known, "threads", thread(), time()))
    if name in _METHODS:
        method: Any = columns["method"]
        made["method_name"] = Derived(lambda: _named(known, "methods", method, time()))
    if name in _TYPED:
        vtable: Any = columns["vtable"]
        pointer: Any = columns["class_pointer"]
        made["class_name"] = Derived(lambda: _class(known, vtable, pointer, time()))
    return Table(made)


def _named(known: Known, kind: str, address: Array, time: Array) -> Categories:
    names = known()
    lookup: Lookup = getattr(names, kind)
    return names.column(lookup, address, time)


def _class(known: Known, vtable: Any, pointer: Any, time: Array) -> Categories:
    """The class of objects, by vtable or, before data version 15, by itself."""
    names = known()
    codes = names.vtables.codes(vtable.values, time)
    old = np.flatnonzero(pointer.present)
    codes[old] = names.classes.codes(pointer.values[old], time[old])
    return Categories(codes, names.values)
