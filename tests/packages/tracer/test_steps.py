"""Traced generators and coroutines: they behave as untraced ones, and every stretch in which they run is recorded."""

from __future__ import annotations

import asyncio
import collections.abc
import contextlib
import gc
import inspect
import types
import warnings
import weakref
from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import fxtio
import fxtio.tracer.backend
from support.tracer_check import check_trace

pytestmark = pytest.mark.recorder


@fxtio.trace(name="echo")
def echo() -> Generator[Any, Any, str]:
    got = None
    while got != "end":
        try:
            got = yield got
        except KeyError:
            got = "caught"
    return "returned"


@fxtio.trace(name="sleeps")
async def sleeps(times: int = 1) -> int:
    for _ in range(times):
        await asyncio.sleep(0)
    return times


@fxtio.trace(name="counts", args=["most"])
async def counts(most: int) -> AsyncGenerator[int, None]:
    for number in range(most):
        await asyncio.sleep(0)
        yield number


@pytest.fixture(params=[True, False], ids=["recorded", "not recorded"])
def maybe_recorded(request: pytest.FixtureRequest, out: Path) -> Iterator[None]:
    with fxtio.tracing(out) if request.param else contextlib.nullcontext():
        yield
    if request.param:
        check_trace(out, open_spans=True)


@pytest.mark.usefixtures("maybe_recorded")
def test_a_traced_generator_is_a_generator() -> None:
    stepper: Any = echo()
    classes = (types.GeneratorType, collections.abc.Generator)
    assert all(isinstance(stepper, cls) for cls in classes)
    assert not hasattr(type(stepper), "__await__")
    assert inspect.isgenerator(iter(stepper))
    assert inspect.getgeneratorstate(stepper) == inspect.GEN_CREATED
    assert iter(stepper) is stepper
    assert weakref.ref(stepper)() == stepper
    assert "echo" in repr(stepper)
    assert next(stepper) is None
    assert stepper.send(1) == 1
    assert stepper.throw(KeyError) == "caught"
    assert stepper.gi_frame is not None
    with pytest.raises(StopIteration) as caught:
        stepper.send("end")
    assert caught.value.value == "returned"
    with pytest.raises(StopIteration):
        next(stepper)
    assert inspect.getgeneratorstate(stepper) == inspect.GEN_CLOSED


@pytest.mark.usefixtures("maybe_recorded")
def test_a_generator_within_another() -> None:
    def outer() -> Generator[Any, Any, str]:
        return (yield from echo())

    stepper = outer()
    assert [next(stepper), stepper.send(3), stepper.throw(KeyError)] == [None, 3, "caught"]
    with pytest.raises(ValueError, match="out"):
        stepper.throw(ValueError("out"))
    assert [number for number, _ in zip(range(3), echo(), strict=False)] == [0, 1, 2]


@pytest.mark.usefixtures("maybe_recorded")
def test_a_generator_that_is_closed() -> None:
    for started in (False, True):
        stepper = echo()
        if started:
            next(stepper)
        stepper.close()
        stepper.close()
        with pytest.raises(StopIteration):
            next(stepper)

    @fxtio.trace
    def stubborn() -> Generator[int, None, None]:
        with contextlib.suppress(GeneratorExit):
            yield 1
        yield 2

    generator = stubborn()
    next(generator)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        generator.close()
    assert next(generator, None) is None


@pytest.mark.usefixtures("maybe_recorded")
def test_a_running_generator_cannot_be_resumed() -> None:
    @fxtio.trace
    def itself() -> Generator[str, None, None]:
        try:
            next(stepper)
        except ValueError as error:
            yield str(error)
        yield "goes on"

    stepper = itself()
    assert list(stepper) == ["generator already executing", "goes on"]


@pytest.mark.usefixtures("maybe_recorded")
def test_a_traced_coroutine_is_a_coroutine() -> None:
    stepper = sleeps()
    assert isinstance(stepper, types.CoroutineType)
    assert isinstance(stepper, collections.abc.Coroutine)
    assert inspect.iscoroutine(stepper)
    assert inspect.isawaitable(stepper)
    assert asyncio.iscoroutine(stepper)
    assert not hasattr(type(stepper), "__iter__")
    stepper.close()
    assert asyncio.run(sleeps(3)) == 3

    async def all_ways() -> list[int]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(sleeps(2))
        return [await sleeps(1), await task, *await asyncio.gather(sleeps(3), asyncio.wait_for(sleeps(4), 5))]

    assert asyncio.run(all_ways()) == [1, 2, 3, 4]


@pytest.mark.usefixtures("maybe_recorded")
def test_a_coroutine_that_nobody_awaits_warns() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del [sleeps()][:]
        gc.collect()
    assert any("was never awaited" in str(warning.message) for warning in caught)


@pytest.mark.usefixtures("maybe_recorded")
def test_a_coroutine_that_is_cancelled() -> None:
    @fxtio.trace
    async def waits() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "cancelled"
        return "over"

    async def cancels() -> str:
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(cancels()) == "cancelled"


@pytest.mark.usefixtures("maybe_recorded")
def test_a_traced_async_generator_is_an_async_generator() -> None:
    async def use() -> tuple[list[Any], int]:
        stepper: Any = counts(3)
        assert isinstance(stepper, types.AsyncGeneratorType)
        assert isinstance(stepper, collections.abc.AsyncGenerator)
        assert inspect.isasyncgen(stepper)
        seen = [number async for number in stepper]
        other = counts(5)
        first = await anext(other)
        await other.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(other)
        thrown = counts(2)
        await thrown.asend(None)
        with pytest.raises(KeyError):
            await thrown.athrow(KeyError("thrown"))
        return seen, first

    assert asyncio.run(use()) == ([0, 1, 2], 0)


def test_a_task_shows_the_whole_call(out: Path) -> None:
    with fxtio.tracing(out):
        asyncio.run(sleeps(2))
    seen = check_trace(out)
    (whole,) = seen.spans("await sleeps")
    stretches = seen.spans("sleeps")
    assert whole.on_track and not any(stretch.on_track for stretch in stretches)
    assert len(stretches) == 3
    assert all(whole.start < stretch.start < stretch.end < whole.end for stretch in stretches)


def test_arguments_are_recorded_once(out: Path) -> None:
    async def use() -> None:
        async for _ in counts(2):
            pass

    with fxtio.tracing(out):
        asyncio.run(use())
    stretches = check_trace(out).spans("counts")
    assert [span.args for span in stretches if span.args] == [{"most": 2}]
    assert len(stretches) == 5


def test_a_dropped_coroutine_ends(out: Path) -> None:
    async def drops() -> None:
        stepper = sleeps(5)
        stepper.send(None)
        del stepper
        gc.collect()

    with fxtio.tracing(out):
        asyncio.run(drops())
    assert len(check_trace(out).spans("await sleeps")) == 1


def test_a_deep_chain_of_coroutines(out: Path) -> None:
    @fxtio.trace
    async def deep(number: int) -> int:
        return 0 if number == 0 else 1 + await deep(number - 1)

    with fxtio.tracing(out):
        assert asyncio.run(deep(150)) == 150
    seen = check_trace(out)
    assert len(seen.spans(deep.__qualname__)) == len(seen.spans(f"await {deep.__qualname__}")) == 151


def test_each_of_many_tasks_has_a_track_of_its_own(out: Path) -> None:
    """Tasks that are freed leave their addresses to others; some live on meanwhile, and keep their tracks."""
    waves, width = 12, 30

    async def work() -> int:
        await asyncio.sleep(0)
        return fxtio.tracer.backend.recorder.task_track()

    async def stays(started: asyncio.Event, end: asyncio.Event) -> tuple[int, int]:
        first = await work()
        started.set()
        await end.wait()
        return first, await work()

    async def main() -> tuple[list[int], list[tuple[int, int]]]:
        tracks: list[int] = []
        end = asyncio.Event()
        long_lived = []
        for _ in range(waves):
            started = asyncio.Event()
            long_lived.append(asyncio.create_task(stays(started, end)))
            await started.wait()
            tracks += await asyncio.gather(*[work() for _ in range(width)])
        end.set()
        return tracks, await asyncio.gather(*long_lived)

    with fxtio.tracing(out, functions=True):
        tracks, kept = asyncio.run(main())
    assert all(before == after for before, after in kept)
    tracks += [before for before, _ in kept]
    assert len(set(tracks)) == waves * (width + 1)
    assert 0 not in tracks
    check_trace(out, open_spans=True)
