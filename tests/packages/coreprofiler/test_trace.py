"""Whole CoreProfiler traces: stacks against the truth, styles, tables, times, and rules about several records."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.record import Opaque
from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter, frames, report, state
from fxtio.coreprofiler import layout as lay
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.consistency import Rules, Timeline
from fxtio.coreprofiler.frames import Block
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, DIALECTS, OsThread
from fxtio.errors import EncodeError, FormatError
from fxtio.finding import Findings
from fxtio.validate import validate
from oracle import coreprofiler as oracle
from support import coreprofiler as support
from support.simulator import SHAPES

STYLES = pytest.mark.parametrize("style", DIALECTS)


@pytest.mark.full
@given(
    style=st.sampled_from(list(DIALECTS)),
    shape=st.sampled_from(list(SHAPES)),
    seed=st.integers(0, 2**32),
    lines=st.booleans(),
    threads=st.integers(1, 4),
)
def test_every_stack_is_right(style: str, shape: str, seed: int, lines: bool, threads: int) -> None:
    data, records, truth = support.simulated(seed, shape=shape, style=style, lines=lines, threads=threads, steps=120)
    trace = CoreProfilerTrace(data)
    assert list(trace) == records
    samples = list(trace.samples())
    assert len(samples) == len(truth)
    for sample, true in zip(samples, truth, strict=True):
        assert (sample.thread, sample.time, sample.ticks) == (true.thread, true.time, true.ticks)
        assert (sample.stack, sample.matched, sample.allocated) == (true.stack, true.matched, true.allocated)
        assert sample.complete
    _ = trace.info
    assert set(trace.findings.counts) <= {"coreprofiler.source.windows-lines"}
    assert not any(isinstance(record, Opaque) for record in trace.records(resolve=False))
    assert support.written(trace.records(resolve=False), trace.style) == data


@given(seed=st.integers(0, 2**32), lines=st.booleans())
def test_the_oracle_sees_the_same_stacks(seed: int, lines: bool) -> None:
    data, _, truth = support.simulated(seed, shape="mixed", lines=lines, threads=2)
    true = [
        (sample.thread, sample.ticks, [(frame.function_iid, frame.ip) for frame in sample.stack])
        for sample in truth
        if not sample.allocated
    ]
    assert oracle.stacks(data.decode().splitlines()) == true


def test_a_frame_that_was_entered_again_does_not_match() -> None:
    """A frame that was left and entered again is a new activation, although nothing looks different."""
    frames = (r.Frame(2), r.Frame(3))
    trace = CoreProfilerTrace(
        support.written([r.StackSample(0, 0, 1, 0, 0, None, frames), r.StackSample(0, 1, 1, 1, 2, None, frames[1:])])
    )
    first, second = trace.samples()
    assert first.stack == second.stack
    assert (first.matched, second.matched) == (0, 1)


def findings(*records: Any, style: str = "D2") -> list[str]:
    data = support.written([*DEFINED, *records], style)
    trace = CoreProfilerTrace(data)
    start = len(support.written(DEFINED, style))
    _ = trace.info
    assert all(
        finding.offset >= start or finding.rule == "coreprofiler.source.windows-lines" for finding in trace.findings
    )
    return sorted(trace.findings.counts.elements())


DEFINED = [
    r.ProfilerStart(datetime(2018, 1, 1)),  # noqa: DTZ001
    r.ThreadCreated(0x10, 0),
    *(r.FunctionName(iid, f"synthetic {iid}", "", "") for iid in range(4)),
    *(r.ClassName(iid, f"synthetic {iid}") for iid in range(2)),
]
SAMPLE = r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(1), r.Frame(2)))
FLAGS = (True, False, False, False)
OPEN = ["time.interval-open"] * 2


@pytest.mark.parametrize(
    ("records", "rules"),
    [
        ([SAMPLE], []),
        ([SAMPLE, r.StackSample(0, 5, 1, 3, 2)], ["stack.match-beyond-size"]),
        ([SAMPLE, r.StackSample(0, 5, 1, 1, 3)], ["stack.size"]),
        ([SAMPLE, *(r.StackSample(0, 5, 1, match, size) for match, size in ((1, 3), (0, 9), (0, 0)))], ["stack.size"]),
        ([r.StackSample(0, 5, 1, 0, 0, 7)], ["stack.ip-without-frame"]),
        ([SAMPLE, r.StackSample(0, 4, 1, 2, 2)], ["time.backwards"]),
        ([SAMPLE, r.ThreadDestroyed(0), r.StackSample(0, 6, 1, 0, 0)], ["thread.gone"]),
        ([r.ThreadCreated(0x20, 0)], ["thread.again"]),
        ([r.ProfilerStart(datetime(2018, 1, 1))], ["profiling.start-again"]),  # noqa: DTZ001
        ([r.GcStarted(0, 1, "?", FLAGS[:3]), r.GcFinished(0, 2)], ["gc.generations"]),
        ([r.GcStarted(0, 1, "?", FLAGS), r.GcStarted(0, 1, "?", FLAGS)], ["gc.pairs", *OPEN]),
        ([r.GcFinished(0, 1)], ["gc.pairs"]),
        ([r.GcStarted(0, 2, "?", FLAGS), r.GcFinished(0, 1)], ["time.interval-negative"]),
        ([r.ProfilerPaused(2), r.ProfilerResumed(1)], ["time.interval-negative"]),
        ([r.JitFinished(0, 1, 5, 0)], ["jit.pairs"]),
        ([r.JitStarted(0, 1, 5), r.JitStarted(0, 1, 6), r.JitFinished(0, 1, 6, 0), r.JitFinished(0, 1, 5, 0)], []),
        ([r.JitStarted(0, 1, 5), r.JitStarted(OsThread(9), 1, 6)], ["thread.style", *OPEN]),
        ([r.ProfilerResumed(1)], ["profiling.pause-pairs"]),
        ([r.ProfilerPaused(1), r.ProfilerPaused(2)], ["profiling.pause-pairs"]),
        ([r.ThreadCpu(0, 85403, 2**64 - 30)], ["thread.usage-negative"]),
        ([r.ProcessCpu(-5, 1)], ["time.negative"]),
        ([r.StackSample(7, 5, 1, 0, 0)], ["id.undefined"]),
        ([r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(9),))], ["id.name-missing", "id.undefined"]),
        ([r.FunctionInfo(9, 1, 1, 1, 1), r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(9),))], ["id.name-missing"]),
        ([r.MemorySample(0, 5, (r.AllocItem(1, 0, 0),))], ["allocation.empty"]),
        ([r.ProfilerConfig("StackTrackingEnabled", "T"), r.MemorySample(0, 5)], ["allocation.place"]),
    ],
)  # fmt: skip
def test_rules(records: list[Any], rules: list[str]) -> None:
    assert findings(*records) == [f"coreprofiler.{rule}" for rule in rules]


def test_rules_of_lines() -> None:
    assert findings(style="D4") == ["coreprofiler.source.windows-lines"]
    good = support.written(DEFINED)
    for data, rules in (
        (good + b"prf cfg a nul \0\r\nprf cfg b \rx\n", {"coreprofiler.line.bytes"}),
        (good.replace(b"\n", b"\r\n"), set()),
        (good + b"sam str 0x0 5 1 0:0", {"coreprofiler.line.no-end"}),
        (good + b"abc def\n\n", {"coreprofiler.line.unknown"}),
        (good + b"thr crt 0x00000001 0x00000009\n", {"coreprofiler.line.pointer-width"}),
        (good + b'cls nam 0x1 "torn', {"coreprofiler.line.open-quote", "coreprofiler.line.no-end"}),
    ):
        trace = CoreProfilerTrace(data)
        list(trace)
        assert set(trace.findings.counts) == rules


@given(data=support.simulated_traces() | support.damaged(), block=st.sampled_from([300, 1 << 21]))
def test_tables_have_whole_stacks(data: bytes, block: int) -> None:
    trace = CoreProfilerTrace(data)
    samples = list(trace.samples())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "BLOCK", block)
        tables = trace.tables("sample_stacks", "stacks", "samples", "memory_samples")
        rows = support.whole_stacks(tables["sample_stacks"], tables["stacks"])
        batches = [support.whole_stacks(batch["sample_stacks"], batch["stacks"]) for batch in trace.batches(*tables)]
    assert len(rows) == len(samples) == sum(map(len, batches))
    for rows_of_samples in (rows, [row for batch in batches for row in batch]):
        support.compare_stacks(samples, rows_of_samples)
    for name, column in (("samples", "sample"), ("memory_samples", "memory_sample")):
        of_class = [row for row in rows if row[column] >= 0]
        assert [row[column] for row in of_class] == list(range(tables[name].num_rows))
        assert [row["offset"] for row in of_class] == tables[name]["offset"].tolist()
    callers: dict[tuple[int, Any], int] = {}  # the number of each distinct stack, by that of its caller and its frame
    for row in rows:
        stack = -1
        for frame in row["stack"]:
            stack = callers.setdefault((stack, frame), len(callers))
    assert tables["stacks"].num_rows >= len(callers)


def test_lost_lines_leave_unknown_frames() -> None:
    records = [r.StackSample(0, 5, 1, 2, 2, None, (r.Frame(3),)), r.StackSample(0, 6, 1, 0, 3, None, (r.Frame(1),))]
    first, second = CoreProfilerTrace(support.written(records)).samples()
    assert [frame.function_iid for frame in first.stack] == [None, None, 3]
    assert (first.complete, second.complete) == (False, True)
    assert [frame.function_iid for frame in second.stack] == [1]


def test_hostile_stacks_cost_little() -> None:
    """The number of unknown frames is limited, whatever the samples of all threads ask for."""
    huge = [r.StackSample(iid, 5, 1, 2**62, 2**62) for iid in range(100)]
    depths = [len(sample.stack) for sample in CoreProfilerTrace(support.written(huge)).samples()]
    assert max(depths) == state.MAX_DEPTH
    assert sum(depths) == state.MAX_LOST
    deep = r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(1),) * (state.MAX_DEPTH + 1))
    trace = CoreProfilerTrace(support.written([deep, SAMPLE]))
    assert [len(sample.stack) for sample in trace.samples()] == [0, 2]
    assert list(trace.findings.counts) == ["coreprofiler.stack.too-deep"]


def test_all_stacks_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.coreprofiler.state.MAX_FRAMES", 10)
    monkeypatch.setattr("fxtio.coreprofiler.state.MAX_THREADS", 3)
    frames = (r.Frame(1),) * 4
    records: list[Any] = [r.StackSample(thread, 5, 1, 0, 0, None, frames) for thread in range(5)]
    records += [r.ThreadDestroyed(0), r.StackSample(2, 6, 1, 0, 0, None, frames)]
    trace = CoreProfilerTrace(support.written(records))
    # The third stack is too much, until the first one ends; the stacks of further threads are not stored.
    assert [len(sample.stack) for sample in trace.samples()] == [4, 4, 0, 4, 4, 4]
    assert trace.findings.counts["coreprofiler.stack.too-deep"] == 1


def test_pauses_are_paired_beside_any_number_of_open_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_OPEN", 3)
    records: list[Any] = [r.JitStarted(1, 1, number) for number in range(5)]
    for time in (2, 4, 6):
        records += [r.ProfilerPaused(time), r.ProfilerResumed(time + 1)]
    trace = CoreProfilerTrace(support.written([*records, r.ProfilerResumed(8)]))
    assert trace.info.timeline.counts["pause"] == 3
    assert trace.findings.counts["coreprofiler.profiling.pause-pairs"] == 1


def test_hostile_intervals_and_threads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_OPEN", 10)
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_IDS", 5)
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_PARAMETERS", 5)
    monkeypatch.setattr("fxtio.coreprofiler.state.MAX_THREADS", 5)
    records: list[Any] = []
    for number in range(20):
        records += [r.JitStarted(number, 1, 5), r.ThreadCreated(16, number), r.ProfilerConfig(f"name{number}", "x")]
        records += [r.ThreadCpu(number, 1, 1), r.StackSample(number, 1, 1, 0, 0, None, (r.Frame(number),))]
    records += [r.JitFinished(number, 2, 5, 0) for number in range(20)]
    trace = CoreProfilerTrace(support.written(records))
    info = trace.info
    assert (len(info.threads), len(info.config), info.timeline.counts["jit"]) == (5, 5, 10)
    assert trace.findings.counts["coreprofiler.jit.pairs"] == 10
    assert [len(sample.stack) for sample in trace.samples()] == [1] * 20


def test_hostile_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_PARAMETER_SIZE", 10)
    monkeypatch.setattr(report, "MAX_TEXT", 10)
    records: list[Any] = [r.ProfilerConfig("long", value) for value in ("1234567", "7654321")]
    records += [r.ProfilerConfig("short", "12345")]
    records += [r.FunctionName(iid, "name", "", "") for iid in range(3)]
    records += [r.StackSample(0, 5, 1, 0, 0, None, (r.Frame(0), r.Frame(2)))]
    trace = CoreProfilerTrace(support.written(records))
    assert trace.info.config == {"short": "12345"}
    assert {row[-1] for row in report.stats(trace, 5).tables[0].rows} == {"name", "function 0x2"}
    assert "coreprofiler.profiling.config-again" not in validate(support.written(records)).counts


def test_counts_of_functions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_NAMES", 2)
    records = [r.StackSample(iid, 5, 1, 0, 0, None, (r.Frame(iid),)) for iid in range(5)]
    rows = report.stats(CoreProfilerTrace(support.written(records)), 9).tables[0].rows
    assert sorted((row[2], row[-1]) for row in rows) == [(1, "function 0x0"), (1, "function 0x1"), (3, "(no stack)")]


def test_where_stacks_are_tracked_is_not_stored_twice() -> None:
    findings = Findings("coreprofiler")
    checks = Rules(findings, Timeline())
    tracked = support.written([r.ProfilerConfig("StackTrackingEnabled", "T")] * 2)
    for _ in range(3):
        checks.add(Block(tracked, 0, findings))
    assert len(checks._tracking) == 1
    checks.add(Block(support.written([r.MemorySample(0, 5)]), 100, findings))
    assert findings.counts["coreprofiler.allocation.place"] == 1


def test_names_beyond_the_limit_are_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [r.FunctionName(iid, "name", "", "") for iid in range(8)]
    data = support.written([*names, r.StackSample(None, 5, 1, 0, 0, None, (r.Frame(7),))])
    monkeypatch.setattr("fxtio.coreprofiler.consistency.MAX_IDS", 5)
    assert not CoreProfilerTrace(data).findings


def test_a_thread_may_be_assigned_before_it_is_created() -> None:
    records = [r.ThreadAssigned(1, 100), r.ThreadCreated(16, 1), r.ThreadAssigned(1, 101)]
    trace = CoreProfilerTrace(support.written(records))
    assert not trace.findings
    assert trace.info.threads == {1: 101}
    again = CoreProfilerTrace(support.written([*records, r.ThreadCreated(32, 1)]))
    assert again.findings.counts == {"coreprofiler.thread.again": 1}


def test_a_block_is_split_behind_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_LINES", 10)
    data = b"x" * 100 + b"\n" * 50
    parts = frames._split(data)
    assert b"".join(parts) == data
    assert max(part.count(b"\n") for part in parts) <= 10


def test_pauses() -> None:
    records = [
        SAMPLE,
        r.ProfilerPaused(6),
        r.StackSample(0, 7, 1, 2, 2),
        r.ProfilerResumed(8),
        r.StackSample(0, 9, 1, 1, 2),
    ]
    assert [(sample.paused, len(sample.stack)) for sample in CoreProfilerTrace(support.written(records)).samples()] == [
        (False, 2), (True, 2), (False, 1),
    ]  # fmt: skip


def test_times() -> None:
    data = b"prf stm 2018-04-10 12:00:00.500 +09:00\nprc cpu 1500 7\n"
    trace = CoreProfilerTrace(data)
    entry = list(trace.entries())[-1]
    assert (entry.offset, entry.time) == (39, 1_500_000_000)
    assert entry.time is not None
    assert str(trace.absolute(entry.time)) == "2018-04-10 12:00:02+09:00"
    assert (trace.info.start, trace.info.end) == (1_500_000_000, 1_500_000_000)
    assert trace.absolute(2**63) is None or trace.absolute(2**80) is None
    assert CoreProfilerTrace(b"prc cpu 1 2\n").absolute(5) is None
    times = trace.table("starts")
    assert times["started_at"].tolist() == ["2018-04-10 12:00:00.500+09:00"]
    assert trace.table("process_cpu")["time"].tolist() == [1_500_000_000]


@pytest.mark.parametrize(
    "milliseconds", [-(2**63), lay.MIN_MS - 1, lay.MIN_MS, 0, lay.MAX_MS, lay.MAX_MS + 1, 2**63 - 1]
)
def test_times_that_do_not_fit_become_the_nearest_that_do(milliseconds: int) -> None:
    expected = min(max(milliseconds * 1_000_000, -(2**63)), 2**63 - 1)
    is_exact = expected == milliseconds * 1_000_000
    lines = [
        *(f"{kind} {milliseconds}" for kind in ("prf tps", "prf trs", "gch alt", "gch gen")),
        f"sam str 0x00000000 {milliseconds} 1 0:0 0x00000001",
        f"gch gcs 0x00000000 {milliseconds} ? tfff",
        *(f"{kind} 0x00000000 {milliseconds}" for kind in ("sam mem", "gch gcf")),
        f"jit cms 0x00000000 {milliseconds} 0x5",
        f"jit cmf 0x00000000 {milliseconds} 0x5 0x0",
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    trace = CoreProfilerTrace(data)
    assert {entry.time for entry in trace.entries()} == {expected}
    assert trace.findings.counts["coreprofiler.time.overflow"] == (0 if is_exact else len(lines))
    assert {sample.time for sample in trace.samples()} == {expected}
    tables = [table for table in trace.tables(*trace.table_names).values() if "time" in table and table.num_rows]
    assert len(tables) == len(lines) + 1
    assert {time for table in tables for time in table["time"].tolist()} == {expected}
    assert (trace.info.start, trace.info.end) == (expected, expected)
    assert trace.info.timeline.as_json() == {kind: {"count": 1, "duration": 0} for kind in ("pause", "gc", "jit")}
    assert support.copied(trace) == data
    assert len(list(report.text_lines(list(trace.entries())))) == len(lines)


def test_the_timeline() -> None:
    records = [
        r.JitStarted(0, 1, 5), r.JitStarted(0, 2, 6), r.JitFinished(0, 4, 6, 0), r.JitFinished(0, 7, 5, 0),
        r.GcStarted(0, 8, "induced", FLAGS), r.GcFinished(0, 10), r.AllocationTable(10, (r.AltItem(1, 2, 48),)),
        r.ProfilerPaused(11), r.ProfilerResumed(20), r.ProcessCpu(21, 500), r.ThreadCpu(0, 21, 400),
        r.ThreadCpu(0, 22, 2**64 - 1), r.ModuleLoaded(1, 2, 3, 0, "synthetic"),
    ]  # fmt: skip
    line = CoreProfilerTrace(support.written([*DEFINED, *records])).info.timeline
    ms = 1_000_000
    assert line.counts == {"jit": 2, "gc": 1, "pause": 1}
    assert line.durations == {"jit": 8 * ms, "gc": 2 * ms, "pause": 9 * ms}
    assert line.process_cpu == 500


@STYLES
def test_tables_have_the_values_of_the_records(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, records, _ = support.simulated(5, shape="mixed", style=style, lines=True, steps=2000)
    monkeypatch.setattr(frames, "BLOCK", 5000)
    trace = CoreProfilerTrace(data)
    tables = trace.tables(*trace.table_names)
    entries = [(type(entry.record), entry.offset) for entry in trace.entries()]
    for cls in r.RECORDS:
        records_of_class = [record for record in records if type(record) is cls]
        table = tables[cls.table]
        assert table.num_rows == len(records_of_class), cls
        assert table["offset"].tolist() == [offset for kind, offset in entries if kind is cls]
    samples = [record for record in records if type(record) is r.StackSample]
    expected = [(row, f.function_iid, f.ip) for row, sample in enumerate(samples) for f in sample.frames]
    table = tables["frames"]
    columns = (table["sample"].tolist(), table["function_iid"].tolist(), table["ip"].tolist())
    assert list(zip(*columns, strict=True)) == expected
    assert tables["samples"]["frames"].counts.tolist() == [len(sample.frames) for sample in samples]
    assert tables["samples"]["ip"].tolist() == [sample.ip for sample in samples]
    names = [record.name for record in records if type(record) is r.FunctionName]
    assert tables["function_names"]["name"].tolist() == names
    jit = tables["jit_starts"]
    assert set(jit["thread_is_os"].tolist()) == {style in ("D3", "D4")}
    assert set(tables["gc_starts"]["generations"].tolist()) <= {"tfff", "ttff", "tttt", "tfft"}
    pieces = [batch["frames"].num_rows for batch in trace.batches("frames")]
    assert len(pieces) > 5
    assert sum(pieces) == len(expected)
    with pytest.raises(KeyError, match="there is no table"):
        trace.table("nothing")
    with pytest.raises(KeyError, match="there is no table"):
        trace.batches("nothing")


def test_single_lines_are_merged_into_tables() -> None:
    """Records that are decoded singly, such as those with large numbers, are merged with those read by columns."""
    usages = [1, 2**64 - 1, 5, 2**63, 7]
    some_threads = [0, None, 2, None, 4]
    records = [r.ThreadCpu(iid, 1, usage) for iid, usage in zip(some_threads, usages, strict=True)]
    table = CoreProfilerTrace(support.written(records)).table("thread_cpu")
    assert table["usage"].tolist() == usages
    assert table["thread"].tolist() == [0, -1, 2, -1, 4]
    assert table["usage"].dtype == np.uint64
    # A line with a number of 19 digits is decoded singly.
    lists = [r.MemorySample(0, n, (r.AllocItem(n, 1, 2 + 10**18 * (n % 2), n),) * n) for n in range(5)]
    tables = CoreProfilerTrace(support.written(lists)).tables("memory_samples", "allocations")
    assert tables["memory_samples"]["items"].counts.tolist() == [0, 1, 2, 3, 4]
    assert tables["allocations"]["class_iid"].tolist() == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_styles_are_detected_in_any_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", 64)
    data = (
        b"thr crt 0x10000000 0x00000001\nthr crt 0xABCDEF01 0x0000000a\n"
        b"sam str 0x00000001 1 1 0:0 0x5:00ABCDEF\nthr dst 0x00000001\ngch gcs 5 1 ? t f f f\n"
    )
    trace = CoreProfilerTrace(data)
    assert support.written(trace.records(resolve=False), trace.style) == data
    assert not any(isinstance(record, Opaque) for record in trace.records(resolve=False))
    forms = trace.style.formats
    assert (forms["pointer"], forms["hex32"], forms["ip"], forms["sample"]) == ("0x%08X", "0x%08x", "%08X", "0x%X")
    assert (trace.style.destroyed, trace.style.glued_flags) == ("thr dst", False)
    with pytest.raises(EncodeError, match="no dialect"):
        CoreProfilerWriter(io.BytesIO(), style="D9")


def test_copies_of_a_source_that_is_read_once() -> None:
    data, _, _ = support.simulated(1, style="D4", steps=200)
    trace = CoreProfilerTrace(io.BytesIO(data))
    records = list(trace.records(resolve=False))
    assert support.written(records, trace.style) == data
    with pytest.raises(FormatError, match="only once"):
        list(trace)
    once = CoreProfilerTrace(io.BytesIO(data))  # written while it is read, the byte-order mark first
    assert support.written(once.records(resolve=False), once.style) == data


def test_a_long_line_is_not_a_record() -> None:
    good = support.written(DEFINED)
    data = good + b'cls nam 0x1 "' + b"x" * 30_000_000 + b'"\n' + good
    tracemalloc.start()
    try:
        trace = CoreProfilerTrace(io.BytesIO(data))
        kinds = [type(record) for record in trace]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * frames.BLOCK
    assert [kind for kind in kinds if kind is not Opaque] == [type(record) for record in DEFINED] * 2
    assert [(finding.rule, finding.offset) for finding in trace.findings] == [("coreprofiler.line.too-long", len(good))]
    reopened = CoreProfilerTrace(data)
    assert support.written(reopened.records(resolve=False), reopened.style) == data


def test_a_byte_order_mark_is_not_a_line() -> None:
    trace = CoreProfilerTrace(BYTE_ORDER_MARK)
    assert list(trace) == []
    assert support.written(trace.records(resolve=False), trace.style) == BYTE_ORDER_MARK


def test_a_long_line_behind_a_byte_order_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", 10)
    lines = b'cls nam 0x1 "synthetic name"\nprc cpu 1 2\n'
    for make in (lambda: BYTE_ORDER_MARK + lines, lambda: io.BytesIO(BYTE_ORDER_MARK + lines)):
        trace = CoreProfilerTrace(make())
        assert support.written(trace.records(resolve=False), trace.style) == BYTE_ORDER_MARK + lines
        assert trace.style.mark
        entries = list(CoreProfilerTrace(make()).entries())
        assert b"".join(entry.record.raw for entry in entries) == lines
        assert entries[0].offset == len(BYTE_ORDER_MARK)


@pytest.mark.parametrize("line", [b"\n", b"prf tps 1\n"])
def test_many_short_lines_need_little_memory(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_LINES", 1_000)
    data = line * 20_000
    trace = CoreProfilerTrace(data)
    tracemalloc.start()
    try:
        number = sum(1 for _ in trace)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert number == 20_000
    assert peak < 4 * frames.BLOCK + len(data)
    assert support.written(CoreProfilerTrace(data).records(resolve=False)) == data


@pytest.mark.parametrize(
    "line", [b"\n", b"prf tps\n", b"sam str 0x0 1 1 0:0 " + b'" " ' * 50 + b"\n", b'fun nam 0x1 "' + b'" "' * 500]
)
def test_many_equal_faults(line: bytes) -> None:
    trace = CoreProfilerTrace(line * 3_000)
    for _ in trace:
        pass
    assert trace.findings.counts.total() >= 1
    assert len(list(trace.findings)) <= 102


def test_sniffing(tmp_path: Path) -> None:
    for style in DIALECTS:
        path = tmp_path / f"{style}.log"
        path.write_bytes(support.simulated(1, style=style)[0])
        with fxtio.open(path, format=None) as trace:
            assert trace.format == "coreprofiler"
    packed = gzip.compress(support.written(DEFINED))
    assert fxtio.open(packed, format=None).format == "coreprofiler"
    for text in (b"the cat sat\n", b"sam str is short\n", b"prf stm yesterday\n", b"abc def 1\n"):
        with pytest.raises(FormatError):
            fxtio.open(text)
    assert [finding.rule for finding in CoreProfilerTrace(b"").findings] == ["coreprofiler.source.empty"]
    assert {finding.rule for finding in CoreProfilerTrace(packed[:-9]).findings} >= {"coreprofiler.source.cut"}


def test_columns_of_lists() -> None:
    frames = [(), (r.Frame(1), r.Frame(2, 7)), (r.Frame(3),)]
    records = [r.StackSample(0, at, 1, 0, 0, None, items) for at, items in enumerate(frames)]
    column = CoreProfilerTrace(support.written(records)).table("samples")["frames"]
    assert (len(column), column.counts.tolist()) == (3, [0, 2, 1])
    rows = [[support.cells_of(frame) for frame in items] for items in frames]
    assert [column[row] for row in range(3)] == list(column) == column.tolist() == rows
    assert column[-2] == rows[1]
    for chosen in (np.array([2, 1]), np.array([False, True, True])):
        assert column.take(chosen).tolist() == [rows[row] for row in np.arange(3)[chosen].tolist()]
    assert repr(column) == "Lists(3 rows, 3 items)"


def test_columns_of_lists_in_arrow() -> None:
    pytest.importorskip("pyarrow")
    records = [r.StackSample(0, 1, 1, 0, 0, None, (r.Frame(1), r.Frame(2, 7))), r.StackSample(0, 2, 1, 0, 2)]
    for subset in (records, records[1:], records[:0]):
        table = CoreProfilerTrace(support.written(subset)).table("samples")
        rows = [[support.cells_of(frame) for frame in record.frames] for record in subset]
        assert table.to_arrow().column("frames").to_pylist() == rows
