"""Check traces against the rules of their formats, and say for each broken rule how to fix the program that wrote it.

usage: python validate_a_trace.py TRACE...
"""

from __future__ import annotations

import sys

from fxtio.validate import Validation, validate
from fxtio.validate.listing import record_of


def main(*paths: str) -> int:
    """Print a report; return 1 if a trace breaks a rule that the specification demands."""
    results = [validate(path) for path in paths]
    for path, result in zip(paths, results, strict=True):
        print(f"{path}: {result.total:,} findings")
        report(path, result)
    return 0 if all(result.is_valid("required") for result in results) else 1


def report(path: str, result: Validation) -> None:
    """Print the rules that a trace breaks, and the record of the first finding of each."""
    for rule in result.broken:  # the most binding rules come first
        print(f"  {rule.id} ({rule.level}), {result.counts[rule.id]:,} times: {rule.summary}")
        if rule.fix:
            print(f"    {rule.fix}")
        finding = result.findings_of(rule.id)[0]
        record = record_of(path, finding, result.format)  # None for a pipe, and far after the beginning
        if record is not None:
            print(f"    first in {record.name} at byte {record.offset:,}: {', '.join(record.faults)}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
