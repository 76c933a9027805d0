"""The tables of the Firefox Profiler in both of their forms: rows with a schema, and columns.

The form of Firefox, which is called raw, has `schema`, the places of the columns in a row, and `data`, the rows.  The
processed form has a list for each column.  Columns are decoded a piece at a time; those that nobody asks for are not.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT32
from fxtio.exchange.json_columns import NOTHING, ROWS, integers
from fxtio.exchange.json_events import UNREADABLE, items

MAX_ROWS = 40_000_000
"""The most rows of a table that is kept as a whole."""

UNREADABLE_TABLE = "tables that cannot be read, or not to their end"

_MAX_SCHEMA = 4096  # bytes
_MAX_WIDTH = 64  # columns of a row


class _Columns(msgspec.Struct, gc=False):
    """A table as it is in the file: columns of which any may be missing, or schema and rows."""

    schema: msgspec.Raw = NOTHING
    data: msgspec.Raw = NOTHING
    weightType: Any = None  # noqa: N815
    address: msgspec.Raw = NOTHING
    category: msgspec.Raw = NOTHING
    className: msgspec.Raw = NOTHING  # noqa: N815
    count: msgspec.Raw = NOTHING
    endTime: msgspec.Raw = NOTHING  # noqa: N815
    eventDelay: msgspec.Raw = NOTHING  # noqa: N815
    fileName: msgspec.Raw = NOTHING  # noqa: N815
    filename: msgspec.Raw = NOTHING
    flags: msgspec.Raw = NOTHING
    frame: msgspec.Raw = NOTHING
    func: msgspec.Raw = NOTHING
    lib: msgspec.Raw = NOTHING
    line: msgspec.Raw = NOTHING
    lineNumber: msgspec.Raw = NOTHING  # noqa: N815
    location: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING
    number: msgspec.Raw = NOTHING
    phase: msgspec.Raw = NOTHING
    prefix: msgspec.Raw = NOTHING
    prefixOffset: msgspec.Raw = NOTHING  # noqa: N815
    resource: msgspec.Raw = NOTHING
    source: msgspec.Raw = NOTHING
    stack: msgspec.Raw = NOTHING
    startTime: msgspec.Raw = NOTHING  # noqa: N815
    threadCPUDelta: msgspec.Raw = NOTHING  # noqa: N815
    time: msgspec.Raw = NOTHING
    timeDeltas: msgspec.Raw = NOTHING  # noqa: N815
    type: msgspec.Raw = NOTHING
    weight: msgspec.Raw = NOTHING


class GeckoTable:
    """A table, which is empty if it is missing, or is none.

    Args:
        raw: the table as JSON.
        losses: counts what cannot be read.
    """

    def __init__(self, raw: msgspec.Raw, losses: Counter[str]) -> None:
        self._losses = losses
        self._columns, self._row = _Columns(), None
        try:
            if raw and raw != b"null":
                self._columns = msgspec.json.decode(raw, type=_Columns)
            if self._columns.schema:
                self._row = _row_of(bytes(memoryview(self._columns.schema)[: _MAX_SCHEMA + 1]))
        except UNREADABLE:
            self._columns = _Columns()
            losses[UNREADABLE_TABLE] += 1

    @property
    def weight_type(self) -> Any:
        """The unit of the weights of samples."""
        return self._columns.weightType

    def has(self, name: str) -> bool:
        """Return whether the table has a column."""
        if self._row is not None:
            return name in self._row.__struct_fields__ and bool(self._columns.data)
        return bytes(memoryview(getattr(self._columns, name))[:1]) == b"["

    def pieces(self, *names: str) -> Iterator[list[list[Any]]]:
        """Yield columns piece by piece: lists of one length of values, `data` as JSON; None for what is missing."""
        known = [name for name in names if self.has(name)]
        if not known:
            return
        try:
            for piece in self._of_rows(known) if self._row is not None else self._of_columns(known):
                count = max(map(len, piece))
                found = {
                    name: [*column, *[None] * (count - len(column))] for name, column in zip(known, piece, strict=True)
                }
                yield [found.get(name) or [None] * count for name in names]
        except UNREADABLE:
            self._losses[UNREADABLE_TABLE] += 1

    def _of_columns(self, names: list[str]) -> Iterator[list[list[Any]]]:
        types = [msgspec.Raw if name == "data" else Any for name in names]
        columns = [items(getattr(self._columns, name), kind) for name, kind in zip(names, types, strict=True)]
        while any(piece := [[*islice(column, ROWS)] for column in columns]):
            yield piece

    def _of_rows(self, names: list[str]) -> Iterator[list[list[Any]]]:
        assert self._row is not None
        values = [attrgetter(name) for name in names]
        rows = items(self._columns.data, self._row)
        while piece := [*islice(rows, ROWS)]:
            yield [[*map(value, piece)] for value in values]

    def integers(self, *names: str, limit: int = MAX_ROWS) -> list[Array]:
        """Return whole columns as integers, -1 for what is none; one that is missing has it throughout.

        Args:
            names: the names of columns.
            limit: the most rows.

        Returns:
            Arrays of int32; of int64 for addresses.
        """
        known = [name for name in names if self.has(name)]
        wholes = {name: array("q" if name == "address" else "i") for name in known}
        count = 0
        for piece in self.pieces(*known):
            count, before = count + len(piece[0]), count
            for name, column in zip(known, piece, strict=True):
                values = integers(column[: max(limit - before, 0)])
                if name != "address":
                    values = np.where(values <= MAX_INT32, values, -1).astype(np.int32)
                wholes[name].frombytes(values.tobytes())
        if count > limit:
            self._losses[f"rows of a table beyond the first {limit:,}"] += count - limit
        missing = np.broadcast_to(np.int32(-1), min(count, limit))
        return [np.array(wholes[name], wholes[name].typecode) if name in wholes else missing for name in names]


@lru_cache(maxsize=64)
def _row_of(schema: bytes) -> type[msgspec.Struct]:
    """Return the type of the rows of a schema: an array whose fields are the columns.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it is no schema, or a long one.
    """
    places = {at: name for name, at in msgspec.json.decode(schema, type=dict[str, int]).items()}
    fields: dict[str, Any] = {}
    for at in range(min(max(places, default=-1) + 1, _MAX_WIDTH)):
        name = places.get(at, "")
        is_known = name in _Columns.__struct_fields__ and name not in fields
        fields[name if is_known else f"_{at}"] = (msgspec.Raw, NOTHING) if name == "data" else (Any, None)
    return msgspec.defstruct("Row", [(name, *kind) for name, kind in fields.items()], array_like=True, gc=False)
