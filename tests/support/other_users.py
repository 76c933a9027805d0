"""Another user, who attacks, and folders in which that user may write; only root can become another user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
"""The id of the user and of its group."""

as_root = pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can become another user")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@contextmanager
def shared_folder(mode: int = 0o1777) -> Iterator[Path]:
    """Make a folder that others can reach, unlike those of pytest; all may write there by default, as in /tmp."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(mode)
        yield folder


def become_nobody() -> None:
    """Make this process one of another user, for ever."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def as_nobody(action: Callable[[], object]) -> None:
    """Do something as another user, in a process of its own."""
    child = os.fork()
    if not child:
        status = 1
        try:
            become_nobody()
            action()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
