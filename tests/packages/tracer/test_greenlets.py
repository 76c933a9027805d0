"""Greenlets: each has a track of its own, on which its calls and spans nest."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = [
    pytest.mark.recorder,
    pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet is not installed"),
]

FUNCTIONS = """
def compiled(source):
    scope = dict(globals())
    exec(compile(source, "traced.py", "exec"), scope)
    return scope
scope = compiled(\"\"\"
def leaf(n): return n
def work(n):
    with fxtio.span("step", n=n):
        leaf(n)
        switch()
        leaf(n)
    deeper(n)
def deeper(n):
    switch()
    leaf(n)
    switch()
\"\"\")
"""


@pytest.mark.parametrize("first", ["import greenlet", ""], ids=["before", "while recorded"])
@pytest.mark.parametrize("functions", [True, False])
def test_switches_in_the_middle_of_functions(first: str, functions: bool, out: Path) -> None:
    source = f"""
    {first}
    fxtio.start(OUT, functions={functions}, include=["traced.py"])
    import greenlet
    main = greenlet.getcurrent()
    {textwrap.indent(FUNCTIONS, "    ").strip()}
    scope["switch"] = lambda: main.switch()
    for round in range(3):
        alive = [greenlet.greenlet(scope["work"]) for _ in range(20)]
        for number, one in enumerate(alive): one.switch(number)
        while alive:
            for one in alive: one.switch()
            alive = [one for one in alive if not one.dead]
    print("done")
    """
    assert fine(source, out) == "done\n"
    seen = check_trace(out)
    assert len(seen.spans("step")) == 60
    tracks = {span.thread for span in seen.spans("step")}
    assert len(tracks) == 20  # the tracks of those that have ended are used again
    names = seen.names_of("thread")
    assert {names[track] for track in tracks} == {f"greenlet {number}" for number in range(1, 21)}
    if functions:
        assert len(seen.spans("traced.leaf")) == 180
        assert {span.depth for span in seen.spans("traced.deeper")} == {2}


def test_the_function_of_the_program_for_switches_is_called(out: Path) -> None:
    source = """
    import greenlet
    seen = []
    greenlet.settrace(lambda event, pair: seen.append(event))
    fxtio.start(OUT)
    def work():
        with fxtio.span("work"): main.switch()
    main = greenlet.getcurrent()
    with fxtio.span("main"):
        one = greenlet.greenlet(work)
        one.switch(); one.switch()
    fxtio.stop()
    print(seen)
    """
    assert fine(source, out) == "['switch', 'switch', 'switch', 'switch']\n"
    assert len({span.thread for span in check_trace(out).spans()}) == 2


def test_greenlets_that_fail_or_are_dropped(out: Path) -> None:
    source = """
    import gc, greenlet
    fxtio.start(OUT, functions=True)
    main = greenlet.getcurrent()
    def fails():
        main.switch()
        raise KeyError
    def hangs():
        with fxtio.span("hangs"): main.switch()
    for _ in range(30):
        one, other = greenlet.greenlet(fails), greenlet.greenlet(hangs)
        one.switch(); other.switch()
        try: one.switch()
        except KeyError: print("raised", end=" ")
        del other
        gc.collect()
    """
    assert fine(source, out) == "raised " * 30
    check_trace(out, open_spans=True)


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="gevent is not installed")
def test_gevent(out: Path) -> None:
    source = """
    from gevent import monkey
    monkey.patch_all()
    import gevent, queue
    fxtio.start(OUT, functions=True)
    waiting = queue.Queue()
    def consume():
        for _ in range(20):
            with fxtio.span("get"): waiting.get()
            gevent.sleep(0)
    def produce():
        for number in range(20):
            with fxtio.span("put"): waiting.put(number)
            time.sleep(0)
    def both():
        threads = [threading.Thread(target=run) for run in (consume, produce) * 5]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    both()
    fxtio.stop()
    print("done")
    """
    assert fine(source, out) == "done\n"
    seen = check_trace(out, open_spans=True)
    assert len(seen.spans("get")) == len(seen.spans("put")) == 100


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_recording_that_ends_while_greenlets_switch(is_dead: bool, out: Path) -> None:
    """Another thread may end it wherever the interpreter is called, as when a greenlet is asked whether it is dead."""
    source = f"""
    from fxtio._native import _recorder as recorder
    class Strand: pass
    strands = Strand(), Strand()
    def is_dead(strand):
        fxtio.stop()
        return {is_dead}
    recorder.know_greenlets(is_dead)
    fxtio.start(OUT)
    with fxtio.span("before"):
        recorder.switched("switch", strands)
    print("done")
    """
    assert fine(source, out) == "done\n"
    check_trace(out, open_spans=True)
