"""The Fuchsia trace format: reading and writing.  `fxtio.open` and `fxtio.create` load what they need of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.formats import Format

    FORMAT: Format


def _sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    from fxtio.fxt.layout import MAGIC

    return head[:8] in (MAGIC, MAGIC[::-1])


def _format() -> Format:
    from fxtio.formats import Format

    return Format(
        name="fxt",
        title="Fuchsia trace format",
        package="fxtio.fxt",
        suffixes=(".fxt", ".ftf"),
        trace="FxtTrace",
        writer="FxtWriter",
        sniff=_sniff,
    )


_LAZY = {
    "FxtTrace": "fxtio.fxt.reader",
    "FxtWriter": "fxtio.fxt.writer",
    "Koid": "fxtio.fxt.records",
    "Pointer": "fxtio.fxt.records",
    "Thread": "fxtio.fxt.records",
    "describe_markdown": "fxtio.fxt.explain",
}


def __getattr__(name: str) -> Any:
    if name == "FORMAT":  # a traced program uses modules of this package, and not the format
        return globals().setdefault(name, _format())
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "FxtTrace", "FxtWriter", "Koid", "Pointer", "Thread", "describe_markdown"]  # lazy
