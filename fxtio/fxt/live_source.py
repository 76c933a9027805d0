"""A recording that has not ended, as a source whose events are in order: its chunks are read by their first events."""

from __future__ import annotations

import io
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, BinaryIO

from fxtio.fxt.live_file import Chunk, Chunks, in_order
from fxtio.io.source import Source


def arranged(source: Source) -> Source:
    """Return the source with its chunks in order if it is an unfinished recording, else the source itself.

    Args:
        source: the source at its beginning; where it is compressed, or can only be read forward, its order stays.
    """
    chunks = Chunks.of(source.head)
    stream = source.seekable
    if chunks is None or stream is None or source.compression:
        return source

    def read(offset: int, target: memoryview) -> int:
        stream.seek(offset)
        return _fill(stream, target)

    pieces = _Pieces(stream, chunks.begin, in_order(chunks, read))
    return Source(pieces, source.name, limit=source.limit, owned=source.owned)


class _Pieces(io.RawIOBase, BinaryIO):
    """Pieces of a file as one file.

    Args:
        stream: the file; it is closed with this one.
        begin: bytes at the beginning of the file, which are the first piece.
        chunks: the other pieces; one in which the file is cut becomes the last one.
    """

    def __init__(self, stream: BinaryIO, begin: int, chunks: Iterable[Chunk]) -> None:
        self._stream = stream
        self._offsets, sizes = array("Q", [0]), array("Q", [begin])
        cut: list[Chunk] = []
        for chunk in chunks:
            if chunk.is_cut:
                cut.append(chunk)
                continue
            self._offsets.append(chunk.offset)
            sizes.append(chunk.size)
        self._offsets.extend(chunk.offset for chunk in cut)
        sizes.extend(chunk.size for chunk in cut)
        self._ends = array("Q", accumulate(sizes))
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._ends[-1]}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, target: Any) -> int:
        index = bisect_right(self._ends, self._position)
        if index == len(self._ends):
            return 0
        left = self._ends[index] - self._position
        begin = self._ends[index - 1] if index else 0
        self._stream.seek(self._offsets[index] + self._position - begin)
        count = _fill(self._stream, memoryview(target).cast("B")[:left])
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _fill(stream: Any, target: memoryview) -> int:
    """Read until the target is full or the file ends; return the number of bytes."""
    filled = 0
    while filled < len(target) and (count := stream.readinto(target[filled:])):
        filled += count
    return filled
