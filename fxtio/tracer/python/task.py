"""Tasks of asyncio: whose step it is that runs, and arrows from a task to those it waits for."""

from __future__ import annotations

import sys
from typing import Any

from fxtio.tracer.python.event import FLOW_BEGIN, FLOW_END, WORDS, event
from fxtio.tracer.python.site import Site
from fxtio.tracer.python.store import State, call_hook, own, own_state, session

modules = sys.modules
_AWAIT = Site("asyncio", "await")


class _Asyncio:
    """What of it is used, once it is there."""

    running_loop: Any = None


def task_track() -> int:
    """The id of the running task's track, 0 outside of tasks."""
    running = _Asyncio.running_loop
    if running is None:
        running = _Asyncio.running_loop = getattr(modules.get("asyncio"), "_get_running_loop", None)
    if running is None or running() is None:
        return 0
    state = own_state()
    told = None if state is None else call_hook(state, session.task_hook)
    if state is None or not isinstance(told, tuple):
        return 0
    track, arrows = told
    if arrows:
        state.arrows = arrows
    return int(track) % WORDS


def step_begins() -> None:
    """A stretch of a task's coroutine begins."""
    state: State = own.state
    state.waited = 0


def task_arrives() -> None:
    """The begin of the stretch is recorded: arrows end in it."""
    state: State = own.state
    arrows, state.arrows = state.arrows, ()
    for arrow in arrows:
        event(_AWAIT, FLOW_END, (), arrow)


def task_waits(awaited: Any) -> None:
    """The task is about to wait for something.  If those are tasks, arrows lead from this stretch to theirs."""
    if session.wait_hook is None or not hasattr(type(awaited), "__await__") or not task_track():
        return
    state: State = own.state
    if state.waited == id(awaited):  # a coroutine that waits for that one told it
        return
    told = call_hook(state, session.wait_hook, awaited)
    state.waited = id(awaited)
    for arrow in told if isinstance(told, tuple) else ():
        event(_AWAIT, FLOW_BEGIN, (), arrow)
