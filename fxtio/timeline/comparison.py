"""Compares runs of a program: which slices got slower, faster, more or fewer, new or gone.

Durations of one run are no independent values: a disturbance lasts longer than one call.  So consecutive durations are
joined to blocks, and a permutation test compares the means of the blocks of both sides.  Before this, blocks that are
slower than nine tenths of each side count as if they were no slower than that.  A difference counts if it is larger
than a floor in percent and in time, also in the median of the blocks, so that a disturbance or a few slow calls do not
alarm, and if it is unlikely by chance among all names that are compared (Holm's correction).  With several runs on a
side, the ranks of their means must differ as well: by its rank, a run that was disturbed hides no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.table import Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.permutation import MOST_RESAMPLES, RESAMPLES, permutation_test

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

Array = np.ndarray[Any, Any]

MAX_BLOCKS = 100
"""The most blocks of a name in a run."""

MAX_ROWS = 4_000_000
"""The most durations that wait to be joined to blocks."""

CUT = 0.9
"""Blocks whose mean duration is beyond this quantile of each side count with the larger of the two quantiles."""

LEAST_BLOCKS = 5
"""With fewer values on a side, nothing is said about durations."""

CHANCE = 0.002
"""The probability of an alarm about any name if nothing has changed but the noise within runs."""

CHANCE_OF_RUNS = 0.05
"""The largest p-value of the ranks of several runs, unless their number allows only larger ones."""


class Change(StrEnum):
    """The difference of a name between the sides."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    FEWER = "fewer"
    NEW = "new"
    GONE = "gone"
    SAME = "same"


_BY_CHANCE = (Change.SLOWER, Change.FASTER)
"""The changes that may be by chance."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The smallest difference that matters: both must be reached.

    Attributes:
        share: of the mean duration or the number of calls, for example 0.05.
        time: of the time of a whole run (ns).
    """

    share: float = 0.05
    time: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A name on both sides; numbers of calls and times are those of a run, on average.

    Attributes:
        name: the name.
        change: how it differs.
        calls: the number of calls on each side.
        total: the time of all calls on each side (ns).
        mean: the mean duration on each side (ns).
        median: the median of the blocks' mean durations on each side (ns).
        p: the probability of such a difference of the durations by chance, None where they cannot be compared.
    """

    name: str
    change: Change
    calls: tuple[float, float]
    total: tuple[float, float]
    mean: tuple[float, float]
    median: tuple[float, float]
    p: float | None

    @property
    def ratio(self) -> float:
        """The change of the mean duration: 0.1 is 10 % slower; 0 where a side has no calls."""
        return self.mean[1] / self.mean[0] - 1 if min(self.calls) and self.mean[0] else 0.0

    @property
    def cost(self) -> float:
        """The change of the time of a run (ns)."""
        return self.total[1] - self.total[0]

    def is_too_short(self, floor: Floor) -> bool:
        """Return whether nothing changed, and both sides take less than the time that a change must have."""
        return self.change is Change.SAME and max(self.total) < floor.time


class Run:
    """The durations of the slices of a run by name, joined to blocks; a consumer of `Timeline.fold`.

    Args:
        registry: the registry of the reading.
        column: `duration` or `self_time`.
    """

    TABLES = ("slices",)

    def __init__(self, registry: Registry, column: str = "duration") -> None:
        self._registry = registry
        self._column = column
        self._waiting: list[tuple[Array, Array, Array]] = []  # names, sums, counts
        self._rows = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch that have ended."""
        slices = tables["slices"]
        finished = slices["state"].is_in("closed", "overlapping", "thrown")
        names, times = slices["name"].codes[finished], slices[self._column][finished]
        self._waiting.append((names, times.astype(np.float64), np.ones(len(names))))
        self._rows += len(names)
        if self._rows > MAX_ROWS:
            self._join()

    def _join(self) -> None:
        """Join consecutive values of each name, so that none has more than `MAX_BLOCKS`."""
        names, sums, counts = (np.concatenate(columns) for columns in zip(*self._waiting, strict=True))
        order = np.argsort(names, kind="stable")
        names = names[order]
        if len(names):
            begins = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
            sizes = np.diff([*begins, len(names)])
            place = np.arange(len(names)) - np.repeat(begins, sizes)
            block = place // np.repeat(-(-sizes // MAX_BLOCKS), sizes)
            first = np.flatnonzero(np.concatenate([[True], (np.diff(names) != 0) | (np.diff(block) != 0)]))
            names = names[first]
            sums, counts = np.add.reduceat(sums[order], first), np.add.reduceat(counts[order], first)
        self._waiting, self._rows = [(names, sums, counts)], len(names)

    def blocks(self) -> dict[str, tuple[Array, Array]]:
        """Return for each name the sums and the numbers of calls of its blocks, in the order of time."""
        self._waiting.append((np.empty(0, np.int32), np.empty(0), np.empty(0)))
        self._join()
        ((names, sums, counts),) = self._waiting
        codes, begins = np.unique(names, return_index=True)
        ends = [*begins[1:].tolist(), len(names)][: len(codes)]
        texts = self._registry.names.values
        return {
            texts[code] if code >= 0 else "": (sums[a:b], counts[a:b])
            for code, a, b in zip(codes.tolist(), begins.tolist(), ends, strict=True)
        }


Blocks = Mapping[str, tuple[Array, Array]]
"""The sums and numbers of calls of the blocks of each name, as `Run.blocks` returns them."""


def run_of(timeline: Timeline, column: str = "duration") -> Blocks:
    """Return the blocks of durations of a timeline, in one reading of bounded memory."""
    run, _ = timeline.fold(lambda registry: Run(registry, column), *Run.TABLES)
    return run.blocks()


def compare(before: Sequence[Blocks], after: Sequence[Blocks], floor: Floor | None = None) -> list[Difference]:
    """Compare runs.

    Args:
        before: the runs of one side, at least one.
        after: the runs of the other side.
        floor: the smallest difference that matters.

    Returns:
        All names, those with the largest change of the time of a run first.
    """
    floor = floor or Floor()
    names = {name: None for run in (*before, *after) for name in run}
    sides = {name: _cut(_Side(before, name), _Side(after, name)) for name in names}
    differences = [_difference(name, *pair, floor) for name, pair in sides.items()]
    # All names whose durations can be compared count, also those whose difference is below the floor.
    tested = sum(each.p is not None for each in differences)
    differences = [
        replace(each, p=_chance(*sides[each.name], tested)) if each.change in _BY_CHANCE else each
        for each in differences
    ]
    unlikely = _holm({each.name: each.p or 0.0 for each in differences if each.change in _BY_CHANCE}, tested)
    differences = [
        replace(each, change=Change.SAME) if each.change in _BY_CHANCE and each.name not in unlikely else each
        for each in differences
    ]
    return sorted(differences, key=lambda each: -abs(each.cost))


class _Side:
    """A name in the runs of a side.

    Attributes:
        means: the mean durations of all blocks.
        of_runs: the mean duration in each run that has the name.
        calls: the number of calls in each run.
        total: the time of a run on average.
    """

    def __init__(self, runs: Sequence[Blocks], name: str) -> None:
        empty = (np.empty(0), np.empty(0))
        pairs = [run.get(name, empty) for run in runs]
        most = max(MAX_BLOCKS // len(runs), LEAST_BLOCKS)
        self.means = np.concatenate([_joined(sums, most) / _joined(counts, most) for sums, counts in pairs])
        self.of_runs = np.array([sums.sum() / counts.sum() for sums, counts in pairs if len(counts)])
        self.calls = np.array([counts.sum() for _, counts in pairs])
        self.total = float(sum(sums.sum() for sums, _ in pairs)) / len(runs)

    @property
    def mean(self) -> float:
        calls = float(self.calls.mean())
        return self.total / calls if calls else 0.0

    @property
    def median(self) -> float:
        return float(np.median(self.means)) if len(self.means) else 0.0


def _cut(before: _Side, after: _Side) -> tuple[_Side, _Side]:
    """Cut the means of the slowest blocks of both sides to the same value, and return the sides."""
    sides = (before, after)
    slowest = max((float(np.quantile(side.means, CUT)) for side in sides if len(side.means)), default=0.0)
    for side in sides:
        side.means = np.minimum(side.means, slowest)
    return sides


def _joined(values: Array, most: int) -> Array:
    """Return the sums of consecutive values, at most so many of them."""
    if len(values) <= most:
        return values
    result: Array = np.add.reduceat(values, np.arange(0, len(values), -(-len(values) // most)))
    return result


def _chance(before: _Side, after: _Side, tested: int) -> float:
    """Return the p-value of the difference of the durations: of blocks and, with several runs, of runs.

    Args:
        before: a side.
        after: the other side.
        tested: how many names are tested, on which depends how small a p-value must be.
    """
    resamples = min(max(RESAMPLES, int(4 * tested / CHANCE)), MOST_RESAMPLES)
    p = permutation_test(before.means, after.means, resamples)
    if min(len(before.of_runs), len(after.of_runs)) < 2:
        return p
    runs = permutation_test(*_ranks(before.of_runs, after.of_runs))
    least = permutation_test(np.zeros(len(before.of_runs)), np.ones(len(after.of_runs)))
    return max(p, runs) if runs > max(CHANCE_OF_RUNS, least) else p


def _ranks(before: Array, after: Array) -> tuple[Array, Array]:
    """Return the ranks of values among those of both sides; equal values have the mean of their ranks."""
    values = np.concatenate([before, after])
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks[: len(before)], ranks[len(before) :]


def _holm(chances: Mapping[str, float], tested: int) -> set[str]:
    """Return the names whose p-values are too small for chance, corrected for the number of names by Holm's method.

    Args:
        chances: the p-values of the names that matter.
        tested: how many names were tested; the p-values of the others are taken for larger ones.
    """
    unlikely = set()
    for rank, (name, p) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        if p > CHANCE / (tested - rank):
            break
        unlikely.add(name)
    return unlikely


def _difference(name: str, before: _Side, after: _Side, floor: Floor) -> Difference:
    difference = Difference(
        name=name,
        change=Change.SAME,
        calls=(float(before.calls.mean()), float(after.calls.mean())),
        total=(before.total, after.total),
        mean=(before.mean, after.mean),
        median=(before.median, after.median),
        p=None,
    )
    if not min(difference.calls):
        return replace(difference, change=_presence(difference, floor))
    change, p = Change.SAME, None
    if min(len(before.means), len(after.means)) >= LEAST_BLOCKS:
        change = _of_durations(difference, before, after, floor)
        p = permutation_test(before.means, after.means, 0)
    if change is Change.SAME:
        change = _of_calls(difference, before, after, floor)
    return replace(difference, change=change, p=p)


def _presence(difference: Difference, floor: Floor) -> Change:
    if max(difference.total) < floor.time:
        return Change.SAME
    return Change.NEW if difference.calls[1] else Change.GONE


def _of_durations(difference: Difference, before: _Side, after: _Side, floor: Floor) -> Change:
    """Return the change of the durations as far as it reaches the floor."""
    means = float(before.means.mean()), float(after.means.mean())
    if not means[0] or not before.median:
        return Change.SAME
    ratio, shift = means[1] / means[0] - 1, after.median / before.median - 1
    if abs(means[1] - means[0]) * difference.calls[1] < floor.time or ratio * shift <= 0:
        return Change.SAME
    if min(abs(ratio), abs(shift)) < floor.share:
        return Change.SAME
    return Change.SLOWER if shift > 0 else Change.FASTER


def _of_calls(difference: Difference, before: _Side, after: _Side, floor: Floor) -> Change:
    """Return the change of the number of calls, if it is beyond those of all runs of the other side."""
    change = abs(difference.calls[1] - difference.calls[0])
    if change < floor.share * difference.calls[0] or change * difference.mean[0] < floor.time:
        return Change.SAME
    if after.calls.min() > before.calls.max():
        return Change.MORE
    return Change.FEWER if after.calls.max() < before.calls.min() else Change.SAME
