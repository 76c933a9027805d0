"""The file: definitions in front, then chunks; each thread fills its own.

A chunk is born full of fillers of two words, so that two stores make a record of two words: its second word, then its
header.  A longer record first puts one filler over its place, and its header last too.  Records begin at even words.  A
chunk is not longer than a record can be: one store of one word hides it, as is done before it is used again in a ring.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import deque
from collections.abc import Callable
from mmap import ALLOCATIONGRANULARITY
from time import monotonic_ns
from typing import Any, TypeVar

from fxtio.tracer.python.mapping import identity_of, map_pages

A = TypeVar("A")
R = TypeVar("R")

WORD = 8
LARGEST = 4095
"""Words that one record can have."""

MOST_WORDS = 510
"""Words that an event can have."""

CHUNK_WORDS = 7 * 512
CHUNK_BYTES = CHUNK_WORDS * WORD
_SPARE = 64  # words of a chunk for ends that come when the stack is full
_MOST_CHUNKS = 64  # that the file grows by at once
_NO_WORDS = memoryview(bytearray(CHUNK_BYTES)).cast("Q")

layout: dict[str, int] = {}


class State:
    """A thread in a session.

    Attributes:
        p: where in the chunk the next record goes.
        end: where there is no room for a swift one of two words; 0 if there is none at all, or no swift way.
        room: where there is no room for others.
        last: where there is no room for ends that come when the stack is full.
        view: the words of the chunk.
        next: the earliest tick of the next record.
        base: what the clock showed at tick 0.
        step: the least distance of two ticks.
        bits: the thread's reference in an event's header.
        front: process and thread, if they stand in each event because the thread has no reference.
        session: the session that all this belongs to.
        busy: the recorder's own Python code runs: nothing is recorded.
        depth: functions that began and have not ended.
        missed: of these, the depths of those whose begin is not in the file.
        begun: by depth: where the last calls began; for those that are taken back.
        lost: records for which there was no room.
        arrows: ids of flows that end in the next stretch of the running task.
        opened: spans that are open within functions, innermost last; see `held`.
        top: how deep in functions the innermost was opened.
        waited: the identity of what the task waits for in this step.
    """

    __slots__ = (
        "arrows", "base", "begun", "bits", "busy", "depth", "end", "front", "last", "lost", "missed",
        "next", "opened", "p", "process", "room", "session", "step", "thread", "top", "view", "waited",
    )  # fmt: skip

    def __init__(self) -> None:
        self.p = self.end = self.room = self.last = self.next = self.base = self.bits = self.session = 0
        self.process = self.thread = self.busy = self.depth = self.lost = 0
        self.step = 1
        self.view = _NO_WORDS
        self.front = array("Q")
        self.missed: list[int] = []
        self.begun: dict[int, tuple[memoryview[int], int, int]] = {}
        self.arrows: tuple[int, ...] = ()
        self.waited = self.top = 0
        self.opened: list[list[Any]] = []

    def place(self, view: memoryview[int], p: int) -> None:
        """Go on there."""
        self.view, self.p, self.room = view, p, CHUNK_WORDS - _SPARE
        self.end, self.last = (0, 0) if self.front else (self.room, CHUNK_WORDS)

    def close(self) -> None:
        """Nothing can be recorded."""
        self.end = self.room = self.last = 0


class _Own(threading.local):
    """Each thread's state, and what tells that the thread has ended."""

    state = State()
    ticket: _Ticket | None = None


class _Ticket:
    """Lives as long as its thread."""

    __slots__ = ("_ended", "_state")

    def __init__(self, state: State, ended: list[State]) -> None:
        self._state, self._ended = state, ended

    def __del__(self) -> None:
        self._ended.append(self._state)


class Session:
    """What is the same for all threads while it is recorded.

    Attributes:
        generation: the number of the session.
        active: whether it is recorded now.
        texts: the slots of texts.
        only: the categories that are recorded, None for all.
        without: those that are not.
        inside: whether a thread is where only one may be at a time.
        slow: spans that take more ticks are told to `slow_hook`; 0 for none.
        span: the class of spans.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.active = self.inside = self.full = False
        self.lock = threading.RLock()
        self.base, self.step = 0, 1
        self.texts: dict[str, int] = {}
        self.only: Any = None
        self.without: Any = None
        self.thread_hook: Callable[[int], Any] | None = None
        self.value_hook: Callable[[Any], Any] | None = None
        self.task_hook: Callable[[], tuple[int, tuple[int, ...]]] | None = None
        self.wait_hook: Callable[[Any], tuple[int, ...]] | None = None
        self.slow_hook: Callable[[str, int], Any] | None = None
        self.slow = 0
        self.span: type[Any] = object
        self.lost = self.lost_since = self.cut = self.dropped = self.inlined = 0
        self.states: list[State] = []
        self.ended: list[State] = []


class _File:
    """Where the next things go; all in bytes."""

    def __init__(self) -> None:
        self.fd = -1
        self.identity = (-1, -1)
        self.definitions = self.definition = self.definitions_end = self.end = self.limit = 0
        self.slots = self.threads = self.chunks = self.turned = self.ring = 0
        self.fresh: list[memoryview[int]] = []
        self.used: deque[memoryview[int]] = deque()


own = _Own()
session = Session()
file = _File()
_blank = array("Q")


def filler(words: int) -> int:
    """The header of so many words that every reader skips."""
    return layout["filler"] + words * layout["size"]


def alone(do: Callable[[A], R], argument: A, otherwise: R) -> R:
    """Do what only one thread may do at a time.

    A signal handler or a finalizer may come while this very thread is at it; for these it is `otherwise`, and so it is
    when the recording has ended while the thread waited.
    """
    with session.lock:
        if session.inside or file.fd < 0:
            return otherwise
        session.inside = True
        try:
            return do(argument)
        finally:
            session.inside = False


def open_file(fd: int, definitions: int, end: int, limit: int, ring: int) -> None:
    """Record to this file from now on."""
    file.__init__()  # type: ignore[misc]
    file.fd, file.identity = fd, identity_of(fd)
    file.definitions = file.definition = definitions
    file.definitions_end = file.end = end
    file.limit = limit
    file.ring = max(1, ring // CHUNK_BYTES) if ring else 0
    _blank[:] = array("Q", (filler(2), 0)) * (CHUNK_WORDS // 2)


def close_file() -> None:
    """No state is used any more; their chunks stay in the file as they are."""
    for state in session.states:
        session.lost += state.lost
        state.lost = state.session = state.top = 0
        state.opened.clear()
        state.close()
        state.view = _NO_WORDS
    session.states.clear()
    session.ended.clear()
    file.fresh.clear()
    file.used.clear()
    file.fd = -1


# ---- Definitions.


def define(record: bytes) -> bool:
    """Write a definition.  False if there is no room: then texts go inline."""
    size, at, block_size = len(record), file.definition, LARGEST * WORD
    if not size or size % WORD or size > block_size or identity_of(file.fd) != file.identity:
        return False
    while True:  # the definitions lie in blocks, each as long as a filler can be
        if at + size > file.definitions_end:
            return False
        inside = (at - file.definitions) % block_size
        rest = min(at - inside + block_size, file.definitions_end) - at
        if rest >= size:
            break
        at += rest
    behind = array("Q", [filler((rest - size) // WORD)]).tobytes() if rest > size else b""
    try:  # the header last, so that the record is there whole or not at all
        for data, place in ((record[WORD:] + behind, at + WORD), (record[:WORD], at)):
            if os.pwrite(file.fd, data, place) != len(data):
                return False
    except OSError:
        return False
    file.definition = at + size
    return True


# ---- Chunks.


def _append_chunks() -> bool:
    """Let the file grow by some chunks, all empty."""
    at, count = file.end, min(_MOST_CHUNKS, 1 + file.chunks // 4)
    if file.ring:
        count = min(count, max(1, file.ring - file.chunks + len(session.states)))
    if file.limit:
        count = min(count, (file.limit - at) // CHUNK_BYTES)
    if count <= 0 or identity_of(file.fd) != file.identity:
        return False
    data = _blank.tobytes() * count  # every page begins with a filler: it may be cut between pages
    before = at % ALLOCATIONGRANULARITY
    try:
        if os.pwrite(file.fd, data, at) != len(data):
            os.ftruncate(file.fd, at)
            return False
        mapped = memoryview(map_pages(file.fd, before + len(data), at - before))
    except (OSError, ValueError):
        return False
    words = mapped[before:].cast("Q")
    file.fresh = [words[here : here + CHUNK_WORDS] for here in range(0, len(words), CHUNK_WORDS)][::-1]
    file.end = at + len(data)
    file.chunks += count
    return True


def _take_chunk() -> memoryview[int] | None:
    """An empty chunk; in a ring, the one that was filled the longest time ago."""
    if (file.ring and len(file.used) >= file.ring) or not (file.fresh or _append_chunks()):
        if not (file.ring and file.used):
            return None
        chunk = file.used.popleft()
        chunk[0] = filler(CHUNK_WORDS)
        chunk[1:] = memoryview(_blank)[1:]
        chunk[0] = filler(2)
        return chunk
    return file.fresh.pop()


def _turn(state: State) -> bool:
    if not state.room:
        return False
    chunk = _take_chunk()
    if chunk is None:
        _close_all()
        return False
    if file.ring:
        file.used.append(state.view)
    file.turned += 1
    state.place(chunk, 0)
    return True


def turn(state: State) -> bool:
    """Give the state a new chunk for its full one."""
    return alone(_turn, state, False)


def _close_all() -> None:
    """Nothing can be recorded any more; what is there stays."""
    session.full = True
    session.lost_since = monotonic_ns() - session.base
    for state in session.states:
        state.close()


# ---- Threads.


def _first_chunk(state: State) -> bool:
    """Give a state the chunk of a thread that has ended, or a new one."""
    while session.ended:
        other = session.ended.pop()
        if other.session == session.generation and other.room:
            session.lost += other.lost
            session.states.remove(other)
            state.place(other.view, other.p)
            other.session = other.lost = 0
            other.close()
            return True
    chunk = _take_chunk()
    if chunk is None:
        _close_all()
        return False
    state.place(chunk, 0)
    return True


def _join(_: None) -> State | None:
    state = State()
    state.process, state.thread = os.getpid(), threading.get_native_id()
    state.base, state.step = session.base, session.step
    if not session.active or session.full or not _first_chunk(state):
        return None
    slot = file.threads + 1
    identity = array("Q", (state.process, state.thread))
    header = layout["thread"] + slot * layout["thread_slot"] + 3 * layout["size"]
    if slot <= layout["thread_slots"] and define((array("Q", [header]) + identity).tobytes()):
        file.threads = slot
        state.bits = slot * layout["event_thread"]
    else:
        state.front = identity
        state.end = state.last = 0
    state.session = session.generation
    session.states.append(state)
    own.ticket = _Ticket(state, session.ended)
    own.state = state
    return state


def here() -> State:
    """What is known of this thread, which may not take part in the session yet."""
    if own.state is _Own.state:
        own.state = State()
    return own.state


def own_state() -> State | None:
    """The state of this thread, if it can record; else the loss is counted."""
    state: State | None = own.state
    if not session.active or state is None or state.busy:
        return None
    if state.session != session.generation:
        state = alone(_join, None, None)
        if state is None:
            session.lost += 1
            return None
        call_hook(state, session.thread_hook, state.thread)
    if not state.room:
        state.lost += 1
        return None
    return state


def call_hook(state: State, hook: Callable[..., Any] | None, *args: object) -> Any:
    """Run Python code of our own, which may run the program's: nothing is recorded meanwhile.

    NotImplemented if it fails because the stack or the memory is full.  Any other exception is one of a signal handler
    that ran meanwhile, and is for the program.
    """
    if hook is None:
        return NotImplemented
    state.busy += 1
    end, state.end = state.end, 0
    try:
        return hook(*args)
    except (RecursionError, MemoryError):  # the tracer may fail, the program may not
        return NotImplemented
    finally:
        state.busy -= 1
        if state.room:  # the recording goes on
            state.end = end


def lost() -> int:
    """Events that found no room, until now."""
    return session.lost + sum([state.lost for state in session.states])


def _in_child() -> None:
    """The child of a fork has no business in its parent's file, and the other threads are not there."""
    session.lock = threading.RLock()
    session.active = session.inside = False
    close_file()
    session.lost = 0
    session.generation += 1


def _before_fork() -> None:
    """No other thread may hold the lock, for in the child nobody would let go of it."""
    session.lock.acquire()


def _after_fork() -> None:
    session.lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
