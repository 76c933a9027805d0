"""FXT: shapes, whose columns are those of the writer, which takes gigabytes in no time; and rounds of all records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any

import numpy as np

from fxtio.codec.parts import Header, Many, Number, Part, Rest, Sized, Stream, Words
from fxtio.codec.record import Record, layout_of
from fxtio.codec.word import Field
from fxtio.fxt import records as r
from fxtio.fxt.enums import ObjectType, Scope, ThreadState
from fxtio.fxt.layout import MAX_ARGUMENTS, MAX_PROVIDER_ID, MAX_STRING_SLOT, MAX_TEXT_BYTES, MAX_THREAD_SLOT
from fxtio.fxt.records import StringReference, Thread, ThreadReference
from fxtio.fxt.writer import FxtWriter, Track
from fxtio.synth.columns import (
    FIRST_PROCESS,
    FIRST_THREAD,
    THREADS_PER_PROCESS,
    Amount,
    Draw,
    Events,
    Group,
    Known,
    Maker,
    Rows,
    Shape,
    put_rounds,
)
from fxtio.synth.export import Names, thread_names


def write(
    target: Any, shapes: Sequence[Shape], names: Names, amount: Amount, options: dict[str, Any]
) -> tuple[int, int]:
    """Write shapes in turn, on threads with these names; see `fxtio.synth.write`."""
    written, tracks, groups = 0, [], amount.groups()
    with FxtWriter(target, **options) as writer:
        processes: set[int] = set()
        for pid, tid, process_name, name in thread_names(amount.threads, names):
            tracks.append(writer.thread(pid, tid, name, None if pid in processes else process_name))
            processes.add(pid)
        for number, parts in amount.chunks(shapes, groups, lambda: writer.position):
            group = groups[number]
            _write(writer, group, tracks[group.first : group.first + group.width], parts)
            written += sum(map(len, parts))
    return written, writer.position


def _write(writer: FxtWriter, group: Group, tracks: list[Track], parts: Sequence[Events | Rows]) -> None:
    """Write events in the order of their times, then rows of tables."""
    events = [
        {"kind": part.kind, "timestamp": part.timestamp, "thread": (tracks, part.thread), "name": part.name}
        | part.columns
        for part in parts
        if isinstance(part, Events)
    ]
    if events:
        writer.main.write_mixed(*events)
    for part in parts:
        if isinstance(part, Rows):
            columns = part.columns
            if "thread" in columns:
                thread = columns["thread"]
                columns = {**columns, "process": group.process_ids(thread), "thread": group.thread_ids(thread)}
            writer.write_table(part.table, columns)


# ---- everything

CLOCKS: tuple[tuple[r.ProviderInfo, r.Initialization], ...] = (
    (r.ProviderInfo(1, "nanoseconds"), r.Initialization(1_000_000_000)),
    (r.ProviderInfo(7, "timer of 24 MHz"), r.Initialization(24_000_000, 0, 1_700_000_000_000_000_000)),
    (r.ProviderInfo(MAX_PROVIDER_ID, ""), r.Initialization(2_596_000_000)),
)
"""The providers with their clocks."""

_BEGINNING = (r.Magic, r.ProviderInfo, r.ProviderSection, r.Initialization)
_NOT_DEFINED = (r.TraceInfo,)  # the specification defines no type of it but the magic number
_FIRST = (r.String, r.ThreadRecord, r.KernelObject, r.DurationBegin)
_LAST = (r.DurationEnd,)
_CLASSES: list[type[Record]] = [
    *_FIRST,
    *(cls for cls in r.RECORDS.classes if cls not in (*_BEGINNING, *_NOT_DEFINED, *_FIRST, *_LAST)),
    *_LAST,
]
"""The classes of the records of a round, in their order: others refer to the first ones, or are within them."""

_MOST = 2**64 - 1
_LONG_SLOT = 9  # the slot of a text as long as possible
_LIMITS_EVERY = 4  # this many rounds apart are those with values at the limits of their fields


def everything(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write rounds of records of every class, with arguments of all types and references of all forms.

    Each round belongs to the next of several providers, whose clocks have different rates, and defines some of the
    provider's slots anew.  Some rounds have values at the limits of their fields.
    """
    with FxtWriter(target, **options) as writer:
        written = put_rounds(writer, amount, _rounds(Draw(np.random.PCG64(amount.seed)), amount.threads))
    return written, writer.position


def _rounds(draw: Draw, threads: int) -> Iterator[Iterable[Record]]:
    ticks = [1_000] * len(CLOCKS)
    for number in count():
        place = number % len(CLOCKS)
        one = _Round(number, ticks[place], draw, threads)
        yield chain(_beginning(number), *map(one.records_of, _CLASSES))
        ticks[place] = one.now


def _beginning(number: int) -> Iterator[Record]:
    """Yield the records that begin a round: those that introduce its provider, or that continue its section."""
    if number == 0:
        yield r.Magic()
    info, clock = CLOCKS[number % len(CLOCKS)]
    if number < len(CLOCKS):
        yield from (info, clock)
    yield r.ProviderSection(info.provider_id)


class _Round(Maker):
    """Makes the records of a round.

    Args:
        number: the number of the round.
        now: the first tick that its provider has not used.
        draw: the random numbers.
        threads: the number of threads.
    """

    STEPS = range(1, 1_001)

    def __init__(self, number: int, now: int, draw: Draw, threads: int) -> None:
        super().__init__(now, draw)
        self.number = number
        self.at_limits = number % _LIMITS_EVERY == _LIMITS_EVERY - 1
        turn = number // len(CLOCKS)
        thread = self.below(threads)
        self.thread = Thread(FIRST_PROCESS + thread // THREADS_PER_PROCESS, FIRST_THREAD + thread)
        self.thread_slot = MAX_THREAD_SLOT if self.at_limits else 1 + turn % 3
        self.text_slot = MAX_STRING_SLOT if self.at_limits else 1 + turn % 3
        self.text = f"text {self.below(100)}"
        self.known = self._known()

    def _known(self) -> Known:
        own, own_process = self.thread.thread or 0, r.KoidArgument("process", self.thread.process)
        states = [state for state in ThreadState if state != ThreadState.RUNNING]  # a thread that has left does not run
        return {
            (None, "timestamp"): [self.tick],
            (None, "end"): [self.tick],
            (None, "id"): [_MOST, _MOST - 1] if self.at_limits else [2 * self.number + 1, 2 * self.number + 2],
            (None, "module"): [0xFFFF if self.at_limits else self.number % 8],
            (None, "outgoing_state"): states,
            (r.String, "index"): [self.text_slot, *([_LONG_SLOT] if self.at_limits else [])],
            (r.String, "text"): [self.text, "é" * (MAX_TEXT_BYTES // 2)][: 1 + self.at_limits],
            (r.ThreadRecord, "index"): [self.thread_slot],
            (r.ThreadRecord, "process"): [self.thread.process],
            (r.ThreadRecord, "thread"): [own],
            (r.KernelObject, "object_type"): [ObjectType.PROCESS, ObjectType.THREAD],
            (r.KernelObject, "koid"): [self.thread.process, own],
            (r.KernelObject, "args"): [(), (own_process,)],
            (r.Instant, "scope"): [None, *Scope],
            (r.Counter, "args"): [(r.Int32Argument("used", self.below(100)), r.DoubleArgument("share", 0.25))],
            (r.ContextSwitch, "outgoing"): [own],
            (r.ContextSwitch, "incoming"): [own],
            (r.ThreadWakeup, "waking"): [own],
            (r.ProfilerBacktrace, "flags"): [0, 1],
            (r.KoidArgument, "value"): [own],
            (r.ProviderEvent, "provider_id"): [CLOCKS[self.number % len(CLOCKS)][0].provider_id],
        }

    def declared(self, cls: type[Record]) -> Iterable[tuple[str, Part]]:
        """Yield the parts of a record or an argument."""
        return layout_of(cls).parts

    def values(self, cls: type[Record], name: str, part: Part) -> list[Any]:
        """Return the values that a part can have."""
        header = {field.name: field for _, field in layout_of(cls).header_fields()}
        match part:
            case Header(field=field):
                return self._numbers(field, boolean=part.boolean)
            case Number(kind="f"):
                return [float("inf") if self.at_limits else self.below(2**20) / 1024]
            case Number(kind=kind):
                least, most = (-(2**63), 2**63 - 1) if kind == "i" else (0, _MOST)
                return [
                    *([None] if part.optional else []),
                    *([least, most] if self.at_limits else [2**40 + self.below(2**40)]),
                ]
            case ThreadReference():
                slots: list[Any] = [self.thread_slot] if part.process_only else [self.thread_slot, self.thread]
                only = part.process_only or part.short_form
                return [*slots, Thread(self.thread.process, None)] if only else slots
            case StringReference():
                return [self.text_slot, self.text]
            case Stream():
                size = min(header[part.size].mask, 1_000) if self.at_limits else 1 + self.below(16)
                return ["x" * size if part.text else self.draw.bits.random_raw(1).tobytes()[:size]]
            case Sized():
                return [bytes(64_000 if self.at_limits else self.below(64))]
            case Words():
                frames = header[part.count].mask if self.at_limits else 1 + self.below(8)
                return [(), tuple(2**30 + self.below(2**16) for _ in range(frames))]
            case Many():
                forms = [[*self.records_of(member)] for member in part.union.classes]
                members = [each[self.number % len(each)] for each in forms]
                padded = members + members[: MAX_ARGUMENTS - len(members)] if self.at_limits else members
                return [(), tuple(padded)]
            case Rest():
                return [None]
        raise TypeError(f"no values for {type(part).__name__}")

    def _numbers(self, field: Field, *, boolean: bool) -> list[Any]:
        """Return the values of a field of a header word: all that have a name, or one, or its limits."""
        if boolean:
            return [False, True]
        least, most = field.limits
        if field.meaning:
            return [member for member in field.meaning if least <= member.value <= most]
        return [least, most] if self.at_limits else [least + self.below(min(most - least, 4) + 1)]
