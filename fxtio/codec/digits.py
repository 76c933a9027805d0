"""Numbers out of text, many at once: where each begins and ends is known, what it says comes without a Python loop.

Eight characters are taken as one 64-bit word and their digits are put together in parallel lanes.  Whatever is no
number is told by a mask, never by an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PADDING = 24
"""So many bytes must lie before the text, for words that begin before it."""

MOST_DECIMAL = 18
"""The most decimal digits: all numbers of so many fit 63 bits."""

MOST_HEXADECIMAL = 16

_U = np.uint64


def _every(byte: int) -> np.uint64:
    return _U(int.from_bytes(bytes([byte]) * 8, "little"))


# By the number of characters that count, which are a word's last ones in memory: what to keep, zeros for the rest.
_KEEP = np.array([((1 << 64) - 1) >> 8 * (8 - n) << 8 * (8 - n) for n in range(9)], np.uint64)
_FILL = ~_KEEP & _every(0x30)


class Characters:
    """Bytes of a text, and the words of eight bytes that begin at each.

    Args:
        data: the text with `PADDING` bytes before it.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self.bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((max(len(data) - 7, 0),), np.dtype("<u8"), data, strides=(1,))

    def before(self, end: Array, count: Array) -> Array:
        """The last `count` (0 to 8) characters before `end` as a word, zero digits in place of the others."""
        word: Array = self._words[end - 8]
        return word & _KEEP[count] | _FILL[count]

    def key(self, at: Array, size: int) -> Array:
        """The `size` (at most 8) characters from `at` on as one number, to be compared with `key_of`."""
        word: Array = self._words[at]
        return word & _U((1 << 8 * size) - 1)


def key_of(text: bytes) -> int:
    """The number that `Characters.key` gives for these characters."""
    return int.from_bytes(text, "little")


def decimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Unsigned decimal numbers of at most `MOST_DECIMAL` digits.

    Returns:
        The numbers (int64), and which of them are numbers.
    """
    size = end - begin
    good = (size > 0) & (size <= MOST_DECIMAL)
    value = np.zeros(len(size), np.uint64)
    scale = 1
    for done in range(0, MOST_DECIMAL, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        high = word & _every(0xF0)
        good &= (high == _every(0x30)) & ((word + _every(0x06)) & _every(0xF0) == _every(0x30))
        word = (word & _every(0x0F)) * _U(10 << 8 | 1) >> _U(8)
        word = (word & _U(0x00FF00FF00FF00FF)) * _U(100 << 16 | 1) >> _U(16)
        word = (word & _U(0x0000FFFF0000FFFF)) * _U(10_000 << 32 | 1) >> _U(32)
        value += word * _U(scale)
        scale *= 10**8
    return value.astype(np.int64), good


def hexadecimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Hexadecimal numbers of at most `MOST_HEXADECIMAL` digits, without a prefix.

    Returns:
        The numbers (uint64), and which of them are numbers.
    """
    size = end - begin
    good = (size > 0) & (size <= MOST_HEXADECIMAL)
    value = np.zeros(len(size), np.uint64)
    for done in (0, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        good &= _are_hexadecimal(word)
        word = (word & _every(0x0F)) + (word >> _U(6) & _every(0x01)) * _U(9)
        word = (word & _U(0x000F000F000F000F)) << _U(4) | word >> _U(8) & _U(0x000F000F000F000F)
        word = (word & _U(0x000000FF000000FF)) << _U(8) | word >> _U(16) & _U(0x000000FF000000FF)
        word = (word & _U(0xFFFF)) << _U(16) | word >> _U(32)
        value |= word << _U(4 * done)
    return value, good


def _are_hexadecimal(word: Array) -> Array:
    """Whether all eight characters are digits of either case.  The highest bit of a lane says whether it is."""
    top = _every(0x80)
    plain = word & ~top
    lower = plain | _every(0x20)

    def reaches(lanes: Array, byte: int) -> Array:
        return lanes + _every(0x80 - byte)

    digit = reaches(plain, 0x30) & ~reaches(plain, 0x3A)
    letter = reaches(lower, 0x61) & ~reaches(lower, 0x67)
    result: Array = (digit | letter) & ~word & top == top
    return result
