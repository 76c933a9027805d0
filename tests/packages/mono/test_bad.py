"""Broken recordings: every fault has a rule and a place, the next buffer goes on, nothing ends in an endless loop."""

from __future__ import annotations

import gzip
import io
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.record import Opaque
from fxtio.errors import DecodeError, FormatError
from fxtio.finding import Finding
from fxtio.mono import frames
from fxtio.mono import records as r
from fxtio.mono.headers import (
    BUFFER_HEADER_SIZE,
    BufferHeader,
    OpaqueBufferHeader,
    OpaqueGap,
    encode_buffer_header,
    encode_header,
)
from fxtio.mono.layout import BUFFER_MARK
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from support.checkout import CORPUS
from support.mono_samples import FILES, content, copied, copied_whole, header, written

SMALL = (CORPUS / "mono" / "synth-v17.mlpd").read_bytes()
HEAD = encode_header(header())
GOOD = r.GcResize(time=5, size=77)
GOOD_BYTES = bytes.fromhex("21 05 4d")

ENDLESS = b"\xff" * 40
BILLION = b"\xff\xff\xff\xff\x7f"


def buffer(events: bytes, *, size: int | None = None, thread: int = 1) -> bytes:
    """Return a buffer with bases 0 around any bytes."""
    return encode_buffer_header(BufferHeader(thread=thread), len(events) if size is None else size) + events


def read(data: bytes, **options: Any) -> tuple[list[Any], list[Finding]]:
    """Return all events and findings; check that tables and the summary give the same findings."""
    trace = MonoTrace(data, **options)
    events, findings = list(trace), list(trace.findings)
    info = MonoTrace(data).info
    assert info.records.total() == len(events)
    tables = MonoTrace(data).tables("gc_resizes", "calls", "counter_values", "samples")
    assert tables["gc_resizes"].num_rows == sum(isinstance(event, r.GcResize) for event in events)
    return events, findings


BROKEN = {
    "unknown first byte": (b"\x0b", "mono.event.unknown", 0),
    "unknown extended info": (b"\x01\x00", "mono.event.unknown", 0),
    "reserved bit": (b"\x20\x00\x00\x00\x00", "mono.event.unknown", 0),
    "unknown metadata": (b"\x22\x00\x09\x00", "mono.event.unknown", 0),
    "metadata that is not unloaded": (b"\x42\x00\x01\x00", "mono.event.unknown", 0),
    "endless time": (b"\x21" + ENDLESS, "mono.event.varint", 0),
    "endless size": (b"\x21\x00" + ENDLESS, "mono.event.varint", 0),
    "endless pointer": (b"\x10\x00" + ENDLESS, "mono.event.varint", 0),
    "eleven bytes": (b"\x21\x00" + b"\x80" * 10 + b"\x00", "mono.event.varint", 0),
    "sixty-five bits": (b"\x21\x00" + b"\xff" * 9 + b"\x02", "mono.event.varint", 0),
    "sixty-five bits, signed": (b"\x10\x00" + b"\xff" * 9 + b"\x02", "mono.event.varint", 0),
    "cut in a number": (b"\x21\x00\x80", "mono.event.cut", 0),
    "cut before a byte": (b"\x0a\x00", "mono.event.cut", 0),
    "a backtrace of billions": (b"\x10\x00\x00\x00\x08" + BILLION + b"\x00" * 9, "mono.event.count", 0),
    "billions of moves": (b"\x31\x00" + BILLION, "mono.event.count", 0),
    "billions of references": (b"\x26\x00\x00\x00\x08\x00" + BILLION + b"\x00\x00", "mono.event.count", 0),
    "billions of roots": (b"\x36\x00" + BILLION + b"\x00\x00", "mono.event.count", 0),
    "a text without an end": (b"\x1a\x00abcdef", "mono.event.text-end", 0),
    "a method without an end": (b"\x43\x00\x00\x00\x00My:Wo", "mono.event.text-end", 0),
    "an unknown form of a counter": (b"\x47\x00\x01\x09\x00\x00", "mono.event.unknown-form", 0),
    "counters without an end": (b"\x47\x00\x01\x00\x05", "mono.event.cut", 0),
    "a text that is neither there nor absent": (b"\x47\x00\x01\x06\x02a\x00\x00", "mono.event.unknown-form", 0),
    "after a good event": (GOOD_BYTES + b"\x0c", "mono.event.unknown", 3),
}


@pytest.mark.parametrize(("events", "rule", "place"), BROKEN.values(), ids=list(BROKEN))
def test_reading_continues_with_the_buffer_after_a_fault(events: bytes, rule: str, place: int) -> None:
    data = HEAD + buffer(events) + buffer(GOOD_BYTES)
    read_events, findings = read(data)
    assert read_events == [GOOD] * (2 if place else 1)
    assert [(finding.rule, finding.offset) for finding in findings] == [(rule, len(HEAD) + BUFFER_HEADER_SIZE + place)]
    assert copied(MonoTrace(data)) == data
    with pytest.raises(DecodeError) as caught:
        list(MonoTrace(data, strict=True))
    assert (caught.value.rule, caught.value.offset) == (rule, len(HEAD) + BUFFER_HEADER_SIZE + place)


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
def test_cut_at_every_byte() -> None:
    trace = MonoTrace(SMALL)
    whole, first = list(trace), trace.recording
    assert first is not None
    for length in range(len(SMALL)):
        events, findings = read(SMALL[:length])
        assert events == whole[: len(events)]
        assert len(findings) == (length != len(first.raw))  # after the header a recording may end
        assert copied_whole(MonoTrace(SMALL[:length])) == SMALL[:length]
        assert length == 0 or copied(MonoTrace(SMALL[:length])) == SMALL[:length]


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(1, 255)), min_size=1, max_size=3))
def test_any_bytes_changed(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for place, change in changes:
        data[place] ^= change
    events, findings = read(bytes(data))
    assert events or findings


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("change", [0xFF, 0x80, 0x01])
def test_every_byte_flipped(change: int) -> None:
    for place in range(len(SMALL)):
        data = bytearray(SMALL)
        data[place] ^= change
        trace = MonoTrace(bytes(data))
        events = list(trace)
        assert events or trace.findings
        assert copied(MonoTrace(bytes(data))) == copied_whole(MonoTrace(bytes(data))) == data


DAMAGES = ("flip", "cut", "drop", "insert", "duplicate")


@pytest.mark.full
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_damaged_file_is_copied_exactly(path: Path, damage: str) -> None:
    draw = random.Random(f"{path.name} {damage}")
    for _ in range(4):
        data = bytearray(content(path))
        place, count = draw.randrange(len(data)), draw.choice([1, 2, 7, 100, 5000])
        if damage == "flip":
            data[place] ^= 1 << draw.randrange(8)
        elif damage == "cut":
            del data[place:]
        elif damage == "drop":
            del data[place : place + count]
        else:
            more = draw.randbytes(count) if damage == "insert" else data[place : place + count]
            data[place:place] = more
        trace = MonoTrace(bytes(data))
        assert copied_whole(trace) == data
        assert copied(trace) == data, place


def test_a_buffer_whose_size_is_wrong_is_copied_exactly() -> None:
    wrong = encode_buffer_header(BufferHeader(thread=1), 40)
    data = HEAD + wrong + GOOD_BYTES + buffer(GOOD_BYTES) + buffer(GOOD_BYTES)[:-1]
    records = list(MonoTrace(data).records(resolve=False))
    cut = encode_buffer_header(BufferHeader(thread=1), 3)
    expected = [OpaqueBufferHeader(wrong), GOOD, BufferHeader(thread=1), GOOD, OpaqueBufferHeader(cut)]
    assert records == [header(), *expected, Opaque(GOOD_BYTES[:-1])]
    assert copied(MonoTrace(data)) == copied_whole(MonoTrace(data)) == data


def test_bytes_between_buffers_are_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_GAP", 10)
    data = b"before" + HEAD + buffer(GOOD_BYTES) + b"x" * 25 + buffer(GOOD_BYTES) + BUFFER_MARK
    entries = list(MonoTrace(data).entries(resolve=False))
    gaps = [(entry.offset, entry.record.raw) for entry in entries if isinstance(entry.record, OpaqueGap)]
    middle = 6 + len(HEAD) + 51
    assert gaps == [
        (0, b"before"), (middle, b"x" * 10), (middle + 10, b"x" * 10), (middle + 20, b"x" * 5),
        (len(data) - 4, BUFFER_MARK),
    ]  # fmt: skip
    assert copied(MonoTrace(data)) == copied_whole(MonoTrace(data)) == data
    assert [finding.rule for finding in MonoTrace(data).findings] == [
        "mono.header.bad",
        "mono.buffer.id",
        "mono.buffer.truncated",
    ]
    assert next(iter(MonoTrace(data).entries(resolve=False, thread=9))).record == header()


@pytest.mark.parametrize("bad", [HEAD[:6] + b"\x12" + HEAD[7:], HEAD[:7] + b"\x10" + HEAD[8:], HEAD[:46] + b"\xff" * 4])
def test_reading_continues_with_the_recording_after_a_bad_header(bad: bytes) -> None:
    data = bad + buffer(GOOD_BYTES) + HEAD + buffer(GOOD_BYTES, thread=2)
    for first, threads in ((b"", [2]), (HEAD + buffer(GOOD_BYTES, thread=3), [3, None, 2])):
        trace = MonoTrace(first + data)
        assert [entry.thread for entry in trace.entries()] == threads
        assert copied(MonoTrace(first + data)) == copied_whole(trace) == first + data


def test_many_bad_headers_take_no_time() -> None:
    texts = (1 << 20) - 200
    head = HEAD[:6] + b"\x12" + HEAD[7:46] + texts.to_bytes(4, "little")
    start = time.process_time()
    trace = MonoTrace(head * 20_000)
    assert list(trace) == []
    assert len(trace.findings) == 20_000
    assert time.process_time() - start < 10


@pytest.mark.parametrize("place", range(4))
def test_a_damaged_magic_number_is_reported_and_what_follows_is_read(place: int) -> None:
    data = bytearray(HEAD + buffer(GOOD_BYTES) + buffer(GOOD_BYTES))
    for begin in (0, len(HEAD) + 51):
        data[begin + place] ^= 0x40
    trace = MonoTrace(bytes(data))
    assert list(trace) == [GOOD, GOOD]
    assert [(finding.rule, finding.offset) for finding in trace.findings] == [
        ("mono.header.damaged-id", 0), ("mono.header.damaged-id", len(HEAD) + 51),
    ]  # fmt: skip
    assert "in place of 01 5a 50 4d" in next(iter(trace.findings)).message
    assert copied(trace) == copied_whole(trace) == data
    assert fxtio.open(bytes(data)).format == "mono"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_transfer_in_text_mode_is_one_finding(path: Path) -> None:
    data = content(path).replace(b"\n", b"\r\n")
    trace = MonoTrace(data)
    events = list(trace)
    assert [finding.rule for finding in trace.findings] == ["mono.source.text-mode"]
    assert "removing these carriage returns repairs the file" in next(iter(trace.findings)).message
    whole = iter(MonoTrace(path))
    assert all(event in whole for event in events)  # what is read is right
    assert copied(trace) == copied_whole(trace) == data


def test_lost_carriage_returns_are_one_finding() -> None:
    changed = buffer(bytes.fromhex("21 0d 0a") * 3).replace(b"\r\n", b"\n")
    data = HEAD + buffer(GOOD_BYTES) + changed + buffer(GOOD_BYTES) + changed + buffer(GOOD_BYTES)
    trace = MonoTrace(data)
    assert list(trace) == [GOOD] * 3
    assert [(finding.rule, finding.offset) for finding in trace.findings] == [("mono.source.text-mode", len(HEAD) + 51)]
    assert "cannot be repaired" in next(iter(trace.findings)).message
    assert copied(trace) == copied_whole(trace) == data


HEADERS = {
    "nothing": (b"", "mono.source.empty"),
    "a cut header": (HEAD[:30], "mono.header.bad"),
    "a text of four gigabytes": (HEAD[:46] + b"\xff" * 4 + HEAD[50:], "mono.header.bad"),
    "data version 0": (HEAD[:6] + b"\x00" + HEAD[7:], "mono.header.unknown-version"),
    "data version 18": (HEAD[:6] + b"\x12" + HEAD[7:], "mono.header.unknown-version"),
    "pointers of 16 bytes": (HEAD[:7] + b"\x10" + HEAD[8:], "mono.header.pointer-size"),
}


@pytest.mark.parametrize(("data", "rule"), HEADERS.values(), ids=list(HEADERS))
def test_a_header_that_cannot_be_read(data: bytes, rule: str) -> None:
    trace = MonoTrace(data + (buffer(GOOD_BYTES) if len(data) > 60 else b""))
    assert list(trace) == []
    assert [finding.rule for finding in trace.findings] == [rule]
    assert trace.info.header is None
    assert trace.recording is None
    assert {table.num_rows for table in trace.tables(*trace.table_names).values()} == {0}


def test_unknown_flags_are_reported() -> None:
    data = HEAD[:28] + b"\x01" + HEAD[29:] + buffer(GOOD_BYTES)
    assert [finding.rule for finding in MonoTrace(data).findings] == ["mono.header.flags"]
    assert list(MonoTrace(data)) == [GOOD]


def test_a_hole_between_buffers() -> None:
    hole = b"\x00\x01\x4c\x50garbage"
    data = HEAD + buffer(GOOD_BYTES) + hole + buffer(GOOD_BYTES)
    events, findings = read(data)
    assert events == [GOOD, GOOD]
    assert [(finding.rule, finding.offset) for finding in findings] == [
        ("mono.buffer.id", len(HEAD) + BUFFER_HEADER_SIZE + 3)
    ]
    assert f"{len(hole)} bytes" in findings[0].message


def test_only_garbage_behind_a_buffer() -> None:
    events, findings = read(HEAD + buffer(GOOD_BYTES) + b"x" * 100)
    assert events == [GOOD]
    assert [finding.rule for finding in findings] == ["mono.buffer.id"]


@pytest.mark.parametrize("size", [30, 40, 60, 1 << 20])
def test_a_buffer_that_overlaps_the_next(size: int) -> None:
    data = HEAD + buffer(GOOD_BYTES, size=size) + buffer(GOOD_BYTES, thread=2) + buffer(GOOD_BYTES, thread=3)
    trace = MonoTrace(data)
    assert [entry.thread for entry in trace.entries()] == [1, 2, 3]
    assert [(finding.rule, finding.offset) for finding in trace.findings] == [("mono.buffer.overlap", len(HEAD))]


def test_a_wrong_size_is_detected_for_every_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_HEADER", len(HEAD))
    for size in (8, 14, 40, 60):
        data = HEAD + buffer(GOOD_BYTES, size=size) + buffer(GOOD_BYTES, thread=2) + buffer(GOOD_BYTES, thread=3)
        for block in range(BUFFER_HEADER_SIZE, len(data) + 2):
            monkeypatch.setattr(frames, "BLOCK", block)
            trace = MonoTrace(data)
            assert [entry.thread for entry in trace.entries()] == [1, 2, 3], (size, block)
            assert [finding.rule for finding in trace.findings] == ["mono.buffer.overlap"]


def test_a_buffer_that_is_too_short() -> None:
    data = HEAD + buffer(GOOD_BYTES * 2, size=4) + buffer(GOOD_BYTES, thread=2)
    trace = MonoTrace(data)
    assert [entry.thread for entry in trace.entries()] == [1, 2]
    assert [finding.rule for finding in trace.findings] == [
        "mono.buffer.id",
        "mono.event.cut",
    ] or trace.findings.counts == {
        "mono.buffer.id": 1,
        "mono.event.cut": 1,
    }


@pytest.mark.parametrize("size", [1 << 26, (1 << 28) + 1, (1 << 32) - 1])
def test_a_size_beyond_the_end_allocates_no_memory(size: int) -> None:
    data = HEAD + buffer(GOOD_BYTES, size=size)
    tracemalloc.start()
    try:
        trace = MonoTrace(io.BytesIO(data))
        events = list(trace)
        assert tracemalloc.get_traced_memory()[1] < 6 * frames.BLOCK
    finally:
        tracemalloc.stop()
    assert events == ([GOOD] if size <= frames.MAX_BUFFER else [])
    assert list(trace.findings.counts) == [
        "mono.buffer.truncated" if size <= frames.MAX_BUFFER else "mono.buffer.too-large"
    ]


def test_a_header_alone_is_a_recording() -> None:
    trace = MonoTrace(HEAD)
    assert (list(trace), list(trace.findings)) == ([], [])
    assert trace.info.header == header()


def test_concatenated_recordings() -> None:
    old = encode_header(header(14, 4))
    data = HEAD + buffer(GOOD_BYTES) + old + buffer(GOOD_BYTES)
    records, findings = read(data)
    assert records == [GOOD, header(14, 4), GOOD]
    assert findings == []
    assert copied(MonoTrace(data)) == data
    out = io.BytesIO()
    with MonoWriter(out, header=HEAD) as writer:
        for entry in MonoTrace(data).entries():  # a header begins another recording here, too
            writer.put(entry.record, thread=entry.thread)
    assert list(MonoTrace(out.getvalue())) == records
    assert [entry.time for entry in MonoTrace(data).entries(order="time")] == [5, None, 5]


def test_more_bytes_than_allowed() -> None:
    bomb = gzip.compress(HEAD + buffer(b"\x00" * (1 << 24)))
    trace = MonoTrace(bomb, max_bytes=1 << 16)
    list(trace)
    assert "mono.source.cut" in trace.findings.counts
    assert trace.position <= 1 << 16


def test_a_gzip_stream_without_an_end() -> None:
    data = HEAD + buffer(GOOD_BYTES * 1000) + buffer(GOOD_BYTES * 1000)
    whole = gzip.compress(data, 1)
    for cut in (len(whole) - 8, len(whole) - 12, len(whole) // 2):
        trace = MonoTrace(whole[:cut])
        events = list(trace)
        assert len(events) > 0
        assert set(trace.findings.counts) <= {"mono.source.cut"}


def test_a_buffer_as_large_as_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", 1 << 12)
    events = [r.AotId(time=number, id="x" * (50 * number)) for number in range(400)]
    data = written(17, [GOOD, *events, GOOD.replace(time=999)])
    assert list(MonoTrace(data)) == [GOOD, *events, GOOD.replace(time=999)]
    assert copied(MonoTrace(data)) == data


def test_a_recording_is_read_again_from_a_stream() -> None:
    with MonoTrace(io.BytesIO(SMALL)) as trace:
        assert list(trace) == list(trace) == list(MonoTrace(SMALL))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"something else altogether")
    with pytest.raises(FormatError):
        fxtio.open(path)
