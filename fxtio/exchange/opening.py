"""Opens traces of all formats, and files of exchange formats, as timelines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from fxtio import exchange as exchanges
from fxtio import formats
from fxtio.io.reading import can_reopen
from fxtio.io.source import Source, is_directory, open_source
from fxtio.io.spool import Spool
from fxtio.timeline import Timeline

if TYPE_CHECKING:
    from fxtio.timeline.parts import Part, Registry


def open_timeline(target: Any, *, format: str | None = None, source: Source | None = None, **options: Any) -> Timeline:
    """Open a trace of any format, or a file of an exchange format, as a timeline, see `fxtio.open_timeline`.

    Args:
        target: see `fxtio.open_timeline`.
        format: see there.
        source: the target, if it is a file that is open already; it is closed with the timeline, or after an error.
        options: see there.
    """
    if source is None and is_directory(target):
        chosen = formats.by_name(format) if format else formats.of_directory(target)
        return chosen.open(target, **options).timeline()
    if source is None:
        source = open_source(target, limit=options.get("max_bytes"))
    try:
        if format is not None and format not in formats.formats():
            return _imported(exchanges.by_name(format), source, target, options)
        exchange = exchanges.by_content(source.head) if format is None and not formats.by_content(source) else None
        if exchange is not None:
            return _imported(exchange, source, target, options)
        known = formats.by_name(format) if format else formats.of_source(source)
        return known.open(target, source=source, **options).timeline()
    except Exception:
        source.close()
        raise


def _imported(exchange: exchanges.Exchange, source: Source, target: Any, options: Mapping[str, Any]) -> Timeline:
    """Return the timeline of a file of an exchange format, which is opened again for each reading."""
    if not can_reopen(target):
        open_again: Callable[[], Source] = Spool(source).open
    else:
        source.close()
        open_again = partial(open_source, target, limit=options.get("max_bytes"))

    def parts(registry: Registry, tables: Set[str]) -> Iterator[Part]:
        reading, progress = open_again(), options.get("progress")
        try:
            for part in exchange.parts(reading, registry, tables):
                yield part
                if progress is not None:
                    progress(reading.consumed or reading.position, reading.total)
        finally:
            reading.close()

    return Timeline(source.name, exchange.name, parts)
