"""The fuzz target of the Mono reader: every way of reading any bytes gives the same, without a crash.

What is checked of each input: no reading raises anything (strict ones a `DecodeError`, and that exactly where there are
findings); everything is copied to the same bytes, by records and as a whole; the columns that each kernel makes hold
what events hold; a few bytes at a time give the same, and so do small blocks, also for all rules; the commands tell of
it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

from fuzz.checks import check_presented, check_strict, counts_and_places
from fuzz.engine import CORPUS, LONGEST, Change, Target, require
from fxtio.finding import Finding
from fxtio.mono import frames, rules
from fxtio.mono.headers import (
    BUFFER_HEADER_SIZE,
    SIZE_PLACE,
    BufferHeader,
    OpaqueBufferHeader,
    OpaqueHeader,
    StreamHeader,
    decode_buffer_header,
    decode_header,
    encode_buffer_header,
    encode_header,
)
from fxtio.mono.layout import BUFFER_MARK
from fxtio.mono.reader import MonoTrace
from fxtio.mono.records import dialect_of
from support.fxt_readings import Trickle
from support.mono_columns import all_kernels, columns_of, events_from_columns
from support.mono_every import encode_events, every_event
from support.mono_samples import copied, copied_whole, header


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    trace = MonoTrace(data)
    entries = list(trace.entries())
    findings = counts_and_places(trace.findings)
    check_strict(lambda: list(MonoTrace(data, strict=True)), trace.findings)
    tables = trace.tables(*trace.table_names)
    require(counts_and_places(trace.findings) == findings, "columns give the same findings")
    check_strict(lambda: MonoTrace(data, strict=True).info, trace.findings)
    for table in tables.values():
        require(len(list(table.rows())) == table.num_rows, "a table has its rows")
    info = MonoTrace(data).info
    require(info.records == Counter(type(entry.record).__name__ for entry in entries), "the summary counts the events")
    if trace.compression is None and not trace.findings.counts["mono.header.hybrid-version"]:
        check_buffers(data, trace, entries)
    check_presented(MonoTrace(data))
    other = MonoTrace(Trickle(data, 61))
    require(repr(list(other.entries())) == repr(entries), "pieces give the same events")
    require(counts_and_places(other.findings) == findings, "pieces give the same findings")
    if trace.compression is None:
        require(not data or copied(MonoTrace(data)) == data, "all records, written again, are the same bytes")
        require(copied_whole(MonoTrace(data)) == data, "a copy is the same bytes")
    check_blocks(data)
    return bool(findings[0])


def stream_headers(data: bytes) -> list[Any]:
    """Return the headers of all recordings."""
    return [
        record for record in MonoTrace(data).records(resolve=False) if isinstance(record, StreamHeader | OpaqueHeader)
    ]


def check_blocks(data: bytes) -> None:
    """Check that small blocks give the same result."""
    heads = [
        record.raw if isinstance(record, OpaqueHeader) else encode_header(record) for record in stream_headers(data)
    ]
    longest = max(map(len, heads), default=0)
    with patch.object(frames, "MAX_HEADER", longest):  # as much is read for a header, and makes the block larger
        expected = all_of(data)
        with patch.object(frames, "BLOCK", 1 + len(data) % 197):
            require(all_of(data) == expected, "small blocks give the same")


def all_of(data: bytes) -> tuple[str, list[Finding], dict[str, int], dict[str, int]]:
    """Return the entries of an input, the findings that are kept, and how often the reader and a check find each."""
    trace = MonoTrace(data)
    entries, findings = repr(list(trace.entries())), trace.findings
    rules.check(trace)
    require(findings.counts <= trace.findings.counts, "a check finds what readers find")
    return entries, list(findings), dict(findings.counts), dict(trace.findings.counts)


def check_buffers(data: bytes, trace: MonoTrace, entries: list[Any]) -> None:
    """Check that the columns of each buffer hold its events."""
    of_buffer: dict[int, list[Any]] = {}
    index = trace.index()
    starts = index["offset"].tolist()
    at = 0
    for entry in entries:
        while at + 1 < len(starts) and starts[at + 1] <= entry.offset:
            at += 1
        if not isinstance(entry.record, StreamHeader):
            of_buffer.setdefault(starts[at], []).append(entry.record)
    sizes = iter(index["size"].tolist())
    for entry in trace.entries(resolve=False):
        if isinstance(entry.record, OpaqueHeader):
            head = decode_header(entry.record.raw, any_mark=True)[0]
            dialect = dialect_of(head.data_version, head.pointer_size)
        elif isinstance(entry.record, StreamHeader):
            dialect = dialect_of(entry.record.data_version, entry.record.pointer_size)
        elif isinstance(entry.record, BufferHeader | OpaqueBufferHeader):
            header = entry.record
            base = decode_buffer_header(header.raw) if isinstance(header, OpaqueBufferHeader) else header
            begin = entry.offset + BUFFER_HEADER_SIZE
            raw, expected = data[begin : begin + next(sizes)], of_buffer.get(entry.offset, [])
            for kernel in all_kernels():
                rebuilt = events_from_columns(dialect, columns_of(kernel, dialect, base, raw), raw)
                require(repr(rebuilt) == repr(expected), "columns hold what events hold")


def seeds() -> Iterator[bytes]:
    """Yield the small recordings of the corpus, every event of every version, and several recordings in one file."""
    for path in sorted((CORPUS / "mono").glob("*.mlpd")):
        if path.stat().st_size < LONGEST:
            yield path.read_bytes()
    for version in range(1, 18):
        pointers = 4 if version % 2 else 8
        events = every_event(version)
        dialect = dialect_of(version, pointers)
        data = encode_header(header(version, pointers))
        for half in (events[: len(events) // 2], events[len(events) // 2 :]):
            base = BufferHeader(time=1000, thread=0x1111, pointer=0x6000, object=0x7000_0000, method=0x9000)
            payload = encode_events(dialect, base, half)
            data += encode_buffer_header(base, len(payload)) + payload
        yield data
    yield data + encode_header(header(14, 4)) + data + encode_header(header(3, 8))


@cache
def _buffers() -> list[bytes]:
    """Return the buffers of all seeds, each with its header."""
    return [BUFFER_MARK + part for seed in seeds() for part in seed.split(BUFFER_MARK)[1:]]


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change a recording by whole buffers, or the content of a buffer whose size stays right."""
    head, *parts = data.split(BUFFER_MARK)
    at = draw.randrange(len(parts) + 1)
    choice = draw.randrange(6)
    if choice == 0 or (choice > 1 and at == len(parts)):
        return change(data, most)
    if choice == 1:
        parts[at : at + draw.randrange(2)] = [draw.choice(_buffers()).removeprefix(BUFFER_MARK)]
    elif choice == 2:
        del parts[at]
    else:
        begin = BUFFER_HEADER_SIZE - len(BUFFER_MARK)
        start, events = parts[at][:begin], change(parts[at][begin:], 600)
        if len(start) == begin:
            sized = encode_buffer_header(BufferHeader(), len(events))[SIZE_PLACE]
            place = SIZE_PLACE.start - len(BUFFER_MARK)
            start = start[:place] + sized + start[place + len(sized) :]
        parts[at] = start + events
    return BUFFER_MARK.join([head, *parts])[:most]


def drawn() -> Any:
    """Return seeds with some bytes changed, and any bytes in a buffer."""
    from hypothesis import strategies as st

    all_seeds = list(seeds())
    head = encode_header(header())

    def damaged(seed: bytes, changes: list[tuple[int, int]]) -> bytes:
        data = bytearray(seed)
        for place, value in changes:
            data[place % len(data)] = value
        return bytes(data)

    changes = st.lists(st.tuples(st.integers(0, LONGEST), st.integers(0, 255)), min_size=1, max_size=4)
    events = st.binary(max_size=80).map(lambda raw: head + encode_buffer_header(BufferHeader(), len(raw)) + raw)
    return st.builds(damaged, st.sampled_from(all_seeds), changes) | events | st.binary(max_size=100)


TARGET = Target(check, seeds, drawn, mutate)
