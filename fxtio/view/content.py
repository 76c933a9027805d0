"""A trace as the Perfetto UI reads it: the file itself, decompressed, converted, or a part of it."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import fxtio
from fxtio.exchange import by_content as exchange_by_content
from fxtio.exchange.convert import UntimedError, convert
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.live_file import HEAD_BYTES, Chunks
from fxtio.io.reading import can_reopen
from fxtio.io.sink import names_if_full
from fxtio.io.source import is_directory, open_source, without_compression
from fxtio.readers import times_of

if TYPE_CHECKING:
    from fxtio.io.source import Source
    from fxtio.selection import Selection
    from fxtio.timeline import Timeline

LARGE = 300_000_000
"""The number of bytes from which on the UI takes minutes to load a trace."""

SHRINKS = 8
"""The factor by which traces usually shrink when they are compressed."""

_BLOCK = 1 << 18
_MAX_NAME = 100
_SMALL = 4096
"""The number of bytes from which on a converted trace has events for certain."""

_NATIVE = ("chrome", "perfetto")
"""The names of exchange formats that the UI reads as well as fxtio."""


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes that the UI gets, which can be read any number of times.

    Attributes:
        name: the file name that the UI shows: letters, digits, `.`, `_` and `-`.
        target: the file or URL.
        is_whole: the file is sent as it is, and not decompressed.
        size: the number of bytes, an estimate where the file has to be decompressed; None if it is not known.
        losses: what the conversion could not carry over: phrase and number.
        is_empty: whether nothing of the trace is selected, so that there is nothing to show.
    """

    name: str
    target: str
    is_whole: bool
    size: int | None
    losses: Counter[str] = field(default_factory=Counter)
    is_empty: bool = False

    @property
    def length(self) -> int | None:
        """The exact number of bytes, None if it is not known before they are read."""
        return self.size if self.is_whole else None

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes.

        Raises:
            OSError: the file cannot be read, or the compressed stream is cut or damaged.
        """
        if self.is_whole:
            with open(self.target, "rb") as file:
                while block := file.read(_BLOCK):
                    yield block
            return
        source = open_source(self.target)
        try:
            buffer = bytearray(_BLOCK)
            while count := source.readinto(memoryview(buffer)):
                yield bytes(buffer[:count])
            if source.fault is not None:
                raise OSError(source.fault)
        finally:
            source.close()


def readable(file: str, folder: Path) -> str:
    """Return a path or URL that can be opened several times: that of a copy if the file is standard input or a pipe.

    Args:
        file: the path, `-` or a URL.
        folder: an empty folder for the copy.

    Raises:
        OSError: the file cannot be read, or the copy cannot be written.
    """
    if is_directory(file) or can_reopen(file):
        return file
    copy = folder / ("stdin" if file == "-" else Path(file).name)
    stream = nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb")  # noqa: SIM115  # `with` closes it
    with stream as source, names_if_full(), open(copy, "wb") as target:
        shutil.copyfileobj(source, target)  # as it is: what is wrong with a compressed stream shows when it is read
    return str(copy)


def is_native(source: Source) -> bool:
    """Return whether the UI reads the content of a file as it is, compressed or not."""
    exchange = exchange_by_content(source.head)
    if exchange is not None:
        return exchange.name in _NATIVE
    return source.head.startswith(MAGIC) and Chunks.of(source.head[:HEAD_BYTES]) is None


def has_operations(file: str) -> bool:
    """Return whether an FXT trace has async operations, such as tasks of asyncio.

    FXT cannot say to which process the track of an operation belongs: the UI would show all below the processes.
    """
    with fxtio.open(file, format="fxt") as trace:
        return any(r.AsyncBegin in batch.classes() for batch in trace.record_batches(forget=True))


def of_file(file: str) -> Content | None:
    """Return the content of a file that the UI reads as it is, or after decompression; None for any other file.

    None also for FXT of which the UI shows more in its own format, unless it is large.

    Args:
        file: a path or URL that `readable` returned.

    Raises:
        OSError: the file cannot be opened.
    """
    if is_directory(file):
        return None
    source = open_source(file)
    try:
        if not is_native(source):
            return None
        is_sent = "://" not in file and source.compression in (None, "gzip")  # as it is
        size = source.size if source.compression is None else (source.total or 0) * SHRINKS
        is_fxt = source.head.startswith(MAGIC)
        if is_fxt and (size or 0) <= LARGE and has_operations(file):
            return None
        if is_sent:
            return Content(_safe(Path(file).name), file, is_whole=True, size=Path(file).stat().st_size)
        return Content(_safe(Path(without_compression(file)).name), file, is_whole=False, size=size)
    finally:
        source.close()


def of_timeline(timeline: Timeline, file: str | None, selection: Selection, folder: Path) -> Content:
    """Convert a trace, or a part of it, for the UI.

    FXT stays FXT if the UI can read it and shows all of it; other traces get the format of Perfetto, which expresses
    more of them.

    Args:
        timeline: the trace.
        file: the path or URL that it was opened from; None for several traces.
        selection: the part of it.
        folder: the folder for the new file.

    Raises:
        UntimedError: nothing in the trace has a time.
        SelectionError: the format of the trace has nothing of the kind that is selected.
        OSError: the file cannot be written.
    """
    stays = file is not None and _is_little_endian_fxt(file) and not has_operations(file)
    to, suffix = ("fxt", ".fxt") if stays else ("perfetto", ".pftrace")
    name = _safe(without_compression(Path(timeline.name).name))
    target = folder / f"shown{suffix}"
    empty: list[bool] = []
    losses = convert(timeline, target, to=to, selection=selection, when_empty=lambda: empty.append(True))
    may_be_empty = losses or target.stat().st_size < _SMALL
    if may_be_empty and times_of(timeline).start is None:
        raise UntimedError(timeline.name)
    shown = name if name.endswith(suffix) else name + suffix
    return Content(shown, str(target), is_whole=True, size=target.stat().st_size, losses=losses, is_empty=bool(empty))


def _is_little_endian_fxt(file: str) -> bool:
    if is_directory(file):
        return False
    source = open_source(file)
    source.close()
    return source.head.startswith(MAGIC)


def _safe(name: str) -> str:
    """Return a file name that needs no escapes in an address, and whose ending is that of the name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[-_MAX_NAME:] or "trace"
