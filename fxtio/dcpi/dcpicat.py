"""The text that DCPI's tool `dcpicat` printed of a profile: what owners of old databases can still export.

First lines of a word and a value, among them one for each event; then a row for each address, with a count for each
event.  Addresses without samples are left out.  It is known from manual pages and from a reader, not from a
specification: blanks are taken as they come, and words that are not known are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.dcpi.layout import MAX_COUNT
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import Line
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.io.source import open_source
from fxtio.table import Array, Table

FULL_DUTY = 10_000
"""The duty of an event that was counted all the time."""

_ROW = re.compile(rb"[ \t]*0x([0-9A-Fa-f]{1,16})((?:[ \t]+[0-9]{1,18})+)[ \t]*")
_LINE = re.compile(r"[ \t]*([^ \t]+)[ \t]+(.*?)[ \t]*")
_EVENT = re.compile(r"([0-9]{1,18})[ \t]+(\S+):([0-9]{1,18}):([0-9]{1,18})")
_READ = 1 << 20
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a listing.

    Attributes:
        total: samples in all.
        name: the event; it may have colons.
        period: events from one sample to the next.
        duty: for how much of the time it was counted, out of `FULL_DUTY`.
    """

    total: int
    name: str
    period: int
    duty: int = FULL_DUTY


@dataclass(slots=True)
class Listing:
    """What `dcpicat` tells about an image.

    Attributes:
        lines: words and values, in their order; without the events.
        events: the events, in the order of the columns.
        address: addresses, rising (uint64).
        counts: samples, an array (int64) for each event.
        findings: what was wrong when it was read.
    """

    lines: list[Line] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    address: Array = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: list[Array] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)

    def get(self, word: str) -> str | None:
        """The value of the first line with this word, or None."""
        return next((line.value for line in self.lines if line.word == word), None)

    def table(self) -> Table:
        """Addresses with a column for each event; a second one of a name has its number behind it."""
        columns: dict[str, Any] = {"address": self.address}
        for number, (event, counts) in enumerate(zip(self.events, self.counts, strict=True)):
            columns[f"{event.name}#{number}" if event.name in columns else event.name] = counts
        return Table(columns)


def read(target: Any, *, strict: bool = False, max_bytes: int | None = None) -> Listing:
    """Read a listing.

    Args:
        target: what to read, see `fxtio.open`.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: read no more than so many (decompressed) bytes.

    Raises:
        DecodeError: in strict mode, at the first fault.
        OSError: it cannot be opened.
    """
    listing = Listing(findings=Findings(strict=strict))
    addresses: list[int] = []
    rows: list[list[int]] = []
    with closing(open_source(target, limit=max_bytes)) as source:
        for offset, raw in _lines(source, listing.findings):
            match = _ROW.fullmatch(raw)
            if match is None:
                _header(listing, offset, raw, in_rows=bool(addresses))
                continue
            address, counts = int(match[1], 16), [int(one) for one in match[2].split()]
            if len(counts) != len(listing.events):
                told = f"{len(counts)} counts for {len(listing.events)} events"
                listing.findings.add("listing-row", offset, told)
            elif addresses and address <= addresses[-1]:
                listing.findings.add("listing-order", offset, f"address {address:#x} does not rise")
            else:
                addresses.append(address)
                rows.append(counts)
    listing.address = np.array(addresses, np.uint64)
    listing.counts = [np.array([row[number] for row in rows], np.int64) for number in range(len(listing.events))]
    for event, column in zip(listing.events, listing.counts, strict=True):
        if event.total != int(column.sum()):
            told = f"{event.name} has {int(column.sum()):,} samples, {event.total:,} are told"
            listing.findings.add("listing-total", 0, told)
    return listing


def _lines(source: Any, findings: Findings) -> Iterator[tuple[int, bytes]]:
    """Lines without their ends, with their byte offsets; of one that is too long only the beginning."""
    held, at = b"", 0
    while True:
        piece = bytearray(_READ)
        count = source.readinto(memoryview(piece))
        *lines, held = (held + piece[:count]).split(b"\n")
        for line in lines:
            yield at, bytes(line.removesuffix(b"\r"))
            at += len(line) + 1
        if count < _READ:
            break
        if len(held) > _LONGEST:
            findings.add("listing-line", at, f"a line of more than {_LONGEST:,} bytes")
            at, held = at + len(held), b""
    if held:
        yield at, bytes(held)
    if source.fault is not None:
        findings.add("source", source.position, source.fault)


def _header(listing: Listing, offset: int, raw: bytes, *, in_rows: bool) -> None:
    text = raw.decode("ascii", "surrogateescape")
    match = _LINE.fullmatch(text)
    if not text.strip():
        return
    if match is None or in_rows:
        listing.findings.add("listing-line", offset, f"neither a row nor a word and a value: {text[:40]!r}")
    elif match[1] != "event":
        listing.lines.append(Line(match[1], match[2]))
    elif event := _EVENT.fullmatch(match[2]):
        listing.events.append(Event(int(event[1]), event[2], int(event[3]), int(event[4])))
    else:
        listing.findings.add("listing-line", offset, f"no event: {match[2][:40]!r}")


def of_profile(trace: DcpiTrace) -> Listing:
    """The listing of a profile.

    Raises:
        EncodeError: the profile does not tell where its text begins, or its chunks do not rise.
    """
    header = trace.header
    samples = trace.table("samples")
    if header.text_start is None:
        raise EncodeError("addresses are not known without a line `tstart`", "header")
    if (np.diff(samples["offset"]) <= 0).any():
        raise EncodeError("the chunks overlap", "samples")
    counts = samples["count"].astype(np.int64)
    event = Event(int(counts.sum()), (header.get("event") or "unknown").replace(" ", "_"), header.period or 0)
    start, size = f"{header.text_start:#x}", f"{header.text_size or 0:#x}"
    known = ("image", "label", "path", "epoch", "platform")
    lines = [Line(line.word, line.value) for word in known for line in header.lines if line.word == word]
    name = (header.get("path") or "unknown").rpartition("/")[2] or "unknown"
    lines = [Line("name", name), *lines, Line("text_start", start), Line("text_size", size)]
    return Listing(lines, [event], samples["address"].values, [counts])


def text(listing: Listing) -> Iterator[str]:
    """The lines of a listing, without line ends.

    Raises:
        EncodeError: counts are below zero or beyond 32 bits, or a value has a line end.
    """
    for line in listing.lines:
        if "\n" in line.value or "\r" in line.value:
            raise EncodeError(f"{line.value!r} has a line end", line.word)
    for event, column in zip(listing.events, listing.counts, strict=True):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= MAX_COUNT:
            raise EncodeError("does not fit 32 bits", event.name)
    yield from (f"{line.word:<12}{line.value}" for line in listing.lines)
    yield from (f"{'event':<12}{one.total} {one.name}:{one.period}:{one.duty}" for one in listing.events)
    columns = [listing.address.tolist(), *(column.tolist() for column in listing.counts)]
    for address, *counts in zip(*columns, strict=True):
        if any(counts):
            yield f"{address:#x} {' '.join(map(str, counts))}"
