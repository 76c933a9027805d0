"""Tables: equal to what single records give, for any size of blocks, with and without C kernels."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as twin
from fxtio.uftrace.argspec import ValueSpec
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit
from fxtio.uftrace.tasks import stamp
from fxtio.uftrace.values import FORMATS
from support.uftrace_samples import SAMPLES, from_calls, minimal, opened, pairs_of, plain, slices_of

KERNELS = ("distinct", "gather", "match", "walk_payloads")


def rows(trace: UftraceTrace, name: str) -> list[dict[str, Any]]:
    return list(trace.table(name).rows())


def model(records: list[FunctionEntry | FunctionExit]) -> Iterator[tuple[str, int, int]]:
    """Yield state, entry and exit of each call as documented, one record after the other."""
    stack: list[tuple[int, int, int]] = []  # depth, address, number
    deeper: bool | None = None  # whether the depths of exits are too low by one
    for number, record in enumerate(records):
        depth, before = record.depth, records[number - 1] if number else None
        if before is None and not (isinstance(record, FunctionEntry) and depth == 1):
            deeper = False
        if isinstance(record, FunctionEntry):
            if depth == 0:
                deeper = False
            while stack and stack[-1][0] >= depth:
                yield "no_exit", stack.pop()[2], -1
            stack.append((depth, record.address, number))
            continue
        if isinstance(before, FunctionEntry) and before.address == record.address:
            if before.depth == depth:
                deeper = False
            elif deeper is None and before.depth == depth + 1:
                deeper = True
        depth += bool(deeper)
        ended = [call for call in stack if call[:2] == (depth, record.address)]
        ended = ended or [call for call in stack if call[0] > depth and call[1] == record.address]
        least = ended[-1][0] + 1 if ended else depth
        while stack and stack[-1][0] >= least:
            yield "no_exit", stack.pop()[2], -1
        if ended:
            yield "whole", stack.pop()[2], number
        else:
            yield "no_entry", -1, number
    while stack:
        yield "open", stack.pop()[2], -1


CALLS = st.lists(
    st.builds(
        lambda leave, depth, function: (FunctionExit if leave else FunctionEntry)(0, depth, 0x400000 + 16 * function),
        st.booleans(), st.integers(0, 4), st.integers(0, 3),
    ),
    max_size=50,
)  # fmt: skip


@given(records=CALLS, block=st.sampled_from([64, 96, 1 << 20]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_calls_are_paired_by_depth(records: list[Any], block: int, tmp_path: Path) -> None:
    import shutil
    from unittest import mock

    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    timed = [record.replace(time=10 * number) for number, record in enumerate(records)]
    with mock.patch("fxtio.uftrace.frames.BLOCK", block):
        trace = UftraceTrace(plain(tmp_path / "t", timed))
        pairs = pairs_of(trace)
        slices = slices_of(trace)
    assert pairs == list(model(timed))
    names = {0x400000 + 16 * place: name for place, name in enumerate(("zero", "one", "two", "three"))}
    expected = Counter(
        (names[timed[entry].address], 10 * entry, 10 * leave - 10 * entry)
        for state, entry, leave in pairs
        if state == "whole"
    )
    shown = Counter((row["name"], row["start"], row["duration"]) for row in slices if row["state"] == "closed")
    assert not expected - shown
    assert len(slices) == len(pairs)


@pytest.mark.parametrize(
    "calls", ["0.", "01.2..", "0111...12.3...", "00000.....", "0123012301230.1.2.", "0102.3.1.2..1.1..."]
)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_exits_numbered_from_0_and_entries_from_1(
    calls: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxtio.uftrace.frames.BLOCK", block)
    usual = UftraceTrace(plain(tmp_path / "usual", from_calls(calls, entries=1, exits=1)))
    old = UftraceTrace(plain(tmp_path / "old", from_calls(calls, entries=1)))
    assert pairs_of(old) == pairs_of(usual)
    assert slices_of(old) == slices_of(usual)
    assert {state for state, _, _ in pairs_of(old)} <= {"whole", "open"}


def test_recursion_that_ends_by_longjmp_is_no_numbering_from_0(tmp_path: Path) -> None:
    """The exit of `one` directly after its inner entry is one lower; the depths after it are still right."""
    records: list[Any] = [
        FunctionEntry(0, 0, 0x400000), FunctionEntry(10, 1, 0x400010), FunctionEntry(20, 2, 0x400010),
        FunctionExit(30, 1, 0x400010), FunctionEntry(40, 1, 0x400020), FunctionExit(50, 1, 0x400020),
        FunctionExit(60, 0, 0x400000),
    ]  # fmt: skip
    assert pairs_of(UftraceTrace(plain(tmp_path / "t", records))) == [
        ("no_exit", 2, -1), ("whole", 1, 3), ("whole", 4, 5), ("whole", 0, 6),
    ]  # fmt: skip


def test_a_usual_exit_ends_the_numbering_from_0(tmp_path: Path) -> None:
    """A recording that began within a call looks like one with exits from 0 until the first usual exit."""
    records: list[Any] = [
        FunctionEntry(10, 1, 0x400010), FunctionEntry(20, 2, 0x400010), FunctionExit(30, 1, 0x400010),
        FunctionEntry(40, 1, 0x400020), FunctionExit(50, 1, 0x400020), FunctionEntry(60, 1, 0x400020),
        FunctionEntry(70, 2, 0x400030), FunctionExit(80, 1, 0x400020),
    ]  # fmt: skip
    assert pairs_of(UftraceTrace(plain(tmp_path / "t", records))) == [
        ("whole", 1, 2), ("no_exit", 0, -1), ("whole", 3, 4), ("no_exit", 6, -1), ("whole", 5, 7),
    ]  # fmt: skip


@given(calls=st.text("0012..", max_size=60), lost=st.sets(st.integers(0, 59)), block=st.sampled_from([64, 96, 1 << 20]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(calls="011..2..", lost={3}, block=1 << 20)
def test_lost_exits_spoil_only_their_own_calls(calls: str, lost: set[int], block: int, tmp_path: Path) -> None:
    import shutil
    from unittest import mock

    balanced, depth = "", 0
    for character in calls:
        if character != "." or depth:
            balanced += character
            depth += -1 if character == "." else 1
    complete = from_calls(balanced + "." * depth)
    open_calls: list[int] = []
    expected = []
    for number, record in enumerate(complete):
        if isinstance(record, FunctionEntry):
            open_calls.append(record.time)
            continue
        begin = open_calls.pop()
        if number not in lost:
            expected.append((begin, record.time))
    read = [record for number, record in enumerate(complete) if isinstance(record, FunctionEntry) or number not in lost]
    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    with mock.patch("fxtio.uftrace.frames.BLOCK", block):
        pairs = pairs_of(UftraceTrace(plain(tmp_path / "t", read)))
    whole = [(read[entry].time, read[leave].time) for state, entry, leave in pairs if state == "whole"]
    assert whole == expected


def test_an_exit_at_the_depth_of_another_function(tmp_path: Path) -> None:
    """The call at depth 1 is that of `one`; the exit of `two` ends the innermost call of `two`."""
    records: list[Any] = [
        FunctionEntry(0, 0, 0x400000), FunctionEntry(10, 1, 0x400010), FunctionEntry(20, 2, 0x400020),
        FunctionEntry(30, 3, 0x400030), FunctionExit(40, 1, 0x400020), FunctionExit(50, 1, 0x400010),
        FunctionExit(60, 0, 0x400000),
    ]  # fmt: skip
    assert pairs_of(UftraceTrace(plain(tmp_path / "t", records))) == [
        ("no_exit", 3, -1), ("whole", 2, 4), ("whole", 1, 5), ("whole", 0, 6),
    ]  # fmt: skip


@pytest.mark.parametrize(("forked", "begin"), [(5, 5), (100, 100), (500, 100), (2**64, 100)])
def test_calls_of_a_forked_process_begin_with_it(forked: int, begin: int, tmp_path: Path) -> None:
    calls: list[Any] = [FunctionExit(100, 1, 0x400010), FunctionEntry(110, 1, 0x400020), FunctionExit(120, 1, 0x400020),
             FunctionExit(130, 0, 0x400000)]  # fmt: skip
    target = plain(tmp_path / "t", calls)
    (target / "1.dat").rename(target / "2.dat")
    with (target / "task.txt").open("a") as file:
        file.write(f"FORK timestamp={stamp(forked)} pid=2 ppid=1\n")
    result = slices_of(UftraceTrace(target))
    assert [(row["name"], row["start"], row["duration"]) for row in result] == [
        ("zero", begin, 130 - begin), ("one", begin, 100 - begin), ("two", 110, 10),
    ]  # fmt: skip


def test_a_fork_of_the_corpus() -> None:
    """The file of the child begins at the fork with the calls of its parent."""
    result = [row for row in slices_of(opened("fork-v013")) if row["tid"] == 4652 and row["event"] < 0]
    assert [(row["name"], row["start"]) for row in result] == [("main", 1072_052078239), ("fork", 1072_052078239)]


@pytest.mark.parametrize("deepest", [DEPTHS - 1, DEPTHS, DEPTHS + 1, 2 * DEPTHS + 7])
def test_depths_beyond_the_limit_of_a_record(deepest: int, tmp_path: Path) -> None:
    def record(cls: Any, time: int, depth: int) -> Any:
        lap, rest = divmod(depth, DEPTHS)
        return cls(time, rest, 0x400000 + lap)

    down = [record(FunctionEntry, depth, depth) for depth in range(deepest)]
    up = [record(FunctionExit, 2 * deepest - depth, depth) for depth in reversed(range(deepest))]
    second = [record(FunctionEntry, 3 * deepest, 0), record(FunctionExit, 3 * deepest + 1, 0)]
    result = slices_of(UftraceTrace(plain(tmp_path / "t", down + up + second)))
    assert [row["depth"] for row in result] == [*range(deepest), 0]
    assert {(row["state"], row["name"]) for row in result} == {("closed", "zero")}


@pytest.mark.parametrize("name", SAMPLES)
def test_values_are_those_of_the_records(name: str) -> None:
    trace = opened(name)
    expected = []
    for number, record_entry in enumerate(trace.entries()):
        if isinstance(record_entry.record, FunctionEntry | FunctionExit):
            for label, value in (record_entry.values or {}).items():
                expected.append((number, label, value))
    result = rows(trace, "args")
    assert [(row["record"], row["name"]) for row in result] == [(number, label) for number, label, _ in expected]
    for row, (_, _, value) in zip(result, expected, strict=True):
        form = row["format"]
        if form in "sS":
            assert row["text"] == value
        elif form == "t":
            assert row["bits"] == 0 and row["text"] is None
        elif form == "f":
            assert struct.pack("<Q", row["bits"]) == struct.pack("<d", value)
        elif form == "c":
            assert row["bits"] == ord(value)
        else:
            assert row["bits"] == value % 2**64


def test_formats_have_letters() -> None:
    assert ValueSpec("arg", 1).format in FORMATS
    assert len(set(FORMATS)) == len(FORMATS)


@pytest.mark.parametrize("name", ["args-all-v013", "thread-v019", "fork-v013", "synth-events", "synth-perf"])
def test_batches_give_all_rows(name: str) -> None:
    trace = opened(name)
    complete = {table: rows(trace, table) for table in trace.table_names}
    parts: dict[str, list[Any]] = {table: [] for table in trace.table_names}
    for batch in trace.batches(*trace.table_names):
        for table, part in batch.items():
            parts[table] += part.rows()
    assert parts == complete


@pytest.mark.parametrize("name", ["args-all-v013", "thread-v019", "synth-deep-wrap", "synth-big-endian"])
def test_without_a_compiler_it_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = opened(name)
    expected = {table: rows(trace, table) for table in trace.table_names}
    for kernel in KERNELS:
        monkeypatch.setattr(_native, kernel, getattr(twin, kernel), raising=False)
    assert {table: rows(trace, table) for table in trace.table_names} == expected


def test_unused_names_are_dropped_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minimal(tmp_path / "t", records=300)
    trace = UftraceTrace(tmp_path / "t")
    complete = {name: rows(trace, name) for name in ("records", "args")}
    monkeypatch.setattr("fxtio.uftrace.tables.MAX_NAMES", 20)
    monkeypatch.setattr("fxtio.uftrace.frames.BLOCK", 1024)
    parts: dict[str, list[Any]] = {"records": [], "args": []}
    most = 0
    for batch in trace.batches("records", "args"):
        for name, part in batch.items():
            parts[name] += part.rows()
            most = max(most, len(part["name"].values))
    assert parts == complete
    assert most < 60  # of more than 300


def test_all_records_as_a_table() -> None:
    trace = opened("synth-lost")
    table = trace.table("records")
    assert table["type"].tolist() == ["entry", "entry", "lost", "exit", "exit"]
    assert table["name"].tolist() == ["main", "foo", None, "foo", "main"]
    assert table["offset"].tolist() == [0, 16, 32, 48, 64]
    assert table["record"].tolist() == [0, 1, 2, 3, 4]


def test_the_tasks() -> None:
    table = opened("synth-multi").table("tasks")
    assert list(table.rows()) == [
        {"tid": 1, "pid": 1, "program": "/x/prog"},
        {"tid": 2, "pid": 2, "program": "/y/other"},
        {"tid": 3, "pid": 1, "program": "/x/prog"},
    ]


def test_tables_go_to_arrow() -> None:
    pytest.importorskip("pyarrow")
    tables = opened("args-all-v013").tables("records", "args")
    arrow = tables["records"].to_arrow()
    assert arrow.num_rows == tables["records"].num_rows
    assert arrow["name"].to_pylist() == tables["records"]["name"].tolist()
    assert tables["args"].to_arrow().num_rows == tables["args"].num_rows


def test_calls_join_their_values(tmp_path: Path) -> None:
    timeline = UftraceTrace(minimal(tmp_path / "t", records=7)).timeline()
    tables = timeline.tables("slices", "args")
    slices, args = tables["slices"], tables["args"]
    works = slices.take(slices["name"].is_in("work"))
    firsts = args.take(args["name"].is_in("arg1"))
    order = np.argsort(firsts["event"])
    position = np.searchsorted(firsts["event"][order], works["event"])
    assert firsts["bits"][order][position].tolist() == list(range(7))
    returned = args.take(args["name"].is_in("retval"))
    assert np.isin(returned["event"], works["end_event"]).all()


def test_an_empty_trace_has_all_columns(tmp_path: Path) -> None:
    trace = UftraceTrace(plain(tmp_path / "t", []))
    for name in trace.table_names:
        table = trace.table(name)
        assert len(table.keys()) > 1
        assert (table.num_rows > 0) == (name in ("info", "tasks", "task_events", "modules", "symbols"))
