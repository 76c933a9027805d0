"""Arbitrary bytes give records or findings and nothing else, in every way of reading them.

Traces are drawn at random, and right ones damaged; each is read through the whole public interface.  Without `strict`
nothing may be raised; with it, only a `DecodeError`, and only where there are findings.  What is delivered of a
well-framed trace is compared with the model, so that damage to one record cannot change the meaning of another.
"""

from __future__ import annotations

import contextlib
import gzip
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fxtio
from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Opaque, Record
from fxtio.errors import DecodeError, FormatError
from fxtio.finding import KEPT_PER_RULE
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.rules import Severity
from fxtio.testing.strategies import encoded
from support import fxt_model
from support.fxt_hostile import arbitrary, damaged_traces
from support.fxt_readings import (
    Trickle,
    faults_of_the_codec,
    in_batches,
    kept_findings,
    narrow_traces,
    rules,
    tables_of,
)
from support.fxt_samples import ORDERS, for_orders
from support.fxt_twins import plain

READINGS: dict[str, Callable[[FxtTrace], Any]] = {
    "info": lambda trace: trace.info,
    "records": list,
    "raw": lambda trace: list(trace.records(resolve=False)),
    "entries": lambda trace: list(trace.entries()),
    "tables": tables_of,
    "batches": lambda trace: [table for batch in trace.batches(*trace.table_names) for table in batch.values()],
}

hostile_traces = st.sampled_from(ORDERS).flatmap(lambda order: damaged_traces(order) | arbitrary(order))
some_batches = st.sampled_from([(1, 1), (8, 3), (64, 64), (1 << 19, 1 << 17)])


def check_findings(trace: FxtTrace, data: bytes) -> None:
    """Check that findings have a place and a message, and that no more are kept than are counted."""
    for finding in trace.findings:
        assert 0 <= finding.offset <= len(data)
        assert finding.severity in Severity
        assert finding.message
        assert f"[{finding.rule}]" in str(finding)
    assert len(trace.findings) >= len(kept_findings(trace.findings))
    assert bool(trace.findings) == bool(len(trace.findings))


@pytest.mark.parametrize("reading", READINGS)
@given(data=hostile_traces, batches=some_batches)
def test_nothing_is_raised(reading: str, data: bytes, batches: tuple[int, int]) -> None:
    with in_batches(*batches):
        trace = FxtTrace(data)
        READINGS[reading](trace)
        check_findings(trace, data)


@pytest.mark.parametrize("reading", READINGS)
@given(data=hostile_traces)
def test_strict_reading_raises_for_findings(reading: str, data: bytes) -> None:
    lenient, strict = FxtTrace(data), FxtTrace(data, strict=True)
    READINGS[reading](lenient)
    if not lenient.findings:
        READINGS[reading](strict)
        return
    with pytest.raises(DecodeError) as caught:
        READINGS[reading](strict)
    assert (caught.value.rule, caught.value.offset) in {
        (rule, offset) for rule, _, offset in kept_findings(lenient.findings)
    }


@given(data=hostile_traces, batches=some_batches)
def test_small_reads_and_batches_give_the_same_records(data: bytes, batches: tuple[int, int]) -> None:
    """A source of unknown size, read a few bytes at a time, gives the same records and findings."""
    at_once, in_pieces = FxtTrace(data), FxtTrace(Trickle(data, 11))
    expected = plain(list(at_once))
    assert plain(list(in_pieces)) == expected
    assert kept_findings(in_pieces.findings) == kept_findings(at_once.findings)
    with in_batches(*batches):
        in_batch = FxtTrace(data)
        assert plain(list(in_batch)) == expected
        assert rules(in_batch.findings) == rules(at_once.findings)


@for_orders
@given(data=st.data())
def test_a_damaged_trace_has_the_meaning_of_the_model(order: Order, data: st.DataObject) -> None:
    """Each record of a well-framed trace has the meaning that the model gives it."""
    trace = data.draw(damaged_traces(order, framed=True))
    expected = fxt_model.read(trace, order)
    reader = FxtTrace(trace)
    with faults_of_the_codec():
        records = list(reader)
    assert plain(records) == plain([entry.record for entry in expected])
    counts = rules(reader.findings)
    delivered = [entry for entry in expected if not isinstance(entry.record, Opaque)]
    refused = [entry for entry in expected if isinstance(entry.record, Opaque) and has_known_type(entry.raw, order)]
    broken = Counter(rule for entry in delivered for rule, _ in entry.faults)
    assert all(counts.get(f"fxt.{rule}", 0) >= count for rule, count in broken.items())
    refusals = ("framing.record-short", "framing.stream-over-record", "framing.magic-value", "arg.size")
    assert sum(counts.get(f"fxt.{rule}", 0) for rule in refusals) - broken["arg.size"] == len(refused)
    assert counts.get("fxt.arg.short", 0) == broken["arg.short"]


def has_known_type(raw: bytes, order: Order) -> bool:
    return rec.RECORDS.kind_of(int.from_bytes(raw[:8], order)) >= 0


@for_orders
@given(data=st.data())
def test_a_copy_of_a_damaged_trace_is_the_same_bytes(order: Order, data: st.DataObject) -> None:
    trace = data.draw(damaged_traces(order, framed=True))
    assert b"".join([encode(record, order) for record in FxtTrace(trace).records(resolve=False)]) == trace


@given(data=st.binary(max_size=100))
def test_open_takes_any_bytes(data: bytes) -> None:
    for target in (data, gzip.compress(data), b"\x28\xb5\x2f\xfd" + data, b"\xfd7zXZ\0" + data, b"\x1f\x8b" + data):
        with contextlib.suppress(FormatError), fxtio.open(target) as trace:
            list(trace)


@given(data=damaged_traces(), cut=st.integers(1, 60), flip=st.integers(0, 2**16))
def test_damaged_compressed_traces(data: bytes, cut: int, flip: int) -> None:
    packed = bytearray(gzip.compress(data))
    packed[flip % len(packed)] ^= 1 << flip % 8
    for target in (bytes(packed), bytes(packed[:-cut])):
        list(FxtTrace(target))


@pytest.mark.parametrize("strict", [False, True])
def test_findings_are_kept_to_a_bound(strict: bool) -> None:
    instant = rec.Instant(0, 77, 0, 0, ())
    trace = FxtTrace(encoded([rec.Magic(), *[instant, rec.ProviderSection(0)] * 400]), strict=strict)
    if strict:
        with pytest.raises(DecodeError, match="thread slot 77"):
            list(trace)
        return
    with in_batches(2, 2):
        assert sum(isinstance(record, Record) for record in trace) == 801
    assert rules(trace.findings) == {"fxt.thread.undefined": 400}
    assert len(list(trace.findings)) == KEPT_PER_RULE


@given(records=narrow_traces(), data=st.data())
def test_a_damaged_record_does_not_affect_the_others(records: list[Any], data: st.DataObject) -> None:
    """Bits of one body change: the records before it stay the same, and those after it are still delivered."""
    assume(len(records) > 1)
    pieces = [encode(record) for record in records]
    number = data.draw(st.integers(1, len(pieces) - 1))
    body = bytearray(pieces[number])
    assume(len(body) > 8)
    bit = data.draw(st.integers(64, len(body) * 8 - 1))
    body[bit // 8] ^= 1 << bit % 8
    damaged = FxtTrace(b"".join([*pieces[:number], bytes(body), *pieces[number + 1 :]]))
    read, expected = list(damaged), list(FxtTrace(b"".join(pieces)))
    assert len(read) == len(expected)
    assert plain(read[:number]) == plain(expected[:number])
    assert [type(record) for record in read[number + 1 :]] == [type(record) for record in expected[number + 1 :]]


def test_a_wall_clock_beyond_all_dates() -> None:
    trace = FxtTrace(
        encoded([rec.Magic(), rec.Initialization(1, 2**63, 0), rec.ThreadRecord(1, 1, 1), rec.Instant(0, 1, 0, 0, ())])
    )
    assert trace.info.started_at is None
    assert trace.info.start == 0
