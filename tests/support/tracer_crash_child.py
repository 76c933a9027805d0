"""A program that gets killed.  It forks for each line `mode output shared options` that it reads, prints the child's
process id, and on the next line waits for the child and prints how it ended.

The child counts each event in shared memory, after the call has returned: what is counted has to be in the trace.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fxtio
from fxtio.tracer import file

THREADS = 3
ENDING_THREADS, ENDING_EVENTS = 30, 200
KINDS = ("loop begin", "step", "work begin", "work end", "loop end", "round")
"""What is counted, for each thread."""

SHARED_BYTES = mmap.PAGESIZE


@fxtio.trace(category="work", args=["n"])
def work(n: int, counts: Any, at: int) -> int:
    """Count the call when it has begun."""
    counts[at] += 1
    return n


def record(number: int, counts: Any, pause: float) -> None:
    """Record until the program is killed; each thread runs this."""
    at, category = number * len(KINDS), f"t{number}"
    span, instant = fxtio.span, fxtio.instant
    for n in itertools.count():
        with span("loop", category, n=n):
            counts[at] += 1
            instant("step", category, n=n, half=n / 2, text="some text of no great length, but more than a word")
            counts[at + 1] += 1
            if number == 0:  # only one thread calls it, since its events have no category of a thread
                work(n, counts, at + 2)
                counts[at + 3] += 1
        counts[at + 4] += 1
        fxtio.counter("round", None, category, n=n)
        counts[at + 5] += 1
        if pause:
            time.sleep(pause)


def run(mode: str, output: str, shared: str, options: dict[str, Any]) -> None:
    """Record in a child process."""
    sys.setswitchinterval(1e-4)
    with open(shared, "r+b") as file:
        counts = memoryview(mmap.mmap(file.fileno(), SHARED_BYTES)).cast("Q")
    if mode == "endings":
        end_again_and_again(output, counts)
    if mode == "cycles":
        cycle(output, counts, options)
    fxtio.start(output, **options)
    pause = 0.002 if mode == "few" else 0.0
    for number in range(1, THREADS):
        threading.Thread(target=record, args=(number, counts, pause), daemon=True).start()
    if mode in ("exit", "abort", "fault"):
        threading.Thread(target=end, args=(mode, counts)).start()
    record(0, counts, pause)


def cycle(output: str, counts: Any, options: dict[str, Any]) -> None:
    """Record a hundred events, stop, and begin anew: the kill hits starts and stops.

    Each recording goes to a file of its own; the number of those that were finished is counted.
    """
    head, dot, tail = Path(output).name.partition(".")
    for number in itertools.count():
        fxtio.start(Path(output).with_name(f"{head}-{number}{dot}{tail}"), **options)
        for n in range(100):
            fxtio.instant("step", n=n)
        fxtio.stop()
        counts[0] = number + 1


def end_again_and_again(output: str, counts: Any) -> None:
    """Record a few events in each of many threads, stop, and begin anew: the kill hits the end of a large file.

    The number of recordings that were about to end is counted, and of those that were finished.
    """
    file._SQUEEZED_UP_TO = 0
    head, dot, tail = Path(output).name.partition(".")
    barrier = threading.Barrier(ENDING_THREADS + 1)

    def record_some(thread: int) -> None:
        while True:
            barrier.wait()
            for n in range(ENDING_EVENTS):
                fxtio.instant("step", f"t{thread}", n=n)
            barrier.wait()

    for thread in range(ENDING_THREADS):
        threading.Thread(target=record_some, args=(thread,), daemon=True).start()
    for number in itertools.count():
        fxtio.start(Path(output).with_name(f"{head}-{number}{dot}{tail}"))
        barrier.wait()
        barrier.wait()
        counts[0] = number + 1
        fxtio.stop()
        counts[1] = number + 1


def end(mode: str, counts: Any) -> None:
    """Exit unseen by Python, abort, or read from an invalid address, after something was recorded."""
    while not counts[0]:
        time.sleep(0.01)
    time.sleep(0.01)
    if mode == "exit":
        ctypes.CDLL(None)._exit(7)
    if mode == "abort":
        os.abort()
    ctypes.string_at(0)


def main() -> None:
    """Fork as asked."""
    for line in sys.stdin:
        mode, output, shared, options = line.rstrip("\n").split(" ", 3)
        child = os.fork()
        if not child:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            run(mode, output, shared, eval(options))
            os._exit(1)
        print(child, flush=True)
        sys.stdin.readline()
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
