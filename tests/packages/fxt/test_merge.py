"""Merging traces: each event keeps its time and all its content.

The command itself is in `cli/test_merge.py`.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.codec.generate import encode
from fxtio.codec.parts import Number
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt import records as r
from fxtio.fxt.layout import MAGIC
from fxtio.fxt.merge import Merged
from fxtio.fxt.records import Thread
from fxtio.testing import strategies
from support.checkout import CORPUS
from support.fxt_hostile import damaged_traces
from support.fxt_merge import (
    FRAME,
    SECOND,
    START_TIME,
    joined,
    readable_records,
    records_of,
    rules,
    ticks_of,
    trace_of,
    without_times,
    written,
)

# --------------------------------------------------------------------------------------------------------------- clocks


RATES = st.sampled_from([SECOND, 2_599_998_123, 24_000_000, 1000, 3 * SECOND]) | st.integers(1000, 5 * SECOND)


@st.composite
def clocks(draw: st.DrawFn) -> dict[str, int]:
    rate = draw(RATES)
    return {
        "ticks_per_second": rate,
        "base_ticks": draw(st.integers(0, 1000 * rate)),
        "wall_clock": START_TIME + draw(st.integers(-(10**15), 10**15)),
    }


def wall_times(data: bytes) -> list[tuple[str, Fraction, Fraction]]:
    """Return for every tick its field, its time by the wall clock of its provider, and by the common axis, in ns."""
    with fxtio.open(data, format="fxt") as trace:
        clocks_by_id = {provider.id: provider.clock for provider in trace.info.providers}
        times = []
        for entry in trace.entries():
            clock = clocks_by_id[entry.provider]
            assert clock.wall_clock is not None
            assert clock.base_ticks is not None
            for name in ticks_of(entry.record):
                tick = getattr(entry.record, name)
                since = Fraction((tick - clock.base_ticks) * SECOND, clock.ticks_per_second)
                axis = Fraction(tick * SECOND, clock.ticks_per_second)
                times.append((name, clock.wall_clock + since, axis))
    return times


@given(st.lists(st.tuples(clocks(), st.lists(st.integers(0, 2**42), max_size=6)), min_size=1, max_size=4))
def test_every_event_keeps_its_time(drawn: list[tuple[dict[str, int], list[int]]]) -> None:
    traces = [written(clock, sorted(ticks), number + 1) for number, (clock, ticks) in enumerate(drawn)]
    data, opened, merged = joined(*traces)
    assert [rules(trace) for trace in opened] == [{}] * len(traces)
    before = [times for trace in traces for times in wall_times(trace)]
    after = wall_times(data)
    # By the wall clock exactly, on the common axis but for half a tick.
    assert [times[:2] for times in after] == [times[:2] for times in before]
    zero = min(wall - axis for _, wall, axis in before)
    slowest = Fraction(SECOND, min(clock["ticks_per_second"] for clock, _ in drawn))
    assert all(abs(wall - zero - axis) <= slowest / 2 for _, wall, axis in after)
    assert without_times(records_of(data)) == [text for trace in traces for text in without_times(records_of(trace))]
    assert merged.providers == len(traces)


def test_every_moment_is_declared_as_a_tick() -> None:
    for cls in r.RECORDS.classes:
        moments = {"timestamp", "end", "base_ticks"}.intersection(cls.__struct_fields__)
        assert {name for name, part in layout_of(cls).parts if isinstance(part, Number) and part.tick} == moments


def test_a_trace_that_began_first_may_come_last() -> None:
    clock = {"ticks_per_second": SECOND, "base_ticks": 0}
    later = written(clock | {"wall_clock": START_TIME + 500}, [10], 1)
    sooner = written(clock | {"wall_clock": START_TIME}, [10], 2)
    data, _, _ = joined(later, sooner)
    assert [record.timestamp for record in records_of(data) if isinstance(record, r.DurationComplete)] == [510, 10]


def test_clocks_within_a_trace() -> None:
    """Each clock uses its own wall clock, or that of its trace, in ticks of its own rate."""
    instant = r.Instant(1000, Thread(1, 2), "", "", ())
    several = trace_of(
        r.ProviderInfo(1, "no wall clock"),
        instant,
        r.Initialization(2 * SECOND),
        instant,
        r.ProviderInfo(2, "one"),
        r.Initialization(SECOND, 50, START_TIME + 150),
        instant,
        r.Initialization(SECOND, 0, START_TIME + 300),
        instant,
    )
    first = trace_of(r.Initialization(SECOND, 0, START_TIME), instant)
    data, opened, _ = joined(first, several)
    assert [record.timestamp for record in records_of(data) if isinstance(record, r.Instant)] == [
        1000,
        1100,
        1200,
        1100,
        1300,
    ]
    inits = [record for record in records_of(data) if isinstance(record, r.Initialization)]
    assert inits[1:] == [
        r.Initialization(2 * SECOND),
        r.Initialization(SECOND, 150, START_TIME + 150),
        r.Initialization(SECOND, 300, START_TIME + 300),
    ]
    assert [rules(trace) for trace in opened] == [{}, {}]


def test_ticks_without_a_wall_clock_are_unchanged() -> None:
    bare = trace_of(r.Initialization(1000), r.Instant(5, Thread(1, 2), "", "", ()))
    with_clock = written({"ticks_per_second": SECOND, "wall_clock": START_TIME}, [10], 2)
    data, opened, _ = joined(with_clock, bare, bare)
    assert [record.timestamp for record in records_of(data) if isinstance(record, r.Instant)] == [10, 5, 5]
    assert [rules(trace) for trace in opened] == [{}, {"fxt.merge.no-wall-clock": 1}, {"fxt.merge.no-wall-clock": 1}]
    assert rules(joined(bare)[1][0]) == {}


def test_impossible_wall_clocks() -> None:
    instant = r.Instant(5, Thread(1, 2), "", "", ())
    now = trace_of(r.Initialization(SECOND, 0, START_TIME), instant)
    # At the rate of the last trace, the distance does not fit in a word.
    distant = trace_of(r.Initialization(2**64 - 1, 0, 2**64 - 1), instant)
    back = trace_of(r.Initialization(1, 2**64 - 1, 0), instant)
    data, opened, _ = joined(now, distant, back)
    assert [record.timestamp for record in records_of(data) if isinstance(record, r.Instant)] == [5, 5, 5]
    assert [rules(trace) for trace in opened] == [{"fxt.merge.clock-apart": 1}, {"fxt.merge.clock-apart": 1}, {}]


def test_an_earlier_clock_after_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.fxt.frames.BATCH_WORDS", 64)
    instant = r.Instant(5, Thread(1, 2), "", "", ())
    padding = [instant] * 100
    late = r.ProviderInfo(2, "late"), r.Initialization(SECOND, 0, START_TIME - 10), instant
    first = r.ProviderInfo(1, "first"), r.Initialization(SECOND, 0, START_TIME)
    data, opened, _ = joined(trace_of(*first, *padding, *late))
    assert records_of(data)[-1].timestamp == 5
    assert rules(opened[0]) == {"fxt.merge.clock-apart": 1}


def test_ticks_that_overflow() -> None:
    thread = Thread(1, 2)
    earlier = trace_of(r.Initialization(SECOND, 0, START_TIME))
    over = trace_of(
        r.Initialization(SECOND, 0, START_TIME + 10),
        r.DurationComplete(2**64 - 11, thread, "", "", (), 2**64 - 10),
        r.DurationComplete(7, thread, "", "", (), 8),
    )
    data, opened, _ = joined(earlier, over)
    spans = [(record.timestamp, record.end) for record in records_of(data) if isinstance(record, r.DurationComplete)]
    assert spans == [(2**64 - 1, 2**64 - 1), (17, 18)]
    assert rules(opened[1])["fxt.time.overflow"] >= 1


# ------------------------------------------------------------------------------------------------------------ providers


def test_provider_ids_are_different_afterwards() -> None:
    trace = trace_of(
        r.ProviderInfo(1, "a"), r.ProviderInfo(2, "b"), r.ProviderSection(1), r.ProviderEvent(2, 0), r.String(1, "x")
    )
    data, _, merged = joined(trace, trace, trace)
    assert [record for record in records_of(data) if isinstance(record, FRAME)] == [
        r.Magic(),
        *(r.ProviderInfo(1, "a"), r.ProviderInfo(2, "b"), r.ProviderSection(1), r.ProviderEvent(2, 0)),
        *(r.ProviderInfo(3, "a"), r.ProviderInfo(4, "b"), r.ProviderSection(3), r.ProviderEvent(4, 0)),
        *(r.ProviderInfo(5, "a"), r.ProviderInfo(6, "b"), r.ProviderSection(5), r.ProviderEvent(6, 0)),
    ]
    assert merged == Merged(records=15, providers=6)


def test_the_last_provider_id_is_followed_by_the_first() -> None:
    trace = trace_of(r.ProviderInfo(2**32 - 1, "a"))
    data, _, _ = joined(trace, trace)
    assert records_of(data)[1:] == [r.ProviderInfo(2**32 - 1, "a"), r.ProviderInfo(0, "a")]


def test_records_without_a_provider() -> None:
    """Such records do not go to the provider of the trace before. A provider named later is moved before them."""
    bare = trace_of(r.String(1, "bare"))
    named = trace_of(r.String(1, "named"), r.ProviderInfo(7, "late"), r.String(2, "too"))
    data, _, _ = joined(trace_of(r.ProviderInfo(0, "first")), bare, named, trace_of(), MAGIC)
    assert records_of(data) == [
        r.Magic(),
        r.ProviderInfo(0, "first"),
        r.ProviderInfo(1, ""),
        r.String(1, "bare"),
        r.ProviderInfo(7, "late"),
        r.String(1, "named"),
        r.ProviderSection(7),
        r.String(2, "too"),
    ]


def test_a_provider_that_is_named_after_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.fxt.frames.BATCH_WORDS", 64)
    strings = [r.String(number, "s") for number in range(1, 100)]
    data, opened, _ = joined(trace_of(*strings, r.ProviderInfo(3, "late"), r.ProviderEvent(3, 0), r.String(100, "s")))
    assert records_of(data)[1] == r.ProviderInfo(0, "")
    assert records_of(data)[-3:] == [r.ProviderSection(0), r.ProviderEvent(0, 0), r.String(100, "s")]
    assert rules(opened[0]) == {"fxt.merge.late-provider": 1}


def test_unknown_providers() -> None:
    unknown = trace_of(r.ProviderInfo(1, "a"), r.ProviderEvent(9, 0), r.ProviderSection(5), r.String(1, "x"))
    data, opened, _ = joined(unknown, unknown)
    frames = [record for record in records_of(data)[1:] if not isinstance(record, r.String)]
    assert frames == [
        *(r.ProviderInfo(1, "a"), r.ProviderEvent(9, 0), r.ProviderInfo(5, "")),
        *(r.ProviderInfo(2, "a"), r.ProviderEvent(10, 0), r.ProviderInfo(6, "")),
    ]
    assert [rules(trace)["fxt.provider.unknown"] for trace in opened] == [1, 1]


def test_a_provider_that_is_introduced_again_begins_with_empty_tables() -> None:
    events = [r.Instant(1, Thread(1, 1), 0, 1, ()), r.Instant(2, Thread(1, 1), 0, 1, ())]
    again = trace_of(
        *(r.ProviderInfo(1, "a"), r.String(1, "x"), r.Initialization(1000), events[0], r.ProviderInfo(2, "b")),
        *(r.ProviderInfo(1, "a"), events[0], r.String(1, "y"), events[1], r.ProviderSection(1), events[1]),
    )
    data, _, merged = joined(again, again)
    assert merged.providers == 4
    with fxtio.open(data) as trace:
        read = [(entry.provider, entry.time, entry.record.name) for entry in trace.entries() if entry.time is not None]
    expected = [(1_000_000, "x"), (1, 1), (2, "y"), (2, "y")]
    assert read == [(1, *event) for event in expected] + [(3, *event) for event in expected]


# ---------------------------------------------------------------------------------------------------- whatever they are


def test_bytes_between_records_are_left_out() -> None:
    first, second = r.String(1, "first"), r.String(2, "second")
    data, (trace,), _ = joined(trace_of(first) + bytes(64) + encode(second))
    assert data == trace_of(r.ProviderInfo(0, ""), first, second)
    assert rules(trace) == {"fxt.framing.zero-words": 1}


@given(st.lists(strategies.traces(), min_size=1, max_size=3))
def test_valid_traces_keep_all_records(drawn: list[list[Any]]) -> None:
    traces = [b"".join(encode(record) for record in records) for records in drawn]
    data, _, merged = joined(*traces)
    assert without_times(records_of(data)) == [text for trace in traces for text in without_times(records_of(trace))]
    assert merged.records >= sum(isinstance(record, Opaque) for records in drawn for record in records)


@given(st.lists(damaged_traces(), min_size=1, max_size=3))
def test_damaged_traces_keep_all_readable_records(traces: list[bytes]) -> None:
    data, opened, _ = joined(*traces)
    assert readable_records(data) == [text for trace in traces for text in readable_records(trace)]
    with fxtio.open(data) as trace:
        assert (
            not {
                "fxt.framing.truncated",
                "fxt.framing.zero-words",
                "fxt.framing.zero-size",
                "fxt.framing.size-beyond-end",
                "fxt.framing.record-short",
            }
            & rules(trace).keys()
        )
    for original, trace in zip(traces, opened, strict=True):
        with fxtio.open(original, format="fxt") as alone:
            expected = rules(alone)
        # A merge does not look at names, nor at all times.
        for rule in expected.keys() - {"fxt.string.undefined", "fxt.time.overflow"}:
            assert rules(trace)[rule] >= expected[rule]


@given(strategies.traces(order="big"), clocks())
def test_big_endian_traces(drawn: list[Any], clock: dict[str, int]) -> None:
    records = [record for record in drawn if isinstance(record, Record)]
    records = [record for record in records if not any(isinstance(arg, Opaque) for arg in getattr(record, "args", ()))]
    other = written(clock, [1], 1)
    little, big = (b"".join(encode(record, order) for record in records) for order in ("little", "big"))
    assert joined(other, big)[0] == joined(other, little)[0]


def test_records_that_cannot_be_converted_to_little_endian() -> None:
    data = encode(r.Magic(), "big") + (13 + 16).to_bytes(8, "big") + encode(r.String(1, "text"), "big")
    merged, (trace,), _ = joined(data)
    assert records_of(merged)[2:] == [r.String(1, "text")]
    assert rules(trace) == {"fxt.merge.byte-order": 1, "fxt.framing.unknown-record": 1}


@pytest.mark.parametrize("name", sorted(path.name for path in (CORPUS / "fxt").glob("*.fxt")))
def test_traces_of_other_programs(name: str, tmp_path: Path) -> None:
    data = (CORPUS / "fxt" / name).read_bytes()
    merged, _, _ = joined(data, data)
    assert readable_records(merged) == readable_records(data) * 2


@pytest.mark.full
def test_many_batches(tmp_path: Path) -> None:
    for number in range(2):
        wall_clock = START_TIME + number * SECOND
        synth.write(tmp_path / f"{number}.fxt", "mixed", events=200_000, seed=number, wall_clock=wall_clock)
    paths = [str(tmp_path / f"{number}.fxt") for number in range(2)]
    assert main(["merge", "-o", str(tmp_path / "out.fxt.gz"), *paths]) == 0
    tables = [fxtio.open(path).table("events") for path in paths]
    both = fxtio.open(tmp_path / "out.fxt.gz").table("events")
    for column, shift in ("ticks", (0, SECOND)), ("name", (0, 0)), ("process", (0, 0)):
        parts = [np.asarray(list(table[column])) for table in tables]
        if column == "ticks":
            parts = [part + np.uint64(add) for part, add in zip(parts, shift, strict=True)]
        assert np.array_equal(np.concatenate(parts), np.asarray(list(both[column])))
