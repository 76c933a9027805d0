"""Cells and grids of a page: numbers as text for people with the number beside it, and grids of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from fxtio.html.contents import Cell, Grid
from fxtio.report import human_value, printable, short_duration, short_seconds

MAX_TEXT = 400
"""The most characters of a text on a page; names in traces may have a million."""

GRID_SIZE = 60_000
"""The bytes of JSON that a grid may have, if nothing else is given."""

_ESCAPED = "<>&"
_ESCAPE_SIZE = 6
_CELL_SIZE = 40
"""The most bytes of JSON of a cell with a number, besides its text."""


def short(text: str) -> str:
    """Return a text for a page: control characters are escaped, and of a long one only the begin is left."""
    shown = printable(text[: MAX_TEXT + 1])
    return shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 3]}..."


def count(number: int) -> Cell:
    """Return a number of something."""
    return Cell(f"{number:,}", number)


def duration(ns: int) -> Cell:
    """Return a duration in nanoseconds."""
    return Cell(short_duration(ns), ns)


def value(number: int, unit: str) -> Cell:
    """Return a number in a unit: `ns`, `bytes`, or anything else."""
    return Cell(human_value(number, unit), number)


def share(part: float) -> Cell:
    """Return a share (0 to 1) in percent."""
    return Cell(f"{part:.1%}", part)


def moment(time: int, origin: int) -> Cell:
    """Return a time in seconds since the begin of a trace; both are in nanoseconds."""
    return Cell(f"{short_seconds(time - origin)} s", time - origin)


def grid(
    headers: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    more: int = 0,
    title: str = "",
    size: int = GRID_SIZE,
) -> Grid:
    """Return a grid with as many rows as its size allows; the others count among those that were left out.

    Args:
        headers: the titles of the columns.
        rows: the rows; their texts are shortened.
        more: the number of rows that are left out already.
        title: the title.
        size: the most bytes of JSON.
    """
    kept: list[Sequence[str | Cell]] = []
    is_full = False
    for row in rows:
        cells = row if is_full else [short(cell) if isinstance(cell, str) else cell for cell in row]
        size -= 0 if is_full else sum(map(_size, cells))
        is_full = is_full or size < 0
        if is_full:
            more += 1
        else:
            kept.append(cells)
    return Grid(tuple(headers), kept, more, title)


def _size(cell: str | Cell) -> int:
    """Return the most bytes that a cell takes in a page."""
    if isinstance(cell, Cell):
        return _CELL_SIZE + len(cell.text)
    return len(json.dumps(cell)) + 1 + (_ESCAPE_SIZE - 1) * sum(map(cell.count, _ESCAPED))
