"""CoreProfiler traces (Tizen .NET), both ways: text, a record to a line."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.coreprofiler.reader import CoreProfilerTrace
    from fxtio.coreprofiler.writer import CoreProfilerWriter
    from fxtio.io.source import Source

_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?[a-z]{3} [a-z]{3} ")


class _CoreProfiler:
    """The format, see `fxtio.formats.Format`."""

    name = "coreprofiler"
    suffixes = (".cpl", ".coreprofiler")
    present = "fxtio.coreprofiler.present"
    directory = False

    def sniff(self, head: bytes) -> bool:
        """There is no magic number: the first line is a record."""
        if not _FIRST.match(head):  # most files are of other formats: nothing is loaded for them
            return False
        from fxtio.coreprofiler.lines import looks_like_record

        return looks_like_record(head)

    def open(self, target: Any, *, source: Source | None, **options: Any) -> CoreProfilerTrace:
        from fxtio.coreprofiler.reader import CoreProfilerTrace

        return CoreProfilerTrace(target, source=source, **options)

    def create(self, target: Any, **options: Any) -> CoreProfilerWriter:
        from fxtio.coreprofiler.writer import CoreProfilerWriter

        return CoreProfilerWriter(target, **options)


FORMAT = _CoreProfiler()

_LAZY = {
    "CoreProfilerTrace": "fxtio.coreprofiler.reader",
    "CoreProfilerWriter": "fxtio.coreprofiler.writer",
    "describe_markdown": "fxtio.coreprofiler.explain",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "CoreProfilerTrace", "CoreProfilerWriter", "describe_markdown"]  # lazy
