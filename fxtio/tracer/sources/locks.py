"""Locks: a span for each wait, and an operation for each time that a lock is held which others waited for.

Both are named after the kind of the lock and the function that takes it.  `threading.Condition`, `Semaphore` and the
like take locks for the functions that call them.
"""

from __future__ import annotations

import _thread
import sys
import threading
from types import FrameType
from typing import Any

from fxtio.tracer import plain
from fxtio.tracer.backend import recorder
from fxtio.tracer.functions import PACKAGE_FOLDER, module_of
from fxtio.tracer.sources import task_locks
from fxtio.tracer.sources.imports import Awaiting

_CATEGORY = "locks"
_FILE = threading.Thread.join.__code__.co_filename


class Locks(Awaiting):
    """Watches all locks of the process, and those of asyncio from its import on."""

    module = task_locks.MODULE

    def __init__(self) -> None:
        self._of_tasks: task_locks.Watcher | None = None

    def start(self) -> None:
        """Begin to record."""
        super().start()
        recorder.watch_locks(_thread.LockType, _thread.RLock, _FILE, _sites_of)

    def begin(self) -> None:
        """Watch the locks of asyncio."""
        if self._of_tasks is None:
            self._of_tasks = task_locks.Watcher(_place_of)

    def stop(self) -> None:
        """Record no more."""
        recorder.unwatch_locks()
        if self._of_tasks is not None:
            self._of_tasks.stop()
        super().stop()


_SIGNAL = threading.Condition.wait.__code__
"""The code that waits for a lock which nobody holds: it stands for a notification."""


def _sites_of(kind: str) -> tuple[Any, Any]:
    """Return the sites of waits and of holds, None for what is not recorded, of the function that takes such a lock."""
    frame = sys._getframe(1)
    is_signal = frame.f_code is _SIGNAL
    while frame.f_code.co_filename == _FILE and frame.f_back is not None:
        kind = frame.f_code.co_qualname.partition(".")[0]
        frame = frame.f_back
    if plain.text(frame.f_code.co_filename).startswith(PACKAGE_FOLDER):  # the tracer itself
        return None, None
    place = _place_of(kind, frame)
    wait = recorder.Site(_CATEGORY, place.wait, file=place.file, line=place.line)
    return wait, None if is_signal else place.hold


def _place_of(kind: str, frame: FrameType) -> task_locks.Place:
    """Return the place in a frame that takes a lock of a kind."""
    path = plain.text(frame.f_code.co_filename)
    what = f"{kind} in {module_of(path)}.{frame.f_code.co_qualname}"
    file, hold = plain.file_of_code(path), recorder.Site(_CATEGORY, f"hold {what}")
    return task_locks.Place(f"wait for {what}", file, frame.f_lineno or 0, hold)
