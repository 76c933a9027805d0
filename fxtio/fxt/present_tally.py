"""What fills a trace: records and bytes by whatever they can be counted by.  No Python loop per record.

Codes of names mean something only as long as the reading keeps its list of names, so counts are held by code until
the list changes, and by text from then on.  Memory is bounded: beyond `MOST_TEXTS` different texts, those with the
fewest bytes are counted together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.codec.columns import Columns, KoidsColumn, ManyColumn, TextColumn
from fxtio.codec.record import Record
from fxtio.fxt.arguments import ARGUMENTS, Int32Argument, Int64Argument, Uint32Argument, Uint64Argument
from fxtio.fxt.batch import Batch
from fxtio.fxt.enums import ProviderEventId
from fxtio.fxt.records import RECORDS, DurationComplete, ProviderEvent, String, ThreadRecord

Array = np.ndarray[Any, Any]

MOST_TEXTS = 200_000

DROPS = ("kernel:meta", "drop_stats")
"""Category and name of the complete event by which the Fuchsia kernel tells of lost records."""

_INTEGERS = (Int32Argument, Uint32Argument, Int64Argument, Uint64Argument)


@dataclass(slots=True)
class Share:
    """Some records: how many, and their bytes."""

    records: int = 0
    bytes: int = 0

    def add(self, records: int, size: int) -> None:
        """Count some more."""
        self.records += records
        self.bytes += size


class Texts:
    """Shares by text; None stands for references to slots that nobody defined."""

    def __init__(self) -> None:
        self.shares: dict[str | None, Share] = {}
        self.rest = Share()
        self.rest_texts = 0
        self._values: list[str] | None = None
        self._counts = np.zeros((2, 1), np.int64)

    def add(self, values: list[str], codes: Array, sizes: Array) -> None:
        """Count records.

        Args:
            values: the texts that codes mean; it may grow from call to call, as long as it is the same list.
            codes: the text of each record (int32), -1 for None.
            sizes: the bytes of each record (int64).
        """
        if values is not self._values:
            self.settle()
            self._values = values
        room = len(values) + 1
        if room > self._counts.shape[1]:
            self._counts = np.pad(self._counts, ((0, 0), (0, 2 * room - self._counts.shape[1])))
        self._counts[0, :room] += np.bincount(codes + 1, minlength=room)
        self._counts[1, :room] += np.bincount(codes + 1, sizes, minlength=room).astype(np.int64)

    def settle(self) -> None:
        """Count by text what was counted by code."""
        used = np.flatnonzero(self._counts[0])
        for code, records, size in zip(used.tolist(), *self._counts[:, used].tolist(), strict=True):
            text = self._values[code - 1] if code and self._values is not None else None
            self.shares.setdefault(text, Share()).add(records, size)
        self._counts[:] = 0
        if len(self.shares) > MOST_TEXTS:
            smallest = sorted(self.shares.items(), key=lambda item: item[1].bytes)[: MOST_TEXTS // 2]
            for text, share in smallest:
                self.rest.add(share.records, share.bytes)
                del self.shares[text]
            self.rest_texts += len(smallest)


@dataclass(slots=True)
class References:
    """How a table was used.

    Attributes:
        defined: definitions.
        slots: different slots that they defined.
        by_slot: references to slots.
        inline: references that carry the thing itself.
        undefined: references to slots that were not defined before.
    """

    defined: int = 0
    slots: int = 0
    by_slot: int = 0
    inline: int = 0
    undefined: int = 0
    _known: dict[int, Array] = field(default_factory=dict)

    @property
    def redefined(self) -> int:
        """Definitions of slots that had one already."""
        return self.defined - self.slots

    def define(self, states: Array, slots: Array) -> None:
        """Count definitions, of slots of the table of some provider."""
        slots, states = slots[slots > 0], states[slots > 0]
        self.defined += len(slots)
        for state in np.unique(states).tolist():
            mine = slots[states == state]
            known = self._known.get(state, np.zeros(0, bool))
            if int(mine.max()) >= len(known):
                known = self._known[state] = np.pad(known, (0, int(mine.max()) + 1 - len(known)))
            before = int(known.sum())
            known[mine] = True
            self.slots += int(known.sum()) - before

    def refer(self, slots: Array, codes: Array, inline: int) -> None:
        """Count references."""
        used = slots > 0
        self.by_slot += int(used.sum())
        self.inline += inline
        self.undefined += int((used & (codes < 0)).sum())


@dataclass(slots=True)
class Tally:
    """All counts of a reading.

    Attributes:
        total: all records.
        lost: bytes that belong to no record.
        types: by class; `Opaque` for records of unknown type.
        providers: by provider: id and name.
        categories: events and blobs by category.
        names: by name: events, blobs, and objects.
        strings: how the string tables were used.
        threads: how the thread tables were used.
        filled_up: how often a provider said that its buffer filled up.
        drops: how often the kernel said that records were lost.
        dropped: the records that were, added up.
    """

    total: Share = field(default_factory=Share)
    lost: int = 0
    types: dict[str, Share] = field(default_factory=dict)
    providers: dict[tuple[int, str], Share] = field(default_factory=dict)
    categories: Texts = field(default_factory=Texts)
    names: Texts = field(default_factory=Texts)
    strings: References = field(default_factory=References)
    threads: References = field(default_factory=References)
    filled_up: int = 0
    drops: int = 0
    dropped: Share = field(default_factory=Share)

    def add(self, batch: Batch) -> None:
        """Count the records of a batch."""
        frame = batch.frame
        sizes = frame.size * 8
        self.total.add(len(batch), int(sizes.sum()))
        labels = ["Opaque", *(cls.__name__ for cls in RECORDS.classes)]
        _add(self.types, _groups(frame.kind + 1, sizes), labels)
        providers = [(one.id, one.name) for one in batch.session.providers]
        states = np.broadcast_to(batch.state, len(batch))
        _add(self.providers, _groups(states, sizes), providers)
        for cls in batch.classes():
            rows, columns = batch.columns(cls)
            if len(rows):
                self._add_class(batch, cls, rows, columns)

    def settle(self, size: int) -> None:
        """Finish counting.

        Args:
            size: the bytes that were read in all.
        """
        self.lost = size - self.total.bytes
        self.categories.settle()
        self.names.settle()

    def _add_class(self, batch: Batch, cls: type[Record], rows: Array, columns: Columns) -> None:
        codes = self._refer(batch, rows, columns)
        sizes = batch.frame.size[rows] * 8
        for texts, field_name in ((self.categories, "category"), (self.names, "name")):
            if field_name in codes:
                texts.add(batch.names.values, codes[field_name], sizes)
        states = np.broadcast_to(batch.state_of(rows), len(rows))
        if cls is String:
            self.strings.define(states, columns["index"])
        elif cls is ThreadRecord:
            self.threads.define(states, columns["index"])
        elif cls is ProviderEvent:
            self.filled_up += int((columns["event"] == ProviderEventId.BUFFER_FILLED_UP).sum())
        if "args" in columns:
            told = np.zeros(len(rows), bool)
            if cls is DurationComplete:
                category, name = (batch.names.code(text) for text in DROPS)
                told = (codes["category"] == category) & (codes["name"] == name)
            self._add_arguments(batch, rows, columns["args"], told)

    def _refer(self, batch: Batch, rows: Array, columns: Columns) -> dict[str, Array]:
        """Count the references of some columns; gives the codes of the texts."""
        codes: dict[str, Array] = {}
        for name, column in columns.items():
            if isinstance(column, TextColumn):
                codes[name] = batch.text_codes(column, rows)
                self.strings.refer(column.slot, codes[name], len(column.rows))
            elif isinstance(column, KoidsColumn):
                self.threads.refer(column.slot, batch.thread_codes(column, rows), len(column.rows))
        return codes

    def _add_arguments(self, batch: Batch, rows: Array, column: ManyColumn, told: Array) -> None:
        """Count the references of arguments; those of the records `told` (bool) tell of lost records."""
        self.drops += int(told.sum())
        members = batch.arguments(rows, column)
        owners = np.repeat(np.arange(len(rows)), members.many.found)
        for kind, mine, columns in members.groups:
            if kind < 0:
                continue
            owner = owners[mine]
            codes = self._refer(batch, rows[owner], columns)
            if ARGUMENTS.classes[kind] in _INTEGERS and told.any():
                lost = [
                    sum(columns["value"][told[owner] & (codes["name"] == batch.names.code(text))].tolist())
                    for text in ("num_records", "num_bytes")
                ]
                self.dropped.add(*lost)


def _groups(codes: Array, sizes: Array) -> Iterable[tuple[int, int, int]]:
    """Every code (not negative) that occurs, how often, and the bytes."""
    records = np.bincount(codes)
    volume = np.bincount(codes, sizes).astype(np.int64)
    used = np.flatnonzero(records)
    return zip(used.tolist(), records[used].tolist(), volume[used].tolist(), strict=True)


def _add(shares: dict[Any, Share], groups: Iterable[tuple[int, int, int]], labels: list[Any]) -> None:
    for code, records, size in groups:
        shares.setdefault(labels[code], Share()).add(records, size)
