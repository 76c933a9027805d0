"""A recording reads from front to back: each thread's events in the order of time, however the recording ended."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio.arrays import Array
from fxtio.fxt import FxtTrace
from fxtio.fxt.layout import MAX_RECORD_WORDS, EventWord, LogWord, RecordWord
from fxtio.fxt.live_file import Chunks, filler, filler_header, in_order
from fxtio.fxt.records import DurationBegin, DurationEnd
from fxtio.tracer import archive, fallback
from fxtio.tracer.backend import recorder
from fxtio.tracer.recovery import RecoveryError, recover
from fxtio.validate import validate
from judges import perfetto, pypi_fxt
from support.tracer_check import Seen, check_trace, numbered
from support.tracer_recorder import recording
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

KEEPS_FILLERS = "import fxtio.tracer.file as file; file._SQUEEZED_UP_TO = 0\n"
"""A finished file stays as it is, as one that is too large to be rewritten."""

THREADS = """\
def work(thread, count, pause):
    for n in range(count):
        with fxtio.span("outer", f"t{thread}", n=n, text="a text of some length, so that the file grows"):
            fxtio.instant("inner", f"t{thread}", n=n)
        if pause:
            time.sleep(pause)

threads = [threading.Thread(target=work, args=(thread, *work_of)) for thread, work_of in enumerate(WORK)]
fxtio.instant("first", "main", n=0)
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
BUSY = "WORK = [(6_000, 0)] * 3 + [(20, 0.005)]\n" + THREADS
LESS_BUSY = BUSY.replace("6_000", "2_000")
"""Still several chunks of each thread."""

NUMBERS = {0: 6_000, 1: 6_000, 2: 6_000, 3: 20}
KILLED = "import ctypes; ctypes.CDLL(None)._exit(0)\n"
"""The end of a program that nothing of Python sees."""


class Timed(NamedTuple):
    """The events of a trace in the order in which it is read, without the note about losses, which is in front.

    Attributes:
        threads: a number for each thread.
        ticks: their times.
        offsets: where they are in the file (bytes).
    """

    threads: Array
    ticks: Array
    offsets: Array


def timed(path: Path) -> Timed:
    """Return the events of a trace, which must be without faults."""
    with fxtio.open(path, strict=True) as trace:
        events = trace.table("events")
    events = events.take(~events["name"].is_in("drop_stats"))
    return Timed(numbered(events["process"], events["thread"]), events["ticks"], events["offset"])


def check_threads(path: Path) -> None:
    """Check that the events of each thread are in the order of time."""
    events = timed(path)
    order = np.argsort(events.threads, kind="stable")
    is_same = np.diff(events.threads[order]) == 0
    ticks = events.ticks[order]
    assert (ticks[1:] > ticks[:-1])[is_same].all()
    assert len(ticks)


def check_all(path: Path) -> None:
    """Check that all events are in the order of time."""
    ticks = timed(path).ticks
    assert len(ticks)
    assert (ticks[1:] >= ticks[:-1]).all()


def by_thread(path: Path) -> list[tuple[int, int]]:
    """Return the number of its thread and the time of each event, whatever their order in the file is."""
    events = timed(path)
    return sorted(zip(events.threads.tolist(), events.ticks.tolist(), strict=True))


def check_complete(path: Path) -> Seen:
    """Check that the trace has every event of BUSY once."""
    seen = check_trace(path)
    for thread, count in NUMBERS.items():
        for name in ("outer", "inner"):
            kind = "instant" if name == "inner" else "duration_begin"
            rows = seen.rows(kind=kind, name=name, category=f"t{thread}")
            assert seen.numbers(rows).tolist() == list(range(count))
    return seen


def record(source: str, out: Path, **options: Any) -> None:
    """Record a program that runs in a process of its own."""
    fine(source, out, start=True, **options)


# ---- Finished files.


def test_a_finished_trace_is_in_the_order_of_time(out: Path) -> None:
    record(BUSY, out)
    check_complete(out)
    check_all(out)
    assert b"fxtio: unfinished" not in out.read_bytes()
    assert not validate(out).findings


@pytest.mark.parametrize("options", [{}, {"max_size": "64MiB"}])
def test_a_large_trace_is_in_order_as_it_is(options: dict[str, Any], out: Path) -> None:
    """Such a file is not rewritten: it still has its fillers."""
    record(KEEPS_FILLERS + BUSY, out, **options)
    check_complete(out)
    check_threads(out)
    assert Chunks.of(out.read_bytes()[:512]) is None
    assert out.stat().st_size > (2 << 20) + timed(out).offsets[-1] // 2
    assert not validate(out).findings


def test_a_compressed_trace_is_in_the_order_of_time(tmp_path: Path) -> None:
    out = tmp_path / "out.fxt.zst"
    record(BUSY, out)
    check_complete(out)
    check_all(out)


def test_a_simple_loop_pairs_begins_and_ends(out: Path) -> None:
    """The loop that anybody would write, over more than a chunk of each thread."""
    record(BUSY, out)
    open_spans: dict[Any, list[DurationBegin]] = {}
    pairs: Counter[str] = Counter()
    for event in fxtio.open(out):
        if isinstance(event, DurationBegin):
            open_spans.setdefault(event.thread, []).append(event)
        elif isinstance(event, DurationEnd):
            begin = open_spans[event.thread].pop()
            assert begin.timestamp < event.timestamp
            assert begin.name == event.name
            pairs[str(begin.category)] += 1
    assert pairs == {f"t{thread}": count for thread, count in NUMBERS.items()}
    assert not any(open_spans.values())


def test_slow_threads_are_not_left_behind(out: Path) -> None:
    """In a large file, no event stands more than a window after one that is later."""
    window = 2 * 32 * recorder.CHUNK_BYTES
    source = """\
    import fxtio.tracer.file as file; file._SQUEEZED_UP_TO = 0
    steps = [threading.Semaphore(0) for _ in range(3)]
    done = threading.Semaphore(0)
    def slow(number):
        for n in range(40):
            steps[number].acquire()
            fxtio.instant("slow", n=n)
            done.release()
    threads = [threading.Thread(target=slow, args=(number,)) for number in range(3)]
    for thread in threads: thread.start()
    for n in range(40_000):
        fxtio.instant("busy", text="x" * 900)
        if n % 1_000 == 0 and n // 1_000 % 8 < 4:
            for step in steps: step.release()
            for step in steps: done.acquire()
    for step in steps:
        for _ in range(40): step.release()
    for thread in threads: thread.join()
    """
    record(source, out)
    check_threads(out)
    _, ticks, offsets = timed(out)
    latest = np.maximum.accumulate(ticks)
    first_later = np.searchsorted(latest, ticks, side="right")  # the first event that is later
    late = np.flatnonzero(first_later < np.arange(len(ticks)))
    behind = offsets[late] - offsets[first_later[late]]
    assert out.stat().st_size > 4 * window
    assert len(late)
    assert behind.max() <= window + 8 * recorder.CHUNK_BYTES


@pytest.mark.full
def test_a_limit_holds_also_at_the_end(out: Path) -> None:
    """Room for the last events of all threads is kept from the beginning."""
    record(KEEPS_FILLERS + "WORK = [(30_000, 0)] * 3\n" + THREADS, out, max_size="8MiB")
    assert out.stat().st_size <= 8 << 20
    check_threads(out)
    assert Chunks.of(out.read_bytes()[:512]) is None


def test_a_thread_that_takes_the_room_of_the_end(out: Path) -> None:
    """Then the file is rewritten, since its events cannot be put in order in their places."""
    source = (
        KEEPS_FILLERS
        + """\
for n in range(30_000):
    fxtio.instant("busy", n=n, text="x" * 200)
late = [threading.Thread(target=fxtio.instant, args=("late",)) for _ in range(3)]
"""
    )
    record(source, out, max_size="4MiB")
    assert out.stat().st_size <= 4 << 20
    check_all(out)


# ---- Rings and dumps.


def test_a_ring_is_in_the_order_of_time(out: Path) -> None:
    record(BUSY, out, ring="1MiB")
    check_trace(out, ring=True)
    check_all(out)
    assert len(timed(out).ticks) > 5_000


def test_a_large_ring_is_in_the_order_of_time(out: Path) -> None:
    record(KEEPS_FILLERS + BUSY, out, ring="1MiB")
    check_trace(out, ring=True)
    check_all(out)


@pytest.mark.parametrize("options", [{}, {"ring": "1MiB"}])
def test_dumps_are_in_the_order_of_time(options: dict[str, Any], tmp_path: Path) -> None:
    record(BUSY + "fxtio.dump(OUT + '.dump.fxt')\n", tmp_path / "out.fxt", **options)
    dump = tmp_path / "out.fxt.dump.fxt"
    check_trace(dump, ring=bool(options))
    check_all(dump)


# ---- Killed programs.


@pytest.mark.full
@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
@pytest.mark.parametrize("options", [{}, {"ring": "1MiB"}])
def test_a_killed_recording_opens_in_order(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / name
    live = tmp_path / f"{name}.part" if name.endswith(".zst") else out
    record(BUSY + KILLED, out, **options)
    check_threads(live)
    if not options:
        check_complete(live)
    before = by_thread(live)
    assert recover(live).path == out
    check_all(out)
    assert by_thread(out) == before


@pytest.mark.parametrize("options", [{}, {"ring": "512KiB"}])
def test_recover_without_the_extension(options: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer, and writes the same bytes."""
    record("WORK = [(4_000, 0)] * 2\n" + THREADS + KILLED, out, **options)
    with_extension = recover(out, out.with_name("with.fxt")).path
    monkeypatch.setattr(archive, "recorder", fallback)
    assert recover(out, out.with_name("without.fxt")).path.read_bytes() == with_extension.read_bytes()
    check_all(with_extension)


@pytest.mark.full
def test_the_parts_of_children_are_in_order(out: Path) -> None:
    source = BUSY.replace(
        "for thread in threads: thread.start()", "child = os.fork()\nfor thread in threads: thread.start()"
    )
    record(source + "if not child: os._exit(0)\nos.waitpid(child, 0)\n", out)
    check_threads(out)
    assert len(set(fxtio.open(out).table("events")["process"].tolist())) == 2


@contextmanager
def killed(out: Path) -> Iterator[Chunks]:
    """Leave the file of a recording with a full chunk and some events in the live one; give its chunks."""
    with recording(out):
        for number in range(9_000):
            recorder.instant("here", "test", n=number)
        shutil.copy(out, out.with_suffix(".copy"))
    out.with_suffix(".copy").replace(out)
    chunks = Chunks.of(out.read_bytes()[:512])
    assert chunks is not None
    yield chunks


def numbers(trace: Path | FxtTrace) -> list[int]:
    """Return the numbers of the events in the order of the file, which must be without faults if a path is given."""
    records: Iterable[Any] = fxtio.open(trace, strict=True) if isinstance(trace, Path) else trace
    return [record.args[0].value for record in records if hasattr(record, "args") and hasattr(record, "timestamp")]


def test_a_kill_between_showing_and_hiding_doubles_nothing(out: Path) -> None:
    with killed(out) as chunks:
        data = bytearray(out.read_bytes())
        live = data[chunks.begin : chunks.begin + recorder.CHUNK_BYTES]
        for copied in (recorder.CHUNK_BYTES, chunks.page * 24):
            last = filler(1)
            out.write_bytes(data + live[: copied - 8] + last)
            assert numbers(out) == list(range(9_000))
            recover(out)
            assert numbers(out) == list(range(9_000))


def test_two_chunks_that_begin_at_the_same_time_are_kept(out: Path) -> None:
    with killed(out) as chunks:
        data = bytearray(out.read_bytes())
        live = data[chunks.begin : chunks.begin + recorder.CHUNK_BYTES]
        live[40] ^= 1  # in the first event, after its time
        out.write_bytes(data + live)
        assert len(numbers(out)) > 9_000


def test_every_order_of_killing_while_events_are_put_in_order(out: Path) -> None:
    """The file after each of the stores and writes at the end: always every event once."""
    with killed(out) as chunks:
        data = out.read_bytes()
        page, size = chunks.page, recorder.CHUNK_BYTES
        live = data[chunks.begin : chunks.begin + size]
        hidden = filler(page // 8) + live[8:]
        states = [data + hidden[:count] for count in (8, page, page + 8, 3 * page, size)]
        states.append(data + live)  # shown twice
        states.append(data[: chunks.begin] + hidden + data[chunks.begin + size :] + live)
        for state in states:
            out.write_bytes(state)
            trace = fxtio.open(out)
            assert numbers(trace) == list(range(9_000))
            recover(out)
            assert numbers(out) == list(range(9_000))


def test_damage_is_confined_to_its_chunk(out: Path) -> None:
    """A crash of the machine leaves zeros; `recover` refuses them, and the reader goes on after them."""
    with killed(out) as chunks:
        data = bytearray(out.read_bytes())
        full = chunks.begin + recorder.CHUNK_BYTES
        data[full + chunks.page : full + 2 * chunks.page] = bytes(chunks.page)
        out.write_bytes(data)
        with fxtio.open(out) as trace:
            left = numbers(trace)
            assert [finding.rule for finding in trace.findings] == ["fxt.framing.zero-words"]
        behind = next(index for index, number in enumerate(left) if number != index)
        assert left[:behind] == list(range(behind))  # of the first page
        assert left[behind:] == list(range(left[behind], 9_000))  # of the live chunk
        with pytest.raises(RecoveryError, match=f"damaged at byte {full + chunks.page + 8:,}"):
            recover(out)


# ---- Recognizing and ordering chunks.


@given(data=st.binary(max_size=600))
def test_arbitrary_bytes_are_no_recording(data: bytes) -> None:
    assert Chunks.of(data) is None


@pytest.mark.parametrize(
    ("begin", "page"),
    [(0, 4096), (4097, 4096), (8192, 8), (8192, 8191), (1 << 20, 1 << 20), (1 << 62, 4096), (4096 * 10**30, 4096)],
)
def test_impossible_marks_are_ignored(begin: int, page: int, out: Path) -> None:
    with recording(out):
        front = out.read_bytes()[:4096]
    chunks = Chunks.of(front)
    assert chunks is not None
    assert Chunks.of(front.replace(chunks.mark(), Chunks(begin, page).mark())) is None


def test_small_fillers_are_not_read_one_by_one(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, read, count = 1 << 20, os.pread, 0

    def counted(*args: Any) -> bytes:
        nonlocal count
        count += 1
        return read(*args)

    with recording(out):
        head = out.read_bytes()[:8] + Chunks(begin, PAGE).mark()
    out.write_bytes(head + filler(1) * ((begin - len(head)) // 8))
    monkeypatch.setattr(os, "pread", counted)
    with open(out, "rb") as file:
        assert b"".join(map(bytes, archive.squeezed(file.fileno()))) == head[:8]
    assert count < 20


PAGE = 4096
WORDS = PAGE // 8


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pages=st.lists(st.sampled_from(["shown", "hidden", "zeros", "empty"]), max_size=40), seed=st.integers(0, 99))
def test_chunks_of_arbitrary_pages_cover_the_file(pages: list[str], seed: int) -> None:
    """Every page belongs to one chunk, unless that is the copy of another one."""
    chance = random.Random(seed)
    image = array("Q", [0] * WORDS)
    ticks = chance.sample(range(1000), len(pages))
    for kind, tick in zip(pages, ticks, strict=True):
        first = {"shown": filler_header(1), "hidden": filler_header(WORDS), "zeros": 0, "empty": filler_header(1)}[kind]
        second = EventWord.pattern("tag")[1] if kind == "shown" else filler_header(WORDS - 1)
        image.extend([first, second, tick, *[0] * (WORDS - 3)])
    data = image.tobytes() + bytes(chance.choice([0, 8, 24, 4088]))

    def read(offset: int, target: memoryview) -> int:
        part = data[offset : offset + len(target)]
        target[: len(part)] = part
        return len(part)

    found = list(in_order(Chunks(PAGE, PAGE), read))
    places = sorted((chunk.offset, chunk.offset + chunk.size) for chunk in found)
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(places))
    excess = len(data) % PAGE  # of a page that is hidden, and not complete
    end = len(data) if any(chunk.is_cut for chunk in found) else len(data) - excess
    assert not places or (places[0][0], places[-1][1]) == (PAGE, end)
    assert [chunk.tick for chunk in found] == sorted(chunk.tick for chunk in found)
    starts = {PAGE * (1 + number) for number, kind in enumerate(pages) if kind in ("shown", "empty") or not number}
    assert {chunk.offset for chunk in found} >= starts


def test_chunks_are_compared_page_by_page() -> None:
    """A chunk without its last page, the whole chunk, and one of the same tick that differs on another page."""
    header = EventWord.pattern("tag")[1] | RecordWord.fields["size"].put(2)
    page = array("Q", [filler_header(1), header, 5, *[0] * (WORDS - 4), filler_header(2)])
    last, other = page[:], page[:]
    last[0] = other[0] = filler_header(WORDS)
    other[3] = 7
    chunks = [page + last * 2, page + last * 3, page + other + last]
    data = bytes(PAGE) + b"".join(chunk.tobytes() for chunk in chunks)
    longest = 0

    def read(offset: int, target: memoryview) -> int:
        nonlocal longest
        if PAGE < offset < len(data):  # no search for chunks
            longest = max(longest, len(target))
        part = data[offset : offset + len(target)]
        target[: len(part)] = part
        return len(part)

    found = [chunk.offset for chunk in in_order(Chunks(PAGE, PAGE), read)]
    assert found == [4 * PAGE, 8 * PAGE]
    assert longest == PAGE


# ---- Merging.


def _record(kind: str, tick: int, number: int) -> list[int]:
    """Return the words of a record."""
    words: dict[str, type[RecordWord]] = {"event": EventWord, "log": LogWord}
    size, word = RecordWord.fields["size"], words.get(kind)
    if kind == "filler":
        return [filler_header(number + 1), *[0] * number]
    tag = word.pattern("tag")[1] if word else 1
    return [tag | size.put(number + 2), tick, *[number] * number]


records = st.tuples(
    st.sampled_from(["event", "event", "log", "other", "filler"]), st.integers(0, 20), st.integers(0, 3)
)
streams = st.lists(st.lists(records, max_size=12), max_size=6)
rests = st.lists(st.sampled_from([0, 0x40, 0xFFF4]), max_size=6)


@given(streams=streams, limit=st.integers(0, 21), rests=rests)
def test_merge_and_its_stand_in(streams: list[Any], limit: int, rests: list[int]) -> None:
    buffers = []
    for stream, rest in itertools.zip_longest(streams, rests[: len(streams)]):
        words = [word for kind, tick, number in stream for word in _record(kind, tick, number)]
        buffers.append(
            b"".join(word.to_bytes(8, sys.byteorder) for word in [*words, *([] if rest is None else [rest])])
        )
    results = []
    for merge in (recorder.merge, fallback.merge):
        positions, output, parts = array("Q", [0] * len(buffers)), bytearray(MAX_RECORD_WORDS * 8), []
        for last in (limit, 2**64 - 1):
            count, events = merge(tuple(buffers), positions, last, output)
            parts.append((bytes(output[: count * 8]), events, positions.tolist()))
        results.append(parts)
    assert results[0] == results[1]
    merged = array("Q", results[0][0][0] + results[0][1][0])
    kept = [entry for stream in streams for entry in stream if entry[0] != "filler"]
    assert len(merged) == sum(number + 2 for _, _, number in kept)
    assert sum(part[1] for part in results[0]) == sum(kind == "event" for kind, _, _ in kept)


@given(ticks=st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=20).map(sorted), max_size=9))
def test_merge_sorts(ticks: list[list[int]]) -> None:
    buffers = tuple(
        array("Q", [word for tick in stream for word in _record("event", tick, 1)]).tobytes() for stream in ticks
    )
    output = bytearray(MAX_RECORD_WORDS * 8)
    words, events = recorder.merge(buffers, array("Q", [0] * len(ticks)), 2**64 - 1, output)
    assert events == sum(map(len, ticks))
    assert array("Q", output[: words * 8]).tolist()[1::3] == sorted(itertools.chain.from_iterable(ticks))


def test_merge_stops_where_the_output_is_full() -> None:
    stream = array("Q", [word for tick in range(5_000) for word in _record("event", tick, 1)]).tobytes()
    for merge in (recorder.merge, fallback.merge):
        positions, output, merged = array("Q", [0]), bytearray(MAX_RECORD_WORDS * 8), b""
        while count := merge((stream,), positions, 2**64 - 1, output)[0]:
            merged += output[: count * 8]
        assert merged == stream


@pytest.mark.parametrize(("positions", "size"), [(0, MAX_RECORD_WORDS * 8), (1, 8)])
def test_merge_refuses_too_little_room(positions: int, size: int) -> None:
    for merge in (recorder.merge, fallback.merge):
        with pytest.raises(ValueError, match="the output holds a record"):
            merge((b"",), array("Q", [0] * positions), 0, bytearray(size))


def test_wrong_times_do_not_fill_the_memory(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks whose second event is very late would all have to wait in memory; their order is given up instead."""
    most = 0

    def merged(chunks: list[Any], *rest: Any) -> Iterator[memoryview]:
        nonlocal most
        most = max(most, len(chunks))
        return original(chunks, *rest)

    original = archive._merged
    monkeypatch.setattr(archive, "_MAX_LOADED_BYTES", 16 * recorder.CHUNK_BYTES)
    monkeypatch.setattr(archive, "_merged", merged)
    with recording(out):
        recorder.instant("here", n=0)
        front = out.read_bytes()
    chunks = Chunks.of(front[:512])
    assert chunks is not None
    chunk = bytearray(front[chunks.begin : chunks.begin + recorder.CHUNK_BYTES])
    words = memoryview(chunk).cast("Q")
    size = RecordWord.fields["size"].get(words[1])
    words[1 + size : 1 + 2 * size] = words[1 : 1 + size]
    words[2 + size] = 2**64 - 1
    words[1 + 2 * size] = filler_header(WORDS - 2 - 2 * size)
    with open(out, "wb") as file:
        file.write(front[: chunks.begin])
        for tick in range(100):
            words[2] = tick
            file.write(chunk)
    recover(out)
    assert len(numbers(out)) == 200
    assert most < 32


# ---- Readers of other projects.


@pytest.mark.full
@pytest.mark.parametrize("front", ["", KEEPS_FILLERS], ids=["small", "large"])
def test_perfetto(front: str, out: Path) -> None:
    reason = perfetto.available()
    if reason is not None:
        pytest.skip(reason)
    record(front + LESS_BUSY, out)
    with perfetto.load(out) as judge:
        assert judge.errors() == {}
        counts = Counter(slice_.name for slice_ in judge.slices())
    assert counts["outer"] == 6_020


@pytest.mark.full
@pytest.mark.parametrize("front", ["", KEEPS_FILLERS], ids=["small", "large"])
def test_pypi_fxt(front: str, out: Path) -> None:
    reason = pypi_fxt.available()
    if reason is not None:
        pytest.skip(reason)
    record(front + LESS_BUSY, out)
    last: dict[Any, int] = {}
    counts: Counter[str] = Counter()
    for event in pypi_fxt.read(out, repaired=False).records:
        if "timestamp_ns" in event and event["kind"] != "log":
            assert event["timestamp_ns"] >= last.get(event["thread"], 0)
            last[event["thread"]] = event["timestamp_ns"]
            counts[event["name"]] += event["kind"] == "duration_begin"
    assert counts["outer"] == 6_020
