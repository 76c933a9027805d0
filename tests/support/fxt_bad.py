"""Helpers for the tests of bad input: good records around the bad ones, and a bound on memory."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zstandard

from fxtio.codec.generate import Order
from fxtio.codec.record import Record
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread

MIB = 1 << 20
HEAD = [rec.Magic(), rec.String(1, "name"), rec.ThreadRecord(1, 2, 3)]


def instants(first: int, count: int) -> list[Any]:
    """Return distinct records whose words are no headers."""
    return [rec.Instant((first + number) << 16 | 4, Thread(2, 3), "", "name", ()) for number in range(count)]


def words(*values: int, order: Order = "little") -> bytes:
    return b"".join([value.to_bytes(8, order) for value in values])


def delivered(trace: FxtTrace) -> list[Any]:
    return [record for record in trace if isinstance(record, Record)]


@contextmanager
def memory(most: int) -> Iterator[None]:
    """Allow at most this many bytes of memory at once, beyond those in use already."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield
        used = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert used < most, f"{used / MIB:.1f} MiB"


CONTAINERS = ["gzip", "xz", "zstd"]


def packed(kind: str, data: bytes) -> bytes:
    """Compress the data."""
    if kind == "zstd":
        return zstandard.ZstdCompressor().compress(data)
    return gzip.compress(data, mtime=0) if kind == "gzip" else lzma.compress(data)
