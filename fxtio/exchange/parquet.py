"""Parquet: a directory with a file for each table, see `fxtio.exchange.table_files`."""

from __future__ import annotations

from typing import Any, ClassVar

from fxtio.exchange import table_files
from fxtio.exchange.table_files import NOT_CARRIED, TableFile

__all__ = ["NOT_CARRIED", "Exporter"]


class Exporter(table_files.Exporter):
    """Writes each table as a Parquet file."""

    SUFFIX: ClassVar[str] = ".parquet"
    HAS_DICTIONARIES: ClassVar[bool] = True

    def new_file(self, target: Any, schema: Any) -> TableFile:
        """Return a new file of a table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Numbers seldom repeat as texts do, and dictionaries of them take most of the time.
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        file: TableFile = pq.ParquetWriter(target, schema, compression="snappy", use_dictionary=texts)
        return file
