"""Choose what the Perfetto UI shows first: a slice or an instant, which is selected, and its surroundings.

The UI takes this from parameters of its address (https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui).
It finds the slice by its begin and duration, scrolls to it, and expands the tracks around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio._native.constants import SliceState
from fxtio.errors import FxtioError, shown
from fxtio.selection import is_selected
from fxtio.timeline.answers.rows import Chosen, Rows, Texts, chosen

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.table import Table
    from fxtio.timeline import Timeline
    from fxtio.timeline.parts import Registry

_MARGIN = 3
"""How many times the duration of the slice is shown before it, and after it."""

_MIN_MARGIN_NS = 1_000
_PLAIN = {"hideSidebar": "true"}
_EXPAND = {"id": "dev.perfetto.ExpandTracksByRegex", "args": ["."]}
_NAMES = ("slices", "instants")
_LATEST = 2**63 - 1


class NothingToSelectError(FxtioError):
    """An error: the trace has no slice and no instant of this name."""


@dataclass(frozen=True, slots=True)
class Place:
    """A slice or an instant of a trace.

    Attributes:
        name: its name.
        start: its begin in nanoseconds.
        duration: its duration in nanoseconds.
        is_open: whether it has no end.
        bounds: the times of the first and of the last slice or instant of the trace.
    """

    name: str
    start: int
    duration: int
    is_open: bool
    bounds: tuple[int, int]

    def parameters(self) -> dict[str, str]:
        """Return the parameters of the UI that select it."""
        margin = max(self.duration * _MARGIN, _MIN_MARGIN_NS)
        begin, end = max(self.start - margin, self.bounds[0]), min(self.start + self.duration + margin, self.bounds[1])
        visible = {"visStart": str(begin), "visEnd": str(end)} if begin < end else {}
        duration = {} if self.is_open else {"dur": str(self.duration)}  # the UI has no duration for it
        return {**_PLAIN, "ts": str(self.start), **duration, **visible}


def everything() -> dict[str, str]:
    """Return the parameters of the UI that show all tracks, expanded."""
    return {**_PLAIN, "startupCommands": json.dumps([_EXPAND])}


def find(timeline: Timeline, pattern: str, at: int | None, selection: Selection) -> Place:
    """Find a slice or an instant by its name, in one reading.

    Args:
        timeline: the trace.
        pattern: its name, or a pattern of it.
        at: a time in nanoseconds within it; of several, the one that begins last is taken.  None for the longest one.
        selection: the part of the trace that is shown; what begins before it, or ends after it, is cut to it.

    Raises:
        NothingToSelectError: there is none.
    """
    subset = chosen(timeline, selection, *_NAMES)
    search, _ = timeline.fold(partial(_Search, pattern=pattern, at=at, selection=selection, subset=subset), *_NAMES)
    if search.best is None or search.bounds is None:
        when = "" if at is None else " at this time"
        raise NothingToSelectError(f"{timeline.name} shows no slice and no instant {shown(pattern)}{when}")
    return Place(*search.best, search.bounds)


class _Search:
    """Finds the slice, and the times of the first and the last one."""

    def __init__(
        self, registry: Registry, *, pattern: str, at: int | None, selection: Selection, subset: Chosen | None
    ) -> None:
        self._rows = Rows(registry, selection, subset)
        self._texts = Texts(registry.names.values, lambda text: is_selected((pattern,), text), null=False)
        self._at = at
        self._rank: tuple[int, int] | None = None
        self.best: tuple[str, int, int, bool] | None = None
        self.bounds: tuple[int, int] | None = None

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Look at a batch."""
        if "slices" in tables:
            slices = self._rows.intervals(tables["slices"])
            self._search(slices, slices["start"], slices["duration"])
        if "instants" in tables:
            instants = self._rows.events(tables["instants"])
            self._search(instants, instants["time"], np.zeros(len(instants["time"]), np.int64))

    def _search(self, table: Table, start: Any, duration: Any) -> None:
        if not len(start):
            return
        end = start + duration
        first, last = self.bounds or (_LATEST, -_LATEST)
        self.bounds = min(first, int(start.min())), max(last, int(end.max()))
        matches = self._texts.has(table["name"].codes)
        if self._at is not None:
            matches &= (start <= self._at) & ((self._at < end) | (self._at == start))
        rows = np.flatnonzero(matches)
        if not len(rows):
            return
        major, minor = (duration, -start) if self._at is None else (start, duration)
        row = int(rows[np.lexsort((minor[rows], major[rows]))[-1]])
        rank = int(major[row]), int(minor[row])
        if self._rank is None or rank > self._rank:
            is_open = "state" in table and int(table["state"].codes[row]) == SliceState.OPEN
            self._rank, self.best = rank, (table["name"][row], int(start[row]), int(duration[row]), is_open)
