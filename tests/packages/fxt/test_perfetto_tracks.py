"""Output of the writer, judged by Perfetto: counters, asynchronous operations, flows, scheduling, names.

A test that has to step around something that Perfetto bends or drops names it ("deviation").
"""

from __future__ import annotations

import io
import math

import pytest

import fxtio
import judges
from fxtio.fxt import FxtWriter, Koid
from judges import perfetto
from judges.perfetto import Perfetto

pytestmark = [pytest.mark.full, pytest.mark.once]

PROCESS, THREAD, JOB = 1, 2, 17
"""Types of kernel objects."""

NEW, RUNNING, SUSPENDED, BLOCKED, DYING, DEAD = range(6)
"""States of a thread that leaves a cpu."""

IDLE = -(1 << 31)
"""The weight that tells the idle thread."""


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


# ----------------------------------------------------------------------------------------------------------- counters


def test_counters() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, same_process, other = writer.thread(1, 11), writer.thread(1, 12), writer.thread(2, 21)
        first.counter("memory", 10, {"heap": 5, "stack": 2.5})
        first.counter("memory", 20, {"heap": -6})
        first.counter("memory", 20, {"heap": 7}, id=(1 << 64) - 1)
        same_process.counter("memory", 30, {"heap": 8}, category="elsewhere")
        other.counter("memory", 40, {"heap": 9})
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert p.slices() == []
        assert [(sample.ts, sample.series, sample.counter_id, sample.value, sample.pid) for sample in p.counters()] == [
            (10, "memory:heap", 0, 5.0, 1),
            (10, "memory:stack", 0, 2.5, 1),
            (20, "memory:heap", 0, -6.0, 1),
            (20, "memory:heap", (1 << 64) - 1, 7.0, 1),
            (30, "memory:heap", 0, 8.0, 1),  # the series belongs to the process, whichever thread and category
            (40, "memory:heap", 0, 9.0, 2),
        ]
        assert len({sample.track for sample in p.counters()}) == 3


def test_counters_of_every_type() -> None:
    """Deviation: all values become doubles, and what is no number is counted as an error."""
    values = {"int32": -1, "uint32": (1 << 32) - 1, "int64": -(1 << 53), "uint64": 1 << 63, "double": 0.1}
    values["endless"] = math.inf
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.counter("numbers", 1, {**values, "rounded": (1 << 53) + 1})
        track.counter("no numbers", 2, {"yes": True, "koid": Koid(1)})
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {"fuchsia_non_numeric_counters": 2}
        arrived = {sample.series.removeprefix("numbers:"): sample.value for sample in p.counters()}
    assert arrived == {name: float(value) for name, value in values.items()} | {"rounded": float(1 << 53)}


# -------------------------------------------------------------------------------------------- asynchronous operations


def test_async_operations() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, two = writer.thread(1, 11), writer.thread(1, 12)
        first.async_begin("request", 10, 7, category="net", args={"url": "a", "both": 1})
        first.async_begin("parse", 12, 7, category="net")
        two.async_instant("header", 13, 7, category="net", args={"bytes": 80})
        two.async_end("parse", 20, 7, category="net")
        two.async_end("request", 30, 7, category="net", args={"status": 200, "both": 2})
        first.async_begin("request", 15, 8, category="net")
        first.async_end("request", 25, 8, category="net")
        first.async_begin("endless", 40, (1 << 64) - 1)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        slices = p.slices()
        assert [(item.name, item.category, item.ts, item.dur, item.depth) for item in slices] == [
            ("request", "net", 10, 20, 0),
            ("parse", "net", 12, 8, 1),
            ("header", "net", 13, 0, 2),
            ("request", "net", 15, 10, 0),  # another id, so not nested
            ("endless", "", 40, -1, 0),
        ]
    assert {(item.pid, item.tid) for item in slices} == {(None, None)}  # on tracks of no thread
    assert slices[0].args == {"url": "a", "both": 2, "status": 200}
    assert slices[2].args == {"bytes": 80}


def test_async_ids_are_valid_in_the_whole_trace() -> None:
    """Deviation: the same id in two processes nests on one track; see the advice at `Track.async_begin`."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 11).async_begin("one", 10, 7)
        writer.thread(2, 21).async_begin("two", 20, 7)
        writer.thread(2, 21).async_end("two", 30, 7)
        writer.thread(1, 11).async_end("one", 40, 7)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        slices = p.slices()
    assert [(item.name, item.ts, item.dur, item.depth, item.track) for item in slices] == [
        ("one", 10, 30, 0, "one"),
        ("two", 20, 10, 1, "one"),
    ]


@pytest.mark.parametrize(("name", "category"), [("other", "cat"), ("name", "other")])
def test_async_end_must_repeat_name_and_category(name: str, category: str) -> None:
    """Deviation: otherwise the operation stays open, and no statistic counts it."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.async_begin("name", 10, 7, category="cat")
        track.async_end(name, 20, 7, category=category)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [item.dur for item in p.slices()] == [-1]


# -------------------------------------------------------------------------------------------------------------- flows


def arrows(p: Perfetto) -> list[tuple[str | None, str | None]]:
    assert p.errors() == {}
    return [(flow.name_out, flow.name_in) for flow in p.flows()]


def test_flows_across_threads_and_processes() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, two, other = writer.thread(1, 11), writer.thread(1, 12), writer.thread(2, 21)
        first.complete("send", 10, 20)
        first.flow_begin("flow", 15, 1, category="c", args={"lost": 1})
        two.complete("pass", 30, 40)
        two.complete("inner", 32, 38)
        two.flow_step("flow", 35, 1)
        other.begin("receive", 50)
        other.flow_end("flow", 55, 1)
        other.end("receive", 60)
        first.complete("unrelated", 62, 68)
        first.flow_begin("flow", 65, (1 << 64) - 1)
        two.complete("unrelated too", 70, 80)
        two.flow_end("flow", 75, (1 << 64) - 1)
    with perfetto.load(out.getvalue()) as p:
        assert arrows(p) == [("send", "inner"), ("inner", "receive"), ("unrelated", "unrelated too")]


def test_flows_at_the_start_of_a_span() -> None:
    """Deviation: at the span's own start tick the flow must be after it in the file."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, two = writer.thread(1, 11), writer.thread(1, 12)
        first.complete("out", 10, 20)
        first.flow_begin("flow", 10, 1)
        two.complete("in", 30, 40)
        two.flow_end("flow", 30, 1)
    with perfetto.load(out.getvalue()) as p:
        assert arrows(p) == [("out", "in")]
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 11)
        track.flow_begin("flow", 10, 1)
        track.complete("out", 10, 20)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {"flow_no_enclosing_slice": 1}


def test_flows_bind_to_what_came_last() -> None:
    """Deviation: to an instant, or to a complete span that is over, rather than to the span around them."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, two = writer.thread(1, 11), writer.thread(1, 12)
        first.complete("outer", 10, 30)
        first.instant("mark", 15)
        first.flow_begin("flow", 16, 1)
        two.complete("outer two", 40, 60)
        two.complete("over", 42, 44)
        two.flow_end("flow", 50, 1)
    with perfetto.load(out.getvalue()) as p:
        assert arrows(p) == [("mark", "over")]


# --------------------------------------------------------------------------------------------------------- scheduling


def name_all(writer: FxtWriter) -> None:
    for thread in (11, 12):
        writer.thread(1, thread, f"thread {thread}", "process")


def test_context_switches() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        name_all(writer)
        main = writer.main
        main.context_switch(100, 2, 0, 11, RUNNING, {"outgoing_weight": IDLE, "incoming_weight": 4})
        main.context_switch(200, 2, 11, 12, BLOCKED, {"outgoing_weight": 4, "incoming_weight": 5})
        main.context_switch(300, 2, 12, 0, SUSPENDED, {"incoming_weight": IDLE})
        main.context_switch(350, 2, 0, 12, NEW, {"outgoing_weight": IDLE})
        main.context_switch(400, 2, 12, 11, DYING)
        main.context_switch(500, 2, 11, 12, DEAD)
        main.context_switch(150, 4095, 0, 12, RUNNING, {"outgoing_weight": IDLE})  # the highest cpu Perfetto takes
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        ran = [(item.ts, item.dur, item.cpu, item.pid, item.tid, item.end_state, item.priority) for item in p.sched()]
    assert [item for item in ran if item[4] is not None] == [
        (100, 100, 2, 1, 11, "S", 4),
        (150, -1, 4095, 1, 12, None, 0),
        (200, 100, 2, 1, 12, "T", 5),
        (350, 50, 2, 1, 12, "Z", 0),
        (400, 100, 2, 1, 11, "X", 0),
        (500, -1, 2, 1, 12, None, 0),
    ]


def test_wakeups() -> None:
    """Deviation: only builds since 2026 read the `waker`; a wakeup makes a state, so it needs a switch before it."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        name_all(writer)
        writer.main.context_switch(100, 1, 12, 11, BLOCKED)
        writer.main.thread_wakeup(150, 3, 12, {"waker": Koid(11), "weight": 9})
        writer.main.context_switch(170, 1, 11, 12, RUNNING)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        states = {(s.ts, s.dur, s.tid, s.state) for s in p.thread_states()}
        (woken,) = [state for state in p.thread_states() if state.state == "W"]
    assert states == {
        (100, 50, 12, "S"),
        (100, 70, 11, "Running"),
        (150, 20, 12, "W"),
        (170, -1, 12, "Running"),
        (170, -1, 11, "R"),
    }
    assert woken.waker_tid in (None, 11)


def test_legacy_context_switches() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        name_all(writer)
        first, two, idle = writer.thread(1, 11), writer.thread(1, 12), writer.thread(0, 0)
        writer.main.legacy_context_switch(100, 0, idle, first, RUNNING, 0, 20)
        writer.main.legacy_context_switch(200, 0, first, two, BLOCKED, 20, 255)
        writer.main.legacy_context_switch(300, 0, two, idle, SUSPENDED, 255, 0)
        writer.main.legacy_context_switch(400, 255, idle, two, RUNNING, 0, 1)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        ran = [(item.ts, item.dur, item.cpu, item.pid, item.tid, item.end_state, item.priority) for item in p.sched()]
    assert ran == [
        (100, 100, 0, 1, 11, "S", 20),
        (200, 100, 0, 1, 12, "T", 255),
        (400, -1, 255, 1, 12, None, 1),
    ]


def test_events_and_scheduling_meet_on_named_threads() -> None:
    """Deviation: a thread that no kernel object named is two threads, one with its slices and one with its switches."""
    for name, threads in (("worker", [(1, 11)]), (None, [(1, 11), (None, 11)])):
        out = io.BytesIO()
        with fxtio.create(out, format="fxt") as writer:
            writer.thread(1, 11, name).complete("span", 110, 120)
            writer.main.context_switch(100, 0, 0, 11, RUNNING, {"outgoing_weight": IDLE})
        with perfetto.load(out.getvalue()) as p:
            assert p.errors() == {}
            assert sorted({(t.pid or None, t.tid) for t in p.threads()}, key=str) == threads


# -------------------------------------------------------------------------------------------------------------- names


def test_names_of_threads_and_processes() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 11).instant("early", 1)
        writer.thread(1, 11, "worker ü", "app").instant("event", 2)  # a name holds for the whole trace
        writer.thread(1, 12).instant("event", 3)
        writer.thread(2, 11, "same koid").instant("event", 4)
        writer.thread(3, 31, "old name", "old name")
        writer.thread(3, 31, "new name", "new name")  # the last name counts
        writer.main.kernel_object(JOB, 99, "a job")  # deviation: other objects are ignored
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert {(t.pid, t.tid, t.name) for t in p.threads()} == {
            (1, 11, "worker ü"), (1, 12, None), (2, 11, "same koid"), (3, 31, "new name"),
        }  # fmt: skip
        assert {(process.pid, process.name) for process in p.processes()} == {(1, "app"), (2, None), (3, "new name")}
        assert [(item.pid, item.tid) for item in p.slices()] == [(1, 11), (1, 11), (1, 12), (2, 11)]


def test_koids_are_cut_to_32_bits() -> None:
    """Deviation: threads whose koids differ in the upper half only are one."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, (1 << 32) - 1, "highest").instant("low", 1)
        writer.thread((5 << 32) + 1, (7 << 32) + (1 << 32) - 1).instant("high", 2)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [(item.pid, item.tid) for item in p.slices()] == [(1, (1 << 32) - 1)] * 2
        assert [thread.name for thread in p.threads()] == ["highest"]


def test_a_named_thread_without_events() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 1, "main", "app")  # a main thread bears its process's koid
        writer.main.kernel_object(THREAD, 12, "thread", {"process": Koid(1), "extra": "ignored"})
        writer.main.kernel_object(PROCESS, 2, "process")
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [(t.pid, t.tid, t.name) for t in p.threads()] == [(1, 1, "main"), (1, 12, "thread")]
        assert [(process.pid, process.name) for process in p.processes()] == [(1, "app"), (2, "process")]
