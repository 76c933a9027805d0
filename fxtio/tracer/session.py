"""What this process records: at most one recording at a time, which ends with the process at the latest."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from fxtio.tracer import environment
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.options import DEFAULT_OUTPUT, Options
from fxtio.tracer.recording import Recording, RecordingWarning, Summary, child


class _Process:
    """What this process records.  `lock` keeps starts and stops apart."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Be as in the beginning; the lock a new one, for another thread may have held it at a fork."""
        self.lock = threading.RLock()
        self.recording: Recording | None = None
        self.telling = False


_process = _Process()


def start(output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> Recording:
    """Begin to record, until `stop` or the end of the program.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.

    Raises:
        RuntimeError: a recording runs already.
        OSError: the file cannot be written.
        TypeError: there is no such option.
        ValueError: an option makes no sense.
    """
    return begin(Options(output, **options))


def begin(options: Options, clock: RecordingClock | None = None) -> Recording:
    """Begin to record; with the clock of a parent process, as a part of its trace."""
    with _process.lock:
        if _process.recording is not None:
            raise RuntimeError(f"a recording to {_process.recording.options.output} runs already")
        made = Recording(options) if clock is None else child(options, clock, Path(options.output))
        _process.recording = made
        return made


def running() -> bool:
    """Whether this process records."""
    return _process.recording is not None


def stop() -> Summary | None:
    """End the recording.

    Returns:
        What became of it; None if there was none.

    Raises:
        OSError: the trace cannot be written in its final form; what was recorded is in the file all the same.
    """
    with _process.lock:
        recording, _process.recording = _process.recording, None
        return recording.stop() if recording is not None else None


def dump(path: str | os.PathLike[str] | None = None) -> Path | None:
    """Write what the recording holds at this instant as a trace of its own; the recording goes on untouched.

    Args:
        path: the trace; `.zst`, `.gz` and `.xz` compress it.  Unless given it is called after the recording, with the
            next number that is free: `last-1.fxt`.

    Returns:
        Where it is; None if nothing is recorded.

    Raises:
        OSError: it cannot be written.
        ValueError: the path is the recording's own.
    """
    recording = _process.recording
    found: Path | None = recorder.unrecorded(partial(recording.dump, path)) if recording is not None else None
    return found


class tracing:  # noqa: N801  # used like a function
    """Record what happens inside of a `with` block.  Inside of another recording it does nothing: events go there.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.
    """

    def __init__(self, output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> None:
        self._options = Options(output, **options)
        self._mine: Recording | None = None

    def __enter__(self) -> tracing:
        with _process.lock:
            if _process.recording is None:
                self._mine = begin(self._options)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._mine is not None and self._mine is _process.recording:
            try:
                stop()
            except OSError as error:  # the block has its own error, or none
                warnings.warn(f"the trace is not in its final form: {error}", RecordingWarning, stacklevel=2)


def tell_at_exit() -> None:
    """Say on standard error at the end of the program where the trace is."""
    _process.telling = True


def _at_exit() -> None:
    try:
        if _process.recording is not None:
            _process.recording.triggers.at_exit()
        summary = stop()
        if summary is not None and _process.telling:
            environment.tell(f"{summary.path} ({summary.path.stat().st_size:,} bytes)")
            if summary.left:
                told = f"{len(summary.left)} of its processes still run; when they have ended, `fxtio merge` joins"
                environment.tell(f"{told} {', '.join(one.name for one in summary.left)}")
    except Exception as error:
        environment.tell(str(error))


def _after_fork() -> None:
    recording = _process.recording
    _process.forget()
    if recording is not None:
        try:
            _process.recording = recording.go_on_in_child()
        except Exception as error:
            environment.tell(f"the child process {os.getpid()} is not recorded: {error}")


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
