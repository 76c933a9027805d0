"""Output of the writer, judged by Perfetto: spans, instants and their arguments.

A test that has to step around something that Perfetto bends or drops names it ("deviation"). The other areas are in
`test_perfetto_tracks.py` (counters, asynchronous operations, flows, scheduling) and `test_perfetto_tables.py` (names,
strings, threads, providers, clocks, bulk and exact writing).
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.fxt import FxtWriter, Koid, Pointer
from judges import perfetto
from judges.perfetto import Perfetto

pytestmark = [pytest.mark.full, pytest.mark.once]


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


def seen(p: Perfetto) -> list[tuple[int | None, str | None, int, int, int]]:
    """Return thread, name, start, duration and depth of every slice."""
    assert p.errors() == {}
    return [(item.tid, item.name, item.ts, item.dur, item.depth) for item in p.slices()]


# -------------------------------------------------------------------------------------------------------------- spans


def test_complete_spans_nest() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        first, two = writer.thread(1, 11), writer.thread(1, 12)
        first.complete("outer", 100, 200, category="c1")
        first.complete("first", 100, 150, category="c2")
        first.complete("second", 150, 200)  # touches its neighbor and ends with its parent
        two.complete("elsewhere", 120, 300)  # on another thread nothing nests under "outer"
        first.complete("next", 200, 210)
        first.complete("twin", 200, 210)  # the same interval once more nests
        first.complete("no time", 205, 205)
    with perfetto.load(out.getvalue()) as p:
        assert seen(p) == [
            (11, "outer", 100, 100, 0),
            (11, "first", 100, 50, 1),
            (12, "elsewhere", 120, 180, 0),
            (11, "second", 150, 50, 1),
            (11, "next", 200, 10, 0),
            (11, "twin", 200, 10, 1),
            (11, "no time", 205, 0, 2),
        ]
        slices = {item.name: item for item in p.slices()}
    assert {slices["first"].parent_id, slices["second"].parent_id} == {slices["outer"].id}
    assert (slices["outer"].parent_id, slices["no time"].parent_id) == (None, slices["twin"].id)
    assert (slices["outer"].category, slices["first"].category, slices["second"].category) == ("c1", "c2", "")
    assert {(item.pid, item.track) for item in slices.values()} == {(1, None)}


def test_begins_and_ends() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.begin("outer", 10, category="c", args={"at begin": 1, "at both": "old"})
        track.begin("inner", 20)
        track.complete("within", 22, 28)
        track.end("inner", 30)
        track.end("outer", 40, category="c", args={"at both": "new", "at end": 2})
        track.begin("open", 50)
    with perfetto.load(out.getvalue()) as p:
        assert seen(p) == [
            (2, "outer", 10, 30, 0),
            (2, "inner", 20, 10, 1),
            (2, "within", 22, 6, 2),
            (2, "open", 50, -1, 0),
        ]
        outer = p.slices()[0]
    assert outer.args == {"at begin": 1, "at both": "new", "at end": 2}
    assert outer.category == "c"


def test_instants_lie_in_spans() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.instant("before", 5, category="c")
        track.complete("span", 10, 20)
        track.instant("within", 15, args={"a": 1})
        track.instant("after", 20)
    with perfetto.load(out.getvalue()) as p:
        assert seen(p) == [
            (2, "before", 5, 0, 0),
            (2, "span", 10, 10, 0),
            (2, "within", 15, 0, 1),
            (2, "after", 20, 0, 0),
        ]
        assert [item.args for item in p.slices()] == [{}, {}, {"a": 1}, {}]


def test_file_order_is_free_but_for_equal_starts() -> None:
    """Perfetto sorts by start. Deviation: a parent after its child of the same start tick is dropped."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.complete("child", 12, 14)
        track.complete("parent", 11, 15)
    with perfetto.load(out.getvalue()) as p:
        assert seen(p) == [(2, "parent", 11, 4, 0), (2, "child", 12, 2, 1)]
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.complete("child", 11, 14)
        track.complete("parent", 11, 15)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {"slice_drop_overlapping_complete_event": 1}
        assert [item.name for item in p.slices()] == ["child"]


def test_the_earliest_and_the_latest_time() -> None:
    last = (1 << 63) - 1
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).complete("all time", 0, last)
        writer.thread(1, 3).instant("last", last)
        writer.thread(1, 4).instant("beyond", last + 1)  # no signed nanosecond holds it
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {"fuchsia_timestamp_overflow": 1}
        assert [(item.name, item.ts, item.dur) for item in p.slices()] == [("all time", 0, last), ("last", last, 0)]


# ---------------------------------------------------------------------------------------------------------- arguments


def args_seen(args: dict[str, Any]) -> dict[str, Any]:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).instant("event", 1, args=args)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        (event,) = p.slices()
    return event.args


def test_integers_of_every_width() -> None:
    edges = [(1 << 31) - 1, -(1 << 31), 1 << 31, -(1 << 31) - 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63)]
    args = {str(number): number for number in [0, -1, *edges]}
    assert args_seen(args) == args


def test_unsigned_integers_wrap() -> None:
    """Deviation: uint64 and koid values of 2^63 and more come back negative; a pointer can be told apart."""
    top = 1 << 63
    args = {"uint64": top, "koid": Koid(top + 5), "pointer": Pointer(top + 7), "low koid": Koid(12)}
    assert args_seen(args) == {"uint64": -top, "koid": 5 - top, "pointer": top + 7, "low koid": 12}


def test_doubles() -> None:
    args = {"one": 1.0, "tiny": 5e-324, "large": 1.7976931348623157e308, "third": 1 / 3, "endless": -math.inf}
    assert args_seen(args) == args
    minus_zero = args_seen({"minus zero": -0.0})["minus zero"]
    assert math.copysign(1, minus_zero) == -1
    assert args_seen({"nan": math.nan}) == {"nan": None}  # deviation


def test_booleans_null_and_blobs() -> None:
    """Deviation: null comes as the text "null", a blob as the text "unknown"."""
    args = args_seen({"yes": True, "no": False, "nothing": None, "blob": b"\1\2\3", "number": 1})
    assert args == {"yes": True, "no": False, "nothing": "null", "blob": "unknown", "number": 1}
    assert [type(value) for value in args.values()] == [bool, bool, str, str, int]


@pytest.mark.parametrize(
    "text",
    ["", "plain", "ü € 🎉", 'quote " comma , line\nend\ttab', "x" * 256, "x" * 257, "é" * 16_000, "\udcff\udc80 raw"],
    ids=["empty", "plain", "multi-byte", "special", "longest in the table", "shortest inline", "longest", "no UTF-8"],
)
def test_text(text: str) -> None:
    assert args_seen({"text": text, "after it": 1}) == {"text": text, "after it": 1}


def test_text_ends_at_nul() -> None:
    """Deviation: text is cut at its first NUL character."""
    assert args_seen({"text": "before\0behind"}) == {"text": "before"}


def test_fifteen_arguments() -> None:
    args: dict[str, Any] = {f"number {number}": number for number in range(12)}
    args |= {"": "an empty name", "a.b[0]": "dots and brackets", "long" * 1000: 2.5}
    assert len(args) == 15
    assert args_seen(args) == args


def test_the_type_of_an_argument_may_change_from_event_to_event() -> None:
    values: list[Any] = [1, 1 << 40, -1, "text", "other", 2.5, True, 0, Pointer(9), "text", 1]
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for time, value in enumerate(values):
            track.instant("event", time, args={"value": value})
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        arrived = [item.args["value"] for item in p.slices()]
    assert [(type(value), value) for value in arrived] == [
        (int if isinstance(value, Pointer) else type(value), value) for value in values
    ]


# ----------------------------------------------------------------------------------------------------------- property

texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3),
    "d": st.floats(allow_nan=False),
    "s": texts,
    "b": st.booleans(),
}


@dataclass(eq=False)
class Span:
    name: str
    start: int
    depth: int
    args: dict[str, Any]
    by_halves: bool
    end: int = 0


@dataclass
class Forest:
    """Well-nested spans of one thread by their start, and the order in which they begin (True) and end."""

    spans: list[Span]
    moves: list[tuple[bool, Span]]


@st.composite
def forests(draw: st.DrawFn, args: st.SearchStrategy[dict[str, Any]], first: int) -> Forest:
    """A span that encloses another goes on when that one begins; none begins in the tick of one without duration."""
    forest = Forest([], [])
    unfinished: list[Span] = []
    now = first

    def finish() -> None:
        nonlocal now
        span = unfinished.pop()
        if span is not forest.spans[-1] and now == forest.spans[-1].start:
            now += 1
        span.end = now
        forest.moves.append((False, span))

    small = st.integers(0, 3)
    steps = st.lists(st.tuples(small, small, small, texts, args, st.booleans()), max_size=10)
    for ups, ticks, pause, name, values, by_halves in draw(steps):
        for _ in range(min(ups, len(unfinished))):
            now += ticks
            finish()
        now += pause
        if forest.spans and forest.spans[-1] not in unfinished and forest.spans[-1].start == now:
            now += 1
        span = Span(name, now, len(unfinished), values, by_halves)
        forest.spans.append(span)
        forest.moves.append((True, span))
        unfinished.append(span)
    while unfinished:
        finish()
    return forest


@st.composite
def thread_forests(draw: st.DrawFn) -> dict[int, Forest]:
    """Generate forests by thread, all with the same names of arguments."""
    names = draw(st.lists(st.sampled_from(sorted(ARGUMENTS)), unique=True))
    args = st.fixed_dictionaries({name: ARGUMENTS[name] for name in names})
    first = draw(st.sampled_from([0, 1_700_000_000_000_000_000]))
    return {thread: draw(forests(args, first)) for thread in range(100, 100 + draw(st.integers(1, 3)))}


def write_friendly(writer: FxtWriter, process: int, grove: dict[int, Forest]) -> None:
    for thread, forest in grove.items():
        track = writer.thread(process, thread)
        for begins, span in forest.moves:
            if begins and not span.by_halves:
                track.complete(span.name, span.start, span.end, category="cat", args=span.args)
            elif begins:
                track.begin(span.name, span.start, category="cat", args=span.args)
            elif span.by_halves:
                track.end(span.name, span.end, category="cat")


def write_bulk(writer: FxtWriter, process: int, grove: dict[int, Forest]) -> None:
    spans = [(row, span) for row, forest in enumerate(grove.values()) for span in forest.spans]
    names = sorted({span.name for _, span in spans})
    args: dict[str, Any] = {}
    for key in spans[0][1].args if spans else ():
        values = [span.args[key] for _, span in spans]
        texts = sorted(set(values))
        args[key] = (texts, [texts.index(value) for value in values]) if key == "s" else values
    if not spans:
        return
    written = writer.main.write_events(
        "duration_complete",
        timestamp=[span.start for _, span in spans],
        end=[span.end for _, span in spans],
        thread=([writer.thread(process, thread) for thread in grove], [row for row, _ in spans]),
        name=(names, [names.index(span.name) for _, span in spans]),
        category="cat",
        args=args,
    )
    assert written == len(spans)


@given(thread_forests())
@settings(max_examples=settings().max_examples // 2)
def test_well_nested_spans_come_back(grove: dict[int, Forest]) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        write_friendly(writer, 1, grove)
        write_bulk(writer, 2, grove)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        slices = p.slices()
    for process in (1, 2):
        for thread, forest in grove.items():
            slices_of_thread = [item for item in slices if (item.pid, item.tid) == (process, thread)]
            assert [(item.name, item.ts, item.dur, item.depth, item.args) for item in slices_of_thread] == [
                (span.name, span.start, span.end - span.start, span.depth, span.args) for span in forest.spans
            ]
            assert {item.category for item in slices_of_thread} <= {"cat"}
    assert len(slices) == 2 * sum(len(forest.spans) for forest in grove.values())
