"""Counters of the whole process, sampled by a thread of our own: processor time, memory, threads, files, switches.

The thread is none of `threading`, so the program does not meet it there.  It takes no signals, which the program may be
waiting for, and it is gone while the program forks: a fork is safe, and silent, only in a process of one thread.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as `signal`, but without Python code, which might be recorded
import _thread
import gc
import os
import resource
import sys
import time
from typing import Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.units import time_in_ns

_EVERY = "100ms"
_STAT = "/proc/self/stat"
_TASKS = "/proc/self/task"
_FILES = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_THREADS_AT, _PAGES_AT = 17, 21  # in the text of stat, behind the name: proc(5) counts from 1, with two fields before
_WARNS_OF_FORKS = sys.version_info >= (3, 12)
_MOST_WAITS = 200
_WAIT_S = 0.0005


class Source:
    """Samples at the start, then regularly, and at the end.

    Args:
        every: the time between samples, such as `50ms`.

    Raises:
        ValueError: that is no time, or none at all.
    """

    def __init__(self, every: str = _EVERY) -> None:
        self._seconds = time_in_ns(every) / NS_PER_SECOND
        if not self._seconds:
            raise ValueError(f"process:{every}: there has to be time between samples")
        self._thread: _Sampler | None = None
        self._before: Any = None

    def start(self) -> None:
        """Begin to sample."""
        self._sample()
        _Forks.source = self
        self.go_on()

    def stop(self) -> None:
        """Sample for the last time; in the child of a fork there is nothing to end."""
        _Forks.forget()
        self.pause()
        self._sample()

    def go_on(self) -> None:
        """Sample in a thread from now on, if the system has one for us."""
        if self._thread is None:
            try:  # noqa: SIM105  # suppress() is Python code, which might be recorded
                self._thread = _Sampler(self._sample_there, self._seconds)
            except RuntimeError:  # the samples of the start and the end have to do
                pass

    def pause(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()

    def _sample_there(self) -> None:
        _Forks.settle()
        self._sample(own_threads=1)

    def _sample(self, own_threads: int = 0) -> None:
        usage, now = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        if self._before is not None and now > self._before[1]:
            before, elapsed = self._before[0], now - self._before[1]
            used = ((usage.ru_utime - before.ru_utime) / elapsed, (usage.ru_stime - before.ru_stime) / elapsed)
            recorder.counter("cpu", None, "process", user=round(100 * used[0], 1), system=round(100 * used[1], 1))
            switched = (usage.ru_nvcsw - before.ru_nvcsw) / elapsed, (usage.ru_nivcsw - before.ru_nivcsw) / elapsed
            recorder.counter(
                "context switches", None, "process", voluntary=round(switched[0]), involuntary=round(switched[1])
            )
        self._before = usage, now
        try:
            _memory_and_threads(own_threads)
            files = len(os.listdir(_FILES)) - 1  # noqa: PTH208  # one of them is the listing's own
            recorder.counter("open files", files, "process")
        except OSError:  # there is no room for another open file
            pass


def _memory_and_threads(own_threads: int) -> None:
    if sys.platform != "linux":
        unit = 1 if sys.platform == "darwin" else 1024
        recorder.counter("memory", None, "process", peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
        return
    with open(_STAT, "rb", 0) as file:
        fields = file.read().rpartition(b")")[2].split()
    recorder.counter("memory", None, "process", resident=int(fields[_PAGES_AT]) * resource.getpagesize())
    recorder.counter("threads", int(fields[_THREADS_AT]) - own_threads, "process")


class _Sampler:
    """The thread, from its beginning to its end."""

    def __init__(self, sample: Any, seconds: float) -> None:
        self._told, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._told.acquire()
        self._ended.acquire()
        self._native = 0
        signals = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            self._ident = _thread.start_new_thread(self._run, (sample, seconds))
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, signals)

    def _run(self, sample: Any, seconds: float) -> None:
        self._native = _thread.get_native_id()
        try:
            while not self._told.acquire(timeout=seconds):
                sample()
        except Exception:  # the end of the samples is not the program's
            pass
        finally:
            self._ended.release()

    def end(self) -> None:
        """Wait until the thread has ended, and is no more one that the system counts."""
        self._told.release()
        if _thread.get_ident() == self._ident:  # a finalizer of the program runs here
            return
        self._ended.acquire(timeout=_MOST_WAITS * _WAIT_S)
        for _ in range(_MOST_WAITS if sys.platform == "linux" else 0):
            if not os.access(f"{_TASKS}/{self._native}", os.F_OK):
                break
            time.sleep(_WAIT_S)


class _Forks:
    """Has the thread ended before a fork, and begun again behind it."""

    source: Source | None = None

    @classmethod
    def before(cls) -> None:
        """A fork comes."""
        if cls.source is not None:
            cls.source.pause()

    @classmethod
    def in_parent(cls) -> None:
        """It is over.  But os.fork() still counts the threads, in order to warn, so the next collection has to do."""
        if cls.source is not None and not _WARNS_OF_FORKS:
            cls.source.go_on()
        elif cls.source is not None and cls.later not in gc.callbacks:
            gc.callbacks.append(cls.later)

    @classmethod
    def later(cls, *_: object) -> None:
        """Called by the collector."""
        if cls.source is not None:
            cls.source.go_on()

    @classmethod
    def forget(cls) -> None:
        """Nothing is sampled any more."""
        cls.source = None
        cls.settle()

    @classmethod
    def settle(cls) -> None:
        """The collector need not call any more.  Not while it calls: it would leave out the next one that it calls."""
        if cls.later in gc.callbacks:
            gc.callbacks.remove(cls.later)


os.register_at_fork(before=_Forks.before, after_in_parent=_Forks.in_parent)
