"""What addresses mean: classes, vtables, methods, images, threads, domains by name, as of a time.

Metadata may come behind its use in the file, and addresses are used again.  An address means what was last defined for
it up to the time in question, or else what is defined for it first.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio import _native
from fxtio.table import Categories

if TYPE_CHECKING:
    from fxtio.table import Table

Array = np.ndarray[Any, Any]

SOURCES = ("classes", "images", "assemblies", "domains", "threads", "vtables", "methods")
"""The tables that names come from."""


class Lookup:
    """Codes for addresses, as of a time.

    Args:
        address: what is defined (uint64).
        time: when (int64).
        code: what it means (int32).
    """

    def __init__(self, address: Array, time: Array, code: Array) -> None:
        order = np.lexsort((time, address))
        self._address, self._time, self._code = address[order], time[order], code[order]
        self._distinct, self._first, self._count = np.unique(self._address, return_index=True, return_counts=True)

    def codes(self, address: Array, time: Array) -> Array:
        """What addresses mean at times (int32); -1 for one that is never defined."""
        if not len(self._distinct) or not len(address):
            return np.full(len(address), -1, np.int32)
        numbers, first = _numbered(np.ascontiguousarray(address))
        asked = address[first]
        place = np.searchsorted(self._distinct, asked)
        place[place == len(self._distinct)] = 0
        known = self._distinct[place] == asked
        code = np.where(known, self._code[self._first[place]], -1).astype(np.int32)
        found: Array = np.asarray(code[numbers])
        several = known & (self._count[place] > 1)
        if several.any():
            rows = np.flatnonzero(several[numbers])
            begin = self._first[place][numbers[rows]]
            end = begin + self._count[place][numbers[rows]]
            found[rows] = self._code[_last_before(self._time, begin, end, time[rows])]
        return found


def _numbered(values: Array) -> tuple[Array, Array]:
    """The number of each value among the distinct ones (int32), and the first row of each of those."""
    codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
    count = _native.distinct(values.astype(np.uint64, copy=False), codes, first, secrets.randbits(63))
    return codes, first[:count]


def _last_before(times: Array, begin: Array, end: Array, wanted: Array) -> Array:
    """The last place in each range whose time is not later than wanted, or the first of the range."""
    low, high = begin.copy(), end.copy()
    while (low < high).any():  # a binary search in all ranges at once
        middle = (low + high) // 2
        open_ = low < high
        early = open_ & (times[np.minimum(middle, len(times) - 1)] <= wanted)
        low = np.where(early, middle + 1, low)
        high = np.where(open_ & ~early, middle, high)
    found: Array = np.maximum(low - 1, begin)
    return found


class Names:
    """The names of a recording.

    Args:
        tables: the tables `SOURCES`.
    """

    def __init__(self, tables: dict[str, Table]) -> None:
        self._tables = tables
        classes, methods, vtables = tables["classes"], tables["methods"], tables["vtables"]
        self.classes = Lookup(classes["pointer"], classes["time"], classes["name"].codes)
        self.methods = Lookup(methods["method"], methods["time"], methods["name"].codes)
        behind = self.classes.codes(vtables["class_pointer"], vtables["time"])
        self.vtables = Lookup(vtables["pointer"], vtables["time"], behind)
        self.images = self._of("images", "pointer")
        self.threads = self._of("threads", "id")
        self.domains = self._of("domains", "id")

    def _of(self, table: str, key: str) -> Lookup:
        found = self._tables[table]
        rows = np.flatnonzero(found["name"].codes >= 0)
        return Lookup(found[key][rows], found["time"][rows], found["name"].codes[rows])

    @property
    def values(self) -> list[str]:
        """The texts that all codes mean."""
        values: list[str] = self._tables["classes"]["name"].values
        return values

    def column(self, lookup: Lookup, address: Array, time: Array) -> Categories:
        """The names of addresses at times."""
        return Categories(lookup.codes(address, time), self.values)

    def one(self, lookup: Lookup, address: int, time: int | None = None) -> str | None:
        """The name of one address, as of a time in nanoseconds (the latest unless told)."""
        when = np.array([np.iinfo(np.int64).max if time is None else time], np.int64)
        return self.column(lookup, np.array([address], np.uint64), when)[0]

    def class_name(self, address: int, time: int | None = None) -> str | None:
        """The name of a class."""
        return self.one(self.classes, address, time)

    def vtable_name(self, address: int, time: int | None = None) -> str | None:
        """The name of a vtable's class."""
        return self.one(self.vtables, address, time)

    def method_name(self, address: int, time: int | None = None) -> str | None:
        """The full name of a method, with signature."""
        return self.one(self.methods, address, time)

    def thread_name(self, thread: int, time: int | None = None) -> str | None:
        """The name of a thread."""
        return self.one(self.threads, thread, time)
