"""Write a million events from numpy columns, without a Python loop over them.

usage: python make_a_big_trace.py [OUTPUT] [EVENTS]

For synthetic traces of common shapes, there are `fxtio.synth` and the command `fxtio synth`.
"""

from __future__ import annotations

import sys

import numpy as np

import fxtio

NAMES = ["read", "parse", "store"]
AT_ONCE = 1 << 16


def main(output: str, events: int) -> None:
    """Write consecutive spans on four threads."""
    random = np.random.default_rng(seed=1)
    with fxtio.create(output, format="fxt") as writer:
        tracks = [writer.thread(1, 10 + number, f"worker {number}", "importer") for number in range(4)]
        for first in range(0, events, AT_ONCE):  # in batches, so that memory stays bounded
            number = np.arange(first, min(first + AT_ONCE, events))
            start = number // len(tracks) * 1_000
            writer.main.write_events(
                "duration_complete",
                timestamp=start,
                end=start + random.integers(1, 1_000, len(number)),
                thread=(tracks, number % len(tracks)),
                name=(NAMES, random.integers(0, len(NAMES), len(number))),  # strings and indices
                category="import",
                args={"row": number, "weight": random.random(len(number)), "source": "example"},
            )
    print(f"wrote {events:,} events, {writer.position:,} bytes, to {output}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "big.fxt", int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
