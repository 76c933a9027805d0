"""The flight recorder: dumps of a recording that goes on, and the triggers that take them.

A dump is taken in two steps.  First the file is copied as it is at one instant, to a file without a name; nothing is
recorded until the copy is complete.  Then the fillers are removed from the copy and it is compressed, in its own thread
where the program need not wait for it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations, which take long to import
import _thread
import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fxtio.errors import described
from fxtio.shared_folders import resolved, unnamed_file
from fxtio.tracer.archive import squeezed
from fxtio.tracer.backend import KINDS, recorder, report
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.file import high_descriptor, opener, refuse_unwritable, replace
from fxtio.tracer.interrupts import NO_LIMIT, wait_for
from fxtio.tracer.options import COMPRESSED, time_in_ns

if TYPE_CHECKING:
    from signal import Signals

MIN_INTERVAL_NS = NS_PER_SECOND
"""The time between two dumps for exceptions, and likewise for slow spans, and for steps that hold an event loop.

Errors that repeat usually repeat fast: the dumps would hold the same moments, and the program would do little else.
"""

MAX_DUMPS = 100
"""The number of dumps for exceptions, and likewise for slow spans, and for steps that hold an event loop.

A service that fails for weeks must not fill the disk, and the first dumps show the cause.
"""

_EXCEPTION, _SLOW, _BLOCKING = "exception", "slow", "blocking"
_HARMLESS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
"""Signals after which the program goes on, although by default they would end it."""

_UNSUITABLE = frozenset({"SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"})
"""Signals that cannot be caught, or after which no Python code can run."""


# ---- Conditions.


class Conditions(NamedTuple):
    """The conditions for taking dumps.

    Attributes:
        exception: whether for an exception that nobody catches.
        signals: for which signals.
        slow_ns: for spans that take longer than this; 0 for none.
        blocking_ns: for steps of an event loop of asyncio that take longer than this; 0 for none.
    """

    exception: bool = False
    signals: tuple[Signals, ...] = ()
    slow_ns: int = 0
    blocking_ns: int = 0

    @classmethod
    def parse(cls, triggers: Iterable[str]) -> Conditions:
        """Return the conditions for texts such as `exception`, `SIGUSR2`, `slow:100ms` and `blocking:50ms`.

        Raises:
            ValueError: a text is not a trigger.
        """
        exception, signals = False, []
        limits: dict[str, list[int]] = {_SLOW: [], _BLOCKING: []}
        for trigger in triggers:
            kind, _, limit = trigger.partition(":")
            if limit and kind in limits:
                limits[kind].append(time_in_ns(limit))
            elif trigger == _EXCEPTION:
                exception = True
            elif trigger in vars(signal) and trigger.startswith("SIG") and trigger not in _UNSUITABLE:
                from signal import Signals

                signals.append(Signals[trigger])
            else:
                accepted = "exception, a signal (SIGUSR2), slow:100ms or blocking:100ms"
                raise ValueError(f"{trigger!r} is not a trigger, such as {accepted}")
        for kind, times in limits.items():
            if 0 in times:
                raise ValueError(f"{kind} needs a time greater than 0, such as {kind}:100ms")
        return cls(exception, tuple(dict.fromkeys(signals)), *(min(times, default=0) for times in limits.values()))


# ---- Dumps.


class _Copy(NamedTuple):
    """The recording as it was at one instant, from which a trace is made.

    Attributes:
        fd: a file without a name.
        path: the name of the trace.
        open_file: opens the trace for writing.
    """

    fd: int
    path: Path
    open_file: Callable[[int], Any]

    def write(self) -> None:
        try:
            replace(self.path, squeezed(self.fd), self.open_file)
        finally:
            self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


class Dumps:
    """The dumps of one recording.

    Args:
        trace: the trace after which the dumps are named, with a number: `last-1.fxt`.
        label: distinguishes the names of a child process from those of its parent.
        reserved: the paths of the recording itself.
        copy: copies the recording to a file.
    """

    def __init__(self, trace: Path, label: str, reserved: Collection[Path], copy: Callable[[int], None]) -> None:
        self._trace, self._label, self._reserved, self._copy = trace, label, reserved, copy
        self._numbers = itertools.count(1)
        self._writing = _thread.allocate_lock()
        self._writer = 0

    @property
    def is_writing(self) -> bool:
        """True while a thread is writing a dump."""
        return self._writing.locked()

    def take(self, path: str | os.PathLike[str] | None = None) -> _Copy:
        """Copy the recording as it is now, to a path, or the next free name.

        Raises:
            OSError: it cannot be copied, or the dump cannot be written.
            ValueError: the path is the recording's own.
        """
        target = self._next_path() if path is None else resolved(path)
        if target in self._reserved:
            raise ValueError(f"{target} is the file of the recording itself")
        refuse_unwritable(target)
        copy = _Copy(high_descriptor(unnamed_file(target.parent)), target, opener(target))
        try:
            self._copy(copy.fd)
        except BaseException:
            copy.close()
            raise
        return copy

    def _next_path(self) -> Path:
        compression = self._trace.suffix if self._trace.suffix in COMPRESSED else ""
        name = Path(self._trace.name.removesuffix(compression))
        for number in self._numbers:
            path = self._trace.with_name(f"{name.stem}{self._label}-{number}{name.suffix}{compression}")
            if not os.path.lexists(path):
                break
        return path

    def write_later(self, copy: _Copy) -> None:
        """Have a thread write the dump, which reports errors on standard error; if no thread can, write it now."""
        if self._writing.acquire(blocking=False):
            # The thread takes no signals: one that it took would not interrupt what the main thread waits for.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                _thread.start_new_thread(recorder.unrecorded, (partial(self._write_in_thread, copy),))
                return
            except RuntimeError:  # no thread can be started, perhaps because the interpreter ends
                self._writing.release()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        copy.write()

    def _write_in_thread(self, copy: _Copy) -> None:
        self._writer = _thread.get_ident()
        try:
            copy.write()
        except Exception as error:
            report(f"the dump {copy.path} cannot be written: {described(error)}")
        finally:
            self._writer = 0
            self._writing.release()

    def wait(self, seconds: float = NO_LIMIT) -> None:
        """Wait until no dump is being written, for some seconds or `NO_LIMIT`; longer at the end of the program."""
        if not wait_for(self._writing, seconds, self._writer) and seconds != NO_LIMIT:
            atexit.register(self.wait)


# ---- Triggers.


class _Limit:
    """Limits how often one trigger takes dumps."""

    def __init__(self) -> None:
        self.remaining, self.next_ns = MAX_DUMPS, 0

    def is_reached(self) -> bool:
        """Return whether no dump is due now."""
        return not self.remaining or time.monotonic_ns() < self.next_ns

    def count(self) -> None:
        """Note an attempt."""
        self.remaining -= 1
        self.next_ns = time.monotonic_ns() + MIN_INTERVAL_NS


class Triggers:
    """Takes dumps when their conditions are met.

    Args:
        conditions: when dumps are taken.
        dumps: the recording's dumps.
        dump: takes a dump and writes it, or with True has a thread write it; returns its path, or None if the recording
            has ended.

    Attributes:
        within: what the program does, such as the test that runs, which is said of slow spans; or nothing.

    Hooks and handlers that the program has installed are called as before, after the dump, since they may end the
    program.  Those that it installs later replace ours.  At the end ours are removed only where they are still in
    place; elsewhere they do nothing from then on but call the ones they replaced.
    """

    def __init__(self, conditions: Conditions, dumps: Dumps, dump: Callable[[bool], str | None]) -> None:
        self._conditions, self._dumps, self._dump = conditions, dumps, dump
        self.within = ""
        self._active = False
        self._busy = _thread.allocate_lock()
        self._limits = {trigger: _Limit() for trigger in (_EXCEPTION, _SLOW, _BLOCKING)}
        self._site = recorder.Site("fxtio", "dump", ("reason", "path"))
        self._last_error = 0
        self._replaced: dict[str, Any] = {}
        self._handlers: dict[int, tuple[str, Any]] = {}
        # Each access to a method makes a new object; these are kept to recognize them when they are removed.
        self._exception_hook, self._thread_hook = self._on_exception, self._on_thread
        self._signal_handler = self._on_signal

    def install(self) -> None:
        """Put the hooks and handlers in place."""
        self._active = True
        if self._conditions.exception:
            self._last_error = id(getattr(sys, "last_value", None))
            self._replaced = {"exception": sys.excepthook, "thread": threading.excepthook}
            sys.excepthook, threading.excepthook = self._exception_hook, self._thread_hook
        for number in self._conditions.signals:
            handler = signal.getsignal(number)
            if threading.get_ident() != threading.main_thread().ident:
                report(f"no dump on {number.name}: only the main thread can install a signal handler")
            elif handler is None:
                report(f"no dump on {number.name}: the signal has a handler that was not installed by Python")
            else:
                self._handlers[int(number)] = number.name, handler
                signal.signal(number, self._signal_handler)

    def remove(self) -> None:
        """Take no more dumps, and restore the hooks and handlers that were replaced."""
        self._active = False
        if getattr(sys, "excepthook", None) is self._exception_hook:
            sys.excepthook = self._replaced["exception"]
        if threading.excepthook is self._thread_hook:
            threading.excepthook = self._replaced["thread"]
        for number, (_, handler) in self._handlers.items():
            if signal.getsignal(number) is self._signal_handler:
                with contextlib.suppress(ValueError):  # not the main thread
                    signal.signal(number, handler)

    def _take(self, trigger: str, detail: str = "", *, later: bool) -> tuple[str, str] | None:
        """Take a dump; return its reason and path, or None if there is none, as where another one is being taken.

        The detail says which exception or span.  With `later`, a thread writes it.
        """
        limit = self._limits.get(trigger)
        if not self._active or (limit and limit.is_reached()) or not self._busy.acquire(blocking=False):
            return None
        reason = f"{trigger} {detail}".rstrip()
        try:
            path = recorder.unrecorded(partial(self._dump, later))
            return (reason, path) if path else None
        except Exception as error:  # an error of the tracer must not reach the program
            report(f"no dump ({reason}): {described(error)}")
            return None
        finally:
            if limit:
                limit.count()
            self._busy.release()

    def _mark(self, taken: tuple[str, str] | None) -> None:
        """Record that a dump was taken."""
        if taken:
            recorder.record(KINDS["instant"], self._site, taken, None)

    # ---- Exceptions.

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self._last_error = id(error)
        self._dump_for_exception(kind)
        self._replaced["exception"](kind, error, trace)

    def _on_thread(self, args: Any) -> None:
        self._dump_for_exception(args.exc_type)
        self._replaced["thread"](args)

    def _dump_for_exception(self, kind: type[BaseException] | None) -> None:
        """Take a dump, unless the exception ends the program on purpose, or the program calls the hook without one."""
        if kind is not None and not issubclass(kind, SystemExit | KeyboardInterrupt):
            self._mark(self._take(_EXCEPTION, kind.__name__, later=False))

    def at_exit(self) -> None:
        """Take a dump if the program ends by an exception that did not reach our hook, because another replaced it."""
        error = getattr(sys, "last_value", None)
        if self._conditions.exception and error is not None and id(error) != self._last_error:
            self._dump_for_exception(type(error))

    # ---- Signals.

    def _on_signal(self, number: int, frame: Any) -> None:
        name, handler = self._handlers[number]
        continues = self._active and number in _HARMLESS
        self._mark(self._take(name, later=continues))
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL and not continues:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            signal.signal(number, self._signal_handler)  # the program still runs: the signal's default is to do nothing

    # ---- Slow spans, and steps that hold an event loop.

    @property
    def slow_hook(self) -> Callable[[str, str], Any] | None:
        """The hook for slow spans and steps that the recorder calls, if they take dumps."""
        return self._on_slow if self._conditions.slow_ns or self._conditions.blocking_ns else None

    def _on_slow(self, trigger: str, name: str) -> tuple[Any, tuple[str, str]] | None:
        detail = f"{name} in {self.within}" if self.within else name
        taken = None if self._dumps.is_writing else self._take(trigger, detail, later=True)
        return (self._site, taken) if taken else None
