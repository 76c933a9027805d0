"""The class `Lake`: adds traces, lists and removes them, and answers questions with DuckDB."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.errors import require_type, shown
from fxtio.exchange.opening import open_timeline
from fxtio.labels import checked
from fxtio.lake.catalog import catalog_of, keep_added
from fxtio.lake.export import Exported, export
from fxtio.lake.ingest import LEFT_OVER_NS, LakeError, Outcome, add, expanded
from fxtio.lake.layout import (
    KEPT,
    MARKER,
    TABLES,
    TRACES,
    VERSION,
    identity_in,
    identity_of,
    is_identity,
    name_of,
    schema_of,
)
from fxtio.lake.questions import Contents, Diff, Hits, Part, QuestionError, Ranking, Side, comparisons, hits, rankings
from fxtio.lake.questions.contents import contents
from fxtio.lake.questions.parts import FULFILLS, Ask, fulfills, older
from fxtio.lake.store import UNFINISHED, Entry, open_store
from fxtio.report import counted, well_formed
from fxtio.timeline.comparison import Comparison, Floor, compare, run_and_program
from fxtio.timeline.sql import QueryError, query_errors, sql_text
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from pyarrow import Table as ArrowTable


_SHOWN = 5
"""The most damaged files that a warning names."""

_SELECTED = 16
"""The most tables of some traces, each of which has a list of files."""

_KEPT_AT_ONCE = 2_000
"""After this many traces that were added, their rows are kept, so that memory is bounded."""


class LakeWarning(UserWarning):
    """A warning: files of a lake are damaged, and left out."""


class Lake:
    """A lake of traces in a folder or an object store.

    Args:
        url: the folder, or a URL such as `s3://bucket/lake`; keys and endpoints come from the environment.
        create: make a lake there, if there is none.

    Attributes:
        url: the folder or URL.

    Raises:
        LakeError: there is no lake, or one of a later layout; or pyarrow is not installed.
        StoreError, OSError: it cannot be reached.
        TypeError: an argument is of a wrong type.
    """

    def __init__(self, url: str | os.PathLike[str], *, create: bool = False) -> None:
        require_type(url, (str, os.PathLike), "a lake is a path or a URL")
        try:
            import pyarrow as pa  # noqa: F401  # its files are Parquet
        except ImportError:
            raise LakeError("a lake needs pyarrow; install fxtio[lake]") from None
        self.url = os.fspath(url)
        self._store = open_store(self.url, create=create)
        marker = self._store.read(MARKER)
        has_others = marker is None and create and next(self._store.names(""), None) is not None
        if has_others:
            marker = self._store.read(MARKER)  # another writer may have made the lake meanwhile
        if marker is None and create:
            if has_others:
                raise LakeError(f"{self.url} has other files; a lake is made in a folder that is empty or not there")
            with self._store.workspace() as folder:
                (folder / MARKER).write_text(json.dumps({"version": VERSION}) + "\n")
                self._store.put(MARKER, folder / MARKER)
        elif marker is None:
            raise LakeError(f"{self.url} is not a lake: it has no file {MARKER}; `fxtio lake add` makes one")
        elif _version_of(marker) != VERSION:
            raise LakeError(f"{self.url} has the layout {_version_of(marker)}; this version of fxtio knows {VERSION}")
        self._connection: DuckDBPyConnection | None = None
        self._ready: set[str] = set()  # the tables that the connection has
        self._selected: dict[tuple[str, str], str] = {}  # further ones, of some traces, by table and condition on these
        self._ask = Ask(self._run, self._selection)
        self._rows: ArrowTable | None = None  # those of `traces`, which belong to the connection

    def add(
        self,
        traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        labels: Mapping[str, str] | Iterable[str] = (),
        jobs: int = 1,
        keep: bool = False,
    ) -> Iterator[Outcome]:
        """Add traces of any format while what becomes of each is asked for, and yield that.

        What has the same content as a trace of the lake is not added again, whatever its name.  A trace that cannot be
        read is refused, and the others are added.  Several programs may add traces at once; one that is killed has
        added some, and can be run again.

        Args:
            traces: one, or several: files, directories that are traces, and folders of which all files are taken.
            labels: labels for all of them, by name or as `NAME=TEXT`; they count more than those that a trace has.
            jobs: how many processes read traces; with 1 it is this one.  Others import the main module of the program,
                as those of `multiprocessing` do.
            keep: store the traces themselves in the lake, too; `url` is where they are there.  A trace that the lake
                has already stays as it is.

        Raises:
            LakeError: one of these processes was killed.
            TypeError, ValueError: a label makes no sense.
        """
        paths = [traces] if isinstance(traces, str | os.PathLike) else traces
        added: dict[Entry, Mapping[str, Any]] = {}
        for outcome in add(self.url, expanded(paths), checked(labels), jobs, keeps=keep):
            self._connection = None  # what was added is asked from now on
            if outcome.entry is not None:
                added[outcome.entry] = outcome.row
            if len(added) >= _KEPT_AT_ONCE:
                keep_added(self._store, added)
                added.clear()
            yield outcome
        keep_added(self._store, added)

    def ids(self) -> set[str]:
        """Return the ids of all traces."""
        return {*filter(None, map(identity_in, self._store.names(TRACES)))}

    def drop(self, *identities: str) -> None:
        """Remove the traces with these ids; an id of no trace does nothing.

        The row of each is removed first, so that nobody who asks the lake sees a part of it.

        Raises:
            LakeError: a text is no id.
            TypeError: what is given is no text.
        """
        for each in identities:
            require_type(each, (str,), "the id of a trace is a string")
            if not is_identity(each):
                raise LakeError(f"{shown(each)} is not the id of a trace")
        self._connection = None
        dropped = {*identities}
        for identity in dropped:
            self._store.delete(name_of(TRACES, identity))
        for folder in (*TABLES, KEPT) if dropped else ():
            for name in [*self._store.names(folder)]:
                if identity_in(name) in dropped:
                    self._store.delete(name)

    def drop_older(self, age: str, part: Part | None = None) -> int:
        """Remove traces that began longer ago than a time such as `30d`, and return their number.

        Those whose wall clock is not known stay.  What killed writers left over is removed as well: files that are
        older than a day and belong to no trace.

        Args:
            age: the time.
            part: only traces of this part.

        Raises:
            QuestionError: the time makes no sense, or a condition is about slices.
            QueryError: DuckDB is not installed.
        """
        found = older(self._ask, age=age, part=_known(part))
        self.drop(*found)
        self._drop_left_over(time.time_ns() - LEFT_OVER_NS)
        return len(found)

    def _drop_left_over(self, before: int) -> None:
        """Remove files without a trace that were written before a time."""
        self._store.clear(before)
        files = (each for folder in (*TABLES, KEPT) for each in self._store.entries(folder))
        old = [each.name for each in files if each.changed < before and identity_in(each.name)]
        known = self.ids()  # after the files: the row of a trace is written last
        for name in old:
            entry = self._store.entry(name)  # a writer may have taken the place of one that was killed
            if identity_in(name) not in known and entry is not None and entry.changed < before:
                self._store.delete(name)

    def export(self, kind: str, target: str | os.PathLike[str] | None = None) -> Exported:
        """Let tables of another system have the files of this lake, which stay where they are.

        The tables have the names and columns of those of the lake.  Called again, it adds what the lake got, and
        removes what it lost, also after one that was interrupted.  Of two at once to the same tables, one may be
        refused.

        Args:
            kind: `delta`, `iceberg` or `ducklake`; each needs its package: deltalake, pyiceberg, or duckdb with the
                extension ducklake.
            target: for `iceberg` a folder for the tables and their catalog, or `catalog://NAME/NAMESPACE` for one that
                the settings of pyiceberg name; for `ducklake` its database.  Tables of Delta Lake are folders of the
                lake itself, such as `LAKE/slices`.

        Raises:
            LakeError: the package is missing, the kind or target makes no sense, or the system refuses the files.
            StoreError, OSError: files cannot be read or written.
        """
        self._connection = None  # others may have added traces
        names = {table: self._files(table) for table in TABLES}
        names[TRACES] = [name_of(TRACES, each) for each in self._traces()["id"].to_pylist()]
        return export(self._store, names, kind, None if target is None else os.fspath(target))

    # Questions.

    def sql(self, query: str) -> DuckDBPyRelation:
        """Run a query over the tables `traces`, `slices` and so on, see `fxtio.lake.layout`, with DuckDB.

        A table has what was in the lake when it was first used; what this object adds or removes later is there, too.

        Raises:
            QueryError: DuckDB refuses the query, or is not installed.
            TypeError: the query is no string.
        """
        require_type(query, (str,), "a query is a string")
        words = set(re.findall(r"\w+", query.lower()))
        for table in (TRACES, *(table for table in TABLES if table in words)):
            self._make(table)
        with query_errors((TRACES, *TABLES)):
            result: DuckDBPyRelation | None = self._connected().sql(query)
        if result is None:
            raise QueryError("the query has no result; begin it with select, from, describe or summarize")
        return result

    def traces(self, part: Part | None = None, *, limit: int | None = 20) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of the table `traces` of a part, the latest first, and the number of further ones."""
        check_types(limit=limit)
        return rankings.listing(self._ask, part=_known(part), limit=limit)

    def top(self, by: str = "name", *, part: Part | None = None, sort: str = "self", limit: int | None = 20) -> Ranking:
        """Rank slices of all traces by their time, see `fxtio.lake.questions.rankings.ranking`."""
        check_types(by=by, sort=sort, limit=limit)
        return rankings.ranking(self._ask, by=by, part=_known(part), sort=sort, limit=limit)

    def worst(
        self, pattern: str | None = None, *, part: Part | None = None, sort: str = "max", limit: int | None = 20
    ) -> Ranking:
        """Rank traces by the times of their slices, see `fxtio.lake.questions.rankings.worst`."""
        check_types(pattern=pattern, sort=sort, limit=limit)
        return rankings.worst(self._ask, pattern=pattern, part=_known(part), sort=sort, limit=limit)

    def find(
        self,
        pattern: str | None = None,
        *,
        part: Part | None = None,
        longer: int | None = None,
        shorter: int | None = None,
        order: str = "longest",
        limit: int | None = 20,
    ) -> Hits:
        """Find single slices, see `fxtio.lake.questions.hits.find`; durations are nanoseconds."""
        check_types(pattern=pattern, longer=longer, shorter=shorter, order=order, limit=limit)
        chosen = _known(part)
        return hits.find(
            self._ask, pattern=pattern, part=chosen, longer=longer, shorter=shorter, order=order, limit=limit
        )

    def longest(self, by: str, key: str | None, *, part: Part | None = None) -> dict[str, Any] | None:
        """Return the longest slice of a group of a ranking, see `fxtio.lake.questions.hits.longest`."""
        check_types(by=by)
        return hits.longest(self._ask, by=by, key=key, part=_known(part))

    def diff(
        self,
        before: Part,
        after: Part,
        *,
        last: int | None = 100,
        floor: Floor | None = None,
        column: str = "duration",
    ) -> Diff:
        """Compare the runs of two parts of the lake, see `fxtio.lake.questions.comparisons.diff`."""
        check_types(last=last)
        return comparisons.diff(
            self._ask, before=_known(before), after=_known(after), last=last, floor=floor, column=column
        )

    def check(
        self,
        traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        part: Part | None = None,
        last: int | None = 20,
        floor: Floor | None = None,
        column: str = "duration",
    ) -> Comparison:
        """Compare traces with the latest runs of the same program in the lake.

        Args:
            traces: one, or several; what of them is in the lake already is not compared with itself.
            part: the part of the lake with which they are compared.
            last: the most runs of it, the latest ones; None for all.
            floor: the smallest difference that matters.
            column: `duration` or `self_time`.

        Returns:
            The differences; what is slower, more or gone is worse than in the lake.

        Raises:
            QuestionError: the lake has no such runs, or the traces are of several programs.
            FxtioError, OSError: a trace cannot be read.
        """
        runs, programs, paths = [], [], [traces] if isinstance(traces, str | os.PathLike) else [*traces]
        for path in paths:
            with open_timeline(path) as timeline:
                run, program = run_and_program(timeline, column)
                runs.append(run)
                programs.append(program)
        before = self.baseline(paths, programs, part=part, last=last, column=column)
        return compare(before.runs, runs, floor)

    def baseline(
        self,
        traces: Iterable[str | os.PathLike[str]],
        programs: Iterable[str],
        *,
        part: Part | None = None,
        last: int | None = 20,
        column: str = "duration",
    ) -> Side:
        """Return the runs with which traces are compared: the latest ones of their program, but not themselves.

        Args:
            traces: the traces.
            programs: their programs, as `fxtio.timeline.comparison.run_and_program` returns them.
            part: the part of the lake.
            last: the most runs, None for all.
            column: `duration` or `self_time`.

        Raises:
            QuestionError: the lake has no such runs, or the traces are of several programs.
            OSError: a trace cannot be read.
        """
        check_types(last=last)
        different = {*map(well_formed, programs)}
        if len(different) != 1:
            raise QuestionError(f"traces of one program are compared, not of {', '.join(sorted(different)) or 'none'}")
        known = [identity_of(Path(each))[0] for each in traces]
        chosen = _known(part)
        return comparisons.side(
            self._ask, part=chosen, last=last, column=column, program=different.pop(), without=known
        )

    def info(self, *, part: Part | None = None, limit: int | None = 20) -> Contents:
        """Return what is in the lake, and what is there and no part of it, see `fxtio.lake.questions.contents`."""
        check_types(limit=limit)
        ids, names, unfinished = self.ids(), self._store.names(""), self._store.names(UNFINISHED)
        return contents(self._ask, part=_known(part), ids=ids, names=names, unfinished=unfinished, limit=limit)

    def _connected(self) -> DuckDBPyConnection:
        """Return the database, which has no table yet when it is new."""
        if self._connection is None:
            self._ready.clear()
            self._selected.clear()
            self._rows = None
            try:
                import duckdb
            except ImportError as error:
                raise QueryError(f"questions to a lake need {error.name}; install fxtio[lake]") from None
            self._connection = duckdb.connect()
            self._connection.execute("set autoinstall_known_extensions = false")  # nothing comes from the network
            self._connection.execute("set parquet_metadata_cache = true")
            types: list[Any] = [*["varchar"] * 3, "bigint", "double", "varchar"]
            self._connection.create_function(FULFILLS, fulfills, types, "boolean", null_handling="special")  # type: ignore[call-overload]
        return self._connection

    def _run(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query over `traces`, and tables that `_selection` returned.

        They are computed at once, as a relation prepares a query twice, which takes long for thousands of files.
        """
        self._make(TRACES)
        with query_errors((TRACES, *TABLES)):
            found = self._connected().execute(query)
            names = [name for name, *_ in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def _selection(self, table: str, condition: str) -> str:
        """Return the name of a table of the rows of the traces that meet a condition on rows of `traces`."""
        self._connected()
        key = table, condition
        if key not in self._selected:
            is_full = len(self._selected) >= _SELECTED
            name = self._selected.pop(next(iter(self._selected))) if is_full else f"selected_{len(self._selected)}"
            self._ready.discard(name)
            self._selected[key] = name
        self._make(table, self._selected[key], condition)
        return self._selected[key]

    def _make(self, table: str, name: str | None = None, condition: str = "true") -> None:
        """Let the database have a table, by its name or another one, of all traces or of some, unless it has it."""
        connection, name, schema = self._connected(), name or table, schema_of(table)
        if name in self._ready:
            return
        if table == TRACES:
            connection.register(name, self._traces())
        elif files := self._files(table, condition):
            with query_errors():
                self._store.make_view(connection, name, files, schema.names)
        else:
            connection.register(f"files_of_{name}", schema.empty_table())
            connection.execute(f"create or replace view {name} as from files_of_{name}")
        self._ready.add(name)

    def _traces(self) -> ArrowTable:
        """Return the table `traces`."""
        connection = self._connected()
        if self._rows is None:
            self._rows, damaged = catalog_of(self._store, connection)
            self._tell_damage(damaged)
        return self._rows

    def _files(self, table: str, condition: str = "true") -> list[str]:
        """Return the names of the files of a table that are whole, of the traces that meet a condition."""
        entries = f"select id, unnest(map_entries(files)) as file from {TRACES} where {condition}"
        found = self._run(f"select id, file.value as size from ({entries}) where file.key = {sql_text(table)}")
        sizes = {row["id"]: row["size"] for row in found}
        names, whole = [], set()
        for entry in self._store.entries(table) if sizes else ():
            identity = identity_in(entry.name)
            if identity is not None and sizes.get(identity) == entry.size:
                names.append(entry.name)
                whole.add(identity)
        self._tell_damage(sorted(f"{table} of {identity}" for identity in sizes.keys() - whole))
        return sorted(names)

    def _tell_damage(self, damaged: Sequence[str]) -> None:
        """Warn of files that are left out."""
        if damaged:
            some = ", ".join(damaged[:_SHOWN]) + (" and others" if len(damaged) > _SHOWN else "")
            text = f"{self.url}: {counted(len(damaged), 'file')} damaged or missing, and left out: {some}"
            warnings.warn(f"{text}; `fxtio lake add` of the same traces repairs that", LakeWarning, stacklevel=2)


def _known(part: Part | None) -> Part:
    """Return a part of a lake, all of it for None."""
    require_type(part, (Part, type(None)), "a part of a lake is a fxtio.lake.questions.Part or None")
    return part or Part()


def _version_of(marker: bytes) -> Any:
    """Return the version of the layout that a marker says; None if it says nothing."""
    try:
        return json.loads(marker)["version"]
    except (ValueError, TypeError, KeyError):
        return None
