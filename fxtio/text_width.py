"""The columns that text takes on a terminal: wide characters take two, marks on other characters none."""

from __future__ import annotations

import unicodedata

_WIDE = ("W", "F")
_MARKS = ("Mn", "Me")


def width_of(text: str) -> int:
    """Return the number of columns that a text without control characters takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _MARKS:
        return 0
    return 1 + (unicodedata.east_asian_width(character) in _WIDE)


def fitted(text: str, width: int, fill: str = " ") -> str:
    """Cut or fill a text so that it takes this number of columns."""
    start = start_of(text, width)
    return start + fill * (width - width_of(start))


def start_of(text: str, width: int) -> str:
    """Return the longest start of a text that takes at most this number of columns."""
    if text.isascii():
        return text[:width]
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:place]
    return text
