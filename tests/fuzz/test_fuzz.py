"""Short runs of the fuzz targets: they accept seeds and mutated seeds, and the engine reports crashes."""

from __future__ import annotations

import gc
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz import engine
from support.checkout import CHECKOUT
from support.limits import PATIENCE, TooSlowError, processor_seconds

pytestmark = pytest.mark.once

FEW = 6  # inputs of each target, of either kind


def flipped(data: bytes, most: int) -> bytes:
    """Flip bits of the data, as an engine does."""
    at = len(data) // 3
    return (data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :] if data else b"A")[:most]


@pytest.mark.full
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
        changed = engine.mutated(target, data, 4096, draw, flipped)
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


def wait(seconds: float) -> bool:
    """Use so much processor time, and return False."""
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass
    return False


def sleep(seconds: float) -> bool:
    """Wait without using processor time, and return False."""
    time.sleep(seconds)
    return False


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """Collect no garbage: in a process that has run many tests, it takes longer than the limits of these tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
def test_a_slow_input_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "INPUT_SECONDS", 0.1)
    monkeypatch.setattr(engine, "SECONDS_PER_MIB", 0.2 * 2**20)
    counts = engine.Counts(tmp_path / "figures.json", lambda data: wait(0.2))
    counts.run(b"x")  # longer inputs may take longer
    with pytest.raises(TooSlowError, match=r"more than 0\.1 seconds of processor time"):
        counts.run(b"")
    assert json.loads(counts.path.read_text()) == [2, 0]


@pytest.mark.usefixtures("no_garbage")
def test_waiting_is_not_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "INPUT_SECONDS", 0.1)
    engine.Counts(tmp_path / "figures.json", lambda data: sleep(0.2)).run(b"")


@pytest.mark.usefixtures("no_garbage")
def test_an_endless_loop_is_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(data: bytes) -> bool:
        while True:
            pass

    monkeypatch.setattr(engine, "INPUT_SECONDS", 0.1)
    with pytest.raises(TooSlowError):
        engine.Counts(tmp_path / "figures.json", check).run(b"")


def test_a_limit_ends_with_its_block() -> None:
    with processor_seconds(0.05):
        pass
    wait(0.1)


HANGING = """
import itertools, sys
from pathlib import Path
from hypothesis import strategies
from fuzz import engine
from support import limits

engine.INPUT_SECONDS = 0.1
limits.GRACE = 1
check = lambda data: bool(sum(itertools.repeat(0)))  # C code that never looks at signals
target = engine.Target(check, lambda: iter(()), lambda: strategies.just(b"the input"))
engine.target_of = lambda name: target
engine.run_hypothesis("hanging", Path(sys.argv[1]), 60, 1)
"""


@pytest.mark.full
def test_an_input_that_hangs_in_c_ends_the_process_and_is_stored(tmp_path: Path) -> None:
    child = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            f"import sys; sys.path.insert(0, {str(CHECKOUT / 'tests')!r})\n{HANGING}",
            tmp_path,
        ],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert child.returncode == -signal.SIGVTALRM, child.stderr
    assert len((tmp_path / "crash-1").read_bytes()) >= len(b"the input")


def test_numbers_are_replaced_by_extreme_ones() -> None:
    draw = random.Random(1)
    changed = {engine.with_extreme_number(b"sam str 0x1F 123\n", draw) for _ in range(300)}
    assert {b"sam str 0x8000000000000000 123\n", b"sam str 0x1F 18446744073709551615\n"} <= changed
    assert bytes(8) + b"x" in {engine.with_extreme_number(b"abcdefghx", draw) for _ in range(300)}
