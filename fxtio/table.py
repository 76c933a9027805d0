"""Tables of columns, as `trace.table(...)` returns them.

A column of numbers is a numpy array; the classes here hold text, nulls and byte strings.  All have `tolist`.  pyarrow,
polars, pandas and duckdb take a table as it is, by the Arrow PyCapsule interface (with the extra `arrow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fxtio.arrays import Array, ranges
from fxtio.codec.integers import MAX_INT64
from fxtio.display import FIRST_ROWS, LAST_ROWS, MAX_ROWS, as_html, as_text
from fxtio.errors import EncodeError, shown
from fxtio.report import Report, ReportTable, counted, seconds, short_duration

MAX_TIME = MAX_INT64
"""The latest time in nanoseconds that a table can hold; it replaces later ones."""


class Categories:
    """A dictionary-encoded column of text.

    Attributes:
        codes: the index into `values` for each row (int32), -1 for null.
        values: the distinct strings; bytes that are not UTF-8 are surrogate escapes.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: Array, values: Sequence[str]) -> None:
        self.codes = codes
        self.values = values

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Categories:
        """Encode texts, with None for null."""
        code_of: dict[str | None, int] = {None: -1}
        codes = [code_of.setdefault(text, len(code_of) - 1) for text in texts]
        return cls(np.array(codes, np.int32), [text for text in code_of if text is not None])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.tolist())

    def tolist(self) -> list[str | None]:
        """Return all rows as strings, with None for null."""
        texts: list[str | None] = [*self.values, None]  # the code -1 is that of None
        return [texts[code] for code in self.codes.tolist()]

    def is_in(self, *texts: str) -> Array:
        """Return for each row whether it is one of these strings (bool)."""
        codes = [code for code, value in enumerate(self.values) if value in texts]
        return np.isin(self.codes, codes)

    def take(self, rows: Array) -> Categories:
        """Return the rows with these indices, or those where a mask is true."""
        return Categories(self.codes[rows], self.values)

    def __repr__(self) -> str:
        return f"Categories({counted(len(self.codes), 'row')}, {counted(len(self.values), 'value')})"


class Optional:
    """A column of numbers with nulls.

    Attributes:
        values: the value of each row; that of a null row has no meaning.
        present: for each row whether it has a value (bool).
    """

    __slots__ = ("present", "values")

    def __init__(self, values: Array, present: Array) -> None:
        self.values = values
        self.present = present

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Any:
        return self.values[row].item() if self.present[row] else None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return all rows as Python values, with None for null."""
        pairs = zip(self.values.tolist(), self.present.tolist(), strict=True)
        return [value if present else None for value, present in pairs]

    def take(self, rows: Array) -> Optional:
        """Return the rows with these indices, or those where a mask is true."""
        return Optional(self.values[rows], self.present[rows])

    def __repr__(self) -> str:
        return f"Optional({counted(len(self.values), 'row')}, {int(self.present.sum()):,} present)"


class Bytes(list[bytes]):
    """A column of byte strings."""

    def tolist(self) -> list[bytes]:
        """Return all rows."""
        return list(self)

    def take(self, rows: Array) -> Bytes:
        """Return the rows with these indices, or those where a mask is true."""
        return Bytes(self[row] for row in np.arange(len(self))[rows].tolist())


class Lists:
    """A column of lists: each row has some rows of another table.

    Attributes:
        counts: the number of items of each row (int64).
        items: the items of all rows, one after the other, as a table.
    """

    __slots__ = ("counts", "items")

    def __init__(self, counts: Array, items: Table) -> None:
        self.counts = counts
        self.items = items

    @classmethod
    def of(cls, rows: Sequence[Sequence[Mapping[str, Any]]]) -> Lists:
        """Convert lists of items, which are mappings from column names to values; a missing value is null.

        Raises:
            EncodeError: the values of a column have different types.
        """
        items = [item for row in rows for item in row]
        names = dict.fromkeys(name for item in items for name in item)
        columns = {name: _column(name, [item.get(name) for item in items]) for name in names}
        return cls(np.array([len(row) for row in rows], np.int64), Table(columns))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, row: int) -> list[dict[str, Any]]:
        (items,) = self.take(np.array([row])).tolist()
        return items

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return iter(self.tolist())

    def tolist(self) -> list[list[dict[str, Any]]]:
        """Return all rows as lists of dictionaries, one for each item."""
        items = list(self.items.rows())
        ends = np.cumsum(self.counts)
        return [items[a:b] for a, b in zip((ends - self.counts).tolist(), ends.tolist(), strict=True)]

    def take(self, rows: Array) -> Lists:
        """Return the rows with these indices, or those where a mask is true."""
        counts = self.counts[rows]
        begins = (np.cumsum(self.counts) - self.counts)[rows]
        return Lists(counts, self.items.take(ranges(begins, counts)))

    def __repr__(self) -> str:
        return f"Lists({counted(len(self), 'row')}, {counted(int(self.counts.sum()), 'item')})"


Column = Array | Categories | Optional | Bytes | Lists


def numbers_of(column: Any) -> Array:
    """Return the numbers of a column: the codes of a text column, and an array as it is."""
    numbers: Array = column.codes if isinstance(column, Categories) else column
    return numbers


class Growing:
    """A column that grows by whole blocks of rows.

    Each block is copied to its place when it is appended.  If the caller tells which share of all rows has arrived, the
    array is made large enough early on, and the rows are seldom copied again.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._arrays: list[Array] = []
        self._last: Column | None = None
        self._bytes = Bytes()

    def append(self, block: Column, share: float = 0.0, runs: Sequence[tuple[slice, Any]] | None = None) -> None:
        """Add rows.

        Args:
            block: the rows; the values of a `Categories` must begin with those of the rows before.
            share: the share of all rows that has arrived with these (0 to 1), or 0 if it is not known.
            runs: the places of the rows if they are not the next ones, see `runs_of`.  In the end, each row must have
                been added once.
        """
        self._last = block
        if isinstance(block, Bytes):
            self._bytes += block
            return
        assert not isinstance(block, Lists)  # its items and counts grow as columns of their own
        parts = _arrays(block)
        if runs is None:
            runs = [(slice(None), slice(self._rows, self._rows + len(block)))]
        rows = max(self._rows, *(at.stop if isinstance(at, slice) else int(at[-1]) + 1 for _, at in runs))
        if not self._arrays:
            self._arrays = [np.empty(0, part.dtype) for part in parts]
        for number, part in enumerate(parts):
            array = self._arrays[number]
            if len(array) < rows:
                guess = int(rows / share * 1.02) + 1024 if share else 0
                array = _allocate(max(rows, guess, 0 if guess else 2 * len(array)), array.dtype)
                array[: self._rows] = self._arrays[number][: self._rows]
                self._arrays[number] = array
            for rows_of_part, at in runs:
                array[at] = part[rows_of_part]
        self._rows = rows

    def column(self) -> Column:
        """Return all rows as one column."""
        arrays = [array[: self._rows] for array in self._arrays]
        if isinstance(self._last, Categories):
            return Categories(arrays[0], self._last.values)
        if isinstance(self._last, Optional):
            return Optional(arrays[0], arrays[1])
        return arrays[0] if arrays else self._bytes


_MEAN_RUN = 64  # runs that are shorter on average are not copied one by one


def runs_of(places: Array) -> list[tuple[slice, Any]]:
    """Return runs of rows that stay together: the rows, and their places, as a slice or as indices.

    Args:
        places: the place of each row (int64, ascending, not empty).
    """
    first, count = int(places[0]), len(places)
    if int(places[-1]) - first == count - 1:
        return [(slice(None), slice(first, first + count))]
    breaks = np.flatnonzero(places[1:] - places[:-1] > 1) + 1
    if len(breaks) * _MEAN_RUN > count:
        return [(slice(None), places)]
    bounds = [0, *breaks.tolist(), count]
    starts = places[bounds[:-1]].tolist()
    return [(slice(a, b), slice(at, at + b - a)) for a, b, at in zip(bounds[:-1], bounds[1:], starts, strict=True)]


class GrowingTable:
    """The columns of a table that grows by whole batches of rows."""

    def __init__(self) -> None:
        self._columns: dict[str, Growing] = {}

    def append(self, columns: Mapping[str, Column], share: float = 0.0, places: Array | None = None) -> None:
        """Add rows: all columns of the table, see `Growing.append`.

        Args:
            columns: the columns by name.
            share: the share of all rows that has arrived with these (0 to 1), or 0 if it is not known.
            places: the indices of the rows, ascending, if they are not the next ones.
        """
        runs = None if places is None else runs_of(places)
        for name, column in columns.items():
            if name not in self._columns:
                self._columns[name] = Growing()
            self._columns[name].append(column, share, runs)

    def columns(self) -> dict[str, Column]:
        """Return all rows, as columns by name."""
        return {name: growing.column() for name, growing in self._columns.items()}


_HUGE_PAGE = 1 << 21


def _allocate(count: int, dtype: Any) -> Array:
    """Return an uninitialized array.

    A large array is aligned to huge pages, since the first access to each new page costs more than the copying.
    """
    size = count * dtype.itemsize
    if size < 4 * _HUGE_PAGE:
        return np.empty(count, dtype)
    raw = np.empty(size + _HUGE_PAGE, np.uint8)
    begin = -raw.ctypes.data % _HUGE_PAGE
    return raw[begin : begin + size].view(dtype)


def _arrays(column: Array | Categories | Optional) -> list[Array]:
    """Return the arrays that hold the rows of a column."""
    if isinstance(column, Categories):
        return [column.codes]
    return [column.values, column.present] if isinstance(column, Optional) else [column]


def joined(blocks: Sequence[Any]) -> Any:
    """Concatenate columns of the same kind."""
    whole = Growing()
    for block in blocks:
        whole.append(block)
    return whole.column()


class Derived:
    """A column that is computed from others when it is first used.

    Attributes:
        make: computes the column.
        rows: computes only the rows with these indices (int64); None if that takes the whole column.
    """

    __slots__ = ("make", "rows")

    def __init__(self, make: Callable[[], Column], rows: Callable[[Array], Column] | None = None) -> None:
        self.make = make
        self.rows = rows

    @classmethod
    def by_row(cls, make: Callable[[Any], Column]) -> Derived:
        """Return a column each of whose rows is computed alone.

        Args:
            make: computes the rows that a slice or an array of indices selects.
        """
        return cls(partial(make, slice(None)), make)


class Table:
    """Columns of the same length with names, in order; at least one of them is not `Derived`.

    Indexing, iterating, `in`, `keys` and `items` use column names, as in pandas.  `len` is the number of rows, as in
    pyarrow, polars and pandas.  A table is not a `collections.abc.Mapping`, because polars and pandas would treat it as
    a dictionary of lists and not use its Arrow stream.
    """

    def __init__(self, columns: Mapping[str, Column | Derived]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Any:  # Any: the kind of column depends on the name
        try:
            column = self._columns[name]
        except KeyError:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(self._columns)}") from None
        if isinstance(column, Derived):
            column = self._columns[name] = column.make()
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return self.num_rows

    def __bool__(self) -> bool:
        raise TypeError("the truth value of a table is ambiguous; compare num_rows or num_columns")

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def keys(self) -> KeysView[str]:
        """Return the names of the columns."""
        return self._columns.keys()

    def values(self) -> Iterator[Column]:
        """Yield the columns."""
        return (self[name] for name in self._columns)

    def items(self) -> Iterator[tuple[str, Column]]:
        """Yield pairs of a name and a column."""
        return ((name, self[name]) for name in self._columns)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        plain = (column for column in self._columns.values() if not isinstance(column, Derived))
        return len(next(plain, ()))

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self._columns)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dictionaries of Python values."""
        lists = [column.tolist() for column in self.values()]
        for values in zip(*lists, strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def take(self, rows: Array) -> Table:
        """Return the rows with these indices, or those where a mask is true."""
        return Table({n: c[rows] if isinstance(c, np.ndarray) else c.take(rows) for n, c in self.items()})

    def to_arrow(self) -> Any:
        """Convert the table to a `pyarrow.Table`; bytes that are not UTF-8 become replacement characters.

        Raises:
            ImportError: pyarrow is not installed.
        """
        import pyarrow as pa

        return pa.table({name: _to_arrow(pa, column) for name, column in self.items()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return an Arrow stream, see the Arrow PyCapsule interface; polars, pandas and duckdb call this."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Table({counted(self.num_rows, 'row')}: {', '.join(self._columns)})"

    def __str__(self) -> str:
        """Return the first and the last rows as text that fits the terminal, see `fxtio.display`."""
        return as_text(self._report(FIRST_ROWS, LAST_ROWS))

    def _repr_html_(self) -> str:
        """Return the first rows as HTML for notebooks."""
        return as_html(self._report(MAX_ROWS, 0))

    def _report(self, first: int, last: int) -> Report:
        """Describe this many rows from the start and from the end, or all of a short table, and compute no others."""
        count = self.num_rows
        is_whole = count <= MAX_ROWS
        rows = np.arange(count) if is_whole else np.r_[0:first, count - last : count]
        headers, types, columns = [], [], []
        for name in self._columns:
            column = self._rows_of(name, rows)
            kind, is_number, texts = _shown(name, column)
            headers.append(f">{name}" if is_number else name)
            types.append(kind)
            columns.append(texts)
        table = ReportTable(headers, [*zip(*columns, strict=True)], count - len(rows), 0 if is_whole else last, types)
        title = f"{counted(count, 'row')}, {counted(self.num_columns, 'column')}"
        return Report(title, tables=[table])

    def _rows_of(self, name: str, rows: Array) -> Column:
        """Return rows of a column; one that is not computed yet stays so if its rows can be computed alone."""
        column = self._columns[name]
        if isinstance(column, Derived) and column.rows is not None:
            return column.rows(rows)
        whole: Column = self[name]
        return whole[rows] if isinstance(whole, np.ndarray) else whole.take(rows)


_MOMENTS = ("time", "start", "end")
_DURATIONS = ("duration", "self_time")
_SHOWN_BYTES = 32
_SHOWN_ITEMS = 3


def _shown(name: str, column: Column) -> tuple[str, bool, list[str]]:
    """Return the type of a column as people read it, whether it has numbers, and its values as text."""
    if isinstance(column, Categories):
        return "text", False, ["null" if text is None else text for text in column.tolist()]
    if isinstance(column, Bytes):
        cut = ((content[:_SHOWN_BYTES].hex(" "), len(content)) for content in column)
        return "bytes", False, [text if size <= _SHOWN_BYTES else f"{text} … ({size:,} bytes)" for text, size in cut]
    if isinstance(column, Lists):
        return "items", False, _shown_lists(column)
    values = column.values if isinstance(column, Optional) else column
    convert: Callable[[Any], str] = str
    kind = values.dtype.name
    if values.dtype == np.int64 and name in _MOMENTS:
        kind, convert = "s", seconds
    elif values.dtype == np.int64 and name in _DURATIONS:
        kind, convert = "duration", short_duration
    elif values.dtype.kind == "f":
        convert = "{:.10g}".format
    return kind, True, ["null" if item is None else convert(item) for item in column.tolist()]


def _shown_lists(column: Lists) -> list[str]:
    """Return lists as text: their lengths and the first items."""
    begins = np.cumsum(column.counts) - column.counts
    texts = []
    for begin, count in zip(begins.tolist(), column.counts.tolist(), strict=True):
        items = column.items.take(np.arange(begin, begin + min(count, _SHOWN_ITEMS))).rows()
        parts = [", ".join(f"{name}={value}" for name, value in item.items()) for item in items]
        texts.append(f"{count:,}: {'; '.join(parts)}{'; …' if count > _SHOWN_ITEMS else ''}" if count else "0")
    return texts


def _to_arrow(pa: Any, column: Column) -> Any:
    if isinstance(column, Categories):
        texts = [value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for value in column.values]
        # Strings with different invalid bytes become equal when the bytes are replaced.
        distinct = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        codes = column.codes
        if len(distinct) < len(texts):
            codes = np.array([*(distinct[text] for text in texts), -1], np.int32)[codes]
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array([*distinct], pa.string()))
    if isinstance(column, Optional):
        return pa.array(column.values, mask=~column.present)
    if isinstance(column, Bytes):
        return pa.array(column, pa.binary())
    if isinstance(column, Lists):
        items = [_to_arrow(pa, part) for part in column.items.values()]
        structs = pa.StructArray.from_arrays(items, column.items.column_names)
        offsets = np.concatenate([[0], np.cumsum(column.counts)])
        return pa.LargeListArray.from_arrays(pa.array(offsets), structs)
    return pa.array(column)


class WritableTable(NamedTuple):
    """The columns of a table that a writer accepts.

    Attributes:
        required: the names of columns that must be given.
        optional: the names of columns that may be missing, or None for all rows.
        ignored: the names of further columns of the reader's table, which follow from the others.
        given: by the name of a column with a declared type, the function that returns what is given as a column of this
            type, or raises EncodeError; see `fxtio.schema.ColumnSpec.given`.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    given: Mapping[str, Callable[[Column, str], Column]] = MappingProxyType({})


def checked_columns(columns: Table | Mapping[str, Any], table: WritableTable) -> tuple[dict[str, Column], int]:
    """Check the columns for a writer, and return them, all of the same length, with that length.

    Args:
        columns: a table, or columns by name: arrays of one dimension, `Categories`, `Optional`, `Bytes`, `Lists`,
            lists, or one value for all rows.  Ignored columns are not used, so derived ones are not computed.
        table: the names of the columns; optional columns that are not given are not in the result.

    Raises:
        EncodeError: a column is missing or unknown, or has values of another type, or a different length.
    """
    if not isinstance(columns, Table | Mapping):
        raise EncodeError(f"a {type(columns).__name__} is neither a table nor a mapping of columns", "columns")
    accepted = [*table.required, *table.optional]
    unknown = [name for name in columns if name not in accepted and name not in table.ignored]
    if unknown:
        raise EncodeError(f"is not a column of this table; the columns are {', '.join(accepted)}", unknown[0])
    given = {name: columns[name] for name in accepted if name in columns}
    given = {name: value for name, value in given.items() if name in table.required or value is not None}
    missing = [name for name in table.required if name not in given]
    if missing:
        raise EncodeError("the column is missing", missing[0])
    result = {name: _column(name, value) for name, value in given.items() if not _is_scalar(value)}
    lengths = {len(column) for column in result.values()} or {1}
    if len(lengths) > 1:
        shown = ", ".join(f"{name} {len(column):,}" for name, column in result.items())
        raise EncodeError(f"the columns have different lengths: {shown}", "columns")
    (rows,) = lengths
    result |= {name: _repeated(name, value, rows) for name, value in given.items() if name not in result}
    typed = {name: convert(result[name], name) for name, convert in table.given.items() if name in result}
    return {name: result[name] for name in given} | typed, rows


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float | np.generic)


def _repeated(name: str, value: Any, rows: int) -> Column:
    if isinstance(value, str):
        return Categories(np.zeros(rows, np.int32), [value])
    if isinstance(value, bytes):
        return Bytes([value]) if rows == 1 else Bytes([value] * rows)
    if value is None:
        raise EncodeError("has no value", name)
    column = _column(name, [value])
    return column.take(np.zeros(rows, np.intp)) if not isinstance(column, np.ndarray) else np.repeat(column, rows)


def _column(name: str, values: Any) -> Column:
    if isinstance(values, Categories | Optional | Bytes | Lists):
        _check_column(name, values)
        return values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise EncodeError(f"has {values.ndim} dimensions, not one", name)
        if values.dtype.kind in "biuf":
            return values
        if values.dtype.kind in "mM":
            raise EncodeError(f"has values of the type {values.dtype}; give integers", name)
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise EncodeError(f"a {type(values).__name__} is not a column", name)
    items = list(values)
    kinds = {_kind_of(item) for item in items}
    present = np.array([item is not None for item in items], np.bool_)
    if kinds <= {str, type(None)}:
        return Categories.of(items) if str in kinds else Optional(np.zeros(len(items), np.int64), present)
    if kinds == {bytes}:
        return Bytes(items)
    if kinds and kinds <= {list, tuple} and all(isinstance(item, Mapping) for row in items for item in row):
        return Lists.of(items)
    if not kinds <= {int, float, bool, type(None)}:
        raise EncodeError(f"has values of the types {', '.join(sorted(kind.__name__ for kind in kinds))}", name)
    items = [0 if item is None else item for item in items]
    if kinds <= {bool, type(None)}:
        array: Array = np.array(items, np.bool_)
    else:
        array = _numbers(name, items, is_float=float in kinds)
    return array if bool(present.all()) else Optional(array, present)


def _kind_of(item: Any) -> type:
    """Return the plain type of a value: int for enumerations and numpy's integers, and so on."""
    for kind, classes in _KINDS.items():
        if isinstance(item, classes):
            return kind
    return type(item)


_KINDS: dict[type, tuple[type, ...]] = {
    bool: (bool, np.bool_),
    int: (int, np.integer),
    float: (float, np.floating),
    str: (str,),
}


def _check_column(name: str, column: Categories | Optional | Bytes | Lists) -> None:
    """Raise EncodeError if the parts of a column do not belong together."""
    if isinstance(column, Categories):
        codes: Any = column.codes
        if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise EncodeError("the codes are not an array of integers", name)
        if len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(column.values):
            raise EncodeError(
                f"codes from {codes.min()} to {codes.max()} for {counted(len(column.values), 'value')}", name
            )
    elif isinstance(column, Optional) and np.shape(column.values) != np.shape(column.present):
        raise EncodeError("has another number of values than of marks whether they are present", name)


def _numbers(name: str, items: list[Any], *, is_float: bool) -> Array:
    """Return numbers as an array; whole numbers keep their exact values."""
    try:
        if is_float:
            return np.array(items, np.float64)
        return np.array(items, np.uint64 if max(items) >= 2**63 else np.int64)
    except OverflowError:
        raise EncodeError(f"from {shown(min(items))} to {shown(max(items))} does not fit 64 bits", name) from None


def saturated(times: Array) -> Array:
    """Return times (uint64 nanoseconds) as int64, where `MAX_TIME` replaces those that do not fit."""
    if len(times) and int(times.max()) > MAX_TIME:
        times = np.minimum(times, np.uint64(MAX_TIME))
    return times.astype(np.int64)
