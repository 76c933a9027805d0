"""The running asyncio task.

The recorder in C finds it by itself, with what this module gives it when asyncio is seen first.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from fxtio.tracer import greenlets
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
    greenlets.follow()
    gathering = getattr(sys.modules.get(_TASKS), "_GatheringFuture", None)  # not there while it is imported
    if _IN_C in sys.modules and isinstance(gathering, type):
        _introduce(sys.modules[_IN_C], gathering)
