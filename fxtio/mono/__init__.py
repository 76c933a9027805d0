"""Recordings of the Mono log profiler (`.mlpd`): reader, writer and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxtio.formats import Format, lazily

if TYPE_CHECKING:
    from fxtio.mono.explain import describe_markdown
    from fxtio.mono.reader import MonoTrace
    from fxtio.mono.writer import MonoWriter


def _sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK

    if head.startswith(HEADER_MARK) or BUFFER_MARK not in head:
        return head.startswith(HEADER_MARK)
    from fxtio.mono.headers import begins_damaged

    return begins_damaged(head)


FORMAT = Format(
    name="mono",
    title="Mono log profiler recording",
    package="fxtio.mono",
    suffixes=(".mlpd",),
    trace="MonoTrace",
    writer="MonoWriter",
    sniff=_sniff,
)

__getattr__ = lazily(
    __name__,
    {
        "MonoTrace": "fxtio.mono.reader",
        "MonoWriter": "fxtio.mono.writer",
        "describe_markdown": "fxtio.mono.explain",
    },
)

__all__ = ["FORMAT", "MonoTrace", "MonoWriter", "describe_markdown"]  # lazy
