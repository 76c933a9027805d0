"""Typed records with their references resolved, made from columns: `map(Record, *columns)`, no Python per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fxtio.codec.columns import (
    Columns,
    KoidsColumn,
    ManyColumn,
    OptionalColumn,
    StreamColumn,
    TextColumn,
    WordsColumn,
)
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt.arguments import ARGUMENTS
from fxtio.fxt.batch import Batch
from fxtio.fxt.framing import exact

Array = np.ndarray[Any, Any]


def resolved(batch: Batch) -> list[Any]:
    """All records of a batch in the order of the file, names and threads resolved.

    A reference to a slot that nobody defined stays an int.  A record that cannot be delivered is `Opaque`.
    """
    frame = batch.frame
    classes = batch.classes()
    out = np.empty(len(batch), object)
    delivered = 0
    for cls in classes:
        rows, columns = batch.columns(cls)
        made = list(map(cls, *_lists(cls, columns, rows, batch))) if columns else [cls() for _ in range(len(rows))]
        if len(rows) == len(batch):
            return made
        out[rows] = made
        delivered += len(rows)
    if delivered < len(batch):
        for row in np.flatnonzero(out == None).tolist():  # noqa: E711  # elementwise
            out[row] = Opaque(frame.raw(row))
    result: list[Any] = out.tolist()
    return result


def raw(batch: Batch) -> Iterator[Any]:
    """All records of a batch with their references as they are; `Opaque` where encoding would give other bytes."""
    frame = batch.frame
    for at, size in zip(frame.at.tolist(), frame.size.tolist(), strict=True):
        yield exact(frame.block, at, at + size, frame.big_endian)


def _lists(cls: type[Record], columns: Columns, rows: Array, batch: Batch) -> list[Iterable[Any]]:
    if not columns:
        return []
    parts = dict(layout_of(cls).parts)
    return [_list(column, rows, batch, text=getattr(parts[name], "text", False)) for name, column in columns.items()]


def _list(column: Any, rows: Array, batch: Batch, *, text: bool) -> Iterable[Any]:
    """A column as a list of Python values."""
    if isinstance(column, np.ndarray):
        values: list[Any] = column.tolist()
        return values
    if isinstance(column, TextColumn):
        return _objects(batch.names.objects, batch.text_codes(column, rows), column.slot)
    if isinstance(column, KoidsColumn):
        return _objects(batch.threads.objects, batch.thread_codes(column, rows), column.slot)
    if isinstance(column, StreamColumn):
        raw = column.to_bytes()
        return [one.decode("utf-8", "surrogateescape") for one in raw] if text else raw
    if isinstance(column, OptionalColumn):
        pairs = zip(column.values.tolist(), column.present.tolist(), strict=True)
        return [value if present else None for value, present in pairs]
    if isinstance(column, WordsColumn):
        ends = column.at + column.count
        return [tuple(column.words[a:b].tolist()) for a, b in zip(column.at.tolist(), ends.tolist(), strict=True)]
    assert isinstance(column, ManyColumn)
    return _arguments(column, rows, batch)


def _objects(table: Any, codes: Array, slot: Array) -> list[Any]:
    objects = table().take(codes)
    lost = np.flatnonzero(codes < 0)
    objects[lost] = slot[lost]
    result: list[Any] = objects.tolist()
    return result


def _arguments(column: ManyColumn, rows: Array, batch: Batch) -> Iterable[tuple[Any, ...]]:
    """The arguments of each record as a tuple."""
    members = batch.arguments(rows, column)
    many = members.many
    if not len(many.at):
        return [()] * len(rows)
    owners = np.repeat(rows, many.found)
    flat = np.empty(len(many.at), object)
    for kind, mine, columns in members.groups:
        if kind < 0:
            data, at = batch.frame.block.data, many.at[mine]
            ends = at + many.size[mine]
            flat[mine] = [Opaque(bytes(data[a * 8 : b * 8])) for a, b in zip(at.tolist(), ends.tolist(), strict=True)]
        else:
            cls = ARGUMENTS.classes[kind]
            flat[mine] = list(map(cls, *_lists(cls, columns, owners[mine], batch)))
    return _tuples(flat, many.found)


def _tuples(flat: Array, counts: Array) -> Iterable[tuple[Any, ...]]:
    """Cut a line of objects into tuples of the given lengths."""
    count = int(counts[0])
    if count and (counts == count).all():
        columns = [flat[number::count].tolist() for number in range(count)]
        return zip(*columns, strict=True)
    items = flat.tolist()
    ends = np.cumsum(counts)
    return [tuple(items[a:b]) for a, b in zip((ends - counts).tolist(), ends.tolist(), strict=True)]
