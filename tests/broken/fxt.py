"""For each rule of Fuchsia traces, a trace that breaks it, written word by word."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import fxtio
from fxtio.finding import Findings

METADATA, INITIALIZATION, STRING, THREAD, EVENT, BLOB, KERNEL_OBJECT, LARGE = 0, 1, 2, 3, 4, 5, 7, 15
PROVIDER_INFO, PROVIDER_SECTION, TRACE_INFO = 1, 2, 4
COMPLETE = 4
NULL, INT32, INT64 = 0, 1, 3
MIB = 1 << 20


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def header(record_type: int, size: int, **fields: int) -> int:
    """Return a header word: type, size in words, and values by the first bit of their field, as `bit_16=4`."""
    return record_type | size << 4 | sum(value << int(name.removeprefix("bit_")) for name, value in fields.items())


MAGIC = words(0x0016547846040010)
INSTANT = words(header(EVENT, 4), 10, 1, 2)
"""An instant without names at tick 10; the koids of its thread, 1 and 2, are inline."""

FIVE = INSTANT * 5
"""Enough good records to go on with behind a bad header."""


def trace(*parts: bytes) -> bytes:
    return MAGIC + b"".join(parts) + FIVE


def event_with_argument(*argument: int) -> bytes:
    return words(header(EVENT, 4 + len(argument), bit_20=1), 10, 1, 2, *argument)


def read(data: bytes) -> Callable[[Path], Findings]:
    """Return the findings of `fxtio info`."""

    def findings(_: Path) -> Findings:
        with fxtio.open(data, format="fxt") as trace:
            assert trace.info.format == "fxt"
            result: Findings = trace.findings
        return result

    return findings


def dumped(data: bytes) -> Callable[[Path], Findings]:
    """Return the findings of `fxtio dump`."""

    def findings(folder: Path) -> Findings:
        path = folder / "broken.fxt"
        path.write_bytes(data)
        with fxtio.open(path) as trace:
            assert list(trace.entries())
            return trace.findings

    return findings


def tabulated(data: bytes, table: str = "events") -> Callable[[Path], Findings]:
    """Return the findings of reading a table, by default that of events."""

    def findings(_: Path) -> Findings:
        with fxtio.open(data) as trace:
            assert trace.table(table).num_columns
            return trace.findings

    return findings


CASES: dict[str, Callable[[Path], Findings]] = {
    "fxt.source.empty": read(b""),
    "fxt.framing.truncated": read(MAGIC + INSTANT[:-8]),
    "fxt.framing.size-beyond-end": read(trace(words(header(EVENT, 4000)))),
    "fxt.framing.too-large": read(trace(words(header(LARGE, 512 * MIB // 8)))),
    "fxt.framing.zero-size": read(trace(words(header(EVENT, 0, bit_16=1)))),
    "fxt.framing.zero-words": read(trace(words(0, 0))),
    "fxt.source.cut": read(gzip.compress(trace(), mtime=0)[:-9]),
    "fxt.framing.record-short": dumped(trace(words(header(EVENT, 2), 10))),
    "fxt.framing.stream-over-record": dumped(trace(words(header(STRING, 1, bit_16=1, bit_32=8)))),
    "fxt.framing.magic-value": dumped(trace(words(header(METADATA, 1, bit_16=TRACE_INFO, bit_24=0x12345678)))),
    "fxt.arg.size": dumped(trace(event_with_argument(header(INT32, 0)))),
    "fxt.arg.short": dumped(trace(event_with_argument(header(INT64, 1)))),
    "fxt.string.undefined": dumped(trace(words(header(EVENT, 4, bit_48=5), 10, 1, 2))),
    "fxt.thread.undefined": tabulated(trace(words(header(EVENT, 2, bit_24=7), 10))),
    "fxt.provider.unknown": read(trace(words(header(METADATA, 1, bit_16=PROVIDER_SECTION, bit_20=9)))),
    "fxt.provider.too-many": read(
        trace(*(words(header(METADATA, 1, bit_16=PROVIDER_INFO, bit_20=number)) for number in range(1025)))
    ),
    "fxt.clock.too-many": read(trace(*(words(header(INITIALIZATION, 2), rate) for rate in range(1, 65_538)))),
    "fxt.bits.reserved": dumped(trace(words(header(THREAD, 3, bit_16=1, bit_24=1), 1, 2))),
    "fxt.bits.padding": dumped(trace(words(header(STRING, 2, bit_16=1, bit_32=1), 0x4241))),
    "fxt.text.too-long": dumped(trace(words(header(STRING, 4002, bit_16=1, bit_32=32_001), *[0x20] * 4001))),
    "fxt.text.not-utf8": dumped(trace(words(header(STRING, 2, bit_16=1, bit_32=1), 0xFF))),
    "fxt.event.scope": dumped(trace(words(header(EVENT, 5), 10, 1, 2, 3))),
    "fxt.framing.unknown-trace-info": dumped(trace(words(header(METADATA, 1, bit_16=TRACE_INFO, bit_20=1)))),
    "fxt.framing.record-long": dumped(trace(words(0x0016547846040020, 0))),
    "fxt.arg.long": dumped(trace(event_with_argument(header(NULL, 2), 0))),
    "fxt.string.zero": read(trace(words(header(STRING, 2, bit_32=1), 0x61))),
    "fxt.thread.zero": read(trace(words(header(THREAD, 3), 1, 2))),
    "fxt.event.end-before-start": dumped(trace(words(header(EVENT, 5, bit_16=COMPLETE), 10, 1, 2, 9))),
    "fxt.framing.unknown-record": read(trace(words(header(EVENT, 4, bit_16=11), 10, 1, 2))),
    "fxt.arg.unknown": dumped(trace(event_with_argument(header(11, 1)))),
    "fxt.bits.unknown-value": dumped(trace(words(header(BLOB, 1, bit_48=4)))),
    "fxt.object.too-many": tabulated(
        trace(*(words(header(KERNEL_OBJECT, 2), koid) for koid in range(65_537))), table="object_args"
    ),
    "fxt.clock.zero-rate": read(trace(words(header(INITIALIZATION, 2), 0))),
    "fxt.time.overflow": tabulated(trace(words(header(EVENT, 4), 1 << 63, 1, 2))),
}
