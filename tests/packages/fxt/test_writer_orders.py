"""Traces that are written big-endian equal their little-endian twins; large blobs are written without copies."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.generate import Order
from fxtio.codec.record import Opaque
from fxtio.errors import EncodeError
from fxtio.fxt import FxtWriter, Koid, Pointer
from fxtio.fxt import records as rec
from fxtio.table import Categories
from fxtio.testing import strategies
from support.fxt_bad import MIB, memory
from support.fxt_samples import for_orders
from support.fxt_twins import plain

ARGS: dict[str, Any] = {
    "none": None, "true": True, "int": -5, "unsigned": 1 << 31, "long": -(1 << 40), "large": (1 << 64) - 1,
    "double": 0.1, "text": "text", "long text": "x" * 300, "koid": Koid(7), "pointer": Pointer(8), "blob": b"123456789",
}  # fmt: skip


def friendly(writer: FxtWriter) -> None:
    """Call every method that writes records, twice where the second call takes another way."""
    track = writer.thread(1, 2, "thread", "process")
    main, second = writer.main, writer.provider("second", ticks_per_second=1000)
    for time in (1, 2, 3):
        track.instant("instant", time, category="cat", args=ARGS)
        short = {key: ARGS[key] for key in ("none", "true", "int", "unsigned", "long", "large", "double", "text")}
        track.instant("short", time, args={**short, "koid": Koid(7), "pointer": Pointer(8)})
        track.complete("complete", time, time + 5)
        track.begin("begin", time)
        track.end("begin", time)
        track.counter("counter", time, {"a": time, "b": 0.5}, id=7)
        track.async_begin("async", time, 9)
        track.async_instant("async", time, 9)
        track.async_end("async", time, 9)
        track.flow_begin("flow", time, 10)
        track.flow_step("flow", time, 10)
        track.flow_end("flow", time, 10)
        second.thread(3, time).instant("from the second", time)
    track.log("message", 4)
    track.large_blob("large", b"bytes", 5, category="cat", args=ARGS)
    main.kernel_object(3, 4, "object", ARGS)
    main.userspace_object(5, 6, "object", ARGS)
    main.blob("blob", b"12345", 3)
    main.blob("large", bytes(40_000))
    main.blob("divided", bytes(40_000), 3)
    main.context_switch(1, 2, 3, 4, 1, {"weight": 5})
    main.thread_wakeup(1, 2, 3)
    main.legacy_context_switch(1, 2, track, writer.thread(1, 9), 1, 2, 3)
    main.module(1, 2, 3, "module", b"build id")
    main.mmap(1, 2, 3, 4, 5, 6)
    main.backtrace(1, 2, 3, [4, 5, 6])
    main.buffer_filled_up()


def columns(writer: FxtWriter) -> None:
    """Write columns in every way."""
    times, tracks = np.arange(20), [writer.thread(1, number) for number in range(3)]
    args = {
        "int": times,
        "large": times + (1 << 40),
        "double": times / 3,
        "bool": times > 5,
        "text": (["a", "b"], times % 2),
    }
    name = Categories((times % 3).astype(np.int32), ["x", "y", "z"])
    main = writer.main
    main.write_events("instant", timestamp=times, thread=(tracks, times % 3), name=name, category="c", args=args)
    main.write_events("counter", timestamp=times, thread=tracks[0], name="n", id=times, args={"int": times})
    main.write_mixed(
        {"kind": "duration_begin", "timestamp": times * 2, "thread": tracks[0], "name": "n", "args": {"int": times}},
        {
            "kind": "duration_complete",
            "timestamp": times * 2 + 1,
            "thread": tracks[1],
            "name": name,
            "end": times * 3 + 1,
        },
    )


def tables(writer: FxtWriter) -> None:
    """Write all tables that can be written, as they are read from another trace."""
    source = io.BytesIO()
    with FxtWriter(source) as other:
        friendly(other)
    with fxtio.open(source.getvalue()) as trace:
        for name, table in trace.tables(*writer.writable_tables).items():
            kept = {column: table[column] for column in table.column_names if column not in ("time", "duration")}
            if table.num_rows and name != "blobs":
                writer.write_table(name, kept)
    writer.write_table("blobs", {"name": "n", "payload": [b"1", b"23"], "type": "data"})
    writer.write_table("blobs", {"name": "n", "payload": bytes(100_000), "category": "c"})
    rows = {"type": "instant", "process": 1, "thread": 2, "name": ["a", "b"], "ticks": [1, 2], "provider": [1, 5]}
    writer.write_table("events", {**rows, "args": {"key": [1, None]}})


def written(write: Callable[[FxtWriter], object], order: Order) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", order=order) as writer:
        write(writer)
    return out.getvalue()


@pytest.mark.parametrize("write", [friendly, columns, tables, lambda writer: None])
def test_a_big_endian_trace_equals_its_twin(write: Callable[[FxtWriter], object]) -> None:
    little, big = written(write, "little"), written(write, "big")
    assert len(little) == len(big)
    traces = [fxtio.open(data, strict=True) for data in (little, big)]
    assert [trace.info.byte_order for trace in traces] == ["little", "big"]
    first, second = (list(trace.records(resolve=False)) for trace in traces)
    assert not any(isinstance(record, Opaque) for record in second)
    assert plain(first) == plain(second)
    assert plain(list(traces[0])) == plain(list(traces[1]))


@for_orders
@given(data=st.data())
def test_any_records_are_written_in_both_orders(order: Order, data: st.DataObject) -> None:
    records = data.draw(strategies.traces(order=order))

    def write(writer: FxtWriter) -> None:
        for record in records:
            writer.put(record)

    assert written(write, order) == strategies.encoded(records, order)


@pytest.mark.parametrize("order", ["middle", None, 5, "", ["big"]])
def test_another_byte_order_is_refused(order: Any, tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match=r"order: .* is not one of little, big"):
        fxtio.create(tmp_path / "made.fxt", order=order)
    assert not (tmp_path / "made.fxt").exists()


@for_orders
@given(data=st.data())
def test_a_copy_has_the_order_of_the_trace(order: Order, data: st.DataObject) -> None:
    trace = strategies.encoded(data.draw(strategies.traces(order=order)), order)
    for other in ("little", "big"):
        out = io.BytesIO()
        with fxtio.create(out, format="fxt", order=other) as writer:
            writer.copy(fxtio.open(trace))
            writer.thread(1, 2).instant("after", 1)
        assert out.getvalue().startswith(trace)
        *_, last = fxtio.open(out.getvalue())
        assert (last.name, last.timestamp) == ("after", 1)


# ---- large blobs


LARGE: dict[str, Callable[[FxtWriter, bytes], object]] = {
    "blob": lambda writer, data: writer.main.blob("name", data),
    "large blob": lambda writer, data: writer.thread(1, 2).large_blob("name", data, 5, args={"key": "value"}),
    "record": lambda writer, data: writer.put(rec.LargeBlobNoMetadata("", "name", data)),
    "row": lambda writer, data: writer.write_table("blobs", {"name": "name", "category": "c", "payload": data}),
}


@pytest.mark.parametrize("write", LARGE.values(), ids=LARGE)
def test_a_large_blob_is_not_copied(write: Callable[[FxtWriter, bytes], object], tmp_path: Path) -> None:
    payload = random.Random(1).randbytes(MIB) * 64 + b"12345"
    with fxtio.create(tmp_path / "made.fxt") as writer:
        with memory(8 * MIB):
            write(writer, payload)
        writer.thread(1, 2).instant("after", 1)
    records = list(fxtio.open(tmp_path / "made.fxt", strict=True))
    assert records[-1].name == "after"
    assert [record.payload for record in records if hasattr(record, "payload")] == [payload]


@pytest.mark.full
def test_a_blob_over_256_mib_is_read_again(tmp_path: Path) -> None:
    size = 257 * MIB
    with fxtio.create(tmp_path / "made.fxt") as writer:
        writer.main.blob("name", bytes(size))
        writer.thread(1, 2).instant("after", 1)
    trace = fxtio.open(tmp_path / "made.fxt", strict=True)
    records: list[Any] = [item for item in trace if isinstance(item, rec.LargeBlobNoMetadata | rec.Instant)]
    assert [getattr(record, "name", None) for record in records] == ["name", "after"]
    assert len(records[0].payload) == size
