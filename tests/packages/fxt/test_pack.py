"""Packed traces: the same bytes, the same parts, the formats of zstd, and files that lie about themselves."""

from __future__ import annotations

import io
import struct
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.codec.generate import Order, encode
from fxtio.fxt import pack as packing
from fxtio.fxt import records as r
from fxtio.fxt.cut import cut_to
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.pack import pack_to
from fxtio.fxt.packed import index_of
from fxtio.fxt.reader import FxtTrace
from fxtio.fxt.records import Int32Argument, Thread
from fxtio.io.sink import open_sink
from fxtio.io.source import open_source
from fxtio.selection import Selection
from support.fxt_cut import Program, seen
from support.fxt_hostile import damaged_traces
from support.fxt_samples import share
from support.in_process import run_fxtio, run_piped

WORDS = st.sampled_from([200, 500, 1000])
RANGES = st.tuples(st.integers(0, 700), st.integers(1, 300))
T = Thread(1, 11)


def packed(data: bytes, words: int = 64) -> bytes:
    """Return a trace packed, in frames of about this many words."""
    out = io.BytesIO()
    with patch.multiple(packing, FRAME_WORDS=words, MAX_SHARE=1), fxtio.open(data, format="fxt") as trace:
        pack_to(trace, open_sink(out))
    return out.getvalue()


def unpacked(data: bytes) -> bytes:
    """Return what a zstd file has."""
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


def cut(data: bytes, start: int | None, end: int | None, **patterns: Any) -> tuple[bytes, int]:
    """Return a part of a trace, and how many bytes were read for it."""
    out = io.BytesIO()
    with fxtio.open(data, format="fxt") as trace:
        trace.narrow(start, end)
        cut_to(trace, Selection(start, end, **patterns), open_sink(out))
        return out.getvalue(), trace.position


def concatenated(seed: int, order: Order) -> bytes:
    """Return the traces of three programs as one, with several magic records; the times of the last ones overlap."""
    programs = [Program(seed, 90), Program(seed + 1, 90, provider=2), Program(seed + 2, 90, provider=3, rate=10**8)]
    traces = [[r.Magic(), *program.out] for program in programs]
    return b"".join(encode(record, order) for trace in traces for record in trace)


@share(3)
@given(seed=st.integers(0, 10**6), bounds=RANGES, words=WORDS, order=st.sampled_from(["little", "big"]))
def test_a_part_of_a_packed_trace_is_that_of_the_trace(
    seed: int, bounds: tuple[int, int], words: int, order: Order
) -> None:
    data = concatenated(seed, order)
    file = packed(data, words)
    assert unpacked(file) == data
    start, end = bounds[0], bounds[0] + bounds[1]
    for first, last in ((start, end), (start, None), (None, end)):
        (part, _), (expected, _) = cut(file, first, last), cut(data, first, last)
        assert seen(part) == seen(expected)


@share(3)
@given(seed=st.integers(0, 10**6), bounds=RANGES, name=st.sampled_from(Program.NAMES))
@example(seed=343, bounds=(167, 1), name="name0")  # two threads have values of one counter
def test_so_is_a_part_that_is_selected_by_name_or_thread(seed: int, bounds: tuple[int, int], name: str) -> None:
    data = concatenated(seed, "little")
    file = packed(data, 500)
    start, end = bounds[0], bounds[0] + bounds[1]
    for patterns in ({"names": (name,)}, {"threads": ("11",)}):
        (part, _), (expected, _) = cut(file, start, end, **patterns), cut(data, start, end, **patterns)
        assert seen(part) == seen(expected)


@share(4)
@given(data=damaged_traces("little") | damaged_traces("big"), bounds=RANGES)
def test_damaged_traces_are_packed_as_they_are(data: bytes, bounds: tuple[int, int]) -> None:
    file = packed(data, 40)
    assert unpacked(file) == data
    start, end = bounds[0], bounds[0] + bounds[1]
    assert cut(file, start, end)[0] == cut(data, start, end)[0]


def steady() -> bytes:
    """Return a trace of a program that does the same again and again, with a span around all of it."""
    records: list[Any] = [
        r.ProviderInfo(1, "p"), r.Initialization(10**9, 0, 10**18), r.String(1, "request"), r.ThreadRecord(1, 1, 11),
        r.DurationBegin(0, 1, "c", "all", ()),
    ]  # fmt: skip
    for time in range(100, 100_000, 100):
        records.append(r.DurationComplete(time, 1, "c", 1, (Int32Argument("n", time),), time + 50))
        records.append(r.Counter(time, 1, "c", "load", (Int32Argument("v", time),), 0))
    records += [r.DurationEnd(100_000, 1, "c", "all", ()), r.Instant(100_000, 1, "c", "last", (), None)]
    return MAGIC + b"".join(map(encode, records))


def test_only_what_a_range_needs_is_read() -> None:
    data = steady()
    file = packed(data, 500)
    (part, count), (expected, _) = cut(file, 50_000, 51_000), cut(data, 50_000, 51_000)
    assert part == expected
    assert count < len(data) / 4
    names = Counter(one.name for one in seen(part).slices)
    assert names == {"request": 10, "all": 1}


def test_answers_are_those_of_the_trace() -> None:
    data = steady()
    with fxtio.open(packed(data, 500), format="fxt") as trace, fxtio.open(data, format="fxt") as whole:
        times, info = trace.times, whole.info
        assert (times.start, times.end, times.started_at) == (info.start, info.end, info.started_at)
        assert trace.position == 0
        trace.narrow(50_000, 51_000)
        slices, expected = (each.timeline().table("slices") for each in (trace, whole))
        both = [
            {(start, end, name) for start, end, name in zip(
                table["start"].tolist(), table["duration"].tolist(), table["name"].tolist(), strict=True
            ) if start < 51_000 and start + end > 50_000}
            for table in (slices, expected)
        ]  # fmt: skip
        assert both[0] == both[1]
        assert slices.num_rows < expected.num_rows / 4


def test_the_summary_is_that_of_the_whole_trace() -> None:
    data = steady()
    with fxtio.open(packed(data), format="fxt") as trace, fxtio.open(data, format="fxt") as whole:
        trace.narrow(50_000, 51_000)
        assert trace.info.records == whole.info.records
        assert trace.times is trace.info


def test_the_seek_table_is_that_of_zstd() -> None:
    """See contrib/seekable_format/zstd_seekable_compression_format.md of zstd."""
    data = steady()
    file = packed(data, 500)
    count, descriptor, magic = struct.unpack("<IBI", file[-9:])
    assert (descriptor, magic) == (0, 0x8F92EAB1)
    table = file[-(17 + 8 * count) :]
    assert struct.unpack("<2I", table[:8]) == (0x184D2A5E, len(table) - 8)
    at, whole = 0, b""
    for compressed, decompressed in struct.iter_unpack("<2I", table[8:-9]):
        frame = file[at : at + compressed]
        if decompressed:
            whole += zstandard.ZstdDecompressor().decompress(frame)
        else:
            assert frame[:4] == b"\x5a\x2a\x4d\x18"
        at += compressed
    assert (at + len(table), whole) == (len(file), data)


@given(at=st.integers(1, 900), byte=st.integers(0, 255))
def test_files_that_lie_about_themselves(at: int, byte: int) -> None:
    """Whatever an index says, a part of it is read without an error, or the file is read as any other of zstd."""
    file = bytearray(packed(steady(), 4000))
    file[-at] = byte
    cut(bytes(file), 50_000, 51_000)


@pytest.mark.parametrize("change", ["cut", "more", "twice"])
def test_files_with_another_size_are_ordinary_ones(change: str) -> None:
    data = steady()
    file = packed(data)
    changed = {"cut": file[:-20], "more": file + zstandard.compress(b""), "twice": file + file}[change]
    assert index_of(open_source(file)) is not None
    assert index_of(open_source(changed)) is None
    expected = data + data if change == "twice" else data
    assert cut(changed, 50_000, 51_000)[0] == cut(expected, 50_000, 51_000)[0]


def test_spans_that_go_back_in_time_are_not_told_apart() -> None:
    """Only all of them tell which begins and ends belong together, so all frames are read."""
    events: list[Any] = [r.DurationBegin(10, T, "c", "a", ()), r.DurationEnd(90, T, "c", "b", ())]
    events += [r.Instant(95, T, "c", "i", (), None)] * 20
    later = [r.DurationBegin(50, T, "c", "b", ()), r.DurationEnd(200, T, "c", "a", ())]
    data = MAGIC + b"".join(map(encode, [r.ProviderInfo(1, "p"), r.Initialization(10**9), *events, *later]))
    file = packed(data, 40)
    assert cut(file, 60, 70)[0] == cut(data, 60, 70)[0]
    assert Counter(one.name for one in seen(cut(file, 60, 70)[0]).slices) == {"a": 1, "b": 1}


def test_large_records_are_divided() -> None:
    data = MAGIC + encode(r.ProviderInfo(1, "p")) + encode(r.LargeBlobNoMetadata("c", "n", bytes(100_000)))
    with patch.object(packing, "MAX_FRAME_BYTES", 1 << 12):
        file = packed(data)
    assert unpacked(file) == data
    assert cut(file, 0, 10)[0] == cut(data, 0, 10)[0]


def test_an_empty_trace() -> None:
    assert unpacked(packed(b"")) == b""


# ---- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, path = steady(), tmp_path / "app.fxt"
    path.write_bytes(data)
    assert main(["pack", str(path)]) == 0
    file = tmp_path / "app.fxt.zst"
    assert unpacked(file.read_bytes()) == data
    assert f"in 1 frame to {file}" in capsys.readouterr().err
    assert main(["pack", str(file)]) == 0  # again, to the same file
    assert unpacked(file.read_bytes()) == data
    assert main(["cut", str(file), "-o", str(tmp_path / "a.fxt"), "--from", "10%", "--to", "20%"]) == 0
    assert main(["cut", str(path), "-o", str(tmp_path / "b.fxt"), "--from", "10%", "--to", "20%"]) == 0
    assert (tmp_path / "a.fxt").read_bytes() == (tmp_path / "b.fxt").read_bytes()


@pytest.mark.parametrize(
    "command",
    ["top", "tree", "find request", "timeline", "convert - --to chrome", "top --thread 11", "find none"],
)
def test_commands_read_what_they_need(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They print what they print of the trace, and never read all of it."""
    monkeypatch.chdir(tmp_path)
    Path("app.fxt").write_bytes(steady())
    with monkeypatch.context() as patching:
        patching.setattr(packing, "FRAME_WORDS", 500)
        assert main(["pack", "app.fxt"]) == 0
    read = list[int]()
    monkeypatch.setattr(FxtTrace, "_report_progress", lambda trace, source: read.append(source.position))
    name, *others = command.split()
    done = [run_fxtio(name, file, *others, "--from", "50us", "--until", "51us") for file in ("app.fxt.zst", "app.fxt")]
    assert done[0].stdout.replace("app.fxt.zst", "app.fxt") == done[1].stdout
    assert done[0].returncode == done[1].returncode
    whole = Path("app.fxt").stat().st_size
    split = read.index(whole)  # up to here, it was the packed one
    assert max(read[:split]) < whole / 4


def test_the_command_in_pipes() -> None:
    data = steady()
    done = run_piped(data, "pack", "-", "-")
    assert (done.returncode, unpacked(done.stdout)) == (0, data)
    assert run_piped(done.stdout, "info", "-").returncode == 0  # which has no index there


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "say what to write"),
        (["app.fxt", "app.gz"], "does not end in .zst"),
        (["calls.mlpd", "out.zst"], "only traces of the format fxt are packed"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.fxt").write_bytes(steady())
    assert main(["synth", "calls", "--format", "mono", "--events", "10", "-o", "calls.mlpd"]) == 0
    assert main(["pack", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_report_of_a_range_says_what_the_trace_says_of_itself(tmp_path: Path) -> None:
    records = [
        r.Magic(), r.Instant(0, T, "fxtio", "recording", (r.StringArgument("command", "app.py"),), None),
        *(r.Instant(time, T, "c", "tick", (), None) for time in range(100, 100_000, 100)),
        r.Instant(100_000, T, "c", "drop_stats", (Int32Argument("records", 7),), None),
    ]  # fmt: skip
    plain, file = tmp_path / "a.fxt", tmp_path / "a.fxt.zst"
    plain.write_bytes(b"".join(map(encode, records)))
    file.write_bytes(packed(plain.read_bytes(), 500))
    pages = []
    for path in (plain, file):
        page = tmp_path / f"{path.name}.html"
        assert main(["report", str(path), "-o", str(page), "--title", "t", "--from", "50us", "--to", "51us"]) == 0
        pages.append(page.read_text())
    assert "app.py" in pages[0] and "7 events" in pages[0]
    lines = [page.replace(path.name, "F").splitlines() for page, path in zip(pages, (plain, file), strict=True)]
    different = [first for first, second in zip(*lines, strict=True) if first != second]
    assert all("<dt>Format" in line or "<dt>Size" in line for line in different)
