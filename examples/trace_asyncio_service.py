"""Record an asyncio service: each request is a task with its own track; arrows lead to the task that does the work.

usage: python trace_asyncio_service.py [OUTPUT]
"""

from __future__ import annotations

import asyncio
import sys

import fxtio
from fxtio.tracer import Flow

Jobs = asyncio.Queue[tuple[int, Flow, asyncio.Future[int]]]


@fxtio.trace(category="database", args=["number"])
async def look_up(number: int, arrow: Flow) -> int:
    """Compute an answer.  Each stretch between awaits is a span on the thread's track; the arrow ends in the first."""
    arrow.end()
    await asyncio.sleep(0.001)
    return number * number


async def work(jobs: Jobs) -> None:
    """Answer the jobs of the queue."""
    while True:
        number, arrow, answer = await jobs.get()
        answer.set_result(await look_up(number, arrow))


@fxtio.trace(category="web")
async def serve(jobs: Jobs, number: int) -> None:
    """Serve a request: a span on the task's own track, which includes the time spent waiting."""
    with fxtio.span("request", "web", number=number, path=f"/square/{number}") as span:
        answer: asyncio.Future[int] = asyncio.Future()
        jobs.put_nowait((number, fxtio.flow("job", "web"), answer))
        fxtio.counter("waiting jobs", jobs.qsize(), "web")
        span.set(answer=await answer)  # an argument whose value is known only at the end


async def serve_all() -> None:
    """Serve 20 requests concurrently."""
    jobs: Jobs = asyncio.Queue()
    worker = asyncio.create_task(work(jobs))
    await asyncio.gather(*(serve(jobs, number) for number in range(20)))
    worker.cancel()


if __name__ == "__main__":
    output = sys.argv[1] if len(sys.argv) > 1 else "service.fxt"
    with fxtio.tracing(output):
        asyncio.run(serve_all())
    events = fxtio.open(output).table("events")
    requests = events.take(events["name"].is_in("request") & events["type"].is_in("async_begin"))
    print(f"{requests.num_rows} requests on {len(set(requests['id'].tolist()))} tracks, in {output}")
