"""Bars and an axis of time as text, with or without colors and Unicode."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fxtio.report import printable, short_duration
from fxtio.text_width import fitted, start_of, width_of

_COLORS = (110, 150, 180, 174, 139, 144, 116, 186, 152, 181)  # of the palette of 256 colors: pale ones
_MIN_DISTANCE = 12  # columns between two marks of the axis


@dataclass(frozen=True, slots=True)
class Style:
    """The characters and colors of bars.

    Attributes:
        color: with colors, by names.
        left: the first character of a bar.
        middle: the characters between.
        right: the last one.
        single: a bar of one column.
        levels: characters of columns of which a rising share is filled, less than half.
        mark: the character of a mark of the axis.
        cut: the character in place of what is cut out of a text.
    """

    color: bool
    left: str
    middle: str
    right: str
    single: str
    levels: str
    mark: str
    cut: str

    @classmethod
    def of(cls, encoding: str | None, *, color: bool) -> Style:
        """Return the style for a terminal with this encoding."""
        if (encoding or "").lower().replace("-", "") == "utf8":
            return cls(color, "┣", "━", "┫", "┃", "▁▂▃▄", "╷", "…")
        return cls(color, "[", "=", "]", "|", "..::", "|", "~")


def bars(names: Sequence[str | None], fill: Sequence[float], style: Style) -> str:
    """Draw the cells of a row: neighbors with the same name are one bar, which has its name inside if it fits.

    Args:
        names: the name of what fills most of each cell, None for nothing.
        fill: the share of each cell that is filled (0 to 1); cells that are filled less than half are not part of bars.
        style: how they are drawn.
    """
    cells = [(name, share >= 0.5) for name, share in zip(names, fill, strict=True)]
    parts: list[str] = []
    place = 0
    for (name, is_bar), run in groupby(cells):
        width = len(list(run))
        if name is None:
            parts.append(" " * width)
        elif is_bar:
            parts.append(_bar(name, width, style))
        else:
            shares = fill[place : place + width]
            text = "".join(
                style.levels[min(int(share * 2 * len(style.levels)), len(style.levels) - 1)] for share in shares
            )
            parts.append(f"\x1b[38;5;{_color(name)}m{text}\x1b[0m" if style.color else text)
        place += width
    return "".join(parts)


def _bar(name: str, width: int, style: Style) -> str:
    text = printable(name)
    if style.color:
        return f"\x1b[30;48;5;{_color(name)}m{fitted(text, width)}\x1b[0m"
    if width == 1:
        return style.single
    return style.left + fitted(text, width - 2, style.middle) + style.right


def _color(name: str) -> int:
    return _COLORS[zlib.crc32(name.encode("utf-8", "surrogateescape")) % len(_COLORS)]


def shortened(text: str, width: int, style: Style) -> str:
    """Return a text that takes at most this number of columns: of a longer one, the begin and the end."""
    if width_of(text) <= width:
        return text
    head = start_of(text, (width - 1) // 3)
    tail = start_of(text[::-1], width - 1 - width_of(head))[::-1]
    return f"{head}{style.cut}{tail}"


def axis(start: int, end: int, cells: int, style: Style) -> Iterator[str]:
    """Yield two lines: times, and a mark below the first character of each.

    Args:
        start: the time at the begin of the first cell, in nanoseconds.
        end: the time at the end of the last one.
        cells: the number of cells.
        style: how marks are drawn.
    """
    step = _step((end - start) * _MIN_DISTANCE / cells)
    times, marks = [" "] * cells, [" "] * cells
    at = -(-start // step) * step
    while at < end:
        cell = (at - start) * cells // (end - start)
        text = short_duration(at)
        if cell + len(text) <= cells:
            times[cell : cell + len(text)] = text
        marks[cell] = style.mark
        at += step
    yield "".join(times)
    yield "".join(marks)


def _step(least: float) -> int:
    """Return the least of 1, 2, 5, 10, 20, ... nanoseconds that is not below a number."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor >= least:
                return step * factor
        step *= 10
