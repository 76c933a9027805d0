"""Compares runs of a program: which slices got slower, faster, more or fewer, new or gone.

Durations of one run are no independent values: whole runs of the same work differ, on a busy machine by a factor of
two and more.  So the unit of everything is the run.  Each run has two times for each name: of its mean call, which
tells the time of all calls, and of its fastest call, which other programs disturb the least.  A test of the runs' ranks
compares both sides, for all names together, so that it rarely alarms about any of them.  Quick runs count most, and
slow ones count as equal, because anything may have disturbed them.  Where the runs are too few for a test, a difference
counts only if it is larger than the spread that runs are assumed to have.  A difference that counts is also larger than
a floor, in percent and in time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.report import counted
from fxtio.table import Table
from fxtio.timeline.answers.totals import Totals
from fxtio.timeline.parts import Registry

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

CHANCE = 0.005
"""The probability that any name is called slower or faster if nothing has changed."""

SPREAD = 3.0
"""How many times as long as another a run of the same work may take on a busy machine."""

LEAST_CALLS = 5
"""With fewer calls in a run, a single disturbance may be larger than `SPREAD`."""

QUICK = 0.25
"""The quantile of the runs of a side that stands for them: slow runs may have been disturbed."""

TOGETHER = 4
"""How many runs of each side are compared with each other, if they were recorded in turn."""

FINISHED = ("closed", "overlapping", "thrown")
"""The states of slices that have ended, whose times are compared."""


class Change(StrEnum):
    """The difference of a name between the sides."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    FEWER = "fewer"
    NEW = "new"
    GONE = "gone"
    UNCLEAR = "unclear"
    SAME = "same"

    @property
    def is_sure(self) -> bool:
        """Whether there is a difference, and it is none by chance."""
        return self not in (Change.UNCLEAR, Change.SAME)


@dataclass(frozen=True, slots=True)
class Floor:
    """The smallest difference that matters: both must be reached.

    Attributes:
        share: of the duration or the number of calls, for example 0.05.
        time: of the time of a whole run (ns).
    """

    share: float = 0.05
    time: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A name on both sides.  Of a side's runs, times are those of which a quarter of the runs has smaller ones.

    Attributes:
        name: the name.
        change: how it differs.
        by: what tells the change: "calls", or the "mean" or the "fastest" call.
        calls: the number of calls of a run on each side, on average.
        mean: the mean duration on each side (ns).
        fastest: the duration of the fastest call on each side (ns).
        p: the probability that any name differs as much by chance, None where no test told the change.
    """

    name: str
    change: Change
    by: str
    calls: tuple[float, float]
    mean: tuple[float, float]
    fastest: tuple[float, float]
    p: float | None = None

    @property
    def time(self) -> tuple[float, float]:
        """The duration of a call on each side that belongs to `ratio`."""
        return self.fastest if self.by == "fastest" else self.mean

    @property
    def total(self) -> tuple[float, float]:
        """The time of all calls of a run on each side (ns)."""
        return self.calls[0] * self.mean[0], self.calls[1] * self.mean[1]

    @property
    def ratio(self) -> float:
        """The change of what tells it: 0.1 is 10 % slower, or more; 0 where a side has no calls."""
        before, after = self.calls if self.by == "calls" else self.time
        return after / before - 1 if before and after else 0.0

    @property
    def cost(self) -> float:
        """What the change adds to the time of a run (ns)."""
        if self.by == "calls":
            return (self.calls[1] - self.calls[0]) * (self.mean[0] or self.mean[1])
        return (self.time[1] - self.time[0]) * self.calls[1]

    def reaches(self, floor: Floor) -> bool:
        """Return whether the difference is as large as one that matters."""
        return abs(self.cost) >= floor.time and (abs(self.ratio) >= floor.share or not min(self.calls))

    def is_too_short(self, floor: Floor) -> bool:
        """Return whether nothing changed, and both sides take less than the time that a change must have."""
        return self.change is Change.SAME and max(self.total) < floor.time


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        differences: all names, those with the largest change of the time of a run first.
        runs: the number of runs on each side.
        needed: how many runs of each side it takes at least to tell changes from the spread between runs.
        is_told: whether the runs are enough for that.
    """

    differences: list[Difference]
    runs: tuple[int, int]
    needed: int
    is_told: bool

    @property
    def advice(self) -> str:
        """What the runs cannot tell, and how many to take: a sentence, empty if they are enough."""
        if self.is_told:
            return ""
        before, after = self.runs
        return (
            f"{counted(before, 'run')} against {after:,} cannot tell a change below a factor of {SPREAD:g} from the "
            f"spread between runs: compare at least {self.needed} runs of each side, recorded in turn"
        )


class Times(NamedTuple):
    """The calls of a name in a run: their number, the time of all, and of the fastest (ns)."""

    calls: int
    total: float
    fastest: float


Runs = Sequence[Mapping[str, Times]]
"""For each run the names with their times, as `run_of` returns them."""


class Run:
    """The times of the slices of a run by name; a consumer of `Timeline.fold`.

    Args:
        registry: the registry of the reading.
        column: `duration` or `self_time`.
    """

    TABLES = ("slices",)

    def __init__(self, registry: Registry, column: str = "duration") -> None:
        self._registry = registry
        self._column = column
        self._totals = Totals()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch that have ended."""
        if "slices" not in tables:
            return
        slices = tables["slices"]
        finished = slices["state"].is_in(*FINISHED)
        names = slices["name"].codes[finished].astype(np.int64) + 1  # no name is -1
        times = slices[self._column][finished]
        self._totals.add(names, {"calls": np.ones(len(names), np.int64), "total": times, "min": times})

    def times(self) -> dict[str, Times]:
        """Return the times of all names that have calls."""
        texts = self._registry.names.values
        places = np.flatnonzero(self._totals["calls"])
        columns = (self._totals[name][places].tolist() for name in ("calls", "total", "min"))
        rows = zip(places.tolist(), *columns, strict=True)
        return {texts[place - 1] if place else "": Times(*row) for place, *row in rows}


def run_of(timeline: Timeline, column: str = "duration") -> dict[str, Times]:
    """Return the times of a timeline by name, in one reading of bounded memory."""
    return run_and_program(timeline, column)[0]


def run_and_program(timeline: Timeline, column: str = "duration") -> tuple[dict[str, Times], str]:
    """Return the times of a timeline by name, and the program that ran.

    That is the name of its first process that has one, or else its format.
    """
    run, registry = timeline.fold(lambda registry: Run(registry, column), *Run.TABLES)
    return run.times(), registry.program() or timeline.format


def compare(before: Runs, after: Runs, floor: Floor | None = None, *, in_turn: bool = False) -> Comparison:
    """Compare runs.

    Args:
        before: the runs of one side, at least one.
        after: the runs of the other side, at least one.
        floor: the smallest difference that matters.
        in_turn: whether the runs of both sides were recorded in turn, and are in the order in which they were: then
            each is compared with those recorded at about the same time, so a machine that changes meanwhile matters
            less.
    """
    floor, runs, sides = floor or Floor(), (*before, *after), (len(before), len(after))
    blocks = blocks_of(*sides, in_turn=in_turn)
    names = {name: None for run in runs for name in run}
    all_times = {name: np.array([run.get(name, Times(0, 0, 0)) for run in runs], np.float64).T for name in names}
    chances = _chances(all_times, blocks, floor)
    differences = [_difference(name, times, sides[0], chances, floor) for name, times in all_times.items()]
    counts = itertools.count(1)
    needed = next(count for count in counts if _can_tell(len(chances), blocks_of(count, count, in_turn=in_turn)))
    is_told = _can_tell(len(chances), blocks)
    return Comparison(sorted(differences, key=lambda each: -abs(each.cost)), sides, needed, is_told)


class Block(NamedTuple):
    """Runs among which it may not matter which is of which side: the places of those of each side (int64)."""

    before: Array
    after: Array

    @property
    def places(self) -> Array:
        """The places of all (int64)."""
        return np.concatenate(self)


def blocks_of(before: int, after: int, *, in_turn: bool = False) -> list[Block]:
    """Return all runs as one block; of runs in turn, blocks with at least `TOGETHER` runs of each side."""
    count = max(min(before, after) // TOGETHER, 1) if in_turn else 1
    places = np.split(np.arange(before + after), [before])
    return [Block(*each) for each in zip(*(np.array_split(side, count) for side in places), strict=True)]


def _divisions(blocks: Sequence[Block]) -> int:
    """Return in how many ways the runs of each block can be divided into sides."""
    return math.prod(math.comb(len(each.before) + len(each.after), len(each.before)) for each in blocks)


def _can_tell(tests: int, blocks: Sequence[Block]) -> bool:
    """Return whether such runs can show a difference that is unlikely by chance among all tests."""
    return _divisions(blocks) >= 2 * tests / CHANCE  # the number of divisions may be no float


def _chances(all_times: Mapping[str, Array], blocks: Sequence[Block], floor: Floor) -> dict[tuple[str, str], float]:
    """Return the p-values of the mean and the fastest calls of the names whose durations can be compared.

    Names are left out that a run does not have, and those that take too little time for a difference that matters.
    """
    rows = {}
    for name, (calls, total, fastest) in all_times.items():
        if calls.min() and total.max() >= floor.time:
            rows[name, "mean"] = total / calls
            if calls.max() > 1:
                rows[name, "fastest"] = fastest
    if not rows:
        return {}
    size = sum(len(each.before) for each in blocks)
    scores = np.array([quickness(_within(row, blocks), size) for row in rows.values()])
    return dict(zip(rows, permutation_test(scores, blocks).tolist(), strict=True))


def _within(values: Array, blocks: Sequence[Block]) -> Array:
    """Return the times of runs relative to the quickest one of their block, which has the least noise."""
    result = values + 1  # a call may take 0 ns
    for each in blocks:
        result[each.places] /= result[each.places].min()
    return result


def quickness(values: Array, size: int) -> Array:
    """Return how quick runs are: the squares of how many ranks they are quicker than the slow ones, which have 0.

    The slow ones are the slowest of both sides, as many as the smaller side has.  Squares, since the quickest runs,
    which nothing has disturbed, tell most.

    Args:
        values: the times of the runs of both sides.
        size: how many of them are of the first side.
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[place]
    result: Array = np.maximum(max(size, len(values) - size) + 1 - ranks, 0) ** 2
    return result


def _difference(
    name: str, times: Array, size: int, chances: Mapping[tuple[str, str], float], floor: Floor
) -> Difference:
    """Return how a name differs, by its times in all runs (calls, total, fastest x runs)."""
    calls = float(times[0, :size].mean()), float(times[0, size:].mean())
    mean, fastest = zip(*(_quick(side) for side in (times[:, :size], times[:, size:])), strict=True)
    same = Difference(name, Change.SAME, "mean", calls, mean, fastest, chances.get((name, "mean")))
    sure: list[Difference] = []
    unclear: list[Difference] = []
    for by in ("calls", "mean", "fastest"):
        p = chances.get((name, by))
        if by != "calls" and (p is None or (by == "fastest" and abs(calls[1] / calls[0] - 1) > floor.share)):
            continue  # of more calls, the fastest one is faster
        is_apart = _apart(times[0], size) != 0 if by == "calls" else by == "mean" and _is_beyond_spread(times, size)
        is_sure = is_apart or (p is not None and p <= CHANCE)
        each = replace(same, by=by, p=None if is_apart else p)
        if each.reaches(floor):
            (sure if is_sure else unclear).append(each)
    if not sure and not unclear:
        return same
    each = max(sure or unclear, key=lambda each: abs(each.cost))
    return replace(each, change=_change(each) if sure else Change.UNCLEAR)


def _quick(side: Array) -> tuple[float, float]:
    """Return the durations of the mean and the fastest call in the quick runs of a side; 0 where it has no calls."""
    calls, total, fastest = side[:, side[0] > 0]
    if not calls.size:
        return 0.0, 0.0
    return float(np.quantile(total / calls, QUICK)), float(np.quantile(fastest, QUICK))


def _apart(values: Array, size: int, factor: float = 1.0) -> int:
    """Return 1 if all values after the first ones are more than a factor above these, -1 if below, 0 otherwise."""
    before, after = values[:size], values[size:]
    return int(after.min() > factor * before.max()) - int(before.min() > factor * after.max())


def _is_beyond_spread(times: Array, size: int) -> bool:
    """Return whether the calls of a name differ by more than runs of the same work may."""
    calls, total, fastest = times
    if calls.min() < LEAST_CALLS:
        return False
    direction = _apart(total / calls, size, SPREAD)
    return direction != 0 and direction == _apart(fastest, size, SPREAD)


def _change(each: Difference) -> Change:
    if each.by != "calls":
        return Change.SLOWER if each.ratio > 0 else Change.FASTER
    if not min(each.calls):
        return Change.NEW if each.calls[1] else Change.GONE
    return Change.MORE if each.ratio > 0 else Change.FEWER


MOST_EXACT = 20_000
"""If there are no more ways than this to divide the values into two groups, all of them are looked at."""

DIVISIONS = 9_999
"""The number of random divisions that are looked at otherwise."""

_BLOCK = 1 << 20  # numbers at once


def permutation_test(rows: Array, blocks: Sequence[Block]) -> Array:
    """Return for each row the two-sided p-value of the difference of the means of two groups, corrected for all rows.

    The same divisions of the columns are looked at for all rows, those in which each block keeps its numbers.  A
    p-value is twice the share of divisions in which *any* row differs as much, in this direction (Westfall and Young),
    so that the smallest of all p-values is below a limit by chance no more often than the limit says, however the rows
    depend on each other.

    Args:
        rows: the values (rows x columns).
        blocks: which columns are the first group, and among which it may not matter.

    Returns:
        The p-values (float64, one for each row); they are the same each time.
    """
    # Each row has the mean 0 and the length 1, so the sums of a side can be compared between rows.
    centered = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centered**2).sum(axis=1, keepdims=True))
    scaled = np.divide(centered, lengths, out=np.zeros_like(centered), where=lengths > 1e-9)
    observed = scaled[:, np.concatenate([each.before for each in blocks])].sum(axis=1)
    exact = _divisions(blocks) <= MOST_EXACT
    least, greatest = [], []
    for chosen in (_all_divisions if exact else _random_divisions)(blocks, _BLOCK // max(rows.shape)):
        inside = np.zeros((len(chosen), rows.shape[1]))
        np.put_along_axis(inside, chosen, 1, axis=1)
        sums = inside @ scaled.T
        least.append(sums.min(axis=1))
        greatest.append(sums.max(axis=1))
    low, high = np.sort(np.concatenate(least)), np.sort(np.concatenate(greatest))
    below = np.searchsorted(low, observed + 1e-9, side="right")
    above = len(high) - np.searchsorted(high, observed - 1e-9, side="left")
    more = 0 if exact else 1  # the division that was observed
    result: Array = np.minimum(2 * (np.minimum(below, above) + more) / (len(low) + more), 1.0)
    return result


def _all_divisions(blocks: Sequence[Block], most: int) -> Iterator[Array]:
    """Yield all choices of columns, as many at once as may be."""
    choices = product(*(combinations(each.places.tolist(), len(each.before)) for each in blocks))
    every = np.array([[*chain.from_iterable(choice)] for choice in choices], np.int64)
    yield from np.array_split(every, -(-len(every) // max(most, 1)))


def _random_divisions(blocks: Sequence[Block], most: int) -> Iterator[Array]:
    """Yield random choices of columns, as many at once as may be."""
    random = np.random.default_rng(0)
    columns = sum(len(each.places) for each in blocks)
    for count in (len(each) for each in np.array_split(np.empty(DIVISIONS), -(-DIVISIONS // max(most, 1)))):
        keys = random.random((count, columns), np.float32)
        chosen = []
        for each in blocks:
            size = len(each.before)
            chosen.append(each.places[keys[:, each.places].argpartition(size - 1, axis=1)[:, :size]])
        yield np.concatenate(chosen, axis=1)
