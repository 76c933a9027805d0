"""The kernels for chunks: C against Python, on arbitrary numbers and whole profiles, and arguments that C refuses."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native import python as twin
from fxtio.arrays import Array
from fxtio.dcpi import DcpiTrace, DcpiWriter, frames
from fxtio.dcpi.layout import HEAD_WORDS, NUMBER, OFFSET, STEP
from support import dcpi as support

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

U32 = st.integers(0, 2**32 - 1)
NUMBERS = st.lists(st.sampled_from([0, 0, 1, 2, 3]) | U32, max_size=40).map(lambda values: np.array(values, np.uint32))
HOSTILE = st.sampled_from([-(2**63), -1, 41, 2**32, 2**63 - 1])
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10), U32 | st.integers(-(2**63), 2**63 - 1)), max_size=8)
PLAIN = np.array([5, 0, 7, 1], np.uint32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


def columns(rows: list[tuple[int, int, int]], most: int) -> list[Array]:
    """Return begins, counts and places of the rows that fit, each given by a gap, a count and a place."""
    rows_that_fit, end = [], 0
    for gap, count, place in rows:
        if end + gap + count <= most:
            rows_that_fit.append((end + gap, count, place))
            end += gap + count
    return [i64(*column) for column in (zip(*rows_that_fit, strict=True) if rows_that_fit else ((), (), ()))]


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


@given(data=st.data(), numbers=NUMBERS, start=st.integers(0, 45), size=st.integers(1, 4), room=st.integers(0, 10))
def test_walks_are_the_same(data: st.DataObject, numbers: Array, start: int, size: int, room: int) -> None:
    place, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    results = []
    for kernel in (kernels, twin):
        outputs = [np.full(room, -7, np.int64) for _ in range(3)]
        number, end = kernel.walk_chunks(numbers, start, size, place, other, *outputs)
        results.append((number, end, [output.tolist() for output in outputs]))
    assert results[0] == results[1]
    number, end, (at, count, value) = results[0]
    begins = [here - size for here in at[:number]]
    assert [*begins, end] == [start + sum(size + length for length in count[:row]) for row in range(number + 1)]
    assert [(numbers[here + place], numbers[here + other]) for here in begins] == [*zip(count, value, strict=True)][
        :number
    ]
    assert number == room or end + size >= len(numbers)


@given(numbers=NUMBERS, rows=ROWS, step=st.sampled_from([0, 1, 4, -4]), room=st.integers(0, 60))
def test_sums_and_places_are_the_same(numbers: Array, rows: list[tuple[int, int, int]], step: int, room: int) -> None:
    at, count, first = columns(rows, len(numbers))
    pairs = [
        (wrapped(place + step * row), int(number))
        for here, many, place in zip(at.tolist(), count.tolist(), first.tolist(), strict=True)
        for row, number in enumerate(numbers[here : here + many])
        if number
    ]
    ends = [numbers[here : here + many][[0, -1]].all() if many else False for here, many in zip(at, count, strict=True)]
    for kernel in (kernels, twin):
        assert kernel.sum_rows(numbers, at, count) == (sum(hit for _, hit in pairs), len(pairs), ends.count(False))
        places, hits = np.full(room, -7, np.int64), np.full(room, 7, np.uint32)
        number = kernel.unroll(numbers, at, count, first, step, places, hits)
        assert [*zip(places[:number].tolist(), hits[:number].tolist(), strict=True)] == pairs[:room]


@given(data=st.data(), numbers=NUMBERS, rows=ROWS, row=st.integers(0, 8))
def test_rows_that_do_not_fit_are_refused(
    data: st.DataObject, numbers: Array, rows: list[tuple[int, int, int]], row: int
) -> None:
    at, count, first = columns(rows, len(numbers))
    row = min(row, len(at))
    end = int(at[row - 1] + count[row - 1]) if row else 0
    begin = data.draw(HOSTILE | st.integers(-1, 41))
    many = data.draw(HOSTILE if end <= begin <= len(numbers) else HOSTILE | st.integers(0, 41))
    at, count, first = np.insert(at, row, begin), np.insert(count, row, many), np.insert(first, row, 0)
    for kernel in (kernels, twin):
        with pytest.raises(ValueError, match="beyond the numbers"):
            kernel.sum_rows(numbers, at, count)
        with pytest.raises(ValueError, match="beyond the numbers"):
            kernel.unroll(numbers, at, count, first, STEP, i64(0), np.zeros(1, np.uint32))


@given(data=support.profiles() | support.damaged(), block=st.sampled_from([12, 16, 40, frames.BLOCK]))
def test_profiles_are_the_same_with_either(data: bytes, block: int) -> None:
    """Covers chunks that are cut by blocks, empty chunks, zeros, and damaged numbers."""
    results = []
    for kernel in (kernels, twin):
        patch = pytest.MonkeyPatch()
        with patch.context() as changed:
            changed.setattr(frames, "BLOCK", block)
            for name in ("walk_chunks", "sum_rows", "unroll"):
                changed.setattr(_native, name, getattr(kernel, name))
            trace = DcpiTrace(io.BytesIO(data))
            tables = [
                {name: [*table.rows()] for name, table in batch.items()} for batch in trace.batches(*trace.table_names)
            ]
            info = DcpiTrace(data).info
        results.append((tables, trace.findings.counts, support.sums(info)))
    assert results[0] == results[1]


def test_batches_keep_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks share their memory; batches have memory of their own."""
    monkeypatch.setattr(frames, "BLOCK", 40)
    out = io.BytesIO()
    with DcpiWriter(out, header=support.HEADER) as writer:
        for number in range(30):
            writer.chunk(number * 40, [number + 1, 0, 3][: 1 + number % 3])
    trace = DcpiTrace(out.getvalue(), strict=True)
    batches = [*trace.batches("samples", "chunks")]
    assert len(batches) > 5
    for name in ("samples", "chunks"):
        whole = trace.table(name)
        for column in whole:
            pieces = [each for batch in batches for each in batch[name][column]]
            assert pieces == [*whole[column]]


def test_arguments_that_c_refuses() -> None:
    out = [np.zeros(4, np.int64) for _ in range(3)]
    for bad in (
        (-1, HEAD_WORDS, NUMBER, OFFSET),
        (0, 2, 2, 0),
        (0, 2, 0, 2),
        (0, 2, -1, 0),
        (0, 2, 0, -1),
        (0, -2, 0, 0),
    ):
        with pytest.raises(ValueError, match="is outside of the head"):
            kernels.walk_chunks(PLAIN, *bad, *out)
    with pytest.raises(OverflowError):
        kernels.walk_chunks(PLAIN, 2**63, 2, 1, 0, *out)
    with pytest.raises(TypeError):
        kernels.walk_chunks(PLAIN, "0", 2, 1, 0, *out)
    assert kernels.walk_chunks(PLAIN, 2**63 - 1, 2**63 - 1, 1, 0, *out) == (0, 2**63 - 1)
    for name in ("walk_chunks", "sum_rows", "unroll"):
        with pytest.raises(TypeError, match="arguments"):
            getattr(kernels, name)(PLAIN)
    rows = (i64(0), i64(4), i64(0), STEP, np.zeros(4, np.int64), np.zeros(4, np.uint32))
    with pytest.raises(TypeError, match="numbers: items of 4 bytes, not 8"):
        kernels.unroll(PLAIN.astype(np.uint64), *rows)
    with pytest.raises(ValueError, match="contiguous"):
        kernels.unroll(PLAIN[::2], *rows)
    with pytest.raises(OverflowError):
        kernels.unroll(PLAIN, *rows[:3], 2**63, *rows[4:])
    fixed = np.zeros(4, np.int64)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernels.unroll(PLAIN, *rows[:4], fixed, rows[5])
    for kernel in (kernels, twin):
        with pytest.raises(ValueError, match="lengths differ"):
            kernel.sum_rows(PLAIN, i64(0), i64(0, 0))
        with pytest.raises(ValueError, match="lengths differ"):
            kernel.unroll(PLAIN, *rows[:2], i64(0, 0), *rows[3:])


def test_c_stays_within_its_output() -> None:
    places, hits = np.full(4, -7, np.int64), np.full(4, 7, np.uint32)
    assert kernels.unroll(PLAIN, i64(0), i64(4), i64(8), STEP, places[:2], hits) == 2
    assert places.tolist() == [8, 16, -7, -7]
    assert hits.tolist() == [5, 7, 7, 7]
    assert kernels.unroll(PLAIN, i64(0), i64(4), i64(8), STEP, places, hits[:0]) == 0
    at = np.full(4, -7, np.int64)
    assert kernels.walk_chunks(np.zeros(9, np.uint32), 0, 2, 1, 0, at[:3], at.copy(), at.copy()) == (3, 6)
    assert at.tolist() == [2, 4, 6, -7]
