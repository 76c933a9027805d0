"""Listings: the text that DCPI's tool `dcpicat` printed of a profile, which owners of old databases can still export.

A listing begins with lines of a word and a value, among them one for each event.  Then it has a row for each address
with samples, with a count for each event.  The form is known from manual pages and from a reader, not from a
specification: any blanks are accepted, and unknown words are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi.frames import MAX_HEADER
from fxtio.dcpi.layout import MAX_COUNT, STEP
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import Line, Terminator, decode_line
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.io.source import Source, open_source
from fxtio.report import counted
from fxtio.table import Table

FULL_DUTY = 10_000
"""The duty cycle of an event that was counted all the time."""

WORDS = ("name", "image", "label", "path", "epoch", "platform", "text_start", "text_size")
"""The words of the lines before the events, in the order in which `dcpicat` printed them."""

_OPTIONAL = ("label", "path")
_HEXADECIMAL = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,16}")
_ROW = re.compile(rb"[ \t]*0x([0-9A-Fa-f]{1,16})((?:[ \t]+[0-9]{1,18})+)[ \t]*")
_LINE = re.compile(r"([^ \t]+)[ \t]+(.*)")
_EVENT = re.compile(r"([0-9]{1,18})[ \t]+(\S+):([0-9]{1,18}):([0-9]{1,18})")
_READ = 1 << 20
_MAX_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a listing.

    Attributes:
        total: number of samples.
        name: the event; it may have colons.
        period: number of events from one sample to the next.
        duty: the share of the time in which it was counted, of `FULL_DUTY`.
    """

    total: int
    name: str
    period: int
    duty: int = FULL_DUTY


@dataclass(slots=True)
class Listing:
    """The listing of an image.

    Attributes:
        lines: the lines of words and values in their order, without the events.
        events: the events, in the order of their columns.
        address: the addresses, rising (uint64).
        counts: the samples, an array (int64) for each event.
        findings: the faults that were found when it was read.
        offsets: the byte offsets of the events' lines when it was read.
    """

    lines: list[Line] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    address: Array = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: list[Array] = field(default_factory=list)
    findings: Findings = field(default_factory=lambda: Findings("dcpi"))
    offsets: list[int] = field(default_factory=list)

    def get(self, word: str) -> str | None:
        """Return the value of the first line with this word, or None."""
        return next((line.value for line in self.lines if line.word == word), None)

    def table(self) -> Table:
        """Return a table of addresses with a column for each event; repeated names get a number."""
        columns: dict[str, Any] = {"address": self.address}
        for number, (event, counts) in enumerate(zip(self.events, self.counts, strict=True)):
            columns[f"{event.name}#{number}" if event.name in columns else event.name] = counts
        return Table(columns)


def read(target: Any, *, strict: bool = False, max_bytes: int | None = None) -> Listing:
    """Read a listing.

    Args:
        target: what to read, see `fxtio.open`.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: the most (decompressed) bytes to read.

    Raises:
        DecodeError: in strict mode, at the first fault.
        OSError: it cannot be opened.
    """
    listing = Listing(findings=Findings("dcpi", strict=strict))
    addresses: list[int] = []
    rows: list[list[int]] = []
    with closing(open_source(target, limit=max_bytes)) as source:
        for _, address, counts in _rows(source, listing):
            addresses.append(address)
            rows.append(counts)
        if source.fault is not None:
            listing.findings.add("source.cut", source.position, source.fault)
    listing.address = np.array(addresses, np.uint64)
    listing.counts = [np.array([row[number] for row in rows], np.int64) for number in range(len(listing.events))]
    return listing


def looks_like_listing(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a listing.

    A listing has the line of an event, or a row, and no line that ends the header of a profile before that.
    """
    for line in head.split(b"\n"):
        raw = line.removesuffix(b"\r")
        if isinstance(decode_line(raw + b"\n"), Terminator):
            return False
        word, value = _word_and_value(raw) or ("", "")
        if _ROW.fullmatch(raw) or (word == "event" and _EVENT.fullmatch(value)):
            return True
    return False


def check(source: Source, findings: Findings) -> None:
    """Read a listing from its beginning, in bounded memory, and add a finding for each fault.

    Raises:
        DecodeError: the findings are strict, at the first fault.
    """
    listing = Listing(findings=findings)
    start = end = None
    for offset, address, counts in _rows(source, listing):
        if start is None:
            start, end = _check_lines(listing)
        if not any(counts):
            findings.add("listing.zero-row", offset, f"there are no samples at {address:#x}")
        if address % STEP:
            findings.add("listing.unaligned", offset, f"{address:#x} is not a multiple of {STEP}")
        if end is not None and not start <= address < end:
            findings.add("listing.outside-text", offset, f"{address:#x} is not from {start:#x} to before {end:#x}")
    if start is None:
        _check_lines(listing)


def _check_lines(listing: Listing) -> tuple[int, int | None]:
    """Check the lines before the rows; return the start and the end of the text, or 0 and None."""
    words = [line.word for line in listing.lines]
    placed = [word for word in words if word in WORDS]
    if [*dict.fromkeys(placed)] != [word for word in WORDS if word in placed or word not in _OPTIONAL]:
        message = f"the lines are not {', '.join(WORDS)}, in this order"
        listing.findings.add("listing.lines-order", 0, message)
    for event, offset in zip(listing.events, listing.offsets, strict=True):
        if not 0 < event.duty <= FULL_DUTY:
            message = f"the event {event.name[:40]} was counted {event.duty:,} of {FULL_DUTY:,} parts of the time"
            listing.findings.add("listing.duty", offset, message)
    texts = [listing.get(word) or "" for word in ("text_start", "text_size")]
    if not all(map(_HEXADECIMAL.fullmatch, texts)):
        return 0, None
    start, size = (int(text, 16) for text in texts)
    return start, start + size


def _rows(source: Source, listing: Listing) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the byte offset, the address and the counts of each row; add lines, events and findings to the listing."""
    totals: list[int] = []
    last = -1
    for offset, raw in _lines(source, listing.findings):
        match = _ROW.fullmatch(raw)
        if match is None:
            _header(listing, offset, raw, in_rows=last >= 0)
            continue
        address, counts = int(match[1], 16), [int(count) for count in match[2].split()]
        if len(counts) != len(listing.events):
            message = f"the row has {counted(len(counts), 'count')} for {counted(len(listing.events), 'event')}"
            listing.findings.add("listing.row", offset, message)
        elif address <= last:
            listing.findings.add("listing.order", offset, f"address {address:#x} is not above the one before it")
        else:
            last = address
            totals = list(map(sum, zip(totals, counts, strict=True))) if totals else counts
            yield offset, address, counts
    for number, (event, offset) in enumerate(zip(listing.events, listing.offsets, strict=True)):
        total = totals[number] if totals else 0
        if event.total != total:
            message = f"the counts of {event.name[:40]} add up to {total:,}, its line says {event.total:,}"
            listing.findings.add("listing.total", offset, message)


def _lines(source: Source, findings: Findings) -> Iterator[tuple[int, bytes]]:
    """Yield lines without their ends, with their byte offsets; those that are too long are findings."""
    rest, at = b"", 0
    skipped = 0  # this many bytes of the line at `at` came before `rest`
    count = _READ
    while count == _READ:
        buffer = bytearray(_READ)
        count = source.readinto(memoryview(buffer))
        *lines, rest = (rest + buffer[:count]).split(b"\n")
        for line in lines if count == _READ else [*lines, rest]:
            size = skipped + len(line)
            if size > _MAX_LINE:
                findings.add("listing.line", at, f"a line of more than {_MAX_LINE:,} bytes")
            else:
                yield at, bytes(line.removesuffix(b"\r"))
            at, skipped = at + size + 1, 0
        if len(rest) > _MAX_LINE:
            rest, skipped = b"", skipped + len(rest)


def _word_and_value(raw: bytes) -> tuple[str, str] | None:
    """Return the word and the value of a line; None if it has another form."""
    match = _LINE.fullmatch(raw.decode("ascii", "surrogateescape").lstrip(" \t"))
    return None if match is None else (match[1], match[2].rstrip(" \t"))


def _header(listing: Listing, offset: int, raw: bytes, *, in_rows: bool) -> None:
    if not raw.strip():
        return
    word, value = _word_and_value(raw) or ("", "")
    if not word or in_rows:
        shown = raw[:40].decode("ascii", "surrogateescape")
        listing.findings.add("listing.line", offset, f"neither a row nor a word with a value: {shown!r}")
    elif offset + len(raw) > MAX_HEADER:
        listing.findings.add("listing.line", offset, f"more than {MAX_HEADER:,} bytes before the rows")
    elif word != "event":
        listing.lines.append(Line(word, value))
    elif event := _EVENT.fullmatch(value):
        listing.offsets.append(offset)
        listing.events.append(Event(int(event[1]), event[2], int(event[3]), int(event[4])))
    else:
        listing.findings.add("listing.line", offset, f"not an event: {value[:40]!r}")


def of_profile(trace: DcpiTrace) -> Listing:
    """Convert a profile to a listing.

    Raises:
        EncodeError: the profile does not have the address of its text, or its chunks do not rise.
    """
    header = trace.header
    samples = trace.table("samples")
    if header.text_start is None:
        raise EncodeError("addresses are unknown without a line `tstart`", "header")
    if (np.diff(samples["text_offset"]) <= 0).any():
        raise EncodeError("the chunks overlap", "samples")
    counts = samples["count"].astype(np.int64)
    event = Event(int(counts.sum()), (header.get("event") or "unknown").replace(" ", "_"), header.period or 0)
    start, size = f"{header.text_start:#x}", f"{header.text_size or 0:#x}"
    words = ("image", "label", "path", "epoch", "platform")
    lines = [Line(line.word, line.value) for word in words for line in header.lines if line.word == word]
    name = (header.get("path") or "unknown").rpartition("/")[2] or "unknown"
    lines = [Line("name", name), *lines, Line("text_start", start), Line("text_size", size)]
    return Listing(lines, [event], samples["address"].values, [counts])


def text(listing: Listing) -> Iterator[str]:
    """Yield the lines of a listing, without line ends.

    Raises:
        EncodeError: counts are negative or do not fit 32 bits, or a value has a line end.
    """
    for line in listing.lines:
        if "\n" in line.value or "\r" in line.value:
            raise EncodeError(f"{line.value!r} has a line end", line.word)
    for event, column in zip(listing.events, listing.counts, strict=True):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= MAX_COUNT:
            raise EncodeError("a count does not fit 32 bits", event.name)
    yield from (f"{line.word:<12}{line.value}" for line in listing.lines)
    yield from (f"{'event':<12}{event.total} {event.name}:{event.period}:{event.duty}" for event in listing.events)
    columns = [listing.address.tolist(), *(column.tolist() for column in listing.counts)]
    for address, *counts in zip(*columns, strict=True):
        if any(counts):
            yield f"{address:#x} {' '.join(map(str, counts))}"
