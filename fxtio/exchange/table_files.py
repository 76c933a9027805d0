"""The tables of a timeline as files of columns, one for each table, written with pyarrow in groups of rows.

A thread encodes and compresses the files while the trace is read.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.errors import FormatError
from fxtio.io.sink import Sink, names_if_full
from fxtio.schema import TEXT, ColumnSpec
from fxtio.table import Categories, Column, Table
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TABLES

NOT_CARRIED = ("bytes of names that are not UTF-8",)
"""The content of a timeline that the files do not have."""

GROUP = 1 << 17
"""The rows of a group, which are written together."""

_REPEATING = frozenset({"pid", "tid"})
"""The columns of numbers that have few values, as texts have; of others dictionaries take long."""

_DIFFERENCES = frozenset({"id", "time", "start", "ticks", "event", "end_event", "duration", "self_time"})
"""The columns of numbers whose differences leave little to zstd, which takes longer, to write as to read."""

_OF_REGISTRY = ("processes", "threads", "tracks")
_CHUNK = 1 << 16
"""The bytes that are written, or copied, at once."""

_MAX_WAITING = 1
"""The most groups that wait to be written."""

_MAX_VALUES = 1 << 16
"""A group has all values of a column so far while these are not more; then only those that it needs."""


class Exporter(ABC):
    """Writes each table to a file of a new directory, see `fxtio.formats.Exporter`; the formats extend it.

    Attributes:
        SUFFIX: the ending of the files.
        DECLARED: the tables of the files, and their columns.
        HAS_EMPTY_FILES: whether there is a file for a table without rows.
        HAS_DICTIONARIES: whether texts are stored as numbers of values in each group, not as texts.
    """

    DECLARED: ClassVar[Mapping[str, Mapping[str, ColumnSpec]]] = TABLES
    TABLES: ClassVar[tuple[str, ...]] = tuple(name for name in TABLES if name not in _OF_REGISTRY)
    WRITES_LABELS: ClassVar = False
    SUFFIX: ClassVar[str]
    HAS_DICTIONARIES: ClassVar[bool] = False
    HAS_EMPTY_FILES: ClassVar[bool] = True

    def __init__(self, sink: Any, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._registry = registry
        try:
            import pyarrow as pa
        except ImportError:
            raise FormatError("this format needs pyarrow; install fxtio[arrow]") from None
        self._pa = pa
        self._one: _Temporary | None = None
        self._targets = self._targets_in(sink)
        self._files: dict[str, _File] = {}
        self._groups = {name: _Groups(self.DECLARED[name], self.losses) for name in self._targets}
        self._writing = _Writing()

    @classmethod
    def of_table(cls, name: str) -> type[Exporter]:
        """Return the exporter of one table to a file.

        Raises:
            FormatError: there is no such table.
        """
        if name not in TABLES:
            raise FormatError(f"there is no table {name!r}, only {', '.join(TABLES)}")
        needed = (name,) if name not in _OF_REGISTRY else ("slices",)  # threads are known when their events were read

        return type(cls.__name__, (cls,), {"TABLES": needed, "_table": name})

    _table: ClassVar[str | None] = None

    @abstractmethod
    def new_file(self, stream: Any, schema: Any) -> Any:
        """Return a writer of pyarrow, which has `write_table` and `close`, for a file of columns.

        Args:
            stream: a stream of pyarrow, which stays open.
            schema: a `pyarrow.Schema`.
        """

    def _targets_in(self, target: Any) -> dict[str, Any]:
        """Return the path or stream of the file of each table."""
        if self._table is not None:
            self._one = _Temporary(target)
            return {self._table: self._one}
        directory = Path(target)
        directory.mkdir(exist_ok=True)
        return {name: str(directory / f"{name}{self.SUFFIX}") for name in self.DECLARED}

    def _schema(self, name: str) -> Any:
        pa = self._pa
        text = pa.dictionary(pa.int32(), pa.string()) if self.HAS_DICTIONARIES else pa.string()
        columns = self.DECLARED[name].items()
        return pa.schema([(name, text if spec.dtype == TEXT else getattr(pa, spec.dtype)()) for name, spec in columns])

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch, or keep them until they are a group."""
        for name, table in tables.items():
            if name in self._groups and self._groups[name].add(table) >= GROUP:
                self._writing.add(self._writing_of(name))

    def finish(self) -> None:
        """Write what is left: here, as nothing is read meanwhile."""
        self._writing.finish()
        if of_registry := [name for name in _OF_REGISTRY if name in self._groups]:
            tables = self._registry.tables()
            for name in of_registry:
                self._groups[name].add(tables[name])
        for name, group in self._groups.items():
            if group.count or name in self._files or self.HAS_EMPTY_FILES:
                self._writing_of(name)()
                self._files[name].close()
        if self._one is not None:
            self._one.copy()

    def _writing_of(self, name: str) -> Callable[[], None]:
        """Take the rows of a table that are kept, and return what writes them."""
        columns = self._groups[name].take()
        schema = self._schema(name)
        if name not in self._files:
            stream = self._pa.output_stream(self._targets[name], compression=None, buffer_size=_CHUNK)
            self._files[name] = _File(self.new_file(stream, schema), stream)
        file = self._files[name].writer

        def write() -> None:
            file.write_table(self._pa.table([column.array(self._pa) for column in columns], schema))

        return write


class _File:
    """A file of columns.

    One that is given up is closed quietly: pyarrow would print that there was no room for what a stream still has.

    Args:
        writer: what writes it, see `Exporter.new_file`.
        stream: its stream.
    """

    def __init__(self, writer: Any, stream: Any) -> None:
        self.writer = writer
        self._stream = stream

    def __del__(self) -> None:
        with suppress(OSError, ValueError):  # those of pyarrow are among them
            self.close()

    def close(self) -> None:
        """Write what is left."""
        try:
            self.writer.close()
        finally:
            self._stream.close()


class _Writing:
    """A thread that does one thing after the other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[Future[None]] = []

    def add(self, work: Callable[[], None]) -> None:
        """Do something later; wait if much is to be done.

        Raises:
            OSError: what was done earlier failed.
        """
        self._waiting.append(self._pool.submit(work))
        while len(self._waiting) > _MAX_WAITING:
            self._waiting.pop(0).result()

    def finish(self) -> None:
        """Wait until everything is done.

        Raises:
            OSError: something failed.
        """
        try:
            for each in self._waiting:
                each.result()
        finally:
            self._pool.shutdown(cancel_futures=True)


class _Groups:
    """Rows of a table that wait to be written.

    Attributes:
        count: their number.
    """

    def __init__(self, columns: Mapping[str, ColumnSpec], losses: Counter[str]) -> None:
        self._names = [*columns]
        self._texts = {name: _Texts(losses) for name, spec in columns.items() if spec.dtype == TEXT}
        self._types = {name: spec.dtype for name, spec in columns.items()}
        self._batches: list[dict[str, Array]] = []
        self.count = 0

    def add(self, table: Table) -> int:
        """Keep rows, and return how many are kept."""
        self._batches.append({name: self._plain(name, table[name]) for name in self._names})
        self.count += table.num_rows
        return self.count

    def _plain(self, name: str, column: Column) -> Array:
        if isinstance(column, Categories):
            return self._texts[name].codes(column)
        assert isinstance(column, np.ndarray)
        return column

    def values(self, name: str) -> Sequence[str]:
        """Return the values so far of a column of text."""
        return self._texts[name].values()

    def take(self) -> list[_Rows]:
        """Return the rows of each column, and forget them."""
        result = []
        for name in self._names:
            texts = self._texts.get(name)
            empty = np.empty(0, np.int32 if texts else self._types[name])
            result.append(_Rows([empty, *(batch[name] for batch in self._batches)], texts.values() if texts else None))
        self._batches = []
        self.count = 0
        return result


class _Rows(NamedTuple):
    """The rows of a column.

    Attributes:
        batches: numbers.
        values: the texts that the numbers stand for, -1 for null; None for a column of numbers.
    """

    batches: list[Array]
    values: Sequence[str] | None

    def array(self, pa: Any) -> Any:
        """Return them as an Arrow array."""
        numbers = np.concatenate(self.batches)
        values = self.values
        if values is None:
            return pa.array(numbers)
        if len(values) > _MAX_VALUES:
            used, numbers = np.unique(numbers, return_inverse=True)
            has_null = int(len(used) > 0 and used[0] < 0)
            values = [values[number] for number in used[has_null:].tolist()]
            numbers = (numbers - has_null).astype(np.int32)
        is_null = numbers < 0 if int(numbers.min(initial=0)) < 0 else None
        return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=is_null), pa.array(values, pa.string()))


class _Texts:
    """The values of a column of text, numbered in the order in which they first come."""

    def __init__(self, losses: Counter[str]) -> None:
        self._losses = losses
        self._number_of = np.empty(0, np.int32)  # by the code of the name, -1 for those that are new
        self._values: list[str] = []
        self._source: Any = None

    def codes(self, column: Categories) -> Array:
        """Return the numbers of values (int32), -1 for null."""
        if column.values is not self._source or len(self._number_of) <= len(column.values):
            known = self._number_of[:-1] if column.values is self._source else self._number_of[:0]
            more = np.full(len(column.values) + 1 - len(known), -1, np.int32)  # the last one is that of the code -1
            self._number_of, self._source = np.concatenate([known, more]), column.values
        numbers = self._number_of[column.codes]
        new = (numbers < 0) & (column.codes >= 0)
        if new.any():
            codes = np.unique(column.codes[new])
            self._number_of[codes] = np.arange(len(self._values), len(self._values) + len(codes))
            self._values += [plain(column.values[code], self._losses) for code in codes.tolist()]
            numbers = self._number_of[column.codes]
        return numbers

    def values(self) -> Sequence[str]:
        """Return the values so far, which another thread may read."""
        return self._values if len(self._values) > _MAX_VALUES else self._values[:]


class _Temporary:
    """A temporary file as pyarrow expects one, from which a sink gets its bytes in the end.

    A file that is given up must be possible to close when its sink is not there any more.
    """

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._file = tempfile.TemporaryFile(prefix="fxtio-")  # noqa: SIM115  # __del__ closes it

    def __del__(self) -> None:
        with suppress(OSError):  # what a full disk has no room for is tried once more
            self._file.close()

    def write(self, data: Any) -> int:
        """Write bytes and return their number."""
        with names_if_full():
            return self._file.write(data)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: its bytes are still needed."""

    def copy(self) -> None:
        """Write everything to the sink."""
        with names_if_full():
            self._file.seek(0)
        while data := self._file.read(_CHUNK):
            self._sink.write(data)


class ParquetExporter(Exporter):
    """Writes each table as a Parquet file."""

    SUFFIX: ClassVar[str] = ".parquet"
    HAS_DICTIONARIES: ClassVar[bool] = True

    def new_file(self, stream: Any, schema: Any) -> Any:
        """Return a new file of a table."""
        import pyarrow.parquet as pq

        is_dictionary = self._pa.types.is_dictionary
        repeating = [each.name for each in schema if is_dictionary(each.type) or each.name in _REPEATING]
        return pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=repeating,
            column_encoding=dict.fromkeys(_DIFFERENCES.intersection(schema.names), "DELTA_BINARY_PACKED"),
            store_schema=False,  # with it, texts are read as dictionaries, which Spark and others refuse
        )


class ArrowExporter(Exporter):
    """Writes each table as an Arrow IPC file."""

    SUFFIX: ClassVar[str] = ".arrow"

    def new_file(self, stream: Any, schema: Any) -> Any:
        """Return a new file of a table."""
        ipc = self._pa.ipc
        return ipc.new_file(stream, schema, options=ipc.IpcWriteOptions(compression="lz4"))


class CsvExporter(Exporter):
    """Writes each table as a CSV file, whose first line names the columns."""

    SUFFIX: ClassVar[str] = ".csv"

    def new_file(self, stream: Any, schema: Any) -> Any:
        """Return a new file of a table."""
        from pyarrow import csv

        return csv.CSVWriter(stream, schema)
