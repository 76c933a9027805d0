"""Every rule of Mono recordings: a recording that breaks it breaks nothing else, and sound recordings break none."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import pytest

import fxtio
from contract.damage import DAMAGE
from fxtio import references, synth
from fxtio.codec.stream.kernels import Kernels
from fxtio.errors import DecodeError, EncodeError
from fxtio.mono import columns, frames
from fxtio.mono import records as r
from fxtio.mono.enums import CounterSection, MethodAction
from fxtio.mono.headers import BufferHeader, encode_buffer_header, encode_header
from fxtio.mono.layout import CounterDescription, Reference
from fxtio.mono.rules import check, sequences
from fxtio.mono.rules.values import VALUE_RULES, ValueRule
from fxtio.mono.writer import MonoWriter
from fxtio.rules import rules_of
from support.broken import broken_rules, write_broken
from support.mono_columns import all_kernels
from support.mono_every import every_event
from support.mono_samples import header, written

pytestmark = pytest.mark.once

RULES = rules_of("mono")


def broken(target: Path | bytes) -> Counter[str]:
    """Return how often each rule is broken, according to `check` and to all tables."""
    counts: Counter[str] = Counter()
    with fxtio.open(target, format="mono") as trace:
        check(trace)
        counts |= trace.findings.counts
        trace.tables(*trace.table_names)
        return counts | trace.findings.counts


def test_required_rules_cite_the_specification() -> None:
    required = [rule for rule in RULES.values() if rule.level == "required"]
    assert all(rule.quote and rule.section for rule in required)
    assert len(RULES) > 80


@pytest.mark.parametrize("rule", [rule for rule in broken_rules("mono") if not RULES[rule].reading])
def test_findings_have_the_place_of_the_event(rule: str, tmp_path: Path) -> None:
    """Each finding is where a header or an event begins, so that it can be shown."""
    path = tmp_path / "broken.mlpd"
    write_broken(rule, path)
    with fxtio.open(path, format="mono") as trace:
        check(trace)
        places = {finding.offset for finding in trace.findings}
        assert places <= {entry.offset for entry in trace.entries(resolve=False)}
    with fxtio.open(path, format="mono", strict=True) as trace, pytest.raises(DecodeError, match=" "):
        check(trace)


@pytest.mark.full
@pytest.mark.parametrize("block", [64, 300])
def test_findings_do_not_depend_on_batches(block: int, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlpd"
    for rule in [rule for rule in broken_rules("mono") if not RULES[rule].reading]:
        write_broken(rule, path)
        whole = broken(path)
        with patch.object(frames, "BLOCK", block), patch.object(frames, "MAX_HEADER", 80):
            assert broken(path) == whole


@pytest.mark.full
@pytest.mark.parametrize("kernels", all_kernels(), ids=lambda kernels: type(kernels).__name__)
def test_findings_do_not_depend_on_kernels(kernels: Kernels, tmp_path: Path) -> None:
    path = tmp_path / "broken.mlpd"
    with patch.object(columns, "kernels", lambda: kernels):
        for rule in {*broken_rules("mono")} - {"mono.stack.text"}:  # takes long in Python
            write_broken(rule, path)
            assert {*broken(path)} == {rule, *RULES[rule].implied}


@pytest.mark.full
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_recordings_are_checked(kind: str, tmp_path: Path) -> None:
    """Any bytes give findings only; those of the reader are among them."""
    path = tmp_path / "shape.mlpd"
    synth.write(path, "everything", events=300)
    data = path.read_bytes()[:50_000]
    for seed in range(10):
        damaged = DAMAGE[kind](data, random.Random(seed))
        with fxtio.open(damaged, format="mono") as trace:
            list(trace)
            reported = trace.findings.counts
            check(trace)
            assert trace.findings.counts >= reported
            assert {*trace.findings.counts} <= {*RULES}


PLAIN_RULES = [
    rule for rule in VALUE_RULES if rule.fields in rule.cls.__struct_fields__ and rule.rule != "image.unload"
]
"""The rules about a single field that is no list, and on which no other field depends."""

END = 1 << 64

FORBIDDEN: dict[tuple[str, float], list[range]] = {
    ("gc.unknown-step", 1): [range(10, END)],
    ("gc.unknown-step", 13): [range(12, END)],
    ("gc.unknown-step", 14): [range(1, 5), range(12, END)],
    ("gc.generation", 1): [range(3, END)],
    ("handle.unknown-type", 1): [range(4, END)],
    ("exception.null", 1): [range(1)],
    ("exception.unknown-clause", 1): [range(3, 4), range(5, END)],
    ("monitor.unknown-event", 1): [range(1), range(4, END)],
    ("root.unknown-source", 1): [range(17, END)],
    ("sync.unknown-type", 1): [range(3, END)],
    ("code.unknown-type", 1): [range(11, END)],
    ("code.unknown-type", 14): [range(10, END)],
    ("sample.unknown-type", 1): [range(1), range(7, END)],
    ("allocation.null", 1): [range(1)],
    ("allocation.size-zero", 1): [range(1)],
    ("value.sign-extended", 1): [range(1 << 63, END)],
    ("method.code-size", 1): [range((1 << 30) + 1, 1 << 63)],
}
"""The values that rules forbid, by their names and the first data version that they are about."""


def test_the_values_of_all_plain_rules_are_known() -> None:
    assert {(rule.rule, rule.since) for rule in PLAIN_RULES} == FORBIDDEN.keys()


@pytest.mark.full
@pytest.mark.parametrize("rule", PLAIN_RULES, ids=lambda rule: f"{rule.rule}-{rule.cls.__name__}-{rule.since}")
def test_exactly_the_forbidden_values_are_found(rule: ValueRule) -> None:
    """Whatever number is in the field, in each version that has it."""
    tried = set()
    for version in (4, 12, 13, 14, 17):
        event = next((event for event in every_event(version) if type(event) is rule.cls), None)
        if event is None or not rule.since <= version < rule.before:
            continue
        for value in (*range(20), 24, 127, 255, 1 << 30, (1 << 30) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            try:
                data = written(version, [event.replace(**{rule.fields: value})])
            except EncodeError:
                continue  # the version does not have the field, or no room for the value
            expected = any(value in values for values in FORBIDDEN[rule.rule, rule.since])
            assert (f"mono.{rule.rule}" in broken(data)) == expected, (version, value)
            tried.add(expected)
    assert tried == {True, False}


def messages(rule: str, data: bytes) -> list[str]:
    """Return the messages of the findings about a rule."""
    with fxtio.open(data, format="mono") as trace:
        check(trace)
        return [finding.message for finding in trace.findings if finding.rule == f"mono.{rule}"]


@pytest.mark.parametrize("interrupted", [0, 0x70])
def test_sampled_threads_exist(interrupted: int) -> None:
    """Also 0 is told; it is no thread, and no pointer either."""
    sample = r.SampleHit(time=1, interrupted=interrupted, addresses=(1,), frames=())
    text = "is sampled, but no event announces it, and it writes no events"
    assert messages("sample.thread", written(17, [sample])) == [f"the thread {interrupted:#x} {text}"]
    writer = "the thread 0x1 writes events, but no event announces it"
    assert messages("thread.undefined", written(17, [sample])) == [writer]


def test_messages_have_the_values() -> None:
    def counter(index: int, **changes: Any) -> CounterDescription:
        values = {"section": CounterSection.JIT, "name": "a", "type": 7, "unit": 0, "variance": 1, "index": index}
        return CounterDescription(**{**values, **changes})

    counters = (counter(3, type=8), counter(4), counter(5, section=CounterSection.PERFCOUNTERS, category="b"))
    data = written(
        17,
        [
            r.CounterDescriptions(time=1, counters=counters),
            r.JitMethod(time=2, method=8, code=0, size=(1 << 64) - 16, name=""),
            r.JitMethod(time=2, method=16, code=0, size=(1 << 30) + 1, name="c"),
        ],
    )
    assert {rule: messages(rule, data) for rule in ("counter.unknown-type", "counter.performance")} == {
        "counter.unknown-type": ["CounterDescriptions: counters[].type is 8, counters[].index is 3"],
        "counter.performance": ["CounterDescriptions: counters[].section is 32,768, counters[].index is 5"],
    }
    assert messages("value.sign-extended", data) == ["JitMethod: size is 0xfffffffffffffff0"]
    assert messages("method.code-size", data) == ["JitMethod: size is 1,073,741,825"]
    assert messages("text.empty-name", data) == ["JitMethod.name is empty"]


def test_the_order_of_buffers_is_told_with_the_thread() -> None:
    out = io.BytesIO()
    with MonoWriter(out, header=header()) as writer:
        for thread, time in ((5, 9), (6, 8), (5, 7)):
            writer.put(BufferHeader(time=time, thread=thread))
            writer.put(r.SyncPoint(time=time, sync_type=0))
    expected = ["the buffer begins at 7 ns, earlier than the last of thread 0x5"]
    assert messages("buffer.order", out.getvalue()) == expected


def expected_of_shots(events: list[tuple[int, r.Event]]) -> Counter[str]:
    """Return how often events break the rules of heap shots, found event by event."""
    counts: Counter[str] = Counter()
    shot: tuple[int, set[int], set[int]] | None = None  # the thread, the objects, the targets of references
    for thread, event in events:
        if isinstance(event, r.HeapObject) and shot is not None:
            owner, objects, targets = shot
            is_first = event.object not in objects
            counts["mono.heap.other-thread"] += thread != owner
            counts["mono.heap.no-size"] += is_first and not event.size
            counts["mono.heap.second-size"] += not is_first and event.size > 0
            objects.add(event.object)
            targets |= {reference.object for reference in event.references}
        elif isinstance(event, r.HeapObject):
            counts["mono.heap.outside"] += 1
        else:
            is_start = isinstance(event, r.HeapStart)
            counts["mono.heap.nested"] += is_start and shot is not None
            counts["mono.heap.end-without-start"] += not is_start and shot is None
            counts["mono.heap.missing-object"] += 0 if shot is None else len(shot[2] - shot[1])
            shot = (thread, set(), set()) if is_start else None
    return +counts


@pytest.mark.full
@pytest.mark.parametrize("block", [64, 500, frames.BLOCK])
def test_heap_shots_are_checked_as_if_event_by_event(block: int) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        events: list[tuple[int, r.Event]] = []
        out = io.BytesIO()
        with MonoWriter(out, header=header()) as writer:
            for time in range(1, 60):
                objects = [8 * draw.randrange(1, 7) for _ in range(4)]
                refers = tuple(Reference(field_offset=8, object=each) for each in objects[: draw.randrange(3)])
                size = draw.choice([0, 24])
                event = draw.choice(
                    [
                        r.HeapStart(time=time),
                        r.HeapEnd(time=time),
                        *[
                            r.HeapObject(
                                time=time, object=objects[3], vtable=8, size=size, generation=0, references=refers
                            )
                        ]
                        * 4,
                    ]
                )
                thread = draw.choice([1, 1, 1, 2])
                if draw.random() < 0.3 or not events or thread != events[-1][0]:
                    writer.put(BufferHeader(time=time, thread=thread))
                writer.put(event)
                events.append((thread, event))
        with patch.object(frames, "BLOCK", block), patch.object(frames, "MAX_HEADER", 80):
            counts = broken(out.getvalue())
        assert Counter({rule: count for rule, count in counts.items() if ".heap." in rule}) == expected_of_shots(events)


def expected_of_calls(events: list[tuple[int, r.Event]]) -> Counter[str]:
    """Return how often events break the rules of calls and of methods, found event by event."""
    counts: Counter[str] = Counter()
    stacks: dict[int, list[int]] = {}
    defined: set[int] = set()
    undefined: set[int] = set()
    for thread, event in events:
        if isinstance(event, r.JitMethod):
            counts["mono.method.late"] += event.method in undefined
            undefined.discard(event.method)
            defined.add(event.method)
            continue
        assert isinstance(event, r.Call)
        undefined |= {event.method} - defined
        stack = stacks.setdefault(thread, [])
        if event.action == MethodAction.ENTER:
            stack.append(event.method)
        elif event.method in stack:
            while stack.pop() != event.method:
                counts["mono.call.not-left"] += 1
        else:
            counts["mono.call.leave-without-enter"] += 1
    counts["mono.method.undefined"] = len(undefined)
    return +counts


@pytest.mark.full
@pytest.mark.parametrize("block", [64, 500, frames.BLOCK])
def test_calls_are_checked_as_if_event_by_event(block: int) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        events: list[tuple[int, r.Event]] = []
        out = io.BytesIO()
        with MonoWriter(out, header=header()) as writer:
            for time in range(1, 60):
                method = draw.randrange(1, 8)
                action = draw.choice([*MethodAction, MethodAction.ENTER])
                event: r.Event = r.Call(time=time, action=action, method=method)
                if draw.random() < 0.1:
                    event = r.JitMethod(time=time, method=method, code=0, size=0, name="Method")
                thread = draw.choice([1, 1, 1, 2])
                if draw.random() < 0.3 or not events or thread != events[-1][0]:
                    writer.put(BufferHeader(time=time, thread=thread))
                writer.put(event)
                events.append((thread, event))
        with patch.object(frames, "BLOCK", block), patch.object(frames, "MAX_HEADER", 80):
            counts = broken(out.getvalue())
        counts.pop("mono.thread.undefined")
        assert counts == expected_of_calls(events)


def buffers(events: str) -> Callable[[int], bytes]:
    """Return a function that makes a recording with this many times some events in one buffer, and a header."""

    def make(count: int) -> bytes:
        data = bytes.fromhex(events) * count
        return encode_header(header()) + encode_buffer_header(BufferHeader(thread=1), len(data)) + data

    return make


def many(events: str, *, recordings: bool = False) -> Callable[[int], bytes]:
    """Return a function that makes a recording with this many buffers of different threads, or this many recordings."""
    head, data = encode_header(header()), bytes.fromhex(events)

    def make(count: int) -> bytes:
        threads = [encode_buffer_header(BufferHeader(thread=number + 1), len(data)) + data for number in range(count)]
        return head.join([b"", *threads]) if recordings else head + b"".join(threads)

    return make


HOSTILE: dict[str, tuple[Callable[[int], bytes], int]] = {
    "starts of heap shots": (buffers("06 00"), 4000),
    "heap shots": (buffers("06 00 26 00 00 00 08 00 00 16 00"), 1000),
    "references": (buffers("26 00 08 00 08 00 02 08 10 08 18"), 1000),
    "threads that enter": (many("23 00 08"), 100),
    "threads that leave": (many("13 00 08"), 100),
    "recordings": (many("21 05 4d", recordings=True), 30),
    "exits": (buffers("13 00 08"), 3000),
    "entries": (buffers("23 00 08"), 3000),
    "collections": (buffers("11 00 00 00"), 3000),
    "methods": (buffers("43 00 08 00 00 00"), 2000),
    "counters": (buffers("37 00 01 00 00 00 00 00 00"), 1000),
    "values of counters": (buffers("47 00 01 00 00 00"), 2000),
    "texts": (buffers("1a 00 ff 00"), 2000),
    "images": (buffers("22 00 02 08 41 00 41 00"), 1000),
}
"""Events that are cheap to write, and how many of them are few."""


@pytest.mark.parametrize("name", HOSTILE)
def test_sixteen_times_as_many_events_do_not_take_much_more_than_sixteen_times_as_long(name: str) -> None:
    """A program that runs at the same time may slow a reading down, but not all of them."""
    make, few = HOSTILE[name]

    def seconds(count: int) -> float:
        start = process_time()
        with fxtio.open(make(count), format="mono") as trace:
            check(trace)
        return process_time() - start

    assert any(seconds(16 * few) < 40 * max(seconds(few), 0.01) for _ in range(8))


def test_recordings_in_a_file_have_nothing_in_common(tmp_path: Path) -> None:
    path = tmp_path / "one.mlpd"
    names = ["mono.heap.nested", "mono.gc.end-without-start", "mono.method.undefined", "mono.gc.start-twice"]
    data = b""
    for rule in names:
        write_broken(rule, path)
        data += path.read_bytes()
    assert broken(data * 5) == Counter(names * 5)


def test_a_set_that_is_full_gives_no_findings(tmp_path: Path) -> None:
    """What does not fit in memory is not reported as missing."""
    path = tmp_path / "calls.mlpd"
    with MonoWriter(path, header=header()) as writer:
        thread = writer.thread(0x1000, time=1)
        methods = [writer.method(f"Method{number}", time=2, thread=thread) for number in range(50)]
        for time, method in enumerate(methods, 3):
            writer.enter(method, time=time, thread=thread)
        for time, method in enumerate(reversed(methods), 60):
            writer.leave(method, time=time, thread=thread)
    assert not broken(path)
    with patch.object(references, "MOST_NUMBERS", 10):
        assert not broken(path)


def peak_of(calls: int, folder: Path) -> int:
    """Return the most memory that checking a recording of this many open calls takes, in bytes."""
    path = folder / f"{calls}.mlpd"
    with MonoWriter(path, header=header()) as writer:
        writer.thread(0x1000, time=1)
        columns = {"time": 5, "action": 2, "thread": 0x1000, "method": range(1 << 20, (1 << 20) + calls)}
        writer.write_table("calls", columns)
    tracemalloc.start()
    with fxtio.open(path, format="mono") as trace:
        check(trace)
        assert {*trace.findings.counts} == {"mono.method.undefined"}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.full
def test_memory_is_bounded(tmp_path: Path) -> None:
    """Neither open calls nor methods without a name fill the memory, however long the recording is."""
    with (
        patch.object(frames, "BLOCK", 1 << 18),
        patch.object(sequences, "MOST_OPEN_CALLS", 1 << 12),
        patch.object(references, "MOST_UNDEFINED", 1 << 12),
    ):
        peak_of(1 << 12, tmp_path)
        assert peak_of(1 << 20, tmp_path) < 1.3 * peak_of(1 << 19, tmp_path)
