"""The timelines of parts: that of a part is the selection of the whole's, whatever format is cut, and however.

What is expected is computed row by row from the whole tables, and so are two parts after each other, and merged ones.
"""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.exchange import exchanges
from fxtio.exchange.convert import convert, exporters
from fxtio.fxt.frames import BATCH_WORDS
from fxtio.fxt.merge import merge_to
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
from fxtio.timeline.answers import summary
from support.checkout import CORPUS
from support.exchange import Content, weights
from support.fxt_cut import Program, cut
from support.fxt_samples import share

pytestmark = pytest.mark.full

Slices = Counter[tuple[Any, ...]]
FOREVER = 1 << 62


def slices(target: Any, name: str, start: int = 0, end: int = FOREVER) -> Slices:
    """Return the slices of a trace in a range, clipped, with the arguments of each.

    The end of those that are open at the end of the trace is None; those of uftrace end with their task.

    Args:
        target: the trace.
        name: its format.
        start: the start of the range.
        end: the end of the range.
    """
    with fxtio.open_timeline(target, format=name) as timeline:
        tables = timeline.tables("slices", "tracks", "threads", "args")
    tids = [row["tid"] for row in tables["threads"].rows()]
    tracks = [
        (row["kind"], row["name"] if row["thread"] < 0 else tids[row["thread"]]) for row in tables["tracks"].rows()
    ]
    arguments: dict[int, list[str]] = {}
    for row in tables["args"].rows():
        value = repr((row["name"], row["type"], row["bits"], row["text"]))
        arguments.setdefault(row["event"], []).append(value)
    result, rows = Slices(), list(tables["slices"].rows())
    latest = max((row["start"] + row["duration"] for row in rows), default=0)
    for row in rows:
        begin, behind = row["start"], row["start"] + row["duration"]
        is_closed = row["state"] != "open" or behind < latest or name == "uftrace"
        behind = behind if is_closed else FOREVER
        if begin < end and (begin >= start or behind > start):
            last = min(behind, end) if is_closed else None
            values = tuple(sorted(arguments.get(row["event"], []) + arguments.get(row["end_event"], [])))
            result[tracks[row["track"]], row["category"], row["name"], max(begin, start), last, values] += 1
    return result


def points(target: Any, name: str, start: int, end: int) -> tuple[Counter[tuple[Any, ...]], dict[Any, Any], Any]:
    """Return what the timeline of a trace has in a range besides slices.

    Returns:
        The instants and messages; by counter and time its values, at the start the last one from before; by id the
        points of each flow that has several.
    """
    with fxtio.open_timeline(target, format=name) as timeline:
        tables = timeline.tables("instants", "logs", "counters", "flow_points", "tracks")
    tracks = list(tables["tracks"].rows())
    rows = {name: sorted(table.rows(), key=lambda row: row.get("time", 0)) for name, table in tables.items()}
    alone = Counter(
        (name, row["time"], row.get("name"), row.get("scope"), row.get("message"))
        for name in ("instants", "logs")
        for row in rows[name]
        if start <= row["time"] < end
    )
    counters: dict[Any, Any] = {}
    for row in rows["counters"]:
        if row["time"] < end:
            counters.setdefault(tracks[row["track"]]["name"], {})[max(row["time"], start)] = row["value"]
    flows: dict[int, Any] = {}
    for row in rows["flow_points"]:
        if start < row["time"] < end:
            flows.setdefault(row["id"], []).append((row["time"], row["category"], row["name"]))
    return alone, counters, {number: steps for number, steps in flows.items() if len(steps) > 1}


def by_timeline(data: bytes, selection: Selection, folder: Path) -> Path:
    """Return a part of an FXT trace that was written by way of its timeline."""
    with fxtio.open_timeline(data, format="fxt") as timeline, pytest.MonkeyPatch.context() as patch:
        patch.setattr("fxtio.formats.Format.cut", None)
        convert(timeline, folder / "part.fxt", selection=selection)
    return folder / "part.fxt"


@share(2)
@given(seed=st.integers(0, 10**6), middle=st.integers(1, 700))
def test_parts_of_fxt(seed: int, middle: int) -> None:
    data = Program(seed, 40).encoded()
    whole = slices(data, "fxt")
    assert slices(cut(data, Selection(0))[0], "fxt") == whole
    parts = [cut(data, Selection(None, middle))[0], cut(data, Selection(middle))[0]]
    first, second = slices(parts[0], "fxt"), slices(parts[1], "fxt")
    assert first == slices(data, "fxt", 0, middle)
    assert second == slices(data, "fxt", middle)
    out = io.BytesIO()
    merge_to([fxtio.open(part, format="fxt") for part in parts], open_sink(out))
    assert slices(out.getvalue(), "fxt") == first + second


@share(2)
@given(
    seed=st.integers(0, 10**6),
    start=st.integers(0, 400),
    length=st.integers(1, 400),
    words=st.sampled_from([64, BATCH_WORDS]),
)
def test_the_timeline_of_a_part_is_the_selection_of_the_whole(
    seed: int, start: int, length: int, words: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data, end = Program(seed, 40).encoded(), start + length
    expected, others = slices(data, "fxt", start, end), points(data, "fxt", start, end)
    part, _ = cut(data, Selection(start, end), words)
    assert slices(part, "fxt") == expected
    assert points(part, "fxt", start, end + 1) == others
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fxtio.fxt.frames.BATCH_WORDS", words)
        patch.setattr("fxtio.fxt.frames.BATCH_RECORDS", words)
        path = by_timeline(data, Selection(start, end), tmp_path_factory.mktemp("part"))
    assert slices(path, "fxt") == expected
    assert points(path, "fxt", start, end + 1) == others


def whole_of(name: str, folder: Path, seed: int) -> Path:
    """Write a synthetic trace of a format."""
    path = folder / "whole"
    made = name if name in ("uftrace", "mono") else "fxt"
    shape = "program" if seed % 2 else "spans" if made == "uftrace" else "mixed"
    synth.write(path, shape, format=made, events=150, threads=3, seed=seed)
    if made == name:
        return path
    with fxtio.open_timeline(path, format="fxt") as timeline:
        convert(timeline, folder / f"whole.{name}", to=name)
    return folder / f"whole.{name}"


def carried(name: str, rows: Slices) -> Slices:
    """Return what a format tells of slices: uftrace and Mono have only names on threads, uftrace arguments."""
    if name not in ("uftrace", "mono"):
        return rows
    result = Slices()
    for (track, _, text, begin, end, arguments), count in rows.items():
        if track[0] == "thread":
            result[track, None, text, begin, end, arguments if name == "uftrace" else ()] += count
    return result


CUT = ("uftrace", "mono", "chrome", "otlp")
"""The formats whose parts are written by way of the timeline."""

OTHERS = ("fxt", "speedscope", "cpuprofile", "collapsed", "pprof", "perfetto", "csv", "arrow", "parquet")
"""The format that cuts its own traces, formats without threads or times, and those that are only written."""


def test_all_formats_that_can_be_written_as_a_timeline_are_cut() -> None:
    assert sorted(CUT + OTHERS) == sorted(exporters())


@share(4)
@given(seed=st.integers(0, 10**6), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)), name=st.sampled_from(CUT))
def test_the_part_of_any_format(
    seed: int, ends: tuple[float, float], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("part")
    path = whole_of(name, folder, seed)
    with fxtio.open_timeline(path, format=name) as timeline:
        info = summary(timeline)
        assert info.start is not None and info.end is not None
        first, last = sorted(int(info.start + share * (info.end - info.start)) for share in ends)
        convert(timeline, folder / "part", to=name, selection=Selection(first, last + 1))
    expected = carried(name, slices(path, name, first, last + 1))
    assert carried(name, slices(folder / "part", name)) == expected


SAMPLES = [(0, 10 + 5 * number, (f"f{number % 3}", "g"), 5, "ns") for number in range(20)]
"""Samples of one thread, each of which lasts until the next one."""


@pytest.mark.parametrize("name", ["speedscope", "cpuprofile"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_the_part_of_a_profile(name: str, packed: str, tmp_path: Path) -> None:
    whole, part = tmp_path / f"whole.{name}{packed}", tmp_path / f"part.{name}{packed}"
    convert(Content(samples=SAMPLES).timeline(), whole)
    assert main(["slice", str(whole), "-o", str(part), "--from", "20ns", "--until", "60ns"]) == 0
    with fxtio.open_timeline(part) as timeline:
        found = [(row["time"], row["count"]) for row in timeline.table("samples").rows()]
        assert weights(timeline) == weights(Content(samples=SAMPLES[4:12]).timeline())
    # Times are those after the first sample, at 10 ns.
    assert found == [(time, weight) for _, time, _, weight, _ in SAMPLES[4:12]]


@pytest.mark.parametrize("name", [name for name, each in exchanges().items() if each.imports])
def test_each_format_is_cut_or_says_why_not(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is read and written is cut; what has no times, or is only read, is refused with a reason."""
    path, part = tmp_path / f"whole.{name}", tmp_path / f"part.{name}"
    files = {"gecko": "tachyon/work.gecko.json", "tachyon": "tachyon/work.tachyon.jsonl"}
    if exchanges()[name].exports:
        convert(Content(spans=[(0, 10, 50, "a"), (0, 70, 20, "b")]).timeline(), path, to=name)
    else:
        path.write_bytes((CORPUS / files[name]).read_bytes())
    code = main(["slice", str(path), "-o", str(part), "--from", "0%", "--until", "50%", "--format", name])
    said = capsys.readouterr().err
    assert (code == 0) == part.exists()
    assert code == 0 or "has no times" in said or "`fxtio convert` takes the same options" in said
    assert (code == 0) == (exchanges()[name].exports and name not in ("collapsed", "pprof"))
