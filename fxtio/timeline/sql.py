"""SQL over a timeline, by DuckDB: the tables of the timeline, and views that are named and shaped like Perfetto's.

DuckDB comes with the extra `sql`.  Columns are passed as Arrow arrays: numbers are not copied.  The arrows between
slices are made here, from points of flows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fxtio.errors import FxtioError, require_type
from fxtio.table import Optional, Table
from fxtio.timeline.schema import FLOW_TYPES, TABLES, WHOLE_KINDS, ArgumentKind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from fxtio.timeline.timeline import Timeline


class QueryError(FxtioError):
    """A query that DuckDB refuses."""


@contextmanager
def query_errors(tables: Iterable[str] | None = None) -> Iterator[None]:
    """Turn errors of DuckDB, of which some come only when rows are fetched, into `QueryError` in a `with` block.

    Args:
        tables: the tables that a message proposes; by default those of a timeline.
    """
    import duckdb

    known = {RAW.get(table, table) for table in TABLES} | {*VIEWS} if tables is None else {*tables}
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:  # the latter for a text of a damaged file
        raise QueryError(_ABSENT.sub(partial(_absence, sorted(known)), str(error))) from None
    except FxtioError:
        raise
    except (OverflowError, ValueError) as error:  # of pyarrow, for values such as 'infinity'::date
        raise QueryError(f"a value has no form in Python ({error}); make it a text: value::varchar") from None


def sql_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


_ABSENT = re.compile(r'(Table|Function) with name (.+) does not exist!\nDid you mean "([^"]*)".*')
"""What DuckDB says about a name that is not there; it proposes the nearest of its own names, however far that is."""

_SIMILAR = 0.76
"""How similar a name must be to be proposed: `foo` is less similar to `floor`, and `functions` to `collections`."""


def _absence(tables: Sequence[str], found: re.Match[str]) -> str:
    """Return the sentence that a name is not there, with a similar one, or with the names of the tables."""
    kind, name, proposed = found.groups()
    similar = get_close_matches(name.lower(), [*tables, *MACROS, proposed], n=1, cutoff=_SIMILAR)
    hint = f"\nThe tables are {', '.join(tables)}." if kind == "Table" else ""
    if similar:
        hint = f'\nDid you mean "{similar[0]}"?'
    return f"{kind} with name {name} does not exist!{hint}"


class View(NamedTuple):
    """A view or macro in SQL.

    Attributes:
        sql: the statement that creates it.
        meaning: what it shows.
    """

    sql: str
    meaning: str

    @property
    def sources(self) -> list[str]:
        """The names after `from` and `join`: of the tables and other views that it uses, among others."""
        return re.findall(r"\b(?:from|join) (\w+)", self.sql)


VIEWS: dict[str, View] = {
    "process": View(
        "create view process as select row as upid, pid, name from processes",
        "processes",
    ),
    "thread": View(
        "create view thread as select row as utid, tid, process as upid, name from threads",
        "threads",
    ),
    "track": View(
        "create view track as select row as id, kind as type, name, nullif(process, -1) as upid,"
        " nullif(thread, -1) as utid from tracks",
        "tracks of all kinds",
    ),
    "thread_track": View(
        "create view thread_track as select id, name, utid from track where type = 'thread'",
        "tracks of threads",
    ),
    "process_track": View(
        "create view process_track as select id, name, upid from track where type in ('process', 'async')",
        "tracks of processes, and of async operations",
    ),
    "counter_track": View(
        "create view counter_track as select row as id, name, id as counter_id, nullif(process, -1) as upid"
        " from tracks where kind = 'counter'",
        "tracks of counters",
    ),
    "slice": View(
        "create view slice as select id, start as ts, if(state = 'open', -1, duration) as dur, track as track_id, name,"
        " category, depth, nullif(parent, -1) as parent_id, event as arg_set_id, self_time, state from slices"
        " union all select (select count(*) from slices) + i.row, i.time, 0, i.track, i.name, i.category,"
        " ifnull(s.depth + 1, 0), nullif(i.slice, -1), i.event, 0, 'closed'"
        " from instants i left join slices s on s.id = i.slice",
        "slices and, with a duration of 0, instants; the duration of an open slice is -1",
    ),
    "thread_slice": View(
        "create view thread_slice as select slice.*, thread.utid, thread.tid, thread.name as thread_name,"
        " process.upid, process.pid, process.name as process_name from slice"
        " join thread_track on slice.track_id = thread_track.id join thread using (utid)"
        " left join process using (upid)",
        "slices of threads, with the names of thread and process",
    ),
    "process_slice": View(
        "create view process_slice as select slice.*, process.upid, process.pid, process.name as process_name"
        " from slice join process_track on slice.track_id = process_track.id left join process using (upid)",
        "slices of processes and async operations, with the name of the process",
    ),
    "counter": View(
        "create view counter as select row as id, time as ts, track as track_id, value, event as arg_set_id"
        " from counters",
        "values of counters",
    ),
    "flow": View(
        "create view flow as select row as id, from_slice as slice_out, to_slice as slice_in from arrows"
        " where from_slice >= 0 and to_slice >= 0",
        "arrows from slice to slice",
    ),
    "sched_slice": View(
        "create view sched_slice as select row as id, start as ts, duration as dur, cpu, thread as utid,"
        " state as end_state, priority from scheduling",
        "which thread ran on which processor",
    ),
    "sched": View("create view sched as select * from sched_slice", "as `sched_slice`"),
    "args": View(
        "create view args as select ifnull(s.event, a.event) as arg_set_id, a.name as key, a.name as flat_key,"
        " a.integer as int_value, a.text as string_value, a.number as real_value,"
        " case a.type when 'integer' then 'int' when 'text' then 'string' when 'number' then 'real'"
        " when 'boolean' then 'bool' when 'unsigned' then 'uint' else a.type::varchar end as value_type,"
        " case a.type when 'text' then a.text::varchar when 'number' then a.number::varchar when 'null' then 'null'"
        " when 'boolean' then if(a.bits = 0, 'false', 'true') when 'integer' then a.integer::varchar"
        " when 'pointer' then '0x' || lower(to_hex(a.bits)) else a.bits::varchar end as display_value"
        " from arguments a left join (select event, end_event from slices where end_event >= 0) s"
        " on s.end_event = a.event",
        "arguments; those of the start and the end of a slice have the same `arg_set_id`",
    ),
}
"""The views, named as in Perfetto."""

MACROS: dict[str, View] = {
    "ancestor_slice": View(
        "create macro ancestor_slice(slice_id) as table with recursive around as ("
        " select parent_id as id from slice where id = slice_id union all"
        " select slice.parent_id from slice join around using (id))"
        " select slice.* from slice join around using (id)",
        "the slices around a slice",
    ),
    "descendant_slice": View(
        "create macro descendant_slice(slice_id) as table with recursive within as ("
        " select id from slice where parent_id = slice_id union all"
        " select slice.id from slice join within on slice.parent_id = within.id)"
        " select slice.* from slice join within using (id)",
        "the slices within a slice, however deep",
    ),
    "extract_arg": View(
        "create macro extract_arg(set_id, arg_name) as"
        # The arguments of a macro are replaced by expressions, whose columns must not be those of the inner query.
        " (select last(_text) from (select arg_set_id as _set, key as _key, display_value as _text from args)"
        " where _set = set_id and _key = arg_name)",
        "the value of an argument as text, null without one",
    ),
}
"""Functions, named as in Perfetto."""

RAW = {"args": "arguments"}
"""The names of the tables of a timeline that a view has."""

_NAMES = {**dict.fromkeys([*(RAW.get(name, name) for name in TABLES), "arrows"]), **VIEWS, **MACROS}
"""The tables, views and functions, each of which is made when it is needed."""


# What keeps a query within the trace.
_CONFINED = (
    "memory_limit = '2GB'",
    "temp_directory = ''",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",  # last: nothing can be set after it
)


class Database:
    """A DuckDB database with the tables and views of a timeline, each made when a query first uses its name.

    Args:
        timeline: the timeline.

    Raises:
        QueryError: DuckDB or pyarrow is not installed.
    """

    def __init__(self, timeline: Timeline) -> None:
        try:
            import duckdb
            import pyarrow as pa  # noqa: F401  # tables are passed as Arrow arrays
        except ImportError as error:
            raise QueryError(f"queries need {error.name}; install fxtio[sql]") from None
        self._timeline = timeline
        self._connection: DuckDBPyConnection = duckdb.connect()
        # Nothing is fetched from the network.
        self._connection.execute("set autoinstall_known_extensions = false")
        self._ready: set[str] = set()
        self._is_confined = False

    def confine(self) -> None:
        """Let queries use the trace and some memory from now on: no files, network, extensions, variables, settings."""
        for setting in () if self._is_confined else _CONFINED:
            self._connection.execute(f"set {setting}")
        self._is_confined = True

    def query(self, sql: str) -> DuckDBPyRelation:
        """Run a query, and return its result, which DuckDB computes when it is fetched.

        Raises:
            QueryError: DuckDB refuses the query.
            TypeError: the query is no string.
        """
        require_type(sql, (str,), "a query is a string")
        words = set(re.findall(r"\w+", sql.lower()))
        self._prepare([name for name in _NAMES if name in words])
        with query_errors():
            result: DuckDBPyRelation | None = self._connection.sql(sql)
        if result is None:
            raise QueryError("the query has no result; begin it with select, from, describe or summarize")
        return result

    def _prepare(self, names: list[str]) -> None:
        """Make tables, views and macros, and what they need; all tables in one reading of the trace."""
        needed: dict[str, None] = {}
        for name in names:
            self._need(name, needed)
        new = [name for name in needed if name not in self._ready]
        tables = {table: RAW.get(table, table) for table in TABLES if RAW.get(table, table) in new}
        if "arrows" in new:
            tables["flow_points"] = "flow_points"
        if tables:
            self._timeline.tables(*tables)
        for table, name in tables.items():
            self._register(name, self._timeline.table(table))
        if "arrows" in new:
            self._register("arrows", arrows(self._timeline.table("flow_points")))
        for name in new:
            if name in VIEWS or name in MACROS:
                self._connection.execute((VIEWS | MACROS)[name].sql)
        self._ready.update(new)

    def _need(self, name: str, needed: dict[str, None]) -> None:
        for other in (VIEWS | MACROS)[name].sources if name in VIEWS or name in MACROS else ():
            if other in _NAMES:
                self._need(other, needed)
        needed[name] = None

    def _register(self, name: str, table: Table) -> None:
        """Pass a table to DuckDB, with the number of each row, and the values of arguments by their types."""
        columns: dict[str, Any] = {"row": np.arange(table.num_rows), **dict(table.items())}
        if name == RAW["args"]:
            bits, kinds = columns["bits"], columns["type"].codes
            columns["integer"] = Optional(bits.view(np.int64), np.isin(kinds, WHOLE_KINDS))
            columns["number"] = Optional(bits.view(np.float64), kinds == ArgumentKind.NUMBER)
        self._connection.register(name, Table(columns).to_arrow())


_BEGIN = FLOW_TYPES.index("begin")


def arrows(points: Table) -> Table:
    """Return an arrow from each point of a flow to the next one with its id.

    A flow begins with a point of the type `begin`, or at its first point if that is missing.

    Args:
        points: the table `flow_points`.

    Returns:
        A table with the columns `start` and `end` (int64 ns), `from_slice` and `to_slice` (ids, -1 for none),
        `from_point` and `to_point` (rows in `points`), `id`, `category` and `name`; in the order of `start`.
    """
    ids, time = points["id"], points["time"]
    # Row `n` and row `n + 1` of this order are an arrow if they have one id, and no flow begins at the second.
    order = np.lexsort((time, ids))
    begins = points["type"].codes[order] == _BEGIN
    follows = (ids[order][1:] == ids[order][:-1]) & ~begins[1:]
    first, second = order[:-1][follows], order[1:][follows]
    in_time = np.argsort(time[first], kind="stable")
    first, second = first[in_time], second[in_time]
    return Table(
        {
            "start": time[first],
            "end": time[second],
            "from_slice": points["slice"][first],
            "to_slice": points["slice"][second],
            "from_point": first,
            "to_point": second,
            "id": ids[first],
            "category": points["category"].take(first),
            "name": points["name"].take(first),
        }
    )
