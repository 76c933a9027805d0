"""The recorder in Python: what `fxtio._native._recorder` is, slower, for where that is not there.

Begin and end of a recording are here, the rest is in `fxtio.tracer.python`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic_ns
from typing import Any

from fxtio.tracer.python import store
from fxtio.tracer.python.code import (
    forget_codes,
    functions,
    on_call,
    on_call_over,
    on_resume,
    on_return,
    on_start,
    on_throw,
    on_unwind,
    on_yield,
    profile_here,
    profile_threads,
    watch,
)
from fxtio.tracer.python.event import KINDS
from fxtio.tracer.python.flight import copy, unrecorded
from fxtio.tracer.python.site import Site, forget_sites, text_slot
from fxtio.tracer.python.span import (
    Span,
    WatchedSpan,
    begin,
    collection,
    counter,
    end,
    instant,
    message,
    record,
    span,
    task_track,
)
from fxtio.tracer.python.store import CHUNK_BYTES, LARGEST, layout, session
from fxtio.tracer.python.traced import Traced

LAYOUT = (
    "size", "filler", "string", "string_slot", "string_size", "string_slots", "thread", "thread_slot", "thread_slots",
    *KINDS, "event_args", "event_thread", "event_category", "event_name", "null", "int32", "int64", "uint64", "double",
    "text", "bool", "argument_name", "argument_value", "text_inline", "log", "log_size", "log_thread",
)  # fmt: skip
"""What `configure` has to be told."""

TSC = 0
"""Whether there is a tick counter."""

__all__ = [
    "CHUNK_BYTES", "LAYOUT", "TSC", "Site", "Span", "Traced", "active", "begin", "clocks", "collection", "configure",
    "copy", "counter", "define", "end", "functions", "instant", "lost", "message", "now", "on_call", "on_call_over",
    "on_resume", "on_return", "on_start", "on_throw", "on_unwind", "on_yield", "profile_here", "profile_threads",
    "record", "reference", "seal", "span", "squeeze", "start", "stop", "task_track", "unrecorded", "watch",
]  # fmt: skip


def configure(words: dict[str, int], /) -> None:
    """Headers and the places of fields, from the declarations."""
    if not isinstance(words, dict):
        raise TypeError("configure() takes a dict")
    layout.update({name: words[name] for name in LAYOUT})


def start(
    *,
    fd: int,
    definitions: int,
    end: int,
    limit: int,
    ring: int,
    tsc: bool,
    base: int,
    step: int,
    only: Collection[str] | None,
    without: Collection[str] | None,
    thread_hook: Callable[[int], Any] | None,
    value_hook: Callable[[Any], Any] | None,
    task_hook: Callable[[], tuple[int, tuple[int, ...]]] | None,
    wait_hook: Callable[[Any], tuple[int, ...]] | None,
    slow: int,
    slow_hook: Callable[[str, int], Any] | None,
) -> None:
    """Begin to record to a file.

    Args:
        fd: the file.
        definitions: where the definitions begin (bytes).
        end: where they end, and the events begin.
        limit: the file does not grow beyond; 0 for no limit.
        ring: bytes of full chunks that are kept; 0 for all.
        tsc: not here.
        base: what the clock shows at tick 0.
        step: the least distance of two ticks of a thread.
        only: the categories that are recorded, None for all.
        without: those that are not.
        thread_hook: told the id of a thread that records for the first time.
        value_hook: makes texts of values.
        task_hook: gives the running task's track, and the ids of arrows that end in it.
        wait_hook: gives the ids of arrows to what a task waits for.
        slow: spans that take more ticks are told to `slow_hook`; 0 for none.
        slow_hook: told the name and the ticks of such a span; gives a site and the values of an instant, or None.
    """
    if session.active or not layout:
        raise RuntimeError("the recorder runs already" if session.active else "configure() comes first")
    store.close_file()
    store.open_file(fd, definitions, end, limit, ring)
    session.texts.clear()
    session.base, session.step = base, step
    session.only, session.without = only, without
    session.thread_hook, session.value_hook = thread_hook, value_hook
    session.task_hook, session.wait_hook = task_hook, wait_hook
    session.slow, session.slow_hook, session.span = slow, slow_hook, WatchedSpan if slow else Span
    session.lost = session.lost_since = session.cut = session.dropped = session.inlined = 0
    session.full = False
    session.generation += 1
    forget_codes()
    session.active = True


def seal() -> None:
    """Record nothing more; definitions can still be made."""
    session.active = False
    for state in session.states:
        state.close()


def stop() -> dict[str, int]:
    """End; what was counted."""
    with session.lock:  # no thread is about to join
        session.active = False
        store.close_file()
        session.generation += 1  # no site is ready any more
    forget_sites()
    forget_codes()
    session.texts.clear()
    session.only = session.without = session.thread_hook = session.value_hook = None
    session.task_hook = session.wait_hook = None
    session.slow_hook = None
    counted = {name: getattr(session, name) for name in ("lost", "cut", "dropped", "inlined")}
    return {**counted, "chunks": store.file.turned, "end": store.file.end}


def active() -> bool:
    """Whether the recorder runs."""
    return session.active


def lost() -> tuple[int, int] | None:
    """How many events found no room and since when, or None."""
    count = store.lost()
    return (count, session.lost_since) if count else None


def define(record: bytes, /) -> bool:
    """Put a record among the definitions; False if there is no room."""
    if not isinstance(record, bytes):
        raise TypeError(f"expected bytes, {type(record).__name__} found")
    return store.alone(store.define, record, False)


def reference(text: str, /) -> int:
    """The slot of a text, 0 if there is none."""
    if not isinstance(text, str):
        raise TypeError("a text is a string")
    return store.alone(text_slot, text, 0)


def clocks(tsc: bool, /) -> tuple[int, int]:
    """The clock, and CLOCK_MONOTONIC at the same moment: they are one."""
    now = monotonic_ns()
    return now, now


def now() -> int:
    """The present tick."""
    return monotonic_ns() - session.base


def squeeze(buffer: Any, /) -> tuple[int, int]:
    """Move the records of a buffer of words together, over the fillers.

    Returns:
        How many words were looked at and how many are left; the rest is a record that goes beyond the end.
    """
    view = memoryview(buffer)
    words = view[: len(view) // 8 * 8].cast("Q")
    unit, skipped, sizes = layout["size"], layout["filler"], LARGEST + 1
    count = len(words)
    here = left = begun = 0  # what lies from `begun` to `here` is still to be moved
    while here < count:
        word = words[here]
        size = word // unit % sizes
        if not size or here + size > count:
            break
        if word - size * unit == skipped:
            words[left : left + here - begun] = words[begun:here]
            left += here - begun
            begun = here + size
        here += size
    words[left : left + here - begun] = words[begun:here]
    return here, left + here - begun
