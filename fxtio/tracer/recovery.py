"""What remains of a recording whose program was killed, made the trace that it would have become."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from fxtio.errors import FxtioError
from fxtio.tracer import archive
from fxtio.tracer.backend import recorder
from fxtio.tracer.file import COMPRESSED, live_of, opener, refuse_unwritable, replace


class RecoveryError(FxtioError):
    """There is nothing to recover, or it must not be done."""


@dataclass(frozen=True)
class Recovered:
    """What became of a recording.

    Attributes:
        path: the trace.
        before: how many bytes the files had that it was made from.
        size: how many it has.
        parts: the parts of child processes that are in it.
        left: files that look like parts and are not in it, and why.
    """

    path: Path
    before: int
    size: int
    parts: list[Path]
    left: list[tuple[Path, str]]


def recover(given: Path, output: Path | None = None) -> Recovered:
    """Squeeze the fillers out, put the parts of child processes behind, compress if the name asks for it.

    Args:
        given: what was recorded to (`app.fxt`, `app.fxt.zst.part`), or the name that the trace should have had.
        output: another name for the trace; then all files stay where they are, while otherwise they become the trace.

    Raises:
        RecoveryError: it is no recording, goes on, or would replace another trace.
        OSError: something cannot be read or written; then nothing has changed.
    """
    trace = _trace_of(given.resolve())
    live = live_of(trace)
    path = trace if output is None else output.resolve()
    if live.exists() and not live.is_file():
        raise RecoveryError(f"{live} is no regular file")
    with open(live, "rb") as file:
        begin = _look_at(file.fileno(), live)
        found = list(archive.parts_and_faults(trace, begin.wall_ns))
        parts = [part for part, why in found if not why]
        if output is None and path != live and path.exists():
            raise RecoveryError(f"{path} is there already; say -o with another name, or with this one to replace it")
        refuse_unwritable(path)
        before = sum(one.stat().st_size for one in (live, *parts))
        pieces = (archive.part_records(part, begin.rate, recorder, checked=True) for part in parts)
        squeezed = archive.squeezed(file.fileno(), recorder, name=str(live))
        try:
            replace(path, itertools.chain(squeezed, *pieces), opener(path))
        except archive.DamagedError as error:
            told = f"{error.filename} is {error.strerror}; `fxtio merge` takes over what is behind that, too"
            raise RecoveryError(told) from None
    if path == trace:
        archive.remove([*parts, *([live] if live != path else [])])
    return Recovered(path, before, path.stat().st_size, parts, [(part, why) for part, why in found if why])


def _trace_of(given: Path) -> Path:
    """The name of the trace that a file is to become.

    Raises:
        RecoveryError: it is the part of a child process, or finished.
    """
    trace = given.with_suffix("") if given.suffix == ".part" else given
    if trace.suffix in COMPRESSED:
        if not live_of(trace).exists() and trace.exists():
            raise RecoveryError(f"{trace} is finished: there is no {live_of(trace).name}")
        return trace
    if given.suffix == ".part" and archive.pid_of(trace.suffix[1:]) is not None:
        whole = trace.with_suffix("")
        raise RecoveryError(f"{given} is the part of a child process; recover {whole}, of which it is a part")
    return given


def _look_at(fd: int, live: Path) -> archive.Begin:
    """Refuse what is no recording, or one that goes on; what its begin tells.

    Raises:
        RecoveryError: it is such a file.
    """
    begin = archive.Begin.of(live)
    if begin is None:
        raise RecoveryError(f"{live} is no recording of fxtio")
    if archive.alive(begin.pid) and _has_open(begin.pid, fd):
        raise RecoveryError(f"{live} is still recorded to, by process {begin.pid}")
    return begin


def _has_open(pid: int, fd: int) -> bool:
    """Whether a process has this file open; true where that cannot be seen."""
    try:
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True
    return any(_same(one, os.fstat(fd)) for one in opened)


def _same(path: Path, status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), status)
    return False
