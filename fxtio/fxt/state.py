"""Keep the state that earlier records define for later ones: providers, clocks, and slots of strings and threads.

`Reading` takes frames in the order of the file and turns each into a `Batch`, which resolves references.  Distinct
strings and threads get codes that are valid for the whole reading.  The slots of a provider map to
codes, see `reference_columns`.
spec: Provider section metadata, String record, Thread record, Initialization record
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fxtio import _native
from fxtio.arrays import Array
from fxtio.codec.columns import (
    Block,
    Columns,
    ManyColumn,
    Members,
    Oddity,
    OptionalColumn,
    StreamColumn,
    columns_of,
    members_of,
    tick_places,
)
from fxtio.codec.distinct import DistinctStrings
from fxtio.codec.generate import decode
from fxtio.codec.record import Record
from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.fxt import faults
from fxtio.fxt.enums import ArgumentType, Scope
from fxtio.fxt.frames import MAX_HEAD_WORDS, UNKNOWN, Frame, decode_exactly
from fxtio.fxt.records import (
    ARGUMENTS,
    KINDS,
    RECORDS,
    DurationComplete,
    Initialization,
    Instant,
    KernelObject,
    ProviderInfo,
    ProviderSection,
    String,
    ThreadRecord,
    TraceInfo,
    UserspaceObject,
)
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.slots import (
    NO_DEFINITIONS,
    UNDEFINED,
    Clock,
    Definitions,
    SlotLookup,
    SlotTables,
    Threads,
    first_wall_clock,
    times_of,
)

MAX_PROVIDERS = 1024
"""The greatest number of providers of a reading; the records of all further ones are read as those of one provider."""

MAX_CLOCKS = 65_536
"""The greatest number of distinct clocks of a reading."""

MAX_OBJECTS = 65_536
"""The greatest number of objects whose names a reading keeps for arguments that refer to them."""

MAX_UNUSED = 100_000
"""A reading with more strings, or more threads, than this drops those that no slot refers to any more.

If more than half of it is still in use then, the next drop waits until there is twice as much as stayed.
"""

_MEAN_LENGTH = 64  # more characters than this times `MAX_UNUSED` in all strings are too many, too

KERNEL = -1
"""The process of kernel objects in the keys of objects: their koids are the same in all processes."""


# ---- batches


ObjectKey = tuple[int | None, int]
"""An object: the koid of its process, or `KERNEL`, and its pointer or koid; None is a process that is not known."""


@dataclass(frozen=True, slots=True)
class ProviderName:
    """A provider as its provider info record introduces it.

    Attributes:
        id: its id.
        name: its name; empty if no provider info record introduced it.
    """

    id: int
    name: str


_FEW = 32  # the rows of a class are not worth sorting all rows if it has less than one in this many


class Batch:
    """Records of a trace that follow each other, with what is needed to resolve their references.

    Attributes:
        reading: the state of the reading; `reading.providers[provider]` is the provider of a record.
        strings: the strings that the codes of this batch mean.
        threads: the threads that the codes of this batch mean.
        frame: the records.
        provider: the index of each record's provider: one int for all, or int32 per record.
        resets: the rows at which a provider is introduced once more, with its index: its tables are empty from there.
    """

    def __init__(self, reading: Reading, frame: Frame) -> None:
        self.reading = reading
        self.strings = reading.strings
        self.threads = reading.threads
        self.frame = frame
        self.provider: int | Array = reading.current
        self.resets: dict[int, int] = {}
        self._columns: dict[type[Record], tuple[Array, Columns]] = {}
        self._arguments: dict[type[Record], tuple[Array, Members]] = {}
        self._refusals = 0  # of records that could not be decoded
        kinds = frame.kind.tobytes()  # searching bytes for a number is much faster than comparing an array with it
        self._classes = [cls for kind, cls in enumerate(RECORDS.classes) if kind in kinds]
        self._order: Array | None = None  # all rows, class by class
        self._begins: list[int] = []  # where each class begins in them
        self._string_slots: SlotLookup
        self._thread_slots: SlotLookup
        self._clocks: SlotLookup
        self._objects: SlotLookup

    def __len__(self) -> int:
        return len(self.frame.at)

    @property
    def string_slots(self) -> SlotLookup:
        """The string tables of the providers, and what the batch defines in them."""
        return self._string_slots

    @property
    def thread_slots(self) -> SlotLookup:
        """The thread tables of the providers, and what the batch defines in them."""
        return self._thread_slots

    @property
    def clock_slots(self) -> SlotLookup:
        """The clocks of the providers, each in slot 0, and what the batch defines of them."""
        return self._clocks

    def clock_at(self, provider: int, row: int) -> Clock:
        """Return the clock that a provider has at a record."""
        code = self._clocks.codes(provider, np.zeros(1, np.int64), np.array([row]))
        return self.reading.clocks[int(code[0])]

    def rows(self, cls: type[Record]) -> Array:
        """Return the numbers of the batch's records of a class (int64, ascending)."""
        is_of_class = self.frame.kind == KINDS[cls]
        if self._order is None and np.count_nonzero(is_of_class) * _FEW < len(self):
            return np.flatnonzero(is_of_class)
        if self._order is None:
            self._order, begins = np.empty(len(self), np.int64), np.empty(len(RECORDS.classes) + 1, np.int64)
            _native.group_rows(self.frame.kind, self._order, begins)
            self._begins = begins.tolist()
        return self._order[self._begins[KINDS[cls]] : self._begins[KINDS[cls] + 1]]

    def classes(self) -> list[type[Record]]:
        """Return the record classes that occur."""
        return self._classes

    def columns(self, cls: type[Record]) -> tuple[Array, Columns]:
        """Return the records of a class: their numbers, and their columns, see `fxtio.codec.columns.columns_of`.

        Records that cannot be decoded are reported and left out.
        """
        if cls not in self._columns:
            rows = self.rows(cls)
            at, size = self.frame.at, self.frame.size
            if len(rows) < len(at):
                at, size = at.take(rows), size.take(rows)
            oddities: list[Oddity] = []
            columns, bad = columns_of(cls, self.frame.block, at, size, oddities)
            if bad is not None:
                for row in rows[bad].tolist():
                    self._report_bad(row)
                rows = rows[~bad]
                oddities = []
                columns, _ = columns_of(cls, self.frame.block, self.frame.at[rows], self.frame.size[rows], oddities)
            for column in columns.values():
                if isinstance(column, ManyColumn) and len(column.broken):
                    oddities.insert(0, Oddity("arg.size", column.broken, ""))
            self._columns[cls] = rows, columns
            for oddity in _oddities_of(cls, columns, oddities):
                self._report_oddity(cls, oddity.rule, rows[oddity.rows], oddity.message)
        return self._columns[cls]

    def ticks(self, cls: type[Record]) -> list[tuple[Array, Array]]:
        """Return for every field of a class that holds ticks the records' numbers, and the indices of the words.

        The records are those of `columns`, without those that lack an optional field.
        """
        rows, columns = self.columns(cls)
        places = tick_places(cls, self.frame.block, self.frame.at[rows], self.frame.size[rows])
        fields = []
        for name, at in places.items():
            column = columns[name]
            present = column.present if isinstance(column, OptionalColumn) else slice(None)
            fields.append((rows[present], at[present]))
        return fields

    def arguments(self, cls: type[Record]) -> tuple[Array, Members]:
        """Return the numbers of the batch's records of a class, and their arguments.

        An argument that is too short is reported and left out.  A class without arguments has none in any record.
        """
        if cls not in self._arguments:
            rows, columns = self.columns(cls)
            empty = np.empty(0, np.int64)
            none = ManyColumn(np.zeros(len(rows), np.int64), empty, empty, empty.astype(np.int8), empty)
            oddities: list[Oddity] = []
            members = members_of(ARGUMENTS, self.frame.block, columns.get("args", none), oddities)
            for rule, numbers, message in faults.of_arguments(self.frame.block.words, members):
                self.report(rule, rows[numbers], message)
            if int(members.many.kind.min(initial=0)) < 0:
                owners = np.repeat(np.arange(len(rows)), members.many.count)
                message = "an argument of a type that the specification does not define"
                oddities.append(Oddity("arg.unknown", owners[members.many.kind < 0], message))
            self._arguments[cls] = rows, members
            for oddity in oddities:
                self._report_odd_arguments(oddity, rows[oddity.rows])
        return self._arguments[cls]

    def check(self) -> None:
        """Report whatever is wrong with the batch's records, except references to slots that are not defined."""
        for cls in self.classes():
            self.arguments(cls)

    def _report_oddity(self, cls: type[Record], rule: str, rows: Array, message: str) -> None:
        """Report what is odd about records of a class, as exactly as it can be told."""
        if faults.can_refine(cls, rule):
            for (refined, text), numbers in faults.refined(self.frame, cls, rule, rows, self._is_right):
                self.report(refined, numbers, text)
        elif rule == "bits.unknown-value":
            self.report(faults.undefined_value(cls), rows, message)
        else:
            self.report(rule, rows, message)

    def _report_odd_arguments(self, oddity: Oddity, rows: Array) -> None:
        """Report what is odd about arguments of some records."""
        rule, _, message, kind = oddity
        if rule == "framing.record-long":
            rule, message = "arg.long", "an argument has more words than its content"
        elif rule == "bits.reserved" and kind == ArgumentType.BOOL:
            rule, message = "arg.bool-bit", "a boolean argument has bits beside its value"
        self.report(rule, rows, message)

    def _is_right(self, words: Array) -> bool:
        """Return whether some words are a record that is encoded to the same bytes, without a scope."""
        block = Block(words, words.byteswap() if self.frame.big_endian else words)
        record = decode_exactly(block, 0, len(words), self.frame.big_endian)
        return isinstance(record, Record) and getattr(record, "scope", None) is None

    def provider_of(self, rows: Array) -> int | Array:
        """Return the index of the provider of some records: an int for all, or int32 per record."""
        return self.provider if isinstance(self.provider, int) else self.provider[rows]

    def provider_ids(self, rows: Array) -> Array:
        """Return the provider ids of some records (uint32)."""
        ids = np.array([provider.id for provider in self.reading.providers], np.uint32)
        return np.broadcast_to(ids[self.provider_of(rows)], len(rows))

    def string_codes(self, column: StringColumn, rows: Array) -> Array:
        """Return the codes of a string column in `strings` (int32); a slot that is not defined is -1 and reported."""
        codes = self._string_codes(column, rows)
        if len(codes) and int(codes.min()) < 0:
            undefined = codes < 0
            message = f"string slot {int(column.slot[undefined][0])} was not defined before it is used"
            self.report("string.undefined", rows[undefined], message)
        return codes

    def _string_codes(self, column: StringColumn, rows: Array) -> Array:
        codes = self._string_slots.codes(self.provider_of(rows), column.slot, rows)
        if len(column.rows):
            codes[column.rows] = self.strings.codes(column.stream)
        return codes

    def thread_codes(self, column: ThreadColumn, rows: Array) -> Array:
        """Return the codes of a thread column in `threads` (int32); a slot that is not defined is -1 and reported."""
        codes = self._thread_codes(column, rows)
        if len(codes) and int(codes.min()) < 0:
            undefined = codes < 0
            message = f"thread slot {int(column.slot[undefined][0])} was not defined before it is used"
            self.report("thread.undefined", rows[undefined], message)
        return codes

    def _thread_codes(self, column: ThreadColumn, rows: Array) -> Array:
        codes = self._thread_slots.codes(self.provider_of(rows), column.slot, rows)
        if len(column.rows):
            codes[column.rows] = self.threads.codes(column.process, column.thread, column.has_thread)
        return codes

    def processes(self, cls: type[Record]) -> list[int | None]:
        """Return the process koid of each record of a class; None where its thread slot is not defined.

        Raises:
            StopIteration: the records of the class have no thread.
        """
        rows, columns = self.columns(cls)
        column = next(column for column in columns.values() if isinstance(column, ThreadColumn))
        codes = self._thread_codes(column, rows)
        koids: list[int | None] = self.threads.koids()[:, 0].take(codes).tolist()
        for row in np.flatnonzero(codes < 0).tolist():
            koids[row] = None
        return koids

    def object_names(self, keys: Iterable[ObjectKey], rows: Array) -> Array:
        """Return the codes of the names that objects have at some records (int32), -1 for an object without a name.

        No object has a name unless the reading keeps them.

        Args:
            keys: the keys of the objects.
            rows: the numbers of the records, ascending (int64).
        """
        names = np.full(len(rows), UNDEFINED, np.int32)
        numbers = self.reading.object_numbers
        if numbers:
            slots = np.array([numbers.get(key, -1) for key in keys], np.int64)
            known = np.flatnonzero(slots >= 0)
            names[known] = self._objects.codes(0, slots[known], 2 * rows[known] + 1)
        return names

    @property
    def only_clock(self) -> int | None:
        """The code of the clock of all records, None if there are several."""
        return self._clocks.only(self.provider)

    def clock_codes(self, ticks: Array, rows: Array) -> Array:
        """Return the code of the clock that each record's provider has at that record (uint16).

        Times beyond int64 nanoseconds are reported.

        Args:
            ticks: ticks of the records (uint64).
            rows: the numbers of the records.
        """
        only = self.only_clock
        if only is None:
            slots = np.zeros(len(rows), np.uint8)
            codes = self._clocks.codes(self.provider_of(rows), slots, rows).astype(np.uint16)
            present = np.unique(codes).tolist()
        else:
            codes, present = np.broadcast_to(np.uint16(only), len(rows)), [only]
        if len(rows):
            latest = np.array([self.reading.clocks[code].latest for code in present], np.uint64)
            if ticks.max() > latest.min():
                over = rows[ticks > latest[np.searchsorted(present, codes)]]
                if len(over):
                    self.report("time.overflow", over)
        return codes

    def times(self, ticks: Array, rows: Array) -> Array:
        """Return ticks in nanoseconds (int64), by the clock that each record's provider has at that record."""
        codes = self.clock_codes(ticks, rows)
        only = self.only_clock
        return times_of(self.reading.clocks, codes, ticks) if only is None else self.reading.clocks[only].to_ns(ticks)

    def report(self, rule: str, rows: Array, message: str = "") -> None:
        """Add a finding about some records, at the offset of the first."""
        offset = self.frame.offset(int(rows[0]))
        self.reading.findings.add(rule, offset, message, times=len(rows))

    def _report_bad(self, row: int) -> None:
        """Decode one bad record for the message that says what is wrong with it."""
        at, size = int(self.frame.at[row]), int(self.frame.size[row])
        native, data = self.frame.block.words[at : at + size], self.frame.block.data[at * 8 : (at + size) * 8]
        try:
            decode(RECORDS, native[:MAX_HEAD_WORDS].tolist(), data, 0, size, [])
        except DecodeError as error:
            self._refusals += 1
            is_right = self._is_right if self._refusals <= faults.MAX_EXAMINED else None
            cls = RECORDS.classes[int(self.frame.kind[row])]
            rule, message = faults.refusal(cls, error.rule, error.message, native, is_right)
            self.reading.findings.add(rule, self.frame.offset(row), message)


def _oddities_of(cls: type[Record], columns: Columns, oddities: list[Oddity]) -> list[Oddity]:
    """Return the oddities of records of a class with those that only this format knows."""
    if cls is DurationComplete:
        early = columns["end"] < columns["timestamp"]
        if early.any():
            return [*oddities, Oddity("event.end-before-start", np.flatnonzero(early), "")]
    if cls is Instant and int(columns["scope"].values.max(initial=0)) > max(Scope):
        message = "the scope of an instant is none that has a meaning"
        return [*oddities, Oddity("event.scope", np.flatnonzero(columns["scope"].values > max(Scope)), message)]
    if cls is TraceInfo and len(columns["data"]):
        message = "a trace info record of a type that the specification does not define"
        return [*oddities, Oddity("framing.unknown-trace-info", np.arange(len(columns["data"])), message)]
    if cls is KernelObject:  # their names are any bytes
        return [oddity for oddity in oddities if oddity.rule != "text.not-utf8"]
    if cls is String and oddities:  # a record for slot 0 without a text fills a gap; its other words mean nothing
        is_filler = (columns["index"] == 0) & (columns["text"].length == 0)
        kept = [(oddity, oddity.rows[~is_filler[oddity.rows]]) for oddity in oddities]
        return [oddity._replace(rows=rows) for oddity, rows in kept if len(rows)]
    return oddities


class Reading:
    """The state of one reading of a trace.

    Args:
        findings: takes the faults.
        forget: from time to time, drop strings and threads that no slot refers to any more.  The codes of different
            batches cannot be compared then.
        name_objects: keep the names of objects, for `Batch.object_names`.

    Attributes:
        findings: takes the faults.
        strings: the distinct strings.
        threads: the distinct threads.
        providers: the providers, one entry for each pair of an id and a name.
        clocks: the clocks by code.
        clock_of: the last clock of every provider, by its index.
        current: the index of the provider that the next record belongs to.
        is_anonymous: `providers[0]` stands for records before any provider info record.
        object_numbers: the number of every object that an object record named.
    """

    def __init__(self, findings: Findings, *, forget: bool = False, name_objects: bool = False) -> None:
        self.findings = findings
        self.strings = DistinctStrings()
        self.threads = Threads()
        self.providers: list[ProviderName] = [ProviderName(0, "")]
        self.clocks: list[Clock] = [Clock()]
        self.clock_of: dict[int, Clock] = {}
        self.current = 0
        self._forget = forget
        self._object_classes = (KernelObject, UserspaceObject) if name_objects else ()
        self._most_strings = self._most_threads = MAX_UNUSED
        self._most_characters = MAX_UNUSED * _MEAN_LENGTH
        self.is_anonymous = True
        self._by_id: dict[int, int] = {0: 0}
        self._indices: dict[ProviderName, int] = {}
        self._clock_codes = {self.clocks[0]: 0}
        self._string_slots = SlotTables(0)
        self._thread_slots = SlotTables()
        self._clocks = SlotTables(0)
        self.object_numbers: dict[ObjectKey, int] = {}
        self._objects = SlotTables()

    @property
    def first_wall_clock(self) -> int | None:
        """The nanoseconds since the Unix epoch at tick 0 of the first provider that has them, by its last clock."""
        return first_wall_clock(self.clock_of[index] for index in sorted(self.clock_of))

    def enter(self, frame: Frame) -> Batch:
        """Return the batch of a frame, after following its providers and applying its definitions."""
        if self._forget:
            self._drop_unused()
        batch = Batch(self, frame)
        if (frame.kind == UNKNOWN).any():
            self._report_unknown(batch)
        batch.provider = self._follow_providers(batch)
        present = {*batch.classes()}

        def definitions(define: Callable[[Batch], Definitions], *classes: type[Record]) -> Definitions:
            return define(batch) if present & {*classes} else NO_DEFINITIONS

        strings = definitions(self._string_definitions, String)
        threads = definitions(self._thread_definitions, ThreadRecord)
        clocks = definitions(self._clock_definitions, Initialization)
        self._forget_clocks(batch, clocks)
        batch._string_slots = self._string_slots.enter(strings, batch.resets)
        batch._thread_slots = self._thread_slots.enter(threads, batch.resets)
        batch._clocks = self._clocks.enter(clocks, batch.resets)
        batch._objects = self._objects.enter(definitions(self._object_definitions, *self._object_classes))
        return batch

    def _report_unknown(self, batch: Batch) -> None:
        """Report records of unknown types."""
        rows = np.flatnonzero(batch.frame.kind == UNKNOWN)
        headers, inverse = np.unique(
            batch.frame.block.words[batch.frame.at[rows]] & np.uint64(faults.TYPE_BITS), return_inverse=True
        )
        for number, header in enumerate(headers.tolist()):
            rule, message = faults.undefined_type(header)
            batch.report(rule, rows[inverse == number], message)

    def _drop_unused(self) -> None:
        """Bound the memory for strings and threads.  Batches keep the lists that they refer to."""
        if len(self.strings.values) > self._most_strings or self.strings.size > self._most_characters:
            used = np.union1d(self._string_slots.used(), self._objects.used())
            self.strings = self.strings.only(used)
            self._string_slots.renumber(used)
            self._objects.renumber(used)
            self._most_strings = max(MAX_UNUSED, 2 * len(self.strings.values))
            self._most_characters = max(MAX_UNUSED * _MEAN_LENGTH, 2 * self.strings.size)
        if len(self.threads.values) > self._most_threads:
            used = self._thread_slots.used()
            self.threads = self.threads.only(used)
            self._thread_slots.renumber(used)
            self._most_threads = max(MAX_UNUSED, 2 * len(self.threads.values))

    def _follow_providers(self, batch: Batch) -> int | Array:
        """Return the index of each record's provider: an int for all, or int32 per record."""
        frame = batch.frame
        if not ((frame.kind == KINDS[ProviderInfo]) | (frame.kind == KINDS[ProviderSection])).any():
            return self.current
        rows, columns = batch.columns(ProviderInfo)
        names = [raw.decode("utf-8", "surrogateescape") for raw in columns["name"].to_bytes()]
        switches: list[tuple[int, int, str | None]]
        switches = list(zip(rows.tolist(), columns["provider_id"].tolist(), names, strict=True))
        rows, columns = batch.columns(ProviderSection)
        switches += [
            (row, number, None) for row, number in zip(rows.tolist(), columns["provider_id"].tolist(), strict=True)
        ]
        starts, indices = [0], [self.current]
        for row, number, name in sorted(switches, key=lambda switch: switch[0]):
            offset = frame.offset(row)
            if name is None:
                self.current = self._enter_section(number, offset)
            else:
                self.current = self._introduce(ProviderName(number, name), batch, row)
            starts.append(row)
            indices.append(self.current)
        return np.repeat(np.array(indices, np.int32), np.diff([*starts, len(frame.at)]))

    def _introduce(self, provider: ProviderName, batch: Batch, row: int) -> int:
        """Return the index for a provider info record.

        Its tables are empty even if the id was used before, as in Perfetto.  But some producers write the first
        provider info record after the first records; these belong to that provider too.
        """
        if self.is_anonymous and self.current == 0:
            self.is_anonymous = False
            self.providers[0] = provider
            self._by_id = {number: index for number, index in self._by_id.items() if index} | {provider.id: 0}
            self._indices[provider] = 0
            return 0
        index = self._indices.get(provider)
        if index is None:
            return self._add_provider(provider, batch.frame.offset(row))
        batch.resets[row] = self._by_id[provider.id] = index
        return index

    def _enter_section(self, number: int, offset: int) -> int:
        """Return the index for a provider section record."""
        index = self._by_id.get(number)
        if index is not None:
            return index
        message = f"a section of provider {number}, which no provider info record introduced"
        self.findings.add("provider.unknown", offset, message)
        return self._add_provider(ProviderName(number, ""), offset)

    def _add_provider(self, provider: ProviderName, offset: int) -> int:
        if len(self.providers) >= MAX_PROVIDERS:
            message = f"more than {MAX_PROVIDERS:,} providers; the others are read as one"
            self.findings.add("provider.too-many", offset, message)
            return MAX_PROVIDERS - 1
        self._by_id[provider.id] = self._indices[provider] = len(self.providers)
        self.providers.append(provider)
        return self._by_id[provider.id]

    def _string_definitions(self, batch: Batch) -> Definitions:
        rows, columns = batch.columns(String)
        stream: StreamColumn = columns["text"]
        index = columns["index"].astype(np.int64)
        used = index > 0  # spec: string records for slot 0 are ignored
        if not used.all():
            ignored = rows[~used & (stream.length > 0)]
            if len(ignored):
                batch.report("string.zero", ignored)
            rows, index, stream = rows[used], index[used], stream.take(used)
        return self._definitions(batch, rows, index, self.strings.codes(stream))

    def _thread_definitions(self, batch: Batch) -> Definitions:
        rows, columns = batch.columns(ThreadRecord)
        index = columns["index"].astype(np.int64)
        codes = self.threads.codes(columns["process"], columns["thread"], np.ones(len(rows), bool))
        used = index > 0  # spec: thread records for slot 0 are ignored
        if not used.all():
            batch.report("thread.zero", rows[~used])
        return self._definitions(batch, rows[used], index[used], codes[used])

    def _clock_definitions(self, batch: Batch) -> Definitions:
        """Return the definitions of clocks; a provider has one, in slot 0."""
        rows, columns = batch.columns(Initialization)
        base, wall = columns["base_ticks"], columns["wall_clock"]
        valid, codes = [], []
        for number, row in enumerate(rows.tolist()):
            rate = int(columns["ticks_per_second"][number])
            if rate == 0:
                self.findings.add("clock.zero-rate", batch.frame.offset(row))
                continue
            anchor = (int(base.values[number]), int(wall.values[number])) if wall.present[number] else (None, None)
            code = self._clock_code(Clock(rate, *anchor), batch, row)
            if code is not None:
                valid.append(row)
                codes.append(code)
        at = np.array(valid, np.int64)
        return self._definitions(batch, at, np.zeros(len(at), np.int64), np.array(codes, np.int32))

    def _forget_clocks(self, batch: Batch, definitions: Definitions) -> None:
        """Forget the last clock of each provider that is introduced once more, without a definition after that."""
        for provider, reset in {index: row for row, index in batch.resets.items()}.items():  # the last of each
            if not (definitions.row[definitions.provider == provider] > reset).any():
                self.clock_of.pop(provider, None)

    def _clock_code(self, clock: Clock, batch: Batch, row: int) -> int | None:
        """Return the code of the clock that a record defines, None if there are too many."""
        code = self._clock_codes.get(clock)
        if code is None and len(self.clocks) == MAX_CLOCKS:
            message = f"more than {MAX_CLOCKS:,} different clocks; this one is ignored"
            self.findings.add("clock.too-many", batch.frame.offset(row), message)
            return None
        if code is None:
            code = self._clock_codes[clock] = len(self.clocks)
            self.clocks.append(clock)
        provider = batch.provider if isinstance(batch.provider, int) else int(batch.provider[row])
        self.clock_of[provider] = clock
        return code

    def _object_definitions(self, batch: Batch) -> Definitions:
        """Return the names of objects; the number of an object is its slot.

        spec: Userspace object record, whose objects belong to a process; Kernel object record, whose objects are global
        """
        parts: list[tuple[int, int | None, int, int]] = []
        for cls, koid in ((KernelObject, "koid"), (UserspaceObject, "pointer")):
            if cls not in batch.classes():
                continue
            rows, columns = batch.columns(cls)
            processes = [KERNEL] * len(rows) if cls is KernelObject else batch.processes(cls)
            names = batch._string_codes(columns["name"], rows).tolist()
            parts += zip(rows.tolist(), processes, columns[koid].tolist(), names, strict=True)
        named = [
            (row, number, name)
            for row, process, koid, name in sorted(parts, key=lambda part: part[0])
            if process is not None and (number := self._object_number((process, koid), batch, row)) is not None
        ]
        row, slot, code = np.array(named, np.int64).reshape(-1, 3).T
        # The arguments of an object record may refer to the object itself, so a name is valid within its record.
        return Definitions(np.zeros(len(row), np.int32), slot, 2 * row, code.astype(np.int32))

    def _object_number(self, key: ObjectKey, batch: Batch, row: int) -> int | None:
        """Return the number of an object, None if there are too many."""
        number = self.object_numbers.get(key)
        if number is None and len(self.object_numbers) >= MAX_OBJECTS:
            message = f"more than {MAX_OBJECTS:,} objects; arguments that refer to this one do not have its name"
            self.findings.add("object.too-many", batch.frame.offset(row), message)
            return None
        if number is None:
            number = self.object_numbers[key] = len(self.object_numbers)
        return number

    def _definitions(self, batch: Batch, rows: Array, slot: Array, code: Array) -> Definitions:
        provider = batch.provider_of(rows)
        if isinstance(provider, int):
            provider = np.full(len(rows), provider, np.int32)
        return Definitions(provider, slot, rows, code)
