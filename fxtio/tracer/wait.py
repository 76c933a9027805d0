"""Waiting for another thread, never without a limit in the middle of the program.

Destructors, signal handlers and audit hooks of the program may start, end or dump a recording, and they run anywhere:
while the program imports, or while another thread starts or ends the recording, which imports, too.  So a thread that
waits may hold what the other one needs.  Only at the end of the program the main thread holds nothing.
"""

from __future__ import annotations

import _thread
from typing import Any

PATIENCE_S = 5.0
"""How long a thread waits for another one."""

NO_LIMIT = -1.0
"""Instead of `PATIENCE_S`, at the end of the program."""


_owners: dict[int, int] = {}
"""By thread that waits: the thread that it waits for."""


def acquire(lock: Any, seconds: float, owner: int) -> bool:
    """Take a lock, and return whether it was taken.

    Args:
        lock: a lock, also one that its owner can take again.
        seconds: how long to wait for it, or `NO_LIMIT`.  A thread that the owner waits for does not wait at all.
        owner: the thread that has it, 0 if that is unknown.
    """
    if lock.acquire(blocking=False):
        return True
    thread = _thread.get_ident()
    chain = [owner]
    while chain[-1] in _owners and _owners[chain[-1]] not in chain:
        chain.append(_owners[chain[-1]])
    if thread in chain:
        return False
    outer = _owners.pop(thread, 0)  # of a wait that a signal handler has interrupted, which now waits
    _owners[thread] = owner
    try:
        taken: bool = lock.acquire(timeout=seconds)
        return taken
    finally:
        del _owners[thread]
        if outer:
            _owners[thread] = outer


def wait_for(lock: _thread.LockType, seconds: float, owner: int = 0) -> bool:
    """Wait until a lock is free; return whether it is, see `acquire`."""
    if not acquire(lock, seconds, owner):
        return False
    lock.release()
    return True
