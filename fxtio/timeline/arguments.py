"""The arguments of the rows of a batch of a timeline, found by the numbers of events, in bounded memory.

Arguments come not later than the rows that they belong to.  They are kept until these rows have come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from fxtio.arrays import Array, ArrayRows, ranges
from fxtio.codec.integers import MAX_INT64, MAX_UINT64, MIN_INT64
from fxtio.table import Column, Table
from fxtio.timeline.parts import MAX_NAMES, Registry
from fxtio.timeline.schema import ArgumentKind, number_types


@dataclass(slots=True)
class ArgumentRows(ArrayRows):
    """Arguments, those of each row together: arrays of one length.

    Attributes:
        row: the row that has it (int64), ascending.
        name: the code of its name (int32).
        kind: its type, see `ArgumentKind` (int32).
        bits: its value: a signed number and a double by their bits (uint64).
        text: the code of the value of a text, -1 for others (int32).
    """

    row: Array
    name: Array
    kind: Array
    bits: Array
    text: Array

    def values(self, names: list[str]) -> list[Any]:
        """Return the values as Python objects: None, int, float, str or bool.

        Args:
            names: the names of the timeline.
        """
        numbers: list[Any] = self.bits.tolist()
        for kind, convert in _CONVERTERS.items():
            rows = np.flatnonzero(self.kind == kind)
            for row, value in zip(rows.tolist(), convert(self.bits[rows]), strict=True):
                numbers[row] = value
        texts = np.flatnonzero(self.kind == ArgumentKind.TEXT)
        for row, code in zip(texts.tolist(), self.text[texts].tolist(), strict=True):
            numbers[row] = names[code] if code >= 0 else ""
        return numbers


_CONVERTERS: dict[ArgumentKind, Any] = {
    ArgumentKind.NULL: lambda bits: [None] * len(bits),
    ArgumentKind.INTEGER: lambda bits: bits.view(np.int64).tolist(),
    ArgumentKind.NUMBER: lambda bits: bits.view(np.float64).tolist(),
    ArgumentKind.BOOLEAN: lambda bits: (bits != 0).tolist(),
}


_NAME_CODES = MAX_NAMES + 2
"""The greatest number of codes of names: -1 stands for none, `MAX_NAMES` for those beyond."""

_OWNERS = ("slices", "opened", "instants", "flow_points", "counters")
"""The tables whose rows have arguments."""


class Arguments:
    """The arguments that later rows may need.

    A consumer of a timeline calls `enter` at the beginning of each batch, `of` for its rows, and `leave` at the end.

    Args:
        registry: the registry of the reading, for a consumer that needs the arguments of a slice when it has ended:
            those of its begin are kept until then.  Without it, they are forgotten with the row of the table `opened`.
        accepts: returns which rows of a table of arguments are of interest (bool), None for all.
    """

    def __init__(self, registry: Registry | None = None, *, accepts: Callable[[Table], Array] | None = None) -> None:
        self._registry = registry
        self._accepts = accepts
        self._rows = _no_rows()
        self._latest = -1  # the latest event of a row

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the arguments of a batch."""
        if "args" not in tables:
            return
        table = tables["args"]
        columns = (table["event"], table["name"].codes, table["type"].codes, table["bits"], table["text"].codes)
        new = ArgumentRows(*columns)
        if self._accepts is not None:
            new = new.take(self._accepts(table))
        self._rows = ArgumentRows.joined([self._rows, new]) if len(self._rows) else new
        if (np.diff(self._rows.row) < 0).any():
            self._rows = self._rows.take(np.argsort(self._rows.row, kind="stable"))

    def of(self, *events: Array) -> ArgumentRows:
        """Return the arguments of rows; of several with one name, the last one.

        Args:
            events: for each row the number of an event (int64), -1 for none; and of further ones, if they have several.
        """
        if not len(self._rows):
            return _no_rows()
        parts = [self._of_events(numbers) for numbers in events]
        result = parts[0]
        if len(parts) > 1:
            result = ArgumentRows.joined(parts)
            result = result.take(np.argsort(result.row, kind="stable"))
        return _last_of_each(result)

    def _of_events(self, numbers: Array) -> ArgumentRows:
        low = np.searchsorted(self._rows.row, numbers, "left")
        count = np.searchsorted(self._rows.row, numbers, "right") - low
        count[numbers < 0] = 0
        result = self._rows.take(ranges(low, count))
        result.row = np.repeat(np.arange(len(numbers)), count)
        return result

    def leave(self, tables: Mapping[str, Table]) -> None:
        """Forget the arguments that no later row needs; `tables` are those of the batch."""
        rows = [tables[name]["event"] for name in _OWNERS if name in tables]
        if "slices" in tables:
            rows.append(tables["slices"]["end_event"])
        open_slices = None if self._registry is None else self._registry.open_slices()
        of_open = [] if open_slices is None else [open_slices["event"], open_slices["end_event"]]
        self._latest = max(self._latest, *(int(events.max(initial=-1)) for events in (*rows, *of_open)), -1)
        waiting = self._rows.row
        if not len(waiting) or not (rows or of_open):
            return
        if self._registry is not None and self._registry.in_order:
            keep = waiting > self._latest  # what is before belongs to an open slice, to a row that came, or to none
        else:
            keep = np.isin(waiting, np.concatenate([np.empty(0, np.int64), *rows]), invert=True)
        for events in of_open:
            keep |= np.isin(waiting, events)
        if not keep.all():
            self._rows = self._rows.take(keep)


_MAX_TEXT = 1024
"""The most characters of the text of a value that is none of the types of arguments."""


def argument_of(value: Any) -> tuple[ArgumentKind, int, str | None]:
    """Return the type, the bits and the text of an argument whose value is one of Python, as JSON has them.

    What no type has, such as a longer number or a list, becomes text.
    """
    if isinstance(value, str):
        return ArgumentKind.TEXT, 0, value
    if value is None:
        return ArgumentKind.NULL, 0, None
    if isinstance(value, bool):
        return ArgumentKind.BOOLEAN, int(value), None
    if isinstance(value, float):
        return ArgumentKind.NUMBER, int(np.float64(value).view(np.uint64)), None
    if isinstance(value, int) and MIN_INT64 <= value <= MAX_UINT64:
        return (ArgumentKind.INTEGER if value <= MAX_INT64 else ArgumentKind.UNSIGNED), value % 2**64, None
    return ArgumentKind.TEXT, 0, str(value)[:_MAX_TEXT]


MAX_ARGS = 256
"""The most arguments of an event; those of nested ones count as one each."""

_MAX_PATH = 512


def flattened(items: Sequence[tuple[str, Any]], losses: Counter[str]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of an event, of which those within dicts and lists get names with dots.

    Args:
        items: names and values; the name of what only contains others is empty.
        losses: counts those that are too many.
    """
    stack = [*reversed(items)]
    left = MAX_ARGS
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict | list) and value and len(name) < _MAX_PATH:
            inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
            nested = [(f"{name}.{key}" if name else str(key), each) for key, each in islice(inner, left + 1)]
            stack.extend(reversed(nested))
            continue
        if not left:
            losses[f"arguments beyond {MAX_ARGS} of an event"] += 1
            return
        left -= 1
        yield name, value


def _no_rows() -> ArgumentRows:
    types = (np.int64, np.int32, np.int32, np.uint64, np.int32)
    return ArgumentRows(*(np.empty(0, dtype) for dtype in types))


def _last_of_each(rows: ArgumentRows) -> ArgumentRows:
    """Return the last argument of each name in each row, in their order."""
    is_last = last_of_each(rows.row, rows.name)
    return rows if is_last.all() else rows.take(is_last)


def last_of_each(row: Array, name: Array) -> Array:
    """Return which arguments are the last of their names in their rows (bool).

    Args:
        row: the row that has it (int64), ascending.
        name: the code of its name (int32).
    """
    is_last = np.ones(len(row), bool)
    if (row[1:] == row[:-1]).any():
        key = row * _NAME_CODES + name
        order = np.argsort(key, kind="stable")
        is_last[order[:-1]] = key[order[1:]] != key[order[:-1]]
    return is_last


class NewArguments:
    """The arguments of the events of a batch, which a format collects.

    Args:
        registry: has the names.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._blocks = [{name: np.empty(0, dtype) for name, dtype in number_types("args").items()}]

    def add(self, events: Array, name: str, kind: ArgumentKind, values: Array) -> None:
        """Add an argument for each event: its bits (uint64), or the code of its text."""
        block = {name: np.empty(len(events), column.dtype) for name, column in self._blocks[0].items()}
        block["event"], block["name"][:], block["type"][:] = events, self._registry.names.code(name), kind
        is_text = kind == ArgumentKind.TEXT
        block["bits"][:], block["text"][:] = (0, values) if is_text else (values, -1)
        self._blocks.append(block)

    def table(self) -> dict[str, Column]:
        """Return the rows of the table `args`, in the order of the events."""
        columns = {name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}
        order = np.argsort(columns["event"], kind="stable")
        return self._registry.columns("args", {name: column[order] for name, column in columns.items()})
