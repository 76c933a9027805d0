"""Slices of a recording in Perfetto, compared with the times that the program itself measured."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import os
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
from support.tracer_check import check_trace
from support.tracer_run import fine
from support.tracer_view import View

pytestmark = [pytest.mark.full, pytest.mark.recorder]

RATE_ERROR = 1.001
"""The rate of the tick counter is measured over a few milliseconds or longer."""

ROUNDING = 1_000
"""Nanoseconds: more than the conversion of ticks can lose."""


def test_nesting_and_durations(out: Path) -> None:
    """Each slice begins and ends between the times that the program measures right outside and right inside of it."""
    measured: list[tuple[str, int, int, int, int, int]] = []
    now = time.perf_counter_ns

    def deeper(depth: int) -> None:
        around = now()
        with fxtio.span(f"depth {depth}"):
            begin = now()
            for _ in range(3):
                time.sleep(0.0005)
                if depth < 3:
                    deeper(depth + 1)
            end = now()
        measured.append((f"depth {depth}", depth, around, begin, end, now()))

    with fxtio.tracing(out):
        for _ in range(3):
            deeper(0)
    view = View(out)
    measured.sort(key=lambda span: span[2])
    shown = [item for item in view.slices if item.dur > 0]
    assert [(item.name, item.depth) for item in shown] == [(name, depth) for name, depth, *_ in measured]
    for item, (_, _, around, begin, end, behind) in zip(shown, measured, strict=True):
        assert end - begin - ROUNDING <= item.dur * RATE_ERROR
        assert item.dur <= (behind - around) * RATE_ERROR + ROUNDING
    for (previous, other), (first, second) in zip(pairwise(shown), pairwise(measured), strict=True):
        assert (other.ts - previous.ts) <= (second[3] - first[2]) * RATE_ERROR + ROUNDING
        assert (second[2] - first[3]) - ROUNDING <= (other.ts - previous.ts) * RATE_ERROR


def soonest(items: list[Any]) -> tuple[int, int]:
    """Return the smallest difference between an event's time and its argument, and that argument."""
    return min((item.ts - int(str(item.args["ns"])), int(str(item.args["ns"]))) for item in items)


def test_the_clock_is_right_over_time(out: Path) -> None:
    """Also in the file of a program that was killed.  Of many events the one is taken that came soonest after its time
    had been asked for: others may have had to wait for the processor in between.
    """
    fine(
        """
        import shutil
        fxtio.start(OUT)
        for name in ("first", "last"):
            for _ in range(50):
                fxtio.instant(name, ns=time.perf_counter_ns())
            time.sleep(0.5)
        shutil.copy(OUT, OUT + ".killed")
        """,
        out,
    )
    for path in (out, Path(f"{out}.killed")):
        view = View(path)
        late, asked = zip(*[soonest(view.named(name)) for name in ("first", "last")], strict=True)
        assert abs(late[1] - late[0]) < (asked[1] - asked[0]) / 2_000
        with fxtio.open(path) as trace:
            (provider,) = trace.info.providers
            assert provider.wall_clock is not None if hasattr(provider, "wall_clock") else True


def test_no_two_events_have_the_same_time(out: Path) -> None:
    """The shortest spans keep their nesting."""
    with fxtio.tracing(out):
        for _ in range(2_000):
            with fxtio.span("a"), fxtio.span("b"), fxtio.span("c"):
                pass
    view = View(out)
    assert [(item.name, item.depth) for item in view.slices] == [("a", 0), ("b", 1), ("c", 2)] * 2_000
    assert all(item.dur > 0 for item in view.slices)


def test_arguments(out: Path) -> None:
    @fxtio.trace(args=True, result=True)
    def work(first: int, second: str = "two", *rest: int, key: float = 0.5, **more: str) -> str:
        return second * first

    with fxtio.tracing(out):
        assert work(1) == "two"
        assert work(2, "x", 3, 4, key=1.5, other="o") == "xx"
        assert work(first=3, second="y") == "yyy"
        with fxtio.span("span", "cat", whole=1, text="é", half=0.5, no=False) as span:
            span.set(late="known later", whole=2)
    view = View(out)
    assert [item.args for item in view.named("work")] == [
        {"first": 1, "second": "two", "rest": "()", "key": 0.5, "more": "{}", "result": "two"},
        {"first": 2, "second": "x", "rest": "(3, 4)", "key": 1.5, "more": "{'other': 'o'}", "result": "xx"},
        {"first": 3, "second": "y", "rest": "()", "key": 0.5, "more": "{}", "result": "yyy"},
    ]
    (shown,) = view.named("span")
    assert (shown.category, shown.args) == (
        "cat",
        {"whole": 2, "text": "é", "half": 0.5, "no": False, "late": "known later"},
    )


def test_defaults_that_change(out: Path) -> None:
    @fxtio.trace(args=["n", "key", "first"])
    def work(first: int, n: int = 1, *, key: int = 2) -> int:
        return first + n + key

    work.__defaults__, work.__kwdefaults__ = (5,), {"key": 7}
    with fxtio.tracing(out):
        assert work(1) == 13
        work.__defaults__, work.__kwdefaults__ = (3, 4), None
        call: Callable[..., int] = work
        assert call(key=1) == 8
    first, second = [item.args for item in View(out).named("work")]
    assert first == {"first": 1, "n": 5, "key": 7}
    assert second == {"first": 3, "n": 4, "key": 1}


def test_closures_that_share_their_code(out: Path) -> None:
    """Each closure has the name of its own decorator, and those without a decorator are not recorded."""

    def make(number: int) -> Callable[[], int]:
        def closure() -> int:
            return number

        return closure

    first, two, bare = fxtio.trace(name="one")(make(1)), fxtio.trace(name="two")(make(2)), make(3)
    with fxtio.tracing(out):
        assert [first(), two(), bare(), first()] == [1, 2, 3, 1]
    assert [item.name for item in View(out).slices] == ["one", "two", "one"]


def test_counters(out: Path) -> None:
    values: list[Any] = [1, -2.5, 2**40, True, np.int64(5), np.float32(0.5), decimal.Decimal("2.5")]
    with fxtio.tracing(out):
        for value in values:
            fxtio.counter("level", value)
        fxtio.counter("memory", None, "cat", rss=10, shared=20)
        fxtio.counter("memory", rss=11, shared=21)
    view = View(out)
    shown = [sample.value for sample in view.counters if sample.series == "level:value"]
    assert shown == [float(value) for value in values]
    assert [(sample.series, sample.value) for sample in view.counters[-4:]] == [
        ("memory:rss", 10), ("memory:shared", 20), ("memory:rss", 11), ("memory:shared", 21)
    ]  # fmt: skip
    assert {sample.pid for sample in view.counters} == {os.getpid()}


@pytest.mark.parametrize("functions", [False, True], ids=["decorated", "functions"])
def test_names_of_threads_and_processes(functions: bool, tmp_path: Path) -> None:
    printed = fine(
        """
        def work():
            with fxtio.span("here"):
                time.sleep(0.001)
        fxtio.start(OUT, **OPTIONS)
        ids = {}
        for name in ("one", "é" * 20, ""):
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()
            ids[thread.native_id] = thread.name
        def renamed():
            work()
            threading.current_thread().name = "second name"
            barrier.wait(60)
            barrier.wait(60)
        barrier = threading.Barrier(2)
        thread = threading.Thread(target=renamed, name="first name")
        thread.start()
        barrier.wait(60)
        ids[thread.native_id] = thread.name
        work()
        ids[threading.get_native_id()] = "MainThread"
        fxtio.stop()
        barrier.wait(60)
        print(repr((os.getpid(), ids)))
        """,
        tmp_path / "out.fxt",
        functions=functions,
    )
    pid, ids = eval(printed)
    view = View(tmp_path / "out.fxt", open_spans=functions)
    names = {thread.tid: thread.name for thread in view.threads}
    assert {tid: names.get(tid) for tid in ids} == ids
    assert {item.tid for item in view.named("here")} == set(ids)
    assert [(process.pid, process.name) for process in view.processes] == [(pid, "python -c")]


def test_flows_join_spans(out: Path) -> None:
    def consume(arrow: Any) -> None:
        with fxtio.span("consume"):
            arrow.step()
            with fxtio.span("inside"):
                fxtio.flow("job", id=arrow.id).end()

    with fxtio.tracing(out):
        for number in range(20):
            with fxtio.span("produce", n=number):
                arrow = fxtio.flow("job")
            thread = threading.Thread(target=consume, args=(arrow,))
            thread.start()
            thread.join()
    view = View(out)
    names = {item.id: item.name for item in view.slices}
    pairs = [(names[flow.slice_out], names[flow.slice_in]) for flow in view.flows]
    assert sorted(pairs) == [("consume", "inside")] * 20 + [("produce", "consume")] * 20


def test_arrows_lead_to_awaited_tasks(out: Path) -> None:
    @fxtio.trace(name="child")
    async def child(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    @fxtio.trace(name="passes on")
    async def passes_on(task: asyncio.Task[int]) -> int:
        return await task

    @fxtio.trace(name="parent")
    async def parent() -> None:
        assert await passes_on(asyncio.create_task(child(1))) == 1
        assert list(await asyncio.gather(child(2), child(3))) == [2, 3]
        await child(4)  # no task of its own
        done = asyncio.create_task(child(5))
        await asyncio.sleep(0.01)
        await done

    with fxtio.tracing(out):
        asyncio.run(parent())
    check_trace(out)
    view = View(out)
    names = {item.id: item.name for item in view.slices}
    pairs = [(names[flow.slice_out], names[flow.slice_in]) for flow in view.flows]
    assert sorted(pairs) == [("parent", "child")] * 2 + [("passes on", "child")]


def test_flows_between_tasks(out: Path) -> None:
    """Perfetto may leave out what it cannot draw, but it must not report errors."""

    async def main() -> None:
        with fxtio.span("send"):
            arrow = fxtio.flow("job")
        await asyncio.sleep(0)
        with fxtio.span("take"):
            arrow.end()

    with fxtio.tracing(out):
        asyncio.run(main())
    View(out)


def test_a_hundred_tasks(out: Path) -> None:
    """Each task has its own track, on which its spans nest, whatever else runs."""

    async def work(number: int) -> int:
        with fxtio.span("outer", n=number):
            await asyncio.sleep(0.001 * (number % 7))
            with fxtio.span("inner", n=number):
                await asyncio.sleep(0.0005)
                fxtio.instant("in", n=number)
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*(work(number) for number in range(100)))

    with fxtio.tracing(out):
        assert asyncio.run(main()) == list(range(100))
    view = View(out)
    outers, inners, instants = view.named("outer"), view.named("inner"), view.named("in")
    assert len(outers) == len(inners) == len(instants) == 100
    assert all(item.tid is None for item in (*outers, *inners, *instants))
    for item in (*inners, *instants):
        parent = view.parent(item)
        assert parent is not None
        assert parent.args["n"] == item.args["n"]
        assert parent.name == ("outer" if item.name == "inner" else "inner")
    assert len({span.id for span in view.seen.spans("outer")}) == 100


def test_tasks_with_the_same_context(out: Path) -> None:
    import contextvars

    async def work(number: int) -> None:
        with fxtio.span(f"task {number}"):
            await asyncio.sleep(0.001 * (2 - number))
            await asyncio.sleep(0.002 * number)

    async def main() -> None:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.create_task(work(number), context=context) for number in range(2)))

    with fxtio.tracing(out):
        asyncio.run(main())
    view = View(out)
    assert len({span.id for span in view.seen.spans() if span.on_track}) == 2
    assert {item.depth for item in view.slices if (item.name or "").startswith("task")} == {0}


def test_threads_beside_tasks(out: Path) -> None:
    def blocking(number: int) -> None:
        with fxtio.span("blocking", n=number):
            time.sleep(0.001)

    async def work(number: int) -> None:
        with fxtio.span("awaits", n=number):
            await asyncio.to_thread(blocking, number)

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(10)))

    with fxtio.tracing(out):
        asyncio.run(main())
        with fxtio.span("after"):
            pass
    view = View(out)
    assert all(item.tid not in (None, threading.get_native_id()) for item in view.named("blocking"))
    assert [item.tid for item in view.named("after")] == [threading.get_native_id()]
    assert len(view.named("awaits")) == 10


def test_tasks_that_are_cancelled(out: Path) -> None:
    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError), fxtio.span("cancelled"):
            await asyncio.sleep(60)
        with fxtio.span("cleans up"):
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0.001)
        task.cancel()
        await task

    with fxtio.tracing(out):
        asyncio.run(main())
    view = View(out)
    assert [item.args for item in view.named("cancelled")] == [{"exception": "CancelledError"}]
    assert [item.depth for item in view.named("cleans up")] == [0]
