"""Tables against the plain model: columns give the same rows as records decoded one at a time.

Damaged records are among them, so that rows that point to others by number still point to the right ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.generate import Order
from fxtio.codec.record import Opaque
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.fxt.enums import (
    BlobType,
    ObjectType,
    ProviderEventId,
    SchedulingType,
    Scope,
    ThreadState,
    TraceInfoType,
)
from fxtio.fxt.records import RECORDS, Thread
from fxtio.fxt.state import Reading
from fxtio.testing import strategies
from fxtio.testing.strategies import encoded
from support import fxt_model
from support.fxt_hostile import damaged_traces
from support.fxt_model import Entry
from support.fxt_oracle import ARGUMENT_TYPES, KINDS
from support.fxt_readings import in_batches, narrow_traces
from support.fxt_samples import for_orders
from support.fxt_twins import plain

Row = dict[str, Any]


def name_of(ref: int | str) -> str | None:
    return ref if isinstance(ref, str) else None


def koids(ref: Any) -> Row:
    return {"process": 0, "thread": 0} if isinstance(ref, int) else {"process": ref.process, "thread": ref.thread or 0}


def label(value: int, names: Any) -> str:
    labels: dict[int, str] = {member.value: member.name.lower() for member in names}
    return labels.get(value, str(value))


def common(entry: Entry) -> Row:
    return {"offset": entry.offset, "provider": entry.provider}


def timed(entry: Entry) -> Row:
    return common(entry) | {"ticks": entry.record.timestamp, "time": entry.time}


def event(entry: Entry) -> Row:
    record = entry.record
    complete = isinstance(record, rec.DurationComplete)
    return timed(entry) | koids(record.thread) | {
        "type": KINDS[type(record)][0],
        "category": name_of(record.category),
        "name": name_of(record.name),
        "end_ticks": record.end if complete else None,
        "duration": entry.end - entry.time if complete and entry.end is not None and entry.time is not None else None,
        "id": getattr(record, "id", None),
        "scope": None if getattr(record, "scope", None) is None else label(record.scope, Scope),
    }  # fmt: skip


def argument_row(argument: Any) -> Row:
    if isinstance(argument, Opaque):
        return {"name": None, "type": None, "bits": 0, "text": None, "payload": argument.raw}
    value = getattr(argument, "value", 0)
    text = name_of(value) if isinstance(argument, rec.StringArgument) else None
    if isinstance(argument, rec.DoubleArgument):
        value = int.from_bytes(struct.pack("<d", value), "little")
    bits = 0 if isinstance(argument, rec.StringArgument | rec.BlobArgument) else int(value) % 2**64
    return {
        "name": name_of(argument.name), "type": ARGUMENT_TYPES[type(argument)], "bits": bits, "text": text,
        "payload": value if isinstance(argument, rec.BlobArgument) else b"",
    }  # fmt: skip


def value_of(record: Any, name: str, kind: type[Any]) -> Any:
    """Return the value of an argument by its name and type."""
    values = [each.value for each in record.args if type(each) is kind and each.name == name]
    return values[-1] if values else None


def kernel_object(entry: Entry) -> Row:
    record = entry.record
    row = {
        "kind": "kernel",
        "type": label(record.object_type, ObjectType),
        "id": record.koid,
        "name": name_of(record.name),
    }
    return common(entry) | row | {"process": value_of(record, "process", rec.KoidArgument)}


def userspace_object(entry: Entry) -> Row:
    record = entry.record
    row = {"kind": "userspace", "type": None, "id": record.pointer, "name": name_of(record.name)}
    return common(entry) | row | {"process": koids(record.process)["process"]}


def blob(entry: Entry) -> Row:
    record = entry.record
    place = {"ticks": None, "time": None, "process": None, "thread": None}
    return common(entry) | (timed(entry) | koids(record.thread) if isinstance(record, rec.LargeBlob) else place) | {
        "category": name_of(getattr(record, "category", 1)),
        "name": name_of(record.name),
        "type": label(record.blob_type, BlobType) if isinstance(record, rec.Blob) else None,
        "size": len(record.payload),
        "payload": record.payload,
    }  # fmt: skip


def scheduling(entry: Entry) -> Row:
    record = entry.record
    code = type(record).words[0].fields["scheduling_type"].value
    row = timed(entry) | {"type": label(code, SchedulingType), "cpu": record.cpu}
    if isinstance(record, rec.LegacyContextSwitch):
        out, into = koids(record.outgoing), koids(record.incoming)
        return row | {
            "outgoing_process": out["process"], "outgoing_thread": out["thread"],
            "incoming_process": into["process"], "incoming_thread": into["thread"],
            "outgoing_state": label(record.outgoing_state, ThreadState), "outgoing_priority": record.outgoing_priority,
            "incoming_priority": record.incoming_priority, "waker": None,
        }  # fmt: skip
    row |= {"outgoing_process": None, "incoming_process": None}
    if isinstance(record, rec.ContextSwitch):
        return row | {
            "outgoing_thread": record.outgoing, "incoming_thread": record.incoming, "waker": None,
            "outgoing_state": label(record.outgoing_state, ThreadState),
            "outgoing_priority": value_of(record, "outgoing_weight", rec.Int32Argument),
            "incoming_priority": value_of(record, "incoming_weight", rec.Int32Argument),
        }  # fmt: skip
    return row | {
        "outgoing_thread": None, "incoming_thread": record.waking, "outgoing_state": None, "outgoing_priority": None,
        "incoming_priority": value_of(record, "weight", rec.Int32Argument),
        "waker": value_of(record, "waker", rec.KoidArgument),
    }  # fmt: skip


def profiler(entry: Entry) -> Row:
    return timed(entry) | koids(entry.record.thread)


def fields(*names: str) -> Callable[[Entry], Row]:
    return lambda entry: {name: getattr(entry.record, name) for name in names}


def mmap(entry: Entry) -> Row:
    record = entry.record
    return {
        "module": record.module, "flags": record.flags, "address": record.start, "size": record.range,
        "vaddr": record.vaddr,
    }  # fmt: skip


def both(first: Callable[[Entry], Row], second: Callable[[Entry], Row]) -> Callable[[Entry], Row]:
    return lambda entry: first(entry) | second(entry)


def log(entry: Entry) -> Row:
    return timed(entry) | koids(entry.record.thread) | {"message": entry.record.message}


def backtrace(entry: Entry) -> Row:
    return profiler(entry) | {"flags": entry.record.flags, "frames": len(entry.record.frames)}


def provider(entry: Entry) -> Row:
    record = entry.record
    is_info = isinstance(record, rec.ProviderInfo)
    row = {"type": "provider_info", "name": record.name} if is_info else {"type": "provider_section", "name": None}
    return {"offset": entry.offset, "provider": record.provider_id, **row}


def provider_event(entry: Entry) -> Row:
    record = entry.record
    row = {"type": label(record.event, ProviderEventId)}
    return {"offset": entry.offset, "provider": record.provider_id, **row}


def trace_info(entry: Entry) -> Row:
    record = entry.record
    is_magic = isinstance(record, rec.Magic)
    kind, data = ("magic_number", 0x16547846) if is_magic else (label(record.info_type, TraceInfoType), record.data)
    return {"offset": entry.offset, "type": kind, "data": data}


def unknown_record(entry: Entry) -> Row:
    return common(entry) | {"type": entry.first_word % 16, "payload": entry.raw}


OBJECTS = (rec.KernelObject, rec.UserspaceObject)
SWITCHES = (rec.LegacyContextSwitch, rec.ContextSwitch, rec.ThreadWakeup)
BLOBS = (rec.Blob, rec.LargeBlob, rec.LargeBlobNoMetadata)
MAKERS: dict[str, list[tuple[Any, Callable[[Entry], Row]]]] = {
    "trace_infos": [((rec.Magic, rec.TraceInfo), trace_info)],
    "providers": [((rec.ProviderInfo, rec.ProviderSection), provider)],
    "provider_events": [(rec.ProviderEvent, provider_event)],
    "initializations": [
        (rec.Initialization, both(common, fields("ticks_per_second", "base_ticks", "wall_clock"))),
    ],
    "events": [(rec.Event, event)],
    "strings": [(rec.String, both(common, fields("index", "text")))],
    "threads": [(rec.ThreadRecord, both(common, fields("index", "process", "thread")))],
    "objects": [(rec.KernelObject, kernel_object), (rec.UserspaceObject, userspace_object)],
    "logs": [(rec.Log, log)],
    "blobs": [(BLOBS, blob)],
    "scheduling": [(SWITCHES, scheduling)],
    "modules": [(rec.ProfilerModule, both(profiler, fields("module", "name", "build_id")))],
    "mmaps": [(rec.ProfilerMmap, both(profiler, mmap))],
    "backtraces": [(rec.ProfilerBacktrace, backtrace)],
}
OWNED: dict[str, tuple[str, Any]] = {
    "args": ("event", rec.Event),
    "object_args": ("object", OBJECTS),
    "blob_args": ("blob", BLOBS),
    "scheduling_args": ("scheduling", SWITCHES),
}


def named_objects(entries: list[Entry]) -> Iterator[tuple[Entry, dict[Any, str | None]]]:
    """Yield every entry, and the names that objects have there, by process (None in the kernel) and koid or pointer."""
    names: dict[Any, str | None] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, rec.KernelObject):
            names[None, record.koid] = name_of(record.name)
        elif isinstance(record, rec.UserspaceObject) and not isinstance(record.process, int):
            names[record.process.process, record.pointer] = name_of(record.name)
        yield entry, names


def object_name(record: Any, argument: Any, names: dict[Any, str | None]) -> str | None:
    if isinstance(argument, rec.KoidArgument):
        return names.get((None, argument.value))
    thread = getattr(record, "thread", getattr(record, "process", 0))
    if isinstance(argument, rec.PointerArgument) and not isinstance(thread, int):
        return names.get((thread.process, argument.value))
    return None


def owned(entries: list[Entry], owner: str, classes: Any) -> Iterator[Row]:
    number = -1
    for entry, names in named_objects(entries):
        if isinstance(entry.record, classes):
            number += 1
            for item in getattr(entry.record, "args", ()):
                yield {owner: number, **argument_row(item), "object_name": object_name(entry.record, item, names)}


def expected(entries: list[Entry]) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for table, makers in MAKERS.items():
        rows = [make(entry) for entry in entries for classes, make in makers if isinstance(entry.record, classes)]
        tables[table] = rows
    for table, (owner, classes) in OWNED.items():
        tables[table] = list(owned(entries, owner, classes))
    traces = [entry.record for entry in entries if isinstance(entry.record, rec.ProfilerBacktrace)]
    tables["unknown_records"] = [unknown_record(entry) for entry in entries if RECORDS.kind_of(entry.first_word) < 0]
    tables["frames"] = [
        {"backtrace": number, "depth": depth, "address": address}
        for number, trace in enumerate(traces)
        for depth, address in enumerate(trace.frames)
    ]
    return tables


def compare(data: bytes, order: Order) -> None:
    trace = FxtTrace(data)
    tables = trace.tables(*trace.table_names)
    rows = expected(fxt_model.read(data, order))
    assert set(tables) == set(rows)
    for name, table in tables.items():
        assert list(table.rows()) == rows[name], name
        assert table.num_rows == len(rows[name])


@for_orders
@given(data=st.data())
def test_tables_equal_the_model(order: Order, data: st.DataObject) -> None:
    compare(encoded(data.draw(narrow_traces(order) | strategies.traces(order=order)), order), order)


@for_orders
@given(data=st.data())
def test_tables_of_damaged_traces(order: Order, data: st.DataObject) -> None:
    compare(data.draw(damaged_traces(order, framed=True)), order)


@pytest.mark.full
@given(records=narrow_traces(), words=st.integers(1, 64))
def test_tables_of_small_batches(records: list[Any], words: int) -> None:
    magic, *others = records
    with in_batches(words):
        compare(encoded([magic, rec.ProviderInfo(1, "first"), *others]), "little")


@pytest.mark.full
@given(records=narrow_traces(), words=st.integers(1, 64))
def test_batches_concatenate_to_tables(records: list[Any], words: int) -> None:
    """Numbers of owners are not compared: they count within the batch."""
    trace = FxtTrace(encoded([rec.Magic(), rec.ProviderInfo(1, "first"), *records[1:]]))
    whole = {name: list(table.rows()) for name, table in trace.tables(*trace.table_names).items()}
    joined: dict[str, list[Row]] = {name: [] for name in whole}
    with in_batches(words, kept_names=2):
        for batch in list(trace.batches(*trace.table_names)):  # each stays right when the next one is read
            for name, table in batch.items():
                joined[name] += list(table.rows())
    numbers = {"event", "object", "blob", "scheduling", "backtrace"}
    for name, rows in whole.items():
        without = [
            [{key: value for key, value in row.items() if key not in numbers} for row in table_rows]
            for table_rows in (rows, joined[name])
        ]
        assert plain_rows(without[0]) == plain_rows(without[1]), name


def plain_rows(rows: list[Row]) -> list[Any]:
    return [tuple(sorted((key, plain(value)) for key, value in row.items())) for row in rows]


def test_a_broken_switch_does_not_shift_the_owners() -> None:
    """A record that cannot be delivered is no row, so it must not be counted as an owner of arguments."""
    short = encoded([rec.LegacyContextSwitch(0, 0, 0, 0, 5, 1, 1)]).replace(b"\x28\0", b"\x18\0", 1)[:8]
    switch = rec.ContextSwitch(0, 0, 1, 2, 3, (rec.NullArgument("a"),))
    compare(encoded([rec.Magic()]) + short + encoded([switch]), "little")
    table = FxtTrace(encoded([rec.Magic()]) + short + encoded([switch])).table("scheduling_args")
    assert [row["scheduling"] for row in table.rows()] == [0]


OBJECT_CLAIMS: list[tuple[Any, list[str | None]]] = [
    (rec.KernelObject(3, 7, "first", (rec.KoidArgument("self", 7), rec.KoidArgument("later", 8))), ["first", None]),
    (rec.Instant(1, Thread(1, 2), "", "", (rec.KoidArgument("a", 7), rec.Uint64Argument("b", 7))), ["first", None]),
    (rec.KernelObject(3, 7, "second", ()), []),
    (rec.UserspaceObject(7, Thread(1, None), "of 1", (rec.PointerArgument("self", 7),)), ["of 1"]),
    (rec.Instant(1, Thread(1, 2), "", "", (rec.KoidArgument("a", 7), rec.PointerArgument("p", 7))), ["second", "of 1"]),
    (rec.Instant(1, Thread(5, 2), "", "", (rec.PointerArgument("p", 7),)), [None]),
    (rec.ThreadWakeup(0, 1, 2, (rec.KoidArgument("waker", 7), rec.PointerArgument("p", 7))), ["second", None]),
    (rec.LargeBlob("", "", 1, Thread(1, 2), (rec.PointerArgument("p", 7),), b""), ["of 1"]),
    (rec.ProviderInfo(2, "koids are global"), []),
    (rec.Instant(1, Thread(1, 2), "", "", (rec.KoidArgument("a", 7), rec.PointerArgument("p", 7))), ["second", "of 1"]),
]


@pytest.mark.parametrize("words", [1, 7, 64, 1 << 10])
def test_names_of_objects(words: int) -> None:
    """A name is that of the last object record before the argument, or of the one that has the argument."""
    data = encoded([rec.Magic(), rec.ProviderInfo(1, "p"), *(record for record, _ in OBJECT_CLAIMS)])
    tables = ("args", "object_args", "blob_args", "scheduling_args")
    with in_batches(words, kept_names=2):
        whole = FxtTrace(data).tables(*tables)
        streamed = [
            row for batch in FxtTrace(data).batches(*tables) for table in batch.values() for row in table.rows()
        ]
    expected_names = {
        name: [each for record, names in OBJECT_CLAIMS if isinstance(record, classes) for each in names]
        for name, (_, classes) in OWNED.items()
    }
    assert {name: table["object_name"].tolist() for name, table in whole.items()} == expected_names
    in_stream = [str(row["object_name"]) for row in streamed]
    assert sorted(in_stream) == sorted(str(each) for names in expected_names.values() for each in names)


def test_the_names_of_many_objects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.fxt.state.MAX_OBJECTS", 2)
    named = [rec.KernelObject(3, koid, f"name {koid}", ()) for koid in range(4)]
    event = rec.Instant(1, Thread(1, 2), "", "", tuple(rec.KoidArgument("a", koid) for koid in range(4)))
    trace = FxtTrace(encoded([rec.Magic(), *named, event]))
    assert trace.table("args")["object_name"].tolist() == ["name 0", "name 1", None, None]
    assert trace.findings.counts == {"fxt.object.too-many": 2}


def test_the_names_of_objects_cost_nothing_where_no_column_has_them() -> None:
    named = [rec.KernelObject(3, koid, f"name {koid}", ()) for koid in range(4)]
    trace = FxtTrace(encoded([rec.Magic(), *named]))
    *_, last = trace.record_batches(forget=True)
    assert not last.reading.object_numbers
    *_, last = trace.record_batches(forget=True, name_objects=True)
    assert len(last.reading.object_numbers) == 4
    with patch.object(Reading, "_object_number", side_effect=AssertionError("asked for the name of an object")):
        assert trace.info.records["KernelObject"] == 4
        assert len(list(trace)) == 5
        assert trace.tables("objects", "events", "scheduling")["objects"].num_rows == 4
