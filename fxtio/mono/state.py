"""The names of addresses: classes, vtables, methods and threads by name, as of a time.

Metadata may come after its use in the file, and addresses are used again.  So an address means what the last
definition up to a time says, or what the first definition says if all of them are later.
"""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.references import Lookup
from fxtio.table import Categories, Table

NAME_TABLES = ("classes", "threads", "vtables", "methods")
"""The tables that define names."""


class AddressNames:
    """The names of a recording's addresses.

    Args:
        tables: the tables `NAME_TABLES`.
    """

    def __init__(self, tables: dict[str, Table]) -> None:
        self._tables = tables
        classes, methods, vtables = tables["classes"], tables["methods"], tables["vtables"]
        self.classes = Lookup(classes["pointer"], classes["time"], classes["name"].codes)
        self.methods = Lookup(methods["method"], methods["time"], methods["name"].codes)
        class_codes = self.classes.codes(vtables["class_pointer"], vtables["time"])
        self.vtables = Lookup(vtables["pointer"], vtables["time"], class_codes)
        threads = tables["threads"]
        named = np.flatnonzero(threads["name"].codes >= 0)
        self.threads = Lookup(threads["id"][named], threads["time"][named], threads["name"].codes[named])

    @property
    def values(self) -> list[str]:
        """The names that all codes refer to."""
        values: list[str] = self._tables["classes"]["name"].values
        return values

    def column(self, lookup: Lookup, address: Array, time: Array) -> Categories:
        """Return the names of addresses at times."""
        return Categories(lookup.codes(address, time), self.values)

    def class_name(self, address: int, time: int | None = None) -> str | None:
        """Return the name of a class at a time in nanoseconds (the last one by default), or None."""
        return self._name(self.classes, address, time)

    def vtable_name(self, address: int, time: int | None = None) -> str | None:
        """Return the name of a vtable's class, likewise."""
        return self._name(self.vtables, address, time)

    def method_name(self, address: int, time: int | None = None) -> str | None:
        """Return the full name of a method with its signature, likewise."""
        return self._name(self.methods, address, time)

    def thread_name(self, thread: int, time: int | None = None) -> str | None:
        """Return the name of a thread, likewise."""
        return self._name(self.threads, thread, time)

    def _name(self, lookup: Lookup, address: int, time: int | None) -> str | None:
        when = np.array([np.iinfo(np.int64).max if time is None else time], np.int64)
        return self.column(lookup, np.array([address], np.uint64), when)[0]
