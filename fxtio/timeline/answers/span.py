"""The first and the last time of a timeline, to which times that people write are relative."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.io.reading import TraceInfo
from fxtio.table import Table
from fxtio.timeline.schema import TABLES
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.parts import Registry
    from fxtio.timeline.timeline import Timeline

TIMED = tuple(name for name, columns in TABLES.items() if "time" in columns or "start" in columns)
"""The tables whose rows have times."""

_MAY_BE_UNTIMED = frozenset({"samples", "allocations"})


def summary(timeline: Timeline) -> TraceInfo:
    """Return the summary of a timeline's trace; for an exchange format one of its name, its times, and rows of tables.

    The first use reads the trace once.

    Raises:
        TypeError: it is no timeline.
    """
    check_types(timeline=timeline)
    trace = timeline.trace
    if trace is not None:
        info: TraceInfo = trace.info
        return info
    times, registry = timeline.fold(Times, *TIMED)
    info = TraceInfo(timeline.name, timeline.format, records=times.rows)
    if times.are_known:
        info.start, info.end = times.start, times.end
        info.set_started_at(registry.wall_clock)
    return info


class Times:
    """The first and the last time of a timeline, and the rows of its tables; a consumer of `Timeline.fold`.

    Attributes:
        rows: the number of rows of each table.
        start: the first time, None if there is none.
        end: the last time, None if there is none.
        are_known: whether the timeline is anything but a profile, whose samples are all at 0.
    """

    def __init__(self, registry: Registry) -> None:
        self.rows: Counter[str] = Counter()
        self.start: int | None = None
        self.end: int | None = None
        self.are_known = False

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Look at the times of a batch."""
        for name, table in tables.items():
            self.rows[name] += table.num_rows
            if name not in TIMED:
                continue
            begin = table["time" if "time" in table else "start"]
            end: Any = begin + table["duration"] if "duration" in table else begin
            first, last = int(np.min(begin)), int(np.max(end))
            self.are_known = self.are_known or name not in _MAY_BE_UNTIMED or (first, last) != (0, 0)
            self.start = first if self.start is None else min(self.start, first)
            self.end = last if self.end is None else max(self.end, last)
