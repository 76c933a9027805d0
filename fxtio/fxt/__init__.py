"""The Fuchsia trace format, both ways.  `fxtio.open` and `fxtio.create` come here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace
    from fxtio.fxt.writer import FxtWriter
    from fxtio.io.source import Source


class _Fxt:
    """The format, see `fxtio.formats.Format`."""

    name = "fxt"
    suffixes: tuple[str, ...] = (".fxt", ".ftf")
    present = "fxtio.fxt.present"
    directory = False

    def sniff(self, head: bytes) -> bool:
        from fxtio.fxt.framing import MAGIC

        return head[:8] in (MAGIC, MAGIC[::-1])

    def open(self, target: Any, *, source: Source | None, **options: Any) -> FxtTrace:
        from fxtio.fxt.reader import FxtTrace

        return FxtTrace(target, source=source, **options)

    def create(self, target: Any, **options: Any) -> FxtWriter:
        from fxtio.fxt.writer import FxtWriter

        return FxtWriter(target, **options)


FORMAT = _Fxt()

_LAZY = {
    "FxtTrace": "fxtio.fxt.reader",
    "FxtWriter": "fxtio.fxt.writer",
    "Koid": "fxtio.fxt.writer",
    "Pointer": "fxtio.fxt.writer",
    "describe_markdown": "fxtio.fxt.describe",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "FxtTrace", "FxtWriter", "Koid", "Pointer", "describe_markdown"]  # lazy
