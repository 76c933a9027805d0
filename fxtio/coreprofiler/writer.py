"""The writer of a trace: records as they are, in the style of a dialect or of a file that was read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fxtio.codec.record import Opaque
from fxtio.coreprofiler.framing import MARK
from fxtio.coreprofiler.lines import encode
from fxtio.coreprofiler.parts import Record
from fxtio.coreprofiler.style import Style, dialect
from fxtio.errors import EncodeError
from fxtio.io.writing import FileWriter

_BUFFER = 1 << 18


class CoreProfilerWriter(FileWriter):
    """Writes a CoreProfiler trace.

    Args:
        target: where to, see `fxtio.create`.
        style: how it is written: the name of a dialect (`D2`, the given specification, unless told), or the style of a
            trace that was read.

    Raises:
        EncodeError: there is no such dialect.
        OSError: the target cannot be created.
    """

    format = "coreprofiler"

    def __init__(self, target: Any, *, style: str | Style = "D2") -> None:
        try:
            self.style = dialect(style) if isinstance(style, str) else style
        except KeyError as error:
            raise EncodeError(str(error.args[0]), "style") from None
        super().__init__(target, bytearray(MARK if self.style.mark else b""))

    def put(self, record: Record | Opaque) -> None:
        """Append a record.

        Raises:
            EncodeError: the format cannot say it.
        """
        line = encode(record, self.style)
        if self._closed:
            raise ValueError("the writer is closed")
        self._out += line
        if len(self._out) > _BUFFER:
            self.flush()

    def put_all(self, records: Iterable[Record | Opaque]) -> None:
        """Append records, see `put`."""
        for record in records:
            self.put(record)
