"""The cost of Fuchsia traces: four times as many records cost about four times as much, whatever the records are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fxtio.codec.columns import Block
from fxtio.codec.generate import encode
from fxtio.fxt import FxtTrace, explain, faults, frames, report
from fxtio.fxt import records as rec
from fxtio.fxt.records import Thread
from fxtio.fxt.slots import NO_DEFINITIONS, Clock, SlotTables, times_of
from fxtio.testing.strategies import encoded
from support.costs import operations
from support.fxt_bad import HEAD, MIB, instants, words
from support.fxt_readings import in_batches

pytestmark = pytest.mark.once

FEW = 16

CHAIN = encoded(instants(0, 4))
"""Enough good records to continue with after a bad header."""

EVENT = rec.Instant(5, Thread(1, 2), "", "", ())

BLOB = (1 << 26) << 4 | 15
"""The header of a large blob of half a gigabyte, with metadata."""

BLOB_WITHOUT_METADATA = BLOB | 1 << 40

LONG_TEXTS = 0xFFF0_FFF0
"""The references of a blob to two inline texts of 32,752 bytes."""


def repeated(*parts: bytes) -> Callable[[int], bytes]:
    return lambda count: b"".join(parts) * count


def numbered(make: Callable[[int], list[Any]]) -> Callable[[int], bytes]:
    """Return a function that encodes the records of this many numbers."""
    return lambda count: b"".join(encoded(make(number)) for number in range(count))


def overlapping(count: int) -> bytes:
    """Return a bad header, and strings that each claim the next quarter of the trace; the last ones are not exact."""
    size = 8 * count
    string = 1 << 16 | size << 4 | 2
    return words(4) + words(string) * 3 * size + words(string | 1 << 31) * 2 * size


TRACES: dict[str, Callable[[int], bytes]] = {
    "size 0": repeated(words(1 << 16 | 4), CHAIN),
    "beyond the end": repeated(words((1 << 20) << 4 | 15), CHAIN),
    "over the limit": repeated(words((1 << 31) << 4 | 15), CHAIN),
    "large blobs": repeated(words(BLOB, 0, 0, 0, 0), CHAIN),
    "large blobs without metadata": repeated(words(BLOB_WITHOUT_METADATA, 0, 1 << 30), CHAIN),
    "large blobs with long texts": repeated(words(BLOB_WITHOUT_METADATA, LONG_TEXTS), CHAIN),
    "large blobs with arguments": repeated(words(BLOB, 15 << 32 | 1 << 36, 0), CHAIN),
    "no good record": repeated(words(4), words(0x12) * 5),
    "overlapping strings": overlapping,
    "zero words": repeated(words(0, 0), CHAIN),
    "live strings": numbered(lambda at: [rec.String(1 + at, f"s{at}"), rec.Instant(5, Thread(1, 2), 0, 1 + at, ())]),
    "strings of one slot": numbered(lambda at: [rec.String(1, f"s{at}"), rec.Instant(5, Thread(1, 2), 0, 1, ())]),
    "inline strings": numbered(lambda at: [rec.Log(5, Thread(1, 2), f"s{at}")]),
    "threads": numbered(lambda at: [rec.Instant(5, Thread(1, at), "", "", ())]),
    "objects": numbered(
        lambda at: [rec.KernelObject(3, at, f"o{at}", ()), EVENT.replace(args=(rec.KoidArgument("k", at),))]
    ),
    "objects of processes": numbered(
        lambda at: [
            rec.UserspaceObject(7, Thread(at, None), "", ()),
            EVENT.replace(thread=Thread(at, 1), args=(rec.PointerArgument("p", 7),)),
        ]
    ),
    "providers": numbered(lambda at: [rec.ProviderInfo(at, f"p{at}"), rec.String(1, "s"), EVENT]),
    "providers introduced again": numbered(lambda at: [rec.ProviderInfo(at % 3, "p"), rec.String(1 + at, "s"), EVENT]),
    "sections": numbered(lambda at: [rec.ProviderSection(at), EVENT]),
    "clocks": numbered(lambda at: [rec.Initialization(1 + at), EVENT]),
    "unknown records": repeated(words(0x1C), encode(EVENT)),
    "undefined slots": numbered(lambda at: [rec.Instant(5, 9, 0, 1 + at, ())]),
    "large records": numbered(lambda at: [rec.LargeBlobNoMetadata("", "", b"x")]),
}


def tabulate(trace: FxtTrace) -> None:
    trace.tables(*trace.table_names)


READINGS: dict[str, Callable[[FxtTrace], object]] = {
    "info": report.info,
    "stats": lambda trace: report.stats(trace, 3),
    "records": list,
    "raw records": lambda trace: list(trace.records(resolve=False)),
    "tables": tabulate,
    "dump": lambda trace: list(report.text_lines(list(trace.entries()))),
    "explain": lambda trace: list(explain.explain(trace)),
}


@pytest.mark.full
@pytest.mark.parametrize("batches", [None, (512, 64)], ids=["whole", "in batches"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", TRACES)
def test_the_cost_is_proportional_to_the_size(kind: str, reading: str, batches: tuple[int, int] | None) -> None:
    make, read = TRACES[kind], READINGS[reading]

    def cost(count: int) -> int:
        data = encoded(HEAD) + make(count)
        if batches is None:
            return operations(lambda: read(FxtTrace(data)))
        with in_batches(*batches):
            return operations(lambda: read(FxtTrace(data)))

    cost(2)  # what is made on first use does not count; CPython 3.12 counts nothing at first
    costs = [cost(FEW), cost(4 * FEW)]
    assert costs[1] < 4.8 * costs[0], (kind, reading, costs)


class Counted(np.ndarray[Any, Any]):
    """Words that count how many of them are converted to Python integers.

    Attributes:
        converted: the number.
    """

    converted = 0

    def tolist(self) -> Any:
        Counted.converted += self.size
        return super().tolist()


@pytest.mark.parametrize("kind", ["large blobs", "large blobs with long texts", "large blobs with arguments"])
def test_a_header_of_a_large_blob_is_read_without_what_it_claims(kind: str) -> None:
    data = np.frombuffer(TRACES[kind](1) + bytes(MIB), np.uint64)
    Counted.converted = 0
    count = operations(lambda: frames._is_large_blob(Block(data.view(Counted), data), 0, 1 << 26))
    assert Counted.converted < 100
    assert count < 1_000


def test_the_records_that_are_decoded_in_search_of_good_ones_are_bounded() -> None:
    """Every word begins a record of 1,000 words; with no bound, a thousand words are decoded for each."""
    data = encoded(HEAD) + overlapping(125)
    original = frames.decode_exactly
    sizes: list[int] = []

    def decode(block: Block, at: int, stop: int, big_endian: bool) -> Any:
        sizes.append(stop - at)
        return original(block, at, stop, big_endian)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "decode_exactly", decode)
        assert list(FxtTrace(data))
    assert 0 < sum(sizes) < 33 * (len(data) // 8)


def test_threads_are_numbered_once_for_all_batches() -> None:
    def cost(count: int) -> int:
        data = encoded([*HEAD, *(rec.Log(5, Thread(1, at), "") for at in range(count))])
        with in_batches(16):
            return operations(lambda: FxtTrace(data).table("logs"))

    cost(2)
    assert cost(400) < 4.8 * cost(100)


class Touched(np.ndarray[Any, Any]):
    """An array that counts the elements on which ufuncs work.

    Attributes:
        count: the number.
    """

    count = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        Touched.count += max(map(np.size, inputs))
        return getattr(ufunc, method)(*map(np.asarray, inputs), **options)


def test_times_of_many_clocks_are_looked_at_a_few_times_each() -> None:
    count = 1000
    clocks, codes = [Clock(1 + number) for number in range(count)], np.arange(count, dtype=np.uint16)
    Touched.count = 0
    times = times_of(clocks, codes.view(Touched), np.full(count, 7, np.uint64))
    assert times.tolist() == [clock.ns(7) for clock in clocks]
    assert Touched.count < 10 * count


class Resets(dict[int, int]):
    """Resets of providers that count how often they are gone through.

    Attributes:
        count: the number.
    """

    count = 0

    def __iter__(self) -> Iterator[int]:
        self.count += 1
        return super().__iter__()


def test_all_resets_of_a_batch_are_gone_through_once() -> None:
    resets = Resets(enumerate(range(100)))
    SlotTables().enter(NO_DEFINITIONS, resets)
    assert resets.count == 1


def test_of_records_that_cannot_be_decoded_only_some_are_examined() -> None:
    """Counters whose names take the words of their arguments and ids, and of more than the greatest examined number."""
    name = 0x8000 | 8 * 62
    counter = words(name << 48 | 1 << 24 | 15 << 20 | 1 << 16 | 64 << 4 | 4, 5) + b"x" * 8 * 62

    def cost(count: int) -> int:
        trace = FxtTrace(encoded(HEAD) + counter * count)
        return operations(lambda: list(trace))

    examined = cost(faults.MAX_EXAMINED)
    assert cost(4 * faults.MAX_EXAMINED) < 1.5 * examined
