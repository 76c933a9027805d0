"""The importer of Perfetto traces: what it makes of traces of all kinds, judged by Perfetto itself."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard

import fxtio
import judges
from fxtio import open_timeline, synth
from fxtio.codec.protobuf import Message, bytes_field, number_field
from fxtio.exchange import by_content, by_ending
from fxtio.exchange.convert import convert
from fxtio.exchange.perfetto import reader as perfetto_reader
from fxtio.formats import by_name
from fxtio.io.source import open_source
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry
from judges import perfetto
from support import perfetto_samples as make
from support.checkout import CORPUS
from support.conversion import TrackEvents, track_events
from support.exchange import exported, imported
from support.fxt_readings import Trickle

TRACES = dict(make.all_traces()) if make.is_available() else {}
"""The traces by name, empty where Perfetto's messages are missing."""


def slices_of(timeline: Timeline) -> Counter[Any]:
    """Return slices and instants with their arguments as Perfetto has them."""
    tables = timeline.tables("slices", "instants", "args", "tracks", "threads", "processes")
    args: dict[int, dict[str, Any]] = {}
    for row in tables["args"].rows():
        args.setdefault(row["event"], {})[row["name"]] = value_of(row)
    tracks = [*tables["tracks"].rows()]
    threads, processes = [*tables["threads"].rows()], [*tables["processes"].rows()]

    def place(track: int) -> tuple[int | None, int | None]:
        thread = tracks[track]["thread"]
        return (None, None) if thread < 0 else (processes[threads[thread]["process"]]["pid"], threads[thread]["tid"])

    found: Counter[Any] = Counter()
    for row in tables["slices"].rows():
        own = args.get(row["event"], {}) | args.get(row["end_event"], {})
        duration = -1 if row["state"] == "open" else row["duration"]
        found[row["start"], duration, row["name"], row["category"], *place(row["track"]), as_key(own)] += 1
    for row in tables["instants"].rows():
        own = args.get(row["event"], {})
        found[row["time"], 0, row["name"], row["category"], *place(row["track"]), as_key(own)] += 1
    return found


def value_of(row: dict[str, Any]) -> Any:
    """Return the value of an argument, as Perfetto has it."""
    match row["type"]:
        case "text":
            return row["text"]
        case "number":
            return struct.unpack("<d", row["bits"].to_bytes(8, "little"))[0]
        case "boolean":
            return bool(row["bits"])
        case "integer":
            return row["bits"] - 2**64 if row["bits"] >= 2**63 else row["bits"]
    return row["bits"]


def as_key(args: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in args.items()))


def judged_slices(data: bytes) -> Counter[Any]:
    """Return the same by Perfetto."""
    found: Counter[Any] = Counter()
    with perfetto.load(data) as p:
        for each in p.slices():
            args = {}
            for key, value in each.args.items():
                if key.startswith("debug."):
                    args[key.removeprefix("debug.").replace("[", ".").replace("]", "")] = value
            found[each.ts, each.dur, each.name, each.category, each.pid, each.tid, as_key(args)] += 1
    return found


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", TRACES)
def test_slices_and_arguments_by_perfetto(name: str) -> None:
    judges.require(perfetto.available())
    assert slices_of(imported(TRACES[name])) == judged_slices(TRACES[name])


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", TRACES)
def test_counters_flows_and_scheduling_by_perfetto(name: str) -> None:
    judges.require(perfetto.available())
    timeline = imported(TRACES[name])
    tables = timeline.tables("counters", "tracks", "scheduling", "threads", "flow_points", "samples")
    names = tables["tracks"]["name"].tolist()
    tids = tables["threads"]["tid"].tolist()
    counters = Counter((row["time"], row["value"], names[row["track"]]) for row in tables["counters"].rows())
    runs = Counter(
        (
            row["start"],
            -1 if row["state"] is None else row["duration"],
            row["cpu"],
            tids[row["thread"]],
            row["priority"],
        )
        for row in tables["scheduling"].rows()
    )
    arrows: dict[int, list[int]] = {}
    for row in tables["flow_points"].rows():
        arrows.setdefault(row["id"], []).append(row["time"])
    flows = {pair for times in arrows.values() for pair in pairwise(times)}
    with perfetto.load(TRACES[name]) as p:
        assert counters == Counter((c.ts, c.value, c.track) for c in p.counters() if c.track != "cpu-clock")
        assert runs == Counter((s.ts, s.dur, s.cpu, s.tid, s.priority) for s in p.sched() if s.tid)
        assert flows == {(flow.ts_out, flow.ts_in) for flow in p.flows()}
        (count,) = p.query(
            "select (select count(*) from perf_sample) + (select count(*) from cpu_profile_stack_sample) n"
        )
    assert tables["samples"].num_rows == count["n"]


def test_the_losses() -> None:
    make.messages()
    losses = {name: dict(imported_losses(data)) for name, data in TRACES.items()}
    assert losses == {
        "track_events": {},
        "defaults": {"packets whose sequence has not defined what they need, or has lost it": 1},
        "interleaved": {},
        "kernel": {"texts that programs printed, other than marks of atrace": 1},
        "samples": {"definitions of the kind 16": 1, "samples that the recorder lost or left out": 1},
        "legacy": {"events of the older type 'C'": 1},
        "compressed": {"packets whose sequence has not defined what they need, or has lost it": 1},
    }


def imported_losses(data: bytes) -> Counter[str]:
    timeline = imported(data)
    timeline.tables(*timeline.table_names)
    return timeline.losses


def test_stacks_of_samples() -> None:
    make.messages()
    tables = imported(TRACES["samples"]).tables("samples", "stacks", "frames", "threads")
    frames = [*tables["frames"].rows()]
    assert [(row["name"], row["module"], row["file"], row["line"], row["address"]) for row in frames] == [
        ("main", "/bin/program", None, -1, 16),
        ("work", "/bin/program", "main.c", 12, 32),
        (None, "/bin/program", None, -1, 48),
    ]
    assert tables["stacks"]["parent"].tolist() == [-1, 0, 1]
    rows = [(row["time"], row["stack"], row["cpu"]) for row in tables["samples"].rows()]
    assert rows == [(100, 1, 2), (110, 2, 2), (120, 1, 2), (2000, 1, -1), (4000, 2, -1)]


def test_names_wall_clock_and_scopes() -> None:
    make.messages()
    timeline = imported(TRACES["defaults"])
    tables = timeline.tables("threads", "processes", "tracks", "instants")
    assert timeline.wall_clock == 1_700_000_000_000_000_000 - 1000
    assert tables["processes"]["name"].tolist() == ["program"]
    assert tables["threads"]["name"].tolist() == ["main"]
    kinds = dict(zip(tables["tracks"]["name"].tolist(), tables["tracks"]["kind"].tolist(), strict=True))
    assert kinds.items() >= {"task": "async", "memory": "counter", "ticks": "counter"}.items()
    scopes = dict(zip(tables["instants"]["name"].tolist(), tables["instants"]["scope"].tolist(), strict=True))
    assert scopes.items() >= {"mark": "thread", "of the process": "process"}.items()


@pytest.mark.parametrize("wrap", [zlib.compress, zstandard.ZstdCompressor().compress], ids=["zlib", "zstd"])
def test_compressed_packets(wrap: Any) -> None:
    make.messages()
    field = 50 if wrap is zlib.compress else 133
    plain = track_events(imported(TRACES["defaults"]))
    inner = wrap(TRACES["defaults"])
    packed = bytes_field(1, bytes_field(field, inner))
    assert track_events(imported(packed)) == plain
    twice = bytes_field(1, bytes_field(field, wrap(packed)))
    assert imported_losses(twice)["compressed packets within compressed ones"] == 1
    cut = bytes_field(1, bytes_field(field, inner[:-9]))
    assert any("cut or damaged" in phrase for phrase in imported_losses(cut))


def packet(name: bytes, time: int, size: int = 0) -> bytes:
    """Return a packet with an instant of no track, and with so many bytes more."""
    event = number_field(9, 3) + bytes_field(23, name)
    return bytes_field(
        1, number_field(8, time) + bytes_field(11, event) + (bytes_field(36, bytes(size)) if size else b"")
    )


def names_in(timeline: Timeline) -> list[str]:
    names: list[str] = timeline.table("instants")["name"].tolist()
    return names


def test_packets_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = packet(b"a", 1) + packet(b"b", 2, 300) + packet(b"c", 3, 5000) + packet(b"d", 4)
    monkeypatch.setattr(perfetto_reader, "MAX_PACKET", 4000)
    for block in (1, 7, 64, 1 << 20):
        monkeypatch.setattr(perfetto_reader, "BLOCK", block)
        timeline = imported(data, "perfetto")
        is_whole = block > 5000  # a packet that is in memory anyway is read
        assert names_in(timeline) == ["a", "b", *(["c"] if is_whole else []), "d"]
        assert timeline.losses == ({} if is_whole else {"packets over 67,108,864 bytes": 1})


def test_cut_files_and_bytes_that_are_no_packet() -> None:
    data = packet(b"a", 1) + packet(b"b", 2)
    for size in range(len(packet(b"a", 1)) + 1, len(data)):
        timeline = imported(data[:size], "perfetto")
        assert names_in(timeline) == ["a"]
        assert timeline.losses == {"messages that are cut or damaged": 1}
    timeline = imported(data + b"\x07" * 30 + data, "perfetto")
    assert names_in(timeline) == ["a", "b"]
    assert timeline.losses == {"what follows bytes that are no packet": 1}


def test_pipes_and_compressed_files(tmp_path: Path) -> None:
    data = packet(b"a", 1) + packet(b"b", 2)
    assert names_in(open_timeline(Trickle(data, 3), format="perfetto")) == ["a", "b"]
    (tmp_path / "x.pftrace.zst").write_bytes(zstandard.compress(data))
    with open_timeline(tmp_path / "x.pftrace.zst") as timeline:
        assert (timeline.format, names_in(timeline)) == ("perfetto", ["a", "b"])


def test_recognition() -> None:
    for data in TRACES.values():
        exchange = by_content(data[:1024])
        assert exchange is not None
        assert exchange.name == "perfetto"
    for text in (b"\n\na;b 1\n", b"\n" * 50, b"\n{}", bytes_field(1, number_field(1, 1) + number_field(2, 2)), b"\n\0"):
        exchange = by_content(text)
        assert exchange is None or exchange.name != "perfetto"
    ending = by_ending("trace.pftrace.gz")
    assert ending is not None
    assert ending.name == "perfetto"


def test_what_cannot_be_used_is_counted() -> None:
    make.messages()
    build = make.Builder()
    make.describe(build)
    build.packet(1 << 63).track_event.type = make.INSTANT
    build.packet().track_event.type = make.INSTANT
    build.event(5, 0)
    build.event(6, make.COUNTER, make.MEMORY)
    build.event(7, make.INSTANT, make.MEMORY)
    build.event(8, make.INSTANT, 999, name_iid=77)
    build.packet(9).track_event.source_location_iid = 1
    build.packet(10, trace_config={}, timestamp_clock_id=70)
    build.packet(11, timestamp_clock_id=5).track_event.type = make.INSTANT
    assert imported_losses(build.bytes()) == {
        "packets without a usable time": 2,
        "events without a type": 2,
        "events of counters without a value": 1,
        "values of tracks that are no counters, and other events of counters": 1,
        "events on tracks that are not described before them": 1,
        "names and texts that are not defined": 1,
        "parts of events that are not read: source_location_iid": 1,
        "packets of the type trace_config": 1,
        "times of clocks that no snapshot relates to the clock of the trace, which are kept": 1,
    }


def test_snapshots_say_what_other_clocks_show() -> None:
    clocks = ((6, 1_000), (3, 900), (1, 5_000), (64, 7))
    snapshot = b"".join(bytes_field(1, number_field(1, clock) + number_field(2, time)) for clock, time in clocks)
    for data, expected in (
        (snapshot, {"boottime": 0, "monotonic": -100, "realtime": 4_000}),
        (bytes_field(1, number_field(1, 6) + number_field(2, 5)), {}),  # no wall clock, by which starts are told apart
    ):
        assert open_timeline(bytes_field(1, bytes_field(6, data)), format="perfetto").clocks == expected


def test_arguments_are_bounded() -> None:
    make.messages()
    build = make.Builder()
    make.describe(build)
    event = build.event(5, make.INSTANT, name="many")
    for number in range(300):
        event.debug_annotations.add(name=f"a{number}", int_value=number)
    deep = build.event(6, make.INSTANT, name="deep").debug_annotations.add(name="d")
    for _ in range(100):
        deep = deep.array_values.add()
    timeline = imported(build.bytes())
    tables = timeline.tables("args", "instants")
    first, second = tables["instants"]["event"].tolist()
    assert (tables["args"]["event"] == first).sum() == 256
    assert (tables["args"]["event"] == second).sum() == 1
    assert set(timeline.losses) == {"arguments beyond 256 of an event", "arguments within more than 32 others"}


# --- What the exporter writes -----------------------------------------------------------------------------------------

SHAPES = [
    *(("fxt", shape) for shape in ("spans", "counters", "flows", "async", "threads", "mixed", "system", "program")),
    *(("uftrace", shape) for shape in ("calls", "program")),
    *(("mono", shape) for shape in ("calls", "memory", "mixed", "program", "everything")),
]
FILES = [
    *(path for path in sorted((CORPUS / "uftrace").iterdir()) if (path / "info").exists()),
    *(path for path in sorted((CORPUS / "fxt").glob("*.fxt")) if "profiler" not in path.name),
    CORPUS / "py-spy" / "work.speedscope.json",
]
KINDS = {"null": "text", "koid": "unsigned"}


def carried(events: TrackEvents) -> TrackEvents:
    """Return what is on tracks without that which the format does not carry."""

    def plain(text: str | None) -> str | None:
        return None if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def track(key: Any) -> Any:
        pid, kind, name, *_ = key
        if not isinstance(kind, str):
            return key
        is_unnamed = kind in ("process", "global") and name is None
        return pid, "async" if kind in ("process", "global") else kind, kind if is_unnamed else name

    def args(rows: Any) -> Any:
        found = [
            (name, KINDS.get(kind, kind), bits, "null" if kind == "null" else plain(text))
            for name, kind, bits, text in rows
        ]
        return tuple(sorted(found, key=str))

    slices, instants, flows, counters = (Counter[Any]() for _ in range(4))
    for (key, start, duration, depth, name, category, _, own), count in events.slices.items():
        slices[track(key), start, duration, depth, name, category, args(own)] += count
    for (key, time, around, name, category, _, own), count in events.instants.items():
        if category != "log":
            instants[track(key), time, around, name, category, args(own)] += count
    for (key, time, around, kind, number, _), count in events.flows.items():
        flows[track(key), time, around, kind, number] += count
    for (key, time, value), count in events.counters.items():
        counters[key[0], time, value] += count
    return TrackEvents(slices, instants, flows, counters)


def scheduling(timeline: Timeline) -> dict[Any, Any]:
    """Return when threads ran, with how long, and when they were woken, on the processors that Perfetto allows."""
    tables = timeline.tables("scheduling", "wakeups", "threads")
    tids = tables["threads"]["tid"].tolist()
    found: dict[Any, Any] = {}
    for row in tables["scheduling"].rows():
        if row["cpu"] <= 1023:
            duration = None if row["state"] is None else row["duration"]
            found[row["start"], row["cpu"], tids[row["thread"]], row["priority"]] = duration
    for row in tables["wakeups"].rows():
        if row["cpu"] <= 1023:
            found[row["time"], row["cpu"], tids[row["thread"]], "woken"] = row["waker"] >= 0 and tids[row["waker"]]
    return found


def check_exported(path: Path, folder: Path) -> None:
    """Check that a trace comes back as it was."""
    with open_timeline(path) as timeline:
        convert(timeline, folder / "out.pftrace")
        before = carried(track_events(timeline)), scheduling(timeline)
        wall_clock = timeline.wall_clock
        has_samples = timeline.table("samples").num_rows > 0
    with open_timeline(folder / "out.pftrace") as timeline:
        after = carried(track_events(timeline)), scheduling(timeline)
        assert timeline.wall_clock == wall_clock
    if has_samples:  # these are slices now
        assert all(not each - other for each, other in zip(before[0], after[0], strict=True))
    else:
        assert after[0] == before[0]
    assert after[1].keys() == before[1].keys()
    for key, value in before[1].items():  # without a state, a thread runs until another one does
        assert value is None or after[1][key] == value


@pytest.mark.full
@pytest.mark.parametrize(("format", "shape"), SHAPES)
def test_the_export_of_each_shape_comes_back(format: str, shape: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{by_name(format).suffixes[0]}"
    synth.write(path, shape, format=format, events=4000, seed=3)
    check_exported(path, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_export_of_each_file_comes_back(path: Path, tmp_path: Path) -> None:
    check_exported(path, tmp_path)


# --- The same in columns ----------------------------------------------------------------------------------------------


def content(data: bytes, least: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return all that is read of a file if at least so many packets are taken together."""
    monkeypatch.setattr(perfetto_reader, "LEAST", least)
    timeline = imported(data, "perfetto")
    tables = timeline.tables("samples", "args")
    samples = [*tables["samples"].rows()]
    return track_events(timeline), scheduling(timeline), samples, tables["args"].num_rows, timeline.losses


ONE_BY_ONE = 1 << 40


@pytest.mark.parametrize("name", TRACES)
def test_columns_say_the_same_as_one_packet_after_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = content(TRACES[name], ONE_BY_ONE, monkeypatch)
    for least in (1, 2, 5):
        assert content(TRACES[name], least, monkeypatch) == expected


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", TRACES)
def test_columns_say_the_same_of_damaged_traces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(name)
    for _ in range(200):
        data = make.damaged(TRACES[name], draw)
        assert content(data, 1, monkeypatch) == content(data, ONE_BY_ONE, monkeypatch), data


def test_columns_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the packets of an export, hardly any is taken by itself."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(7, 8, "main", "program")
        for number in range(500):
            track.complete("work", 10 * number, 10 * number + 5, args={"a": number, "b": "text", "c": 0.5})
    data, _ = exported(open_timeline(out.getvalue()), "perfetto")
    taken = []

    def message(*args: Any) -> Message:
        taken.append(args)
        return Message(*args)

    monkeypatch.setattr(perfetto_reader, "Message", message)
    assert imported(data).table("args").num_rows == 1500
    assert 0 < len(taken) < 10


def test_parts_are_joined_where_the_next_one_has_earlier_events(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(packet(b"%d" % time, time) for time in (1, 5, 9, 7, 8, 20, 15, 30, 40))
    monkeypatch.setattr(perfetto_reader, "MAX_ROWS", 3)
    registry = Registry()
    with closing(open_source(data)) as source:
        parts = [part.steps.time.tolist() for part in perfetto_reader.parts(source, registry, {"slices"}) if part.steps]
    assert parts == [[1, 5, 9, 7, 8, 20, 15, 30, 40]]
    monkeypatch.setattr(perfetto_reader, "MAX_HELD", 3)
    assert sorted(names_in(imported(data, "perfetto"))) == sorted(["1", "5", "9", "7", "8", "20", "15", "30", "40"])
