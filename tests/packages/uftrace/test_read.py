"""Directories that uftrace wrote: fxtio reads what uftrace prints."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.errors import DecodeError, FormatError
from fxtio.uftrace.demangle import available
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import FunctionEntry
from support import uftrace_dump
from support.uftrace_samples import (
    MISREAD_BY_UFTRACE,
    SAMPLES,
    UFTRACE,
    expected,
    flame,
    minimal,
    opened,
    reference_flame,
    slices_of,
)

# The newest uftrace prints only 8 of the 10 bytes of a long double.
_CUT_FLOAT, _FLOAT = b"f80: 0x0000c000000000000000", b"f80: 0x3fffc000000000000000"
_CPP = {"cpp-v019", "auto-args-cpp-v013"}


def test_the_corpus_is_present() -> None:
    assert len(SAMPLES) >= 26


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in MISREAD_BY_UFTRACE])
def test_records_equal_the_dump_of_uftrace(name: str) -> None:
    if name in _CPP and not available():
        pytest.skip("pydemumble is not installed")
    text = expected(name, "dump.txt")
    assert text is not None
    required = uftrace_dump.reference(text).replace(_CUT_FLOAT, _FLOAT)
    result = uftrace_dump.of_trace(opened(name))
    assert result.split(b"\n") == required.split(b"\n")


@pytest.mark.parametrize("name", ["cpp-v019", "dlopen-v013", "old-v08-dlopen", "read-args-v013", "synth-args"])
def test_slices_add_up_to_the_times_of_uftrace(name: str) -> None:
    if name in _CPP and not available():
        pytest.skip("pydemumble is not installed")
    text = expected(name, "flame.txt")
    assert text is not None
    actual = flame(opened(name))
    assert {path: n for path, n in actual.items() if n} == dict(reference_flame(text))


@pytest.mark.parametrize("name", ["args-all-v013", "estimate-v013", "thread-v019"])
def test_calls_are_counted_as_uftrace_counts(name: str) -> None:
    text = expected(name, "report.csv")
    assert text is not None
    rows = csv.DictReader(io.StringIO(text.decode().removeprefix("#")))
    table = opened(name).timeline().table("slices")
    for row in rows:
        if row["Function"].startswith("linux:schedule"):
            continue
        assert int(table["name"].is_in(row["Function"]).sum()) == int(row["Calls"]), row


def test_deep_calls_are_complete() -> None:
    # uftrace leaves out what is deeper than 1024; the depth wraps around and carries into the address.
    table = opened("synth-deep-wrap").timeline().table("slices")
    assert table.num_rows == 1100
    assert sorted(table["depth"].tolist()) == list(range(1100))
    assert set(table["name"]) == {"foo"}
    assert set(table["state"]) == {"closed"}


def test_the_format_of_a_trigger_is_found_in_the_command_line() -> None:
    all_entries = [entry for entry in opened("broken-trigger-retval-v013").entries() if entry.values]
    texts = [entry.values["retval"] for entry in all_entries if entry.name == "f_s" and entry.values]
    assert texts[:2] == ["hello", ""]
    assert all(isinstance(text, str | None) for text in texts)
    assert len(opened("broken-trigger-retval-v013").findings) == 0


def test_version_3_is_read() -> None:
    trace = opened("old-v05-fork")
    assert trace.info.version == 3
    assert trace.info.tasks == {5051: "/tmp/demo/fork-old", 5053: "/tmp/demo/fork-old"}
    assert trace.info.records["FunctionEntry"] == 8
    starts = [row["event"] for row in slices_of(trace)]
    assert starts.count(-1) == 1  # the child leaves fork, which the parent entered


def test_big_endian() -> None:
    trace = opened("synth-big-endian")
    assert trace.info.byte_order == "big"
    assert [entry.name for entry in trace.entries()][:2] == ["main", "foo"]


def test_arguments_in_both_directions() -> None:
    trace = opened("args-all-v013")
    values = {(entry.name, type(entry.record).__name__): entry.values for entry in trace.entries() if entry.values}
    assert values["f_i8", "FunctionEntry"] == {"arg1": -8}
    assert values["f_f80", "FunctionExit"] == {"retval": 1.5}
    assert values["f_x64", "FunctionEntry"] == {"arg1": 0xDEADBEEFCAFEBABE}
    assert values["f_c", "FunctionExit"] == {"retval": "\x80"}


def test_null_strings() -> None:
    all_entries = [entry.values for entry in opened("synth-args").entries() if entry.values]
    texts = [value for values in all_entries for value in values.values() if value is None or value == "NULL"]
    assert set(texts) == {None, "NULL"}


def test_events_and_their_values() -> None:
    tables = opened("synth-events").tables("events", "event_values")
    events = tables["events"]
    assert events["name"].tolist()[0] == "read:proc/statm"
    assert events["name"].tolist()[-3:] == ["prov:ev1", "p2:with-dash", "user_event:1000099"]
    rows = list(tables["event_values"].rows())
    assert [(row["name"], row["bits"]) for row in rows[:3]] == [("vmsize", 1), ("vmrss", 2), ("shared", 3)]
    assert rows[-1]["name"] == "cpu" and rows[-1]["bits"] == 3


def test_scheduler_events() -> None:
    rows = list(opened("synth-perf").table("sched").rows())
    kinds = [row["kind"] for row in rows if row["kind"] != "other"]
    assert kinds == [
        "exec", "sched-out", "sched-in", "sched-out (pre-empted)", "sched-in", "task-new", "task-exit",
    ]  # fmt: skip
    assert rows[0]["name"] == "newcomm" or rows[1]["name"] == "newcomm"


def test_messages() -> None:
    rows = list(opened("synth-extern").table("messages").rows())
    assert rows == [{"time": 1_000_000_005, "text": 'hello "world"'}, {"time": 1_000_000_010, "text": "second"}]


def test_lost_records() -> None:
    table = opened("synth-lost").table("lost")
    assert table["count"].tolist() == [42]
    assert len(opened("synth-lost").findings) == 0


def test_the_front_door_opens_directories() -> None:
    front: Any = fxtio.open(str(UFTRACE / "thread-v019"))
    with front as trace:
        assert isinstance(trace, UftraceTrace)
        assert trace.format == "uftrace"
        assert isinstance(next(iter(trace)), FunctionEntry)
        assert (trace.info.recorded_by or "").startswith("v0.19")


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a trace"):
        fxtio.open(tmp_path)
    (tmp_path / "info").write_bytes(b"Ftrace!")
    with pytest.raises(FormatError, match="ends after 7 bytes of its header"):
        UftraceTrace(tmp_path)


def test_max_bytes(tmp_path: Path) -> None:
    trace = UftraceTrace(UFTRACE / "thread-v019", max_bytes=100)
    records = [record for record in trace.records() if not isinstance(record, PerfEvent)]
    assert len(records) == 7  # six records and four bytes that are none
    assert trace.findings.counts["uftrace.source.cut"] >= 1


def test_strict_raises() -> None:
    with pytest.raises(DecodeError, match="more than the allowed"):
        list(UftraceTrace(UFTRACE / "thread-v019", max_bytes=100, strict=True))


def test_progress_is_reported(tmp_path: Path) -> None:
    output: list[tuple[int, int | None]] = []
    shutil.copytree(UFTRACE / "thread-v019", tmp_path / "t")
    trace = UftraceTrace(tmp_path / "t", progress=lambda done, total: output.append((done, total)))
    list(trace)
    assert output[-1][0] == output[-1][1] == sum(path.stat().st_size for path in (tmp_path / "t").glob("[0-9]*.dat"))


def test_no_such_table() -> None:
    with pytest.raises(KeyError, match="no table 'x', only records, args"):
        opened("synth-args").table("x")


def test_tables_have_no_names_of_modules(tmp_path: Path) -> None:
    """Only timelines have modules, as categories."""
    trace = UftraceTrace(minimal(tmp_path / "t"))
    assert {*trace.table("records")["name"].values} - {""} == {"main", "work"}
