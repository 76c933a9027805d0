"""The records of profilers in FXT traces as samples with stacks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio import open_timeline
from fxtio.fxt import backtraces
from fxtio.fxt import records as r
from fxtio.fxt.backtraces import _Mappings
from fxtio.fxt.records import Thread

CORPUS = Path(__file__).parents[2] / "corpus" / "fxt"
ONE, TWO = Thread(1, None), Thread(2, None)


def module(process: Thread, number: int, name: str) -> r.ProfilerModule:
    return r.ProfilerModule(module=number, timestamp=0, thread=process, name=name, build_id=b"")


def mapping(process: Thread, number: int, start: int, size: int, address: int) -> r.ProfilerMmap:
    place = {"start": start, "range": size, "vaddr": address}
    return r.ProfilerMmap(module=number, flags=5, timestamp=0, thread=process, **place)


def backtrace(time: int, thread: Thread, *frames: int) -> r.ProfilerBacktrace:
    return r.ProfilerBacktrace(flags=0, timestamp=time, thread=thread, frames=frames)


def samples(*records: Any) -> tuple[list[Any], dict[str, int]]:
    """Return time, process, thread and stack (module and address of each frame, the outermost first) of each sample."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        for record in (r.Magic(), *records):
            writer.put(record)
    with open_timeline(out.getvalue()) as timeline:
        tables = timeline.tables("samples", "stacks", "frames", "threads", "processes")
        losses = dict(timeline.losses)
    frames = [(row["module"], row["address"]) for row in tables["frames"].rows()]
    stacks: list[list[Any]] = []
    for row in tables["stacks"].rows():
        stacks.append([*(stacks[row["parent"]] if row["parent"] >= 0 else []), frames[row["frame"]]])
    threads = [*tables["threads"].rows()]
    pids = tables["processes"]["pid"].tolist()
    result = []
    for row in tables["samples"].rows():
        assert (row["unit"], row["count"], row["cpu"]) == ("samples", 1, -1)
        thread = threads[row["thread"]]
        stack = stacks[row["stack"]] if row["stack"] >= 0 else []
        result.append((row["time"], pids[thread["process"]], thread["tid"], stack))
    return result, losses


def test_frames_are_places_in_the_modules_of_their_process() -> None:
    result, losses = samples(
        module(ONE, 0, "libc.so"), mapping(ONE, 0, 0x1000, 0x100, 0), mapping(ONE, 0, 0x2000, 0x100, 0x500),
        module(TWO, 0, "app"), mapping(TWO, 0, 0x1000, 0x100, 0x40),
        backtrace(10, Thread(1, 7), 0x2001, 0x1002),
        backtrace(20, Thread(2, 8), 0x1003, 0x9999),
        backtrace(30, Thread(1, 7)),
    )  # fmt: skip
    assert result == [
        (10, 1, 7, [("libc.so", 2), ("libc.so", 0x501)]),
        (20, 2, 8, [(None, 0x9999), ("app", 0x43)]),
        (30, 1, 7, []),
    ]
    assert losses == {}


def test_what_is_mapped_counts_as_of_the_place_in_the_file() -> None:
    thread = Thread(1, 7)
    result, _ = samples(
        backtrace(1, thread, 0x1001),
        mapping(ONE, 3, 0x1000, 0x100, 0), backtrace(2, thread, 0x1001),  # a mapping of no module
        module(ONE, 3, "old"), mapping(ONE, 3, 0x1000, 0x100, 0), backtrace(3, thread, 0x1001),
        module(ONE, 3, "new"), backtrace(4, thread, 0x1001),
        mapping(ONE, 3, 0x1000, 0x80, 0x10), backtrace(5, thread, 0x1001, 0x1090),
    )  # fmt: skip
    assert [stack for *_, stack in result] == [
        [(None, 0x1001)], [(None, 1)], [("old", 1)], [("old", 1)], [("old", 0x90), ("new", 0x11)],
    ]  # fmt: skip


def test_a_recording_of_ffx() -> None:
    with open_timeline(CORPUS / "ffx-symbolize-profiler.fxt") as timeline:
        tables = timeline.tables("samples", "stacks")
    assert tables["samples"].num_rows == 4
    assert tables["stacks"]["depth"].max() == 2


def test_addresses_at_the_end_of_memory() -> None:
    last = 2**64 - 1
    result, _ = samples(
        module(ONE, 0, "m"), mapping(ONE, 0, last - 1, last, last), backtrace(1, Thread(1, 2), last, 0, last - 2)
    )
    assert result == [(1, 1, 2, [(None, last - 2), (None, 0), ("m", 0)])]


def test_too_many_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backtraces, "MAX_MAPPINGS", 2)
    result, losses = samples(
        *(module(ONE, number, str(number)) for number in range(3)),
        *(mapping(ONE, number, 10 * number, 10, 0) for number in range(3)),
        backtrace(1, Thread(1, 2), 1, 11, 21),
    )
    assert result == [(1, 1, 2, [(None, 21), ("1", 1), ("0", 1)])]
    assert sum(losses.values()) == 2


@given(
    maps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12), st.integers(0, 50), st.sampled_from("abc"))),
    addresses=st.lists(st.integers(0, 40)),
)
def test_the_latest_mapping_counts(maps: list[tuple[int, int, int, str]], addresses: list[int]) -> None:
    mappings = _Mappings()
    for each in maps:
        mappings.add(*each)
    for address in addresses:
        expected: tuple[str | None, int] = (None, address)
        for start, size, place, name in maps:
            if start <= address < start + size:
                expected = (name, place + address - start)
        assert mappings.find(address) == expected
