"""Record a program that is killed, and read what it did last: the trace is valid at every moment.

usage: python trace_a_crash.py [OUTPUT]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np

import fxtio
from fxtio.table import Table

LAST = 20_000


@fxtio.trace(category="demo")
def import_rows() -> None:
    """Work until the process kills itself."""
    for row in range(LAST + 1):
        with fxtio.span("row", "demo", number=row):
            if row == LAST:
                fxtio.log("this row is too much")
                os.kill(os.getpid(), signal.SIGKILL)  # no handler, no flush, no exit


def victim(output: str) -> None:
    """Start recording, and work until the end."""
    fxtio.start(output)
    import_rows()


def open_spans(events: Table) -> list[str]:
    """Return the names of the spans without an end, outermost first; here all spans are on one thread."""
    stack: list[str] = []
    for row in np.argsort(events["ticks"], kind="stable").tolist():  # the file is not sorted by time
        if events["type"][row] == "duration_begin":
            stack.append(events["name"][row])
        elif events["type"][row] == "duration_end" and stack:
            stack.pop()
    return stack


def main(output: str) -> None:
    """Run the program in a child process, and read its trace."""
    status = subprocess.run([sys.executable, __file__, output, "victim"], check=False).returncode
    trace = fxtio.open(output)
    message = trace.table("logs")["message"].tolist()[-1]
    print(f"exit status {status}; {trace.info.records['DurationEnd']:,} spans had ended, see {output}")
    print(f"it was in {' > '.join(open_spans(trace.table('events')))}; its last message was {message!r}")


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "crash.fxt"
    (victim if sys.argv[2:] == ["victim"] else main)(path)
