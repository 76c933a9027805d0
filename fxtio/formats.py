"""The contract of a format, and the registry: which format a file or a directory has, by content first, then by suffix.

Every format is a package with the same rooms (modules of the same name and role), and one `Format` object in its
`__init__`.  Its reader fulfils `Trace`, its writer `Writer`, and the commands use its rooms `report`, `explain`,
`rules`, `cut` and `merge`.  Other distributions add a format by the entry point group
`fxtio.formats`.
`docs/explanation/architecture.md` describes how to add one; `tests/contract` holds all of them to what is said here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

from fxtio.errors import FormatError
from fxtio.io.source import without_compression

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from fxtio.codec.annotation import AnnotatedRecord
    from fxtio.finding import Finding, Findings
    from fxtio.io.reading import TraceInfo
    from fxtio.io.sink import Sink
    from fxtio.io.source import Source
    from fxtio.report import Report
    from fxtio.selection import Selection
    from fxtio.table import Table, WritableTable
    from fxtio.timeline import Timeline
    from fxtio.timeline.parts import Registry, TimelinePart

BUILT_IN = {
    "fxt": "fxtio.fxt",
    "dcpi": "fxtio.dcpi",
    "uftrace": "fxtio.uftrace",
    "mono": "fxtio.mono",
    "coreprofiler": "fxtio.coreprofiler",
}
"""Name and package of the formats that come with fxtio, in the order in which they are asked what a file is."""


def _has_no_lines(_rule: str, _file: str) -> bool:
    return False


def _never(_: object) -> bool:
    return False


@dataclass(frozen=True)
class Format:
    """A format.  Making one imports nothing: all formats are asked what a file is before one of them is loaded.

    Attributes:
        name: the name, for example `fxt`.
        title: the name for people, for example `Fuchsia trace format`.
        package: the package whose modules are the rooms of the format, for example `fxtio.fxt`.
        suffixes: the endings of its files, for example `(".fxt", ".ftf")`.
        trace: the name of the reader's class in the room `reader`, see `Trace`.
        writer: the name of the writer's class in the room `writer`, see `Writer`.
        sniff: returns whether a file that begins with these bytes is of this format, or part of a directory of it.
        sniff_directory: returns whether a directory is a trace of this format; None where traces are files.
        has_lines: returns whether the faults of a rule are at places in text, so that a line says where; given the id
            of the rule, and the name of the file in a directory (or an empty text).  They never are by default.
    """

    name: str
    title: str
    package: str
    suffixes: tuple[str, ...]
    trace: str
    writer: str
    sniff: Callable[[bytes], bool] = _never
    sniff_directory: Callable[[Path], bool] | None = None
    has_lines: Callable[[str, str], bool] = _has_no_lines

    @property
    def directory(self) -> bool:
        """True if traces of this format are directories."""
        return self.sniff_directory is not None

    def room(self, name: str) -> Any:
        """Import a module of the format's package."""
        return import_module(f"{self.package}.{name}")

    def open(self, target: Any, *, source: Source | None = None, **options: Any) -> Trace:
        """Open a trace.

        Args:
            target: what to read, see `fxtio.open`.
            source: the already opened file, if there is one.
            options: `strict`, `max_bytes`, `progress`, and those of the format's reader.
        """
        cls = getattr(self.room("reader"), self.trace)
        if self.directory:
            return cast("Trace", cls(target, **options))
        return cast("Trace", cls(target, source=source, **options))

    def create(self, target: Any, **options: Any) -> Writer:
        """Create a trace.

        Args:
            target: where to write, see `fxtio.create`.
            options: those of the format's writer.
        """
        return cast("Writer", getattr(self.room("writer"), self.writer)(target, **options))

    @property
    def report(self) -> ReportRoom:
        """The room that describes traces to people and programs."""
        return cast("ReportRoom", self.room("report"))

    @property
    def canonical(self) -> CanonicalRoom:
        """The room that converts records to JSON, and back."""
        return cast("CanonicalRoom", self.room("canonical"))

    @property
    def explain(self) -> ExplainRoom:
        """The room that annotates bytes."""
        return cast("ExplainRoom", self.room("explain"))

    @property
    def rules(self) -> RulesRoom:
        """The room that checks traces against all rules; that of a format without one checks what its reader notices.

        `fxtio.rules.rules_of` has the texts of the rules.
        """
        room = self._room_or_none("rules")
        return cast("RulesRoom", room) if hasattr(room, "check") else _ReaderRules

    @property
    def timeline(self) -> TimelineRoom:
        """The room that converts traces to a timeline.

        Raises:
            ModuleNotFoundError: the format has no such room.
        """
        return cast("TimelineRoom", self.room("timeline"))

    @property
    def has_timeline(self) -> bool:
        """Whether the format has the room `timeline`."""
        return hasattr(self._room_or_none("timeline"), "parts")

    @property
    def exporter(self) -> type[Exporter] | None:
        """The class in the room `export` that writes timelines, None without such a room."""
        room = self._room_or_none("export")
        return None if room is None else cast("type[Exporter]", room.Exporter)

    @property
    def cut(self) -> CutRoom | None:
        """The room that cuts parts out of traces record by record; None where parts are converted."""
        return cast("CutRoom | None", self._room_or_none("cut"))

    @property
    def pack(self) -> PackRoom | None:
        """The room that packs traces, so that parts can be read without all before them; None where there is none."""
        return cast("PackRoom | None", self._room_or_none("pack"))

    @property
    def merge(self) -> MergeRoom:
        """The room that combines traces; that of a format without one refuses to."""
        room = self._room_or_none("merge")
        return cast("MergeRoom", room) if hasattr(room, "merge") else _NoMerge(self)

    def _room_or_none(self, name: str) -> Any:
        """Import a module of the format's package, or return None if it has no such module."""
        try:
            return self.room(name)
        except ModuleNotFoundError as error:
            if error.name != f"{self.package}.{name}":
                raise
            return None


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a format's package, which imports some names on first use.

    Args:
        package: the name of the package.
        modules: the names, and the module that has each.
    """

    def find(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


class Entry(Protocol):
    """A record with its place and time.  A format may add attributes after these, such as the thread."""

    @property
    def offset(self) -> int:
        """The byte offset of the record in the (decompressed) file."""

    @property
    def time(self) -> int | None:
        """Nanoseconds, or None for a record without time."""

    @property
    def record(self) -> Any:
        """The record."""


class Trace(Protocol):
    """A reader.  Every reading goes on after a fault, and adds a finding for it, or raises `DecodeError` if strict.

    Attributes:
        name: where the trace is read from.
        format: the name of the format.
        compression: `gzip`, `zstd`, `xz` or None.
    """

    name: str
    format: str
    compression: str | None

    @property
    def info(self) -> TraceInfo:
        """A summary; the first use reads the trace once, without making records."""

    @property
    def findings(self) -> Findings:
        """The faults that the last reading found; reads the trace if nothing was read yet."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the records, see `records`."""

    def records(self, *, resolve: bool = True) -> Iterator[Any]:
        """Yield the records as objects of their classes, in the order of the file.

        Args:
            resolve: give records as they mean, for example with names instead of table slots.  Without it, the file as
                it stands: whatever would not be written back to the same bytes is `Opaque`.
        """

    def entries(self, *, resolve: bool = True) -> Iterator[Entry]:
        """Yield the records as `records` does, with their places and times."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables; every trace of the format has all of them, some may be empty."""

    def table(self, name: str) -> Table:
        """Return one whole table.

        Raises:
            KeyError: the format has no such table.
        """

    def tables(self, *names: str) -> dict[str, Table]:
        """Return several whole tables, made in one reading."""

    def batches(self, *names: str) -> Iterator[dict[str, Table]]:
        """Yield tables in batches of bounded size; every batch has all tables that were asked for.

        A column that refers to rows of another table counts within the batch.
        """

    def timeline(self) -> Timeline:
        """Return the trace as format-neutral tables, see `fxtio.timeline.Timeline`; closing it closes the trace.

        Raises:
            FormatError: the format has no timeline.
        """

    def sql(self, query: str) -> DuckDBPyRelation:
        """Run a query in SQL over the timeline, see `fxtio.timeline.Timeline.sql`.

        Raises:
            QueryError: DuckDB refuses the query, or is not installed.
            FormatError: the format has no timeline.
        """

    def close(self) -> None:
        """Close what is still open."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Writer(Protocol):
    """A writer; `fxtio.io.writing.TraceWriter` describes its methods and what they raise.

    Attributes:
        format: the name of the format.
        writable_tables: the tables that `write_table` takes, by name.
    """

    format: ClassVar[str]
    writable_tables: ClassVar[Mapping[str, WritableTable]]

    @property
    def position(self) -> int:
        """The number of bytes written so far, before compression."""

    def put(self, record: Any) -> None:
        """Append a record as it is; keyword arguments may say where it belongs, such as its task or thread."""

    def copy(self, trace: Any) -> None:
        """Copy a whole trace of the same format to the same bytes."""

    def write_table(self, name: str, columns: Table | Mapping[str, Any]) -> int:
        """Append the rows of a table; return their number."""

    def close(self) -> None:
        """Write what is left and close the file; after this, whatever would write raises `ValueError`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class ReportRoom(Protocol):
    """The room `report`: traces as values that commands print."""

    def info(self, trace: Any) -> Report:
        """Describe what is inside a trace."""

    def stats(self, trace: Any, top: int) -> Report:
        """Count what fills a trace; list only the `top` largest of whatever there may be many of."""

    def text_lines(self, entries: Sequence[Any]) -> Iterable[str]:
        """Format entries of a trace as one line of text each."""


class CanonicalRoom(Protocol):
    """The room `canonical`: records as JSON, by the names that `fxtio.codec.canonical` describes."""

    def json_objects(self, entries: Sequence[Any]) -> list[dict[str, Any]]:
        """Convert entries of a trace to JSON objects for people, which begin with `offset`, `type` and `time`.

        Text that is not UTF-8 may be left with surrogate escapes.
        """

    def records(self, trace: Any) -> list[dict[str, Any]]:
        """Return the canonical records of a trace, in the raw form of `conformance/CANONICAL.md`.

        Raises:
            OSError: the trace cannot be read.
        """

    def write(self, records: Sequence[dict[str, Any]], path: Path) -> None:
        """Write a trace that contains these canonical records.

        Raises:
            EncodeError: the format cannot express a record.
            OSError: the trace cannot be written.
        """


class ExplainRoom(Protocol):
    """The room `explain`: annotated bytes."""

    def kinds_of(self, name: str) -> Any:
        """Return the kinds of records that a name stands for, as `explain` takes them.

        Raises:
            FxtioError: there are none; the message lists the names.
        """

    def explain(self, trace: Any, *, record: int | None, offset: int, kinds: Any) -> Iterator[AnnotatedRecord]:
        """Yield each record of a trace with an explanation of its bytes, and the bytes between records, in their order.

        The trace is read only as far as needed.

        Args:
            trace: the trace.
            record: begin with this record, by its number from 0.
            offset: begin with whatever has this byte.
            kinds: only records of these kinds, see `kinds_of`, and nothing between them; None for all.
        """


class DirectoryExplainRoom(ExplainRoom, Protocol):
    """The room `explain` of a format whose traces are directories."""

    def offset_of(self, trace: Any, finding: Finding) -> int | None:
        """Return the offset, as `explain` counts, of a finding in a file of a directory; None if no record is there."""


class TimelineRoom(Protocol):
    """The room `timeline`: traces as format-neutral events.

    Attributes:
        NOT_CARRIED: the content of traces that no timeline shows, as phrases for the documents.
    """

    NOT_CARRIED: Sequence[str]

    def parts(self, trace: Any, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        """Read a whole trace, and yield what each batch adds to its timeline.

        Args:
            trace: the trace.
            registry: numbers names, processes, threads and tracks, and counts what is lost.
            tables: the names of the tables of the timeline that are needed, see `fxtio.timeline.schema.TABLES`; others
                may be left out.
        """


class Exporter(Protocol):
    """Writes a timeline to a file, as a consumer that `fxtio.timeline.Timeline.fold` calls.

    Rows of `slices` come when they have ended, with their `id`; arguments come not later than the slice, instant or
    other row that they belong to.  `fxtio.timeline.replay` gives slices as begins and ends in the order of time, and
    `fxtio.timeline.arguments` the arguments of each row.

    The room `export` of a format has this class, and the module of each exchange format that is written.  Beside it
    stands `NOT_CARRIED`, phrases for the documents.  Where traces are directories, the class gets the path of the new
    directory instead of a sink.

    Attributes:
        TABLES: the tables that it needs.
        WRITES_LABELS: whether the format has the labels of the registry.
        losses: what the format cannot express, as phrases, and how often it occurred; complete after `finish`.

    Args:
        sink: where to write; the caller closes it.
        registry: the names, processes, threads and tracks of the timeline; it grows while rows come.
    """

    TABLES: ClassVar[tuple[str, ...]]
    WRITES_LABELS: ClassVar[bool]
    losses: Counter[str]

    def __init__(self, sink: Sink, registry: Registry) -> None: ...

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""

    def finish(self) -> None:
        """Write what is left; the registry is complete now."""


class RulesRoom(Protocol):
    """The room `rules`: a format's rules beyond those that its reader reports."""

    def check(self, trace: Any) -> None:
        """Read a whole trace once, in bounded memory, and check it against all rules of the format.

        Afterwards `trace.findings` has all faults: those that the reader noticed in this reading, and those of the
        other rules.
        """


@dataclass(frozen=True)
class CutResult:
    """The result of a cut.

    Attributes:
        text: what was written, for people.
        is_empty: nothing is selected; the part has at most definitions, and values that are repeated at its start.
    """

    text: str
    is_empty: bool


class CutRoom(Protocol):
    """The room `cut`: a part of a trace as a trace of its own, of the same format."""

    def cut(self, trace: Any, selection: Selection, target: str | PathLike[str]) -> CutResult:
        """Write a part of a trace, and the definitions that it needs, such that what is cut at its borders stays whole.

        The trace is read once in bounded memory, or twice; its faults are in `trace.findings` afterwards.  The target
        is created or replaced when the new trace is complete, and not touched after an error.

        Args:
            trace: the trace.
            selection: what to keep.
            target: a path, or `-` for standard output where traces are files.

        Raises:
            SelectionError: the format has nothing of the kind that is selected; the message tells why.
            OSError: something cannot be read or written.
        """


class PackRoom(Protocol):
    """The room `pack`: a trace compressed such that a part of it can be read without all before it."""

    def pack(self, trace: Any, target: str | PathLike[str]) -> str:
        """Write a trace packed, in bounded memory; what is said about reading and the target in `CutRoom` holds here.

        Args:
            trace: the trace.
            target: a path, or `-` for standard output.

        Returns:
            What was written, as text for people.

        Raises:
            OSError: something cannot be read or written.
        """


class MergeRoom(Protocol):
    """The room `merge`: several traces as one, of the same format."""

    def merge(self, traces: Sequence[Any], target: str | PathLike[str]) -> str:
        """Write traces as one, in bounded memory; what is said about reading and the target in `CutRoom` holds here.

        Args:
            traces: the traces.
            target: a path, or `-` for standard output where traces are files.

        Returns:
            What was written, as text for people.

        Raises:
            MergeError: these traces, or traces of the format, cannot be one; the message tells why.
            OSError: something cannot be read or written.
        """


class MergeError(FormatError):
    """An error: traces cannot be combined into one."""


@dataclass(frozen=True)
class _NoMerge:
    """Refuses to combine traces of a format."""

    format: Format

    def merge(self, traces: Sequence[Trace], target: str | PathLike[str]) -> str:
        """Raise an error."""
        raise MergeError(f"{traces[0].name} is a {self.format.title}; such traces cannot be merged")


class _ReaderRules:
    """The rules of a format without the room `rules`: those that its reader reports."""

    @staticmethod
    def check(trace: Trace) -> None:
        """Read a whole trace."""
        deque(trace.entries(resolve=True), maxlen=0)


@cache
def _built_in() -> dict[str, Format]:
    """Return the formats of fxtio by name."""
    return {name: import_module(package).FORMAT for name, package in BUILT_IN.items()}


@cache
def _added() -> dict[str, Format]:
    """Return the formats of other distributions by name.

    To look for them reads the metadata of all distributions that are installed, so this is done once, and late.
    """
    from importlib.metadata import entry_points

    return {point.name: point.load() for point in entry_points(group="fxtio.formats") if point.name not in BUILT_IN}


def formats() -> dict[str, Format]:
    """Return all formats by name: those of fxtio, then those of other distributions whose names are not taken."""
    return {**_built_in(), **_added()}


def _each() -> Iterator[Format]:
    """Yield all formats; those of other distributions are looked for when those of fxtio are exhausted."""
    yield from _built_in().values()
    yield from _added().values()


def by_name(name: str) -> Format:
    """Return the format of this name.

    Raises:
        FormatError: there is none.
    """
    result = _built_in().get(name) or _added().get(name)
    if result is None:
        raise FormatError(f"there is no format {name!r}, only {', '.join(sorted(formats()))}")
    return result


def by_suffix(name: str) -> Format | None:
    """Return the format whose files have this suffix, before that of a compression."""
    name = without_compression(name)
    return next((item for item in _each() if name.endswith(item.suffixes)), None)


def by_content(source: Source) -> Format | None:
    """Return the format whose files begin like this."""
    return next((item for item in _each() if item.sniff(source.head)), None)


def of_source(source: Source) -> Format:
    """Return the format of an opened file.

    Raises:
        FormatError: the format is not known.
    """
    result = by_content(source)
    if result is not None and result.directory:
        raise FormatError(
            f"{source.name} is a file of a {result.title}; name the directory, which cannot be read from a pipe"
        )
    result = result or by_suffix(source.name)
    if result is not None and not result.directory:
        return result
    if not source.head:
        raise FormatError(f"{source.name} is empty")
    begin = source.head[:16]
    is_text = begin.isascii() and all(chr(byte).isprintable() or chr(byte) in "\t\r\n" for byte in begin)
    shown = repr(begin.decode("ascii")) if is_text else begin.hex(" ")
    raise FormatError(f"{source.name} is not a trace of a known format (fxtio convert --list); it begins with {shown}")


def of_directory(path: str | PathLike[str]) -> Format:
    """Return the format of a directory.

    Raises:
        FormatError: it is not a trace.
    """
    for item in _each():
        if item.sniff_directory is not None and item.sniff_directory(Path(path)):
            return item
    raise FormatError(f"{path} is a directory, not a trace of a known format")
