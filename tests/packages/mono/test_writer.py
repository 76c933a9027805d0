"""Writing recordings: named calls in several versions, exact copies, bulk, what is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio.codec.record import Opaque
from fxtio.codec.stream.declare import enumeration_of, layout_of
from fxtio.errors import EncodeError
from fxtio.formats import by_name
from fxtio.mono import records as r
from fxtio.mono.buffers import MAX_EVENT_BYTES
from fxtio.mono.enums import (
    CodeBuffer,
    CounterSection,
    CounterType,
    CounterUnit,
    CounterVariance,
    GcEventType,
    HandleType,
    MethodAction,
    MonitorEvent,
    RootSource,
    SampleType,
)
from fxtio.mono.headers import BufferHeader, OpaqueHeader, StreamHeader, decode_header, encode_header
from fxtio.mono.layout import CounterDescription, CounterValue, Root
from fxtio.mono.reader import MonoTrace
from fxtio.mono.records import VERSIONS, dialect_of
from fxtio.mono.writer import MonoWriter, header_for
from fxtio.synth import shapes_of, write
from fxtio.synth.mono import VERSIONS as EVERY_VERSION
from fxtio.testing.strategies import buffers
from support.mono_every import every_event
from support.mono_samples import header


def friendly(writer: MonoWriter) -> None:
    """Make every named call that the writer's version supports."""
    version = writer.header.data_version
    image = writer.image("/a.exe", time=1, mvid="m" if version >= 16 else "")
    writer.assembly("a, Version=1", time=2, image=image)
    node = writer.class_("Node", time=3, image=image)
    writer.domain("main", time=4)
    outer, inner = writer.method("P:Outer ()", time=5), writer.method("P:Inner ()", time=6)
    thread = writer.thread(7, "Main", time=7)
    writer.enter(outer, time=10, thread=thread)
    writer.enter(inner, time=11, thread=thread)
    writer.allocation(node, 64, 24, time=12, thread=thread, backtrace=[outer, inner])
    writer.allocation(node, 128, 24, time=13, thread=thread)
    writer.event(r.Throw, object=64, time=14, thread=thread, backtrace=[outer])
    exception = {"object": 64} if version >= 14 else {}
    writer.event(r.Clause, kind=0, index=0, method=outer, time=15, thread=thread, **exception)
    writer.leave(inner, time=16, thread=thread, thrown=True)
    writer.leave(outer, time=17, thread=thread)
    for event in (GcEventType.PRE_STOP_WORLD, GcEventType.START, GcEventType.END, GcEventType.POST_START_WORLD):
        writer.gc_event(event, 1, time=20 + event, thread=thread)
    writer.event(r.GcResize, size=1 << 20, time=30, thread=thread)
    writer.event(r.GcMove, objects=[64, 72, 128, 136], time=31, thread=thread)
    handle = {"handle_type": HandleType.PINNED, "handle": 3, "thread": thread}
    writer.event(r.HandleCreated, object=64, time=32, **handle)
    writer.event(r.HandleDestroyed, time=33, **handle)
    monitor = {"object": 64, "thread": thread}
    writer.event(r.Monitor, event=MonitorEvent.CONTENTION, time=34, backtrace=[outer], **monitor)
    writer.event(r.Monitor, event=MonitorEvent.ACQUIRED, time=44, **monitor)
    if version >= 15:
        root: dict[str, Any] = {"address": 4096, "size": 8, "source": RootSource.STATIC, "key": 0, "name": "static"}
        writer.event(r.RootRegister, time=45, thread=thread, **root)
    writer.event(r.HeapStart, time=46, thread=thread)
    writer.heap_object(64, node, 24, [(16, 128)] * 300, time=46, thread=thread)
    writer.heap_object(128, node, 24, time=46, thread=thread)
    if version >= 15:
        writer.event(r.HeapRoots, roots=[Root(address=4096, object=64)], time=46, thread=thread)
    writer.event(r.HeapEnd, time=49, thread=thread)
    if version >= 13:
        writer.sample(9000, [inner, outer], interrupted=7, time=49, thread=thread)
        writer.event(r.SyncPoint, sync_type=0, time=49, thread=thread)
    counter = writer.counter("User Time", 1, time=49, thread=thread)
    unsigned = writer.counter("Bytes", 2, time=49, type=CounterType.UINT, section=CounterSection.GC, thread=thread)
    double = writer.counter("Load", 3, time=49, type=CounterType.DOUBLE, thread=thread)
    for value in (5, 3, 8):
        writer.counters({counter: value, unsigned: value, double: value / 2}, time=49, thread=thread)
    if 10 <= version < 16:
        at: dict[str, Any] = {"time": 49, "thread": thread}
        texts: dict[str, Any] = {
            "assembly": "a",
            "class_name": "P",
            "name": "Outer",
            "signature": "()",
            "filename": "a.cs",
        }
        writer.event(r.CoverageMethod, **texts, token=1, method_id=1, statements=2, **at)
        writer.event(r.CoverageStatement, method_id=1, il_offset=0, counter=1, line=10, column=5, **at)
        writer.event(r.CoverageStatement, method_id=1, il_offset=7, counter=2, line=11, column=5, **at)
    writer.thread_end(thread, time=60)


@pytest.mark.parametrize("pointer_size", [4, 8])
@pytest.mark.parametrize("version", [5, 8, 11, 12, 13, 14, 15, 16, 17])
def test_named_calls(version: int, pointer_size: int) -> None:
    out = io.BytesIO()
    with MonoWriter(out, data_version=version, pointer_size=pointer_size) as writer:
        friendly(writer)
    trace = MonoTrace(out.getvalue(), strict=True)
    assert trace.info.header is not None
    assert trace.info.header.data_version == version
    slices = trace.timeline().table("slices")
    calls = slices.take(np.flatnonzero(slices["category"].is_in("P")))
    assert calls["name"].tolist() == ["P:Outer ()", "P:Inner ()"]
    assert calls["state"].tolist() == ["closed", "thrown"]
    assert trace.table("allocations")["class_name"].tolist() == ["Node", "Node"]
    assert trace.table("gc_pauses")["duration"].tolist() == [3]
    assert trace.table("contentions")["duration"].tolist() == [10]
    series = trace.table("counter_series")
    assert series["number"].tolist() == [5, 5, 2.5, 3, 3, 1.5, 8, 8, 4]
    heap_objects = trace.table("heap_objects")
    assert (heap_objects["size"].tolist(), heap_objects["references"].tolist()) == ([24, 0, 0, 24], [128, 128, 44, 0])
    assert trace.info.threads[7] == "Main"
    covered = trace.tables("coverage_methods", "coverage_statements")
    has_coverage = 10 <= version < 16
    assert covered["coverage_methods"]["statements"].tolist() == [2] * has_coverage
    assert covered["coverage_statements"]["il_offset"].tolist() == [0, 7] * has_coverage


def test_definitions_precede_their_uses() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        method = 0
        for number in range(30_000):
            if number % 100 == 0:
                method = writer.method(f"P:M{number} ()", time=number)
            writer.enter(method, time=number, thread=number % 3)
    defined: set[int] = set()
    for event in MonoTrace(out.getvalue()):
        if isinstance(event, r.JitMethod):
            defined.add(event.method)
        else:
            assert isinstance(event, r.Call)
            assert event.method in defined


def test_buffers_keep_to_the_limit() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        for number in range(9_000):
            writer.put(r.AotId(time=number, id="x" * 20))
        writer.put(r.AotId(time=0, id="y" * (2 * MAX_EVENT_BYTES)))
        writer.put(r.AotId(time=0, id="z"))
    trace = MonoTrace(out.getvalue())
    sizes = trace.index()["size"].tolist()
    assert len(sizes) == 6
    assert [size > MAX_EVENT_BYTES for size in sizes] == [False] * 4 + [True, False]
    assert trace.info.records["AotId"] == 9_002


@given(st.sampled_from(VERSIONS[12:]).flatmap(lambda v: st.tuples(st.just(v), buffers(dialect_of(v, 8)))))
def test_any_events_go_through_the_writer(drawn: tuple[int, Any]) -> None:
    version, (_, events) = drawn
    out = io.BytesIO()
    with MonoWriter(out, header=header(version)) as writer:
        for event in events:
            writer.put(event)
    trace = MonoTrace(out.getvalue())
    assert list(trace) == events
    assert trace.findings.counts.keys() <= {"mono.time.overflow"}


def test_refused_events_are_not_written() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        before = writer.position
        calls: list[Callable[[], object]] = [
            lambda: writer.put(Opaque(b"x")),
            lambda: writer.put(
                r.CoverageClass(time=0, assembly="", name="", methods=0, fully_covered=0, partially_covered=0)
            ),
            lambda: writer.enter(1 << 64, time=0),
            lambda: writer.enter(8, time=-1),
            lambda: writer.counters({5: 1}, time=0),
            lambda: writer.put(StreamHeader(pid=-1)),
            lambda: writer.put(StreamHeader(data_version=18)),
            lambda: writer.put(OpaqueHeader(b"")),
            lambda: writer.put(OpaqueHeader(encode_header(StreamHeader()) + b"x")),
            lambda: writer.put(BufferHeader(thread=-1)),
            lambda: writer.enter(8, time=0, thread=-1),
            lambda: writer.write_table("classes", {"time": [1], "pointer": 1, "image": 1, "name": b"x"}),
            lambda: writer.write_table("slices", {}),
            lambda: writer.write_tables({"roots": {}}),
        ]
        for wrong in calls:
            with pytest.raises(EncodeError):
                wrong()
        assert writer.position == before
    assert list(MonoTrace(out.getvalue(), strict=True)) == []


def test_a_counter_keeps_its_last_value_when_a_reading_is_refused() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        counter = writer.counter("n", 1, time=0)
        writer.counters({counter: 5}, time=1)
        with pytest.raises(EncodeError):
            writer.counters({counter: 7, 9: 1}, time=2)
        writer.counters({counter: 6}, time=3)
    assert MonoTrace(out.getvalue()).table("counter_series")["integer"].tolist() == [5, 6]


KERNELS = ["c", "python"] if _native.IMPLEMENTATION == "c" else ["python"]


def use(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write with the kernels of this implementation."""
    monkeypatch.setattr(_native, "IMPLEMENTATION", kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tables_and_single_records_give_the_same_bytes(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(kernel, monkeypatch)
    count = 3000
    times = np.arange(count) * 10
    methods = 0x7F00_0000_0000 + 64 * (np.arange(count) % 7)
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        tables: dict[str, Any] = {
            "calls": {"time": times, "action": np.where(np.arange(count) % 2, 1, 2), "method": methods, "thread": 5},
            "allocations": {
                "time": times[::3] + 1, "vtable": 640, "object": 64 * np.arange(count // 3), "size": 24, "thread": 5,
            },
            "allocation_frames": {
                "allocation": np.repeat(np.arange(count // 3), 2), "method": np.repeat(methods[::3], 2),
            },
        }  # fmt: skip
        assert writer.write_tables(tables) == count + count // 3
    trace = MonoTrace(out.getvalue(), strict=True)
    events = list(trace)
    assert [event.time for event in events] == sorted([*times.tolist(), *(times[::3] + 1).tolist()])
    assert [event.method for event in events if isinstance(event, r.Call)] == methods.tolist()
    first = next(event for event in events if isinstance(event, r.Allocation))
    assert first == r.Allocation(time=1, vtable=640, object=0, size=24, backtrace=(int(methods[0]), int(methods[0])))
    single = io.BytesIO()
    with MonoWriter(single) as writer:
        for event in events:
            writer.put(event, thread=5)
    assert list(MonoTrace(single.getvalue())) == events
    assert set(trace.index()["thread"].tolist()) == {5}


def test_several_tables_are_sorted_by_thread_and_time() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        writer.write_tables(
            {
                "gc_moves": {"time": [9, 3], "thread": [1, 1]},
                "moved_objects": {"gc_move": [0, 0, 1, 1], "object": [8, 16, 24, 32]},
                "calls": {"time": [5, 1, 4], "action": ["enter", "enter", "leave"], "method": 64, "thread": [1, 2, 1]},
            }
        )
    entries = [(entry.thread, entry.record) for entry in MonoTrace(out.getvalue()).entries()]
    assert entries == [
        (1, r.GcMove(time=3, objects=(24, 32))),
        (1, r.Call(time=4, action=1, method=64)),
        (1, r.Call(time=5, action=2, method=64)),
        (1, r.GcMove(time=9, objects=(8, 16))),
        (2, r.Call(time=1, action=2, method=64)),
    ]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("version", [12, 13, 14, 15, 17])
def test_tables_of_a_trace_are_written_back(version: int, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of each table that carries all of its events come back, in their order and of their threads."""
    use(kernel, monkeypatch)
    out = io.BytesIO()
    with MonoWriter(out, header=header(version)) as writer:
        for event in every_event(version):
            writer.put(event, thread=1)
            writer.put(event, thread=2)
            writer.flush()
    trace = MonoTrace(out.getvalue(), strict=True)
    for name in MonoWriter.writable_tables:
        table, target = trace.table(name), io.BytesIO()
        with MonoWriter(target, header=header(version)) as writer:
            assert writer.write_table(name, table) == table.num_rows
        copy = MonoTrace(target.getvalue(), strict=True)
        assert rows_of(copy.table(name)) == rows_of(table), name
        assert copy.info.records.total() == table.num_rows


@pytest.mark.parametrize("version", [13, 17])
def test_tables_with_lists_are_written_back_together(version: int) -> None:
    out = io.BytesIO()
    with MonoWriter(out, header=header(version)) as writer:
        for event in every_event(version):
            writer.put(event, thread=3)
    trace = MonoTrace(out.getvalue(), strict=True)
    pairs = [("allocations", "allocation_frames"), ("gc_moves", "moved_objects"), ("throws", "throw_frames")]
    pairs += [("handles_created", "handle_created_frames"), ("monitors", "monitor_frames")]
    for names in [*pairs, ("samples", "sample_addresses", "sample_frames")]:
        tables, target = trace.tables(*names), io.BytesIO()
        with MonoWriter(target, header=header(version)) as writer:
            assert writer.write_tables(tables) == tables[names[0]].num_rows > 0
        copies = MonoTrace(target.getvalue(), strict=True).tables(*names)
        assert {name: rows_of(copies[name]) for name in names} == {name: rows_of(tables[name]) for name in names}


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows without places, and without names, which other tables define."""
    left_out = {"offset", "thread_name", "method_name", "class_name"}
    return [{name: value for name, value in row.items() if name not in left_out} for row in table.rows()]


WRONG_CALLS = [
    ({"action": 2, "method": 1}, "time: the column is missing"),
    ({"time": [1, 2], "action": 2, "method": [1]}, "columns have different lengths"),
    ({"time": [1], "action": 9, "method": 1}, "Call.action: 9 has no meaning here"),
    ({"time": [1], "action": 17, "method": 1}, "does not fit"),
    ({"time": [1], "action": "fly", "method": 1}, "'fly' is not the name of a number"),
    ({"time": [1.5], "action": 2, "method": 1}, "a column of float64 is not a column of integers"),
    ({"time": [-1], "action": 2, "method": 1}, "Call.time: -1 does not fit in uint64"),
    ({"time": [1, None], "action": 2, "method": 1}, "a row has no value"),
    ({"time": [1, 2], "action": 2, "method": [1, None]}, "a row has no value"),
    ({"time": [1], "action": 2, "method": 1, "size": 1}, "is not a column of this table"),
]


@pytest.mark.parametrize(("columns", "message"), WRONG_CALLS, ids=[message for _, message in WRONG_CALLS])
def test_columns_that_do_not_fit_are_refused(columns: Any, message: str) -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        with pytest.raises(EncodeError, match=message):
            writer.write_table("calls", columns)
        assert writer.position == 0
    assert list(MonoTrace(out.getvalue())) == []


WRONG_TABLES: list[tuple[dict[str, Any], str]] = [
    ({"allocation_frames": {"allocation": 0, "method": 1}}, "only together with allocations"),
    ({"heap_objects": {}, "heap_references": {}}, "cannot be written from columns"),
    ({"allocations": {"time": 1, "vtable": 8, "object": 8, "size": 8, "backtrace": 2}}, "the values are missing"),
    ({"allocations": {"time": 1, "object": 8, "size": 8}}, "Allocation.vtable: a row has no value"),
    ({"allocations": {"time": 1, "vtable": 8, "class_pointer": 8, "object": 8, "size": 8}}, "does not have it"),
    (
        {
            "allocations": {"time": 1, "vtable": 8, "object": 8, "size": 8, "backtrace": 2},
            "allocation_frames": {"allocation": 0, "method": 1},
        },
        "the counts are not those",
    ),
    (
        {
            "allocations": {"time": [1, 2], "vtable": 8, "object": 8, "size": 8},
            "allocation_frames": {"allocation": [1, 0], "method": 1},
        },
        "not in the order",
    ),
    ({"coverage_classes": {"time": 1, "assembly": "", "name": "", "methods": 0, "fully_covered": 0,
                           "partially_covered": 0}}, "data version 17 does not have it"),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "message"), WRONG_TABLES, ids=[message for _, message in WRONG_TABLES])
def test_tables_that_do_not_fit_each_other_are_refused(tables: dict[str, Any], message: str) -> None:
    with MonoWriter(io.BytesIO()) as writer:
        with pytest.raises(EncodeError, match=message):
            writer.write_tables(tables)
        assert writer.position == 0


WIDE = "%d is not an integer from 0 to 0xffffffff"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("object", "message"), [(12, "0xc is not a multiple of 8"), (1 << 32, WIDE % (1 << 32))])
def test_the_kernels_refuse_addresses_that_do_not_fit(
    object: int, message: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(kernel, monkeypatch)
    with MonoWriter(io.BytesIO(), pointer_size=4) as writer:
        with pytest.raises(EncodeError, match=f"FinalizeObjectStart.object: {message}"):
            writer.write_table("finalize_object_starts", {"time": [1] * 9000 + [2], "object": [8] * 9000 + [object]})
        with pytest.raises(EncodeError, match=f"Thread.id: {WIDE % (1 << 40)}"):
            writer.write_table("threads", {"time": 1, "action": "load", "id": 1 << 40})
        frames = {"allocation": [0, 0], "method": [5, 1 << 40]}
        allocations = {"time": 1, "vtable": 8, "object": 8, "size": 8}
        with pytest.raises(EncodeError, match=WIDE % (1 << 40)):
            writer.write_tables({"allocations": allocations, "allocation_frames": frames})
        assert writer.position == 0


def test_texts_where_none_belong_and_missing_texts_are_refused() -> None:
    with MonoWriter(io.BytesIO()) as writer:
        with pytest.raises(EncodeError, match=r"Thread.name: row 1 has no text, but one belongs there"):
            writer.write_table("threads", {"time": [1, 2], "action": "name", "id": 5, "name": ["a", None]})
        with pytest.raises(EncodeError, match=r"Thread.name: row 0 has a text, but none belongs there"):
            writer.write_table("threads", {"time": [1, 2], "action": "load", "id": 5, "name": ["a", None]})
        with pytest.raises(EncodeError, match=r"Thread.action: 9 has no meaning here"):
            writer.write_table("threads", {"time": [1, 2], "action": 9, "id": 5})
        assert writer.position == 0


def test_a_table_of_many_rows_of_texts_fills_several_buffers() -> None:
    out, ids = io.BytesIO(), [f"{number:0100}" for number in range(2000)]
    with MonoWriter(out) as writer:
        writer.write_table("aot_ids", {"time": range(2000), "id": ids})
    trace = MonoTrace(out.getvalue(), strict=True)
    assert trace.table("aot_ids")["id"].tolist() == ids
    assert trace.info.buffers == 4


def test_records_of_a_buffer_of_its_own() -> None:
    first, second = BufferHeader(time=10, thread=4, object=2), BufferHeader(time=20, thread=5)
    calls = [r.Call(time=time, action=2, method=64) for time in (11, 12, 21)]
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        writer.put(first)
        writer.put(calls[0])
        writer.put(Opaque(bytes.fromhex("21 81 00 4d")))  # a time of two bytes
        writer.put(calls[1])
        writer.put(second)
        with pytest.raises(EncodeError, match="it is no record"):
            writer.put("x")
        writer.put(calls[2])
        writer.put(calls[2], thread=6)
    exact = list(MonoTrace(out.getvalue(), strict=True).records(resolve=False))
    assert exact[1:8] == [first, calls[0], Opaque(bytes.fromhex("21 81 00 4d")), calls[1], second, calls[2], exact[7]]
    assert [entry.thread for entry in MonoTrace(out.getvalue()).entries()] == [4, 4, 4, 5, 6]


def test_a_copy_needs_a_fresh_writer_and_a_trace_of_mono() -> None:
    source = io.BytesIO()
    with MonoWriter(source, header=header(14, 4)) as writer:
        writer.enter(8, time=1)
    trace = MonoTrace(source.getvalue())
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        writer.copy(trace)
        assert writer.header == header(14, 4)
        with pytest.raises(EncodeError, match="has written nothing"):
            writer.copy(trace)
        writer.event(r.Clause, kind=0, index=0, method=8, object=0, time=2)
    assert out.getvalue().startswith(source.getvalue())
    assert [type(event) for event in MonoTrace(out.getvalue(), strict=True)] == [r.Call, r.Clause]
    for head in (header(), None):
        with MonoWriter(io.BytesIO(), header=head) as writer:
            writer.enter(8, time=1)
            with pytest.raises(EncodeError, match="has written nothing"):
                writer.copy(trace)
    with MonoWriter(io.BytesIO()) as writer, pytest.raises(EncodeError, match="dcpi"):
        writer.copy(SimpleNamespace(format="dcpi"))


def test_what_is_written_behind_a_copy_belongs_to_its_last_recording() -> None:
    source, out = io.BytesIO(), io.BytesIO()
    with MonoWriter(source) as writer:
        for version in (13, 17):
            writer.put(header(version, 8))
            writer.enter(8, time=1)
    with MonoWriter(out) as writer:
        writer.copy(MonoTrace(source.getvalue()))
        assert writer.header.data_version == 17
        writer.event(r.Monitor, event=MonitorEvent.CONTENTION, object=8, time=2)
    assert [type(event) for event in MonoTrace(out.getvalue(), strict=True)][-1] is r.Monitor


def test_a_closed_writer_refuses_everything() -> None:
    writer = MonoWriter(io.BytesIO())
    writer.close()
    writer.close()
    calls: list[Callable[[], object]] = [
        lambda: writer.put(r.Call(time=0, action=2, method=8)),
        lambda: writer.put(StreamHeader()),
        lambda: writer.put(BufferHeader()),
        lambda: writer.put("x"),
        lambda: writer.copy(SimpleNamespace(format="dcpi")),
        lambda: writer.write_table("calls", {}),
        lambda: writer.write_tables({"x": {}}),
        writer.flush,
        lambda: writer.method("P:M ()", time=0),
        lambda: writer.class_("P", time=0),
        lambda: writer.enter(8, time=0),
        lambda: writer.counter("n", 1, time=0),
        lambda: writer.counters({1: 1}, time=0),
        lambda: writer.heap_object(8, 8, 8, time=0),
        lambda: writer.event(r.GcResize, size=1, time=0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the writer is closed") as caught:
            call()
        assert not isinstance(caught.value, EncodeError)


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_of_all_versions(version: int) -> None:
    original = header_for(version)
    raw = encode_header(original)
    assert decode_header(raw) == (original, len(raw))
    wrong = StreamHeader(
        **{name: getattr(original, name) for name in original.__struct_fields__} | {"startup_tick": None}
    )
    if original.major >= 3:
        with pytest.raises(EncodeError, match="startup_tick"):
            encode_header(wrong)


def test_header_texts_may_contain_zero_bytes() -> None:
    original = msgspec.structs.replace(header(), args="a\0b")
    raw = encode_header(original)
    assert decode_header(raw) == (original, len(raw))
    assert [*MonoTrace(raw).records(resolve=False)] == [original]
    with pytest.raises(EncodeError, match=r"StreamHeader\.args: holds a lone surrogate"):
        encode_header(msgspec.structs.replace(original, args="\ud800"))


@pytest.mark.parametrize("shape", shapes_of(by_name("mono")))
def test_synthetic_recordings_have_nothing_wrong(shape: str) -> None:
    out, repeated = io.BytesIO(), io.BytesIO()
    events, size = write(out, shape, format="mono", events=5_000, threads=3, seed=3)
    assert (events, size) == write(repeated, shape, format="mono", events=5_000, threads=3, seed=3)
    assert out.getvalue() == repeated.getvalue()
    trace = MonoTrace(out.getvalue(), strict=True)
    assert len(out.getvalue()) == size
    assert 5_000 <= events < 7_000
    assert trace.info.records.total() > events // 2
    assert trace.timeline().table("slices")["state"].is_in("closed", "thrown").all()


def synthetic(shape: str, **options: Any) -> MonoTrace:
    """Return the recording of a shape."""
    out = io.BytesIO()
    write(out, shape, format="mono", **options)
    return MonoTrace(out.getvalue(), strict=True)


def test_everything_has_every_event_version_and_option() -> None:
    trace = synthetic("everything", events=1)
    kinds: dict[tuple[int, int], set[Any]] = {}
    values: dict[tuple[Any, str], set[Any]] = {}
    size, version = 0, 0
    for record in trace.records(resolve=False):
        if isinstance(record, StreamHeader):
            size, version = record.pointer_size, record.data_version
        elif isinstance(record, r.Event):
            kinds.setdefault((version, size), set()).add(type(record))
            for name in type(record).__struct_fields__:
                value = getattr(record, name)
                values.setdefault((type(record), name), set()).add(
                    value if not isinstance(value, tuple) else bool(value)
                )
                for item in value if isinstance(value, tuple) else ():
                    for field in getattr(item, "__struct_fields__", ()):
                        values.setdefault((type(item), field), set()).add(getattr(item, field))
        else:
            assert isinstance(record, BufferHeader)
    assert {version for version, _ in kinds} == {*VERSIONS}
    assert {size for _, size in kinds} == {4, 8}
    assert {(17, 4), (17, 8)} <= kinds.keys()
    for (version, _), events in kinds.items():
        assert events == {cls for cls in r.EVENTS if layout_of(cls, version) is not None}, version
    enumerations = {(cls, name): enumeration_of(cls, name) for cls, name in values}
    assert enumerations[r.Call, "action"] is MethodAction and enumerations[CounterValue, "type"] is CounterType
    for (cls, name), enumeration in enumerations.items():
        assert {int(member) for member in enumeration or ()} <= values[cls, name], (cls, name)
    assert values[r.Allocation, "backtrace"] == {None, True, False}
    assert {0, 1, 2, 3} <= values[r.HandleCreated, "handle_type"]
    assert values[CounterDescription, "section"] == {*CounterSection}
    assert values[CounterDescription, "unit"] == {*CounterUnit}
    assert values[CounterDescription, "variance"] == {0, *CounterVariance}
    assert values[r.SampleHit, "sample_type"] == {None, *SampleType}
    assert {*CodeBuffer} <= values[r.JitHelper, "buffer_type"]


def test_everything_is_repeated_in_rounds() -> None:
    one, more = synthetic("everything", events=1).info, synthetic("everything", events=4_000, threads=5).info
    assert one.recordings == len(EVERY_VERSION)
    assert one.records.total() < 2_500
    assert more.records.total() >= 4_000
    assert more.recordings > 2 * one.recordings


@pytest.mark.full
def test_the_program_looks_like_one() -> None:
    trace = synthetic("program", events=60_000, threads=4, seed=7)
    assert [*trace.info.threads.values()].count("") == 0
    slices = trace.timeline().table("slices")
    assert {"GET /item", "query", "render", "major collection", "write"} <= {*slices["name"].tolist()}
    durations = slices["duration"][slices["depth"] == 0]
    assert np.percentile(durations, 99) > 3 * np.median(durations) > 0
    times: dict[int | None, int] = {}
    for entry in trace.entries():  # buffers of a thread are in the order of time
        assert entry.time is not None
        assert entry.time >= times.get(entry.thread, 0)
        times[entry.thread] = entry.time
    texts = [
        synthetic("program", events=2_000, threads=4, seed=seed).table("calls")["time"].sum() for seed in (7, 7, 8)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("version", [5, 12])
def test_events_without_a_time_of_their_own_keep_their_times(version: int) -> None:
    out = io.BytesIO()
    with MonoWriter(out, data_version=version) as writer:
        writer.enter(64, time=10, thread=1)
        writer.counter("n", 1, time=20, thread=1)
        writer.counters({1: 5}, time=30, thread=1)
        writer.leave(64, time=40, thread=1)
        writer.counters({1: 6}, time=40, thread=1)
    trace = MonoTrace(out.getvalue(), strict=True)
    assert [event.time for event in trace] == [10, 20, 30, 40, 40]
    assert trace.info.buffers == 3


def test_a_refused_event_changes_nothing_for_the_next() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        for wrong in (-1, 1 << 64, 1 << 80):
            with pytest.raises(EncodeError):
                writer.enter(wrong, time=1)
            with pytest.raises(EncodeError):
                writer.allocation(wrong, 8, 8, time=1)
        writer.event(r.GcResize, size=7, time=5)
    assert list(MonoTrace(out.getvalue(), strict=True)) == [r.GcResize(time=5, size=7)]


def test_flags_of_old_versions_are_written_back() -> None:
    events = [
        r.ClassLoad(time=1, pointer=64, image=0, flags=300, name="Node"),
        r.Throw(time=2, object=8, backtrace_flags=7, backtrace=(64,)),
        r.Throw(time=3, object=8),
    ]
    out, target = io.BytesIO(), io.BytesIO()
    with MonoWriter(out, header=header(12)) as writer:
        for event in events:
            writer.put(event, thread=1)
    trace = MonoTrace(out.getvalue(), strict=True)
    tables = trace.tables("classes", "throws", "throw_frames")
    assert tables["throws"]["backtrace_flags"].tolist() == [7, None]
    with MonoWriter(target, header=header(12)) as writer:
        assert writer.write_tables(tables) == 3
        with pytest.raises(EncodeError, match="flags, but no backtrace"):
            writer.write_tables({"throws": {"time": [4], "object": 8, "backtrace_flags": 7}})
    assert list(MonoTrace(target.getvalue(), strict=True)) == events
