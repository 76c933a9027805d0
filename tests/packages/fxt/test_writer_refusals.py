"""Events that the writer refuses: nothing of the event is written, the file stays valid, the writer stays usable."""

from __future__ import annotations

import enum
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fxtio
from fxtio.errors import EncodeError
from fxtio.fxt import FxtWriter, Koid, Pointer
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread
from fxtio.fxt.writer import Track

LONG = "x" * 32_001
LONE = "\ud800"
TOO_BIG = 1 << 64


def arg(value: Any, key: Any = "key") -> Callable[[Track], None]:
    return lambda track: track.instant("event", 5, args={key: value})


REFUSED: dict[str, tuple[Callable[[Track], object], str]] = {
    "16 arguments": (lambda t: t.instant("event", 5, args={str(n): n for n in range(16)}), "16 arguments; the limit"),
    "16 series": (lambda t: t.counter("event", 5, {str(n): n for n in range(16)}), "16 arguments"),
    "name too long": (lambda t: t.instant(LONG, 5), "name: .*32,001 bytes"),
    "name too long in UTF-8": (lambda t: t.instant("ä" * 16_001, 5), "name: .*32,002 bytes"),
    "category too long": (lambda t: t.instant("event", 5, category=LONG), "category: .*32,001 bytes"),
    "key too long": (arg(1, LONG), "args: .*32,001 bytes"),
    "text too long": (arg(LONG), "32,001 bytes"),
    "blob too long": (arg(bytes(40_000)), "size"),
    "record too long": (
        lambda t: t.instant("event", 5, args={"a": "x" * 20_000, "b": "x" * 20_000}),
        "size: 5,.* words are over the limit of 4,095",
    ),
    "name is not text": (lambda t: t.instant(5, 5), "5 is not text"),  # type: ignore[arg-type]
    "name is bytes": (lambda t: t.instant(b"event", 5), "b'event' is not text"),  # type: ignore[arg-type]
    "name is a list": (lambda t: t.instant(["event"], 5), "is not text"),  # type: ignore[arg-type]
    "no category": (lambda t: t.instant("event", 5, category=None), "category: None"),  # type: ignore[arg-type]
    "key is not text": (arg(1, 5), "5 is not text"),
    "lone surrogate in name": (lambda t: t.instant(LONE, 5), "name: .*lone surrogate"),
    "lone surrogate in category": (lambda t: t.instant("event", 5, category=LONE), "category: .*lone surrogate"),
    "lone surrogate in key": (arg(1, LONE), "args: .*lone surrogate"),
    "negative time": (lambda t: t.instant("event", -1), "timestamp: -1"),
    "time too big": (lambda t: t.instant("event", TOO_BIG), "timestamp: 18446744073709551616"),
    "fractional time": (lambda t: t.instant("event", 5.0), "timestamp: 5.0"),  # type: ignore[arg-type]
    "time is text": (lambda t: t.instant("event", "5"), "timestamp: '5'"),  # type: ignore[arg-type]
    "no time": (lambda t: t.instant("event", None), "timestamp: None"),  # type: ignore[arg-type]
    "negative end": (lambda t: t.complete("event", 5, -1), "end: -1"),
    "fractional end": (lambda t: t.complete("event", 5, 7.5), "end: 7.5"),  # type: ignore[arg-type]
    "negative id": (lambda t: t.async_begin("event", 5, -1), "id: -1"),
    "id too big": (lambda t: t.flow_begin("event", 5, TOO_BIG), "id: 18446744073709551616"),
    "counter id is text": (lambda t: t.counter("event", 5, {}, id="a"), "id: 'a'"),  # type: ignore[arg-type]
    "integer too big": (arg(TOO_BIG), r"args\['key'\]: 18446744073709551616"),
    "integer too small": (arg(-(1 << 63) - 1), r"args\['key'\]: -9223372036854775809"),
    "koid too big": (arg(Koid(TOO_BIG)), "18446744073709551616"),
    "negative pointer": (arg(Pointer(-1)), "-1"),
    "value of no type": (arg([1]), r"args\['key'\]: no argument type holds a list"),
    "complex value": (arg(1j), r"args\['key'\]: no argument type holds a complex"),
    "log too long": (lambda t: t.log(LONG, 5), "message: .*32,001 bytes"),
    "log without a time": (lambda t: t.log("message", -5), "timestamp: -5"),
    "object type without a name": (
        lambda t: t._provider.kernel_object(77, 1, "name"),
        "object_type: 77 is not one of 0 none, 1 process, 2 thread, .*`put` writes records with other values",
    ),
    "blob type 0": (lambda t: t._provider.blob("name", b"", 0), "blob_type: 0 is not one of 1 data"),
    "blob type 9": (lambda t: t._provider.blob("name", bytes(40_000), 9), "blob_type: 9 is not one of 1 data"),
    "state 9": (lambda t: t._provider.context_switch(1, 0, 1, 2, 9), "outgoing_state: 9 is not one of 0 new"),
    "state 9 in the older form": (
        lambda t: t._provider.legacy_context_switch(1, 0, t, t, 9), "outgoing_state: 9 is not one of 0 new",
    ),
    "large blob without a time": (lambda t: t.large_blob("event", b"bytes", -5), "timestamp: -5"),
}  # fmt: skip


def refuses(refused: Callable[[Track], object], message: str, *, before: int = 1) -> None:
    """Check that two refused calls among good events write nothing."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(before):
            track.instant("event", number, category="cat", args={"key": number})
        for _ in range(2):
            with pytest.raises(EncodeError, match=message):
                refused(track)
        track.instant("event", 10, category="cat", args={"key": "after"})
        track.instant("new", 11)
    assert events(out.getvalue()) == [
        *[("event", number, {"key": number}) for number in range(before)],
        ("event", 10, {"key": "after"}),
        ("new", 11, {}),
    ]


def events(data: bytes) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the events of the thread 1, 2; check that the trace has no other events, and no findings."""
    records = [
        record for record in fxtio.open(data, strict=True) if not isinstance(record, rec.String | rec.ThreadRecord)
    ][4:]
    assert {(type(record), record.thread) for record in records} == {(rec.Instant, Thread(1, 2))}
    return [
        (record.name, record.timestamp, {argument.name: argument.value for argument in record.args})
        for record in records
    ]


@pytest.mark.parametrize(("refused", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("before", [0, 3])
def test_nothing_of_a_refused_event_is_written(refused: Callable[[Track], object], message: str, before: int) -> None:
    refuses(refused, message, before=before)


def test_a_lone_surrogate_in_a_value_is_refused() -> None:
    refuses(arg(LONE), r"args\['key'\].*lone surrogate")


@pytest.mark.parametrize("value", [int, np.array([1, 2]), np.array(["a"])], ids=["class", "integers", "texts"])
def test_values_that_only_look_like_integers_are_refused(value: Any) -> None:
    refuses(arg(value), r"args\['key'\]: no argument type holds")


@pytest.mark.parametrize(
    "refused",
    [
        lambda t: t.complete("event", 5, None),
        lambda t: t.async_end("event", 5, None),
        lambda t: t.counter("event", 5, {"a": 1}, id=None),
    ],
    ids=["end", "async id", "counter id"],
)
def test_a_missing_end_or_id_is_refused(refused: Callable[[Track], object]) -> None:
    refuses(refused, "None is not an unsigned 64-bit integer")


def test_arguments_that_are_no_mapping_are_refused() -> None:
    refuses(lambda track: track.instant("event", 5, args=["key"]), "args")  # type: ignore[arg-type]


WRONG_THREADS: list[tuple[Any, Any]] = [(-1, 2), (1, -1), (TOO_BIG, 2), (1, TOO_BIG), ("a", 2), (1.5, 2)]


@pytest.mark.parametrize(("process", "thread"), WRONG_THREADS)
def test_koids_that_cannot_be(process: Any, thread: Any) -> None:
    refuses(lambda track: track._provider.thread(process, thread).instant("event", 5), "ThreadRecord")


def test_a_thread_without_a_koid() -> None:
    refuses(lambda track: track._provider.thread(1, None).instant("event", 5), "thread")  # type: ignore[arg-type]


def test_wrong_threads_take_no_slot() -> None:
    """Also when the table is full: the thread that would give way stays."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, number) for number in range(1000, 1255)]
        for _ in range(2):
            for track in tracks:
                track.instant("event", _)
            for wrong in WRONG_THREADS:
                with pytest.raises(EncodeError):
                    writer.thread(*wrong).instant("event", 5)
    threads = [record.thread for record in fxtio.open(out.getvalue(), strict=True) if isinstance(record, rec.Instant)]
    assert threads == [Thread(1, number) for number in range(1000, 1255)] * 2


OTHER: dict[str, tuple[Callable[[FxtWriter], object], str]] = {
    "object type": (lambda w: w.main.kernel_object(256, 5, "name"), "object_type: 256"),
    "object koid": (lambda w: w.main.kernel_object(1, -5, "name"), "koid: -5"),
    "object name": (lambda w: w.main.kernel_object(1, 5, LONG), "32,001"),
    "object arguments": (lambda w: w.main.kernel_object(1, 5, "name", {str(n): n for n in range(16)}), "16 arguments"),
    "pointer": (lambda w: w.main.userspace_object(TOO_BIG, 5, "name"), "pointer"),
    "thread name": (lambda w: w.thread(1, 2, LONG), "32,001"),
    "process name": (lambda w: w.thread(1, 2, "name", LONG), "32,001"),
    "cpu": (lambda w: w.main.context_switch(1, 1 << 16, 2, 3, 4), "cpu: 65536"),
    "state": (lambda w: w.main.context_switch(1, 2, 3, 4, 16), "outgoing_state: 16"),
    "incoming": (lambda w: w.main.context_switch(1, 2, 3, -4, 5), "incoming: -4"),
    "waking": (lambda w: w.main.thread_wakeup(1, 2, TOO_BIG), "waking"),
    "legacy cpu": (lambda w: w.main.legacy_context_switch(1, 256, w.thread(1, 2), w.thread(1, 3), 4), "cpu: 256"),
    "priority": (
        lambda w: w.main.legacy_context_switch(1, 2, w.thread(1, 2), w.thread(1, 3), 4, 256),
        "outgoing_priority: 256",
    ),
    "blob name": (lambda w: w.main.blob(LONG, b"bytes"), "32,001"),
    "blob type": (lambda w: w.main.blob("name", b"bytes", 256), "blob_type: 256"),
    "module name": (lambda w: w.main.module(1, 2, 3, "x" * 256, b""), "name_size: 256"),
    "build id": (lambda w: w.main.module(1, 2, 3, "name", bytes(256)), "build_id_size: 256"),
    "module id": (lambda w: w.main.module(1, 2, 1 << 16, "name", b""), "module: 65536"),
    "mmap flags": (lambda w: w.main.mmap(1, 2, 3, 4, 5, 6, 8), "flags: 8"),
    "frames": (lambda w: w.main.backtrace(1, 2, 3, range(256)), "frame_count: 256"),
    "frame": (lambda w: w.main.backtrace(1, 2, 3, [-1]), "frames: -1"),
}


@pytest.mark.parametrize(("refused", "message"), OTHER.values(), ids=OTHER)
def test_other_records_are_refused_as_a_whole(refused: Callable[[FxtWriter], object], message: str) -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        track.instant("event", 1)
        with pytest.raises(EncodeError, match=message):
            refused(writer)
        track.instant("event", 2)
    records = [record for record in fxtio.open(out.getvalue(), strict=True) if not isinstance(record, rec.KernelObject)]
    assert [(record.name, record.timestamp) for record in records if isinstance(record, rec.Event)] == [
        ("event", 1),
        ("event", 2),
    ]
    assert all(isinstance(record, rec.String | rec.ThreadRecord | rec.Instant) for record in records[4:])


# --------------------------------------------------------------------------------- values that are not of plain types


class Name(str, enum.Enum):  # noqa: UP042  # whose str() is not its text
    ONE = "one"


class Number(enum.IntEnum):
    SEVEN = 7


def value_of(value: Any) -> Any:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for _ in range(2):
            writer.thread(1, 2).instant("event", 1, args={"key": value})
    (first, second) = [args["key"] for _, _, args in events(out.getvalue())]
    assert first == second
    return first


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(-5), -5),
        (np.uint64((1 << 64) - 1), (1 << 64) - 1),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.str_("text"), "text"),
        (np.array(5), 5),
        (Number.SEVEN, 7),
        (bytearray(b"bytes"), b"bytes"),
        (memoryview(b"bytes"), b"bytes"),
        (10**18, 10**18),
    ],
)
def test_objects_that_act_as_plain_values(value: Any, expected: Any) -> None:
    actual = value_of(value)
    assert (type(actual), actual) == (type(expected), expected)


@pytest.mark.parametrize("value", [True, False])
def test_a_numpy_boolean_is_written_as_a_boolean(value: bool) -> None:
    assert value_of(np.bool_(value)) is value


def test_text_of_a_subclass_is_the_text_that_it_is() -> None:
    assert value_of(Name.ONE) == "one"
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).instant(Name.ONE, 1)
        writer.thread(1, 2).instant("one", 2)
    assert [name for name, _, _ in events(out.getvalue())] == ["one", "one"]


def test_put_says_why_a_record_is_too_long() -> None:
    """A record with long texts may fit as long as they are slots, and not when they are resolved."""
    out = io.BytesIO()
    with FxtWriter(out) as writer:
        event = rec.Instant(5, Thread(1, 2), LONG[:20_000], LONG[:20_000], ())
        with pytest.raises(EncodeError, match=r"Instant.size: 5,004 words .* an inline text takes words, a slot takes"):
            writer.put(event)
        writer.put(rec.Magic())
        writer.put(rec.String(1, LONG[:20_000]))
        writer.put(event.replace(category=1, name=1))
    assert list(fxtio.open(out.getvalue(), strict=True))[-1] == event


def test_put_writes_values_without_names() -> None:
    records: list[Any] = [
        rec.Magic(), rec.KernelObject(77, 1, "name", ()), rec.Blob("name", 9, b""),
        rec.ContextSwitch(0, 9, 1, 2, 3, ()),
    ]  # fmt: skip
    out = io.BytesIO()
    with FxtWriter(out) as writer:
        for record in records:
            writer.put(record)
    assert list(fxtio.open(out.getvalue())) == records


def test_a_state_that_a_row_needs_is_refused_by_the_name_of_its_column() -> None:
    switch: dict[str, Any] = {
        "type": "context_switch", "ticks": 5, "cpu": 1, "outgoing_thread": 2, "incoming_thread": 3,
        "outgoing_state": [None],
    }  # fmt: skip
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        with pytest.raises(EncodeError, match="outgoing_state: must not be null for"):
            writer.write_table("scheduling", switch)
        writer.write_table("scheduling", switch | {"outgoing_state": "running"})
    assert fxtio.open(out.getvalue()).table("scheduling").num_rows == 1
