"""A recording: where it goes, what it holds, how it begins and ends."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from fxtio.codec.generate import encode
from fxtio.fxt import records as r
from fxtio.fxt.arguments import KoidArgument, Uint64Argument
from fxtio.fxt.enums import ObjectType, ProviderEventId
from fxtio.fxt.references import Thread
from fxtio.tracer import archive, decorate, environment, flight, functions, sources
from fxtio.tracer.backend import IMPLEMENTATION, IN_C, recorder
from fxtio.tracer.clock import NS_PER_SECOND, RecordingClock
from fxtio.tracer.file import RecordingFile
from fxtio.tracer.options import Options
from fxtio.tracer.tasks import arrows_to, running_task
from fxtio.tracer.units import size_in_bytes, time_in_ns
from fxtio.tracer.values import describe


class RecordingWarning(RuntimeWarning):
    """A recording that is not all that it could be."""


@dataclass(frozen=True)
class Summary:
    """What became of a recording.

    Attributes:
        path: the trace.
        lost: events that found no room.
        cut: texts that were too long and are there in part.
        dropped: arguments that were too many or too large.
        inlined: names that found no room in the tables, and stand in their events instead.
        parts: child processes whose records are in the trace.
        left: parts of the trace that lie beside it, because their processes still run: `fxtio merge` joins them later.
    """

    path: Path
    lost: int
    cut: int
    dropped: int
    inlined: int
    parts: int
    left: tuple[Path, ...]


class Recording:
    """One recording, from its start to its end.

    Args:
        options: what is recorded.
        clock: the clock of a parent process, which records the same trace; a new one unless given.
        parent: the trace that this recording is a part of, if it is a child's.

    Raises:
        OSError: the file cannot be written.
        ValueError: an option makes no sense.
    """

    def __init__(self, options: Options, clock: RecordingClock | None = None, parent: Path | None = None) -> None:
        if IMPLEMENTATION != IN_C:
            _say_once("the recorder in C is not there; the one in Python is many times slower")
        self.options = options
        self.clock = clock or RecordingClock.start(recorder)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._over = False
        self._thread_names: dict[int, str] = {}
        self._lent: dict[str, str] = {}
        only = {one for one in options.categories if not one.startswith("-")}
        without = {one[1:] for one in options.categories if one.startswith("-")}
        limit, ring = size_in_bytes(options.max_size), size_in_bytes(options.ring or 0)
        min_ticks = time_in_ns(options.min_duration) * self.clock.rate // NS_PER_SECOND
        wanted = functions.Filter(options.include, options.exclude) if options.functions else None
        self._sources = sources.made(options.sources)
        dump_on = flight.Wanted.of(options.dump_on)
        provider = self._pid, _program()
        self._file = RecordingFile(options.output, provider, self.clock, limit=limit, keep=parent is not None)
        self.trace = parent or self._file.path
        self._dumps = flight.Dumps(
            self.trace, "" if parent is None else f"-{self._pid}", {self._file.path, self._file.live}, self._copy
        )
        self.triggers = flight.Triggers(dump_on, self._dumps, self._dump_for_trigger)
        recorder.start(
            fd=self._file.fd,
            definitions=self._file.definitions,
            end=self._file.end,
            limit=limit,
            ring=ring,
            tsc=self.clock.tsc,
            base=self.clock.base,
            step=self.clock.step,
            only=only or None,
            without=without or None,
            thread_hook=self._see_thread,
            value_hook=describe,
            task_hook=running_task,
            wait_hook=arrows_to,
            slow=dump_on.slow_ns * self.clock.rate // NS_PER_SECOND,
            slow_hook=self.triggers.slow_hook,
        )
        try:
            self._begin(wanted, min_ticks)
        except BaseException:  # nobody would end it
            self._give_up()
            raise

    def _begin(self, wanted: functions.Filter | None, min_ticks: int) -> None:
        """Have everything record that is asked for; function calls last, as our own are of no interest."""
        self._label(ObjectType.PROCESS, self._pid, _program())
        if self.options.children:
            self._lent = self._lend()
        decorate.switch_on()
        for source in self._sources:
            source.start()
        self.triggers.install()
        engine = functions.start(wanted, self.options.c_functions, self.options.max_depth, min_ticks)
        recorder.instant("recording", "fxtio", engine=engine, recorder=IMPLEMENTATION, python=sys.version.split()[0])

    def _give_up(self) -> None:
        """Have nothing record any more, and leave the file as it is."""
        self.triggers.remove()
        self._stop_sources()
        functions.stop()
        self._take_back()
        recorder.stop()
        self._file.leave()

    def _lend(self) -> dict[str, str]:
        """Let child processes record parts of the trace."""
        options = {name: value for name, value in asdict(self.options).items() if name != "output"}
        lent = environment.for_children(self.trace, options, self.clock)
        os.environ.update(lent)
        return lent

    def _take_back(self) -> None:
        """The end of `_lend`."""
        for name, value in self._lent.items():
            if os.environ.get(name) == value:
                del os.environ[name]

    def _label(self, kind: ObjectType, koid: int, name: str) -> None:
        arguments = (KoidArgument(recorder.reference("process"), self._pid),) if kind is ObjectType.THREAD else ()
        recorder.define(encode(r.KernelObject(kind, koid, recorder.reference(name), arguments)))

    def _see_thread(self, thread: int) -> bool:
        """A thread records for the first time.  Whether Python began it."""
        # Not current_thread(): it would make an entry for a thread that has none.
        found = next((one for one in list(threading._active.values()) if one.native_id == thread), None)  # type: ignore[attr-defined]
        if found is None:
            self._thread_names[thread] = ""  # perhaps it has a name in the end
            return False
        self._name_thread(thread, found.name)
        return not isinstance(found, threading._DummyThread)

    def _name_thread(self, thread: int, name: str) -> None:
        if self._thread_names.get(thread) != name:
            self._thread_names[thread] = name
            self._label(ObjectType.THREAD, thread, name)

    def _name_threads(self) -> None:
        for thread in threading.enumerate():
            if thread.native_id in self._thread_names:
                self._name_thread(thread.native_id, thread.name)

    def stop(self) -> Summary:
        """End it: what is in the file now is the trace.

        Raises:
            OSError: the trace cannot be written in its final form; what was recorded is in the file all the same.
        """
        with self._lock:
            self._over = True
            counts = self._end()
        self._dumps.wait()
        mine = self.trace == self._file.path
        parts, left = self._parts() if mine and self.options.children else ([], ())
        self._file.finish(recorder, self.clock.rate, parts)
        known = {name: counts[name] for name in ("lost", "cut", "dropped", "inlined")}
        summary = Summary(self._file.path, **known, parts=len(parts), left=left)
        if summary.lost:
            told = f"{summary.path}: {summary.lost:,} events found no room"
            warnings.warn(told, RecordingWarning, stacklevel=3)
        return summary

    def _parts(self) -> tuple[list[Path], tuple[Path, ...]]:
        """The parts of child processes that have ended, and of those that still run."""
        found = list(archive.parts_and_faults(self.trace, self.clock.wall_ns))
        running = tuple(part for part, why in found if why == archive.RUNNING)
        return [part for part, why in found if not why], running

    def _end(self) -> dict[str, int]:
        """Have nothing record any more, and write what is known only now; what was counted."""
        recorder.unrecorded(self.triggers.remove)
        self._stop_sources()
        recorder.seal()  # before anything that records is gone: or ends would be missing
        functions.stop()
        self._take_back()
        self._name_threads()
        self.clock.measure(recorder)
        self._file.set_rate(self.clock.rate)
        if lost := recorder.lost():
            recorder.define(self._loss(recorder.now(), *lost))
        counts: dict[str, int] = recorder.stop()
        return counts

    def _stop_sources(self) -> None:
        for source in reversed(self._sources):
            source.stop()

    def _loss(self, now: int, count: int, since: int) -> bytes:
        """The records that say that and where something is missing."""
        category, name, records = (recorder.reference(text) for text in ("fxtio", "drop_stats", "records"))
        thread = Thread(self._pid, self._pid)
        arguments = (Uint64Argument(records, count),)
        gap = r.DurationComplete(since, thread, category, name, arguments, max(now, since))
        return encode(gap) + encode(r.ProviderEvent(self._pid, ProviderEventId.BUFFER_FILLED_UP))

    def dump(self, path: str | os.PathLike[str] | None = None, *, later: bool = False) -> Path | None:
        """Write what it holds as a trace of its own; None if it has ended.

        Args:
            path: see `dump`.
            later: let a thread write it.

        Raises:
            OSError: the dump cannot be written.
            ValueError: the path is the recording's own.
        """
        with self._lock:
            if self._over:
                return None
            copy = self._dumps.take(path)
        if later:
            self._dumps.write_later(copy)
        else:
            copy.write()
        return copy.path

    def _dump_for_trigger(self, later: bool) -> str | None:
        path = self.dump(later=later)
        return None if path is None else str(path)

    def _copy(self, fd: int) -> None:
        """Copy to this file what has been recorded until now."""
        self._name_threads()
        self.clock.measure(recorder)
        lost = recorder.lost()
        loss = self._loss(recorder.now(), *lost) if lost else b""
        end = recorder.copy(fd)
        self._file.set_rate(self.clock.rate, fd)
        os.pwrite(fd, loss, end)

    def go_on_in_child(self) -> Recording | None:
        """After a fork: leave the parent's file alone, and record to one of our own if children are wanted."""
        self._give_up()
        return child(self.options, self.clock, self.trace) if self.options.children else None


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RecordingWarning, stacklevel=4)


def child(options: Options, clock: RecordingClock, trace: Path) -> Recording:
    """A recording of a process that a recorded one has started."""
    return Recording(replace(options, output=archive.part_of(trace, os.getpid(), clock.wall_ns)), clock, trace)


def _program() -> str:
    """What the process is called in the trace."""
    script = sys.argv[0] if getattr(sys, "argv", None) and sys.argv[0] not in ("", "-c", "-m") else ""
    return (Path(script).name or "python")[:60]
