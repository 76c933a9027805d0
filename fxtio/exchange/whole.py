"""Whole files in memory, for formats that cannot be read piece by piece."""

from __future__ import annotations

from fxtio.errors import FormatError
from fxtio.io.source import Source

MAX_BYTES = 1 << 31
"""The most (decompressed) bytes of such a file."""

_CHUNK = 1 << 20


def read_whole(source: Source, limit: int = MAX_BYTES) -> bytearray:
    """Return all bytes of a source.

    Raises:
        FormatError: they are more than the limit, or the source is cut or damaged.
    """
    data = bytearray()
    chunk = memoryview(bytearray(_CHUNK))
    while count := source.readinto(chunk):
        data += chunk[:count]
        if len(data) > limit:
            raise FormatError(
                f"{source.name} has more than {limit:,} bytes, the most of a file that is read as a whole"
            )
    if source.fault:
        raise FormatError(f"{source.name}: {source.fault}")
    return data
