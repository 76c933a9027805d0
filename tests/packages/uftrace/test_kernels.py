"""The kernels for calls: C against Python, on arbitrary words, and what C refuses."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio._native import python as twin
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.frames import _HEADS
from fxtio.uftrace.layout import RecordWord
from support.uftrace_samples import EXTREMES

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

HEADERS = st.builds(
    lambda kind, more, depth, address: int(RecordWord(type=kind, more=more, depth=depth, address=address)),
    st.integers(0, 3),
    st.integers(0, 1),
    st.sampled_from([0, 1, 1023]),
    st.integers(0, 40),
)
WORDS = st.lists(st.sampled_from(EXTREMES) | st.integers(0, 2**64 - 1) | st.integers(0, 300) | HEADERS, max_size=60)
# Ranges of addresses with programs: nothing told, an integer, a string, several of both.
CODE = np.array([-1, 0, 4, 0, -1, -1, 0, 1, -1, 8, 10, 0], np.int32)
PROGRAMS = np.array([-1, 2, 4, 7, 2, -1], np.int32)
BEGIN, END = np.array([0, 10, 20], np.uint64), np.array([10, 15, 40], np.uint64)


@given(
    words=WORDS,
    start=st.integers(0, 4),
    latest=st.sampled_from([0, 200, 2**63 - 1, 2**63, 2**64 - 1]),
    order=st.sampled_from(["little", "big"]),
    room=st.integers(0, 30),
)
def test_walks_are_the_same(words: list[int], start: int, latest: int, order: str, room: int) -> None:
    native = np.array(words, np.uint64)
    raw = (native if order == "little" else native.byteswap()).view(np.uint8)
    results = []
    for kernel in (kernels, twin):
        at, size = np.full(room, -7, np.int64), np.full(room, -7, np.int64)
        result = kernel.walk_payloads(native, raw, _HEADS[order], BEGIN, END, PROGRAMS, CODE, at, size, start, latest)
        results.append((result, at.tolist(), size.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("kernel", [kernels, twin], ids=["c", "python"])
def test_a_walk_of_one_record_looks_at_little(kernel: Any) -> None:
    """A task may change its session with each record: what is not needed of many functions and words is not copied."""
    words = np.tile(
        np.array([5, int(RecordWord(type=RecordType.ENTRY, more=0, depth=0, address=12))], np.uint64), 50_000
    )
    words[2] = 9  # the time of the second record, which is too late
    begin = np.arange(100_000, dtype=np.uint64)
    programs = np.full(200_000, -1, np.int32)
    at, size = np.zeros(9, np.int64), np.zeros(9, np.int64)
    taken = words, words.view(np.uint8), _HEADS["little"], begin, begin + np.uint64(1), programs, CODE, at, size, 0, 7
    tracemalloc.start()
    walked = kernel.walk_payloads(*taken)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert walked[:2] == (1, 2)
    assert peak < 10_000


@given(values=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=400), seed=st.integers(0, 2**64 - 1))
def test_numbers_are_the_same(values: list[int], seed: int) -> None:
    array = np.array(values, np.uint64)
    results: list[Any] = []
    for kernel in (kernels, twin):
        codes, first = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
        count = kernel.distinct(array, codes, first, seed)
        assert array[first[:count]][codes].tolist() == values
        results.append((count, codes.tolist(), first[:count].tolist()))
    assert results[0] == results[1]


def test_the_c_kernels_refuse_invalid_arguments() -> None:
    none, wide, codes = np.empty(0, np.uint64), np.empty(1, np.int64), np.empty(1, np.int32)
    item = np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="do not fit"):
        kernels.walk_payloads(item, np.zeros(8, np.uint8), none, BEGIN, END, PROGRAMS, CODE, wide, wide, 0, 0)
    with pytest.raises(ValueError, match="do not fit"):
        kernels.walk_payloads(
            item, np.zeros(9, np.uint8), _HEADS["little"], BEGIN, END, PROGRAMS, CODE, wide, wide, 0, 0
        )
    with pytest.raises(ValueError, match="no room"):
        kernels.distinct(np.arange(3, dtype=np.uint64), np.empty(3, np.int32), wide, 0)
    with pytest.raises(ValueError, match="no room"):
        kernels.distinct(item, codes[:0], wide, 0)
    with pytest.raises(TypeError):
        kernels.distinct(item)
