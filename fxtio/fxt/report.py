"""Describe traces for the commands: a summary, statistics, and records as lines of text.

Statistics are counted without a Python loop per record.  The codes of strings are valid only as long as the reading
keeps its list of strings, so counts are kept by code until the list changes, and by text from then on.  Memory is
bounded: beyond `MAX_TEXTS` different texts, those with the fewest bytes are counted together.

In a line of text, a number in the place of a name or a thread is a slot of the provider's table: `#12`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec import show
from fxtio.codec.columns import Columns
from fxtio.codec.distinct import rows_of_each
from fxtio.codec.parts import Many
from fxtio.codec.record import Opaque, Record
from fxtio.codec.show import Show
from fxtio.fxt.enums import ProviderEventId
from fxtio.fxt.reader import Entry, FxtTrace
from fxtio.fxt.records import (
    ARGUMENTS,
    INTEGER_LIMITS,
    RECORDS,
    DurationComplete,
    Event,
    ProviderEvent,
    String,
    StringReference,
    Thread,
    ThreadRecord,
    ThreadReference,
)
from fxtio.fxt.reference_columns import StringColumn, ThreadColumn
from fxtio.fxt.state import Batch
from fxtio.report import Report, ReportTable, counted, human_size, quoted, seconds, summary_of

MAX_TEXTS = 200_000
"""The most different texts that are counted one by one."""

DROP_REPORT = ("kernel:meta", "drop_stats")
"""Category and name of the complete event by which the Fuchsia kernel reports lost records."""

_CACHED_TEXTS = 1 << 12  # a text may have 32 KiB
_UNQUOTED = re.compile(r'[^\s"#={},][^\s"={},]*')
Shares = Sequence[tuple[Any, "Share"]]
"""Keys, such as names, with the records that each has."""

_NOT_AMONG_FIELDS = frozenset({"timestamp", "end", *Event.__struct_fields__})


# ---- the summary


# ---- the statistics


info = summary_of


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
        for provider, rows in rows_of_each(providers):
            own = slots[rows]
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
        _add_shares(self.types, _by_code(frame.kind + 1, sizes), class_names)
        providers = [(provider.id, provider.name) for provider in batch.reading.providers]
        indices = np.broadcast_to(batch.provider, len(batch))
        _add_shares(self.providers, _by_code(indices, sizes), providers)
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


def _by_code(codes: Array, sizes: Array) -> Iterable[tuple[int, int, int]]:
    """Return every code (not negative) that occurs, how often it does, and the bytes of its records."""
    records = np.bincount(codes)
    volume = np.bincount(codes, sizes).astype(np.int64)
    used = np.flatnonzero(records)
    return zip(used.tolist(), records[used].tolist(), volume[used].tolist(), strict=True)


def _add_shares(shares: dict[Any, Share], groups: Iterable[tuple[int, int, int]], keys: list[Any]) -> None:
    for code, records, size in groups:
        shares.setdefault(keys[code], Share()).add(records, size)


def stats(trace: FxtTrace, top: int) -> Report:
    """Return the statistics of a trace: records and bytes by type, provider, category and name.

    Args:
        trace: the trace; all of it is read.
        top: list only this many providers, categories and names: the largest.
    """
    counts = Statistics()
    for batch in trace.record_batches(forget=True):
        counts.add(batch)
    counts.settle(trace.position)
    total = counts.total
    outside = f", {counted(counts.outside, 'byte')} outside of records" if counts.outside else ""
    title = f"{trace.name}: {counted(total.records, 'record')}, {human_size(total.bytes)}{outside}"
    return Report(title, tables=[*_stats_tables(counts, top)], notes=[*_losses(counts)], json=_stats_json(counts, top))


def _largest(shares: dict[Any, Share], top: int) -> Shares:
    return sorted(shares.items(), key=lambda item: (-item[1].bytes, str(item[0])))[:top]


def _stats_tables(counts: Statistics, top: int) -> Iterator[ReportTable]:
    total = counts.total.bytes
    yield from _shares_table("type", _largest(counts.types, len(counts.types)), len(counts.types), total)
    providers = [(f"{number} {name}", share) for (number, name), share in _largest(counts.providers, top)]
    yield from _shares_table("provider", providers, len(counts.providers), total)
    for title, texts in (("category", counts.categories), ("name", counts.names)):
        shares = [
            ("(undefined)" if text is None else text or '""', share) for text, share in _largest(texts.shares, top)
        ]
        yield from _shares_table(title, shares, len(texts.shares) + texts.rest_texts, total)
    headers = ["table", ">definitions", ">slots", ">redefinitions", ">references", ">inline", ">undefined"]
    tables = (("strings", counts.strings), ("threads", counts.threads))
    yield ReportTable(headers, [(title, *_slot_use_json(use).values()) for title, use in tables])


def _shares_table(title: str, shares: Shares, different: int, total: int) -> Iterator[ReportTable]:
    """Yield a table of shares of `total` bytes, or nothing if there are none; `different` is the number of all keys."""
    rows = [(share.records, share.bytes, f"{100 * share.bytes / total:.1f}%", text) for text, share in shares]
    if rows:
        yield ReportTable([">records", ">bytes", ">share", title], rows, different - len(rows))


def _losses(counts: Statistics) -> Iterator[str]:
    if counts.filled_up:
        yield f"records were likely lost, since a buffer filled up (reports: {counts.filled_up:,})"
    if counts.drop_reports:
        lost = f"{counted(counts.dropped.records, 'record')}, {counted(counts.dropped.bytes, 'byte')}"
        yield f"dropped by the kernel: {lost} (drop_stats events: {counts.drop_reports:,})"


def _stats_json(counts: Statistics, top: int) -> dict[str, Any]:
    return {
        "records": counts.total.records,
        "bytes": counts.total.bytes,
        "bytes_outside_records": counts.outside,
        "types": [{"type": name, **_share_json(share)} for name, share in _largest(counts.types, len(counts.types))],
        "providers": [
            {"id": number, "name": name, **_share_json(share)}
            for (number, name), share in _largest(counts.providers, top)
        ],
        "categories": _texts_json(counts.categories, top),
        "names": _texts_json(counts.names, top),
        "strings": _slot_use_json(counts.strings),
        "threads": _slot_use_json(counts.threads),
        "drops": {
            "buffer_filled_up": counts.filled_up,
            "reports": counts.drop_reports,
            "records": counts.dropped.records,
            "bytes": counts.dropped.bytes,
        },
    }


def _share_json(share: Share) -> dict[str, int]:
    return {"records": share.records, "bytes": share.bytes}


def _texts_json(texts: TextShares, top: int) -> list[dict[str, Any]]:
    return [{"name": text, **_share_json(share)} for text, share in _largest(texts.shares, top)]


def _slot_use_json(use: SlotUse) -> dict[str, int]:
    return {
        "definitions": use.defined,
        "slots": use.slots,
        "redefinitions": use.redefined,
        "references": use.by_slot,
        "inline": use.inline,
        "undefined": use.undefined,
    }


# ---- records as lines of text


def text_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Return records as lines of text, see `fxtio.codec.show`.

    An event has thread, category and name in columns, then its duration and other fields, then arguments.
    """
    return show.text_lines(entries, _content)


def _content(entry: Entry) -> str:
    record = entry.record
    if not isinstance(record, Event):
        return show.content_of(entry)
    line = f"{_show_thread(record.thread):<12} {_show_name(record.category):<12} {_show_name(record.name)}"
    if entry.time is not None and entry.end_time is not None:
        line = f"{line} dur={seconds(entry.end_time - entry.time)}"
    if fields := show.show_fields(record, _NOT_AMONG_FIELDS):
        line = f"{line} {fields}"
    return f"{line} {_show_arguments(record.args)}" if record.args else line


@lru_cache(_CACHED_TEXTS)
def _show_name(name: int | str) -> str:
    """Return a name as it is, or in quotes if it could be misread; a slot with `#`."""
    if isinstance(name, int):
        return f"#{name}"
    return name if _UNQUOTED.fullmatch(name) and name.isprintable() else quoted(name)


def _show_thread(thread: int | Thread) -> str:
    if isinstance(thread, int):
        return f"#{thread}"
    return f"{thread.process}/{'-' if thread.thread is None else thread.thread}"


def _show_arguments(args: tuple[Any, ...]) -> str:
    return f"{{{', '.join(map(_show_argument, args))}}}"


def _show_argument(arg: Any) -> str:
    if isinstance(arg, Opaque):
        return f"?={show.show_bytes(arg.raw)}"
    show_argument = show.shows_of(type(arg)).get("value")
    return f"{_show_name(arg.name)}={'null' if show_argument is None else show_argument(arg.value)}"


@show.show_of.register
def _(mark: StringReference) -> Show:
    return lambda value: f"#{value}" if type(value) is int else quoted(value)


@show.show_of.register
def _(mark: ThreadReference) -> Show:
    return _show_thread


@show.show_of.register
def _(mark: Many) -> Show:
    return _show_arguments
