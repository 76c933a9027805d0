"""The common part of exporters that format many rows at once: rows in portions, and arguments by their types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.schema import ArgumentKind

Converter = Callable[[ArgumentRows], ByteColumn]
"""Returns the values of arguments of one type as text."""

MAX_ROWS = 32_000
"""The most rows that are formatted at once, which bounds the memory and stays within the caches."""

MAX_BYTES = 1 << 24
"""The most bytes of long texts that are formatted at once."""


def portions(
    names: Array, arguments: ArgumentRows, sizes: Callable[[Array], Array] | None = None
) -> Iterator[tuple[slice, ArgumentRows]]:
    """Yield rows with their arguments, some at a time.

    Args:
        names: the codes of the names of all rows.
        arguments: their arguments.
        sizes: returns the bytes of names, given by codes, if they are written with each row.
    """
    count = len(names)
    size = None
    if sizes is not None:
        size = sizes(names).astype(np.float64)
        size += np.bincount(arguments.row, sizes(arguments.name) + sizes(arguments.text), count)
    for rows in row_ranges(count, size):
        low, high = np.searchsorted(arguments.row, [rows.start, rows.stop]).tolist()
        portion = arguments.take(slice(low, high))
        portion.row = portion.row - rows.start
        yield rows, portion


def row_ranges(count: int, size: Array | None = None) -> Iterator[slice]:
    """Yield slices of rows, which together are all of them, each of up to `MAX_ROWS` and about `MAX_BYTES`.

    Args:
        count: the number of rows.
        size: the bytes of the texts of each row; none if they are short.
    """
    ends = None if size is None else np.cumsum(size)
    begin = 0
    while begin < count:
        end = min(begin + MAX_ROWS, count)
        if ends is not None:
            before = ends[begin - 1] if begin else 0
            end = min(end, max(begin + 1, int(np.searchsorted(ends, before + MAX_BYTES, "right"))))
        yield slice(begin, end)
        begin = end


def by_kind(rows: ArgumentRows, converters: Mapping[ArgumentKind, Converter]) -> list[ByteColumn]:
    """Return the values of arguments as text: columns, of which one has the value of each argument.

    Args:
        rows: the arguments.
        converters: a function for each type of arguments.
    """
    columns = []
    for kind, convert in converters.items():
        chosen = np.flatnonzero(rows.kind == kind)
        if len(chosen):
            columns.append(convert(rows.take(chosen)).spread(chosen, len(rows)))
    return columns
