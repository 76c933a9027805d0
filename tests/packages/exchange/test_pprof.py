"""Tests of pprof profiles: round trips, Go's pprof, speedscope's importer, other profiles, hostile files."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.cli import main
from fxtio.codec.protobuf import bytes_field, fields, number_field, packed_field, varint
from fxtio.errors import FxtioError
from fxtio.exchange import pprof
from fxtio.exchange.convert import UntimedError, convert, exporters
from fxtio.timeline.answers import lanes, top, tree
from judges import go_pprof, speedscope
from support import exchange
from support.checkout import CORPUS
from support.exchange import Content, Stack, exported, imported

MIXED = Content(
    spans=[(0, 0, 100, "main"), (0, 10, 20, "a"), (1, 5, 50, "w")],
    samples=[
        (0, 10, ("main", "f g@x.py:12"), 3, "samples"),
        (0, 15, ("main", "f g@x.py:12"), 1, "samples"),
        (1, 20, ("main", "g"), 2, "samples"),
        (0, 20, ("main",), 5_000_000, "ns"),
        (-1, 0, ("ü;",), 1, "cycles"),
        (-1, 0, ("ü;",), 7, "cache/misses"),
    ],
    allocations=[(0, ("main", "g"), 2, 64, "str"), (0, ("main", "g"), 1, 8, "int")],
)


def allocations(timeline: fxtio.timeline.Timeline) -> Counter[tuple[Stack, str, str]]:
    """Return the sums of each stack, class, and column."""
    stacks = exchange.stacks_of(timeline)
    sums: Counter[tuple[Stack, str, str]] = Counter()
    for row in timeline.table("allocations").rows():
        for column in ("count", "size"):
            sums[stacks[row["stack"]], row["type"], column] += row[column]
    return sums


def test_round_trip() -> None:
    data, losses = exported(MIXED.timeline(), "pprof")
    assert data.startswith(b"\x1f\x8b")
    assert losses == {"slices, of which only sums by stack are left": 3, "times of samples": 4}
    again = imported(data)
    assert again.format == "pprof"
    weights = exchange.weights(again)
    slices = {key: weights.pop(key) for key in [*weights] if key[1] in ("calls", "self_time/nanoseconds")}
    assert weights == exchange.weights(MIXED.timeline())
    assert slices == {
        (("main",), "calls"): 1,
        (("main",), "self_time/nanoseconds"): 80,
        (("main", "a"), "calls"): 1,
        (("main", "a"), "self_time/nanoseconds"): 20,
        (("w",), "calls"): 1,
        (("w",), "self_time/nanoseconds"): 50,
    }
    assert allocations(again) == allocations(MIXED.timeline())
    assert [tuple(row.values()) for row in again.table("threads").rows()] == [(10, 0, "main"), (11, 0, "worker")]
    assert again.table("processes")["pid"].tolist() == [1]
    assert ("f g", "x.py", 12) in [(row["name"], row["file"], row["line"]) for row in again.table("frames").rows()]
    assert not again.losses


@given(exchange.samples)
def test_samples_come_back(samples: list[tuple[int, int, Stack, int, str]]) -> None:
    content = Content(samples=samples)
    again = imported(exported(content.timeline(), "pprof")[0], "pprof")
    assert exchange.weights(again) == +exchange.weights(content.timeline())
    assert not again.losses


@given(st.lists(st.tuples(st.integers(-1, 1), exchange.stacks, st.integers(0, 9), st.integers(0, 99), exchange.frames)))
def test_allocations_come_back(rows: list[tuple[int, Stack, int, int, str]]) -> None:
    content = Content(allocations=rows)
    again = imported(exported(content.timeline(), "pprof")[0], "pprof")
    assert +allocations(again) == +allocations(content.timeline())


def test_a_sink_that_compresses_is_not_compressed_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.pb.gz"
    exporter = fxtio.exchange.exchanges()["pprof"].exporter
    sink = fxtio.io.sink.open_sink(path)
    consumer, _ = MIXED.timeline().fold(lambda registry: exporter(sink, registry), *exporter.TABLES)
    consumer.finish()
    sink.close()
    data, _ = exported(MIXED.timeline(), "pprof")
    assert gzip.decompress(path.read_bytes()) == gzip.decompress(data)
    assert exchange.weights(imported(gzip.decompress(data))) == exchange.weights(imported(data))


def test_the_command(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2, "t", "p")
        track.complete("main", 0, 100_000)
        track.complete("work", 10_000, 30_000)
        track.complete("work", 40_000, 60_000)
    assert main(["convert", str(tmp_path / "in.fxt"), str(tmp_path / "out.pb.gz")]) == 0
    assert exchange.weights(fxtio.open_timeline(tmp_path / "out.pb.gz")) == {
        (("main",), "calls"): 1,
        (("main",), "ns"): 60_000,
        (("main", "work"), "calls"): 2,
        (("main", "work"), "ns"): 40_000,
    }


def test_operations_without_a_thread(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2)
        track.async_begin("job", 100, 5)
        track.async_end("job", 200, 5)
    again = imported(exported(fxtio.open_timeline(tmp_path / "in.fxt"), "pprof")[0])
    assert exchange.weights(again) == {(("job",), "calls"): 1, (("job",), "ns"): 100}
    assert again.table("threads")["name"].tolist() == ["job"]
    assert not again.losses


def test_an_empty_timeline() -> None:
    data, _ = exported(Content().timeline(), "pprof")
    assert imported(data, "pprof").table("samples").num_rows == 0


# ------------------------------------------------------------------------------------------------- foreign readers


@pytest.mark.full
@pytest.mark.once
def test_go_pprof(tmp_path: Path) -> None:
    judges.require(go_pprof.available())
    path = tmp_path / "x.pprof"
    path.write_bytes(exported(MIXED.timeline(), "pprof")[0])
    profile = go_pprof.load(path)
    assert profile.types == [
        "samples/count", "time/nanoseconds", "cycles/count", "cache/misses", "alloc_objects/count", "alloc_space/bytes",
        "calls/count", "self_time/nanoseconds",
    ]  # fmt: skip
    assert profile.values == {
        ("main", "f g"): (4, 0, 0, 0, 0, 0, 0, 0),
        ("main", "g"): (2, 0, 0, 0, 3, 72, 0, 0),
        ("main",): (0, 5_000_000, 0, 0, 0, 0, 1, 80),
        ("ü;",): (0, 0, 1, 7, 0, 0, 0, 0),
        ("main", "a"): (0, 0, 0, 0, 0, 0, 1, 20),
        ("w",): (0, 0, 0, 0, 0, 0, 1, 50),
    }
    assert profile.labels["thread:[main] type:[str]"] == 1 and profile.labels["pid:[1] tid:[11]"] == 2
    top = go_pprof.run(path, "-top", "-sample_index=self_time")
    assert [line.split() for line in top.splitlines()[-3:]] == [
        ["80ns", "53.33%", "53.33%", "100ns", "66.67%", "main"],
        ["50ns", "33.33%", "86.67%", "50ns", "33.33%", "w"],
        ["20ns", "13.33%", "100%", "20ns", "13.33%", "a"],
    ]


@pytest.mark.full
@pytest.mark.once
def test_go_pprof_reads_the_corpus(tmp_path: Path) -> None:
    judges.require(go_pprof.available())
    timeline = fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt")
    path = tmp_path / "x.pprof"
    path.write_bytes(exported(timeline, "pprof")[0])
    profile = go_pprof.load(path)
    slices = timeline.table("slices")
    assert profile.types == ["calls/count", "self_time/nanoseconds"]
    calls, own = (sum(column) for column in zip(*profile.values.values(), strict=True))
    assert (calls, own) == (slices.num_rows, slices["self_time"].sum())
    innermost: Counter[str] = Counter()
    for stack, (count, _) in profile.values.items():
        innermost[stack[-1]] += count
    assert innermost == Counter(slices["name"].tolist())


@pytest.mark.full
@pytest.mark.once
def test_speedscope(tmp_path: Path) -> None:
    judges.require(speedscope.available())
    content = Content(samples=[*MIXED.samples[:3], (0, 0, ("a",), 2, "samples")])
    path = tmp_path / "x.pprof"
    path.write_bytes(exported(content.timeline(), "pprof")[0])
    (profile,) = speedscope.load(path)
    assert profile.stacks == {("main", "f g"): 4, ("main", "g"): 2, ("a",): 2}
    assert profile.frames["f g"][0] == "x.py"


# ---------------------------------------------------------------------------------------- profiles of other programs


def profile(types: list[tuple[str, str]], *samples: bytes, more: bytes = b"") -> bytes:
    """Return a profile whose location 1 is `outer` that inlines `inner`, and 2 an address; samples as they are."""
    strings = ["", "outer", "inner", "a.go", "/bin/x", *(text for pair in types for text in pair)]
    place = {text: number for number, text in enumerate(strings)}
    data = [bytes_field(1, number_field(1, place[kind]) + number_field(2, place[unit])) for kind, unit in types]
    data += [bytes_field(2, sample) for sample in samples]
    data.append(bytes_field(3, number_field(1, 1) + number_field(5, 4)))
    lines = bytes_field(4, number_field(1, 2) + number_field(2, 7)) + bytes_field(
        4, number_field(1, 1) + number_field(2, 9)
    )
    data.append(bytes_field(4, number_field(1, 1) + number_field(2, 1) + number_field(3, 0x40) + lines))
    data.append(bytes_field(4, number_field(1, 2) + number_field(3, 0x50)))
    for number in (1, 2):
        data.append(bytes_field(5, number_field(1, number) + number_field(2, number) + number_field(4, 3)))
    return b"".join(data) + more + b"".join(bytes_field(6, text.encode()) for text in strings)


CPU = [("samples", "count"), ("cpu", "nanoseconds")]


def sample(locations: list[int], values: list[int]) -> bytes:
    return packed_field(1, locations) + packed_field(2, values)


def test_inlined_functions_addresses_and_modules() -> None:
    timeline = imported(gzip.compress(profile(CPU, sample([1, 2], [3, 30]))))
    assert exchange.weights(timeline) == {(("", "outer", "inner"), "samples"): 3, (("", "outer", "inner"), "ns"): 30}
    assert {tuple(row.values()) for row in timeline.table("frames").rows()} == {
        (None, None, None, -1, 0x50),
        ("outer", "/bin/x", "a.go", 9, 0x40),
        ("inner", "/bin/x", "a.go", 7, 0x40),
    }
    assert not timeline.losses


def fields_of(data: bytes) -> list[bytes]:
    """Return the fields of a profile, as they are in the file."""
    return [data[begin:end] for begin, end in pairwise([0, *(end for *_, end in fields(data))])]


GO = number_field(9, 1_700_000_000_000_000_000) + number_field(10, 10**10)
"""The first fields of a profile of Go's runtime: the time and the duration."""

PERIOD = bytes_field(11, number_field(1, 5) + number_field(2, 6)) + number_field(12, 10**7)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_order_of_go_is_recognized(compress: Any) -> None:
    data = profile(CPU, sample([1], [3, 30]))
    types = b"".join(fields_of(data)[:2])
    timeline = imported(compress(GO + types + PERIOD + data[len(types) :]))
    assert timeline.format == "pprof"
    assert exchange.weights(timeline)[("outer", "inner"), "ns"] == 30
    assert timeline.wall_clock == 1_700_000_000_000_000_000


@given(st.permutations(fields_of(GO + PERIOD + profile(CPU, sample([1], [3, 30])))))
def test_any_order_is_recognized(parts: list[bytes]) -> None:
    strings = [part for part in parts if part[0] >> 3 == 6]
    if strings[0] != b"\x32\x00":  # the first string is empty
        at = parts.index(strings[0])
        parts = [part for part in parts if part != b"\x32\x00"]
        parts.insert(at, b"\x32\x00")
    assert imported(b"".join(parts)).format == "pprof"


def test_the_ending_tells_what_a_file_is(tmp_path: Path) -> None:
    unknown = bytes_field(99, b"of a later version")
    data = unknown + profile(CPU, sample([1], [3, 30]))
    with pytest.raises(fxtio.FormatError):
        imported(data)
    for name, content in (("x.pprof", data), ("x.pb.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        assert exchange.weights(fxtio.open_timeline(tmp_path / name))[("outer", "inner"), "ns"] == 30


@pytest.mark.parametrize(("default", "unit"), [(0, "ns"), (5, "samples"), (7, "ns")])
def test_the_unit_that_is_shown(default: int, unit: str) -> None:
    """It is the default type, or the last one, although more samples have another."""
    data = profile(CPU, sample([1], [3, 30]), sample([2], [3, 0]), more=number_field(14, default) * bool(default))
    assert top(imported(data)).unit == unit
    assert tree(imported(data)).unit == unit
    assert lanes(imported(data), 0, 10, 2).unit == unit


def test_allocations_that_are_the_default_type_are_shown() -> None:
    types = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes")]
    data = profile(types, sample([1], [1, 100, 200]), more=number_field(14, 7))
    answer = top(imported(data))
    assert (answer.unit, answer.table["self"].tolist()) == ("alloc_space/bytes", [100, 0])


def test_inlined_functions_are_limited() -> None:
    lines = b"".join(bytes_field(4, number_field(1, 1) + number_field(2, each)) for each in range(1, 100))
    timeline = imported(profile(CPU, sample([9], [1, 2]), more=bytes_field(4, number_field(1, 9) + lines)))
    (stack, _), _ = exchange.weights(timeline)
    assert len(stack) == pprof.MAX_INLINED
    assert timeline.losses == {"locations of more than 64 functions, which are cut": 1}


@pytest.mark.parametrize("to", ["pprof", "collapsed", "speedscope"])
def test_deep_stacks_are_cut(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.exchange.collect.MAX_DEPTH", 3)
    content = Content(samples=[(0, 0, tuple("abcde"), 2, "samples"), (0, 0, tuple("abc"), 3, "samples")])
    data, losses = exported(content.timeline(), to)
    assert exchange.weights(imported(data, to)) == {(tuple("abc"), "samples"): 5}
    assert losses["stacks of more than 3 frames, of which the innermost are left out"] == 2


def is_stacked(name: str) -> bool:
    return name in ("pprof", "collapsed", "speedscope", "cpuprofile", "parquet", "arrow", "csv")


@pytest.mark.parametrize("to", [name for name in exporters() if not is_stacked(name)])
def test_a_profile_without_times_becomes_no_trace_of_events(to: str, tmp_path: Path) -> None:
    """Nothing would be left of it, or all of it would happen at once."""
    with pytest.raises(UntimedError, match=r"has no times.*converted to .*speedscope"):
        convert(imported(profile(CPU, sample([1], [3, 30]))), tmp_path / "out", to=to)
    assert not (tmp_path / "out").exists()


def test_numbers_that_are_not_packed() -> None:
    plain = varint(8) + varint(1) + varint(16) + varint(3) + varint(16) + varint(30)
    timeline = imported(profile(CPU, plain))
    assert exchange.weights(timeline) == {(("outer", "inner"), "samples"): 3, (("outer", "inner"), "ns"): 30}


def test_units_of_a_heap_profile_of_go() -> None:
    types = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    timeline = imported(profile(types, sample([1], [1, 100, 2, 200])))
    assert exchange.weights(timeline) == {
        (("outer", "inner"), "inuse_objects"): 2,
        (("outer", "inner"), "inuse_space/bytes"): 200,
    }
    assert timeline.table("allocations")["size"].tolist() == [100]


def test_other_units_of_time() -> None:
    types = [("wall", "microseconds"), ("cpu", "milliseconds"), ("samples", "count"), ("samples", "count")]
    timeline = imported(profile(types, sample([], [5, 6, 7, 8])))
    assert [unit for _, unit in exchange.weights(timeline)] == ["ns", "cpu/milliseconds", "samples", "samples/count"]
    assert exchange.weights(timeline)[(), "ns"] == 5000


NO_FUNCTION = bytes_field(4, number_field(1, 3) + bytes_field(4, number_field(1, 9)))
NO_NAME = bytes_field(5, number_field(1, 1) + number_field(2, 99))
LABEL = bytes_field(3, number_field(1, 3) + number_field(3, 5))
DAMAGED = "messages that are cut or damaged"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (profile(CPU, sample([9], [1, 2])), "frames of samples that are not defined"),
        (profile(CPU, sample([1], [1])), "samples without a value for each type"),
        (profile(CPU, b"\x0a\xff"), DAMAGED),
        (profile(CPU, bytes_field(1, b"\xff") + packed_field(2, [1, 2])), DAMAGED),
        (profile(CPU, sample([1], [1, 2]))[:-3], DAMAGED),
        (profile(CPU, sample([3], [1, 2]), more=NO_FUNCTION), "functions of frames that are not defined"),
        (profile(CPU, sample([1], [1, 2]), more=NO_NAME), "strings that are not defined"),
        (profile(CPU, sample([1], [1, 2]) + LABEL), "labels of samples"),
    ],
)
def test_what_is_wrong_is_a_loss(data: bytes, what: str) -> None:
    timeline = imported(data, "pprof")
    timeline.tables("samples", "stacks", "frames")
    assert what in timeline.losses


def test_the_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    data = profile(CPU, *([sample([1], [1, 1])] * 10))
    monkeypatch.setattr(pprof, "MAX_MESSAGES", 5)
    timeline = imported(data)
    assert timeline.table("samples").num_rows == 6  # two types, and three samples with two values
    assert timeline.losses["what comes after the first 5 messages"] == 1


def test_the_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.io.source.MAX_BYTES", 5000)
    assert imported(gzip.compress(profile(CPU, bytes(4000)))).table("samples").num_rows == 0
    with pytest.raises(fxtio.FormatError, match="more than 5,000 bytes"):
        imported(gzip.compress(profile(CPU, bytes(10**6)))).table("samples")


def test_values_are_limited() -> None:
    timeline = imported(profile([("cpu", "seconds")], sample([1], [1 << 62]), sample([1], [-(1 << 62)])))
    assert sorted(timeline.table("samples")["count"].tolist()) == [-(2**63 - 1), 2**63 - 1]


@pytest.mark.parametrize(
    "data", [b"", b"\x0a\x00", b"\x0a\x04\x08\x01\x10", b"\x0a\x06\x08\x01\x1a\x02ab", b"\x12\x00"]
)
def test_what_is_not_recognized(data: bytes) -> None:
    with pytest.raises(fxtio.FormatError):
        imported(data)


def test_a_cut_file_is_refused() -> None:
    data = exported(MIXED.timeline(), "pprof")[0]
    with pytest.raises(fxtio.FormatError, match="cut or damaged"):
        imported(data[:-20]).table("samples")


def read(data: bytes) -> Any:
    return imported(data, "pprof").tables("samples", "stacks", "frames", "allocations", "threads")


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    try:
        read(data)
    except FxtioError:
        assert data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"))


@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=3))
def test_changed_bytes_are_read(changes: list[tuple[int, int]]) -> None:
    data = bytearray(zlib.decompress(exported(MIXED.timeline(), "pprof")[0], 31))
    for at, value in changes:
        data[at % len(data)] = value
    if not data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00")):
        read(bytes(data))
