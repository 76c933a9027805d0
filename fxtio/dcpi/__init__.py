"""DCPI profiles (Digital Continuous Profiling Infrastructure), both ways: flat histograms of program counters."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.dcpi.reader import DcpiTrace
    from fxtio.dcpi.writer import DcpiWriter
    from fxtio.io.source import Source


_FIRST = re.compile(rb"[a-z]{4,}[ \t]")


class _Dcpi:
    """The format, see `fxtio.formats.Format`."""

    name = "dcpi"
    suffixes = (".dcpi",)
    present = "fxtio.dcpi.present"
    directory = False

    def sniff(self, head: bytes) -> bool:
        """There is no magic number: whole lines of known keywords tell, or the line that versions begin with."""
        if not _FIRST.match(head):  # most files are of other formats: nothing is loaded for them
            return False
        from fxtio.dcpi.framing import looks_like_header

        return looks_like_header(head)

    def open(self, target: Any, *, source: Source | None, **options: Any) -> DcpiTrace:
        from fxtio.dcpi.reader import DcpiTrace

        return DcpiTrace(target, source=source, **options)

    def create(self, target: Any, **options: Any) -> DcpiWriter:
        from fxtio.dcpi.writer import DcpiWriter

        return DcpiWriter(target, **options)


FORMAT = _Dcpi()

_LAZY = {
    "DcpiTrace": "fxtio.dcpi.reader",
    "DcpiWriter": "fxtio.dcpi.writer",
    "describe_markdown": "fxtio.dcpi.describe",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "DcpiTrace", "DcpiWriter", "describe_markdown"]  # lazy
