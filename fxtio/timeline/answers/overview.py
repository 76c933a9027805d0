"""An overview: the longest slices, the busiest threads, and the times in which nothing ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fxtio.arrays import Array
from fxtio.table import Table
from fxtio.timeline.answers.answer import Answer, Labels, text_of
from fxtio.timeline.answers.top import Weighted
from fxtio.timeline.answers.totals import Totals
from fxtio.timeline.parts import Registry
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.timeline import Timeline

_TABLES = ("slices", "samples", "allocations", "stacks", "frames")

MAX_GAPS = 100_000
"""The most gaps that are kept while a trace is read, the longest ones."""


@dataclass(slots=True)
class Longest:
    """One of the longest slices.

    Attributes:
        name: its name.
        time: its begin, in nanoseconds.
        duration: how long it lasts.
        place: the text for its track.
    """

    name: str
    time: int
    duration: int
    place: str


@dataclass(slots=True)
class Busiest:
    """One of the busiest tracks.

    Attributes:
        place: the text for the track.
        busy: the time in which an outermost slice ran, in nanoseconds.
        slices: the number of its slices.
    """

    place: str
    busy: int
    slices: int


@dataclass(slots=True)
class Overview:
    """An overview of a timeline.

    Attributes:
        longest: the longest slices.
        busiest: the tracks whose outermost slices last longest in sum.
        gaps: the longest times between slices in which no slice of any track ran: begin and duration.
        slices: the number of all slices.
        labels: what tells the trace from others, as texts by name.
        functions: for a trace without slices that has samples or allocations, the functions with most of them.
    """

    longest: list[Longest] = field(default_factory=list)
    busiest: list[Busiest] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    slices: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    functions: Answer | None = None


def overview(timeline: Timeline, limit: int = 5) -> Overview:
    """Return an overview, made in one reading of bounded memory; the longest lists have at most `limit` items.

    Raises:
        TypeError: an argument is of a wrong type.
    """
    check_types(timeline=timeline, most=limit)
    consumer, registry = timeline.fold(partial(_Overview, limit=limit), *_TABLES)
    return consumer.finish(registry)


class _Overview:
    def __init__(self, registry: Registry, *, limit: int) -> None:
        self._limit = limit
        self._longest: list[tuple[int, int, int, int]] = []  # negative duration, begin, name, track
        self._tracks = Totals()
        self._gaps = Gaps()
        self._weighted = [Weighted(what, registry, by="name") for what in ("samples", "allocations")]

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch, or its samples and allocations."""
        if not len(self._tracks):
            for content in self._weighted:
                content.enter(tables)
        if "slices" in tables:
            self._enter(tables["slices"])

    def _enter(self, slices: Table) -> None:
        track, start, duration = slices["track"], slices["start"], slices["duration"]
        first = np.argpartition(-duration, self._limit)[: self._limit] if len(duration) > self._limit else slice(None)
        columns = (-duration[first], start[first], slices["name"].codes[first], track[first])
        self._longest += zip(*(column.tolist() for column in columns), strict=True)
        self._longest = sorted(self._longest)[: self._limit]
        outermost = slices["depth"] == 0
        self._tracks.add(track, {"calls": np.ones(len(track), np.int64), "total": np.where(outermost, duration, 0)})
        self._gaps.enter(start[outermost], start[outermost] + duration[outermost])

    def finish(self, registry: Registry) -> Overview:
        """Return the overview."""
        busy, slices = self._tracks["total"], self._tracks["calls"]
        weighted = [] if len(slices) else [content for content in self._weighted if not content.is_empty]
        functions = weighted[0].answer(registry).first("self", self._limit) if weighted else None
        labels, names = Labels(registry.tables()), registry.names.values
        tracks = np.lexsort((-slices, -busy))[: self._limit]
        return Overview(
            [
                Longest(text_of(names, name), start, -duration, labels.track(track))
                for duration, start, name, track in self._longest
            ],
            [
                Busiest(labels.track(track), int(busy[track]), int(slices[track]))
                for track in tracks.tolist()
                if slices[track]
            ],
            self._gaps.longest(self._limit),
            int(slices.sum()),
            dict(registry.labels),
            functions,
        )


class Gaps:
    """The times between intervals that come in any order."""

    def __init__(self) -> None:
        self._start, self._end = np.empty(0, np.int64), np.empty(0, np.int64)  # disjoint, in order

    def enter(self, start: Array, end: Array) -> None:
        """Take intervals (int64 ns)."""
        start, end = np.concatenate([self._start, start]), np.concatenate([self._end, end])
        if not len(start):
            return
        order = np.argsort(start, kind="stable")
        # `latest` is the end of all intervals so far: one that starts after it is not joined to them.
        start, latest = start[order], np.maximum.accumulate(end[order])
        is_new = np.ones(len(start), bool)
        is_new[1:] = start[1:] > latest[:-1]
        first = np.flatnonzero(is_new)
        start, end = start[first], latest[np.append(first[1:], len(latest)) - 1]
        if len(start) > MAX_GAPS:
            keep = np.zeros(len(start) - 1, bool)
            keep[np.argpartition(end[:-1] - start[1:], MAX_GAPS // 2)[: MAX_GAPS // 2]] = True
            start, end = start[np.append(True, keep)], end[np.append(keep, True)]
        self._start, self._end = start, end

    def longest(self, limit: int) -> list[tuple[int, int]]:
        """Return the start and the duration of the longest gaps, the longest first."""
        begin, length = self._end[:-1], self._start[1:] - self._end[:-1]
        order = np.lexsort((begin, -length))[:limit]
        return list(zip(begin[order].tolist(), length[order].tolist(), strict=True))
