"""CSV: a directory with a file for each table, see `fxtio.exchange.table_files`; the first line names the columns."""

from __future__ import annotations

from typing import Any, ClassVar

from fxtio.exchange import table_files
from fxtio.exchange.table_files import NOT_CARRIED, TableFile

__all__ = ["NOT_CARRIED", "Exporter"]


class Exporter(table_files.Exporter):
    """Writes each table as a CSV file."""

    SUFFIX: ClassVar[str] = ".csv"

    def new_file(self, target: Any, schema: Any) -> TableFile:
        """Return a new file of a table."""
        from pyarrow import csv

        file: TableFile = csv.CSVWriter(target, schema)
        return file
