"""What runs in a thread one after the other: asyncio tasks, and greenlets; each records to a track of its own.

The recorder in C finds the running task by itself, with what this module gives it when asyncio is seen first.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from fxtio.tracer.backend import recorder

_IN_C, _TASKS = "_asyncio", "asyncio.tasks"


@cache
def _introduce(asyncio: Any, gathering: type) -> None:
    """Give the recorder what it needs of asyncio: of its part in C, since programs do not patch that."""
    task_of_loop = asyncio.current_task if sys.version_info >= (3, 12) else asyncio._current_tasks.get
    task = asyncio.Task
    recorder.know_asyncio(
        asyncio._get_running_loop, task_of_loop, task.get_name, task.get_coro, asyncio.Future.done, task, gathering
    )


def look_around() -> None:
    """Follow the tasks of asyncio, and this thread's greenlets, if the program uses them.

    The recorder calls this until asyncio is imported.  Where greenlets are used it goes on to do so, as each greenlet
    has a context of its own.
    """
    follow()
    gathering = getattr(sys.modules.get(_TASKS), "_GatheringFuture", None)  # not there while it is imported
    if _IN_C in sys.modules and isinstance(gathering, type):
        _introduce(sys.modules[_IN_C], gathering)


_MODULE = "greenlet._greenlet"
"""The part of greenlet in C, which programs do not patch."""


class _Chain:
    """A function for `greenlet.settrace` that also calls the one that the program has set before."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, event: str, greenlets: tuple[object, object]) -> None:
        """Handle a switch from one greenlet to another."""
        recorder.switched(event, greenlets)
        self._function(event, greenlets)


def follow() -> None:
    """Follow the switches of this thread's greenlets from now on, if the program has imported greenlet."""
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        return
    function = module.gettrace()
    if function is recorder.switched or type(function) is _Chain:
        return
    attributes = vars(module.greenlet)
    recorder.know_greenlets(attributes["dead"].__get__)
    module.settrace(recorder.switched if function is None else _Chain(function))
    parent_of = attributes["parent"].__get__
    current = first = module.getcurrent()
    while (parent := parent_of(first)) is not None:
        first = parent
    if first is not current:
        recorder.switched("switch", (first, current))


def track_name(thread: int) -> str:
    """Return the name of the track of a greenlet, an empty text for the id of a thread."""
    number = thread - recorder.FIRST_GREENLET_TRACK + 1
    return f"greenlet {number}" if number > 0 else ""
