"""Changes of words that were written to a file: some are left out or replaced when the file is copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from fxtio import _native
from fxtio.arrays import Array

_CHUNK = 1 << 17  # words that are copied at once


class Splices:
    """The changes of a file of little-endian words.  Places and sizes are in bytes, and multiples of 8."""

    def __init__(self) -> None:
        self._dropped: list[tuple[Array, Array]] = []
        self._replaced: list[tuple[Array, Array]] = []

    def drop(self, at: Array, size: Array) -> None:
        """Leave bytes out.

        Args:
            at: where each part begins (int64); the parts do not overlap.
            size: its size (int64).
        """
        self._dropped.append((at // 8, (at + size) // 8))

    def replace(self, at: Array, words: Array) -> None:
        """Replace words.

        Args:
            at: their places (int64).
            words: the new words (uint64).
        """
        self._replaced.append((at // 8, words.astype("<u8")))

    def copy(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """Yield the bytes of the file with the changes.

        Args:
            file: the file.
            size: how many bytes it has.
        """
        begins, ends = _sorted(self._dropped)
        places, words = _sorted(self._replaced)
        file.seek(0)
        for first in range(0, size // 8, _CHUNK):
            data = file.read(_CHUNK * 8)
            last = first + len(data) // 8
            low, high = np.searchsorted(places, (first, last)).tolist()
            left, right = int(np.searchsorted(ends, first, "right")), int(np.searchsorted(begins, last))
            if low == high and left == right:
                yield data
                continue
            chunk = np.frombuffer(data, "<u8").copy()
            chunk[places[low:high] - first] = words[low:high]
            edges = np.clip(np.stack([begins[left:right], ends[left:right]], axis=1) - first, 0, len(chunk))
            at = np.append(0, edges[:, 1])  # what stays is from the end of each part to the begin of the next one
            lengths = np.append(edges[:, 0], len(chunk)) - at
            out = np.empty(len(chunk), np.uint64)
            count = _native.copy_rows(chunk, at, lengths, np.ones(len(at), bool), out)
            yield out[:count].tobytes()


def _sorted(pairs: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the pairs of columns as one, in the order of the first."""
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first, second = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], second[order]
