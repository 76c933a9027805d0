"""Conversion of many numbers in a text at once, without a Python loop, given where each begins and ends.

Eight characters are loaded as one 64-bit word, and their digits are combined in parallel lanes.  Characters that are
not a number are reported by a mask, never by an exception.
"""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array

PADDING = 24
"""Bytes that must precede the text, since words of eight bytes that end in it may begin before it."""

MAX_DECIMAL = 18
"""The most decimal digits: every number of this length fits 63 bits."""

MAX_HEXADECIMAL = 16

_U = np.uint64


def _every(byte: int) -> np.uint64:
    return _U(int.from_bytes(bytes([byte]) * 8, "little"))


_ALL_BITS = 2**64 - 1

# Indexed by the number of significant characters, the last ones of a word in memory: a mask of them, and zeros (the
# digit) for the other characters.
_MASK = np.array([_ALL_BITS >> 8 * (8 - n) << 8 * (8 - n) for n in range(9)], np.uint64)
_FILL = ~_MASK & _every(0x30)


class Characters:
    """A text as bytes, and as words of eight bytes that begin at each of them.

    Args:
        data: the text, preceded by `PADDING` bytes.

    Attributes:
        data: the text.
        bytes: likewise (uint8).
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((max(len(data) - 7, 0),), np.dtype("<u8"), data, strides=(1,))

    def before(self, end: Array, count: Array) -> Array:
        """Return the last `count` (0 to 8) characters before `end` as a word, with zeros in place of the others."""
        word: Array = self._words[end - 8]
        return word & _MASK[count] | _FILL[count]

    def key(self, at: Array, size: int) -> Array:
        """Return the `size` (at most 8) characters from `at` on as a number, to be compared with `key_of`."""
        word: Array = self._words[at]
        return word & _U((1 << 8 * size) - 1)


def key_of(text: bytes) -> int:
    """Return the number that `Characters.key` gives for these characters."""
    return int.from_bytes(text, "little")


def decimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Convert unsigned decimal numbers of at most `MAX_DECIMAL` digits.

    Args:
        text: the text.
        begin: the index of each number's first character.
        end: the index behind its last character.

    Returns:
        The numbers (int64), and which of them are valid (bool).
    """
    size = end - begin
    valid = (size > 0) & (size <= MAX_DECIMAL)
    value = np.zeros(len(size), np.uint64)
    scale = 1
    for done in range(0, MAX_DECIMAL, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        high = word & _every(0xF0)
        valid &= (high == _every(0x30)) & ((word + _every(0x06)) & _every(0xF0) == _every(0x30))
        word = (word & _every(0x0F)) * _U(10 * 2**8 + 1) >> _U(8)
        word = (word & _U(0x00FF00FF00FF00FF)) * _U(100 * 2**16 + 1) >> _U(16)
        word = (word & _U(0x0000FFFF0000FFFF)) * _U(10_000 * 2**32 + 1) >> _U(32)
        value += word * _U(scale)
        scale *= 10**8
    return value.astype(np.int64), valid


def hexadecimals(text: Characters, begin: Array, end: Array) -> tuple[Array, Array]:
    """Convert hexadecimal numbers of at most `MAX_HEXADECIMAL` digits, without a prefix.

    Args:
        text: the text.
        begin: the index of each number's first character.
        end: the index behind its last character.

    Returns:
        The numbers (uint64), and which of them are valid (bool).
    """
    size = end - begin
    valid = (size > 0) & (size <= MAX_HEXADECIMAL)
    value = np.zeros(len(size), np.uint64)
    for done in (0, 8):
        if done and not (size > done).any():
            break
        word = text.before(end - done, np.clip(size - done, 0, 8))
        valid &= _are_hexadecimal(word)
        word = (word & _every(0x0F)) + (word >> _U(6) & _every(0x01)) * _U(9)
        word = (word & _U(0x000F000F000F000F)) << _U(4) | word >> _U(8) & _U(0x000F000F000F000F)
        word = (word & _U(0x000000FF000000FF)) << _U(8) | word >> _U(16) & _U(0x000000FF000000FF)
        word = (word & _U(0xFFFF)) << _U(16) | word >> _U(32)
        value |= word << _U(4 * done)
    return value, valid


def _are_hexadecimal(word: Array) -> Array:
    """Return whether all eight characters are digits of either case; the highest bit of each lane is its result."""
    top = _every(0x80)
    plain = word & ~top
    lower = plain | _every(0x20)

    def reaches(lanes: Array, byte: int) -> Array:
        return lanes + _every(0x80 - byte)

    digit = reaches(plain, 0x30) & ~reaches(plain, 0x3A)
    letter = reaches(lower, 0x61) & ~reaches(lower, 0x67)
    result: Array = (digit | letter) & ~word & top == top
    return result
