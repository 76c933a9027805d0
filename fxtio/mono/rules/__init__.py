"""The rules that readers do not notice: a recording is checked in one reading, batch by batch, from its columns.

Each check is a class that sees the events of one recording view by view and keeps what it needs in bounded memory.
Rules about single values are a table in `values`, those about references in `references`, those about pairs of events
in `sequences`; heap shots have a module of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fxtio.mono.columns import Batch
from fxtio.mono.frames import Recording
from fxtio.mono.reader import MonoTrace
from fxtio.mono.rules.heap import HeapShots
from fxtio.mono.rules.references import Loads, ReferenceRules
from fxtio.mono.rules.sequences import Buffers, Calls, GcSteps, Pairs, Times
from fxtio.mono.rules.values import Counters, Coverage, SingleValues, Texts, check_header
from fxtio.mono.rules.view import Check, View

CHECKS: tuple[type[Check], ...] = (
    Buffers, Texts, SingleValues, ReferenceRules, Loads, Times, Pairs, GcSteps, Calls, HeapShots, Counters, Coverage,
)  # fmt: skip
"""All checks of events."""

_MOST_ROWS = 1 << 18
"""The most events and items of lists that checks see at once, unless a single buffer has more."""


def check(trace: MonoTrace) -> None:
    """Read a recording once, in bounded memory, and add what breaks a rule to its findings.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    checks: list[Check] = []
    for batch in trace._batches():
        batch.fill(range(batch.steps.owners))
        for recording, view in _views(batch):
            if recording is not None:
                for each in checks:
                    each.finish()
                check_header(recording, trace.findings)
                checks = [cls(recording, trace.findings) for cls in CHECKS]
            for each in checks:
                each.add(view)
    for each in checks:
        each.finish()


def _views(batch: Batch) -> Iterator[tuple[Recording | None, View]]:
    """Yield the parts of a batch, each of one recording and of not many events; with the recording where it begins."""
    frame = batch.frame
    bounds = np.concatenate([np.zeros((1, batch.counts.shape[1]), np.int64), np.cumsum(batch.counts, axis=0)])
    rows = bounds.sum(axis=1)
    starts = [number for number, _ in frame.recordings]
    ranges: list[tuple[int, int, Recording | None]] = []
    if not starts or starts[0] > 0:
        ranges.append((0, starts[0] if starts else len(frame), None))
    lasts = [*starts, len(frame)][1:]
    ranges += [(first, last, recording) for (first, recording), last in zip(frame.recordings, lasts, strict=True)]
    for begin, last, begins in ranges:
        while begin < last or begins is not None:
            end = min(max(int(np.searchsorted(rows, rows[begin] + _MOST_ROWS)), begin + 1), last)
            yield begins, View(batch, bounds, begin, end)
            begin, begins = end, None
