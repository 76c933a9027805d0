"""The recording of this process: at most one at a time, which ends with the process at the latest."""

from __future__ import annotations

import atexit
import os
import shlex
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.tracer.backend import recorder, require_recorder
from fxtio.tracer.notices import RecordingWarning, report
from fxtio.tracer.options import DEFAULT_OUTPUT, Options
from fxtio.tracer.units import time_as_text

if TYPE_CHECKING:
    from fxtio.tracer.clock import RecordingClock
    from fxtio.tracer.recording import Recording, Summary


class _Process:
    """The state of this process.

    Attributes:
        lock: keeps starts and stops apart.
        recording: the recording that runs, if any.
        reports_at_exit: whether to say at the end what was recorded, and where the trace is.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Return to the initial state, with a new lock: after a fork, another thread may have held the old one."""
        self.lock = threading.RLock()
        self.recording: Recording | None = None
        self.reports_at_exit = False


_process = _Process()


def start(output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> Recording:
    """Begin to record, until `stop` or the end of the program.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.

    Raises:
        RecorderMissingError: the recorder, a C extension, is missing.
        RuntimeError: a recording runs already.
        OSError: the file cannot be written.
        TypeError: there is no such option.
        ValueError: an option makes no sense.
    """
    return begin(Options(output, **options))


def begin(options: Options, clock: RecordingClock | None = None, *, is_finished_elsewhere: bool = False) -> Recording:
    """Begin to record; with the clock of a parent process, as a part of its trace.

    Args:
        options: what is recorded.
        clock: the clock of the parent process.
        is_finished_elsewhere: leave the file as it is at the end, since another process finishes it.
    """
    require_recorder()
    from fxtio.tracer.recording import Recording, child_recording  # needs POSIX, as the recorder does

    with _process.lock:
        if _process.recording is not None:
            raise RuntimeError(f"a recording to {_process.recording.options.output} runs already")
        if clock is None:
            recording = Recording(options, is_finished_elsewhere=is_finished_elsewhere)
        else:
            recording = child_recording(options, clock, Path(options.output))
        _process.recording = recording
        return recording


def current() -> Recording | None:
    """Return the recording of this process that runs, if any."""
    return _process.recording


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
    """Write what the recording holds at this instant as a trace of its own; the recording goes on.

    Args:
        path: the trace; `.zst`, `.gz` and `.xz` compress it.  Unless given it is called after the recording, with the
            next number that is free: `last-1.fxt`.

    Returns:
        The path of the dump; None if nothing is recorded.

    Raises:
        RecorderMissingError: the recorder, a C extension, is missing.
        OSError: the dump cannot be written.
        ValueError: the path is the recording's own.
    """
    require_recorder()
    recording = _process.recording
    return None if recording is None else recorder.unrecorded(partial(recording.dump, path))


class tracing:  # noqa: N801  # used like a function
    """Record what happens inside of a `with` block.  Inside of another recording it does nothing: events go there.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.
    """

    def __init__(self, output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> None:
        self._options = Options(output, **options)
        self._recording: Recording | None = None

    def __enter__(self) -> tracing:
        with _process.lock:
            if _process.recording is None:
                self._recording = begin(self._options)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recording is not None and self._recording is _process.recording:
            try:
                stop()
            except OSError as error:  # not raised: it would replace the block's own exception
                warnings.warn(f"the trace is not in its final form: {error}", RecordingWarning, stacklevel=2)


def report_at_exit() -> None:
    """Say on standard error at the end of the program what was recorded, where it is, and how to look at it."""
    _process.reports_at_exit = True


def _at_exit() -> None:
    recording = _process.recording
    try:
        if recording is not None:
            recording.triggers.at_exit()
        summary = stop()
        if summary is not None and _process.reports_at_exit:
            report_summary(summary)
    except KeyboardInterrupt:  # while the file is rewritten
        live = recording and recording.live
        report(f"interrupted: {live} is complete but not finished: `fxtio recover` finishes it later")
    except OSError as error:
        report(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except Exception as error:
        report(str(error))


def report_summary(summary: Summary) -> None:
    """Say on standard error what was recorded, and in the last line how to look at it."""
    if summary.left:
        names = ", ".join(part.name for part in summary.left)
        count = len(summary.left)
        report(f"{count} of its processes still run; when they have ended, `fxtio merge` joins {names}")
    events = f"{'about ' if summary.is_estimate else ''}{summary.events:,} events"
    lost = f"{summary.lost:,} lost" if summary.lost else "none lost"
    size = summary.path.stat().st_size
    path = _as_seen_here(summary.path)
    name = shlex.quote(str(path))
    contents = f"{events} in {time_as_text(summary.duration_ns)}, {lost}, {size:,} bytes"
    report(f"{path}: {contents}; see `fxtio top {name}`, `fxtio timeline {name}`")


def _as_seen_here(path: Path) -> Path:
    """Return a path relative to the current folder if it lies within it."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return path


def _after_fork() -> None:
    recording = _process.recording
    _process.reset()
    if recording is not None:
        try:
            _process.recording = recording.continue_in_child()
        except Exception as error:
            report(f"the child process {os.getpid()} is not recorded: {error}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
