"""What a shape is made of: random numbers, groups of threads, and columns of events and rows.

Random numbers are the raw output of PCG64, which numpy promises not to change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.io.reading import Progress

DEFAULT_EVENTS = 100_000

FIRST_PROCESS, FIRST_THREAD, THREADS_PER_PROCESS = 100, 10_000, 16

THREADS_AT_ONCE = 255
"""The most threads of a group: no more fit in the table of threads of an FXT trace."""

_CHUNK_EVENTS = 1 << 16
_EVENTS_PER_THREAD = 32  # in a chunk, when there are more threads than fit in one group
_EVENT_BYTES = 128  # a first estimate, rather too high


@dataclass(slots=True)
class Group:
    """Threads whose events are generated together.

    Attributes:
        first: the number of the first thread in the trace.
        width: the number of threads.
        now: the first tick (ns) that none of their events has.
    """

    first: int
    width: int
    now: int = 1_000

    def process_ids(self, thread: Array) -> Array:
        """Return the number of the process of each of the threads, which are counted within the group (int64)."""
        result: Array = FIRST_PROCESS + (self.first + thread) // THREADS_PER_PROCESS
        return result

    def thread_ids(self, thread: Array) -> Array:
        """Return the number of each of the threads, which are counted within the group (int64)."""
        result: Array = FIRST_THREAD + self.first + thread
        return result


@dataclass(slots=True)
class Draw:
    """The state of a synthetic trace.

    Attributes:
        bits: the random numbers.
        used_ids: the last id that was used.
        running: the number of the thread that runs on the cpu of `system`, 0 before the first one.
    """

    bits: np.random.PCG64
    used_ids: int = 0
    running: int = 0

    def below(self, limit: int | Array, *shape: int) -> Array:
        """Return random numbers from 0 to `limit` - 1 (int64)."""
        raw = self.bits.random_raw(int(np.prod(shape))).reshape(shape)
        return (raw % np.asarray(limit).astype(np.uint64)).astype(np.int64)

    def ids(self, number: int) -> Array:
        """Return ids that are unique in the trace (int64)."""
        self.used_ids += number
        return np.arange(self.used_ids - number + 1, self.used_ids + 1)


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one kind, in the order of their times.

    Attributes:
        kind: the event type, as `fxtio.fxt.writer.Provider.write_events` has it.
        timestamp: ticks (int64 ns).
        thread: the threads, counted within the group.
        name: the names, as `Provider.write_events` takes them: one, or a list and the place of each in it.
        columns: the other columns, as `Provider.write_events` takes them: `end`, `category`, `id`, `args`.
    """

    kind: str
    timestamp: Array
    thread: Array
    name: Any
    columns: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.timestamp)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table that events are not made of.

    Attributes:
        table: the name of the table.
        columns: its columns, of one length or one value for all rows; the threads of `thread` are counted within the
            group.
    """

    table: str
    columns: dict[str, Any]

    def __len__(self) -> int:
        return max(len(column) for column in self.columns.values() if isinstance(column, np.ndarray | list))


Part = Events | Rows
"""What a shape consists of."""

Shape = Callable[[Draw, Group, int], Sequence[Part]]
"""Generates about a number of events on a group of threads, whole operations."""


def plain_names(process: int, rank: int, threads: int) -> tuple[str, str]:
    """Return the names of a process and of a thread in it.

    Args:
        process: the number of the process, from 0.
        rank: the number of the thread in it, from 0.
        threads: the number of threads that the process has.
    """
    return f"process {process + 1}", f"worker {rank}" if rank else "main"


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount that is written.

    Attributes:
        events: the number of events, rounded up to whole operations; None for the default, or a size.
        size: the number of bytes before compression, rounded up to whole operations, or None.
        threads: the number of threads.
        seed: the same seed gives the same trace.
        progress: called with the number of events (or bytes, with a size) so far, and the number in all.

    Raises:
        ValueError: both events and a size are given, or a number is not positive.
    """

    events: int | None = None
    size: int | None = None
    threads: int = 8
    seed: int = 0
    progress: Progress = lambda done, total: None

    def __post_init__(self) -> None:
        if self.events is not None and self.size is not None:
            raise ValueError("events and size cannot both be given")
        if self.goal < 1 or self.threads < 1:
            raise ValueError("events, size and threads must be positive")

    @property
    def goal(self) -> int:
        """The number of events, or of bytes if there is a size."""
        return next((number for number in (self.events, self.size) if number is not None), DEFAULT_EVENTS)

    def left(self, events: int, position: int) -> int:
        """Report this many events or bytes, and return how many are still to be written; 0 or less for none."""
        done = events if self.size is None else position
        self.progress(min(done, self.goal), self.goal)
        return self.goal - done

    def groups(self) -> list[Group]:
        """Return the threads in groups."""
        starts = range(0, self.threads, THREADS_AT_ONCE)
        return [Group(start, min(THREADS_AT_ONCE, self.threads - start)) for start in starts]

    def chunks(
        self, shapes: Sequence[Shape], groups: Sequence[Group], position: Callable[[], int]
    ) -> Iterator[tuple[int, Sequence[Part]]]:
        """Generate chunks until there is enough: each by the next shape, or on the next group of threads.

        Args:
            shapes: the shapes.
            groups: the groups of threads.
            position: returns the number of bytes that were written.

        Yields:
            The number of the group, and the parts, which have to be written before the next ones are asked for.
        """
        state, total, written = Draw(np.random.PCG64(self.seed)), 0, position()
        limit = _CHUNK_EVENTS // len(shapes) if len(groups) == 1 else THREADS_AT_ONCE * _EVENTS_PER_THREAD
        # every shape writes a chunk on every group
        share = self.goal if self.size is None else self.goal // _EVENT_BYTES
        limit = min(limit, -(-share // (len(shapes) * len(groups))) or 1)
        event_bytes: float = _EVENT_BYTES
        for chunk in count_from(0):
            left = self.left(total, written)
            if left <= 0:
                return
            if self.size is not None:
                left = max(int(left / event_bytes), 1)
            number = chunk // len(shapes) % len(groups)
            parts = shapes[chunk % len(shapes)](state, groups[number], min(left, limit))
            yield number, parts
            count = sum(map(len, parts))
            total, before, written = total + count, written, position()
            event_bytes = (written - before) / count or event_bytes


# ---- everything: each record, argument and option of a format, derived from its declarations

Known = dict[tuple[type[Any] | None, str], list[Any]]
"""The values of the fields of a class (None for any class) that other records know, or that mean more than their
declaration says; those that can be called are made anew for each record."""


def variants(fields: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield fields with values, as often as needed for each value of each field to occur; at least once."""
    for number in range(max(map(len, fields.values()), default=1)):
        chosen = {name: values[number % len(values)] for name, values in fields.items()}
        yield {name: value() if callable(value) else value for name, value in chosen.items()}


class Maker(ABC):
    """Makes records that have each value of each of their fields.

    Attributes:
        now: the time of the last record.
        known: the values that no declaration tells.
    """

    STEPS: range
    """The times that may be between two records."""

    def __init__(self, now: int, draw: Draw) -> None:
        self.now = now
        self.draw = draw
        self.known: Known = {}

    def below(self, limit: int) -> int:
        """Return a random number from 0 to `limit` - 1."""
        return int(self.draw.below(limit, 1)[0])

    def tick(self) -> int:
        """Return the time of another record."""
        self.now += self.STEPS[self.below(len(self.STEPS))]
        return self.now

    @abstractmethod
    def declared(self, cls: type[Any]) -> Iterable[tuple[str, Any]]:
        """Yield the fields of a class with their declarations."""

    @abstractmethod
    def values(self, cls: type[Any], name: str, declared: Any) -> Sequence[Any]:
        """Return the values that a field can have by its declaration."""

    def make(self, cls: type[Any], values: dict[str, Any]) -> Any:
        """Return a record with these values."""
        return cls(**values)

    def records_of(self, cls: type[Any], given: Mapping[str, Sequence[Any]] | None = None) -> Iterator[Any]:
        """Yield records of a class, or items of their lists, with each value of each field.

        Args:
            cls: the class.
            given: values of fields in place of others.
        """
        given, known = given or {}, self.known
        fields = {
            name: given.get(name) or known.get((cls, name)) or known.get((None, name)) or self.values(cls, name, each)
            for name, each in self.declared(cls)
        }
        for values in variants(fields):
            yield self.make(cls, values)


def put_rounds(writer: Any, amount: Amount, rounds: Iterator[Iterable[Any]]) -> int:
    """Write the records of whole rounds until there is enough, and return how many records these are."""
    written = 0
    for records in rounds:
        for record in records:
            writer.put(record)
            written += 1
        if amount.left(written, writer.position) <= 0:
            break
    return written
