"""Tests of profiles of the Firefox Profiler: both forms, all versions, the Firefox Profiler itself, other programs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import judges
from fxtio.errors import FormatError
from fxtio.exchange import by_content
from fxtio.timeline import Timeline
from judges import firefox_profiler
from support import gecko
from support.checkout import CORPUS
from support.exchange import imported, stacks_of, weights
from support.gecko import BEGIN, END, INSTANT, INTERVAL, Frame, Thread

TACHYON = CORPUS / "tachyon" / "work.gecko.json"

MAIN: Frame = ("main", "app.js", 7)
DRAW: Frame = ("draw", "app.js", 20)
LABEL: Frame = ("Layout::Reflow", None, None)

THREADS = [
    Thread(
        samples=[(1.0, (MAIN,), None), (2.5, (MAIN, DRAW), 1500), (3.25, (MAIN, LABEL), 0), (4.0, (), 250)],
        markers=[
            ("load", 0.5, 3.5, INTERVAL, 1, {"type": "Note", "text": "page", "count": 3}),
            ("load", 1.0, 2.0, INTERVAL, 1, None),
            ("paint", 1.5, None, BEGIN, 0, None),
            ("click", 1.75, None, INSTANT, 0, {"type": "DOMEvent", "at": {"x": 1.5}}),
            ("paint", None, 2.25, END, 0, {"type": "tracing"}),
        ],
    ),
    Thread("Worker", 10, 12, [(1.0, (DRAW,), 0), (5.0, (DRAW,), 1)]),
    Thread("Web", 20, 21, [(9.0, (MAIN, DRAW, MAIN), 7)], [("click", 9.0, None, INSTANT, 0, None)]),
]

FORMS = ["raw", *gecko.VERSIONS]


def file_of(threads: list[Thread], form: Any) -> bytes:
    profile = gecko.raw(threads, 1000.0) if form == "raw" else gecko.processed(threads, form)
    return json.dumps(profile).encode()


def read(threads: list[Thread], form: Any) -> Timeline:
    return imported(file_of(threads, form))


def rows(timeline: Timeline, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in timeline.table(table).rows()]


@pytest.fixture
def _profiler() -> None:
    judges.require(firefox_profiler.available())


needs_profiler = pytest.mark.usefixtures("_profiler")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read(form: Any) -> None:
    timeline = read(THREADS, form)
    assert timeline.format == "gecko"
    assert rows(timeline, "threads", "tid", "process", "name") == [
        (11, 0, "GeckoMain"),
        (12, 0, "Worker"),
        (21, 1, "Web"),
    ]
    assert rows(timeline, "processes", "pid", "name") == [(10, "Firefox"), (20, "Firefox")]
    stacks = stacks_of(timeline)
    samples = [
        (time, thread, stacks[stack], count)
        for time, thread, stack, count, unit in rows(timeline, "samples", "time", "thread", "stack", "count", "unit")
        if unit == "samples"
    ]
    assert samples == [
        (1_000_000, 0, ("main",), 1), (2_500_000, 0, ("main", "draw"), 1),
        (3_250_000, 0, ("main", "Layout::Reflow"), 1), (4_000_000, 0, (), 1),
        (1_000_000, 1, ("draw",), 1), (5_000_000, 1, ("draw",), 1), (9_000_000, 2, ("main", "draw", "main"), 1),
    ]  # fmt: skip
    # The time in which a thread ran is that since the sample before, which the first one does not have.
    ran = rows(timeline, "samples", "time", "count", "unit")
    assert [row[:2] for row in ran if row[2] == "cpu-ns"] == [
        (2_500_000, 1_500_000),
        (4_000_000, 250_000),
        (5_000_000, 1000),
    ]
    frames = set(rows(timeline, "frames", "name", "file", "line"))
    assert frames == {("main", "app.js", 7), ("draw", "app.js", 20), ("Layout::Reflow", None, -1)}
    assert timeline.wall_clock == 1_700_000_000_000_250_000
    assert timeline.losses["categories of frames"] > 0


@pytest.mark.parametrize("form", FORMS)
def test_markers(form: Any) -> None:
    timeline = read(THREADS, form)
    found = rows(timeline, "slices", "name", "start", "duration", "category", "depth", "state")
    assert found == [
        ("load", 500_000, 3_000_000, "Layout", 0, "closed"),
        ("load", 1_000_000, 1_000_000, "Layout", 1, "closed"),
        ("paint", 1_500_000, 750_000, "Other", 0, "closed"),
    ]
    assert rows(timeline, "instants", "name", "time", "category") == [
        ("click", 1_750_000, "Other"), ("click", 9_000_000, "Other"),
    ]  # fmt: skip
    tracks = timeline.table("tracks")
    own = {(row["kind"], row["name"], row["thread"]) for row in tracks.rows()}
    assert {("async", "load", 0), ("async", "paint", 0), ("thread", None, 0)} <= own
    args = [(row["name"], row["type"], row["text"]) for row in timeline.table("args").rows()]
    assert args == [
        ("type", "text", "Note"), ("text", "text", "page"), ("count", "integer", None),
        ("type", "text", "DOMEvent"), ("at.x", "number", None), ("type", "text", "tracing"),
    ]  # fmt: skip


frames = st.tuples(st.sampled_from("abc"), st.sampled_from([None, "f.js", "g.js"]), st.integers(1, 3)).map(
    lambda frame: frame if frame[1] else (frame[0], None, None)
)
profiles = st.lists(
    st.builds(
        Thread,
        name=st.sampled_from(["GeckoMain", "Worker"]),
        pid=st.sampled_from([10, 20]),
        tid=st.integers(1, 100),
        samples=st.lists(
            st.tuples(
                st.integers(1, 10**6).map(lambda value: value / 64), st.lists(frames, max_size=4).map(tuple), st.none()
            ),
            max_size=6,
        ).map(sorted),
        markers=st.lists(
            st.tuples(
                st.sampled_from("mn"),
                st.integers(0, 10**6).map(lambda value: value / 64),
                st.none(),
                st.just(INSTANT),
                st.sampled_from([0, 1]),
                st.none(),
            ),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda thread: thread.tid,
).map(lambda threads: sorted(threads, key=lambda thread: thread.pid))


def content(timeline: Timeline) -> Any:
    tables = timeline.tables("samples", "instants", "frames", "stacks", "threads")
    tracks = timeline.table("tracks")
    owners = rows(timeline, "threads", "tid", "name")
    stacks = stacks_of(timeline)
    samples = Counter(
        (row["time"], owners[row["thread"]], stacks[row["stack"]], row["count"]) for row in tables["samples"].rows()
    )
    instants = Counter(
        (row["time"], owners[tracks["thread"][row["track"]]], row["name"]) for row in tables["instants"].rows()
    )
    return samples, instants, {tuple(row[name] for name in ("name", "file", "line")) for row in tables["frames"].rows()}


@given(profiles, st.sampled_from(gecko.VERSIONS))
def test_all_forms_say_the_same(threads: list[Thread], version: int) -> None:
    timelines = [read(threads, form) for form in ("raw", version)]
    assert content(timelines[0]) == content(timelines[1])


# --- The Firefox Profiler itself --------------------------------------------------------------------------------------


def functions_of(timeline: Timeline) -> dict[int, dict[str, tuple[int, int]]]:
    """Return for each thread the number of samples in each function itself, and in what it called as well."""
    sums: dict[int, dict[str, tuple[int, int]]] = {}
    stacks, owners = stacks_of(timeline), rows(timeline, "threads", "tid")
    for row in timeline.table("samples").rows():
        stack = stacks[row["stack"]]
        known = sums.setdefault(owners[row["thread"]][0], {})
        for name in set(stack) if row["unit"] == "samples" else ():
            own, total = known.get(name, (0, 0))
            known[name] = own + (name == stack[-1]) * row["count"], total + row["count"]
    return sums


def markers_of(timeline: Timeline) -> dict[int, list[tuple[str, float, float | None]]]:
    """Return for each thread name, start and duration of the markers, in milliseconds."""
    found: dict[int, list[tuple[str, float, float | None]]] = {}
    owners, tracks = rows(timeline, "threads", "tid"), rows(timeline, "tracks", "thread")
    for row in timeline.table("slices").rows():
        marker = (row["name"], row["start"] / 1e6, row["duration"] / 1e6)
        found.setdefault(owners[tracks[row["track"]][0]][0], []).append(marker)
    for row in timeline.table("instants").rows():
        found.setdefault(owners[tracks[row["track"]][0]][0], []).append((row["name"], row["time"] / 1e6, None))
    return found


def assert_same_as_the_profiler(path: Path) -> None:
    """Compare the functions and markers of a file; the Firefox Profiler counts times from the first sample."""
    timeline = imported(path.read_bytes())
    first = timeline.table("samples")["time"].min() / 1e6
    functions, markers = functions_of(timeline), markers_of(timeline)
    for thread in firefox_profiler.load(path):
        assert functions.get(thread.tid, {}) == thread.functions
        found = sorted(markers.get(thread.tid, []), key=lambda marker: marker[:2])
        assert [marker[0] for marker in found] == [marker[0] for marker in thread.markers]
        for (_, start, duration), (_, begin, length) in zip(found, thread.markers, strict=True):
            assert start - first == pytest.approx(begin, abs=2e-6)  # the first sample may be at 1 ns in place of 0
            assert (duration or 0) == pytest.approx(length or 0, abs=1e-6)


@pytest.mark.full
@pytest.mark.once
@needs_profiler
@pytest.mark.parametrize("form", FORMS)
def test_the_profiler_shows_the_same(form: Any, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(file_of(THREADS, form))
    assert_same_as_the_profiler(path)


@pytest.mark.full
@pytest.mark.once
@needs_profiler
def test_the_profiler_shows_the_same_of_a_profile_of_cpython() -> None:
    assert_same_as_the_profiler(TACHYON)


# --- Other programs ---------------------------------------------------------------------------------------------------


def test_a_profile_of_cpython() -> None:
    timeline = imported(TACHYON.read_bytes())
    assert weights(timeline).total() == 61
    assert sum(weight for (stack, _), weight in weights(timeline).items() if stack[-1:] == ("worker",)) == 29
    assert {row["file"] for row in timeline.table("frames").rows()} == {None, "work.py", "threading.py"}
    # Its start is the time since the machine was started.
    assert timeline.wall_clock is None


def minimal(**tables: Any) -> dict[str, Any]:
    return {
        "meta": {"version": 31, "interval": 1, "startTime": 1},
        "threads": [{"name": "t", "pid": 1, "tid": 2, **tables}],
    }


def read_json(profile: Any) -> Timeline:
    return imported(json.dumps(profile).encode(), "gecko")


def test_texts_of_frames() -> None:
    """Those of Firefox, of `perf script report gecko`, and of native code that nobody knows the names of."""
    texts = [
        "(root)", "0x1010", "0x2fff", "run (https://a.b/x.js:12:3)", "open64 (in libc.so.6)", "ld (in /lib/ld.so) + 12",
        "a::b", "f (1)",
    ]  # fmt: skip
    schema = {
        "schema": {"location": 0, "line": 1},
        "data": [[number, 99 if number == 3 else None] for number in range(8)],
    }
    stacks = {"schema": {"prefix": 0, "frame": 1}, "data": [[None, number] for number in range(8)]}
    samples = {"schema": {"stack": 0, "time": 1}, "data": [[number, number] for number in range(8)]}
    profile = minimal(stringTable=texts, frameTable=schema, stackTable=stacks, samples=samples)
    profile["libs"] = [{"name": "xul", "start": 0x1000, "end": 0x2000}, {"name": "nss", "start": 0x3000, "end": 0x4000}]
    assert rows(read_json(profile), "frames", "name", "module", "file", "line", "address") == [
        ("(root)", None, None, -1, 0), (None, "xul", None, -1, 0x1010), (None, None, None, -1, 0x2FFF),
        ("run", None, "https://a.b/x.js", 99, 0), ("open64", "libc.so.6", None, -1, 0),
        ("ld", "/lib/ld.so", None, -1, 0), ("a::b", None, None, -1, 0), ("f (1)", None, None, -1, 0),
    ]  # fmt: skip


def test_libraries_and_addresses_of_functions() -> None:
    profile = minimal(
        stringArray=["f", "libfoo"],
        frameTable={"func": [0, 0], "address": [16, -1], "line": [None, 3]},
        funcTable={"name": [0], "resource": [0], "fileName": [None], "lineNumber": [9]},
        resourceTable={"lib": [0], "name": [1], "type": [1]},
        stackTable={"frame": [0, 1], "prefix": [None, 0]},
        samples={"stack": [1], "time": [1.0]},
    )
    profile["libs"] = [{"name": "libfoo.so"}]
    assert rows(read_json(profile), "frames", "name", "module", "file", "line", "address") == [
        ("f", "libfoo.so", None, 9, 16), ("f", "libfoo.so", None, 3, 0),
    ]  # fmt: skip


def test_weights_and_allocations() -> None:
    tables = {
        "stringArray": ["f"], "frameTable": {"func": [0]}, "funcTable": {"name": [0]},
        "stackTable": {"frame": [0], "prefix": [None]},
    }  # fmt: skip
    profile = minimal(
        **tables,
        samples={"stack": [0, None], "time": [1, 2], "weight": [1.5, 0.25], "weightType": "tracing-ms"},
        nativeAllocations={"time": [1, 2], "weight": [64, -64], "stack": [0, 0], "weightType": "bytes"},
        jsAllocations={"time": [3], "weight": [8], "stack": [None], "className": ["Array"]},
    )
    timeline = read_json(profile)
    assert rows(timeline, "samples", "count", "unit", "stack") == [(1_500_000, "ns", 0), (250_000, "ns", -1)]
    assert rows(timeline, "allocations", "time", "stack", "type", "count", "size") == [
        (3_000_000, -1, "Array", 1, 8), (1_000_000, 0, None, 1, 64),
    ]  # fmt: skip
    assert timeline.losses["memory that is given back"] == 1


def test_counters() -> None:
    profile = minimal()
    profile["counters"] = [
        {
            "name": "malloc",
            "category": "Memory",
            "pid": "1",
            "samples": {"time": [1, 2], "count": [10, -4], "number": [1, 2]},
        },
        {"name": "power", "category": "power", "samples": {"timeDeltas": [1, 1.5], "count": [0.5, 0.25]}},
        {"name": "old", "sample_groups": [{"id": 0, "samples": {"schema": {"time": 0, "count": 1}, "data": [[3, 7]]}}]},
        {"name": "new", "display": {"graphType": "line-accumulated"}, "samples": {"time": [1, 2], "count": [1, 1]}},
    ]
    timeline = read_json(profile)
    tables = timeline.tables("counters", "tracks")
    names = tables["tracks"]["name"].tolist()
    assert [(names[row["track"]], row["time"], row["value"]) for row in tables["counters"].rows()] == [
        ("malloc", 1_000_000, 10), ("malloc", 2_000_000, 6), ("power", 1_000_000, 0.5), ("power", 2_500_000, 0.25),
        ("old", 3_000_000, 7), ("new", 1_000_000, 1), ("new", 2_000_000, 2),
    ]  # fmt: skip
    assert timeline.losses == {"numbers of changes between two values of a counter": 2}


def test_markers_of_old_versions() -> None:
    """Before version 19 of the raw form, they have one time and no phase."""
    markers = {"schema": {"name": 0, "time": 1, "data": 2}, "data": [[0, 1.5, {"type": "tracing"}]]}
    timeline = read_json(minimal(stringTable=["a"], markers=markers))
    assert rows(timeline, "instants", "name", "time") == [("a", 1_500_000)]


def test_what_is_wrong_is_counted() -> None:
    profile = minimal(
        stringArray=["f"],
        frameTable={"func": [0]},
        funcTable={"name": [0]},
        stackTable={"frame": [0, 7, 0], "prefix": [2, None, -5]},
        samples={"stack": [0, 9, 0, 0], "time": [-1, 1, None, 1e300], "eventDelay": [None, 1]},
        markers={"name": [0], "startTime": "x"},
    )
    profile["threads"] += [{"samples": {"stack": [0, 1], "time": [1, {}]}}, {"samples": 5}, 3]
    profile["processes"] = [{"meta": {}, "threads": [], "processes": [{}]}]
    timeline = read_json(profile)
    # The last thread's second sample has no time; its stacks are not defined.
    assert rows(timeline, "samples", "time", "stack") == [(1, 0), (1_000_000, -1), (1_000_000, -1)]
    assert timeline.losses == {
        "outer stacks that are not before the stack, which is cut": 1,
        "stacks of frames that are not defined": 1,
        "samples, markers and values of counters without a usable time": 4,
        "times before the start of the profile, which are 0 now": 1,
        "delays of events": 1,
        "threads, processes, counters and libraries that cannot be read": 1,
        "tables that cannot be read, or not to their end": 1,
        "processes of others than the first process": 1,
    }


@pytest.mark.parametrize("text", [b"", b"{}", b'{"meta":1}', b'{"meta":{},"threads":[}', b"[1]"])
def test_what_is_no_profile_is_refused(text: bytes) -> None:
    with pytest.raises(FormatError), imported(text, "gecko") as timeline:
        timeline.table("samples")


@pytest.mark.parametrize("form", FORMS)
def test_a_profile_is_recognized(form: Any) -> None:
    found = by_content(file_of(THREADS, form)[:1024])
    assert found is not None and found.name == "gecko"
