"""Copy a trace record by record to the same bytes: a starting point for tools that change some records of a trace.

usage: python copy_exactly.py SOURCE TARGET
"""

from __future__ import annotations

import sys

import fxtio


def main(source: str, target: str) -> None:
    """Copy a trace."""
    with fxtio.open(source) as trace, fxtio.create(target, format="fxt", order=trace.info.byte_order) as writer:
        # With `resolve=False`, references stay slot numbers.  A record that could not be written back to the same bytes
        # (of an unknown type, or with reserved bits set) is `Opaque`, and so are bytes that are not a record.
        # Change records with `record.replace(...)`.  To copy a trace without changes, call `writer.copy(trace)`.
        for record in trace.records(resolve=False):
            writer.put(record)
    print(f"copied {writer.position:,} bytes")
    for finding in trace.findings:
        print(finding, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
