"""The format of uftrace data directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.formats import Format, lazily

if TYPE_CHECKING:
    from fxtio.uftrace.explain import describe_markdown
    from fxtio.uftrace.reader import UftraceTrace
    from fxtio.uftrace.writer import UftraceWriter


def _sniff_directory(path: Path) -> bool:
    """Return whether a directory is a data directory of uftrace."""
    from fxtio.uftrace.directory import Directory
    from fxtio.uftrace.layout import INFO_MAGIC

    directory = Directory(path)
    if "info" in directory and directory.head("info").startswith(INFO_MAGIC):
        return True
    # The info file may be damaged, and a recorder that was killed leaves none.
    return "task.txt" in directory and any(name.startswith("sid-") for name in directory.names)


def _sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is the info file of a directory."""
    return head.startswith(b"Ftrace!")


_TEXT = (".txt", ".map", ".sym", ".dbg", ".opts", "extern.dat", "kallsyms")
"""The ends of the names of files that are text."""

FORMAT = Format(
    name="uftrace",
    title="uftrace data directory",
    package="fxtio.uftrace",
    suffixes=(".data",),
    trace="UftraceTrace",
    writer="UftraceWriter",
    sniff=_sniff,
    sniff_directory=_sniff_directory,
    has_lines=lambda _rule, file: file.endswith(_TEXT),
)

__getattr__ = lazily(
    __name__,
    {
        "UftraceTrace": "fxtio.uftrace.reader",
        "UftraceWriter": "fxtio.uftrace.writer",
        "describe_markdown": "fxtio.uftrace.explain",
    },
)

__all__ = ["FORMAT", "UftraceTrace", "UftraceWriter", "describe_markdown"]  # lazy
