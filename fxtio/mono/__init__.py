"""Recordings of the Mono log profiler (`.mlpd`): reader, writer and what follows from them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fxtio.formats import Format


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

_LAZY = {
    "MonoTrace": "fxtio.mono.reader",
    "MonoWriter": "fxtio.mono.writer",
    "describe_markdown": "fxtio.mono.explain",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "MonoTrace", "MonoWriter", "describe_markdown"]  # lazy
