"""The declarations of the Mono log profiler's events: round trips, kernels, all data versions, the oracle."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio import _native
from fxtio._native.constants import MAX_SLOTS, RULES, Op, TimeFault
from fxtio.codec.stream.codec import codec_of
from fxtio.codec.stream.declare import UNKNOWN, Dialect, layout_of
from fxtio.codec.stream.describe import ranges_of
from fxtio.codec.stream.kernels import Columns, Kernels
from fxtio.codec.stream.steps import Steps, steps_of
from fxtio.errors import DecodeError, EncodeError, LayoutError
from fxtio.mono import records as r
from fxtio.mono.buffers import decode_events, decode_events_exactly, state_of, untimed_events
from fxtio.mono.headers import BufferHeader
from fxtio.mono.layout import HYBRID, CounterValue
from fxtio.mono.records import EVENTS, VERSIONS, dialect_of
from fxtio.testing.strategies import buffers
from support.mono_columns import all_kernels, columns_of, events_from_columns
from support.mono_every import encode_events

pytestmark = pytest.mark.native

VERSION = st.sampled_from([*VERSIONS, HYBRID])
DIALECTS = st.builds(dialect_of, VERSION, st.sampled_from([4, 8]))
BUFFERS = DIALECTS.flatmap(lambda dialect: st.tuples(st.just(dialect), buffers(dialect)))

Drawn = tuple[Dialect, tuple[BufferHeader, list[Any]]]


def decode_exactly(dialect: Dialect, header: BufferHeader, data: bytes) -> list[Any]:
    """Return the events of a buffer with `Opaque` for what would give other bytes."""
    return [event for _, event in decode_events_exactly(dialect, header, data)]


@given(BUFFERS)
def test_encoded_events_are_decoded(drawn: Drawn) -> None:
    dialect, (header, events) = drawn
    data = encode_events(dialect, header, events)
    assert [event for _, event in decode_events(dialect, header, data)] == events
    assert decode_exactly(dialect, header, data) == events  # none of them is Opaque: the bytes are the same


@given(DIALECTS, st.binary(max_size=64))
def test_any_bytes_can_be_copied(dialect: Dialect, data: bytes) -> None:
    header = BufferHeader(time=5, pointer=1 << 20, object=1 << 17, method=1 << 30)
    assert encode_events(dialect, header, decode_exactly(dialect, header, data)) == data


@given(BUFFERS, st.data())
def test_damaged_events_give_faults_or_events(drawn: Drawn, more: st.DataObject) -> None:
    dialect, (header, events) = drawn
    data = bytearray(encode_events(dialect, header, events))
    for _ in range(more.draw(st.integers(1, 3)) if data else 0):
        data[more.draw(st.integers(0, len(data) - 1))] = more.draw(st.integers(0, 255))
    stop, rule = _scalar_end(dialect, header, bytes(data))
    odd = _odd_times(dialect, header, bytes(data[:stop]))
    for kernel in all_kernels():
        filled = columns_of(kernel, dialect, header, bytes(data))
        assert (filled.stop, RULES[filled.fault], filled.times) == (stop, rule, odd)


def _odd_times(dialect: Dialect, header: BufferHeader, data: bytes) -> int:
    """Return what is odd about times: later than 2**63 - 1 nanoseconds, or earlier than the one before."""
    untimed = untimed_events(dialect)
    events = [event for _, event in decode_events(dialect, header, data)]
    times = [event.time for event in events if type(event) not in untimed]
    back = any(map(operator.lt, times, [header.time, *times]))
    return TimeFault.LATE * any(time >= 2**63 for time in times) + TimeFault.BACK * back


def _scalar_end(dialect: Dialect, header: BufferHeader, data: bytes) -> tuple[int, str]:
    """Return where the generated decoder stops, and the rule of the fault."""
    try:
        for _ in decode_events(dialect, header, data):
            pass
    except DecodeError as error:
        return error.offset, error.rule
    return len(data), ""


@pytest.mark.parametrize("kernel", all_kernels(), ids=lambda kernel: type(kernel).__name__)
@given(drawn=BUFFERS)
def test_columns_equal_the_events(kernel: Kernels, drawn: Drawn) -> None:
    dialect, (header, events) = drawn
    data = encode_events(dialect, header, events)
    filled = columns_of(kernel, dialect, header, data)
    assert (filled.stop, filled.fault, filled.times) == (len(data), 0, _odd_times(dialect, header, data))
    assert events_from_columns(dialect, filled, data) == events


@pytest.mark.parametrize("kernel", all_kernels(), ids=lambda kernel: type(kernel).__name__)
@given(drawn=BUFFERS, room=st.integers(0, 200))
def test_columns_are_written_as_the_same_bytes(kernel: Kernels, drawn: Drawn, room: int) -> None:
    dialect, (header, events) = drawn
    data = encode_events(dialect, header, events)
    filled = columns_of(kernel, dialect, header, data)
    order, steps = filled.order(), steps_of(dialect)
    registers, rows = filled.registers[0].copy(), np.zeros(steps.owners, np.int64)
    texts, written, number = np.frombuffer(data, np.uint8), b"", 0
    while number < len(order):  # a room that is too small for the next event gets larger
        out = np.empty(room, np.uint8)
        after, used = kernel.encode(steps, order, number, registers, filled.columns, texts, rows, out)
        written += out[:used].tobytes()
        room += 64 if after == number else 0
        number = after
    assert written == data


@given(BUFFERS)
def test_explaining_names_every_byte(drawn: Drawn) -> None:
    dialect, (header, events) = drawn
    data = encode_events(dialect, header, events)
    state, at = state_of(header, dialect), 0
    for event in events:
        layout = layout_of(type(event), dialect.version)
        assert layout is not None
        spans, after = ranges_of(layout, data, at, len(data), state, lambda cls, name, value: "")
        assert b"".join(span.raw for span in spans) == data[at:after]
        assert [span.offset for span in spans] == np.cumsum([0, *(len(span.raw) for span in spans)])[:-1].tolist()
        assert not any(span.fault for span in spans)
        at = after
    assert at == len(data)


def test_every_class_is_in_some_version_and_all_versions_have_methods() -> None:
    for cls in EVENTS:
        assert any(layout_of(cls, version) for version in VERSIONS)
    for version in VERSIONS:
        assert layout_of(r.Call, version)
    with pytest.raises(LayoutError, match="has no SyncPoint"):
        codec_of(r.SyncPoint, 12)


def test_the_first_bytes_are_as_many_as_the_specification_has() -> None:
    """Counted by hand: by types, and three of metadata. All those of version 17 occur in recordings."""
    by_type = {14: (2, 11, 3, 4, 3, 2, 4, 5, 1, 4, 1), 17: (2, 11, 3, 4, 3, 2, 6, 4, 1, 0, 2)}
    for version, counts in by_type.items():
        heads = [head for head, kind in enumerate(dialect_of(version, 8).kinds) if kind != UNKNOWN]
        assert tuple(sum(head % 16 == number for head in heads) for number in range(11)) == counts


REFUSED = [
    (r.Call(time=-1, action=2, method=0), "Call.time"),
    (r.Call(time=0, action=4, method=0), "Call.action"),
    (r.Call(time=0, action=2, method=1 << 64), "Call.method"),
    (r.GcResize(time=0, size=1 << 64), "GcResize.size"),
    (r.GcEvent(time=0, event=256, generation=0), "GcEvent.event"),
    (r.FinalizeObjectStart(time=0, object=12), "FinalizeObjectStart.object"),
    (r.Allocation(time=0, object=8, size=8), "Allocation.vtable"),
    (r.Allocation(time=0, class_pointer=8, vtable=8, object=8, size=8), "Allocation.class_pointer"),
    (r.AotId(time=0, id="a\0b"), "AotId.id"),
    (r.AotId(time=0, id="\ud800"), "AotId.id"),
    (r.Thread(time=0, action=2, id=1, name="x"), "Thread.name"),
    (r.JitHelper(time=0, buffer_type=3, address=0, size=0, name="x"), "JitHelper.name"),
    (r.GcMove(time=0, objects=[8, 16]), "GcMove.objects"),  # type: ignore[arg-type]
    (r.CounterValues(time=0, values=(CounterValue(index=0, type=0, value=1),)), "CounterValue.index"),
    (r.CounterValues(time=0, values=(CounterValue(index=1, type=9, value=1),)), "CounterValue.type"),
]


@pytest.mark.parametrize(("event", "field"), REFUSED, ids=[field for _, field in REFUSED])
def test_values_beyond_the_format_are_refused(event: Any, field: str) -> None:
    state = state_of(BufferHeader(time=3, method=7), dialect_of(17, 8))
    with pytest.raises(EncodeError) as caught:
        codec_of(type(event), 17).encode(event, state)
    assert caught.value.field == field
    assert state.copy() == {"time": 3, "method": 7, "pointer": 0, "object": 0}


def test_an_event_without_time_has_the_time_of_the_event_before() -> None:
    dialect, header = dialect_of(12, 8), BufferHeader(time=40)
    event = r.NativeSymbol(time=40, address=8, size=0, name="f")
    data = encode_events(dialect, header, [event])
    assert [decoded for _, decoded in decode_events(dialect, header, data)] == [event]
    with pytest.raises(EncodeError, match="no time here"):
        encode_events(dialect, header, [event.replace(time=41)])


def _set(op: Op, field: int, value: int) -> Callable[[Steps], None]:
    def spoil(steps: Steps) -> None:
        steps.table[np.flatnonzero(steps.table[:, 0] == op)[0], field] = value

    return spoil


def _cut_places(steps: Steps) -> None:
    steps.places = steps.places[:-1]


def _no_end(steps: Steps) -> None:
    steps.table = steps.table[:-1]


UNSOUND = {
    "operation": _set(Op.CONST, 0, 99),
    "no end": _no_end,
    "register": _set(Op.CLOCK, 1, 4),
    "kind": _set(Op.BEGIN, 1, 1_000),
    "shift": _set(Op.RELATIVE, 2, 64),
    "target": _set(Op.NEXT, 2, 1 << 40),
    "slot": _set(Op.UNLESS, 4, MAX_SLOTS),
    "slot of an address": _set(Op.RELATIVE, 4, 0),
    "before the places": _set(Op.SUBTYPE, 1, -1),
    "behind the places": _cut_places,
}
"""Programs that the kernels refuse to run."""


@pytest.mark.skipif(_native.IMPLEMENTATION != "c", reason="the kernels in C are not built")
@pytest.mark.parametrize("spoil", UNSOUND.values(), ids=UNSOUND)
def test_a_kernel_refuses_an_invalid_program(spoil: Callable[[Steps], None]) -> None:
    steps = Steps(dialect_of(17, 8))
    zero, four = np.zeros(1, np.int64), np.zeros((1, 4), np.uint64)
    byte, counts = np.zeros(1, np.uint8), np.zeros((1, steps.owners), np.int64)
    none: Columns = (None,) * len(steps.columns)
    Kernels().scan(steps, byte, zero, zero, four, counts, zero.copy(), byte.copy(), byte.copy())
    Kernels().fill(steps, byte, zero, zero, four, 0, counts, none)
    spoil(steps)
    with pytest.raises(ValueError, match="not sound"):
        Kernels().scan(steps, byte, zero, zero, four, counts, zero.copy(), byte.copy(), byte.copy())
    with pytest.raises(ValueError, match="not sound"):
        Kernels().fill(steps, byte, zero, zero, four, 0, counts, none)


@pytest.mark.skipif(_native.IMPLEMENTATION != "c", reason="the kernels in C are not built")
def test_a_kernel_refuses_columns_that_are_not_as_planned() -> None:
    steps = Steps(dialect_of(17, 8))
    zero, four = np.zeros(1, np.int64), np.zeros((1, 4), np.uint64)
    byte, counts = np.zeros(1, np.uint8), np.zeros((1, steps.owners), np.int64)
    none: Columns = (None,) * len(steps.columns)
    for number, plan in enumerate(steps.columns):
        other = np.zeros(1, np.uint8 if np.dtype(plan.dtype).itemsize > 1 else np.int64)
        columns = (*none[:number], other, *none[number + 1 :])
        with pytest.raises(ValueError, match="items of another size"):
            Kernels().fill(steps, byte, zero, zero, four, 0, counts, columns)
    with pytest.raises(ValueError, match="more columns"):
        Kernels().fill(steps, byte, zero, zero, four, 0, counts, none[1:])
