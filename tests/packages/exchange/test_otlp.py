"""Tests of OTLP JSON lines: round trips, messages of opentelemetry-proto, files of other programs, hostile files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec import distinct
from fxtio.exchange import json_events, otlp, otlp_lines, otlp_reader
from fxtio.exchange.convert import convert
from fxtio.exchange.otlp_reader import _Reader
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, TimelinePart
from support import exchange
from support.checkout import CORPUS
from support.exchange import Content, exported, imported

Row = dict[str, Any]


def lines(timeline: Timeline) -> list[Row]:
    return [json.loads(line) for line in exported(timeline, "otlp")[0].splitlines()]


def spans_of(timeline: Timeline) -> list[Row]:
    """Return the spans of all lines."""
    resources = [resource for line in lines(timeline) for resource in line["resourceSpans"]]
    return [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2, "main", "app")
        track.begin("outer", 100, category="c", args={"a": 1, "f": 0.5, "s": "x", "b": True, "n": None})
        track.instant("point", 120, args={"i": 7})
        track.complete("inner", 130, 140, category="d", args={"u": 2**63})
        track.end("outer", 200, category="c")
        track.instant("alone", 300)
        writer.thread(1, 3, "worker", "app").complete("work", 100, 150)
        writer.thread(9, 4).begin("open", 110)
    return tmp_path / "in.fxt"


def attributes(row: Row) -> Row:
    return {each["key"]: each["value"] for each in row.get("attributes", [])}


def test_what_is_written(trace: Path) -> None:
    timeline = fxtio.open_timeline(trace)
    found = {span["name"]: span for span in spans_of(timeline)}
    outer, inner = found["outer"], found["inner"]
    assert (outer["startTimeUnixNano"], outer["endTimeUnixNano"]) == ("100", "200")
    assert inner["traceId"] == outer["traceId"] != found["work"]["traceId"]
    assert inner["parentSpanId"] == outer["spanId"] and "parentSpanId" not in outer
    assert attributes(outer) == {
        "thread.id": {"intValue": "2"},
        "thread.name": {"stringValue": "main"},
        "a": {"intValue": "1"},
        "f": {"doubleValue": 0.5},
        "s": {"stringValue": "x"},
        "b": {"boolValue": True},
        "n": {},
    }
    assert attributes(inner)["u"] == {"stringValue": str(2**63)}
    (event,) = outer["events"]
    assert (event["name"], event["timeUnixNano"], attributes(event)) == ("point", "120", {"i": {"intValue": "7"}})
    assert attributes(found["open"])["fxtio.state"] == {"stringValue": "open"}
    resources = [resource for line in lines(timeline) for resource in line["resourceSpans"]]
    assert attributes(resources[0]["resource"]) == {
        "process.pid": {"intValue": "1"},
        "service.name": {"stringValue": "app"},
    }
    assert {scope["scope"]["name"] for resource in resources for scope in resource["scopeSpans"]} == {"c", "d", ""}
    _, losses = exported(timeline, "otlp")
    assert losses == {
        "instants that are in no slice": 1,
        "types of arguments that are unsigned, pointers, or koids": 1,
    }


@pytest.mark.parametrize("wall_clock", [0, 7, 1_700_000_000_000_000_000, 2**63 - 1, -110, -(2**63) + 1])
def test_times_are_wall_clock_times(wall_clock: int) -> None:
    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        registry.note_wall_clock(wall_clock)
        yield from Content(spans=[(0, 100, 50, "a"), (0, 200, 50, "b")]).parts(registry, tables)

    timeline = Timeline("test", "test", parts)
    found = {(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in spans_of(timeline)}
    before = [(100, 150), (200, 250)]
    assert found == {(max(start + wall_clock, 0), max(end + wall_clock, 0)) for start, end in before}
    early = sum(time + wall_clock < 0 for span in before for time in span)
    assert exported(timeline, "otlp")[1] == ({"times before 1970, which are 1970 now": early} if early else {})


def test_a_wall_clock_behind_the_events_is_a_loss() -> None:
    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        spans = [(0, 100 * number, 50, "a") for number in range(1, 9)]
        yield from Content(spans=spans, size=1).parts(registry, tables)
        registry.note_wall_clock(7)

    timeline = Timeline("test", "test", parts)
    assert {span["startTimeUnixNano"] for span in spans_of(timeline)} == {str(100 * number) for number in range(1, 9)}
    assert exported(timeline, "otlp")[1] == {"the wall clock, which the source has after its first events": 1}


def test_recordings_keep_their_wall_clock(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt", wall_clock=1_700_000_000_000_000_000, base_ticks=50) as writer:
        writer.thread(1, 2).complete("a", 100, 150)
    timeline = fxtio.open_timeline(tmp_path / "in.fxt")
    for _ in range(2):
        data, losses = exported(timeline, "otlp")
        assert losses == {}
        timeline = imported(data)
        assert timeline.table("slices")["start"].tolist() == [1_700_000_000_000_000_050]


def content_of(timeline: Timeline) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Return slices, instants and arguments with the names and numbers that they refer to."""
    tables = timeline.tables("slices", "instants", "args", "tracks", "threads", "processes")
    threads, processes = [*tables["threads"].rows()], [*tables["processes"].rows()]
    owner = {}
    for number, track in enumerate(tables["tracks"].rows()):
        thread = threads[track["thread"]] if track["thread"] >= 0 else None
        owner[number] = (thread and (thread["tid"], thread["name"]), processes[track["process"]]["pid"])
    slices = [*tables["slices"].rows()]
    names = {row["event"]: (row["name"], row["start"]) for row in slices}
    names |= {row["event"]: (row["name"], row["time"]) for row in tables["instants"].rows() if row["slice"] >= 0}
    keys = ("start", "duration", "name", "state", "depth")
    return (
        Counter((owner[row["track"]], row["category"] or None, *(row[key] for key in keys)) for row in slices),
        Counter(names[row["event"]] for row in tables["instants"].rows() if row["event"] in names),
        Counter(
            (names[row["event"]], row["name"], row["type"], row["bits"], row["text"])
            for row in tables["args"].rows()
            if row["event"] in names
        ),
    )


def test_round_trip(trace: Path) -> None:
    timeline = fxtio.open_timeline(trace)
    again = imported(exported(timeline, "otlp")[0])
    assert again.format == "otlp"
    slices, instants, arguments = content_of(timeline)
    (unsigned,) = [key for key in arguments if key[1] == "u"]
    arguments[*unsigned[:2], "text", 0, str(2**63)] = arguments.pop(unsigned)
    assert content_of(again) == (slices, instants, arguments)
    assert not again.losses


@given(exchange.complete_spans, st.integers(1, 40))
def test_spans_that_nest_come_back(spans: list[tuple[int, int, int, str]], size: int) -> None:
    timeline = Content(spans=spans, size=size).timeline()
    again = imported(exported(timeline, "otlp")[0], "otlp")

    def found(of: Timeline) -> Counter[Any]:
        return Counter((row["start"], row["duration"], row["name"]) for row in of.table("slices").rows())

    assert found(again) == found(timeline)
    if "overlapping" not in timeline.table("slices")["state"].tolist():
        before, after = exchange.spans(timeline), exchange.spans(again)
        long = [row[1:] for row in before if row[2]], [row[1:] for row in after if row[2]]
        assert Counter(long[0]) == Counter(long[1])


@given(exchange.complete_spans, st.integers(1, 10))
def test_parents_and_traces(spans: list[tuple[int, int, int, str]], size: int) -> None:
    timeline = Content(spans=spans, size=size).timeline()
    slices = [*timeline.table("slices").rows()]
    found = {int(span["spanId"], 16) - 1: span for span in spans_of(timeline)}
    assert len(found) == len(slices)
    roots: dict[int, str] = {}
    for row in slices:
        span = found[row["id"]]
        if row["parent"] < 0:
            assert "parentSpanId" not in span
            assert span["traceId"] not in roots.values()
            roots[row["id"]] = span["traceId"]
        else:
            assert int(span["parentSpanId"], 16) - 1 == row["parent"]
            assert span["traceId"] == found[row["parent"]]["traceId"]


def test_traces_have_different_ids() -> None:
    one, other = (spans_of(Content(spans=[(0, start, 5, "a")]).timeline())[0]["traceId"] for start in (0, 1))
    assert one != other


def test_the_messages_of_opentelemetry(trace: Path) -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    found = []
    for line in exported(fxtio.open_timeline(trace), "otlp")[0].splitlines():
        document = json.loads(line)
        for resource in document["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:  # OTLP has hexadecimal ids where JSON of protobuf has base64
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in span:
                            assert len(bytes.fromhex(span.pop(key))) in (8, 16)
        message = json_format.ParseDict(document, trace_pb2.TracesData())
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                found += [(span.name, span.start_time_unix_nano, span.kind, len(span.events)) for span in scope.spans]
    assert sorted(found) == [("inner", 130, 1, 0), ("open", 110, 1, 0), ("outer", 100, 1, 1), ("work", 100, 1, 0)]


@pytest.mark.full
def test_the_corpus() -> None:
    timeline = fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt")
    again = imported(exported(timeline, "otlp")[0])
    assert content_of(again)[0].total() == content_of(timeline)[0].total()


# ---------------------------------------------------------------------------------------------- files of other programs


def request(*spans: Row, **more: Any) -> bytes:
    scope = {"scope": {"name": "lib"}, "spans": [*spans]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}], **more}).encode() + b"\n"


def span(name: str, start: Any, end: Any, id: str = "01", parent: str = "", **more: Any) -> Row:
    times = {"startTimeUnixNano": start, "endTimeUnixNano": end}
    return {"traceId": "5b", "spanId": id, "parentSpanId": parent, "name": name, **times, **more}


def test_spans_without_threads_nest_in_their_parents_only() -> None:
    data = request(
        span("b", "30", "40", "03", "01"),
        span("a", "10", "60", "02", "01"),
        span("root", 0, 100, "01"),
        span("a1", "20", "50", "04", "02"),
    )
    timeline = imported(data)
    tables = timeline.tables("slices", "tracks", "processes")
    names = {row["id"]: row["name"] for row in tables["slices"].rows()}
    found = {row["name"]: (names.get(row["parent"]), row["track"]) for row in tables["slices"].rows()}
    assert found == {"root": (None, 0), "a": ("root", 0), "a1": ("a", 0), "b": (None, 1)}
    assert tables["processes"]["name"].tolist() == ["shop"]
    assert tables["tracks"]["name"].tolist() == ["root", "b"]


def test_attributes_of_all_types() -> None:
    values: list[tuple[str, Any]] = [
        ("list", {"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "x"}]}}),
        ("map", {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": False}}]}}),
        ("bytes", {"bytesValue": "AAE="}),
        ("int", {"intValue": 5}),
        ("nan", {"doubleValue": "NaN"}),
        ("none", {}),
    ]
    data = request(span("a", 1, 2, attributes=[{"key": key, "value": value} for key, value in values], links=[{}]))
    timeline = imported(data)
    rows = [*timeline.table("args").rows()]
    assert [(row["name"], row["type"], row["text"]) for row in rows] == [
        ("list.0", "integer", None),
        ("list.1", "text", "x"),
        ("map.k", "boolean", None),
        ("bytes", "text", "AAE="),
        ("int", "integer", None),
        ("nan", "number", None),
        ("none", "null", None),
    ]
    timeline.table("slices")
    assert timeline.losses == {"links without ids": 1}


@pytest.mark.parametrize("value", [{"intValue": "1"}, {"arrayValue": {"values": [{"intValue": "1"}]}}])
def test_names_with_escapes(value: Row) -> None:
    """They are the same names, whether or not any of the attributes are lists."""
    keys = ["thread.id", "threat.id", "x", "y"]
    spans = [
        span("s", 1, 2, attributes=[{"key": key, "value": value if key == "x" else {"intValue": "7"}} for key in keys])
        for _ in range(2)
    ]
    plain = request(*spans)
    escaped = plain.replace(b'"thread.id"', b'"\\u0074hread.id"', 1).replace(b'"x"', b'"\\u0078"', 1)
    assert escaped != plain and everything(escaped) == everything(plain)
    assert imported(escaped).table("threads")["tid"].tolist() == [7]


def test_the_last_of_several_attributes_with_one_name_counts() -> None:
    values = [("k", "1"), ("other", "2"), ("k", "3"), ("\\u006b", "4")]
    data = request(span("a", 1, 2, attributes=[{"key": key, "value": {"intValue": n}} for key, n in values]))
    data = data.replace(rb"\\u006b", rb"\u006b")
    assert [(row["name"], row["bits"]) for row in imported(data).table("args").rows()] == [("other", 2), ("k", 4)]


def test_ids_with_escapes() -> None:
    """They are the same ids."""
    plain = request(span("outer", 1, 9, "b1"), span("inner", 2, 3, "c1", "b1"))
    escaped = plain.replace(b'"parentSpanId": "b1"', b'"parentSpanId": "\\u00621"')
    assert escaped != plain and everything(escaped) == everything(plain)
    assert imported(escaped).table("slices")["parent"].tolist() == [-1, 0]


def test_a_status_and_indented_json() -> None:
    document = json.loads(request(span("a", 1, 2, status={"code": 2}), span("b", 3, 4, status={"code": 1})))
    timeline = imported(json.dumps(document, indent=1).encode())
    assert timeline.table("slices")["state"].tolist() == ["thrown", "closed"]


def test_kinds_links_and_the_status_come_back(tmp_path: Path) -> None:
    numbers = {"traceId": "a" * 32, "spanId": "b" * 16}
    link = {**numbers, "attributes": [{"key": "why", "value": {"stringValue": "retry"}}]}
    rows = [
        span("server", 1, 9, kind=2, status={"code": 2, "message": "no"}, links=[link, numbers]),
        span("consumer", 11, 12, kind="SPAN_KIND_CONSUMER", status={"code": "STATUS_CODE_OK"}),
        span("internal", 13, 14, kind=1, status={}),
        span("odd", 15, 16, kind=77, status={"code": 3, "message": 7}),
        span("unset", 17, 18, status={"message": "why"}),
        span("odd, too", 19, 20, status={"code": 2.0}),
    ]
    direct = imported(request(*rows))
    convert(direct, tmp_path / "out.fxt")
    for timeline in (direct, fxtio.open_timeline(tmp_path / "out.fxt")):
        found = {each["name"]: each for each in spans_of(timeline)}
        assert [found[each["name"]]["kind"] for each in rows] == [2, 5, 1, 1, 1, 1]
        assert [found[each["name"]].get("status") for each in rows] == [
            {"code": 2, "message": "no"}, {"code": 1}, None, None, {"code": 0, "message": "why"}, {"code": 2},
        ]  # fmt: skip
        assert found["server"]["links"] == [link, numbers]
        assert {name: attributes(each).keys() - {"fxtio.state"} for name, each in found.items()} == {
            name: set() for name in found
        }
        assert not timeline.losses


def test_what_is_at_the_start_of_a_span_is_not_in_one_that_starts_within_it_then() -> None:
    links = [{"traceId": "a" * 32, "spanId": "b" * 16}]
    events = [{"timeUnixNano": "1", "name": "first"}]
    rows = [
        span("outer", 1, 9, spanId="1" * 16, links=links, events=events),
        span("inner", 1, 5, parentSpanId="1" * 16, events=[{"timeUnixNano": "2", "name": "second"}]),
    ]
    for order in (rows, rows[::-1]):
        found = {each["name"]: each for each in spans_of(imported(request(*order)))}
        assert found["outer"]["links"] == links and found["outer"]["events"] == events
        assert [each["name"] for each in found["inner"]["events"]] == ["second"] and "links" not in found["inner"]


def test_arguments_of_an_event_are_together_and_the_last_of_a_name_counts() -> None:
    given = [{"key": "span.kind", "value": {"stringValue": "mine"}}]
    rows = [span(str(number), number, number + 1, kind=2, attributes=given, status={"code": 1}) for number in range(3)]
    found = imported(request(*rows)).table("args")
    assert [(row["event"], row["name"], row["text"]) for row in found.rows()] == [
        (number, *each) for number in range(3) for each in (("span.kind", "server"), ("otel.status_code", "OK"))
    ]


TRACE, SPAN = "c" * 32, "d" * 16


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("span.attributes", {}),
        ("log", {"span.id": SPAN, "m": 1}),
        ("log", {"span.id": "0000000000000001"}),
        ("span.attributes", {"span.id": 7}),
        ("span.link", {"traceId": TRACE}),
        ("span.link", {"traceId": TRACE, "spanId": SPAN.upper()}),
        ("span.link", {"traceId": 7, "spanId": SPAN, "span.id": SPAN}),
    ],
)
def test_instants_that_only_look_like_those_of_spans_are_kept(tmp_path: Path, name: str, args: Row) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2)
        track.begin("before", 1)
        track.end("before", 2)
        track.begin("around", 3)
        track.instant(name, 4, args=args)
        track.instant(name, 5, args=args)
        track.end("around", 6)
    timeline = fxtio.open_timeline(tmp_path / "in.fxt")
    around = next(each for each in spans_of(timeline) if each["name"] == "around")
    values = {
        key: {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}
        for key, value in args.items()
    }
    if name == "span.attributes" and args:
        assert values.items() <= attributes(around).items()
    else:
        assert [(each["name"], attributes(each)) for each in around["events"]] == [(name, values)] * 2
    assert not exported(timeline, "otlp")[1]


# -------------------------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (request(span("a", None, 2)), "spans without a time"),
        (request(span("a", "x", 2)), "spans without a time"),
        (request(span("a", "-1", 2)), "spans without a time"),
        (request(span("a", 5, 2)), "spans that end before they begin, which last 0 ns now"),
        (request(span("a", 1, 2, events=[{"name": "e"}])), "events without a time"),
        (request(span("a", 1, 2)) + b"{\n", "lines that cannot be read"),
        (request(span("a", 1, 2)) + b"[]\n", "lines without spans, such as those of metrics and logs"),
        (request(span("a", 1, 2)) + b'{"resourceLogs":[]}\n', "lines without spans, such as those of metrics and logs"),
    ],
)
def test_what_is_wrong_is_a_loss(data: bytes, what: str) -> None:
    timeline = imported(data)
    timeline.tables("slices", "instants", "args")
    assert timeline.losses == {what: 1}


@pytest.mark.parametrize("data", [b'{"resourceSpans": 5', b'{"resourceSpans":[', b'{"resourceSpans":' + b"[" * 9000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(fxtio.FormatError, match="not OTLP"):
        imported(data).table("slices")


def test_many_spans_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_reader, "MAX_LANES", 3)
    timeline = imported(request(*(span(f"s{number}", number, 100 + number, f"{number:02}") for number in range(9))))
    assert timeline.table("slices").num_rows == 9
    assert timeline.table("tracks").num_rows == 3


def test_the_number_of_spans_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_reader, "MAX_SPANS", 2)
    event = {"timeUnixNano": 1, "name": "e"}
    timeline = imported(request(*(span("a", 1, 2, str(number), events=[event, event]) for number in range(5))))
    assert (timeline.table("slices").num_rows, timeline.table("instants").num_rows) == (2, 2)
    assert timeline.losses == {"spans beyond 2": 3, "events beyond 2": 2}


def test_parents_in_a_circle_do_no_harm() -> None:
    timeline = imported(request(span("a", 1, 5, "01", "02"), span("b", 1, 5, "02", "01")))
    assert timeline.table("slices").num_rows == 2


def test_instants_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(otlp, "MAX_WAITING", 2)
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2)
        track.begin("a", 0)
        for time in range(5):
            track.instant("i", time)
        track.end("a", 9)
    timeline = fxtio.open_timeline(tmp_path / "in.fxt")
    assert len(spans_of(timeline)[0]["events"]) == 2
    assert exported(timeline, "otlp")[1] == {"instants beyond 2 within slices that have not ended": 3}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["key", "value", "values", "intValue", "arrayValue", "kvlistValue", "name", "doubleValue"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = [
    "traceId",
    "spanId",
    "parentSpanId",
    "name",
    "startTimeUnixNano",
    "attributes",
    "events",
    "status",
    "links",
    "kind",
]


@pytest.mark.full
@given(st.dictionaries(st.sampled_from(KEYS), json_values), st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_values_are_read(changes: Row, event: Row) -> None:
    changes.setdefault("events", [{"timeUnixNano": "1", **event}])
    imported(request({**span("a", 1, 2), **changes}, span("b", 1, 2))).tables("slices", "instants", "args")


@given(st.sampled_from(["resourceSpans", "resource", "scopeSpans", "scope", "spans"]), json_values)
def test_any_structure_is_read(key: str, value: Any) -> None:
    def replaced(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: value if name == key else replaced(each) for name, each in node.items()}
        return [replaced(each) for each in node] if isinstance(node, list) else node

    data = json.dumps(replaced(json.loads(request(span("a", 1, 2))))).encode()
    imported(data, "otlp").tables("slices", "instants", "args")


def everything(data: bytes) -> Any:
    """Return all tables of a file by their values, and what is lost."""
    timeline = imported(data, "otlp")
    tables = timeline.tables("slices", "instants", "args", "tracks", "threads", "processes")
    columns = {
        name: [{key: value for key, value in row.items() if key not in ("event", "end_event")} for row in table.rows()]
        for name, table in tables.items()
    }
    places = {event: place for place, event in enumerate(sorted(set(tables["args"]["event"].tolist())))}
    owners = [places.get(event) for event in tables["slices"]["event"].tolist() + tables["instants"]["event"].tolist()]
    return columns, [places[event] for event in tables["args"]["event"].tolist()], owners, +timeline.losses


def assert_all_readings_agree(data: bytes) -> None:
    """Compare what is read by kernels, in long lines, by ids of unusual lengths, and in small batches."""
    usual = everything(data)
    for change in (
        exchange.read_slowly,
        lambda patch: patch.setattr(otlp_lines, "_SHORT", 0),
        lambda patch: patch.setattr(distinct, "_USUAL", 0),
        lambda patch: patch.setattr(json_events, "_MOST_ITEMS", max(3, len(data) // 10_000)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            change(patch)
            assert everything(data) == usual


def test_lines_of_the_usual_form_are_read_alike(trace: Path) -> None:
    for path in (trace, CORPUS / "fxt" / "magic-trace.fxt", CORPUS / "uftrace" / "thread-v019"):
        lines = exported(fxtio.open_timeline(path), "otlp")[0].splitlines(keepends=True)
        data = b"".join(lines[:4])  # each is long, and the others are like them
        assert all(isinstance(otlp_lines.scopes_of(line, Counter()), list) for line in data.splitlines())
        assert_all_readings_agree(data)


attribute_values = st.one_of(
    st.fixed_dictionaries({"intValue": st.sampled_from([1, "2", "x", None, True, 1 << 70])}),
    st.fixed_dictionaries({"stringValue": st.sampled_from(["a", "", "open", 1])}),
    st.fixed_dictionaries({"doubleValue": st.sampled_from([1.0, 1, "1.5", None])}),
    st.fixed_dictionaries({"boolValue": st.booleans()}),
    st.sampled_from([None, {}, {"arrayValue": {"values": [{"intValue": 1}, 2]}}, 3]),
    st.just({"kvlistValue": {"values": [{"key": "id", "value": {"intValue": "7"}}, {"key": "b", "value": None}]}}),
)
attribute_lists = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["thread.id", "thread.name", "thread", "fxtio.state", "a", "a.id"])},
        optional={"value": attribute_values},
    ),
    max_size=5,
)
usual_spans = st.fixed_dictionaries(
    {
        "startTimeUnixNano": st.sampled_from(["0", "5", "7", "18446744073709551616", 5, "x", "", "-1"]),
        "endTimeUnixNano": st.sampled_from(["3", "9", "11", "1e3", 9.0, "00012"]),
    },
    optional={
        "name": st.sampled_from(["s", "t", 1]),
        "traceId": st.sampled_from(["1", "0123456789abcdef0123456789abcdef", None]),
        "spanId": st.sampled_from(["1", "0123456789abcdef"]),
        "parentSpanId": st.sampled_from(["1", "0123456789abcdef", "", 1]),
        "status": st.sampled_from([{"code": 2}, {"code": "STATUS_CODE_ERROR"}, {}, None, {"code": [1]}]),
        "attributes": attribute_lists,
        "events": st.lists(st.fixed_dictionaries({"timeUnixNano": st.sampled_from(["4", 5, None])}), max_size=2),
        "links": st.sampled_from([[], [{}], [1, {}]]),
    },
)


@pytest.mark.full
@given(st.lists(usual_spans, max_size=5), attribute_lists)
def test_any_spans_are_read_alike(spans: list[Row], resource: list[Row]) -> None:
    scope = {"scope": {"name": "s"}, "spans": spans}
    line = json.dumps({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]}).encode()
    assert_all_readings_agree(line + b"\n" + line)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 20)), max_size=20))
def test_tracks_of_spans_that_overlap(rows: list[tuple[int, int, int]]) -> None:
    """They are those of spans one by one, whether or not one track does for all of a thread or trace."""
    threads = [[{"key": "thread.id", "value": {"intValue": number}}] if number else [] for number in range(3)]
    spans = [
        span("s", str(start), str(start + length), f"{number:02}", f"{number // 2:02}", attributes=threads[thread])
        for number, (thread, start, length) in enumerate(rows)
    ]
    found = everything(request(*spans))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Reader, "_is_crossed", lambda self, group, *_: np.ones(len(group), bool))
        assert everything(request(*spans)) == found
