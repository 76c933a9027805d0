"""Numbers that refer to something: what defines and uses them, what they mean as of a time, what came before.

Everything here takes columns, batch by batch.  What it remembers is bounded, as a trace may be hostile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.finding import Findings

MOST_NUMBERS = 1 << 22
"""The most numbers that a set of `Numbers` takes by default."""

MOST_UNDEFINED = 1 << 16
"""The most numbers without a definition that `References` remembers by default."""

Placed = tuple[Array, Array]
"""Numbers, and the byte offset of the record of each."""


class Numbers:
    """A set of numbers (uint64) that grows, up to a limit.

    Args:
        most: the limit; by default `MOST_NUMBERS`.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_NUMBERS if most is None else most
        self._values: Array = np.empty(0, np.uint64)  # ascending

    @property
    def is_full(self) -> bool:
        """Whether numbers may have been left out."""
        return len(self._values) >= self._most

    def add(self, values: Array) -> None:
        """Add numbers."""
        if len(values) and not self.is_full:
            new = np.sort(values[number_distinct(values)[1]])
            place, is_there = self._places(new)
            self._values = np.insert(self._values, place[~is_there], new[~is_there])[: self._most]

    def remove(self, values: Array) -> None:
        """Remove numbers."""
        place, is_there = self._places(values)
        if is_there.any():
            self._values = np.delete(self._values, place[is_there])

    def has(self, values: Array) -> Array:
        """Return which numbers are in the set (bool); all, if it is full."""
        return np.ones(len(values), bool) if self.is_full else self._places(values)[1]

    def _places(self, values: Array) -> tuple[Array, Array]:
        """Return where numbers are or would be among those of the set, which ascend, and which are there (bool)."""
        place = np.searchsorted(self._values, values)
        is_there = place < len(self._values)
        is_there[is_there] = self._values[place[is_there]] == values[is_there]
        return place, is_there


class Kind(NamedTuple):
    """What numbers of a kind refer to.

    Attributes:
        name: what it is, for messages.
        definitions: the fields that define a number, as the format gives them.
        uses: the fields that refer to it.
        undefined: the rule that is broken by a use without a definition anywhere.
        late: the rule that is broken by a use before the definition; empty if this is allowed.
        ignored: numbers that refer to nothing.
        text: the message about a number without a definition, with a place for it; empty for the usual one.
    """

    name: str
    definitions: tuple[Any, ...]
    uses: tuple[Any, ...]
    undefined: str
    late: str = ""
    ignored: tuple[int, ...] = ()
    text: str = ""


class References:
    """Checks that what is used is defined, for some kinds of numbers.

    Args:
        kinds: the kinds.
        findings: receives the faults.
        most_defined: the most definitions of a kind that are remembered; further numbers are taken as defined.
        most_undefined: the most uses without a definition that are remembered; further ones are not reported.
    """

    def __init__(
        self, kinds: Iterable[Kind], findings: Findings, most_defined: int | None = None,
        most_undefined: int | None = None,
    ) -> None:  # fmt: skip
        self._findings = findings
        self._most_undefined = MOST_UNDEFINED if most_undefined is None else most_undefined
        # For each kind, what is defined, and the first uses of what is not.
        self._kinds = [(kind, Numbers(most_defined), dict[int, int]()) for kind in kinds]

    @property
    def is_full(self) -> bool:
        """Whether definitions of a kind may have been left out."""
        return any(defined.is_full for _, defined, _ in self._kinds)

    def add(self, read: Callable[[Any], Placed | None]) -> None:
        """Check the next batch.

        Args:
            read: returns the numbers of one of the fields in the order of the trace, None if there are none.
        """
        for kind, defined, undefined in self._kinds:
            used, use_offsets = _first_of_each(map(read, kind.uses))
            new, definition_offsets = _first_of_each(map(read, kind.definitions))
            if len(used):
                is_early = ~(defined.has(used) | np.isin(used, np.array(kind.ignored, np.uint64)))
                if len(new):
                    place = np.minimum(np.searchsorted(new, used), len(new) - 1)
                    is_early &= (new[place] != used) | (definition_offsets[place] > use_offsets)
                is_early &= ~np.isin(used, np.array([*undefined], np.uint64))
                room = max(self._most_undefined - len(undefined), 0)
                first = (column[is_early][:room].tolist() for column in (used, use_offsets))
                undefined.update(zip(*first, strict=True))
            if len(new) and undefined:
                for number in np.intersect1d(new, np.array([*undefined], np.uint64)).tolist():
                    offset = undefined.pop(number)
                    if kind.late:
                        self._findings.add(kind.late, offset, f"{kind.name} {number:#x} is used before it is defined")
            defined.add(new)

    def finish(self) -> None:
        """Report the numbers that have no definition."""
        for kind, _, undefined in self._kinds:
            text = kind.text or f"{kind.name} {{:#x}} is never defined"
            for number, offset in sorted(undefined.items(), key=itemgetter(1)):
                self._findings.add(kind.undefined, offset, text.format(number))


def _first_of_each(parts: Iterable[Placed | None]) -> Placed:
    """Return the distinct numbers (uint64, ascending), and the first byte offset (int64) of each."""
    found = []
    for part in parts:
        if part is not None and len(part[0]):
            first = number_distinct(part[0])[1]  # of each field alone, so that there is little left to sort
            found.append((part[0][first], part[1][first]))
    if not found:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    numbers, offsets = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(offsets, kind="stable")
    distinct, first = np.unique(numbers[order].astype(np.uint64, copy=False), return_index=True)
    return distinct, offsets[order][first]


class LastOfEach:
    """The last value of each key so far.

    Args:
        most: the most keys; further ones are not remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: dict[int, int] = {}

    def before(self, keys: Array, values: Array, missing: int) -> Array:
        """Return the value of the row before each row that has the same key, and remember the last ones.

        Args:
            keys: the keys.
            values: the values.
            missing: stands for the value before the first one.
        """
        order = np.argsort(keys, kind="stable")
        ordered, result = values[order], np.full(len(keys), missing, values.dtype)
        # The rows of a key are together, from `begins` to before the next of `begins`.
        begins = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0)[: len(keys)])
        result[order[1:]] = ordered[:-1]
        distinct = keys[order][begins].tolist()
        result[order[begins]] = [self._last.get(key, missing) for key in distinct]
        ends = np.append(begins[1:], len(keys))[: len(begins)] - 1
        for key, value in zip(distinct, ordered[ends].tolist(), strict=True):
            if key in self._last or len(self._last) < self._most:
                self._last[key] = value
        return result


class Lookup:
    """Codes for numbers, as of a time.

    Args:
        number: the numbers that are defined (uint64).
        time: the times of the definitions (int64).
        code: their codes (int32).
    """

    def __init__(self, number: Array, time: Array, code: Array) -> None:
        order = np.lexsort((time, number))
        self._number, self._time, self._code = number[order], time[order], code[order]
        self._distinct, self._first, self._count = np.unique(self._number, return_index=True, return_counts=True)

    def codes(self, number: Array, time: Array) -> Array:
        """Return the codes of numbers at times (int32): those of the last definitions up to then, or else of the first.

        The code of a number that is never defined is -1.
        """
        if not len(self._distinct) or not len(number):
            return np.full(len(number), -1, np.int32)
        numbers, first = number_distinct(number)
        distinct = number[first]
        place = np.searchsorted(self._distinct, distinct)
        place[place == len(self._distinct)] = 0
        defined = self._distinct[place] == distinct
        code = np.where(defined, self._code[self._first[place]], -1).astype(np.int32)
        result: Array = np.asarray(code[numbers])
        redefined = defined & (self._count[place] > 1)
        if redefined.any():
            rows = np.flatnonzero(redefined[numbers])
            begin = self._first[place][numbers[rows]]
            end = begin + self._count[place][numbers[rows]]
            result[rows] = self._code[last_until(self._time, begin, end, time[rows])]
        return result


def last_until(times: Array, begin: Array, end: Array, limit: Array) -> Array:
    """Return the last index in each range whose time is not later than the limit, or the first index of the range."""
    low, high = begin.copy(), end.copy()
    while (low < high).any():  # a binary search in all ranges at once
        middle = (low + high) // 2
        open_ = low < high
        early = open_ & (times[np.minimum(middle, len(times) - 1)] <= limit)
        low = np.where(early, middle + 1, low)
        high = np.where(open_ & ~early, middle, high)
    result: Array = np.maximum(low - 1, begin)
    return result
