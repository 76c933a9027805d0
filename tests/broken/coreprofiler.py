"""For each rule of CoreProfiler traces, lines that break it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import fxtio
from fxtio.finding import Findings

SOUND = (
    b"prf stm 2018-04-10 12:00:00.000\n"
    b"thr crt 0x0000000000000010 0x00000000\n"
    b'fun nam 0x00000001 "synthetic" "" ""\n'
    b'cls nam 0x00000001 "synthetic"\n'
)


def read(*lines: bytes, sound: bytes = SOUND) -> Callable[[Path], Findings]:
    """Return a case that does what `fxtio info` does, on sound lines and these."""
    data = sound + b"".join(line + b"\n" for line in lines)

    def findings(folder: Path) -> Findings:
        trace = fxtio.open(data, format="coreprofiler")
        _ = trace.info
        return trace.findings

    return findings


def dumped(*lines: bytes, end: bytes = b"\n") -> Callable[[Path], Findings]:
    """Return a case that does what `fxtio dump` does, which checks single lines only."""

    def findings(folder: Path) -> Findings:
        path = folder / "broken.log"
        path.write_bytes(SOUND + b"\n".join(lines) + end)
        with fxtio.open(path) as trace:
            assert list(trace.entries())
            return trace.findings

    return findings


def stacks(*lines: bytes) -> Callable[[Path], Findings]:
    """Return a case that reads whole stacks."""
    data = SOUND + b"".join(line + b"\n" for line in lines)

    def findings(folder: Path) -> Findings:
        trace = fxtio.open(data, format="coreprofiler")
        assert list(trace.samples())
        return trace.findings

    return findings


def cut(_: Path) -> Findings:
    trace = fxtio.open(gzip.compress(SOUND)[:-9])
    list(trace)
    return trace.findings


CASES: dict[str, Callable[[Path], Findings]] = {
    "coreprofiler.source.empty": read(sound=b""),
    "coreprofiler.source.cut": cut,
    "coreprofiler.line.unknown": dumped(b"abc def 1"),
    "coreprofiler.line.field-missing": dumped(b"thr cpu 0x00000000 5"),
    "coreprofiler.line.field-form": dumped(b"prc cpu soon 5"),
    "coreprofiler.line.extra-fields": dumped(b"prf tps 5 6"),
    "coreprofiler.line.open-quote": dumped(b'cls nam 0x00000002 "torn'),
    "coreprofiler.line.too-long": dumped(b'cls nam 0x00000002 "' + b"x" * (5 << 20) + b'"'),
    "coreprofiler.line.no-end": dumped(b"prf tps 5", end=b""),
    "coreprofiler.line.bytes": dumped(b'cls nam 0x00000002 "re\rturn"', b"prf cfg nul \0"),
    "coreprofiler.time.overflow": dumped(b"prc cpu 9223372036855 5"),
    "coreprofiler.line.pointer-width": dumped(b"thr crt 0x00000020 0x00000001"),
    "coreprofiler.stack.match-beyond-size": stacks(b"sam str 0x00000000 5 1 3:2"),
    "coreprofiler.stack.size": stacks(b"sam str 0x00000000 5 1 1:3"),
    "coreprofiler.stack.too-deep": stacks(b"sam str 0x00000000 5 1 0:0" + b" 0x00000001" * 65_537),
    "coreprofiler.stack.ip-without-frame": stacks(b"sam str 0x00000000 5 1 0:0:0x0000000000000007"),
    "coreprofiler.time.backwards": stacks(b"sam str 0x00000000 5 1 0:0", b"sam str 0x00000000 4 1 0:0"),
    "coreprofiler.thread.gone": stacks(
        b"sam str 0x00000000 5 1 0:0", b"thr dst 0x00000000", b"sam str 0x00000000 6 1 0:0"
    ),
    "coreprofiler.thread.again": read(b"thr crt 0x0000000000000020 0x00000000"),
    "coreprofiler.profiling.start-again": read(b"prf stm 2018-04-10 13:00:00.000"),
    "coreprofiler.gc.generations": read(b"gch gcs 0x00000000 1 ? tff", b"gch gcf 0x00000000 2"),
    "coreprofiler.id.undefined": read(b"sam str 0x00000007 5 1 0:0"),
    "coreprofiler.id.name-missing": read(b"thr cpu 0x00000000 4 1", b"sam str 0x00000000 5 1 0:0 0x00000009"),
    "coreprofiler.thread.style": read(b"jit cms 0x00000000 1 0x0000000000000005", b"jit cms 1234 1 0x0000000000000006"),
    "coreprofiler.thread.usage-negative": read(b"thr cpu 0x00000000 85403 18446744073709551586"),
    "coreprofiler.time.negative": read(b"prc cpu -5 1"),
    "coreprofiler.gc.pairs": read(b"gch gcf 0x00000000 1"),
    "coreprofiler.jit.pairs": read(b"jit cmf 0x00000000 1 0x0000000000000005 0x00000000"),
    "coreprofiler.profiling.pause-pairs": read(b"prf trs 1"),
    "coreprofiler.allocation.place": read(b"prf cfg StackTrackingEnabled T", b"sam mem 0x00000000 5 0x00000001:1:24"),
    "coreprofiler.allocation.empty": read(b"sam mem 0x00000000 5 0x00000001:0:0"),
    "coreprofiler.source.windows-lines": read(sound=SOUND.replace(b"\n", b"\r\n")),
}
