"""Which formats there are, and which one a file or a directory has: by content first, then by suffix.

A format is an object with the attributes of `Format`; other packages add theirs by the entry point group
`fxtio.formats`.  What the commands print about its traces is in a module of its own, a `Presenter`, so that nobody else
loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from fxtio.errors import FormatError

if TYPE_CHECKING:
    from fxtio.codec.piece import Piece
    from fxtio.finding import Findings
    from fxtio.io.source import Source
    from fxtio.present import Report

BUILT_IN = {
    "fxt": "fxtio.fxt",
    "dcpi": "fxtio.dcpi",
    "uftrace": "fxtio.uftrace",
    "mono": "fxtio.mono",
    "coreprofiler": "fxtio.coreprofiler",
}
"""Name and module of the formats that come with the package."""

_PACKED = (".gz", ".zst", ".xz")


class Format(Protocol):
    """What a format gives.  Its module imports nothing heavy: it is loaded whenever a trace is opened.

    Attributes:
        name: its name, for example `fxt`.
        suffixes: what its files are called, for example `.fxt`.
        present: the name of the module that presents its traces, see `Presenter`.
        directory: whether its traces are directories, see `DirectoryFormat`.
    """

    name: str
    suffixes: tuple[str, ...]
    present: str
    directory: bool

    def sniff(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes is of this format."""

    def open(self, target: Any, *, source: Source | None, **options: Any) -> Any:
        """A reader, see `Trace`; `source` is None for a directory."""

    def create(self, target: Any, **options: Any) -> Any:
        """A writer."""


class DirectoryFormat(Format, Protocol):
    """A format whose `directory` is true; its `sniff` is false of everything."""

    def sniff_directory(self, path: Path) -> bool:
        """Whether this directory is a trace of the format; nothing outside of it is looked at."""


class Trace(Protocol):
    """What the readers of all formats have in common."""

    @property
    def name(self) -> str:
        """Where it was read from."""

    @property
    def format(self) -> str:
        """The name of the format."""

    @property
    def findings(self) -> Findings:
        """What was wrong, as far as the last reading came."""

    def entries(self, *, resolve: bool = True) -> Iterator[Any]:
        """The records with where and when they are, in the order of the file."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *exception: object) -> None: ...


class Presenter(Protocol):
    """What the commands ask a format's presenting module for.

    Attributes:
        SHAPES: what synthetic traces there are: name, and what is in them.
    """

    SHAPES: dict[str, str]

    def info(self, trace: Any) -> Report:
        """What is inside a trace."""

    def stats(self, trace: Any, top: int) -> Report:
        """What fills a trace; only the `top` largest of whatever there may be many of."""

    def text_lines(self, entries: Sequence[Any]) -> Iterable[str]:
        """Entries of a trace as a line of text each."""

    def json_objects(self, entries: Sequence[Any]) -> list[dict[str, Any]]:
        """Entries of a trace as JSON objects; texts that are not UTF-8 may stay as they are."""

    def kinds_of(self, name: str) -> Any:
        """The kinds of records that a name stands for, as `explain` takes them.

        Raises:
            FxtioError: there are none; the message lists the names.
        """

    def explain(self, trace: Any, *, record: int | None, offset: int, kinds: Any) -> Iterator[Piece]:
        """Take a trace apart, from a record or a byte on; only records of these kinds, all where it is None."""

    def synth(
        self,
        target: Any,
        shape: str,
        *,
        events: int | None,
        size: int | None,
        threads: int | None,
        seed: int,
        progress: Callable[[int, int | None], None],
    ) -> tuple[int, int]:
        """Write a synthetic trace with about so many events or bytes; gives how many of both there are."""


def formats() -> dict[str, Format]:
    """All formats by name."""
    found: dict[str, Format] = {name: import_module(module).FORMAT for name, module in BUILT_IN.items()}
    for point in entry_points(group="fxtio.formats"):
        if point.name not in found:
            found[point.name] = point.load()
    return found


def by_name(name: str) -> Format:
    """The format of this name.

    Raises:
        FormatError: there is none.
    """
    known = formats()
    if name not in known:
        raise FormatError(f"no format {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def by_suffix(name: str) -> Format | None:
    """The format whose files are called like this; a suffix of a compression is looked through."""
    for packed in _PACKED:
        name = name.removesuffix(packed)
    for one in formats().values():
        if name.endswith(one.suffixes):
            return one
    return None


def by_content(source: Source) -> Format | None:
    """The format whose files begin like this."""
    return next((one for one in formats().values() if one.sniff(source.head)), None)


def of_source(source: Source) -> Format:
    """The format of opened data.

    Raises:
        FormatError: it is none that is known.
    """
    found = by_content(source) or by_suffix(source.name)
    if found is not None and not found.directory:
        return found
    if not source.head:
        raise FormatError(f"{source.name} is empty")
    begin = source.head[:16]
    shown = repr(begin.decode("ascii")) if begin.isascii() and begin.decode("ascii").isprintable() else begin.hex(" ")
    raise FormatError(f"{source.name} is no trace of a known format ({', '.join(formats())}); it begins with {shown}")


def of_directory(path: str | PathLike[str]) -> Format:
    """The format of a directory.

    Raises:
        FormatError: it is none that is known.
    """
    for one in formats().values():
        if one.directory and cast("DirectoryFormat", one).sniff_directory(Path(path)):
            return one
    raise FormatError(f"{path} is a directory, not a trace file")


def presenter_of(one: Format) -> Presenter:
    """The module that presents the format's traces."""
    presenter: Any = import_module(one.present)
    return presenter  # type: ignore[no-any-return]
