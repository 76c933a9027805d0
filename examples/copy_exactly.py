"""Copy a trace record by record, byte for byte: the beginning of any tool that changes one thing and keeps the rest.

usage: python copy_exactly.py SOURCE TARGET
"""

from __future__ import annotations

import sys

import fxtio


def main(source: str, target: str) -> None:
    """Copy a trace."""
    with fxtio.open(source) as trace, fxtio.create(target, format="fxt") as writer:
        # References stay table slots, and what would not be written back to the same bytes (an unknown type, bits that
        # should be zero) comes as `Opaque`, so nothing is lost.  Change records with `record.replace(...)`.
        writer.put_all(trace.records(resolve=False))
    print(f"copied {writer.position:,} bytes")
    for finding in trace.findings:  # bytes that belong to no record are not copied
        print(finding, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
