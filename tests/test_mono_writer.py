"""Writing recordings: named calls in several versions, exact copies, bulk, what is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import events as twin
from fxtio.codec.record import Opaque
from fxtio.errors import EncodeError
from fxtio.mono import records as r
from fxtio.mono.enums import CounterSection, CounterType, GcEventType, HandleType, MonitorEvent, RootSource
from fxtio.mono.header import StreamHeader, decode_header, encode_header
from fxtio.mono.pack import LIMIT
from fxtio.mono.reader import MonoTrace
from fxtio.mono.records import VERSIONS, dialect_of
from fxtio.mono.synth import SHAPES, write
from fxtio.mono.writer import MonoWriter, header_for
from fxtio.testing.mono import buffers
from support.mono_samples import header


def friendly(writer: MonoWriter) -> None:
    """Every named call that the writer's version can say."""
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
    writer.throw(64, time=14, thread=thread, backtrace=[outer])
    writer.clause(outer, time=15, object=64, thread=thread)
    writer.leave(inner, time=16, thread=thread, thrown=True)
    writer.leave(outer, time=17, thread=thread)
    for event in (GcEventType.PRE_STOP_WORLD, GcEventType.START, GcEventType.END, GcEventType.POST_START_WORLD):
        writer.gc_event(event, 1, time=20 + event, thread=thread)
    writer.gc_resize(1 << 20, time=30, thread=thread)
    writer.gc_moves([(64, 72), (128, 136)], time=31, thread=thread)
    writer.handle_created(3, 64, type=HandleType.PINNED, time=32, thread=thread)
    writer.handle_destroyed(3, type=HandleType.PINNED, time=33, thread=thread)
    writer.monitor(MonitorEvent.CONTENTION, 64, time=34, thread=thread, backtrace=[outer])
    writer.monitor(MonitorEvent.ACQUIRED, 64, time=44, thread=thread)
    if version >= 15:
        writer.root_register(4096, 8, source=RootSource.STATIC, time=45, name="static", thread=thread)
    writer.heap_start(time=46, thread=thread)
    writer.heap_object(64, node, 24, [(16, 128)] * 300, time=46, thread=thread)
    writer.heap_object(128, node, 24, time=46, thread=thread)
    if version >= 15:
        writer.heap_roots([(4096, 64)], time=46, thread=thread)
    writer.heap_end(time=49, thread=thread)
    if version >= 13:
        writer.sample(9000, [inner, outer], interrupted=7, time=49, thread=thread)
        writer.sync_point(0, time=49, thread=thread)
    counter = writer.counter("User Time", 1, time=49, thread=thread)
    unsigned = writer.counter("Bytes", 2, time=49, type=CounterType.UINT, section=CounterSection.GC, thread=thread)
    double = writer.counter("Load", 3, time=49, type=CounterType.DOUBLE, thread=thread)
    for value in (5, 3, 8):
        writer.counters({counter: value, unsigned: value, double: value / 2}, time=49, thread=thread)
    if 10 <= version < 16:
        writer.coverage_assembly("a", guid="g", filename="/a.exe", methods=2, covered=1, time=49, thread=thread)
        writer.coverage_class("a", "P", methods=2, covered=1, time=49, thread=thread)
        statements = [(0, 1, 10, 5), (7, 2, 11, 5)]
        writer.coverage_method(
            "a", "P", "Outer", statements, signature="()", filename="a.cs", token=1, id=1, time=49, thread=thread
        )
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
    slices = trace.table("slices")
    assert slices["method_name"].to_list() == ["P:Outer ()", "P:Inner ()"]
    assert slices["how"].to_list() == ["returned", "thrown"]
    assert trace.table("allocations")["class_name"].to_list() == ["Node", "Node"]
    assert trace.table("gc_pauses")["duration"].tolist() == [3]
    assert trace.table("contentions")["duration"].tolist() == [10]
    series = trace.table("counter_series")
    assert series["number"].to_list() == [5, 5, 2.5, 3, 3, 1.5, 8, 8, 4]
    objects = trace.table("heap_objects")
    assert (objects["size"].tolist(), objects["references"].tolist()) == ([24, 0, 0, 24], [128, 128, 44, 0])
    assert trace.info.threads[7] == "Main"
    covered = trace.tables("coverage_methods", "coverage_statements")
    there = 10 <= version < 16
    assert covered["coverage_methods"]["statements"].tolist() == [2] * there
    assert covered["coverage_statements"]["offset"].tolist() == [0, 7] * there


def test_definitions_come_before_what_uses_them() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        method = 0
        for number in range(30_000):
            if number % 100 == 0:
                method = writer.method(f"P:M{number} ()", time=number)
            writer.enter(method, time=number, thread=number % 3)
    known: set[int] = set()
    for event in MonoTrace(out.getvalue()):
        if isinstance(event, r.JitMethod):
            known.add(event.method)
        else:
            assert isinstance(event, r.Call)
            assert event.method in known


def test_buffers_keep_to_the_limit() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        for number in range(9_000):
            writer.put(r.AotId(time=number, id="x" * 20))
        writer.put(r.AotId(time=0, id="y" * (2 * LIMIT)))
        writer.put(r.AotId(time=0, id="z"))
    trace = MonoTrace(out.getvalue())
    sizes = trace.index()["size"].tolist()
    assert len(sizes) == 6
    assert [size > LIMIT for size in sizes] == [False] * 4 + [True, False]
    assert trace.info.events["AotId"] == 9_002


@given(st.sampled_from(VERSIONS[12:]).flatmap(lambda v: st.tuples(st.just(v), buffers(dialect_of(v, 8)))))
def test_any_events_go_through_the_writer(drawn: tuple[int, Any]) -> None:
    version, (_, events) = drawn
    out = io.BytesIO()
    with MonoWriter(out, header=header(version)) as writer:
        for event in events:
            writer.put(event)
    assert list(MonoTrace(out.getvalue(), strict=True)) == events


def test_what_is_refused_is_not_written() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        before = writer.position
        calls: list[Callable[[], object]] = [
            lambda: writer.put(Opaque(b"x")),  # type: ignore[arg-type]
            lambda: writer.put(
                r.CoverageClass(time=0, assembly="", name="", methods=0, fully_covered=0, partially_covered=0)
            ),
            lambda: writer.enter(1 << 64, time=0),
            lambda: writer.enter(8, time=-1),
            lambda: writer.counters({5: 1}, time=0),
            lambda: writer.put_recording(StreamHeader(pid=-1)),
            lambda: writer.put_recording(StreamHeader(data_version=18)),
            lambda: writer.bulk({r.ClassLoad: {"time": [1], "pointer": 1, "image": 1, "name": "x"}}),
        ]
        for wrong in calls:
            with pytest.raises(EncodeError):
                wrong()
        assert writer.position == before
    with pytest.raises(EncodeError, match="closed"):
        writer.put_recording(StreamHeader())
    assert list(MonoTrace(out.getvalue(), strict=True)) == []


def test_a_counter_keeps_its_last_value_when_a_reading_is_refused() -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        one = writer.counter("n", 1, time=0)
        writer.counters({one: 5}, time=1)
        with pytest.raises(EncodeError):
            writer.counters({one: 7, 9: 1}, time=2)
        writer.counters({one: 6}, time=3)
    assert MonoTrace(out.getvalue()).table("counter_series")["integer"].to_list() == [5, 6]


KERNELS = ["c", "python"] if _native.IMPLEMENTATION == "c" else ["python"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_bulk_writes_what_single_calls_do(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel == "python":
        monkeypatch.setattr(_native, "pack_stream", twin.pack_stream)
    count = 3000
    times = np.arange(count) * 10
    methods = 0x7F00_0000_0000 + 64 * (np.arange(count) % 7)
    out = io.BytesIO()
    with MonoWriter(out) as writer:
        tables: Any = {
            r.Call: {"time": times, "action": np.where(np.arange(count) % 2, 1, 2), "method": methods},
            r.Allocation: {
                "time": times[::3] + 1, "vtable": 640, "object": 64 * np.arange(count // 3), "size": 24,
                "backtrace": (np.full(count // 3, 2), np.repeat(methods[::3], 2)),
            },
        }  # fmt: skip
        writer.bulk(tables, thread=5)
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


WRONG_BULK = [
    ({"action": 2, "method": 1}, "Call.time: no value given"),
    ({"time": [1, 2], "action": 2, "method": [1]}, "Call.method: .* values for 2 rows"),
    ({"time": [1], "action": 9, "method": 1}, "Call: a field of the first byte has a value without a meaning"),
    ({"time": [1], "action": 17, "method": 1}, "does not fit"),
    ({"time": [1.5], "action": 2, "method": 1}, "integers are wanted"),
    ({"time": [-1], "action": 2, "method": 1}, "values are not all from 0"),
    ({"time": [1], "action": 2, "method": 1, "size": 1}, "no such field"),
]


@pytest.mark.parametrize(("columns", "message"), WRONG_BULK, ids=[message for _, message in WRONG_BULK])
def test_bulk_refuses_what_does_not_fit(columns: Any, message: str) -> None:
    out = io.BytesIO()
    with MonoWriter(out) as writer, pytest.raises(EncodeError, match=message):
        writer.bulk({r.Call: columns})
    assert list(MonoTrace(out.getvalue())) == []


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("object", [12, 1 << 32])
def test_the_kernels_refuse_addresses_that_do_not_fit(
    object: int, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "python":
        monkeypatch.setattr(_native, "pack_stream", twin.pack_stream)
    with MonoWriter(io.BytesIO(), pointer_size=4) as writer, pytest.raises(EncodeError, match="does not fit"):
        writer.bulk({r.FinalizeObjectStart: {"time": [1], "object": [object]}})


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_of_all_versions(version: int) -> None:
    made = header_for(version)
    raw = encode_header(made)
    assert decode_header(raw) == (made, len(raw))
    wrong = StreamHeader(**{name: getattr(made, name) for name in made.__struct_fields__} | {"startup_tick": None})
    if made.major >= 3:
        with pytest.raises(EncodeError, match="startup_tick"):
            encode_header(wrong)


@pytest.mark.parametrize("shape", SHAPES)
def test_synthetic_recordings_have_nothing_wrong(shape: str) -> None:
    out, again = io.BytesIO(), io.BytesIO()
    events, size = write(out, shape, events=5_000, threads=3, seed=3)
    assert (events, size) == write(again, shape, events=5_000, threads=3, seed=3)
    assert out.getvalue() == again.getvalue()
    trace = MonoTrace(out.getvalue(), strict=True)
    assert (trace.info.events.total(), len(out.getvalue())) == (events, size)
    assert abs(events - 5_000) < 300
    assert trace.table("slices")["how"].is_in("returned").all()
