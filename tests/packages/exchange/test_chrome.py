"""Trace event JSON: as VizTracer, torch.profiler, browsers write it; damaged; exported and read again."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import judges
from fxtio import _native, open_timeline
from fxtio.exchange import chrome_reader, json_arguments, json_events
from fxtio.exchange.chrome_reader import nanoseconds
from fxtio.exchange.convert import convert
from fxtio.io.source import open_source
from fxtio.timeline.answers import top
from fxtio.timeline.parts import Registry
from judges import perfetto
from support.conversion import perfetto_view


def timeline_rows(data: bytes | str, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a table of a JSON file, row by row."""
    with open_timeline(data.encode() if isinstance(data, str) else data, format="chrome") as timeline:
        rows = timeline.table(table)
    return [tuple(row[column] for column in columns) for row in rows.rows()]


def slices_of(data: bytes | str) -> list[tuple[Any, ...]]:
    return timeline_rows(data, "slices", "name", "start", "duration", "depth")


def losses_of(data: bytes | str) -> dict[str, int]:
    with open_timeline(data.encode() if isinstance(data, str) else data, format="chrome") as timeline:
        timeline.table("slices")
        return dict(timeline.losses)


A = '{"ph":"X","name":"a","ts":1,"dur":2.5,"pid":1,"tid":2}'
B = '{"ph":"X","name":"b","ts":"1.5","dur":"1","pid":"1","tid":"2"}'


@pytest.mark.parametrize(
    "text",
    [
        f"[{A},{B}]",
        f"[{A},\n{B},\n",  # as Chromium leaves it after a crash
        f"[\n  {A}  ,\n {B}",
        f'{{"traceEvents":[{A},{B}],"displayTimeUnit":"ns"}}',
        f'{{"otherData":{{"x":[1,{{"y":2}}]}},"traceEvents":[{A},{B},],"stackFrames":{{}}}}',
        f'\ufeff {{ "schemaVersion" : 1 , "traceEvents" : [ {A} , {B} ] }}',
        f'{{"traceEvents":[{A},{B}',
    ],
)
def test_forms_of_files(text: str) -> None:
    expected = [("a", 1000, 2500, 0), ("b", 1500, 1000, 1)]
    assert slices_of(text) == expected
    assert slices_of(gzip.compress(text.encode())) == expected
    with open_timeline(text.encode()) as timeline:
        assert timeline.format == "chrome"


@pytest.mark.parametrize(
    ("args", "is_lost"),
    [
        (b'{"a":"\xff"}', False),
        (b'{"a":1e999}', False),
        (b'{"a":123456789012345678901234567890}', False),
        (b'{"a":%b}' % (b"1" * 5000), True),  # more digits than Python converts
    ],
)
def test_odd_arguments_do_not_cost_their_event(args: bytes, is_lost: bool) -> None:
    text = b'[{"ph":"X","name":"a","ts":9007199254740993.125,"pid":1,"tid":2,"args":%b},%b]' % (args, A.encode())
    with open_timeline(text, format="chrome") as timeline:
        tables = timeline.tables("slices", "args")
        assert sorted(tables["slices"]["start"].tolist()) == [1000, 9007199254740993125]
        assert tables["args"].num_rows == (not is_lost)
        assert timeline.losses["arguments that cannot be decoded"] == is_lost


@pytest.mark.parametrize(
    "place",
    [
        '{"source.file_name":"app.py","source.line_number":7}',
        '{"code":{"file":{"path":"app.py"},"line":{"number":7}}}',
        '{"code" : {"file.path" : "app.py", "line.number" : 7}}',
        '{"sou\\u0072ce.file_name":"app.py","source.line\\u005fnumber":7}',
    ],
)
def test_places_are_found_where_no_other_argument_is_decoded(place: str) -> None:
    text = f'[{A},{A[:-1]},"args":{place}}}]'
    with open_timeline(text.encode(), format="chrome") as timeline:
        assert [row["place"] for row in top(timeline).table.rows()] == ["app.py:7"]


def test_arguments_are_not_decoded_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(value: Any) -> Any:
        raise AssertionError(value)

    monkeypatch.setattr(json_arguments, "value_of", refused)
    with open_timeline(f'[{A[:-1]},"args":{{"Sequence number":1}}}}]'.encode(), format="chrome") as timeline:
        assert [row["name"] for row in top(timeline).table.rows()] == ["a"]


def test_begin_and_end() -> None:
    text = json.dumps([
        {"ph": "B", "name": "outer", "ts": 1, "pid": 1, "tid": 1, "args": {"a": 1}},
        {"ph": "B", "name": "inner", "ts": 2, "pid": 1, "tid": 1},
        {"ph": "E", "ts": 3, "pid": 1, "tid": 1, "args": {"b": {"c": [True, None, 0.5]}}},
        {"ph": "E", "name": "outer", "ts": 4, "pid": 1, "tid": 1},
        {"ph": "B", "name": "open", "ts": 5, "pid": 1, "tid": 1},
        {"ph": "i", "name": "mark", "ts": 6, "pid": 1, "tid": 1, "s": "p"},
    ])  # fmt: skip
    assert slices_of(text) == [("outer", 1000, 3000, 0), ("inner", 2000, 1000, 1), ("open", 5000, 1000, 0)]
    assert timeline_rows(text, "instants", "name", "time", "scope", "slice") == [("mark", 6000, "process", 2)]
    args = timeline_rows(text, "args", "event", "name", "type", "bits")
    assert [row[:3] for row in args] == [
        (0, "a", "integer"), (2, "b.c.0", "boolean"), (2, "b.c.1", "null"), (2, "b.c.2", "number"),
    ]  # fmt: skip


def test_names_and_numbers_of_threads() -> None:
    text = json.dumps([
        {"ph": "X", "name": "kernel", "ts": 1, "dur": 1, "pid": "GPU 0", "tid": "stream 7"},
        {"ph": "X", "name": "op", "ts": 1, "dur": 1, "pid": 5, "tid": 6},
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 6, "args": {"name": "main"}},
        {"ph": "M", "name": "process_sort_index", "pid": 5, "args": {"sort_index": 1}},
    ])  # fmt: skip
    assert {row[0] for row in timeline_rows(text, "processes", "name")} == {"GPU 0", "python"}
    assert {row[0] for row in timeline_rows(text, "threads", "name")} == {"stream 7", "main"}
    assert losses_of(text) == {"orders and labels of processes and threads": 1}


def test_ids_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chrome_reader, "_MAX_KNOWN", 10)
    reading = chrome_reader._Reading(Registry(), frozenset())
    assert [reading._unique_id(("flow", str(number))) for number in range(100)] == [*range(100)]
    assert len(reading._used) == 10


def test_a_long_chain_of_frames_is_a_stack() -> None:
    """Each of the frames that name their parents is looked at once, however many samples there are."""
    frames = {str(number): {"name": f"f{number}", "parent": str(number + 1)} for number in range(5_000)}
    samples = [{"ts": number, "sf": number, "pid": 1, "tid": 1} for number in (4_000, 0)]
    text = json.dumps({"traceEvents": [], "stackFrames": frames, "samples": samples})
    assert timeline_rows(text, "samples", "time", "stack") == [(4_000_000, 999), (0, 4_999)]
    assert timeline_rows(text, "stacks", "depth", "frame")[999] == (999, 999)
    assert timeline_rows(text, "frames", "name")[999] == ("f4000",)
    assert losses_of(text) == {}


@pytest.mark.parametrize(
    ("item", "is_event"),
    [
        (b'{"a":NaN},', True),
        (b'{"a":x},', False),
        (b"1,", False),
        (b"{x{},", False),
        (b'{"a":x,"b":"', False),
        (b'"a\\', False),
        (b"{}   ,", True),
    ],
)
def test_damaged_items_take_linear_time(item: bytes, is_event: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is counted as characters that are decoded, and bytes that are scanned."""
    decoded, scanned = [], []
    decode, scan = json.JSONDecoder.raw_decode, json_events._balanced_end

    def counted_decode(self: Any, text: str, *arguments: Any) -> Any:
        decoded.append(len(text))
        return decode(self, text, *arguments)

    def counted_scan(data: bytearray, limit: int) -> tuple[int, int]:
        result = scan(data, limit)
        scanned.append(result[1])
        return result

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted_decode)
    monkeypatch.setattr(json_events, "_balanced_end", counted_scan)
    data = b"[" + item * 20_000 + b"]"
    reading = json_events.JsonEvents(open_source(data), chrome_reader.ARRAYS, (), Counter())
    assert sum(len(items) for _, items in reading) == (20_000 if is_event else 0)
    assert sum(scanned) <= 8 * len(data)
    assert sum(decoded) <= 300 * (20_000 + 1) + 4 * len(data)


def test_large_items_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few they are: what waits is in memory."""
    monkeypatch.setattr(json_events, "_LARGE", 1_000)
    item = b'{"ph":"X","name":"x","ts":1,"args":{"text":"%b"}}' % (b"y" * 600)
    data = b"[" + b",".join([item, b"null"] * 20) + b"]"
    reading = json_events.JsonEvents(open_source(data), chrome_reader.ARRAYS, (), Counter())
    sizes = [len(items) for _, items in reading]
    assert sum(sizes) == 20
    assert len(sizes) >= 4


def test_counters_async_and_flows() -> None:
    text = json.dumps([
        {"ph": "C", "name": "memory", "ts": 1, "pid": 1, "args": {"free": 10, "used": "2.5"}},
        {"ph": "C", "name": "load", "ts": 2, "pid": 1, "args": {"value": 3}},
        {"ph": "b", "name": "request", "cat": "net", "id": "0x7", "ts": 1, "pid": 1, "tid": 1},
        {"ph": "n", "name": "sent", "cat": "net", "id": "0x7", "ts": 2, "pid": 1, "tid": 1},
        {"ph": "e", "name": "request", "cat": "net", "id": "0x7", "ts": 4, "pid": 1, "tid": 1},
        {"ph": "b", "name": "other", "cat": "disk", "id2": {"local": "0x7"}, "ts": 1, "pid": 1, "tid": 1},
        {"ph": "X", "name": "a", "ts": 1, "dur": 4, "pid": 1, "tid": 1},
        {"ph": "s", "name": "arrow", "cat": "f", "id": 3, "ts": 2, "pid": 1, "tid": 1},
        {"ph": "f", "name": "arrow", "cat": "f", "id": 3, "ts": 3, "pid": 1, "tid": 1, "bp": "e"},
        {"ph": "f", "name": "another", "cat": "f", "id": 3, "ts": 3, "pid": 1, "tid": 1, "bp": "e"},
    ])  # fmt: skip
    with open_timeline(text.encode()) as timeline:
        tables = timeline.tables("counters", "slices", "flow_points", "tracks", "instants")
    names = tables["tracks"]["name"].tolist()
    counters = zip(tables["counters"]["track"].tolist(), tables["counters"]["value"].tolist(), strict=True)
    assert [(names[track], value) for track, value in counters] == [
        ("memory:free", 10), ("memory:used", 2.5), ("load", 3),
    ]  # fmt: skip
    assert sorted(tables["slices"]["name"].tolist()) == ["a", "other", "request"]
    ids = tables["flow_points"]["id"].tolist()
    assert ids[0] == ids[1] == 3 != ids[2]
    kinds = tables["tracks"]["kind"].tolist()
    assert kinds.count("async") == 2
    assert tables["instants"]["name"].tolist() == ["sent"]


def test_samples_and_stacks() -> None:
    text = json.dumps({
        "traceEvents": [],
        "stackFrames": {"1": {"name": "main", "category": "app"}, "2": {"name": "work", "parent": "1"}},
        "samples": [{"ts": 5, "tid": 2, "pid": 1, "sf": 2, "weight": 3, "name": "cycles", "cpu": 0}],
    })  # fmt: skip
    assert timeline_rows(text, "samples", "time", "stack", "count", "unit") == [(5000, 1, 3, "cycles")]
    assert timeline_rows(text, "stacks", "parent", "frame", "depth") == [(-1, 0, 0), (0, 1, 1)]
    assert timeline_rows(text, "frames", "name", "module") == [("main", "app"), ("work", None)]


@pytest.mark.parametrize("value", [1, 0.001, "12.5", 1693478473481234.567, "1693478473481234.567", 1e3, "1e3"])
def test_times_are_exact(value: Any) -> None:
    expected = {"1693478473481234.567": 1693478473481234567, "12.5": 12500, "1e3": 10**6}.get(str(value))
    expected = expected if expected is not None else round(float(value) * 1000)
    text = '[{"ph":"i","name":"x","pid":1,"tid":1,"ts":%s}]' % json.dumps(value)  # noqa: UP031  # braces
    if isinstance(value, float) and value > 1e15:
        text = text.replace(repr(value), "1693478473481234.567")
        expected = 1693478473481234567
    assert timeline_rows(text, "instants", "time") == [(expected,)]


def test_what_is_no_time() -> None:
    values: list[Any] = [None, True, [], {}, "x", "nan", "1e999", float("nan"), float("inf")]
    for value in values:
        assert nanoseconds(json.dumps(value).encode()) is None
    assert nanoseconds(b'"-1.5"') == -1500
    assert nanoseconds(b"") is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MEMBERS = st.dictionaries(st.sampled_from(["samples", "stackFrames"]), JSON_VALUES)
KEYS = st.sampled_from([*["X", "B", "E", "i", "C", "M", "s", "t", "f", "b", "n", "e", "S", "F", "p", "I", "R"]])
HOSTILE = st.fixed_dictionaries(
    {"ph": KEYS | JSON_VALUES},
    optional={
        name: JSON_VALUES | st.integers(0, 5)
        for name in ("ts", "dur", "name", "cat", "pid", "tid", "id", "id2", "args", "s", "bp", "sf", "bind_id", "scope")
    },
)


@pytest.mark.full
@given(st.lists(HOSTILE | JSON_VALUES, max_size=6), MEMBERS)
def test_values_of_wrong_types_are_losses(events: list[Any], members: dict[str, Any]) -> None:
    text = json.dumps({"traceEvents": events, **members})
    with open_timeline(text.encode(), format="chrome") as timeline:
        timeline.tables(*timeline.table_names)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data: bytes) -> None:
    for text in (b"[" + data, b'{"traceEvents":[' + data, b'[{"ph":"X","ts":1},' + data):
        with open_timeline(text, format="chrome") as timeline:
            timeline.table("slices")


def everything(data: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    """Return all tables and losses of a file."""
    with open_timeline(data, format="chrome") as timeline:
        tables = timeline.tables(*timeline.table_names)
        return {name: list(table.rows()) for name, table in tables.items()}, dict(timeline.losses)


SEEDS = [
    json.dumps([
        {"ph": "X", "name": "é", "cat": "x", "ts": 1.5, "dur": 2, "pid": 1, "tid": "t", "args": {"a": [1, {"b": "]"}]}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}},
        {"ph": "B", "name": "b", "ts": "7", "pid": 1, "tid": 2}, {"ph": "E", "ts": 9, "pid": 1, "tid": 2},
        {"ph": "C", "name": "c", "ts": 3, "pid": 2, "args": {"v": 1, "w": "2.5"}},
        {"ph": "b", "cat": "n", "id": "0x7", "ts": 1, "pid": 1, "name": "o"},
        {"ph": "e", "cat": "n", "id": "0x7", "ts": 2, "pid": 1, "name": "o"},
        {"ph": "s", "id": 3, "ts": 2, "pid": 1, "tid": 2, "name": "f"}, {"ph": "i", "s": "g", "ts": 4, "pid": 1},
        {"ph": "f", "id": 3, "bp": "e", "ts": 5, "pid": 1, "tid": 2, "name": "f"}, {"ph": "X", "ts": 123456789012.3456},
    ]).encode(),
    f'{{"traceEvents":[{A},{B},{A[:-1]},"args":{{"n":NaN}}}},{{"ph":"X","n\\u0061me":"k","ts":1}},{B}],"displayTimeUnit":"ns"}}'.encode(),
    b'{"samples":[{"ts":5,"tid":2,"pid":1,"sf":2,"weight":3,"cpu":0}],"stackFrames":{"2":{"name":"w"}},"traceEvents":[]}',
]  # fmt: skip


def mutants(count: int) -> Iterator[bytes]:
    """Yield files of which some bytes were changed, removed, or put in twice."""
    random = Random(7)
    pieces = [
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"0",
        b"-",
        b"e5",
        b"NaN",
        b"\xff",
        b"\x00",
        b'{"ph":"X"}',
    ]
    for number in range(count):
        data = bytearray(SEEDS[number % len(SEEDS)])
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(data))
            end = at + random.choice([0, 0, 1, 1, 9])
            data[at:end] = random.choice([*pieces, b"", bytes(data[at : at + 30]), bytes([random.randrange(256)])])
        yield bytes(data)


@pytest.mark.parametrize(
    "count",
    [
        100,
        pytest.param(1_000, marks=pytest.mark.full),
        pytest.param(10_000, marks=[pytest.mark.full, pytest.mark.once]),
    ],
)
def test_objects_that_are_walked_and_those_decoded_by_themselves_are_the_same(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the kernel leaves aside is decoded by itself, so all may be."""
    for data in [*SEEDS, *mutants(count)]:
        expected = everything(data)
        with monkeypatch.context() as patch:
            patch.setattr(_native, "walk_objects", lambda *arguments: (0, 0))
            assert everything(data) == expected, data


@pytest.mark.parametrize("step", [40, 1000])
def test_items_across_blocks(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(json_events, "BLOCK", step)
    monkeypatch.setattr(json_events, "_FIRST_SLICE", 64)
    events = [
        {"ph": "i", "name": f"é}},{{{{ {n}", "ts": n, "pid": 1, "tid": 1, "args": {"list": [{"a": n}, {"b": "},{"}]}}
        for n in range(50)
    ]
    text = json.dumps({"traceEvents": events, "rest": 1}, ensure_ascii=False)
    rows = timeline_rows(text, "instants", "name", "time")
    assert rows == [(each["name"], 1000 * n) for n, each in enumerate(events)]
    damaged = text.replace('"ts": 7,', '"ts": ,', 1).replace('"ts": 20,', '"ts": NaN,', 1)
    rows = timeline_rows(damaged, "instants", "name", "time")
    assert {row[1] // 1000 for row in rows} >= {*range(50)} - {7, 20}
    assert losses_of(damaged)["events without a usable time"] == 1


def test_depth_and_long_strings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "[" * 100_000
    assert slices_of(f'[{{"ph":"X","ts":1,"args":{deep}}},{A}]') == [("a", 1000, 2500, 0)]
    monkeypatch.setattr(json_events, "MAX_ITEM", 1 << 17)
    long = "x" * (1 << 18)
    assert slices_of(f'[{{"ph":"X","name":"{long}","ts":1}},{A},{{"ph":"X"')[-1:] == [("a", 1000, 2500, 0)]


PROGRAM = """
import time
from viztracer import VizTracer, get_tracer
def leaf(n): return n * 2
def middle(n): return [leaf(each) for each in range(n)]
tracer = VizTracer(output_file={out!r}, verbose=0)
tracer.start()
for number in range(20): middle(number)
tracer.stop()
tracer.save()
"""


@pytest.mark.full
@pytest.mark.once
def test_viztracer(tmp_path: Path) -> None:
    pytest.importorskip("viztracer")
    judges.require(perfetto.available())
    out = tmp_path / "result.json"
    subprocess.run([sys.executable, "-c", PROGRAM.format(out=str(out))], check=True, capture_output=True)
    expected = perfetto_view(out)
    with open_timeline(out) as timeline:
        names = timeline.table("slices")["name"].tolist()
        assert sum("leaf" in name for name in names) == sum(range(20))
        losses = convert(timeline, tmp_path / "out.json")
    assert set(losses) <= {"orders and labels of processes and threads"}
    assert perfetto_view(tmp_path / "out.json") == expected


def torch_like(count: int) -> list[dict[str, Any]]:
    """Return events as torch.profiler writes them: by category, times since 1970, the GPU as processes of their own."""
    base = 1693478473481234.567
    events: list[dict[str, Any]] = []
    for n in range(count):
        time = base + 100 * n
        args = {"External id": n, "Input Dims": [[2, 3], []], "Sequence number": n}
        common = {"ts": time, "dur": 50.25}
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 100, "tid": 100, "args": args, **common})
        kernel = {"ph": "X", "cat": "kernel", "name": "void add<float>", "pid": 0, "tid": 7, "args": {"stream": 7}}
        events.append({**kernel, "ts": time + 10, "dur": 5.5})
        arrow = {"id": n + 1, "cat": "ac2g", "name": "ac2g"}
        events.append({"ph": "s", "pid": 100, "tid": 100, "ts": time + 1, **arrow})
        events.append({"ph": "f", "pid": 0, "tid": 7, "ts": time + 10, "bp": "e", **arrow})
    names = {"process_name": (100, 0, "python"), "thread_name": (100, 100, "thread 100 (python)")}
    for name, (pid, tid, text) in names.items():
        events.append({"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": base, "args": {"name": text}})
    return events


@pytest.mark.full
@pytest.mark.once
def test_torch_like(tmp_path: Path) -> None:
    judges.require(perfetto.available())
    source = tmp_path / "torch.json"
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": torch_like(50), "traceName": "x"}
    source.write_text(json.dumps(document))
    with open_timeline(source) as timeline:
        assert convert(timeline, tmp_path / "out.json") == {}
    before, after = perfetto_view(source), perfetto_view(tmp_path / "out.json")
    assert len(after.flows) == 50
    assert [len(each) for each in before] == [len(each) for each in after]


def read_again(events: Sequence[dict[str, Any]]) -> list[Any]:
    data = json.dumps(list(events)).encode()
    out = io.BytesIO()
    with open_timeline(data) as timeline:
        from fxtio.exchange.chrome import Exporter
        from fxtio.io.sink import open_sink

        exporter, _ = timeline.fold(lambda registry: Exporter(open_sink(out), registry), *Exporter.TABLES)
        exporter.finish()
    return json.loads(out.getvalue())["traceEvents"]  # type: ignore[no-any-return]


def test_an_empty_file_is_valid() -> None:
    assert read_again([{"ph": "M"}]) == []
