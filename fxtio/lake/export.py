"""Tables of other systems over the files of a lake, which stay where they are: Delta Lake, Iceberg and DuckLake."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import date
from functools import partial
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from fxtio.errors import FxtioError, shown
from fxtio.lake.ingest import LakeError
from fxtio.lake.layout import TABLES, TRACES, schema_of
from fxtio.lake.store import Store
from fxtio.timeline.sql import sql_text

_CATALOG = "catalog://"
_NAMESPACE = "lake"
_FIRST_DAY = date(1970, 1, 1)


class Exported(NamedTuple):
    """Tells what an export has done to the tables of another system.

    Attributes:
        added: the number of traces that were added.
        removed: the number of those that the lake does not have any more.
    """

    added: int
    removed: int


class _File(NamedTuple):
    """A file of a lake.

    Attributes:
        url: its path, absolute, or its URL.
        name: its name, relative to its table.
        size: its size in bytes.
        modified: the time of its last change in milliseconds since the Unix epoch.
        places: the columns in the names of its folders.
        rows: returns the number of its rows, for which it is read.
    """

    url: str
    name: str
    size: int
    modified: int
    places: dict[str, str]
    rows: Callable[[], int]


class _Tables(ABC):
    """Tables of another system; they know a file by the id of its trace, and its size."""

    @abstractmethod
    def sizes(self, table: str) -> dict[str, int]:
        """Return the sizes of the files of a table by the ids of their traces; the table is made if there is none."""

    @abstractmethod
    def change(self, table: str, added: Sequence[_File], kept: Sequence[_File], removed: Set[str]) -> None:
        """Let a table have further files, and others not any more.

        Args:
            table: the table.
            added: the files that it does not have yet.
            kept: those that it has and keeps.
            removed: the ids of traces whose files are not there any more, or are others.
        """


def export(store: Store, names: Mapping[str, Sequence[str]], kind: str, target: str | None) -> Exported:
    """Let the tables of another system have the files of the traces of a lake, and no others.

    Args:
        store: the files of the lake.
        names: the names of the files of each table.
        kind: one of `KINDS`.
        target: where the system has its catalog; None if that is in the lake.

    Raises:
        LakeError: a package is missing, the target makes no sense, or the system refuses the files.
    """
    if kind not in KINDS:
        raise LakeError(f"{shown(kind)} is not a kind of tables; one of {', '.join(KINDS)}")
    if (target is None) != (kind == "delta"):
        raise LakeError(
            f"{kind} needs a target" if target is None else "delta takes no target: its logs are in the lake"
        )
    if kind == "ducklake" and "://" in store.url:
        raise LakeError("ducklake has tables over folders only; for an object store, take delta or iceberg")
    exported = Exported(0, 0)
    with _errors(kind):
        tables = KINDS[kind](store.url if target is None else target)
        for table in (*TABLES, TRACES):  # a trace has its row when its other files are there
            files = {PurePosixPath(each.name).stem: each for each in _files(store, table, names[table])}
            known = tables.sizes(table)
            kept = {identity for identity, file in files.items() if known.get(identity) == file.size}
            new, removed = files.keys() - kept, known.keys() - kept  # what was dropped and added again is both
            exported = Exported(len(new), len(removed))  # the last table has a file for each trace
            if new or removed:
                added, others = ([files[each] for each in sorted(some)] for some in (new, kept))
                tables.change(table, added, others, removed)
    return exported


@contextmanager
def _errors(kind: str) -> Iterator[None]:
    """Turn errors of the package of a system into those of a lake."""
    try:
        yield
    except ImportError as error:
        raise LakeError(f"tables of {kind} need {error.name}; install {_PACKAGES[kind]}") from None
    except (FxtioError, OSError):
        raise
    except Exception as error:  # these packages have errors of many kinds
        reason = str(error).partition("\n")[0]
        raise LakeError(f"{kind}: {reason or type(error).__name__}") from error


def _files(store: Store, table: str, names: Sequence[str]) -> Iterator[_File]:
    """Yield the files of a table of a lake, whose names are given."""
    from pyarrow import fs

    url = store.url if "://" in store.url else str(Path(store.url).absolute())
    system, place = fs.FileSystem.from_uri(url)
    for name, info in zip(names, system.get_file_info([f"{place}/{name}" for name in names]), strict=True):
        if info.type == fs.FileType.File:  # otherwise it was deleted meanwhile
            parts = dict(part.split("=", 1) for part in PurePosixPath(name).parts[1:-1])
            places = {column: unquote(text) for column, text in parts.items()}
            modified = (info.mtime_ns or 0) // 1_000_000
            inner = name.removeprefix(f"{table}/")
            yield _File(f"{url}/{name}", inner, info.size, modified, places, partial(_count_rows, system, info.path))


def _count_rows(system: Any, path: str) -> int:
    import pyarrow.parquet as pq

    count: int = pq.read_metadata(path, filesystem=system).num_rows
    return count


def _by_id(paths: Iterable[str], sizes: Iterable[int]) -> dict[str, int]:
    return dict(zip((PurePosixPath(each).stem for each in paths), sizes, strict=True))


def _partitions(table: str) -> list[str]:
    """Return the columns of a table that are in the names of its folders."""
    return [] if table == TRACES else ["day", "program"]


class _DeltaTables(_Tables):
    """Tables of Delta Lake: each has its log in the folder of its files, as other places cannot name them."""

    def __init__(self, url: str) -> None:
        from deltalake import DeltaTable

        if "://" not in url and unquote(place := str(Path(url).absolute())) != place:
            raise LakeError(f"delta cannot have tables in {place}: it takes % with two digits for another character")
        self._class = DeltaTable
        self._url = url

    def _open(self, table: str) -> Any:
        partitions = _partitions(table) or None
        return self._class.create(f"{self._url}/{table}", schema_of(table), mode="ignore", partition_by=partitions)

    def sizes(self, table: str) -> dict[str, int]:
        import pyarrow as pa

        files = pa.table(self._open(table).get_add_actions(flatten=True))
        return _by_id(files["path"].to_pylist(), files["size_bytes"].to_pylist())

    def change(self, table: str, added: Sequence[_File], kept: Sequence[_File], removed: Set[str]) -> None:
        from deltalake.transaction import AddAction

        opened = self._open(table)
        if removed:
            opened.repair()  # which removes what is not there
        actions = [
            AddAction(each.name, each.size, each.places, each.modified, True, json.dumps({"numRecords": each.rows()}))
            for each in added
        ]
        if actions:
            opened.create_write_transaction(actions, "append", opened.schema(), _partitions(table) or None)


class _IcebergTables(_Tables):
    """Tables of Iceberg, in a folder with a catalog of its own, or in one that the settings of pyiceberg name.

    A table is changed as it was when its sizes were taken: if another export has changed it since, the catalog refuses.
    """

    def __init__(self, target: str) -> None:
        self._opened: dict[str, Any] = {}
        self._namespace = _NAMESPACE
        if target.startswith(_CATALOG):
            from pyiceberg.catalog import load_catalog

            name, _, namespace = target.removeprefix(_CATALOG).partition("/")
            self._namespace = namespace or _NAMESPACE
            self._catalog: Any = load_catalog(name)
        else:
            from pyiceberg.catalog.sql import SqlCatalog

            folder = Path(target).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            self._catalog = SqlCatalog(_NAMESPACE, uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
        self._catalog.create_namespace_if_not_exists(self._namespace)

    def _open(self, table: str) -> Any:
        from pyiceberg.table import TableProperties

        name = f"{self._namespace}.{table}"
        if not self._catalog.table_exists(name):
            with self._catalog.create_table_transaction(name, schema_of(table)) as transaction:
                with transaction.update_spec() as spec:
                    for column in _partitions(table):
                        spec.add_identity(column)
                names = transaction.table_metadata.schema().name_mapping.model_dump_json()  # the files have no numbers
                transaction.set_properties(
                    {
                        TableProperties.DEFAULT_NAME_MAPPING: names,
                        TableProperties.COMMIT_NUM_RETRIES: "0",  # or files were added again after another export
                    }
                )
        return self._catalog.load_table(name)

    def sizes(self, table: str) -> dict[str, int]:
        self._opened[table] = self._open(table)
        files = [each.file for each in self._opened[table].scan().plan_files()]
        return _by_id((each.file_path for each in files), (each.file_size_in_bytes for each in files))

    def change(self, table: str, added: Sequence[_File], kept: Sequence[_File], removed: Set[str]) -> None:
        opened = self._opened[table]
        with opened.transaction() as transaction:
            update = transaction.update_snapshot()
            with update.overwrite() if removed else update.fast_append() as snapshot:
                for each in opened.scan().plan_files() if removed else ():
                    if PurePosixPath(each.file.file_path).stem in removed:
                        snapshot.delete_data_file(each.file)
                for file in added:
                    snapshot.append_data_file(self._data_file(file, opened.spec().spec_id))

    def _data_file(self, file: _File, spec: int) -> Any:
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        values: list[Any] = [*file.places.values()]
        if values:  # a date is the number of days
            values[0] = (date.fromisoformat(values[0]) - _FIRST_DAY).days
        result = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.url if "://" in file.url else f"file://{file.url}",
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            record_count=file.rows(),
            file_size_in_bytes=file.size,
        )
        result.spec_id = spec
        return result


class _DuckLakeTables(_Tables):
    """Tables of DuckLake."""

    def __init__(self, target: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        package = find_spec("duckdb_extension_ducklake")
        if package is not None and package.origin is not None:
            folder = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}"
            self._connection.execute(f"load {sql_text(str(folder / 'ducklake.duckdb_extension'))}")
        self._connection.execute(f"attach {sql_text(f'ducklake:{target}')} as {_NAMESPACE}")

    def _make(self, table: str) -> None:
        self._connection.register("empty", schema_of(table).empty_table())
        self._connection.execute(f"create table if not exists {_NAMESPACE}.{table} as from empty")
        if columns := _partitions(table):
            self._connection.execute(f"alter table {_NAMESPACE}.{table} set partitioned by ({', '.join(columns)})")

    def sizes(self, table: str) -> dict[str, int]:
        query = "select table_name from duckdb_tables() where database_name = ?"
        if (table,) not in self._connection.execute(query, [_NAMESPACE]).fetchall():
            self._make(table)
        columns = "data_file, data_file_size_bytes"
        files = self._connection.execute(f"select {columns} from ducklake_list_files('{_NAMESPACE}', '{table}')")
        return {PurePosixPath(path).stem: size for path, size in files.fetchall()}

    def change(self, table: str, added: Sequence[_File], kept: Sequence[_File], removed: Set[str]) -> None:
        self._connection.begin()
        if removed:  # it has no way to give up files without reading them
            self._connection.execute(f"drop table {_NAMESPACE}.{table}")
            self._make(table)
        options = "allow_missing => true, ignore_extra_columns => true"
        for file in (*kept, *added):
            place = ", hive_partitioning => true" if file.places else ""
            self._connection.execute(
                f"call ducklake_add_data_files('{_NAMESPACE}', '{table}', ?, {options}{place})", [file.url]
            )
        self._connection.commit()


KINDS: dict[str, type[Any]] = {"delta": _DeltaTables, "iceberg": _IcebergTables, "ducklake": _DuckLakeTables}
"""The systems whose tables can be made."""

_PACKAGES = {"delta": "deltalake", "iceberg": "'pyiceberg[pyarrow,sql-sqlite]'", "ducklake": "duckdb"}
