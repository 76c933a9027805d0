"""`fxtio convert --min-duration`, `--max-depth` and `--drop-args`: what is left, across batches and in every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fxtio
from fxtio import open_timeline
from fxtio._native.constants import SpanStep
from fxtio.cli import main
from fxtio.exchange.convert import convert, exporters
from fxtio.exchange.filter import Plan, Simplification
from fxtio.selection import Selection
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.answers.answer import Times
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind

EVERYTHING = Selection()
Span = tuple[int, int, bool]  # begin, end, whether it is a complete event


class Rows:
    """An exporter that keeps the rows of the tables."""

    TABLES: ClassVar[tuple[str, ...]] = ("slices", "opened", "instants", "args")

    def __init__(self) -> None:
        self.losses: Counter[str] = Counter()
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self.TABLES}

    def enter(self, tables: Mapping[str, Table]) -> None:
        for name, table in tables.items():
            self.rows[name] += table.rows()

    def finish(self) -> None:
        pass


def timeline_of(spans: list[Span], instants: list[int], cuts: list[int]) -> Timeline:
    """Return a timeline of one track whose batches end at some steps; each step has an argument."""
    rows: list[tuple[int, int, int, int, int]] = []  # time, order, step, end, key
    for number, (begin, end, is_complete) in enumerate(spans):
        rows.append((begin, -end, SpanStep.COMPLETE if is_complete else SpanStep.BEGIN, end, number + 1))
        if not is_complete:
            rows.append((end, -1000 - begin, SpanStep.END, 0, number + 1))
    rows += [(time, 0, SpanStep.INSTANT, 0, 0) for time in instants]
    rows.sort()
    bounds = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})

    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        track = registry.thread_track(1, 1)
        for low, high in pairwise(bounds):
            steps = Steps.blank(high - low, low)
            time, _, step, end, key = np.array(rows[low:high], np.int64).T
            steps.track[:], steps.time[:], steps.step[:] = track, time, step
            steps.end[:], steps.key[:], steps.name[:] = np.maximum(end, time), key, registry.names.code("s")
            values = {"event": steps.event, "name": registry.names.code("a"), "bits": 0, "text": -1}
            args = registry.columns("args", {**values, "type": ArgumentKind.INTEGER})
            yield TimelinePart(steps, {"args": args})

    return Timeline("t", "test", parts)


def simplified(
    timeline: Timeline, what: Simplification, selection: Selection = EVERYTHING
) -> tuple[dict[str, list[dict[str, Any]]], Counter[str]]:
    passed, _ = Plan(selection, what).fold(timeline, Rows.TABLES, lambda _: Rows(), Times)
    return passed.target.rows, passed.left_out


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.booleans()).map(lambda s: (s[0], s[0] + s[1], s[2])),
    max_size=12,
)


@given(
    spans=SPANS,
    instants=st.lists(st.integers(0, 50), max_size=5),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    min_duration=st.integers(0, 12),
    max_depth=st.none() | st.integers(1, 4),
)
# A slice without an end lasts longer than the one around it.
@example(spans=[(0, 2, False), (0, 3, False), (1, 1, False)], instants=[], cuts=[], min_duration=1, max_depth=None)
def test_what_is_left(
    spans: list[Span], instants: list[int], cuts: list[int], min_duration: int, max_depth: int | None
) -> None:
    timeline = timeline_of(spans, instants, cuts)
    what = Simplification(min_duration, max_depth)
    rows, left_out = simplified(timeline, what)
    whole = timeline.tables("slices", "instants", "args")
    slices = {row["id"]: row for row in whole["slices"].rows()}
    gone: set[int] = set()
    for number, row in sorted(slices.items(), key=lambda item: item[1]["depth"]):
        too_deep = max_depth is not None and row["depth"] >= max_depth
        if row["duration"] < min_duration or too_deep or row["parent"] in gone:
            gone.add(number)
    left = {row["id"]: row for row in rows["slices"]}
    assert left.keys() == slices.keys() - gone
    for number, row in left.items():
        within = sum(slices[each]["duration"] for each in gone if slices[each]["parent"] == number)
        own = min(slices[number]["self_time"] + within, row["duration"])
        assert {**row, "self_time": None} == {**slices[number], "self_time": None}
        if "overlapping" not in {each["state"] for each in slices.values()}:
            assert row["self_time"] == own
    assert not {row["id"] for row in rows["opened"]} & gone
    around = {number: slices[number]["parent"] for number in gone}
    expected = []
    for row in whole["instants"].rows():
        while row["slice"] in around:
            row["slice"] = around[row["slice"]]
        expected.append((row["time"], row["slice"]))
    assert sorted((row["time"], row["slice"]) for row in rows["instants"]) == sorted(expected)
    lost = {slices[number][key] for number in gone for key in ("event", "end_event")} - {-1}
    assert {row["event"] for row in rows["args"]} == set(whole["args"]["event"].tolist()) - lost
    assert sum(count for phrase, count in left_out.items() if phrase.startswith("slices")) == len(gone)
    assert left_out["arguments of slices that are left out"] == len(lost)


@given(
    spans=SPANS,
    instants=st.lists(st.integers(0, 50), max_size=5),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    start=st.integers(0, 50),
    length=st.integers(1, 20),
    min_duration=st.integers(0, 6),
)
def test_batches_make_no_difference_for_a_range(
    spans: list[Span], instants: list[int], cuts: list[int], start: int, length: int, min_duration: int
) -> None:
    what, selection = Simplification(min_duration), Selection(start, start + length)
    whole, _ = simplified(timeline_of(spans, instants, []), what, selection)
    rows, _ = simplified(timeline_of(spans, instants, cuts), what, selection)
    is_clear = "overlapping" not in {row["state"] for row in rows["slices"]}
    for table, order in (("slices", "id"), ("instants", "event"), ("args", "event")):
        for row in (*whole[table], *rows[table]):
            row["self_time"] = row.get("self_time") if is_clear else None
        assert sorted(rows[table], key=itemgetter(order)) == sorted(whole[table], key=itemgetter(order))
    assert {row["id"] for row in rows["opened"]} <= {row["id"] for row in rows["slices"]}


def test_deep_stacks_take_few_rounds() -> None:
    """A round for each level would make a deep trace take hours."""
    depth = 3000
    timeline = timeline_of([(level, 2 * depth - level, True) for level in range(depth)], [depth], [])
    with mock.patch.object(np, "searchsorted", wraps=np.searchsorted) as searches:
        rows, left_out = simplified(timeline, Simplification(max_depth=1))
    assert [row["depth"] for row in rows["slices"]] == [0]
    assert [row["slice"] for row in rows["instants"]] == [rows["slices"][0]["id"]]
    assert left_out["slices with 1 or more around them"] == depth - 1
    assert searches.call_count < 200


def test_numbers_that_make_no_sense() -> None:
    for options in ({"min_duration": -1}, {"max_depth": -1}):
        with pytest.raises(ValueError, match="negative"):
            Simplification(**options)  # type: ignore[arg-type]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace with slices of 50 and 5 us, three levels, and an argument each."""
    with fxtio.create(tmp_path / "in.fxt") as writer:
        thread = writer.thread(1, 2)
        for start in range(0, 1_000_000, 100_000):
            thread.complete("outer", start, start + 50_000, args={"n": start})
            thread.complete("inner", start + 1_000, start + 41_000, args={"n": 1})
            thread.complete("tiny", start + 2_000, start + 7_000, args={"n": 2})
    return tmp_path / "in.fxt"


@pytest.mark.parametrize("to", [name for name in exporters() if name != "arrow"])
def test_every_format(trace: Path, to: str, tmp_path: Path) -> None:
    with open_timeline(trace) as timeline:
        losses = convert(timeline, tmp_path / "out", to=to, simplification=Simplification(10_000, 1, without_args=True))
    assert losses["slices with 1 or more around them"] == 20
    assert "arguments" not in losses
    if to in ("perfetto", "parquet", "csv", "collapsed", "pprof", "cpuprofile"):
        return
    with open_timeline(tmp_path / "out", format=to) as timeline:
        tables = timeline.tables("slices", "args")
    assert Counter(tables["slices"]["name"].tolist()) == {"outer": 10}


def test_the_time_of_stacks_stays(trace: Path, tmp_path: Path) -> None:
    """What is left out is time of the slices around it, so that a flame graph is as wide as before."""
    with open_timeline(trace) as timeline:
        convert(timeline, tmp_path / "out.collapsed", simplification=Simplification(10_000))
    lines = (tmp_path / "out.collapsed").read_text().splitlines()
    assert sorted(line.rpartition(";")[2].split() for line in lines) == [["inner", "400000"], ["outer", "100000"]]


def test_the_command(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.fxt"
    arguments = ["convert", str(trace), str(out), "--min-duration", "10us", "--strict"]
    assert main(arguments) == 0  # what is left out on request is no loss
    assert capsys.readouterr().err == (
        f"fxtio: not written of {trace}:\n"
        "  10: arguments of slices that are left out\n  10: slices shorter than 10.0 us, and those within them\n"
    )
    with open_timeline(out) as timeline:
        tables = timeline.tables("slices", "args")
    assert Counter(tables["slices"]["name"].tolist()) == {"outer": 10, "inner": 10}
    assert tables["args"].num_rows == 20
    assert main([*arguments, "--drop-args", "--from", "220us", "--max-depth", "1"]) == 0
    with open_timeline(out) as timeline:
        tables = timeline.tables("slices", "args")
    assert (tables["slices"].num_rows, tables["args"].num_rows) == (8, 0)
    for wrong in (["--min-duration", "fast"], ["--max-depth", "-1"], ["--max-depth", "0"]):
        with pytest.raises(SystemExit):
            main([*arguments, *wrong])
