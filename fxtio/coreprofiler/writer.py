"""The writer of a trace, in the style of a dialect or of a trace that was read."""

from __future__ import annotations

from typing import Any, ClassVar

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.encode import Columns, lines_of
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, Style, dialect
from fxtio.coreprofiler.lines import encode
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.records import Record
from fxtio.coreprofiler.tables import RECORD_TABLES
from fxtio.errors import EncodeError
from fxtio.io.writing import TraceWriter

_BUFFER = 1 << 18


class CoreProfilerWriter(TraceWriter):
    """A writer of CoreProfiler traces.

    Args:
        target: what to write to, see `fxtio.create`.
        style: the name of a dialect, by default that of the given specification, or the style of a trace that was read.

    Attributes:
        style: the style.
        table_names: the tables that `write_table` takes: those of records.

    Raises:
        EncodeError: there is no such dialect.
        OSError: the target cannot be created.
    """

    format = "coreprofiler"
    table_names: ClassVar[tuple[str, ...]] = tuple(RECORD_TABLES)

    def __init__(self, target: Any, *, style: str | Style = "D2") -> None:
        try:
            self.style = dialect(style) if isinstance(style, str) else style
        except KeyError as error:
            raise EncodeError(str(error.args[0]), "style") from None
        self._is_fresh = True
        super().__init__(target, bytearray(BYTE_ORDER_MARK if self.style.mark else b""))

    def put(self, record: Record | Opaque) -> None:
        """Append a record in the writer's style.

        Raises:
            EncodeError: it is not a record, or the format cannot express it; nothing was written.
            ValueError: the writer is closed.
        """
        self._require_open()
        self._append(encode(record, self.style))

    def copy(self, trace: CoreProfilerTrace) -> None:
        """Write an exact copy of a trace, and take over its style.

        Args:
            trace: a CoreProfiler trace.

        Raises:
            EncodeError: it is of another format, or something was written before.
            ValueError: the writer is closed.
        """
        self._require_open()
        if not isinstance(trace, CoreProfilerTrace):
            raise EncodeError(f"a trace in the format {trace.format} cannot be copied to {self.format}", "trace")
        if not self._is_fresh:
            raise EncodeError("a copy must be the first thing that is written", "trace")
        self.style = trace.style
        self._out[:] = BYTE_ORDER_MARK if self.style.mark else b""
        self._is_fresh = False
        for record in trace.records(resolve=False):
            self._append(encode(record, self.style))

    def write_table(self, name: str, columns: Columns) -> int:
        """Write the rows of a table, the inverse of `CoreProfilerTrace.table`.

        Args:
            name: one of `table_names`.
            columns: a table or a mapping from column names to arrays, `Categories`, `Optional`, `Items`, lists, or
                scalars for all rows.  Columns of optional fields may be missing, and `offset` is ignored.  Lists of
                items are `Items`, or a list of compounds or dictionaries for each row.

        Returns:
            The number of rows.

        Raises:
            EncodeError: there is no such table, a column is unknown or missing, or a value does not fit; nothing was
                written.
            ValueError: the writer is closed.
        """
        self._require_open()
        lines = lines_of(name, columns, self.style)
        if lines:
            self._append(b"".join(lines))
        return len(lines)

    def flush(self) -> None:
        """Hand what was written to the file."""
        super().flush()
        self._is_fresh = False

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("the writer is closed")

    def _append(self, data: bytes) -> None:
        self._is_fresh = False
        self._out += data
        if len(self._out) > _BUFFER:
            self.flush()
