"""Several processes in one trace: each is a provider, its records follow those of the one before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fxtio.tracer.layout import LAYOUT

_SUFFIX = ".part"
_PIECE = 4 * 1024 * 1024


def part_of(path: Path, pid: int) -> Path:
    """Where a child process records what will be part of `path`."""
    return path.with_name(f"{path.name}.{pid}{_SUFFIX}")


def parts_of(path: Path) -> Iterator[Path]:
    """The parts of child processes that have ended, whichever way."""
    for part in sorted(path.parent.glob(f"{_escaped(path.name)}.*{_SUFFIX}")):
        pid = part.name[len(path.name) + 1 : -len(_SUFFIX)]
        if pid.isdigit() and not _alive(int(pid)):
            yield part


def squeezed(fd: int, recorder: Any) -> Iterator[memoryview]:
    """The records of a file, but for the fillers, piece by piece.  A record that is cut off at the end is left out.

    Raises:
        OSError: it cannot be read.
    """
    buffer = bytearray(_PIECE)
    at = 0
    while size := os.preadv(fd, [buffer], at):
        with memoryview(buffer) as view, view[:size] as piece:
            looked, left = recorder.squeeze(piece)
            yield piece[: left * 8]
        if not looked:
            return
        at += looked * 8


def part_records(path: Path, rate: int, recorder: Any) -> Iterator[memoryview]:
    """The records of a child process, which shares the clock of its parent, with the rate that is known by now.

    Raises:
        OSError: it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for number, piece in enumerate(squeezed(fd, recorder)):
            if number == 0:
                _set_rate(piece.cast("Q"), rate)
            yield piece
    finally:
        os.close(fd)


def _set_rate(words: memoryview, rate: int) -> None:
    """Correct the initialization record, which stands near the begin."""
    for at in range(min(len(words) - 1, 64)):
        if words[at] == LAYOUT["initialization"]:
            words[at + 1] = rate
            return


def remove(paths: list[Path]) -> None:
    """Remove parts that are in the trace now."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _alive(pid: int) -> bool:
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
