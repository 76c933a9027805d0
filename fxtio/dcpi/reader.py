"""The reader of a profile: a summary, records in the order of the file, columns; all of it block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fxtio.codec.record import Opaque
from fxtio.dcpi.columns import TABLES, Collector, check_names, nothing, tables_of
from fxtio.dcpi.framing import Framer, Item, Segments
from fxtio.dcpi.header import Header, check_header
from fxtio.dcpi.layout import WORD_TYPE
from fxtio.dcpi.records import PIECE, Chunk, Footer, Line, More, Record, Terminator, encode
from fxtio.dcpi.rules import BodyRules
from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.io.reading import FileReader
from fxtio.io.source import Source
from fxtio.table import Table


class Entry(NamedTuple):
    """A record with where it is.

    Attributes:
        offset: its byte offset in the (decompressed) file.
        record: the record.
    """

    offset: int
    record: Record


@dataclass(slots=True)
class Info:
    """A summary of a profile.

    Attributes:
        name: where it was read from.
        format: always `dcpi`.
        compression: `gzip`, `zstd`, `xz` or None.
        size: bytes, decompressed.
        records: how many records of each class.
        header: the header.
        epoch: when the samples' epoch began, in UTC, or None.
        opaque: whether the body is of a version that nobody has published, so that its samples are unknown.
        chunks: how many chunks.
        counts: how many addresses they cover.
        addresses: how many of these have a sample.
        samples: how many samples there are in all.
        mergeable: how many chunks begin where the one before them ends.
        padded: how many chunks begin or end with an address without samples.
        footer: the footer, or None.
    """

    name: str
    format: str
    compression: str | None
    size: int = 0
    records: Counter[str] = field(default_factory=Counter)
    header: Header = field(default_factory=Header)
    epoch: datetime | None = None
    opaque: bool = False
    chunks: int = 0
    counts: int = 0
    addresses: int = 0
    samples: int = 0
    mergeable: int = 0
    padded: int = 0
    footer: Footer | None = None


class DcpiTrace(FileReader):
    """A DCPI profile; the arguments are those of `fxtio.io.reading.FileReader`."""

    format = "dcpi"

    _info: Info | None = None

    @property
    def info(self) -> Info:
        """A summary; reads the profile once.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return self._info or self.watch(lambda _: None)

    def watch(self, watcher: Callable[[Segments], None]) -> Info:
        """Read the whole profile, find whatever is wrong with it, and tell of the samples on the way.

        Args:
            watcher: is given block after block.

        Returns:
            The summary.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        info = Info(self.name, self.format, self.compression)
        for item in self._items(info):
            _count(info, item)
            if isinstance(item, Segments):
                watcher(item)
        info.size = self.position
        info.epoch = info.header.epoch
        self._info = info
        return info

    @property
    def header(self) -> Header:
        """The header."""
        return self.info.header

    def __iter__(self) -> Iterator[Record]:
        """The records in the order of the file, see `records`."""
        return self.records()

    def records(self, *, resolve: bool = True) -> Iterator[Record]:
        """The records in the order of the file.

        Args:
            resolve: give a header line whose value is wrong as a `Line`.  Without it, whatever would not be written
                back is `Opaque`: writing all of it with `DcpiWriter.put` gives a copy.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return (entry.record for entry in self.entries(resolve=resolve))

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """The records as from `records`, with where they are.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for item in self._items():
            if isinstance(item, Segments):
                yield from _chunks(item)
            else:
                yield Entry(item.offset, item.record if resolve else _exact(item.record))

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Tables piece by piece, in bounded memory; at least one piece.

        Args:
            names: which tables, see `table_names`; `header` is whole in each piece.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        check_names(names)
        info = Info(self.name, self.format, self.compression)
        blocks = 0
        for item in self._items(info):
            if isinstance(item, Segments):
                blocks += 1
                yield tables_of(names, item, info.header)
        if not blocks:
            yield tables_of(names, nothing(), info.header)

    def tables(self, *names: str) -> dict[str, Table]:
        """Several whole tables in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        info = Info(self.name, self.format, self.compression)
        collector = Collector(names)
        for item in self._items(info):
            if isinstance(item, Segments):
                collector.add(item, self._share)
        return collector.tables(info.header)

    def table(self, name: str) -> Table:
        """One whole table, see `tables` and `table_names`."""
        return self.tables(name)[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that a profile has, empty ones included."""
        return TABLES

    _share = 0.0

    def _items(self, info: Info | None = None) -> Iterator[Item]:
        """Whatever is in the file, checked; what it adds up to goes to `info`."""
        info = info or Info(self.name, self.format, self.compression)
        with self._reading() as (source, findings):
            if source.head == b"":
                return
            framer = Framer(source, findings)
            ended = False
            for item in framer.header():
                if isinstance(item.record, Line):
                    info.header.add(item.record, item.offset)
                ended = ended or isinstance(item.record, Terminator)
                if ended:
                    info.header.end = item.offset + item.size
                    check_header(info.header, findings)
                yield item
            if ended:
                yield from self._body(source, findings, framer, info)
            else:
                check_header(info.header, findings)

    def _body(self, source: Source, findings: Findings, framer: Framer, info: Info) -> Iterator[Item]:
        if (info.header.major or 0) >= 1:
            info.opaque = True
            told = "samples are unavailable: the layout of the body from version 1 on was never published"
            findings.add("body-opaque", info.header.end, told, level=Level.WARNING)
            yield from framer.opaque()
            return
        rules = BodyRules(info.header, findings)
        for item in framer.body():
            if isinstance(item, Segments):
                rules.add(item)
                self._share = item.end() / source.size if source.size else 0.0
            elif isinstance(item.record, Footer):
                info.footer = item.record
                rules.footer(item.record, item.offset)
            self._tell(source)
            yield item
        for name in ("chunks", "counts", "addresses", "samples", "mergeable", "padded"):
            setattr(info, name, getattr(rules, name))


def _count(info: Info, item: Item) -> None:
    if isinstance(item, Segments):
        info.records["Chunk"] += len(item.at) - item.begun
    else:
        info.records[type(item.record).__name__] += 1


def _chunks(made: Segments) -> Iterator[Entry]:
    """The chunks of a block as records, in pieces."""
    last = len(made.at) - 1
    rows = zip(made.at.tolist(), made.count.tolist(), made.offset.tolist(), strict=True)
    for row, (at, count, offset) in enumerate(rows):
        for begin in range(0, count, PIECE) if count else (0,):
            counts = tuple(made.words[at + begin : at + min(begin + PIECE, count)].tolist())
            if begin == 0 and not (made.begun and row == 0):
                rest = (made.behind if row == last else 0) + count - len(counts)
                yield Entry(made.place(row), Chunk(offset, counts, rest) if counts or rest else _empty(offset))
            else:
                yield Entry(made.base + (at + begin) * WORD_TYPE.itemsize, More(counts))


def _empty(offset: int) -> Opaque:
    """A chunk without counts: it is nothing that may be written."""
    from fxtio.dcpi.layout import CHUNK_HEAD

    return Opaque(CHUNK_HEAD.build({"offset": offset, "number": 0}))


def _exact(record: Record) -> Record:
    """The record, or `Opaque` where it cannot be written."""
    try:
        encode(record)
    except EncodeError:
        assert isinstance(record, Line)  # nothing else comes from bytes that it would not go back to
        return Opaque(f"{record.word}{record.blanks}{record.value}\n".encode("ascii", "surrogateescape"))
    return record
