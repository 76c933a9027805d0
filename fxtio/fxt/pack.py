"""The room `pack`: a trace in independent zstd frames with an index, see `fxtio.fxt.packed`.

The trace is read once, batch by batch; what is decompressed are the same bytes.  Outlines go to a temporary file, since
they come after all frames.
"""

from __future__ import annotations

import os
import shutil
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from fxtio import _native
from fxtio.fxt.outline import Outliner, Part
from fxtio.fxt.packed import (
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_MAGIC,
    INDEX_NAME,
    INDEX_VERSION,
    SEEK_ENTRY,
    SEEK_FOOTER,
    SEEK_TABLE_MAGIC,
    SEEKABLE_MAGIC,
    SKIPPABLE,
    UNKNOWN_CLOCK,
    WHOLE,
)
from fxtio.fxt.state import Batch, Reading
from fxtio.io.sink import Sink, temporary_file, whole_file
from fxtio.report import counted, human_size
from fxtio.shared_folders import open_regular
from fxtio.table import MAX_TIME

if TYPE_CHECKING:
    from fxtio.fxt.reader import FxtTrace

FRAME_WORDS = 1 << 21
"""About the most words of a frame (16 MiB); but records are not divided."""

MAX_SHARE = 0.5
"""A frame whose outline would have a larger share of its bytes has none, and is read for any range."""

MAX_FRAME_BYTES = 1 << 30  # a large record is divided
_LEVEL = 3
_OUTLINE_LEVEL = 9


def pack(trace: FxtTrace, target: str | PathLike[str]) -> str:
    """Write a trace packed, see `fxtio.formats.PackRoom`."""
    with whole_file(target, compresses=False) as sink:
        count = pack_to(trace, sink)
    packed, size = human_size(sink.position), human_size(trace.position)
    return f"{packed}, of {size}, in {counted(count, 'frame')}"


def pack_to(trace: FxtTrace, sink: Sink) -> int:
    """Write a trace packed, and return the number of its frames; the faults of the trace are in its `findings`.

    Raises:
        OSError: something cannot be read or written.
    """
    with temporary_file() as file:
        packer = _Packer(sink, file)
        for batch in trace.record_batches(forget=True, gaps=True, words=FRAME_WORDS):
            packer.enter(batch)
        return packer.finish(trace.tail)


def main(path: str) -> None:
    """Pack a trace of this user in its place; the tracer calls this in a process of its own.

    Raises:
        FxtioError: it is no trace.
        OSError: it cannot be read or replaced, or belongs to another user.
    """
    from fxtio.fxt.reader import FxtTrace

    with open(open_regular(path, os.geteuid()), "rb") as file, FxtTrace(file) as trace:
        pack(trace, path)


class _Packer:
    """The work on one trace.

    Args:
        sink: takes the frames.
        file: takes the outlines.
    """

    def __init__(self, sink: Sink, file: BinaryIO) -> None:
        import zstandard

        self._sink, self._file = sink, file
        self._compressor = zstandard.ZstdCompressor(_LEVEL, write_checksum=True)
        writer: Any = zstandard.ZstdCompressor(_OUTLINE_LEVEL, write_checksum=True).stream_writer(file, closefd=False)
        self._outlines = Sink(cast("BinaryIO", writer), owned=True)
        self._outliner = Outliner()
        self._reading: Reading | None = None
        self._data, self._outline = bytearray(), bytearray()
        self._first, self._last = MAX_TIME, -1
        self._entries: list[tuple[int, int, int]] = []
        self._sizes: list[tuple[int, int]] = []

    def enter(self, batch: Batch) -> None:
        """Take the next batch, which has all bytes after the one before it."""
        frame, part, self._reading = batch.frame, self._outliner.enter(batch), batch.reading
        begin, end = int(frame.at[0]), int(frame.at[-1] + frame.size[-1])
        self._data += frame.block.data[begin * 8 : end * 8]
        self._outline += _outline(batch, part)
        self._first, self._last = min(self._first, part.first), max(self._last, part.last)
        if len(self._data) >= FRAME_WORDS * 4:  # half a frame: there may be many small batches
            self._end_frame()

    def _end_frame(self) -> None:
        """Write what there is as a frame."""
        data = memoryview(self._data)
        is_whole = len(self._outline) > len(data) * MAX_SHARE or len(data) > MAX_FRAME_BYTES
        for begin in range(0, len(data), MAX_FRAME_BYTES):
            piece = data[begin : begin + MAX_FRAME_BYTES]
            self._sizes.append((self._sink.write(self._compressor.compress(piece)), len(piece)))
            self._entries.append((self._first, self._last, WHOLE if is_whole else len(self._outline)))
        if not is_whole:
            self._outlines.write(self._outline)
        self._data, self._outline = bytearray(), bytearray()
        self._first, self._last = MAX_TIME, -1

    def finish(self, tail: bytes) -> int:
        """Write the bytes after the last record, the index and the seek table; return the number of frames."""
        self._outliner.is_sound &= not tail
        self._data += tail
        if self._data:
            self._end_frame()
        self._outlines.close()
        self._write_index()
        sizes = np.array(self._sizes, SEEK_ENTRY).tobytes()
        footer = SEEK_FOOTER.pack(len(self._sizes), 0, SEEKABLE_MAGIC)
        self._sink.write(SKIPPABLE.pack(SEEK_TABLE_MAGIC, len(sizes) + len(footer)) + sizes + footer)
        return len(self._entries)

    def _write_index(self) -> None:
        """Write the index, unless the outlines have more bytes than a frame can have."""
        entries = np.array(self._entries, INDEX_ENTRY)
        if not self._outliner.is_sound:
            entries["outline"] = WHOLE
            self._file.truncate(0)
        outlines = self._file.seek(0, 2)
        size = INDEX_HEADER.size + entries.nbytes + outlines
        if size >= 1 << 32:
            return
        clock = None if self._reading is None else self._reading.first_wall_clock
        wall_clock = UNKNOWN_CLOCK if clock is None or abs(clock) > MAX_TIME else clock
        header = INDEX_HEADER.pack(INDEX_NAME, INDEX_VERSION, len(entries), wall_clock)
        self._sink.write(SKIPPABLE.pack(INDEX_MAGIC, size) + header + entries.tobytes())
        self._file.seek(0)
        shutil.copyfileobj(self._file, self._sink)
        self._sizes.append((SKIPPABLE.size + size, 0))


def _outline(batch: Batch, part: Part) -> memoryview:
    """Return the bytes of the outline of a batch."""
    frame = batch.frame
    out = np.empty(int(frame.at[-1] + frame.size[-1] - frame.at[0]), np.uint64)
    count = _native.copy_rows(frame.block.raw, frame.at, frame.size, part.rows, out)
    return out[:count].data.cast("B")
