"""The cost of CoreProfiler traces: twice as many lines cost about twice as many operations, whatever the lines are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from fxtio.coreprofiler import CoreProfilerTrace, canonical, explain, report, rules
from support.costs import operations

pytestmark = pytest.mark.once

FEW = 60

THREAD = b"thr crt 0x1 0x00000000\n"


def numbered(*lines: bytes) -> Callable[[int], bytes]:
    """Return a function that makes this many times these lines, each round with its number."""
    return lambda count: b"".join(line % ((at,) * line.count(b"%")) for line in lines for at in range(count))


def repeated(line: bytes) -> Callable[[int], bytes]:
    return lambda count: line * count


def deep(count: int) -> bytes:
    """Return samples of a stack that each sample makes deeper."""
    return b"".join(b"sam str 0x0 1 1 %d:%d 0x%x\n" % (at, at, at) for at in range(count))


def unchanged(count: int) -> bytes:
    """Return samples and allocations of a deep stack that does not change."""
    begin = b"sam str 0x0 1 1 0:0" + b" 0x1" * count + b"\n"
    return begin + (b"sam str 0x0 1 1 %d:%d\n" % (count, count) + b"sam mem 0x0 1 0x1:1:1\n") * count


LINES: dict[str, Callable[[int], bytes]] = {
    "deep": deep,
    "unchanged": unchanged,
    "lost": numbered(b"sam str 0x%x 1 1 100:100\n"),
    "replaced": repeated(b"sam str 0x0 1 1 0:0 0x1 0x2 0x3\nsam str 0x0 1 1 0:3\n"),
    "compilations": numbered(b"jit cms 0x0 1 0x%x\n", b"jit cmf 0x0 1 0x%x 0x0\n"),
    "compilations of others": numbered(b"jit cms 0x0 1 0x%x\n", b"jit cmf 0x0 1 0xf%x 0x0\n"),
    "collections": lambda count: b"gch gcs 0x0 1 ? tfff\n" * count + b"gch gcf 0x0 1\n" * count,
    "pauses": repeated(b"prf tps 1\nprf trs 2\n"),
    "parameters": numbered(b"prf cfg n%d x\n"),
    "names": numbered(b'fun nam 0x%x "a" "" ""\n', b'fun nam 0x%x "a"\n', b'cls nam 0x%x "a"\n'),
    "threads": numbered(b"thr crt 0x1 0x%08x\n", b"thr aos 0x%08x 5\n", b"thr crt 0x%08x\n"),
    "code": lambda count: b"fun inf 0x1 0x2 0x3 0x4 0x5" + b" 0x1:0x2" * count + b" 0x1:0x2:0x3" * count + b"\n",
    "survivors": lambda count: b"gch alt 1" + b" 0x1:1:1" * count + b"\n",
    "flags": lambda count: b"gch gcs 0x0 1 ? " + b"t " * count + b"t\n",
    "modules": numbered(b"mod ata 0x%x 0x5\n", b'mod ldf 0x%x 0x1 0x%x 0x0 "a"\n'),
    "places": numbered(b"lin src 0x%x 0x%x 0x1 2 1 1 1\n"),
    "classes": numbered(b"cls ldf 0x%x 0x1 0x%x 0x1 0x0\n", b'cls nam 0x1 "%x"\n'),
    "ends of threads": numbered(b"thr dst 0x%08x\n", b"sam str 0x%x 1 0 0:0\n"),
    "unknown": repeated(b"xyz abc 1\n"),
    "faults": repeated(b"prf tps x\nfun nam 0x1\n\n"),
}


def tabulate(trace: CoreProfilerTrace) -> None:
    trace.tables(*trace.table_names)


def show(trace: CoreProfilerTrace) -> None:
    entries = list(trace.entries())
    list(report.text_lines(entries))
    canonical.json_objects(entries)


READINGS: dict[str, Callable[[CoreProfilerTrace], object]] = {
    "stats": lambda trace: report.stats(trace, 3),
    "info": report.info,
    "all rules": rules.check,
    "tables": tabulate,
    "raw records": lambda trace: list(trace.records(resolve=False)),
    "dump": show,
    "explain": lambda trace: list(explain.explain(trace)),
}


@pytest.mark.full
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", LINES)
def test_the_cost_is_proportional_to_the_size(kind: str, reading: str) -> None:
    make, read = LINES[kind], READINGS[reading]

    def cost(count: int) -> int:
        return operations(lambda: read(CoreProfilerTrace(THREAD + make(count))))

    cost(2)  # what is made on first use does not count; CPython 3.12 counts nothing at first
    costs = [cost(FEW), cost(2 * FEW)]
    assert costs[1] < 2.4 * costs[0], (kind, reading, costs)


def test_a_long_reason_of_a_collection_does_not_fill_the_memory() -> None:
    """Many short texts beside a long one take no more than the block itself, a few times."""
    data = b"gch gcs 0x0 1 %s tfff\n" % (b"x" * 100_000) + b"gch gcs 0x0 1 ? tfff\n" * 5_000
    tracemalloc.start()
    try:
        rules.check(CoreProfilerTrace(THREAD + data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(data)
