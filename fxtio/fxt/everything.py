"""Write records of every kind: the synthetic shape `everything`.

A round has all records and all types of arguments that the specification defines, in old and new forms; of trace info
records that is the magic number.  Each round belongs to the next of several providers, whose clocks have different
rates; it defines some of the provider's slots anew, and refers to strings and threads by slots and inline.  Some rounds
have values at the limits of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.enums import BlobType, ObjectType, Scope, ThreadState
from fxtio.fxt.layout import MAX_ARGUMENTS, MAX_PROVIDER_ID, MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.records import Thread

Below = Callable[[int], int]
"""Returns a random number from 0 to a limit - 1."""

FIRST_PROCESS, FIRST_THREAD = 100, 10_000

_MOST = 2**64 - 1
_LONG_NAME = 9  # the slot of a name as long as possible
_LIMITS_EVERY = 8  # so many rounds apart are those with values at the limits of their fields

CLOCKS: tuple[tuple[r.ProviderInfo, r.Initialization], ...] = (
    (r.ProviderInfo(1, "nanoseconds"), r.Initialization(1_000_000_000)),
    (r.ProviderInfo(7, "timer of 24 MHz"), r.Initialization(24_000_000, 0, 1_700_000_000_000_000_000)),
    (r.ProviderInfo(MAX_PROVIDER_ID, ""), r.Initialization(2_596_000_000)),
)
"""The providers with their clocks."""


def rounds(below: Below, threads: int) -> Iterator[list[Record]]:
    """Yield the records of a trace, round by round, without end.

    Args:
        below: the random numbers.
        threads: the number of threads.
    """
    ticks = [1_000] * len(CLOCKS)
    number = 0
    while True:
        place = number % len(CLOCKS)
        one = Round(number, number // len(CLOCKS), ticks[place], below, threads)
        yield [*_beginning(number), *one.records()]
        ticks[place] = one.now
        number += 1


def _beginning(number: int) -> Iterator[Record]:
    """Yield the records that begin a round: those that introduce its provider, or that continue its section."""
    if number == 0:
        yield r.Magic()
    info, clock = CLOCKS[number % len(CLOCKS)]
    if number < len(CLOCKS):
        yield info
        yield clock
    else:
        yield r.ProviderSection(info.provider_id)


class Round:
    """One round of records.

    Args:
        number: the number of the round.
        turn: the number of rounds of its provider before it.
        now: the first tick that the provider has not used.
        below: the random numbers.
        threads: the number of threads.
    """

    def __init__(self, number: int, turn: int, now: int, below: Below, threads: int) -> None:
        self.number = number
        self.turn = turn
        self.now = now
        self.below = below
        self.at_limits = number % _LIMITS_EVERY == _LIMITS_EVERY - 1
        self.category = MAX_STRING_SLOT if self.at_limits else 1 + turn % 5
        self.name = 6 + turn % 3
        self.slot = MAX_THREAD_SLOT if self.at_limits else 1 + turn % 3
        own = below(threads)
        self.thread = Thread(FIRST_PROCESS + own // 16, FIRST_THREAD + own)
        other = below(threads)
        self.other = Thread(FIRST_PROCESS + other // 16, FIRST_THREAD + other)
        self.pointer = _MOST if self.at_limits else 0x7F00_0000_0000 + 16 * below(2**20)
        self.id = _MOST if self.at_limits else number + 1

    def tick(self) -> int:
        """Return the next tick."""
        self.now += 1 + self.below(1_000)
        return self.now

    def text(self, slot: int, inline: str) -> int | str:
        """Return a slot of the string table in every other round of a provider, and a text in the others."""
        return slot if self.turn % 2 else inline

    def records(self) -> Iterator[Record]:
        """Yield the records."""
        yield from self._definitions()
        yield from self._objects()
        yield from self._events()
        yield from self._system()
        yield from self._profile()
        yield from self._blobs()
        yield r.ProviderEvent(CLOCKS[self.number % len(CLOCKS)][0].provider_id, 0)

    def _definitions(self) -> Iterator[Record]:
        yield r.String(self.category, f"category {self.turn % 5}")
        yield r.String(self.name, f"name {self.below(100)}")
        if self.at_limits:
            yield r.String(_LONG_NAME, "é" * (MAX_TEXT_BYTES // 2))
        yield r.ThreadRecord(self.slot, self.thread.process, self.thread.thread or 0)

    def _objects(self) -> Iterator[Record]:
        process = (r.KoidArgument("process", self.thread.process),)
        title = self.text(self.name, f"object {self.below(100)}")
        yield r.KernelObject(ObjectType.PROCESS, self.thread.process, f"process {self.thread.process}", ())
        yield r.KernelObject(ObjectType.THREAD, self.thread.thread or 0, title, process)
        owner = self.slot if self.number % 2 else Thread(self.thread.process, None)
        yield r.UserspaceObject(self.pointer, owner, title, (r.StringArgument("kind", self.category),))

    def _events(self) -> Iterator[Record]:
        first: tuple[int | Thread, int | str, int | str] = self.slot, self.category, self.name
        second: tuple[int | Thread, int | str, int | str] = self.other, "inline", f"inline {self.below(100)}"
        if self.turn % 2:
            first, second = second, first
        counts = (r.Int32Argument("used", self.below(1_000)), r.DoubleArgument("share", self.below(100) / 64))
        yield r.DurationBegin(self.tick(), *first, ())
        yield r.Instant(self.tick(), *first, ())
        yield r.Instant(self.tick(), *second, (r.NullArgument(self.name),), self.number % len(Scope))
        if self.at_limits:
            yield r.Instant(self.tick(), self.slot, 0, _LONG_NAME, ())
        yield r.FlowBegin(self.tick(), *first, (), self.id)
        yield r.AsyncBegin(self.tick(), *first, (), self.id)
        begin = self.tick()
        yield r.DurationComplete(begin, *first, self._arguments(), self.tick())
        begin = self.tick()
        yield r.DurationComplete(begin, *second, (), self.tick())
        yield r.FlowStep(self.tick(), *first, (), self.id)
        yield r.AsyncInstant(self.tick(), *second, (), self.id)
        yield r.AsyncEnd(self.tick(), *first, (), self.id)
        yield r.FlowEnd(self.tick(), *first, (), self.id)
        yield r.DurationEnd(self.tick(), *first, ())
        yield r.Counter(self.tick(), *second, counts, self.number % 4)

    def _arguments(self) -> tuple[r.Argument, ...]:
        """Return an argument of each type; at the limits, as many as a record can have."""
        value = self.below(2**31)
        name = self.text(self.category, "argument")
        arguments: tuple[r.Argument, ...] = (
            r.NullArgument(name),
            r.Int32Argument(name, -(2**31) if self.at_limits else -value),
            r.Uint32Argument(name, 2**32 - 1 if self.at_limits else value),
            r.Int64Argument(name, -(2**63) if self.at_limits else -value * 2**20),
            r.Uint64Argument(name, _MOST if self.at_limits else value * 2**20),
            r.DoubleArgument(name, float("inf") if self.at_limits else value / 1024),
            r.StringArgument(name, self.name if self.number % 2 else "inline text"),
            r.PointerArgument(name, self.pointer),
            r.KoidArgument(name, self.thread.thread or 0),
            r.BoolArgument(name, bool(value % 2)),
            r.BlobArgument(name, self._bytes(20)),
        )
        return arguments + arguments[: MAX_ARGUMENTS - len(arguments)] if self.at_limits else arguments

    def _system(self) -> Iterator[Record]:
        weights = (r.Int32Argument("incoming_weight", 3), r.Int32Argument("outgoing_weight", -(2**31)))
        waker = (r.Int32Argument("weight", 3), r.KoidArgument("waker", self.other.thread or 0))
        cpu, state = self.number % 4, self.number % len(ThreadState)
        own, other = self.thread.thread or 0, self.other.thread or 0
        one, two = (self.slot, self.other) if self.turn % 2 else (self.other, self.slot)
        left = ThreadState.BLOCKED if state == ThreadState.RUNNING else state  # a thread that has left does not run
        yield r.LegacyContextSwitch(cpu, left, 16, 20, self.tick(), one, two)
        yield r.ThreadWakeup(0xFFFF if self.at_limits else cpu, self.tick(), own, waker)
        yield r.ContextSwitch(0xFFFF if self.at_limits else cpu, state, self.tick(), other, own, weights)
        text = "x" * MAX_TEXT_BYTES if self.at_limits else f"message {self.below(100)}"
        yield r.Log(self.tick(), self.slot if self.number % 2 else self.other, text)

    def _profile(self) -> Iterator[Record]:
        thread: int | Thread = (self.slot, self.thread, Thread(self.thread.process, None))[self.number % 3]
        module = 0xFFFF if self.at_limits else self.number % 8
        yield r.ProfilerModule(module, self.tick(), thread, f"lib{module}.so", self._bytes(16))
        yield r.ProfilerMmap(module, 5, self.tick(), thread, 2**30, 2**16, 0)
        frames = tuple(2**30 + self.below(2**16) for _ in range(255 if self.at_limits else 1 + self.below(8)))
        yield r.ProfilerBacktrace(self.number % 2, self.tick(), thread, frames)

    def _blobs(self) -> Iterator[Record]:
        kinds = list(BlobType)
        category, name = self.text(self.category, "inline"), self.text(self.name, "inline")
        yield r.Blob(name, kinds[self.number % len(kinds)], self._bytes(self.below(64)))
        details = (r.BoolArgument("complete", True), r.PointerArgument("of", self.pointer))
        large = self._bytes(64) * 1_000 if self.at_limits else self._bytes(40)
        yield r.LargeBlob(category, name, self.tick(), self.slot if self.number % 2 else self.other, details, large)
        yield r.LargeBlobNoMetadata(category, name, self._bytes(self.below(64)))

    def _bytes(self, count: int) -> bytes:
        return bytes(self.below(256) for _ in range(count))
