"""Several processes in one trace: each is a provider, its records follow those of the one before."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fxtio.codec.generate import encode
from fxtio.fxt.layout import ProviderInfoWord, RecordWord
from fxtio.fxt.records import Magic
from fxtio.tracer.layout import LAYOUT

_SUFFIX = ".part"
RUNNING = "its process still runs"
_PIECE = 4 * 1024 * 1024
_FRONT = 512  # bytes in which the first three records lie
_MAGIC = int.from_bytes(encode(Magic()), sys.byteorder)
_SIZE = RecordWord.fields["size"]


def part_of(path: Path, pid: int, wall_ns: int) -> Path:
    """Where a child process records what will be part of `path`.

    A process that becomes another program (`exec`) keeps its id, and what it has recorded: then there is a number.
    """
    for ending in itertools.chain([""], (f"-{number}" for number in itertools.count(1))):
        part = path.with_name(f"{path.name}.{pid}{ending}{_SUFFIX}")
        known = Begin.of(part)
        if known is None or known.wall_ns != wall_ns:
            return part
    raise AssertionError


def pid_of(name: str) -> int | None:
    """The process of a part, by what its name has between that of the trace and its suffix; None if it is no part's."""
    pid, dash, number = name.partition("-")
    return int(pid) if pid.isdigit() and (number.isdigit() if dash else True) else None


def parts_and_faults(path: Path, wall_ns: int) -> Iterator[tuple[Path, str]]:
    """All files that look like parts of a trace, each with what keeps it out of the trace, or an empty text.

    Args:
        path: the trace.
        wall_ns: when the recording began; parts of another one, which had the same name, are none of this.
    """
    for part in sorted(path.parent.glob(f"{_escaped(path.name)}.*{_SUFFIX}")):
        pid = pid_of(part.name[len(path.name) + 1 : -len(_SUFFIX)])
        if pid is not None:
            ours = Begin.of(part)
            if ours is None or ours.wall_ns != wall_ns:
                yield part, "it is no part of this recording"
            else:
                yield part, RUNNING if alive(pid) else ""


@dataclass(frozen=True)
class Begin:
    """What the first records of a recording tell.

    Attributes:
        pid: the process.
        rate_at: the word that holds the rate of the clock.
        rate: its ticks per second.
        wall_ns: nanoseconds since the Unix epoch at tick 0.
    """

    pid: int
    rate_at: int
    rate: int
    wall_ns: int

    @classmethod
    def of(cls, path: Path) -> Begin | None:
        """That of a file; None if it is no recording."""
        with contextlib.suppress(OSError), open(path, "rb") as file:
            head = file.read(_FRONT)
            return cls.read(memoryview(head[: len(head) // 8 * 8]).cast("Q"))
        return None

    @classmethod
    def read(cls, words: memoryview) -> Begin | None:
        """That of the file with these words: magic number, provider, clock, as `RecordingFile` writes them."""
        mask, provider = ProviderInfoWord.pattern("tag")
        if len(words) < 2 or words[0] != _MAGIC or words[1] & mask != provider:
            return None
        at = 1 + int(_SIZE.get(words[1]))
        if len(words) < at + 4 or words[at] != LAYOUT["initialization"]:
            return None
        return cls(ProviderInfoWord.read(words[1]).provider_id, at + 1, words[at + 1], words[at + 3])


class DamagedError(OSError):
    """A file in whose midst there are no records any more."""


def squeezed(fd: int, recorder: Any, *, name: str = "") -> Iterator[memoryview]:
    """The records of a file, but for the fillers, piece by piece.  A record that is cut off at the end is left out.

    Args:
        fd: the file.
        recorder: the recorder.
        name: what to call the file when it is damaged; without it, records end where the damage begins.

    Raises:
        DamagedError: something else than a record follows.
        OSError: it cannot be read.
    """
    buffer = bytearray(_PIECE)
    at = 0
    while size := os.preadv(fd, [buffer], at):
        with memoryview(buffer) as view, view[:size] as piece:
            looked, left = recorder.squeeze(piece)
            yield piece[: left * 8]
        if not looked:
            if name and size >= 8 and not _SIZE.get(int.from_bytes(buffer[:8], sys.byteorder)):
                raise DamagedError(errno.EILSEQ, f"damaged at byte {at:,}", name)
            return
        at += looked * 8


def part_records(path: Path, rate: int, recorder: Any, *, checked: bool = False) -> Iterator[memoryview]:
    """The records of a child process, which shares the clock of its parent, with the rate that is known by now.

    Args:
        path: the part.
        rate: ticks per second.
        recorder: the recorder.
        checked: refuse a part that is damaged.

    Raises:
        DamagedError: it is damaged.
        OSError: it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for number, piece in enumerate(squeezed(fd, recorder, name=str(path) if checked else "")):
            words = piece.cast("Q")
            if number == 0 and (begin := Begin.read(words)) is not None:
                words[begin.rate_at] = rate
            yield piece
    finally:
        os.close(fd)


def remove(paths: list[Path]) -> None:
    """Remove parts that are in the trace now."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"  # dead, only not yet waited for
    return True


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
