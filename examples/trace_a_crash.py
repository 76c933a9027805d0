"""Trace a program that is killed, and see what it did last: the trace is whole at every instant.

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
    """Work, until nothing is left of the program."""
    for row in range(LAST + 1):
        with fxtio.span("row", "demo", number=row):
            if row == LAST:
                fxtio.log("this row is too much")
                os.kill(os.getpid(), signal.SIGKILL)  # no handler, no flush, no exit


def victim(output: str) -> None:
    """Record until the end."""
    fxtio.start(output)
    import_rows()


def open_spans(events: Table) -> list[str]:
    """The spans that had begun and not ended, outermost first; all of them are of one thread here."""
    stack: list[str] = []
    for row in np.argsort(events["ticks"], kind="stable").tolist():  # the file is not in the order of time
        if events["type"][row] == "duration_begin":
            stack.append(events["name"][row])
        elif events["type"][row] == "duration_end" and stack:
            stack.pop()
    return stack


def main(output: str) -> None:
    """Let it die, and read what it left."""
    status = subprocess.run([sys.executable, __file__, output, "victim"], check=False).returncode
    trace = fxtio.open(output)
    message = trace.table("logs")["message"].to_list()[-1]
    print(f"exit status {status}; {trace.info.records['DurationEnd']:,} spans had ended by then, says {output}")
    print(f"it was in {' > '.join(open_spans(trace.table('events')))}; its last words were {message!r}")


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "crash.fxt"
    (victim if sys.argv[2:] == ["victim"] else main)(path)
