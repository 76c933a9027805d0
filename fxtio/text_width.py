"""The columns that text takes on a terminal: wide characters take two, marks on other characters none."""

from __future__ import annotations

import unicodedata

_WIDE = ("W", "F")
_MARKS = ("Mn", "Me", "Cf")
_HANGUL_PARTS = range(0x1160, 0x1200)  # vowels and final consonants, which terminals draw into the syllable before


def width_of(text: str) -> int:
    """Return the number of columns that a text without control characters takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _MARKS or ord(character) in _HANGUL_PARTS:
        return 0
    return 1 + (unicodedata.east_asian_width(character) in _WIDE)


def fitted(text: str, width: int, fill: str = " ") -> str:
    """Cut or fill a text so that it takes this number of columns."""
    start = start_of(text, width)
    return start + fill * (width - width_of(start))


def start_of(text: str, width: int) -> str:
    """Return the longest start of a text that takes at most this number of columns."""
    if text.isascii():
        return text[: max(width, 0)]
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:place]
    return text


def shortened(text: str, width: int, cut: str = "…") -> str:
    """Return a text that takes at most this number of columns: of a longer one, the begin and the end.

    Args:
        text: the text.
        width: the number of columns.
        cut: the character in place of what is left out.
    """
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    head = start_of(text, (width - 1) // 3)
    tail = start_of(text[::-1], width - 1 - width_of(head))[::-1]
    while tail and not _width(tail[0]):  # a mark whose letter is cut off
        tail = tail[1:]
    return f"{head}{cut}{tail}"
