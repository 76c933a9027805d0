"""The records that the tracer builds from constants have the bytes of the typed records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fxtio.codec.generate import encode as encode_record
from fxtio.fxt import records as r
from fxtio.fxt.enums import ObjectType, ProviderEventId
from fxtio.fxt.layout import MAX_STRING_SLOT
from fxtio.fxt.live_file import HEAD_BYTES
from fxtio.tracer import encode
from fxtio.tracer.archive import Front

WORDS = st.integers(0, 2**64 - 1)
SLOTS = st.integers(0, MAX_STRING_SLOT)
PIDS = st.integers(0, 2**32 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.just("\udcff.py")
FRONTS = st.builds(Front, PIDS, NAMES, WORDS, WORDS)


@given(FRONTS)
def test_the_front_is_that_of_the_typed_records(front: Front) -> None:
    records = (
        r.Magic(),
        r.ProviderInfo(front.pid, front.name),
        r.Initialization(front.rate, 0, front.wall_ns),
    )
    data = b"".join(map(encode_record, records))
    assert front.encode() == data
    assert data[front.clock_offset :] == front.encode_clock(front.rate)
    assert Front.parse(data.ljust(HEAD_BYTES, b"\0")) == front


@given(FRONTS, st.data())
def test_a_front_that_is_cut_or_changed_is_none(front: Front, data: st.DataObject) -> None:
    whole = front.encode()
    assert Front.parse(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    parsed = Front.parse(bytes(changed))
    assert parsed is None or parsed.encode() == changed


@given(st.binary(max_size=HEAD_BYTES))
def test_any_other_bytes_are_no_front(data: bytes) -> None:
    assert Front.parse(data) is None
    front = Front.parse(encode.MAGIC + data)
    assert front is None or (encode.MAGIC + data).startswith(front.encode())


@given(WORDS, SLOTS, WORDS, SLOTS, st.integers(0, 2**32 - 1))
def test_names_are_kernel_objects(koid: int, name: int, process: int, key: int, cost: int) -> None:
    named = r.KernelObject(ObjectType.PROCESS, koid, name, ())
    assert encode.process(koid, name, {}) == encode_record(named)
    large = 2**32 + process % 2**63
    facts = (r.Uint32Argument(key, cost), r.Uint64Argument(key ^ 1, large))
    named = r.KernelObject(ObjectType.PROCESS, koid, name, facts)
    assert encode.process(koid, name, {key: cost, key ^ 1: large}) == encode_record(named)
    arguments = (r.KoidArgument(key, process),)
    thread = r.KernelObject(ObjectType.THREAD, koid, name, arguments)
    assert encode.thread_name(koid, name, process, key) == encode_record(thread)


@given(WORDS, PIDS, st.tuples(SLOTS, SLOTS, SLOTS), WORDS)
def test_a_loss_is_an_instant_and_a_provider_event(
    tick: int, process: int, texts: tuple[int, int, int], count: int
) -> None:
    category, name, key = texts
    arguments = (r.Uint64Argument(key, count),)
    instant = r.Instant(tick, r.Thread(process, process), category, name, arguments)
    event = r.ProviderEvent(process, ProviderEventId.BUFFER_FILLED_UP)
    assert encode.loss(tick, process, texts, count) == encode_record(instant) + encode_record(event)
