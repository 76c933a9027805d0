"""Whole programs: what decorated functions, coroutines and all functions of a program leave in a trace, in full.

A trace is compared as text: each span is its name with its arguments, `{}` around what happened in it, and after `=`
what is known at its end.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.limits import PATIENCE
from support.tracer_recorder import Event, read_events

pytestmark = pytest.mark.recorder

FRONT = """
import contextlib, os, sys, threading
from fxtio import tracer
from fxtio.tracer import trace, span, instant
output = sys.argv[1]
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
options = eval(sys.argv[2])
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


def record(source: str, path: Path, *arguments: str) -> list[list[Event]]:
    """Run a program in a process of its own; return its events by thread, without the one about the recording."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", FRONT + source, str(path), *arguments],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    threads = [events for _, events in sorted(read_events(path).items())]
    return [[event for event in events if event[2:4] != ("fxtio", "recording")] for events in threads]


def arguments_of(event: Event) -> str:
    values = []
    for kind, name, *value in event[4]:
        if name.startswith("source."):  # where the function is defined
            continue
        result: Any = value[0] if value else None
        values.append(f"{name}={struct.unpack('<d', result)[0] if kind == 'DoubleArgument' else result!r}")
    return ", ".join(values)


def as_text(events: list[Event]) -> str:
    """Return the events of a thread as text; events of tasks as well, with their tracks numbered."""
    tracks: dict[int, int] = {}
    words = []
    for event in events:
        kind, args = event[0], arguments_of(event)
        track = f"@{tracks.setdefault(event[-1], len(tracks))} " if kind.startswith(("Async", "Flow")) else ""
        if kind.startswith("Flow"):
            words.append(f"{track}{kind.removeprefix('Flow').lower()}")
        elif kind.endswith("Begin"):
            words.append(f"{track}{event[3]}({args}){{")
        elif kind.endswith("End"):
            words.append(f"{track and f'{track}{event[3]}'}}}" + (f"={args}" if args else ""))
        else:
            words.append(f"{track}{event[3]}!{args}")
    return " ".join(words).replace("{ }", "{}")


def nested(name: str, depth: int, inside: str = "", end: str = "") -> str:
    """Return the text of a function that calls itself `depth` times, and what happens in the innermost call."""
    if depth == 0:
        return f"{name}(){{ {inside} }}{end}" if inside else f"{name}(){{}}{end}"
    return f"{name}(){{ {nested(name, depth - 1, inside, end)} }}{end}"


NUMBERS = "numbers(){ plain(){} }"
DECORATED = [
    "plain(){}",
    "keyed(a=1, rest='()', b='text', more='{}'){}=result='[1]'",
    "keyed(a=1, rest='(2,)', b=3.5, more=\"{'c': 4}\"){}=result='[1]'",
    "keyed(a=2, rest='()', b='text', more='{}'){}=exception='LookupError'",
    f"{NUMBERS} {NUMBERS} {NUMBERS}",
    f"delegated(){{ {NUMBERS} }} delegated(){{ {NUMBERS} }} delegated(){{ {NUMBERS} }}=result=None",
    f"{NUMBERS} {NUMBERS}",
    f"{NUMBERS} {NUMBERS}=exception='KeyError'",
    "Class.of_class(){ Class.method(){ plain(){} } } Class.of_none(){}",
    nested("deep", 50, "plain(){}"),
    "len(){}",
]


def test_decorated_functions(out: Path) -> None:
    (events,) = record(FUNCTIONS, out)
    assert as_text(events) == " ".join(DECORATED)


if sys.version_info >= (3, 12):  # tasks are operations, from begin to end
    LABEL, END = "@{task} Task-{number}(coroutine='{name}'){{ ", "@{task} Task-{number}}} "
else:
    LABEL, END = "@{task} Task-{number}(){{ @{task} Task-{number}!coroutine='{name}' @{task} Task-{number}}} ", ""
STARTED = (
    LABEL.replace("{name}", "child")
    + "@{task} await child(){{ child(){{ @{arrow} end @{task} in a task!n={n} @{task} waits(){{}} "
)
WAITS_AGAIN = "child(){{ @{task} waits}} }} @{task} await child}} " + END
TASKS = [
    "before! " + LABEL.format(task=0, number=1, name="main"),
    "@0 await main(){ main(){ @1 begin @2 begin @3 begin } ",
    *(STARTED.format(task=task, number=task - 2, arrow=task - 3, n=task - 4) for task in (4, 5, 6)),
    *(WAITS_AGAIN.format(task=task, number=task - 2) for task in (4, 5)),
    "child(){ @6 waits} }=exception='ValueError' @6 await child}=exception='ValueError' ",
    END.format(task=6, number=4),
    "main(){ stream(){} @0 got! stream(){} } main(){ stream(){} @0 got! stream(){} } ",
    "main(){ stream(){} } @0 await main} ",
    END.format(task=0, number=1) + "after!",
]


def test_coroutines(out: Path) -> None:
    (events,) = record(COROUTINES, out)
    assert as_text(events) == "".join(TASKS)


FAILURE = "=exception='ValueError'" if sys.version_info >= (3, 12) else ""  # the profile function is not told of it
LOADS = "json.loads(){ json.decoder.JSONDecoder.decode(){ json.decoder.JSONDecoder.raw_decode(){} } }"
LOADS_WITH_C = (
    "json.loads(){ builtins.isinstance(){} builtins.str.startswith(){} json.decoder.JSONDecoder.decode(){ "
    "re.Pattern.match(){} re.Match.end(){} json.decoder.JSONDecoder.raw_decode(){} re.Pattern.match(){} "
    "re.Match.end(){} builtins.len(){} } }"
)
SORTED = "<string>.outer.<locals>.<lambda>(){} <string>.outer.<locals>.<lambda>(){}"
SUPPRESS = "contextlib.suppress.__init__(){} contextlib.suppress.__enter__(){}"


def whole(loads: str, fails: int, sort: str = SORTED, suppressed: str = "") -> str:
    """Return the text of all calls: what `json` does, how often `fails` calls itself, and what C functions do."""
    inner = f"<string>.inner(){{ {loads} }}" if loads else "<string>.inner(){}"
    leave = f"contextlib.suppress.__exit__(){{{suppressed}}}"
    outer = f"<string>.outer(){{ <string>.inner(){{}} {inner} {inner} {SUPPRESS} {leave} {sort} }}"
    generate = " ".join(["<string>.generate(){}"] * 3)
    failing = nested("<string>.fails", fails, end=FAILURE)
    return f"{outer} {generate} {SUPPRESS} {failing} {leave} here(){{ {outer} }}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, whole(LOADS, 5)),
        ({"max_depth": 2}, whole("", 1)),
        ({"include": ["json"]}, f"{LOADS} {LOADS} here(){{ {LOADS} {LOADS} }}"),
        ({"min_duration": "3600s"}, "here(){}"),
        (
            {"c_functions": True},
            whole(LOADS_WITH_C, 5, f"builtins.sorted(){{ {SORTED} }}", " builtins.issubclass(){} "),
        ),
    ],
    ids=str,
)
def test_all_functions(options: dict[str, Any], expected: str, out: Path) -> None:
    (events,) = record(PROGRAM, out, repr(options))
    assert as_text(events) == expected


def is_balanced(events: list[Event]) -> bool:
    """Return whether every end belongs to the span that began last."""
    stack: list[Event] = []
    for event in events:
        if event[0] == "DurationBegin":
            stack.append(event[2:4])
        elif event[0] == "DurationEnd" and (not stack or stack.pop() != event[2:4]):
            return False
    return not stack


def test_a_full_stack_leaves_the_trace_balanced(out: Path) -> None:
    (events,) = record(RECURSION, out)
    assert is_balanced(events)
    assert len(events) > 1000


def test_a_child_leaves_the_file_alone(out: Path) -> None:
    parent, child = record(FORKING, out)
    assert as_text(parent) == "parent! around(){} parent!"
    assert as_text(child) == "in the child! in the child(){}"
