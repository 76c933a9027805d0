"""Record a program that runs already, and watch what it does: python examples/watch_a_program.py service.fxt"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial

from fxtio.fxt import timeline as fxt_timeline
from fxtio.fxt.tail import LiveTrace
from fxtio.selection import Selection
from fxtio.timeline import Timeline
from fxtio.timeline.answers.top import Slices
from fxtio.timeline.parts import Registry
from fxtio.tracer import Options
from fxtio.tracer.attach_target import Attachment
from fxtio.tracer.recovery import recover

SERVICE = """
import fxtio, time
@fxtio.trace
def work(): time.sleep(0.001)
print("up", flush=True)
while True: work()
"""

with subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE) as program, ExitStack() as stack:
    assert program.stdout is not None
    program.stdout.readline()
    stack.callback(program.kill)
    with Attachment(program.pid) as attachment:
        live = attachment.start(Options(sys.argv[1], children=False))
        fd = os.open(live, os.O_RDONLY)
        seen: list[tuple[Slices, Registry]] = []
        end = time.monotonic() + 0.5

        def wait() -> bool:
            """Show how often the function was called; return whether to stop."""
            time.sleep(0.2)
            for row in seen[-1][0].so_far(seen[-1][1])[1].rows():
                print(f"{row['name']}: {row['calls']:,} calls so far")
            return time.monotonic() > end

        def begin(registry: Registry) -> Slices:
            """Return what takes the slices."""
            seen.append((Slices(registry, by="name", unit=None, selection=Selection(), subset=None), registry))
            return seen[-1][0]

        timeline = Timeline(str(live), "fxt", partial(fxt_timeline.parts, LiveTrace(str(live), fd, wait)))
        slices, registry = timeline.fold(begin, "slices")
        os.close(fd)
        attachment.stop()

recover(live)
for row in slices.answer(registry).table.rows():
    print(f"{row['name']}: {row['calls']:,} calls in all")
