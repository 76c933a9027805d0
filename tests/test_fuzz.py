"""Short runs of the fuzz targets: they accept seeds and mutated seeds, and the engine reports crashes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from fuzz import engine

pytestmark = pytest.mark.once

FEW = 6  # inputs of each target, of either kind


def flipped(data: bytes, most: int) -> bytes:
    """Flip bits of the data, as an engine does."""
    at = len(data) // 3
    return (data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :] if data else b"A")[:most]


@pytest.mark.parametrize("name", engine.TARGETS)
def test_targets_accept_seeds_and_mutated_seeds(name: str) -> None:
    target = engine.target_of(name)
    seeds = list(target.seeds())
    draw = random.Random(name)
    results = [target.check(data) for data in draw.sample(seeds, min(FEW, len(seeds)))]
    assert not all(results)
    assert target.check(b"")
    for _ in range(FEW):
        data = draw.choice(seeds)
        changed = target.mutate(data, 4096, draw, flipped) if target.mutate else flipped(data, 4096)
        assert len(changed) <= 4096
        target.check(changed)


def test_counts_survive_a_crash(tmp_path: Path) -> None:
    def check(data: bytes) -> bool:
        engine.require(data != b"bad", "it is not bad")
        return data == b"odd"

    counts = engine.Counts(tmp_path / "figures.json", check)
    for data in (b"odd", b"even", b"odd"):
        counts.run(data)
    with pytest.raises(engine.BrokenError, match="not bad"):
        counts.run(b"bad")
    assert json.loads(counts.path.read_text()) == [4, 2]


def test_much_memory_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([100, 900, 910, 910, 910 + engine.MAX_INPUT_MIB])
    monkeypatch.setattr(engine, "_peak", lambda: next(peaks))
    counts = engine.Counts(tmp_path / "figures.json", bool)
    counts.run(b"the first loads modules")
    counts.run(b"small")
    with pytest.raises(engine.BrokenError, match="MiB"):
        counts.run(b"large")
