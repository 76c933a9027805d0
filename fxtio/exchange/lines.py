"""The lines of text files, of any size, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fxtio.io.source import Source

MAX_LINE = 16_000_000
"""The most bytes of a line; longer ones are left out."""

_CHUNK = 1 << 20


def lines(source: Source, losses: Counter[str]) -> Iterator[list[bytes]]:
    """Yield the lines of a source, piece by piece; what cannot be read of it is counted."""
    chunk = memoryview(bytearray(_CHUNK))
    rest, is_long = b"", False
    while count := source.readinto(chunk):
        *whole, rest = (rest + bytes(chunk[:count])).split(b"\n")
        if is_long and whole:
            whole[0], is_long = b"", False
        if len(rest) > MAX_LINE:
            losses[f"lines of more than {MAX_LINE:,} bytes"] += not is_long
            rest, is_long = b"", True
        yield whole
    if not is_long:
        yield [rest]
    if source.fault:
        losses[source.fault] += 1
