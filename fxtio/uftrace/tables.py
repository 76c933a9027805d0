"""The tables of records, their columns, and how they are made from chunks; `small_files` has the other tables.

- Every record table is a function from a chunk to columns.  Times are nanoseconds (int64), names are
  dictionary-encoded, and `record` is the number of a record in the whole trace, by which tables can be joined.
- `args` and `structs` decode payloads, see `fxtio.uftrace.values`: one row for each value, in the order of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, number_distinct
from fxtio.finding import Findings
from fxtio.schema import TableSpec
from fxtio.table import Bytes, Categories, Column, GrowingTable, Table
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES, EventsFile, data_of, values_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.schema import SPECS
from fxtio.uftrace.state import AddressSpace
from fxtio.uftrace.values import FORMATS, CombinedNames, payload_columns, structures, symbol_codes

Columns = dict[str, Column]

TYPES = tuple(kind.name.lower() for kind in RecordType)
"""The texts of the column `type` of the table `records`, by code."""

MAX_NAMES = 1 << 16
"""The number of names above which reading by batches drops the names that are not in use."""

MAX_ADDRESSES = 1 << 18
"""The largest number of addresses whose names are cached."""

_FIELDS = RecordWord.fields


class TableBuilder:
    """Makes record tables of the chunks of a reading.

    Args:
        names: the names of the tables.
        events: the names of events.
        pointer_size: the size in bytes of an address of the traced program.
        findings: receives faults.

    Attributes:
        names: the distinct texts.
        record: the number of the next record.
    """

    def __init__(self, names: Sequence[str], events: EventsFile, pointer_size: int, findings: Findings) -> None:
        self.names = DistinctStrings()
        self.record = 0
        self._tables = tuple(name for name in names if name in RECORD_TABLES)
        self._events = events
        self._pointer_size = pointer_size
        self._combined = CombinedNames(findings)
        self._functions: AddressSpace | None = None
        self._name_codes: dict[int, int] = {}

    def drop_unused_names(self) -> None:
        """Forget all names if there are very many; codes of different batches then differ."""
        if len(self.names.values) <= MAX_NAMES and self.names.size <= MAX_NAMES * 64:
            return
        self.names, self._name_codes = DistinctStrings(), {}

    def of_chunk(self, chunk: Chunk) -> dict[str, Columns]:
        """Return the tables of a chunk; none for bytes that are not a record."""
        if chunk.gap is not None:
            return {}
        tables = {name: RECORD_TABLES[name](self, chunk) for name in self._tables}
        self.record += len(chunk)
        return tables

    def function_names(self, chunk: Chunk, addresses: Array) -> Array:
        """Return the codes of the names of the functions at addresses (int32)."""
        if chunk.functions is not self._functions:
            self._functions, self._name_codes = chunk.functions, {}
        codes, first = number_distinct(addresses)
        distinct = addresses[first].tolist()
        if len(self._name_codes) > MAX_ADDRESSES:
            self._name_codes.clear()
        for address in distinct:
            if address not in self._name_codes:
                self._name_codes[address] = self.names.code(chunk.functions.name_at(address))
        return np.array([self._name_codes[address] for address in distinct], np.int32)[codes]

    def records(self, chunk: Chunk) -> Columns:
        """Return the columns of all records."""
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
            "time": chunk.nanoseconds.copy(),
            "depth": _FIELDS["depth"].get(words).astype(np.int16),
            "address": address,
            "name": Categories(name, self.names.values),
        }

    def args(self, chunk: Chunk) -> Columns:
        """Return the values of payloads."""
        values, code = payload_columns(chunk, self.names, self._combined), self.names.code
        labels = values.of_specs(lambda spec: code(spec.label), np.int32)
        types = values.of_specs(lambda spec: code(spec.type) if spec.type else -1, np.int32)
        names = self.names.values
        return {
            "record": values.row + self.record,
            "name": Categories(labels, names),
            "format": Categories(values.of_specs(lambda spec: FORMATS.index(spec.format), np.int8), FORMATS),
            "size": values.of_specs(lambda spec: spec.size, np.int16),
            "bits": values.bits,
            "text": Categories(values.text, names),
            "type": Categories(types, names),
            "meaning": Categories(values.meaning, names),
        }

    def structs(self, chunk: Chunk) -> Columns:
        """Return the structures in payloads."""
        values = structures(chunk)
        return {
            "record": np.array(values.row, np.int64) + self.record,
            "name": self._texts(values.label),
            "type": self._texts(values.type),
            "bytes": Bytes(values.data),
        }

    def payloads(self, chunk: Chunk) -> Columns:
        """Return the payloads as they are."""
        rows = np.flatnonzero(_FIELDS["more"].get(chunk.words))
        return {"record": rows + self.record, "payload": Bytes(chunk.payloads(rows))}

    def _texts(self, texts: Sequence[str | None]) -> Categories:
        codes = [-1 if text is None else self.names.code(text) for text in texts]
        return Categories(np.array(codes, np.int32), self.names.values)

    def events(self, chunk: Chunk) -> Columns:
        """Return the events."""
        rows = _event_rows(chunk)
        ids = _FIELDS["address"].get(chunk.words[rows])
        names = np.array([self.names.code(self._events.name(event)) for event in ids.tolist()], np.int32)
        return {
            "record": rows + self.record,
            "tid": np.full(len(rows), chunk.tid),
            "time": chunk.nanoseconds[rows],
            "id": ids,
            "name": Categories(names, self.names.values),
        }

    def event_values(self, chunk: Chunk) -> Columns:
        """Return the values in the data of events; there are few, so they are decoded one by one."""
        rows = _event_rows(chunk)
        values: list[tuple[int, str, int]] = []
        ids = _FIELDS["address"].get(chunk.words[rows]).tolist()
        for row, event, payload in zip(rows.tolist(), ids, chunk.payloads(rows), strict=True):
            data = data_of(payload or None, chunk.order)
            named = values_of(event, data, chunk.order, self._pointer_size)
            values += [(row, name, value) for name, value in named.items()]
        bits = np.array([value % 2**64 for _, _, value in values], np.uint64)
        meaning = np.full(len(values), -1, np.int32)
        of_address = [number for number, (_, name, _) in enumerate(values) if name in ADDRESSES]
        meaning[of_address] = symbol_codes(bits[of_address], chunk.functions, self.names)
        return {
            "record": np.array([row for row, _, _ in values], np.int64) + self.record,
            "name": self._texts([name for _, name, _ in values]),
            "bits": bits,
            "meaning": Categories(meaning, self.names.values),
        }

    def lost(self, chunk: Chunk) -> Columns:
        """Return the places at which records were lost."""
        rows = np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.LOST)
        return {
            "record": rows + self.record,
            "tid": np.full(len(rows), chunk.tid),
            "offset": chunk.offsets()[rows],
            "count": _FIELDS["address"].get(chunk.words[rows]),
        }


def _event_rows(chunk: Chunk) -> Array:
    return np.flatnonzero(_FIELDS["type"].get(chunk.words) == RecordType.EVENT)


RECORD_TABLES: dict[str, Callable[[TableBuilder, Chunk], Columns]] = {
    "records": TableBuilder.records,
    "args": TableBuilder.args,
    "structs": TableBuilder.structs,
    "payloads": TableBuilder.payloads,
    "events": TableBuilder.events,
    "event_values": TableBuilder.event_values,
    "lost": TableBuilder.lost,
}
"""The tables of records, by name."""


def specs() -> dict[str, TableSpec]:
    """Return the columns of all tables."""
    return SPECS


class RowCollector:
    """Joins the parts of tables."""

    def __init__(self, names: Sequence[str]) -> None:
        self._tables = {name: GrowingTable() for name in names}

    def add(self, tables: dict[str, Columns], share: float = 0.0) -> None:
        """Append rows to tables; `share` is the read part of the trace (0 to 1), or 0 if it is unknown."""
        for name, columns in tables.items():
            self._tables[name].append(columns, share)

    def tables(self) -> dict[str, Table]:
        """Return the whole tables."""
        return {name: Table(table.columns()) for name, table in self._tables.items()}
