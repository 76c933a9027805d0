"""The rules of Fuchsia traces: the same faults however a trace is divided, known producers, hostile traces, memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.generate import encode
from fxtio.codec.record import Record
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as r
from fxtio.fxt.records import Thread
from fxtio.fxt.rules import check, slots
from fxtio.fxt.rules.slots import MIN_UNUSED
from fxtio.fxt.rules.spans import DEEPEST
from fxtio.fxt.rules.view import MAX_KEPT
from support import costs as cost
from support.broken import broken_rules, write_broken
from support.broken.fxt import FOLLOWING, SLOT, named, preamble
from support.fxt_hostile import damaged_traces
from support.fxt_readings import in_batches, rules

pytestmark = pytest.mark.once

SMALL = 4_096  # bytes
MIB = 1 << 20


def broken(data: bytes) -> Counter[str]:
    trace = FxtTrace(data)
    check(trace)
    return Counter(trace.findings.counts)


def trace_of(*records: Record) -> bytes:
    parts = [*preamble(), *records, *FOLLOWING]
    return b"".join(part if isinstance(part, bytes) else encode(part) for part in parts)


@pytest.mark.full
@pytest.mark.parametrize("rule", broken_rules("fxt"))
@pytest.mark.parametrize("words", [1, 7, 40])
def test_the_same_faults_in_batches_of_any_size(rule: str, words: int, tmp_path: Path) -> None:
    path = tmp_path / "broken.fxt"
    write_broken(rule, path)
    data = path.read_bytes()
    if len(data) <= SMALL:
        expected = {*broken(data)}
        with in_batches(words):
            assert {*broken(data)} == expected


@given(damaged_traces())
def test_hostile_traces_give_findings_and_nothing_else(data: bytes) -> None:
    expected = {*broken(data)}
    for finding in fxtio.open(data, format="fxt").findings:
        assert finding.rule in expected


@pytest.mark.parametrize(
    ("name", "rule", "times"),
    [
        ("ftr-counter-malformed.fxt", "arg.counter-id-first", 3),
        ("ocaml-trace-second.fxt", "provider.name-words", 1),
        ("ffx-symbolize-profiler.fxt", "profiler.inline-thread", 7),
        ("ffx-symbolize-profiler.fxt", "profiler.build-id", 3),
    ],
)
def test_defects_of_other_producers_are_recognized(name: str, rule: str, times: int, corpus: Path) -> None:
    assert broken((corpus / "fxt" / name).read_bytes())[f"fxt.{rule}"] == times


@pytest.mark.parametrize("words", [2, 400])
def test_an_event_of_a_provider_that_is_introduced_later(words: int) -> None:
    data = trace_of(r.ProviderEvent(7, 0), r.ProviderInfo(7, "late"), r.ProviderEvent(7, 0))
    with in_batches(words):
        assert broken(data)["fxt.provider.unknown"] == 1


@pytest.mark.parametrize("words", [4, 400])
def test_switches_at_the_same_time(words: int) -> None:
    """The last one in the file tells which thread runs then."""
    switches = [(5, 11, 12), (5, 12, 13), (5, 13, 14), (9, 14, 15), (10, 14, 11)]
    data = trace_of(*(r.ContextSwitch(0, 3, tick, outgoing, incoming, ()) for tick, outgoing, incoming in switches))
    with in_batches(words):
        assert broken(data)["fxt.sched.order"] == 1


def test_an_end_in_another_batch_closes_its_span() -> None:
    begin = r.DurationBegin(10, SLOT, "test", "span", ())
    between = [r.Instant(20, SLOT, "test", "event", ()) for _ in range(100)]
    end = r.DurationEnd(30, SLOT, "test", "span", ())
    with in_batches(30):
        assert broken(trace_of(begin, *between, end)) == {}
        assert broken(trace_of(begin, *between)) == {"fxt.event.open": 1}


def test_a_parent_that_is_written_behind_its_children_encloses_their_flows() -> None:
    """Producers that write complete events when they end write the arrows within before."""
    flows = [r.FlowBegin(110, SLOT, "test", "flow", (), 5), r.FlowEnd(120, SLOT, "test", "flow", (), 5)]
    between = [r.Counter(20, SLOT, "test", "event", (), 1) for _ in range(100)]
    parent = r.DurationComplete(100, SLOT, "test", "span", (), 200)
    with in_batches(30):
        assert "fxt.flow.no-slice" not in broken(trace_of(*flows, *between, parent))
        assert broken(trace_of(*flows, *between))["fxt.flow.no-slice"] == 2


def complete(begin: int, end: int, slot: int = SLOT) -> Record:
    return r.DurationComplete(begin, slot, "test", "span", (), end)


@pytest.mark.parametrize(
    ("late", "rule"),
    [
        (complete(105, 125), "event.overlap"),  # the start of one is in the other
        (complete(95, 105), "event.overlap"),
        (complete(100, 125), "event.child-first"),
        (complete(95, 125), None),
        (complete(102, 108), None),
        (complete(110, 112), None),
    ],
)
def test_complete_events_in_the_order_of_their_ends(late: Record, rule: str | None) -> None:
    """The first one ended, and others came after it, when the one that overlaps it is written."""
    first = complete(100, 110)
    between = [part for time in range(120, 124) for part in (complete(time, time + 1), r.Counter(1, SLOT, 0, 0, (), 1))]
    expected = {f"fxt.{rule}": 1} if rule else {}
    for words in (10, 30, 10_000):
        with in_batches(words):
            found = broken(trace_of(first, *between, late))
            assert {
                name: found[name] for name in found if name.startswith("fxt.event.") and "name" not in name
            } == expected


spans = st.tuples(st.integers(10, 60), st.integers(0, 20), st.integers(1, 2))


@given(st.lists(spans, max_size=25))
def test_overlaps_are_found_in_batches_of_any_size(many: list[tuple[int, int, int]]) -> None:
    """In the order of their ends: whether any overlap on a thread, not how often, as one event may hide another."""
    ordered = sorted(many, key=lambda span: (span[0] + span[1], -span[0]))
    for slot in (1, 2):
        records = [complete(begin, begin + length, number) for begin, length, number in ordered if number == slot]
        data = trace_of(r.ThreadRecord(2, 1, 3), named(3), *records)
        expected = bool({"fxt.event.overlap", "fxt.event.child-first"} & {*broken(data)})
        with in_batches(20):
            assert bool({"fxt.event.overlap", "fxt.event.child-first"} & {*broken(data)}) == expected


def test_the_strings_of_many_providers_are_checked() -> None:
    parts: list[Record] = []
    for number in range(2, 102):
        parts += [r.ProviderInfo(number, "p"), r.Initialization(10**9), r.Instant(50, Thread(1, 2), 0, 300, ())]
        parts += [r.String(slot, f"name {slot}") for slot in (*range(1, MIN_UNUSED), 300)]
    found = broken(trace_of(*parts))
    assert found["fxt.string.unused"] == found["fxt.string.later"] == 100


def test_a_provider_without_room_for_its_strings_is_left_out() -> None:
    parts: list[Record] = []
    for number, slot in ((2, 200), (3, 900), (4, 300), (5, 40)):  # tables of 256, 1,024, 512 and 256 slots
        parts += [r.ProviderInfo(number, "p"), r.Initialization(10**9), r.Instant(50, Thread(1, 2), 0, slot, ())]
        parts += [r.String(slot, "name")]
    with patch.object(slots, "MAX_SLOTS", 1_024):
        found = broken(trace_of(*parts))
    assert (found["fxt.string.undefined"], found["fxt.string.later"]) == (4, 3)
    assert broken(trace_of(*parts))["fxt.string.later"] == 4


def test_spans_that_are_too_deep_are_told_once() -> None:
    deep = [r.DurationBegin(10, SLOT, 0, "span", ()) for _ in range(DEEPEST + 3)]
    between = [r.Counter(20, SLOT, "test", "event", (), 1) for _ in range(100)]
    with in_batches(400):
        assert broken(trace_of(*deep, *between, r.Instant(30, SLOT, 0, "event", ())))["fxt.event.too-deep"] == 3


def test_a_string_is_compared_with_the_one_before_it_in_its_slot() -> None:
    texts = ["a", "b", "a", "a", "b", "b"]
    data = trace_of(*(r.String(7, text) for text in texts))
    assert broken(data)["fxt.string.again"] == 2
    with in_batches(6):
        assert broken(data)["fxt.string.again"] == 2


def operations(text: str) -> list[Record]:
    """Return the begins (`<a`), instants (`.`) and ends (`a>`) of operations with one id, an event each tick."""
    records: list[Record] = []
    for time, step in enumerate(text.split(), 10):
        cls = r.AsyncInstant if step == "." else r.AsyncBegin if step.startswith("<") else r.AsyncEnd
        records.append(cls(time, SLOT, "test", step.strip("<>"), (), 5))
    return records


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a <b . b> <b <c . c> b> . a> <d . d>", {}),
        ("<a <a . a> a>", {}),
        ("<a <b a> b>", {"fxt.async.shared-id": 1}),
        ("<a <b <c a> c> . b>", {"fxt.async.shared-id": 1}),
        ("<a <b <c a> b> c>", {"fxt.async.shared-id": 2}),
        ("<a <b a> . b> .", {"fxt.async.shared-id": 1, "fxt.async.unmatched-end": 1}),
        ("<a <b c> a>", {"fxt.async.name": 1}),
        ("<a <b a> c>", {"fxt.async.shared-id": 1, "fxt.async.name": 1}),
        ("<a <b <a b> a>", {"fxt.async.shared-id": 1, "fxt.async.open": 1}),
        (". <a a> .", {"fxt.async.unmatched-end": 2}),
    ],
)
def test_operations_with_one_id_nest(text: str, expected: dict[str, int]) -> None:
    data = trace_of(*operations(text))
    assert broken(data) == expected
    with in_batches(7):
        assert broken(data) == expected


def test_what_refers_to_objects_is_not_checked_any_more_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.fxt.rules.contents.MAX_KEPT", 20)
    objects = [r.KernelObject(1, koid, "name", ()) for koid in range(1, 41)]
    switches = [r.ContextSwitch(0, 2, 10 + koid, koid, koid + 1, ()) for koid in range(35, 45)]
    few = broken(trace_of(*objects[:15], *switches))
    assert (few["fxt.sched.no-object"], few["fxt.object.too-many"]) == (11, 0)
    with in_batches(20):
        many = broken(trace_of(*objects, *switches))
    assert (many["fxt.sched.no-object"], many["fxt.object.too-many"]) == (0, 1)


def test_ends_that_cross_many_operations_take_linear_time() -> None:
    def lines(count: int) -> int:
        data = trace_of(*operations("<a " * count + "<b " * count + "a> " * count + "b> " * count))
        return cost.operations(lambda: broken(data))

    lines(1)
    assert lines(400) < 2.5 * lines(200)


@pytest.mark.full
def test_memory_does_not_grow_with_the_number_of_open_operations() -> None:
    many = [r.AsyncBegin(10, SLOT, 0, "span", (), number) for number in range(MAX_KEPT + 10_000)]
    data = trace_of(*many)
    tracemalloc.start()
    assert broken(data)["fxt.async.open"] == len(many)
    assert tracemalloc.get_traced_memory()[1] < 500 * len(many)
    tracemalloc.stop()


@pytest.mark.full
def test_threads_and_slots_of_many_providers_take_bounded_memory() -> None:
    parts: list[Record] = []
    for number in range(2, 1_000):
        parts += [r.ProviderInfo(number, "p"), r.String(32_767, "last"), r.Initialization(10**9)]
    parts += [named(3), r.Instant(50, Thread(1, 3), "test", "event", ())]
    data = trace_of(*parts, r.ProviderSection(1))
    tracemalloc.start()
    assert rules(FxtTrace(data).findings) == {}
    broken(data)
    assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    tracemalloc.stop()
