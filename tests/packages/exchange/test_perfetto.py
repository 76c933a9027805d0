"""Perfetto protobuf traces: read with the messages of Perfetto's own package, and by its trace processor."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio import open_timeline
from fxtio.exchange import formatting
from fxtio.fxt import Koid, Pointer
from judges import perfetto
from support.checkout import CORPUS
from support.conversion import export, perfetto_view

pytestmark = [pytest.mark.full, pytest.mark.once]

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


def test_processes_and_threads_without_numbers(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(0, 8).complete("work", 1, 2)
        writer.thread(7, 0, "zero", "program").complete("work", 1, 2)
    for source, count in ((out.getvalue(), 2), (CORPUS / "py-spy" / "work.speedscope.json", 8)):
        with open_timeline(source) as timeline:
            export(timeline, "perfetto", tmp_path / "out.pftrace")
        with perfetto.load(tmp_path / "out.pftrace") as p:
            assert len(p.slices()) == count
            assert p.query("select name from stats where name glob 'track_event_*_errors' and value") == []


def scheduled() -> bytes:
    """Return an FXT trace with switches and wakeups on three processors, gaps, and states of all kinds."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        provider = writer.main
        for tid in (10, 11, 12, 13):
            writer.thread(1, tid, f"thread {tid}", "process")
        writer.thread(1, 10).complete("span", 105, 145)
        idle = {"incoming_weight": -(1 << 31)}
        provider.context_switch(100, 0, 10, 11, 3, {"incoming_weight": 7})
        provider.thread_wakeup(120, 0, 12, {"waker": Koid(11)})
        provider.context_switch(150, 0, 11, 0, 2, idle)
        provider.context_switch(170, 0, 0, 12, 1, {"outgoing_weight": -(1 << 31), "incoming_weight": 5})
        provider.context_switch(180, 0, 12, 10, 5, {"incoming_weight": 3})
        provider.context_switch(190, 0, 10, 11, 4)
        provider.context_switch(110, 1, 0, 13, 1, {"outgoing_weight": -(1 << 31)})
        provider.context_switch(160, 1, 13, 0, 3, idle)
        provider.context_switch(130, 1023, 0, 10, 0, {"outgoing_weight": -(1 << 31)})
    return out.getvalue()


def test_the_scheduler_in_perfetto(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    data = scheduled()
    with open_timeline(data) as timeline:
        losses = export(timeline, "perfetto", tmp_path / "out.pftrace")
        intervals = [*timeline.table("scheduling").rows()]
        tids = timeline.table("threads")["tid"].tolist()
    assert losses == {}
    seen = []
    for trace in (data, tmp_path / "out.pftrace"):
        with perfetto.load(trace) as p:
            assert p.errors() == {}
            rows = [(s.ts, s.dur, s.cpu, s.tid, s.pid, s.end_state, s.priority) for s in p.sched() if s.tid]
            wakes = [(s.ts, s.dur, s.tid) for s in p.thread_states() if s.state == "W" or s.waker_tid]
            seen.append((rows, wakes, {(each.pid, each.tid, each.name) for each in p.threads() if each.tid}))
    assert seen[0] == seen[1]
    ran = {(start, cpu, tid): duration for start, duration, cpu, tid, *_ in seen[1][0]}
    assert ran.keys() == {(row["start"], row["cpu"], tids[row["thread"]]) for row in intervals}
    for row in intervals:
        duration = ran[row["start"], row["cpu"], tids[row["thread"]]]
        assert duration == (-1 if row["state"] is None else row["duration"])


def test_switches_across_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a processor in several portions give the switches of one."""
    judges.require(perfetto.available())
    seen = []
    for most in (32_000, 1, 2):
        monkeypatch.setattr(formatting, "MAX_ROWS", most)
        with open_timeline(scheduled()) as timeline:
            export(timeline, "perfetto", tmp_path / f"{most}.pftrace")
        with perfetto.load(tmp_path / f"{most}.pftrace") as p:
            assert p.errors() == {}
            seen.append((p.sched(), p.thread_states()))
    assert seen[0] == seen[1] == seen[2]


def test_the_wall_clock(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    for wall_clock in (1_700_000_000_000_000_000, 5):
        with fxtio.create(tmp_path / "in.fxt", wall_clock=wall_clock, base_ticks=100) as writer:
            writer.thread(1, 2, "main").complete("span", 1100, 1200)
        with open_timeline(tmp_path / "in.fxt") as timeline:
            assert export(timeline, "perfetto", tmp_path / "out.pftrace") == {}
        with perfetto.load(tmp_path / "out.pftrace") as p:
            assert p.errors() == {}
            ((time, real),) = [row.values() for row in p.query("select ts, to_realtime(ts) as real from slice")]
        assert (time, real) == (1100, wall_clock + 1000)


@pytest.mark.parametrize("name", ["thread-v019", "watch-cpu-v013", "callsite-v019"])
def test_when_tasks_of_uftrace_run(name: str, tmp_path: Path) -> None:
    judges.require(perfetto.available())
    with open_timeline(CORPUS / "uftrace" / name) as timeline:
        export(timeline, "perfetto", tmp_path / "out.pftrace")
        tids = timeline.table("threads")["tid"].tolist()
        rows = [(row["start"], row["duration"], row["cpu"], tids[row["thread"]], row["state"]) for row in
                timeline.table("scheduling").rows()]  # fmt: skip
    end = max(row[0] + row[1] for row in rows)
    letters = {"blocked": "S", "runnable": "R", None: None}
    with perfetto.load(tmp_path / "out.pftrace") as p:
        assert p.errors() == {}
        ran = [s for s in p.sched() if s.tid]
    assert {(s.ts, s.dur if s.dur >= 0 else end - s.ts, s.cpu, s.tid) for s in ran} == {row[:4] for row in rows}
    ends = {(s.ts, s.cpu): s.end_state for s in ran}
    assert all(ends[row[0], row[2]] == letters[row[4]] for row in rows if row[4] is not None)
