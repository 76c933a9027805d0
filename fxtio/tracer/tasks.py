"""The running asyncio task, and the tasks for which a task waits.

The recorder in C finds the running task by itself, with what this module gives it when asyncio is seen first.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from fxtio.tracer import greenlets
from fxtio.tracer.backend import recorder

_MAX_ARROWS = 100
"""Arrows from one task to the tasks that it gathers."""


@cache
def _accelerated() -> Any:
    """Return the part of asyncio in C, which programs do not patch, and give the recorder what it needs of it."""
    asyncio = import_module("_asyncio")
    task_of_loop = asyncio.current_task if sys.version_info >= (3, 12) else asyncio._current_tasks.get
    task = asyncio.Task
    recorder.know_asyncio(asyncio._get_running_loop, task_of_loop, task.get_name, task.get_coro, task, asyncio.Future)
    return asyncio


def look_around() -> None:
    """Follow the tasks of asyncio, and this thread's greenlets, if the program uses them.

    The recorder calls this until asyncio is imported.  Where greenlets are used it goes on to do so, as each greenlet
    has a context of its own.
    """
    greenlets.follow()
    if "_asyncio" in sys.modules:
        _accelerated()


def gathered_tasks(awaited: Any) -> tuple[Any, ...]:
    """Return the tasks that an awaited object gathers and that have not ended, of many only the first."""
    task = _accelerated().Task
    children = list(getattr(awaited, "_children", ()))[:_MAX_ARROWS]
    tasks = [child for child in children if isinstance(child, task) and not child.done()]  # a generator costs more here
    return tuple(tasks)
