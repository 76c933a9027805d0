"""Pages of the file in memory."""

from __future__ import annotations

import os
import sys
from mmap import MAP_SHARED, mmap


class Mapping(mmap):
    """Pages of the file.  The descriptor in it may be the program's by now, which closed all that it found.

    Such a mapping is kept for good: its end would close the descriptor.
    """

    number: int
    identity: tuple[int, int]

    def __del__(self) -> None:
        if self.number >= 0 and identity_of(self.number) != self.identity:
            _kept.append(self)


_kept: list[Mapping] = []


def identity_of(fd: int) -> tuple[int, int]:
    """Which file this is a descriptor of."""
    try:
        found = os.fstat(fd)
    except OSError:
        return -1, -1
    return found.st_dev, found.st_ino


def map_pages(fd: int, size: int, at: int) -> Mapping:
    """So many bytes of the file from `at` on."""
    if sys.version_info >= (3, 13):
        made, number = Mapping(fd, size, MAP_SHARED, offset=at, trackfd=False), -1
    else:
        number = os.dup(fd)  # the mapping takes the same number
        os.close(number)
        made = Mapping(fd, size, MAP_SHARED, offset=at)
    made.identity = identity_of(fd)
    made.number = number if number >= 0 and identity_of(number) == made.identity else -1
    return made
