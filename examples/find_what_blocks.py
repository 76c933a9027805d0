"""Record an asyncio program that holds its event loop, and say which function did so, and how late the loop was.

usage: python find_what_blocks.py [OUTPUT]
"""

from __future__ import annotations

import asyncio
import sys
import time

import fxtio
from fxtio.timeline.answers import blocking


async def answer(number: int) -> int:
    """Answer a request; each fourth one reads a file, which holds the loop."""
    await asyncio.sleep(0.001)
    return number if number % 4 else read_file()


def read_file() -> int:
    """Take time without an `await`."""
    time.sleep(0.03)
    return 0


async def serve() -> None:
    """Answer some requests at the same time."""
    await asyncio.gather(*(answer(number) for number in range(8)))


if __name__ == "__main__":
    output = sys.argv[1] if len(sys.argv) > 1 else "blocks.fxt"
    with fxtio.tracing(output, functions=True):
        asyncio.run(serve())
    with fxtio.open_timeline(output) as timeline:
        found = blocking(timeline, longer=20_000_000)
    for block in found.rows:
        print(f"{block.name} held the loop in {block.step} for {block.duration / 1e6:.0f} ms")
    (loop,) = found.loops
    print(f"{loop.share:.0%} of the time of {loop.thread}, which was late by {loop.worst / 1e6:.0f} ms at worst")
