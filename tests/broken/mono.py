"""A recording for each rule of Mono recordings, made by hand and read as records, in a summary and as tables."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fxtio
from fxtio.finding import Findings
from fxtio.mono.writer import MonoWriter

GOOD = bytes.fromhex("21 05 4d")  # the new size of the heap


def header(*, version: int = 17, pointers: int = 8, flags: int = 0) -> bytes:
    """Return the header of a recording by the profiler 3.0, with empty texts."""
    numbers = struct.pack("<I4BQQIIIH", 0x4D505A01, 3, 0, version, pointers, 0, 0, 0, flags, 1, 0)
    return numbers + 3 * struct.pack("<I", 0)


def buffer(events: bytes = GOOD, *, size: int | None = None) -> bytes:
    """Return a buffer whose bases are 0 with any bytes as its events, and maybe another size in its header."""
    return struct.pack("<II5Q", 0x4D504C01, len(events) if size is None else size, 0, 0, 0, 1, 0) + events


def read(path: Path, **options: Any) -> Findings:
    """Return the findings of a recording, which are the same however it is read."""
    all_findings: list[Findings] = []
    for use in (list, lambda trace: trace.info, lambda trace: trace.tables(*trace.table_names)):
        with fxtio.open(path, format="mono", **options) as trace:
            use(trace)
            all_findings.append(trace.findings)
    counts = [findings.counts for findings in all_findings]
    assert counts[0] == counts[1] == counts[2], counts
    return all_findings[0]


def case(data: bytes, **options: Any) -> Callable[[Path], Findings]:
    """Return a function that reads a recording from a file."""

    def findings(folder: Path) -> Findings:
        path = folder / "broken.mlpd"
        path.write_bytes(data)
        return read(path, **options)

    return findings


def long_stack(folder: Path) -> Findings:
    """Return the findings of a table with a stack that has 2,000 times a method with a long name."""
    path = folder / "broken.mlpd"
    with MonoWriter(path) as writer:
        method = writer.method("x" * 60_000, time=1)
        writer.sample(0x10, [method] * 2_000, time=2, interrupted=1)
        writer.sample(0x10, [method], time=3, interrupted=1)
    with fxtio.open(path, format="mono") as trace:
        stacks = trace.table("sample_stacks")["stack"].to_list()
        assert stacks == [None, "x" * 60_000]
        return trace.findings


CASES: dict[str, Callable[[Path], Findings]] = {
    "mono.source.empty": case(b""),
    "mono.source.cut": case(gzip.compress(header() + buffer() + buffer(bytes(1000)))[:-4]),
    "mono.buffer.truncated": case(header() + buffer() + buffer()[:-1]),
    "mono.header.bad": case(header()[:30]),
    "mono.header.unknown-version": case(header(version=18) + buffer()),
    "mono.header.pointer-size": case(header(pointers=16) + buffer()),
    "mono.header.flags": case(header(flags=1) + buffer()),
    "mono.header.damaged-id": case(header() + b"\x01LP?" + buffer()[4:]),
    "mono.source.text-mode": case((header() + buffer(bytes.fromhex("21 05 0a")) + buffer()).replace(b"\n", b"\r\n")),
    "mono.buffer.id": case(header() + buffer() + b"garbage" + buffer()),
    "mono.buffer.too-large": case(header() + buffer(size=1 << 28) + buffer()),
    "mono.buffer.overlap": case(header() + buffer(size=40) + buffer() + buffer()),
    "mono.stack.text": long_stack,
    "mono.time.overflow": case(header() + buffer(b"\x21" + b"\xff" * 9 + b"\x01\x4d") + buffer()),
    "mono.header.hybrid-version": case(header(version=15) + buffer(b"\x36\x00\x01\x01\x08\x10\x80\x01")),
    "mono.event.unknown": case(header() + buffer(b"\x0b") + buffer()),
    "mono.event.cut": case(header() + buffer(b"\x21\x00\x80") + buffer()),
    "mono.event.varint": case(header() + buffer(b"\x21\x00" + b"\xff" * 10 + b"\x01") + buffer()),
    "mono.event.text-end": case(header() + buffer(b"\x1a\x00abcdef") + buffer()),
    "mono.event.count": case(header() + buffer(b"\x31\x00\xff\xff\xff\xff\x7f") + buffer()),
    "mono.event.unknown-form": case(header() + buffer(b"\x47\x00\x01\x09\x00\x00") + buffer()),
}
