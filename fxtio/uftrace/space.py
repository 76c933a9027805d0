"""Address spaces: which function an address is in, as of a moment of a session.

A space is made of the symbols of all modules that are loaded then.  What a function's payloads hold is found out when
the first one is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.uftrace import arguments
from fxtio.uftrace.argspec import Specs, Values
from fxtio.uftrace.debug import DebugFile
from fxtio.uftrace.demangle import simple_name
from fxtio.uftrace.maps import Module
from fxtio.uftrace.symbols import Symbol

Array = np.ndarray[Any, Any]

_EVENT_PROGRAM = (arguments.STRING, 0)  # at index 0: the data of an event is like a string
_UNTOLD = -1


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a traced program.

    Attributes:
        name: without parameters, demangled where that is possible.
        symbol: its symbol.
        module: the path of its module.
        address: where it begins in memory.
        source: its source file, where debug information tells it, or empty.
        line: its line there, or None.
    """

    name: str
    symbol: Symbol
    module: str
    address: int
    source: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The symbols of one module in memory: where they begin and end (uint64, ascending), and what they are."""

    module: Module
    begin: Array
    end: Array
    symbols: Sequence[Symbol]
    debug: DebugFile | None


def _arranged(parts: Sequence[Part]) -> tuple[Array, Array, Array]:
    """All symbols in the order of addresses: begin, end (uint64), and which symbol of which part (int64, two each)."""
    begins, ends, owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [np.empty((0, 2), np.int64)]
    first, last = np.empty(0, np.uint64), np.empty(0, np.uint64)  # how far the parts until now reach
    for number, part in enumerate(parts):
        if not len(part.begin):
            continue
        row = np.searchsorted(first, part.begin, "right") - 1
        free = (row < 0) | (part.begin >= np.append(last, np.uint64(0))[row])
        rows = np.flatnonzero(free)
        begins.append(part.begin[rows])
        ends.append(part.end[rows])
        owners.append(np.stack([np.full(len(rows), number), rows], axis=1))
        first, last = _joined(np.append(first, part.begin[0]), np.append(last, part.end.max()))
    begin, end, owner = np.concatenate(begins), np.concatenate(ends), np.concatenate(owners)
    order = np.argsort(begin, kind="stable")
    begin, end, owner = begin[order], end[order], owner[order]
    end[:-1] = np.minimum(end[:-1], begin[1:])
    kept = np.flatnonzero(end > begin)
    return begin[kept], end[kept], owner[kept]


def _joined(first: Array, last: Array) -> tuple[Array, Array]:
    """Ranges in order, those that touch made one."""
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    new = np.append(True, first[1:] > last[:-1])
    return first[new], last[np.append(np.flatnonzero(new)[1:] - 1, len(last) - 1)]


class Space:
    """All functions that can be told apart at a moment.

    Args:
        parts: the modules; where the symbols of one reach, those of later ones do not count.
        specs: what payloads hold.

    Attributes:
        begin: where the functions begin (uint64, ascending, none overlaps another).
        end: where they end (uint64).
        programs: for the kernel: for each function, where the programs of its entries and its exits begin in `code`,
            or -1 (int32).
        code: the programs (int32).
    """

    def __init__(self, parts: Sequence[Part], specs: Specs) -> None:
        self._parts = parts
        self._specs = specs
        self.begin, self.end, self._owner = _arranged(parts)
        self._functions: dict[int, Function] = {}
        self._values: dict[int, tuple[Values, Values]] = {}
        self._places: dict[tuple[int, ...], int] = {_EVENT_PROGRAM: 0}
        self.code = np.array(_EVENT_PROGRAM, np.int32)
        self.programs = np.full(2 * len(self.begin), _UNTOLD, np.int32)

    def __len__(self) -> int:
        return len(self.begin)

    def index(self, address: int) -> int:
        """The number of the function that the address is in, or -1."""
        row = int(np.searchsorted(self.begin, np.uint64(address), "right")) - 1
        return row if row >= 0 and address < int(self.end[row]) else -1

    def indices(self, addresses: Array) -> Array:
        """The same for many addresses (uint64), as int64."""
        if not len(self.begin):
            return np.full(len(addresses), -1, np.int64)
        rows = np.searchsorted(self.begin, addresses, "right") - 1
        return np.where((rows >= 0) & (addresses < self.end[np.maximum(rows, 0)]), rows, -1)

    def function(self, index: int) -> Function:
        """The function of this number."""
        known = self._functions.get(index)
        if known is None:
            part, symbol = self._found(index)
            told = part.debug.functions.get(symbol.address) if part.debug is not None else None
            source, line = (told.source, told.line) if told is not None else ("", None)
            name = simple_name(symbol.name)
            known = Function(name, symbol, part.module.path, int(self.begin[index]), source, line)
            self._functions[index] = known
        return known

    def at(self, address: int) -> Function | None:
        """The function that the address is in."""
        index = self.index(address)
        return None if index < 0 else self.function(index)

    def name(self, address: int) -> str:
        """The name of the function that the address is in, else the address in angle brackets."""
        known = self.at(address)
        return f"<{address:x}>" if known is None else known.name

    def values(self, index: int) -> tuple[Values, Values]:
        """What the payloads of a function's entries and exits hold."""
        known = self._values.get(index)
        if known is None:
            part, symbol = self._found(index)
            known = self._values[index] = self._specs.of(symbol, part.module.path, part.debug)
            for leave, values in enumerate(known):
                if values:
                    self.programs[2 * index + leave] = self._place(arguments.program(values))
        return known

    def values_at(self, address: int, *, leave: bool) -> Values:
        """What a payload of an entry (or exit) at this address holds; none where nothing tells."""
        index = self.index(address)
        return () if index < 0 else self.values(index)[leave]

    def learn(self, address: int, *, leave: bool) -> bool:
        """Find out what this payload holds, so that the kernel knows; False where nothing tells, or it knew."""
        index = self.index(address)
        if index < 0 or index in self._values:
            return False
        return bool(self.values(index)[leave])

    def enum(self, index: int, name: str) -> dict[int, str]:
        """The names of an enumeration's values, as the function's module knows it."""
        part, _ = self._found(index)
        return self._specs.enum(name, part.debug)

    def _found(self, index: int) -> tuple[Part, Symbol]:
        number, row = self._owner[index].tolist()
        part = self._parts[number]
        return part, part.symbols[row]

    def _place(self, program: tuple[int, ...]) -> int:
        if program not in self._places:
            self._places[program] = len(self.code)
            self.code = np.append(self.code, np.array(program, np.int32))
        return self._places[program]
