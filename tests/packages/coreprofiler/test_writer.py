"""The CoreProfiler writer: tables written and read back, copies, refusals, and a closed writer."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.coreprofiler import CoreProfilerTrace, CoreProfilerWriter
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import DIALECTS, UNDEFINED, OsThread
from fxtio.coreprofiler.tables import RECORD_TABLES
from fxtio.dcpi import DcpiTrace
from fxtio.errors import EncodeError
from fxtio.table import Lists, Optional, Table
from support import coreprofiler as support

CLASSES = pytest.mark.parametrize("cls", r.RECORDS, ids=lambda cls: cls.__name__)


def written_table(name: str, columns: Any, *, style: str = "D2") -> bytes:
    out = io.BytesIO()
    with CoreProfilerWriter(out, style=style) as writer:
        writer.write_table(name, columns)
    return out.getvalue()


def test_every_table_of_records_can_be_written() -> None:
    assert set(CoreProfilerWriter.writable_tables) == {cls.table for cls in r.RECORDS}


@pytest.mark.full
@CLASSES
@given(data=st.data())
def test_a_written_table_has_the_same_records(cls: Any, data: st.DataObject) -> None:
    """Nothing is lost in a table, undefined pointers and missing numbers included."""
    records = data.draw(support.exact_records(cls))
    raw = support.written(records)
    table = CoreProfilerTrace(raw).table(cls.table)
    assert table.num_rows == len(records)
    assert written_table(cls.table, table) == raw
    assert written_table(cls.table, dict(table.items())) == raw
    as_rows = list(table.rows())
    assert written_table(cls.table, {name: [row[name] for row in as_rows] for name in table}) == raw


@pytest.mark.parametrize("style", DIALECTS)
def test_tables_of_a_simulation(style: str) -> None:
    data, records, _ = support.simulated(3, shape="mixed", style=style, lines=True, steps=400)
    trace = CoreProfilerTrace(data)
    for name, cls in RECORD_TABLES.items():
        table = trace.table(name)
        result = CoreProfilerTrace(written_table(name, table, style=style)).records()
        assert list(result) == [record for record in records if type(record) is cls]


def test_columns_of_any_kind() -> None:
    frames = Lists(
        np.array([2, 0, 1]),
        Table({"sample": np.array([0, 0, 2]), "function_iid": np.array([1, -1, 3]),
               "ip": Optional(np.array([0, 5, 6], np.uint64), np.array([False, True, True]))}),
    )  # fmt: skip
    columns = {"time": np.array([0, 1, 2]) * 1_000_000, "thread": 7, "count": [1, None, -1], "match": 0, "size": 0}
    samples = list(CoreProfilerTrace(written_table("samples", columns | {"frames": frames, "ip": None})))
    assert samples == [
        r.StackSample(7, 0, 1, 0, 0, None, (r.Frame(1), r.Frame(None, 5))),
        r.StackSample(7, 1, None, 0, 0),
        r.StackSample(7, 2, None, 0, 0, None, (r.Frame(3, 6),)),
    ]
    lists = [[{"function_iid": 1}], [], ({"function_iid": 2, "ip": 9, "sample": 5}, {"function_iid": None, "ip": None})]
    samples = list(CoreProfilerTrace(written_table("samples", columns | {"frames": lists, "ip_undefined": True})))
    assert [sample.frames for sample in samples] == [(r.Frame(1),), (), (r.Frame(2, 9), r.Frame(None))]
    assert {sample.ip for sample in samples} == {UNDEFINED}
    jit = {"time": 5_000_000, "thread": np.int64(4), "thread_is_os": np.array([True, False]), "function_id": 1}
    assert list(CoreProfilerTrace(written_table("jit_starts", jit))) == [
        r.JitStarted(OsThread(4), 5, 1),
        r.JitStarted(4, 5, 1),
    ]
    collection = {"time": 0, "thread": 0, "reason": "?", "generations": "tf"}
    assert list(CoreProfilerTrace(written_table("gc_starts", collection))) == [r.GcStarted(0, 0, "?", (True, False))]
    assert written_table("starts", {"started_at": "2018-04-10 12:00"}) == b"prf stm 2018-04-10 12:00:00.000\n"


GC = {"time": 0, "thread": 0, "reason": "?"}
MEMORY = {"time": 0, "thread": 0}
SAMPLE = {"time": 0, "thread": 0, "count": 1, "match": 0, "size": 0}
ITEM = {"class_iid": 1, "count": 1, "size": 8}


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("frames", {"function_iid": [1]}, "table 'frames': cannot be written"),
        ("pauses", {}, "time: the column is missing"),
        ("pauses", {"time": [0], "name": ["x"]}, "name: is not a column"),
        ("pauses", {"timestamp": [0]}, "timestamp: is not a column"),
        ("pauses", {"time": [1]}, "not a whole number of milliseconds"),
        ("pauses", {"time": [0.5]}, "not an integer"),
        ("pauses", {"time": [0, None]}, "not an integer"),
        ("pauses", {"time": ["x"]}, "not an integer"),
        ("process_cpu", {"time": [0, 1_000_000], "usage": [1]}, "different lengths"),
        ("process_cpu", {"time": [0, 1_000_000], "usage": [1, -1]}, "not from 0"),
        ("process_cpu", {"time": [0], "usage": [1.0]}, "not an integer"),
        ("starts", {"started_at": ["yesterday"]}, "not a date and time"),
        ("starts", {"started_at": [5]}, "not a date and time"),
        ("starts", {"started_at": "2018-04-10 12:00:00.000001"}, "finer than a millisecond"),
        ("gc_starts", GC | {"generations": ["tx"]}, "not a text of t and f"),
        ("gc_starts", GC | {"generations": [5]}, "not a text of t and f"),
        ("class_names", {"class_iid": [1, 2], "name": ["good", "line\nend"]}, "line end"),
        ("class_names", {"class_iid": [1], "name": [5]}, "not text"),
        ("gc_starts", GC | {"thread_is_os": 1}, "neither True nor False"),
        ("gc_starts", GC | {"thread_is_os": [None]}, "neither True nor False"),
        ("gc_starts", GC | {"thread_is_os": "yes"}, "neither True nor False"),
        ("gc_starts", GC | {"thread": -1, "thread_is_os": True}, "not from 0"),
        ("samples", SAMPLE | {"ip": -1}, "not an address; `ip_undefined` marks"),
        ("samples", SAMPLE | {"ip": 5, "ip_undefined": True}, "is marked as undefined"),
        ("samples", SAMPLE | {"ip_undefined": 2}, "neither True nor False"),
        ("samples", SAMPLE | {"ip_undefined": [0.0]}, "neither True nor False"),
        ("samples", SAMPLE | {"frames": [[{"function_iid": 1, "ip": -1}]]}, "not an address"),
        ("memory_samples", MEMORY | {"items": Lists(np.array([0.0]), Table({}))}, "not integers"),
        ("memory_samples", MEMORY | {"items": ["text"]}, "a column of lists is needed"),
        ("memory_samples", MEMORY | {"items": [[5]]}, "list"),
        (
            "memory_samples",
            MEMORY | {"items": Lists(np.array([2]), Table({"class_iid": np.array([1])}))},
            "add up to 2",
        ),
        ("memory_samples", {"time": [0, 0], "thread": 0, "items": Lists(np.array([-1, 1]), Table({}))}, "0 items"),
        ("memory_samples", MEMORY | {"items": [[{"class_iid": 1}]]}, "count: the column is missing"),
        ("memory_samples", MEMORY | {"items": [[ITEM | {"bytes": 1}]]}, "bytes: is not a column"),
        ("memory_samples", MEMORY | {"items": [[ITEM | {"size": -8}]]}, "not from 0"),
    ],
)
def test_tables_that_are_refused(name: str, columns: dict[str, Any], message: str) -> None:
    out = io.BytesIO()
    with CoreProfilerWriter(out) as writer, pytest.raises(EncodeError, match=message):
        writer.write_table(name, columns)
    assert out.getvalue() == b""


def test_an_empty_table_writes_nothing() -> None:
    out = io.BytesIO()
    with CoreProfilerWriter(out) as writer:
        assert writer.write_table("pauses", {"time": []}) == 0
        writer.copy(CoreProfilerTrace(b"prf tps 1\n"))
    assert out.getvalue() == b"prf tps 1\n"


@pytest.mark.parametrize("style", DIALECTS)
@pytest.mark.parametrize("once", [False, True])
def test_a_copy_takes_over_the_style(style: str, once: bool) -> None:
    data, _, _ = support.simulated(1, style=style, steps=100)
    out = io.BytesIO()
    with CoreProfilerWriter(out, style="D4") as writer:
        trace = CoreProfilerTrace(io.BytesIO(data) if once else data)
        writer.copy(trace)
        assert writer.style is trace.style
        writer.put(r.ThreadDestroyed(1))
    assert out.getvalue() == data + support.written([r.ThreadDestroyed(1)], trace.style).removeprefix(b"\xef\xbb\xbf")


def test_copies_that_are_refused() -> None:
    trace = CoreProfilerTrace(b"prf tps 1\n")
    starts: tuple[Callable[[CoreProfilerWriter], object], ...] = (
        lambda writer: writer.put(r.ProfilerPaused(1)),
        lambda writer: writer.write_table("pauses", {"time": 0}),
        lambda writer: writer.copy(trace),
        lambda writer: writer.flush(),
    )
    for start in starts:
        with CoreProfilerWriter(io.BytesIO(), style="D4") as writer:
            start(writer)
            with pytest.raises(EncodeError, match="first"):
                writer.copy(trace)
    with CoreProfilerWriter(io.BytesIO()) as writer, pytest.raises(EncodeError, match="dcpi trace cannot be copied"):
        writer.copy(DcpiTrace(b"image 12\n"))


@pytest.mark.parametrize(
    "write",
    [
        lambda writer: writer.put(r.ProfilerPaused(1)),
        lambda writer: writer.put("not a record"),
        lambda writer: writer.copy(CoreProfilerTrace(b"prf tps 1\n")),
        lambda writer: writer.write_table("pauses", {"time": 0}),
        lambda writer: writer.write_table("nothing", {}),
    ],
)
def test_a_closed_writer_refuses(write: Callable[[CoreProfilerWriter], object]) -> None:
    out = io.BytesIO()
    with CoreProfilerWriter(out) as writer:
        pass
    with pytest.raises(ValueError, match="the writer is closed") as caught:
        write(writer)
    assert not isinstance(caught.value, EncodeError)
    writer.close()
    assert out.getvalue() == b""
