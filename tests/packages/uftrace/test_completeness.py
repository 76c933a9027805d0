"""Tables show everything that is parsed: values and their meanings, structures, kernel events, the small files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fxtio.errors import EncodeError
from fxtio.uftrace.argspec import enum_label
from fxtio.uftrace.enums import WordClass
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.kernel import KernelHeader, build_data, build_pages, parse_format
from fxtio.uftrace.perf import PerfEvent, build
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.symbols import DebugFunction, MapFile, Mapping, Symbol, SymbolFile
from fxtio.uftrace.tasks import Dlopen, Fork, Session, Task, TaskFile
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_kernel import BASE, BLOCKS, FUNCTIONS, kernel_trace
from support.uftrace_samples import SAMPLES, opened

EXEC = """name: sched_process_exec
ID: 300
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t old_pid;\toffset:12;\tsize:4;\tsigned:1;
"""


def rows(trace: UftraceTrace, name: str) -> list[dict[str, Any]]:
    return list(trace.table(name).rows())


@pytest.mark.parametrize("name", SAMPLES)
def test_payloads_and_structures_are_those_of_the_records(name: str) -> None:
    trace = opened(name)
    expected, structs = [], []
    for number, entry in enumerate(entry for entry in trace.entries() if hasattr(entry.record, "payload")):
        if entry.record.payload is not None:
            expected.append({"record": number, "payload": entry.record.payload})
        values = entry.values or {}
        structs += [(number, label, data) for label, data in values.items() if isinstance(data, bytes)]
    assert rows(trace, "payloads") == expected
    assert [(row["record"], row["name"], row["bytes"]) for row in rows(trace, "structs")] == structs


def test_structures_have_types_and_bytes(tmp_path: Path) -> None:
    with UftraceWriter(tmp_path / "t") as writer:
        function = writer.function("f", arguments="arg1/t12:Point,arg2/s,arg3/t3", returns="retval/t8:Size")
        task = writer.task(1)
        task.enter("main", 1)
        task.enter(function, 2, b"x" * 12, "text", b"abc")
        task.leave(3, bytes(8))
    assert rows(UftraceTrace(tmp_path / "t", strict=True), "structs") == [
        {"record": 1, "name": "arg1", "type": "Point", "bytes": b"x" * 12},
        {"record": 1, "name": "arg3", "type": "", "bytes": b"abc"},
        {"record": 2, "name": "retval", "type": "Size", "bytes": bytes(8)},
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_meanings_in_tables_are_those_of_entries(name: str) -> None:
    trace = opened(name)
    expected = [
        (number, label, entry.meanings[label])
        for number, entry in enumerate(entry for entry in trace.entries() if hasattr(entry.record, "payload"))
        for label in entry.values or {}
        if label in entry.meanings
    ]
    actual = [row for table in ("args", "event_values") for row in rows(trace, table) if row["meaning"] is not None]
    assert sorted((row["record"], row["name"], row["meaning"]) for row in actual) == sorted(expected)


def test_callers_have_names() -> None:
    callers = [row["meaning"] for row in rows(opened("callsite-v019"), "event_values") if row["name"] == "caller"]
    assert callers and all(callers)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0, "NONE"),
        (1, "A"),
        (3, "B|A"),
        (2, "B"),
        (7, "C|B|A"),
        (12, "C|B|A|NONE|LOW+0xd"),
        (-1, "LOW+0x7"),
        (-8, "LOW"),
    ],
)
def test_names_of_values_are_those_of_uftrace(value: int, label: str) -> None:
    assert enum_label({0: "NONE", 1: "A", 2: "B", 4: "C", -8: "LOW"}, value) == label


def test_combined_names_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile trace has very many combinations of flags, or very long names."""
    assert enum_label({1 << bit: "x" * 900 for bit in range(3)}, 7) is None
    monkeypatch.setattr("fxtio.uftrace.values.MAX_COMBINED", 3)
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("flags", {f"F{bit}": 1 << bit for bit in range(5)})
        function, task = writer.function("f", arguments="arg1/e:flags"), writer.task(1)
        for time, number in enumerate((1, 2, 4, 8, 3)):
            task.enter(function, time, number)
    trace = UftraceTrace(tmp_path / "t")
    assert trace.table("args")["meaning"].tolist() == ["F0", "F1", "F2", "F3", "F1|F0"]
    assert not list(trace.findings)
    monkeypatch.setattr("fxtio.uftrace.values.MAX_COMBINED", 0)
    assert trace.table("args")["meaning"].tolist() == ["F0", "F1", "F2", "F3", None]
    assert [(item.rule, item.file, item.offset) for item in trace.findings] == [
        ("uftrace.argspec.too-many-flags", "1.dat", 4 * 24)
    ]


@pytest.mark.parametrize("block", [1 << 10, 1 << 20])
def test_names_of_all_combinations_of_12_flags(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.uftrace.frames.BLOCK", block)
    with UftraceWriter(tmp_path / "t") as writer:
        writer.enum("flags", {f"F{bit}": 1 << bit for bit in range(12)})
        function, task = writer.function("f", arguments="arg1/e:flags"), writer.task(1)
        for number in range(1, 4096):
            task.enter(function, 2 * number, number)
            task.leave(2 * number + 1)
    trace = UftraceTrace(tmp_path / "t")
    names = trace.table("args")["meaning"].tolist()
    bits = [[bit for bit in reversed(range(12)) if number >> bit & 1] for number in range(1, 4096)]
    assert names == ["|".join(f"F{bit}" for bit in flags) for flags in bits]
    assert not list(trace.findings)


def test_a_large_enumeration_has_no_combined_names() -> None:
    names = {number: f"N{number}" for number in range(500)}
    assert enum_label(names, 499) == "N499" and enum_label(names, 998) is None and enum_label({5: "A"}, 3) is None


def test_fields_and_calls_of_the_kernel(tmp_path: Path) -> None:
    kernel_trace(tmp_path / "t")
    trace = UftraceTrace(tmp_path / "t")
    values = rows(trace, "kernel_values")
    switch = {row["name"]: row for row in values if row["event"] == 3}
    assert switch["prev_comm"]["text"] == "game" and switch["next_comm"]["text"] == "swapper/0"
    assert switch["prev_pid"]["bits"] == 100 and switch["prev_pid"]["text"] is None
    assert {row["bits"] for row in values if row["name"] == "func"} == set(FUNCTIONS.values())
    begin = 1_000_000_000
    assert [(row["name"], row["start"] - begin, row["depth"], row["state"], row["entry"], row["exit"], row["tid"])
            for row in rows(trace, "kernel_slices")] == [
        ("vfs_read", 1200, 2, "whole", 2, 4, 100), ("ksys_read", 1100, 1, "whole", 1, 5, 100),
        ("do_syscall_64", 1000, 0, "whole", 0, 6, 100),
    ]  # fmt: skip
    assert [row["duration"] for row in rows(trace, "kernel_slices")] == [299_998_600, 299_998_800, 299_999_000]
    assert [row["event"] for row in rows(trace, "kernel")] == list(range(7))


def test_calls_of_the_kernel_that_are_cut(tmp_path: Path) -> None:
    """An exit knows when its call began, also if the entry is missing."""
    kernel_trace(tmp_path / "t")
    header = KernelHeader.of(BLOCKS)
    entry, leave = header.formats[11], header.formats[10]
    events = [
        (500, build_data(leave, 7, {"func": BASE, "depth": 0, "calltime": 200, "rettime": 500})),
        (600, build_data(entry, 7, {"func": BASE, "depth": 0})),
        (700, build_data(entry, 7, {"func": BASE + 0x100, "depth": 1})),
        (750, build_data(entry, 8, {"func": BASE + 0x200, "depth": 0})),
        (800, build_data(leave, 7, {"func": BASE, "depth": 0, "calltime": 600, "rettime": 800})),
    ]
    (tmp_path / "t" / "kernel-cpu0.dat").write_bytes(build_pages(events, header))
    slices = rows(UftraceTrace(tmp_path / "t"), "kernel_slices")
    assert [(row["tid"], row["start"], row["duration"], row["state"], row["entry"], row["exit"]) for row in slices] == [
        (7, 200, 300, "no_entry", -1, 0), (7, 700, 100, "no_exit", 2, -1), (7, 600, 200, "whole", 1, 4),
        (8, 750, 0, "open", 3, -1),
    ]  # fmt: skip


def test_texts_of_variable_length_in_kernel_events() -> None:
    layout = parse_format(EXEC, "events/sched/sched_process_exec/format")
    assert layout is not None and layout.system == "sched"
    data = build_data(layout, 5, {"filename": "/usr/bin/game", "old_pid": 5})
    assert layout.values(data, "little") == ({"filename": "/usr/bin/game", "old_pid": 5}, True)
    assert layout.values(data[:12] + bytes(4), "little")[0]["filename"] == ""


def test_the_small_files_are_tables() -> None:
    trace = opened("dlopen-v013")
    events = rows(trace, "task_events")
    library = next(row for row in events if row["kind"] == "library")
    session = next(row for row in events if row["kind"] == "session")
    assert session["sid"] == library["sid"] and library["address"] and library["path"].endswith(".so")
    modules = rows(trace, "modules")
    assert {row["sid"] for row in modules} == {session["sid"]} and "[stack]" in {row["path"] for row in modules}
    assert "main" in trace.table("symbols")["name"].tolist()
    info = {row["key"]: row["value"] for row in rows(trace, "info")}
    assert info["version"] == "4" and info["exename"] == session["path"]
    fork = next(row for row in rows(opened("fork-v013"), "task_events") if row["kind"] == "fork")
    assert fork["parent"] and fork["pid"] and fork["sid"] is None
    debug = rows(opened("auto-args-cpp-v013"), "debug_functions")
    assert any(row["arguments"] for row in debug)
    enums = rows(opened("auto-args-cpp-v013"), "enums")
    assert enums and all(row["label"] and row["name"] for row in enums)


# ---- another value of any field of a small file changes a table

KEYS = {
    "Session.key": "how old versions spell a key of the line; it means the same",
    "PerfEvent.offset": "where the event was read; not in the file",
    "PerfEvent.cpu": "the name of the file has it",
    "PerfEvent.raw": "the bytes of the event, which its other fields describe",
    "InfoFile.magic": "a finding tells when it is damaged",
    "InfoFile.carriage_returns": "a finding tells when there are any",
}
"""Fields without a column, with the reason."""

TASK_EVENTS: list[Any] = [
    Session(5, 1, "0123456789abcdef", "/x/prog"),
    Task(6, 1, 1),
    Fork(7, 2, 1),
    Dlopen(8, 1, "0123456789abcdef", 0x7000_0000, "/lib/l.so"),
]
NOT_HERE = {
    ("perf-cpu3.dat", 0, "parent"),
    ("perf-cpu3.dat", 0, "parent_pid"),
    ("perf-cpu3.dat", 1, "comm"),
    ("perf-cpu3.dat", 1, "kind"),
}
"""Fields that only events of other kinds have, or that need others to change."""

SMALL: dict[str, tuple[list[Any], Callable[[list[Any]], bytes]]] = {
    "task.txt": (TASK_EVENTS, lambda items: TaskFile(items).to_bytes()),
    "sid-0123456789abcdef.map": (
        [Mapping(0x1000, 0x2000, "r-xp", 0x10, "08:01", 77, "/x/prog", "ab" * 20)],
        lambda items: MapFile(items).to_bytes(),
    ),
    "prog.sym": ([Symbol(0x10, "main", "T", 16)], lambda items: SymbolFile(items).to_bytes()),
    "prog.dbg": (
        [DebugFunction(0x10, "main", "arg1/i32", "retval", 12, "main.c")],
        lambda items: "".join(
            f"F: {item.address:x} {item.name}\nL: {item.line} {item.source}\nA: @{item.arguments}\nR: @{item.returns}\n"
            for item in items
        ).encode(),
    ),
    "info": ([InfoFile(lines=["exename:/x/prog", ""])], lambda items: items[0].to_bytes()),
    "perf-cpu3.dat": (
        [PerfEvent(9, 1, 2, "task-name", comm="name"), PerfEvent(10, 1, 2, "task-new", parent=1)],
        lambda items: b"".join(map(build, items)),
    ),
}
"""Small files, as objects and the function that makes the bytes of the file of them."""

OTHER: dict[type, list[Any]] = {
    int: [lambda value: value + 1, lambda value: 3],
    str: [lambda value: f"{value}1", lambda value: "exec", lambda value: "big", lambda value: "rw-p"],
    list: [lambda value: ["exename:/y", ""]],
    bytes: [lambda value: b"abcdef"],
}


def small_tables(folder: Path, name: str, raw: bytes) -> dict[str, list[Any]]:
    target = folder / str(len(list(folder.iterdir())))
    with UftraceWriter(target, program="/x/prog") as writer:
        writer.task(1).enter("main", 5)
        writer.file(name, raw)
    trace = UftraceTrace(target)
    return {table: rows(trace, table) for table in trace.table_names}


def small_fields() -> list[Any]:
    return [
        pytest.param(name, at, field, id=f"{type(item).__name__}.{field}")
        for name, (items, _) in SMALL.items()
        for at, item in enumerate(items)
        for field in fields_of(item)
        if f"{type(item).__name__}.{field}" not in KEYS and (name, at, field) not in NOT_HERE
    ]


def fields_of(item: Any) -> list[str]:
    is_struct = isinstance(item, msgspec.Struct)
    return [each.name for each in (msgspec.structs.fields(item) if is_struct else dataclasses.fields(item))]


def replaced(item: Any, **changes: Any) -> Any:
    is_struct = isinstance(item, msgspec.Struct)
    return msgspec.structs.replace(item, **changes) if is_struct else dataclasses.replace(item, **changes)


@pytest.mark.full
@pytest.mark.parametrize(("name", "at", "field"), small_fields())
def test_every_field_of_a_small_file_is_in_a_table(name: str, at: int, field: str, tmp_path: Path) -> None:
    items, to_bytes = SMALL[name]
    expected = small_tables(tmp_path, name, to_bytes(items))
    value = getattr(items[at], field)
    kind = next(kind for kind in OTHER if isinstance(value, kind))
    for change in OTHER[kind]:
        other = {"word_class": WordClass.BITS32, "order": "big"}.get(field) or change(value)
        changed = [*items[:at], replaced(items[at], **{field: other}), *items[at + 1 :]]
        try:
            raw = to_bytes(changed)
        except (EncodeError, ValueError):
            continue  # the field cannot have this value
        if raw != to_bytes(items) and small_tables(tmp_path, name, raw) != expected:
            return
    pytest.fail(f"no other value of {field} changes a table")
