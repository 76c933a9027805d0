"""A simple reader of whole traces, as a model: one record after the other, dictionaries for all tables.

What the real reader does for thousands of records at once is said here once more as a machine that takes one step for
each record.  It shares the generated codec with the reader (that is compared elsewhere), and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fxtio.codec.generate import Faults, Order
from fxtio.codec.parts import Many
from fxtio.codec.record import Opaque, layout_of
from fxtio.fxt import records as rec
from fxtio.fxt.records import RECORDS, StringReference, Thread, ThreadReference

from .fxt_twins import native, scalar

LATEST = 2**63 - 1


@dataclass
class State:
    """The definitions of a provider."""

    id: int = 0
    name: str = ""
    strings: dict[int, str] = field(default_factory=lambda: {0: ""})
    threads: dict[int, Thread] = field(default_factory=dict)
    rate: int = 10**9

    def ns(self, ticks: int) -> int:
        return min(ticks * 10**9 // self.rate, LATEST)


@dataclass
class Entry:
    """A record with all that is known of it."""

    offset: int
    state: State
    record: Any  # resolved; Opaque where it cannot be delivered
    raw: bytes
    first_word: int
    faults: Faults
    time: int | None = None
    end: int | None = None

    @property
    def provider(self) -> int:
        return self.state.id


class Model:
    """The state of a reading."""

    def __init__(self) -> None:
        self.current = State()
        self.states: dict[int, State] = {0: self.current}
        self.nobody: State | None = self.current  # whoever writes before any provider is introduced

    def step(self, offset: int, raw: bytes, order: Order) -> Entry:
        """Take in the next record."""
        faults: Faults = []
        record = scalar(raw, order, faults)
        self._switch(record)
        entry = Entry(
            offset,
            self.current,
            Opaque(raw) if record is None else self.resolve(record),
            raw,
            native(raw[:8], order)[0],
            faults,
        )
        if hasattr(record, "timestamp"):
            entry.time = self.current.ns(record.timestamp)
        if hasattr(record, "end"):
            entry.end = self.current.ns(record.end)
        self._define(record)
        return entry

    def _switch(self, record: Any) -> None:
        if isinstance(record, rec.ProviderSection):
            if record.provider_id not in self.states:
                self.states[record.provider_id] = State(record.provider_id)
            self.current = self.states[record.provider_id]
        if not isinstance(record, rec.ProviderInfo):
            return
        if self.nobody is not None and self.current is self.nobody:
            self.current.id, self.current.name = record.provider_id, record.name
            self.states = {
                provider_id: state for provider_id, state in self.states.items() if state is not self.current
            }
            self.nobody = None
        else:
            self.current = State(record.provider_id, record.name)
        self.states[record.provider_id] = self.current

    def _define(self, record: Any) -> None:
        if isinstance(record, rec.String) and record.index:
            self.current.strings[record.index] = record.text
        elif isinstance(record, rec.ThreadRecord) and record.index:
            self.current.threads[record.index] = Thread(record.process, record.thread)
        elif isinstance(record, rec.Initialization) and record.ticks_per_second:
            self.current.rate = record.ticks_per_second

    def resolve(self, record: Any) -> Any:
        """Return the record with its slots replaced by their current meaning; an undefined slot stays a number."""
        if isinstance(record, Opaque):
            return record
        changes: dict[str, Any] = {}
        for name, part in layout_of(type(record)).parts:
            value = getattr(record, name)
            if isinstance(part, StringReference) and isinstance(value, int):
                changes[name] = self.current.strings.get(value, value)
            elif isinstance(part, ThreadReference) and isinstance(value, int):
                thread = self.current.threads.get(value)
                if thread is not None:
                    changes[name] = Thread(thread.process, None) if part.process_only else thread
            elif isinstance(part, Many):
                changes[name] = tuple([self.resolve(item) for item in value])
        return record.replace(**changes)


def framed_records(data: bytes, order: Order) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a well-framed trace with their offsets."""
    at = 0
    while at < len(data):
        size = RECORDS.size_of(native(data[at : at + 8], order)[0]) * 8
        assert 0 < size <= len(data) - at, "this trace is not well-framed"
        yield at, data[at : at + size]
        at += size


def read(data: bytes, order: Order = "little") -> list[Entry]:
    """Return all records of a well-framed trace."""
    model = Model()
    return [model.step(offset, raw, order) for offset, raw in framed_records(data, order)]
