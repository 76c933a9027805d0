"""Record a thread pool: what each thread does and when, with arrows from submitting a job to running it.

usage: python trace_thread_pool.py [OUTPUT]
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import fxtio
from fxtio.tracer import Flow

running: set[int] = set()


@fxtio.trace(args=["number", "size"], result=True)
def checksum(number: int, size: int) -> str:
    """Compute a checksum; hashing releases the GIL, so other threads can run."""
    return hashlib.sha256(bytes([number]) * size).hexdigest()


def job(number: int, arrow: Flow) -> str:
    """Run a job in a thread of the pool."""
    with fxtio.span("job", "pool", number=number):
        arrow.end()
        running.add(number)
        fxtio.counter("running jobs", len(running))
        digest = checksum(number, 200_000)
        running.remove(number)
        fxtio.counter("running jobs", len(running))
    return digest


def main(output: str) -> None:
    """Record the pool, and print the number of jobs of each thread."""
    with fxtio.tracing(output), ThreadPoolExecutor(4, thread_name_prefix="worker") as pool:
        for number in range(40):
            with fxtio.span("submit", "pool", number=number):
                pool.submit(job, number, fxtio.flow("job", "pool"))
    trace = fxtio.open(output)
    events = trace.table("events")
    jobs = events.take(events["name"].is_in("job") & events["type"].is_in("duration_begin"))
    by_thread = Counter(trace.info.threads[thread] for thread in jobs["thread"].tolist())
    summary = ", ".join(f"{name} {count}" for name, count in sorted(by_thread.items()))
    print(f"{jobs.num_rows} jobs in {output}: {summary}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pool.fxt")
