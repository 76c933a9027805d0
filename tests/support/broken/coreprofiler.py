"""Traces that break one rule each, about limits, and one that breaks none."""

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
    """Return a function that writes sound lines and these after them."""
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
    "coreprofiler.source.cut": _cut,
    "coreprofiler.line.too-long": _long_line,
    "coreprofiler.stack.too-deep": _lines(b"sam str 0x00000000 5 1 0:0" + b" 0x00000001" * 65_537),
}
