"""Damaged recordings give the same events for any sizes of reads; files of several recordings are copied."""

from __future__ import annotations

import io
import mmap
import random
import tracemalloc
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fxtio
from contract.damage import DAMAGE
from fxtio.codec.stream.steps import steps_of
from fxtio.errors import DecodeError
from fxtio.mono import frames, report
from fxtio.mono import records as r
from fxtio.mono.explain import explain
from fxtio.mono.headers import BUFFER_HEADER_SIZE, BufferHeader, StreamHeader, encode_buffer_header, encode_header
from fxtio.mono.layout import BUFFER_MARK, HEADER_MARK
from fxtio.mono.reader import MonoTrace
from fxtio.mono.records import dialect_of
from support.checkout import CORPUS
from support.fxt_readings import Trickle
from support.mono_samples import copied, copied_whole, header

HEAD = encode_header(header())
OLD = encode_header(header(4, 4))
GOOD = r.GcResize(time=5, size=77)
GOOD_BYTES = bytes.fromhex("21 05 4d")
STEPS = steps_of(dialect_of(17, 8))
READY = 64 * (len(STEPS.places) + len(STEPS.table) + 1)
"""The bytes of the steps that a kernel has made ready."""

LARGEST = 400
"""The largest buffer that is believed here, so that small inputs have too large ones."""


def buffer(events: bytes = GOOD_BYTES, *, more: int = 0, thread: int = 1) -> bytes:
    """Return a buffer that claims some bytes more or less than it has."""
    return encode_buffer_header(BufferHeader(thread=thread), max(len(events) + more, 0)) + events


@contextmanager
def small(block: int = frames.BLOCK) -> Any:
    """Read this many bytes at once, and believe no more than small inputs have."""
    longest = max(len(HEAD), len(OLD))
    with (
        patch.object(frames, "BLOCK", block),
        patch.object(frames, "MAX_BUFFER", LARGEST),
        patch.object(frames, "MAX_HEADER", longest),
    ):
        yield


def read_everything(data: Any, **options: Any) -> tuple[Any, ...]:
    """Return the entries and findings of a reading."""
    trace = MonoTrace(data, **options)
    entries = list(trace.entries())
    return entries, list(trace.findings), dict(trace.findings.counts)


def first_fault(data: Any) -> tuple[str, int, str] | None:
    """Return the error that strict reading raises."""
    try:
        list(MonoTrace(data, strict=True))
    except DecodeError as error:
        return error.rule, error.offset, error.message
    return None


SIZES = st.sampled_from([-2, -1, 1, 2, 3, 4, 5, 47, 48, 49, 51, 60, 102, LARGEST, 1 << 20]) | st.integers(-9, 300)
PIECES = st.one_of(
    st.just(buffer()),
    st.integers(0, 60).map(lambda count: buffer(GOOD_BYTES * count)),
    st.builds(lambda more, count: buffer(GOOD_BYTES * count, more=more), SIZES, st.integers(0, 40)),
    st.builds(lambda more, cut: buffer(more=more)[:cut], SIZES, st.integers(1, BUFFER_HEADER_SIZE + 3)),
    st.sampled_from([HEAD, OLD, HEAD[:30], BUFFER_MARK, HEADER_MARK, BUFFER_MARK[:3], b"\0" * 90]),
    st.binary(max_size=70),
)


@given(st.lists(PIECES, max_size=12), st.integers(1, 200), st.integers(1, 80), st.integers(0, 60))
@example([buffer(), b"x", buffer(more=150), b"\0" * 90, buffer(thread=3), buffer(thread=4)], 60, 7, 0)
@example([buffer(more=180), buffer(more=100), b"\0" * 40, buffer(thread=3), b"\0" * 90], 150, 7, 0)
def test_damaged_recordings_do_not_depend_on_the_sizes_of_reads(
    pieces: list[bytes], block: int, chunk: int, cut: int
) -> None:
    data = HEAD + b"".join(pieces)
    data = data[: max(len(data) - cut, len(HEAD))]
    with small():
        expected, fault, exact = read_everything(data), first_fault(data), list(MonoTrace(data).entries(resolve=False))
    assert [finding.offset for finding in expected[1]][:1] == ([] if fault is None else [fault[1]])
    with small(block):
        assert read_everything(data) == expected
        assert first_fault(data) == fault
        assert list(MonoTrace(data).entries(resolve=False)) == exact
        assert read_everything(Trickle(data, chunk)) == expected
        assert first_fault(Trickle(data, chunk)) == fault


@pytest.mark.parametrize("block", [60, 500, frames.BLOCK])
def test_a_mapped_file_gives_the_same_events(tmp_path: Path, block: int) -> None:
    path = tmp_path / "bad.mlpd"
    data = HEAD + buffer(more=9) + buffer() + buffer() + b"hole" + buffer(more=150) + b"\0" * 90 + buffer()[:-1]
    path.write_bytes(data)
    with small():
        expected = read_everything(data)
    assert expected[2].keys() == {"mono.buffer.id", "mono.buffer.overlap", "mono.buffer.truncated"}
    with small(block), path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert read_everything(path) == expected
        assert read_everything(file) == expected
        assert read_everything(mapped) == expected


@pytest.mark.parametrize("more", range(1, 60))
def test_a_size_that_is_a_little_too_large_costs_no_buffer(more: int) -> None:
    data = HEAD + buffer(more=more) + buffer(thread=2) + buffer(thread=3)
    trace = MonoTrace(data)
    threads = [entry.thread for entry in trace.entries()]
    if more == len(buffer()):  # it ends where a buffer begins: nothing speaks against it
        assert threads == [1, 3]
    else:
        assert threads == [1, 2, 3]
        assert [(finding.rule, finding.offset) for finding in trace.findings] == [("mono.buffer.overlap", len(HEAD))]


def test_buffer_marks_in_a_hole_count_only_in_a_valid_chain() -> None:
    """The claimed end may be beyond the block. Such a mark must not hide the valid buffers after it."""
    hole = buffer(b"", more=300) + b"\0" * 20
    good = b"".join(buffer(thread=number) for number in range(2, 12))
    data = HEAD + buffer() + b"hole" + hole + good
    for block in (BUFFER_HEADER_SIZE, 110, 170, 500, frames.BLOCK):
        with small(block):
            trace = MonoTrace(data)
            assert [entry.thread for entry in trace.entries()] == list(range(1, 12)), block
            assert [finding.offset for finding in trace.findings] == [len(HEAD + buffer())]


def peak_of_reading(data: bytes) -> int:
    """Return how many bytes are in use at once while a trace of the threads 1 and 2 is read.

    The first time, they include what is loaded and generated on first use; any time, what other threads use meanwhile.
    """
    source = io.BytesIO(data)
    trace = MonoTrace(source)
    tracemalloc.start()
    try:
        threads = [entry.thread for entry in trace.entries()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert threads == [1, 2]
    return peak


@pytest.mark.full
@pytest.mark.parametrize("mark", [BUFFER_MARK, encode_buffer_header(BufferHeader(), 15_000)])
@pytest.mark.parametrize("first", [b"hole", buffer(b"", more=15_000)], ids=["a hole", "a buffer"])
def test_memory_is_bounded_while_the_next_header_is_looked_for(mark: bytes, first: bytes) -> None:
    data = HEAD + buffer() + first + (mark + b"\0") * (500_000 // len(mark)) + b"\0" * 17_500 + buffer(thread=2)
    block, largest = 1 << 10, 1 << 14
    with (
        patch.object(frames, "BLOCK", block),
        patch.object(frames, "MAX_BUFFER", largest),
        patch.object(frames, "MAX_HEADER", len(HEAD)),
        patch.object(frames, "MAX_GAP", block),
        patch.object(frames, "WINDOW", block),
    ):
        fixed = io.DEFAULT_BUFFER_SIZE + READY  # of a temporary file, and of a kernel
        most = 6 * (largest + block) + fixed
        assert most < len(data)
        assert any(peak_of_reading(data) < most for _ in range(3))


def test_the_first_fault_of_the_file_is_the_first_that_is_noted() -> None:
    data = HEAD + buffer(b"\x0c") + buffer(more=20) + buffer() + buffer(b"\x0c") + buffer() + b"x" + buffer()[:-1]
    places = [finding.offset for finding in MonoTrace(data).findings]
    assert len(places) == 5
    fault = first_fault(data)
    assert fault is not None
    assert fault[:2] == ("mono.event.unknown", places[0])


def test_a_thread_that_is_not_in_the_cut_end() -> None:
    data = HEAD + buffer() + buffer(thread=2)[:-1]
    assert [entry.record for entry in MonoTrace(data).entries(thread=1)] == [GOOD]
    assert list(MonoTrace(data).entries(thread=3)) == []


SEVERAL = {
    "the first without buffers": [HEAD, OLD, buffer()],
    "the last": [HEAD, buffer(), OLD],
    "one in the middle": [HEAD, buffer(), OLD, HEAD, buffer()],
    "many": [HEAD, OLD, OLD, HEAD, buffer(), buffer(), OLD, OLD],
    "all": [HEAD, OLD],
}


@pytest.mark.parametrize("pieces", SEVERAL.values(), ids=list(SEVERAL))
@pytest.mark.parametrize("block", [BUFFER_HEADER_SIZE, 150, frames.BLOCK])
def test_recordings_without_buffers_are_delivered(pieces: list[bytes], block: int) -> None:
    data = b"".join(pieces)
    with small(block):
        trace = MonoTrace(data)
        headers = [
            entry for entry in trace.entries(resolve=False) if isinstance(entry.record, StreamHeader | BufferHeader)
        ]
        assert copied(MonoTrace(data)) == copied(MonoTrace(Trickle(data))) == data
        assert copied_whole(MonoTrace(data)) == copied_whole(MonoTrace(Trickle(data))) == data
    places = [len(b"".join(pieces[:number])) for number in range(len(pieces))]
    assert [entry.offset for entry in headers] == places
    heads = [encode_header(entry.record) for entry in headers if isinstance(entry.record, StreamHeader)]
    assert heads == [raw for raw in pieces if raw in (HEAD, OLD)]
    assert not trace.findings
    further = [(entry.offset, entry.record) for entry in headers[1:] if isinstance(entry.record, StreamHeader)]
    assert [(entry.offset, entry.record) for entry in trace.entries() if entry.time is None] == further
    assert trace.info.recordings == len(heads)
    assert trace.info.header == header()
    assert trace.table("gc_resizes").num_rows == pieces.count(buffer())
    annotated = list(explain(trace, record=None, offset=0, kinds=None))
    assert b"".join(byte_range.raw for record in annotated for byte_range in record.ranges) == data


def test_info_prints_the_number_of_recordings() -> None:
    several = report.info(MonoTrace(HEAD + buffer() + OLD))
    assert dict(several.facts)["recordings"] == "2; the header is that of the first"
    assert several.json["recordings"] == 2
    assert "recordings" not in dict(report.info(MonoTrace(HEAD + buffer())).facts)


def test_a_header_alone_is_explained() -> None:
    trace = fxtio.open(HEAD, format="mono")
    annotated = list(explain(trace, record=None, offset=0, kinds=None))
    assert [record.name for record in annotated] == ["StreamHeader"]


@pytest.mark.full
@pytest.mark.parametrize("kind", DAMAGE)
def test_every_byte_and_every_finding_of_a_damaged_recording_is_explained(kind: str) -> None:
    sample = (CORPUS / "mono" / "synth-v17.mlpd").read_bytes() + OLD + buffer()
    for seed in range(40):
        trace = MonoTrace(DAMAGE[kind](sample, random.Random(seed)))
        annotated = list(explain(trace))
        ends = [0, *(record.offset + record.size for record in annotated)]
        assert [record.offset for record in annotated] == ends[:-1]
        assert ends[-1] == trace.position
        shown = [finding for record in annotated for finding in record.findings]
        assert sorted(shown, key=str) == sorted(trace.findings, key=str)
        numbers = [record.number for record in annotated if record.number is not None]
        assert numbers == list(range(sum(1 for entry in trace.entries() if entry.time is not None)))


def test_bytes_between_buffers_are_explained_in_their_place() -> None:
    trace = MonoTrace(HEAD + buffer() + b"garbage" + buffer())
    names = ["StreamHeader", "BufferHeader", "GcResize", "no buffer", "BufferHeader", "GcResize"]
    annotated = list(explain(trace))
    assert [record.name for record in annotated] == names
    assert annotated[3].ranges[0].raw == b"garbage"
    assert [finding.rule for finding in annotated[3].findings] == ["mono.buffer.id"]
    assert [record.name for record in explain(trace, offset=annotated[3].offset + 6)] == names[3:]
    assert [record.name for record in explain(trace, record=1)] == names[5:]
    assert [record.name for record in explain(trace, record=0)] == names[2:]
    assert [record.name for record in explain(trace, kinds=frozenset({r.GcResize}))] == ["GcResize"] * 2


def test_a_finding_about_an_event_is_shown_with_it() -> None:
    late = b"\x21" + b"\xff" * 9 + b"\x01\x4d"
    explained = list(explain(MonoTrace(HEAD + buffer(late + GOOD_BYTES))))
    assert [[finding.rule for finding in record.findings] for record in explained] == [
        [],
        [],
        ["mono.time.overflow"],
        [],
    ]


def test_recordings_of_the_same_version_share_frames() -> None:
    """A frame costs more than a recording of a few events, so recordings after each other must not be frames each."""
    data = (HEAD + buffer()) * 500 + (OLD + buffer()) * 500
    trace = MonoTrace(data)
    assert sum(1 for _ in trace._frames()) == 2
    assert trace.info.recordings == 1000
    assert [entry.record for entry in trace.entries() if entry.time is not None] == [GOOD] * 1000
    assert copied(trace) == copied_whole(trace) == data
    starts = [entry.offset for entry in trace.entries(resolve=False) if isinstance(entry.record, StreamHeader)]
    assert len(starts) == 1000
    assert not trace.findings
