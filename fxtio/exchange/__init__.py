"""Formats that other tools read and write; each has one module, which imports it to a timeline and exports it of one.

They differ from the formats of `fxtio.formats` in that they are not copied byte for byte: an importer yields the parts
of a timeline, an exporter takes its rows.  What gets lost on the way is counted by both.

`EXCHANGES` declares them.  The module of a format has

- `sniff(head)` and `parts(source, registry, tables)` if it imports: the first returns whether a file that begins with
  these bytes is of the format, the second is like that of the room `timeline` of a format
  (`fxtio.formats.TimelineRoom`);
- `Exporter` if it exports, see `fxtio.formats.Exporter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from fxtio.formats import Exporter
from fxtio.io.source import without_compression

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.timeline.parts import Registry, TimelinePart


@dataclass(frozen=True)
class Exchange:
    """An exchange format.  Its module is loaded when it is used.

    Attributes:
        name: the name, for example `chrome`.
        title: the name for people, for example `Chrome trace event JSON`.
        suffixes: the endings of its files, for example `(".json",)`.
        imports: whether there is an importer.
        extra: the extra of fxtio that its exporter or importer needs, None for none.
        directory: whether it is written as a directory of files.
        binary: whether its files are told by their endings as well, since their first bytes may say little.
        place: the module and the name of its exporter, `module:class`; by default `Exporter` of the module of its name.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    imports: bool = False
    extra: str | None = None
    directory: bool = False
    binary: bool = False
    place: str = ""

    @property
    def _module(self) -> Any:
        return import_module(f"{__name__}.{self.place.partition(':')[0] or self.name}")

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with these bytes is of this format, and can be imported."""
        return self.imports and bool(self._module.sniff(head))

    @property
    def exports(self) -> bool:
        """Whether there is an exporter."""
        return hasattr(self._module, self._exporter_name)

    def parts(self, source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        """Read a file, and yield what each part of it adds to a timeline, see `fxtio.formats.TimelineRoom.parts`."""
        return cast("Iterator[TimelinePart]", self._module.parts(source, registry, tables))

    @property
    def exporter(self) -> type[Exporter]:
        """The class of its exporter."""
        return cast("type[Exporter]", getattr(self._module, self._exporter_name))

    @property
    def _exporter_name(self) -> str:
        return self.place.partition(":")[2] or "Exporter"


EXCHANGES = (
    Exchange("speedscope", "speedscope JSON", (".speedscope.json", ".speedscope"), imports=True),
    Exchange("gecko", "Firefox Profiler JSON", (".gecko.json", ".gecko"), imports=True),
    Exchange("cpuprofile", "V8 CPU profile", (".cpuprofile",), imports=True),
    Exchange("chrome", "Chrome trace event JSON", (".json",), imports=True),
    Exchange("collapsed", "collapsed stacks", (".collapsed", ".folded"), imports=True),
    Exchange("tachyon", "JSON lines of CPython's sampling profiler", (".tachyon.jsonl", ".tachyon"), imports=True),
    Exchange("pprof", "pprof profile", (".pprof", ".pb"), imports=True, binary=True),
    Exchange("otlp", "OTLP JSON lines", (".otlp.jsonl", ".otlp.json", ".otlp"), imports=True),
    Exchange(
        "perfetto",
        "Perfetto protobuf trace",
        (".pftrace", ".perfetto-trace", ".perfetto"),
        imports=True,
        binary=True,
    ),
    Exchange(
        "parquet", "Parquet tables", (".parquet",), extra="arrow", directory=True, place="table_files:ParquetExporter"
    ),
    Exchange("arrow", "Arrow tables", (".arrow",), extra="arrow", directory=True, place="table_files:ArrowExporter"),
    Exchange("csv", "CSV tables", (".csv",), extra="arrow", directory=True, place="table_files:CsvExporter"),
)
"""All exchange formats, in the order in which they are asked what a file is."""


@cache
def exchanges() -> dict[str, Exchange]:
    """Return all exchange formats by name."""
    return {exchange.name: exchange for exchange in EXCHANGES}


def by_content(head: bytes) -> Exchange | None:
    """Return the exchange format whose files begin like this, and that can be imported."""
    return next((each for each in exchanges().values() if each.sniff(head)), None)


def by_ending(name: str) -> Exchange | None:
    """Return the exchange format that a file is of by its ending, where its content says nothing."""
    exchange = by_suffix(name)
    return exchange if exchange is not None and exchange.imports and exchange.binary else None


def by_suffix(name: str) -> Exchange | None:
    """Return the exchange format whose files have this suffix, before that of a compression; the longest one counts."""
    name = without_compression(name)
    endings = [
        (len(suffix), each) for each in exchanges().values() for suffix in each.suffixes if name.endswith(suffix)
    ]
    return max(endings, key=itemgetter(0), default=(0, None))[1]
