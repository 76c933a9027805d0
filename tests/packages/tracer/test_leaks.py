"""A recording leaves nothing behind in a process that continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.tracer_run import fine

pytestmark = pytest.mark.recorder

WORK = """
import gc
@fxtio.trace(args=True, result=True)
def add(x, *more):
    return x
@fxtio.trace
def numbers():
    yield from range(2)
@fxtio.trace
def fails():
    raise ValueError
class Odd:
    def __repr__(self):
        return "odd"
def work(rounds):
    for number in range(rounds):
        with fxtio.span("all", "app", integer=number, text="text", odd=Odd()) as span:
            span.set(late=number)
        with fxtio.span(f"name {number % 300}"):
            fxtio.instant("here", large=2**70, real=1.5, none=None)
        fxtio.counter("value", number)
        fxtio.counter("series", a=number, b=0.5)
        add(number, Odd())
        list(numbers())
        try:
            with fxtio.span("fails"):
                fails()
        except ValueError:
            pass
forget = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
def resources():
    forget()
    gc.collect()
    with open("/proc/self/maps") as maps:
        mapped = sum(os.path.dirname(OUT) in line for line in maps)
    return sys.getallocatedblocks(), mapped, len(os.listdir("/proc/self/fd"))
def grown(what, times):
    first = resources()
    for _ in range(times):
        what()
    return [after - before for before, after in zip(first, resources())]
def leaked(what, times):
    what()
    idle = [grown(what, 1) for _ in range(2)][-1]
    growths = [grown(what, times) for _ in range(3)]
    print(*(min(each) - before for before, *each in zip(idle, *growths)))
"""

CYCLES = """
def cycle():
    fxtio.start(OUT, **OPTIONS)
    thread = threading.Thread(target=work, args=(2,))
    thread.start()
    thread.join()
    work(2)
    fxtio.stop()
leaked(cycle, 100)
"""

EVENTS = """
fxtio.start(OUT, **OPTIONS)
leaked(lambda: work(1000), 3)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(CYCLES, {}, id="recordings"),
        pytest.param(EVENTS, {"ring": "1MiB"}, id="events"),
    ],
)
def test_nothing_is_left(source: str, options: dict[str, Any], out: Path) -> None:
    """Blocks of memory, mappings and descriptors do not grow with the recordings, nor with the events of one.

    What leaks does so with each of 100 recordings or 3,000 rounds of events. The interpreter's cache of attributes is
    emptied first: it keeps the names that reprlib makes, by their addresses, in 4,096 places that fill slowly. What its
    other caches have after one recording as after many does not count.
    """
    printed = fine(WORK + source, out, functions=True, **options)
    blocks, mappings, descriptors = map(int, printed.split())
    assert blocks < 50
    assert (mappings, descriptors) == (0, 0)


RING = """
import gc, weakref
class Owner:
    pass
owner = Owner()
owner.span = fxtio.span("held", owner=owner)
with owner.span as span:
    if {late}:
        span.set(late=[span, owner])
seen = weakref.ref(owner)
del owner, span
gc.collect()
print(seen())
"""


@pytest.mark.parametrize("late", [False, True])
def test_spans_in_reference_cycles_are_freed(late: bool, out: Path) -> None:
    assert fine(RING.format(late=late), out, start=True) == "None\n"
