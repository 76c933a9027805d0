"""Opens traces of all formats, and files of exchange formats: here is decided what a file is, for all who open one."""

from __future__ import annotations

from collections.abc import Iterator, Set
from os import PathLike, fspath
from shlex import quote
from typing import TYPE_CHECKING, Any

from fxtio import exchange as exchanges
from fxtio import formats
from fxtio.errors import FormatError
from fxtio.io.reading import can_reopen
from fxtio.io.source import Source, Spool, is_directory, open_source
from fxtio.timeline import Timeline

if TYPE_CHECKING:
    from fxtio.timeline.parts import Registry, TimelinePart


class Imported(Timeline):
    """The timeline of a file of an exchange format, which is opened again for each reading.

    Args:
        exchange: the format.
        source: the file, open at its beginning.
        target: see `fxtio.open`.
        options: those of `fxtio.open`.

    Attributes:
        compression: `gzip`, `zstd`, `xz` or None.
        size: the number of (decompressed) bytes that the latest reading has read so far.
    """

    def __init__(self, exchange: exchanges.Exchange, source: Source, target: Any, options: dict[str, Any]) -> None:
        super().__init__(source.name, exchange.name, self._read)
        self.compression = source.compression
        self.size = 0
        self._exchange, self._target, self._options = exchange, target, options
        self._spool = None if can_reopen(target) else Spool(source)
        if self._spool is None:
            source.close()

    def close(self) -> None:
        """Close what is still open."""
        if self._spool is not None:
            self._spool.close()

    def _read(self, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        limit, progress = self._options.get("max_bytes"), self._options.get("progress")
        source = open_source(self._target, limit=limit) if self._spool is None else self._spool.open()
        try:
            for part in self._exchange.parts(source, registry, tables):
                yield part
                if progress is not None:
                    progress(source.consumed or source.position, source.total)
        finally:
            self.size = source.position
            source.close()


def open_any(
    target: Any, *, format: str | None = None, source: Source | None = None, **options: Any
) -> formats.Trace | Imported:
    """Open a trace of any format, or the timeline of a file of an exchange format.

    Args:
        target: what to read, see `fxtio.open`.
        format: the name of the format; by default it is recognized by content, then by suffix.
        source: the target, if it is a file that is open already; it is closed with the result, or after an error.
        options: further options of `fxtio.open`.

    Raises:
        FormatError: the target is of no known format.
        OSError: the target cannot be opened.
        TypeError: the format's reader does not have an option.
    """
    if source is None and not is_directory(target):
        source = open_source(target, limit=options.get("max_bytes"))
    try:
        chosen = _named(format) if format else _recognized(target, source)
        if chosen.directory != (source is None):
            actual, expected = ("a directory", "a file") if source is None else ("not a directory", "a directory")
            name = target if source is None else source.name
            raise FormatError(f"{name} is {actual}; a trace in the format {chosen.name} is {expected}")
        if isinstance(chosen, formats.Format):
            return chosen.open(target, source=source, **options)
        assert source is not None
        return Imported(chosen, source, target, options)
    except Exception:
        if source is not None:
            source.close()
        raise


def open_trace(target: Any, **options: Any) -> formats.Trace:
    """Open a trace of any format, see `open_any`.

    Raises:
        FormatError: the target is of no known format, or of an exchange format.
    """
    opened = open_any(target, **options)
    if isinstance(opened, Imported):
        opened.close()
        path = quote(fspath(target)) if isinstance(target, str | PathLike) else "IN"
        raise FormatError(
            f"{opened.name} is a file of the format {opened.format}, which has no records to read; "
            f"convert it first: fxtio convert {path} trace.fxt"
        )
    return opened


def open_timeline(target: Any, **options: Any) -> Timeline:
    """Open a trace of any format, or a file of an exchange format, as a timeline, see `open_any`."""
    opened = open_any(target, **options)
    return opened if isinstance(opened, Imported) else opened.timeline()


def _named(name: str) -> formats.Format | exchanges.Exchange:
    """Return the format of this name.

    Raises:
        FormatError: there is none.
    """
    exchange = exchanges.exchanges().get(name)
    if exchange is not None and exchange.imports:
        return exchange
    try:
        return formats.by_name(name)
    except FormatError:
        known = [*formats.formats(), *(each.name for each in exchanges.EXCHANGES if each.imports)]
        raise FormatError(f"there is no format {name!r}, only {', '.join(known)}") from None


def _recognized(target: Any, source: Source | None) -> formats.Format | exchanges.Exchange:
    """Return the format of a file by its content, then by its suffix; or that of a directory.

    Raises:
        FormatError: it is not known.
    """
    if source is None:
        return formats.of_directory(target)
    if formats.by_content(source):
        return formats.of_source(source)
    return exchanges.by_content(source.head) or exchanges.by_ending(source.name) or formats.of_source(source)
