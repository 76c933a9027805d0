"""Read a recording of the Mono log profiler: the slowest methods, the largest allocations, the collector's pauses.

usage: python read_a_mono_profile.py FILE.mlpd      (mono --profile=log:nodefaults,alloc,calls,gc,output=FILE.mlpd ...)
"""

from __future__ import annotations

import sys
from collections import Counter

import fxtio


def main(path: str) -> None:
    """Print a summary of a recording."""
    with fxtio.open(path, format="mono") as trace:
        info = trace.info
        print(f"{info.records.total():,} events in {info.buffers:,} buffers of {len(info.threads)} threads")

        # The timeline has the calls; its table `slices` is the same for all formats.
        slices = trace.timeline().table("slices")
        spent: Counter[str] = Counter()
        for name, duration in zip(slices["name"].tolist(), slices["duration"].tolist(), strict=True):
            spent[name or "?"] += duration
        for name, duration in spent.most_common(3):
            print(f"{duration / 1e6:>10.3f} ms in {name}")

        # One reading makes several tables. Some, such as these, are derived from the events.
        tables = trace.tables("allocation_sites", "gc_pauses", "sample_stacks")
        for row in tables["allocation_sites"].take(slice(3)).rows():
            site = (row["stack"] or "unknown").rpartition(";")[2]
            print(f"{row['bytes']:>10,} bytes of {row['class_name']} in {site}")

        pauses = tables["gc_pauses"]["duration"]
        if len(pauses):
            print(f"{len(pauses)} collections, the longest pause {pauses.max() / 1e6:.3f} ms")

        # Stacks of samples in the format of `flamegraph.pl`: a stack and its number of samples.
        for stack, count in Counter(tables["sample_stacks"]["stack"].tolist()).most_common(3):
            print(f"{stack} {count}")

        # Iterating gives all events: typed objects with addresses, which `trace.names` resolves.
        thrown = sum(type(event).__name__ == "Throw" for event in trace)
        print(f"{thrown} exceptions were thrown")

        # A damaged recording is read as far as possible; the findings list its faults.
        for finding in trace.findings:
            print(finding)


if __name__ == "__main__":
    main(*sys.argv[1:])
