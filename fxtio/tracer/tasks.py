"""The running asyncio task, as a number and a name, and arrows from a task to the tasks it waits for."""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from functools import cache
from importlib import import_module
from types import CoroutineType
from typing import Any

from fxtio.tracer import greenlets, plain
from fxtio.tracer.backend import recorder

_MAX_ARROWS = 100
"""Arrows from one task to the tasks that it gathers."""

_numbers = itertools.count(1)
_tracks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_arrows: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
"""By awaited task: the ids of the arrows that end where the task next runs."""


def forget() -> None:
    """Forget the tracks of an earlier recording: in this one they have no names yet."""
    _tracks.clear()
    _arrows.clear()


def _new_id() -> int:
    """Return an id that no other process of the machine uses."""
    return os.getpid() * 10**9 + next(_numbers)


@cache
def _accelerated() -> Any:
    """Return the part of asyncio in C, which programs do not patch."""
    return import_module("_asyncio")


def _current_task() -> Any:
    """Return the task that runs, or None.  What `asyncio` itself offers for that may be patched."""
    if "_asyncio" not in sys.modules:
        return None
    asyncio = _accelerated()
    loop = asyncio._get_running_loop()
    if loop is None:
        return None
    return asyncio.current_task(loop) if sys.version_info >= (3, 12) else asyncio._current_tasks.get(loop)


def _label(task: Any) -> tuple[Any, ...]:
    """Return the name of a task as the recorder takes it: a call site, and the function that the task runs.

    The name is that of the task, which need not be of use again: it is kept out of the table of texts.
    """
    kind = _accelerated().Task
    if not plain.is_a(task, kind):  # of a library that brings its own class
        return (recorder.Site("asyncio", "task", (), unique=True),)
    name, coroutine = plain.text(kind.get_name(task)), kind.get_coro(task)
    if type(coroutine) is CoroutineType or plain.module_of_class(type(coroutine)) == recorder.__name__:
        return recorder.Site("asyncio", name, ("coroutine",), unique=True), coroutine.__qualname__
    return (recorder.Site("asyncio", name, (), unique=True),)


def running_task() -> tuple[int, tuple[int, ...], tuple[Any, ...] | None]:
    """Return the running task.

    Returns:
        The id of its track, 0 outside of tasks; the ids of arrows that end in it now; and its name as the recorder
        takes it, if the track is a new one.
    """
    greenlets.follow()  # here, as it may have been imported since; and each greenlet has a context of its own
    task = _current_task()
    if task is None:
        return 0, (), None
    track, label = _tracks.get(task), None
    if track is None:
        track, label = _new_id(), _label(task)
        _tracks[task] = track
    return track, _arrows.pop(task, ()) if _arrows else (), label


def arrows_to(awaited: Any) -> tuple[int, ...]:
    """Return the ids of new arrows to the tasks that are awaited: to `awaited` itself, or to those that it gathers."""
    task = _accelerated().Task
    targets = [awaited] if isinstance(awaited, task) else list(getattr(awaited, "_children", ()))[:_MAX_ARROWS]
    ids = []
    for target in targets:
        if isinstance(target, task) and not target.done():
            ids.append(_new_id())
            _arrows[target] = (*_arrows.get(target, ()), ids[-1])
    return tuple(ids)
