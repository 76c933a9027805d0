"""Whole files in memory, for formats that cannot be read piece by piece."""

from __future__ import annotations

from fxtio.errors import FormatError
from fxtio.io.source import Source

MAX_BYTES = 1 << 29
"""The most (decompressed) bytes of such a file; each reader bounds what it makes of them."""

_CHUNK = 1 << 20


def read_whole(source: Source) -> bytearray:
    """Return all bytes of a source.

    Raises:
        FormatError: they are more than `MAX_BYTES`, or the source is cut or damaged.
    """
    data = bytearray()
    chunk = memoryview(bytearray(_CHUNK))
    while count := source.readinto(chunk):
        data += chunk[:count]
        if len(data) > MAX_BYTES:
            raise FormatError(
                f"{source.name} has more than {MAX_BYTES:,} bytes, the most of a file that is read as a whole"
            )
    if source.fault:
        raise FormatError(f"{source.name}: {source.fault}")
    return data
