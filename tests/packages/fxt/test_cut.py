"""Parts that are cut out of traces: spans, operations, flows, values at the start, definitions, selections."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.codec.generate import encode
from fxtio.fxt import records as r
from fxtio.fxt.cut import cut_to
from fxtio.fxt.frames import BATCH_WORDS
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.merge import merge_to
from fxtio.fxt.records import Int32Argument, StringArgument, Thread
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
from fxtio.testing import strategies
from support.costs import operations
from support.fxt_cut import Program, cut, faults, seen, within
from support.fxt_hostile import damaged_traces
from support.fxt_samples import share
from support.in_process import run_piped

WORDS = st.sampled_from([64, 700, BATCH_WORDS])
T = Thread(1, 11)


def trace_of(*records: Any) -> bytes:
    """Return a trace of one provider."""
    return MAGIC + b"".join(map(encode, [r.ProviderInfo(1, "p"), r.Initialization(10**9), *records]))


def records_of(data: bytes) -> list[Any]:
    """Return the records of a trace without definitions, with names."""
    definitions = r.Magic | r.ProviderInfo | r.ProviderSection | r.Initialization | r.String | r.ThreadRecord
    with fxtio.open(data, format="fxt") as trace:
        return [record for record in trace if not isinstance(record, definitions)]


def values_at_start(points: Counter[tuple[int, str]], start: int) -> Counter[tuple[int, str]]:
    """Return points without counters at a time."""
    return Counter({point: count for point, count in points.items() if point[0] != start or "Counter(" not in point[1]})


@share(2)
@given(seed=st.integers(0, 10**6), bounds=st.tuples(st.integers(0, 700), st.integers(1, 700)), words=WORDS)
def test_a_cut_shows_what_is_in_the_range(seed: int, bounds: tuple[int, int], words: int) -> None:
    data = Program(seed, 40).encoded()
    start, end = bounds[0], bounds[0] + bounds[1]
    part, _ = cut(data, Selection(start, end), words)
    got, expected = seen(part), within(seen(data), start, end)
    assert got.slices == expected.slices
    assert got.arrows == expected.arrows
    assert values_at_start(got.points, start) == values_at_start(expected.points, start)


@share(2)
@given(seed=st.integers(0, 10**6), bounds=st.tuples(st.integers(0, 700), st.integers(1, 700)), words=WORDS)
def test_a_cut_has_no_new_faults(seed: int, bounds: tuple[int, int], words: int) -> None:
    data = Program(seed, 40).encoded()
    part, _ = cut(data, Selection(bounds[0], bounds[0] + bounds[1]), words)
    assert faults(part).keys() <= faults(data).keys()


@pytest.mark.full
def test_the_cost_of_many_providers_is_proportional_to_their_number() -> None:
    """Each has a span that is open at the start, and definitions that are in the head of the part already."""

    def cost(count: int) -> int:
        records: list[Any] = []
        for number in range(2, count + 2):
            span = r.DurationBegin(1, Thread(number, 1), 0, 1, ())
            records += [r.ProviderInfo(number, "p"), r.String(1, "name"), span, span.replace(timestamp=20)]
        data = trace_of(*records)
        return operations(lambda: cut(data, Selection(10, 30), BATCH_WORDS))

    cost(2)
    assert cost(200) < 4.8 * cost(50)


def test_a_description_of_a_clock_that_is_too_short_is_left_out() -> None:
    event = r.Instant(5, T, "", "", ())
    short = encode(r.Initialization(1))[:8].replace(b"\x21", b"\x11")
    part, _ = cut(trace_of(event) + short + encode(event), Selection(0, 10), BATCH_WORDS)
    assert records_of(part) == [event, event]


@pytest.mark.full
@share(2)
@given(seed=st.integers(0, 10**6), start=st.integers(0, 300), words=WORDS)
def test_archives_of_several_providers_and_clocks(seed: int, start: int, words: int) -> None:
    programs = [Program(seed + number, 30, rate=10**9 // number, provider=number) for number in (1, 2)]
    out = io.BytesIO()
    merge_to([fxtio.open(program.encoded(), format="fxt") for program in programs], open_sink(out))
    start *= 2
    part, _ = cut(out.getvalue(), Selection(start, start + 200), words)
    got, expected = seen(part), within(seen(out.getvalue()), start, start + 200)
    assert got.slices == expected.slices
    assert faults(part).keys() <= faults(out.getvalue()).keys()


@pytest.mark.full
@share(2)
@given(seed=st.integers(0, 10**6), words=WORDS)
def test_the_whole_of_a_trace_stays(seed: int, words: int) -> None:
    data = Program(seed, 40).encoded()
    part, done = cut(data, Selection(end=10**6), words)
    assert seen(part) == seen(data)
    assert done.reopened == 0
    assert Counter(map(repr, records_of(part))) == Counter(map(repr, records_of(data)))


@pytest.mark.full
@share(2)
@given(seed=st.integers(0, 10**6), words=WORDS, patterns=st.sampled_from([("11",), ("!10", "!12"), ("1?",)]))
def test_threads(seed: int, words: int, patterns: tuple[str, ...]) -> None:
    data = Program(seed, 40).encoded()
    part, _ = cut(data, Selection(100, 400, threads=patterns), words)
    chosen = Selection(threads=patterns)
    whole = within(seen(data), 100, 400).slices
    got = Counter({one: count for one, count in seen(part).slices.items() if one.thread is not None})
    assert got == Counter(
        {
            one: count
            for one, count in whole.items()
            if one.thread is not None and chosen.has_thread("thread", one.thread.thread or 0)
        }
    )
    assert faults(part).keys() <= faults(data).keys()


@pytest.mark.full
@share(2)
@given(seed=st.integers(0, 10**6), words=WORDS)
def test_names(seed: int, words: int) -> None:
    data = Program(seed, 40).encoded()
    part, _ = cut(data, Selection(names=("name[1-5]", "!name3")), words)
    names = {f"name{number}" for number in (1, 2, 4, 5)}
    got = Counter({one._replace(depth=0): count for one, count in seen(part).slices.items()})
    expected = Counter[Any]()
    for one, count in seen(data).slices.items():
        if one.name in names:
            expected[one._replace(depth=0)] += count
    assert Counter(one for one in got.elements()) == expected
    assert faults(part).keys() <= faults(data).keys()


@share(2)
@given(trace=strategies.traces(), start=st.integers(0, 2**63), words=WORDS)
def test_any_trace_can_be_cut(trace: list[Any], start: int, words: int) -> None:
    part, _ = cut(strategies.encoded(trace), Selection(start, start + 2**40), words)
    faults(part)
    part, _ = cut(strategies.encoded(trace), Selection(names=("a*",)), words)
    faults(part)


@given(
    data=damaged_traces() | damaged_traces("big"), start=st.integers(0, 2**64), patterns=st.sampled_from([(), ("a*",)])
)
def test_damaged_traces_can_be_cut(data: bytes, start: int, patterns: tuple[str, ...]) -> None:
    part, _ = cut(data, Selection(start, start + 2**40, names=patterns))
    faults(part)


@share(2)
@given(data=st.binary(max_size=200), start=st.integers(0, 2**64))
def test_any_bytes_can_be_cut(data: bytes, start: int) -> None:
    part, _ = cut(MAGIC + data, Selection(start))
    faults(part)


def test_a_big_endian_trace_becomes_little_endian() -> None:
    records = [r.ProviderInfo(1, "p"), r.String(1, "name"), r.DurationBegin(10, T, "c", 1, ()),
               r.DurationEnd(90, T, "c", 1, ())]  # fmt: skip
    data = b"".join(encode(record, "big") for record in [r.Magic(), *records])
    part, _ = cut(data, Selection(20, 50))
    assert records_of(part) == [r.DurationBegin(20, T, "c", "name", ()), r.DurationEnd(50, T, "c", "name", ())]


def test_definitions_are_those_of_the_place_of_each_record() -> None:
    data = trace_of(
        r.String(1, "outer"), r.ThreadRecord(1, 1, 11),
        r.DurationBegin(10, 1, "c", 1, (StringArgument("key", 1),)),
        r.String(1, "inner"), r.String(2, "never used in the part"),
        r.DurationBegin(20, 1, "c", 1, ()), r.Instant(25, 1, "c", 2, ()),
        r.String(1, "later"), r.ThreadRecord(1, 1, 12),
        r.Instant(30, 1, "c", 1, ()),
    )  # fmt: skip
    part, done = cut(data, Selection(28))
    assert records_of(part) == [
        r.DurationBegin(28, T, "c", "outer", (StringArgument("key", "outer"),)),
        r.DurationBegin(28, T, "c", "inner", ()),
        r.Instant(30, Thread(1, 12), "c", "later", ()),
    ]
    assert (done.records, done.reopened) == (3, 2)
    assert b"never used" not in part


def test_the_last_value_of_a_counter_is_repeated() -> None:
    values = [r.Counter(time, T, "c", name, (Int32Argument("v", time),), 7) for time, name in
              ((10, "a"), (20, "a"), (15, "b"), (40, "a"))]  # fmt: skip
    part, _ = cut(trace_of(*values), Selection(30))
    assert records_of(part) == [
        r.Counter(30, T, "c", "b", (Int32Argument("v", 15),), 7),
        r.Counter(30, T, "c", "a", (Int32Argument("v", 20),), 7),
        r.Counter(40, T, "c", "a", (Int32Argument("v", 40),), 7),
    ]


def test_what_runs_on_a_cpu_is_repeated() -> None:
    switches = [r.ContextSwitch(cpu, 2, time, out, into, ()) for cpu, time, out, into in
                ((0, 10, 1, 2), (1, 12, 1, 3), (0, 20, 2, 4), (0, 40, 4, 1))]  # fmt: skip
    part, _ = cut(trace_of(*switches), Selection(30))
    assert records_of(part) == [
        r.ContextSwitch(1, 2, 30, 1, 3, ()), r.ContextSwitch(0, 2, 30, 2, 4, ()), r.ContextSwitch(0, 2, 40, 4, 1, ())
    ]  # fmt: skip


def test_a_divided_flow_becomes_one_of_its_own() -> None:
    spans = [r.DurationComplete(0, T, "c", "s", (), 100)]
    flow = [r.FlowBegin(10, T, "f", "f", (), 1), *(r.FlowStep(time, T, "f", "f", (), 1) for time in (20, 30, 40)),
            r.FlowEnd(50, T, "f", "f", (), 1)]  # fmt: skip
    part, _ = cut(trace_of(*spans, *flow), Selection(15, 45))
    assert records_of(part)[1:] == [
        r.FlowBegin(20, T, "f", "f", (), 1), r.FlowStep(30, T, "f", "f", (), 1), r.FlowEnd(40, T, "f", "f", (), 1)
    ]  # fmt: skip
    part, _ = cut(trace_of(*spans, *flow), Selection(15, 25))
    assert len(records_of(part)) == 1


def test_modules_of_backtraces_stay() -> None:
    records = [r.ProfilerModule(1, 10, T, "lib", b"\1\2"), r.ProfilerBacktrace(0, 50, T, (1, 2)),
               r.ProfilerModule(2, 90, T, "late", b"\1\2")]  # fmt: skip
    part, _ = cut(trace_of(*records), Selection(30, 60))
    assert records_of(part) == [r.ProfilerModule(1, 30, T, "lib", b"\1\2"), records[1]]


def test_flows_stay_with_the_spans_that_enclose_them() -> None:
    other = Thread(1, 12)
    records = [
        r.DurationBegin(10, T, "c", "kept", ()), r.FlowBegin(11, T, "f", "f", (), 1),
        r.DurationEnd(12, T, "c", "kept", ()),
        r.DurationComplete(20, other, "c", "kept", (), 30), r.FlowStep(25, other, "f", "f", (), 1),
        r.DurationComplete(40, T, "c", "other", (), 50), r.FlowEnd(45, T, "f", "f", (), 1),
    ]  # fmt: skip
    part, _ = cut(trace_of(*records), Selection(names=("kept",)))
    assert records_of(part) == [*records[:4], r.FlowEnd(25, other, "f", "f", (), 1)]


def test_blobs_are_selected_by_name() -> None:
    records = [r.LargeBlob("c", name, 20, T, (), b"bytes") for name in ("kept", "other")]
    part, _ = cut(trace_of(*records), Selection(names=("kept",)))
    assert records_of(part) == records[:1]


def test_a_trace_without_introductions_stays_without() -> None:
    data = MAGIC + encode(r.Instant(5, T, "c", "a", ()))
    assert cut(data, Selection(1))[0] == data


def test_too_many_open_spans_are_left_out_with_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.fxt.cut.body.MAX_KEPT", 3)
    records = [r.DurationComplete(number, Thread(1, number), "c", "a", (), 100) for number in range(1, 6)]
    with fxtio.open(trace_of(*records), format="fxt") as trace:
        out = io.BytesIO()
        cut_to(trace, Selection(50), open_sink(out))
        assert trace.findings.counts == {"fxt.event.too-many-open": 1}
    assert len(records_of(out.getvalue())) == 3


@pytest.mark.parametrize("classes", [(r.DurationBegin,), (r.Counter,)])
def test_memory_for_records_before_the_range_is_bounded(
    classes: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fxtio.fxt.cut.pairs.MAX_BYTES", 100)
    monkeypatch.setattr("fxtio.fxt.cut.carried.MAX_BYTES", 100)
    more = {r.DurationBegin: (), r.Counter: (7,)}
    records = [cls(number, Thread(1, number), "c", f"name {number}", (), *more[cls]) for cls in classes
               for number in range(1, 20)]  # fmt: skip
    part, done = cut(trace_of(*records), Selection(50))
    assert done.reopened < 5
    assert len(records_of(part)) == done.reopened


def test_nothing_in_the_range() -> None:
    part, done = cut(trace_of(r.Instant(5, T, "c", "a", ())), Selection(6))
    assert records_of(part) == []
    assert done.records == 0


# ---- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = tmp_path / "a.fxt", tmp_path / "b.fxt.gz"
    with fxtio.create(path) as writer:
        thread = writer.thread(1, 11, "worker", "app")
        for number in range(10):
            thread.complete(f"step {number}", number * 1000, number * 1000 + 900)
    assert main(["cut", str(path), "-o", str(target), "--from", "50%", "--to", "-1us", "--thread", "work*"]) == 0
    assert "wrote" in capsys.readouterr().err
    with fxtio.open(target) as trace:
        assert [record.name for record in trace if isinstance(record, r.DurationComplete)] == [
            "step 5", "step 6", "step 7", "step 8"
        ]  # fmt: skip


def test_processes_and_threads_by_name_or_number(tmp_path: Path) -> None:
    path, target = tmp_path / "a.fxt", tmp_path / "b.fxt"
    with fxtio.create(path) as writer:
        for process, name in ((1, "server"), (2, "client")):
            for number in (1, 2):
                writer.thread(process, 10 * process + number, f"worker {number}", name).instant(f"{name} {number}", 5)

    def left(*arguments: str) -> list[str]:
        assert main(["cut", str(path), "-o", str(target), *arguments]) == 0
        return [str(record.name) for record in records_of(target.read_bytes()) if isinstance(record, r.Instant)]

    assert left("--process", "server") == left("--process", "1") == ["server 1", "server 2"]
    assert left("--process", "!serv*") == ["client 1", "client 2"]
    assert left("--thread", "worker 2", "--process", "2") == ["client 2"]
    assert left("--thread", "11", "--thread", "22") == ["server 1", "client 2"]
    assert left("--name", "*1", "--name", "!client*") == ["server 1"]


def test_standard_input_can_be_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    with fxtio.create(path) as writer:
        writer.thread(1, 11, "main", "app").instant("a", 5)
        writer.thread(1, 12, "other", "app").instant("b", 7)
    for arguments in (["--thread", "main"], ["--to", "1ns"]):
        done = run_piped(path.read_bytes(), "slice", "-", "-o", "-", *arguments)
        assert done.returncode == 0
        assert [record.name for record in records_of(done.stdout) if isinstance(record, r.Instant)] == ["a"]


def test_the_target_may_be_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    path.write_bytes(trace_of(r.Instant(5, T, "c", "a", ()), r.Instant(50, T, "c", "b", ())))
    assert main(["cut", str(path), "-o", str(path), "--from", "40ns"]) == 0
    assert records_of(path.read_bytes()) == [r.Instant(50, T, "c", "b", ())]


def test_an_error_leaves_the_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = tmp_path / "a.fxt", tmp_path / "b.fxt"
    path.write_bytes(trace_of(r.Instant(5, T, "c", "a", ())))
    target.write_text("as before")
    assert main(["cut", str(path), "-o", str(target), "--from", "5s"]) == 2
    assert "5s is after the end" in capsys.readouterr().err
    assert main(["cut", str(path), "-o", str(target)]) == 2
    assert "nothing is selected" in capsys.readouterr().err
    assert main(["cut", str(path), "-o", str(tmp_path / "b.mlpd"), "--from", "0s"]) == 2
    assert "is named like a trace in the format mono" in capsys.readouterr().err
    assert target.read_text() == "as before"
    assert sorted(tmp_path.iterdir()) == [path, target]


def label(time: int, track: int, name: str, category: str = "asyncio") -> list[Any]:
    """Return the records that name the track of a task."""
    classes = r.AsyncBegin, r.AsyncInstant, r.AsyncEnd
    return [cls(time + n, T, category, name, (), track) for n, cls in enumerate(classes)]


@pytest.mark.parametrize("words", [64, BATCH_WORDS])
def test_tracks_of_tasks_keep_their_names(words: int) -> None:
    """Those with events in the range, and those on which an operation is open: not others, and once."""
    operations = [
        cls(time, T, "c", "request", (), track)
        for time, cls, track in (
            (20, r.AsyncBegin, 1), (25, r.AsyncEnd, 1), (40, r.AsyncBegin, 1), (45, r.AsyncEnd, 1),
            (21, r.AsyncBegin, 2), (22, r.AsyncBegin, 3), (24, r.AsyncEnd, 3),
            (41, r.AsyncBegin, 4), (42, r.AsyncEnd, 4),
        )
    ]  # fmt: skip
    labels = [record for track in (1, 2, 3) for record in label(10, track, f"Task-{track}")]
    other = label(10, 4, "no name", "mine")
    late = [r.AsyncInstant(23, T, "asyncio", "not the first", (), 1)]
    events = sorted([*labels, *other, *operations, *late], key=lambda record: record.timestamp)
    part, done = cut(trace_of(*events), Selection(30), words)
    found = records_of(part)
    first = {record.id: record.name for record in reversed(found) if hasattr(record, "id")}
    assert first == {1: "Task-1", 2: "Task-2", 4: "request"}
    assert [record for record in found if record.name == "Task-1"] == [
        cls(30, T, "asyncio", "Task-1", (), 1) for cls in (r.AsyncBegin, r.AsyncInstant, r.AsyncEnd)
    ]
    assert done.reopened == 3 + 3 + 1
    assert set(faults(part)) == {"fxt.async.open", "fxt.thread.nameless"}  # as in the whole
    again, _ = cut(part, Selection(35), words)
    assert {record.id: record.name for record in reversed(records_of(again)) if hasattr(record, "id")} == first


@pytest.mark.recorder
def test_a_part_of_a_recording_has_the_names_of_its_tasks(tmp_path: Path) -> None:
    async def work(number: int) -> None:
        for _ in range(3):
            with fxtio.span("request", number=number):
                await asyncio.sleep(0.001)

    async def main_task() -> None:
        await asyncio.gather(*(asyncio.create_task(work(number), name=f"work {number}") for number in range(3)))

    with fxtio.tracing(tmp_path / "app.fxt"):
        asyncio.run(main_task())
    assert main(["cut", str(tmp_path / "app.fxt"), "--from", "50%", "-o", str(tmp_path / "part.fxt")]) == 0
    tracks = fxtio.open_timeline(tmp_path / "part.fxt").tables("tracks", "slices")["tracks"]
    names = {row["name"] for row in tracks.rows() if row["kind"] == "async"}
    assert names == {f"work {number}" for number in range(3)}
