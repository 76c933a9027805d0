"""Declarations of tables: their columns with types and meanings, and which of them a writer takes.

The tables of every format and those of timelines are declared with these.  The names of tables, the columns that
writers accept, tables without rows and the pages of the documents follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.errors import EncodeError, shown
from fxtio.table import Bytes, Categories, Column, Lists, Optional, Table, WritableTable

TEXT = "text"
"""The type of a column of text, see `fxtio.table.Categories`."""

BYTES = "bytes"
"""The type of a column of byte strings, see `fxtio.table.Bytes`."""

LISTS = "lists"
"""The type of a column of lists of items, see `fxtio.table.Lists`."""

REQUIRED, OPTIONAL, ADDED = "required", "optional", "optional, only written"
"""Whether a writer needs a column; the last has no column in the tables that are read."""

Labels = type[IntEnum] | Sequence[str]
"""The texts of a column whose codes are fixed: names of an enumeration in lower case, or texts by code."""


class ColumnSpec(NamedTuple):
    """A column of a table.

    Attributes:
        dtype: the numpy type of its numbers, with a question mark after it if some are null; `TEXT`, `BYTES`, `LISTS`.
        meaning: what its values are.
        written: `REQUIRED`, `OPTIONAL` or `ADDED` to write a table, or empty where the column follows from others.
        labels: the texts of a column of text whose codes are fixed.
    """

    dtype: str
    meaning: str
    written: str = ""
    labels: Labels | None = None

    @property
    def numbers(self) -> Any:
        """The numpy type of the values; of a column of text, of the codes."""
        return np.dtype("int32" if self.dtype == TEXT else self.dtype.removesuffix("?"))

    def nulls(self, rows: int, texts: Sequence[str] = ()) -> Column:
        """Return a column of nulls, or of zeros if the column has no nulls.

        Args:
            rows: the number of rows.
            texts: the values of a column of text without labels.
        """
        if self.labels is not None:
            return labeled(np.full(rows, -1), self.labels)
        if self.dtype == TEXT:
            return Categories(np.full(rows, -1, np.int32), texts)
        if self.dtype == BYTES:
            return Bytes([b""] * rows)
        zeros = np.zeros(rows, self.numbers)
        return Optional(zeros, np.zeros(rows, bool)) if self.dtype.endswith("?") else zeros

    def given(self, column: Column, name: str) -> Column:
        """Return a column that a writer is given as one of this type; labels, or their numbers, become numbers (int64).

        Columns that are written are of integers, booleans, text or bytes.  One of numbers with nulls is an `Optional`,
        with 0 in their place.

        Raises:
            EncodeError: it has other values, one that does not fit, or a null where it is required and its type has no
                question mark.
        """
        if not len(column):
            return self.nulls(0) if self.labels is None else np.empty(0, np.int64)
        if self.dtype == BYTES:
            if not isinstance(column, Bytes) or not all(isinstance(each, bytes) for each in column):
                raise EncodeError("is not a column of bytes", name)
            return column
        values: Column = column
        if self.dtype != TEXT:
            numbers, present = numbers_of(column, name, "b" if self.numbers == np.bool_ else "iu")
            values = fitting(numbers, self.numbers, name)
        elif self.labels is not None:
            values, present = _numbers_of(column, self.labels, name)
        elif isinstance(column, Optional) and not column.present.any():
            values, present = Categories(np.full(len(column), -1, np.int32), []), column.present
        elif isinstance(column, Categories):
            present = column.codes >= 0
        else:
            raise EncodeError("is not a column of text", name)
        if present.all():
            return values
        if self.written == REQUIRED and not self.dtype.endswith("?"):
            raise EncodeError("has a null", name)
        return Optional(values, present) if isinstance(values, np.ndarray) else values


class TableSpec(NamedTuple):
    """A table.

    Attributes:
        meaning: what its rows are.
        columns: the columns by name, in order.
        only_written: whether a writer has the table, and a reader does not.
    """

    meaning: str
    columns: Mapping[str, ColumnSpec]
    only_written: bool = False

    @property
    def read(self) -> dict[str, ColumnSpec]:
        """The columns that a reader has."""
        return {name: column for name, column in self.columns.items() if column.written != ADDED}

    @property
    def writable(self) -> WritableTable | None:
        """The columns that a writer accepts, None if the table is not written: it has no required column."""

        def those(*kinds: str) -> tuple[str, ...]:
            return tuple(name for name, column in self.columns.items() if column.written in kinds)

        given = {name: column.given for name, column in self.columns.items()}
        return WritableTable(those(REQUIRED), those(OPTIONAL, ADDED), those(""), given) if those(REQUIRED) else None


def spec_of(
    meaning: str, table: Table, meanings: Mapping[str, str], writable: WritableTable | None = None
) -> TableSpec:
    """Describe a table whose columns follow from declarations of records.

    Args:
        meaning: what its rows are.
        table: the table, without rows.
        meanings: what the values of its columns are; one without an entry has a name that says it.
        writable: the columns that a writer accepts, None if the table is not written.
    """
    kinds = {} if writable is None else dict.fromkeys(writable.required, REQUIRED)
    kinds |= {} if writable is None else dict.fromkeys(writable.optional, OPTIONAL)
    columns = {
        name: ColumnSpec(dtype_of(column), meanings.get(name, ""), kinds.get(name, ""))
        for name, column in table.items()
    }
    return TableSpec(meaning, columns)


def dtype_of(column: Column) -> str:
    """Return the type of a column, as in its declaration."""
    kinds = {Categories: TEXT, Bytes: BYTES, Lists: LISTS}
    if isinstance(column, Optional):
        return f"{column.values.dtype.name}?"
    return column.dtype.name if isinstance(column, np.ndarray) else kinds[type(column)]


def writable_tables(tables: Mapping[str, TableSpec]) -> dict[str, WritableTable]:
    """Return the tables that a writer takes, and their columns."""
    return {name: writable for name, table in tables.items() if (writable := table.writable) is not None}


def readable_tables(tables: Mapping[str, TableSpec]) -> tuple[str, ...]:
    """Return the names of the tables that a reader has."""
    return tuple(name for name, table in tables.items() if not table.only_written)


def numbers_of_labels(labels: Labels) -> dict[str, int]:
    """Return the numbers that texts stand for, the inverse of `labeled`."""
    if isinstance(labels, type):
        return {member.name.lower(): member.value for member in labels}
    return {text: number for number, text in enumerate(labels)}


def labeled(values: Array, labels: Labels) -> Categories:
    """Return numbers as texts; one of an enumeration without a name is shown as a number, -1 is null."""
    if isinstance(labels, type):
        names = {number: text for text, number in numbers_of_labels(labels).items()}
        labels = [names.get(value, str(value)) for value in range(256)]
    return Categories(values.astype(np.int32), labels)


def _numbers_of(column: Column, labels: Labels, name: str) -> tuple[Array, Array]:
    """Return the numbers of labels, or of a column of such numbers (int64, 0 for null), and which are given (bool)."""
    number_of: dict[Any, int] = dict(numbers_of_labels(labels))
    known = ", ".join(number_of)
    if isinstance(column, Categories):
        values, codes, present = column.values, column.codes.astype(np.int64), column.codes >= 0
    else:
        numbers, present = numbers_of(column, name)
        distinct, codes = np.unique(numbers, return_inverse=True)
        values, number_of = distinct.tolist(), {number: number for number in number_of.values()}
    used = np.flatnonzero(np.bincount(codes[present])).tolist()
    if unknown := [values[code] for code in used if values[code] not in number_of]:
        raise EncodeError(f"{shown(unknown[0])} is not one of {known}", name)
    result = np.zeros(len(values) + 1, np.int64)
    result[used] = [number_of[values[code]] for code in used]
    return result[np.where(present, codes, -1)], present


def numbers_of(column: Column, name: str, kinds: str = "iu") -> tuple[Array, Array]:
    """Return a column of numbers, 0 for null, and the rows that are not null (bool).

    Args:
        column: the column.
        name: its name, for the error.
        kinds: the kinds of its type as numpy names them: `iu` for integers, `b` for booleans.

    Raises:
        EncodeError: it has values of another kind.
    """
    values, present = column, np.ones(len(column), bool)
    if isinstance(column, Optional):
        values, present = np.where(column.present, column.values, column.values.dtype.type(0)), column.present
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds:
        kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise EncodeError(f"a column of {kind} is not a column of {'booleans' if kinds == 'b' else 'integers'}", name)
    return values, present


def fitting(values: Array, dtype: Any, name: str) -> Array:
    """Return numbers as a contiguous array of a type.

    Raises:
        EncodeError: one of them does not fit.
    """
    if len(values) and not np.can_cast(values.dtype, dtype):
        limits = np.iinfo(dtype)
        for value in (int(values.min()), int(values.max())):
            if not limits.min <= value <= limits.max:
                raise EncodeError(f"{value} does not fit in {limits.dtype}", name)
    return np.ascontiguousarray(values, dtype)


def tables_markdown(tables: Mapping[str, TableSpec], depth: int = 2) -> str:
    """Return a section for each table with its columns, for the documents; `depth` is that of the headings."""
    lines: list[str] = []
    for name, table in tables.items():
        meaning = table.meaning + ("; only written" if table.only_written else "")
        lines += [f"{'#' * depth} `{name}`", "", *([f"{meaning}.", ""] if meaning else [])]
        heads = ["Column", "Type", "Meaning", *(["Written"] if table.writable else [])]
        lines += [_row(heads), "|---" * len(heads) + "|"]
        for column, spec in table.columns.items():
            meaning = spec.meaning + (_listed(spec.labels))
            lines.append(_row([f"`{column}`", spec.dtype, meaning, spec.written or "-"][: len(heads)]))
        lines.append("")
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(labels: Labels | None) -> str:
    return "" if labels is None else f": {', '.join(f'`{text}`' for text in numbers_of_labels(labels))}"
