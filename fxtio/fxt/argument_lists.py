"""Arguments of many events as one long list, encoded with numpy: any names and types, no column for each name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.encode_columns import ManyWords, Ragged, ranges, words_of
from fxtio.errors import EncodeError
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAX_ARGUMENTS


@dataclass(frozen=True, slots=True)
class ListedArguments:
    """Arguments of events, those of each event together.

    Attributes:
        row: the event that has it (int64), ascending.
        cls: the index of its class in `ARGUMENTS.classes` (int64).
        name: the index of its name in `texts` (int64).
        bits: its value: signed numbers and doubles by their bits, of a string the index in `texts` (uint64).
        texts: the names, and the values of strings.
    """

    row: Array
    cls: Array
    name: Array
    bits: Array
    texts: Sequence[str]

    def words(self, slots: Array, rows: int) -> ManyWords:
        """Encode the arguments.

        Args:
            slots: the slot of each text.
            rows: the number of events.

        Raises:
            EncodeError: an event has too many arguments, or a value does not fit.
        """
        per_row = np.bincount(self.row, minlength=rows)
        if len(self.row) and int(per_row.max()) > MAX_ARGUMENTS:
            raise EncodeError(f"{int(per_row.max())} arguments; the limit is {MAX_ARGUMENTS}", "args")
        size = np.zeros(len(self.row), np.int64)
        encoded = []
        for number in np.flatnonzero(np.bincount(self.cls)).tolist():
            chosen = np.flatnonzero(self.cls == number)
            cls = r.ARGUMENTS.classes[number]
            columns: dict[str, Any] = {"name": slots[self.name[chosen]]}
            if cls is not r.NullArgument:
                columns["value"] = _values(cls, self.bits[chosen], slots)
            part = words_of(cls, len(chosen), columns)
            size[chosen] = part.count
            encoded.append((chosen, part))
        begin = np.cumsum(size) - size
        words = np.empty(int(size.sum()), np.uint64)
        for chosen, part in encoded:
            words[ranges(begin[chosen], size[chosen])] = part.words
        width = np.bincount(self.row, weights=size, minlength=rows).astype(np.int64)
        return ManyWords(per_row, Ragged(words, width))


def _values(cls: type, bits: Array, slots: Array) -> Array:
    if cls is r.StringArgument:
        return np.take(slots, bits.astype(np.int64))
    if cls is r.DoubleArgument:
        return bits.view(np.float64)
    if cls is r.BoolArgument:
        return np.asarray(bits != 0)
    return bits.view(np.int64) if cls in (r.Int32Argument, r.Int64Argument) else bits
