"""Whole traces: references are resolved as of their place, for any size of a batch and any kind of file.

What the reader gives is compared with `support.fxt_model`, a machine of one step per record.  The traces define a few
slots of a few providers again and again; most are read in batches of a few words.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from contract.damage import DAMAGE
from fxtio.codec import distinct
from fxtio.codec.generate import Order, encode
from fxtio.errors import FormatError
from fxtio.fxt import FxtTrace, FxtWriter, reader
from fxtio.fxt import records as rec
from fxtio.fxt.frames import OpaqueGap
from fxtio.fxt.records import Thread
from fxtio.fxt.slots import Clock
from fxtio.testing import strategies
from fxtio.testing.strategies import encoded
from support import fxt_model
from support.fxt_bad import MIB, memory
from support.fxt_readings import (
    Trickle,
    in_batches,
    kept_findings,
    many_records,
    narrow_traces,
    read_everything,
    rules,
    tables_of,
    u64,
)
from support.fxt_samples import for_orders, share
from support.fxt_twins import plain

BATCHES = st.sampled_from([(1, 1), (3, 2), (16, 5), (64, 64), (1 << 19, 1 << 17)])


def entries(trace: FxtTrace) -> list[Any]:
    return [plain(tuple(entry)) for entry in trace.entries()]


def modeled(data: bytes, order: Order) -> list[Any]:
    read = fxt_model.read(data, order)
    return [plain((entry.offset, entry.time, entry.record, entry.end, entry.provider)) for entry in read]


# --- Meaning by position --------------------------------------------------------------------------------------------


@pytest.mark.full
@for_orders
@given(data=st.data())
def test_a_trace_has_the_meaning_of_the_model(order: Order, data: st.DataObject) -> None:
    trace = encoded(data.draw(narrow_traces(order) | strategies.traces(order=order)), order)
    assert entries(FxtTrace(trace)) == modeled(trace, order)


@for_orders
@given(data=st.data(), batches=BATCHES)
def test_small_batches_mean_the_same(order: Order, data: st.DataObject, batches: tuple[int, int]) -> None:
    """The first provider is introduced at once here: see `test_a_provider_introduced_late`."""
    magic, *others = data.draw(narrow_traces(order))
    trace = encoded([magic, rec.ProviderInfo(1, "first"), *others], order)
    expected = modeled(trace, order)
    with in_batches(*batches, kept_names=2):
        assert entries(FxtTrace(trace))[1:] == expected[1:]  # the magic number comes before any provider
        assert plain(list(FxtTrace(trace))) == tuple([entry[2] for entry in expected])


@pytest.mark.full
@given(data=st.data(), batches=BATCHES)
def test_everything_is_the_same_in_small_batches(data: st.DataObject, batches: tuple[int, int]) -> None:
    magic, *others = data.draw(narrow_traces(most=12))
    trace = encoded([magic, rec.ProviderInfo(1, "first"), *others])
    at_once = read_everything(trace)
    with in_batches(*batches):
        in_pieces = read_everything(trace)
    assert list(in_pieces) == list(at_once)
    for name, expected in at_once.items():
        if name != "findings":
            assert in_pieces[name] == expected, name
    assert {rule for rule, *_ in in_pieces["findings"]} == {rule for rule, *_ in at_once["findings"]}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("words", "records"), [(1 << 19, 1 << 17), (256, 64), (2000, 1999)])
def test_a_long_trace_has_the_meaning_of_the_model(seed: int, words: int, records: int) -> None:
    trace = encoded(many_records(seed, 3000))
    with in_batches(words, records, kept_names=20):
        assert entries(FxtTrace(trace))[1:] == modeled(trace, "little")[1:]


def test_a_provider_introduced_late() -> None:
    """Records in front of the first provider info record are that provider's, and so are its tables."""
    instant = rec.Instant(5, 1, 1, 1, ())
    trace = encoded(
        [rec.Magic(), rec.String(1, "a"), rec.ThreadRecord(1, 2, 3), instant, rec.ProviderInfo(7, "late"), instant]
    )
    assert entries(FxtTrace(trace)) == modeled(trace, "little")
    assert [(provider.id, provider.name, provider.records) for provider in FxtTrace(trace).info.providers] == [
        (7, "late", 6)
    ]
    assert FxtTrace(trace).table("events")["provider"].tolist() == [7, 7]
    assert not FxtTrace(trace).findings


@pytest.mark.parametrize("records", [1, 2, 4, 5, 64])
def test_the_clock_of_a_provider_that_is_introduced_again(records: int) -> None:
    """It is none, however the trace is divided into batches, unless it is described again."""
    first, second = rec.ProviderInfo(1, "first"), rec.ProviderInfo(2, "second")
    clock, instant = rec.Initialization(5), rec.Instant(5, Thread(1, 2), "", "", ())
    trace = [rec.Magic(), first, clock, second, clock, instant, first, instant, second, rec.Initialization(7), instant]
    with in_batches(256, records):
        info = FxtTrace(encoded(trace)).info
    assert [provider.clock.ticks_per_second for provider in info.providers] == [1_000_000_000, 7]


def test_providers_and_their_sections() -> None:
    """Sections seen before any provider info record keep their state when the first one comes."""
    records = [
        rec.Magic(), rec.ProviderSection(7), rec.String(1, "seven"), rec.ProviderSection(0), rec.String(1, "nobody"),
        rec.ProviderInfo(5, "five"), rec.Log(1, 1, ""), rec.Instant(1, 1, 1, 0, ()), rec.ProviderSection(7),
        rec.Instant(1, 1, 1, 0, ()), rec.ProviderInfo(7, "afresh"), rec.Instant(1, 1, 1, 0, ()),
    ]  # fmt: skip
    trace = encoded(records)
    assert entries(FxtTrace(trace)) == modeled(trace, "little")
    names = [record.category for record in FxtTrace(trace) if isinstance(record, rec.Instant)]
    assert names == ["nobody", "seven", 1]
    reader = FxtTrace(trace)
    list(reader)
    assert rules(reader.findings) == {"fxt.provider.unknown": 1, "fxt.thread.undefined": 4, "fxt.string.undefined": 1}


def test_references_that_nobody_defined_stay_numbers() -> None:
    trace = FxtTrace(encoded([rec.Magic(), rec.Instant(0, 9, 8, 7, (fxtio_null(6),)), rec.String(8, "late")]))
    (instant,) = [record for record in trace if isinstance(record, rec.Instant)]
    assert instant == rec.Instant(0, 9, 8, 7, (fxtio_null(6),))
    assert all(type(value) is int for value in (instant.thread, instant.category, instant.name))
    assert rules(trace.findings) == {"fxt.string.undefined": 3, "fxt.thread.undefined": 1}


def fxtio_null(name: int) -> Any:
    from fxtio.fxt.records import NullArgument

    return NullArgument(name)


@given(strategies.traces(odd=False))
def test_right_traces_have_no_findings(records: list[Any]) -> None:
    trace = FxtTrace(encoded(records))
    list(trace)
    assert not trace.findings
    trace = FxtTrace(encoded(records), strict=True)
    assert len(list(trace)) == len(records)


@given(strategies.traces(odd=False))
def test_the_summary_counts_records(records: list[Any]) -> None:
    trace = FxtTrace(encoded(records))
    assert trace.info.records == Counter(type(record).__name__ for record in records)
    assert sum(provider.records for provider in trace.info.providers) == len(records)
    assert set(rules(trace.findings)) <= {"fxt.time.overflow"}


def test_names_of_the_same_hash_stay_apart() -> None:
    texts = [f"{number:02}" * 3 for number in range(50)]
    records = [rec.Log(1, Thread(1, 1), name) for name in texts * 3]
    with patch.object(distinct, "_MULTIPLIER", np.uint64(0)):
        trace = FxtTrace(encoded([rec.Magic(), *records, *[rec.String(1, name) for name in texts]]))
        assert trace.table("logs")["message"].tolist() == texts * 3
        assert trace.table("strings")["text"].tolist() == texts
        assert len(set(trace.table("logs")["message"].values)) == 51


# --- Exact copies ---------------------------------------------------------------------------------------------------


@for_orders
@given(data=st.data(), batches=BATCHES)
def test_a_copy_is_the_same_bytes(order: Order, data: st.DataObject, batches: tuple[int, int]) -> None:
    trace = encoded(data.draw(narrow_traces(order)), order)
    flips = data.draw(st.lists(st.integers(64, len(trace) * 8 - 1), max_size=4)) if len(trace) > 8 else []
    damaged = bytearray(trace)
    for bit in flips:
        damaged[bit // 8] ^= 1 << bit % 8
    if framed(bytes(damaged), order):
        trace = bytes(damaged)
    with in_batches(*batches):
        assert b"".join([encode(record, order) for record in FxtTrace(trace).records(resolve=False)]) == trace


def framed(data: bytes, order: Order) -> bool:
    try:
        return all(True for _ in fxt_model.framed_records(data, order))
    except AssertionError:
        return False


@given(strategies.traces())
def test_the_writer_copies(records: list[Any]) -> None:
    trace, out = encoded(records), io.BytesIO()
    with FxtWriter(out) as writer:
        for record in FxtTrace(trace).records(resolve=False):
            writer.put(record)
    assert out.getvalue() == trace


@for_orders
@given(data=st.data(), batches=BATCHES, seed=st.integers(0, 1 << 32))
def test_a_damaged_trace_is_copied_by_its_records(
    order: Order, data: st.DataObject, batches: tuple[int, int], seed: int
) -> None:
    """What is not a record is a gap, so that nothing is lost; gaps do not depend on how the trace is divided."""
    damage = data.draw(st.sampled_from(sorted(DAMAGE)))
    trace = encoded(data.draw(narrow_traces(order)), order)
    trace = trace[:8] + DAMAGE[damage](trace[8:] or b"x", random.Random(seed))
    with in_batches(*batches):
        entries = list(FxtTrace(trace).entries(resolve=False))
        records = list(FxtTrace(Trickle(trace, 13)).records(resolve=False))
    texts = [*map(repr, records)]  # a damaged number may be one that is not equal to itself
    assert texts == [repr(entry.record) for entry in entries]
    assert texts == [*map(repr, FxtTrace(trace).records(resolve=False))]
    out = io.BytesIO()
    with FxtWriter(out, order=order) as writer:
        for entry in entries:
            assert entry.offset == writer.position
            writer.put(entry.record)
    assert out.getvalue() == trace


@for_orders
@given(data=st.data())
def test_the_writer_takes_all_resolved_records(order: Order, data: st.DataObject) -> None:
    """References are inline then, and mean the same."""
    trace = encoded(data.draw(narrow_traces(order)), order)
    records, out = list(FxtTrace(trace)), io.BytesIO()
    with FxtWriter(out, order=order) as writer:
        for record in records:
            writer.put(record)
    assert plain(list(FxtTrace(out.getvalue()))) == plain(records)


@for_orders
def test_the_process_of_an_object_in_the_thread_table(order: Order) -> None:
    """Its slot has a thread as well, which an object does not have."""
    objects = [rec.UserspaceObject(5, process, "name", ()) for process in (1, Thread(9, None), 2)]
    data = encoded([rec.Magic(), rec.ThreadRecord(1, 7, 8), *objects], order)
    assert [record.process for record in list(FxtTrace(data))[2:]] == [Thread(7, None), Thread(9, None), 2]


@for_orders
@pytest.mark.parametrize("ignored", [rec.String(0, ""), rec.String(0, "text"), rec.ThreadRecord(0, 5, 6)], ids=repr)
def test_definitions_of_slot_0_are_written_as_they_are_read(order: Order, ignored: Any) -> None:
    out = io.BytesIO()
    with FxtWriter(out, order=order) as writer:
        for record in (rec.Magic(), ignored, rec.Magic()):
            writer.put(record)
    assert list(FxtTrace(out.getvalue())) == [rec.Magic(), ignored, rec.Magic()]


def test_a_long_gap_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_GAP_BYTES", 1000)
    start, junk = encoded([rec.Magic()]), bytes(9000) + random.Random(1).randbytes(100_003)
    gaps = list(FxtTrace(start + junk).entries(resolve=False))[1:]
    assert b"".join([entry.record.raw for entry in gaps]) == junk
    assert max(len(entry.record.raw) for entry in gaps if isinstance(entry.record, OpaqueGap)) == 1000
    ends = np.cumsum([len(entry.record.raw) for entry in gaps])
    assert [entry.offset for entry in gaps] == [8, *(8 + ends[:-1])]


def test_the_memory_for_gaps_is_bounded() -> None:
    data = encoded([rec.Magic()]) + bytes(64 * MIB) + b"tail"
    with memory(20 * MIB):
        sizes = [len(gap.raw) for gap in FxtTrace(data).records(resolve=False) if isinstance(gap, OpaqueGap)]
    assert sum(sizes) == len(data) - 8


# --- Ways in --------------------------------------------------------------------------------------------------------


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def halves(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that compresses data as several members or frames, with an empty one among them."""
    return lambda data: compress(data[:13]) + compress(b"") + compress(data[13:100]) + compress(data[100:])


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gz,
    "gzip members": halves(gz),
    "zstd": zst,
    "zstd frames": halves(zst),
    "zstd with a skippable frame": lambda data: zst(data[:50]) + b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zst(data[50:]),
    "zstd without sizes": lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
    "xz": lzma.compress,
    "xz streams": halves(lzma.compress),
    "xz with padding": lambda data: lzma.compress(data[:50]) + bytes(8) + lzma.compress(data[50:]) + bytes(2000),
}


class Chunks:
    """A minimal source: it has only the method `read`."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._data.read(min(size, 50))


OPENERS: dict[str, Callable[[bytes, Path], Any]] = {
    "bytes": lambda data, path: data,
    "bytearray": lambda data, path: bytearray(data),
    "memoryview": lambda data, path: memoryview(data),
    "BytesIO": lambda data, path: io.BytesIO(data),
    "path": lambda data, path: written(path, data),
    "str": lambda data, path: str(written(path, data)),
    "byte by byte": lambda data, path: Trickle(data),
    "random pieces": lambda data, path: Trickle(data, random.Random(7)),
    "buffered": lambda data, path: io.BufferedReader(Trickle(data, 5)),
    "only read": lambda data, path: Chunks(data),
}


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def sample(order: Order = "little") -> bytes:
    """Return a trace with a little of everything, and a fault in the middle."""
    good = encoded([*many_records(5, 60), rec.Blob("b", 1, bytes(3000)), *many_records(6, 60)[1:]], order)
    return good + (0x0000_0001_0000_0004).to_bytes(8, order) + encoded(many_records(8, 30)[1:], order)


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("way", OPENERS)
def test_every_way_in_gives_the_same(way: str, packed: str, tmp_path: Path) -> None:
    data = sample()
    at_once = FxtTrace(data)
    expected = plain(list(at_once))
    with fxtio.open(OPENERS[way](PACKED[packed](data), tmp_path / "trace.fxt")) as trace:
        assert plain(list(trace)) == expected
        assert kept_findings(trace.findings) == kept_findings(at_once.findings)
    assert rules(at_once.findings)["fxt.framing.zero-size"] == 1


@for_orders
@share(4)
@given(data=st.data())
def test_byte_by_byte_is_the_same_as_at_once(order: Order, data: st.DataObject) -> None:
    trace = encoded(data.draw(narrow_traces(order, most=8)), order)
    assert plain(list(FxtTrace(Trickle(trace)))) == plain(list(FxtTrace(trace)))
    assert tables_of(FxtTrace(Trickle(trace))) == tables_of(FxtTrace(trace))


def test_a_pipe(tmp_path: Path) -> None:
    data = sample()
    reading, writing = os.pipe()

    def feed() -> None:
        os.write(writing, data[:1000])
        os.write(writing, data[1000:])
        os.close(writing)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(reading, "rb") as pipe, fxtio.open(pipe) as trace:
        assert plain(list(trace)) == plain(list(FxtTrace(data)))
        with pytest.raises(FormatError, match="can be read only once"):
            list(trace)
    feeder.join()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(sample())

    monkeypatch.setattr(sys, "stdin", Stdin)
    with fxtio.open("-") as trace:
        assert plain(list(trace)) == plain(list(FxtTrace(sample())))


def test_a_file_object_is_read_from_where_it_is_and_stays_open() -> None:
    file = io.BytesIO(b"before" + sample())
    file.seek(6)
    with fxtio.open(file) as trace:
        assert trace.info.size == len(sample())
    assert not file.closed


def test_paths_and_bytes_can_be_read_again(tmp_path: Path) -> None:
    for target in (sample(), written(tmp_path / "t", sample())):
        with fxtio.open(target) as trace:
            assert list(trace) == list(trace) == list(trace.records())
            assert trace.info.records.total() == len(list(trace))


# --- Clocks ---------------------------------------------------------------------------------------------------------

RATES = st.sampled_from([1, 2, 3, 1000, 10**9, 10**9 - 1, 24_000_000, 2_596_000_000, 2**32, 2**63, 2**64 - 1])
TICKS = st.sampled_from([0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@given(rate=RATES | st.integers(1, 2**64 - 1), ticks=st.lists(TICKS, min_size=1, max_size=10))
def test_ticks_to_nanoseconds_are_exact(rate: int, ticks: list[int]) -> None:
    clock = Clock(rate)
    exact = [tick * 10**9 // rate for tick in ticks]
    assert [clock.ns(tick) for tick in ticks] == exact
    result = clock.to_ns(u64(*ticks))
    assert result.dtype == np.int64
    assert result.tolist() == [min(ns, 2**63 - 1) for ns in exact]


@given(rate=RATES | st.integers(1, 2**64 - 1))
def test_the_last_tick_that_fits(rate: int) -> None:
    last = (2**63 * rate - 1) // 10**9
    for tick in (last - 1, last, last + 1):
        if 0 <= tick < 2**64:
            instant = rec.Instant(tick, 1, 0, 0, ())
            trace = FxtTrace(encoded([rec.Magic(), rec.Initialization(rate), rec.ThreadRecord(1, 1, 1), instant]))
            assert trace.table("events")["time"].tolist() == [min(tick * 10**9 // rate, 2**63 - 1)]
            assert rules(trace.findings) == ({"fxt.time.overflow": 1} if tick > last else {})


def test_each_clock_has_its_own_last_tick() -> None:
    """A time that one provider's clock cannot express is right on that of another one."""
    late = 2**63 + 5  # about 146 years of a clock with two ticks in a nanosecond, too late for one
    records: list[Any] = [rec.Magic()]
    for provider, rate in ((1, 2 * 10**9), (2, 10**9)):
        records += [rec.ProviderInfo(provider, f"p{provider}"), rec.Initialization(rate), rec.ThreadRecord(1, 1, 1)]
        records.append(rec.Instant(late if provider == 1 else 7, 1, 0, 0, ()))
    trace = FxtTrace(encoded(records))
    assert trace.table("events")["time"].tolist() == [late // 2, 7]
    assert not rules(trace.findings)
    trace = FxtTrace(encoded([*records, rec.Instant(late, 1, 0, 0, ())]))
    assert trace.table("events")["time"].tolist() == [late // 2, 7, 2**63 - 1]
    assert rules(trace.findings) == {"fxt.time.overflow": 1}


def test_no_ticks_at_all() -> None:
    assert Clock(7).to_ns(u64()).tolist() == []
