"""Write a small trace that Perfetto shows well: spans, a counter, an arrow from thread to thread, a log message.

usage: python write_a_trace.py [OUTPUT]
"""

from __future__ import annotations

import sys
import time

import fxtio


def main(output: str) -> None:
    """Write two threads of a made-up game."""
    with fxtio.create(output, provider="example", wall_clock=time.time_ns()) as writer:
        # Names of threads and processes come first; ids below 2**31 are those that Perfetto keeps whole.
        game = writer.thread(process=1, thread=10, name="game", process_name="my game")
        audio = writer.thread(process=1, thread=11, name="audio")

        game.complete("load level", start=1_000, end=90_000, category="io", args={"file": "cave.map", "bytes": 81_920})
        for frame in range(5):
            start = 100_000 + 16_000 * frame
            # A span that lasts: its begin and its end are records of their own, what is inside nests.
            game.begin("frame", start, category="gfx", args={"number": frame})
            # An arrow leaves the span that began last (for Perfetto even if it has ended, so not behind "draw") ...
            game.flow_begin("play sound", start + 1_000, id=frame, category="sfx")
            game.complete("draw", start + 2_000, start + 12_000, category="gfx", args={"triangles": 1_200 + frame})
            # A counter: one argument, one series.
            game.counter("open files", start + 13_000, {"value": 3 + frame % 2})
            game.end("frame", start + 15_000, category="gfx")
            # ... and arrives at the one that began last there.
            audio.begin("mix", start + 2_000, category="sfx")
            audio.flow_end("play sound", start + 3_000, id=frame, category="sfx")
            audio.end("mix", start + 9_000, category="sfx")
        audio.instant("buffer ran dry", 190_000, category="sfx")
        audio.log("resampling from 44,100 to 48,000 Hz", 191_000)

        # An operation that is on no thread in particular: its id is unique in the trace.
        game.async_begin("download", 20_000, id=1, category="net", args={"url": "https://example.org/skin.png"})
        audio.async_end("download", 150_000, id=1, category="net")
    print(f"wrote {writer.position:,} bytes to {output}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "example.fxt")
