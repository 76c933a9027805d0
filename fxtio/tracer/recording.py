"""A recording from its start to its end: its file, its options, and everything that records to it."""

from __future__ import annotations

import _thread
import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from fxtio.labels import OBJECT_NAME, checked, of_environment
from fxtio.tracer import archive, decorate, encode, flight, functions, plain, sources, tracks
from fxtio.tracer.backend import recorder, report
from fxtio.tracer.clock import NS_PER_SECOND, RecordingClock
from fxtio.tracer.file import RecordingFile, live_path
from fxtio.tracer.interrupts import PATIENCE_S, acquire, describe, interrupts
from fxtio.tracer.options import OUTPUT, WAIT, Options, is_foreign, size_in_bytes, time_in_ns, variables_of, waits
from fxtio.tracer.tracks import look_around

_get_ident = _thread.get_ident  # as it is now: programs patch it
_MAX_REPORTED = 3  # other users may put any number of files there


class Summary(NamedTuple):
    """The outcome of a recording.

    Attributes:
        path: the trace.
        events: the number of events; of a large recording an estimate.
        is_estimate: whether it is one.
        duration_ns: how long was recorded, in nanoseconds.
        unrecorded_ns: how long the program went on after the file was full, in nanoseconds: then nothing is recorded.
        lost: the number of events that were lost because there was no room; what came after that is not counted.
        cut: the number of texts that were shortened because they were too long.
        dropped: the number of arguments that were left out because they were too many or too large.
        inlined: how often a name that did not fit into the tables is in its event instead.
        parts: the number of child processes whose records are in the trace.
        left: parts of the trace that are still beside it, because their processes run: `fxtio merge` joins them later.
        unmatched: options that name something to record which the program does not have, perhaps because it is
            misspelled: pairs such as `("include", "myap")` and `("category", "htpt")`.
    """

    path: Path
    events: int
    is_estimate: bool
    duration_ns: int
    unrecorded_ns: int
    lost: int
    cut: int
    dropped: int
    inlined: int
    parts: int
    left: tuple[Path, ...]
    unmatched: tuple[tuple[str, str], ...]


def _categories(options: Options) -> tuple[set[str], set[str]]:
    """Return the categories to record, none if all are, and those to leave out."""
    without = {name[1:] for name in options.categories if name.startswith("-")}
    return {name for name in options.categories if not name.startswith("-")}, without


def _with_environment(labels: dict[str, str]) -> dict[str, str]:
    """Return labels and those of the environment; what makes no sense there is reported, and is no error."""
    if is_foreign():
        return labels
    try:
        return checked(of_environment(os.environ) | labels)
    except ValueError as error:
        report(f"there are no labels of the environment: {error}")
        return labels


class Recording:
    """One recording, from its start to its end.

    Args:
        options: what is recorded.
        clock: the clock of a parent process, which records the same trace; a new one unless given.
        parent: the trace that this recording is a part of, if it is a child's.
        is_finished_elsewhere: leave the file as it is at the end, since another process finishes it.
        call_cost: what it takes to record a call, in nanoseconds; measured unless given.

    Attributes:
        options: what is recorded.
        clock: its clock.
        trace: the trace that it is, or is a part of.
        triggers: what takes dumps.
        is_finished_elsewhere: whether another process makes the file a finished trace.
        may_end: locked once by the thread that ends the recording.
        unfinished: locked until the recording has ended and its file is finished.
        missing: what sources could not record, as phrases, once the recording is finished.

    Raises:
        OSError: the file cannot be written.
        ValueError: an option makes no sense.
    """

    def __init__(
        self,
        options: Options,
        clock: RecordingClock | None = None,
        parent: Path | None = None,
        *,
        is_finished_elsewhere: bool = False,
        call_cost: int | None = None,
    ) -> None:
        self.options = options = options.normalized()
        self.clock = clock or RecordingClock.start()
        if call_cost is None:  # arguments and results cost more, and not the same for each call
            has_one_cost = options.functions and not options.args and not options.results
            call_cost = functions.call_cost(self.clock) if has_one_cost else 0
        self._call_cost = call_cost
        self._labels = _with_environment(checked(options.labels))
        self._pid = os.getpid()
        self.may_end = _thread.allocate_lock()
        self.unfinished = _thread.allocate_lock()
        self.unfinished.acquire()
        self._dumping, self._dumper = threading.RLock(), 0
        self._has_ended = self._has_stopped = False
        self._counts: dict[str, int] = {}
        self.missing: list[str] = []
        self._thread_names: dict[int, str] = {}
        self._variables: dict[str, str] = {}
        self._process_name, self._program_waits = "", False
        only, without = _categories(options)
        limit, ring = size_in_bytes(options.max_size), size_in_bytes(options.ring or 0)
        min_ticks = time_in_ns(options.min_duration) * self.clock.rate // NS_PER_SECOND
        self._accepted: functions.Filter | None = None
        if options.functions:
            self._accepted = functions.Filter(options.include, options.exclude, options.args, options.results)
        conditions = flight.Conditions.parse(options.dump_on)
        needed = ["asyncio"] if conditions.blocking_ns else []
        self._sources = sources.create([*options.sources, *needed])
        provider = self._pid, tracks.program_name()
        self.is_finished_elsewhere = is_finished_elsewhere
        self._is_kept = is_finished_elsewhere or parent is not None
        self._file = RecordingFile(options.output, provider, self.clock, limit=limit, keep=self._is_kept)
        self.trace = parent or self._file.path
        label = "" if parent is None else f"-{self._pid}"
        self._dumps = flight.Dumps(self.trace, label, {self._file.path, self._file.live}, self._copy)
        self.triggers = flight.Triggers(conditions, self._dumps, self._dump_for_trigger)
        slow, blocking = (ns * self.clock.rate // NS_PER_SECOND for ns in (conditions.slow_ns, conditions.blocking_ns))
        limits = {"limit": limit, "ring": ring, "slow": slow, "blocking": blocking}
        self._start_recorder(only=only or None, without=without or None, **limits)
        try:
            self._begin(min_ticks)
        except BaseException:  # the caller has no recording that it could stop
            self._abandon()
            raise

    def _start_recorder(self, **settings: Any) -> None:
        """Have events recorded to the file, which is closed if that fails."""
        try:
            recorder.start(
                owner=self,
                fd=self._file.fd,
                definitions=self._file.definitions,
                end=self._file.end,
                has_counter=self.clock.has_counter,
                base=self.clock.base,
                step=self.clock.step,
                thread_hook=self._on_new_thread,
                value_hook=describe,
                task_hook=look_around,
                slow_hook=self.triggers.slow_hook,
                interrupt_hook=interrupts,
                **settings,
            )
        except BaseException:
            self._file.leave()
            raise

    def _begin(self, min_ticks: int) -> None:
        """Start everything that records; function calls last, so that our own calls are not recorded."""
        self.name_process()
        self._record_labels()
        tracks.when_named(self, Recording.name_process)
        command = tracks.command_line()
        if self.options.children:
            self._variables = self._set_variables()
        decorate.switch_on()
        for source in self._sources:
            source.start()
        self.triggers.install()
        engine = functions.start(self._accepted, self.options.c_functions, self.options.max_depth, min_ticks)
        recorder.instant("recording", "fxtio", engine=engine, python=sys.version.split()[0], command=command)

    def name_process(self) -> None:
        """Record the name of the process if it has changed."""
        name = tracks.process_name()
        if name != self._process_name and not self._has_stopped and self.is_of_this_process:
            self._process_name = name
            facts = {"call_ns": self._call_cost, **self.clock.zeros()}
            slots = {recorder.reference(key): value for key, value in facts.items() if value > 0}
            recorder.define(self, encode.process(self._pid, recorder.reference(name), slots))

    def _record_labels(self) -> None:
        """Record the labels, if there are any."""
        if self._labels:
            slots = [(recorder.reference(name), recorder.reference(text)) for name, text in self._labels.items()]
            recorder.define(self, encode.labels(recorder.reference(OBJECT_NAME), slots))

    def _abandon(self) -> None:
        """Stop everything that records, and leave the file as it is."""
        self._has_stopped = True
        self.triggers.remove()
        self._stop_sources()
        functions.stop()
        self._remove_variables()
        recorder.stop()
        self._file.leave()

    def _set_variables(self) -> dict[str, str]:
        """Set the environment variables that let child processes record parts of the trace."""
        variables = variables_of(self.trace, self.options, self.clock)
        self._program_waits = waits()
        os.environ.update(variables)
        return variables

    def _remove_variables(self) -> None:
        """Remove the environment variables that the program has not changed; a program that waits goes on to do so."""
        for name, value in self._variables.items():
            if os.environ.get(name) != value:
                continue
            if name == OUTPUT and self._program_waits:
                os.environ[name] = WAIT
            else:
                del os.environ[name]

    def _on_new_thread(self, thread: int) -> bool:
        """Record the name of a thread that records for the first time.

        Returns:
            Whether Python started the thread.
        """
        if name := tracks.track_name(thread):
            self._name_thread(thread, name)
            return False
        tracks.follow()
        # Not current_thread(): for a thread that Python did not start it would add an entry to the table.
        threads = list(threading._active.values())  # type: ignore[attr-defined]
        for entry in threads:
            native_id, name = plain.thread_facts(entry)
            if native_id == thread:
                self._name_thread(thread, name)
                return not plain.is_a(entry, threading._DummyThread)
        own = threading._active.get(_get_ident())  # type: ignore[attr-defined]
        if own is threading._main_thread:  # type: ignore[attr-defined]  # a fork leaves it with its former native id
            self._name_thread(thread, plain.thread_facts(own)[1])
            return True
        self._thread_names[thread] = ""  # it may have a name at the end
        return False

    def _name_thread(self, thread: int, name: str) -> None:
        if self._thread_names.get(thread) != name:
            self._thread_names[thread] = name
            key, name_slot = recorder.reference("process"), recorder.reference(name)
            recorder.define(self, encode.thread_name(thread, name_slot, self._pid, key))

    def _name_threads(self) -> None:
        """Record the names of threads and of the process that have changed."""
        self.name_process()
        # Without the lock of `threading`: a thread that holds it may wait for this one, as when a destructor stops.
        for thread in threading._enumerate():  # type: ignore[attr-defined]
            native_id, name = plain.thread_facts(thread)
            if native_id in self._thread_names:
                self._name_thread(native_id, name)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process began it, and not the one from which it was forked."""
        return self._pid == os.getpid()

    @property
    def live(self) -> Path:
        """The file that is recorded to."""
        return self._file.live

    def writes_to(self, path: str | os.PathLike[str]) -> bool:
        """Return whether this recording and one to a path would use a file of the same name."""
        other = Path(os.path.realpath(path))
        return not {self._file.path, self._file.live}.isdisjoint({other, live_path(other)})

    def end(self) -> None:
        """Record nothing any more."""
        is_alone = acquire(self._dumping, PATIENCE_S, self._dumper)
        try:
            self._has_ended = True
            self._counts, self._is_in_order, self._never_matched = self._end()
        except BaseException:  # an interrupt, or the disk; nothing would stop it later
            self._abandon()
            raise
        finally:
            if is_alone:
                self._dumping.release()

    @property
    def lost(self) -> int:
        """The number of events that there was no room for, once it has ended."""
        return self._counts.get("lost", 0)

    @property
    def unrecorded_ns(self) -> int:
        """How long the program went on after the file was full, in nanoseconds, once the recording has ended."""
        return self._ns(self._counts.get("unrecorded", 0))

    def _ns(self, ticks: int) -> int:
        return ticks * NS_PER_SECOND // self.clock.rate

    def finish(self, patience: float) -> Summary:
        """Make the file a finished trace, after `end`; wait some seconds, or `NO_LIMIT`, for a dump.

        Raises:
            OSError: the trace cannot be written in its final form; what was recorded is in the file all the same.
        """
        self._dumps.wait(patience)
        delivered = self._deliveries()
        parts, running = ([], ()) if self._is_kept else self._parts(delivered)
        tally = self._file.finish(self.clock.rate, parts, in_order=self._is_in_order)
        counts = self._counts
        return Summary(
            self._file.path,
            tally.events,
            tally.is_estimate,
            self._ns(counts["recorded"]),
            self.unrecorded_ns,
            **{name: counts[name] for name in ("lost", "cut", "dropped", "inlined")},
            parts=len({archive.pid_of_part(self.trace, part) for part in parts} - {self._pid}),
            left=running,
            unmatched=() if parts or running else self._never_matched,
        )

    def _deliveries(self) -> list[Path]:
        """Have sources write what they have elsewhere as parts of the trace, and return these."""
        parts = []
        for source in self._sources:
            if hasattr(source, "deliver"):
                parts += source.deliver(self.trace, self._file.front._replace(rate=self.clock.rate))
                self.missing += source.missing
        return parts

    def _parts(self, own: list[Path]) -> tuple[list[Path], tuple[Path, ...]]:
        """Return the own parts and those of child processes that have ended, and the parts of those that still run."""
        if not self.options.children:
            return own, ()
        candidates = list(archive.parts_and_faults(self.trace, self.clock.wall_ns, self._file.owner))
        running = tuple(part for part, fault in candidates if fault == archive.RUNNING)
        for part in [part for part, fault in candidates if fault == archive.FOREIGN][:_MAX_REPORTED]:
            report(f"{part} is left out: {archive.FOREIGN}")
        return [part for part, fault in candidates if not fault], running

    def _end(self) -> tuple[dict[str, int], bool, tuple[tuple[str, str], ...]]:
        """Stop everything that records, and write what is known only at the end.

        Returns:
            The recorder's counts, the ticks that are recorded and those that followed when the file was full; whether
            each thread's events are in order in the file; and `unmatched` of the summary.
        """
        recorder.unrecorded(self.triggers.remove)
        self._stop_sources()
        recorder.seal()  # before functions are no longer monitored, or their ends would be missing
        functions.stop()
        self._remove_variables()
        self._name_threads()
        self.clock.measure()
        self._file.set_rate(self.clock.rate)
        ticks = recorded = recorder.now()
        if lost := recorder.lost():
            recorder.define(self, self._loss(*lost))
            recorded = lost[2] or ticks
        is_in_order = self._file.is_large and recorder.settle()
        unmatched = self._unmatched()
        self._has_stopped = True
        return {**recorder.stop(), "recorded": recorded, "unrecorded": ticks - recorded}, is_in_order, unmatched

    def _unmatched(self) -> tuple[tuple[str, str], ...]:
        """Return the options that name something which the program does not have."""
        patterns = self._accepted.unmatched() if self._accepted else []
        categories = sorted(recorder.unseen_categories())
        return (*patterns, *(("category", text) for text in categories))

    def _stop_sources(self) -> None:
        for source in reversed(self._sources):
            source.stop()

    def _loss(self, count: int, since: int, _full: int) -> bytes:
        """Return the records that say how many events were lost, and since which tick."""
        texts = recorder.reference("fxtio"), recorder.reference("drop_stats"), recorder.reference("records")
        return encode.loss(since, self._pid, texts, count)

    def dump(self, path: str | os.PathLike[str] | None = None, *, later: bool = False) -> Path | None:
        """Write what the recording holds as a trace of its own, see `fxtio.tracer.session.dump`; `later` by a thread.

        Raises:
            OSError: the dump cannot be written.
            ValueError: the path is the recording's own.
        """
        if self.may_end.locked():  # a thread is ending it
            return None
        if not acquire(self._dumping, PATIENCE_S, self._dumper):
            raise TimeoutError(errno.ETIMEDOUT, "another thread takes a dump", str(path or self.trace))
        try:
            if self._has_ended:
                return None
            self._dumper = _get_ident()
            copy = self._dumps.take(path)
        finally:
            self._dumping.release()
        if later:
            self._dumps.write_later(copy)
        else:
            copy.write()
        return copy.path

    def _dump_for_trigger(self, later: bool) -> str | None:
        path = self.dump(later=later)
        return None if path is None else str(path)

    def _copy(self, fd: int) -> None:
        """Copy to a file what has been recorded until now."""
        self._name_threads()
        self.clock.measure()
        if self._has_ended:  # by a destructor, or by a thread that would not wait any longer
            raise OSError(errno.EBADF, "the recording has ended")
        lost = recorder.lost()
        loss = self._file.chunks.chunk_of(self._loss(*lost)) if lost else b""
        end = recorder.copy(fd)
        self._file.set_rate(self.clock.rate, fd)
        os.pwrite(fd, loss, end)

    def continue_in_child(self) -> Recording | None:
        """Leave the parent's file alone after a fork, and record to an own file if children are recorded."""
        self._abandon()
        if not self.options.children:
            return None
        return child_recording(self.options, self.clock, self.trace, self._call_cost)


def child_recording(options: Options, clock: RecordingClock, trace: Path, call_cost: int | None = None) -> Recording:
    """Begin the recording of a process that a recorded one has started, with its options, clock and trace."""
    output = archive.part_of(trace, os.getpid(), clock.wall_ns)
    return Recording(options._replace(output=output), clock, trace, call_cost=call_cost)
