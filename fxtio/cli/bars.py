"""Bars and an axis of time as text, with or without colors and Unicode."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fxtio.report import fitted, printable, short_duration

_COLORS = (110, 150, 180, 174, 139, 144, 116, 186, 152, 181)  # of the palette of 256 colors: pale ones
_MIN_DISTANCE = 12  # columns between two marks of the axis
_EIGHTHS = "▏▎▍▌▋▊▉█"
_WORSE, _BETTER = 174, 114
_BAR_SHARE = 8  # of the columns of a terminal, the part that a bar in a table takes
_MIN_COLUMNS = 60  # of a terminal, for tables with bars
_MAX_BAR = 12


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
        parts: characters of columns whose left part is filled, from the smallest part to the whole column.
        mark: the character of a mark of the axis.
        cut: the character in place of what is cut out of a text.
    """

    color: bool
    left: str
    middle: str
    right: str
    single: str
    levels: str
    parts: str
    mark: str
    cut: str

    @classmethod
    def of(cls, encoding: str | None, *, color: bool) -> Style:
        """Return the style for an output with this encoding: in ASCII if it lacks one of the characters."""
        style = cls(color, "┣", "━", "┫", "┃", "▁▂▃▄", _EIGHTHS, "╷", "…")
        try:
            f"┣━┫┃▁▂▃▄{_EIGHTHS}╷…".encode(encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return cls(color, "[", "=", "]", "|", "..::", ".#", "|", "~")
        return style


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a cell of a table.

    Attributes:
        text: the characters, each one column wide.
        color: its color in the palette of 256, None for that of the terminal.
    """

    text: str
    color: int | None = None

    def __str__(self) -> str:
        return self.text if self.color is None else _colored(self.text, f"38;5;{self.color}")


def bar_width(columns: int) -> int:
    """Return the width of the bars in a table, 0 if there is no room for them.

    Args:
        columns: the width of the terminal.
    """
    return min(columns // _BAR_SHARE, _MAX_BAR) if columns >= _MIN_COLUMNS else 0


def bar_of(share: float, width: int, style: Style, *, name: str | None = None, is_worse: bool = False) -> Bar:
    """Return the bar for a share (0 to 1) of a width in columns, as long as that, and visible if it is not 0.

    It has the color of a name, or without one that of what has become better or worse.
    """
    steps = len(style.parts)
    filled = min(max(round(share * width * steps), int(share > 0)), width * steps)
    whole, part = divmod(filled, steps)
    text = style.parts[-1] * whole + (style.parts[part - 1] if part else "")
    if not style.color:
        return Bar(text)
    return Bar(text, (_WORSE if is_worse else _BETTER) if name is None else _color(name))


def bars(names: Sequence[str | None], fill: Sequence[float], style: Style) -> str:
    """Draw the cells of a row: neighbors with the same name are one bar, which has its name inside if it fits.

    With colors, a bar begins and ends within a column, to an eighth of it.

    Args:
        names: the name of what fills most of each cell, None for nothing.
        fill: the share of each cell that is filled (0 to 1); cells less than half full are only the edges of bars.
        style: how they are drawn.
    """
    is_fine = style.color and len(style.parts) > 2
    cells = [
        (name, share >= 0.5 or (is_fine and _is_edge(names, fill, place)))
        for place, (name, share) in enumerate(zip(names, fill, strict=True))
    ]
    parts: list[str] = []
    place = 0
    for (name, is_bar), run in groupby(cells):
        width = len(list(run))
        shares = fill[place : place + width]
        if name is None:
            parts.append(" " * width)
        elif is_bar:
            parts.append(_fine_bar(name, shares, style) if is_fine else _bar(name, width, style))
        else:
            text = "".join(
                style.levels[min(int(share * 2 * len(style.levels)), len(style.levels) - 1)] for share in shares
            )
            parts.append(_colored(text, f"38;5;{_color(name)}") if style.color else text)
        place += width
    return "".join(parts)


def _is_edge(names: Sequence[str | None], fill: Sequence[float], place: int) -> bool:
    """Return whether a cell is between a bar of its name on one side, and something else on the other."""
    is_bar = [
        names[place] is not None and 0 <= each < len(names) and names[each] == names[place] and fill[each] >= 0.5
        for each in (place - 1, place + 1)
    ]
    other = place - 1 if is_bar[1] else place + 1
    return sum(is_bar) == 1 and not (0 <= other < len(names) and names[other] == names[place])


def _fine_bar(name: str, shares: Sequence[float], style: Style) -> str:
    """Draw a bar with colors; its first and its last cell are filled as much as the cells are."""
    color, steps = _color(name), len(style.parts)
    text = fitted(printable(name), len(shares))
    if len(shares) == 1:
        return _colored(text, f"30;48;5;{color}")
    first, last = (min(max(round(share * steps), 1), steps) for share in (shares[0], shares[-1]))
    begin = end = ""
    if first < steps:  # the color fills the right part: that of the reversed cell
        begin = _colored(style.parts[steps - first - 1], f"7;38;5;{color}")
    if last < steps:
        end = _colored(style.parts[last - 1], f"38;5;{color}")
    inside = len(shares) - bool(begin) - bool(end)
    return begin + (_colored(fitted(text, inside), f"30;48;5;{color}") if inside else "") + end


def _bar(name: str, width: int, style: Style) -> str:
    """Draw a bar of whole columns."""
    text = printable(name)
    if style.color:
        return _colored(fitted(text, width), f"30;48;5;{_color(name)}")
    if width == 1:
        return style.single
    return style.left + fitted(text, width - 2, style.middle) + style.right


def _colored(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _color(name: str) -> int:
    return _COLORS[zlib.crc32(name.encode("utf-8", "surrogateescape")) % len(_COLORS)]


def axis(start: int, end: int, cells: int, style: Style) -> Iterator[str]:
    """Yield two lines for a range of nanoseconds: times, and a mark below the first character of each."""
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
