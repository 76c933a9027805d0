"""The reader of a profile: a summary, records in the order of the file, tables; all made block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fxtio.codec.record import Opaque
from fxtio.dcpi.frames import Frame, Framer, PlacedRecord, Segments
from fxtio.dcpi.layout import WORD_TYPE
from fxtio.dcpi.records import (
    MAX_COUNTS,
    Chunk,
    Footer,
    Line,
    MoreCounts,
    Record,
    Terminator,
    empty_chunk,
    encode,
)
from fxtio.dcpi.state import BodyRules, Header, check_header
from fxtio.dcpi.tables import TABLES, SegmentCollector, tables_of
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.io.reading import NOT_SHOWN, TraceInfo
from fxtio.io.source import Source
from fxtio.readers import Entry, FileReader
from fxtio.report import ReportTable, counted
from fxtio.table import Table


@dataclass(slots=True)
class Info(TraceInfo):
    """A summary of a profile.  It has no times; `started_at` is the epoch.

    Attributes:
        header: the header.
        is_opaque: whether the samples are unknown: the body is of a version that was never published, or was changed by
            a transfer as text.
        chunks: number of chunks.
        counts: number of counted addresses.
        addresses: number of these that have samples.
        samples: number of samples.
        mergeable: number of chunks that begin where the one before them ends.
        padded: number of chunks that begin or end with an address without samples.
        footer: the footer, or None.
    """

    header: Header = field(default_factory=Header)
    is_opaque: bool = False
    chunks: int = 0
    counts: int = 0
    addresses: int = 0
    samples: int = 0
    mergeable: int = 0
    padded: int = 0
    footer: Footer | None = field(default=None, metadata=NOT_SHOWN)

    def as_json(self) -> dict[str, Any]:
        """Return these attributes for `fxtio.report.json_document`."""
        header = [{"word": line.word, "value": self.header.value_of(line)} for line in self.header.lines]
        return TraceInfo.as_json(self) | {"header": header}

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "format", self._form()
        yield "size", self._size_text()
        if self.started_at is not None:
            yield "epoch", f"{self.started_at:%Y-%m-%d %H:%M:%S} UTC"
        if not self.is_opaque:
            yield "samples", f"{self.samples:,} at {counted(self.addresses, 'address')}"
            yield "chunks", f"{self.chunks:,} with {counted(self.counts, 'count')}"
            if self.header.period:
                yield "events", f"about {self.samples * self.header.period:,} (samples times period)"

    def _report_tables(self) -> Iterator[ReportTable]:
        yield ReportTable(["word", "value"], [(line.word, self.header.value_of(line)) for line in self.header.lines])

    def _notes(self) -> Iterator[str]:
        if self.mergeable:
            yield f"chunks that begin where the one before them ends: {self.mergeable:,}"
        if self.padded:
            yield f"chunks that begin or end with an address without samples: {self.padded:,}"


class DcpiTrace(FileReader[Info]):
    """A DCPI profile; the arguments are those of `fxtio.readers.FileReader`."""

    format: ClassVar[str] = "dcpi"

    def _summarize(self) -> Info:
        return self.watch(lambda _: None)

    def watch(self, watcher: Callable[[Segments], None]) -> Info:
        """Read the whole profile, apply all rules, and pass all samples to a watcher.

        Args:
            watcher: receives block after block.

        Returns:
            The summary.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        info = Info(self.name, self.format, self.compression)
        for frame in self._frames(info):
            if isinstance(frame, Segments):
                watcher(frame)
        info.size = self.position
        info.started_at = info.header.epoch
        self._info = info
        return info

    def head(self) -> bytes:
        """Return the first bytes of the file, see `fxtio.io.source.Source`.

        Raises:
            FormatError: the file can be read only once, and was.
        """
        if self._source is not None:
            return self._source.head
        with closing(self._open()) as source:
            return source.head

    def read_with(self, check: Callable[[Source, Findings], None]) -> None:
        """Pass the file, from its beginning, and the findings of this reading to a function.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        with self._reading() as (source, findings):
            check(source, findings)

    @property
    def header(self) -> Header:
        """The header."""
        return self.info.header

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records in the order of the file, each with its place.

        Args:
            resolve: give a header line whose value is wrong as a `Line`.  If false, whatever would not be written back
                the same is `Opaque`: `DcpiWriter.put` writes all of it as the same bytes.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for frame in self._frames():
            if isinstance(frame, Segments):
                yield from _chunks(frame)
            else:
                yield Entry(frame.offset, None, frame.record if resolve else _exact(frame.record))

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of all tables, empty ones included."""
        return TABLES

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        """Yield the tables block by block, at least once; the first batch has the header, the last one the footer."""
        info = Info(self.name, self.format, self.compression)
        header_is_due = True
        for frame in self._frames(info):
            if isinstance(frame, Segments):
                yield tables_of(names, frame, info.header, with_header=header_is_due)
                header_is_due = False
            elif isinstance(frame.record, Footer) and "footer" in names:
                yield tables_of(names, None, info.header, frame, with_header=header_is_due)
                header_is_due = False
        if header_is_due:
            yield tables_of(names, None, info.header, with_header=True)

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        info = Info(self.name, self.format, self.compression)
        collector = SegmentCollector(names)
        footer: PlacedRecord | None = None
        for frame in self._frames(info):
            if isinstance(frame, Segments):
                collector.add(frame, self.share)
            elif isinstance(frame.record, Footer):
                footer = frame
        return collector.tables(info.header, footer)

    def _frames(self, info: Info | None = None) -> Iterator[Frame]:
        """Yield the frames of the file, checked, and add up `info`."""
        info = info or Info(self.name, self.format, self.compression)
        with self._reading() as (source, findings):
            if source.head == b"":
                return
            framer = Framer(source, findings)
            ended = False
            for placed in framer.header():
                info.records[type(placed.record).__name__] += 1
                if isinstance(placed.record, Line):
                    info.header.add(placed.record, placed.offset)
                ended = ended or isinstance(placed.record, Terminator) or framer.has_returns
                if ended:
                    info.header.has_returns = framer.has_returns
                    info.header.end = placed.offset + placed.size
                    check_header(info.header, findings)
                yield placed
            if ended:
                yield from self._body(source, findings, framer, info)
            else:
                check_header(info.header, findings)

    def _body(self, source: Source, findings: Findings, framer: Framer, info: Info) -> Iterator[Frame]:
        is_unpublished = (info.header.major or 0) >= 1
        if is_unpublished or info.header.has_returns:
            info.is_opaque = True
            if is_unpublished:
                message = "samples are unavailable: the layout of the body from version 1 on was never published"
                findings.add("body.opaque", info.header.end, message)
            for placed in framer.opaque():
                info.records[type(placed.record).__name__] += 1
                yield placed
            return
        rules = BodyRules(info.header, findings)
        for frame in framer.body():
            if isinstance(frame, Segments):
                rules.add(frame)
                if more := _more_records(frame):
                    info.records["MoreCounts"] += more
                self.share = frame.end() / source.size if source.size else 0.0
            else:
                info.records[type(frame.record).__name__] += 1
                if isinstance(frame.record, Footer):
                    info.footer = frame.record
                    rules.add_footer(frame.record, frame.offset)
            self._report_progress(source)
            yield frame
        info.records.update(Chunk=rules.chunks - rules.empty, Opaque=rules.empty)
        info.records += Counter()  # without classes that do not occur
        for name in ("chunks", "counts", "addresses", "samples", "mergeable", "padded"):
            setattr(info, name, getattr(rules, name))


def _more_records(block: Segments) -> int:
    """Return how many `MoreCounts` records `_chunks` gives."""
    long = block.count[block.count > MAX_COUNTS]
    first_continues = int(block.continues)  # its first part is no `Chunk`
    return int((-(-long // MAX_COUNTS) - 1).sum()) + first_continues


def _chunks(block: Segments) -> Iterator[Entry]:
    """Yield the chunks of a block as records of at most `MAX_COUNTS` counts."""
    last = len(block.begin) - 1
    rows = zip(block.begin.tolist(), block.count.tolist(), block.text_offset.tolist(), strict=True)
    for row, (begin, count, text_offset) in enumerate(rows):
        for part in range(0, count, MAX_COUNTS) if count else (0,):
            counts = tuple(block.words[begin + part : begin + min(part + MAX_COUNTS, count)].tolist())
            if part == 0 and not (block.continues and row == 0):
                remaining = (block.remaining if row == last else 0) + count - len(counts)
                record = Chunk(text_offset, counts, remaining) if counts or remaining else empty_chunk(text_offset)
                yield Entry(block.offset_of(row), None, record)
            else:
                yield Entry(block.base + (begin + part) * WORD_TYPE.itemsize, None, MoreCounts(counts))


def _exact(record: Record) -> Record:
    """Return the record, or `Opaque` if it cannot be written."""
    try:
        encode(record)
    except EncodeError:
        assert isinstance(record, Line)  # all others are made of bytes that they encode to
        return Opaque(f"{record.word}{record.blanks}{record.value}\n".encode("ascii", "surrogateescape"))
    return record
