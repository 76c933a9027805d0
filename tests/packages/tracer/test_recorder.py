"""The recorder called without the rest of the tracer: arbitrary programs against a model, limits, and misuse."""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio import _native
from fxtio.fxt import records as r
from fxtio.tracer import fallback
from fxtio.tracer.backend import KINDS, recorder
from fxtio.tracer.encode import thread_name
from support.tracer_check import check_trace
from support.tracer_recorder import categories, event_of, expected, only_thread, programs, read_events, recording, run

pytestmark = pytest.mark.recorder


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # long texts are among the values
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(program=programs)
def test_arbitrary_programs(tmp_path: Path, program: list[Any]) -> None:
    path = tmp_path / "out.fxt"
    with recording(path) as result:
        run(program)
    counts: Counter[str] = Counter(cut=0, dropped=0, inlined=0)
    assert only_thread(read_events(path)) == expected(program, counts)
    assert {name: result.counts[name] for name in ("lost", "cut", "dropped", "inlined")} == {"lost": 0, **counts}


@given(category=categories, only=st.none() | st.frozensets(categories), without=st.none() | st.frozensets(categories))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_categories(tmp_path: Path, category: str, only: Any, without: Any) -> None:
    path = tmp_path / "out.fxt"
    program = [("span", "a", category, {"x": 1}, None, False, [("value", "c", category, 1)])]
    with recording(path, only=only, without=without):
        run(program)
    included = (only is None or category in only) and (without is None or category not in without)
    assert only_thread(read_events(path)) == (expected(program) if included else [])


# ---- Examples.


def test_the_stub_names_what_the_module_has() -> None:
    stub = Path(_native.__file__).with_name("_recorder.pyi")
    names = set()
    for node in ast.parse(stub.read_text()).body:
        nodes = [node]
        if isinstance(node, ast.If):
            holds = eval(compile(ast.Expression(node.test), str(stub), "eval"), {"sys": sys})
            nodes = node.body if holds else node.orelse
        for item in nodes:
            if isinstance(item, ast.FunctionDef | ast.ClassDef):
                names.add(item.name)
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                names.add(item.target.id)
    assert names == {name for name in vars(recorder) if not name.startswith("__")}


def test_long_programs_fill_many_chunks(out: Path) -> None:
    with recording(out):
        for number in range(30_000):
            with recorder.span("outer", "app", number=number):
                recorder.instant("inner")
            if number % 100 == 0:
                recorder.instant("long", **{f"key{key}": "x" * (number % 900) for key in range(number % 14)})
    assert len(only_thread(read_events(out))) == 90_300


def test_threads_beyond_the_table(out: Path) -> None:
    """The table has 255 slots; the other threads are in their events.  All of them live at the same time."""
    count = 300
    turns = [threading.Event() for _ in range(count + 1)]

    def work(number: int) -> None:
        turns[number].wait()
        for time in range(3):
            with recorder.span("work", number=number, text="x" * time):
                recorder.instant("inside")
        recorder.message("done")
        turns[number + 1].set()
        turns[-1].wait()

    with recording(out):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        turns[0].set()
        for thread in threads:
            thread.join()
    trace = read_events(out)
    assert len(trace) == count
    inside: list[Any] = [("instant", "inside", "", {})]
    for number, events in trace.items():
        spans = [("span", "work", "", {"number": number, "text": "x" * time}, None, False, inside) for time in range(3)]
        assert [event[:1] + event[2:] for event in events] == [
            event[:1] + event[2:] for event in expected([*spans, ("log", "done")])
        ]


def test_threads_that_end_leave_their_chunk(out: Path) -> None:
    with recording(out) as result:
        for _ in range(100):
            thread = threading.Thread(target=recorder.instant, args=("here",))
            thread.start()
            thread.join()
        size = out.stat().st_size
    assert sum(map(len, read_events(out).values())) == 100
    assert (size - result.file.end) / recorder.CHUNK_BYTES < 5


@pytest.mark.full
def test_more_names_than_the_table_holds(out: Path) -> None:
    with recording(out) as result:
        for number in range(33_000):
            recorder.instant(f"name {number}")
        with recorder.span("y" * 300, "category", key=1):
            recorder.instant("name 5", "ä" * 130, value="text")
    events = only_thread(read_events(out))
    assert [event[3] for event in events[:33_000]] == [f"name {number}" for number in range(33_000)]
    assert [event[2:4] for event in events[33_000:]] == [
        ("category", "y" * 250),
        ("ä" * 125, "name 5"),
        ("category", "y" * 250),
    ]
    assert [[argument[1:] for argument in event[4]] for event in events[33_000:]] == [
        [("key", 1)],
        [("value", "text")],
        [],
    ]
    # Each time that a name is in its event, it is counted.
    with fxtio.open(out) as reader:
        raw = [record for record in reader.records(resolve=False) if hasattr(record, "args")]
    texts = [text for record in raw for text in (record.category, record.name, *(arg.name for arg in record.args))]
    inline = [text for text in texts if isinstance(text, str) and text]
    assert len(inline) > 200
    assert (result.counts["inlined"], result.counts["cut"]) == (len(inline), 3)


def test_names_that_occur_once_are_not_in_the_table(out: Path) -> None:
    """Only those that the table would keep better: they would be cut, or their bytes take time to count."""
    names = ["short", "x" * 250, "x" * 251, "ä"]
    with recording(out) as result:
        for name in names:
            site = recorder.Site("app", name, once=True)
            assert recorder.begin(site) and recorder.end(site, "outcome", "passed")
    events = only_thread(read_events(out))
    assert [event[2:4] for event in events] == [("app", name) for name in names for _ in range(2)]
    with fxtio.open(out) as reader:
        table = {record.text for record in reader.records(resolve=False) if isinstance(record, r.String)}
    assert table & {*names} == {*names[2:]}
    assert (result.counts["inlined"], result.counts["cut"]) == (0, 0)


def test_too_many_arguments_are_counted_not_recorded(out: Path) -> None:
    with recording(out) as result:
        recorder.instant("a", **{f"key{number}": number for number in range(20)})
    (event,) = only_thread(read_events(out))
    assert len(event[4]) == 15
    assert result.counts["dropped"] == 5


@pytest.mark.full
@pytest.mark.no_cover  # many equal events, slow to measure
@pytest.mark.parametrize("limit", [0, 1, 7, 40])
def test_the_limit_holds(limit: int, out: Path) -> None:
    """The limit is given in chunks.  The file has the beginning, and nothing is recorded once it is full."""
    room = limit * recorder.CHUNK_BYTES
    with recording(out) as result:
        end = result.file.end
    with recording(out, limit=end + room) as result:
        for number in range(200_000):
            recorder.instant("here", number=number)
        lost, is_active = recorder.lost(), recorder.active() != 0
    events = only_thread(read_events(out))
    assert out.stat().st_size <= end + room
    if limit == 0:  # the thread has no room for its first chunk; others might have one
        assert lost is not None
        assert (lost[0], lost[2], is_active) == (200_000, 0, True)
    elif lost is None:
        assert (len(events), is_active) == (200_000, True)
    else:
        count, since, full = lost
        assert (count, result.counts["lost"], is_active) == (1, 1, False)
        assert 0 < since <= full
    assert len(events) * 24 <= room
    assert len(events) * 32 >= room * 0.9 - 2 * recorder.CHUNK_BYTES or not lost  # three words each, or four
    assert [event[4][0][2] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_ring_keeps_the_end(chunks: int, out: Path) -> None:
    ring = chunks * recorder.CHUNK_BYTES
    with recording(out, ring=ring) as result:
        for number in range(100_000):
            recorder.instant("here", number=number)
    assert result.counts["lost"] == 0
    with fxtio.open(out) as reader:
        numbers = sorted(event_of(record, {})[4][0][2] for record in reader if isinstance(record, r.Instant))
    assert numbers == list(range(100_000 - len(numbers), 100_000))
    assert len(numbers) * 32 >= ring * 0.9
    assert len(numbers) * 24 <= ring + recorder.CHUNK_BYTES
    assert out.stat().st_size <= result.file.end + ring + 2 * recorder.CHUNK_BYTES


POSITIONS = "takes a name and a category by position, the rest by name"
STRINGS = "name and category are strings"
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("span", (), {}, POSITIONS),
    ("span", ("a", "b", "c"), {}, POSITIONS),
    ("span", (1,), {}, STRINGS),
    ("span", (None,), {}, STRINGS),
    ("span", ([],), {"x": 1}, STRINGS),
    ("span", (("a", "b"),), {}, STRINGS),
    ("span", ("a", None), {}, STRINGS),
    ("instant", (), {}, POSITIONS),
    ("instant", ("a", "b", "c"), {}, POSITIONS),
    ("instant", ("a", 0), {}, STRINGS),
    ("counter", (), {}, "a value, or series by name"),
    ("counter", ("a",), {}, "a value, or series by name"),
    ("counter", ("a", 1), {"x": 1}, "a value, or series by name"),
    ("counter", ("a", 1, "b", "c"), {}, "a name, a value and a category by position"),
    ("counter", (None, 1), {}, STRINGS),
    ("begin", (), {}, "begin"),
    ("begin", (1,), {}, "begin"),
    ("end", (1,), {}, "end"),
    ("record", (), {}, "record"),
    ("record", (1, recorder.Site("", "a"), [], 1), {}, "record"),
    ("record", (1, "a", (), 1), {}, "record"),
    ("record", (1, recorder.Site("", "a"), (), "1"), {}, "int"),
    ("message", (1,), {}, "a message is a string"),
    ("message", (b"a",), {}, "a message is a string"),
    ("reference", (b"a",), {}, "a text is a string"),
]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(("name", "args", "kwargs", "message"), WRONG)
def test_misuse_is_refused(
    active: bool, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str, out: Path
) -> None:
    with recording(out) if active else nullcontext():
        if active:
            recorder.instant("a", "b")
        with pytest.raises(TypeError, match=message):
            getattr(recorder, name)(*args, **kwargs)


def test_events_of_unknown_kinds_and_with_too_few_values_are_refused() -> None:
    for kind, values in ((len(KINDS), (1,)), (-1, (1,)), (0, ())):
        with pytest.raises(ValueError, match="unknown kind of event, or fewer values"):
            recorder.record(kind, recorder.Site("", "a", ("key",)), values, None)


@pytest.mark.parametrize("kind", ["a", 1.5, 2**70])
def test_an_id_is_not_looked_at_if_there_is_no_kind(kind: Any) -> None:
    class Id:
        def __index__(self) -> int:
            raise KeyError

    with pytest.raises((TypeError, OverflowError)):
        recorder.record(kind, recorder.Site("", "a"), (), Id())  # type: ignore[arg-type]


def test_nothing_happens_while_nothing_is_recorded() -> None:
    with recorder.span("a", "b", c=1) as span:
        span.set(d=1)
    site = recorder.Site("", "a")
    recorder.instant("a")
    recorder.counter("a", 1)
    assert not recorder.active()
    assert recorder.lost() is None
    assert recorder.task_track() == 0
    assert not (recorder.begin(site) or recorder.end(site) or recorder.message("a") or recorder.reference("a"))
    assert not recorder.record(KINDS["flow_begin"], site, (), 1)


def test_sessions_do_not_mix(tmp_path: Path) -> None:
    first, second = tmp_path / "first.fxt", tmp_path / "second.fxt"
    with recording(first):
        span = recorder.span("left open")
        span.__enter__()
    with recording(second):
        recorder.span("left open").__enter__()
        span.__exit__(None, None, None)
    for path in (first, second):
        assert [event[0] for event in only_thread(read_events(path))] == ["DurationBegin"]


def test_definitions_are_those_of_the_present_recording(tmp_path: Path) -> None:
    record = thread_name(1, 1, 1, 1)
    with recording(tmp_path / "first.fxt") as first:
        assert recorder.define(first.file, record)
        assert not recorder.define(first.file, record[:-1])
        assert not recorder.define(None, record)
    with recording(tmp_path / "second.fxt") as second:
        assert not recorder.define(first.file, record)
    assert not recorder.define(second.file, record)


def test_a_repr_that_records_is_left_out(out: Path) -> None:
    class Recording:
        def __repr__(self) -> str:
            with recorder.span("inside"):
                recorder.instant("inside")
            return "value"

    with recording(out):
        recorder.instant("a", value=Recording())
    assert [event[3:5] for event in only_thread(read_events(out))] == [("a", (("StringArgument", "value", "value"),))]


def test_wrappers(out: Path) -> None:
    with recording(out):
        keyed = recorder.Site("", "keyed", ("a", "b"))
        pair = recorder.Traced(lambda a, b=2: (a, b), keyed, ((0, "a", None), (1, "b", 2)), True, 0)
        assert (pair(1), pair(a=3, b="x"), pair(1, 5)) == ((1, 2), (3, "x"), (1, 5))
        number: Any = recorder.Traced(int, recorder.Site("", "int"), None, False, 0)
        assert (number("5"), number.__wrapped__, number.from_bytes(b"a")) == (5, int, 97)
        with pytest.raises(ValueError, match="invalid literal"):
            number("x")
        assert repr(number) == f"<traced {int!r}>"
    calls: list[Any] = []
    for args, result in (({"a": 1, "b": 2}, "(1, 2)"), ({"a": 3, "b": "x"}, "(3, 'x')"), ({"a": 1, "b": 5}, "(1, 5)")):
        calls.append(("span", "keyed", "", args, {"result": result}, False, []))
    calls.append(("span", "int", "", {}, None, False, []))
    calls.append(("span", "int", "", {}, {"exception": "ValueError"}, False, []))
    assert only_thread(read_events(out)) == expected(calls)


def test_squeezed_is_without_fillers(tmp_path: Path) -> None:
    """Also by the stand-in for an installation without the recorder, which gives the same bytes."""
    path = tmp_path / "a.fxt"
    with recording(path):
        for number in range(3000):
            recorder.instant("here", text="x" * (number % 100))
    whole = path.read_bytes()
    images = []
    for squeeze in (recorder.squeeze, fallback.squeeze):
        image = bytearray(whole)
        examined, left = squeeze(image)
        assert examined * 8 == len(whole)
        images.append(image[: left * 8])
    assert images[0] == images[1]
    (tmp_path / "b.fxt").write_bytes(images[0])
    assert read_events(tmp_path / "b.fxt") == read_events(path)
    assert len(images[0]) < len(whole)


@given(words=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0x12, 0x22, 0x10, 0x20, 0x32, 0]), max_size=12))
def test_squeeze_of_arbitrary_words(words: list[int]) -> None:
    data = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    images = [bytearray(data), bytearray(data)]
    results = [squeeze(image) for squeeze, image in zip((recorder.squeeze, fallback.squeeze), images, strict=True)]
    assert results[0] == results[1]
    left = results[0][1] * 8
    assert images[0][:left] == images[1][:left]


# ---- The flight recorder.


def test_a_copy_is_the_file(out: Path) -> None:
    copy_path = out.with_name("copy.fxt")
    with recording(out) as result, open(copy_path, "w+b") as copy:
        for number in range(5_000):
            recorder.instant("step", "app", number=number)
        size = recorder.copy(copy.fileno())
        assert copy.read() == out.read_bytes()[:size]
        recorder.instant("later")
        with pytest.raises(OSError, match="descriptor"), open(out, "rb") as read_only:
            recorder.copy(read_only.fileno())
        os.close(result.file.fd)
        with pytest.raises(OSError, match="descriptor"):
            recorder.copy(copy.fileno())
        result.file.fd = os.open(out, os.O_RDWR)
    assert only_thread(read_events(out))[:-1] == only_thread(read_events(copy_path))


def test_unrecorded(out: Path) -> None:
    def call() -> int:
        with recorder.span("no"):
            recorder.instant("no")
        return recorder.unrecorded(lambda: 3) + 4

    def fail() -> None:
        raise RecursionError("mine")

    def in_thread() -> None:
        recorder.unrecorded(call)
        recorder.instant("of a thread")

    assert recorder.unrecorded(call) == 7
    with recording(out):
        assert recorder.unrecorded(call) == 7
        recorder.instant("yes")
        with pytest.raises(RecursionError, match="mine"):
            recorder.unrecorded(fail)
        recorder.instant("yes")
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
    assert sorted(check_trace(out).names) == ["of a thread", "yes", "yes"]


def test_the_hook_for_slow_spans(out: Path) -> None:
    calls: list[tuple[str, str]] = []

    def hook(trigger: str, name: str) -> Any:
        calls.append((trigger, name))
        with recorder.span("inside of the hook"):
            recorder.instant("inside of the hook")
        return (site, (name,)) if name == "a" else None

    site = recorder.Site("app", "reported", ("name",))
    with recording(out, slow=1, slow_hook=hook):
        for name in "abc":
            with recorder.span(name):
                recorder.instant("here")
        with recorder.span("left open"):
            recorder.instant("here")
            recorder.seal()
    assert calls == [("slow", "a"), ("slow", "b"), ("slow", "c")]
    seen = check_trace(out, open_spans=True)
    rows = seen.rows(category="app", name="reported")
    assert [seen.args(int(row)) for row in rows] == [{"name": "a"}]
    assert "inside of the hook" not in seen.names
