"""Record all calls of a program without changing its code, and then again with a limit on the depth.

usage: python trace_recursion.py [OUTPUT]
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import fxtio

SIZE = 7


def safe(queens: tuple[int, ...], column: int) -> bool:
    """Return whether a queen in this column of the next row attacks none of the others."""
    row = len(queens)
    return all(column != other and row - at != abs(column - other) for at, other in enumerate(queens))


def place(queens: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield all ways to put a queen in every row."""
    if len(queens) == SIZE:
        yield queens
        return
    for column in range(SIZE):
        if safe(queens, column):
            yield from place((*queens, column))


def solve(output: str, **options: Any) -> None:
    """Solve the puzzle while it is recorded, and print how many calls were recorded."""
    with fxtio.tracing(output, functions=True, include=[__file__], **options):
        begin = time.perf_counter()
        solutions = len(list(place()))
        milliseconds = (time.perf_counter() - begin) * 1e3
    events = fxtio.open(output).table("events")
    calls = Counter(events.take(events["type"].is_in("duration_begin"))["name"].tolist())
    [(most, times)] = calls.most_common(1)
    print(f"{solutions} solutions in {milliseconds:.0f} ms; {calls.total():,} spans in {output}, {times:,} are {most}")


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "queens.fxt"
    solve(name)
    solve(f"{name}.gz", max_depth=3)
