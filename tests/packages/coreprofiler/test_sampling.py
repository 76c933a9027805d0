"""Samples that are checked together, as columns, give the same findings and summary as one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.coreprofiler import findings_of, findings_one_by_one
from fxtio.coreprofiler import CoreProfilerTrace, frames
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.state import Samples
from support import coreprofiler as support


def compare(data: bytes) -> None:
    together, apart = CoreProfilerTrace(data), CoreProfilerTrace(data)
    assert findings_of(together) == findings_one_by_one(apart)
    assert together.info == apart.info


@pytest.mark.full
@given(data=support.simulated_traces() | support.damaged(), block=st.sampled_from([200, 1000, frames.BLOCK]))
def test_simulated_and_damaged_traces(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(frames, "BLOCK", max(block, *(len(line) + 1 for line in data.split(b"\n"))))
        compare(data)


def changed(record: Any, draw: random.Random) -> Any:
    """Return a sample with another value in a field."""
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    name = draw.choice([name for name in values if name not in ("items", "frames")])
    values[name] = draw.choice([0, 1, 2, 5, 100_000, 2**31, values[name]])
    return type(record)(**values)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_changed_samples(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(frames, "BLOCK", draw.choice([300, 3_000, 1 << 20]))
    monkeypatch.setattr("fxtio.coreprofiler.state.MAX_THREADS", draw.choice([2, 1000]))
    monkeypatch.setattr("fxtio.coreprofiler.state.MAX_FRAMES", draw.choice([5, 1 << 20]))
    records = support.simulated(seed, shape=draw.choice(["mixed", "memory"]), lines=True, threads=3, steps=60)[1]
    samples = [at for at, record in enumerate(records) if isinstance(record, r.StackSample | r.MemorySample)]
    for at in draw.sample(samples, min(3, len(samples))):
        records[at] = changed(records[at], draw)
    for at in draw.sample(samples, 2):
        records.insert(at, r.ThreadDestroyed(draw.randrange(3)))
    records.insert(draw.choice(samples), r.ProfilerConfig("StackTrackingEnabled", draw.choice("TF")))
    compare(support.written(records))


def test_sound_samples_are_not_followed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Samples.follow
    left: list[int] = []

    def counted(samples: Samples, stacks: Any, destroyed: set[int]) -> Any:
        rows = follow(samples, stacks, destroyed)
        left.append(len(rows))
        return rows

    monkeypatch.setattr(Samples, "follow", counted)
    records = support.simulated(1, shape="mixed", steps=200)[1]
    data = support.written(record for record in records if not isinstance(record, r.ThreadDestroyed))
    assert CoreProfilerTrace(data).info.records["StackSample"] > 0
    assert left == [0]
