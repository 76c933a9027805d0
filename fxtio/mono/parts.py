"""What the events are made of: the kinds of values, the items of lists, and what all events have in common.

`since` and `before` are data versions; what a version does not have is None there.  Addresses are absolute.
"""

from __future__ import annotations

from math import inf
from typing import Annotated

from fxtio.codec.stream import (
    Byte,
    Choice,
    Clock,
    Double,
    Head,
    Item,
    Many,
    Part,
    Relative,
    Running,
    Sleb,
    StreamRecord,
    Summed,
    Text,
    Uleb,
)
from fxtio.codec.word import Word
from fxtio.mono import layout as b
from fxtio.mono.enums import CounterSection, CounterType, LoadAction, NameAction

METHOD = Running(of="method")
POINTER = Relative(base="pointer")
OBJECT = Relative(base="object", shift=b.OBJECT_SHIFT)
NAMED = ("action", (NameAction.NAME,))
LOADED = ("action", (LoadAction.LOAD,))
WITH_FRAMES = ("has_backtrace", (1,))

Tick = Annotated[int, Clock(of="time")]
LateTick = Annotated[int, Clock(of="time", since=13)]
"""The time of an event that has one only from data version 13 on; before it, the last time of the buffer goes on."""

Pointer = Annotated[int, POINTER]
Object = Annotated[int, OBJECT]
Method = Annotated[int, METHOD]
Size = Annotated[int, Uleb()]
Name = Annotated[str, Text()]
BacktraceFlags = Annotated[int | None, Uleb(before=13, when=WITH_FRAMES)]
Backtrace = Annotated[
    tuple[int, ...] | None,
    Many(of=METHOD, flag="has_backtrace", since=13),
    Many(of=POINTER, flag="has_backtrace", before=13),
]
HandleBacktraceFlags = Annotated[int | None, Uleb(since=11, before=13, when=WITH_FRAMES)]
HandleBacktrace = Annotated[
    tuple[int, ...] | None,
    Many(of=METHOD, flag="has_backtrace", since=13),
    Many(of=POINTER, flag="has_backtrace", since=11, before=13),
]
OldFlags = Annotated[int | None, Uleb(before=13)]


class Reference(Item, frozen=True, kw_only=True):
    """What a heap object refers to.

    Attributes:
        offset: where in the object the reference stands, in bytes; None in data version 1.
        object: the address of the object that is referred to.
    """

    offset: Annotated[int | None, Summed(since=2)] = None
    object: Object


class Root(Item, frozen=True, kw_only=True):
    """Something that keeps an object alive.

    Attributes:
        address: where the reference stands; None before data version 15.
        object: the object.
        root_type: what kind of root it is; None from data version 15 on.
        extra_info: more about it; likewise.
    """

    address: Annotated[int | None, Relative(base="pointer", since=15)] = None
    object: Object
    root_type: Annotated[int | None, Uleb(before=13), Byte(since=13, before=14), Uleb(since=14, before=15)] = None
    extra_info: Annotated[int | None, Uleb(before=15)] = None


class SampledFrame(Item, frozen=True, kw_only=True):
    """A managed frame of a sample, up to data version 12."""

    method: Method
    il_offset: Annotated[int, Sleb()]
    native_offset: Annotated[int, Sleb()]


class CounterDescription(Item, frozen=True, kw_only=True):
    """A counter.

    Attributes:
        section: what it belongs to, see `CounterSection`.
        category: the category of a performance counter; None for all others.
        name: its name.
        type: the form of its values, see `CounterType`.
        unit: what it counts, see `CounterUnit`; data versions 13 and 14 lose it.
        variance: how it changes, see `CounterVariance`; likewise.
        index: the number that its values go by.
    """

    section: Annotated[int, Uleb()]
    category: Annotated[str | None, Text(when=("section", (CounterSection.PERFCOUNTERS,)))] = None
    name: Name
    type: Annotated[int, Uleb(before=13), Byte(since=13, before=b.HYBRID), Uleb(since=b.HYBRID)]
    unit: Annotated[int, Uleb(before=13), Byte(since=13, before=b.HYBRID), Uleb(since=b.HYBRID)]
    variance: Annotated[int, Uleb(before=13), Byte(since=13, before=b.HYBRID), Uleb(since=b.HYBRID)]
    index: Annotated[int, Uleb()]


_COUNTED: tuple[tuple[tuple[int, ...], Part], ...] = (
    ((CounterType.INT, CounterType.WORD, CounterType.LONG, CounterType.TIME_INTERVAL), Sleb()),
    ((CounterType.UINT, CounterType.ULONG), Uleb()),
    ((CounterType.DOUBLE,), Double()),
    ((CounterType.STRING,), Text(marked=True)),
)


class CounterValue(Item, frozen=True, kw_only=True):
    """A value of a counter, as it stands in the file.

    Attributes:
        index: the counter's number, never 0.
        type: the form of the value, see `CounterType`.
        value: the change since the last value; a double, a text and a performance counter are themselves.
    """

    index: Annotated[int, Uleb()]
    type: Annotated[int, Uleb(before=13), Byte(since=13, before=b.HYBRID), Uleb(since=b.HYBRID)]
    value: Annotated[int | float | str | None, Choice(by="type", cases=_COUNTED)] = None


class Event(StreamRecord, frozen=True, kw_only=True):
    """Base of all events.

    Attributes:
        time: nanoseconds of the event clock.
    """

    time: Tick


def heads_of(word: type[Word], *, since: float = 0, before: float = inf, **tags: int) -> tuple[Head, ...]:
    """The first byte of an event, with its tags pinned."""
    return (Head(word.of(word.__name__, **tags) if tags else word, since, before),)
