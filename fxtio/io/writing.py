"""The base classes of writers: closing, exact copies, tables; and, for formats that are one file, its bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from fxtio.codec.integers import checked_integer
from fxtio.errors import EncodeError, shown
from fxtio.io.sink import Sink, open_sink

if TYPE_CHECKING:
    from fxtio.table import Table, WritableTable

__all__ = ["FileWriter", "TraceWriter", "checked_integer"]


class TraceWriter(ABC):
    """The base of every writer, with what `fxtio.formats.Writer` demands.

    A format implements `put`, `_copy`, `_write_rows` and `_close`, and calls `_check_open` before anything is written.
    """

    format: ClassVar[str]
    writable_tables: ClassVar[Mapping[str, WritableTable]] = {}
    _closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    @abstractmethod
    def position(self) -> int:
        """The number of bytes written so far, before compression."""

    @abstractmethod
    def put(self, record: Any) -> None:
        """Append a record as it is.

        Raises:
            EncodeError: the format cannot express it; nothing was written.
            ValueError: the writer is closed.
        """

    def copy(self, trace: Any) -> None:
        """Copy a whole trace of the same format to the same bytes: header, style and byte order included.

        Raises:
            EncodeError: the trace is of another format, or something was written before.
            ValueError: the writer is closed.
        """
        self._check_open()
        other = getattr(trace, "format", None)
        if other != self.format:
            what = f"a {other} trace" if other else type(trace).__name__
            raise EncodeError(f"{what} cannot be copied to a {self.format} trace", "trace")
        self._copy(trace)

    def write_table(self, name: str, columns: Table | Mapping[str, Any]) -> int:
        """Append the rows of a table, the inverse of `table` of the reader.

        Args:
            name: one of `writable_tables`.
            columns: a table, or columns by name: arrays, `Categories`, `Optional`, lists, or one value for all rows.
                Columns that follow from others, such as `offset`, are ignored.

        Returns:
            The number of rows.

        Raises:
            EncodeError: a column is missing or unknown, or a value does not fit; nothing was written.
            ValueError: the writer is closed.
        """
        from fxtio.table import checked_columns  # numpy is loaded by those who write tables

        self._check_open()
        table_name: Any = name
        if not isinstance(table_name, str) or name not in self.writable_tables:
            raise EncodeError(f"cannot be written, only {', '.join(self.writable_tables)}", f"table {shown(name)}")
        checked, rows = checked_columns(columns, self.writable_tables[name])
        if rows:
            self._write_rows(name, checked, rows)
        return rows

    def close(self) -> None:
        """Write what is left and close the file.

        If nothing was written, the trace has what all traces of the format begin with, and nothing is invented.  A file
        of a format whose traces have nothing in common stays empty; a reader reports it with a finding.
        """
        if self._closed:
            return
        try:
            self._close()
        finally:
            self._closed = True

    def _check_open(self) -> None:
        """Raise ValueError if the writer is closed."""
        if self._closed:
            raise ValueError("the writer is closed")

    @abstractmethod
    def _copy(self, trace: Any) -> None:
        """Copy a trace of the same format."""

    @abstractmethod
    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        """Append rows of a table, at least one.

        Args:
            name: the table, one of `writable_tables`.
            columns: all required columns and some of the optional ones, as columns of a `fxtio.table.Table`.
            rows: the number of rows.
        """

    @abstractmethod
    def _close(self) -> None:
        """Write what is left and close the file; called once."""


class FileWriter(TraceWriter):
    """The base of writers of formats that are one file: bytes are gathered, then go to the file.

    A format appends to `_out`, implements `_finish`, and calls `flush` when `_out` is long.

    Args:
        target: where to, see `fxtio.create`.
        out: gathers the bytes; what it holds comes first in the file.

    Raises:
        OSError: the target cannot be created.
    """

    def __init__(self, target: Any, out: bytearray) -> None:
        self._out = out
        self._sink: Sink = open_sink(target)

    @property
    def position(self) -> int:
        """The number of bytes written so far, before compression."""
        return self._sink.position + len(self._out)

    def flush(self) -> None:
        """Hand what was gathered to the file.

        Raises:
            ValueError: the writer is closed.
        """
        self._check_open()
        self._sink.write(self._out)
        self._out.clear()

    def _close(self) -> None:
        try:
            self._finish()
            self.flush()
        finally:
            self._sink.close()

    def _finish(self) -> None:
        """Append what is at the end of a trace; most formats have nothing there."""
