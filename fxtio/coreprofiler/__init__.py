"""CoreProfiler traces (Tizen .NET), both ways: text, a record to a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fxtio.formats import Format, lazily

if TYPE_CHECKING:
    from fxtio.coreprofiler.explain import describe_markdown
    from fxtio.coreprofiler.reader import CoreProfilerTrace
    from fxtio.coreprofiler.writer import CoreProfilerWriter

_FIRST = re.compile(rb"(?:\xef\xbb\xbf)?[a-z]{3} [a-z]{3} ")


def _sniff(head: bytes) -> bool:
    """Return whether a file begins like a trace.  There is no magic number: the first line must be a record."""
    if not _FIRST.match(head):  # most files are of other formats: nothing is loaded for them
        return False
    from fxtio.coreprofiler.records import looks_like_record

    return looks_like_record(head)


FORMAT = Format(
    name="coreprofiler",
    title="CoreProfiler trace",
    package="fxtio.coreprofiler",
    suffixes=(".cpl", ".coreprofiler"),
    trace="CoreProfilerTrace",
    writer="CoreProfilerWriter",
    sniff=_sniff,
    has_lines=lambda _rule, _file: True,
)

__getattr__ = lazily(
    __name__,
    {
        "CoreProfilerTrace": "fxtio.coreprofiler.reader",
        "CoreProfilerWriter": "fxtio.coreprofiler.writer",
        "describe_markdown": "fxtio.coreprofiler.explain",
    },
)

__all__ = ["FORMAT", "CoreProfilerTrace", "CoreProfilerWriter", "describe_markdown"]  # lazy
