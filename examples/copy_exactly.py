"""Copy a trace record by record, to the same bytes: the beginning of a tool that changes some records.

usage: python copy_exactly.py SOURCE TARGET
"""

from __future__ import annotations

import sys

import fxtio


def main(source: str, target: str) -> None:
    """Copy a trace."""
    with fxtio.open(source) as trace, fxtio.create(target, format="fxt") as writer:
        # References stay slots of the tables, and what would not be encoded to the same bytes (an unknown type, bits
        # that should be zero) is `Opaque`.  Change records with `record.replace(...)`; to change none, use
        # `writer.copy(trace)`, which also copies bytes that belong to no record.
        for record in trace.records(resolve=False):
            writer.put(record)
    print(f"copied {writer.position:,} bytes")
    for finding in trace.findings:
        print(finding, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
