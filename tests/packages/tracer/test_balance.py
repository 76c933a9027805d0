"""Ends without a begin, and begins without an end, that the interpreter reports: they shift nothing."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from support.tracer_check import Seen, check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

PRELUDE = """
import asyncio, contextlib, signal, textwrap
def compiled(source):
    scope = dict(globals())
    exec(compile(textwrap.dedent(source), "traced.py", "exec"), scope)
    return scope
"""


def traced(source: str, out: Path, **options: object) -> tuple[str, Seen]:
    """Run a program of which `compiled` code is recorded; return what it prints and its trace, which is balanced."""
    program = f"fxtio.start(OUT, functions=True, include=['traced.py'])\n{textwrap.dedent(source)}"
    printed = fine(PRELUDE + program, out)
    return printed, check_trace(out, **options)  # type: ignore[arg-type]


@pytest.mark.full
def test_an_interrupt_at_the_first_instruction(out: Path) -> None:
    """On some versions the interpreter then reports that a function ends whose begin it did not report."""
    source = '''
    scope = compiled("""
        def leaf(): pass
        def recurse(n):
            if n: recurse(n - 1)
            for _ in range(20): leaf()
        def outer(): recurse(5)
    """)
    class Mine(Exception): pass
    def handler(*_): raise Mine
    signal.signal(signal.SIGALRM, handler)
    caught = 0
    while caught < 60:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0007)
            while True: scope["outer"]()
        except Mine:
            caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(caught)
    '''
    printed, seen = traced(source, out)
    assert printed == "60\n"
    assert seen.levels("traced.outer") == {1}
    assert seen.levels("traced.leaf") == set(range(3, 9))


def test_a_thrown_exception_that_an_inner_generator_swallows(out: Path) -> None:
    source = '''
    scope = compiled("""
        def inner():
            try:
                yield 1
            except KeyError:
                return 2
        def outer():
            got = yield from inner()
            yield got
        def main():
            for _ in range(5):
                steps = outer()
                next(steps)
                steps.throw(KeyError())
                steps.close()
        def nested():
            main()
    """)
    scope["nested"]()
    '''
    _, seen = traced(source, out)
    (nested,) = seen.spans("traced.nested")
    assert nested.depth == 1
    assert seen.spans("traced.main")[0].end < nested.end


def test_nested_timeouts(out: Path) -> None:
    source = '''
    scope = compiled("""
        async def waits(depth):
            try:
                async with asyncio.timeout(0.001 * depth):
                    if depth:
                        await waits(depth - 1)
                    await asyncio.sleep(10)
            except TimeoutError:
                return depth
        async def main():
            return await asyncio.gather(*(waits(3) for _ in range(5)))
        def run():
            return asyncio.run(main())
    """)
    print(scope["run"]())
    '''
    printed, seen = traced(source, out)
    assert printed == "[3, 3, 3, 3, 3]\n"
    assert seen.spans("traced.run")[0].depth == 1


def test_a_coroutine_that_is_cancelled_before_its_first_step(out: Path) -> None:
    source = '''
    scope = compiled("""
        async def never(): pass
        async def main():
            for _ in range(5):
                task = asyncio.create_task(never())
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                coroutine = never()
                with contextlib.suppress(KeyError):
                    coroutine.throw(KeyError())
        def run():
            asyncio.run(main())
    """)
    scope["run"]()
    '''
    _, seen = traced(source, out)
    assert [span.depth for span in seen.spans("traced.run")] == [1]
    assert not [span for span in seen.spans("traced.never") if span.on_track]


def test_an_interrupt_while_a_result_is_described(out: Path) -> None:
    source = """
    def handler(*_): raise KeyError
    signal.signal(signal.SIGUSR1, handler)
    class Interrupted:
        def __repr__(self):
            signal.raise_signal(signal.SIGUSR1)
            for _ in range(9): pass
            return "never"
    @fxtio.trace(result=True)
    def gives(): return Interrupted()
    @fxtio.trace(args=True)
    def takes(value): return 1
    @fxtio.trace
    def outer():
        for call in (gives, lambda: takes(Interrupted())):
            try: call()
            except KeyError: pass
    for _ in range(3): outer()
    """
    _, seen = traced(source, out)
    assert [span.depth for span in seen.spans() if span.name.endswith("outer")] == [1, 1, 1]
    assert [span.depth for span in seen.spans() if span.name.endswith(("gives", "takes"))] == [2] * 6


def test_deep_recursion(out: Path) -> None:
    source = '''
    scope = compiled("""
        def deep(n):
            if n: deep(n - 1)
            else: pass
        def around(): deep(3000)
    """)
    sys.setrecursionlimit(20000)
    scope["around"]()
    scope["around"]()
    '''
    _, seen = traced(source, out)
    assert max(span.depth for span in seen.spans()) == 3002
