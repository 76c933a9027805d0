"""Arrow IPC: a directory with a file for each table, see `fxtio.exchange.table_files`."""

from __future__ import annotations

from typing import Any, ClassVar

from fxtio.exchange import table_files
from fxtio.exchange.table_files import NOT_CARRIED, TableFile

__all__ = ["NOT_CARRIED", "Exporter"]


class Exporter(table_files.Exporter):
    """Writes each table as an Arrow IPC file."""

    SUFFIX: ClassVar[str] = ".arrow"

    def new_file(self, target: Any, schema: Any) -> TableFile:
        """Return a new file of a table."""
        import pyarrow as pa

        file: TableFile = pa.ipc.new_file(target, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        return file
