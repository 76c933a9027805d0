"""DCPI profiles (Digital Continuous Profiling Infrastructure), both ways: flat histograms of program counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fxtio.formats import Format, lazily

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

__getattr__ = lazily(
    __name__,
    {
        "DcpiTrace": "fxtio.dcpi.reader",
        "DcpiWriter": "fxtio.dcpi.writer",
        "describe_markdown": "fxtio.dcpi.explain",
    },
)

__all__ = ["FORMAT", "DcpiTrace", "DcpiWriter", "describe_markdown"]  # lazy
