"""The fuzz target of the importer of Perfetto traces: packets one by one, or in columns, give the same timeline.

Checks of each input: no reading raises an exception; a file that is read a few bytes at a time, in small blocks, has
the same content and the same losses.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from fuzz.engine import Change, Target, require
from fxtio import open_timeline
from fxtio.exchange.perfetto import reader as perfetto_reader
from support import perfetto_samples
from support.conversion import track_events
from support.fxt_readings import Trickle

TABLES = ("scheduling", "wakeups", "samples")
ONE_BY_ONE = 1 << 40


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    with patch.object(perfetto_reader, "LEAST", ONE_BY_ONE):
        expected, losses = content(data)
    with patch.object(perfetto_reader, "LEAST", 1):
        require(content(data) == (expected, losses), "columns say the same as one packet after the other")
    with patch.object(perfetto_reader, "BLOCK", 61):
        (events, _), lost = content(Trickle(data, 7))  # when threads ran depends on pieces, if times are not in order
        require((events, lost) == (expected[0], losses), "pieces give the same")
    return bool(losses) or not data


def content(target: Any) -> tuple[Any, Any]:
    """Return what a timeline has, and what it lost."""
    timeline = open_timeline(target, format="perfetto")
    events = track_events(timeline)
    tables = timeline.tables(*TABLES, "threads")
    tids = [*tables["threads"]["tid"].tolist(), -1]
    rows = Counter(
        (name, *((key, tids[value] if key in ("thread", "waker") else value) for key, value in row.items()))
        for name in TABLES
        for row in tables[name].rows()
    )
    return (events, rows), timeline.losses


def seeds() -> Iterator[bytes]:
    """Yield traces of all that is read."""
    for _, data in perfetto_samples.all_traces():
        yield data


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change a few bytes, or leave it to the engine."""
    if draw.randrange(3) and data:
        return perfetto_samples.damaged(data, draw)[:most]
    return change(data, most)


def drawn() -> Any:
    """Return a strategy for damaged and arbitrary traces."""
    from hypothesis import strategies as st

    traces = [*seeds()]
    damaged = st.builds(
        lambda data, number: perfetto_samples.damaged(data, random.Random(number)),
        st.sampled_from(traces),
        st.integers(0, 1 << 30),
    )
    return damaged | st.binary(max_size=300)


TARGET = Target(check, seeds, drawn, mutate)
