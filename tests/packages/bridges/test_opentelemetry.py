"""Spans of OpenTelemetry: the tree is that of its own exporter, at whatever moment the process is killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.propagate import extract, inject
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanKind, StatusCode, Tracer

import fxtio
from fxtio.bridges import opentelemetry as bridge
from fxtio.testing.asserts import assert_valid
from support.in_process import run_fxtio
from support.other_users import forks
from support.tracer_check import Seen, check_trace

pytestmark = pytest.mark.recorder

Row = dict[str, Any]


def make_tracer(*processors: Any, name: str = "shop") -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    for each in processors:
        provider.add_span_processor(each)
    return provider.get_tracer(name)


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    yield make_tracer(bridge.SpanProcessor())
    assert not [each for each in bridge._open.values() if each.name != "never ends"]
    bridge._open.clear()


def spans_of(path: Path) -> dict[str, Row]:
    """Return the spans of a file of OTLP by their ids."""
    spans: dict[str, Row] = {}
    for line in path.read_text("utf-8").rstrip("\n").split("\n"):
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    assert span["spanId"] not in spans
                    spans[span["spanId"]] = span | {"scope": scope["scope"]["name"]}
        json_format.Parse(line, TracesData())
    return spans


def tree_of(spans: dict[str, Row]) -> dict[str, tuple[Any, ...]]:
    return {
        number: (span["traceId"], span.get("parentSpanId"), span["name"], span["scope"])
        for number, span in spans.items()
    }


def attributes_of(span: Row) -> Row:
    """Return the attributes of a span, those that are no simple values as JSON."""
    found = {}
    for each in span.get("attributes", ()):
        [(kind, value)] = each["value"].items()
        if kind == "arrayValue":
            value = json.dumps([next(iter(item.values())) for item in value["values"]])
        assert each["key"] not in found
        found[each["key"]] = str(value)
    return found


def content_of(span: Row) -> Row:
    """Return what a span has besides its ids and times; the order of attributes does not count, that of others does."""
    return {
        "name": span["name"],
        "kind": span["kind"],
        "status": {"code": 0} | span.get("status", {}),
        "attributes": attributes_of(span),
        "events": [(each["name"], attributes_of(each)) for each in span.get("events", ())],
        "links": [(each["traceId"], each["spanId"], attributes_of(each)) for each in span.get("links", ())],
    }


def exported(out: Path, *options: str) -> dict[str, Row]:
    """Return the spans of a recording as OTLP."""
    target = out.with_suffix(".otlp.jsonl")
    done = run_fxtio("convert", str(out), str(target), *options)
    assert done.returncode == 0, done.stderr
    return spans_of(target)


async def handle(tracer: Tracer, number: int) -> None:
    with tracer.start_as_current_span("handle", attributes={"number": number, "ratio": 0.5, "ok": True}) as span:
        span.add_event("accepted", {"by": "loop"})
        await asyncio.sleep(0.001)
        with tracer.start_as_current_span("query"):
            await asyncio.sleep(0.001)
        span.set_attribute("answer", "found")
        span.set_attribute("number", number)


async def serve(tracer: Tracer) -> None:
    with tracer.start_as_current_span("serve"):
        await asyncio.gather(*(handle(tracer, number) for number in range(4)))
        left = asyncio.create_task(handle(tracer, 9))
        await asyncio.sleep(0)
    await left  # after the end of the span in which it began


def work(tracer: Tracer) -> None:
    """Make spans in all ways: within each other, in threads and tasks, that fail, that end before those in them."""
    with tracer.start_as_current_span("root") as root:
        for number in range(3):
            attributes = {"tags": ("a", "b"), "text": "é" * 40}
            with (
                tracer.start_as_current_span("child", attributes=attributes),
                tracer.start_as_current_span("in") as span,
            ):
                span.set_attributes({f"key {place}": place for place in range(40 * number)})
        with pytest.raises(ZeroDivisionError), tracer.start_as_current_span("fails"):
            1 / 0  # noqa: B018
        context = trace.set_span_in_context(root)
        threads = [
            threading.Thread(target=lambda: tracer.start_span("threaded", context).end()) for _ in range(3)
        ]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for kind in SpanKind:
            outer = tracer.start_span("outer", kind=kind, attributes={"kind": "mine", "status": 7, "message": "m"})
            links = [Link(root.get_span_context(), {"why": "after", "span.id": 1}), Link(outer.get_span_context())]
            inner = tracer.start_span("inner", trace.set_span_in_context(outer), links=links)
            outer.add_event("during", {"inner": False})  # which is not the innermost
            inner.add_event("during", {"inner": True})
            outer.add_link(inner.get_span_context(), {"to": "inner"})
            outer.set_attributes({f"more {place}": place for place in range(20)})
            inner.set_status(StatusCode.OK)
            inner.end()
            outer.add_event("after")
            outer.set_status(StatusCode.ERROR, 'it "failed"')
            outer.update_name(f"outer {kind.name}")
            outer.end()
    asyncio.run(serve(tracer))


def test_the_tree_is_that_of_the_exporter_of_opentelemetry(out: Path, tmp_path: Path) -> None:
    judge = tmp_path / "judge.jsonl"
    exporter = FileSpanExporter(judge)
    tracer = make_tracer(SimpleSpanProcessor(exporter), bridge.SpanProcessor())
    with fxtio.tracing(out):
        work(tracer)
    exporter.shutdown()
    expected, found = spans_of(judge), exported(out, "--category", "shop")
    assert tree_of(found) == tree_of(expected)
    assert len(expected) == 32
    assert {number: content_of(span) for number, span in found.items()} == {
        number: content_of(span) for number, span in expected.items()
    }
    for number, span in expected.items():
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            assert abs(int(found[number][name]) - int(span[name])) < 1_000_000_000  # the same clock, not another epoch
    assert_valid(out, ignore=["fxt.flow.open"])  # what a producer sends arrives in no process here


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
ATTRIBUTES = st.dictionaries(
    NAMES | st.sampled_from(["kind", "name", "status", "message", "link"]),
    st.text(max_size=40) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans(),
    max_size=12,
)
STEPS = st.one_of(
    st.tuples(st.just("begin"), NAMES, st.sampled_from(SpanKind), ATTRIBUTES),
    st.tuples(st.just("end"), st.sampled_from(StatusCode), st.text(max_size=20)),
    st.tuples(st.sampled_from(["add_event", "link"]), st.integers(0, 9), NAMES, ATTRIBUTES),
    st.tuples(st.just("set_attributes"), st.integers(0, 9), ATTRIBUTES),
    st.tuples(st.just("update_name"), st.integers(0, 9), NAMES),
)


def run_steps(tracer: Tracer, steps: list[tuple[Any, ...]]) -> None:
    """Make spans, each within the one before, and change any of those that are open."""
    spans = [tracer.start_span("root")]
    for what, *rest in steps:
        if what == "begin":
            name, kind, attributes = rest
            around = trace.set_span_in_context(spans[-1])
            spans.append(tracer.start_span(name, around, kind, attributes, [Link(spans[0].get_span_context())]))
        elif what == "end" and len(spans) > 1:
            span = spans.pop()
            span.set_status(*rest)
            span.end()
        elif what == "link":
            place, _, attributes = rest
            spans[place % len(spans)].add_link(spans[-1].get_span_context(), attributes)
        elif what != "end":
            place, *values = rest
            getattr(spans[place % len(spans)], what)(*values)
    while spans:
        spans.pop().end()


@given(st.lists(STEPS, max_size=20))
def test_any_spans_are_those_of_the_exporter(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("any")
    exporter = FileSpanExporter(folder / "judge.jsonl")
    with fxtio.tracing(folder / "out.fxt"):
        run_steps(make_tracer(SimpleSpanProcessor(exporter), bridge.SpanProcessor()), steps)
    exporter.shutdown()
    found = exported(folder / "out.fxt", "--category", "shop")
    expected = spans_of(folder / "judge.jsonl")
    assert tree_of(found) == tree_of(expected)
    for number, span in expected.items():
        assert content_of(found[number]) == content_of(span)


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 14, 15, 16, 27, 28, 29, 60])
def test_attributes_beyond_those_of_one_event(tmp_path: Path, count: int) -> None:
    """The name and the status are said at the end, and so is what replaces attributes of the start."""
    exporter = FileSpanExporter(tmp_path / "judge.jsonl")
    tracer = make_tracer(SimpleSpanProcessor(exporter), bridge.SpanProcessor())
    with fxtio.tracing(tmp_path / "out.fxt"):
        span = tracer.start_span("before", attributes={f"first {place}": place for place in range(11)})
        span.set_attributes({f"first {place}": -place for place in range(11)})
        span.set_attributes({f"more {place}": place for place in range(count)})
        span.update_name("after")
        span.set_status(StatusCode.ERROR, "no")
        span.end()
    exporter.shutdown()
    [expected], [found] = spans_of(tmp_path / "judge.jsonl").values(), exported(tmp_path / "out.fxt").values()
    assert content_of(found) == content_of(expected)


def test_an_event_of_an_outer_span_is_its_own_whatever_attributes_it_has(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out):
        outer = tracer.start_span("outer")
        inner = tracer.start_span("inner", trace.set_span_in_context(outer))
        outer.add_event("of outer", {"span.id": "mine", "other": 1})
        inner.add_event("of inner", {"span.id": f"{7:016x}"})
        inner.end()
        outer.end()
    found = {span["name"]: content_of(span)["events"] for span in exported(out).values()}
    assert found == {
        "outer": [("of outer", {"other": "1"})], "inner": [("of inner", {"span.id": f"{7:016x}"})],
    }  # fmt: skip


def parents_of(seen: Seen) -> list[tuple[str, str | None]]:
    """Return the names of spans and of those in which they are drawn."""
    found: list[tuple[str, str | None]] = []
    for span in seen.spans():
        around = [
            each for each in seen.spans()
            if each.id == span.id and each.depth == span.depth - 1 and each.start < span.start < each.end
        ]  # fmt: skip
        found.append((span.name, around[0].name if around else None))
    return found


def test_spans_of_a_thread_or_a_task_are_drawn_within_each_other(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out, categories=["shop"]):
        with tracer.start_as_current_span("root"), tracer.start_as_current_span("child"):
            pass
        asyncio.run(serve(tracer))
    found = parents_of(check_trace(out))
    assert found[:2] == [("root", None), ("child", "root")]
    assert sorted(found[2:], key=str) == sorted(
        [("serve", None), *[("handle", None)] * 5, *[("query", "handle")] * 5], key=str
    )


def test_a_span_that_ends_before_those_within_it_parts_from_them(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out):
        outer = tracer.start_span("outer")
        inner = tracer.start_span("inner", trace.set_span_in_context(outer))
        innermost = tracer.start_span("innermost", trace.set_span_in_context(inner))
        outer.end()
        innermost.end()
        inner.end()
    seen = check_trace(out)
    assert [(span.name, span.depth) for span in seen.spans()] == [
        ("outer", 1), ("inner", 2), ("innermost", 3), ("inner", 1), ("innermost", 2),
    ]  # fmt: skip
    assert_valid(out)


def test_what_is_recorded_of_a_span(out: Path, tracer: Tracer) -> None:
    other = make_tracer(name="other").start_span("other")

    def handle(span: trace.Span) -> None:
        span.update_name("GET /{item}")
        span.set_attribute("status", 404)
        span.add_event("missing", {"item": "a"})
        span.add_link(other.get_span_context(), {"why": "retry"})
        raise ValueError("no such item")

    attributes = {"path": "/a"}
    with (
        fxtio.tracing(out),
        pytest.raises(ValueError, match="no such item"),
        tracer.start_as_current_span("GET", kind=SpanKind.SERVER, attributes=attributes) as span,
    ):
        handle(span)
    seen = check_trace(out)
    [recorded] = seen.spans("GET")
    context = span.get_span_context()
    assert recorded.args == {
        "path": "/a", "traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}", "span.kind": "server",
        "span.name": "GET /{item}", "status": 404, "otel.status_code": "ERROR",
        "otel.status_description": "ValueError: no such item",
    }  # fmt: skip
    points = {seen.names[row]: seen.args(row) for row in seen.rows(kind="async_instant").tolist()}
    assert points["missing"] == {"item": "a"}
    assert points["span.link"] == {
        "traceId": f"{other.get_span_context().trace_id:032x}",
        "spanId": f"{other.get_span_context().span_id:016x}", "why": "retry",
    }  # fmt: skip
    assert points["exception"]["exception.type"] == "ValueError"


def flows(seen: Seen) -> list[tuple[str, int]]:
    rows = [row for row in range(len(seen.kinds)) if seen.kinds[row].startswith("flow")]
    return [(seen.kinds[row], int(seen.tables["events"]["id"][row])) for row in rows]


def test_a_header_is_an_arrow_to_the_server_and_back(out: Path, tracer: Tracer) -> None:
    header: dict[str, str] = {}
    with fxtio.tracing(out):
        with tracer.start_as_current_span("send", kind=SpanKind.CLIENT) as client:
            inject(header)
            tracer.start_span("serve", extract(header), SpanKind.SERVER).end()
        with tracer.start_as_current_span("put", kind=SpanKind.PRODUCER) as producer:
            inject(header)
        tracer.start_span("take", extract(header), SpanKind.CONSUMER).end()
        tracer.start_span("select", kind=SpanKind.CLIENT, attributes={"db.system": "sqlite"}).end()
    first, second = (span.get_span_context().span_id for span in (client, producer))
    assert flows(check_trace(out)) == [
        ("flow_begin", first), ("flow_step", first), ("flow_end", first), ("flow_begin", second), ("flow_end", second),
    ]  # fmt: skip
    assert_valid(out)


SERVICE = """
import sys, fxtio
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from fxtio.bridges.opentelemetry import SpanProcessor

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SpanProcessor())
header = dict(traceparent=sys.argv[2]) if sys.argv[2] else {}
with fxtio.tracing(sys.argv[1]):
    kind = SpanKind.SERVER if header else SpanKind.CLIENT
    with provider.get_tracer("shop").start_as_current_span(sys.argv[3], extract(header), kind):
        inject(header)
        if kind is SpanKind.CLIENT:
            print(header["traceparent"], flush=True)
            sys.stdin.read()  # until the server has answered
"""


def test_merge_joins_services(out: Path, tmp_path: Path) -> None:
    """Each has recorded for itself; the arrow leads from one to the other and back."""
    paths = [str(tmp_path / name) for name in ("front.fxt", "back.fxt")]
    command = [sys.executable, "-P", "-c", SERVICE]
    with subprocess.Popen([*command, paths[0], "", "ask"], stdin=-1, stdout=-1, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        header = client.stdout.readline().strip()
        subprocess.run([*command, paths[1], header, "answer"], check=True)
        client.stdin.close()
    done = run_fxtio("merge", "-o", str(out), *paths)
    assert done.returncode == 0, done.stderr
    seen = check_trace(out)
    ask, answer = seen.spans("ask")[0].args, seen.spans("answer")[0].args
    assert (ask["traceId"], ask["spanId"]) == (answer["traceId"], answer["parentSpanId"])
    with fxtio.open_timeline(out) as timeline:
        points = timeline.table("flow_points")
    assert points.take(np.argsort(points["time"]))["type"].tolist() == ["begin", "step", "end"]
    assert len(set(points["track"].tolist())) == 2
    assert_valid(out)


def test_nothing_of_earlier_recordings_is_in_later_ones(out: Path, tracer: Tracer) -> None:
    before = tracer.start_span("before")
    with fxtio.tracing(out):
        before.end()
        during = tracer.start_span("during")
    with fxtio.tracing(out):
        child = tracer.start_span("child", trace.set_span_in_context(during))
        during.add_event("late")
        during.end()
        child.end()
    assert [span.name for span in check_trace(out).spans()] == ["child"]
    assert not len(check_trace(out).rows(kind="async_instant"))


def test_spans_that_never_end_do_not_fill_the_memory(
    out: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "MAX_OPEN", 10)
    with fxtio.tracing(out):
        spans = [tracer.start_span("never ends") for _ in range(30)]
        assert len(bridge._open) == 10
        for span in spans:
            span.end()
    assert sum(span.end_row >= 0 for span in check_trace(out, open_spans=True).spans("never ends")) == 10


def test_hostile_spans_do_no_harm(out: Path, tracer: Tracer) -> None:
    attributes: dict[str, Any] = {"traceId": "mine", "kind": 5, "self": 1, "name": "x", "": 2, "bytes": (1.5, 2.5)}
    with fxtio.tracing(out):
        span = tracer.start_span("a" * 1000, attributes=attributes)
        span.add_event("event", {"kind": 1, "self": 2, "arguments": 3})
        span.add_event("none", None, timestamp=5)
        for number in range(300):
            span.add_event("many", {str(number): "x" * 5000})
        tracer.start_span("", kind=SpanKind.CLIENT).end()
        span.end()
        span.end()
        span.add_event("late")
        tracer.start_span(None).end()  # type: ignore[arg-type]
        assert isinstance(span, Span)
        assert len(span.events) == 128
    check_trace(out)


class Later(Span):
    """A span of an SDK that has other private names."""

    def __getattribute__(self, name: str) -> Any:
        if name in {"_attributes", "_links", "_events", "_context"} and sys._getframe(1).f_globals is bridge.__dict__:
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_spans_are_read_by_public_names_where_there_are_no_others(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "_Span", Later)
    tracer = make_tracer(bridge.SpanProcessor())
    other = make_tracer().start_span("other").get_span_context()
    with fxtio.tracing(out), tracer.start_as_current_span("span", attributes={"a": 1}, links=[Link(other)]) as span:
        assert isinstance(span, Later)
        span.set_attribute("b", 2)
        span.add_event("event")
        span.add_link(other, {"late": True})
    seen = check_trace(out)
    args = seen.spans("span")[0].args
    assert (args["a"], args["b"]) == (1, 2)
    points = [(seen.names[row], seen.args(row).get("late")) for row in seen.rows(kind="async_instant").tolist()]
    assert points == [("span.link", None), ("event", None), ("span.link", True)]


def test_an_sdk_without_what_is_needed_makes_no_errors(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Least:
        """A span that has nothing."""

    bridge.SpanProcessor()  # watches the methods that the next tests need
    for method in ("add_event", "add_link"):
        monkeypatch.delattr(sdk.Span, f"_{method}")
        monkeypatch.setattr(sdk.Span, method, lambda span, item: None)
    bridge._watch_additions.cache_clear()
    processor: Any = bridge.SpanProcessor()
    span = make_tracer(processor).start_span("never ends")
    with fxtio.tracing(out):
        for each in (Least(), None):
            processor.on_start(each)
            span = make_tracer(processor).start_span("ends")
            processor.on_end(each)
            span.add_event("event")
            span.add_link(span.get_span_context())
            span.end()
    seen = check_trace(out)
    assert len(seen.spans("ends")) == 2
    lost = "of a span of OpenTelemetry, something is not recorded: AttributeError"
    assert seen.tables["logs"]["message"].tolist() == [lost] * 8


def test_a_span_of_which_several_processors_tell_is_recorded_once(tmp_path: Path) -> None:
    exporter = FileSpanExporter(tmp_path / "judge.jsonl")
    tracer = make_tracer(SimpleSpanProcessor(exporter), bridge.SpanProcessor(), bridge.SpanProcessor())
    with fxtio.tracing(tmp_path / "out.fxt"), tracer.start_as_current_span("outer") as outer:
        outer.add_event("event")
        with tracer.start_as_current_span("inner", attributes={"number": 1}):
            pass
    exporter.shutdown()
    expected, found = spans_of(tmp_path / "judge.jsonl"), exported(tmp_path / "out.fxt")
    assert tree_of(found) == tree_of(expected)
    assert [content_of(found[number]) for number in expected] == [content_of(each) for each in expected.values()]
    assert_valid(tmp_path / "out.fxt")


def test_a_value_that_becomes_an_equal_one_of_another_type_is_recorded(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out):
        span = tracer.start_span("span", attributes={"first": 1, "second": 0, "same": 5, "none": None})
        span.set_attributes({"first": True, "second": 0.0})
        span.end()
        span = tracer.start_span("swapped", attributes={"from": "a", "to": "b"})
        span.set_attributes({"to": "a", "from": "b"})  # the same values in the same order
        span.end()
    found, swapped = exported(out).values()
    assert {each["key"]: each["value"]["stringValue"] for each in swapped["attributes"]} == {"from": "b", "to": "a"}
    assert {each["key"]: each["value"] for each in found["attributes"]} == {
        "first": {"boolValue": True}, "second": {"doubleValue": 0.0}, "same": {"intValue": "5"}, "none": {},
    }  # fmt: skip


def test_events_that_threads_add_at_once_are_recorded_once(out: Path, tracer: Tracer) -> None:
    class Interrupted(list[Any]):
        """Events after the first of which another thread adds one, before the first thread goes on."""

        def append(self, event: Any) -> None:
            super().append(event)
            if len(self) == 1:
                thread = threading.Thread(target=span.add_event, args=["of another thread"])
                thread.start()
                thread.join()

    with fxtio.tracing(out):
        span: Any = tracer.start_span("span")
        span._events, span._lock = Interrupted(), nullcontext()  # which would make the other thread wait
        span.add_event("first")
        span.end()
    seen = check_trace(out)
    names = [seen.names[row] for row in seen.rows(kind="async_instant").tolist()]
    assert sorted(names) == ["first", "of another thread"]


@pytest.mark.parametrize("letter", ["a", "é", "\udc80"])
def test_of_a_long_stack_trace_the_last_lines_are_kept(out: Path, tracer: Tracer, letter: str) -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError(letter * 100)

    exporter_has: list[str] = []
    with fxtio.tracing(out):
        span: Any = tracer.start_span("span")
        lines, long = "\n".join(letter * 100 + str(line) for line in range(30)), letter * 5000
        for stack in (lines, long, f"first\n{long}\n", "short"):
            span.add_event("given", {"exception.stacktrace": stack})
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            fail(3)
        span.record_exception(caught.value)
        exporter_has += [event.attributes["exception.stacktrace"] for event in span.events]
        span.end()
    seen = check_trace(out)
    found = [seen.args(row)["exception.stacktrace"] for row in seen.rows(kind="async_instant").tolist()]
    whole = [text.encode("utf-8", "backslashreplace").decode() for text in exporter_has]
    assert len(found) == 5
    for text, original in zip(found, whole, strict=True):
        assert original.endswith(text)
        assert text == original or 300 < len(text.encode()) <= 1000
    assert found[0][:1] == letter.encode("utf-8", "backslashreplace").decode()[0]  # a line begins
    assert "\nValueError: " in found[4]


def test_values_that_json_does_not_know_are_described(out: Path, tracer: Tracer) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise LookupError

    cycle: list[Any] = []
    cycle.append(cycle)
    values = {"keys": {(1, 2): 3}, "cycle": cycle, "odd": [Odd()], "bytes": b"x", "none": None}
    with fxtio.tracing(out):
        span = tracer.start_span("span")
        cast(Any, span)._attributes._dict.update(values)
        span.end()
    assert not len(check_trace(out).tables["logs"])
    args = check_trace(out).spans("span")[0].args
    assert args.keys() - {"traceId", "spanId"} == values.keys()
    assert args["bytes"] == json.dumps(repr(b"x"))


def test_ids_are_not_what_attributes_of_the_same_name_say(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out):
        span = tracer.start_span("span", attributes={"spanId": "mine"})
        span.set_attribute("traceId", "mine")
        span.end()
    context = span.get_span_context()
    assert check_trace(out).spans("span")[0].args == {
        "traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}",
    }  # fmt: skip


def test_links_beyond_the_limit_are_recorded_once(out: Path, tracer: Tracer) -> None:
    other = make_tracer().start_span("other").get_span_context()
    with fxtio.tracing(out):
        span = tracer.start_span("span")
        for number in range(200):
            span.add_link(other, {"number": number})
            span.add_link(trace.INVALID_SPAN_CONTEXT)
        span.end()
        span.add_link(other)
    seen = check_trace(out)
    assert [seen.args(row)["number"] for row in seen.rows(name="span.link").tolist()] == [*range(200)]


def test_spans_that_end_in_other_threads_all_at_once_all_end(out: Path, tracer: Tracer) -> None:
    def run(number: int) -> None:
        for _ in range(200):
            spans = [tracer.start_span("span")]
            for _ in range(5):
                spans.append(tracer.start_span("span", trace.set_span_in_context(spans[-1])))
            others = [threading.Thread(target=each.end) for each in spans]
            for each in others[number % 2 :: 2] + others[1 - number % 2 :: 2]:
                each.start()
            for each in others:
                each.join()

    with fxtio.tracing(out):
        run(0)
        run(1)
    assert not bridge._open
    with fxtio.open(out) as trace_of_ends:
        events, logs = trace_of_ends.table("events"), trace_of_ends.table("logs")
    begins, ends = (int(events["type"].is_in(kind).sum()) for kind in ("async_begin", "async_end"))
    assert begins == ends >= 2 * 200 * 6  # though a few may be on another track than their begins
    assert not len(logs)


@pytest.mark.parametrize("kind", ["_BEGIN", "_END"])
@pytest.mark.parametrize("name", ["inner", "innermost"])
def test_a_span_that_another_thread_ends_while_it_moves_ends_once(
    out: Path, tracer: Tracer, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    mark = bridge._Open.mark

    def mark_while_another_thread_ends(self: Any, number: int, event: str, arguments: Any) -> int:
        if (event, number) == (name, getattr(bridge, kind)) and name in spans:
            thread = threading.Thread(target=spans.pop(name).end)
            thread.start()
            thread.join()
        return mark(self, number, event, arguments)

    spans: dict[str, Any] = {}
    monkeypatch.setattr(bridge._Open, "mark", mark_while_another_thread_ends)
    with fxtio.tracing(out):
        outer = tracer.start_span("outer")
        inner = tracer.start_span("inner", trace.set_span_in_context(outer))
        innermost = tracer.start_span("innermost", trace.set_span_in_context(inner))
        spans |= {"inner": inner, "innermost": innermost}
        outer.end()
        for each in spans.values():
            each.end()
    assert not bridge._open and not bridge._moving
    assert_valid(out)
    with fxtio.open_timeline(out) as timeline:
        states = timeline.table("slices")["state"].tolist()
    assert set(states) == {"closed"}


@forks
def test_a_process_that_forks_within_a_span_records_it_once(out: Path, tracer: Tracer) -> None:
    with fxtio.tracing(out), tracer.start_as_current_span("span") as span:
        child = os.fork()
        if child == 0:
            span.end()
            tracer.start_span("of the child").end()
            os._exit(0)
        os.waitpid(child, 0)
    seen = check_trace(out)
    assert sorted(span.name for span in seen.spans()) == ["of the child", "span"]


KILLED = """
import os, signal, sys, fxtio
from opentelemetry.sdk.trace import TracerProvider
from fxtio.bridges.opentelemetry import SpanProcessor

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SpanProcessor())
tracer = provider.get_tracer("shop")

def make_spans(folder, kill):
    fxtio.start(f"{folder}/{kill}.fxt")
    for number in range(1_000_000):
        with tracer.start_as_current_span("outer", attributes={"number": number}):
            print("outer", number, flush=True)
            with tracer.start_as_current_span("inner", attributes={"number": number}):
                print("inner", number, flush=True)

for kill in range(int(sys.argv[2])):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        make_spans(sys.argv[1], kill)
    os.close(writer)
    with open(reader, "rb") as lines, open(f"{sys.argv[1]}/{kill}.txt", "wb") as log:
        for _ in range(1 + kill % 7):
            log.write(lines.readline())
        os.kill(child, signal.SIGKILL)
        log.write(lines.read())
    os.waitpid(child, 0)
"""


@pytest.mark.full
def test_a_killed_process_keeps_every_span_that_had_begun(tmp_path: Path) -> None:
    kills = 200
    subprocess.run([sys.executable, "-P", "-c", KILLED, str(tmp_path), str(kills)], check=True)
    for kill in range(kills):
        *lines, last = (tmp_path / f"{kill}.txt").read_text("utf-8").split("\n")
        begun = {tuple(line.split()) for line in lines}
        assert len(begun) > kill % 7
        seen = check_trace(tmp_path / f"{kill}.fxt", open_spans=True)
        recorded = {(span.name, str(span.args["number"])) for span in seen.spans() if span.category == "shop"}
        assert begun - recorded == set(), f"lost before {last!r}"
