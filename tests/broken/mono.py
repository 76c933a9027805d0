"""A recording for each rule of Mono recordings that readers notice, read as records, in a summary and as tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import fxtio
from fxtio.finding import Findings
from fxtio.mono.breaks import BREAKS
from fxtio.rules import rules_of

ONLY_IN_TABLES = {"mono.stack.text"}
"""The rules that only tables show."""


def read(rule: str, folder: Path) -> Findings:
    """Return the findings of the recording that breaks a rule, which are the same however it is read."""
    path = folder / "broken.mlpd"
    BREAKS[rule](path)
    all_findings: list[Findings] = []
    for use in (list, lambda trace: trace.info, lambda trace: trace.tables(*trace.table_names)):
        with fxtio.open(path, format="mono") as trace:
            use(trace)
            all_findings.append(trace.findings)
    counts = [findings.counts for findings in all_findings]
    if rule in ONLY_IN_TABLES:
        assert not counts[0]
        assert not counts[1]
    else:
        assert counts[0] == counts[1] == counts[2], counts
    return all_findings[2]


CASES: dict[str, Callable[[Path], Findings]] = {
    rule.id: partial(read, rule.id) for rule in rules_of("mono").values() if rule.reading
}
