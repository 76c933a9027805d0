"""Checks that every recording has to pass, however its program ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import fxtio
from fxtio.arrays import Array
from fxtio.fxt.enums import EventType
from fxtio.table import Table

PLACE = ("source.file_name", "source.line_number")
"""The arguments of the first event of a function that say where it is defined."""

_BEGINS = (EventType.DURATION_BEGIN, EventType.ASYNC_BEGIN)
_ENDS = (EventType.DURATION_END, EventType.ASYNC_END)


@dataclass
class Seen:
    """A trace that passed `check_trace`: its tables, and the events sorted by track and time.

    Attributes:
        tables: events, args, objects, logs, threads.
        order: rows of the events table, by track and time.
        level: how deep each of them is, a begin and its end alike; 0 and less for what began before the trace.
        partner: for a begin the place (in `order`) of its end, for an end that of its begin; -1 for none.
    """

    tables: dict[str, Table]
    order: Array
    level: Array
    partner: Array
    _chosen: dict[tuple[str, str], Array] = field(default_factory=dict)

    @cached_property
    def kinds(self) -> list[str]:
        """The types of the events in the order of the file."""
        return [str(kind) for kind in self.tables["events"]["type"].tolist()]

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the events in the order of the file."""
        return [str(name) for name in self.tables["events"]["name"].tolist()]

    def rows(self, *, kind: str | None = None, name: str | None = None, category: str | None = None) -> Array:
        """Return rows of the events table, by track and time; those of a type, name and category if given."""
        chosen = np.ones(len(self.order), bool)
        for column, value in (("type", kind), ("name", name), ("category", category)):
            if value is not None:
                chosen &= self._is_in(column, value)
        rows: Array = self.order[chosen[self.order]]
        return rows

    def _is_in(self, column: str, value: str) -> Array:
        """Return for each event whether it has this value; most tests ask for few values, again and again."""
        if (column, value) not in self._chosen:
            self._chosen[column, value] = self.tables["events"][column].is_in(value)
        return self._chosen[column, value]

    def numbers(self, rows: Array, key: str = "n") -> Array:
        """Return an integer argument of these events; all must have it."""
        args, is_asked = self.tables["args"], np.zeros(len(self.order), bool)
        is_asked[rows] = True
        selected = args["name"].is_in(key) & is_asked[args["event"]]
        values = np.zeros(len(self.order), np.int64)
        values[args["event"][selected]] = args["bits"][selected].view(np.int64)
        assert int(selected.sum()) == len(rows), f"{len(rows) - int(selected.sum())} of {len(rows)} events lack {key!r}"
        result: Array = values[rows]
        return result

    def args(self, row: int) -> dict[str, Any]:
        """Return the arguments of an event, without those that say where a function is defined, see `place`."""
        return {name: value for name, value in self._all_args(row).items() if name not in PLACE}

    def place(self, row: int) -> tuple[Any, ...] | None:
        """Return the file and line that an event says its function is defined in, None if it does not say it."""
        args = self._all_args(row)
        return tuple(args[name] for name in PLACE) if args.keys() >= set(PLACE) else None

    def _all_args(self, row: int) -> dict[str, Any]:
        args = self.tables["args"]
        first, last = np.searchsorted(args["event"], [row, row + 1]).tolist()
        return {str(args["name"][at]): _value(args, at) for at in range(first, last)}

    def spans(self, name: str | None = None) -> list[Span]:
        """Return all spans by start, or those of one name."""
        events = self.tables["events"]
        spans = []
        for place in np.flatnonzero(np.isin(events["type"].codes[self.order], _BEGINS)).tolist():
            row, partner = int(self.order[place]), int(self.partner[place])
            if name is None or self.names[row] == name:
                end = int(self.order[partner]) if partner >= 0 else -1
                spans.append(Span(self, row, end, int(self.level[place])))
        return sorted(spans, key=lambda span: (span.start, span.row))

    def levels(self, name: str) -> set[int]:
        """Return how deep the spans of a name are."""
        is_begin = np.isin(self.tables["events"]["type"].codes, _BEGINS)
        return set(self.level[(is_begin & self._is_in("name", name))[self.order]].tolist())

    def names_of(self, kind: str) -> dict[int, str]:
        """Return the names of processes or threads by koid; the last name of each."""
        table = self.tables["objects"]
        rows = zip(table["type"].tolist(), table["id"].tolist(), table["name"].tolist(), strict=True)
        return {koid: name for type_, koid, name in rows if type_ == kind}


@dataclass(frozen=True)
class Span:
    """A span: its begin, and its end unless it is open (`end_row` -1)."""

    seen: Seen
    row: int
    end_row: int
    depth: int

    @property
    def name(self) -> str:
        return self.seen.names[self.row]

    @property
    def category(self) -> str:
        return str(self.seen.tables["events"]["category"][self.row])

    @property
    def on_track(self) -> bool:
        return self.seen.kinds[self.row] == "async_begin"

    @property
    def thread(self) -> int:
        return int(self.seen.tables["events"]["thread"][self.row])

    @property
    def id(self) -> int | None:
        value = self.seen.tables["events"]["id"][self.row]
        return None if value is None else int(value)

    @property
    def start(self) -> int:
        return int(self.seen.tables["events"]["time"][self.row])

    @property
    def end(self) -> int:
        assert self.end_row >= 0, f"{self.name} is open"
        return int(self.seen.tables["events"]["time"][self.end_row])

    @property
    def args(self) -> dict[str, Any]:
        ends = self.seen.args(self.end_row) if self.end_row >= 0 else {}
        return self.seen.args(self.row) | ends


def _value(args: Table, at: int) -> Any:
    kind, bits = args["type"][at], int(args["bits"][at])
    if kind == "string":
        return args["text"][at]
    if kind in ("int32", "int64"):
        return bits - (1 << 64) if bits >> 63 else bits
    if kind == "double":
        return float(np.uint64(bits).view(np.float64))
    if kind == "bool":
        return bool(bits)
    return None if kind == "null" else bits


def check_trace(
    path: str | os.PathLike[str], *, ring: bool = False, open_spans: bool = False, crossed: bool = False
) -> Seen:
    """Read a trace and check it.

    There is no finding, so every reference is defined before its use and every record is complete.  The times of a
    thread's events are all different.  Spans nest on every thread and every task's track, and end with their own end.

    Args:
        path: the trace.
        ring: whether its beginning may have been overwritten, so that ends may lack their begins.
        open_spans: whether spans may lack their ends.
        crossed: whether spans may end in another order than they should, because the program itself does that.
    """
    with fxtio.open(path, strict=True) as trace:
        tables = trace.tables("events", "args", "objects", "logs", "threads")
        assert len(trace.findings) == 0
    events = tables["events"]
    kinds, ids = events["type"].codes, events["id"]
    for column in ("category", "name"):
        assert (events[column].codes >= 0).all(), f"an event without {column}"
    _check_times(tables)

    on_track = np.isin(kinds, (EventType.ASYNC_BEGIN, EventType.ASYNC_INSTANT, EventType.ASYNC_END))
    tracks = np.where(on_track, ids.values.astype(np.uint64), events["thread"])
    order = np.lexsort((events["ticks"], tracks, on_track))
    delta = np.isin(kinds, _BEGINS).astype(np.int64) - np.isin(kinds, _ENDS)
    labels = numbered(on_track, tracks)
    level, partner = _pair(order, delta, labels)
    _check_pairs(events, order, delta[order], partner, ring=ring, open_spans=open_spans, crossed=crossed)
    return Seen(tables, order, level, partner)


def _check_times(tables: dict[str, Table]) -> None:
    events, logs = tables["events"], tables["logs"]
    ticks = np.concatenate([events["ticks"], logs["ticks"]])
    threads = np.concatenate([events["thread"], logs["thread"]])
    order = np.lexsort((ticks, threads))
    same = (np.diff(ticks[order]) == 0) & (np.diff(threads[order]) == 0)
    assert not same.any(), f"{int(same.sum())} events at the tick of their neighbor on the same thread"
    assert (events["thread"] != 0).all()


def numbered(*columns: Array) -> Array:
    """Return a number for each row, the same for equal rows."""
    labels = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        numbers = np.unique(column, return_inverse=True)[1].reshape(-1)
        labels = np.unique(labels * (len(labels) + 1) + numbers, return_inverse=True)[1].reshape(-1)
    return labels


def _pair(order: Array, delta: Array, labels: Array) -> tuple[Array, Array]:
    """Return the level of each event in the order, and the place of its partner."""
    steps, tracks = delta[order], labels[order]
    depth = np.cumsum(steps)
    first = np.flatnonzero(np.diff(tracks, prepend=-1))
    before = np.where(first > 0, depth[first - 1], 0) if len(first) else np.zeros(0, np.int64)
    depth -= np.repeat(before, np.diff(first, append=len(order)))
    level = np.where(steps < 0, depth + 1, depth)

    partner = np.full(len(order), -1, np.int64)
    places = np.flatnonzero(steps)
    places = places[np.lexsort((places, level[places], tracks[places]))]
    same = (np.diff(tracks[places]) == 0) & (np.diff(level[places]) == 0)
    pairs = same & (steps[places[:-1]] > 0) & (steps[places[1:]] < 0)
    partner[places[:-1][pairs]] = places[1:][pairs]
    partner[places[1:][pairs]] = places[:-1][pairs]
    return level, partner


def _check_pairs(events: Table, order: Array, steps: Array, partner: Array, **may: bool) -> None:
    no_begin = np.flatnonzero((partner < 0) & (steps < 0))
    no_end = np.flatnonzero((partner < 0) & (steps > 0))
    assert may["ring"] or not len(no_begin), f"ends without a begin: {_listed(events, order[no_begin])}"
    assert may["open_spans"] or not len(no_end), f"begins without an end: {_listed(events, order[no_end])}"
    begins = np.flatnonzero((partner >= 0) & (steps > 0))
    for column in ("name", "category"):
        codes = events[column].codes[order]
        wrong = begins[codes[begins] != codes[partner[begins]]]
        pairs = f"{_listed(events, order[wrong])}, {_listed(events, order[partner[wrong]])}"
        assert may["crossed"] or not len(wrong), f"ended by others: {pairs}"


def _listed(events: Table, rows: Array) -> str:
    first: Sequence[int] = rows[:5].tolist()
    labels = [f"{events['type'][row]} {events['name'][row]!r} of thread {events['thread'][row]}" for row in first]
    return f"{len(rows)} ({', '.join(labels)} ...)"
