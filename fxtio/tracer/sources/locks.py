"""Locks of threads: a span for each wait, and an operation for each time that a lock is held which others waited for.

Both are named after the kind of the lock and the function that takes it.  `threading.Condition`, `Semaphore` and the
like take locks for the functions that call them.
"""

from __future__ import annotations

import _thread
import sys
import threading
from typing import Any

from fxtio.tracer import plain
from fxtio.tracer.backend import recorder
from fxtio.tracer.functions import PACKAGE_FOLDER, module_of

_CATEGORY = "locks"
_FILE = threading.Thread.join.__code__.co_filename


class Locks:
    """Watches all locks of the process."""

    def start(self) -> None:
        """Begin to record."""
        recorder.watch_locks(_thread.LockType, _thread.RLock, _FILE, _sites_of)

    def stop(self) -> None:
        """Record no more."""
        recorder.unwatch_locks()


_SIGNAL = threading.Condition.wait.__code__
"""The code that waits for a lock which nobody holds: it stands for a notification."""


def _sites_of(kind: str) -> tuple[Any, Any]:
    """Return the sites of waits and of holds, None for what is not recorded, of the function that takes such a lock."""
    frame = sys._getframe(1)
    is_signal = frame.f_code is _SIGNAL
    while frame.f_code.co_filename == _FILE and frame.f_back is not None:
        kind = frame.f_code.co_qualname.partition(".")[0]
        frame = frame.f_back
    path = plain.text(frame.f_code.co_filename)
    if path.startswith(PACKAGE_FOLDER):  # the tracer itself
        return None, None
    what = f"{kind} in {module_of(path)}.{frame.f_code.co_qualname}"
    place: dict[str, Any] = {"file": plain.file_of_code(path), "line": frame.f_lineno or 0}
    wait = recorder.Site(_CATEGORY, f"wait for {what}", **place)
    return wait, None if is_signal else recorder.Site(_CATEGORY, f"hold {what}")
