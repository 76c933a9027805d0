"""Formats that other tools read and write; each has one module, which imports it to a timeline and exports it of one.

They differ from the formats of `fxtio.formats` in that they are not copied byte for byte: an importer yields the parts
of a timeline, an exporter takes its rows.  What gets lost on the way is counted by both.

A module of this package has

- `EXCHANGE`, an `Exchange`;
- `parts(source, registry, tables)` if it imports, like the room `timeline` of a format (`fxtio.formats.TimelineRoom`);
- `Exporter` if it exports, see `fxtio.formats.Exporter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from fxtio.errors import FormatError
from fxtio.formats import Exporter
from fxtio.io.source import without_compression

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.timeline.parts import Part, Registry

MODULES: tuple[str, ...] = (
    "speedscope", "chrome", "collapsed", "pprof", "otlp", "perfetto", "parquet", "arrow", "csv",
)  # fmt: skip
"""The modules of this package that have an exchange format, in the order in which they are asked what a file is."""


def _never(_: bytes) -> bool:
    return False


@dataclass(frozen=True)
class Exchange:
    """An exchange format.

    Attributes:
        name: the name, for example `chrome`.
        title: the name for people, for example `Chrome trace event JSON`.
        module: the module of its importer and exporter, for example `fxtio.exchange.chrome`.
        suffixes: the endings of its files, for example `(".json",)`.
        sniff: returns whether a file that begins with these bytes is of this format.
        extra: the extra of fxtio that its exporter or importer needs, None for none.
        directory: whether it is written as a directory of files.
    """

    name: str
    title: str
    module: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes], bool] = _never
    extra: str | None = None
    directory: bool = False

    @property
    def imports(self) -> bool:
        """Whether there is an importer."""
        return hasattr(import_module(self.module), "parts")

    @property
    def exports(self) -> bool:
        """Whether there is an exporter."""
        return hasattr(import_module(self.module), "Exporter")

    def parts(self, source: Source, registry: Registry, tables: Set[str]) -> Iterator[Part]:
        """Read a file, and yield what each part of it adds to a timeline, see `fxtio.formats.TimelineRoom.parts`."""
        return cast("Iterator[Part]", import_module(self.module).parts(source, registry, tables))

    @property
    def exporter(self) -> type[Exporter]:
        """The class of its exporter."""
        return cast("type[Exporter]", import_module(self.module).Exporter)


@cache
def exchanges() -> dict[str, Exchange]:
    """Return all exchange formats by name."""
    found = [import_module(f"{__name__}.{name}").EXCHANGE for name in MODULES]
    return {exchange.name: exchange for exchange in found}


def by_content(head: bytes) -> Exchange | None:
    """Return the exchange format whose files begin like this, and that can be imported."""
    return next((each for each in exchanges().values() if each.sniff(head) and each.imports), None)


def by_suffix(name: str) -> Exchange | None:
    """Return the exchange format whose files have this suffix, before that of a compression; the longest one counts."""
    name = without_compression(name)
    endings = [
        (len(suffix), each) for each in exchanges().values() for suffix in each.suffixes if name.endswith(suffix)
    ]
    return max(endings, key=itemgetter(0), default=(0, None))[1]


def by_name(name: str) -> Exchange:
    """Return the exchange format of this name.

    Raises:
        FormatError: there is none.
    """
    try:
        return exchanges()[name]
    except KeyError:
        raise FormatError(f"there is no format {name!r}, only {', '.join(exchanges())}") from None
