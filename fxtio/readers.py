"""The base classes of readers: options, findings, opening a file once or again, progress, tables by name, timelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from fxtio.display import as_html
from fxtio.errors import FormatError, FxtioError
from fxtio.finding import Findings
from fxtio.formats import by_name
from fxtio.io.reading import Progress, TraceInfo, can_reopen
from fxtio.io.source import Source, Spool, open_source
from fxtio.report import Report, counted

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from fxtio.formats import Trace
    from fxtio.table import Table
    from fxtio.timeline import Timeline

InfoT = TypeVar("InfoT", bound=TraceInfo)


QUICK_BYTES = 64_000_000
"""The most bytes, compressed or not, that are read to show a trace in a notebook."""


class Entry(NamedTuple):
    """A record with its place and its time; formats with more to tell of a record have entries of their own.

    Attributes:
        offset: its byte offset in the (decompressed) trace.
        time: nanoseconds, or None for a record without a time.
        record: the record.
    """

    offset: int
    time: int | None
    record: Any


class _LargeError(Exception):
    """Raised where the reading of a summary would take long."""


class TraceReader(ABC, Generic[InfoT]):
    """The base of every reader, see `fxtio.formats.Trace`.

    A format implements `entries`, `_summarize`, `_read_tables` and `_read_batches`; it may override `records` where
    making records alone is quicker.

    Args:
        name: where it is read from.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: read no more than this number of (decompressed) bytes.
        progress: called now and then while reading.

    Attributes:
        share: the part of the trace that the last reading has read so far (0 to 1), 0 where it is not known.
    """

    format: ClassVar[str]
    compression: str | None = None
    share: float = 0.0

    def __init__(
        self, name: str, *, strict: bool = False, max_bytes: int | None = None, progress: Progress | None = None
    ) -> None:
        if max_bytes is not None and max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}; it cannot be negative")
        self.name = name
        self._strict = strict
        self._max_bytes = max_bytes
        self._progress = progress
        self._findings: Findings | None = None
        self._info: InfoT | None = None
        self._queried: Timeline | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _repr_html_(self) -> str:
        """Return a summary as HTML for notebooks; of a large trace that was not read yet, only what is known of it."""
        return as_html(self._outline())

    def _outline(self) -> Report:
        """Describe the trace without much reading, see `QUICK_BYTES`."""
        try:
            report = self.info.report() if self._info is not None or self._is_quick() else self._brief()
        except (FxtioError, OSError) as error:
            report = self._brief()
            report.notes.append(str(error))
        if self._findings:
            count = len(self._findings)
            rules = counted(len(self._findings.counts), "rule")
            report.facts.append(("findings", f"{count:,}, of {rules}: see trace.findings"))
        report.facts.append(("tables", ", ".join(self.table_names)))
        return report

    def _brief(self) -> Report:
        form = f"{self.format}, {self.compression}" if self.compression else self.format
        notes = ["trace.info reads the whole trace, for its times and numbers of records"]
        return Report(self.name, [("format", form)], notes=notes)

    def _is_quick(self) -> bool:
        """Read the summary if there is little to read; return whether it is there."""
        progress, findings, share = self._progress, self._findings, self.share
        self._progress = self._stop_if_large
        try:
            self._info = self._summarize()
        except _LargeError:
            self._findings, self.share = findings, share
            return False
        finally:
            self._progress = progress
        return True

    def _stop_if_large(self, done: int, total: int | None) -> None:
        if max(done, total or 0) > QUICK_BYTES:
            raise _LargeError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened here and is still open."""
        self._queried = None

    @property
    def info(self) -> InfoT:
        """A summary; the first use reads the trace once, without making records.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._info is None:
            self._info = self._summarize()
        return self._info

    @property
    def findings(self) -> Findings:
        """The faults that the last reading found, as far as it came; reads the trace if nothing was read yet.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        if self._findings is None:
            _ = self.info
        assert self._findings is not None
        return self._findings

    def __iter__(self) -> Iterator[Any]:
        """Yield the records, see `records`."""
        return self.records()

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """Yield the records as typed objects, in the order of the file, see `fxtio.formats.Trace`.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return (entry.record for entry in self.entries(resolve=resolve))

    @abstractmethod
    def entries(self, *, resolve: bool = True) -> Iterator[Any]:
        """Yield the records as `records` does, with their places and times.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """

    @property
    @abstractmethod
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every trace has all of them, some may be empty."""

    def table(self, name: str) -> Table:
        """Return one whole table, see `tables`."""
        return self.tables(name)[name]

    def tables(self, *names: str) -> dict[str, Table]:
        """Return several whole tables, made in one reading.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        return self._read_tables(self._checked(names))

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Yield tables in batches of bounded size; every batch has all tables that were asked for.

        A column that refers to rows of another table counts within the batch.

        Raises:
            KeyError: there is no such table.
            DecodeError: in strict mode, at the first fault.
        """
        return self._read_batches(self._checked(names))

    def timeline(self) -> Timeline:
        """Return the trace as format-neutral tables, which are the same for all formats, see `fxtio.open_timeline`.

        Each call returns a new timeline, which reads the trace when it is first asked for a table.  Closing it closes
        the trace.

        Raises:
            FormatError: the format has no timeline.
        """
        chosen = by_name(self.format)
        if not chosen.has_timeline:
            raise FormatError(f"{self.name}: traces of the format {chosen.name} cannot be read as a timeline")
        from fxtio.timeline import Timeline

        return Timeline(self.name, self.format, partial(chosen.timeline.parts, self), trace=self)

    def sql(self, query: str) -> DuckDBPyRelation:
        """Run a query in SQL over the timeline of the trace, see `fxtio.timeline.Timeline.sql`.

        The tables that queries use are kept until the trace is closed.

        Returns:
            The result, which DuckDB computes when it is fetched: `fetchall()`, `df()`, `pl()`, `arrow()`, `show()`.

        Raises:
            QueryError: DuckDB refuses the query, or is not installed (the extra `sql`).
            TypeError: the query is no string.
            FormatError: the format has no timeline.
            DecodeError: in strict mode, at the first fault.
        """
        if self._queried is None:
            self._queried = self.timeline()
        return self._queried.sql(query)

    def _checked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of tables without repetition, or raise KeyError."""
        for name in names:
            if name not in self.table_names:
                raise KeyError(f"there is no table {name!r}, only {', '.join(self.table_names)}")
        return tuple(dict.fromkeys(names))

    @abstractmethod
    def _summarize(self) -> InfoT:
        """Read the whole trace and return its summary."""

    @abstractmethod
    def _read_tables(self, names: tuple[str, ...]) -> dict[str, Table]:
        """Read the trace and return these tables."""

    @abstractmethod
    def _read_batches(self, names: tuple[str, ...]) -> Iterator[dict[str, Table]]:
        """Read the trace and yield these tables in batches."""


class FileReader(TraceReader[InfoT]):
    """The base of readers of formats that are one file, read from its beginning as often as the target allows.

    What needs more than one reading of a file sets `reads_again` before the first one.  A target that cannot be opened
    again, such as a pipe, is then stored in a temporary file while it is read, until the reader is closed.

    Args:
        target: what to read, see `fxtio.open`.
        strict: raise `DecodeError` at the first fault, instead of collecting findings.
        max_bytes: read no more than this number of (decompressed) bytes.
        progress: called now and then while reading.
        source: the already opened `target`.

    Attributes:
        name: where it is read from.
        compression: `gzip`, `zstd`, `xz` or None.
        position: how many bytes (decompressed) the last reading has read so far.
        reads_again: a target that cannot be opened again can be read more than once.
    """

    reads_again: bool = False

    def __init__(
        self,
        target: Any,
        *,
        strict: bool = False,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        source: Source | None = None,
    ) -> None:
        first = source or open_source(target, limit=max_bytes)
        super().__init__(first.name, strict=strict, max_bytes=max_bytes, progress=progress)
        self.compression = first.compression
        self.position = 0
        self._target = target
        self._source: Source | None = first
        self._spool: Spool | None = None
        self._can_reopen = can_reopen(target)
        if self._can_reopen:  # a file is open only while it is read
            first.close()
            self._source = None

    def close(self) -> None:
        """Close what was opened here and is still open."""
        super().close()
        if self._source is not None:
            self._source.close()
        if self._spool is not None:
            self._spool.close()

    @property
    def times(self) -> InfoT:
        """A summary of which only times matter; some files have these in a place of their own.

        Raises:
            DecodeError: in strict mode, at the first fault.
        """
        return self.info

    def narrow(self, start: int | None, end: int | None) -> None:
        """From now on, read only what a range of times needs, in formats and files that tell where that is.

        All that is within the range is read, and all that goes over its bounds; what else is read depends on the file,
        and so do the offsets of records, and `findings`.  `info` stays that of the whole trace.

        Args:
            start: the start in nanoseconds, or None for that of the trace.
            end: the end, which is not part of the range, or None.
        """

    def portion(self, size: int) -> tuple[int, int] | None:
        """Return a range of times, around the middle of the trace, for which about this many bytes are read, or fewer.

        It is None if the whole trace is not larger, or if a range would not be read faster than all of it.

        Args:
            size: the number of bytes, decompressed.
        """

    def timeline(self) -> Timeline:
        """Return the trace as format-neutral tables, see `TraceReader.timeline`."""
        self.reads_again = True  # to sort it, if need be
        return super().timeline()

    def _is_quick(self) -> bool:
        return self._can_reopen and super()._is_quick()  # what can be read only once is not read for this

    def _stop_if_large(self, done: int, total: int | None) -> None:
        super()._stop_if_large(max(done, self.position), total)

    def _open(self) -> Source:
        """Return the source at its beginning.

        Raises:
            FormatError: it can be read only once.
        """
        if self._can_reopen:
            return open_source(self._target, limit=self._max_bytes)
        if self._spool is not None:
            return self._spool.open()
        if self._source is None:
            raise FormatError(f"{self.name} can be read only once; open a path to read it again")
        source, self._source = self._source, None
        if not self.reads_again:
            return source
        self._spool = Spool(source)
        return self._spool.open()

    @contextmanager
    def _reading(self) -> Iterator[tuple[Source, Findings]]:
        """Open the source from its beginning for a `with` block; give it and the findings to add to.

        Raises:
            FormatError: it can be read only once.
            DecodeError: in strict mode, if it is empty.
        """
        source = self._open()
        findings = self._findings = Findings(self.format, strict=self._strict)
        try:
            if source.head == b"":
                findings.add("source.empty", 0, "the trace is empty")
            yield source, findings
            if source.fault is not None:
                findings.add("source.cut", source.position, source.fault)
        finally:
            self.position = source.position
            source.close()

    def _report_progress(self, source: Source) -> None:
        """Note how far the reading came, and report it."""
        self.position = source.position
        if self._progress is not None:
            self._progress(source.consumed or source.position, source.total)


def times_of(opened: Trace | Timeline) -> TraceInfo:
    """Return a summary of a trace, or of a file of an exchange format, of which only times matter.

    It reads the trace once, unless that is a packed one, see `FileReader.times`, or was done before.
    """
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import summary

    trace = opened.trace if isinstance(opened, Timeline) else opened
    if isinstance(trace, FileReader):
        times: TraceInfo = trace.times
        return times
    return summary(opened) if isinstance(opened, Timeline) else opened.info
