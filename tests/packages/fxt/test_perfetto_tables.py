"""Output of the writer, judged by Perfetto: string and thread tables that overflow, providers, clocks, bulk, exact.

A test that has to step around something that Perfetto bends or drops names it ("deviation").
"""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fxtio
import judges
from fxtio.fxt import FxtWriter, Koid
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread
from judges import perfetto
from judges.perfetto import Perfetto

pytestmark = [pytest.mark.full, pytest.mark.once]


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


def names_by_thread(p: Perfetto) -> dict[int | None, list[str | None]]:
    """Return the names of all slices in time order, by thread."""
    assert p.errors() == {}
    names: dict[int | None, list[str | None]] = {}
    for item in p.slices():
        names.setdefault(item.tid, []).append(item.name)
    return names


# ------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.no_cover  # the same again and again, slow to measure
def test_more_strings_than_slots() -> None:
    count = 40_000
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for number in range(count):
            args = {"same": f"text {number // 2}"}
            track.instant(f"name {number}", number, category=f"category {number % 7}", args=args)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        rows = p.query("""
            select s.ts, s.name, s.category, a.string_value as text
            from slice s join args a using (arg_set_id) order by s.ts
        """)
    assert rows == [
        {"ts": n, "name": f"name {n}", "category": f"category {n % 7}", "text": f"text {n // 2}"} for n in range(count)
    ]


def test_more_threads_than_slots() -> None:
    count = 1000
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, 1000 + number) for number in range(count)]
        for lap in range(3):
            for number, track in enumerate(tracks):
                track.instant(f"turn {lap}", lap * count + number)
    with perfetto.load(out.getvalue()) as p:
        assert names_by_thread(p) == {1000 + number: ["turn 0", "turn 1", "turn 2"] for number in range(count)}
        assert len(p.threads()) == count


def test_long_strings_in_every_place() -> None:
    long = {place: f"{place} " + "ä" * 15_990 for place in ("name", "category", "key", "value", "thread", "process")}
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2, long["thread"], long["process"])
        track.instant(long["name"], 1, category=long["category"], args={long["key"]: long["value"]})
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        (event,) = p.slices()
        (thread,), (process,) = p.threads(), p.processes()
    assert (event.name, event.category, event.args) == (long["name"], long["category"], {long["key"]: long["value"]})
    assert (thread.name, process.name) == (long["thread"], long["process"])


# ------------------------------------------------------------------------------------------------ providers and clocks


def test_providers_take_turns() -> None:
    """Each provider has its own tables: the same slot has another meaning."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", provider="first") as writer:
        providers = [writer.main, writer.provider("second"), writer.provider("third", 0xFFFF_FFFF)]
        tracks = [provider.thread(number, 100 + number) for number, provider in enumerate(providers, 1)]
        for lap in range(4):
            for number, track in enumerate(tracks):
                track.instant(f"{number} in turn {lap}", 10 * lap + number, args={f"key {number}": f"value {number}"})
    with perfetto.load(out.getvalue()) as p:
        assert names_by_thread(p) == {
            101 + number: [f"{number} in turn {lap}" for lap in range(4)] for number in range(3)
        }
        assert [item.args for item in p.slices()[:3]] == [{f"key {n}": f"value {n}"} for n in range(3)]


@pytest.mark.parametrize("rate", [1, 1000, 1_000_000, 25_000_000, 1 << 20])
def test_tick_rates(rate: int) -> None:
    """These divide 10^9 * 2^32, so that Perfetto converts their ticks exactly."""
    start, end = 3_000_000_007, 3_100_000_009
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", ticks_per_second=rate) as writer:
        writer.thread(1, 2).complete("span", start, end)
        writer.provider("nanoseconds").thread(1, 3).complete("span", start, end)
        writer.thread(1, 2).complete("again", end, end + rate)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        spans = {(item.tid, item.name): (item.ts, item.end) for item in p.slices()}
    assert spans == {
        (2, "span"): (start * 10**9 // rate, end * 10**9 // rate),
        (2, "again"): (end * 10**9 // rate, end * 10**9 // rate + 10**9),
        (3, "span"): (start, end),
    }


@pytest.mark.parametrize("rate", [19_200_000, 24_000_000, 3_000_000_000])
def test_tick_rates_that_perfetto_rounds(rate: int) -> None:
    """Deviation: up to one nanosecond is missing for every 2^32 ticks."""
    start, end = 10**12 + 1, 2 * 10**12 + 2
    out = io.BytesIO()
    with fxtio.create(out, format="fxt", ticks_per_second=rate) as writer:
        writer.thread(1, 2).complete("span", start, end)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        (span,) = p.slices()
    assert span.end is not None
    assert 0 <= start * 10**9 // rate - span.ts <= (start >> 32) + 1
    assert 0 <= end * 10**9 // rate - span.end <= (end >> 32) + 1


def test_a_wall_clock_changes_nothing() -> None:
    """Deviation: the four-word initialization record is read as one of two words."""
    out = io.BytesIO()
    options = {"ticks_per_second": 1000, "base_ticks": 50, "wall_clock": 1_700_000_000 * 10**9}
    with fxtio.create(out, format="fxt", **options) as writer:
        writer.thread(1, 2).instant("event", 60)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [item.ts for item in p.slices()] == [60_000_000]


# --------------------------------------------------------------------------------------------------------------- bulk

ROWS = 500
TIMES = np.arange(ROWS, dtype=np.int64) * 10


def bulk(kind: str, **columns: Any) -> Perfetto:
    """Write many events of one kind on three threads, surrounded by friendly ones of the same names."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, 10 + number, f"thread {number}") for number in range(3)]
        tracks[0].instant("name 1", 10**9, args={"number": "before"})
        rows = np.arange(ROWS)
        written = writer.main.write_events(
            kind,
            timestamp=TIMES,
            thread=(tracks, rows % 3),
            name=([f"name {number}" for number in range(5)], rows % 5),
            category=(["even", "odd"], rows % 2),
            **columns,
        )
        assert written == ROWS
        tracks[2].instant("name 1", 10**9 + 10, args={"number": "after"})
    return perfetto.load(out.getvalue())


def expected(row: int, *, dur: int) -> tuple[Any, ...]:
    return row * 10, dur, f"name {row % 5}", ["even", "odd"][row % 2], 10 + row % 3


ARGS = {
    "number": np.arange(ROWS) - 7,
    "wide": np.arange(ROWS) << 40,
    "double": np.arange(ROWS) / 4,
    "flag": np.arange(ROWS) % 2 == 1,
    "text": (["a", "b", ""], np.arange(ROWS) % 3),
    "same": "for all",
}


def expected_args(row: int) -> dict[str, Any]:
    text = ["a", "b", ""][row % 3]
    return {
        "number": row - 7, "wide": row << 40, "double": row / 4, "flag": row % 2 == 1, "text": text, "same": "for all",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "columns", "dur"), [("instant", {}, 0), ("duration_complete", {"end": TIMES + 7}, 7)])
def test_bulk_spans(kind: str, columns: dict[str, Any], dur: int) -> None:
    with bulk(kind, **columns, args=ARGS) as p:
        assert p.errors() == {}
        *slices, before, behind = p.slices()
    assert [(s.ts, s.dur, s.name, s.category, s.tid) for s in slices] == [expected(row, dur=dur) for row in range(ROWS)]
    assert [item.args for item in slices] == [expected_args(row) for row in range(ROWS)]
    assert [(item.name, item.tid, item.args) for item in (before, behind)] == [
        ("name 1", 10, {"number": "before"}),
        ("name 1", 12, {"number": "after"}),
    ]


def test_bulk_begins_and_ends() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        rows = {"row": np.arange(ROWS)}
        writer.main.write_events("duration_begin", timestamp=TIMES, thread=track, name="span", args=rows)
        writer.main.write_events("duration_end", timestamp=TIMES + 5, thread=track, name="span", args={"last": True})
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [(item.ts, item.dur, item.depth, item.args) for item in p.slices()] == [
            (row * 10, 5, 0, {"row": row, "last": True}) for row in range(ROWS)
        ]


def test_bulk_counters() -> None:
    with bulk("counter", id=np.arange(ROWS) % 4, args={"a": np.arange(ROWS), "b": np.arange(ROWS) / 8}) as p:
        assert p.errors() == {}
        samples = p.counters()
    assert [(s.ts, s.series, s.counter_id, s.value) for s in samples] == [
        (row * 10, f"name {row % 5}:{key}", row % 4, value)
        for row in range(ROWS)
        for key, value in (("a", float(row)), ("b", row / 8))
    ]


def test_bulk_async_operations() -> None:
    ids = np.arange(ROWS, dtype=np.uint64) + np.uint64(1 << 63)
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for kind, later in (("async_begin", 0), ("async_instant", 2), ("async_end", 5)):
            writer.main.write_events(kind, timestamp=TIMES + later, thread=track, name="job", category="c", id=ids)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [(item.ts, item.dur, item.name, item.depth) for item in p.slices()] == [
            row_values for row in range(ROWS) for row_values in ((row * 10, 5, "job", 0), (row * 10 + 2, 0, "job", 1))
        ]


def test_bulk_flows() -> None:
    ids = np.arange(ROWS)
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        tracks = [writer.thread(1, 10 + number) for number in range(3)]
        for number, kind in enumerate(("flow_begin", "flow_step", "flow_end")):
            at, track = TIMES + number, tracks[number]
            writer.main.write_events("duration_complete", timestamp=at, end=at + 9, thread=track, name=kind)
            writer.main.write_events(kind, timestamp=at + 1, thread=track, name="flow", id=ids)
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        flows = Counter((flow.ts_out, flow.name_out, flow.ts_in, flow.name_in) for flow in p.flows())
    assert flows == Counter(
        flow
        for time in TIMES.tolist()
        for flow in ((time, "flow_begin", time + 1, "flow_step"), (time + 1, "flow_step", time + 2, "flow_end"))
    )


# -------------------------------------------------------------------------------------------- exact writing and files


def test_exact_records() -> None:
    """Exact records: inline strings and threads, and slots chosen by the test."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for record in [
            rec.Magic(),
            rec.ProviderInfo(7, "by hand"),
            rec.Initialization(1_000_000),
            rec.String(0x7FFF, "highest slot"),
            rec.ThreadRecord(255, 1, 12),
            rec.DurationComplete(1, Thread(1, 11), "inline category", "inline name", (), 5),
            rec.Instant(2, 255, 0, 0x7FFF, ()),
            rec.Instant(3, 255, 0, 0x7FFF, (), 2),  # with the scope that older producers write
            rec.String(0x7FFF, "redefined"),
            rec.Instant(4, 255, 0, 0x7FFF, ()),
        ]:
            writer.put(record)  # fmt: skip
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert [(item.tid, item.ts, item.dur, item.name, item.category) for item in p.slices()] == [
            (11, 1000, 4000, "inline name", "inline category"),
            (12, 2000, 0, "highest slot", ""),
            (12, 3000, 0, "highest slot", ""),
            (12, 4000, 0, "redefined", ""),
        ]


def test_exact_and_friendly_records_mixed() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 11)
        track.instant("friendly 1", 1)
        writer.put(rec.String(1, "taken over"))  # a slot that the friendly side uses
        writer.put(rec.ThreadRecord(1, 1, 12))
        writer.put(rec.Instant(2, 1, 0, 1, ()))
        track.instant("friendly 1", 3)
        writer.put(rec.Instant(4, Thread(1, 12), "", "inline", ()))
        track.instant("friendly 2", 5)
    with perfetto.load(out.getvalue()) as p:
        assert names_by_thread(p) == {11: ["friendly 1", "friendly 1", "friendly 2"], 12: ["taken over", "inline"]}


def test_a_gzipped_file(tmp_path: Path) -> None:
    """Perfetto unpacks gzip only."""
    path = tmp_path / "trace.fxt.gz"
    with fxtio.create(path) as writer:
        track = writer.thread(1, 2)
        for number in range(5000):
            track.complete(f"span {number % 10}", number * 10, number * 10 + 5)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    with perfetto.load(path) as p:
        assert names_by_thread(p) == {2: [f"span {number % 10}" for number in range(5000)]}


def test_an_empty_trace() -> None:
    out = io.BytesIO()
    with fxtio.create(out, format="fxt"):
        pass
    with perfetto.load(out.getvalue()) as p:
        assert p.errors() == {}
        assert p.slices() == []


def write_ignored(writer: FxtWriter) -> None:
    main, track = writer.main, writer.thread(1, 2)
    track.log("a message", 5)
    main.userspace_object(0x1000, 1, "object", {"a": 1})
    main.blob("blob", b"bytes")
    main.blob("blob", b"more", 2)
    main.blob("large", bytes(32_001))
    track.large_blob("large", bytes(100), 6, category="c", args={"a": Koid(1)})
    main.module(7, 1, 1, "module", b"build id")
    main.mmap(8, 1, 1, 0x1000, 0x2000, 0)
    main.backtrace(9, 1, 2, [1, 2, 3])
    main.buffer_filled_up()


def test_records_that_perfetto_ignores() -> None:
    """Deviation: they are ignored without an error, and do not affect the records around them."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.thread(1, 2).instant("before", 1)
        write_ignored(writer)
        writer.thread(1, 2).instant("after", 2)
    with perfetto.load(out.getvalue()) as p:
        assert names_by_thread(p) == {2: ["before", "after"]}
        assert p.counters() == []


def test_large_records_of_4096_words_are_misread() -> None:
    """Deviation: only the lower 12 bits of their size are looked at."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.main.blob("large", bytes(5000 * 8))
        writer.thread(1, 2).instant("after", 2)
    with pytest.raises(perfetto.PerfettoImportError, match="size 0"):
        perfetto.load(out.getvalue())


def protobuf(number: int, value: int | bytes) -> bytes:
    """Return a field of a protobuf message; for field numbers below 16, and small values."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def test_perfetto_packets_in_blobs() -> None:
    """An instant named "packet" at 100 ns, in Perfetto's own format, cut into two blob records."""
    track_event = protobuf(9, 3) + b"\xba\x01\x06packet"
    packet = protobuf(8, 100) + protobuf(10, 1) + protobuf(13, 1) + protobuf(11, track_event)
    stream = protobuf(1, packet)
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        writer.main.blob("perfetto", stream[:9], 3)
        writer.thread(1, 2).instant("fxt", 200)
        writer.main.blob("perfetto", stream[9:], 3)
    with perfetto.load(out.getvalue()) as p:
        assert names_by_thread(p) == {None: ["packet"], 2: ["fxt"]}
        assert [item.ts for item in p.slices()] == [100, 200]
