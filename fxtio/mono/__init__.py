"""Recordings of the Mono log profiler (`.mlpd`), both ways.  `fxtio.open` and `fxtio.create` come here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.mono.reader import MonoTrace
    from fxtio.mono.writer import MonoWriter


class _Mono:
    """The format, see `fxtio.formats.Format`."""

    name = "mono"
    suffixes: tuple[str, ...] = (".mlpd",)
    present = "fxtio.mono.present"
    directory = False

    def sniff(self, head: bytes) -> bool:
        from fxtio.mono.magic import HEADER_MARK

        return head.startswith(HEADER_MARK)

    def open(self, target: Any, *, source: Source | None, **options: Any) -> MonoTrace:
        from fxtio.mono.reader import MonoTrace

        return MonoTrace(target, source=source, **options)

    def create(self, target: Any, **options: Any) -> MonoWriter:
        from fxtio.mono.writer import MonoWriter

        return MonoWriter(target, **options)


FORMAT = _Mono()

_LAZY = {
    "MonoTrace": "fxtio.mono.reader",
    "MonoWriter": "fxtio.mono.writer",
    "describe_markdown": "fxtio.mono.describe",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "MonoTrace", "MonoWriter", "describe_markdown"]  # lazy
