"""The ids of spans in OTLP: what slices have as arguments, as spans of OpenTelemetry do, and made ones of others.

A slice has ids if its arguments `traceId` and `spanId` are texts as OTLP has them.  Then `parentSpanId` says what it
belongs to, whatever is around it.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from fxtio import otel
from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn, hexadecimals, joined
from fxtio.table import Table
from fxtio.timeline.arguments import ArgumentRows
from fxtio.timeline.parts import Names, Registry
from fxtio.timeline.schema import ArgumentKind

_FORMS = {
    name: re.compile(rf"(?!0+$)[0-9a-f]{{{digits}}}", re.ASCII).fullmatch
    for name, digits in ((otel.TRACE_ID, 32), (otel.SPAN_ID, 16), (otel.PARENT_ID, 16))
}


class SpanIds(NamedTuple):
    """The ids of some slices, in hexadecimal.

    Attributes:
        trace: the ids of their traces.
        own: their own ids.
        parent: those of their parents; empty for roots.
        arguments: their arguments, without those that are ids.
    """

    trace: ByteColumn
    own: ByteColumn
    parent: ByteColumn
    arguments: ArgumentRows


class Ids:
    """Makes the ids of a timeline, which differ from those of others.

    The first eight bytes of a made id of a trace are those of the timeline.

    Args:
        slices: the first slices.
        registry: the names.
    """

    def __init__(self, slices: Table, registry: Registry) -> None:
        first = b"".join(slices[name].tobytes() for name in ("start", "duration", "ticks"))
        names = str((registry.wall_clock, registry.names.values)).encode("utf-8", "replace")
        seed = blake2b(first + names, digest_size=16).digest()
        self._begin = seed[:8].hex().encode()
        self._seed = np.frombuffer(seed, "<u8")[1]
        self._names = registry.names

    def of(self, slices: Array, parents: Array, roots: Array, arguments: ArgumentRows) -> SpanIds:
        """Return the ids of slices.

        Args:
            slices: the numbers of the slices (int64).
            parents: those of the slices around them (int64).
            roots: those of the outermost ones around them, which may be themselves (int64).
            arguments: their arguments.
        """
        count = len(slices)
        trace = joined(count, self._begin, hexadecimals(self._scattered(roots), width=16))
        inner = np.flatnonzero(roots != slices)
        own, around = (hexadecimals((numbers + 1).view(np.uint64), width=16) for numbers in (slices, parents[inner]))
        parent = around.spread(inner, count)
        given = given_ids(self._names, arguments)
        rows = np.array(sorted(given[otel.TRACE_ID].keys() & given[otel.SPAN_ID].keys()), np.int64)
        if not len(rows):
            return SpanIds(trace, own, parent, arguments)
        texts = [ByteColumn.of(given[name].get(row, b"") for row in rows.tolist()) for name in _FORMS]
        is_id = np.isin(arguments.row, rows) & np.isin(arguments.name, [self._names.code(name) for name in _FORMS])
        made = (trace, own, parent)
        trace, own, parent = (_replaced(old, rows, new) for old, new in zip(made, texts, strict=True))
        return SpanIds(trace, own, parent, arguments.take(~is_id))

    def _scattered(self, roots: Array) -> Array:
        """Return a number that looks random for each number of a slice (uint64)."""
        number = roots.view(np.uint64) + self._seed
        for shift, factor in _MIXING:
            number = (number ^ number >> np.uint64(shift)) * np.uint64(factor)
        result: Array = number ^ number >> np.uint64(31)
        return result


_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""The steps of splitmix64, which gives different numbers different results, that look random."""


def given_ids(names: Names, arguments: ArgumentRows) -> dict[str, dict[int, bytes]]:
    """Return for each name of an id what rows have as this argument, if it is one."""
    given: dict[str, dict[int, bytes]] = {}
    for name, fits in _FORMS.items():
        found = (arguments.name == names.code(name)) & (arguments.kind == ArgumentKind.TEXT)
        rows, codes = arguments.row[found].tolist(), arguments.text[found].tolist()
        texts = ((row, names.values[code]) for row, code in zip(rows, codes, strict=True) if code >= 0)
        given[name] = {row: text.encode() for row, text in texts if fits(text)}
    return given


def _replaced(column: ByteColumn, rows: Array, new: ByteColumn) -> ByteColumn:
    """Return a column with new strings in some rows."""
    count = len(column)
    kept = np.setdiff1d(np.arange(count), rows, assume_unique=True)
    return joined(count, column.take(kept).spread(kept, count), new.spread(rows, count))
