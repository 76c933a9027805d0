"""Events from columns: equal to events written one at a time, for all kinds of columns; and refused columns."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.errors import EncodeError
from fxtio.fxt import FxtWriter
from fxtio.fxt import records as rec
from fxtio.fxt.writer import Track
from fxtio.table import Categories

pytestmark = pytest.mark.native

METHODS: dict[str, tuple[Callable[..., None], str | None]] = {
    "instant": (Track.instant, None),
    "counter": (Track.counter, "id"),
    "duration_begin": (Track.begin, None),
    "duration_end": (Track.end, None),
    "duration_complete": (Track.complete, "end"),
    "async_begin": (Track.async_begin, "id"),
    "async_instant": (Track.async_instant, "id"),
    "async_end": (Track.async_end, "id"),
    "flow_begin": (Track.flow_begin, "id"),
    "flow_step": (Track.flow_step, "id"),
    "flow_end": (Track.flow_end, "id"),
}
"""For each kind of event, the method that writes one event, and the name of the word after the arguments."""

INTEGERS = (rec.Int32Argument, rec.Uint32Argument, rec.Int64Argument, rec.Uint64Argument)


def written(write: Callable[[FxtWriter], object]) -> bytes:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        write(writer)
    return out.getvalue()


def right(data: bytes) -> Iterator[Any]:
    """Yield the records; nothing is wrong with them but texts with surrogate escapes, which stand for any bytes."""
    trace = fxtio.open(data)
    yield from trace
    assert {*trace.findings.counts} <= {"fxt.text.not-utf8"}


def events(data: bytes) -> list[Any]:
    """Return the events as tuples: integers by value, whatever their width, and doubles as their bits."""
    return [
        (
            type(record),
            record.timestamp,
            record.thread,
            record.category,
            record.name,
            tuple(map(plain, record.args)),
            *tail(record),
        )
        for record in right(data)
        if isinstance(record, rec.Event)
    ]


def plain(argument: Any) -> tuple[Any, ...]:
    kind = "integer" if isinstance(argument, INTEGERS) else type(argument)
    return (
        argument.name,
        kind,
        struct.pack("<d", argument.value) if isinstance(argument, rec.DoubleArgument) else argument.value,
    )


def tail(record: Any) -> tuple[Any, ...]:
    return getattr(record, "end", None), getattr(record, "id", None)


# ------------------------------------------------------------------------------------------ compared with single events

texts = st.sampled_from(["", "a", "ü", "\udcff", "x" * 300]) | st.text(max_size=4)


WIDTHS: dict[int, Literal[16, 32, 64]] = {2: 16, 4: 32, 8: 64}


def numbers(rows: int, dtype: str) -> st.SearchStrategy[Any]:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        value: st.SearchStrategy[Any] = st.floats(width=WIDTHS[kind.itemsize])
    elif kind.kind == "b":
        value = st.booleans()
    else:
        limits = np.iinfo(kind)
        value = st.integers(int(limits.min), int(limits.max)) | st.integers(0, 3)
    return st.lists(value, min_size=rows, max_size=rows).map(lambda values: np.array(values, kind))


def choices(rows: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[list[Any], Any]]:
    """Generate distinct values, some of them unused, and the index of the value of each row."""
    lists = st.lists(values, min_size=1, max_size=5, unique=True)
    dtypes = st.sampled_from([np.int64, np.uint8, np.int32])

    def chosen(pool: list[Any]) -> st.SearchStrategy[tuple[list[Any], Any]]:
        codes = st.lists(st.integers(0, len(pool) - 1), min_size=rows, max_size=rows)
        return st.tuples(st.just(pool), st.builds(np.array, codes, dtypes))

    return lists.flatmap(chosen)


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """Generate a kind, columns for `write_events`, and the same as rows. Threads are pairs of koids."""
    kind, rows = draw(st.sampled_from(sorted(METHODS))), draw(st.integers(0, 12))
    arguments: dict[str, Any] = {"timestamp": draw(numbers(rows, "uint64"))}
    values_by_field: dict[str, list[Any]] = {"timestamp": arguments["timestamp"].tolist()}
    arguments["thread"] = draw(choices(rows, st.tuples(st.integers(0, 3), st.sampled_from([5, (1 << 64) - 1]))))
    values_by_field["thread"] = [arguments["thread"][0][code] for code in arguments["thread"][1]]
    if (last := METHODS[kind][1]) is not None:
        arguments[last] = draw(numbers(rows, "uint64") | numbers(rows, "uint8"))
        values_by_field[last] = arguments[last].tolist()
    if last == "end":  # a call refuses operations that end before they start
        arguments["timestamp"] = np.minimum(arguments["timestamp"], arguments["end"].astype(np.uint64))
        values_by_field["timestamp"] = arguments["timestamp"].tolist()
    for field in ("name", "category"):
        arguments[field], values_by_field[field] = draw(text_column(rows))
    arguments["args"] = {}
    args: list[dict[str, Any]] = [{} for _ in range(rows)]
    for key in draw(st.lists(texts, max_size=4, unique=True)):
        dtype = draw(st.sampled_from(["text", "text", *(np.dtype(code).name for code in "bBhHiIqQefd?")]))
        column = text_column(rows) if dtype == "text" else number_column(rows, dtype)
        arguments["args"][key], values = draw(column)
        for row, value in zip(args, values, strict=True):
            row[key] = value
    values_by_field["args"] = args
    events = zip(*values_by_field.values(), strict=True)
    return kind, arguments, [dict(zip(values_by_field, event, strict=True)) for event in events]


@st.composite
def text_column(draw: st.DrawFn, rows: int) -> tuple[Any, list[str]]:
    if draw(st.booleans()):
        text = draw(texts)
        return text, [text] * rows
    pool, codes = draw(choices(rows, texts))
    values = [pool[code] for code in codes]
    return (Categories(codes.astype(np.int32), pool) if draw(st.booleans()) else (pool, codes)), values


@st.composite
def number_column(draw: st.DrawFn, rows: int, dtype: str) -> tuple[Any, list[Any]]:
    array = draw(numbers(2 * rows, dtype))[::-2]  # arrays may be views
    return array, array.tolist()


@given(columns())
def test_bulk_events_equal_single_events(given: tuple[str, dict[str, Any], list[dict[str, Any]]]) -> None:
    kind, arguments, rows = given
    method, last = METHODS[kind]

    def bulk(writer: FxtWriter) -> None:
        koids, codes = arguments["thread"]
        thread = [writer.thread(*pair) for pair in koids], codes
        assert writer.main.write_events(kind, **{**arguments, "thread": thread}) == len(rows)

    def one_by_one(writer: FxtWriter) -> None:
        for row in rows:
            track, name, category = writer.thread(*row["thread"]), row["name"], row["category"]
            args = {("values" if kind == "counter" else "args"): row["args"]} | ({last: row[last]} if last else {})
            method(track, name, row["timestamp"], category=category, **args) if last != "end" else method(
                track, name, row["timestamp"], row["end"], category=category, args=row["args"]
            )

    assert events(written(bulk)) == events(written(one_by_one))


def test_integers_take_the_smallest_type_that_holds_the_column() -> None:
    rows = {
        rec.Int32Argument: [-(1 << 31), (1 << 31) - 1],
        rec.Uint32Argument: [0, (1 << 32) - 1],
        rec.Int64Argument: [-1, 1 << 32],
        rec.Uint64Argument: [0, 1 << 63],
    }

    def write(writer: FxtWriter) -> None:
        for values in rows.values():
            args = {"a": np.array(values, np.uint64 if max(values) >> 63 else np.int64)}
            writer.main.write_events("instant", timestamp=[0, 1], thread=writer.thread(1, 2), name="a", args=args)

    records = [record for record in fxtio.open(written(write), strict=True) if isinstance(record, rec.Instant)]
    assert [[type(value) for value in record.args] for record in records] == [[cls] for cls in rows for _ in range(2)]
    assert [record.args[0].value for record in records] == [value for values in rows.values() for value in values]  # type: ignore[union-attr]


def test_a_scalar_is_the_value_of_all_rows() -> None:
    def write(writer: FxtWriter) -> None:
        args = {"number": 7, "double": 0.5, "flag": True, "text": "t"}
        writer.main.write_events(
            "counter", timestamp=range(3), thread=writer.thread(1, 2), name="a", category="c", id=9, args=args
        )

    records = [record for record in fxtio.open(written(write), strict=True) if isinstance(record, rec.Counter)]
    assert [(record.timestamp, record.id, [value.value for value in record.args]) for record in records] == [  # type: ignore[union-attr]
        (time, 9, [7, 0.5, True, "t"]) for time in range(3)
    ]


def test_columns_of_a_trace_go_into_another() -> None:
    rows = np.arange(1000)

    def write(writer: FxtWriter) -> None:
        names = ([f"name {number}" for number in range(50)], rows % 50)
        track = writer.thread(1, 2)
        writer.main.write_events("duration_complete", timestamp=rows, end=rows + 5, thread=track, name=names)

    first = written(write)
    table: Any = fxtio.open(first, strict=True).table("events")

    def copy(writer: FxtWriter) -> None:
        columns = {"timestamp": table["ticks"], "end": table["end_ticks"].values, "name": table["name"]}
        writer.main.write_events("duration_complete", thread=writer.thread(1, 2), category=table["category"], **columns)

    assert events(written(copy)) == events(first)


@pytest.mark.parametrize("code", "bBhHiIqQ")
def test_indices_of_any_integer_type(code: str) -> None:
    rows = np.array([2, 0, 2], code)

    def write(writer: FxtWriter) -> None:
        tracks = [writer.thread(1, number) for number in range(3)]
        name, args = (["a", "b", "c"], rows), {"a": (["d", "e", "f"], rows)}
        writer.main.write_events("instant", timestamp=rows, thread=(tracks, rows), name=name, args=args)

    assert [(event[1], event[2].thread, event[4], event[5][0][2]) for event in events(written(write))] == [
        (2, 2, "c", "f"), (0, 0, "a", "d"), (2, 2, "c", "f"),
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- refusals

THREE = np.arange(3)
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "kind": ("unheard of", {}, "'unheard of' is not an event type"),
    "no end": ("duration_complete", {}, "need the column 'end'"),
    "no id": ("flow_end", {}, "need the column 'id'"),
    "unknown column": ("instant", {"id": THREE}, "no column 'id'"),
    "negative time": ("instant", {"timestamp": THREE - 1}, "timestamp: -1 is negative"),
    "fractional time": ("instant", {"timestamp": THREE / 2}, "float64"),
    "boolean time": ("instant", {"timestamp": THREE == 1}, "bool"),
    "dates": ("instant", {"timestamp": THREE.astype("M8[ns]")}, "datetime64"),
    "negative end": ("duration_complete", {"end": THREE - 1}, "end: -1 is negative"),
    "negative id": ("async_begin", {"id": -1}, "id: -1 is negative"),
    "16 arguments": ("instant", {"args": dict.fromkeys(map(str, range(16)), THREE)}, "16 arguments; the limit is 15"),
    "objects": ("instant", {"args": {"a": np.array([1, None, "x"], object)}}, r"args\['a'\]"),
    "complex": ("instant", {"args": {"a": THREE * 1j}}, r"args\['a'\]: no argument type"),
    "key is not text": ("instant", {"args": {5: THREE}}, "5 is not text"),
    "long argument": ("instant", {"args": {"a": "x" * 1025}}, r"args\['a'\]: a column cannot have text over"),
    "name too long": ("instant", {"name": "x" * 32_001}, "name: .*32,001 bytes"),
    "name is not text": ("instant", {"name": ([5], [0, 0, 0])}, "5 is not text"),
    "name index too big": ("instant", {"name": (["a"], [0, 0, 1])}, "name: an index is outside"),
    "negative name index": ("instant", {"name": (["a"], [0, 0, -1])}, "name: an index is outside"),
    "null name": ("instant", {"name": Categories(np.array([0, -1, 0], np.int32), ["a"])}, "name: an index is outside"),
    "too few names": ("instant", {"name": (["a"], [0, 0])}, "name: 2 rows, but there are 3"),
    "too many texts": ("instant", {"args": {"a": (["a"], [0] * 4)}}, r"args\['a'\]: 4 rows, but there are 3"),
    "lone surrogate": ("instant", {"name": "\ud800"}, "lone surrogate"),
    "thread index too big": ("instant", {"thread": [0, 0, 1]}, "thread: an index is outside"),
    "negative thread index": ("instant", {"thread": [0, 0, -1]}, "thread: an index is outside"),
    "too few threads": ("instant", {"thread": [0, 0]}, "thread: 2 rows, but there are 3"),
}  # fmt: skip

ODD_COLUMNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "one time": ("instant", {"timestamp": 5}, "timestamp"),
    "times in two dimensions": ("instant", {"timestamp": [[1, 2], [3, 4], [5, 6]]}, "timestamp"),
    "too many ends": ("duration_complete", {"end": range(4)}, "end"),
    "too few ids": ("flow_begin", {"id": [1, 2]}, "id"),
    "too few values": ("instant", {"args": {"a": [1, 2]}}, r"args\['a'\]"),
    "fractional thread index": ("instant", {"thread": [0.0, 0.0, 0.0]}, "thread"),
    "fractional name index": ("instant", {"name": (["a", "b"], [0.0, 0.5, 1.0])}, "name"),
    "names without indices": ("instant", {"name": ["a", "b", "c"]}, "name"),
    "two names without indices": ("instant", {"name": ["a", "b"]}, "name"),
    "value is not text": ("instant", {"args": {"a": ([5], [0, 0, 0])}}, "5 is not text"),
    "lone surrogate in a value": ("instant", {"args": {"a": "\ud800"}}, r"args\['a'\].*lone surrogate"),
}


@pytest.mark.parametrize(
    ("kind", "wrong", "message"), [*WRONG.values(), *ODD_COLUMNS.values()], ids=[*WRONG, *ODD_COLUMNS]
)
def test_nothing_is_written_of_wrong_columns(kind: str, wrong: dict[str, Any], message: str) -> None:
    def write(writer: FxtWriter) -> None:
        track = writer.thread(1, 2)
        given: dict[str, Any] = {"timestamp": THREE, "thread": track, "name": "a", **wrong}
        if "thread" in wrong:
            given["thread"] = [track], wrong["thread"]
        track.instant("a", 1)
        with pytest.raises(EncodeError, match=message):
            writer.main.write_events(kind, **given)
        writer.main.write_events("instant", timestamp=[2, 3], thread=track, name="a")
        track.instant("a", 4)

    records = list(fxtio.open(written(write), strict=True))
    instants = [record for record in records[4:] if not isinstance(record, rec.String | rec.ThreadRecord)]
    assert [(type(event), getattr(event, "timestamp", None)) for event in instants] == [
        (rec.Instant, n) for n in range(1, 5)
    ]


def test_more_strings_or_threads_than_there_are_slots() -> None:
    many = np.arange(40_000)
    names = [f"name {number}" for number in range(40_000)]

    def write(writer: FxtWriter) -> None:
        track = writer.thread(1, 2)
        with pytest.raises(EncodeError, match="different strings at once; the limit is 32,767"):
            writer.main.write_events("instant", timestamp=many, thread=track, name=(names, many))
        tracks = [writer.thread(1, number) for number in range(256)]
        with pytest.raises(EncodeError, match="256 threads at once; the limit is 255"):
            writer.main.write_events("instant", timestamp=many[:256], thread=(tracks, many[:256]), name="a")
        for first in range(0, 40_000, 10_000):  # smaller parts work: only the strings that a part uses take slots
            part = slice(first, first + 10_000)
            writer.main.write_events("instant", timestamp=many[part], thread=track, name=(names, many[part]))

    assert [event[4] for event in events(written(write))] == names


@pytest.mark.parametrize("empty", [np.empty(0, int), []], ids=["array", "list"])
def test_no_rows(empty: Any) -> None:
    def write(writer: FxtWriter) -> None:
        tracks = [writer.thread(1, 2)]
        columns = {"name": (["a"], empty), "category": ([], empty), "args": {"a": empty, "b": ([], empty)}}
        for track in (tracks[0], (tracks, empty), ([], empty)):
            assert writer.main.write_events("instant", timestamp=empty, thread=track, **columns) == 0

    assert events(written(write)) == []
