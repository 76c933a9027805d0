"""The reader of a trace: a summary, typed records, stacks and tables, all made block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.consistency import BlockRules, Rules, Timeline
from fxtio.coreprofiler.frames import Block, blocks_of
from fxtio.coreprofiler.frames import detect as detect_style
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, Style, dialect, nanoseconds
from fxtio.coreprofiler.records import TIME_FIELD
from fxtio.coreprofiler.state import STACK_RECORDS, Sample, Stacks
from fxtio.coreprofiler.tables import TABLES, RecordCollector
from fxtio.display import MAX_ROWS
from fxtio.finding import Findings
from fxtio.io.reading import NOT_SHOWN, TraceInfo, pairs_of
from fxtio.readers import Entry, FileReader
from fxtio.report import ReportTable
from fxtio.table import Table

_STYLE_BYTES = 1 << 22
"""A summary has the style of this many bytes; looking for letters in numbers that have none takes long."""


@dataclass(slots=True)
class Info(TraceInfo):
    """A summary of a trace.  Times are from the start of profiling; the first record gives its local time.

    Attributes:
        style: how the file is written, as far as its first 4 MiB show it.
        config: the profiler's parameters.
        threads: Internal IDs of threads, with the newest thread of the operating system (None unknown).
        timeline: counts and lengths of collections, compilations and pauses, and CPU time.
    """

    style: Style = field(default_factory=lambda: dialect("D2"))
    config: dict[str, str] = field(default_factory=dict)
    threads: dict[int | None, int | None] = field(default_factory=dict, metadata=pairs_of("thread", "os_thread"))
    timeline: Timeline = field(default_factory=Timeline, metadata=NOT_SHOWN)

    def as_json(self) -> dict[str, Any]:
        """Return these attributes for `fxtio.report.json_document`."""
        style = {"formats": self.style.formats, "newline": self.style.newline, "mark": self.style.mark}
        times = {"intervals": self.timeline.as_json(), "process_cpu_us": self.timeline.process_cpu}
        return TraceInfo.as_json(self) | {"style": style} | times

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield from TraceInfo._facts(self)  # a dataclass with slots is another class than `super` would know
        formats = ", ".join(f"{kind} {form}" for kind, form in self.style.formats.items())
        line_end = "CRLF" if self.style.newline == "\r\n" else "LF"
        yield "style", f"{formats}; lines end with {line_end}{', byte-order mark' if self.style.mark else ''}"

    def _started_text(self, moment: datetime) -> str:
        return f"{moment.isoformat(sep=' ', timespec='milliseconds')} local time"

    def _report_tables(self) -> Iterator[ReportTable]:
        yield from TraceInfo._report_tables(self)
        if self.config:
            yield ReportTable(["parameter", "value"], [*self.config.items()])
        if self.threads:
            rows = [
                ("?" if thread is None else f"{thread:#x}", "-" if os_thread is None else str(os_thread))
                for thread, os_thread in islice(self.threads.items(), MAX_ROWS)
            ]
            yield ReportTable([">thread", ">os thread"], rows, len(self.threads) - len(rows))

    @property
    def started_at_time(self) -> int | None:
        """The time of the start of profiling: 0."""
        return 0


class CoreProfilerTrace(FileReader[Info]):
    """A CoreProfiler trace; the arguments are those of `fxtio.readers.FileReader`."""

    format: ClassVar[str] = "coreprofiler"

    _style: Style | None = None
    _share = 0.0

    def _summarize(self) -> Info:
        return self.watch()

    @property
    def style(self) -> Style:
        """The style of the file, as far as it is known; reads the first lines if nothing was read yet.

        The object changes while records are read without `resolve`, so a writer that has it writes them back as they
        were.

        Raises:
            DecodeError: in strict mode, at a fault in the first lines.
        """
        if self._style is None:
            if not self._can_reopen:
                self._style = dialect("D2")  # the only reading will fill it
                # A writer may be made with it before that, and a byte-order mark comes first.
                self._style.mark = self._source is not None and self._source.head.startswith(BYTE_ORDER_MARK)
            else:
                for _ in self._blocks(detect=True):
                    break
        assert self._style is not None
        return self._style

    def absolute(self, time: int) -> datetime | None:
        """Convert nanoseconds from the start of profiling to a date, to the microsecond.

        Returns:
            Local time, with its distance from UTC if the trace has it; None if the trace has no start, or if the date
            is beyond the year 9999.
        """
        started = self.info.started_at
        try:
            return None if started is None else started + timedelta(microseconds=time // 1000)
        except OverflowError:
            return None

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """Yield the records as typed objects, in the order of the file; a line that is not a record is `Opaque`.

        Args:
            resolve: if false, lines that would not be written back the same, in the style of the file, are `Opaque`
                too: `CoreProfilerWriter.put` with the same `style` writes all of it as the same bytes.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for _, records in self._record_blocks(resolve):
            yield from records

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records as `records` does, each with its place and its time.

        Records that are resolved are checked by the rules of `info` besides, after those of each block.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        checked = map(_records_of, self._checked_blocks(Info(self.name, self.format, self.compression)))
        for offsets, records in checked if resolve else self._record_blocks(resolve):
            for offset, record in zip(offsets, records, strict=True):
                timestamp = getattr(record, TIME_FIELD, None)
                yield Entry(offset, None if timestamp is None else nanoseconds(timestamp), record)

    def raw_blocks(self) -> Iterator[bytes]:
        """Yield the bytes of all lines, in parts, while `style` gets the traits that they show.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for block in self._blocks(detect=True):
            yield block.data if isinstance(block, Block) else block[1]

    def samples(self) -> Iterator[Sample]:
        """Yield whole stacks in the order of the file: one for each stack sample and one for each memory sample.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        for stacks, block in self._followed():
            yield from stacks.samples(block.placed(*STACK_RECORDS))

    def _followed(self) -> Iterator[tuple[Stacks, Block]]:
        """Yield the blocks of whole lines, with the stacks as they are before each."""
        stacks: Stacks | None = None
        for block in self._blocks():
            if isinstance(block, Block):
                assert self._findings is not None
                stacks = stacks or Stacks(self._findings)
                yield stacks, block

    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        collector: RecordCollector | None = None
        for stacks, block in self._followed():
            collector = RecordCollector(names, stacks)
            collector.add(block, 0.0)
            yield collector.tables()
        if collector is None:
            yield RecordCollector(names).tables()

    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        collector: RecordCollector | None = None
        for stacks, block in self._followed():
            collector = collector or RecordCollector(names, stacks)
            collector.add(block, self._share)
        return (collector or RecordCollector(names)).tables()

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of all tables, empty ones included."""
        return TABLES

    def _blocks(self, *, detect: bool = False, within: int | None = None) -> Iterator[Block | tuple[int, bytes]]:
        """Yield the blocks of the file, and parts of lines that are too long.

        Args:
            detect: take the style of the file from its lines.
            within: only from lines in this many bytes at the beginning; None for all.
        """
        if detect:
            self._style = self._style or dialect("D2")
        with self._reading() as (source, findings):
            if source.head == b"":
                return
            if detect and self._style is not None:
                self._style.mark = source.head.startswith(BYTE_ORDER_MARK)
            first = True
            sizes: set[int] = set()
            for block in blocks_of(source, findings):
                if isinstance(block, Block):
                    self._share = (block.base + len(block.data)) / source.size if source.size else 0.0
                    if len(sizes) < 2 and len(sizes | block.lines.widths) > 1:
                        message = "pointers have different widths, in these lines or in later ones"
                        findings.add("line.pointer-width", block.base, message)
                    sizes |= block.lines.widths
                    if detect and self._style is not None and (within is None or block.base < within):
                        detect_style(self._style, block.data, first=first)
                first = False
                yield block
                self._report_progress(source)

    def _record_blocks(self, resolve: bool) -> Iterator[tuple[list[int], Any]]:
        """Yield byte offsets and records, block by block."""
        for block in self._blocks(detect=not resolve):
            if resolve or not isinstance(block, Block):
                yield _records_of(block)
            else:
                yield block.offsets().tolist(), block.exact(self.style)

    def watch(self, checks: Callable[[Findings], Sequence[BlockRules]] = lambda _: ()) -> Info:
        """Read the whole trace, and apply the rules of `consistency`.

        Args:
            checks: makes further rules for the findings of this reading.

        Returns:
            The summary.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        info = Info(self.name, self.format, self.compression)
        for _ in self._checked_blocks(info, checks):
            pass
        self._info = info
        return info

    def _checked_blocks(
        self, info: Info, checks: Callable[[Findings], Sequence[BlockRules]] = lambda _: ()
    ) -> Iterator[Block | tuple[int, bytes]]:
        """Yield the blocks of the file, apply the rules to each after that, and fill a summary."""
        rules: Rules | None = None
        more: Sequence[BlockRules] = ()
        for block in self._blocks(detect=True, within=_STYLE_BYTES):
            yield block
            assert self._findings is not None
            if rules is None:
                rules, more = Rules(self._findings, info.timeline), checks(self._findings)
            if not isinstance(block, Block):  # a part of a line that is too long
                info.records[Opaque.__name__] += 1
                continue
            info.records.update(block.counts())
            for each in (rules, *more):
                each.add(block)
        info.size, info.style = self.position, self._style or info.style
        if rules is None or self._findings is None:
            return
        if info.style.mark or info.style.newline != "\n":
            self._findings.add("source.windows-lines", 0)
        for each in (rules, *more):
            each.finish(self.position)
        info.config, info.threads, info.started_at = rules.config, rules.threads, rules.started_at
        if rules.first is not None and rules.last is not None:
            info.start, info.end = nanoseconds(rules.first), nanoseconds(rules.last)


def _records_of(block: Block | tuple[int, bytes]) -> tuple[list[int], list[Any]]:
    """Return the byte offsets and the records of a block, or of a part of a line that is too long."""
    if isinstance(block, Block):
        return block.offsets().tolist(), block.records()
    return [block[0]], [Opaque(block[1])]
