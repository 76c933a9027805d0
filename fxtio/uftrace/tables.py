"""The tables of records, their columns, and how they are made from chunks; `small_files` has the other tables.

- Every record table is a function from a chunk to columns.  Times are nanoseconds (int64), names are
  dictionary-encoded, and `record` is the number of a record in the whole trace, by which tables can be joined.
- `args` and `structs` decode payloads, see `fxtio.uftrace.values`: one row for each value, in the order of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.strings import DistinctStrings
from fxtio.finding import Findings
from fxtio.table import Bytes, Categories, Column, GrowingTable, Table
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import ADDRESSES, EventsFile, data_of, values_of
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import DEPTHS, RecordWord
from fxtio.uftrace.state import AddressSpace
from fxtio.uftrace.values import FORMATS, CombinedNames, payload_columns, structures, symbol_codes

Columns = dict[str, Column]

TYPES = tuple(kind.name.lower() for kind in RecordType)
"""The texts of the column `type` of the table `records`, by code."""

WHOLE, NO_EXIT, NO_ENTRY, OPEN = range(4)
STATES = ("whole", "no_exit", "no_entry", "open")
"""The states of a call: with entry and exit; ended by a later record; begun before the file; not ended."""

MAX_NAMES = 1 << 16
"""The number of names above which reading by batches drops the names that are not in use."""

MAX_ADDRESSES = 1 << 18
"""The largest number of addresses whose names are cached."""

_FIELDS = RecordWord.fields
_STEPS = np.array([{RecordType.ENTRY: 1, RecordType.EXIT: -1}.get(kind, 0) for kind in RecordType], np.int8)
_LAST_DEPTH = DEPTHS - 1
_HEADER = 16


# ---- calls


@dataclass(slots=True)
class OpenCalls:
    """Calls that have not ended yet, outermost first.

    Attributes:
        depth: their depths (int64).
        address: addresses inside their functions (uint64).
        start: the times of their entries in nanoseconds (int64).
        name: the codes of their names (int32).
        entry: the numbers of their entry records (int64).
    """

    depth: Array
    address: Array
    start: Array
    name: Array
    entry: Array

    @classmethod
    def empty(cls) -> OpenCalls:
        """Return no calls."""
        integers = np.empty(0, np.int64)
        return cls(integers, np.empty(0, np.uint64), integers, np.empty(0, np.int32), integers)


@dataclass(slots=True)
class EndedCalls:
    """Calls that have ended.

    Attributes:
        name: the codes of their names (int32).
        start: nanoseconds (int64).
        end: nanoseconds (int64).
        depth: the number of calls around each (int64).
        address: addresses inside their functions (uint64).
        state: codes in `STATES` (int8).
        entry: the numbers of their entry records, or -1 (int64).
        exit: the numbers of their exit records, or -1 (int64).
        ended_by: the numbers of the records that ended them, exits or not; -1 if there is none (int64).
    """

    name: Array
    start: Array
    end: Array
    depth: Array
    address: Array
    state: Array
    entry: Array
    exit: Array
    ended_by: Array

    @classmethod
    def joined(cls, parts: list[EndedCalls]) -> EndedCalls:
        """Concatenate calls."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))


EndAfter = Callable[[int, int], int]
"""Returns when the calls of a task end that are open after its records up to a time, see `Reading.end_after`."""


def _at_once(tid: int, time: int) -> int:
    """Return the time of the last record."""
    return time


def _no_codes(addresses: Array) -> Array:
    """Return a code for each address, for calls whose names are not used."""
    return np.zeros(len(addresses), np.int32)


class CallPairing:
    """Pairs the entries and exits of one task.

    The depth of a record decides: it ends every open call that is deeper.  So a call whose exit is missing (after
    `longjmp` or lost records) ends at the first record that shows that it has ended, and an exit without an entry (in a
    child after `fork`) is a call that began before the file: at the fork, or with the first record.  After `exec`, the
    next program of the task begins without calls.

    If the call at the depth of an exit is that of another function, the exit ends the innermost call of its function.
    Some tracers (the QEMU plugin) number the depths of exits from 0 and those of entries from 1.  This is assumed of a
    task that begins with an entry of depth 1, from its first exit that is one lower than the entry of the same function
    directly before it, if no record before has contradicted, until one does: an entry of depth 0, or an exit that has
    the depth of the entry of the same function directly before it.  The depths of these exits are corrected.

    Attributes:
        open: the calls that have not ended.
        depth: the depths of the records of the last chunk, not wrapped and corrected (int64).
        address: addresses inside the functions of its records (uint64).
        step: 1 for its entries, -1 for its exits, 0 for other records (int8).
        first: the time from which on calls without an entry ran, in nanoseconds; None before the first entry or exit.
        wraps: whether calls are deeper than a record can hold.
    """

    def __init__(self) -> None:
        self.open = OpenCalls.empty()
        self.depth = np.empty(0, np.int64)
        self.address = np.empty(0, np.uint64)
        self.step = np.empty(0, np.int8)
        self.first: int | None = None
        self.wraps = False
        self._laps = 0  # the number of times that the depth has wrapped around
        self._previous: tuple[int, int] = (0, 0)  # the step and depth of the last entry or exit
        self._before: tuple[int, int, int] = (0, 0, 0)  # the step, depth and address of the record before the chunk
        self._exits_lower: bool | None = None  # whether exits have lower depths than entries, None if not known yet
        self._has_calls = False  # whether there was an entry or exit
        self._last = 0  # the time of the last record
        self._program = 0

    def leave_program(self, chunk: Chunk, end_after: EndAfter = _at_once) -> EndedCalls | None:
        """Return the calls that the exec before a chunk ended, None if there was no exec.

        If this is not called before the other methods, these calls are forgotten.

        Args:
            chunk: the next records.
            end_after: returns when calls end that are open after the last record; the default is for times that are not
                used.
        """
        if chunk.program == self._program:
            return None
        step = _STEPS[_FIELDS["type"].get(chunk.words).view(np.int64)]
        rows = np.flatnonzero(step)[:1]
        if not len(rows) or step[rows[0]] < 0 or _FIELDS["depth"].get(chunk.words[rows])[0]:
            return None  # only an outermost entry begins a program; an exit is that of a call before
        ended = self._ended_at_last(chunk.tid, NO_EXIT, end_after)
        self._program, self._laps, self._previous, self._before = chunk.program, 0, (0, 0), (0, 0, 0)
        return ended

    def ended_in(self, chunk: Chunk, record: int, codes_of: Callable[[Array], Array] = _no_codes) -> EndedCalls:
        """Return the calls that end in a chunk.

        Args:
            chunk: the records.
            record: the number of the first record.
            codes_of: returns the codes of the names of the functions at addresses; the default is for names that are
                not used.
        """
        before = self.open
        return self._ended(before, *self.pair(chunk, record, codes_of), chunk.nanoseconds, record, codes_of)

    def pair(
        self, chunk: Chunk, record: int = 0, codes_of: Callable[[Array], Array] = _no_codes
    ) -> tuple[Array, Array, Array]:
        """Return the calls that end in a chunk by their rows; the arguments are those of `ended_in`.

        Returns:
            The rows of their entries, -1, -2, ... for calls that were open before (int64); the rows of the records that
            end them, rising (int64); their states, codes in `STATES` (int8).
        """
        self.leave_program(chunk)
        words = chunk.words
        kinds = _FIELDS["type"].get(words).view(np.int64)
        step = _STEPS[kinds]
        depth = _FIELDS["depth"].get(words).view(np.int64)
        address = _FIELDS["address"].get(words)
        times = chunk.nanoseconds
        previous = self._previous
        rows = np.flatnonzero(step) if not step.all() else None
        timed = np.flatnonzero(kinds != RecordType.LOST)[-1:] if rows is not None else np.array([-1])
        if len(step) and len(timed):
            self._last = int(times[timed[0]])
        if len(step) and (rows is None or len(rows)):
            last = -1 if rows is None else int(rows[-1])
            self._previous = int(step[last]), int(depth[last])
            if self.first is None:
                self.first = int(times[0 if rows is None else int(rows[0])])
                if chunk.forked is not None:
                    self.first = min(self.first, chunk.forked)
        if self._laps or _LAST_DEPTH in (previous[1], int(depth.max(initial=0))):
            depth, address = self._unwrapped(previous, step, depth, address)
        if self._exits_lower is not False and len(step):
            depth = self._corrected(step, depth, address)
        self.depth, self.address, self.step = depth, address, step
        before, height = self.open, len(self.open.depth)
        size = height + len(step)
        # The stack of open calls; an entry is a row of the chunk, or -1, -2, ... for calls that were open before.
        depths, addresses, entries = np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size, np.int64)
        depths[:height], addresses[:height] = before.depth, before.address
        entries[:height] = np.arange(-1, -height - 1, -1)
        begin, end, state = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
        count, height = _native.pair(step, depth, address, depths, addresses, entries, begin, end, state, height)
        entries = entries[:height]
        self.open = OpenCalls(
            depths[:height].copy(), addresses[:height].copy(), _chosen(entries, times, before.start),
            _chosen_codes(entries, address, before.name, codes_of), _chosen(entries, None, before.entry, record),
        )  # fmt: skip
        return begin[:count], end[:count], state[:count].view(np.int8)

    def _ended(
        self, before: OpenCalls, begin: Array, end: Array, state: Array, times: Array, record: int,
        codes_of: Callable[[Array], Array],
    ) -> EndedCalls:  # fmt: skip
        start, entry = _chosen(begin, times, before.start), _chosen(begin, None, before.entry, record)
        exits = end + record
        if (state != WHOLE).any():
            without_entry = state == NO_ENTRY
            start[without_entry] = self.first
            entry[without_entry] = -1
            exits = np.where(state == NO_EXIT, -1, exits)
        return EndedCalls(
            _chosen_codes(begin, self.address, before.name, codes_of), start, times[end],
            _chosen(begin, self.depth, before.depth), _chosen(begin, self.address, before.address), state, entry, exits,
            end + record,
        )  # fmt: skip

    def finish(self, tid: int, end_after: EndAfter) -> EndedCalls:
        """Return the calls of the task that are open at the end of the file; `end_after` returns when they end."""
        return self._ended_at_last(tid, OPEN, end_after)

    def _ended_at_last(self, tid: int, state: int, end_after: EndAfter) -> EndedCalls:
        """Return the open calls as ended after the last record, the innermost first, and forget them."""
        rest, self.open = self.open, OpenCalls.empty()
        order = np.arange(len(rest.depth) - 1, -1, -1)
        end = end_after(tid, self._last) if len(order) else 0
        return EndedCalls(
            rest.name[order], rest.start[order], np.full(len(order), end), rest.depth[order],
            rest.address[order], np.full(len(order), state, np.int8), rest.entry[order],
            np.full(len(order), -1, np.int64), np.full(len(order), -1, np.int64),
        )  # fmt: skip

    @property
    def has_lower_exits(self) -> bool:
        """Return whether the depths of exits are one lower than those of entries."""
        return self._exits_lower is True

    def skip(self) -> None:
        """Go on after bytes that are not a record."""
        self._before = (0, 0, 0)

    def _corrected(self, step: Array, depth: Array, address: Array) -> Array:
        """Return the depths of the records of a chunk; those of exits that are one too low are raised by one."""
        steps, depths = np.append(self._before[0], step), np.append(self._before[1], depth)
        addresses = np.append(np.uint64(self._before[2]), address)
        leaf = (steps[:-1] > 0) & (step < 0) & (addresses[:-1] == address)
        lower, usual = leaf & (depths[:-1] == depth + 1), leaf & (depths[:-1] == depth)
        usual |= (step > 0) & (depth == 0)
        if not self._has_calls and step.any():
            self._has_calls = True
            first = int(step.astype(np.bool_).argmax())
            usual[first] |= step[first] < 0 or depth[first] != 1
        count = len(step)
        begin = 0 if self._exits_lower else int(lower.argmax()) if lower.any() else count
        end = int(usual.argmax()) if usual.any() else count
        if end < count:
            self._exits_lower = False
        elif begin < count:
            self._exits_lower = True
        self._before = int(step[-1]), int(depth[-1]), int(address[-1])
        rows = np.arange(count)
        corrected: Array = depth + ((step < 0) & (begin <= rows) & (rows < end))
        return corrected

    def _unwrapped(self, previous: tuple[int, int], step: Array, depth: Array, address: Array) -> tuple[Array, Array]:
        """Return depths and addresses without wrapping: a depth of 1024 is stored as 0 and a carry into the address."""
        rows = np.flatnonzero(step)
        steps = np.concatenate([[previous[0]], step[rows]])
        depths = np.concatenate([[previous[1]], depth[rows]])
        up = (steps[:-1] > 0) & (steps[1:] > 0) & (depths[:-1] == _LAST_DEPTH) & (depths[1:] == 0)
        down = (steps[:-1] < 0) & (steps[1:] < 0) & (depths[:-1] == 0) & (depths[1:] == _LAST_DEPTH)
        laps = self._laps + np.cumsum(up.astype(np.int64) - down)
        laps -= np.minimum(
            np.minimum.accumulate(np.minimum(laps, 0)), 0
        )  # the depth cannot fall below that of the first record
        self._laps = int(laps[-1]) if len(laps) else self._laps
        self.wraps = self.wraps or bool(laps.any())
        depth, address = depth.copy(), address.copy()
        depth[rows] += laps * DEPTHS
        address[rows] -= laps.view(np.uint64)
        return depth, address


def _chosen(begin: Array, chunk: Array | None, before: Array, record: int = 0) -> Array:
    """Return a value for each call.

    Args:
        begin: the rows of the entries in the chunk; -1, -2, ... for calls that were open before.
        chunk: the values by row of the chunk; None for the numbers of the records.
        before: the values of the calls that were open before.
        record: the number of the first record of the chunk.
    """
    if not len(begin) or int(begin.min()) >= 0:
        return begin + record if chunk is None else chunk[begin]
    rows = np.maximum(begin, 0)
    values = rows + record if chunk is None else chunk[rows] if len(chunk) else np.zeros(len(begin), before.dtype)
    old = np.flatnonzero(begin < 0)
    values[old] = before[-1 - begin[old]]
    return values


def _chosen_codes(begin: Array, address: Array, before: Array, codes_of: Callable[[Array], Array]) -> Array:
    """Return the codes of the names of calls; the arguments are those of `_chosen`."""
    if not len(begin) or int(begin.min()) >= 0:
        return codes_of(address[begin])
    codes = np.empty(len(begin), np.int32)
    new = begin >= 0
    codes[new] = codes_of(address[begin[new]])
    codes[~new] = before[-1 - begin[~new]]
    return codes


# ---- record tables


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
