"""The cost of sources: of asyncio for each step, of locks for each use, and of gc for programs that allocate much.

    python benchmarks/bench_sources.py

Rounds with and without the source alternate in one process, which records in both.  Figures are processor time: of the
best round each, and the median of what a round takes more than the one before it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fxtio

ROUNDS = 25
STEPS = 100_000
USES = 1_000_000


def seconds_of(work: Callable[[], object], path: Path, *sources: str) -> float:
    """Return the processor time of some work in a recording with these sources."""
    gc.collect()
    with fxtio.tracing(path, sources=sources):
        begin = time.process_time()
        work()
        return time.process_time() - begin


def compare(work: Callable[[], object], path: Path, source: str) -> tuple[float, float, float]:
    """Return the seconds of the best round without and with a source, and the median of what the source adds."""
    work()
    without, within = [], []
    for _ in range(ROUNDS):
        without.append(seconds_of(work, path))
        within.append(seconds_of(work, path, source))
    added = [after - before for before, after in zip(without, within, strict=True)]
    return min(without), min(within), statistics.median(added)


# ---- What is measured.


def steps() -> None:
    """Run steps that do nothing, one in each iteration of the loop."""

    async def run() -> None:
        for _ in range(STEPS):
            await asyncio.sleep(0)

    asyncio.run(run())


LOCKS = {"Lock": threading.Lock(), "RLock": threading.RLock(), "Lock that was waited for": threading.Lock()}


def uses(kind: str) -> None:
    """Take and release a lock."""
    lock = LOCKS[kind]
    for _ in range(USES):
        with lock:
            pass


def take(kind: str) -> None:
    """Take a lock: a function of Python does, as only those have a place."""
    LOCKS[kind].acquire()


def wait_first() -> None:
    """Let a thread wait for a lock, then take and release it as often as `uses` does."""
    kind = "Lock that was waited for"
    with LOCKS[kind]:
        thread = threading.Thread(target=take, args=(kind,))
        thread.start()
        time.sleep(0.01)
    thread.join()
    LOCKS[kind].release()
    uses(kind)


def uses_by_tasks(*, has_waited: bool) -> None:
    """Take and release a lock of asyncio, for which another task may have waited before."""

    async def take(lock: asyncio.Lock, count: int) -> None:
        for _ in range(count):
            async with lock:
                pass

    async def run() -> None:
        lock = asyncio.Lock()
        if has_waited:
            async with lock:
                task = asyncio.create_task(take(lock, 1))
                await asyncio.sleep(0.001)
            await task
        await take(lock, STEPS)

    asyncio.run(run())


class Node:
    """A node of a tree."""

    def __init__(self, depth: int) -> None:
        self.children = [Node(depth - 1), Node(depth - 1)] if depth else []


def trees() -> None:
    """Make trees of objects, and drop them."""
    for _ in range(60):
        Node(13)


def documents() -> None:
    """Parse JSON."""
    text = json.dumps([{"id": number, "tags": ["a", "b"], "at": {"x": 1, "y": 2}} for number in range(2000)])
    for _ in range(300):
        json.loads(text)


def cycles() -> None:
    """Make objects that only the collector frees."""
    for _ in range(3_000_000):
        own: list[object] = []
        own.append(own)


def main() -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.fxt"
        least, most, added = compare(steps, path, "asyncio")
        print(f"asyncio: {(most - least) / STEPS * 1e9:.0f} ns (median {added / STEPS * 1e9:.0f}) for a step alone")
        for kind, work in zip(LOCKS, (partial(uses, "Lock"), partial(uses, "RLock"), wait_first), strict=True):
            least, most, added = compare(work, path, "locks")
            print(f"locks: {(most - least) / USES * 1e9:.0f} ns (median {added / USES * 1e9:.0f}) for a {kind}")
        for has_waited in (False, True):
            least, most, added = compare(partial(uses_by_tasks, has_waited=has_waited), path, "locks")
            kind = "lock of asyncio that was waited for" if has_waited else "lock of asyncio"
            print(f"locks: {(most - least) / STEPS * 1e9:.0f} ns (median {added / STEPS * 1e9:.0f}) for a {kind}")
        for work in (trees, documents, cycles):
            least, most, added = compare(work, path, "gc")
            count = sum(each["collections"] for each in gc.get_stats())
            work()
            count = sum(each["collections"] for each in gc.get_stats()) - count
            print(
                f"gc, {work.__name__}: {most / least - 1:+.2%} (median {added / least:+.2%}), "
                f"{count:,} collections in {least:.2f} s"
            )


if __name__ == "__main__":
    main()
