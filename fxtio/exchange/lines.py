"""The lines of text files, of any size, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fxtio.io.source import Source

MAX_LINE = 16_000_000
"""The most bytes of a line; longer ones are left out."""

_CHUNK = 1 << 20


def lines(source: Source, losses: Counter[str], limit: int | None = None) -> Iterator[list[bytes]]:
    """Yield the lines of a source, many at a time, see `blocks`."""
    return (block.split(b"\n") for block in blocks(source, losses, limit))


def blocks(source: Source, losses: Counter[str], limit: int | None = None) -> Iterator[bytes]:
    """Yield whole lines of a source, many at a time, without the end of the last one.

    Args:
        source: the source.
        losses: counts what cannot be read.
        limit: the most bytes of a line, instead of `MAX_LINE`.
    """
    most = limit or MAX_LINE
    chunk = memoryview(bytearray(_CHUNK))
    begun: list[bytes] = []  # the parts of a line that has not ended
    size, is_long = 0, False
    while count := source.readinto(chunk):
        data = bytes(chunk[:count])
        end = data.rfind(b"\n")
        if end >= 0:
            first = data.index(b"\n") + 1 if is_long else 0
            if first <= end:
                yield b"".join([*begun, data[first:end]])
            begun, size, is_long = [], 0, False
        begun.append(data[end + 1 :])
        size += count - end - 1
        if size > most:
            losses[f"lines of more than {most:,} bytes"] += not is_long
            begun, is_long = [], True
    if not is_long:
        yield b"".join(begun)
    if source.fault:
        losses[source.fault] += 1
