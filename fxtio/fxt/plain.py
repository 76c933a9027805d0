"""Plain events, which a kernel reads a batch at a time: all references are to slots, and nothing in them is odd.

Most batches of most traces have no other events.  The kernel declines a batch with any other one, and also without C
all batches are read by way of `fxtio.codec.columns`, which gives the same result, and reports what is odd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from fxtio import _native
from fxtio._native.constants import PlainValue, SpanStep
from fxtio.arrays import Array
from fxtio.codec.parts import Header, Number
from fxtio.codec.record import SIZE, Record, layout_of
from fxtio.codec.word import Field
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType
from fxtio.fxt.layout import EventWord
from fxtio.fxt.records import ARGUMENTS, KINDS, RECORDS, Argument, Event, StringReference
from fxtio.fxt.state import Batch
from fxtio.timeline.schema import ArgumentKind

Values = Callable[[Array], Array]

# The effects of events on the spans of their threads; counters have none.
STEPS: dict[type[Record], SpanStep] = {
    r.DurationBegin: SpanStep.BEGIN,
    r.DurationEnd: SpanStep.END,
    r.DurationComplete: SpanStep.COMPLETE,
    r.Instant: SpanStep.INSTANT,
    r.AsyncBegin: SpanStep.BEGIN,
    r.AsyncInstant: SpanStep.INSTANT,
    r.AsyncEnd: SpanStep.END,
    r.FlowBegin: SpanStep.FLOW,
    r.FlowStep: SpanStep.FLOW,
    r.FlowEnd: SpanStep.FLOW,
}


class EventColumns(NamedTuple):
    """The events of a batch, with a row for each record of it.

    Attributes:
        step: the effect of its class, see `SpanStep`, NONE for a record that is passed over (int8).
        track: the value of its thread, -1 if the step is NONE (int32).
        ticks: its time, 0 if the step is NONE (uint64).
        category: the value of its category (int32).
        name: the value of its name (int32).
        tail: the word after its arguments, such as an id; 0 without one (uint64).
    """

    step: Array
    track: Array
    ticks: Array
    category: Array
    name: Array
    tail: Array

    @classmethod
    def blank(cls, count: int) -> EventColumns:
        """Return rows of records that are no events."""
        return cls(*(np.full(count, default, dtype) for dtype, default in EVENT_COLUMNS.values()))


class ArgumentColumns(NamedTuple):
    """The arguments of the events of a batch, in the order of the file.

    Attributes:
        event: the number of the event that has it (int64).
        name: the value of its name (int32).
        kind: its type, see `ArgumentKind` (int32).
        bits: its value, 0 for a text (uint64).
        text: the value of its text, -1 for other types (int32).
    """

    event: Array
    name: Array
    kind: Array
    bits: Array
    text: Array

    @classmethod
    def blank(cls, count: int = 0) -> ArgumentColumns:
        """Return this many rows, to be filled."""
        return cls(*(np.empty(count, dtype) for dtype in _ARGUMENT_COLUMNS))


EVENT_COLUMNS = {
    "step": ("int8", 0), "track": ("int32", -1), "ticks": ("uint64", 0), "category": ("int32", -1),
    "name": ("int32", -1), "tail": ("uint64", 0),
}  # fmt: skip
"""The type of each of `EventColumns`, and its value for a record that is no event."""

_ARGUMENT_COLUMNS = ("int64", "int32", "int32", "uint64", "int32")


class PlainReader:
    """Reads the events of batches in which all events are plain.

    Args:
        steps: the effect of each class of events, NONE for those of which only the arguments are needed; records of
            other classes are passed over.
        kinds: the type of an argument in a timeline for each type; arguments of other types are not plain.
    """

    def __init__(self, steps: Mapping[type[Record], SpanStep], kinds: Mapping[ArgumentType, ArgumentKind]) -> None:
        self._steps = np.zeros(len(RECORDS.classes) + 1, np.int8)  # the last one is that of records of unknown types
        self._tails = np.full(len(self._steps), -1, np.int8)
        for cls, step in steps.items():
            self._steps[KINDS[cls]], self._tails[KINDS[cls]] = step, tail_words(cls)
        self._header = header_fields()
        self._rules = argument_rules(kinds)
        self._room = 0  # for the arguments of a batch
        self._kernel = _native.read_plain if _native.IMPLEMENTATION == "c" else None

    def read(
        self, batch: Batch, strings: Values, threads: Values, first: int, *, with_arguments: bool
    ) -> tuple[EventColumns, ArgumentColumns] | None:
        """Read the events of a batch into columns, or nothing if one of them is not plain.

        Args:
            batch: the batch.
            strings: converts codes of strings (int32) to their values (int32, not negative); -1 stays -1.
            threads: converts codes of threads likewise.
            first: the number of the first record of the batch.
            with_arguments: return the arguments, too, instead of none.

        Returns:
            The events and their arguments, or None if not all events are plain.
        """
        provider = self._provider(batch)
        if self._kernel is None or provider is None:
            return None
        frame = batch.frame
        string_codes, strings_since = batch.string_slots.table(provider)
        thread_codes, threads_since = batch.thread_slots.table(provider)
        slots = (strings(string_codes), strings_since, threads(thread_codes), threads_since)
        events = EventColumns(*(np.empty(len(batch), dtype) for dtype, _ in EVENT_COLUMNS.values()))
        source = (frame.block.words, frame.at, frame.size, frame.kind, self._header, self._rules)
        room = self._room if with_arguments else 0
        while True:
            arguments = ArgumentColumns.blank(room)
            count = self._kernel(*source, self._steps, self._tails, *slots, *events, *arguments, first)
            if count < 0:
                return None
            if count <= room or not with_arguments:
                break
            room = count
        self._room = count + count // 8
        return events, ArgumentColumns(*(column[:count] for column in arguments))

    def _provider(self, batch: Batch) -> int | None:
        """Return the index of the provider of all events of a batch, None if they have several."""
        if isinstance(batch.provider, int):
            return batch.provider
        of_events = batch.provider[self._tails[batch.frame.kind] >= 0]
        return int(of_events[0]) if (of_events == of_events[0]).all() else None


def _place(field: Field) -> tuple[int, int]:
    return field.lo, field.mask


@cache
def tail_words(cls: type[Record]) -> int:
    """Return the number of words after the arguments of a class of events, without optional ones."""
    parts = layout_of(cls).parts
    common = len(Event.__struct_fields__)
    assert tuple(name for name, _ in parts[:common]) == Event.__struct_fields__ and len(cls.words) == 1
    return sum(part.tail_words() or 0 for _, part in parts[common:])


def header_fields() -> Array:
    """Return where the fields of the header of an event are, as the kernel takes them."""
    fields = EventWord.fields
    places = [number for name in ("arg_count", "thread", "category", "name") for number in _place(fields[name])]
    return np.array([*places, EventWord.pattern("reserved")[0]], np.uint64)


_RULE_FIELDS = 11


def argument_rules(kinds: Mapping[ArgumentType, ArgumentKind]) -> Array:
    """Return for each type of argument where its fields are, as the kernels take it (uint64, a row for each type).

    Args:
        kinds: see `PlainReader`.
    """
    rules = np.zeros((ARGUMENTS.base.fields["type"].mask + 1, _RULE_FIELDS), np.uint64)
    for cls in ARGUMENTS.classes:
        kind = cls.words[0].fields["type"].value
        if kind in kinds and issubclass(cls, Argument):
            rules[kind] = _rule(cls, kinds[ArgumentType(kind)])
    return rules


@cache
def _rule(cls: type[Argument], kind: int) -> list[int]:
    """Return where the fields of an argument are, as the kernel takes them; zeros if no argument of it is plain.

    Args:
        cls: the class of the argument.
        kind: its type in a timeline.
    """
    fields, parts = cls.words[0].fields, dict(layout_of(cls).parts)
    part = parts.get("value")
    words, source, value, sign = len(cls.words), PlainValue.HEADER, (0, 0), 0
    if isinstance(part, Header):
        value = _place(part.field)
        sign = -part.field.limits[0] if part.field.signed else 0
    elif isinstance(part, Number):
        words, source = words + 1, PlainValue.WORD
    elif isinstance(part, StringReference):
        source, value = PlainValue.TEXT, _place(fields[part.ref])
    elif part is not None:
        return [0] * _RULE_FIELDS
    name = parts["name"]
    assert isinstance(name, StringReference)
    places = (*_place(fields[SIZE]), *_place(fields[name.ref]), *value)
    return [words, kind, source, *places, sign, cls.words[0].pattern("reserved")[0]]
