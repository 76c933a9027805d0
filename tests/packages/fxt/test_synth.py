"""Synthetic traces: the same bytes for the same seed, the requested amount, and nothing that Perfetto refuses."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
from bisect import bisect_left
from collections import Counter as Bag
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import fxtio
import judges
from fxtio import formats, synth
from fxtio.cli import INTERRUPTED, main
from fxtio.cli.console import Progress
from fxtio.codec.parts import Number
from fxtio.codec.record import Opaque, layout_of
from fxtio.fxt.enums import ObjectType
from fxtio.fxt.layout import MAX_ARGUMENTS
from fxtio.fxt.records import (
    ARGUMENTS,
    RECORDS,
    AsyncBegin,
    AsyncEnd,
    AsyncInstant,
    Counter,
    DurationBegin,
    DurationComplete,
    DurationEnd,
    Event,
    FlowBegin,
    FlowEnd,
    FlowStep,
    Initialization,
    Instant,
    KernelObject,
    Log,
    ProfilerBacktrace,
    ProfilerMmap,
    ProfilerModule,
    String,
    StringReference,
    Thread,
    ThreadRecord,
    ThreadReference,
    TraceInfo,
)
from fxtio.synth.shapes import TREES
from judges import perfetto
from support.limits import PATIENCE

SHAPES = sorted(synth.shapes_of(formats.by_name("fxt")))
SIMPLE = [shape for shape in SHAPES if shape not in {"everything", "program"}]
FLOWS = (FlowBegin, FlowStep, FlowEnd)
ASYNC = (AsyncBegin, AsyncInstant, AsyncEnd)

Capture = pytest.CaptureFixture[str]


def make(shape: str, **amount: Any) -> bytes:
    out = io.BytesIO()
    synth.write(out, shape, **amount)
    return out.getvalue()


def read(data: bytes) -> list[Any]:
    trace = fxtio.open(data, strict=True)
    return list(trace)


def by_thread(events: Iterable[Any]) -> dict[Thread, list[Any]]:
    groups = defaultdict(list)
    for event in events:
        groups[event.thread].append(event)
    return groups


@pytest.fixture(scope="module", params=SIMPLE)
def shaped(request: pytest.FixtureRequest) -> tuple[str, bytes]:
    """Return a trace of each simple shape, of more than one chunk for the shapes whose chunks are small."""
    threads = {"threads": 600} if request.param == "threads" else {"threads": 5}
    return request.param, make(request.param, events=30_000, seed=3, **threads)


# ---------------------------------------------------------------------------------------------------- what they promise


@pytest.mark.parametrize("shape", SHAPES)
def test_seeded(shape: str) -> None:
    first = make(shape, events=2_000, seed=1)
    assert make(shape, events=2_000, seed=1) == first
    assert make(shape, events=2_000, seed=2) != first


def test_the_same_on_every_machine() -> None:
    """Compares the content, which does not depend on how the writer lays out a trace."""
    records: list[Any] = read(make("mixed", events=5_000, seed=5))
    events = [record for record in records if isinstance(record, Event)]
    content: list[Any] = [
        (type(event).__name__, event.timestamp, event.name, getattr(event, "id", 0)) for event in events
    ]
    content += [(arg.name, arg.value) for record in records for arg in getattr(record, "args", ())]
    assert hashlib.sha256(repr(content).encode()).hexdigest()[:16] == "ba3cd979d0435775"


@pytest.mark.parametrize(("shape", "unit"), [("spans", 1), ("counters", 1), ("threads", 1), ("flows", 6), ("async", 3)])
def test_number_of_events(shape: str, unit: int) -> None:
    for events in (1, 17, 1_000):
        out = io.BytesIO()
        count, size = synth.write(out, shape, events=events, threads=3)
        assert size == len(out.getvalue())
        assert count == -(-events // unit) * unit
        assert sum(isinstance(record, Event) for record in read(out.getvalue())) == count


@pytest.mark.parametrize("shape", SHAPES)
def test_few_events(shape: str) -> None:
    for events in (1, 2, 3):
        assert sum(isinstance(record, Event | Log) for record in read(make(shape, events=events, threads=1))) >= 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [20_000, 3_000_000])
def test_size(shape: str, size: int) -> None:
    round_of_everything = 300_000 if shape == "everything" else 0
    assert size <= len(make(shape, size=size, threads=4)) < size * 1.05 + round_of_everything


@pytest.mark.parametrize(
    "amount", [{"events": 1, "size": 1}, {"events": 0}, {"size": 0}, {"threads": 0}, {"events": -1}]
)
def test_invalid_amounts_are_refused(amount: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"both|positive"):
        make("spans", **amount)


def test_progress() -> None:
    reports: list[tuple[int, int | None]] = []
    make("mixed", events=40_000, progress=lambda done, total: reports.append((done, total)))
    assert reports[0] == (0, 40_000)
    assert reports == sorted(reports)
    assert len(reports) > 3


def test_trees_are_trees() -> None:
    for tree in TREES:
        depths = [tree[: at + 1].count("(") - tree[: at + 1].count(")") for at in range(len(tree))]
        assert len(tree) == 20
        assert min(depths[:-1]) > 0
        assert depths[-1] == 0


# --------------------------------------------------------------------------------------------------- what they are like


def test_time_does_not_go_back(shaped: tuple[str, bytes]) -> None:
    events = [record for record in read(shaped[1]) if isinstance(record, Event)]
    for thread in by_thread(events).values():
        ticks = [event.timestamp for event in thread]
        assert ticks == sorted(ticks)


def test_spans_nest_with_room_between_all_ticks(shaped: tuple[str, bytes]) -> None:
    spans = [record for record in read(shaped[1]) if isinstance(record, DurationComplete)]
    for thread in by_thread(spans).values():
        ticks = sorted(tick for span in thread for tick in (span.timestamp, span.end))
        assert len(set(ticks)) == len(ticks)
        open_ends: list[int] = []
        for span in thread:
            while open_ends and open_ends[-1] < span.timestamp:
                open_ends.pop()
            assert not open_ends or span.end < open_ends[-1]
            open_ends.append(span.end)
            assert len(open_ends) <= 10


def test_everything_has_a_name(shaped: tuple[str, bytes]) -> None:
    records: list[Any] = read(shaped[1])
    kernel_objects = [record for record in records if isinstance(record, KernelObject)]
    processes = {record.koid for record in kernel_objects if record.object_type == ObjectType.PROCESS}
    threads = {
        Thread(record.args[0].value, record.koid)  # type: ignore[union-attr]
        for record in kernel_objects
        if record.object_type == ObjectType.THREAD
    }
    events = [record for record in records if isinstance(record, Event)]
    assert all(record.name for record in kernel_objects)
    assert all(event.name and event.category for event in events)
    assert {event.thread for event in events} <= threads
    assert {thread.process for thread in threads} == processes
    assert all((thread.thread or 0) < 1 << 31 for thread in threads)


def test_flows_lie_in_spans(shaped: tuple[str, bytes]) -> None:
    records = read(shaped[1])
    spans = by_thread(record for record in records if isinstance(record, DurationComplete))
    starts = {thread: [span.timestamp for span in of] for thread, of in spans.items()}
    chains = defaultdict(list)
    for flow in (record for record in records if isinstance(record, FLOWS)):
        thread: Any = flow.thread
        at = bisect_left(starts[thread], flow.timestamp) - 1
        assert starts[thread][at] < flow.timestamp < spans[thread][at].end
        chains[flow.id].append(flow)
    for chain in chains.values():
        chain.sort(key=lambda flow: flow.timestamp)
        assert tuple(map(type, chain)) == FLOWS
        assert len({flow.timestamp for flow in chain}) == len({flow.thread for flow in chain}) == 3
    assert bool(chains) == (shaped[0] in {"flows", "mixed"})


def test_operations_are_whole(shaped: tuple[str, bytes]) -> None:
    operations = defaultdict(list)
    for record in read(shaped[1]):
        if isinstance(record, ASYNC):
            operations[record.id].append(record)
    for operation in operations.values():
        assert tuple(map(type, sorted(operation, key=lambda event: event.timestamp))) == ASYNC
        assert len({(event.name, event.category) for event in operation}) == 1
        assert len({event.timestamp for event in operation}) == 3
    assert bool(operations) == (shaped[0] in {"async", "mixed"})


def test_counters_are_series(shaped: tuple[str, bytes]) -> None:
    counters = [record for record in read(shaped[1]) if isinstance(record, Counter)]
    assert all(len(counter.args) == 1 for counter in counters)
    assert all(len({counter.id for counter in of}) == 1 for of in by_thread(counters).values())
    assert bool(counters) == (shaped[0] in {"counters", "mixed"})


def test_many_threads() -> None:
    spans = [record for record in read(make("threads", events=40_000)) if isinstance(record, DurationComplete)]
    assert len({span.thread for span in spans}) == synth.MANY_THREADS


@pytest.mark.parametrize("amount", [{"events": 200}, {"events": 200_000}, {"size": 10_000}])
def test_mixed_has_everything(amount: dict[str, int]) -> None:
    kinds = {type(record) for record in read(make("mixed", **amount)) if isinstance(record, Event)}
    assert kinds == {DurationComplete, Counter, Instant, *FLOWS, *ASYNC}


@pytest.mark.full
def test_perfetto_finds_no_fault(shaped: tuple[str, bytes]) -> None:
    judges.require(perfetto.available())
    shape, data = shaped
    records = read(data)
    count: Callable[..., int] = lambda *classes: sum(isinstance(record, classes) for record in records)  # noqa: E731
    with perfetto.load(data) as judge:
        assert judge.errors() == {}
        slices = judge.slices()
        assert len(slices) == count(DurationComplete, Instant, AsyncBegin, AsyncInstant)
        assert all(span.dur >= 0 for span in slices)
        depths = {span.depth for span in slices if span.tid is not None}
        assert depths == (
            set(range(10)) if shape in {"spans", "threads", "mixed"} else {0} if count(FlowBegin) else set()
        )
        arrows = Bag((flow.name_out, flow.name_in) for flow in judge.flows())
        assert arrows == Bag({("request", "work"): count(FlowBegin), ("work", "reply"): count(FlowEnd)})
        assert len(judge.counters()) == count(Counter)
        assert all(thread.name for thread in judge.threads())
        assert all(process.name for process in judge.processes())


# --------------------------------------------------------------------------------------------------------- everything


def test_everything_has_all_records_and_arguments() -> None:
    data = make("everything", events=1_500, seed=3)
    records: list[Any] = read(data)
    assert {type(record) for record in records} == {*RECORDS.classes} - {TraceInfo}  # no type of it is defined
    assert {type(each) for record in records for each in getattr(record, "args", ())} == {*ARGUMENTS.classes}
    with fxtio.open(data, strict=True) as trace:
        empty = [name for name, table in trace.tables(*trace.table_names).items() if not table.num_rows]
        assert [str(finding) for finding in trace.findings] == []
        rates = {provider.clock.ticks_per_second for provider in trace.info.providers}
    assert empty == ["unknown_records"]
    assert len(rates) == 3


def test_everything_has_all_forms() -> None:
    """References by slot and inline, slots that are defined anew, optional words, the most arguments and frames."""
    raw: list[Any] = [*fxtio.open(make("everything", events=1_500)).records(resolve=False)]
    forms: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for record in [*raw, *(each for owner in raw for each in getattr(owner, "args", ()))]:
        for name, part in layout_of(type(record)).parts:
            value = getattr(record, name)
            if isinstance(part, StringReference | ThreadReference):
                short = isinstance(part, ThreadReference) and part.short_form
                without = short and isinstance(value, Thread) and value.thread is None
                forms[type(part).__name__, "process only" if without else type(value).__name__].add(type(record))
            elif isinstance(part, Number) and part.optional:
                forms["optional", str(value is None)].add(type(record))
    assert len(forms["StringReference", "int"]) == len(forms["StringReference", "str"]) >= 25
    assert forms["ThreadReference", "int"] == forms["ThreadReference", "Thread"]
    assert forms["ThreadReference", "process only"] == {ProfilerModule, ProfilerMmap, ProfilerBacktrace}
    assert forms["optional", "True"] == forms["optional", "False"] == {Instant, Initialization}
    assert max(len(getattr(record, "args", ())) for record in raw) == MAX_ARGUMENTS
    slots = Bag((type(record), record.index) for record in raw if isinstance(record, String | ThreadRecord))
    assert min(count for (_, slot), count in slots.items() if slot < 4) > 3


def test_everything_is_its_own_exact_copy() -> None:
    data = make("everything", events=700)
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for record in fxtio.open(data).records(resolve=False):
            assert not isinstance(record, Opaque)
            writer.put(record)
    assert out.getvalue() == data


# ------------------------------------------------------------------------------------------------------------ program


def named(records: list[Any], cls: type[Event]) -> list[Any]:
    return [record for record in records if type(record) is cls]


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8, 40, 600])
def test_the_spans_of_a_program_nest(threads: int) -> None:
    records = read(make("program", events=6_000, threads=threads, seed=2))
    moments = defaultdict(list)
    for record in records:
        if isinstance(record, DurationBegin):
            moments[record.thread].append((record.timestamp, "begin"))
        elif isinstance(record, DurationEnd):
            moments[record.thread].append((record.timestamp, "end"))
        elif isinstance(record, DurationComplete):
            moments[record.thread] += [(record.timestamp, "begin"), (record.end, "end")]
    for of_thread in moments.values():
        of_thread.sort()
        assert len({tick for tick, _ in of_thread}) == len(of_thread)
        depths = [sum(1 if kind == "begin" else -1 for _, kind in of_thread[: at + 1]) for at in range(len(of_thread))]
        assert {*depths} <= {0, 1, 2}
        assert depths[-1] == 0
    roles = {thread.name for thread in records if isinstance(thread, KernelObject) and thread.object_type == 2}
    assert roles >= ({"main", "gc", "disk", "worker 1"} if threads > 3 else {"main"})


def test_what_a_program_does() -> None:
    """Requests wait for a worker, ask a database, are counted and logged; durations are spread widely."""
    records: list[Any] = read(make("program", events=20_000, seed=4))
    begins, accepts = named(records, DurationBegin), [one for one in records if getattr(one, "name", "") == "accept"]
    assert len(begins) == len(accepts) == len(named(records, DurationEnd)) == len(named(records, FlowEnd)) > 1_000
    sent = {flow.id: flow for flow in named(records, FlowBegin)}
    for flow in named(records, FlowEnd):
        assert sent[flow.id].timestamp < flow.timestamp
        assert sent[flow.id].thread != flow.thread
    share = Bag(span.name for span in begins)
    assert share["GET /item"] > share["GET /"] > share["GET /search"] > share["POST /order"] > share["POST /login"] > 0
    spans = named(records, DurationComplete)
    assert {"minor collection", "major collection", "write", "query", "render"} <= {span.name for span in spans}
    lengths = sorted(span.end - span.timestamp for span in spans if span.name == "query")
    assert lengths[len(lengths) // 2] > 300_000
    assert lengths[-1] > 8 * lengths[len(lengths) // 2]
    assert {record.name for record in named(records, Counter)} == {"requests in flight", "heap"}
    assert 0 <= len([record for record in records if isinstance(record, Log)]) - len(begins) // 4 < 10
    assert {record.name for record in named(records, Instant)} == {"exception"}


@pytest.mark.full
def test_perfetto_shows_a_program() -> None:
    judges.require(perfetto.available())
    data = make("program", events=8_000, seed=3)
    records: list[Any] = read(data)
    with perfetto.load(data) as judge:
        assert judge.errors() == {}
        slices = Bag(each.name for each in judge.slices())
        events = (DurationBegin, DurationComplete, Instant, AsyncBegin, AsyncInstant)
        assert slices == Bag(record.name for record in records if type(record) in events)
        requests = Bag(record.name for record in named(records, DurationBegin))
        arrows = Bag((flow.name_out, flow.name_in) for flow in judge.flows())
        assert arrows == Bag({("accept", name): count for name, count in requests.items()})
        assert len(judge.counters()) == len(named(records, Counter))
        assert {"main", "gc", "disk", "worker 1"} <= {thread.name for thread in judge.threads()}
        assert {process.name for process in judge.processes()} == {"server 1"}


# ---------------------------------------------------------------------------------------------------------- the command


def test_command(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "spans.fxt"
    assert main(["synth", "spans", "-o", str(path), "--events", "2k", "--seed", "9", "--threads", "3"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"fxtio: wrote 2,000 events ({path.stat().st_size / 1024:.1f} KiB) to {path}\n")
    assert path.read_bytes() == make("spans", events=2_000, seed=9, threads=3)


@pytest.mark.parametrize(("suffix", "unpack"), [
    (".gz", gzip.decompress), (".zst", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
])  # fmt: skip
def test_command_compresses(suffix: str, unpack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"mixed.fxt{suffix}"
    assert main(["synth", "mixed", "-o", str(path), "--size", "100kB"]) == 0
    assert 100_000 <= len(unpack(path.read_bytes())) < 105_000
    assert path.stat().st_size < 100_000


def test_command_to_a_pipe() -> None:
    command = [sys.executable, "-P", "-m", "fxtio", "synth", "flows", "-o", "-", "--events", "600"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert sum(isinstance(record, FLOWS) for record in read(done.stdout)) == 300
    assert done.stderr.endswith(b" to standard output\n")


def test_command_whose_output_nobody_reads() -> None:
    command = [sys.executable, "-P", "-m", "fxtio", "synth", "spans", "-o", "-", "--size", "10MB"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(8)
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "nothing"], "no format 'nothing'"),
        (["-o", "/nowhere/at/all.fxt"], "/nowhere/at/all.fxt: No such file or directory"),
    ],
)
def test_command_refuses(arguments: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["synth", "spans", "-o", str(tmp_path / "x.fxt"), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["spans"], ["-o", "x.fxt"], ["cubes", "-o", "x.fxt"], ["spans", "-o", "x.fxt", "--events", "1", "--size", "1"],
        ["spans", "-o", "x.fxt", "--size", "1XB"], ["spans", "-o", "x.fxt", "--threads", "0"],
        ["spans", "-o", "x.fxt", "--seed", "-1"],
    ],
)  # fmt: skip
def test_command_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["synth", *arguments])
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.fxt", "x.fxt.zst", "x.mlpd", "x.data", "x.dcpi", "x.cpl"])
def test_command_that_is_interrupted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Nothing is left, neither of a trace nor of a broken one, which is made of several files in a directory."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    chosen = formats.by_suffix(name)
    assert chosen is not None
    monkeypatch.setattr(Progress, "__call__", interrupt)
    assert main(["synth", next(iter(synth.shapes_of(chosen))), "-o", str(tmp_path / name)]) == INTERRUPTED
    assert capsys.readouterr().err == "fxtio: interrupted\n"
    assert [*tmp_path.iterdir()] == []


def test_command_does_not_write_to_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["synth", "spans", "-o", "-"]) == 2
    assert "is not written to a terminal" in capsys.readouterr().err
