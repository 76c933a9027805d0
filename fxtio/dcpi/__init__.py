"""DCPI profiles (Digital Continuous Profiling Infrastructure), both ways: flat histograms of program counters."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxtio.formats import Format

if TYPE_CHECKING:
    from fxtio.dcpi.explain import describe_markdown
    from fxtio.dcpi.reader import DcpiTrace
    from fxtio.dcpi.writer import DcpiWriter

_FIRST = re.compile(rb"[a-z]{4,}[ \t]")


def _sniff(head: bytes) -> bool:
    """Return whether a file begins like a profile.

    There is no magic number: whole lines of known keywords decide, or the line that versions begin with.
    """
    if not _FIRST.match(head):  # most files are of other formats: nothing is loaded for them
        return False
    from fxtio.dcpi.frames import looks_like_header

    return looks_like_header(head)


FORMAT = Format(
    name="dcpi",
    title="DCPI profile",
    package="fxtio.dcpi",
    suffixes=(".dcpi",),
    trace="DcpiTrace",
    writer="DcpiWriter",
    sniff=_sniff,
    has_lines=lambda rule, _file: rule.startswith(("dcpi.header.", "dcpi.listing.")),
)

_LAZY = {
    "DcpiTrace": "fxtio.dcpi.reader",
    "DcpiWriter": "fxtio.dcpi.writer",
    "describe_markdown": "fxtio.dcpi.explain",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "DcpiTrace", "DcpiWriter", "describe_markdown"]  # lazy
