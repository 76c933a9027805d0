"""Count the records and bytes of a trace by type, provider, category and name.  No Python loop per record.

The codes of strings are valid only as long as the reading keeps its list of strings, so counts are kept by code until
the list changes, and by text from then on.  Memory is bounded: beyond `MAX_TEXTS` different texts, those with the
fewest bytes are counted together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.codec.columns import Columns
from fxtio.codec.record import Record
from fxtio.fxt.arguments import ARGUMENTS, INTEGER_LIMITS
from fxtio.fxt.enums import ProviderEventId
from fxtio.fxt.records import RECORDS, DurationComplete, ProviderEvent, String, ThreadRecord
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import Batch

Array = np.ndarray[Any, Any]

MAX_TEXTS = 200_000
"""The most different texts that are counted one by one."""

DROP_REPORT = ("kernel:meta", "drop_stats")
"""Category and name of the complete event by which the Fuchsia kernel reports lost records."""


@dataclass(slots=True)
class Share:
    """A number of records, and their bytes."""

    records: int = 0
    bytes: int = 0

    def add(self, records: int, size: int) -> None:
        """Add records and their bytes."""
        self.records += records
        self.bytes += size


class TextShares:
    """Shares by text; None stands for references to slots that are not defined.

    Attributes:
        shares: the shares by text, complete after `settle`.
        rest: the texts that are counted together.
        rest_texts: the number of these texts.
    """

    def __init__(self) -> None:
        self.shares: dict[str | None, Share] = {}
        self.rest = Share()
        self.rest_texts = 0
        self._values: list[str] | None = None
        self._counts = np.zeros((2, 1), np.int64)

    def add(self, values: list[str], codes: Array, sizes: Array) -> None:
        """Count records.

        Args:
            values: the texts by code; the same list may have more of them in the next call.
            codes: the text of each record (int32), -1 for None.
            sizes: the bytes of each record (int64).
        """
        if values is not self._values:
            self.settle()
            self._values = values
        length = len(values) + 1
        if length > self._counts.shape[1]:
            self._counts = np.pad(self._counts, ((0, 0), (0, 2 * length - self._counts.shape[1])))
        self._counts[0, :length] += np.bincount(codes + 1, minlength=length)
        self._counts[1, :length] += np.bincount(codes + 1, sizes, minlength=length).astype(np.int64)

    def settle(self) -> None:
        """Add the counts by code to those by text."""
        used = np.flatnonzero(self._counts[0])
        for code, records, size in zip(used.tolist(), *self._counts[:, used].tolist(), strict=True):
            text = self._values[code - 1] if code and self._values is not None else None
            self.shares.setdefault(text, Share()).add(records, size)
        self._counts[:] = 0
        if len(self.shares) > MAX_TEXTS:
            smallest = sorted(self.shares.items(), key=lambda item: item[1].bytes)[: MAX_TEXTS // 2]
            for text, share in smallest:
                self.rest.add(share.records, share.bytes)
                del self.shares[text]
            self.rest_texts += len(smallest)


@dataclass(slots=True)
class SlotUse:
    """Counts of the definitions of slots, and of references to them.

    Attributes:
        defined: definitions.
        slots: different slots that they defined.
        by_slot: references to slots.
        inline: references whose value is inline.
        undefined: references to slots that are not defined before.
    """

    defined: int = 0
    slots: int = 0
    by_slot: int = 0
    inline: int = 0
    undefined: int = 0
    _is_defined: dict[int, Array] = field(default_factory=dict)

    @property
    def redefined(self) -> int:
        """Definitions of slots that were defined before."""
        return self.defined - self.slots

    def define(self, providers: Array, slots: Array) -> None:
        """Count definitions; `providers` are the indices of the providers whose slots they define."""
        slots, providers = slots[slots > 0], providers[slots > 0]
        self.defined += len(slots)
        for provider in np.unique(providers).tolist():
            own = slots[providers == provider]
            is_defined = self._is_defined.get(provider, np.zeros(0, bool))
            if int(own.max()) >= len(is_defined):
                is_defined = np.pad(is_defined, (0, int(own.max()) + 1 - len(is_defined)))
                self._is_defined[provider] = is_defined
            before = int(is_defined.sum())
            is_defined[own] = True
            self.slots += int(is_defined.sum()) - before

    def refer(self, slots: Array, codes: Array, inline: int) -> None:
        """Count references."""
        used = slots > 0
        self.by_slot += int(used.sum())
        self.inline += inline
        self.undefined += int((used & (codes < 0)).sum())


@dataclass(slots=True)
class Statistics:
    """All counts of a trace.

    Attributes:
        total: all records.
        outside: bytes that belong to no record.
        types: by class; `Opaque` for records of unknown type.
        providers: by id and name of the provider.
        categories: events and blobs by category.
        names: events, blobs and objects by name.
        strings: the use of the string tables.
        threads: the use of the thread tables.
        filled_up: how often a provider reported that its buffer filled up.
        drop_reports: how often the kernel reported that records were lost.
        dropped: the records that were lost by these reports.
    """

    total: Share = field(default_factory=Share)
    outside: int = 0
    types: dict[str, Share] = field(default_factory=dict)
    providers: dict[tuple[int, str], Share] = field(default_factory=dict)
    categories: TextShares = field(default_factory=TextShares)
    names: TextShares = field(default_factory=TextShares)
    strings: SlotUse = field(default_factory=SlotUse)
    threads: SlotUse = field(default_factory=SlotUse)
    filled_up: int = 0
    drop_reports: int = 0
    dropped: Share = field(default_factory=Share)

    def add(self, batch: Batch) -> None:
        """Count the records of a batch."""
        frame = batch.frame
        sizes = frame.size * 8
        self.total.add(len(batch), int(sizes.sum()))
        class_names = ["Opaque", *(cls.__name__ for cls in RECORDS.classes)]
        _add(self.types, _groups(frame.kind + 1, sizes), class_names)
        providers = [(provider.id, provider.name) for provider in batch.reading.providers]
        indices = np.broadcast_to(batch.provider, len(batch))
        _add(self.providers, _groups(indices, sizes), providers)
        for cls in batch.classes():
            rows, columns = batch.columns(cls)
            if len(rows):
                self._add_class(batch, cls, rows, columns)

    def settle(self, size: int) -> None:
        """Finish counting.

        Args:
            size: the bytes of the trace.
        """
        self.outside = size - self.total.bytes
        self.categories.settle()
        self.names.settle()

    def _add_class(self, batch: Batch, cls: type[Record], rows: Array, columns: Columns) -> None:
        codes = self._refer(batch, rows, columns)
        sizes = batch.frame.size[rows] * 8
        for texts, field_name in ((self.categories, "category"), (self.names, "name")):
            if field_name in codes:
                texts.add(batch.strings.values, codes[field_name], sizes)
        providers = np.broadcast_to(batch.provider_of(rows), len(rows))
        if cls is String:
            self.strings.define(providers, columns["index"])
        elif cls is ThreadRecord:
            self.threads.define(providers, columns["index"])
        elif cls is ProviderEvent:
            self.filled_up += int((columns["event"] == ProviderEventId.BUFFER_FILLED_UP).sum())
        if "args" in columns:
            is_report = np.zeros(len(rows), bool)
            if cls is DurationComplete:
                category, name = (batch.strings.code(text) for text in DROP_REPORT)
                is_report = (codes["category"] == category) & (codes["name"] == name)
            self._add_arguments(batch, cls, is_report)

    def _refer(self, batch: Batch, rows: Array, columns: Columns) -> dict[str, Array]:
        """Count the references in some columns; return the codes of those that are strings."""
        codes: dict[str, Array] = {}
        for name, column in columns.items():
            if isinstance(column, StringColumn):
                codes[name] = batch.string_codes(column, rows)
                self.strings.refer(column.slot, codes[name], len(column.rows))
            elif isinstance(column, ThreadColumn):
                self.threads.refer(column.slot, batch.thread_codes(column, rows), len(column.rows))
        return codes

    def _add_arguments(self, batch: Batch, cls: type[Record], is_report: Array) -> None:
        """Count the references of arguments, and the losses that the records `is_report` (bool) report."""
        self.drop_reports += int(is_report.sum())
        rows, members = batch.arguments(cls)
        owners = np.repeat(np.arange(len(rows)), members.many.count)
        for kind, indices, columns in members.groups:
            if kind < 0:
                continue
            owner = owners[indices]
            codes = self._refer(batch, rows[owner], columns)
            if ARGUMENTS.classes[kind] in INTEGER_LIMITS and is_report.any():
                lost = [
                    sum(columns["value"][is_report[owner] & (codes["name"] == batch.strings.code(text))].tolist())
                    for text in ("num_records", "num_bytes")
                ]
                self.dropped.add(*lost)


def _groups(codes: Array, sizes: Array) -> Iterable[tuple[int, int, int]]:
    """Return every code (not negative) that occurs, how often it does, and the bytes of its records."""
    records = np.bincount(codes)
    volume = np.bincount(codes, sizes).astype(np.int64)
    used = np.flatnonzero(records)
    return zip(used.tolist(), records[used].tolist(), volume[used].tolist(), strict=True)


def _add(shares: dict[Any, Share], groups: Iterable[tuple[int, int, int]], keys: list[Any]) -> None:
    for code, records, size in groups:
        shares.setdefault(keys[code], Share()).add(records, size)
