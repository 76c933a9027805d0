"""Arrays: their type for annotations, rows that are made of arrays, and the numbers of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

Array = np.ndarray[Any, Any]
"""An array of any shape; where it matters, the docstring says which numbers it has."""


class ArrayRows:
    """Rows as arrays of one length, one for each field; the base of dataclasses with slots and no other fields."""

    __slots__: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate at least one part; if there is only one, return it."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))

    def take(self, rows: Array | slice) -> Self:
        """Return the rows with these indices, those where a mask is true, or those of a slice."""
        return type(self)(*(getattr(self, name)[rows] for name in self.__slots__))

    def __len__(self) -> int:
        return len(getattr(self, self.__slots__[0]))


def ranges(begin: Array, count: Array) -> Array:
    """Return the numbers `begin[i]`, `begin[i] + 1`, ... (`count[i]` of them) for all i in a row (int64)."""
    ends = np.cumsum(count)
    numbers: Array = np.arange(int(count.sum())) + np.repeat(begin - (ends - count), count)
    return numbers
