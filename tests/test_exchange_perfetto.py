"""Perfetto protobuf traces: read with the messages of Perfetto's own package, and by its trace processor."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio import open_timeline
from fxtio.fxt import Koid, Pointer
from judges import perfetto
from support.conversion import export, perfetto_view

pytestmark = pytest.mark.once

ARGS = {
    "null": None, "yes": True, "no": False, "small": -5, "int": -(1 << 62), "large": (1 << 63) - 1, "zero": 0,
    "number": -0.25, "text": "é \n", "empty": "", "pointer": Pointer(0xDEAD), "koid": Koid(77),
}  # fmt: skip


def trace() -> bytes:
    """Return an FXT trace with arguments of all types, nesting at equal times, a flow, a counter and open slices."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        main, worker = writer.thread(7, 8, "main", "program"), writer.thread(7, 9, "worker")
        main.complete("outer", 10, 100, category="app", args=ARGS)
        main.complete("inner", 10, 50, category="app")
        main.flow_begin("arrow", 20, 1, category="net")
        main.complete("empty", 50, 50)
        main.complete("next", 50, 100)
        worker.begin("received", 30)
        worker.flow_end("arrow", 40, 1, category="net")
        worker.end("received", 60, args={"result": 1})
        worker.counter("memory", 15, {"free": 10, "used": 0.5})
        worker.async_begin("operation", 5, 3)
        worker.async_end("operation", 95, 3)
        worker.begin("open", 70)
        worker.instant("mark", 80, args={"a": 1})
    return out.getvalue()


def test_the_messages(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    with open_timeline(trace()) as timeline:
        losses = export(timeline, "perfetto", tmp_path / "out.pftrace")
    assert losses == {"types of arguments that are koids, which are numbers now": 1}
    parsed: Any = messages.Trace()
    data = (tmp_path / "out.pftrace").read_bytes()
    parsed.ParseFromString(data)
    assert parsed.ByteSize() == len(data)
    kept = messages.Trace()
    kept.CopyFrom(parsed)
    kept.DiscardUnknownFields()
    assert kept.SerializeToString() == parsed.SerializeToString()  # all fields are known
    packets = list(parsed.packet)
    assert packets[0].sequence_flags == 3
    described = {packet.track_descriptor.uuid for packet in packets if packet.HasField("track_descriptor")}
    events = [packet for packet in packets if packet.HasField("track_event")]
    assert {packet.track_event.track_uuid for packet in events} <= described
    names = {
        each.iid: each.name for packet in packets if packet.HasField("interned_data")
        for each in packet.interned_data.event_names
    }  # fmt: skip
    kinds = {1: "begin", 2: "end", 3: "instant", 4: "counter", 0: "flow"}
    order = [(kinds[each.track_event.type], names.get(each.track_event.name_iid)) for each in events]
    assert order.count(("begin", "outer")) == order.count(("begin", "open")) == 1
    assert sum(kind == "begin" for kind, _ in order) == sum(kind == "end" for kind, _ in order) + 1


def test_perfetto_sees_the_same(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    with open_timeline(trace()) as timeline:
        export(timeline, "perfetto", tmp_path / "out.pftrace")
    before, after = perfetto_view(trace()), perfetto_view(tmp_path / "out.pftrace")
    assert after == before


def test_names_that_come_late(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(7, 8)
        for number in range(100_000):
            track.complete("work", 10 * number, 10 * number + 5)
        writer.thread(7, 8, "late thread", "late process")
    with open_timeline(out.getvalue()) as timeline:
        export(timeline, "perfetto", tmp_path / "out.pftrace")
    view = perfetto_view(tmp_path / "out.pftrace")
    assert (view.threads, view.processes) == ({(7, 8, "late thread")}, {(7, "late process")})
    assert view.slices.total() == 100_000


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1 << 40, 8).complete("work", 1, 2)
    with open_timeline(out.getvalue()) as timeline:
        losses = export(timeline, "perfetto", tmp_path / "out.pftrace")
    assert set(losses) == {"numbers of processes and threads over 31 bits, which are cut"}
