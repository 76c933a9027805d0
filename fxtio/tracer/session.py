"""The recording of this process: at most one at a time, which ends with the process at the latest.

Several threads may start and end recordings, and a thread may do so in the middle of a start or an end of its own.
Each attempt is decided at once, without waiting: who is too late finds a recording that runs already, or none.
"""

from __future__ import annotations

import _thread
import atexit
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.errors import described
from fxtio.tracer import tracks
from fxtio.tracer.backend import MISSING, NOT_FINISHED, RecordingWarning, recorder, report, require_recorder
from fxtio.tracer.interrupts import NO_LIMIT, PATIENCE_S, wait_for
from fxtio.tracer.options import DEFAULT_OUTPUT, Options, refuse_other_outputs, time_as_text

if TYPE_CHECKING:
    from fxtio.tracer.clock import RecordingClock
    from fxtio.tracer.recording import Recording, Summary


class _Process:
    """The state of this process.

    Attributes:
        starting: locked while a thread begins a recording.
        recording: the recording that runs, if any, until nothing is recorded any more.
        ending: recordings that end, until their files are finished, with the thread that ends each.
        reports_at_exit: whether to say at the end what was recorded, and where the trace is.
        is_quiet: whether to say of that only what is wrong.
        ignored: the traces of `tracing` blocks that record to another one; each is reported once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Return to the initial state: after a fork, the other threads are not there any more."""
        self.starting = _thread.allocate_lock()
        self.recording: Recording | None = None
        self.ending: dict[Recording, int] = {}
        self.reports_at_exit = self.is_quiet = False
        self.ignored: set[str] = set()

    def wait(self, seconds: float) -> None:
        """Wait until the recordings that other threads end are finished, for this many seconds, or `NO_LIMIT`."""
        for recording, thread in list(self.ending.items()):
            wait_for(recording.unfinished, seconds, thread)

    def wait_for_file(self, path: str | os.PathLike[str]) -> None:
        """Wait until no other recording to this file is being finished.

        Raises:
            RuntimeError: this thread finishes one, or another thread does and takes long.
        """
        for recording, thread in list(self.ending.items()):
            if recording.writes_to(path) and not wait_for(recording.unfinished, PATIENCE_S, thread):
                raise RuntimeError(f"a recording to {path} is still being finished")

    def release(self, recording: Recording) -> None:
        """Forget a recording that has ended."""
        self.ending.pop(recording, None)
        recording.unfinished.release()


_process = _Process()


def start(output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> Recording:
    """Begin to record, until `stop` or the end of the program.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.

    Raises:
        RecorderMissingError: the recorder, a C extension, is missing.
        RuntimeError: a recording runs already, another thread begins one, one with this name is being finished, or the
            interpreter shuts down.
        OSError: the file cannot be written.
        TypeError: there is no such option, or its value is of a wrong type.
        ValueError: an option makes no sense, or the trace is named like one in another format, such as `app.json`.
    """
    return begin(Options(output, **options).normalized())


def begin(options: Options, clock: RecordingClock | None = None, *, is_finished_elsewhere: bool = False) -> Recording:
    """Begin to record; with the clock of a parent process, as a part of its trace.

    The file stays as it is at the end if it is finished elsewhere, by another process.
    """
    recording = _begin_unless_recorded(options, clock, is_finished_elsewhere=is_finished_elsewhere)
    if isinstance(recording, str):
        raise RuntimeError(recording)
    return recording


def _begin_unless_recorded(
    options: Options, clock: RecordingClock | None = None, *, is_finished_elsewhere: bool = False
) -> Recording | str:
    """Begin to record, or return why not: another recording runs or is being started, or the interpreter ends."""
    require_recorder()
    if sys.is_finalizing():  # this runs in a destructor, and nothing would end the recording
        return "Python is shutting down"
    from fxtio.tracer.recording import Recording, child_recording  # needs POSIX, as the recorder does

    starting = _process.starting  # a fork replaces it
    if not starting.acquire(blocking=False):
        return "a recording is being started"
    try:
        if _process.recording is not None:
            return f"a recording to {_process.recording.options.output} runs already"
        if clock is None and not is_finished_elsewhere:  # otherwise another process has looked at the name
            refuse_other_outputs(options.output)
        _process.wait_for_file(options.output)
        if clock is None:
            recording = Recording(options, is_finished_elsewhere=is_finished_elsewhere)
        else:
            recording = child_recording(options, clock, Path(options.output))
        _process.recording = recording
        return recording
    finally:
        starting.release()


def current() -> Recording | None:
    """Return the recording of this process that runs, if any."""
    return _process.recording


def stop() -> Summary | None:
    """End the recording.

    Returns:
        What became of it; None if there was none, or if another thread is ending it.  Then this waits until that thread
        has finished the trace, but only for some seconds.

    Raises:
        OSError: the trace cannot be written in its final form; what was recorded is in the file all the same.
    """
    return _stop(PATIENCE_S, warns=True)


def _stop(patience: float, *, warns: bool) -> Summary | None:
    recording = _process.recording
    if recording is not None and not recording.is_of_this_process:  # a fork that Python did not see
        return None
    if recording is None or not recording.may_end.acquire(blocking=False):
        _process.wait(patience)
        return None
    summary = None
    try:
        _process.ending[recording] = _thread.get_ident()
        try:
            recording.end()
        finally:
            if _process.recording is recording:
                _process.recording = None
        summary = recording.finish(patience)
    finally:
        _process.release(recording)
        is_told = summary is not None and not warns  # there may be no room to finish the file
        if recording.lost and not recording.is_finished_elsewhere and not is_told:
            missing = f"{recording.lost:,} events were lost, because there was no room for them"
            if recording.unrecorded_ns:
                missing = (
                    f"the last {time_as_text(recording.unrecorded_ns)} were not recorded, because the file was full"
                )
            warnings.warn(f"{recording.trace}: {missing}", RecordingWarning, stacklevel=3)
    for missing in recording.missing:
        warnings.warn(f"{recording.trace}: {missing}", RecordingWarning, stacklevel=3)
    return summary


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
    """Record what happens inside of a `with` block.

    While another recording runs it does nothing but say so in a line on standard error: events go to that recording,
    with its options.

    Args:
        output: the trace; `.zst`, `.gz` and `.xz` compress it at the end.
        options: see `Options`.

    Raises:
        TypeError: there is no such option, or its value is of a wrong type.
        ValueError: an option makes no sense.
    """

    def __init__(self, output: str | os.PathLike[str] = DEFAULT_OUTPUT, **options: Any) -> None:
        self._options = Options(output, **options).normalized()
        self._recording: Recording | None = None

    def __enter__(self) -> tracing:
        running = _process.recording
        if running is not None:
            _report_ignored(str(self._options.output), running)
        else:
            recording = _begin_unless_recorded(self._options)
            if isinstance(recording, str):
                report(f"tracing({str(self._options.output)!r}): nothing is recorded: {recording}")
            else:
                self._recording = recording
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recording is not None and self._recording is _process.recording:
            try:
                stop()
            except OSError as error:  # not raised: it would replace the block's own exception
                warnings.warn(f"the trace is not in its final form: {described(error)}", RecordingWarning, stacklevel=2)


def _report_ignored(output: str, recording: Recording) -> None:
    """Say that a block records to another trace than its own."""
    if output not in _process.ignored:
        _process.ignored.add(output)
        path = _as_seen_here(recording.trace)
        report(f"tracing({output!r}): a recording runs already; events go to {path}, and {output} is not written")


def name_process(name: str) -> None:
    """Name this process in traces, from now on."""
    tracks.give_name(name)
    recording = _process.recording
    if recording is not None:
        recording.name_process()


def report_at_exit(*, quiet: bool = False) -> None:
    """Say on standard error at the end of the program what was recorded, see `report_summary`."""
    _process.reports_at_exit, _process.is_quiet = True, quiet


def _at_exit(patience: float = NO_LIMIT) -> None:
    recording = _process.recording
    try:
        if recording is not None:
            recording.triggers.at_exit()
        wait_for(_process.starting, PATIENCE_S)
        summary = _stop(patience, warns=not _process.reports_at_exit or _process.is_quiet)
        if summary is not None and _process.reports_at_exit:
            report_summary(summary, quiet=_process.is_quiet)
    except KeyboardInterrupt:  # while the file is rewritten
        if recording is not None and recording.live.exists():  # or else it was being packed
            report(f"interrupted: {recording.live} {NOT_FINISHED}")
    except Exception as error:
        report(described(error))


def report_summary(summary: Summary, *, quiet: bool = False) -> None:
    """Say on standard error what was recorded, see `summary_lines`."""
    for line in summary_lines(summary, quiet=quiet):
        report(line)


def summary_lines(summary: Summary, *, quiet: bool = False) -> Iterator[str]:
    """Yield what was recorded, and in the last line how to look at it; if quiet, only what is wrong."""
    for option, value in summary.unmatched:
        yield f"nothing in the program matches --{option} {shlex.quote(value)}"
    if quiet:
        return
    if summary.left:
        names = ", ".join(part.name for part in summary.left)
        count = len(summary.left)
        yield f"{count} of its processes still run; when they have ended, `fxtio merge` joins {names}"
    noun = "event" if summary.events == 1 else "events"
    events = f"{'about ' if summary.is_estimate else ''}{summary.events:,} {noun}"
    lost = f"{summary.lost:,} lost" if summary.lost else "none lost"
    if summary.unrecorded_ns:
        lost = f"then the file was full: the last {time_as_text(summary.unrecorded_ns)} were not recorded"
    size = summary.path.stat().st_size
    path = _as_seen_here(summary.path)
    name = shlex.quote(str(path))
    contents = f"{events} in {time_as_text(summary.duration_ns)}, {lost}, {size:,} bytes"
    yield f"{path}: {contents}; see `fxtio top {name}`, or `open`, `report`"


def _as_seen_here(path: Path) -> Path:
    """Return a path relative to the current folder if it is within it."""
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
            report(f"the child process {os.getpid()} is not recorded: {described(error)}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
if not MISSING:
    recorder.before_hard_exit(partial(_at_exit, PATIENCE_S))  # in any thread, while others may wait for each other
