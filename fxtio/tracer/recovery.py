"""Recovery of a recording whose program was killed: what is left becomes the trace that it would have become."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from fxtio.errors import FxtioError
from fxtio.fxt.live_file import HEAD_BYTES
from fxtio.shared_folders import open_regular, resolved
from fxtio.tracer import archive
from fxtio.tracer.file import live_path, opener, pack_large, refuse_unwritable, replace
from fxtio.tracer.options import COMPRESSED


class RecoveryError(FxtioError):
    """There is nothing to recover, or it must not be done."""


@dataclass(frozen=True)
class Recovered:
    """The outcome of a recovery.

    Attributes:
        path: the trace.
        input_size: the size in bytes of the files that it was made from.
        size: its own size in bytes.
        parts: the parts of child processes that are in it.
        left_out: files that look like parts but are not in it, each with the reason.
        events: the number of events in it.
    """

    path: Path
    input_size: int
    size: int
    parts: list[Path]
    left_out: list[tuple[Path, str]]
    events: int


def recover(path: Path, output: Path | None = None) -> Recovered:
    """Put events in order, remove the fillers, append the parts of child processes, compress if the name asks for it.

    A large trace that ends in `.zst` is packed, as at the end of a recording.
    Files that killed processes had begun to write for the trace are removed; what they hold is in the trace.

    Args:
        path: the file that was recorded to (`app.fxt`, `app.fxt.zst.part`), or the intended name of the trace.
        output: another name for the trace; then all files stay where they are, while otherwise they become the trace.

    Raises:
        RecoveryError: the file is not a recording, is still recorded to, or would replace another trace.
        OSError: something cannot be read or written; then nothing has changed.
    """
    trace = _trace_of(resolved(path))
    live = live_path(trace)
    target = trace if output is None else resolved(output)
    if live.exists() and not live.is_file():
        raise RecoveryError(f"{live} is not a regular file")
    with open(open_regular(resolved(live)), "rb") as file:
        front, owner = _checked_front(file.fileno(), live), os.fstat(file.fileno()).st_uid
        candidates = list(archive.parts_and_faults(trace, front.wall_ns, owner))
        parts = [part for part, fault in candidates if not fault]
        if output is None and target != live and target.exists():
            raise RecoveryError(f"{target} exists already; use -o with another name, or with this one to replace it")
        refuse_unwritable(target)
        input_size = sum(source.stat().st_size for source in (live, *parts))
        rate, tally = front.rate, archive.Tally()
        blocks = itertools.chain(
            archive.squeezed(file.fileno(), name=str(live), tally=tally),
            *(archive.part_records(part, rate, owner, checked=True, tally=tally) for part in parts),
        )
        try:
            replace(target, blocks, opener(target))
        except archive.DamagedError as error:
            advice = "`fxtio merge` reads on after the damage"
            raise RecoveryError(f"{error.filename} is {error.strerror}; {advice}") from None
    pack_large(target, input_size)
    if target == trace:
        archive.remove([*parts, *([live] if live != target else []), *archive.abandoned(trace, owner)])
    left_out = [(part, fault) for part, fault in candidates if fault]
    return Recovered(target, input_size, target.stat().st_size, parts, left_out, tally.events)


def _trace_of(path: Path) -> Path:
    """Return the name of the trace that a file is to become.

    Raises:
        RecoveryError: the file is the part of a child process, or finished.
    """
    trace = path.with_suffix("") if path.suffix == ".part" else path
    if trace.suffix in COMPRESSED:
        if not live_path(trace).exists() and trace.exists():
            raise RecoveryError(f"{trace} is finished: there is no {live_path(trace).name}")
        return trace
    if path.suffix == ".part" and archive.pid_of(trace.suffix[1:]) is not None:
        whole = trace.with_suffix("")
        raise RecoveryError(f"{path} is the part of a child process; recover {whole}, which it belongs to")
    return path


def _checked_front(fd: int, live: Path) -> archive.Front:
    """Return the front of a recording that has ended.

    Raises:
        RecoveryError: the file is not a recording, or is still recorded to.
    """
    front = archive.Front.parse(os.pread(fd, HEAD_BYTES, 0))
    if front is None:
        raise RecoveryError(f"{live} is not a recording of fxtio")
    pid = front.pid
    if archive.is_alive(pid) and _has_open(pid, fd):
        raise RecoveryError(f"{live} is still recorded to, by process {pid}")
    return front


def _has_open(pid: int, fd: int) -> bool:
    """Return whether a process has this file open; True where that cannot be seen."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True
    status = os.fstat(fd)
    return any(_is_same(descriptor, status) for descriptor in descriptors)


def _is_same(path: Path, status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), status)
    return False
