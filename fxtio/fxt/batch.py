"""A frame with everything that is needed to understand it: which provider each record belongs to, what slots mean.

`Session` is the reader's state.  It takes frames in the order of the file, keeps a state for every provider and turns
each frame into a `Batch`, whose references can be resolved at any later time.  spec: Provider section metadata
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.codec.columns import (
    Columns,
    KoidsColumn,
    ManyColumn,
    Members,
    OptionalColumn,
    StreamColumn,
    TextColumn,
    columns_of,
    members_of,
    tick_places,
)
from fxtio.codec.generate import decode
from fxtio.codec.names import Names
from fxtio.codec.record import Record
from fxtio.errors import DecodeError
from fxtio.finding import Findings, Level
from fxtio.fxt.arguments import ARGUMENTS
from fxtio.fxt.clock import Clock, times_of
from fxtio.fxt.framing import Frame
from fxtio.fxt.records import RECORDS, Initialization, ProviderInfo, ProviderSection, String, ThreadRecord
from fxtio.fxt.tables import Definitions, Lookup, Slots, Threads

Array = np.ndarray[Any, Any]

MAX_PROVIDERS = 1024
"""More providers than this share a state; it bounds what a hostile trace can make a reader keep."""

MAX_CLOCKS = 65_536
"""Likewise for different clocks."""

KEPT_NAMES = 100_000
"""How many names, and how many threads, a reading may gather before it looks which are still in use."""

KINDS = {cls: kind for kind, cls in enumerate(RECORDS.classes)}


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider as far as it is known.

    Attributes:
        id: its id.
        name: its name; empty where no provider info record gave one.
    """

    id: int
    name: str


class Batch:
    """Some records of a trace, with what is needed to resolve their references.

    Attributes:
        frame: the records.
        state: which provider state each record belongs to: one int for all, or int32 per record.
        session: the reader's state; `session.providers[state]` is the provider.
        names: the strings that the codes of this batch mean.
        threads: the threads that they mean.
    """

    def __init__(self, session: Session, frame: Frame) -> None:
        self.session = session
        self.names = session.names
        self.threads = session.threads
        self.frame = frame
        self.state: int | Array = session.current
        self._columns: dict[type[Record], tuple[Array, Columns]] = {}
        self._classes = [cls for kind, cls in enumerate(RECORDS.classes) if (frame.kind == kind).any()]
        self._strings: Lookup
        self._threads: Lookup
        self._clocks: Lookup

    def __len__(self) -> int:
        return len(self.frame.at)

    def rows(self, cls: type[Record]) -> Array:
        """The numbers of the batch's records of this class (int64, ascending)."""
        return np.flatnonzero(self.frame.kind == KINDS[cls])

    def classes(self) -> list[type[Record]]:
        """The record classes that occur."""
        return self._classes

    def columns(self, cls: type[Record]) -> tuple[Array, Columns]:
        """The records of a class: their numbers, and their columns as in `fxtio.codec.columns.columns_of`.

        Records that cannot be delivered are told as findings and left out.
        """
        if cls not in self._columns:
            rows = self.rows(cls)
            at, size = self.frame.at, self.frame.size
            if len(rows) < len(at):
                at, size = at[rows], size[rows]
            columns, bad = columns_of(cls, self.frame.block, at, size)
            if bad is not None:
                for row in rows[bad].tolist():
                    self._tell_bad(row)
                rows = rows[~bad]
                columns, _ = columns_of(cls, self.frame.block, self.frame.at[rows], self.frame.size[rows])
            for column in columns.values():
                if isinstance(column, ManyColumn) and len(column.broken):
                    told = "an argument has no usable size; the arguments behind it are lost"
                    self.tell("argument-size", rows[column.broken], told)
            self._columns[cls] = rows, columns
        return self._columns[cls]

    def ticks(self, cls: type[Record]) -> list[tuple[Array, Array]]:
        """The ticks of a class of records: for every field that is one, the records' numbers and the words they lie at.

        They are those of `columns`, but for records that lack an optional field.
        """
        rows, columns = self.columns(cls)
        places = tick_places(cls, self.frame.block, self.frame.at[rows], self.frame.size[rows])
        found = []
        for name, at in places.items():
            column = columns[name]
            here = column.present if isinstance(column, OptionalColumn) else slice(None)
            found.append((rows[here], at[here]))
        return found

    def arguments(self, rows: Array, column: ManyColumn) -> Members:
        """The arguments of some records (by their numbers), decoded; one that is too short is told and left out."""
        members = members_of(ARGUMENTS, self.frame.block, column)
        if len(members.short):
            told = "an argument is too short for its type and is left out"
            self.tell("argument-content", rows[members.short], told)
        return members

    def state_of(self, rows: Array) -> int | Array:
        """The provider state of some records."""
        return self.state if isinstance(self.state, int) else self.state[rows]

    def text_codes(self, column: TextColumn, rows: Array) -> Array:
        """Codes of a text column in `names` (int32), -1 where the slot was not defined."""
        slot = column.slot
        codes = self._strings.codes(self.state_of(rows), slot, rows)
        if len(codes) and int(codes.min()) < 0:
            lost = codes < 0
            told = f"string slot {int(slot[lost][0])} was not defined before it is used"
            self.tell("undefined-string", rows[lost], told, Level.WARNING)
        if len(column.rows):
            codes[column.rows] = self.names.codes(column.stream)
        return codes

    def thread_codes(self, column: KoidsColumn, rows: Array) -> Array:
        """Codes of a thread column in `threads` (int32), -1 where the slot was not defined."""
        codes = self._threads.codes(self.state_of(rows), column.slot, rows)
        lost = codes < 0
        lost[column.rows] = False
        if lost.any():
            told = f"thread slot {int(column.slot[lost][0])} was not defined before it is used"
            self.tell("undefined-thread", rows[lost], told, Level.WARNING)
        if len(column.rows):
            codes[column.rows] = self.threads.codes(column.process, column.thread, column.has_thread)
        return codes

    def clock_codes(self, ticks: Array, rows: Array) -> Array:
        """Codes of the clock that each record's provider had there (uint16).  A time beyond int64 is told."""
        only = self._clocks.only(self.state)
        if only is None:
            slots = np.zeros(len(rows), np.uint8)
            codes = self._clocks.codes(self.state_of(rows), slots, rows).astype(np.uint16)
            present = np.unique(codes).tolist()
        else:
            codes, present = np.broadcast_to(np.uint16(only), len(rows)), [only]
        if len(rows):
            latest = min(self.session.clocks[code].latest for code in present)
            if int(ticks.max()) > latest:
                over = rows[ticks > np.uint64(latest)]
                self.tell("time-overflow", over, "a time is beyond what 64-bit nanoseconds hold", Level.WARNING)
        return codes

    def times(self, ticks: Array, rows: Array) -> Array:
        """Ticks in nanoseconds (int64), by the clock that the provider had at each record."""
        return times_of(self.session.clocks, self.clock_codes(ticks, rows), ticks)

    def tell(self, rule: str, rows: Array, message: str, level: Level = Level.ERROR) -> None:
        """Note one fault of some records, of which the first is named."""
        offset = self.frame.offset(int(rows[0]))
        self.session.findings.add(rule, offset, message, level=level, times=len(rows))

    def _tell_bad(self, row: int) -> None:
        """Decode one broken record for the message that says what is wrong with it."""
        at, size = int(self.frame.at[row]), int(self.frame.size[row])
        words = self.frame.block.words[at : at + size].tolist()
        try:
            decode(RECORDS, words, self.frame.raw(row), 0, size, [])
        except DecodeError as error:
            self.session.findings.add(error.rule, self.frame.offset(row), error.message)


class Session:
    """The state of a reading.

    Args:
        findings: where faults go.
        forget: from time to time, drop names and threads that no slot means any more.  Codes of different batches can
            then not be compared.

    Attributes:
        findings: where faults go.
        names: the distinct strings.
        threads: the distinct threads.
        providers: the provider of every state.
        clocks: the clocks by code.
        current: the state that the next record belongs to.
    """

    def __init__(self, findings: Findings, *, forget: bool = False) -> None:
        self.findings = findings
        self.names = Names()
        self.threads = Threads()
        self.providers: list[Provider] = [Provider(0, "")]
        self.clocks: list[Clock] = [Clock()]
        self.clock_of: dict[int, Clock] = {}
        self.current = 0
        self._forget = forget
        self._nameless = True  # state 0 is still the provider that nobody introduced
        self._states: dict[int, int] = {0: 0}
        self._clock_codes = {self.clocks[0]: 0}
        self._strings = Slots(0)
        self._threads = Slots()
        self._clocks = Slots(0)

    def enter(self, frame: Frame) -> Batch:
        """Take in a frame: follow its providers, and learn what it defines."""
        if self._forget:
            self._drop_unused()
        batch = Batch(self, frame)
        batch.state = self._follow(batch)
        batch._strings = self._strings.enter(self._define_strings(batch))
        batch._threads = self._threads.enter(self._define_threads(batch))
        batch._clocks = self._clocks.enter(self._define_clocks(batch))
        return batch

    def _drop_unused(self) -> None:
        """Keep the memory bounded on traces whose names or threads never end.  Batches keep the lists that they had."""
        if len(self.names.values) > KEPT_NAMES or self.names.size > KEPT_NAMES * 64:
            used = self._strings.used()
            self.names = self.names.only(used)
            self._strings.renumber(used)
        if len(self.threads.values) > KEPT_NAMES:
            used = self._threads.used()
            self.threads = self.threads.only(used)
            self._threads.renumber(used)

    def _follow(self, batch: Batch) -> int | Array:
        """Which provider state each record belongs to."""
        frame = batch.frame
        if not ((frame.kind == KINDS[ProviderInfo]) | (frame.kind == KINDS[ProviderSection])).any():
            return self.current
        rows, columns = batch.columns(ProviderInfo)
        names = [raw.decode("utf-8", "surrogateescape") for raw in columns["name"].to_bytes()]
        switches: list[tuple[int, int, str | None]]
        switches = list(zip(rows.tolist(), columns["provider"].tolist(), names, strict=True))
        rows, columns = batch.columns(ProviderSection)
        switches += [(row, one, None) for row, one in zip(rows.tolist(), columns["provider"].tolist(), strict=True)]
        starts, states = [0], [self.current]
        for row, one, name in sorted(switches, key=lambda switch: switch[0]):
            offset = frame.offset(row)
            self.current = self._section(one, offset) if name is None else self._introduce(Provider(one, name), offset)
            starts.append(row)
            states.append(self.current)
        return np.repeat(np.array(states, np.int32), np.diff([*starts, len(frame.at)]))

    def _introduce(self, provider: Provider, offset: int) -> int:
        """A provider info record.  It starts afresh even for an id that was there before, as it does in Perfetto.

        But producers exist that write it behind the first records; those belong to it too.
        """
        if self._nameless and self.current == 0:
            self._nameless = False
            self.providers[0] = provider
            self._states = {one: state for one, state in self._states.items() if state} | {provider.id: 0}
            return 0
        return self._new_state(provider, offset)

    def _section(self, provider: int, offset: int) -> int:
        state = self._states.get(provider)
        if state is not None:
            return state
        told = f"a section of provider {provider}, which no provider info record introduced"
        self.findings.add("unknown-provider", offset, told, level=Level.WARNING)
        return self._new_state(Provider(provider, ""), offset)

    def _new_state(self, provider: Provider, offset: int) -> int:
        if len(self.providers) >= MAX_PROVIDERS:
            told = f"more than {MAX_PROVIDERS:,} providers; the rest is read as one"
            self.findings.add("too-many-providers", offset, told)
            return MAX_PROVIDERS - 1
        self._states[provider.id] = len(self.providers)
        self.providers.append(provider)
        return self._states[provider.id]

    def _define_strings(self, batch: Batch) -> Definitions:
        rows, columns = batch.columns(String)
        stream: StreamColumn = columns["text"]
        index = columns["index"].astype(np.int64)
        used = index > 0  # spec: string records for slot 0 are ignored
        if not used.all():
            rows, index, stream = rows[used], index[used], stream.take(used)
        return self._definitions(batch, rows, index, self.names.codes(stream))

    def _define_threads(self, batch: Batch) -> Definitions:
        rows, columns = batch.columns(ThreadRecord)
        index = columns["index"].astype(np.int64)
        codes = self.threads.codes(columns["process"], columns["thread"], np.ones(len(rows), bool))
        used = index > 0  # spec: thread records for slot 0 are ignored
        return self._definitions(batch, rows[used], index[used], codes[used])

    def _define_clocks(self, batch: Batch) -> Definitions:
        rows, columns = batch.columns(Initialization)
        base, wall = columns["base_ticks"], columns["wall_clock"]
        kept, codes = [], []
        for number, row in enumerate(rows.tolist()):
            rate = int(columns["ticks_per_second"][number])
            if rate == 0:
                told = "an initialization record with 0 ticks per second is ignored"
                self.findings.add("zero-tick-rate", batch.frame.offset(row), told)
                continue
            anchor = (int(base.values[number]), int(wall.values[number])) if wall.present[number] else (None, None)
            code = self._clock_code(Clock(rate, *anchor), batch, row)
            if code is not None:
                kept.append(row)
                codes.append(code)
        where = np.array(kept, np.int64)
        return self._definitions(batch, where, np.zeros(len(where), np.int64), np.array(codes, np.int32))

    def _clock_code(self, clock: Clock, batch: Batch, row: int) -> int | None:
        code = self._clock_codes.get(clock)
        if code is None and len(self.clocks) == MAX_CLOCKS:
            told = f"more than {MAX_CLOCKS:,} different clocks; this one is ignored"
            self.findings.add("too-many-clocks", batch.frame.offset(row), told)
            return None
        if code is None:
            code = self._clock_codes[clock] = len(self.clocks)
            self.clocks.append(clock)
        state = batch.state if isinstance(batch.state, int) else int(batch.state[row])
        self.clock_of[state] = clock
        return code

    def _definitions(self, batch: Batch, rows: Array, slot: Array, code: Array) -> Definitions:
        state = batch.state_of(rows)
        states = np.full(len(rows), state, np.int32) if isinstance(state, int) else state
        return Definitions(states, slot, rows, code)
