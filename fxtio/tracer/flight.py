"""The flight recorder: dumps of a recording that goes on, and what triggers them.

A dump is taken in two steps.  First a copy of the file as it is at one instant, to a file without a name: as long as
that takes, nobody records.  Then, at leisure, the fillers are taken out of the copy and it is compressed; where the
program waits for nothing, a thread does that.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fxtio.tracer.archive import squeezed
from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.environment import tell
from fxtio.tracer.file import COMPRESSED, far, opener, refuse_unwritable, replace
from fxtio.tracer.layout import KINDS
from fxtio.tracer.units import time_in_ns

REST_NS = NS_PER_SECOND
"""So long after a dump for an exception there is no other one, and likewise for slow spans.

What repeats itself, repeats itself fast: the dumps would hold the same moments, and the program would do little else.
"""

MOST = 100
"""So many dumps there are for exceptions, and so many for slow spans: a service that fails for weeks shall not fill the
disk, and the first ones tell."""

_EXCEPTION, _SLOW = "exception", "slow"
_FREE = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_UNFIT = frozenset({"SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"})


# ---- What is wanted.


@dataclass(frozen=True)
class Wanted:
    """When dumps are taken.

    Attributes:
        exception: whether for an exception that nobody catches.
        signals: for which signals.
        slow_ns: for spans that take longer than this; 0 for none.
    """

    exception: bool = False
    signals: tuple[signal.Signals, ...] = ()
    slow_ns: int = 0

    @classmethod
    def of(cls, triggers: Iterable[str]) -> Wanted:
        """What `exception`, `SIGUSR2` and `slow:100ms` ask for.

        Raises:
            ValueError: one of them is no trigger.
        """
        exception, signals, times = False, [], []
        for trigger in triggers:
            kind, _, limit = trigger.partition(":")
            if kind == _SLOW:
                times.append(time_in_ns(limit))
            elif trigger == _EXCEPTION:
                exception = True
            elif trigger in signal.Signals.__members__ and trigger not in _UNFIT:
                signals.append(signal.Signals[trigger])
            else:
                raise ValueError(f"{trigger!r} is no trigger: those are exception, signals as SIGUSR2, and slow:100ms")
        if times and not min(times):
            raise ValueError("every span takes longer than nothing: slow needs a time such as slow:100ms")
        return cls(exception, tuple(dict.fromkeys(signals)), min(times, default=0))


# ---- Dumps.


@dataclass(frozen=True)
class _Copy:
    """The recording as it was at one instant, to be made a trace of its own.

    Attributes:
        fd: a file without a name.
        path: the name of the trace.
        open: opens it.
    """

    fd: int
    path: Path
    open: Callable[[Path], Any]

    def write(self) -> None:
        try:
            replace(self.path, squeezed(self.fd, recorder), self.open)
        finally:
            self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


class Dumps:
    """The dumps of one recording.

    Args:
        like: the trace that the dumps are called after, with a number: `last-1.fxt`.
        part: what tells the dumps of a child process from those of its parent.
        taken: the names that belong to the recording itself.
        copy: copies the recording to a file.
    """

    def __init__(self, like: Path, part: str, taken: Collection[Path], copy: Callable[[int], None]) -> None:
        self._like, self._part, self._taken, self._copy = like, part, taken, copy
        self._numbers = itertools.count(1)
        self._writing = _thread.allocate_lock()

    @property
    def writing(self) -> bool:
        """Whether a thread of ours is at it."""
        return self._writing.locked()

    def take(self, path: str | os.PathLike[str] | None = None) -> _Copy:
        """Copy the recording as it is now.

        Raises:
            OSError: it cannot be copied, or the dump not be written.
            ValueError: the name is the recording's own.
        """
        target = self._next() if path is None else Path(path).resolve()
        if target in self._taken:
            raise ValueError(f"{target} is what is recorded to")
        refuse_unwritable(target)
        copy = _Copy(_nameless(target.parent), target, opener(target))
        try:
            self._copy(copy.fd)
        except BaseException:
            copy.close()
            raise
        return copy

    def _next(self) -> Path:
        packing = self._like.suffix if self._like.suffix in COMPRESSED else ""
        name = Path(self._like.name.removesuffix(packing))
        for number in self._numbers:
            path = self._like.with_name(f"{name.stem}{self._part}-{number}{name.suffix}{packing}")
            if not path.exists():
                break
        return path

    def write_later(self, copy: _Copy) -> None:
        """Let a thread write it, if one can; an error is told on standard error."""
        if self._writing.acquire(blocking=False):
            try:
                _thread.start_new_thread(recorder.unrecorded, (partial(self._written, copy),))
                return
            except RuntimeError:  # no more threads, perhaps because the interpreter ends
                self._writing.release()
        copy.write()

    def _written(self, copy: _Copy) -> None:
        try:
            copy.write()
        except Exception as error:
            tell(f"{copy.path} is no dump: {error}")
        finally:
            self._writing.release()

    def wait(self) -> None:
        """Wait until what is being written is written."""
        with self._writing:
            pass


_nameless_numbers = itertools.count()


def _nameless(folder: Path) -> int:
    """A file without a name in this folder, which is gone when it is closed."""
    path = folder / f".fxtio-dump.{os.getpid()}-{next(_nameless_numbers)}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    path.unlink()
    return far(fd)


# ---- Triggers.


class _Limit:
    """How often one trigger takes dumps."""

    def __init__(self) -> None:
        self.left, self.next_ns = MOST, 0

    def reached(self) -> bool:
        """Whether there is to be none now."""
        return not self.left or time.monotonic_ns() < self.next_ns

    def count(self) -> None:
        """One was tried."""
        self.left -= 1
        self.next_ns = time.monotonic_ns() + REST_NS


class Triggers:
    """What takes dumps while a recording runs.

    Args:
        wanted: which triggers there are.
        dumps: the recording's.
        dump: takes a dump and writes it, or with True lets a thread write it; gives its path, None if the recording
            has ended.

    Hooks and handlers that the program has installed are called as before, after the dump: they may end the program.
    Those it installs later replace ours, as they would replace its own; ours are taken back in the end only where they
    still are in place, and do nothing but call those before from then on.
    """

    def __init__(self, wanted: Wanted, dumps: Dumps, dump: Callable[[bool], str | None]) -> None:
        self._wanted, self._dumps, self._dump = wanted, dumps, dump
        self._active = False
        self._turn = _thread.allocate_lock()
        self._limits = {_EXCEPTION: _Limit(), _SLOW: _Limit()}
        self._site = recorder.Site("fxtio", "dump", ("reason", "path"))
        self._last_error = 0
        self._before: dict[str, Any] = {}
        self._handlers: dict[int, tuple[str, Any]] = {}
        # One object each: a bound method is made anew whenever it is asked for.
        self._exception_hook, self._thread_hook = self._on_exception, self._on_thread
        self._signal_handler = self._on_signal

    def install(self) -> None:
        """Begin."""
        self._active = True
        if self._wanted.exception:
            self._last_error = id(getattr(sys, "last_value", None))
            self._before = {"exception": sys.excepthook, "thread": threading.excepthook}
            sys.excepthook, threading.excepthook = self._exception_hook, self._thread_hook
        for number in self._wanted.signals:
            before = signal.getsignal(number)
            if threading.get_ident() != threading.main_thread().ident or before is None:
                tell(f"no dump on {number.name}: not in the main thread, or the signal is in other hands")
                continue
            self._handlers[int(number)] = number.name, before
            signal.signal(number, self._signal_handler)

    def remove(self) -> None:
        """End; from now on the hooks only call those before."""
        self._active = False
        if getattr(sys, "excepthook", None) is self._exception_hook:
            sys.excepthook = self._before["exception"]
        if threading.excepthook is self._thread_hook:
            threading.excepthook = self._before["thread"]
        for number, (_, before) in self._handlers.items():
            if signal.getsignal(number) is self._signal_handler:
                with contextlib.suppress(ValueError):  # not the main thread
                    signal.signal(number, before)

    def _take(self, trigger: str, what: str = "", *, later: bool) -> tuple[str, str] | None:
        """Take a dump: why, and its path.  None if there is none; two at the same moment would be the same."""
        limit = self._limits.get(trigger)
        if not self._active or (limit and limit.reached()) or not self._turn.acquire(blocking=False):
            return None
        reason = f"{trigger} {what}".rstrip()
        try:
            path = recorder.unrecorded(partial(self._dump, later))
            return (reason, path) if path else None
        except Exception as error:  # the tracer may fail, the program may not
            tell(f"no dump ({reason}): {error}")
            return None
        finally:
            if limit:
                limit.count()
            self._turn.release()

    def _mark(self, taken: tuple[str, str] | None) -> None:
        if taken:
            recorder.record(KINDS["instant"], self._site, taken, None)

    # ---- Exceptions.

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self._last_error = id(error)
        self._by_exception(kind)
        self._before["exception"](kind, error, trace)

    def _on_thread(self, args: Any) -> None:
        self._by_exception(args.exc_type)
        self._before["thread"](args)

    def _by_exception(self, kind: type[BaseException]) -> None:
        if not issubclass(kind, SystemExit | KeyboardInterrupt):  # which are wishes
            self._mark(self._take(_EXCEPTION, kind.__name__, later=False))

    def at_exit(self) -> None:
        """The program ends: perhaps by an exception that went to a hook of its own, which did not tell ours."""
        error = getattr(sys, "last_value", None)
        if self._wanted.exception and error is not None and id(error) != self._last_error:
            self._by_exception(type(error))

    # ---- Signals.

    def _on_signal(self, number: int, frame: Any) -> None:
        name, before = self._handlers[number]
        goes_on = self._active and number in _FREE
        self._mark(self._take(name, later=goes_on))
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL and not goes_on:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            signal.signal(number, self._signal_handler)  # still here: the signal is one that does no harm

    # ---- Slow spans.

    @property
    def slow_hook(self) -> Callable[[str, int], Any] | None:
        """What the recorder has to call, if anything."""
        return self._on_slow if self._wanted.slow_ns else None

    def _on_slow(self, name: str, _ticks: int) -> tuple[Any, tuple[str, str]] | None:
        taken = None if self._dumps.writing else self._take(_SLOW, name, later=True)
        return (self._site, taken) if taken else None
