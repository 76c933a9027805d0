"""A trace for each rule that breaks this rule, and no other one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

Break = Callable[[Path], None]
"""Writes a broken trace at a path."""

SOUND = (
    b"prf stm 2018-04-10 12:00:00.000\n"
    b"thr crt 0x0000000000000010 0x00000000\n"
    b'fun nam 0x00000001 "synthetic" "" ""\n'
    b'cls nam 0x00000001 "synthetic"\n'
)
"""Lines that break no rule."""


_CLASS = b"cls ldf 0x%016X 0x00000001 0x0000000000000000 0x%08X 0x00000000"
_FUNCTION = b"fun inf 0x00000001 0x0000000000000030 0x0000000000000020 0x0000000000000000 0x06000001"


def _lines(*lines: bytes, sound: bytes = SOUND, end: bytes = b"\n") -> Break:
    """Return a function that writes sound lines and these behind them."""
    return _file(sound + b"\n".join(lines) + end * bool(lines))


def _file(data: bytes) -> Break:
    """Return a function that writes these bytes."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def _cut(path: Path) -> None:
    path.write_bytes(gzip.compress(SOUND, mtime=0)[:-9])


def _long_line(path: Path) -> None:
    path.write_bytes(SOUND + b'cls nam 0x00000002 "' + b"x" * (5_000_000) + b'"\n')


BREAKS: dict[str, Break] = {
    "coreprofiler.source.empty": _file(b""),
    "coreprofiler.source.cut": _cut,
    "coreprofiler.source.windows-lines": _file(SOUND.replace(b"\n", b"\r\n")),
    "coreprofiler.line.unknown": _lines(b"abc def 1"),
    "coreprofiler.line.field-missing": _lines(b"thr cpu 0x00000000 5"),
    "coreprofiler.line.field-form": _lines(b"prc cpu soon 5"),
    "coreprofiler.line.extra-fields": _lines(b"prf tps 5 6"),
    "coreprofiler.line.open-quote": _lines(b'cls nam 0x00000002 "torn'),
    "coreprofiler.line.too-long": _long_line,
    "coreprofiler.line.no-end": _lines(b"prc cpu 5 1", end=b""),
    "coreprofiler.line.bytes": _lines(b'cls nam 0x00000002 "re\rturn"', b'cls nam 0x00000003 "nul \0"'),
    "coreprofiler.line.pointer-width": _lines(b"thr crt 0x00000020 0x00000001"),
    "coreprofiler.line.not-utf8": _lines(b'cls nam 0x00000002 "caf\xe9"'),
    "coreprofiler.line.dialects": _lines(b'fun nam 0x00000002 "Old::Name"'),
    "coreprofiler.time.overflow": _lines(b"prc cpu 9223372036855 5"),
    "coreprofiler.time.backwards": _lines(b"sam str 0x00000000 5 1 0:0", b"sam str 0x00000000 4 1 0:0"),
    "coreprofiler.time.negative": _lines(b"prc cpu -5 1"),
    "coreprofiler.time.interval-negative": _lines(b"gch gcs 0x00000000 5 ? tfff", b"gch gcf 0x00000000 4"),
    "coreprofiler.time.interval-open": _lines(b"gch gcs 0x00000000 5 ? tfff"),
    "coreprofiler.time.cpu-backwards": _lines(b"thr cpu 0x00000000 5 1", b"thr cpu 0x00000000 4 1"),
    "coreprofiler.stack.match-beyond-size": _lines(b"sam str 0x00000000 5 1 3:0"),
    "coreprofiler.stack.size": _lines(b"sam str 0x00000000 5 1 1:3"),
    "coreprofiler.stack.too-deep": _lines(b"sam str 0x00000000 5 1 0:0" + b" 0x00000001" * 65_537),
    "coreprofiler.stack.ip-without-frame": _lines(b"sam str 0x00000000 5 1 0:0:0x0000000000000007"),
    "coreprofiler.stack.nothing": _lines(b"sam str 0x00000000 5 1 0:0 0x00000001", b"sam str 0x00000000 6 0 1:1"),
    "coreprofiler.stack.count-in-instrumentation": _lines(
        b"prf cfg CollectionMethod Instrumentation", b"sam str 0x00000000 5 1 0:0 0x00000001"
    ),
    "coreprofiler.stack.ip-without-lines": _lines(
        b"prf cfg LineTraceEnabled F", b"sam str 0x00000000 5 1 0:0 0x00000001:0x0000000000000007"
    ),
    "coreprofiler.allocation.place": _lines(b"prf cfg StackTrackingEnabled T", b"sam mem 0x00000000 5 0x00000001:1:24"),
    "coreprofiler.allocation.empty": _lines(b"sam mem 0x00000000 5 0x00000001:0:0"),
    "coreprofiler.thread.gone": _lines(
        b"sam str 0x00000000 5 1 0:0", b"thr dst 0x00000000", b"sam str 0x00000000 6 1 0:0"
    ),
    "coreprofiler.thread.again": _lines(b"thr crt 0x0000000000000020 0x00000000"),
    "coreprofiler.thread.style": _lines(
        b"jit cms 0x00000000 1 0x0000000000000005",
        b"jit cmf 0x00000000 2 0x0000000000000005 0x00000000",
        b"jit cms 1234 3 0x0000000000000006",
        b"jit cmf 1234 4 0x0000000000000006 0x00000000",
    ),
    "coreprofiler.thread.os-number": _lines(b"gch gcs 1234 1 ? tfff", b"gch gcf 1234 2"),
    "coreprofiler.thread.usage-negative": _lines(b"thr cpu 0x00000000 85403 18446744073709551586"),
    "coreprofiler.thread.not-alive": _lines(b"thr dst 0x00000000", b"thr dst 0x00000000"),
    "coreprofiler.profiling.start-again": _lines(b"prf stm 2018-04-10 13:00:00.000"),
    "coreprofiler.profiling.pause-pairs": _lines(b"prf trs 1"),
    "coreprofiler.profiling.no-start": _file(SOUND.partition(b"\n")[2]),
    "coreprofiler.profiling.start-place": _file(SOUND.partition(b"\n")[2] + SOUND.partition(b"\n")[0] + b"\n"),
    "coreprofiler.profiling.config-value": _lines(b"prf cfg LineTraceEnabled yes"),
    "coreprofiler.profiling.config-again": _lines(b"prf cfg SamplingTimeoutMs 10", b"prf cfg SamplingTimeoutMs 20"),
    "coreprofiler.profiling.disabled": _lines(b"prf cfg CpuTraceProcessEnabled F", b"prc cpu 5 1"),
    "coreprofiler.gc.generations": _lines(b"gch gcs 0x00000000 1 ? tff", b"gch gcf 0x00000000 2"),
    "coreprofiler.gc.pairs": _lines(b"gch gcf 0x00000000 1"),
    "coreprofiler.gc.reason": _lines(b"gch gcs 0x00000000 1 full tfff", b"gch gcf 0x00000000 2"),
    "coreprofiler.gc.class-again": _lines(b"gch alt 5 0x00000001:1:24 0x00000001:2:48"),
    "coreprofiler.gc.heap-generations": _lines(b"gch gen 5 LOH:1:2 gen2:1:2 gen1:1:2"),
    "coreprofiler.jit.pairs": _lines(b"jit cmf 0x00000000 1 0x0000000000000005 0x00000000"),
    "coreprofiler.id.undefined": _lines(b"sam str 0x00000007 5 1 0:0"),
    "coreprofiler.id.name-missing": _lines(
        b"fun inf 0x00000009 0x0000000000000009 0x0000000000000004 0x0000000000000000 0x06000001",
        b"sam str 0x00000000 5 1 0:0 0x00000009",
    ),
    "coreprofiler.id.again": _lines(_CLASS % (0x20, 0x02000001), _CLASS % (0x21, 0x02000002)),
    "coreprofiler.id.name-again": _lines(b'cls nam 0x00000001 "another"'),
    "coreprofiler.load.module-missing": _lines(
        b"cls ldf 0x0000000000000020 0x00000001 0x0000000000000007 0x02000001 0x00000000"
    ),
    "coreprofiler.load.assembly-missing": _lines(b"mod ata 0x0000000000000000 0x0000000000000007"),
    "coreprofiler.load.file-missing": _lines(b"lin src 0x00000001 0x00000007 0x00000001 1 1 1 9"),
    "coreprofiler.load.line-range": _lines(
        b'fil src 0x00000007 "a.cs"', b"lin src 0x00000001 0x00000007 0x00000001 5 1 4 9"
    ),
    "coreprofiler.function.il-range": _lines(_FUNCTION + b" 0x0000000000400000:0x10 0x0:0x4:0x2"),
    "coreprofiler.function.il-beyond-code": _lines(_FUNCTION + b" 0x0000000000400000:0x10 0x0:0x4:0x20"),
    "coreprofiler.function.code-overlap": _lines(_FUNCTION + b" 0x0000000000400000:0x10 0x0000000000400008:0x10"),
}
