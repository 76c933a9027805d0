"""Locks of asyncio: a span for each wait, on the track of the task, and an operation for each time that one is held.

A task that has to wait puts a future into the queue `_waiters` of the lock.  Just before that, the lock asks for its
event loop, and then its queue is replaced by one that records who joins and leaves it.  The methods of the lock stay as
they are, so a lock for which nobody has waited takes no longer than without a recording.  From the first wait on the
lock is watched: its methods look at the queue when it is taken, and when it was released.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import ref

from fxtio.tracer.backend import KINDS, recorder
from fxtio.tracer.sources.hooks import Function, Patch, call_unnoticed

MODULE = "asyncio.locks"
_MAX_PLACES = 10_000
_FIRST_TRACK, _PER_PROCESS = 2**63, 2**32  # no task has such a track
_numbers = count(1)


class Place(NamedTuple):
    """A place of the program that takes locks.

    Attributes:
        wait: the name of its waits.
        file: where it is.
        line: the number of its line.
        hold: the site of its holds.
    """

    wait: str
    file: str
    line: int
    hold: Any


class _Wait(NamedTuple):
    """A wait: its span, its place, and the exception that the program handled when it began."""

    span: Any
    place: Place
    handled: BaseException | None


class Watcher:
    """Watches the locks of asyncio, which is imported.

    Args:
        place_of: returns the place in a frame that takes a lock of a kind.

    Attributes:
        is_on: whether it may record.
        lock_type: the type of locks that a task holds; nobody holds an event, or the others.
        holds: the sites of the holds that are open, by their tracks.
    """

    def __init__(self, place_of: Callable[[str, FrameType], Place]) -> None:
        module: Any = sys.modules[MODULE]
        self._place_of = place_of
        self._places: dict[tuple[Any, ...], Place] = {}
        self._told: set[str] = set()
        self.holds: dict[int, Any] = {}
        self._file = module.Lock.acquire.__code__.co_filename
        self._files = {self._file, self._file.replace("locks", "tasks")}  # which has `wait_for`
        self._acquire = module.Lock.acquire.__code__
        self.lock_type = module.Lock
        self._patch = Patch(vars(sys.modules["asyncio.mixins"])["_LoopBoundMixin"], "_get_loop", self._method)
        self.is_on = self._patch.is_on

    def stop(self) -> None:
        """Record no more.  The recorder ends the waits that are open."""
        self._patch.remove()
        self.is_on = False
        for track in list(self.holds):
            self.end_hold(track)

    def _method(self, _patch: Patch, method: Function) -> Any:
        return _Method(method, self.watch)

    def watch(self, lock: object) -> None:
        """Watch a lock from now on."""
        if not self.is_on:
            return
        members = vars(lock)
        waiters = members.get("_waiters")
        if type(waiters) is deque or (type(waiters) is _Waiters and waiters.watcher is not self):
            members["_waiters"] = _Waiters(waiters, lock, self)

    def place(self, inner: FrameType) -> Place | None:
        """Return the place that takes a lock by a function of asyncio, which has this frame; None if there is none."""
        frame: FrameType | None = inner
        codes = []
        while frame is not None and frame.f_code.co_filename in self._files:
            codes.append(frame.f_code)
            frame = frame.f_back
        if frame is None:
            return None
        key = frame.f_code, frame.f_lasti, codes[0], codes[-1]
        place = self._places.get(key)
        if place is None:
            place = self._place_of(self._kind(codes), frame)
            if len(self._places) < _MAX_PLACES:
                self._places[key] = place
        return place

    def _kind(self, codes: list[CodeType]) -> str:
        """Return the outermost class that has one of these functions, mixed in ones excepted."""
        names = [code.co_qualname.partition(".")[0] for code in codes if code.co_filename == self._file]
        return [name for name in names if not name.startswith("_")][-1]

    def begin_wait(self, place: Place) -> Any:
        """Begin the span of a wait, with where it is if that is new."""
        where = {"source.file_name": place.file, "source.line_number": place.line}
        span = recorder.span(place.wait, "locks", **({} if place.wait in self._told else where))
        self._told.add(place.wait)
        span.__enter__()
        return span

    def begin_hold(self, track: int, place: Place) -> None:
        """Begin the operation of a hold."""
        self.end_hold(track)  # of one whose end nobody has told us
        if recorder.record(KINDS["async_begin"], place.hold, (), track):
            self.holds[track] = place.hold

    def end_hold(self, track: int) -> None:
        """End the operation of a hold, if it is open."""
        hold = self.holds.pop(track, None)
        if hold is not None:
            recorder.record(KINDS["async_end"], hold, (), track)

    def is_taken_by(self, frame: FrameType | None) -> bool:
        """Return whether the function in a frame takes a lock, itself or in a generator expression of its own."""
        if frame is not None and frame.f_code.co_name == "<genexpr>":
            frame = frame.f_back
        return frame is not None and frame.f_code is self._acquire


class _Method:
    """A method that is the original one, but something is done with the object when it is looked up."""

    def __init__(self, method: Function, act: Callable[[object], None]) -> None:
        self._method, self._act = method, act

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        call_unnoticed(self._act, instance)
        return self._method.__get__(instance, owner)

    def __call__(self, *args: Any) -> Any:
        return self._method(*args)


class _Waiters(deque[Any]):
    """The futures of the tasks that wait for a lock."""

    __slots__ = ("_lock", "_takes", "_track", "_waits", "watcher")

    def __init__(self, waiters: deque[Any], lock: object, watcher: Watcher) -> None:
        super().__init__(waiters)
        self.watcher = watcher
        self._lock = ref(lock)
        self._takes = issubclass(type(lock), watcher.lock_type)
        self._track = _FIRST_TRACK + os.getpid() * _PER_PROCESS + next(_numbers)
        self._waits: dict[int, _Wait] = {}

    def __copy__(self) -> deque[Any]:  # type: ignore[override]
        """Return the futures without what records them, as copies of the lock's own are."""
        return deque(self)

    def append(self, waiter: Any) -> None:
        """Append a future, for which the task is about to wait."""
        super().append(waiter)
        if self.watcher.is_on:
            call_unnoticed(self._begin_wait, waiter, sys.exception(), sys._getframe(1))

    def remove(self, waiter: Any) -> None:
        """Remove a future, which is done."""
        super().remove(waiter)
        if self._waits and self.watcher.is_on:
            call_unnoticed(self._end_wait, waiter, sys.exception())

    def __len__(self) -> int:
        """Return the number of futures.  A lock asks for it when it was released."""
        if self._track in self.watcher.holds:
            call_unnoticed(self._look_whether_released)
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator.  A lock asks for it when it is free, whether somebody waits for it."""
        if self._takes and self.watcher.is_on and self._track not in self.watcher.holds:
            call_unnoticed(self._look_whether_taken, sys._getframe(1))
        return super().__iter__()

    def _begin_wait(self, waiter: Any, handled: BaseException | None, frame: FrameType) -> None:
        place = self.watcher.place(frame) if recorder.task_track() else None
        if place is not None:
            self._waits[id(waiter)] = _Wait(self.watcher.begin_wait(place), place, handled)

    def _end_wait(self, waiter: Any, error: BaseException | None) -> None:
        wait = self._waits.pop(id(waiter), None)
        if wait is not None:
            wait.span.__exit__(None, None, None)
            if self._takes and (error is None or error is wait.handled):
                self.watcher.begin_hold(self._track, wait.place)

    def _look_whether_taken(self, frame: FrameType) -> None:
        lock: Any = self._lock()
        if lock is None or lock._locked or not self.watcher.is_taken_by(frame):
            return
        is_next = not super().__len__() or all(each.cancelled() for each in super().__iter__())
        place = self.watcher.place(frame) if is_next else None
        if place is not None:
            self.watcher.begin_hold(self._track, place)

    def _look_whether_released(self) -> None:
        lock: Any = self._lock()
        if lock is not None and not lock._locked:
            self.watcher.end_hold(self._track)
