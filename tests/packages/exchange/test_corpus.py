"""Tests of profiles that are made of the corpus: samples and allocations of all formats come back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import fxtio
from fxtio.timeline import Timeline
from support import exchange
from support.checkout import CORPUS
from support.exchange import exported, imported

TRACES = [
    "mono/alloc-zip.mlpd",
    "mono/sample.mlpd.gz",
    "coreprofiler/given-specification.log",
    "coreprofiler/rewritten.log",
    "dcpi/given-specification.dcpi",
    "uftrace/thread-v019",
]


def allocated(timeline: Timeline) -> Counter[Any]:
    """Return the sums of the bytes of each stack and class."""
    stacks = exchange.stacks_of(timeline)
    sums: Counter[Any] = Counter()
    for row in timeline.table("allocations").rows():
        sums[stacks[row["stack"]], row["type"]] += row["size"]
    return +sums


@pytest.mark.parametrize("trace", TRACES)
def test_pprof(trace: str) -> None:
    timeline = fxtio.open_timeline(CORPUS / trace)
    again = imported(exported(timeline, "pprof")[0], "pprof")
    before, after = exchange.weights(timeline), exchange.weights(again)
    assert {key: value for key, value in after.items() if key in before} == +before
    assert allocated(again) == allocated(timeline)
    assert timeline.table("slices").num_rows == sum(value for (_, unit), value in after.items() if unit == "calls")
    assert not again.losses


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("format", ["speedscope", "collapsed", "otlp"])
def test_what_is_written_is_read(trace: str, format: str) -> None:
    timeline = fxtio.open_timeline(CORPUS / trace)
    again = imported(exported(timeline, format)[0], format)
    tables = timeline.tables("slices", "samples", "allocations")
    found = again.tables("slices", "samples")
    if format != "collapsed":
        assert found["slices"].num_rows == tables["slices"].num_rows
    if format == "speedscope":
        assert found["samples"].num_rows == tables["samples"].num_rows + tables["allocations"].num_rows
    assert not again.losses


def test_the_corpus_has_something_of_everything() -> None:
    rows = Counter[str]()
    for trace in TRACES:
        for name, table in fxtio.open_timeline(CORPUS / trace).tables("slices", "samples", "allocations").items():
            rows[name] += table.num_rows
    assert min(rows.values()) > 10 and len(rows) == 3
