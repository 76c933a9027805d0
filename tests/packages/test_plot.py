"""Tests of the pictures that matplotlib draws of traces."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio import plot
from fxtio.selection import Selection

matplotlib = pytest.importorskip(
    "matplotlib", reason="matplotlib is installed for CPython up to 3.13 only, see the extra `test`"
)

# The first picture of all has matplotlib look for fonts, by a program.
pytestmark = [pytest.mark.full, pytest.mark.once]

SECOND = 1_000_000_000
START = 5 * SECOND


@pytest.fixture(autouse=True)
def _without_windows() -> Iterator[None]:
    from matplotlib import pyplot as plt

    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    path = tmp_path / "a.fxt"
    with fxtio.create(path) as writer:
        first, second = (writer.thread(1, tid, f"thread {tid}", "app") for tid in (2, 3))
        for number in range(10):
            first.complete("work", START + number * SECOND, START + number * SECOND + (number + 1) * 1_000_000)
            first.counter("memory", START + number * SECOND, {"used": 100 + number})
        second.complete("wait", START, START + 5 * SECOND)
        second.counter("$load_", START, {"_x$y": 1.5})
        second.counter("$load_", START + SECOND, {"_x$y": 2.5})
    return fxtio.open(path)


def test_counters(trace: Any) -> None:
    axes = plot.counters(trace)
    lines = {line.get_label(): line for line in axes.get_lines()}
    (memory,) = (line for label, line in lines.items() if "memory" in str(label))
    assert np.asarray(memory.get_xdata()).tolist() == list(range(10))
    assert np.asarray(memory.get_ydata()).tolist() == list(range(100, 110))
    assert len(lines) == 2
    axes.figure.canvas.draw()


def test_counters_by_name_in_given_axes(trace: Any) -> None:
    from matplotlib import pyplot as plt

    _, axes = plt.subplots()
    assert plot.counters(trace.timeline(), "mem*", ax=axes) is axes
    assert len(axes.get_lines()) == 1
    assert plot.counters(trace, "mem*", ax=axes, selection=Selection(start=START + 8 * SECOND)) is axes
    assert np.asarray(axes.get_lines()[1].get_xdata()).tolist() == [8, 9]


def test_lanes(trace: Any) -> None:
    axes = plot.lanes(trace)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [sum(f"thread {tid}" in label for label in labels) for tid in (2, 3)] == [1, 1]
    (mesh,) = axes.collections
    fill = np.asarray(mesh.get_array())
    waits = fill[next(number for number, label in enumerate(labels) if "thread 3" in label)]
    left, right = axes.get_xlim()
    edges = np.linspace(left, right, waits.size + 1)[:-1]
    assert waits[edges < 4.9].min() == pytest.approx(1)
    assert waits[edges > 5.1].max() == 0


def test_lanes_of_a_range_and_a_thread(trace: Any) -> None:
    axes = plot.lanes(trace, selection=Selection(START + SECOND, START + 2 * SECOND, threads=("thread 2",)))
    assert len(axes.get_yticklabels()) == 1
    assert axes.get_xlim() == pytest.approx((1, 2))


def bars(axes: Any) -> list[Any]:
    """Return the bars of a histogram."""
    return list(axes.patches)


def test_durations(trace: Any) -> None:
    axes = plot.durations(trace, "work", bins=9)
    assert axes.get_xlabel() == "duration in ms"
    assert sum(bar.get_height() for bar in bars(axes)) == 10
    assert bars(axes)[0].get_x() == pytest.approx(1)
    whole = plot.durations(trace)
    assert whole.get_xlabel() == "duration in s"
    assert sum(bar.get_height() for bar in bars(whole)) == 11


def test_nothing_to_draw(trace: Any, tmp_path: Path) -> None:
    with pytest.raises(plot.PlotError, match="has no slices named nothing or none"):
        plot.durations(trace, "nothing", "none")
    with pytest.raises(plot.PlotError, match="has no counters named x"):
        plot.counters(trace, "x")
    with fxtio.create(tmp_path / "empty.fxt"):
        pass
    empty = fxtio.open(tmp_path / "empty.fxt")
    for draw in (plot.counters, plot.durations, plot.lanes):
        with pytest.raises(plot.PlotError, match=r"empty\.fxt has no"):
            draw(empty)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    with fxtio.create(path) as writer:
        for tid, name in enumerate(["$\\frac{", "_", "\x00\u202e", "a" * 30_000, "日本"], 2):
            thread = writer.thread(1, tid, name)
            thread.complete(name, 0, 5)
            thread.counter(name, 1, {name: tid})
    trace = fxtio.open(path)
    for draw in (plot.counters, plot.durations, plot.lanes):
        draw(trace).figure.canvas.draw()


def test_matplotlib_is_missing(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plot.PlotError, match=r"pip install 'fxtio\[plot\]'"):
        plot.lanes(trace)
