"""Simulate a CoreProfiler trace, then read it, and print the ticks and the allocated bytes by call stack.

usage: python read_a_coreprofiler_trace.py [TRACE]
"""

from __future__ import annotations

import sys
from collections import Counter

from fxtio import synth
from fxtio.coreprofiler import CoreProfilerTrace
from fxtio.coreprofiler.records import FunctionName


def main(path: str | None) -> None:
    """Print a summary of a trace."""
    if path is None:
        path = "synthetic.cpl"
        synth.write(path, "mixed", events=5_000, threads=2)
    with CoreProfilerTrace(path) as trace:
        names = {record.function_iid: record.name for record in trace if isinstance(record, FunctionName)}
        ticks: Counter[str] = Counter()
        size = 0
        for sample in trace.samples():
            stack = ";".join(names.get(frame.function_iid, "?") for frame in sample.stack)
            ticks[stack] += 0 if sample.paused else sample.ticks
            size += sum(item.size for item in sample.allocated)
        print(f"{ticks.total():,} ticks on {len(ticks):,} stacks, {size:,} bytes allocated")
        for stack, count in ticks.most_common(3):
            print(f"{count:>6,}  {stack or '(no managed code)'}")
        print(f"profiling began {trace.info.started_at}, {trace.info.timeline.counts['gc']:,} collections")
        for finding in trace.findings:
            print(finding)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
