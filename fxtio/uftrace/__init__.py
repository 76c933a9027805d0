"""Data directories of uftrace, both ways.  `fxtio.open` and `fxtio.create` come here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.uftrace.reader import UftraceTrace
    from fxtio.uftrace.writer import UftraceWriter


class _Uftrace:
    """The format, see `fxtio.formats.DirectoryFormat`."""

    name = "uftrace"
    suffixes = (".data",)
    present = "fxtio.uftrace.present"
    directory = True

    def sniff(self, head: bytes) -> bool:
        return False

    def sniff_directory(self, path: Path) -> bool:
        from fxtio.uftrace.directory import Directory
        from fxtio.uftrace.info import MAGIC

        directory = Directory(path)
        if "info" in directory:
            return directory.head("info").startswith(MAGIC)
        return "task.txt" in directory and any(name.startswith("sid-") for name in directory.names)  # it was killed

    def open(self, target: Any, *, source: Source | None, **options: Any) -> UftraceTrace:
        from fxtio.uftrace.reader import UftraceTrace

        return UftraceTrace(target, **options)

    def create(self, target: Any, **options: Any) -> UftraceWriter:
        from fxtio.uftrace.writer import UftraceWriter

        return UftraceWriter(target, **options)


FORMAT = _Uftrace()

_LAZY = {
    "UftraceTrace": "fxtio.uftrace.reader",
    "UftraceWriter": "fxtio.uftrace.writer",
    "describe_markdown": "fxtio.uftrace.describe",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["FORMAT", "UftraceTrace", "UftraceWriter", "describe_markdown"]  # lazy
