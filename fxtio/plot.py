"""Pictures of traces by matplotlib, which the extra `plot` installs: counters, threads, durations.

    import fxtio.plot

    trace = fxtio.open("app.fxt")
    fxtio.plot.lanes(trace)
    fxtio.plot.counters(trace, "memory*")
    fxtio.plot.durations(trace, "GET /items")

Each function takes a trace or a timeline, reads it once (or twice if threads or processes are selected), draws to the
axes `ax` or to new ones, and returns them.  Times are seconds since the start of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.arrays import Array
from fxtio.errors import FxtioError
from fxtio.report import printable
from fxtio.selection import EVERYTHING, Selection
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.answers import lanes as lanes_of
from fxtio.timeline.answers import summary
from fxtio.timeline.answers.rows import Chosen, Rows, chosen
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fxtio.timeline.parts import Registry

MAX_LANES = 40
"""The most threads that `lanes` draws: those that do the most."""

MAX_COUNTERS = 12
"""The most counters that `counters` draws: those with the most values."""

_CELLS = 1_000
_LABEL = 40
_SECOND = 1_000_000_000
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


class PlotError(FxtioError, ValueError):
    """An error: matplotlib is missing, or the trace has nothing to draw."""


def counters(trace: Any, *names: str, ax: Axes | None = None, selection: Selection | None = None) -> Axes:
    """Draw the values of counters over time, as steps.

    Args:
        trace: a trace or a timeline.
        names: the names of the counters, or patterns such as `memory*`; all if there are none.
        ax: where to draw.
        selection: the part of the trace.

    Returns:
        The axes, with a line for each counter, at most `MAX_COUNTERS`.

    Raises:
        PlotError: there are no such counters, or matplotlib is missing.
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    timeline, origin = _opened(trace)
    axes = _axes(ax)
    selected, registry = _selected(timeline, "counters", selection or EVERYTHING, "time", "track", "value")
    times, tracks = selected.column("time"), selected.column("track")
    labels, wanted = registry.tables()["tracks"]["name"], Selection(names=names)
    found, numbers = np.unique(tracks, return_counts=True)
    shown = [
        track for track in found[np.argsort(-numbers, kind="stable")].tolist() if wanted.has_name(labels[track] or "")
    ]
    if not shown:
        raise PlotError(f"{timeline.name} has no counters{_of_names(names)}")
    for track in shown[:MAX_COUNTERS]:
        rows = np.flatnonzero(tracks == track)
        rows = rows[np.argsort(times[rows], kind="stable")]
        seconds = (times[rows] - origin) / _SECOND
        axes.step(seconds, selected.column("value")[rows], where="post", label=_label(labels[track] or ""))
    axes.set_xlabel("time in s")
    axes.legend()
    return axes


def lanes(trace: Any, *, ax: Axes | None = None, selection: Selection | None = None) -> Axes:
    """Draw when each thread ran, as a lane of its own: the darker, the more of the time it was in a slice.

    Args:
        trace: a trace or a timeline.
        ax: where to draw.
        selection: the part of the trace.

    Returns:
        The axes, with a lane for each thread, at most `MAX_LANES`.

    Raises:
        PlotError: there are no slices and no samples, or matplotlib is missing.
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    timeline, origin = _opened(trace)
    axes = _axes(ax)
    info = summary(timeline)
    selection = selection or EVERYTHING
    begin = origin if selection.start is None else selection.start
    end = (info.end or origin) + 1 if selection.end is None else selection.end
    end = max(end, begin + 1)
    drawn = lanes_of(timeline, begin, end, min(_CELLS, end - begin), limit=MAX_LANES, selection=selection)
    rows = drawn.rows or drawn.samples
    if not rows:
        raise PlotError(f"{timeline.name} has no slices and no samples to draw")
    bounds = (np.array(drawn.bounds, np.int64) - origin) / _SECOND
    fill = np.array([lane.fill for lane in rows], np.float64)
    axes.pcolormesh(bounds, np.arange(len(rows) + 1), fill, cmap="Blues", vmin=0, vmax=1, rasterized=True)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [_label(lane.label) for lane in rows])
    axes.invert_yaxis()
    axes.set_xlabel("time in s")
    return axes


def durations(
    trace: Any, *names: str, ax: Axes | None = None, bins: int = 50, selection: Selection | None = None
) -> Axes:
    """Draw how long slices took, as a histogram with a logarithmic axis.

    Args:
        trace: a trace or a timeline.
        names: the names of the slices, or patterns such as `GET *`; all if there are none.
        ax: where to draw.
        bins: the number of bars.
        selection: the part of the trace.

    Returns:
        The axes.

    Raises:
        PlotError: there are no such slices, or matplotlib is missing.
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    timeline, _ = _opened(trace)
    axes = _axes(ax)
    if names:
        selection = replace(selection or EVERYTHING, names=names)
    selected, _ = _selected(timeline, "slices", selection or EVERYTHING, "duration")
    values = selected.column("duration")
    if not len(values):
        raise PlotError(f"{timeline.name} has no slices{_of_names(names)}")
    lowest, highest = max(int(values.min()), 1), max(int(values.max()), 1)
    scale, unit = next((each for each in _UNITS if highest >= each[0] * _SECOND), _UNITS[-1])
    edges = np.geomspace(lowest, max(highest, lowest + 1), bins + 1) / (scale * _SECOND)
    axes.hist(
        np.maximum(values, 1) / (scale * _SECOND), bins=edges.tolist(), label=_label(", ".join(names) or "slices")
    )
    axes.set_xscale("log")
    axes.set_xlabel(f"duration in {unit}")
    axes.set_ylabel("slices")
    axes.legend()
    return axes


class _Selected:
    """The selected rows of a table, with some of its columns.

    Args:
        registry: the registry of the reading.
        selection: the selection.
        subset: the tracks that it has, None for all.
        columns: the names of the columns; `duration` is that of the part of a slice within the range.
    """

    def __init__(self, registry: Registry, selection: Selection, subset: Chosen | None, columns: Sequence[str]) -> None:
        self._rows = Rows(registry, selection, subset)
        self._parts: dict[str, list[Array]] = {name: [np.empty(0, np.int64)] for name in columns}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        for table in tables.values():
            selected = self._rows.slices(table) if "duration" in table else self._rows.events(table)
            for name, parts in self._parts.items():
                parts.append(selected[name])

    def column(self, name: str) -> Array:
        """Return a column of all rows."""
        return np.concatenate(self._parts[name])


def _selected(timeline: Timeline, table: str, selection: Selection, *columns: str) -> tuple[_Selected, Registry]:
    """Read columns of the selected rows of a table."""
    subset = chosen(timeline, selection, table)
    return timeline.fold(partial(_Selected, selection=selection, subset=subset, columns=columns), table)


def _opened(trace: Any) -> tuple[Timeline, int]:
    """Return the timeline of a trace, and the time of its start in nanoseconds."""
    timeline = trace if isinstance(trace, Timeline) or not hasattr(trace, "timeline") else trace.timeline()
    check_types(timeline=timeline)
    return timeline, summary(timeline).start or 0


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise PlotError("matplotlib is missing: pip install 'fxtio[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def _of_names(names: tuple[str, ...]) -> str:
    return f" named {' or '.join(names)}" if names else ""


def _label(text: str) -> str:
    """Return a text for a picture: escaped, cut, and without what matplotlib takes for a formula or for hidden."""
    shown = printable(text[: _LABEL + 1])
    shown = shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"
    return f" {shown}".replace("$", r"\$") if shown.startswith("_") else shown.replace("$", r"\$")
