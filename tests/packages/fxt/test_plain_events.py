"""Plain events: the kernel that reads them a batch at a time agrees with the reader of all records, or declines."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import _native
from fxtio._native.constants import PlainValue, SpanStep
from fxtio.codec.generate import Order, encode
from fxtio.fxt import plain
from fxtio.fxt import records as r
from fxtio.fxt.enums import ArgumentType
from fxtio.testing import strategies
from fxtio.timeline.schema import TABLES, ArgumentKind
from support.fxt_hostile import damaged_traces

pytestmark = pytest.mark.native

kernels = pytest.importorskip("fxtio._native._kernels", reason="the C kernels are not built")

STRINGS, THREADS = st.integers(0, 5), st.integers(1, 3)
WORDS = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 1000)
VALUES = {
    r.NullArgument: st.tuples(),
    r.Int32Argument: st.tuples(st.integers(-(2**31), 2**31 - 1)),
    r.Uint32Argument: st.tuples(st.integers(0, 2**32 - 1)),
    r.Int64Argument: st.tuples(st.integers(-(2**63), 2**63 - 1)),
    r.Uint64Argument: st.tuples(WORDS),
    r.DoubleArgument: st.tuples(st.floats()),
    r.StringArgument: st.tuples(STRINGS),
    r.PointerArgument: st.tuples(WORDS),
    r.KoidArgument: st.tuples(WORDS),
    r.BoolArgument: st.tuples(st.booleans()),
}
ARGUMENTS = st.one_of(
    [st.builds(lambda cls, name, value: cls(name, *value), st.just(cls), STRINGS, VALUES[cls]) for cls in VALUES]
)
TAILED = {
    r.Counter, r.AsyncBegin, r.AsyncInstant, r.AsyncEnd, r.FlowBegin, r.FlowStep, r.FlowEnd, r.DurationComplete
}  # fmt: skip
"""The classes of events that have one more word."""


@st.composite
def events(draw: st.DrawFn) -> Any:
    """Draw an event whose references are all to slots."""
    cls = draw(st.sampled_from([r.Instant, r.DurationBegin, r.DurationEnd, *TAILED]))
    time = draw(st.integers(0, 1000))
    tail = [draw(st.integers(time, 2000))] if cls in TAILED else []
    args = tuple(draw(st.lists(ARGUMENTS, max_size=3)))
    return cls(time, draw(THREADS), draw(STRINGS), draw(STRINGS), args, *tail)


DEFINITIONS = st.builds(r.String, st.integers(1, 5), st.sampled_from(["one", "two", "three"])) | st.builds(
    r.ThreadRecord, THREADS, st.integers(1, 2), st.integers(1, 3)
)
FIRST = [
    *(r.String(slot, f"text {slot}") for slot in range(1, 6)),
    *(r.ThreadRecord(slot, 1, slot) for slot in range(1, 4)),
]


def contents(data: bytes) -> tuple[Any, ...]:
    """Return all that a timeline has."""
    with fxtio.open_timeline(data, format="fxt") as timeline:
        tables = timeline.tables(*TABLES)
        rows = {name: repr(list(table.rows())) for name, table in tables.items()}
        return rows, timeline.losses, repr(timeline.trace.findings)


def compare(data: bytes) -> list[bool]:
    """Compare a timeline with that without the kernel, and return whether the kernel read each batch."""
    is_read: list[bool] = []
    read = plain.PlainReader.read

    def noting(self: plain.PlainReader, *args: Any, **options: Any) -> Any:
        result = read(self, *args, **options)
        is_read.append(result is not None)
        return result

    with mock.patch.object(plain.PlainReader, "read", noting):
        with_kernel = contents(data)
    with mock.patch.object(_native, "IMPLEMENTATION", "python"):
        assert contents(data) == with_kernel
    return is_read


@given(
    definitions=st.lists(DEFINITIONS, max_size=5),
    trace=st.lists(events(), max_size=12),
    order=st.sampled_from(["little", "big"]),
)
def test_plain_events_are_read_by_the_kernel(definitions: list[Any], trace: list[Any], order: Order) -> None:
    assert all(compare(strategies.encoded([r.Magic(), *FIRST, *definitions, *trace], order)))


@given(trace=st.lists(events() | DEFINITIONS, max_size=20))
def test_events_between_definitions_are_read_as_without_the_kernel(trace: list[Any]) -> None:
    compare(strategies.encoded([r.Magic(), *FIRST, *trace]))


@given(trace=st.lists(events(), min_size=1, max_size=6), data=st.data())
def test_a_changed_bit_is_read_as_without_the_kernel(trace: list[Any], data: st.DataObject) -> None:
    head, rest = strategies.encoded([r.Magic(), *FIRST]), bytearray(strategies.encoded(trace))
    bit = data.draw(st.integers(0, len(rest) * 8 - 1))
    rest[bit // 8] ^= 1 << bit % 8
    compare(head + rest)


@given(data=damaged_traces())
def test_damaged_traces_are_read_as_without_the_kernel(data: bytes) -> None:
    compare(data)


def test_a_late_counter_is_reported_once() -> None:
    late = r.Counter(2**63, 1, 1, 1, (), 0)
    assert compare(strategies.encoded([r.Magic(), *FIRST, late, r.Instant(1, 1, 1, 1, ())])) == [True]


PLAIN_ARGUMENT = r.Int32Argument(1, -5)
OTHERS = [
    r.Instant(1, r.Thread(1, 2), 1, 1, ()),
    r.Instant(1, 1, "inline", 1, ()),
    r.Instant(1, 1, 1, "inline", ()),
    r.Instant(1, 1, 1, 1, (), 2),
    r.Instant(1, 1, 1, 9, ()),
    r.Instant(1, 9, 1, 1, ()),
    r.Instant(1, 1, 1, 1, (r.BlobArgument(1, b"bytes"),)),
    r.Instant(1, 1, 1, 1, (r.Int32Argument("inline", 1),)),
    r.Instant(1, 1, 1, 1, (r.StringArgument(1, "inline"),)),
    r.Instant(1, 1, 1, 1, (r.StringArgument(1, 9),)),
]


@pytest.mark.parametrize("record", OTHERS, ids=repr)
def test_other_events_are_declined(record: Any) -> None:
    assert compare(strategies.encoded([r.Magic(), *FIRST, r.Instant(1, 1, 1, 1, (PLAIN_ARGUMENT,)), record])) == [False]


PROVIDER = [r.Magic(), r.ProviderInfo(1, "one"), r.Initialization(1_000_000, None, None), *FIRST]


def test_providers_without_events_are_passed_over() -> None:
    trace = [*PROVIDER, r.Instant(1, 1, 1, 1, (PLAIN_ARGUMENT,)), r.ProviderInfo(2, "two"), *FIRST]
    of_unknown_type = bytes([0x1D, *bytes(7)])
    assert compare(strategies.encoded(trace) + of_unknown_type) == [True]


def test_events_of_two_providers_are_declined() -> None:
    event = r.Instant(1, 1, 1, 1, (PLAIN_ARGUMENT,))
    assert compare(strategies.encoded([*PROVIDER, event, r.ProviderInfo(2, "two"), *FIRST, event])) == [False]


def test_a_slot_is_read_as_of_its_record() -> None:
    """The slot gets another text after the event, so that the last text is not that of the event."""
    begin, again = r.DurationBegin(1, 1, 1, 2, ()), r.String(2, "later")
    assert compare(strategies.encoded([r.Magic(), *FIRST, again, begin])) == [True]
    data = strategies.encoded([r.Magic(), *FIRST, begin, again])
    assert compare(data) == [False]
    assert fxtio.open_timeline(data).table("slices")["name"].tolist() == ["text 2"]


def arguments_of_the_kernel() -> list[Any]:
    """Return arguments that the kernel takes: those of one begin with one argument."""
    reader = plain.PlainReader({r.DurationBegin: SpanStep.BEGIN}, {ArgumentType.INT32: ArgumentKind.INTEGER})
    words = np.frombuffer(encode(r.DurationBegin(7, 1, 1, 1, (PLAIN_ARGUMENT,))), np.uint64)
    place = (np.zeros(1, np.int64), np.array([len(words)]), np.array([r.KINDS[r.DurationBegin]], np.int8))
    slots = (np.array([-1, 3], np.int32), np.array([-1, 0]))
    return [
        words, *place, reader._header, reader._rules, reader._steps, reader._tails, *slots, *slots,
        *plain.EventColumns.blank(1), *plain.ArgumentColumns.blank(1), 100,
    ]  # fmt: skip


def test_the_kernel_stays_within_its_buffers() -> None:
    given = arguments_of_the_kernel()
    assert kernels.read_plain(*given) == 1
    assert [column.tolist() for column in given[18:23]] == [[100], [3], [1], [2**64 - 5], [-1]]
    for at, size in ((-1, 3), (0, 0), (0, 1), (0, 2), (0, 4), (3, 1), (2**62, 2**62)):
        assert kernels.read_plain(given[0], np.array([at]), np.array([size]), *given[3:]) == -1, (at, size)
    given[18:23] = plain.ArgumentColumns.blank(0)
    assert kernels.read_plain(*given) == 1


@pytest.mark.parametrize("place", [2, 3, 4, 5, 7, 9, 11, *range(12, 23)])
def test_the_kernel_refuses_wrong_lengths(place: int) -> None:
    given = arguments_of_the_kernel()
    given[place] = np.zeros(3, given[place].dtype)
    with pytest.raises(ValueError, match="lengths differ, or the rules do not fit"):
        kernels.read_plain(*given)


@pytest.mark.parametrize(("place", "value"), [(3, 64), (5, 64), (7, 64), (2, PlainValue.WORD)])
def test_the_kernel_refuses_rules_that_do_not_fit(place: int, value: int) -> None:
    given = arguments_of_the_kernel()
    given[5] = given[5].copy()
    given[5][1, place] = value
    with pytest.raises(ValueError, match="the rules do not fit"):
        kernels.read_plain(*given)


def test_the_kernel_refuses_other_arguments() -> None:
    with pytest.raises(TypeError, match="24 arguments"):
        kernels.read_plain(1)
    with pytest.raises(TypeError, match="words: items of 8 bytes, not 4"):
        kernels.read_plain(np.zeros(1, np.uint32), *arguments_of_the_kernel()[1:])


def test_a_batch_may_have_no_scheduling_record_that_can_be_read() -> None:
    short = encode(r.ThreadWakeup(1, 1, 1, ()))[:8]
    short = (int.from_bytes(short, "little") & ~0xFFF0 | 1 << 4).to_bytes(8, "little")
    with fxtio.open_timeline(encode(r.Magic()) + short) as timeline:
        assert timeline.table("wakeups").num_rows == 0
        assert timeline.trace.findings
