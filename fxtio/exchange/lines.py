"""The lines of text files, of any size, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fxtio.io.source import Source

MAX_LINE = 16_000_000
"""The most bytes of a line; longer ones are left out."""

_CHUNK = 1 << 20


def lines(source: Source, losses: Counter[str], limit: int | None = None) -> Iterator[list[bytes]]:
    """Yield the lines of a source, piece by piece; what cannot be read of it is counted.

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
        *whole, rest = bytes(chunk[:count]).split(b"\n")
        if whole:
            whole[0] = b"" if is_long else b"".join([*begun, whole[0]])
            begun, size, is_long = [], 0, False
            yield whole
        begun.append(rest)
        size += len(rest)
        if size > most:
            losses[f"lines of more than {most:,} bytes"] += not is_long
            begun, is_long = [], True
    if not is_long:
        yield [b"".join(begun)]
    if source.fault:
        losses[source.fault] += 1
