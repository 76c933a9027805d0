"""Listings that break one rule each, and a profile and a listing that break none."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

Break = Callable[[Path], None]
"""Writes a broken trace at a path."""

HEADER = (
    b"version pdb-0.07\nimage 00112233\nepoch 9706011230\nplatform synthetic\nevent cycles\nperiod 62000\n"
    b"tstart 120000000\ntsize 4096\ncpuspeed 333\n"
)
"""Header lines that break no rule."""

LISTING = (
    b"name synthetic\nimage 00112233\nepoch 200212042334\nplatform synthetic\n"
    b"text_start 0x120000000\ntext_size 0x1000\n"
    b"event 10 cycles:62000:9900\nevent 3 misses:1000:100\n0x120000000 4 0\n0x120000008 6 3\n"
)
"""A listing that breaks no rule."""


def _profile(*words: int, header: bytes = HEADER) -> bytes:
    """Return a padded header and a body of numbers: chunks of offset, number and counts, then two totals."""
    padding = -(len(header) + len(b"samples\n")) % 4
    return header + b"samples" + b" " * padding + b"\n" + struct.pack(f"<{len(words)}I", *words)


SOUND = _profile(0, 1, 5, 1, 5)
"""A profile that breaks no rule."""


def _file(data: bytes) -> Break:
    """Return a function that writes these bytes."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


BREAKS: dict[str, Break] = {
    "dcpi.listing.line": _file(LISTING.replace(b"event 10", b"lonely\nevent 10")),
    "dcpi.listing.row": _file(LISTING + b"0x120000010 1\n"),
    "dcpi.listing.order": _file(LISTING + b"0x120000004 0 0\n"),
    "dcpi.listing.total": _file(LISTING.replace(b"event 10", b"event 11")),
    "dcpi.listing.lines-order": _file(LISTING.replace(b"text_size 0x1000\n", b"")),
    "dcpi.listing.zero-row": _file(LISTING + b"0x120000010 0 0\n"),
    "dcpi.listing.unaligned": _file(LISTING.replace(b"0x120000008", b"0x120000007")),
    "dcpi.listing.outside-text": _file(LISTING.replace(b"0x120000008", b"0x120001000")),
    "dcpi.listing.duty": _file(LISTING.replace(b":9900", b":10001")),
}
