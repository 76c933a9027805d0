"""Charts of counters, of bounded size.

Of many values of a counter, the lowest and the highest of each interval are kept, so that peaks stay.  The intervals
last a power of two of nanoseconds and begin at multiples of it.  So longer intervals consist of shorter ones, and
values that are reduced while the trace is read can be reduced again, as if all had been there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.html.contents import Chart, Section, short
from fxtio.table import Table
from fxtio.timeline.answers.answer import Labels
from fxtio.timeline.parts import Registry

MAX_CHARTS = 24
"""The most charts of a page."""

MAX_POINTS = 2_000
"""The most points of a chart."""

MAX_VALUES = 250_000
"""The most values that are kept while a trace is read; twice as many wait to be reduced."""

_LEAST_POINTS = 4
_MAX_EXACT = 1 << 53
_MAX_NAMED = 20


class CounterPoints:
    """Collects the values of counters."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._counts = np.zeros(0, np.int64)  # by track
        self._is_left_out = np.zeros(0, bool)  # by track: there was no room for all of its values
        self._waiting: list[tuple[Array, Array, Array]] = []  # track, time, value
        self._rows = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the values of a batch."""
        if "counters" not in tables:
            return
        track, time, value = (tables["counters"][name] for name in ("track", "time", "value"))
        missing = int(track.max()) + 1 - len(self._counts)
        if missing > 0:
            room = max(missing, len(self._counts))
            self._counts = np.append(self._counts, np.zeros(room, np.int64))
            self._is_left_out = np.append(self._is_left_out, np.zeros(room, bool))
        np.add.at(self._counts, track, 1)
        rows = np.flatnonzero(np.isfinite(value) & ~self._is_left_out[track])
        self._waiting.append((track[rows], time[rows], value[rows]))
        self._rows += len(rows)
        if self._rows > 2 * MAX_VALUES:
            self._reduce()

    def _reduce(self) -> None:
        """Keep at most `MAX_VALUES`: the extremes of all counters or, if there are too many, of the busiest ones."""
        points = self._by_track()
        points = {track: reduced(*pair, MAX_POINTS) for track, pair in points.items()}
        left = MAX_VALUES
        kept = []
        for track in sorted(points, key=lambda track: -int(self._counts[track])):
            time, value = points[track]
            left -= len(time)
            if left < 0:
                self._is_left_out[track] = True
            else:
                kept.append((np.full(len(time), track, np.int32), time, value))
        self._waiting = kept
        self._rows = sum(len(time) for _, time, _ in kept)

    def _by_track(self) -> dict[int, tuple[Array, Array]]:
        """Return the times and values of each track, in the order of time."""
        if not self._waiting:
            return {}
        track, time, value = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        order = np.lexsort((time, track))
        track, time, value = track[order], time[order], value[order]
        tracks, first = np.unique(track, return_index=True)
        bounds = [*first.tolist(), len(track)]
        return {
            each: (time[begin:end], value[begin:end])
            for each, begin, end in zip(tracks.tolist(), bounds[:-1], bounds[1:], strict=True)
        }

    def section(self, labels: Labels, origin: int, size: int) -> Section | None:
        """Return the section with the charts, None without values.

        Args:
            labels: the texts for tracks and processes.
            origin: the time that is shown as 0, in nanoseconds.
            size: the most bytes of JSON of all charts together.
        """
        points = self._by_track()
        tracks = np.flatnonzero(self._counts).tolist()
        if not tracks:
            return None
        tracks.sort(key=lambda track: -int(self._counts[track]))
        shown = [track for track in tracks if track in points and not self._is_left_out[track]][:MAX_CHARTS]
        charts = [_chart(self._title(track, labels), *points[track], origin, size // len(shown)) for track in shown]
        names = [self._title(track, labels) for track in tracks if track not in shown]
        notes = []
        if names:
            more = f", and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
            notes.append(f"Counters with fewer values are not drawn: {', '.join(names[:_MAX_NAMED])}{more}.")
        if any(len(chart.times) < int(self._counts[track]) for chart, track in zip(charts, shown, strict=True)):
            notes.append("Of counters with many values, the lowest and the highest of each interval are drawn.")
        return Section("Counters over time", charts, notes)

    def _title(self, track: int, labels: Labels) -> str:
        process = self._registry.track_info(track).process
        text = short(labels.track(track))
        several = len(self._registry.process_names()) > 1 and process >= 0
        return f"{text}, {short(labels.process(process))}" if several else text


def _chart(title: str, time: Array, value: Array, origin: int, size: int) -> Chart:
    """Return a chart whose points have at most this number of bytes of JSON."""
    most = MAX_POINTS
    while True:
        kept_time, kept = reduced(time, value, most)
        times = (kept_time - origin).tolist()
        values = [
            int(number) if number.is_integer() and abs(number) < _MAX_EXACT else number for number in kept.tolist()
        ]
        needed = sum(len(str(number)) + 1 for numbers in (times, values) for number in numbers)
        if needed <= size or most <= _LEAST_POINTS:
            return Chart(title, times, [(title, values)])
        most = max(most * size // needed, _LEAST_POINTS)


def reduced(time: Array, value: Array, most: int) -> tuple[Array, Array]:
    """Return the points with the lowest and the highest value of each interval; all if there are at most `most`.

    Args:
        time: the times, ascending (int64).
        value: the value of each.
        most: the most points, at least 4.
    """
    if len(time) <= most:
        return time, value
    buckets = most // 2
    shift = 0
    while int(time[-1] >> shift) - int(time[0] >> shift) >= buckets:
        shift += 1
    bucket = time >> shift
    order = np.lexsort((value, bucket))
    is_last = np.append(bucket[order][1:] != bucket[order][:-1], True)
    lowest, highest = order[np.append(True, is_last[:-1])], order[is_last]
    rows = np.unique(np.concatenate([lowest, highest]))
    return time[rows], value[rows]
