"""Slices, instants and log messages with a name, an argument or a duration, and the slices around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.errors import require_type, shown
from fxtio.selection import EVERYTHING, Selection, is_selected
from fxtio.table import Table
from fxtio.timeline.answers.answer import ArgumentValue, Labels, QuestionError, argument_value
from fxtio.timeline.answers.places import Places, place_of
from fxtio.timeline.answers.rows import Chosen, Rows, SlicesById, Texts, chosen
from fxtio.timeline.arguments import Arguments
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import ArgumentKind
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

KINDS = {"slices": "slice", "instants": "instant", "logs": "log"}
"""The tables in which things are found, and the kind of each."""

MAX_ANCESTORS = 100
"""The most slices around a hit that are listed, the innermost ones."""

ORDERS = ("longest", "time")
"""The orders of what is found: the longest first, or the earliest."""

_CONDITIONS = "conditions are a list of Condition, see Condition.parse"
_CONDITION = re.compile(r"(.+?)(<=|>=|!=|=|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on an argument.

    Attributes:
        name: the name of the argument.
        operator: `=`, `!=`, `<`, `<=`, `>` or `>=`.
        value: what its value is compared with; for `=` and `!=` a pattern of a text.
    """

    name: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition such as `size>4096`.

        Raises:
            QuestionError: the text is not a condition, or compares with something that is not a number.
            TypeError: it is no text.
        """
        require_type(text, (str,), "a condition is a string such as size>4096")
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise QuestionError(f"{shown(text)} is not a condition; write NAME=VALUE, NAME>VALUE or NAME<VALUE")
        condition = cls(*match.groups())
        if condition.operator not in ("=", "!=") and condition.number is None:
            raise QuestionError(f"{condition.value!r} is not a number, so {text!r} compares nothing")
        return condition

    @property
    def number(self) -> int | float | None:
        """The value as a number, None if it is not one."""
        return _number_of(self.value)

    def accepts(self, value: ArgumentValue) -> bool:
        """Return whether a value fulfills the condition."""
        if isinstance(value, bool) and self.value in ("true", "false"):
            equal = self.value == str(value).lower()
            return equal == (self.operator == "=") if self.operator in ("=", "!=") else False
        if self.operator in ("=", "!="):
            number = self.number
            if isinstance(value, str) or number is None:
                equal = is_selected((self.value,), "null" if value is None else str(value)) if self.value else not value
            else:
                equal = value == number
            return equal == (self.operator == "=")
        number = self.number
        if number is None or value is None or isinstance(value, str):
            return False
        compare = {"<": value < number, "<=": value <= number, ">": value > number, ">=": value >= number}
        return compare[self.operator]


def require_conditions(conditions: Sequence[Condition]) -> None:
    """Check that conditions are a list of `Condition`.

    Raises:
        TypeError: they are something else, such as an iterator, which would be empty the second time.
    """
    require_type(conditions, (Sequence,), _CONDITIONS)
    for condition in conditions:
        require_type(condition, (Condition,), _CONDITIONS)


@lru_cache
def _number_of(text: str) -> int | float | None:
    for kind in (partial(int, base=0), float):
        try:
            return kind(text)
        except (ValueError, OverflowError):
            continue
    return None


@dataclass(slots=True)
class Hit:
    """Something that was found.

    Attributes:
        kind: `slice`, `instant` or `log`.
        time: its begin, in nanoseconds.
        duration: how long it lasts, None for an instant or a log message.
        name: its name, or the message; None if it has none.
        category: its category, the level of a log message; None if it has none.
        track: its track, -1 for a log message.
        thread: the thread of a log message, else -1.
        arguments: its arguments.
        ancestors: the names of the innermost slices around it, the outermost first; at most `MAX_ANCESTORS`.
        place: the text for its thread or track.
        defined_in: the file and line of its function, None if the trace does not say.
    """

    kind: str
    time: int
    duration: int | None
    name: str | None
    category: str | None
    track: int
    thread: int
    arguments: dict[str, ArgumentValue] = field(default_factory=dict)
    ancestors: list[str] = field(default_factory=list)
    place: str = ""
    defined_in: str | None = None


@dataclass(slots=True)
class Hits:
    """The hits of a search.

    Attributes:
        rows: the first ones in the order that was asked for.
        count: the number of all.
    """

    rows: list[Hit]
    count: int


def find(
    timeline: Timeline,
    pattern: str | None = None,
    *,
    conditions: Sequence[Condition] = (),
    longer: int | None = None,
    shorter: int | None = None,
    order: str = "longest",
    limit: int | None = None,
    selection: Selection | None = None,
) -> Hits:
    """Find slices, instants and log messages, in one reading whose memory is bounded by the limit.

    Args:
        timeline: the timeline.
        pattern: a pattern of the name, or of the message of a log; None for any.
        conditions: conditions on arguments; all must be fulfilled.
        longer: the least duration, in nanoseconds; then only slices are found.
        shorter: the greatest duration; then only slices are found.
        order: one of `ORDERS`.
        limit: the most rows, None for all.
        selection: the part of the trace; slices that overlap its range are found, with their whole duration.

    Raises:
        QuestionError: there is no such order.
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, pattern=pattern, longer=longer, shorter=shorter, order=order, limit=limit)
    check_types(selection=selection)
    require_conditions(conditions)
    if order not in ORDERS:
        raise QuestionError(f"{order!r} is not an order; there are {', '.join(ORDERS)}")
    selection = selection or EVERYTHING
    names = ["slices", "args"] if longer is not None or shorter is not None else [*KINDS, "args"]
    subset = chosen(timeline, selection, *names)
    make = partial(
        _Search, pattern=pattern, conditions=conditions, longer=longer, shorter=shorter, order=order, limit=limit,
        selection=selection, subset=subset,
    )  # fmt: skip
    search, registry = timeline.fold(make, *names)
    return search.finish(registry)


class _Search:
    """Collects the first rows in the order that was asked for."""

    def __init__(
        self,
        registry: Registry,
        *,
        pattern: str | None,
        conditions: Sequence[Condition],
        longer: int | None,
        shorter: int | None,
        order: str,
        limit: int | None,
        selection: Selection,
        subset: Chosen | None,
    ) -> None:
        self._registry = registry
        self._rows = Rows(registry, selection, subset)
        self._start, self._end, self._has_range = self._rows.start, self._rows.end, selection.has_range
        self._texts = None
        if pattern is not None:
            self._texts = Texts(registry.names.values, lambda text: is_selected((pattern,), text), null=False)
        self._conditions = [_Fulfilled(registry, condition) for condition in conditions]
        self._longer, self._shorter = longer, shorter
        self._by_time = order == "time"
        self._limit = limit
        self._arguments = Arguments(registry)
        self._places = Places(registry)
        self._hits: list[tuple[tuple[int, int], Hit]] = []
        self._count = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch, and their arguments."""
        waiting: list[Arguments | Places] = [
            self._arguments,
            self._places,
            *(each.arguments for each in self._conditions),
        ]
        for arguments in waiting:
            arguments.enter(tables)
        if "slices" in tables:
            self._places.note(tables["slices"])
        around = SlicesById(self._registry, tables)
        for name in KINDS:
            if name in tables:
                self._search(name, tables[name], around)
        if self._limit is not None and len(self._hits) > self._limit:
            self._hits.sort(key=lambda pair: pair[0])
            del self._hits[self._limit :]
        for arguments in waiting:
            arguments.leave(tables)

    def _search(self, kind: str, table: Table, around: SlicesById) -> None:
        is_slice = kind == "slices"
        time = table["start" if is_slice else "time"]
        duration = table["duration"] if is_slice else np.full(len(time), -1, np.int64)
        name = table["message" if kind == "logs" else "name"].codes
        end = time + np.maximum(duration, 0)
        found = np.ones(len(time), bool)
        if self._has_range:
            found = (time < self._end) & ((end > self._start) | (time >= self._start))
        if kind == "logs":  # whose messages are names, and levels categories
            mask = self._rows.matches(
                Table({**dict(table.items()), "name": table["message"], "category": table["level"]})
            )
        else:
            mask = self._rows.matches(table)
        found &= True if mask is None else mask
        if self._texts is not None:
            found &= self._texts.has(name)
        if self._longer is not None:
            found &= duration >= self._longer
        if self._shorter is not None:
            found &= duration <= self._shorter
        for condition in self._conditions:
            found &= False if kind == "logs" else condition.of(table)
        rows = np.flatnonzero(found)
        self._count += len(rows)
        first, second = (time, -duration) if self._by_time else (-duration, time)
        order = np.lexsort((second[rows], first[rows]))
        for row in rows[order[: self._limit]].tolist():
            key = int(first[row]), int(second[row])
            self._hits.append((key, self._hit(kind, table, row, around)))

    def _hit(self, kind: str, table: Table, row: int, around: SlicesById) -> Hit:
        if kind == "logs":
            thread = int(table["thread"][row])
            return Hit("log", int(table["time"][row]), None, table["message"][row], table["level"][row], -1, thread)
        is_slice = kind == "slices"
        duration = int(table["duration"][row]) if is_slice else None
        events = [int(table["event"][row]), *([int(table["end_event"][row])] if is_slice else [])]
        parent = int(table["parent" if is_slice else "slice"][row])
        return Hit(
            KINDS[kind], int(table["start" if is_slice else "time"][row]), duration, table["name"][row],
            table["category"][row], int(table["track"][row]), -1, self._arguments_of(*events),
            around.names_around(parent, MAX_ANCESTORS),
        )  # fmt: skip

    def _arguments_of(self, *events: int) -> dict[str, ArgumentValue]:
        rows, names = self._arguments.of(*(np.array([event]) for event in events)), self._registry.names.values
        keys = [names[code] if code >= 0 else "" for code in rows.name.tolist()]
        return dict(zip(keys, rows.values(names), strict=True))

    def finish(self, registry: Registry) -> Hits:
        """Return what was found."""
        labels = Labels(registry.tables())
        places = self._places.by_name()
        rows = [hit for _, hit in sorted(self._hits, key=lambda pair: pair[0])]
        for hit in rows:
            hit.place = labels.track(hit.track) if hit.track >= 0 else labels.thread(hit.thread)
            hit.defined_in = place_of(hit.name, places) if hit.kind == "slice" else None
        return Hits(rows[: self._limit], self._count)


class _Fulfilled:
    """The arguments that fulfill a condition."""

    def __init__(self, registry: Registry, condition: Condition) -> None:
        self._registry = registry
        self._condition = condition
        self.arguments = Arguments(registry, accepts=self._accepted)

    def of(self, table: Table) -> Array:
        """Return for each slice or instant whether one of its arguments fulfills the condition (bool)."""
        events = [table[name] for name in ("event", "end_event") if name in table]
        result = np.zeros(table.num_rows, bool)
        result[self.arguments.of(*events).row] = True
        return result

    def _accepted(self, args: Table) -> Array:
        rows = np.flatnonzero(args["name"].codes == self._registry.names.code(self._condition.name))
        kinds, bits, texts = args["type"].codes[rows], args["bits"][rows], args["text"].codes[rows]
        # Arguments of one kind with one key have one value, so each value is looked at once.
        keys = np.where(kinds == ArgumentKind.TEXT, texts.astype(np.int64).view(np.uint64), bits)
        result = np.zeros(args.num_rows, bool)
        for kind in np.unique(kinds).tolist():
            own = np.flatnonzero(kinds == kind)
            _, first, place = np.unique(keys[own], return_index=True, return_inverse=True)
            values = [_value(args, int(rows[own[at]])) for at in first.tolist()]
            accepted = np.array([self._condition.accepts(value) for value in values], bool)
            result[rows[own]] = accepted[place]
        return result


def _value(args: Table, row: int) -> ArgumentValue:
    return argument_value(int(args["type"].codes[row]), int(args["bits"][row]), args["text"][row])
