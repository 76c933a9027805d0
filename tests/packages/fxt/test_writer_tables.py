"""After the friendly methods: packed events equal typed records, and every slot means what it meant when it was used.

Small tables (`small_tables`) overflow at once, so that a property test meets every kind of reuse.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.generate import encode
from fxtio.codec.record import Opaque
from fxtio.errors import EncodeError
from fxtio.fxt import FxtWriter, Koid, Pointer, event_columns
from fxtio.fxt import events as single_events
from fxtio.fxt import records as rec
from fxtio.fxt.events import MAX_TABLE_TEXT, ProviderEncoder
from fxtio.fxt.layout import MAX_STRING_SLOT, MAX_THREAD_SLOT
from fxtio.fxt.records import EVENT_CLASSES, Thread

# ------------------------------------------------------------------------------------------- packed equals typed

EDGES = [edge + step for bits in (31, 32, 63, 64) for edge in (1 << bits, -(1 << bits)) for step in (-1, 0, 1)]
short_texts = st.sampled_from(["", "a", "name", "ü"]) | st.text(max_size=4)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(EDGES),
    st.floats(),
    short_texts,
    st.sampled_from(["x" * MAX_TABLE_TEXT, "ä" * (MAX_TABLE_TEXT // 2) + "x", "\udcff", "x" * 32_001]),
    st.binary(max_size=9),
    st.builds(Koid, st.sampled_from([0, 5, (1 << 64) - 1, 1 << 64, -1])),
    st.builds(Pointer, st.sampled_from([0, 5, (1 << 64) - 1, 1 << 64, -1])),
    st.sampled_from([np.int64(7), np.float32(0.5), [1], 1j]),
)
times = st.integers(0, 9) | st.sampled_from([(1 << 64) - 1, 1 << 64, -1, np.uint64(7)])
KEYS = [(), ("a",), ("b",), ("a", "b"), ("b", "a"), tuple(str(number) for number in range(15)), ("", "a", "ü")]


@st.composite
def event(draw: st.DrawFn) -> tuple[Any, ...]:
    """Generate arguments of `ProviderEncoder.event`: few names, so that shapes repeat, and values of any type."""
    kind = draw(st.sampled_from(sorted(EVENT_CLASSES)))
    args = {key: draw(values) for key in draw(st.sampled_from(KEYS))}
    category, name = draw(st.sampled_from(["", "c"])), draw(st.sampled_from(["a", "name", "name 2"]))
    has_tail = {"end", "id"} & set(EVENT_CLASSES[kind].__struct_fields__)
    return kind, draw(st.integers(0, 1)), category, name, draw(times), args or None, draw(times) if has_tail else None


def packer() -> ProviderEncoder:
    encoder = ProviderEncoder(bytearray(), "little", contextlib.nullcontext)
    encoder.is_current = True
    assert [encoder.thread_number(Thread(1, 2)), encoder.thread_number(Thread(1, 3))] == [0, 1]
    return encoder


def refusal(emit: Callable[..., None], given: tuple[Any, ...]) -> str | None:
    try:
        emit(*given)
    except EncodeError as error:
        return str(error)
    return None


@given(st.lists(event(), max_size=30))
def test_packed_events_equal_typed_records(given: list[tuple[Any, ...]]) -> None:
    quick, thorough = packer(), packer()
    for values in given:
        assert refusal(quick.put_event, values) == refusal(thorough.put_event_record, values)
        assert quick.out == thorough.out


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_the_second_event_of_a_shape_is_packed(kind: str) -> None:
    """Otherwise the property above would compare one way with itself."""
    tail = 5 if {"end", "id"} & set(EVENT_CLASSES[kind].__struct_fields__) else None
    args: dict[str, Any] = {
        "none": None, "bool": True, "int32": 1, "uint32": 1 << 31, "int64": 1 << 32, "uint64": 1 << 63, "double": 0.5,
        "text": "one", "koid": Koid(1), "pointer": Pointer(2),
    }  # fmt: skip
    other = {**args, "bool": False, "int32": -2, "double": 2.5, "text": "none", "koid": Koid(3)}
    encoder = packer()
    encoder.put_event(kind, 0, "cat", "name", 1, args, tail)
    encoder.put_event(kind, 0, "cat", "name", 1, None, tail)
    with mock.patch.object(ProviderEncoder, "put_event_record", side_effect=AssertionError):
        encoder.put_event(kind, 0, "cat", "name", 2, other, tail)
        encoder.put_event(kind, 0, "cat", "name", 2, None, tail)


# ------------------------------------------------------------------------------------------------- overflowing tables


def events(data: bytes) -> list[Any]:
    """Return the resolved events; raise for any fault."""
    return [record for record in fxtio.open(data, strict=True) if isinstance(record, rec.Event)]


def plain(record: Any) -> tuple[Any, ...]:
    return (
        record.thread.thread,
        record.name,
        record.category,
        {argument.name: argument.value for argument in record.args},
    )


@contextlib.contextmanager
def small_tables(strings: int, threads: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in (single_events, event_columns):
            stack.enter_context(mock.patch.object(module, "MAX_STRING_SLOT", strings))
            stack.enter_context(mock.patch.object(module, "MAX_THREAD_SLOT", threads))
        yield


def fill(writer: FxtWriter, count: int) -> None:
    """Take this many slots of the string table."""
    names = [f"filler {number}" for number in range(count)]
    track = writer.thread(1, 2)
    writer.main.write_events("instant", timestamp=np.arange(count), thread=track, name=(names, np.arange(count)))


ARGS = {f"key {number}": f"value {number}" for number in range(15)}
NEEDS_ROOM: dict[str, Callable[[FxtWriter], object]] = {
    "event": lambda writer: writer.thread(1, 2).instant("name", 5, category="category", args=ARGS),
    "large blob": lambda writer: writer.thread(1, 2).large_blob("name", b"bytes", 5, category="category", args=ARGS),
    "kernel object": lambda writer: writer.main.kernel_object(1, 2, "name", ARGS),
}


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("room", [1, 2, 17, 30, 31, 32, 33])
@pytest.mark.parametrize("write", NEEDS_ROOM.values(), ids=NEEDS_ROOM)
def test_a_record_at_the_end_of_the_string_table(write: Callable[[FxtWriter], object], room: int) -> None:
    """32 new strings: no slot that the record refers to may be used again for another of its strings."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        fill(writer, MAX_STRING_SLOT - room)
        write(writer)
        writer.thread(1, 2).instant("filler 0", 6, category="filler 1", args={"name": "filler 2"})
    records = list(fxtio.open(out.getvalue(), strict=True))
    (record,) = [item for item in records if len(getattr(item, "args", ())) == 15]
    assert (record.name, getattr(record, "category", "category")) == ("name", "category")
    assert {argument.name: argument.value for argument in record.args} == ARGS
    assert plain(records[-1]) == (2, "filler 0", "filler 1", {"name": "filler 2"})


@pytest.mark.full
def test_slots_are_reused() -> None:
    count = 2 * MAX_STRING_SLOT + 100
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(count):
            track.instant(f"name {number}", number)
    table = fxtio.open(out.getvalue(), strict=True).table("events")
    assert list(table["name"]) == [f"name {number}" for number in range(count)]
    strings = fxtio.open(out.getvalue(), strict=True).table("strings")
    assert strings.num_rows == count
    slots = set(np.asarray(strings["index"]).tolist())
    assert (min(slots), max(slots)) == (1, len(slots))
    assert MAX_STRING_SLOT - 32 <= len(slots) <= MAX_STRING_SLOT
    assert len(out.getvalue()) < 45 * count  # and every name was defined once


def test_a_thousand_threads() -> None:
    """In turns, each with a shape that was known when the thread lost its slot."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(number % 7, number) for number in range(1000)]
        for lap in range(4):
            for track in tracks if lap % 2 else reversed(tracks):
                track.instant("name", lap, args={"thread": track.thread})
                track.log("message", lap)
    records = list(fxtio.open(out.getvalue(), strict=True))
    instants: list[Any] = [record for record in records if isinstance(record, rec.Instant)]
    for cls in (rec.Instant, rec.Log):
        threads = [record.thread for record in records if isinstance(record, cls)]
        forth = [Thread(number % 7, number) for number in range(1000)]
        assert threads == [*forth[::-1], *forth, *forth[::-1], *forth]
    assert [plain(record)[3] for record in instants] == [{"thread": record.thread.thread} for record in instants]
    assert max(record.index for record in records if isinstance(record, rec.ThreadRecord)) == MAX_THREAD_SLOT


def test_bulk_threads_keep_their_slots() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, 1000 + number) for number in range(MAX_THREAD_SLOT + 1)]
        for track in tracks[:MAX_THREAD_SLOT]:
            track.instant("friendly", 1)
        chosen = [tracks[0], tracks[MAX_THREAD_SLOT]]
        writer.main.write_events("instant", timestamp=[2, 3], thread=(chosen, [0, 1]), name="bulk")
    bulk = [(record.timestamp, record.thread.thread) for record in events(out.getvalue()) if record.name == "bulk"]
    assert bulk == [(2, 1000), (3, 1000 + MAX_THREAD_SLOT)]


def test_as_many_bulk_threads_as_slots() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for first in (0, 100, 400):
            tracks = [writer.thread(1, first + number) for number in range(MAX_THREAD_SLOT)]
            rows = np.arange(MAX_THREAD_SLOT)
            writer.main.write_events("instant", timestamp=rows, thread=(tracks, rows), name=f"from {first}")
    assert [(record.name, record.thread.thread) for record in events(out.getvalue()) if record.name != "from 100"] == [
        (f"from {first}", first + number) for first in (0, 400) for number in range(MAX_THREAD_SLOT)
    ]


def test_a_repeated_shape_after_the_string_table_was_full() -> None:
    expected = []
    out = io.BytesIO()
    with small_tables(40, 255), fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(50):
            for name in ("name", f"name {number}"):
                track.instant(name, number, category="cat", args={"key": "value"})
                expected.append((2, name, "cat", {"key": "value"}))
    assert [plain(record) for record in events(out.getvalue())] == expected


# ------------------------------------------------------------------------------------- all ways of writing, mixed


@dataclass(frozen=True)
class Step:
    """Something that a program does: `way` says how, the rest what."""

    way: str
    provider: int
    threads: tuple[int, ...]
    names: tuple[str, ...]


names = st.sampled_from(["name", "key", "other"])
steps = st.builds(
    Step,
    st.sampled_from([*["event"] * 12, *["bulk"] * 4, "large", "inline", "own section", "own table"]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True).map(tuple),
    st.lists(names, min_size=1, max_size=2).map(tuple),
)


def take(writer: FxtWriter, providers: list[Any], step: Step) -> list[tuple[Any, ...]]:
    """Write, and say what should be read."""
    provider, (name, *_), thread = providers[step.provider], step.names, step.threads[0]
    if step.way == "event":
        args = {"key": step.names[-1]}
        provider.thread(1, thread).instant(name, 0, category=step.names[-1], args=args)
        return [(thread, name, step.names[-1], args)]
    if step.way == "bulk":
        count = len(step.names) * len(step.threads)
        owners = np.arange(count) % len(step.threads)
        rows = np.arange(count) // len(step.threads)
        tracks = [provider.thread(1, thread) for thread in step.threads]
        columns: dict[str, Any] = {"name": (step.names, rows), "args": {"key": (step.names, rows[::-1])}}
        provider.write_events("instant", timestamp=np.zeros(count, int), thread=(tracks, owners), **columns)
        pairs = [(thread, name) for name in step.names for thread in step.threads]
        return [(track, name, "", {"key": last}) for (track, name), (_, last) in zip(pairs, pairs[::-1], strict=True)]
    if step.way == "large":
        provider.thread(1, thread).large_blob(name, b"", 0, category=step.names[-1])
        return [(thread, name, step.names[-1], {})]
    if step.way == "inline":  # belongs to whichever provider is in force, and disturbs none
        writer.put(rec.Instant(0, Thread(1, thread), "", name, ()))
        return [(thread, name, "", {})]
    if step.way == "own section":
        writer.put(rec.ProviderSection(99))  # its slots are still what they were in the beginning
        writer.put(rec.Instant(0, 1, 1, 1, ()))
        return [(99, "own", "own", {})]
    for record in [rec.String(1, name), rec.ThreadRecord(1, 1, thread), rec.Instant(0, 1, 0, 1, ())]:
        writer.put(record)
    for record in [rec.ProviderSection(99), rec.String(1, "own"), rec.ThreadRecord(1, 1, 99)]:
        writer.put(record)
    return [(thread, name, "", {})]


@given(st.lists(steps, min_size=15, max_size=40))
def test_all_ways_of_writing_mix(taken: list[Step]) -> None:
    """A thread keeps its slot while a call uses it, see `test_bulk_threads_keep_their_slots`."""
    out = io.BytesIO()
    expected = []
    with small_tables(34, 3), fxtio.create(out, format="fxt") as writer:
        for record in [rec.Magic(), rec.ProviderInfo(99, "own"), rec.Initialization(1000)]:
            writer.put(record)
        for record in [rec.String(1, "own"), rec.ThreadRecord(1, 1, 99)]:
            writer.put(record)
        providers = [writer.main, writer.provider("second"), writer.provider("third")]
        for step in taken:
            expected += take(writer, providers, step)
    records = list(fxtio.open(out.getvalue(), strict=True))
    assert [plain(record) for record in records if isinstance(record, rec.Instant | rec.LargeBlob)] == expected
    assert max((record.index for record in records if isinstance(record, rec.String)), default=0) <= 34


CHANGES = [
    rec.ProviderInfo(1, "other"),
    rec.ProviderSection(99),
    rec.Initialization(7),
    rec.String(1, "other"),
    rec.ThreadRecord(1, 7, 7),
]


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_friendly_records_keep_their_meaning(change: Any, opaque: bool) -> None:
    """Whatever is put between them, also as raw bytes: times, names and threads."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", ticks_per_second=1000) as writer:
        for record in [rec.Magic(), rec.ProviderInfo(99, "own")]:
            writer.put(record)
        for time in range(3):
            writer.thread(1, 2).instant("name", time, args={"key": "value"})
            writer.put(Opaque(encode(change)) if opaque else change)
    table = fxtio.open(out.getvalue(), strict=True).table("events")
    assert [(row["time"], row["thread"], row["name"]) for row in table.rows()] == [
        (time * 1_000_000, 2, "name") for time in range(3)
    ]
    assert [plain(record)[3] for record in events(out.getvalue())] == [{"key": "value"}] * 3


def test_a_copy_made_with_put_is_the_same() -> None:
    out, copy = io.BytesIO(), io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for number in range(300):
            args = {"a": number, "b": b"bytes", "c": "text"}
            writer.thread(1, number).instant(f"name {number % 40}", number, args=args)
        writer.main.blob("large", bytes(40_000))
    with fxtio.create(copy, format="fxt") as writer:
        for record in fxtio.open(out.getvalue(), strict=True).records(resolve=False):
            writer.put(record)
    assert copy.getvalue() == out.getvalue()


def test_friendly_records_go_on_behind_a_copy() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).instant("first", 1)
    more = io.BytesIO()
    with fxtio.create(more, format="fxt") as writer:
        for record in fxtio.open(out.getvalue(), strict=True).records(resolve=False):
            writer.put(record)
        writer.thread(1, 3).instant("second", 2)
        writer.thread(1, 2).instant("first", 3)
    records = [(event.thread.thread, event.name) for event in events(more.getvalue())]
    assert records == [(2, "first"), (3, "second"), (2, "first")]
