"""Write a small trace for Perfetto: spans, a counter, arrows between threads, a log message.

usage: python write_a_trace.py [OUTPUT]
"""

from __future__ import annotations

import sys
import time

import fxtio


def main(output: str) -> None:
    """Write two threads of an invented game."""
    with fxtio.create(output, provider="example", wall_clock=time.time_ns()) as writer:
        # Name threads and processes first.  Perfetto truncates ids of 2**31 or more.
        game = writer.thread(process=1, thread=10, name="game", process_name="my game")
        audio = writer.thread(process=1, thread=11, name="audio")

        game.complete("load level", start=1_000, end=90_000, category="io", args={"file": "cave.map", "bytes": 81_920})
        for frame in range(5):
            start = 100_000 + 16_000 * frame
            # A span with separate records for its begin and its end; spans between them are nested in it.
            game.begin("frame", start, category="gfx", args={"number": frame})
            # An arrow starts in the span that began last.  For Perfetto, that may be one that has ended, so add the
            # start of the arrow before "draw".
            game.flow_begin("play sound", start + 1_000, id=frame, category="sfx")
            game.complete("draw", start + 2_000, start + 12_000, category="gfx", args={"triangles": 1_200 + frame})
            # A counter with one argument, which is one series.
            game.counter("open files", start + 13_000, {"value": 3 + frame % 2})
            game.end("frame", start + 15_000, category="gfx")
            # The arrow ends in the span that began last on the other thread.
            audio.begin("mix", start + 2_000, category="sfx")
            audio.flow_end("play sound", start + 3_000, id=frame, category="sfx")
            audio.end("mix", start + 9_000, category="sfx")
        audio.instant("buffer ran dry", 190_000, category="sfx")
        audio.log("resampling from 44,100 to 48,000 Hz", 191_000)

        # An operation that belongs to no thread; its id is unique in the trace.
        game.async_begin("download", 20_000, id=1, category="net", args={"url": "https://example.org/skin.png"})
        audio.async_end("download", 150_000, id=1, category="net")
    print(f"wrote {writer.position:,} bytes to {output}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "example.fxt")
