"""The recorder in C against its twin in Python: whole programs, with functions that are decorated or all recorded.

Each program runs twice in a process of its own, with FXTIO_RECORDER saying which recorder is meant.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.tracer_twins import read

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with shared mappings")

FRONT = """
import contextlib, os, sys, threading
from fxtio import tracer
from fxtio.tracer import trace, span, instant
assert tracer.IMPLEMENTATION == sys.argv[1]
output = sys.argv[2]
"""

FUNCTIONS = """
@trace
def plain(x=1):
    return x
@trace(args=True, result=True)
def keyed(a, *rest, b="text", **more):
    if a == 2:
        raise LookupError
    return [a]
@trace
def numbers(count):
    try:
        for number in range(count):
            plain()
            yield number
    finally:
        plain(2)
@trace(name="delegated", category="gen", result=True)
def outer():
    return (yield from numbers(2))
@trace
class Class:
    def method(self): return plain()
    @classmethod
    def of_class(cls): return cls().method()
    @staticmethod
    def of_none(): return None
    @property
    def left(self): return 1
@trace
def deep(n):
    return plain() if n == 0 else deep(n - 1)
size = trace(len)
with tracer.tracing(output):
    plain(); keyed(1); keyed(1, 2, b=3.5, c=4)
    with contextlib.suppress(LookupError):
        keyed(2)
    list(numbers(2)); list(outer())
    unfinished = numbers(3); next(unfinished); unfinished.close()
    thrown = numbers(3); next(thrown)
    with contextlib.suppress(KeyError):
        thrown.throw(KeyError)
    Class.of_class(); Class().of_none(); Class().left
    deep(50); size([1])
"""

COROUTINES = """
import asyncio
@trace
async def child(n):
    instant("in a task", n=n)
    with span("waits"):
        await asyncio.sleep(0)
    if n == 2:
        raise ValueError
@trace
async def stream():
    for n in range(2):
        yield n
        await asyncio.sleep(0)
@trace
async def main():
    await asyncio.gather(*[child(n) for n in range(3)], return_exceptions=True)
    async for n in stream():
        instant("got")
with tracer.tracing(output):
    instant("before")
    asyncio.run(main())
    instant("after")
"""

PROGRAM = """
import json
def inner(n):
    return json.loads("[1]") if n else None
def outer():
    for n in range(3):
        inner(n)
    with contextlib.suppress(KeyError):
        raise KeyError
    return sorted([3, 1], key=lambda x: -x)
def generate():
    yield from range(2)
def fails(n):
    if n == 0:
        raise ValueError
    fails(n - 1)
options = eval(sys.argv[3])
tracer.start(output, functions=True, **options)
outer(); list(generate())
with contextlib.suppress(ValueError):
    fails(5)
with span("here"):
    outer()
tracer.stop()
"""

RECURSION = """
@trace
def endless(n):
    with span("span"):
        return endless(n + 1)
@trace(args=True)
def keyed(n):
    with span("args", n=n) as one:
        one.set(m=n)
        return keyed(n + 1)
with tracer.tracing(output):
    for function in (endless, keyed):
        for _ in range(3):
            try:
                function(0)
            except RecursionError:
                pass
            else:
                raise AssertionError
"""

FORKING = """
with tracer.tracing(output):
    instant("parent")
    with span("around"):
        child = os.fork()
        if not child:
            instant("in the child")
            with span("in the child"):
                pass
            os._exit(0)
        os.waitpid(child, 0)
    instant("parent")
"""


def in_process(recorder: str, source: str, path: Path, *arguments: str) -> list[tuple[Any, ...]]:
    """What a program leaves in its trace when it is run with this recorder, but for the event that tells the setup."""
    environment = {**os.environ, "FXTIO_RECORDER": recorder}
    done = subprocess.run(
        [sys.executable, "-P", "-c", FRONT + source, recorder, str(path), *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [event for _, one in sorted(read(path).items()) for event in one]
    return [event for event in events if event[2:4] != ("fxtio", "recording")]


def numbered(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """With ids by the order in which they come: there is a process id in them."""
    known: dict[int, int] = {}
    return [
        (*event[:-1], known.setdefault(event[-1], len(known))) if event[0].startswith(("Async", "Flow")) else event
        for event in events
    ]


@pytest.mark.parametrize("source", [FUNCTIONS, COROUTINES], ids=["functions", "coroutines"])
def test_decorated_functions(tmp_path: Path, source: str) -> None:
    traces = [numbered(in_process(name, source, tmp_path / f"{name}.fxt")) for name in ("c", "python")]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 20


@pytest.mark.parametrize(
    "options", [{}, {"max_depth": 2}, {"include": ["json"]}, {"min_duration": "1s"}, {"c_functions": True}], ids=str
)
def test_whole_programs(tmp_path: Path, options: dict[str, Any]) -> None:
    traces = []
    for name in ("c", "python"):
        events = in_process(name, PROGRAM, tmp_path / f"{name}.fxt", repr(options))
        traces.append([event for event in events if "fxtio" not in str(event[3])])
    assert traces[0] == traces[1]
    assert balanced(traces[0])


def balanced(events: list[tuple[Any, ...]]) -> bool:
    """Whether every end belongs to the span that began last."""
    opened: list[tuple[Any, ...]] = []
    for event in events:
        if event[0] == "DurationBegin":
            opened.append(event[2:4])
        elif event[0] == "DurationEnd" and (not opened or opened.pop() != event[2:4]):
            return False
    return not opened


@pytest.mark.parametrize("recorder", ["c", "python"])
def test_a_full_stack_leaves_the_trace_balanced(tmp_path: Path, recorder: str) -> None:
    events = in_process(recorder, RECURSION, tmp_path / "deep.fxt")
    assert balanced(events)
    assert len(events) > 1000


def test_a_child_leaves_the_file_alone(tmp_path: Path) -> None:
    traces = [in_process(name, FORKING, tmp_path / f"{name}.fxt") for name in ("c", "python")]
    assert traces[0] == traces[1]
    assert [event[3] for event in traces[0] if event[1] == 0] == ["parent", "around", "around", "parent"]
