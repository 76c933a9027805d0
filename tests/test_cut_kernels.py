"""The kernels of cuts: parts of traces are the same without them, and they stay within their buffers."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import _native
from fxtio._native.constants import PlainValue
from fxtio.codec.generate import encode
from fxtio.fxt import frames
from fxtio.fxt import records as r
from fxtio.fxt.cut import cut_to, fields, uses
from fxtio.fxt.frames import BATCH_WORDS
from fxtio.fxt.merge import merge_to
from fxtio.fxt.plain import PlainReader
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
from fxtio.testing import strategies
from support.fxt_cut import Program
from support.fxt_hostile import damaged_traces

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

WORDS = st.sampled_from([64, 700, BATCH_WORDS])
SELECTIONS = st.builds(
    lambda start, length, threads, names: Selection(start, start + length, threads=threads, names=names),
    st.integers(0, 700),
    st.integers(1, 700) | st.just(2**63),
    st.sampled_from([(), ("11",), ("!10", "!12")]),
    st.sampled_from([(), ("name[1-5]", "!name3"), ("!a*",)]),
)


def contents(data: bytes, selection: Selection, words: int) -> tuple[Any, ...]:
    """Return a part of a trace, which is read in batches of so many words, and all that is known about it."""
    out = io.BytesIO()
    with (
        mock.patch.object(frames, "BATCH_WORDS", words),
        mock.patch.object(frames, "BATCH_RECORDS", words),
        fxtio.open(data, format="fxt") as trace,
    ):
        done = cut_to(trace, selection, open_sink(out))
        return out.getvalue(), done, sorted(trace.findings.counts.items())


def compare(data: bytes, selection: Selection, words: int = BATCH_WORDS) -> list[bool]:
    """Compare a part with that without kernels, and return whether they read each batch."""
    is_read: list[bool] = []
    read, find = PlainReader.read, uses.Uses._of_events

    def noting(method: Any) -> Any:
        def note(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            is_read.append(result is not None)
            return result

        return note

    with mock.patch.object(PlainReader, "read", noting(read)), mock.patch.object(uses.Uses, "_of_events", noting(find)):
        with_kernels = contents(data, selection, words)
    with mock.patch.object(_native, "IMPLEMENTATION", "python"):
        assert contents(data, selection, words) == with_kernels
    return is_read


def of_one_provider(seed: int, events: int) -> bytes:
    """Return the trace of a program, without the record that introduces it: the kernels leave such batches alone."""
    program = Program(seed, events)
    program.out = [record for record in program.out if not isinstance(record, r.ProviderInfo)]
    return program.encoded()


@pytest.mark.full
@given(seed=st.integers(0, 10**6), selection=SELECTIONS, words=WORDS)
def test_a_part_is_the_same_without_kernels(seed: int, selection: Selection, words: int) -> None:
    compare(of_one_provider(seed, 40), selection, words)


def test_the_kernels_read_a_program() -> None:
    selection = Selection(10, 400, names=("name*",))
    assert {*compare(of_one_provider(1, 40), selection, 64)} == {False, True}


@pytest.mark.full
@given(seed=st.integers(0, 10**6), selection=SELECTIONS, words=WORDS)
def test_a_part_of_several_providers_is_the_same_without_kernels(seed: int, selection: Selection, words: int) -> None:
    programs = [Program(seed + number, 30, rate=10**9 // number, provider=number) for number in (1, 2)]
    out = io.BytesIO()
    merge_to([fxtio.open(program.encoded(), format="fxt") for program in programs], open_sink(out))
    compare(out.getvalue(), selection, words)


@given(trace=strategies.traces(), start=st.integers(0, 2**63), selection=SELECTIONS)
def test_a_part_of_any_trace_is_the_same_without_kernels(trace: list[Any], start: int, selection: Selection) -> None:
    compare(strategies.encoded(trace), selection)
    compare(strategies.encoded(trace), Selection(start, start + 2**40, names=("a*",)))


@given(data=damaged_traces(), selection=SELECTIONS)
def test_a_part_of_a_damaged_trace_is_the_same_without_kernels(data: bytes, selection: Selection) -> None:
    compare(data, selection)


@given(seed=st.integers(0, 10**6), selection=SELECTIONS, bit=st.floats(0, 1, exclude_max=True))
def test_a_changed_bit_is_read_as_without_kernels(seed: int, selection: Selection, bit: float) -> None:
    data = bytearray(of_one_provider(seed, 10))
    at = int(len(data) * 8 * bit)
    data[at // 8] ^= 1 << at % 8
    compare(bytes(data), selection)


HEAD = [
    r.Magic(),
    *(r.String(slot, f"text {slot}") for slot in range(1, 6)),
    *(r.ThreadRecord(slot, 1, slot) for slot in range(1, 4)),
]
ARGUMENTS = [
    r.NullArgument(1),
    r.StringArgument(1, 2),
    r.StringArgument("an inline name", "an inline text"),
    r.DoubleArgument("inline", 1.5),
]


@pytest.mark.parametrize("argument", ARGUMENTS, ids=repr)
def test_arguments_do_not_matter_to_the_kernels(argument: Any) -> None:
    event = r.Instant(5, 1, 3, 4, (argument, r.Int32Argument(5, 1)))
    assert compare(strategies.encoded([*HEAD, event, r.String(5, "later"), event]), Selection(1, 9)) == [True, True]


def test_a_blob_argument_is_left_to_the_columns() -> None:
    event = r.Instant(5, 1, 3, 4, (r.BlobArgument(1, b"bytes"),))
    assert compare(strategies.encoded([*HEAD, event]), Selection(1, 9)) == [True, False]


def test_definitions_that_events_with_inline_names_use() -> None:
    event = r.Instant(5, r.Thread(1, 2), "inline category", "name", (r.StringArgument(1, 2),))
    assert compare(strategies.encoded([*HEAD, event]), Selection(1, 9)) == [False, True]


def arguments_of_the_kernel() -> list[Any]:
    """Return arguments that `find_uses` takes: those of one instant with two arguments, and a definition before it."""
    finder = uses.Uses()
    words = np.frombuffer(encode(r.Instant(7, 2, 1, 3, (r.StringArgument(1, 4), r.Int64Argument(5, 6)))), np.uint64)
    place = (np.zeros(2, np.int64), np.array([2, len(words)]), np.array([-1, r.KINDS[r.Instant]], np.int8))
    tables = [
        [np.zeros(1, np.int64), np.array([slot]), np.empty(8, np.int64), np.zeros(1, np.int8), np.zeros(8, np.int8)]
        for slot in (4, 3)
    ]
    return [words, *place, np.ones(2, bool), *finder._rules, finder._tails, *tables[0], *tables[1]]


def test_the_slots_that_an_event_uses() -> None:
    given = arguments_of_the_kernel()
    assert kernels.find_uses(*given) is True
    used, earlier = (given[at].tolist() for at in (11, 12))
    assert (used, np.flatnonzero(earlier).tolist()) == ([1], [1, 3, 5])
    used, earlier = (given[at].tolist() for at in (16, 17))
    assert (used, np.flatnonzero(earlier).tolist()) == ([0], [2])


def test_the_kernel_stays_within_its_buffers() -> None:
    given = arguments_of_the_kernel()
    for at, size in ((-1, 3), (0, 0), (0, 1), (0, 2), (0, 6), (5, 1), (2**62, 2**62)):
        given[1], given[2] = np.array([0, at]), np.array([2, size])
        assert kernels.find_uses(*given) is False, (at, size)
    given = arguments_of_the_kernel()
    given[9], given[14] = np.array([-1]), np.array([2**40])
    assert kernels.find_uses(*given) is True
    assert not given[11].any()


@pytest.mark.parametrize("place", [2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 16, 17])
def test_the_kernel_refuses_wrong_lengths(place: int) -> None:
    given = arguments_of_the_kernel()
    given[place] = np.zeros(3, given[place].dtype)
    with pytest.raises(ValueError, match="lengths differ, or the rules do not fit"):
        kernels.find_uses(*given)


@pytest.mark.parametrize(("place", "value"), [(3, 64), (5, 64), (7, 64), (2, PlainValue.WORD)])
def test_the_kernel_refuses_rules_that_do_not_fit(place: int, value: int) -> None:
    given = arguments_of_the_kernel()
    given[6] = given[6].copy()
    given[6][0, [0, place]] = 1, value
    with pytest.raises(ValueError, match="the rules do not fit"):
        kernels.find_uses(*given)


def test_the_kernel_refuses_other_arguments() -> None:
    with pytest.raises(TypeError, match="18 arguments"):
        kernels.find_uses(1)
    with pytest.raises(TypeError, match="words: items of 8 bytes, not 4"):
        kernels.find_uses(np.zeros(1, np.uint32), *arguments_of_the_kernel()[1:])


def test_an_argument_that_is_passed_over_stays_within_its_event() -> None:
    reader = fields.event_reader()
    assert reader._kernel is not None
    event = bytearray(encode(r.Instant(7, 1, 1, 1, (r.NullArgument(1), r.Int32Argument(1, 2)))))
    for size in (0, 3, 4095):
        event[16:24] = (int.from_bytes(event[16:24], "little") & ~0xFFF0 | size << 4).to_bytes(8, "little")
        assert compare(strategies.encoded(HEAD) + bytes(event), Selection(1, 9))[0] is False
