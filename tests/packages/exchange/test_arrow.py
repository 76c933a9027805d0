"""Tests of tables in pyarrow, polars, pandas and duckdb, by `__arrow_c_stream__`: types, nulls, and all values."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio.codec.record import Opaque
from fxtio.fxt import Koid, Pointer
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread
from fxtio.table import Categories, Table
from fxtio.timeline.answers import top
from support.checkout import CORPUS

pytestmark = pytest.mark.native

pa = pytest.importorskip("pyarrow")

TOP = (1 << 64) - 1
_COMMON = "offset:int64 provider:uint32 "
_TIMED = f"{_COMMON}ticks:uint64 time:int64 process:uint64 thread:uint64 "
_ARGS = "name:text type:text bits:uint64 text:text object_name:text payload:binary"
SCHEMAS = {
    "trace_infos": "offset:int64 type:text data:uint64",
    "providers": _COMMON + "type:text name:text",
    "provider_events": _COMMON + "type:text",
    "initializations": _COMMON + "ticks_per_second:uint64 base_ticks:uint64 wall_clock:uint64",
    "events": _COMMON + "type:text ticks:uint64 time:int64 process:uint64 thread:uint64 category:text name:text "
    "end_ticks:uint64 duration:int64 id:uint64 scope:text",
    "args": f"event:int64 {_ARGS}",
    "strings": _COMMON + "index:uint16 text:text",
    "threads": _COMMON + "index:uint8 process:uint64 thread:uint64",
    "objects": _COMMON + "kind:text type:text id:uint64 name:text process:uint64",
    "object_args": f"object:int64 {_ARGS}",
    "logs": _TIMED + "message:text",
    "blobs": _TIMED + "category:text name:text type:text size:int64 payload:binary",
    "blob_args": f"blob:int64 {_ARGS}",
    "scheduling": _COMMON + "type:text ticks:uint64 time:int64 cpu:uint16 outgoing_process:uint64 "
    "outgoing_thread:uint64 incoming_process:uint64 incoming_thread:uint64 outgoing_state:text "
    "outgoing_priority:int32 incoming_priority:int32 waker:uint64",
    "scheduling_args": f"scheduling:int64 {_ARGS}",
    "modules": _TIMED + "module:uint16 name:text build_id:binary",
    "mmaps": _TIMED + "module:uint16 flags:uint8 address:uint64 size:uint64 vaddr:uint64",
    "backtraces": _TIMED + "flags:uint32 frames:int64",
    "frames": "backtrace:int64 depth:int64 address:uint64",
    "unknown_records": _COMMON + "type:uint8 payload:binary",
}
"""The columns of every table with their Arrow types; `text` is a dictionary of strings."""

ARGS: dict[str, Any] = {
    "null": None, "flag": True, "int32": -1, "uint32": (1 << 32) - 1, "int64": -(1 << 63), "uint64": TOP,
    "double": -0.5, "text": "value", "long": "x" * 300, "pointer": Pointer(TOP), "koid": Koid(TOP), "blob": b"bytes",
}  # fmt: skip


class Stream:
    """An object that has only the Arrow stream interface of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def trace_bytes() -> bytes:
    """Return a trace with all kinds of records, the largest values, text that is not UTF-8, and undefined slots."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        main, track = writer.main, writer.thread(TOP - 1, TOP, "thread", "process")
        track.instant("instant", TOP, category="cat", args=ARGS)
        track.counter("counter", 2, {"a": 1, "b": 0.5}, id=TOP)
        track.begin("span", 3)
        track.end("span", 4)
        track.complete("complete", 5, 6)
        track.async_begin("async", 7, TOP)
        track.async_instant("async", 8, TOP)
        track.async_end("async", 9, TOP)
        track.flow_begin("flow", 10, 1)
        track.flow_step("flow", 11, 1)
        track.flow_end("flow", 12, 1)
        for raw in ("\udcff", "\udcfe", "\ufffd", "\0", "🎉"):
            track.instant(f"raw {raw}", 13)
        track.log("message", 14)
        main.userspace_object(TOP, 7, "object", {"a": 1})
        main.kernel_object(17, 5, "job")
        main.blob("blob", b"bytes")
        main.blob("large", bytes(40_000))
        track.large_blob("large", b"", 15, category="cat", args={"a": 1})
        main.context_switch(16, 0xFFFF, TOP, 1, 3, {"outgoing_weight": -5, "incoming_weight": 6})
        writer.put(rec.ContextSwitch(1, 9, 17, 1, 2, ()))  # calls refuse a state without a name
        main.thread_wakeup(18, 1, TOP, {"waker": Koid(TOP), "weight": 7})
        main.legacy_context_switch(19, 255, track, writer.thread(3, 4), 3, 255, 0)
        main.module(20, 1, 0xFFFF, "module", b"build id")
        main.mmap(21, 1, 2, TOP, TOP, TOP, 7)
        main.backtrace(22, 1, 2, [TOP, 0])
        main.buffer_filled_up()
        writer.put(rec.Instant(23, 200, 0x7FFF, 0x7FFE, ()))
        writer.put(rec.TraceInfo(5, 6))
        writer.put(Opaque(bytes([0x1B, 0, 1, 2, 3, 4, 5, 6])))
    return out.getvalue()


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return fxtio.open(trace_bytes()).tables(*SCHEMAS)


def schema_text(schema: Any) -> str:
    """Convert an Arrow schema to text as in `SCHEMAS`."""

    def type_name(arrow: Any) -> str:
        return "text" if pa.types.is_dictionary(arrow) and arrow.value_type == pa.string() else str(arrow)

    return " ".join(f"{field.name}:{type_name(field.type)}" for field in schema)


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table, with replacement characters for bytes that are not UTF-8, as in Arrow."""
    return [{name: replaced(value) for name, value in row.items()} for row in table.rows()]


def replaced(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


# ------------------------------------------------------------------------------------------------------------- pyarrow


def test_the_trace_has_every_kind_of_record_and_every_table(tables: dict[str, Table]) -> None:
    trace = fxtio.open(trace_bytes())
    assert {*trace.info.records} == {"Opaque", *(cls.__name__ for cls in rec.RECORDS.classes)}
    assert set(trace.table_names) == {*SCHEMAS}
    assert [name for name, table in tables.items() if table.num_rows == 0] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_pyarrow(tables: dict[str, Table], name: str) -> None:
    arrow = pa.RecordBatchReader.from_stream(tables[name]).read_all()
    arrow.validate(full=True)
    assert schema_text(arrow.schema) == SCHEMAS[name]
    assert arrow.to_pylist() == rows_of(tables[name])
    assert pa.table(tables[name]).equals(arrow)
    assert pa.table(Stream(tables[name])).equals(tables[name].to_arrow())


def test_the_values_are_those_that_were_written(tables: dict[str, Table]) -> None:
    """Compare with literal values; the other tests only compare two ways to read a column."""
    events = pa.table(tables["events"]).to_pylist()
    assert [event["type"] for event in events[:11]] == [
        "instant", "counter", "duration_begin", "duration_end", "duration_complete", "async_begin", "async_instant",
        "async_end", "flow_begin", "flow_step", "flow_end",
    ]  # fmt: skip
    first, counter, *_, last = events
    assert (first["ticks"], first["time"], first["process"], first["thread"]) == (TOP, (1 << 63) - 1, TOP - 1, TOP)
    assert (first["category"], first["name"], first["end_ticks"], first["duration"]) == ("cat", "instant", None, None)
    assert (first["id"], counter["id"], events[4]["id"]) == (None, TOP, None)
    assert [event["duration"] for event in events if event["duration"] is not None] == [1]
    assert (last["category"], last["name"], last["process"], last["thread"]) == (None, None, 0, 0)  # undefined slots
    assert [event["name"] for event in events[11:16]] == ["raw \ufffd", "raw \ufffd", "raw \ufffd", "raw \0", "raw 🎉"]


def test_arguments_have_their_values(tables: dict[str, Table]) -> None:
    args = [arg for arg in pa.table(tables["args"]).to_pylist() if arg["event"] == 0]
    assert [(arg["name"], arg["type"]) for arg in args] == [
        (name, {"flag": "bool", "text": "string", "long": "string"}.get(name, name)) for name in ARGS
    ]
    assert [arg["text"] for arg in args if arg["type"] == "string"] == ["value", "x" * 300]
    assert {arg["text"] for arg in args if arg["type"] != "string"} == {None}
    double = int(np.float64(-0.5).view(np.uint64))
    assert [arg["bits"] for arg in args if arg["type"] not in ("string", "blob", "null")] == [
        1, TOP, (1 << 32) - 1, 1 << 63, TOP, double, TOP, TOP,
    ]  # fmt: skip


def test_nulls_of_scheduling(tables: dict[str, Table]) -> None:
    arrow = pa.table(tables["scheduling"]).to_pylist()
    assert [(row["type"], row["outgoing_process"], row["outgoing_thread"], row["waker"]) for row in arrow] == [
        ("context_switch", None, TOP, None),
        ("context_switch", None, 1, None),
        ("thread_wakeup", None, None, TOP),
        ("legacy_context_switch", TOP - 1, TOP, None),
    ]
    assert [(row["outgoing_state"], row["outgoing_priority"], row["incoming_priority"]) for row in arrow] == [
        ("blocked", -5, 6),
        ("9", None, None),  # a state without a name
        (None, None, 7),
        ("blocked", 255, 0),
    ]


def test_empty_tables_have_the_same_columns() -> None:
    for name, table in fxtio.open(b"", format="fxt").tables(*SCHEMAS).items():
        arrow = pa.table(table)
        assert (schema_text(arrow.schema), arrow.num_rows) == (SCHEMAS[name], 0)


def test_batches_join_to_the_whole() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(3000):
            track.instant(f"name {number // 3}", number)
            writer.main.blob("filler", bytes(4000))
    data = out.getvalue()
    batches = [pa.table(batch["events"]) for batch in fxtio.open(data, strict=True).batches("events")]
    assert len(batches) > 1
    assert pa.concat_tables(batches).to_pylist() == pa.table(fxtio.open(data).table("events")).to_pylist()


def test_a_requested_schema_is_used(tables: dict[str, Table]) -> None:
    plain = pa.schema([
        (field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type)
        for field in tables["events"].to_arrow().schema
    ])  # fmt: skip
    arrow = pa.RecordBatchReader.from_stream(tables["events"], schema=plain).read_all()
    assert arrow.schema == plain
    assert arrow.to_pylist() == rows_of(tables["events"])


def test_parts_of_a_table(tables: dict[str, Table]) -> None:
    part = tables["events"].take(tables["events"]["type"].is_in("counter", "duration_complete"))
    assert pa.table(part).column("name").to_pylist() == ["counter", "complete"]
    assert pa.table(tables["blobs"].take(np.array([1, 0]))).column("payload").to_pylist() == [bytes(40_000), b"bytes"]


def test_without_pyarrow(tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow"):
        tables["events"].to_arrow()
    assert len(list(tables["events"].rows())) == 17


# ------------------------------------------------------------------------------------------ polars, pandas and duckdb


@pytest.mark.parametrize("name", SCHEMAS)
def test_polars(tables: dict[str, Table], name: str) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(Stream(tables[name]))
    kinds = {"text": pl.Categorical, "binary": pl.Binary, "int32": pl.Int32, "int64": pl.Int64}
    kinds |= {f"uint{bits}": getattr(pl, f"UInt{bits}") for bits in (8, 16, 32, 64)}
    expected = [column.split(":") for column in SCHEMAS[name].split()]
    assert list(frame.columns) == [column for column, _ in expected]
    assert [frame.schema[column] == kinds[kind] for column, kind in expected] == [True] * len(expected)
    assert frame.to_dicts() == rows_of(tables[name])


def test_polars_groups_by_name(tables: dict[str, Table]) -> None:
    """Names that differ only in invalid bytes are equal in Arrow."""
    pl = pytest.importorskip("polars")
    dictionary = tables["events"].to_arrow().column("name").combine_chunks().dictionary.to_pylist()
    assert len(dictionary) == len(set(dictionary))
    frame = pl.DataFrame(Stream(tables["events"]))
    counts = Counter(dict(frame.group_by("name").len().rows()))
    assert counts == Counter(row["name"] for row in rows_of(tables["events"]))
    assert frame.filter(pl.col("thread") == TOP).height == 16


def test_polars_takes_a_table_as_it_is(tables: dict[str, Table]) -> None:
    """polars must use the Arrow stream; it would not if a table were a `collections.abc.Mapping`."""
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(tables["events"]).to_dicts() == rows_of(tables["events"])


@pytest.mark.parametrize("name", SCHEMAS)
def test_pandas(tables: dict[str, Table], name: str) -> None:
    """With the types of Arrow, every value is exact; without them, the columns in which no number is missing are."""
    pd = pytest.importorskip("pandas")
    rows = rows_of(tables[name])
    exact = pa.table(tables[name]).to_pandas(types_mapper=pd.ArrowDtype)
    assert [{column: None if value is pd.NA else value for column, value in row.items()}
            for row in exact.to_dict("records")] == rows  # fmt: skip
    frame = pd.DataFrame.from_arrow(Stream(tables[name]))
    assert len(frame) == len(rows)
    for column, kind in (column.split(":") for column in SCHEMAS[name].split()):
        values = [row[column] for row in rows]
        if kind in ("text", "binary"):
            assert not rows or kind == "binary" or frame[column].dtype == "category"
            assert [
                None if missing else value for value, missing in zip(frame[column], frame[column].isna(), strict=True)
            ] == values
        elif None not in values:
            assert str(frame[column].dtype) == kind
            assert frame[column].tolist() == values


@pytest.mark.once
def test_pandas_sums_up_a_timeline() -> None:
    """No number of a timeline is missing, so that pandas takes its tables as they are."""
    pd = pytest.importorskip("pandas")
    with fxtio.open(CORPUS / "fxt" / "magic-trace.fxt") as trace:
        timeline = trace.timeline()
        for name in timeline.table_names:
            table, frame = timeline.table(name), pd.DataFrame.from_arrow(timeline.table(name))
            assert [*frame.columns] == table.column_names
            for column in table.column_names:
                if not isinstance(table[column], Categories):
                    assert frame[column].to_numpy().dtype == table[column].dtype
                    assert (frame[column].to_numpy() == table[column]).all()
        frame = pd.DataFrame.from_arrow(timeline.table("slices"))
        groups = frame.groupby("name", observed=True).agg(calls=("id", "count"), own=("self_time", "sum"))
        ranking = {row["name"]: (row["calls"], row["self"]) for row in top(timeline).table.rows()}
    assert {name: (row.calls, row.own) for name, row in groups.iterrows()} == ranking


@pytest.mark.parametrize("name", SCHEMAS)
def test_duckdb(tables: dict[str, Table], name: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    view = tables[name]  # noqa: F841  # duckdb finds it by the name of the variable
    relation = duckdb.sql("select * from view")
    kinds = {"text": "VARCHAR", "binary": "BLOB", "int32": "INTEGER", "int64": "BIGINT", "uint8": "UTINYINT"}
    kinds |= {"uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT"}
    expected = [column.split(":") for column in SCHEMAS[name].split()]
    types = list(map(str, relation.types))
    assert list(zip(relation.columns, types, strict=True)) == [(column, kinds[kind]) for column, kind in expected]
    assert relation.fetchall() == [tuple(row.values()) for row in rows_of(tables[name])]


def test_duckdb_joins_arguments_to_their_events(tables: dict[str, Table]) -> None:
    duckdb = pytest.importorskip("duckdb")
    events, args = tables["events"], tables["args"]  # noqa: F841
    relation = duckdb.sql("""
        with numbered as (select row_number() over () - 1 as event, name, ticks, id from events)
        select numbered.name, id, args.name, bits from args join numbered using (event)
        where args.type = 'int32' order by ticks, args.name
    """)
    assert relation.fetchall() == [("counter", TOP, "a", 1), ("instant", None, "int32", TOP)]


@pytest.mark.full
def test_many_rows() -> None:
    """Read more rows than one batch has, and more names than a byte can number."""
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    count = 300_000
    rows = np.arange(count)
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        names = [f"name {number}" for number in range(1000)], rows % 1000
        track = writer.thread(1, 2)
        writer.main.write_events("duration_complete", timestamp=rows, end=rows * 3, thread=track, name=names)
        writer.put(rec.Instant(5, Thread(1, 2), "", "one more", ()))
    table = fxtio.open(out.getvalue(), strict=True).table("events")
    arrow = pa.table(table)
    assert arrow.column("duration").to_pylist() == [*range(0, 2 * count, 2), None]
    assert arrow.column("name").to_pylist() == [*(f"name {number % 1000}" for number in range(count)), "one more"]
    view = Stream(table)
    expected = {f"name {number}": sum(range(2 * number, 2 * count, 2000)) for number in range(1000)}
    sums_by_name = dict(duckdb.sql("select name, sum(duration) from view group by name").fetchall())
    assert sums_by_name == expected | {"one more": None}
    sums = pl.DataFrame(view).group_by("name").agg(pl.col("duration").sum())
    assert dict(sums.rows()) == expected | {"one more": 0}  # the sum of no values is 0 in polars
