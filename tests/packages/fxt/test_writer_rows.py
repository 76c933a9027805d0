"""`write_table` and `copy` of FXT beyond what the contract tests of all formats say: arguments, providers, clocks."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec import generate
from fxtio.codec.generate import Order
from fxtio.errors import EncodeError
from fxtio.fxt import FxtTrace, FxtWriter, event_columns
from fxtio.fxt import records as rec
from fxtio.fxt.enums import EventType, Scope
from fxtio.fxt.records import EVENT_CLASSES, Thread
from fxtio.fxt.writer import Track
from fxtio.table import Categories, Optional, Table
from fxtio.testing import strategies
from support.checkout import CORPUS
from support.fxt_samples import for_orders

Columns = dict[str, Any]
THREE: Columns = {"type": "instant", "ticks": [3, 1, 2], "process": 1, "thread": 2, "name": ["a", "b", "a"]}


def written(write: Callable[[FxtWriter], object], **options: Any) -> bytes:
    out = io.BytesIO()
    with FxtWriter(out, **options) as writer:
        write(writer)
    return out.getvalue()


def events(data: bytes) -> list[Any]:
    return [record for record in fxtio.open(data, strict=True) if isinstance(record, rec.Event)]


def args_of(record: Any) -> dict[str, Any]:
    return {arg.name: arg.value for arg in record.args}


# ---- rows of events


def test_rows_stay_in_their_order() -> None:
    data = written(lambda writer: writer.write_table("events", THREE))
    assert [(record.timestamp, record.name) for record in events(data)] == [(3, "a"), (1, "b"), (2, "a")]


def test_the_number_of_rows_is_returned() -> None:
    numbers = []
    written(lambda writer: numbers.append(writer.write_table("events", THREE)))
    written(lambda writer: numbers.append(writer.write_table("events", {**THREE, "args": {"n": 1}})))
    written(lambda writer: numbers.append(writer.write_table("events", {**THREE, "ticks": [], "name": []})))
    assert numbers == [3, 3, 0]


def test_events_of_all_types_with_ends_and_ids() -> None:
    kinds = list(EVENT_CLASSES)
    rows = np.arange(len(kinds))
    columns = {
        "type": kinds, "time": rows, "process": 1, "thread": rows % 2, "category": "c", "name": kinds,
        "duration": [5 if "end" in cls.__struct_fields__ else None for cls in EVENT_CLASSES.values()],
        "id": [row if "id" in cls.__struct_fields__ else None for row, cls in enumerate(EVENT_CLASSES.values())],
    }  # fmt: skip
    records = events(written(lambda writer: writer.write_table("events", columns)))
    assert [type(record) for record in records] == list(EVENT_CLASSES.values())
    assert [getattr(record, "end", None) for record in records if hasattr(record, "end")] == [4 + 5]
    ids = [row for row, cls in enumerate(EVENT_CLASSES.values()) if "id" in cls.__struct_fields__]
    assert [record.id for record in records if hasattr(record, "id")] == ids
    assert [record.thread.thread for record in records] == (rows % 2).tolist()


def second_call(_: FxtWriter, track: Track) -> None:
    """Write an operation by a template, which the first call makes."""
    track.complete("call", 5, 5)
    track.complete("call", 10, 5)


EARLY: dict[str, Callable[[FxtWriter, Track], object]] = {
    "call": lambda _, track: track.complete("call", 10, 5),
    "second call": second_call,
    "columns": lambda writer, track: writer.main.write_events(
        "duration_complete", timestamp=[1, 10], end=[5, 5], thread=track, name="columns"
    ),
    "far columns": lambda writer, track: writer.main.write_events(
        "duration_complete", timestamp=np.array([1 << 63], np.uint64), end=[(1 << 63) - 1], thread=track, name="columns"
    ),
    "end_ticks": lambda writer, _: writer.write_table("events", {**COMPLETE, "ticks": 10, "end_ticks": [11, 10, 9]}),
    "duration": lambda writer, _: writer.write_table("events", {**COMPLETE, "ticks": 10, "duration": [1, 0, -1]}),
    "both": lambda writer, _: writer.write_table(
        "events", {**COMPLETE, "ticks": 10, "end_ticks": [11, 10, 9], "duration": [1, 0, -1]}
    ),
}


@pytest.mark.parametrize("name", EARLY)
def test_an_event_that_ends_before_it_starts_is_refused(name: str) -> None:
    """But recorded traces whose clock went back have such events: `put` writes them."""

    def write(writer: FxtWriter) -> None:
        track = writer.thread(1, 2)
        track.instant("begin", 0)
        with pytest.raises(EncodeError, match="ends before it starts"):
            EARLY[name](writer, track)
        writer.put(rec.DurationComplete(10, Thread(1, 2), "", "exact", (), 5))

    with fxtio.open(written(write)) as trace:
        records = [record for record in trace if isinstance(record, rec.DurationComplete) and record.name != "call"]
        assert [(record.name, record.timestamp, record.end) for record in records] == [("exact", 10, 5)]


def test_arguments_of_every_type() -> None:
    args = {
        "small": [1, -2, 3],
        "large": np.array([1, 2, 1 << 63], np.uint64),
        "float": 0.5,
        "bool": [True, False, True],
        "text": ["x", "y", "x"],
        "same": "z",
        "some": Optional(np.array([7, 8, 9]), np.array([True, False, True])),
        "some text": Categories(np.array([-1, 0, -1], np.int32), ["w"]),
        "none": [None, None, None],
    }
    records = events(written(lambda writer: writer.write_table("events", {**THREE, "args": args})))
    common = {"float": 0.5, "same": "z"}
    assert [args_of(record) for record in records] == [
        {"small": 1, "large": 1, "bool": True, "text": "x", "some": 7} | common,
        {"small": -2, "large": 2, "bool": False, "text": "y", "some text": "w"} | common,
        {"small": 3, "large": 1 << 63, "bool": True, "text": "x", "some": 9} | common,
    ]


@pytest.mark.full
@pytest.mark.parametrize("rows", [1000, 70_000])
def test_more_strings_and_threads_than_the_tables_have_slots(rows: int) -> None:
    numbers = np.arange(rows)
    columns = {
        "type": ["instant", "counter"] * (rows // 2), "ticks": numbers, "process": numbers % 3, "thread": numbers,
        "name": [f"name {number}" for number in range(rows)], "id": [None, 1] * (rows // 2),
    }  # fmt: skip
    with fxtio.open(written(lambda writer: writer.write_table("events", columns)), strict=True) as trace:
        table = trace.table("events")
    assert list(table["name"]) == columns["name"]
    assert (table["thread"] == numbers).all()
    assert (table["process"] == numbers % 3).all()
    assert (table["ticks"] == numbers).all()


@pytest.mark.full
@pytest.mark.no_cover  # slow to measure
@pytest.mark.once
def test_many_more_names_than_slots() -> None:
    """The string table is filled again and again, and every name is defined once."""
    count = 200_000
    names = [f"n{number}" for number in range(count)]
    rows = {"type": "instant", "process": 1, "thread": 2, "ticks": np.arange(count), "name": names}
    data = written(lambda writer: writer.write_table("events", rows))
    with fxtio.open(data, strict=True) as trace:
        tables = trace.tables("events", "strings")
    assert tables["strings"].num_rows == count
    assert list(tables["events"]["name"]) == names


def test_rows_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = events(written(lambda writer: writer.write_table("events", {**THREE, "args": {"n": [1, 2, 3]}})))
    monkeypatch.setattr(event_columns, "MAX_ROWS", 2)
    parts = events(written(lambda writer: writer.write_table("events", {**THREE, "args": {"n": [1, 2, 3]}})))
    assert parts == whole


def test_scopes_of_instants() -> None:
    columns = {**THREE, "scope": ["process", None, "global"]}
    instants = events(written(lambda writer: writer.write_table("events", columns)))
    assert [record.scope for record in instants] == [1, None, 2]
    for nothing in (None, [None] * 3):
        without = {**THREE, "type": "duration_begin", "scope": nothing}
        assert len(events(written(lambda writer: writer.write_table("events", without)))) == 3  # noqa: B023


def test_blobs_of_all_kinds() -> None:
    """A blob with a category is a large one; with a time and a thread it has metadata."""
    nulls = {"ticks": None, "process": None, "thread": None}
    columns = {
        "name": "n", "payload": [b"1", b"22", b"333"], "type": ["data", None, None], "category": [None, "c", "c"],
        "ticks": [None, None, 5], "process": [None, None, 1], "thread": [None, None, 2],
    }  # fmt: skip
    data = written(lambda writer: writer.write_table("blobs", columns))
    blobs = [record for record in fxtio.open(data, strict=True) if "payload" in record.__struct_fields__]
    assert blobs == [
        rec.Blob("n", 1, b"1"),
        rec.LargeBlobNoMetadata("c", "n", b"22"),
        rec.LargeBlob("c", "n", 5, Thread(1, 2), (), b"333"),
    ]
    rows = list(FxtTrace(data).table("blobs").rows())
    assert [{name: row[name] for name in nulls} for row in rows] == [
        nulls, nulls, {"ticks": 5, "process": 1, "thread": 2},
    ]  # fmt: skip


# ---- providers and clocks


def test_rows_of_several_providers() -> None:
    def write(writer: FxtWriter) -> None:
        writer.provider("second", 7)
        writer.write_table("events", {**THREE, "provider": [7, 1, 9]})
        writer.write_table("logs", {"provider": [9, 7], "ticks": 5, "process": 1, "thread": 2, "message": "text"})

    with fxtio.open(written(write), strict=True) as trace:
        assert trace.table("events")["provider"].tolist() == [7, 1, 9]
        assert trace.table("logs")["provider"].tolist() == [9, 7]
        assert [(item.id, item.name) for item in trace.info.providers] == [(7, "second"), (1, "fxtio"), (9, "")]


def test_ticks_of_other_rates() -> None:
    rows: Columns = {**THREE, "ticks": None, "time": [0, 1_000, 2_000]}
    data = written(lambda writer: writer.write_table("events", rows), ticks_per_second=24_000_000)
    assert [record.timestamp for record in events(data)] == [0, 24, 48]
    with fxtio.open(data) as trace:
        table = trace.table("events")
    converted = written(lambda writer: writer.write_table("events", table), ticks_per_second=24_000_000)
    assert [record.timestamp for record in events(converted)] == [0, 24, 48]
    with pytest.raises(EncodeError, match="time: 1000 ns does not agree with the ticks: at 1,000,000,000 ticks"):
        written(lambda writer: writer.write_table("events", table))


@pytest.mark.parametrize("column", ["time", "duration"])
def test_a_time_whose_tick_has_more_than_64_bits(column: str) -> None:
    rows: Columns = {**THREE, "type": "duration_complete", "ticks": 0, column: [0, 1 << 60, (1 << 63) - 1]}
    rows |= {"ticks": None, "duration": 0} if column == "time" else {}
    message = f"{column}: 9223372036854775807 ns does not fit in 64 bits, at 4,000,000,000 ticks per second"
    with pytest.raises(EncodeError, match=message):
        written(lambda writer: writer.write_table("events", rows), ticks_per_second=4_000_000_000)


def test_labels_and_their_numbers() -> None:
    rows: Columns = {
        **THREE,
        "type": [EventType.INSTANT, 2, 0],
        "scope": [Scope.GLOBAL, None, 0],
    }
    given: Columns = {**THREE, "type": ["instant", "duration_begin", "instant"], "scope": ["global", None, "thread"]}
    assert written(lambda writer: writer.write_table("events", rows)) == written(
        lambda writer: writer.write_table("events", given)
    )


# ---- refusals

COMPLETE: Columns = {**THREE, "type": "duration_complete"}
WRONG: dict[str, tuple[str, Columns, str]] = {
    "type": ("events", {**THREE, "type": "unheard"}, "'unheard' is not one of instant, counter"),
    "no time": ("events", {**THREE, "ticks": None}, "the column ticks or the column time"),
    "negative time": ("events", {**THREE, "ticks": [1, -2, 3]}, "ticks: -2 does not fit in uint64"),
    "fractional time": ("events", {**THREE, "ticks": [0.5, 1, 2]}, "not a column of integers"),
    "between ticks": ("events", {**THREE, "ticks": None, "time": [1, 2, 3]}, "1 ns is not the time of a tick"),
    "null time": ("events", {**THREE, "ticks": [1, None, 3]}, "ticks: has a null"),
    "no end": ("events", COMPLETE, "end_ticks or the column duration"),
    "null end": ("events", {**COMPLETE, "end_ticks": [4, None, 5]}, "end_ticks: is null"),
    "null duration": ("events", {**COMPLETE, "duration": [4, None, 5]}, "duration: is null"),
    "duration": (
        "events",
        {**COMPLETE, "end_ticks": [3, 3, 3], "duration": [0, 9, 1]},
        "duration: 9 ns does not",
    ),
    "ends too early": ("events", {**COMPLETE, "duration": -4_000_000}, "duration: ends before it starts"),
    "ends too late": ("events", {**COMPLETE, "duration": (1 << 63) - 2}, "at 2 ns cannot last 9223372036854775806 ns"),
    "duration is too long": (
        "events",
        {**COMPLETE, "duration": (1 << 64) - 1},
        "18446744073709551615 does not fit in int64",
    ),
    "duration is a fraction": ("events", {**COMPLETE, "duration": 0.5}, "duration: a column of float64"),
    "duration is text": ("events", {**COMPLETE, "duration": "5"}, "duration: a column of Categories"),
    "duration of other events": (
        "events",
        {**THREE, "duration": [None, 5, None]},
        "null for instant events, as of row 1",
    ),
    "end of other events": ("events", {**THREE, "end_ticks": 5}, "end_ticks: must be null for instant events"),
    "id of other events": ("events", {**THREE, "id": 5}, "id: must be null for instant events"),
    "time is null": ("events", {**THREE, "time": [3, None, 2]}, "time: has a null"),
    "time is text": ("events", {**THREE, "time": "3"}, "time: a column of Categories"),
    "time does not agree": (
        "events",
        {**THREE, "time": np.array([3, 1, (1 << 64) - 1], np.uint64)},
        "18446744073709551615 does not fit in int64",
    ),
    "duration does not agree": ("events", {**COMPLETE, "end_ticks": 5, "duration": (1 << 63) - 1}, "does not agree"),
    "negative time beside ticks": ("events", {**THREE, "time": [3, -1, 2]}, "-1 ns does not agree"),
    "negative time alone": ("events", {**THREE, "ticks": None, "time": [3, -1, 2]}, "time: -1 is negative"),
    "duration beside ends is text": ("events", {**COMPLETE, "end_ticks": 5, "duration": "x"}, "duration: a column of"),
    "no id": ("events", {**THREE, "type": "counter"}, "id: the column is missing"),
    "null id": ("events", {**THREE, "type": "counter", "id": [1, 2, None]}, "id: is null"),
    "null name": ("events", {**THREE, "name": ["a", None, "b"]}, "name: has a null"),
    "name is a number": ("events", {**THREE, "name": 5}, "name: is not a column of text"),
    "long name": ("events", {**THREE, "name": "x" * 32_001}, "name: 32,001 bytes of text are over"),
    "args": ("events", {**THREE, "args": ["a"]}, "args: a list is not a mapping"),
    "rows of args": ("events", {**THREE, "args": {"a": [1, 2]}}, "different lengths"),
    "16 args": ("events", {**THREE, "args": dict.fromkeys(map(str, range(16)), 1)}, "16 arguments; the limit is 15"),
    "key is not text": ("events", {**THREE, "args": {5: 1}}, "5 is not text"),
    "long text": ("events", {**THREE, "args": {"a": "x" * 1025}}, "text over 1,024 bytes"),
    "bytes": ("events", {**THREE, "args": {"a": b"x"}}, "no argument type holds"),
    "provider": (
        "logs",
        {"provider": -1, "ticks": 1, "process": 1, "thread": 1, "message": "x"},
        "-1 does not fit in uint32",
    ),
    "scope": ("events", {**THREE, "scope": "universe"}, "'universe' is not one of thread, process, global"),
    "scope without a name": ("events", {**THREE, "scope": "3"}, "'3' is not one of thread, process, global"),
    "large scope": ("events", {**THREE, "scope": str(1 << 64)}, "'18446744073709551616' is not one of thread"),
    "very large scope": ("events", {**THREE, "scope": "9" * 5000}, "is not one of thread, process, global"),
    "scope in other digits": ("events", {**THREE, "scope": "\u0661"}, "is not one of thread, process, global"),
    "blob type without a name": ("blobs", {"name": "n", "payload": [b"x"], "type": "9"}, "'9' is not one of data"),
    "very large object type": ("objects", {"kind": "kernel", "id": 1, "name": "x", "type": "9" * 5000}, "is not one"),
    "argument as a column": ("events", {**THREE, "args": {"a": 1}, "args['a']": 2}, "is not a column of this table"),
    "scope of a span": (
        "events",
        {**THREE, "type": "duration_begin", "scope": "thread"},
        "must be null for duration_begin events",
    ),
    "scope is a number": ("events", {**THREE, "scope": [2, 3, None]}, "scope: 3 is not one of thread, process, global"),
    "scope is a fraction": (
        "events",
        {**THREE, "scope": 1.5},
        "scope: a column of float64 is not",
    ),
    "small blob at a time": (
        "blobs",
        {"name": "x", "payload": b"", "ticks": 1},
        "must be null for blobs without a cat",
    ),
    "thread of a blob": (
        "blobs",
        {"name": "x", "payload": b"", "category": "c", "thread": 1},
        "must be null for blobs without ticks",
    ),
    "no message": ("logs", {"ticks": 1, "process": 1, "thread": 1, "message": [None]}, "message"),
    "kind": ("objects", {"kind": "other", "id": 1, "name": "x"}, "'other' is not one of kernel, userspace"),
    "object type": ("objects", {"kind": "kernel", "id": 1, "name": "x", "type": "cow"}, "'cow' is not one of"),
    "user type": ("objects", {"kind": "userspace", "id": 1, "name": "x", "type": "vmo", "process": 1}, "must be null"),
    "payload": ("blobs", {"name": "x", "payload": "text"}, "is not a column of bytes"),
    "two kinds": ("blobs", {"name": "x", "payload": b"", "type": "data", "category": "c"}, "must be null"),
    "large payload": ("blobs", {"name": "x", "payload": bytes(40_000)}, "Blob.size: 5,002 words are over"),
    "scheduling": ("scheduling", {"type": "nap", "ticks": 1, "cpu": 0, "incoming_thread": 1}, "'nap' is not one of"),
    "waker": (
        "scheduling",
        {"type": "context_switch", "ticks": 1, "cpu": 0, "incoming_thread": 1, "waker": 2},
        "waker: must be null for context_switch",
    ),
    "build id": (
        "modules",
        {"process": 1, "module": 1, "name": "x", "build_id": "x", "ticks": 1},
        "is not a column of bytes",
    ),
    "flags": (
        "mmaps",
        {"process": 1, "module": 1, "address": 1, "size": 1, "vaddr": 1, "flags": 8, "ticks": 1},
        "flags: 8 does not fit",
    ),
}


@pytest.mark.parametrize(("table", "columns", "message"), WRONG.values(), ids=WRONG)
def test_nothing_is_written_of_wrong_rows(table: str, columns: Columns, message: str) -> None:
    def write(writer: FxtWriter) -> None:
        with pytest.raises(EncodeError, match=message):
            writer.write_table(table, columns)
        assert writer.position == 0

    rate = 24_000_000 if message.startswith("1 ns") else 1_000_000_000
    assert list(fxtio.open(written(write, ticks_per_second=rate))) == list(
        fxtio.open(written(lambda writer: None, ticks_per_second=rate))
    )


# ---- rows of any trace


def plain(table: Table, ignored: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in table.items() if name not in ignored}


def is_whole(table: Table) -> bool:
    """Return whether all slots that rows refer to are defined; the writer never writes others."""
    return all(-1 not in table[name].codes for name in ("name", "category") if name in table and len(table))


@given(data=st.data())
def test_rows_of_any_trace_come_back(data: st.DataObject) -> None:
    records = data.draw(strategies.traces())
    trace = fxtio.open(strategies.encoded([r for r in records if not isinstance(r, rec.Initialization)]))
    for name, spec in FxtWriter.writable_tables.items():
        table = trace.table(name)
        if name == "blobs":  # null categories mean another kind of record
            table = table.take(np.array([text is None for text in table["category"]], bool))
        elif not is_whole(table):
            continue
        out = io.BytesIO()
        with FxtWriter(out) as writer:
            try:
                assert writer.write_table(name, table) == table.num_rows
            except EncodeError as error:  # a number without a name, a text that is inline now, a cut-off time
                messages = (
                    "is not one of",
                    "over the limit",
                    "does not fit",
                    "does not agree",
                    "is negative",
                    "ends before it starts",
                )
                assert any(message in str(error) for message in messages)  # noqa: PT017
                continue
        assert plain(fxtio.open(out.getvalue()).table(name), spec.ignored) == plain(table, spec.ignored)


# ---- copies


@for_orders
@given(data=st.data())
def test_a_copy_of_any_bytes_is_identical(order: Order, data: st.DataObject) -> None:
    trace = strategies.encoded(data.draw(strategies.traces(order=order)), order)
    damage = data.draw(st.binary(max_size=20))
    where = data.draw(st.integers(8, len(trace)))
    trace = trace[:where] + damage + trace[where:]
    assert written(lambda writer: writer.copy(FxtTrace(trace))) == trace


def test_a_copy_finds_the_faults_of_the_trace() -> None:
    trace = FxtTrace((CORPUS / "fxt" / "ftr-demo.fxt").read_bytes()[:-4])
    written(lambda writer: writer.copy(trace))
    assert set(trace.findings.counts) == {"fxt.framing.truncated"}


def test_a_writer_continues_after_a_copy() -> None:
    first = written(lambda writer: writer.thread(1, 2).instant("first", 1))

    def write(writer: FxtWriter) -> None:
        writer.copy(fxtio.open(first))
        writer.thread(1, 2).instant("second", 2)
        writer.write_table("events", {**THREE, "ticks": 3})

    assert [record.name for record in events(written(write))] == ["first", "second", "a", "b", "a"]


def test_a_writer_continues_after_a_big_endian_copy() -> None:
    trace = strategies.encoded([rec.Magic(), rec.Log(1, Thread(1, 2), "text")], "big")

    def write(writer: FxtWriter) -> None:
        writer.copy(FxtTrace(trace))
        for time in (2, 3):
            writer.thread(1, 2).instant("name", time)
        writer.put(rec.Log(4, Thread(1, 2), "more"))
        writer.write_table("events", {**THREE, "ticks": 5})
        writer.write_table("logs", {"ticks": 6, "process": 1, "thread": 2, "message": "text"})

    data = written(write)
    assert data.startswith(trace)
    timed = [record.timestamp for record in fxtio.open(data, strict=True) if hasattr(record, "timestamp")]
    assert timed == [1, 2, 3, 4, 5, 5, 5, 6]


# ---- closed writers


def test_a_closed_writer_refuses_every_call() -> None:
    with FxtWriter(io.BytesIO()) as writer:
        track, main = writer.thread(1, 2), writer.main
    calls: list[Callable[[], object]] = [
        lambda: track.instant("name", -1),
        lambda: track.log("text", -1),
        lambda: track.large_blob("name", 5, -1),
        lambda: writer.thread(1, 2, "name"),
        lambda: main.kernel_object(1, 2, "name"),
        lambda: main.userspace_object(1, 2, "name"),
        lambda: main.blob("name", 5),
        lambda: main.context_switch(1, 2, 3, 4, 5),
        lambda: main.thread_wakeup(1, 2, 3),
        lambda: main.legacy_context_switch(1, 2, track, track, 0),
        lambda: main.module(1, 2, 3, "name", b""),
        lambda: main.mmap(1, 2, 3, 4, 5, 6),
        lambda: main.backtrace(1, 2, 3, []),
        main.buffer_filled_up,
        lambda: main.write_events("unheard", timestamp=[], thread=track, name=""),
        lambda: writer.put(None),
        lambda: writer.write_table("events", {"args": 5}),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(ValueError, match="the writer is closed") as raised:
            call()
        assert type(raised.value) is ValueError, number


def test_no_provider_is_left_of_rows_that_are_refused(tmp_path: Path) -> None:
    logs = {"process": 1, "thread": 2, "message": ["a", "b"], "ticks": [1, 2], "provider": [77, 2**40]}
    with fxtio.create(tmp_path / "made.fxt") as writer:
        position = writer.position
        with pytest.raises(EncodeError):
            writer.write_table("logs", logs)
        events = {"type": "instant", "process": 1, "thread": 2, "name": "n", "ticks": [1, 2], "provider": [77, 2**40]}
        with pytest.raises(EncodeError):
            writer.write_table("events", events)
        assert writer.position == position
        writer.provider("free", 77)
    with pytest.raises(ValueError, match="closed"):
        writer.provider("late")


@pytest.mark.parametrize("end", [b"abc", generate.encode(rec.Log(5, Thread(1, 2), "text"))[:16]])
def test_nothing_is_written_behind_a_cut_record(end: bytes) -> None:
    data, out = generate.encode(rec.Magic()) + end, io.BytesIO()
    with FxtWriter(out) as writer, fxtio.open(data, format="fxt") as trace:
        writer.copy(trace)
        with pytest.raises(EncodeError, match="the copied trace ends within a record"):
            writer.thread(1, 2).instant("a", 1)
        with pytest.raises(EncodeError, match="the copied trace ends within a record"):
            writer.put(rec.Magic())
    assert out.getvalue() == data
