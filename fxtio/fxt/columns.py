"""The tables of a trace: one function per table, each from a batch to columns.

Times come as raw ticks (uint64) and as nanoseconds (int64); names are dictionary-encoded; a reference to a slot that
nobody defined is null (names) or 0 (koids).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from fxtio.codec.columns import Columns, KoidsColumn, ManyColumn, Members, StreamColumn, TextColumn
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.batch import Batch
from fxtio.fxt.clock import times_of
from fxtio.fxt.enums import ArgumentType, EventType
from fxtio.table import Categories, Column, Derived, Optional, joined

Array = np.ndarray[Any, Any]
Made = dict[str, Any]
Finish = Callable[[Made, Batch], dict[str, Column | Derived]]
Arguments = list[tuple[Array, ManyColumn]]
"""Numbers of records in a batch, and their arguments; one pair for each class."""

EVENT_CLASSES: dict[type[Record], EventType] = {
    cls: EventType(cls.words[0].fields["event_type"].value) for cls in r.RECORDS.classes if issubclass(cls, r.Event)
}
_EVENT_NAMES = [kind.name.lower() for kind in EventType]
_WITH_ID = tuple(kind for cls, kind in EVENT_CLASSES.items() if "id" in cls.__struct_fields__)
_ARGUMENT_NAMES = [kind.name.lower() for kind in ArgumentType]


class Builder:
    """Makes the tables of one batch.

    Args:
        batch: the batch.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def common(self, rows: Array) -> Made:
        """Where the records are and whose they are."""
        states = self.batch.state_of(rows)
        ids = np.array([provider.id for provider in self.batch.session.providers], np.uint32)
        return {
            "offset": self.batch.frame.at[rows] * 8 + self.batch.frame.base,
            "provider": np.broadcast_to(ids[states], len(rows)) if isinstance(states, int) else ids[states],
        }

    def timed(self, ticks: Array, rows: Array) -> Made:
        """A moment."""
        return {"ticks": ticks, "time": self.batch.times(ticks, rows)}

    def names(self, column: TextColumn, rows: Array) -> Categories:
        """A text column."""
        return Categories(self.batch.text_codes(column, rows), self.batch.names.values)

    def koids(self, column: KoidsColumn, rows: Array) -> tuple[Array, Array]:
        """Process and thread koids of a thread column."""
        pairs = self.batch.threads.koids
        codes = self.batch.thread_codes(column, rows)
        table = pairs()
        return table[:, 0].take(codes), table[:, 1].take(codes)

    def texts(self, stream: StreamColumn) -> Categories:
        """A text stream."""
        return Categories(self.batch.names.codes(stream), self.batch.names.values)

    @cached_property
    def events(self) -> tuple[Made, Arguments]:
        """All events in the order of the file, and their arguments."""
        pieces: list[tuple[Array, Made]] = []
        arguments: Arguments = []
        present = [cls for cls in self.batch.classes() if cls in EVENT_CLASSES]
        for cls in present or [r.Instant]:  # no events at all: the columns of none
            rows, columns = self.batch.columns(cls)
            pieces.append((rows, self._event(cls, rows, columns)))
            arguments.append((rows, columns["args"]))
        return in_order(pieces), arguments

    def _event(self, cls: type[Record], rows: Array, columns: Columns) -> Made:
        tail = columns.get("end", columns.get("id"))
        return {
            **self.common(rows),
            "type": Categories(np.broadcast_to(np.int8(EVENT_CLASSES[cls]), len(rows)), _EVENT_NAMES),
            "ticks": columns["timestamp"],
            "clock": self.batch.clock_codes(columns["timestamp"], rows),
            "thread": self.batch.thread_codes(columns["thread"], rows),
            "category": self.names(columns["category"], rows),
            "name": self.names(columns["name"], rows),
            "tail": np.broadcast_to(np.uint64(0), len(rows)) if tail is None else tail,
        }

    def args(self, arguments: Arguments) -> Made:
        """Arguments in long form, in the order of the file; `finish_args` makes a table of them.

        Args:
            arguments: the numbers of the records in the batch, and their arguments.

        Returns:
            Columns with a row for each argument, and `counts` with a row for each record.
        """
        counts, pieces = [], []
        for rows, column in arguments:
            members = self.batch.arguments(rows, column)
            counts.append((rows, {"counts": members.many.found.astype(np.uint8)}))
            owners = np.repeat(rows, members.many.found)
            pieces.append((owners, self._args(owners, members)))
        return in_order(counts) | in_order(pieces)

    def _args(self, owners: Array, members: Members) -> Made:
        name = np.full(len(owners), -1, np.int32)
        bits = np.zeros(len(owners), np.uint64)  # of a text, its code
        for kind, mine, columns in members.groups:
            if columns:
                name[mine] = self.batch.text_codes(columns["name"], owners[mine])
            if kind == ArgumentType.STRING:
                bits[mine] = self.batch.text_codes(columns["value"], owners[mine])
            elif "value" in columns and kind != ArgumentType.BLOB:
                bits[mine] = _bits(columns["value"])
        return {
            "name": Categories(name, self.batch.names.values),
            "type": Categories(members.many.kind, _ARGUMENT_NAMES),
            "bits": bits,
        }


def _bits(values: Array) -> Array:
    """Any plain value as the 64 bits that hold it."""
    if values.dtype == np.float64:
        return values.view(np.uint64)
    return values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)


def finish_events(made: Made, batch: Batch) -> dict[str, Column | Derived]:
    """The columns of the table of events, from what `Builder.events` gathers; those that follow from others wait."""
    types, ticks, tail = made["type"].codes, made["ticks"], made["tail"]
    clocks, koids = batch.session.clocks, batch.threads.koids()

    def time(ticks: Array) -> Array:
        return times_of(clocks, made["clock"], ticks)

    def with_tail(*kinds: EventType) -> Array:
        return np.isin(types, kinds)

    return {
        "offset": made["offset"],
        "provider": made["provider"],
        "type": made["type"],
        "ticks": ticks,
        "time": Derived(lambda: time(ticks)),
        "process": Derived(lambda: koids[:, 0].take(made["thread"])),
        "thread": Derived(lambda: koids[:, 1].take(made["thread"])),
        "category": made["category"],
        "name": made["name"],
        "end_ticks": Derived(lambda: Optional(tail, with_tail(EventType.DURATION_COMPLETE))),
        "duration": Derived(lambda: Optional(time(tail) - time(ticks), with_tail(EventType.DURATION_COMPLETE))),
        "id": Derived(lambda: Optional(tail, with_tail(*_WITH_ID))),
    }


def finish_args(owner: str) -> Finish:
    """What makes the columns of a table of arguments, from what `Builder.args` gathers.

    Args:
        owner: what to call the column with the number of the owning row.
    """

    def finish(made: Made, batch: Batch) -> dict[str, Column | Derived]:
        counts, bits, types = made["counts"], made["bits"], made["type"].codes

        def text() -> Column:
            codes = np.where(types == ArgumentType.STRING, bits.view(np.int64), -1).astype(np.int32)
            return Categories(codes, batch.names.values)

        return {
            owner: Derived(lambda: np.repeat(np.arange(len(counts)), counts)),
            "name": made["name"],
            "type": made["type"],
            "bits": Derived(lambda: np.where(types == ArgumentType.STRING, np.uint64(0), bits)),
            "text": Derived(text),
        }

    return finish


def in_order(pieces: list[tuple[Array, Made]]) -> Made:
    """Join the pieces of a table in the order of the records' numbers."""
    if len(pieces) <= 1:
        return pieces[0][1] if pieces else {}
    order = np.argsort(np.concatenate([rows for rows, _ in pieces]), kind="stable")
    return {name: _taken(joined([made[name] for _, made in pieces]), order) for name in pieces[0][1]}


def _taken(column: Column, rows: Array) -> Column:
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)
