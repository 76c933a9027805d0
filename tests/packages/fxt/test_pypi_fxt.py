"""Output of the writer, judged by the `fxt` reader from PyPI, which also shows what Perfetto drops.

It reads every file as it is, unless a test says that it is repaired; the defects that have to be stepped around are
named ("defect"), `judges.pypi_fxt` lists them all.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.fxt import FxtWriter, Koid, Pointer
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread
from judges import pypi_fxt
from judges.pypi_fxt import PypiTrace

pytestmark = [pytest.mark.full, pytest.mark.once]

KOID = (1 << 64) - 1
EVENTS = (
    "instant", "counter", "duration_begin", "duration_end", "duration_complete", "async_begin", "async_instant",
    "async_end", "flow_begin", "flow_step", "flow_end",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(pypi_fxt.available())


def judged(write: Callable[[FxtWriter], object], *, repaired: bool = False, **options: Any) -> PypiTrace:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", **options) as writer:
        write(writer)
    trace = pypi_fxt.read(out.getvalue(), repaired=repaired)
    assert not trace.truncated
    assert not trace.left_out
    return trace


def test_every_event() -> None:
    def write(writer: FxtWriter) -> None:
        track = writer.thread(KOID, KOID - 1)
        args = {"key": "value"}
        track.instant("name", 1, category="cat", args=args)
        track.counter("name", 2, {"key": 3}, id=KOID, category="cat")
        track.begin("name", 3, category="cat", args=args)
        track.end("name", 4, category="cat", args=args)
        track.complete("name", 5, 50, category="cat", args=args)
        track.async_begin("name", 6, KOID, category="cat", args=args)
        track.async_instant("name", 7, KOID, category="cat", args=args)
        track.async_end("name", 8, KOID, category="cat", args=args)
        track.flow_begin("name", 9, KOID, category="cat", args=args)
        track.flow_step("name", 10, KOID, category="cat", args=args)
        track.flow_end("name", 11, KOID, category="cat", args=args)

    records = judged(write).records
    assert [(record["kind"], record["timestamp_ns"]) for record in records] == [
        (kind, time) for time, kind in enumerate(EVENTS, 1)
    ]
    assert {(record["category"], record["name"], record["thread"]) for record in records} == {
        ("cat", "name", (KOID, KOID - 1))
    }
    assert [record["args"] for record in records] == [{"key": 3 if kind == "counter" else "value"} for kind in EVENTS]
    assert records[1]["counter_id"] == KOID
    assert {record["correlation_id"] for record in records[5:]} == {KOID}
    assert records[4]["end_ns"] == 50  # defect: called a duration; the judge calls it what it is


def test_every_argument_type() -> None:
    """Defects: blob arguments are refused, and only the last of several arguments with the same name is kept."""
    args: dict[str, Any] = {
        "null": None, "no": False, "yes": True, "int32": -(1 << 31), "uint32": (1 << 32) - 1, "int64": -(1 << 63),
        "uint64": (1 << 64) - 1, "double": 0.1, "table": "x" * 256, "inline": "ä" * 16_000, "empty": "",
        "pointer": Pointer(KOID), "koid": Koid(KOID), "": 1, "fifteenth": "x",
    }  # fmt: skip
    (record,) = judged(lambda writer: writer.thread(1, 2).instant("event", 1, args=args)).records
    assert record["args"] == args
    assert [type(value) for value in record["args"].values()] == [
        type(None), bool, bool, int, int, int, int, float, str, str, str, int, int, int, str,
    ]  # fmt: skip
    with pytest.raises(pypi_fxt.PypiFxtError, match="argument"):
        judged(lambda writer: writer.thread(1, 2).instant("event", 1, args={"blob": b"12345678"}))


def test_logs_objects_and_blobs() -> None:
    def write(writer: FxtWriter) -> None:
        main, track = writer.main, writer.thread(1, 2, "thread", "process")
        track.log("a message ü", 5)
        main.userspace_object(0x1000, KOID, "object", {"a": 1})
        main.blob("blob", b"bytes")
        writer.put(rec.Blob("blob", 255, bytes(32_000)))  # calls refuse a type without a name
        main.blob("large", b"x" * 32_001)
        track.large_blob("larger", b"y" * 100_001, 6, category="cat", args={"a": Koid(1)})

    assert judged(write).records == [
        {"kind": "kernel_object", "type": 1, "id": 1, "name": "process", "args": {}},
        {"kind": "kernel_object", "type": 2, "id": 2, "name": "thread", "args": {"process": 1}},
        {"kind": "log", "timestamp_ns": 5, "thread": (1, 2), "message": "a message ü"},
        {"kind": "userspace_object", "name": "object", "process_id": KOID, "pointer": 0x1000, "args": {"a": 1}},
        {"kind": "blob", "name": "blob", "type": 1, "payload": b"bytes"},
        {"kind": "blob", "name": "blob", "type": 255, "payload": bytes(32_000)},
        {"kind": "large_blob_no_metadata", "category": "", "name": "large", "payload": b"x" * 32_001},
        {
            "kind": "large_blob", "timestamp_ns": 6, "category": "cat", "name": "larger", "thread": (1, 2),
            "args": {"a": 1}, "payload": b"y" * 100_001,
        },
    ]  # fmt: skip


def test_scheduling() -> None:
    def write(writer: FxtWriter) -> None:
        writer.main.context_switch(1, 0xFFFF, KOID, 12, 3, {"outgoing_weight": 4})
        writer.main.thread_wakeup(2, 5, KOID, {"waker": Koid(7)})

    assert judged(write).records == [
        {
            "kind": "context_switch", "timestamp_ns": 1, "cpu_id": 0xFFFF, "outgoing_thread_id": KOID,
            "outgoing_thread_state": 3, "incoming_thread_id": 12, "args": {"outgoing_weight": 4},
        },
        {"kind": "thread_wakeup", "timestamp_ns": 2, "cpu_id": 5, "waking_thread_id": KOID, "args": {"waker": 7}},
    ]  # fmt: skip


def write_unreadable(writer: FxtWriter) -> None:
    track = writer.thread(1, 2)
    track.instant("before", 1)
    writer.main.legacy_context_switch(2, 0, track, track, 3)
    writer.main.kernel_object(17, 5, "a job")
    writer.main.module(7, 1, 1, "module", b"build id")
    writer.main.mmap(8, 1, 1, 0x1000, 0x2000, 0)
    writer.main.backtrace(9, 1, 2, [1, 2, 3])
    track.instant("after", 3)


def test_records_that_the_package_cannot_read() -> None:
    """Defect: it refuses a trace with such records; without them it reads the rest."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        write_unreadable(writer)
    with pytest.raises(pypi_fxt.PypiFxtError):
        pypi_fxt.read(out.getvalue(), repaired=False)
    trace = pypi_fxt.read(out.getvalue())
    assert [record["name"] for record in trace.records] == ["before", "after"]
    assert trace.left_out == {"scheduling type 0": 1, "kernel object type 17": 1, "record type 10": 3}


def test_providers_with_clocks_of_their_own() -> None:
    def write(writer: FxtWriter) -> None:
        slow = writer.provider("slow ü", 0xFFFF_FFFF, ticks_per_second=24_000_000)
        tracks = [writer.thread(1, 2), slow.thread(3, 4)]
        for number in range(3):
            for track in tracks:
                track.instant(f"turn {number}", 10**12 + number, category=f"of {track.process}")
        writer.main.buffer_filled_up()

    trace = judged(write, provider="fast", provider_id=0)
    assert {number: provider.name for number, provider in trace.providers.items()} == {0: "fast", 0xFFFF_FFFF: "slow ü"}
    fast, slow = trace.providers.values()
    assert (fast.buffer_filled_up, slow.buffer_filled_up) == (1, 0)
    assert [(r["name"], r["category"], r["timestamp_ns"]) for r in fast.records] == [
        (f"turn {number}", "of 1", 10**12 + number) for number in range(3)
    ]
    assert [(r["name"], r["category"], r["timestamp_ns"]) for r in slow.records] == [
        (f"turn {number}", "of 3", (10**12 + number) * 10**9 // 24_000_000) for number in range(3)
    ]


def test_text_that_is_not_utf8() -> None:
    """Defect: it is refused."""
    with pytest.raises(pypi_fxt.PypiFxtError, match="utf-8"):
        judged(lambda writer: writer.thread(1, 2).instant("\udcff", 1))


def test_a_wall_clock_is_stepped_over() -> None:
    """Defect: it is not read."""
    trace = judged(lambda writer: writer.thread(1, 2).instant("event", 5), base_ticks=3, wall_clock=10**18)
    assert [record["timestamp_ns"] for record in trace.records] == [5]


@pytest.mark.no_cover  # the same again and again, slow to measure
def test_more_strings_and_threads_than_slots() -> None:
    count = 33_000

    def write(writer: FxtWriter) -> None:
        for number in range(count):
            writer.thread(1, number % 700).instant(f"name {number}", number)

    trace = judged(write)
    assert [(record["name"], record["thread"][1]) for record in trace.records] == [
        (f"name {number}", number % 700) for number in range(count)
    ]


def test_exact_and_friendly_records_mixed() -> None:
    """Defect: the second provider info of one id, which the writer needs to start afresh, is refused."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for record in [rec.Magic(), rec.ProviderInfo(9, "exact"), rec.Initialization(10**9), rec.String(1, "taken")]:
            writer.put(record)
        writer.put(rec.Instant(1, Thread(1, 2), 0, 1, ()))
        writer.thread(1, 3).instant("friendly", 2)
        writer.flush()
        read_so_far = out.getvalue()
        writer.put(rec.ProviderSection(9))
        writer.thread(1, 3).instant("friendly again", 4)
    records = {n: p.records for n, p in pypi_fxt.read(read_so_far, repaired=False).providers.items()}
    assert [(n, r["name"]) for n, taken in records.items() for r in taken] == [(9, "taken"), (1, "friendly")]
    with pytest.raises(pypi_fxt.PypiFxtError, match="multiple ProviderInfo"):
        pypi_fxt.read(out.getvalue(), repaired=False)


# --------------------------------------------------------------------------------------------------------------- bulk

texts = st.text(st.characters(codec="utf-8"), max_size=8)
u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.lists(st.tuples(u64, st.integers(0, 2), texts, texts, u64, i64), max_size=20)


@given(st.sampled_from(EVENTS), ROWS, st.lists(st.tuples(u64, u64), min_size=3, max_size=3))
def test_bulk_events(kind: str, rows: list[tuple[Any, ...]], threads: list[tuple[int, int]]) -> None:
    if kind == "duration_complete":  # its end is not before its begin
        rows = [(time, *others, max(time, end), number) for time, *others, end, number in rows]
    times, indices, names, values, tails, numbers = zip(*rows, strict=True) if rows else ((),) * 6
    known_names, known_values = sorted(set(names)), sorted(set(values))
    tail = {"duration_complete": "end", "instant": None, "duration_begin": None, "duration_end": None}.get(kind, "id")

    def write(writer: FxtWriter) -> None:
        writer.main.write_events(
            kind,
            timestamp=np.array(times, np.uint64),
            thread=([writer.thread(*koids) for koids in threads], np.array(indices, int)),
            name=(known_names, np.array([known_names.index(name) for name in names], int)),
            category="cat",
            args={
                "text": (known_values, np.array([known_values.index(value) for value in values], int)),
                "number": np.array(numbers, np.int64),
            },
            **({tail: np.array(tails, np.uint64)} if tail else {}),
        )

    records = judged(write).records
    assert [
        (r["timestamp_ns"], r["thread"], r["name"], r["args"], r["kind"], r["category"]) for r in records
    ] == [
        (time, threads[index], name, {"text": value, "number": number}, kind, "cat")
        for time, index, name, value, _, number in rows
    ]  # fmt: skip
    key = {"end": "end_ns", "id": "counter_id" if kind == "counter" else "correlation_id"}.get(str(tail))
    if key:
        assert [record[key] for record in records] == list(tails)
