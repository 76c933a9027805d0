"""The timelines of parts: of a part with everything, of two parts behind each other, and of parts that are merged."""

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
from fxtio.fxt.frames import BATCH_WORDS
from fxtio.fxt.merge import merge_to
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
from fxtio.uftrace import UftraceTrace
from fxtio.uftrace.cut import cut as cut_directory
from fxtio.uftrace.merge import merge as merge_directories
from support.fxt_cut import Program, cut
from support.fxt_samples import share

pytestmark = pytest.mark.full

Slices = Counter[tuple[Any, ...]]


def slices(target: Any, name: str, start: int = 0, end: int = 1 << 62) -> Slices:
    """Return the slices of a trace in a range, clipped, with the arguments of each; those without an end have none."""
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
    result = Slices()
    for row in tables["slices"].rows():
        begin = row["start"]
        behind = begin + row["duration"] if row["state"] == "closed" else 1 << 62
        if begin < end and (begin >= start or behind > start):
            last = min(behind, end) if row["state"] == "closed" else None
            values = tuple(sorted(arguments.get(row["event"], []) + arguments.get(row["end_event"], [])))
            result[tracks[row["track"]], row["category"], row["name"], max(begin, start), last, values] += 1
    return result


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


def points(target: bytes, start: int, end: int) -> tuple[Counter[tuple[Any, ...]], dict[Any, Any], dict[int, Any]]:
    """Return what the timeline of an FXT trace has in a range besides slices.

    Returns:
        The instants and messages; by counter and time its values, at the start the last one from before; by id the
        points of each flow that has several.
    """
    with fxtio.open_timeline(target, format="fxt") as timeline:
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


@share(2)
@given(
    seed=st.integers(0, 10**6),
    start=st.integers(0, 400),
    length=st.integers(1, 400),
    words=st.sampled_from([64, BATCH_WORDS]),
)
def test_the_timeline_of_a_part_is_the_selection_of_the_whole(seed: int, start: int, length: int, words: int) -> None:
    data, end = Program(seed, 40).encoded(), start + length
    part, _ = cut(data, Selection(start, end), words)
    assert slices(part, "fxt") == slices(data, "fxt", start, end)
    assert points(part, start, end + 1) == points(data, start, end)


@share(2)
@given(seed=st.integers(0, 10**6), number=st.sampled_from("0123456789"))
def test_threads_of_fxt_that_are_merged_are_the_whole(seed: int, number: str) -> None:
    data = Program(seed, 40).encoded()
    patterns = (f"*{number}", f"!*{number}")
    parts = [cut(data, Selection(threads=(pattern,)))[0] for pattern in patterns]
    out = io.BytesIO()
    merge_to([fxtio.open(part, format="fxt") for part in parts], open_sink(out))
    assert slices(out.getvalue(), "fxt") == slices(data, "fxt")


def of_functions(all_slices: Slices) -> Slices:
    """Return the slices without those of the kernel, which are not clipped: they are in a part wholly or not at all."""
    return Slices({row: count for row, count in all_slices.items() if row[1] not in ("kernel", "sched")})


@share(6)
@given(seed=st.integers(0, 10**6), share_of=st.floats(0.01, 0.99), shape=st.sampled_from(["calls", "program"]))
def test_parts_of_uftrace(seed: int, share_of: float, shape: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("parts")
    synth.write(folder / "whole", shape, format="uftrace", events=60, threads=3, seed=seed)

    def part(name: str, selection: Selection) -> Path:
        with UftraceTrace(folder / "whole") as trace:
            cut_directory(trace, selection, folder / name)
        return folder / name

    with UftraceTrace(folder / "whole") as trace:
        info, tids = trace.info, [str(tid) for tid in trace.tids]
    assert info.start is not None and info.end is not None
    whole = slices(folder / "whole", "uftrace")
    assert slices(part("all", Selection(0)), "uftrace") == whole
    middle = info.start + max(int((info.end - info.start) * share_of), 1)
    for name, selection in (("first", Selection(None, middle)), ("second", Selection(middle))):
        expected = slices(folder / "whole", "uftrace", selection.start or 0, selection.end or 1 << 62)
        assert of_functions(slices(part(name, selection), "uftrace")) == of_functions(expected)
    one, others = part("one", Selection(threads=(tids[0],))), part("others", Selection(threads=(f"!{tids[0]}",)))
    merge_directories([UftraceTrace(one), UftraceTrace(others)], folder / "merged")
    assert slices(folder / "merged", "uftrace") == whole
