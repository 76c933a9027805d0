"""A harness for the trace processor of Perfetto, a reader of the meaning of FXT traces, in both modes.

It runs in a checkout of fxtio, because `tests/judges` has what drives the trace processor:

    fxtio conformance run --mode serve --format fxt --known conformance/known/perfetto.toml -- \
        python conformance/harness/perfetto_reader.py

Perfetto does not keep correlation ids, logs and most blobs, so these members of the timeline are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests")]

from timelines import Refused, arguments, double, run, text, thread  # noqa: E402

from judges import perfetto  # noqa: E402


def read(path: Path) -> dict[str, Any]:
    """Import a trace, and return the timeline that Perfetto made of it."""
    try:
        loaded = perfetto.load(path)
    except perfetto.PerfettoImportError as error:
        raise Refused(str(error)) from error
    with loaded as trace:
        return timeline(trace)


def timeline(trace: perfetto.Perfetto) -> dict[str, Any]:
    """Return the timeline of a loaded trace.  Perfetto does not tell an instant from a slice of no duration."""
    everything = trace.slices()
    own = [item for item in everything if item.track is None]
    slices = [item for item in own if item.dur != 0]
    return {
        "slices": [{**element(item), "begin": str(item.ts), "end": end(item)} for item in slices],
        "instants": [{**element(item), "time": str(item.ts)} for item in own if item.dur == 0],
        "async": [
            {"name": text(item.name), "begin": str(item.ts), "end": end(item)}
            for item in everything
            if item.track is not None and item.dur != 0
        ],
        "counters": [counter(sample) for sample in trace.counters()],
        "switches": [
            {"cpu": str(item.cpu), "time": str(item.ts), "incoming": str(item.tid or 0)} for item in trace.sched()
        ],
        "processes": [
            {"koid": str(item.pid), "name": text(item.name)}
            for item in sorted(trace.processes(), key=lambda item: item.pid)
            if item.name is not None
        ],
        "threads": [
            {"koid": str(item.tid), "name": text(item.name), **({} if item.pid is None else {"process": str(item.pid)})}
            for item in sorted(trace.threads(), key=lambda item: item.tid)
            if item.name is not None
        ],
    }


def element(item: perfetto.Slice) -> dict[str, Any]:
    """Return what slices and instants have in common."""
    return {
        "thread": thread(item.pid, item.tid),
        "name": text(item.name or ""),
        "category": text(item.category or ""),
        "arguments": arguments(item.args),
    }


def end(item: perfetto.Slice) -> str | None:
    """Return the end of a slice, or None if it was not closed."""
    return None if item.end is None else str(item.end)


def counter(sample: perfetto.CounterSample) -> dict[str, Any]:
    """Return a sample of a counter, whose track is named `NAME:SERIES:ID`."""
    name, _, series = sample.series.rpartition(":")
    return {
        "process": str(sample.pid),
        "name": text(name),
        "series": text(series),
        "id": str(sample.counter_id),
        "time": str(sample.ts),
        "value": double(sample.value),
    }


if __name__ == "__main__":
    reason = perfetto.available()
    if reason is not None:
        sys.exit(f"{reason}\n")
    sys.exit(run("Perfetto trace processor", "52", read))
