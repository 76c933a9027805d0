"""Memory stays bounded, whatever sizes a trace claims, however far it unpacks, however much it has of one thing."""

from __future__ import annotations

import io
import lzma
import random
import zlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import zstandard

from fxtio.codec.columns import Block
from fxtio.codec.distinct import DistinctStrings
from fxtio.codec.generate import Order, encode
from fxtio.codec.record import Record
from fxtio.fxt import FxtTrace, frames, state
from fxtio.fxt import records as rec
from fxtio.fxt.records import BlobArgument, NullArgument, Thread
from fxtio.fxt.slots import Threads
from fxtio.testing.strategies import encoded
from support.fxt_bad import CONTAINERS, HEAD, MIB, delivered, instants, memory, packed, words
from support.fxt_readings import Trickle, in_batches, kept_findings, rules
from support.fxt_samples import for_orders
from support.fxt_twins import plain

# --- Sizes that are claimed -------------------------------------------------------------------------------------------

HUGE = (1 << 31) << 4 | 15  # a large record of 16 GiB


@pytest.mark.parametrize("source", [bytes, Trickle, io.BytesIO], ids=["bytes", "pipe", "file"])
def test_a_large_record_that_claims_16_gib(source: Callable[[bytes], Any]) -> None:
    before, behind = [*HEAD, *instants(0, 5)], instants(100, 10)
    data = encoded(before) + words(HUGE, 0, 1 << 34) + encoded(behind)
    trace = FxtTrace(source(data))
    with memory(24 * MIB):
        read = delivered(trace)
    assert plain(read) == plain([*before, *behind])
    assert kept_findings(trace.findings) == [("fxt.framing.too-large", "error", len(encoded(before)))]


LARGE_BLOBS = [
    rec.LargeBlobNoMetadata(0, "name", bytes(3 * MIB + 5)),
    rec.LargeBlob("category", 0, 5, Thread(1, 2), (BlobArgument("key", bytes(20_000)),) * 2, b"x" * (3 * MIB)),
    rec.LargeBlob(0, 0, 5, 1, (NullArgument(0),), b"x" * (3 * MIB)),
]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("blob", LARGE_BLOBS, ids=["no metadata", "inline", "slots"])
def test_the_limit_is_for_records_that_are_no_large_blob(blob: Any, order: Order) -> None:
    """What really is a large blob is delivered at any size, unless there is a limit for the memory of a record."""
    records = [*HEAD, blob, *instants(100, 10)]
    data = encoded(records, order)
    for target in (data, Trickle(data, MIB)):
        with patch.object(frames, "MAX_RECORD_BYTES", 2 * MIB):
            trace = FxtTrace(target)
            assert [type(record) for record in trace] == [type(record) for record in records]
            assert not trace.findings
    limited = FxtTrace(data, max_record_bytes=2 * MIB)
    assert plain(delivered(limited)) == plain([*HEAD, *instants(100, 10)])
    assert kept_findings(limited.findings) == [("fxt.framing.too-large", "error", len(encoded(HEAD, order)))]
    assert len(list(FxtTrace(data, max_record_bytes=4 * MIB))) == len(records)


@pytest.mark.parametrize(("word", "change"), [(0, 3 << 36), (0, 5 << 40), (2, 8), (2, -8)])
def test_a_header_that_only_looks_like_a_large_blob(word: int, change: int) -> None:
    """The record is of another kind, or the payload would end after or before the end of the record."""
    start, size = encoded(HEAD), 3 * MIB
    blob = bytearray(encode(rec.LargeBlobNoMetadata(1, 1, bytes(size))))
    value = int.from_bytes(blob[word * 8 : word * 8 + 8], "little") + change
    blob[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")
    trace = FxtTrace(start + bytes(blob) + encoded(instants(100, 10)))
    with patch.object(frames, "MAX_RECORD_BYTES", 2 * MIB):
        assert plain(delivered(trace)) == plain([*HEAD, *instants(100, 10)])
    assert rules(trace.findings)["fxt.framing.too-large"] == 1


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_large_blob_in_a_compressed_trace_has_a_limit(container: str) -> None:
    data = packed(container, encoded([*HEAD, LARGE_BLOBS[0], *instants(100, 10)]))
    with patch.multiple(frames, MAX_RECORD_BYTES=MIB, MAX_DECOMPRESSED_RECORD_BYTES=2 * MIB):
        trace = FxtTrace(data)
        assert plain(delivered(trace)) == plain([*HEAD, *instants(100, 10)])
        assert rules(trace.findings)["fxt.framing.too-large"] == 1
        assert len(list(FxtTrace(data, max_record_bytes=4 * MIB))) == 14


def test_the_limit_of_a_record_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="max_record_bytes is -1"):
        FxtTrace(b"", max_record_bytes=-1)


def test_the_memory_of_a_large_record_is_given_back() -> None:
    data = encoded([*HEAD, rec.LargeBlobNoMetadata(0, 0, bytes(40 * MIB)), *instants(0, 3)])
    for target in (data, Trickle(data, MIB)):
        trace = FxtTrace(target)
        with memory(130 * MIB):
            batches = trace.record_batches(forget=True)
            sizes = [len(batch.frame.block.words) for batch in batches]
        assert max(sizes) > 4 * MIB
        assert sizes[-1] < 4 * frames.BATCH_WORDS


@pytest.mark.full
@pytest.mark.parametrize("order", ["little", "big"])
def test_the_memory_for_an_exact_large_record(order: Order) -> None:
    """The payload, the buffer of the reader and, if it is big-endian, the same words in the order of the machine."""
    payload = random.Random(1).randbytes(1 << 20) * 64
    data = encoded([*HEAD, rec.LargeBlobNoMetadata(0, 0, payload)], order)
    with memory((64 * 3 + 40) * MIB):
        *_, blob = FxtTrace(data).records(resolve=False)
    assert blob.payload == payload
    with memory((64 * 3 + 40) * MIB):
        *_, blob = FxtTrace(data).records()
    assert blob.payload == payload


@pytest.mark.parametrize("second", [0, 1 << 32], ids=["a payload beyond the end", "no room for an argument"])
def test_the_memory_for_a_large_record_that_cannot_be_decoded(second: int) -> None:
    """The record and its bytes in `Opaque`; not a Python integer for each of its words."""
    size = 2 * MIB
    header = words(size << 4 | 15 | (0 if second else 1 << 40), second, *([] if second else [1 << 60]))
    data = encoded(HEAD) + header + random.Random(1).randbytes(1 << 20) * 16
    data = data[: len(encoded(HEAD)) + size * 8]
    with memory((16 * 3 + 8) * MIB):
        trace = FxtTrace(data)
        assert [type(record).__name__ for record in trace][-1] == "Opaque"
    assert rules(trace.findings)


def test_a_truncated_large_record_allocates_only_the_bytes_present() -> None:
    """The record claims 200 MiB, but the stream ends after 5."""
    data = encoded(HEAD) + words((200 * MIB // 8) << 4 | 15) + bytes(5 * MIB)
    for target in (data, Trickle(data, MIB)):
        trace = FxtTrace(target)
        with memory(80 * MIB):
            assert len(list(trace)) == 3
        assert set(rules(trace.findings)) == {"fxt.framing.truncated"}


def blob_of(size: int) -> bytes:
    return encode(rec.LargeBlobNoMetadata(0, 0, bytes(size)))


def test_a_large_record_across_many_batches() -> None:
    blob = rec.LargeBlobNoMetadata(0, 1, random.Random(1).randbytes(40_001))
    data = encoded([*HEAD, blob, *instants(0, 3), blob])
    with in_batches(64):
        read = list(FxtTrace(data))
    assert [len(record.payload) for record in read if isinstance(record, rec.LargeBlobNoMetadata)] == [40_001] * 2
    assert read[3].payload == blob.payload


# --- Bombs ----------------------------------------------------------------------------------------------------------

BOMB = 160 * MIB


def bomb(kind: str) -> bytes:
    """Return a small compressed file that unpacks to one good trace and then zero words without end."""
    compressors: dict[str, Callable[[], Any]] = {
        "gzip": lambda: zlib.compressobj(wbits=31),
        "xz": lambda: lzma.LZMACompressor(preset=0),
        "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    }
    compressor = compressors[kind]()
    pieces = [compressor.compress(encoded([*HEAD, *instants(0, 5)]))]
    pieces += [compressor.compress(bytes(MIB)) for _ in range(BOMB // MIB)]
    return b"".join([*pieces, compressor.flush()])


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_decompression_bomb(kind: str) -> None:
    small = bomb(kind)
    assert len(small) < BOMB // 500
    limited = FxtTrace(small, max_bytes=2 * MIB)
    with memory(100 * MIB):
        assert len(list(limited)) == 8
    assert rules(limited.findings)["fxt.source.cut"] == 1
    assert limited.info.size == 2 * MIB
    endless = FxtTrace(small)
    with memory(100 * MIB):
        assert len(list(endless)) == 8
    assert set(rules(endless.findings)) == {"fxt.framing.zero-words"}


def test_an_xz_file_that_demands_gigabytes_to_remember() -> None:
    """A decompressor would hold up to 2 GiB of what it has written, if the file has so much."""
    data = bytearray(lzma.compress(encoded([*HEAD, *instants(0, 50)]), check=lzma.CHECK_NONE))
    begin, end = 12, 12 + (data[12] + 1) * 4  # the header of the block, which ends with its checksum
    at = data.index(b"\x21\x01", begin) + 2  # the filter LZMA2, whose properties are the size of its dictionary
    for size, is_read in ((30, True), (38, False)):  # 128 MiB, 2 GiB
        data[at] = size
        data[end - 4 : end] = zlib.crc32(data[begin : end - 4]).to_bytes(4, "little")
        trace = FxtTrace(bytes(data))
        assert (sum(1 for _ in trace) > 50) == is_read
        assert ("fxt.source.cut" in rules(trace.findings)) != is_read


@pytest.mark.parametrize("limit", [0, 1, 8, 9, 63, 64, 65, 100, 10**6])
def test_no_more_is_read_than_allowed(limit: int) -> None:
    data = encoded([*HEAD, *instants(0, 50)])
    trace = FxtTrace(data, max_bytes=limit)
    read = list(trace)
    assert plain(read) == plain(list(FxtTrace(data))[: len(read)])
    assert trace.info.size == min(limit, len(data))
    assert ("fxt.source.cut" in rules(trace.findings)) == (limit < len(data))


# --- Very many of something -------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
def test_20_000_provider_infos() -> None:
    """Without the limit, these take 3 MiB."""
    data = encode(rec.Magic()) + b"".join([encode(rec.ProviderInfo(number, "p")) for number in range(20_000)])
    with in_batches(4096, 2048):
        trace = FxtTrace(data)
        with memory(3 * MIB // 2):
            assert sum(1 for _ in trace) == 20_001
    assert rules(trace.findings) == {"fxt.provider.too-many": 20_000 - 1024}
    assert len(trace.info.providers) == 1024


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("slot", [32_767, 20_000, 300])
def test_1024_providers_that_each_define_one_slot(slot: int) -> None:
    """The memory depends on the number of definitions, not on the largest slot; with that, it is 400 MiB."""
    records: list[Any] = [rec.Magic()]
    for number in range(1024):
        records += [rec.ProviderInfo(number, ""), rec.String(slot, f"s{number}"), rec.ThreadRecord(1, 7, number)]
    for number in range(1024):
        records += [rec.ProviderSection(number), rec.Instant(1, 1, slot - 1, slot, ())]
    data = encoded(records)
    assert sum(1 for _ in FxtTrace(data)) == len(records)  # what is made on first use does not count
    trace = FxtTrace(data)
    with memory(6 * MIB):
        instants = [record for record in trace if type(record) is rec.Instant]
    assert [(record.name, record.category, record.thread) for record in instants] == [
        (f"s{number}", slot - 1, Thread(7, number)) for number in range(1024)
    ]


def test_slots_that_are_far_apart() -> None:
    """Each reference has the value of its slot at its place, in tables with and without an entry for each slot."""
    numbers = random.Random(5)
    slots = numbers.sample(range(1, 32_768), 40)
    values: dict[int, str] = {}
    records: list[Any] = [rec.Magic(), rec.ProviderInfo(1, "again")]
    expected = []
    for step in range(600):
        slot = numbers.choice(slots)
        if step % 3 == 0:
            values[slot] = f"{slot} at {step}"
            records.append(rec.String(slot, values[slot]))
        elif step % 101 == 0:
            values.clear()
            records.append(rec.ProviderInfo(1, "again"))
        else:
            records.append(rec.Instant(step, Thread(1, 1), 0, slot, ()))
            expected.append(values.get(slot, slot))
    for batches in [(1, 1), (64, 64), (1 << 19, 1 << 17)]:
        with in_batches(*batches):
            assert [record.name for record in FxtTrace(encoded(records)) if type(record) is rec.Instant] == expected


@pytest.mark.full
@for_orders
@pytest.mark.parametrize("batches", [(1, 1), (64, 64), (1 << 19, 1 << 17)])
def test_providers_that_are_introduced_again_and_again(order: Order, batches: tuple[int, int]) -> None:
    """They are not more providers: every time, their tables are empty and their clock is the default one."""
    records: list[Any] = [rec.Magic()]
    for number in range(120):
        start = [rec.ProviderInfo(1 + number % 2, "ab"[number % 2]), rec.Instant(1, Thread(1, 1), "", 1, ())]
        slots = [rec.String(1, f"s{number}"), rec.ThreadRecord(1, 7, number), rec.Initialization(1000)]
        end = [rec.Instant(2, 1, "", 1, ())]
        records += [*start, *(slots if number % 3 else slots[:1]), *end]
    data = encoded(records, order)
    with in_batches(*batches), patch.object(state, "MAX_PROVIDERS", 100):
        trace = FxtTrace(data)
        entries = [entry for entry in trace.entries() if isinstance(entry.record, rec.Instant)]
    assert rules(trace.findings) == {"fxt.string.undefined": 120, "fxt.thread.undefined": 40}
    for number, (start, end) in enumerate(zip(entries[::2], entries[1::2], strict=True)):
        assert (start.provider, start.record.name, start.time) == (1 + number % 2, 1, 1)
        meaning = (f"s{number}", Thread(7, number), 2_000_000) if number % 3 else (f"s{number}", 1, 2)
        assert (end.record.name, end.record.thread, end.time) == meaning
    counts = [(item.id, item.name, item.records) for item in trace.info.providers]
    assert counts == [(1, "a", 1 + len(records) // 2), (2, "b", len(records) // 2)]


def redefinitions(names: int, every: int) -> bytes:
    """Yield redefinitions of slot 1, each with a new name, and now and then an event that refers to it."""
    header, instant = encode(rec.String(1, "n0000000"))[:8], encode(rec.Instant(1, Thread(1, 1), 1, 1, ()))
    pieces = [header + b"n%07d" % number + (instant if number % every == every - 1 else b"") for number in range(names)]
    return encode(rec.Magic()) + b"".join(pieces)


def test_more_providers_than_are_kept_apart() -> None:
    """Further providers share the state of the last provider."""
    records: list[Any] = [rec.Magic()]
    for provider_id in range(6):
        records += [
            rec.ProviderInfo(provider_id, "p"),
            rec.String(1, f"s{provider_id}"),
            rec.Instant(1, Thread(1, 1), 1, 1, ()),
        ]
    records += [rec.ProviderSection(0), rec.Instant(1, Thread(1, 1), 1, 1, ()), rec.ProviderSection(9)]
    records += [rec.Instant(1, Thread(1, 1), 1, 1, ())]
    with patch.object(state, "MAX_PROVIDERS", 3):
        trace = FxtTrace(encoded(records))
        assert [record.name for record in trace if isinstance(record, rec.Instant)] == [
            "s0",
            "s1",
            "s2",
            "s3",
            "s4",
            "s5",
            "s0",
            "s5",
        ]
        assert rules(trace.findings) == {"fxt.provider.too-many": 4, "fxt.provider.unknown": 1}
        assert [provider.id for provider in trace.info.providers] == [0, 1, 2]


def test_more_clocks_than_are_kept() -> None:
    """A clock beyond the limit is ignored; the clock before it stays in use."""
    records: list[Any] = [rec.Magic(), rec.ThreadRecord(1, 1, 1)]
    for rate in (1000, 500, 250, 1000):
        records += [rec.Initialization(rate), rec.Instant(1, 1, 0, 0, ())]
    with patch.object(state, "MAX_CLOCKS", 3):
        trace = FxtTrace(encoded(records))
        assert trace.table("events")["time"].tolist() == [1_000_000, 2_000_000, 2_000_000, 1_000_000]
        assert rules(trace.findings) == {"fxt.clock.too-many": 1}


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
def test_very_many_string_redefinitions() -> None:
    names, every = 1 << 18, 1 << 14
    trace = FxtTrace(redefinitions(names, every))
    assert [record.name for record in trace if type(record) is rec.Instant] == [
        f"n{at:07}" for at in range(every - 1, names, every)
    ]
    assert not trace.findings


@pytest.mark.full
@pytest.mark.no_cover  # the same again and again, slow to measure
def test_names_out_of_use_are_forgotten() -> None:
    """Memory depends on the size of a batch and the number of slots, not on the number of names (5 MiB here)."""
    data = redefinitions(40_000, 1000)
    with in_batches(1024, 512, kept_names=250):
        assert all(FxtTrace(redefinitions(1000, 100)))  # what is made on first use does not count
        trace = FxtTrace(data)
        with memory(MIB):
            assert sum(1 for _ in trace) == 40_041


@pytest.mark.parametrize("kind", ["strings", "objects", "characters", "threads"])
def test_what_is_still_in_use_is_not_built_anew_for_every_frame(kind: str) -> None:
    size = 1000 if kind == "characters" else 10
    definitions: dict[str, list[Any]] = {
        "strings": [rec.String(slot, f"string {slot}") for slot in range(1, 201)],
        "objects": [rec.KernelObject(2, koid, f"object {koid}", ()) for koid in range(200)],
        "characters": [rec.String(slot, f"{slot:0{size}}") for slot in range(1, 91)],
        "threads": [rec.ThreadRecord(slot, 1, slot) for slot in range(1, 201)],
    }
    distinct: Any = Threads if kind == "threads" else DistinctStrings
    data = encoded([rec.Magic(), *definitions[kind], *instants(0, 5000)])
    with (
        in_batches(256, kept_names=100),
        patch.object(distinct, "only", autospec=True, side_effect=distinct.only) as only,
    ):
        frame_count = sum(1 for _ in FxtTrace(data).record_batches(forget=True, name_objects=True))
    assert frame_count > 50
    assert 1 <= only.call_count <= 5


@pytest.mark.parametrize("header", [HUGE, (1 << 20) << 4 | 15], ids=["over the limit", "beyond the end"])
def test_headers_that_claim_too_much_do_not_end_a_frame_each(header: int) -> None:
    count = 300
    data = encoded(HEAD) + (encoded(instants(0, 5)) + words(header)) * count + encoded(instants(0, 5))
    trace = FxtTrace(data)
    assert sum(1 for _ in trace.record_batches(forget=True)) <= 3
    assert trace.findings.counts.total() == count
    assert plain(delivered(FxtTrace(data))) == plain([*HEAD, *instants(0, 5) * (count + 1)])
    assert (
        b"".join(
            encode(record) if isinstance(record, Record) else record.raw for record in trace.records(resolve=False)
        )
        == data
    )


def test_only_the_header_of_a_large_blob_is_decoded() -> None:
    with patch("fxtio.fxt.frames.decode") as decoded:
        block = Block(np.array([HUGE | 3 << 36, 0, 0], np.uint64), np.array([HUGE | 3 << 36, 0, 0], np.uint64))
        assert not frames._is_large_blob(block, 0, 1 << 31)
    assert not decoded.called
