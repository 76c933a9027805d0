"""The last moments: a copy of the recording as it is at one instant, and spans that take so long that one is wanted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from mmap import PROT_READ, mmap
from typing import TypeVar

from fxtio.tracer.python.event import INSTANT, event
from fxtio.tracer.python.site import Site
from fxtio.tracer.python.store import CHUNK_BYTES, call_hook, file, here, own, session

R = TypeVar("R")

_PIECE = 100 * CHUNK_BYTES


def copy(fd: int, /) -> int:
    """Copy the file as it is now.  The bytes copied.

    With the lock no chunk is begun or emptied meanwhile.  Threads do go on to fill theirs, so these are not read piece
    by piece: while the bytes of a mapping are taken, no other Python code runs.

    Raises:
        OSError: the copy cannot be written, or the program has closed the recording.
    """
    with session.lock:
        status = os.fstat(file.fd)
        if (status.st_dev, status.st_ino) != file.identity:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        _write(fd, os.pread(file.fd, file.definitions_end, 0), 0)  # not mapped: on a full disk its holes cannot be
        with mmap(file.fd, file.end, prot=PROT_READ) as mapped:
            for begin in range(file.definitions_end, file.end, _PIECE):
                _write(fd, mapped[begin : begin + _PIECE], begin)
        return file.end


def _write(fd: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(fd, data, at)
        data, at = data[written:], at + written


def unrecorded(call: Callable[[], R], /) -> R:
    """Call it, while nothing is recorded of this thread."""
    state = here()
    state.busy += 1
    end, state.end = state.end, 0
    try:
        return call()
    finally:
        state.busy -= 1
        if state.room:  # the recording goes on
            state.end = end


def tell_slow(site: Site, took: int) -> None:
    """Tell of a span that took so many ticks.  The hook gives a site and the values of an instant, or None."""
    state = own.state
    if not session.active or not 0 < session.slow < took or state.busy:
        return
    said = call_hook(state, session.slow_hook, site.name, took)
    if isinstance(said, tuple):
        event(said[0], INSTANT, said[1])
