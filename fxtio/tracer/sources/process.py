"""Counters of the process, sampled by a thread of our own: processor time, memory, threads, files, context switches.

`threading` does not list the thread.  It takes no signals, which the program may be waiting for, and it ends before the
program forks, because a fork is safe, and gives no warning, only in a process with a single thread.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as `signal`, but without Python code, which might be recorded
import _thread
import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.clock import NS_PER_SECOND
from fxtio.tracer.options import time_in_ns

_DEFAULT_INTERVAL = "100ms"
_STAT = "/proc/self/stat"
_TASKS = "/proc/self/task"
_FILES = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
_THREADS_AT, _PAGES_AT = 17, 21  # in the text of stat, after the name: proc(5) counts from 1, with two fields before
_WARNS_OF_FORKS = sys.version_info >= (3, 12)
_MAX_WAITS = 200
_WAIT_S = 0.0005


class Samples:
    """Samples at the start, then regularly at an interval such as `50ms`, and at the end.

    Raises:
        ValueError: it is not a time, or 0.
    """

    def __init__(self, interval: str = _DEFAULT_INTERVAL) -> None:
        self._seconds = time_in_ns(interval) / NS_PER_SECOND
        if not self._seconds:
            raise ValueError(f"process:{interval}: the time between samples must be greater than 0")
        self._sampler: _Sampler | None = None
        self._last_sample: Any = None

    def start(self) -> None:
        """Begin to sample."""
        self._sample()
        _Forks.source = self
        self.resume()

    def stop(self) -> None:
        """Sample for the last time.  In the child of a fork no thread has to be ended."""
        _Forks.forget()
        self.pause()
        self._sample()

    def resume(self) -> None:
        """Sample in a thread from now on, if one can be started."""
        if self._sampler is None:
            try:  # noqa: SIM105  # suppress() is Python code, which might be recorded
                self._sampler = _Sampler(self._sample_in_thread, self._seconds)
            except RuntimeError:  # only the start and the end are sampled
                pass

    def pause(self) -> None:
        """End the thread."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.end()

    def _sample_in_thread(self) -> None:
        _Forks.remove_callback()
        self._sample(own_threads=1)

    def _sample(self, own_threads: int = 0) -> None:
        usage, now = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        if self._last_sample is not None and now > self._last_sample[1]:
            last, elapsed = self._last_sample[0], now - self._last_sample[1]
            user, system = (usage.ru_utime - last.ru_utime) / elapsed, (usage.ru_stime - last.ru_stime) / elapsed
            recorder.counter("cpu", None, "process", user=round(100 * user, 1), system=round(100 * system, 1))
            voluntary, involuntary = usage.ru_nvcsw - last.ru_nvcsw, usage.ru_nivcsw - last.ru_nivcsw
            rates = {"voluntary": round(voluntary / elapsed), "involuntary": round(involuntary / elapsed)}
            recorder.counter("context switches", None, "process", **rates)
        self._last_sample = usage, now
        try:
            _memory_and_threads(own_threads)
            files = len(os.listdir(_FILES)) - 1  # noqa: PTH208  # without the descriptor of the listing itself
            recorder.counter("open files", files, "process")
        except OSError:  # the process has as many open files as it may have
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
    """A thread that calls a function at an interval in seconds."""

    def __init__(self, sample: Callable[[], None], seconds: float) -> None:
        self._stop_requested, self._has_ended = _thread.allocate_lock(), _thread.allocate_lock()  # released when true
        self._stop_requested.acquire()
        self._has_ended.acquire()
        self._native_id = 0
        signals = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            self._ident = _thread.start_new_thread(self._run, (sample, seconds))
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, signals)

    def _run(self, sample: Callable[[], None], seconds: float) -> None:
        self._native_id = _thread.get_native_id()
        try:
            while not self._stop_requested.acquire(timeout=seconds):
                sample()
        except Exception:  # an error here ends the samples, not the program
            pass
        finally:
            self._has_ended.release()

    def end(self) -> None:
        """Wait until the thread has ended, and the system no longer counts it."""
        self._stop_requested.release()
        if _thread.get_ident() == self._ident:  # called by a finalizer of the program that runs in the thread
            return
        self._has_ended.acquire(timeout=_MAX_WAITS * _WAIT_S)
        for _ in range(_MAX_WAITS if sys.platform == "linux" else 0):
            if not os.access(f"{_TASKS}/{self._native_id}", os.F_OK):
                break
            time.sleep(_WAIT_S)


class _Forks:
    """Ends the thread before a fork, and starts another one after it."""

    source: Samples | None = None
    """The source that samples."""

    @classmethod
    def before(cls) -> None:
        """End the thread."""
        if cls.source is not None:
            cls.source.pause()

    @classmethod
    def in_parent(cls) -> None:
        """Start a thread, or have the next garbage collection start it where os.fork() still counts the threads."""
        if cls.source is not None and not _WARNS_OF_FORKS:
            cls.source.resume()
        elif cls.source is not None and cls.on_collection not in gc.callbacks:
            gc.callbacks.append(cls.on_collection)

    @classmethod
    def on_collection(cls, *_: object) -> None:
        """Start a thread; called by the garbage collector."""
        if cls.source is not None:
            cls.source.resume()

    @classmethod
    def forget(cls) -> None:
        """Start no more threads."""
        cls.source = None
        cls.remove_callback()

    @classmethod
    def remove_callback(cls) -> None:
        """Remove the callback.  Not while it is called: the collector would skip the callback after it."""
        if cls.on_collection in gc.callbacks:
            gc.callbacks.remove(cls.on_collection)


os.register_at_fork(before=_Forks.before, after_in_parent=_Forks.in_parent)
