"""Tests of speedscope JSON: round trips, its schema and its own importer, files of other programs, hostile files."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.errors import FormatError, FxtioError
from fxtio.exchange import json_events
from fxtio.timeline import Timeline
from judges import speedscope
from support import exchange
from support.checkout import CORPUS
from support.exchange import Content, exported, imported

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "speedscope.json").read_text("utf-8"))

MIXED = Content(
    spans=[
        (0, 0, 100, "main"),
        (0, 10, 20, "a"),
        (0, 30, 0, "none"),
        (0, 40, 30, "b"),
        (0, 50, 5, "a"),
        (1, 5, 50, "w"),
    ],
    samples=[
        (0, 10, ("main", "f@x.py:12"), 3, "samples"),
        (0, 20, ("main", "g"), 2, "samples"),
        (0, 20, ("main",), 5_000_000, "ns"),
        (1, 20, (), 1, "samples"),
        (-1, 0, ("ü;\n",), 1, "cycles"),
    ],
    allocations=[(0, ("main", "g"), 2, 64, "str")],
)


def parsed(timeline: Timeline) -> dict[str, Any]:
    data, _ = exported(timeline, "speedscope")
    document: dict[str, Any] = json.loads(data)
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture
def _speedscope() -> None:
    judges.require(speedscope.available())


needs_speedscope = pytest.mark.usefixtures("_speedscope")


def test_what_is_written() -> None:
    document = parsed(MIXED.timeline())
    assert [(each["type"], each["name"], each["unit"]) for each in document["profiles"]] == [
        ("evented", "main (10)", "nanoseconds"),
        ("evented", "worker (11)", "nanoseconds"),
        ("sampled", "main (10)", "none"),
        ("sampled", "worker (11)", "none"),
        ("sampled", "main (10)", "nanoseconds"),
        ("sampled", "samples: cycles", "none"),
        ("sampled", "main (10)", "bytes"),
    ]
    assert {"name": "f", "file": "x.py", "line": 12} in document["shared"]["frames"]
    assert document["profiles"][2]["weights"] == [3, 2]
    assert (document["profiles"][4]["startValue"], document["profiles"][4]["endValue"]) == (20, 5_000_020)


@given(exchange.complete_spans)
def test_spans_come_back(spans: list[tuple[int, int, int, str]]) -> None:
    content = Content(spans=spans)
    data, losses = exported(content.timeline(), "speedscope")
    jsonschema.validate(json.loads(data), SCHEMA)
    before, after = exchange.spans(content.timeline()), exchange.spans(imported(data))
    assert [(row[3], row[4]) for row in before] == [(row[3], row[4]) for row in after]
    changed = sum(one[1:3] != other[1:3] for one, other in zip(before, after, strict=True))
    assert changed == losses.total()


@given(exchange.samples)
def test_samples_come_back(samples: list[tuple[int, int, tuple[str, ...], int, str]]) -> None:
    content = Content(samples=samples)
    again = imported(exported(content.timeline(), "speedscope")[0])
    assert exchange.weights(again) == exchange.weights(content.timeline())
    assert not again.losses


def test_titles_come_back() -> None:
    """Those of a file that fxtio wrote, where a thread has several profiles, and those of one without numbers."""
    foreign = (CORPUS / "py-spy" / "work.speedscope.json").read_bytes()
    for data in (exported(MIXED.timeline(), "speedscope")[0], foreign):
        given = json.loads(data)
        again = parsed(imported(data))
        assert Counter(each["name"] for each in again["profiles"]) == Counter(
            each["name"] for each in given["profiles"]
        )


def test_an_empty_timeline() -> None:
    assert parsed(Content().timeline())["profiles"] == []
    assert imported(exported(Content().timeline(), "speedscope")[0]).table("samples").num_rows == 0


def test_times_beyond_those_of_doubles_are_counted_from_the_first() -> None:
    content = Content(spans=[(0, 1 << 60, 100, "a")], samples=[(0, 1 << 60, ("a",), 5, "ns")])
    data, losses = exported(content.timeline(), "speedscope")
    evented, sampled = json.loads(data)["profiles"]
    assert (evented["startValue"], evented["endValue"]) == (0, 100)
    assert (sampled["startValue"], sampled["endValue"]) == (0, 5)
    assert sum("beyond 2^53 ns" in phrase for phrase in losses) == 2


def test_what_gets_lost(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2, "t", "p")
        track.complete("main", 0, 100, category="c", args={"a": 1})
        track.instant("i", 5)
        track.counter("n", 5, {"value": 7})
    _, losses = exported(fxtio.open_timeline(tmp_path / "in.fxt"), "speedscope")
    assert losses == {"arguments": 2, "instants": 1, "values of counters": 1, "categories of slices": 1}


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    content = Content(spans=[(0, 0, 1, "a\udcff")], samples=[(0, 0, ("b\udc80",), 1, "samples")])
    names = [frame["name"] for frame in parsed(content.timeline())["shared"]["frames"]]
    assert names == ["b\ufffd", "a\ufffd"]


def test_the_corpus() -> None:
    data, _ = exported(fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt"), "speedscope")
    assert imported(data).table("slices").num_rows


# ------------------------------------------------------------------------------------------- speedscope's own importer


@pytest.mark.full
@pytest.mark.once
@needs_speedscope
def test_speedscope_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.speedscope.json"
    path.write_bytes(exported(MIXED.timeline(), "speedscope")[0])
    main, worker, samples, _, time, cycles, size = speedscope.load(path)
    assert (main.name, main.unit, main.weight) == ("main (10)", "nanoseconds", 100)
    calls = [call for call in main.calls if call[1] != "none"]
    assert [at for _, _, at in calls] == [0, 10, 30, 40, 50, 55, 70, 100]
    assert [f"{kind} {name}" for kind, name, _ in calls] == [
        *("O main", "O a", "C a", "O b"),
        *("O a", "C a", "C b", "C main"),
    ]
    assert main.stacks == {("main",): 50, ("main", "a"): 20, ("main", "b"): 25, ("main", "b", "a"): 5}
    assert worker.stacks == {("w",): 50}
    assert samples.stacks == {("main", "f"): 3, ("main", "g"): 2} and samples.frames["f"] == ("x.py", 12)
    assert time.stacks == {("main",): 5_000_000} and time.unit == "nanoseconds"
    assert cycles.stacks == {("ü;\n",): 1}
    assert size.stacks == {("main", "g"): 64} and size.unit == "bytes"


@pytest.mark.full
@pytest.mark.once
@needs_speedscope
@pytest.mark.parametrize("name", ["magic-trace.fxt"])
def test_speedscope_reads_the_corpus(name: str, tmp_path: Path) -> None:
    timeline = fxtio.open_timeline(CORPUS / "fxt" / name)
    path = tmp_path / "x.speedscope.json"
    path.write_bytes(exported(timeline, "speedscope")[0])
    calls = Counter(name for each in speedscope.load(path) for kind, name, _ in each.calls if kind == "O")
    names = Counter(timeline.table("slices")["name"].tolist())
    assert set(calls) <= set(names) and calls.total() <= names.total()  # calls of no duration are left out there


# --------------------------------------------------------------------------------------------- files of other programs


def test_py_spy() -> None:
    timeline = fxtio.open_timeline(CORPUS / "py-spy" / "work.speedscope.json")
    assert timeline.format == "speedscope"
    stack = ("<module>", "outer", "inner")
    assert exchange.weights(timeline) == {
        (stack, "ns"): 180_000_000,
        ((*stack, "inner.<locals>.<genexpr>"), "ns"): 460_000_000,
    }
    assert timeline.table("samples")["time"].tolist() == [20_000_000 * number for number in range(32)]
    assert timeline.table("threads")["name"].tolist() == ['Thread 27426 ""']
    assert timeline.table("processes")["name"].tolist() == ["py-spy profile"]
    assert timeline.table("frames")["line"].tolist() == [5, 11, 14, 5]
    assert not timeline.losses


def test_frames_without_a_place() -> None:
    frames = [{"name": "a", "file": "", "line": 0}, {"name": "b", "file": None}, {"file": 5, "line": "7"}]
    data = with_profile(type="sampled", samples=[[0, 1, 2]], weights=[1]).replace(
        b'[{"name": "f"}]', json.dumps(frames).encode()
    )
    rows = [*imported(data).table("frames").rows()]
    assert [(row["name"], row["file"], row["line"]) for row in rows] == [
        ("a", None, -1),
        ("b", None, -1),
        (None, None, -1),
    ]


# -------------------------------------------------------------------------------------------------------- hostile files


def with_profile(**changes: Any) -> bytes:
    profile = {
        "type": "evented", "name": "p", "unit": "none", "startValue": 0, "endValue": 9,
        "events": [{"type": "O", "frame": 0, "at": 1}, {"type": "C", "frame": 0, "at": 5}],
    }  # fmt: skip
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "f"}]},
        "profiles": [profile | changes],
    }
    return json.dumps(document).encode()


def loss(data: bytes) -> dict[str, int]:
    timeline = imported(data)
    timeline.tables("slices", "samples", "stacks", "frames")
    return dict(timeline.losses)


def event(type: str, frame: int, at: float) -> dict[str, Any]:
    return {"type": type, "frame": frame, "at": at}


LIMITED = "times and weights below 0 or too large, which are limited"
UNDEFINED = "events without a usable type, frame or time"
MOVED = "events that are earlier than the one before, which are moved"
UNEQUAL = "samples without a weight, or weights without a sample"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "other"}, "profiles that cannot be read"),
        ({"events": 3}, "profiles that cannot be read"),
        ({"events": [event("O", 7, 1)]}, UNDEFINED),
        ({"events": [event("O", -(10**18), 1)]}, UNDEFINED),
        ({"events": [event("X", 0, 1)]}, UNDEFINED),
        ({"events": [event("O", 0, 5), event("C", 0, 1)]}, MOVED),
        ({"events": [event("O", 0, -5)]}, LIMITED),
        ({"events": [event("O", 0, 1e300)]}, LIMITED),
        ({"events": [event("O", 0, 1 << 63)]}, LIMITED),
        ({"events": [event("O", 0, 10**400)]}, LIMITED),
        ({"unit": "seconds", "events": [event("O", 0, 1e308)]}, LIMITED),
        ({"type": "sampled", "samples": [[0], [0]], "weights": [0.5, -(10**400)]}, LIMITED),
        ({"type": "sampled", "unit": "bytes", "startValue": 10**400, "samples": [[0]], "weights": [10**400]}, LIMITED),
        ({"unit": "seconds", "events": [event("O", 0, 1 << 62)]}, LIMITED),
        ({"events": [event("C", 0, 1)]}, "ends of spans that have not begun"),
        ({"unit": "parsecs"}, "the unit 'parsecs' of events, which is shown as ns"),
        ({"type": "sampled", "samples": [[0]], "weights": [1, 2]}, UNEQUAL),
        ({"type": "sampled", "samples": [[0, 9, -1]], "weights": [1]}, "frames of samples that are not defined"),
        ({"type": "sampled", "samples": [[0]], "weights": [0.5]}, "numbers that are not whole, which are rounded"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_profile_is_a_loss(changes: dict[str, Any], expected: str) -> None:
    assert expected in loss(with_profile(**changes))


def test_a_profile_that_is_right_loses_nothing() -> None:
    assert loss(with_profile(unit="nanoseconds")) == {}


@pytest.mark.parametrize(
    "data", [b'{"$schema":"https://www.speedscope.app/file-format-schema.json"', with_profile()[:-3]]
)
def test_a_cut_file_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a whole file"):
        imported(data).table("slices")


NUMBERS = st.sampled_from(
    ["0", "1", "7", "12.5", "2.50", "0.49999", "3.5e2", "-1", "-0", "1e400", f"{2**63 - 1}", f"{2**63}", f"{2**62}",
     '"5"', '"x"', "null", "true", "[]", "1e-999999"]
)  # fmt: skip
EVENTS = st.lists(
    st.builds(
        '{{{}:{},"frame":{},"x":[{{"at":[1]}}],"at":{}}}'.format,
        st.sampled_from(['"type"', '"type"', '"t\\u0079pe"']),
        st.sampled_from(['"O"', '"C"', '"\\u004f"', "5", "[{}]", '"X"']),
        st.sampled_from(["0", "0", "1", "2", "-1", "1.0", '"0"', "9" * 30]),
        NUMBERS,
    )
    | st.sampled_from(["0", "[]", "{}", '"a,]"', '{"type":"O","type":"C"}', '{"at":5,"frame":0,"type":"O"}']),
    max_size=20,
).map(",\n".join)
STACKS = st.lists(
    st.sampled_from(["[]", "[0]", "[0, 1]", "[1,0,1]", "[0,7]", "[-1]", "[[0]]", '["0"]', "0", "{}", "null"]),
    max_size=9,
)


def everything(data: bytes) -> Any:
    timeline = imported(data)
    tables = timeline.tables("slices", "samples", "stacks", "frames", "args", "threads")
    return {name: [*table.rows()] for name, table in tables.items()}, +timeline.losses


@given(EVENTS, STACKS, st.lists(NUMBERS, max_size=9), st.sampled_from(["nanoseconds", "milliseconds", "none"]))
def test_both_ways_of_reading_agree(events: str, stacks: list[str], weights: list[str], unit: str) -> None:
    evented = f'{{"type":"evented","unit":"{unit}","events":[{events}]}}'
    sampled = f'{{"weights":[{" ,".join(weights)}],"samples":[{",".join(stacks)}],"type":"sampled","unit":"{unit}"}}'
    head = (
        '{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"f"},{"line":3}]}'
    )
    data = f'{head},"profiles":[{evented},5,{sampled},{evented}]}}'.encode()
    usual = everything(data)
    with pytest.MonkeyPatch.context() as patch:
        exchange.read_slowly(patch)
        assert everything(data) == usual


def test_events_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the data is taken in pieces, of which each has only a part of an event, all is as in one piece."""
    data = with_profile(events=[event("OC"[place % 2], 0, place) for place in range(200)])
    usual = everything(data)
    assert len(usual[0]["slices"]) == 100
    monkeypatch.setattr(json_events, "BLOCK", 50)
    monkeypatch.setattr(json_events, "_MOST_ITEMS", 3)
    assert everything(data) == usual


@pytest.mark.parametrize("block", [100, 1 << 21])
def test_items_that_are_nested_too_deep_end_an_array(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "BLOCK", block)
    losses: Counter[str] = Counter()
    deep = b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    assert not [*json_events.objects_in(b"[" + deep + b',{"a":1}]', ["a"], losses)]
    assert losses == {json_events.NO_OBJECTS: 1}
    (objects,) = json_events.objects_in(b'[{"a":1},' + deep + b"]", ["a"], losses)
    assert [*objects.texts("a")] == [b"1"]
    assert losses == {json_events.NO_OBJECTS: 2}


KEYS = ["type", "name", "unit", "events", "samples", "weights", "at", "frame", "startValue"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_any_values_are_read_or_refused(changes: dict[str, Any]) -> None:
    with contextlib.suppress(FxtioError):
        imported(with_profile(**changes)).tables("slices", "samples", "stacks", "frames")


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(at: int, value: int) -> None:
    data = bytearray(with_profile())
    data[at % len(data)] = value
    with contextlib.suppress(FxtioError):
        imported(bytes(data), "speedscope").tables("slices", "samples", "stacks", "frames")
