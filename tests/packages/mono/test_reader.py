"""Reading recordings: summary, orders, buffers, index, tables, what follows from them."""

from __future__ import annotations

import io
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio import _native
from fxtio.codec.record import Opaque
from fxtio.mono import records as r
from fxtio.mono.enums import GcEventType, MethodAction
from fxtio.mono.headers import (
    BufferHeader,
    OpaqueHeader,
    StreamHeader,
    decode_header,
    encode_buffer_header,
    encode_header,
)
from fxtio.mono.layout import HYBRID, CounterDescription, CounterValue, Root
from fxtio.mono.reader import MonoTrace
from fxtio.mono.report import stats
from fxtio.mono.summary_tables import totals
from fxtio.mono.writer import MonoWriter
from support.checkout import CORPUS
from support.mono_samples import FILES, content, copied, copied_whole, header, written

MONO = CORPUS / "mono"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_copy_has_the_same_bytes(path: Path) -> None:
    assert copied(MonoTrace(path)) == copied_whole(MonoTrace(path)) == content(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tables_and_events_agree(path: Path) -> None:
    trace = fxtio.open(path, format="mono")
    events = list(trace)
    assert Counter(type(event).__name__ for event in events) == trace.info.records
    tables = trace.tables("calls", "allocations", "allocation_frames", "heap_objects", "classes")
    calls = [event for event in events if isinstance(event, r.Call)]
    assert tables["calls"]["method"].tolist() == [call.method for call in calls]
    assert tables["calls"]["time"].tolist() == [call.time for call in calls]
    allocations = [event for event in events if isinstance(event, r.Allocation)]
    frames = [frame for event in allocations for frame in event.backtrace or ()]
    assert tables["allocation_frames"]["method"].tolist() == frames
    assert tables["allocations"]["backtrace"].tolist() == [
        None if event.backtrace is None else len(event.backtrace) for event in allocations
    ]
    assert tables["classes"]["name"].tolist() == [event.name for event in events if isinstance(event, r.ClassLoad)]
    pieces = [batch["allocations"]["object"].tolist() for batch in trace.batches("allocations")]
    assert [address for addresses in pieces for address in addresses] == [event.object for event in allocations]
    assert not trace.findings


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_table_can_be_made(path: Path) -> None:
    trace = MonoTrace(path)
    for name, table in trace.tables(*trace.table_names).items():
        rows = list(table.rows())
        assert len(rows) == table.num_rows, name
        assert table.to_arrow().num_rows == table.num_rows


def test_the_summary() -> None:
    info = fxtio.open(MONO / "alloc-zip.mlpd", format="mono").info
    assert (info.format, info.compression, info.buffers) == ("mono", "gzip", 27)
    assert info.header is not None
    assert (info.header.data_version, info.header.pointer_size, info.header.arch) == (17, 8, "x86-64")
    assert sorted(info.threads.values()) == [
        "Finalizer", "Main", "Profiler Dumper", "Profiler Helper", "Profiler Sampler", "Profiler Writer",
    ]  # fmt: skip
    assert info.started_at is not None
    assert info.started_at.year == 2026
    assert info.start is not None
    assert info.end is not None
    assert 0 < info.end - info.start < 2_000_000_000


def test_the_index_tells_buffers_by_their_headers() -> None:
    trace = MonoTrace(MONO / "i386-heap.mlpd.gz")
    index = trace.index()
    buffers = [entry for entry in trace.entries(resolve=False) if isinstance(entry.record, BufferHeader)]
    assert index["offset"].tolist() == [entry.offset for entry in buffers]
    assert index["thread"].tolist() == [entry.thread for entry in buffers]
    ends = index["offset"] + 48 + index["size"]
    assert ends[:-1].tolist() == index["offset"][1:].tolist()
    assert ends[-1] == trace.position


def test_a_thread_alone() -> None:
    trace = MonoTrace(MONO / "sample.mlpd.gz")
    everything = list(trace.entries())
    for thread in trace.info.threads:
        assert list(trace.entries(thread=thread)) == [entry for entry in everything if entry.thread == thread]
    assert list(trace.entries(thread=1)) == []


def test_the_order_by_time_is_sorted_between_synchronization_points() -> None:
    trace = MonoTrace(MONO / "counter.mlpd.gz")
    entries = list(trace.entries(order="time"))
    assert sorted(entry.offset for entry in entries) == [entry.offset for entry in trace.entries()]
    assert [entry.time for entry in entries] != [entry.time for entry in trace.entries()]
    with pytest.raises(ValueError, match="neither file nor time"):
        trace.entries(order="size")
    with pytest.raises(ValueError, match="no order by time"):
        trace.entries(order="time", resolve=False)


def test_names_may_come_behind_their_use_and_change() -> None:
    call = [r.Call(time=time, action=MethodAction.ENTER, method=64) for time in (5, 15, 25)]
    named = [r.JitMethod(time=time, method=64, code=0, size=0, name=name) for time, name in ((10, "A"), (20, "B"))]
    trace = MonoTrace(written(17, [*call, *named]))
    assert trace.table("calls")["method_name"].tolist() == ["A", "A", "B"]
    assert trace.names.method_name(64) == "B"
    assert trace.names.method_name(64, 12) == "A"
    assert trace.names.method_name(65) is None


def test_objects_before_their_vtable_have_a_class() -> None:
    trace = MonoTrace(MONO / "alloc-zip.mlpd")
    table = trace.table("allocations")
    names = table["class_name"].tolist()
    assert None not in names
    assert trace.names.vtable_name(table["vtable"][0], int(table["time"][0])) == names[0]
    assert trace.names.class_name(1) is None
    assert trace.names.thread_name(int(table["thread"][-1])) == table["thread_name"][-1]


def test_names_of_a_stream_that_can_be_read_once() -> None:
    trace = MonoTrace(io.BytesIO((MONO / "minimal-v17.mlpd").read_bytes()))
    assert trace.timeline().table("slices")["name"].tolist() == ["My:Main ()"]


def test_slices() -> None:
    enter, leave, thrown = MethodAction.ENTER, MethodAction.LEAVE, MethodAction.EXCEPTIONAL_LEAVE
    steps = [(leave, 9), (enter, 1), (enter, 2), (leave, 2), (enter, 3), (thrown, 3), (leave, 1), (enter, 4)]
    events = [r.Call(time=10 * number, action=action, method=method) for number, (action, method) in enumerate(steps)]
    table = MonoTrace(written(17, events)).timeline().table("slices")
    rows = [(row["name"], row["start"], row["duration"], row["depth"], row["state"]) for row in table.rows()]
    assert sorted(rows) == [
        ("<1>", 10, 50, 0, "closed"), ("<2>", 20, 10, 1, "closed"), ("<3>", 40, 10, 1, "thrown"),
        ("<4>", 70, 0, 0, "open"),
    ]  # fmt: skip


def test_an_exit_closes_the_calls_entered_after_its_entry() -> None:
    steps = [(2, 1), (2, 2), (2, 3), (1, 1), (1, 7), (2, 5), (1, 5)]
    events = [r.Call(time=10 * number, action=action, method=method) for number, (action, method) in enumerate(steps)]
    table = MonoTrace(written(17, events)).timeline().table("slices")
    rows = [(row["name"], row["duration"], row["depth"], row["state"]) for row in table.rows()]
    assert sorted(rows) == [
        ("<1>", 30, 0, "closed"), ("<2>", 20, 1, "open"), ("<3>", 10, 2, "open"), ("<5>", 10, 0, "closed"),
    ]  # fmt: skip


def test_tables_derived_from_a_heap_shot() -> None:
    trace = MonoTrace(MONO / "i386-heap.mlpd.gz")
    shots, classes = trace.table("heap_shots"), trace.table("heap_classes")
    heap_objects = trace.table("heap_objects")
    assert int(shots["objects"].sum()) == int((heap_objects["size"] > 0).sum()) == int(classes["count"].sum())
    assert int(shots["bytes"].sum()) == int(heap_objects["size"].sum()) == int(classes["bytes"].sum())
    assert int(shots["references"].sum()) == trace.table("heap_references").num_rows
    assert shots["end"].present.all()
    assert (shots["end"].values > shots["start"]).all()
    assert "Tree" in classes["class_name"].tolist()


def test_counters_add_up() -> None:
    values: list[tuple[int, int, Any]] = [
        (1, 3, 5),
        (2, 1, 2**32 - 1),
        (1, 3, -7),
        (2, 1, 1),
        (3, 5, 2.5),
        (4, 6, "text"),
        (5, 3, 4),
        (5, 3, 4),
    ]
    described = [
        CounterDescription(section=0x8000 if index == 5 else 0x2000, category="c" if index == 5 else None,
                             name=f"n{index}", type=0, unit=0, variance=0, index=index)
        for index in range(1, 6)
    ]  # fmt: skip
    events = [
        r.CounterDescriptions(time=0, counters=tuple(described)),
        *(
            r.CounterValues(time=number, values=(CounterValue(index=index, type=kind, value=value),))
            for number, (index, kind, value) in enumerate(values)
        ),
    ]
    table = MonoTrace(written(17, events)).table("counter_series")
    assert table["integer"].tolist() == [5, 2**32 - 1, -2, 0, None, None, 4, 4]
    assert table["number"].tolist() == [5.0, 2.0**32 - 1, -2.0, 0.0, 2.5, None, 4.0, 4.0]
    assert table["text"].tolist()[5] == "text"
    assert table["name"].tolist() == [f"n{index}" for index, _, _ in values]


def test_stacks_and_sites() -> None:
    trace = MonoTrace(MONO / "sample.mlpd.gz")
    stacks = Counter(trace.table("sample_stacks")["stack"].tolist())
    assert any(stack.endswith("P:HotA (int)") for stack in stacks if stack)
    sites = MonoTrace(MONO / "alloc-zip.mlpd").tables("allocation_sites", "allocations")
    assert int(sites["allocation_sites"]["bytes"].sum()) == int(sites["allocations"]["size"].sum())
    assert (np.diff(sites["allocation_sites"]["bytes"]) <= 0).all()


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(KeyError, match="there is no table 'events'"):
        MonoTrace(MONO / "minimal-v17.mlpd").table("events")


def test_the_kernels_in_python_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = MonoTrace(MONO / "synth-v17.mlpd")
    expected = {name: list(table.rows()) for name, table in trace.tables(*trace.table_names).items()}
    monkeypatch.setattr(_native, "IMPLEMENTATION", "python")
    with_python = MonoTrace(MONO / "synth-v17.mlpd")
    assert {name: list(table.rows()) for name, table in with_python.tables(*trace.table_names).items()} == expected


def hybrid_recording() -> bytes:
    """Return a recording such as Mono 5.10.0 wrote it."""
    out = io.BytesIO()
    with MonoWriter(out, data_version=HYBRID) as writer:
        node = writer.class_("Node", time=0)
        writer.allocation(node, 8, 16, time=1)
        writer.counter("n", 1, time=2, unit=1 << 24, variance=1 << 28)
        root = Root(object=8, root_type=16, extra_info=300)
        writer.put(r.HeapRoots(time=3, collections=200, roots=(root, root)))
    return out.getvalue()


def test_a_recording_of_mono_5_10_0() -> None:
    data = hybrid_recording()
    assert decode_header(data)[0].data_version == 15
    trace = MonoTrace(data)
    assert [finding.rule for finding in trace.findings] == ["mono.header.hybrid-version"]
    assert list(trace) == list(MonoTrace(data, data_version=HYBRID, strict=True))
    assert [type(event).__name__ for event in trace] == ["ClassLoad", "CounterDescriptions", "Allocation", "HeapRoots"]
    assert trace.table("roots")["extra_info"].tolist() == [300, 300]
    assert trace.table("allocations")["class_name"].tolist() == ["Node"]
    assert list(MonoTrace(data, data_version=15)) != list(trace)
    assert copied(trace) == copied_whole(trace) == data
    out = io.BytesIO()
    with MonoWriter(out, data_version=HYBRID) as writer:
        for record in MonoTrace(data, data_version=HYBRID).records(resolve=False):
            assert not isinstance(record, Opaque)
            writer.put(record)
    assert out.getvalue() == data


def test_a_recording_of_version_15_is_not_taken_for_another() -> None:
    events = [r.ClassLoad(time=0, pointer=64, image=0, name="Node"), r.HeapRoots(time=1, roots=())]
    good = written(15, events)
    assert list(MonoTrace(good, strict=True)) == events
    damaged = good[:-1] + b"\x77"
    assert list(MonoTrace(damaged).findings.counts) != ["mono.header.hybrid-version"]
    both = good + hybrid_recording() + good
    assert [entry.time for entry in MonoTrace(both).entries()] == [0, 1, None, 0, 2, 1, 3, None, 0, 1]


def test_progress_and_strict(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = MONO / "synth-v17.mlpd"
    trace = fxtio.open(path, format="mono", strict=True, progress=lambda done, total: seen.append((done, total)))
    with trace:
        assert len(list(trace)) == 62
    assert seen[-1] == (741, 741)


def test_unresolved_records_include_headers_and_opaque_records() -> None:
    event = r.GcResize(time=5, size=77)
    long = bytes.fromhex("21 85 00 4d")  # a time of two bytes where one is enough
    events = bytes.fromhex("21 05 4d") + long + b"\x0c" * 3
    base = BufferHeader(thread=7)
    head = encode_header(header())
    odd = bytearray(head)
    odd[odd.index(b"log\0") + 3] = ord("s")  # the text has no zero byte at its end
    buffer = encode_buffer_header(base, len(events)) + events
    trace = MonoTrace(head + buffer + bytes(odd))
    entries = list(trace.entries(resolve=False))
    assert [entry.record for entry in entries] == [
        header(), base, event, Opaque(long), Opaque(b"\x0c" * 3), OpaqueHeader(bytes(odd)),
    ]  # fmt: skip
    assert [entry.time for entry in entries] == [None, None, 5, None, None, None]
    assert [entry.thread for entry in entries] == [None, 7, 7, 7, 7, None]
    places = np.cumsum([0, len(head), 48, 3, 4, 3]).tolist()
    assert [entry.offset for entry in entries] == places
    assert copied(trace) == copied_whole(trace) == head + buffer + bytes(odd)
    assert [type(record) for record in trace.records()] == [r.GcResize, r.GcResize, OpaqueHeader]
    alone = list(trace.records(resolve=False))
    assert isinstance(alone[0], StreamHeader)
    assert [entry.record for entry in trace.entries(resolve=False, thread=8)] == [header(), OpaqueHeader(bytes(odd))]


def test_a_list_refers_to_the_rows_of_its_events() -> None:
    tables = MonoTrace(MONO / "alloc-zip.mlpd").tables("allocations", "allocation_frames")
    counts = np.bincount(tables["allocation_frames"]["allocation"], minlength=tables["allocations"].num_rows)
    backtraces = tables["allocations"]["backtrace"]
    assert counts.tolist() == np.where(backtraces.present, backtraces.values, 0).tolist()


def test_columns_of_records_do_not_hide_the_place() -> None:
    binary = r.NativeBinary(time=1, address=64, file_offset=9, size=8, name="/bin/x")
    table = MonoTrace(written(14, [binary])).table("native_binaries")
    assert table["offset"].tolist() == [len(encode_header(header(14))) + 48]
    assert table["file_offset"].tolist() == [9]


def test_a_generation_that_does_not_fit_in_a_byte() -> None:
    steps = (GcEventType.PRE_STOP_WORLD, GcEventType.START, GcEventType.END, GcEventType.POST_START_WORLD)
    events = [r.GcEvent(time=10 * step, event=step, generation=2**64 - 1) for step in steps]
    pauses = MonoTrace(written(12, events)).table("gc_pauses")
    assert pauses["generation"].tolist() == [2**64 - 1]


def test_counters_of_several_recordings_are_apart() -> None:
    def recording(name: str) -> bytes:
        out = io.BytesIO()
        with MonoWriter(out, header=header()) as writer:
            writer.counter(name, 1, time=0)
            for time, value in enumerate((5, 7)):
                writer.counters({1: value}, time=time)
        return out.getvalue()

    series = MonoTrace(recording("a") + recording("b")).table("counter_series")
    assert series["integer"].tolist() == [5, 7, 5, 7]
    assert series["name"].tolist() == ["a", "a", "b", "b"]


def test_sums_do_not_wrap() -> None:
    objects = [
        r.HeapObject(time=number, object=8, vtable=64, size=2**63, generation=0, references=()) for number in (1, 2)
    ]
    allocations = [r.Allocation(time=number, object=8, vtable=64, size=2**63) for number in (4, 5)]
    trace = MonoTrace(written(17, [r.HeapStart(time=0), *objects, r.HeapEnd(time=3), *allocations]))
    assert trace.table("heap_shots")["bytes"].tolist() == trace.table("heap_classes")["bytes"].tolist() == [2**64 - 1]
    assert trace.table("allocation_sites")["bytes"].tolist() == [2**63 - 1]
    assert stats(trace, 1).json["classes"][0]["bytes"] == 2**64 - 1


def test_sums_of_groups_read_each_size_once() -> None:
    class Sizes(np.ndarray[Any, Any]):
        """Sizes that count how often groups are taken from them."""

        selections = 0

        def __getitem__(self, key: Any) -> Any:
            Sizes.selections += 1
            return super().__getitem__(key)

    random = np.random.default_rng(1)
    group = random.integers(0, 100, 1000)
    for bits in (1, 31, 33, 57, 63, 64):
        sizes = random.integers(0, 2**bits - 1, 1000, np.uint64, endpoint=True)
        expected = [min(sum(sizes[group == number].tolist()), 2**64 - 1) for number in range(101)]
        assert totals(101, group, sizes.view(Sizes)).tolist() == expected
    assert Sizes.selections == 0


def test_an_object_belongs_to_one_heap_shot() -> None:
    def heap_object(time: int) -> r.HeapObject:
        return r.HeapObject(time=time, object=8 * time, vtable=64 * time, size=16, generation=0, references=())

    count = 50
    events = [
        heap_object(0),
        *(r.HeapStart(time=time) for time in range(1, count + 1)),
        *(heap_object(time) for time in range(100, 100 + count)),
        r.HeapEnd(time=200),
        heap_object(201),
        r.HeapStart(time=210),
        heap_object(211),
    ]
    trace = MonoTrace(written(17, events))
    shots, classes = trace.table("heap_shots"), trace.table("heap_classes")
    assert shots["objects"].tolist() == [0] * (count - 1) + [count, 1]
    assert shots["end"].tolist() == [None] * (count - 1) + [200, None]
    assert shots["bytes"].tolist() == [0] * (count - 1) + [16 * count, 16]
    assert Counter(classes["heap_shot"].tolist()) == {count - 1: 1, count: 1}
    assert int(classes["count"].sum()) == count + 1


def test_objects_of_a_class_pointer_in_version_15_have_a_class() -> None:
    events = [
        r.ClassLoad(time=0, pointer=64, image=0, name="Node"),
        r.Allocation(time=1, vtable=64, object=8, size=8),
    ]
    assert MonoTrace(written(15, events)).table("allocations")["class_name"].tolist() == ["Node"]


@pytest.mark.parametrize("kernel", ["c", "python"] if _native.IMPLEMENTATION == "c" else ["python"])
@pytest.mark.parametrize("version", [12, 17])
def test_late_times_are_replaced_in_tables(version: int, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "IMPLEMENTATION", kernel)
    times = [0, 2**63 - 1, 2**63, 2**64 - 1, 7]
    events = [r.GcResize(time=time, size=number) for number, time in enumerate(times)]
    trace = MonoTrace(written(version, [*events, r.Call(time=8, action=2, method=64)]))
    assert [event.time for event in trace] == [*times, 8]
    most = 2**63 - 1
    assert trace.table("gc_resizes")["time"].tolist() == [0, most, most, most, 7]
    assert trace.table("calls")["time"].tolist() == [8]
    assert (trace.info.start, trace.info.end) == (0, most)
    (finding,) = trace.findings
    assert (finding.rule, trace.findings.counts["mono.time.overflow"]) == ("mono.time.overflow", 2)
    assert [entry.offset for entry in trace.entries() if entry.time == 2**63] == [finding.offset]


def test_many_late_times_do_not_fill_the_memory() -> None:
    """Events of two bytes, each of which is later than the columns of tables can hold."""

    def peak(count: int) -> int:
        head = encode_buffer_header(BufferHeader(time=1 << 63, thread=1), 2 * count)
        trace = MonoTrace(encode_header(header()) + head + b"\x81\x00" * count)
        tracemalloc.start()
        try:
            assert trace.info.events == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # what is made on first use does not count
    assert peak(22_000) - peak(2_000) < 20_000 * 40


def test_times_of_events_that_take_them_from_the_header_may_be_late() -> None:
    trace = MonoTrace(written(12, [r.NativeSymbol(time=2**64 - 1, address=8, size=1, name="f")]))
    assert trace.table("native_symbols")["time"].tolist() == [2**63 - 1]
    assert trace.findings.counts == {"mono.time.overflow": 1}
    assert trace.index()["time"].tolist() == [2**63 - 1]


def test_pauses_of_extreme_times_do_not_overflow() -> None:
    last = 2**63 - 1
    steps = [(6, 0), *[(step, time) for _ in range(3) for step, time in ((0, 0), (5, last))], (9, last)]
    events = [r.GcEvent(time=time, event=step, generation=0) for step, time in steps]
    assert MonoTrace(written(17, events)).table("gc_pauses")["collecting"].tolist() == [last]
