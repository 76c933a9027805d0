"""The writer of a trace, in the style of a dialect or of a trace that was read."""

from __future__ import annotations

from typing import Any, ClassVar

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.encode import lines_of
from fxtio.coreprofiler.layout import BYTE_ORDER_MARK, Style, dialect
from fxtio.coreprofiler.lines import encode
from fxtio.coreprofiler.records import Record
from fxtio.coreprofiler.tables import WRITABLE
from fxtio.errors import EncodeError
from fxtio.io.writing import FileWriter
from fxtio.table import WritableTable

_BUFFER = 1 << 18


class CoreProfilerWriter(FileWriter):
    """A writer of CoreProfiler traces.

    `copy` takes over the style of the trace.  `write_table` takes every table of records; columns of lists are
    `fxtio.table.Lists`, or a list of dictionaries for each row.

    Args:
        target: what to write to, see `fxtio.create`.
        style: the name of a dialect, by default that of the given specification, or the style of a trace that was read.

    Attributes:
        style: the style.

    Raises:
        EncodeError: there is no such dialect, or it is neither a name nor a style.
        OSError: the target cannot be created.
    """

    format: ClassVar[str] = "coreprofiler"
    writable_tables: ClassVar[dict[str, WritableTable]] = WRITABLE

    def __init__(self, target: Any, *, style: str | Style = "D2") -> None:
        if not isinstance(style, str | Style):
            raise EncodeError(f"{style!r} is neither the name of a dialect nor a style", "style")
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
        if self._closed:  # not a call, since there may be millions of records
            self._check_open()
        self._append(encode(record, self.style))

    def flush(self) -> None:
        """Hand what was gathered to the file."""
        super().flush()
        self._is_fresh = False

    def _copy(self, trace: Any) -> None:
        if not self._is_fresh:
            raise EncodeError("a copy must be the first thing that is written", "trace")
        self.style = trace.style
        self._out[:] = BYTE_ORDER_MARK if self.style.mark else b""
        self._is_fresh = False
        for raw in trace.raw_blocks():
            self._append(raw)

    def _write_rows(self, name: str, columns: dict[str, Any], rows: int) -> None:
        self._append(lines_of(name, columns, rows, self.style))

    def _append(self, data: bytes) -> None:
        self._is_fresh = False
        self._out += data
        if len(self._out) > _BUFFER:
            self.flush()
