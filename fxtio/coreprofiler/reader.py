"""The reader of a trace: a summary, typed records, stacks, columns; all of it block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.catalog import TABLES, Collector
from fxtio.coreprofiler.framing import MARK, Block, Framer
from fxtio.coreprofiler.lines import places_of_forms
from fxtio.coreprofiler.rules import Rules, Watcher
from fxtio.coreprofiler.stacks import Sample, Stacks
from fxtio.coreprofiler.style import Detector, Style, dialect
from fxtio.coreprofiler.timeline import Timeline
from fxtio.finding import Level
from fxtio.io.reading import FileReader
from fxtio.table import Table

NS_PER_MS = 1_000_000


class Entry(NamedTuple):
    """A record with where and when it is.

    Attributes:
        offset: its byte offset in the (decompressed) file.
        time: nanoseconds from the start of profiling, or None.
        record: the record.
    """

    offset: int
    time: int | None
    record: Any


@dataclass(slots=True)
class Info:
    """A summary of a trace.

    Attributes:
        name: where it was read from.
        format: always `coreprofiler`.
        compression: `gzip`, `zstd`, `xz` or None.
        size: bytes, decompressed.
        records: how many records of each class; `Opaque` are lines that are none.
        style: how it is written.
        config: the profiler's parameters.
        threads: Internal IDs of threads, with the newest thread of the operating system (None unknown).
        start: the earliest time in nanoseconds, or None without timed records.
        end: the latest time in nanoseconds, or None.
        started_at: when profiling began, local time with or without its distance from UTC; or None.
        timeline: collections, compilations, pauses and CPU time.
    """

    name: str
    format: str
    compression: str | None
    style: Style
    size: int = 0
    records: Counter[str] = field(default_factory=Counter)
    config: dict[str, str] = field(default_factory=dict)
    threads: dict[int | None, int | None] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    started_at: datetime | None = None
    timeline: Timeline = field(default_factory=Timeline)


class CoreProfilerTrace(FileReader):
    """A CoreProfiler trace; the arguments are those of `fxtio.io.reading.FileReader`."""

    format = "coreprofiler"

    _info: Info | None = None
    _style: Style | None = None
    _detector: Detector | None = None
    _share = 0.0

    @property
    def info(self) -> Info:
        """A summary; reads the trace once, and finds whatever is wrong with it.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._info is None:
            self.watch(None)
            assert self._info is not None
        return self._info

    @property
    def style(self) -> Style:
        """How the file is written, as far as it was looked at; looks at its first lines if nothing was read yet.

        It goes on being taken from the file while records are read without `resolve`, so a writer that is made with it
        writes them back as they were.

        Raises:
            DecodeError: in strict mode, at a fault in the first lines.
        """
        if self._style is None:
            if not self._again:
                self._style = dialect("D2")  # it will be filled while the only reading goes on
                # But a writer may be made with it before that, and a mark comes first.
                self._style.mark = self._source is not None and self._source.head.startswith(MARK)
            else:
                for _ in self._blocks(detect=True):
                    break
        assert self._style is not None
        return self._style

    def absolute(self, time: int) -> datetime | None:
        """A time in nanoseconds from the start as a date, to the microsecond.

        Returns:
            Local time, with its distance from UTC if the trace tells it; None where there is no start or no such date.
        """
        started = self.info.started_at
        try:
            return None if started is None else started + timedelta(microseconds=time // 1000)
        except OverflowError:
            return None

    def __iter__(self) -> Iterator[Any]:
        """The records in the order of the file, see `records`."""
        return self.records()

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """The records as typed objects, in the order of the file; a line that is none is `Opaque`.

        Args:
            resolve: without it, lines that would not be written back the same, in the style of the file, are `Opaque`
                too: writing all of it with `CoreProfilerWriter.put` and `style` gives a copy.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for _, records in self._pieces(resolve):
            yield from records

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """The records as from `records`, with where and when they are.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for offsets, records in self._pieces(resolve):
            for offset, record in zip(offsets, records, strict=True):
                stamp = getattr(record, "timestamp", None)
                yield Entry(offset, None if stamp is None else stamp * NS_PER_MS, record)

    def samples(self) -> Iterator[Sample]:
        """Whole stacks, in the order of the file, one for each stack sample and one for each memory sample.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        stacks: Stacks | None = None
        for offsets, records in self._pieces(resolve=True):
            assert self._findings is not None
            stacks = stacks or Stacks(self._findings)
            yield from stacks.samples(zip(offsets, records, strict=True))

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Tables piece by piece, in bounded memory.

        Args:
            names: which tables (see `table_names`).  Numbers of rows in one (`frames.sample`) count within the piece.
        """
        Collector(names)
        for block in self._blocks():
            if isinstance(block, Block):
                collector = Collector(names)
                collector.add(block, 0.0)
                yield collector.tables()

    def tables(self, *names: str) -> dict[str, Table]:
        """Several whole tables in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        collector = Collector(names)
        for block in self._blocks():
            if isinstance(block, Block):
                collector.add(block, self._share)
        return collector.tables()

    def table(self, name: str) -> Table:
        """One whole table, see `tables` and `table_names`."""
        return self.tables(name)[name]

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that a trace has, empty ones included."""
        return TABLES

    def _blocks(self, *, detect: bool = False) -> Iterator[Block | tuple[int, bytes]]:
        if detect and self._detector is None:
            self._style = self._style or dialect("D2")
            self._detector = Detector(self._style, places_of_forms())
        with self._reading() as (source, findings):
            if source.head == b"":
                return
            if detect and self._style is not None:
                self._style.mark = source.head.startswith(MARK)
            first = True
            sizes: set[int] = set()
            for block in Framer(source, findings):
                if isinstance(block, Block):
                    self._share = (block.base + len(block.data)) / source.size if source.size else 0.0
                    if len(sizes) < 2 and len(sizes | block.lines.pointer_sizes) > 1:
                        told = "pointers are of different widths, here or in the lines after it"
                        findings.add("pointer-width", block.base, told, level=Level.WARNING)
                    sizes |= block.lines.pointer_sizes
                    if detect and self._detector is not None:
                        self._detector.look(block.data, first=first)
                first = False
                yield block
                self._tell(source)

    def _pieces(self, resolve: bool, *, detect: bool = False) -> Iterator[tuple[list[int], Any]]:
        """Records with their offsets, block by block."""
        for block in self._blocks(detect=detect or not resolve):
            if not isinstance(block, Block):
                yield [block[0]], [Opaque(block[1])]
            elif resolve:
                yield block.offsets().tolist(), block.records()
            else:
                yield block.offsets().tolist(), block.exact(self.style)

    def watch(self, watcher: Watcher | None) -> Info:
        """Read the whole trace, find whatever is wrong with it, and tell of all records and samples on the way.

        Args:
            watcher: is told.

        Returns:
            The summary.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        info = Info(self.name, self.format, self.compression, dialect("D2"))
        rules: Rules | None = None
        for offsets, records in self._pieces(resolve=True, detect=True):
            assert self._findings is not None
            rules = rules or Rules(self._findings, watcher)
            info.records.update(map(_class_name, records))
            rules.add(offsets, records, info.timeline)
        if rules is not None:
            rules.finish(self.position, self._style or info.style)
            info.config, info.threads = rules.config, rules.threads
            info.started_at = rules.started_at
            if rules.first is not None and rules.last is not None:
                info.start, info.end = rules.first * NS_PER_MS, rules.last * NS_PER_MS
        info.size, info.style = self.position, self._style or info.style
        self._info = info
        return info


def _class_name(record: Any) -> str:
    return type(record).__name__
