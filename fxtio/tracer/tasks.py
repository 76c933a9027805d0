"""The running asyncio task, as a number."""

from __future__ import annotations

import itertools
import os
import sys
import weakref
from typing import Any

_numbers = itertools.count(1)
_tracks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def track_of_task() -> int:
    """The id of the running task's track, unique in all processes of a machine; 0 outside of tasks."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return 0
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return 0
    if task is None:
        return 0
    track = _tracks.get(task)
    if track is None:
        track = _tracks[task] = os.getpid() * 10**9 + next(_numbers)
    return track
