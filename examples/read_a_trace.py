"""Read a trace as a summary, as records, as columns, and, if polars is installed, as a data frame.

usage: python read_a_trace.py TRACE
"""

from __future__ import annotations

import sys

import numpy as np

import fxtio
from fxtio.fxt.records import DurationComplete
from fxtio.table import Categories


def main(path: str) -> None:
    """Print a summary of a trace."""
    with fxtio.open(path) as trace:
        info = trace.info
        providers = ", ".join(provider.name or "(no name)" for provider in info.providers)
        print(f"{info.records.total():,} records by {providers}")

        # Records are typed objects with names; `records(resolve=False)` gives slot numbers instead.
        longest = max(
            (record for record in trace if isinstance(record, DurationComplete)),
            key=lambda record: record.end - record.timestamp,
            default=None,
        )
        if longest is not None:
            print(f"longest complete event: {longest.name!r}, {longest.end - longest.timestamp:,} ticks")

        # Columns are numpy arrays, and names are codes into a list of distinct strings: no Python loop over events.
        events = trace.table("events")
        names = events["name"]
        assert isinstance(names, Categories)
        counts = np.bincount(names.codes[names.codes >= 0], minlength=len(names.values))
        for code in np.argsort(-counts, kind="stable")[:3].tolist():
            print(f"{counts[code]:>8,} events {names.values[code]!r}")

        try:
            import polars as pl

            frame = pl.DataFrame(events.to_arrow())  # pandas: events.to_arrow().to_pandas()
            print(frame.group_by("type").len().sort("type"))
        except ImportError as missing:
            print(f"for a data frame: pip install 'fxtio[arrow]' polars ({missing})")

        # A damaged trace is read as far as possible; the findings list its faults.
        for finding in trace.findings:
            print(finding)


if __name__ == "__main__":
    main(*sys.argv[1:])
