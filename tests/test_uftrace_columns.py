"""Tables: equal to what single records give, for any size of blocks, with and without C kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as twin
from fxtio.uftrace.argspec import ValueSpec
from fxtio.uftrace.layout import DEPTHS
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry, FunctionExit
from fxtio.uftrace.values import FORMATS
from support.uftrace_samples import SAMPLES, minimal, opened, plain

KERNELS = ("distinct", "gather", "pair", "walk_payloads")


def rows(trace: UftraceTrace, name: str) -> list[dict[str, Any]]:
    return list(trace.table(name).rows())


def model(records: list[FunctionEntry | FunctionExit]) -> Iterator[tuple[str, int, int, int]]:
    """Yield state, entry, exit and depth of each call as documented, one record after the other."""
    stack: list[tuple[int, int, int]] = []  # depth, address, number
    for number, record in enumerate(records):
        least = record.depth if isinstance(record, FunctionEntry) else record.depth + 1
        while stack and stack[-1][0] >= least:
            depth, _, entry = stack.pop()
            yield "no_exit", entry, -1, depth
        if isinstance(record, FunctionEntry):
            stack.append((record.depth, record.address, number))
        elif stack and stack[-1][:2] == (record.depth, record.address):
            yield "whole", stack.pop()[2], number, record.depth
        else:
            if stack and stack[-1][0] == record.depth:
                yield "no_exit", stack.pop()[2], -1, record.depth
            yield "no_entry", -1, number, record.depth
    while stack:
        depth, _, entry = stack.pop()
        yield "open", entry, -1, depth


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
        result = rows(UftraceTrace(plain(tmp_path / "t", timed)), "slices")
    assert [(row["state"], row["entry"], row["exit"], row["depth"]) for row in result] == list(model(timed))
    for row in result:
        assert row["name"] == ("zero", "one", "two", "three")[(row["address"] - 0x400000) // 16]
        if row["entry"] >= 0:
            assert row["start"] == 10 * row["entry"]
        else:
            assert row["start"] == 0  # it began before the file
        if row["state"] == "whole":
            assert row["start"] + row["duration"] == 10 * row["exit"]
        if row["state"] == "open":
            assert row["start"] + row["duration"] == timed[-1].time


@pytest.mark.parametrize("deepest", [DEPTHS - 1, DEPTHS, DEPTHS + 1, 2 * DEPTHS + 7])
def test_depths_beyond_the_limit_of_a_record(deepest: int, tmp_path: Path) -> None:
    def record(cls: Any, time: int, depth: int) -> Any:
        lap, rest = divmod(depth, DEPTHS)
        return cls(time, rest, 0x400000 + lap)

    down = [record(FunctionEntry, depth, depth) for depth in range(deepest)]
    up = [record(FunctionExit, 2 * deepest - depth, depth) for depth in reversed(range(deepest))]
    second = [record(FunctionEntry, 3 * deepest, 0), record(FunctionExit, 3 * deepest + 1, 0)]
    result = rows(UftraceTrace(plain(tmp_path / "t", down + up + second)), "slices")
    assert [row["depth"] for row in result] == [*reversed(range(deepest)), 0]
    assert {(row["state"], row["name"], row["address"]) for row in result} == {("whole", "zero", 0x400000)}


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
    complete = {name: rows(trace, name) for name in ("slices", "args")}
    monkeypatch.setattr("fxtio.uftrace.tables.MAX_NAMES", 20)
    monkeypatch.setattr("fxtio.uftrace.frames.BLOCK", 1024)
    parts: dict[str, list[Any]] = {"slices": [], "args": []}
    most = 0
    for batch in trace.batches("slices", "args"):
        for name, part in batch.items():
            parts[name] += part.rows()
            most = max(most, len(part["name"].values))
    assert parts == complete
    assert most < 60  # of more than 300


def test_all_records_as_a_table() -> None:
    trace = opened("synth-lost")
    table = trace.table("records")
    assert table["type"].to_list() == ["entry", "entry", "lost", "exit", "exit"]
    assert table["name"].to_list() == ["main", "foo", None, "foo", "main"]
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
    tables = opened("args-all-v013").tables("slices", "args")
    arrow = tables["slices"].to_arrow()
    assert arrow.num_rows == tables["slices"].num_rows
    assert arrow["name"].to_pylist() == tables["slices"]["name"].to_list()
    assert tables["args"].to_arrow().num_rows == tables["args"].num_rows


def test_calls_join_their_values(tmp_path: Path) -> None:
    trace = UftraceTrace(minimal(tmp_path / "t", records=7))
    tables = trace.tables("slices", "args")
    slices, args = tables["slices"], tables["args"]
    works = slices.take(slices["name"].is_in("work"))
    firsts = args.take(args["name"].is_in("arg1"))
    order = np.argsort(firsts["record"])
    position = np.searchsorted(firsts["record"][order], works["entry"])
    assert firsts["bits"][order][position].tolist() == list(range(7))
    returned = args.take(args["name"].is_in("retval"))
    assert np.isin(returned["record"], works["exit"]).all()


def test_an_empty_trace_has_all_columns(tmp_path: Path) -> None:
    trace = UftraceTrace(plain(tmp_path / "t", []))
    for name in trace.table_names:
        table = trace.table(name)
        assert len(table.keys()) > 1
        assert (table.num_rows > 0) == (name in ("info", "tasks", "task_events", "modules", "symbols"))
