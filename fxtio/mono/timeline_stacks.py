"""The stacks of samples and allocations as numbers of a timeline, level by level for all rows of a batch."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.mono.state import AddressNames
from fxtio.table import Categories, Column, Optional, Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.stacks import Stacks

REACH = 4096
"""How many bytes a native symbol without a size has at most, as `mprof-report` takes it."""


class CodePlaces:
    """The names of code by its address: of methods that were compiled, and of native functions.

    The profiler writes native symbols without a size; each reaches up to the next one, but not further than `REACH`.

    Args:
        registry: has the names.
        methods: the table `methods` of the whole recording.
        symbols: the table `native_symbols`, likewise.
    """

    def __init__(self, registry: Registry, methods: Table, symbols: Table) -> None:
        self._method = _Ranges(methods["code"], methods["size"], registry.names.codes(methods["name"]))
        size = np.where(symbols["size"] == 0, np.uint64(REACH), symbols["size"])
        self._symbol = _Ranges(symbols["address"], size, registry.names.codes(symbols["name"]))

    def codes(self, addresses: Array) -> tuple[Array, Array]:
        """Return the codes of names (int32), -1 for none, and whether the code is that of a method (bool)."""
        methods = self._method.codes(addresses)
        is_method = methods >= 0
        return np.where(is_method, methods, self._symbol.codes(addresses)), is_method


class _Ranges:
    """Codes of names by ranges of addresses, each of which only reaches up to the begin of the next one."""

    def __init__(self, begin: Array, size: Array, code: Array) -> None:
        order = np.argsort(begin, kind="stable")
        self._begin, self._size, self._code = begin[order], size[order], code[order]

    def codes(self, addresses: Array) -> Array:
        if not len(self._begin):
            return np.full(len(addresses), -1, np.int32)
        row = np.searchsorted(self._begin, addresses, "right") - 1
        place = np.maximum(row, 0)
        is_within = (row >= 0) & (addresses - self._begin[place] < self._size[place])
        return np.where(is_within, self._code[place], np.int32(-1))


class StackColumns:
    """The frames and stacks of a recording.

    Args:
        registry: has the names.
        address_names: the names of methods by address and time.
        places: the names of code by its address; None if there are no samples to convert.
    """

    def __init__(self, registry: Registry, address_names: AddressNames, places: CodePlaces | None) -> None:
        self._address_names = address_names
        self._names = registry.names
        self._places = places
        self._stacks = Stacks(registry)
        self._class_of: dict[int, int] = {-1: -1}

    def new_tables(self) -> dict[str, dict[str, Column]]:
        """Return the rows of the tables `frames` and `stacks` that were added since the last call."""
        return self._stacks.new_tables()

    def classes(self, methods: Array) -> Array:
        """Return the codes of the classes of methods, given by the codes of their names; -1 where there is none."""
        distinct, place = np.unique(methods, return_inverse=True)
        class_of = self._class_of
        for code in distinct.tolist():
            if code not in class_of:
                name, colon, _ = self._names.values[code].partition(":")
                class_of[code] = self._names.code(name) if colon else -1
        return np.array([class_of[code] for code in distinct.tolist()], np.int32)[place]

    def _address_codes(self, addresses: Array) -> Array:
        """Return the codes of the names of methods whose address is all that is known."""
        codes, first = number_distinct(addresses)
        return np.array([self._names.code(f"<{address:x}>") for address in addresses[first].tolist()], np.int32)[codes]

    def of_samples(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each sample (int64), -1 for none.

        The frames are methods, and on top of them the native function that was interrupted, if it was one.  A sample
        without methods has the functions at its addresses.
        """
        samples = tables["samples"]
        frames = tables["sample_frames"]
        methods = self._frames(frames["method_name"], frames["method"])
        stacks = self._of_frames(methods, samples["frames"], innermost_first=True)
        frames = tables["sample_located_frames"]
        names = self._address_names.column(
            self._address_names.methods, frames["method"], samples["time"][frames["sample"]]
        )
        methods = self._frames(names, frames["method"])
        located = self._of_frames(methods, samples["located_frames"], innermost_first=True)
        stacks = np.where(stacks >= 0, stacks, located)
        places, is_method = self._of_addresses(tables["sample_addresses"]["address"])
        counts = samples["addresses"]
        first = np.cumsum(counts) - counts
        native = np.flatnonzero((stacks >= 0) & (counts > 0))
        native = native[~is_method[first[native]]]
        whole = self._of_frames(places, np.where(stacks >= 0, 0, counts), counts, innermost_first=True)
        stacks[native] = self._stacks.each_on(stacks[native], places[first[native]])
        return np.where(stacks >= 0, stacks, whole)

    def _of_addresses(self, addresses: Array) -> tuple[Array, Array]:
        """Return the number of a frame for each address of code (int64), and whether it is in a method (bool)."""
        assert self._places is not None
        names, is_method = self._places.codes(addresses)
        names = self.with_addresses(names, addresses)
        return self._stacks.frames_of_slices(names, np.where(is_method, self.classes(names), np.int32(-1))), is_method

    def of_allocations(self, tables: dict[str, Table]) -> Array:
        """Return the stack of each allocation (int64), -1 for none."""
        frames = tables["allocation_frames"]
        methods = self._frames(frames["method_name"], frames["method"])
        return self._of_frames(methods, tables["allocations"]["backtrace"], innermost_first=False)

    def _of_frames(
        self, frames: Array, counts: Array | Optional, stored: Array | None = None, *, innermost_first: bool
    ) -> Array:
        """Return the stack of each row (int64).

        Args:
            frames: the frames of all rows, one after the other.
            counts: the number of frames of each row that are taken.
            stored: the number of frames of each row, if it is not the same.
            innermost_first: whether the first frame of a row is the innermost one.
        """
        count = counts.values if isinstance(counts, Optional) else counts
        stacks = np.full(len(count), -1, np.int64)
        end = np.cumsum(count if stored is None else stored)
        rows = np.flatnonzero(count)
        level = 0
        while len(rows):
            place = end[rows] - 1 - level if innermost_first else end[rows] - count[rows] + level
            stacks[rows] = self._stacks.each_on(stacks[rows], frames[place])
            level += 1
            rows = rows[count[rows] > level]
        return stacks

    def _frames(self, names_of_methods: Categories, addresses: Array) -> Array:
        """Return the number of the frame of each method (int64)."""
        names = self.with_addresses(self._names.codes(names_of_methods), addresses)
        return self._stacks.frames_of_slices(names, self.classes(names))

    def with_addresses(self, names: Array, addresses: Array) -> Array:
        """Return codes of names, with addresses in place of names that are not known."""
        unknown = np.flatnonzero(names < 0)
        if len(unknown):
            names = names.copy()
            names[unknown] = self._address_codes(addresses[unknown])
        return names
