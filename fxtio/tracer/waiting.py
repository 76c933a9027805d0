"""Waiting for another thread, never without a limit in the middle of the program.

Destructors, signal handlers and audit hooks of the program may start, end or dump a recording, and they run anywhere:
while the program imports, or while another thread starts or ends the recording, which imports, too.  So a thread that
waits may hold what the other one needs.  Only at the end of the program the main thread holds nothing.
"""

from __future__ import annotations

import _thread

PATIENCE_S = 5.0
"""How long a thread waits for another one."""

NO_LIMIT = -1.0
"""Instead of `PATIENCE_S`, at the end of the program."""


def wait_for(lock: _thread.LockType, seconds: float) -> bool:
    """Wait until a lock is free.

    Args:
        lock: it is released again at once.
        seconds: for how long, or `NO_LIMIT`.

    Returns:
        Whether it is.
    """
    if not lock.acquire(timeout=seconds):
        return False
    lock.release()
    return True
