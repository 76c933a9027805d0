"""The answer to what took the time: calls, times and percentiles by function, thread and the like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fxtio.arrays import Array
from fxtio.report import counted, human_value
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import MAX_TIME, Categories, Table, numbers_of
from fxtio.timeline.answers.answer import Answer, Labels, QuestionError, text_of
from fxtio.timeline.answers.places import NAMES, Places, place_of
from fxtio.timeline.answers.rows import ARGUMENT, Chosen, Groups, Rows, chosen
from fxtio.timeline.answers.stack_tree import StackCollector, StackTree
from fxtio.timeline.answers.totals import Durations, Totals
from fxtio.timeline.answers.waiting import MAX_RUNS, Pauses, Runs, Waiting
from fxtio.timeline.parts import Registry
from fxtio.timeline.sums import add_by_group
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

CONTENTS = ("slices", "samples", "allocations", "sched")
"""The contents that can be ranked; the first one that a trace has is the default."""

SORTS = ("self", "total", "calls", "waiting", "median", "p99", "max")
"""The columns by which the rows can be sorted."""

_TABLES = {
    "slices": ("slices", "scheduling"),
    "samples": ("samples", "stacks", "frames"),
    "allocations": ("allocations", "stacks", "frames"),
    "sched": ("scheduling",),
}
_STACK_GROUPINGS = {"name": "function", "category": "module"}


def top(
    timeline: Timeline,
    *,
    by: str = "name",
    sort: str | None = None,
    limit: int | None = None,
    what: str | None = None,
    unit: str | None = None,
    selection: Selection | None = None,
    waiting: bool = False,
) -> Answer:
    """Rank what took the time, in one reading of bounded memory.

    There is another reading if threads or processes are selected, or if the trace says when threads ran.

    The total of a group counts a slice only if no slice around it has the same group, so that a function that calls
    itself is counted once.  Percentiles are durations that occur, of an even number the lower one in the middle.  The
    module `fxtio.timeline.answers.waiting` says what waits.

    Args:
        timeline: the timeline.
        by: `name`, `category`, `thread`, `process`, `track`, or `arg:` and the name of an argument; for samples and
            allocations `category` is the module, and allocations may be ranked by `type`; for `sched`, `name` is the
            thread and `track` is the processor.
        sort: one of `SORTS`; by default `self`.
        limit: the most rows, None for all.
        what: one of `CONTENTS`; by default the first one that the trace has.
        unit: the unit of samples, of which only samples are ranked; by default that which the trace says is to be shown
            (a profile of pprof), or that of most samples.
        selection: the part of the trace.
        waiting: rank slices that wait as well: their self time counts, and rows that do nothing else are not left out.

    Returns:
        A table with the columns `name`, `calls`, `total`, `self`, `share` of the self time of all (float64), and for
        slices and `sched` `min`, `median`, `p99`, `max`; times are in nanoseconds.  For slices, `waiting` is the time
        for which they waited, no slice within them having begun, and `open` the number of those without an end.  If the
        trace says where functions are defined, and slices are grouped by name, `place` is the file and line, null where
        it is not known.

    Raises:
        QuestionError: this content cannot be grouped or sorted so, or the trace has no such content.
        TypeError: an argument is of a wrong type.
    """
    check_types(
        timeline=timeline, by=by, sort=sort, limit=limit, what=what, unit=unit, selection=selection, waiting=waiting
    )
    selection = selection or EVERYTHING
    contents = _contents(what, sort, unit)
    names = {name: None for content in contents for name in _TABLES[content]}
    if by.startswith(ARGUMENT) or (by == "name" and "slices" in contents):
        names["args"] = None
    subset = chosen(timeline, selection, *names)
    make = partial(_Ranking, contents=contents, by=by, unit=unit, selection=selection, subset=subset, waiting=waiting)
    ranking, registry = timeline.fold(make, *names)
    if (pauses := ranking.pauses()) is not None:
        ranking, registry = timeline.fold(partial(make, pauses=pauses), *names)
    answer = ranking.answer(registry, sort or "self", limit)
    if ranking.runs.missed and answer.what == "slices":
        answer.notes.append(f"more than {MAX_RUNS:,} times on a processor: what waits is known by names only")
    return answer


def _contents(what: str | None, sort: str | None, unit: str | None) -> tuple[str, ...]:
    """Return the contents that are asked for, or raise a `QuestionError`."""
    if what is not None and what not in CONTENTS:
        raise QuestionError(f"{what!r} is not something to rank; there are {', '.join(CONTENTS)}")
    if sort is not None and sort not in SORTS:
        raise QuestionError(f"{sort!r} is not a column to sort by; there are {', '.join(SORTS)}")
    if unit is not None and what not in (None, "samples"):
        raise QuestionError(f"{what} have no units; only samples are ranked by one")
    return (what,) if what is not None else CONTENTS if unit is None else ("samples",)


class _Content(Protocol):
    """Takes one kind of content."""

    is_empty: bool

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""

    def answer(self, registry: Registry) -> Answer:
        """Return all groups, in no order."""


class _Ranking:
    """Ranks the first of several contents that a trace has."""

    def __init__(
        self,
        registry: Registry,
        *,
        contents: tuple[str, ...],
        waiting: bool,
        pauses: Pauses | None = None,
        **options: Any,
    ) -> None:
        self.runs = Runs(registry)
        if not options["by"].startswith(ARGUMENT):
            registry.asked_arguments = NAMES
        self._is_first = pauses is None
        self._contents: dict[str, _Content] = {}
        self._refusals: dict[str, QuestionError] = {}
        makers: dict[str, Callable[..., _Content]] = {
            "slices": partial(Slices, waiting=waiting, pauses=pauses),
            "samples": partial(Weighted, "samples"),
            "allocations": partial(Weighted, "allocations"),
            "sched": Scheduling,
        }
        for content in contents:
            try:
                self._contents[content] = makers[content](registry, **options)
            except QuestionError as error:
                self._refusals[content] = error
        if not self._contents:
            raise next(iter(self._refusals.values()))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        if self._is_first and "slices" in self._contents:
            self.runs.enter(tables)
        for content in self._contents.values():
            content.enter(tables)
            if not content.is_empty:  # those after it are not asked for
                break

    def pauses(self) -> Pauses | None:
        """Return when threads were blocked, None if the trace has no slices or does not say it."""
        slices = self._contents.get("slices")
        return None if slices is None or slices.is_empty else self.runs.pauses()

    def answer(self, registry: Registry, sort: str, limit: int | None) -> Answer:
        """Return the rows of the first content that the trace has."""
        filled = [content for content in self._contents.values() if not content.is_empty]
        content = filled[0] if filled else next(iter(self._contents.values()))
        result = content.answer(registry)
        if sort not in result.table:
            raise QuestionError(f"{result.what} have no {sort}; sort by self, total or calls")
        return result.first(sort, limit)


class Slices:
    """The ranking of slices.

    Args:
        registry: the registry of the reading.
        by: what they are grouped by, see `Groups`.
        unit: slices have none.
        selection: the part of the trace.
        subset: the tracks that are selected, None for all.
        waiting: whether waiting counts as self time.
        pauses: when the scheduler has blocked threads, None if that is not known.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        by: str,
        unit: str | None = None,
        selection: Selection = EVERYTHING,
        subset: Chosen | None = None,
        waiting: bool = False,
        pauses: Pauses | None = None,
    ) -> None:
        self.is_empty = True
        self._registry = registry
        self._counts_waiting = waiting
        self._waiting = Waiting(registry, pauses)
        self._rows = Rows(registry, selection, subset)
        self._groups = Groups(registry, by)
        self._totals = Totals()
        self._durations = Durations()
        self._places = Places(registry) if by == "name" else None

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch, and their arguments."""
        with_arguments = [each for each in (self._groups.arguments, self._places) if each is not None]
        for each in with_arguments:
            each.enter(tables)
        if "slices" in tables:
            self.is_empty = False
            if self._places is not None:
                self._places.note(tables["slices"])
            self._enter(tables["slices"])
        for each in with_arguments:
            each.leave(tables)

    def _enter(self, slices: Table) -> None:
        slices = self._rows.cut(slices)
        waiting = self._waiting.of(slices)
        own = slices["self_time"] if self._counts_waiting else slices["self_time"] - waiting
        slices = self._rows.matching(Table({**dict(slices.items()), "self_time": own, "waiting": waiting}))
        group = self._groups.of(slices)
        unfinished = self._registry.open_slices()
        self._totals.enter(slices, group, unfinished, self._groups.of(unfinished))
        duration = slices["duration"]
        if len(group) and int(group.min()) < 0:
            group, duration = group[group >= 0], duration[group >= 0]
        self._durations.enter(group, duration)

    def answer(self, registry: Registry) -> Answer:
        """Return all groups, in no order; those that only wait are left out where waiting does not count."""
        totals = self._totals
        is_shown = (totals["self"] > 0) | (totals["waiting"] == 0)
        table = durations_table(totals, self._durations, self._labels(registry), is_shown, ("waiting", "open"))
        places = self._places.by_name() if self._places is not None else {}
        if places:
            texts = [place_of(name, places) for name in table["name"].tolist()]
            table = Table({**dict(table.items()), "place": Categories.of(texts)})
        notes = []
        if (left_out := totals["waiting"][~is_shown]).size:
            time = human_value(sum(left_out.tolist()), "ns")
            notes = [f"{time} of waiting left out, in {counted(left_out.size, 'row')} (--waiting)"]
        if cost := self._registry.call_cost:
            calls = sum(totals["calls"].tolist())
            notes.append(f"recording took about {cost} ns for each call, {human_value(cost * calls, 'ns')} in all")
        return Answer("slices", table, error=self._durations.error, notes=notes)

    def so_far(self, registry: Registry, until: int = 0) -> tuple[int, Table]:
        """Return what happened up to a time, or up to the latest time that was read, if that is later.

        It costs little, however many slices there are: percentiles are left out.

        Args:
            registry: the registry of the reading.
            until: the time (ns); by default the latest that was read.

        Returns:
            The time, and the groups in no order: of slices that have ended `name`, `calls`, `total`, `self`, `max`; and
            `busy`, the self time with that of open slices.
        """
        until, own = registry.open_self_times(until)
        unfinished = registry.open_slices()
        group = self._groups.of(unfinished)
        if not self._counts_waiting:
            own[self._waiting.is_function(unfinished)] = 0
        self._totals.make_room(group)
        busy = self._totals["self"].copy()
        add_by_group(busy, group[group >= 0], own[group >= 0])
        groups = np.flatnonzero(self._totals["calls"] + busy)
        columns = {name: self._totals[name][groups] for name in ("calls", "total", "self", "max")}
        return until, Table({"name": _names(groups, self._labels(registry)), **columns, "busy": busy[groups]})

    def _labels(self, registry: Registry) -> Callable[[int], str]:
        labels = Labels(registry.tables())
        return lambda group: self._groups.label(group, labels)


def durations_table(
    totals: Totals,
    durations: Durations,
    label: Callable[[int], str],
    is_shown: Array | bool = True,
    more: Iterable[str] = (),
) -> Table:
    """Return the groups that have calls, with their times and percentiles.

    Args:
        totals: the sums of the groups.
        durations: their durations.
        label: returns the name of a group.
        is_shown: which groups are returned (bool).
        more: further columns of the sums.
    """
    median, p99 = durations.percentiles(len(totals), (50, 99))
    groups = np.flatnonzero((totals["calls"] > 0) & is_shown)
    longest, shortest = totals["max"][groups], totals["min"][groups]
    columns = {name: totals[name][groups] for name in ("calls", "total", "self", *more)}
    return Table(
        {
            "name": _names(groups, label),
            **columns,
            "min": shortest,
            "median": np.clip(median[groups], shortest, longest),
            "p99": np.clip(p99[groups], shortest, longest),
            "max": longest,
            "share": _shares(columns["self"]),
        }
    )


def _names(groups: Array, label: Callable[[int], str]) -> Categories:
    return Categories.of([label(group) for group in groups.tolist()])


def _shares(own: Array) -> Array:
    """Return the share of the sum that each number has (0 to 1)."""
    whole = float(own.sum(dtype=np.float64))
    return own / whole if whole else np.zeros(len(own))


class Scheduling:
    """The ranking of the times for which threads ran on processors."""

    def __init__(
        self, registry: Registry, *, by: str, unit: str | None, selection: Selection, subset: Chosen | None
    ) -> None:
        if by not in ("name", "thread", "process", "track"):
            raise QuestionError(f"sched can be grouped by name, thread, process or track, not by {by}")
        self.is_empty = True
        self._by = by
        self._registry = registry
        self._rows = Rows(registry, Selection(selection.start, selection.end), subset)
        self._totals = Totals()
        self._durations = Durations()

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the times of a batch for which threads ran."""
        if "scheduling" not in tables:
            return
        self.is_empty = False
        rows = self._rows.intervals(tables["scheduling"])
        group = rows["cpu" if self._by == "track" else "thread"].astype(np.int64) + 1
        duration = rows["duration"]
        values = dict.fromkeys(("total", "self", "min", "max"), duration)
        self._totals.add(group, {**values, "calls": np.ones(len(group), np.int64)})
        self._durations.enter(group, duration)

    def answer(self, registry: Registry) -> Answer:
        """Return all groups, in no order."""
        labels = Labels(registry.tables())
        if self._by == "process":
            # Rows of threads may come before their processes are known; so they are joined only now.
            return Answer("sched", _by_process(registry, self._totals, labels))
        table = durations_table(self._totals, self._durations, lambda group: self._label(group, labels))
        return Answer("sched", table, error=self._durations.error)

    def _label(self, group: int, labels: Labels) -> str:
        return f"processor {group - 1}" if self._by == "track" else labels.thread(group - 1)


def _by_process(registry: Registry, totals: Totals, labels: Labels) -> Table:
    threads = np.flatnonzero(totals["calls"])
    owners = np.append(registry.tables()["threads"]["process"], -1)[threads - 1].astype(np.int64) + 1
    sums = Totals()
    sums.add(owners, {name: totals[name][threads] for name in ("calls", "total", "self", "min", "max")})
    groups = np.flatnonzero(sums["calls"])
    columns = {name: sums[name][groups] for name in ("calls", "total", "self", "min", "max")}
    return Table(
        {"name": _names(groups, lambda group: labels.process(group - 1)), **columns, "share": _shares(columns["self"])}
    )


class Weighted:
    """The ranking of samples or allocations: by function, module, thread, process or type."""

    def __init__(
        self,
        what: str,
        registry: Registry,
        *,
        by: str,
        unit: str | None = None,
        selection: Selection = EVERYTHING,
        subset: Chosen | None = None,
    ) -> None:
        groupings = (*_STACK_GROUPINGS, "thread", "process", *(["type"] if what == "allocations" else []))
        if by not in groupings:
            raise QuestionError(f"{what} can be grouped by {', '.join(groupings)}, not by {by}")
        self.is_empty = True
        self._what, self._by, self._unit = what, by, unit
        self._registry = registry
        self._selection = selection
        self._rows = Rows(registry, Selection(selection.start, selection.end), subset)
        self._stacks = StackCollector()
        self._sums: dict[str, tuple[Totals, Counter[str]]] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the samples or allocations of a batch, and their stacks."""
        self._stacks.enter(tables)
        if self._what not in tables:
            return
        self.is_empty = False
        rows = self._rows.events(tables[self._what])
        if self._what == "allocations":
            self._add("bytes", rows, rows["count"], rows["size"])
            return
        units = rows["unit"].codes
        for code in np.unique(units).tolist():
            own = rows.take(units == code)
            self._add(rows["unit"].values[code] if code >= 0 else "samples", own, None, own["count"])

    def _add(self, unit: str, rows: Table, calls: Array | None, weight: Array) -> None:
        column = {"thread": "thread", "process": "thread", "type": "type"}.get(self._by, "stack")
        values = rows[column]
        group = numbers_of(values).astype(np.int64) + 1
        totals, counts = self._sums.setdefault(unit, (Totals(), Counter()))
        counts["rows"] += len(group)
        calls = np.ones(len(group), np.int64) if calls is None else calls
        totals.add(group, {"calls": calls, "total": weight, "self": weight})

    def answer(self, registry: Registry) -> Answer:
        """Return all groups, in no order."""
        unit, totals = self._unit_asked_for()
        labels = Labels(registry.tables())
        calls, own = totals["calls"], totals["self"]
        if self._by in _STACK_GROUPINGS:
            table = self._by_stack()
        else:
            groups = np.flatnonzero(calls)
            if self._by == "process":
                table = _by_process(registry, totals, labels)
                table = Table({name: table[name] for name in ("name", "calls", "total", "self", "share")})
            else:
                label = labels.thread if self._by == "thread" else partial(text_of, registry.names.values)
                texts = [label(group - 1) for group in groups.tolist()]
                table = _weights(texts, calls[groups], own[groups], own[groups])
        others = [name for name in self._sums if name != unit]
        notes = [f"samples of other units: {', '.join(others)} (--unit)"] if others else []
        return Answer(self._what, table, unit, notes=notes)

    def _unit_asked_for(self) -> tuple[str, Totals]:
        if self._unit is not None and self._unit not in self._sums:
            others = f", only in {', '.join(self._sums)}" if self._sums else ""
            raise QuestionError(f"there are no {self._what} in the unit {self._unit!r}{others}")
        default = "bytes" if self._what == "allocations" else "samples"
        shown = self._registry.shown_unit
        unit = self._unit or max(
            self._sums, key=lambda unit: (unit == shown, self._sums[unit][1]["rows"]), default=default
        )
        return unit, self._sums[unit][0] if unit in self._sums else Totals()

    def of_stacks(self) -> tuple[str, StackTree, Array]:
        """Return the weights by stack, if they are grouped by what is on stacks.

        Returns:
            The unit, the stacks, and an array (int64) whose two rows are the calls and the weight: first of all without
            a stack, then of each stack.
        """
        unit, totals = self._unit_asked_for()
        tree = self._stacks.finish()
        size = len(tree.frame) + 1
        sums = np.zeros((2, size), np.int64)
        for row, column in zip(sums, (totals["calls"], totals["self"]), strict=True):
            row[: len(column)] = column[:size]
            row[0] = min(sum([int(row[0]), *column[size:].tolist()]), MAX_TIME)
        return unit, tree, sums

    def _by_stack(self) -> Table:
        """Return the rows by name or module of the frames of stacks."""
        _, tree, (calls, own) = self.of_stacks()
        code = tree.groups(_STACK_GROUPINGS[self._by], self._registry.names) + 1
        missing, calls, own = (int(calls[0]), int(own[0])), calls[1:], own[1:]
        total = np.where(tree.is_outermost(code), tree.inclusive(own), 0)
        sums = Totals()
        sums.add(code, {"calls": calls, "total": total, "self": own})
        if missing[0]:
            rest = {"calls": missing[0], "total": missing[1], "self": missing[1]}
            sums.add(np.zeros(1, np.int64), {name: np.array([value]) for name, value in rest.items()})
        groups = np.flatnonzero((sums["calls"] > 0) | (sums["total"] > 0)) if len(sums) else np.empty(0, np.int64)
        values = self._registry.names.values
        by_module = self._by == "category"
        has = self._selection.has_category if by_module else self._selection.has_name
        if self._selection.categories if by_module else self._selection.names:
            text = np.zeros(len(sums), np.int64)
            text[code] = tree.groups("module" if by_module else "name", self._registry.names) + 1
            is_selected = [has(text_of(values, each - 1)) for each in text[groups].tolist()]
            groups = groups[np.array(is_selected, bool)]
        texts = [text_of(values, group - 1) for group in groups.tolist()]
        return _weights(texts, *(sums[name][groups] for name in ("calls", "total", "self")))


def _weights(texts: list[str], calls: Array, total: Array, own: Array) -> Table:
    columns = {"calls": calls, "total": total, "self": own, "share": _shares(own)}
    return Table({"name": Categories.of(texts), **columns})
