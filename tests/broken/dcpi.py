"""For each rule of DCPI profiles, a profile (or a listing of `dcpicat`) that breaks it."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import fxtio
from fxtio.dcpi import dcpicat
from fxtio.finding import Findings

HEADER = (
    b"image 00112233\nepoch 9706011230\nplatform synthetic\nevent cycles\nperiod 62000\n"
    b"tstart 120000000\ntsize 4096\ncpuspeed 333\n"
)
LISTING = b"name synthetic\nevent 10 cycles:62000:9900\nevent 3 misses:1000:100\n0x120000000 4 0\n0x120000008 6 3\n"


def profile(*words: int, header: bytes = HEADER) -> bytes:
    """Return a padded header and a body of numbers: chunks of offset, number and counts, then two totals."""
    padding = -(len(header) + len(b"samples\n")) % 4
    return header + b"samples" + b" " * padding + b"\n" + struct.pack(f"<{len(words)}I", *words)


def with_line(old: bytes, new: bytes) -> bytes:
    """Return a sound profile with another header line."""
    assert old in HEADER
    return profile(0, 1, 5, 1, 5, header=HEADER.replace(old, new))


def read(data: bytes) -> Callable[[Path], Findings]:
    """Return a case that does what `fxtio info` does."""

    def findings(folder: Path) -> Findings:
        trace = fxtio.open(data, format="dcpi")
        _ = trace.info
        return trace.findings

    return findings


def dumped(data: bytes) -> Callable[[Path], Findings]:
    """Return a case that does what `fxtio dump` does."""

    def findings(folder: Path) -> Findings:
        path = folder / "broken.dcpi"
        path.write_bytes(data)
        with fxtio.open(path) as trace:
            assert list(trace.entries())
            return trace.findings

    return findings


def listed(data: bytes) -> Callable[[Path], Findings]:
    """Return a case that reads a listing."""
    return lambda _: dcpicat.read(data).findings


CASES: dict[str, Callable[[Path], Findings]] = {
    "dcpi.source.empty": read(b""),
    "dcpi.source.cut": read(gzip.compress(profile(0, 1, 5, 1, 5))[:-9]),
    "dcpi.header.line": dumped(with_line(b"event cycles", b"event")),
    "dcpi.header.end": dumped(HEADER),
    "dcpi.header.text-transfer": dumped(profile(0, 1, 5, 1, 5).replace(b"\n", b"\r\n")),
    "dcpi.header.missing": read(with_line(b"image 00112233\n", b"")),
    "dcpi.header.repeated": read(with_line(b"event cycles\n", b"event cycles\nevent misses\n")),
    "dcpi.header.value": read(with_line(b"period 62000", b"period many")),
    "dcpi.header.repeated-optional": read(with_line(b"period 62000\n", b"period 62000\nperiod 62000\n")),
    "dcpi.header.version-form": read(with_line(b"period 62000\n", b"period 62000\nversion seven\n")),
    "dcpi.header.unaligned": read(with_line(b"tstart 120000000", b"tstart 120000002")),
    "dcpi.header.zero-period": read(with_line(b"period 62000", b"period 0")),
    "dcpi.header.version-place": read(with_line(b"period 62000\n", b"period 62000\nversion pdb-0.07\n")),
    "dcpi.header.no-text-start": read(with_line(b"tstart 120000000\n", b"")),
    "dcpi.header.size": read(HEADER.replace(b"synthetic", b"some host") + b"x y\nsamples\n" + bytes(8)),
    "dcpi.header.bytes": dumped(with_line(b"platform synthetic", b"platform caf\xe9")),
    "dcpi.body.opaque": dumped(profile(0, 1, 5, 1, 5, header=b"version pdb-1.01\n" + HEADER)),
    "dcpi.chunk.order": read(profile(8, 1, 5, 4, 1, 5, 2, 10)),
    "dcpi.chunk.overlap": read(profile(0, 2, 5, 5, 4, 1, 5, 3, 15)),
    "dcpi.chunk.empty": dumped(profile(0, 0, 4, 1, 5, 1, 5)),
    "dcpi.chunk.over-end": dumped(profile(0, 4, 5, 5, 5)),
    "dcpi.chunk.unaligned": read(profile(2, 1, 5, 1, 5)),
    "dcpi.chunk.beyond-text": read(profile(4096, 1, 5, 1, 5)),
    "dcpi.footer.missing": dumped(profile(0)),
    "dcpi.footer.trailing": dumped(profile(0, 1, 5, 1, 5) + b"\0"),
    "dcpi.footer.addresses": read(profile(0, 1, 5, 2, 5)),
    "dcpi.footer.samples": read(profile(0, 1, 5, 1, 4)),
    "dcpi.footer.overflow": read(profile(0, 2, 2**32 - 1, 3, 2, 2)),
    "dcpi.listing.line": listed(b"lonely\n" + LISTING),
    "dcpi.listing.row": listed(LISTING + b"0x120000010 1\n"),
    "dcpi.listing.order": listed(LISTING + b"0x120000004 0 0\n"),
    "dcpi.listing.total": listed(LISTING.replace(b"event 10", b"event 11")),
}
