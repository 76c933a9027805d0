"""Parts that are cut out of recordings of Mono: what the timeline shows of them, and what Mono's own program counts."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import synth
from fxtio.mono import records as r
from fxtio.mono import rules
from fxtio.mono.cut import cut
from fxtio.mono.cut_state import CounterSums
from fxtio.mono.enums import CounterType, GcEventType, HandleType, MonitorEvent
from fxtio.mono.merge import merge
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from fxtio.selection import Selection, SelectionError
from judges import mono
from support.fxt_samples import share
from support.mono_samples import FILES, HAS_MONO

needs_mono = pytest.mark.skipif(not HAS_MONO and not mono.REQUIRED, reason="needs Debian's mono packages")
OPTIONS: Any = {"size": None, "threads": None, "progress": lambda done, of: None}
CLOSED = ("closed", "thrown")


def make(path: Path, shape: str, events: int = 1_500, seed: int = 3) -> Path:
    synth.write(path, shape, format="mono", events=events, seed=seed)
    return path


def faults(path: Path) -> set[str]:
    """Return the rules that a recording breaks."""
    with MonoTrace(path) as trace:
        rules.check(trace)
        return {*trace.findings.counts}


def part_of(path: Path, selection: Selection, target: Path) -> Path:
    with MonoTrace(path) as trace:
        cut(trace, selection, target)
    return target


def slices(path: Path, start: int = 0, end: int = 1 << 62) -> Counter[tuple[Any, ...]]:
    """Return the slices of a recording in a range, clipped, with the end of those that end."""
    with fxtio.open_timeline(path, format="mono") as timeline:
        tables = timeline.tables("slices", "tracks", "threads")
    threads = [row["tid"] for row in tables["threads"].rows()]
    tracks = [None if row["thread"] < 0 else threads[row["thread"]] for row in tables["tracks"].rows()]
    result = Counter[tuple[Any, ...]]()
    for row in tables["slices"].rows():
        begin, behind = row["start"], row["start"] + row["duration"]
        if begin < end and (begin >= start or behind > start):
            last = min(behind, end) if row["state"] in CLOSED else None
            result[tracks[row["track"]], row["category"], row["name"], max(begin, start), last] += 1
    return result


def points(path: Path, table: str, *columns: str, start: int = 0, end: int = 1 << 62) -> Counter[tuple[Any, ...]]:
    """Return rows of a table with times in a range."""
    with MonoTrace(path) as trace:
        rows = trace.table(table).rows()
        return Counter(tuple(row[column] for column in columns) for row in rows if start <= row["time"] < end)


@pytest.mark.parametrize("shape", ["calls", "mixed", "program", "allocations"])
def test_a_part_shows_what_is_in_the_range(shape: str, tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", shape)
    with MonoTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    draw = random.Random(shape)
    for number in range(4):
        start, end = sorted(draw.sample(range(info.start, info.end), 2))
        part = part_of(path, Selection(start, end), tmp_path / f"part{number}.mlpd")
        assert slices(part) == slices(path, start, end)
        for table, columns in (
            ("allocations", ("time", "object", "size", "class_name", "thread")),
            ("samples", ("time", "interrupted", "thread")),
            ("counter_series", ("time", "name", "integer", "text")),
        ):
            expected = points(path, table, *columns, start=start, end=end)
            # The last values of counters are repeated at the start.
            assert points(part, table, *columns, start=start + 1) == +Counter(
                {row: count for row, count in expected.items() if row[0] > start}
            )
        assert faults(part) <= faults(path)


def test_counters_have_their_last_values_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "whole.mlpd"
    with MonoWriter(path) as writer:
        writer.thread(7, "helper", time=1)
        number = writer.counter("heap", 3, time=1, type=CounterType.LONG, thread=7)
        for time, value in ((10, 100), (20, 70), (30, 90), (40, 20)):
            writer.counters({number: value}, time=time, thread=7)
    part = part_of(path, Selection(25, 35), tmp_path / "part.mlpd")
    assert points(part, "counter_series", "time", "integer") == Counter({(25, 70): 1, (30, 90): 1})


@given(
    kind=st.sampled_from([CounterType.INT, CounterType.UINT, CounterType.LONG, CounterType.ULONG]),
    values=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6),
    split=st.integers(0, 6),
)
def test_changes_of_counters_are_added_up(kind: CounterType, values: list[int], split: int) -> None:
    sums, last = CounterSums(), 0
    for time, value in enumerate(values[:split]):
        bits = 32 if kind in (CounterType.INT, CounterType.UINT) else 64
        change = (value - last) % (1 << bits) if kind in (CounterType.UINT, CounterType.ULONG) else value - last
        sums.add(r.CounterValues(time=time, values=(r.CounterValue(index=1, type=kind, value=change),)), 5)
        last = value
    written = [each.value for event in sums.write(5) for each in event.values]
    assert written == values[:split][-1:]


def test_pairs_that_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "whole.mlpd"
    with MonoWriter(path) as writer:
        for thread in (1, 2):
            writer.thread(thread, f"t{thread}", time=0)
        method = writer.method("A:b ()", time=0, thread=1)
        writer.handle_created(9, 0x80, type=HandleType.NORMAL, time=1, thread=1)
        writer.enter(method, time=2, thread=1)
        writer.monitor(MonitorEvent.CONTENTION, 0x88, time=3, thread=1)
        writer.gc_event(GcEventType.START, 0, time=4, thread=2)
        writer.gc_event(GcEventType.END, 0, time=10, thread=2)
        writer.monitor(MonitorEvent.ACQUIRED, 0x88, time=11, thread=1)
        writer.gc_event(GcEventType.START, 1, time=12, thread=2)
        writer.gc_event(GcEventType.END, 1, time=30, thread=2)
        writer.handle_destroyed(9, type=HandleType.NORMAL, time=31, thread=1)
        writer.leave(method, time=32, thread=1)
    part = part_of(path, Selection(5, 20), tmp_path / "part.mlpd")
    with MonoTrace(part) as trace:
        events = [(entry.thread, entry.time, type(entry.record)) for entry in trace.entries()]
    of_thread = {number: [each[1:] for each in events if each[0] == number] for number in (1, 2)}
    assert [each for each in of_thread[1] if each[1] not in (r.Thread, r.JitMethod)] == [
        (5, r.HandleCreated), (5, r.Call), (5, r.Monitor), (11, r.Monitor), (20, r.Call),
    ]  # fmt: skip
    assert [each for each in of_thread[2] if each[1] is not r.Thread] == [
        (5, r.GcEvent), (10, r.GcEvent), (12, r.GcEvent), (20, r.GcEvent),
    ]  # fmt: skip
    assert not faults(part)


def test_calls_that_are_over_at_the_start_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "whole.mlpd"
    with MonoWriter(path) as writer:
        writer.thread(1, time=0)
        outer, inner = (writer.method(name, time=0, thread=1) for name in ("A:outer ()", "A:inner ()"))
        writer.enter(outer, time=1, thread=1)
        writer.enter(inner, time=2, thread=1)
        writer.leave(inner, time=5, thread=1)
        writer.enter(inner, time=50, thread=1)
    part = part_of(path, Selection(5, 20), tmp_path / "part.mlpd")
    assert slices(part) == slices(path, 5, 20)
    with MonoTrace(part) as trace:
        calls = [(row["time"], row["method_name"]) for row in trace.table("calls").rows()]
    assert calls == [(5, "A:outer ()")]


def test_threads_and_methods(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    with MonoTrace(path) as trace:
        threads = trace.info.threads
        calls = Counter((row["thread"], row["method_name"]) for row in trace.table("calls").rows())
    thread, name = min(thread for thread, _ in calls), min(name for _, name in calls)
    part = part_of(path, Selection(threads=(threads[thread] or str(thread),)), tmp_path / "thread.mlpd")
    with MonoTrace(part) as trace:
        rows = Counter((row["thread"], row["method_name"]) for row in trace.table("calls").rows())
    assert rows == Counter({key: count for key, count in calls.items() if key[0] == thread})
    part = part_of(path, Selection(names=(name,)), tmp_path / "method.mlpd")
    with MonoTrace(part) as trace:
        assert {row["method_name"] for row in trace.table("calls").rows()} == {name}
        assert trace.table("calls").num_rows == sum(count for key, count in calls.items() if key[1] == name)
        assert not trace.table("allocations").num_rows
    part = part_of(path, Selection(names=(f"!{name}",)), tmp_path / "others.mlpd")
    with MonoTrace(part) as trace:
        assert name not in {row["method_name"] for row in trace.table("calls").rows()}
        assert trace.table("allocations").num_rows
    with MonoTrace(path) as trace, pytest.raises(SelectionError, match="processes cannot be selected"):
        cut(trace, Selection(processes=("1",)), tmp_path / "none.mlpd")
    assert not (tmp_path / "none.mlpd").exists()


@share(6)
@given(seed=st.integers(0, 10**6), share_of=st.floats(0.01, 0.99), shape=st.sampled_from(["calls", "mixed", "program"]))
def test_two_parts_are_the_whole(
    seed: int, share_of: float, shape: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    path = make(folder / "whole.mlpd", shape, events=150, seed=seed)
    with MonoTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    everything = part_of(path, Selection(info.start, info.end + 1), folder / "all.mlpd")
    assert slices(everything) == slices(path)
    middle = info.start + max(int((info.end - info.start) * share_of), 1)
    parts = [
        part_of(path, selection, folder / f"{number}.mlpd")
        for number, selection in enumerate((Selection(None, middle), Selection(middle, None)))
    ]
    assert slices(parts[0]) == slices(path, 0, middle)
    assert slices(parts[1]) == slices(path, middle)
    with MonoTrace(parts[0]) as one, MonoTrace(parts[1]) as other:
        merge([one, other], folder / "merged.mlpd")
    assert slices(folder / "merged.mlpd") == slices(parts[0]) + slices(parts[1])


def test_recordings_of_all_versions(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "everything", events=2_000)
    with MonoTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    third = (info.end - info.start) // 3
    part = part_of(path, Selection(info.start + third, info.end - third), tmp_path / "part.mlpd")
    assert faults(part) <= faults(path)
    with MonoTrace(part) as trace:
        assert trace.info.recordings == info.recordings


@pytest.mark.full
@needs_mono
@pytest.mark.once
def test_mono_reads_parts(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    with MonoTrace(path) as trace:
        info = trace.info
    assert info.start is not None and info.end is not None
    third = (info.end - info.start) // 3
    part = part_of(path, Selection(info.start + third, info.end - third), tmp_path / "part.mlpd")
    text = mono.report(part, "--debug", "--reports=stats")
    with MonoTrace(part) as trace:
        assert mono.stats_of(text) == mono.our_stats(trace)
        assert mono.debug_of(text) == list(mono.Lines(trace).all())
    assert "unmatched leave" not in text


@pytest.mark.parametrize("sample", [path for path in FILES if "cov" not in path.name], ids=lambda path: path.name)
def test_recordings_of_mono(sample: Path, tmp_path: Path) -> None:
    with MonoTrace(sample) as trace:
        info = trace.info
    if info.start is None or info.end is None or info.end - info.start < 3:
        return
    third = (info.end - info.start) // 3
    for number, selection in enumerate(
        (Selection(info.start, info.end + 1), Selection(info.start + third, info.end - third))
    ):
        part = part_of(sample, selection, tmp_path / f"{number}.mlpd")
        assert faults(part) <= faults(sample)
        assert slices(part) == slices(sample, selection.start or 0, selection.end or 0)


def test_a_part_of_everything_is_the_same_file(tmp_path: Path) -> None:
    path = make(tmp_path / "whole.mlpd", "mixed")
    part = part_of(path, Selection(0), tmp_path / "part.mlpd")
    assert part.read_bytes() == path.read_bytes()


def test_a_start_behind_all_times(tmp_path: Path) -> None:
    path = make(tmp_path / "t.mlpd", "calls", 100)
    target = part_of(path, Selection(start=1 << 70), tmp_path / "part.mlpd")
    assert not points(target, "calls", "method")
    assert not faults(target)
    late = tmp_path / "late.mlpd"
    with MonoWriter(late) as writer:
        for time in (1, (1 << 64) - 1):
            writer.put(r.GcResize(time=time, size=8))
    cut(MonoTrace(late), Selection(start=1 << 70), tmp_path / "last.mlpd")
