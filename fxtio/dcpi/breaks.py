"""A profile, or a listing, for each rule that breaks this rule, and no other one."""

from __future__ import annotations

import gzip
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


def _with_line(old: bytes, new: bytes) -> bytes:
    """Return a sound profile with another header line."""
    return _profile(0, 1, 5, 1, 5, header=HEADER.replace(old, new))


def _file(data: bytes) -> Break:
    """Return a function that writes these bytes."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


BREAKS: dict[str, Break] = {
    "dcpi.source.empty": _file(b""),
    "dcpi.source.cut": _file(gzip.compress(SOUND, mtime=0)[:-5]),
    "dcpi.header.line": _file(_with_line(b"cpuspeed 333\n", b"cpuspeed 333\nlabel\n")),
    "dcpi.header.end": _file(HEADER),
    "dcpi.header.text-transfer": _file(SOUND.replace(b"\n", b"\r\n")),
    "dcpi.header.missing": _file(_with_line(b"image 00112233\n", b"")),
    "dcpi.header.repeated": _file(_with_line(b"event cycles\n", b"event cycles\nevent misses\n")),
    "dcpi.header.repeated-optional": _file(_with_line(b"period 62000\n", b"period 62000\nperiod 62000\n")),
    "dcpi.header.value": _file(_with_line(b"period 62000", b"period many")),
    "dcpi.header.version-form": _file(_with_line(b"pdb-0.07", b"0.07")),
    "dcpi.header.zero-period": _file(_with_line(b"period 62000", b"period 0")),
    "dcpi.header.version-place": _file(
        _profile(0, 1, 5, 1, 5, header=HEADER.replace(b"version pdb-0.07\n", b"") + b"version pdb-0.07\n")
    ),
    "dcpi.header.no-text-start": _file(_with_line(b"tstart 120000000\n", b"")),
    "dcpi.header.size": _file(HEADER + b"x yzw\nsamples\n" + struct.pack("<5I", 0, 1, 5, 1, 5)),
    "dcpi.header.bytes": _file(_with_line(b"platform synthetic", b"platform caf\xe9")),
    "dcpi.header.unaligned": _file(_with_line(b"tstart 120000000", b"tstart 120000002")),
    "dcpi.header.no-version": _file(_with_line(b"version pdb-0.07\n", b"")),
    "dcpi.header.epoch-form": _file(_with_line(b"epoch 9706011230", b"epoch 199706011230")),
    "dcpi.body.opaque": _file(_with_line(b"pdb-0.07", b"pdb-1.01")),
    "dcpi.chunk.order": _file(_profile(8, 1, 5, 0, 1, 5, 2, 10)),
    "dcpi.chunk.overlap": _file(_profile(0, 2, 5, 5, 4, 1, 5, 3, 15)),
    "dcpi.chunk.empty": _file(_profile(0, 0, 4, 1, 5, 1, 5)),
    "dcpi.chunk.over-end": _file(_profile(0, 4, 5, 5, 5)),
    "dcpi.chunk.unaligned": _file(_profile(2, 1, 5, 1, 5)),
    "dcpi.chunk.beyond-text": _file(_profile(4096, 1, 5, 1, 5)),
    "dcpi.chunk.mergeable": _file(_profile(0, 1, 5, 4, 1, 5, 2, 10)),
    "dcpi.chunk.padded": _file(_profile(0, 2, 5, 0, 1, 5)),
    "dcpi.chunk.zeros": _file(_profile(0, 1, 0, 8, 1, 5, 1, 5)),
    "dcpi.footer.missing": _file(_profile(0)),
    "dcpi.footer.trailing": _file(SOUND + b"\0"),
    "dcpi.footer.addresses": _file(_profile(0, 1, 5, 2, 5)),
    "dcpi.footer.samples": _file(_profile(0, 1, 5, 1, 4)),
    "dcpi.footer.overflow": _file(_profile(0, 2, 2**32 - 1, 3, 2, 2)),
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
