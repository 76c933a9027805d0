"""The tables of a trace that come from its `.dat` files: each a function from a chunk of records to columns.

Times are nanoseconds (int64); names are dictionary-encoded; `record` counts the records of the whole trace, so that
calls, values and events can be put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fxtio import _native
from fxtio.codec.names import Names
from fxtio.table import Categories, Column, Growing, Table
from fxtio.uftrace import arguments
from fxtio.uftrace.calls import STATES, Calls, Pairing
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import EventsFile, data_of, values_of
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.space import Space
from fxtio.uftrace.stream import Chunk
from fxtio.uftrace.values import FORMATS, ValueColumns
from fxtio.uftrace.values import values_of as payload_values

Array = np.ndarray[Any, Any]
Made = dict[str, Column]

_FIELDS = RecordWord.fields
TYPES = tuple(kind.name.lower() for kind in RecordType)


class Builder:
    """Makes the tables of the chunks of a reading.

    Args:
        names: which tables.
        events: the names of events.
        pointer_size: of the traced program.

    Attributes:
        names: the distinct texts.
        record: the number of the next record.
    """

    def __init__(self, names: tuple[str, ...], events: EventsFile, pointer_size: int) -> None:
        self.names = Names()
        self.record = 0
        self._wanted = names
        self._events = events
        self._pointer_size = pointer_size
        self._pairing = Pairing()
        self._space: Space | None = None
        self._known: dict[int, int] = {}

    def forget(self) -> None:
        """Drop the names that no open call has, if there are very many; codes of different batches then differ."""
        if len(self.names.values) <= KEPT_NAMES and self.names.size <= KEPT_NAMES * 64:
            return
        old, self.names, self._known = self.names, Names(), {}
        still = self._pairing.open
        still.name = np.array([self.names.code(old.values[code]) for code in still.name.tolist()], np.int32)

    def chunk(self, chunk: Chunk) -> dict[str, Made]:
        """The wanted tables of a chunk."""
        made = {name: CHUNKS[name](self, chunk) for name in self._wanted if name in CHUNKS}
        self.record += len(chunk)
        return made

    def finish(self, tid: int) -> dict[str, Made]:
        """What is left of a task when its last chunk was there."""
        if "slices" not in self._wanted:
            return {}
        rest = self._pairing.finish()
        self._pairing = Pairing()
        return {"slices": self._slice_columns(tid, rest)}

    def function_names(self, chunk: Chunk, addresses: Array) -> Array:
        """Codes of the names of the functions that addresses are in (int32)."""
        if chunk.space is not self._space:
            self._space, self._known = chunk.space, {}
        codes, first = np.empty(len(addresses), np.int32), np.empty(len(addresses), np.int64)
        count = _native.distinct(np.ascontiguousarray(addresses), codes, first, arguments.SEED)
        distinct = addresses[first[:count]].tolist()
        if len(self._known) > KEPT_ADDRESSES:
            self._known.clear()
        for address in distinct:
            if address not in self._known:
                self._known[address] = self.names.code(chunk.space.name(address))
        return np.array([self._known[address] for address in distinct], np.int32)[codes]

    def records(self, chunk: Chunk) -> Made:
        """All records."""
        words = chunk.words
        kinds, address = _FIELDS["type"].get(words), _FIELDS["address"].get(words)
        name = np.full(len(chunk), -1, np.int32)
        calls = np.flatnonzero((kinds == RecordType.ENTRY) | (kinds == RecordType.EXIT))
        if len(calls):
            name[calls] = self.function_names(chunk, address[calls])
        events = np.flatnonzero(kinds == RecordType.EVENT)
        name[events] = [self.names.code(self._events.name(event)) for event in address[events].tolist()]
        return {
            "record": np.arange(self.record, self.record + len(chunk)),
            "tid": np.full(len(chunk), chunk.tid),
            "offset": chunk.offsets(),
            "type": Categories(kinds.astype(np.int8), TYPES),
            "time": chunk.times.astype(np.int64),
            "depth": _FIELDS["depth"].get(words).astype(np.int16),
            "address": address,
            "name": Categories(name, self.names.values),
        }

    def slices(self, chunk: Chunk) -> Made:
        """The calls that end in the chunk."""
        calls = self._pairing.take(chunk, self.record, lambda addresses: self.function_names(chunk, addresses))
        return self._slice_columns(chunk.tid, calls)

    def _slice_columns(self, tid: int, calls: Calls) -> Made:
        return {
            "tid": np.full(len(calls.start), tid),
            "name": Categories(calls.name, self.names.values),
            "start": calls.start,
            "duration": calls.end - calls.start,
            "depth": calls.depth.astype(np.int32),
            "address": calls.address,
            "state": Categories(calls.state, STATES),
            "entry": calls.entry,
            "exit": calls.exit,
        }

    def args(self, chunk: Chunk) -> Made:
        """The values of payloads."""
        found = payload_values(chunk, self.names)
        if found is None:
            wide, code = np.empty(0, np.int64), np.empty(0, np.int32)
            found = ValueColumns(wide, code, code.astype(np.int8), wide.view(np.uint64), code)
        return {
            "record": found.row + self.record,
            "name": Categories(found.label, self.names.values),
            "format": Categories(found.format, FORMATS),
            "bits": found.bits,
            "text": Categories(found.text, self.names.values),
        }

    def _event_rows(self, chunk: Chunk) -> Array:
        return np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.EVENT)

    def events(self, chunk: Chunk) -> Made:
        """The events."""
        rows = self._event_rows(chunk)
        ids = _FIELDS["address"].get(chunk.words[rows])
        names = np.array([self.names.code(self._events.name(event)) for event in ids.tolist()], np.int32)
        return {
            "record": rows + self.record,
            "tid": np.full(len(rows), chunk.tid),
            "time": chunk.times[rows].astype(np.int64),
            "id": ids,
            "name": Categories(names, self.names.values),
        }

    def event_values(self, chunk: Chunk) -> Made:
        """The values of the events that have any; there are few of them."""
        rows = self._event_rows(chunk)
        found: list[tuple[int, str, int]] = []
        ids = _FIELDS["address"].get(chunk.words[rows]).tolist()
        for row, event in zip(rows.tolist(), ids, strict=True):
            begin, size = int(chunk.at[row]), int(chunk.size[row])
            data = data_of(bytes(chunk.block.data[begin * 8 + 16 : (begin + size) * 8]) or None, chunk.order)
            values = values_of(event, data, chunk.order, self._pointer_size)
            found += [(row, name, value) for name, value in values.items()]
        values_column = np.array([value % 2**64 for _, _, value in found], np.uint64)
        return {
            "record": np.array([row for row, _, _ in found], np.int64) + self.record,
            "name": Categories(np.array([self.names.code(n) for _, n, _ in found], np.int32), self.names.values),
            "value": values_column.view(np.int64),
        }

    def lost(self, chunk: Chunk) -> Made:
        """Where records were lost."""
        kinds = _FIELDS["type"].get(chunk.words)
        rows = np.flatnonzero(kinds == RecordType.LOST)
        return {
            "record": rows + self.record,
            "tid": np.full(len(rows), chunk.tid),
            "offset": chunk.offsets()[rows],
            "count": _FIELDS["address"].get(chunk.words[rows]),
        }


KEPT_NAMES = 1 << 16
"""How many names a reading by batches gathers before it looks which are still in use."""

KEPT_ADDRESSES = 1 << 18
"""How many addresses a reading remembers the names of."""

CHUNKS: dict[str, Callable[[Builder, Chunk], Made]] = {
    "records": Builder.records,
    "slices": Builder.slices,
    "args": Builder.args,
    "events": Builder.events,
    "event_values": Builder.event_values,
    "lost": Builder.lost,
}


class Collector:
    """Whole tables in the making."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._growing: dict[str, dict[str, Growing]] = {name: {} for name in names}

    def add(self, made: dict[str, Made], share: float = 0.0) -> None:
        """Add some rows of some tables."""
        for name, columns in made.items():
            mine = self._growing[name]
            for label, column in columns.items():
                mine.setdefault(label, Growing()).append(column, share)

    def tables(self) -> dict[str, Table]:
        """The tables."""
        return {
            name: Table({label: growing.column() for label, growing in columns.items()})
            for name, columns in self._growing.items()
        }
