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
    "coreprofiler.time.overflow": _lines(b"prc cpu 9223372036855 5"),
    "coreprofiler.time.backwards": _lines(b"sam str 0x00000000 5 1 0:0", b"sam str 0x00000000 4 1 0:0"),
    "coreprofiler.time.negative": _lines(b"prc cpu -5 1"),
    "coreprofiler.stack.match-beyond-size": _lines(b"sam str 0x00000000 5 1 3:0"),
    "coreprofiler.stack.size": _lines(b"sam str 0x00000000 5 1 1:3"),
    "coreprofiler.stack.too-deep": _lines(b"sam str 0x00000000 5 1 0:0" + b" 0x00000001" * 65_537),
    "coreprofiler.stack.ip-without-frame": _lines(b"sam str 0x00000000 5 1 0:0:0x0000000000000007"),
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
    "coreprofiler.thread.usage-negative": _lines(b"thr cpu 0x00000000 85403 18446744073709551586"),
    "coreprofiler.profiling.start-again": _lines(b"prf stm 2018-04-10 13:00:00.000"),
    "coreprofiler.profiling.pause-pairs": _lines(b"prf trs 1"),
    "coreprofiler.gc.generations": _lines(b"gch gcs 0x00000000 1 ? tff", b"gch gcf 0x00000000 2"),
    "coreprofiler.gc.pairs": _lines(b"gch gcf 0x00000000 1"),
    "coreprofiler.id.undefined": _lines(b"sam str 0x00000007 5 1 0:0"),
    "coreprofiler.id.name-missing": _lines(
        b"fun inf 0x00000009 0x0000000000000009 0x0000000000000004 0x0000000000000003 0x06000001",
        b"sam str 0x00000000 5 1 0:0 0x00000009",
    ),
    "coreprofiler.jit.pairs": _lines(b"jit cmf 0x00000000 1 0x0000000000000005 0x00000000"),
    "coreprofiler.allocation.place": _lines(b"prf cfg StackTrackingEnabled T", b"sam mem 0x00000000 5 0x00000001:1:24"),
    "coreprofiler.allocation.empty": _lines(b"sam mem 0x00000000 5 0x00000001:0:0"),
}
