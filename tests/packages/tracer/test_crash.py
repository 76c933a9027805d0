"""The program dies while it is recorded, at any instant: every event that was recorded is in the file.

The environment variable FXTIO_KILLS says how often it is killed; the default is 60 times.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fxtio.tracer.backend import recorder
from fxtio.tracer.recovery import RecoveryError, recover
from judges import perfetto
from support import tracer_crash_child as child
from support.limits import PATIENCE
from support.tracer_check import Seen, check_trace

pytestmark = pytest.mark.recorder

KILLS = int(os.environ.get("FXTIO_KILLS", "60"))
EACH = len(child.KINDS)
PERFETTO_EVERY = 10  # files, of which Perfetto reads one
FULL = 4 << 20


class Victims:
    """Programs to be killed, forked from a process that has imported everything they need."""

    def __init__(self) -> None:
        script = Path(child.__file__)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _say(self, line: str) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def begin(self, mode: str, output: Path, shared: Path, options: dict[str, Any]) -> int:
        """Start a program; return its process id."""
        return self._say(f"{mode} {output} {shared} {options!r}")

    def wait(self) -> int:
        """Wait for the program to end; return its exit code."""
        return os.waitstatus_to_exitcode(self._say(""))

    def close(self) -> None:
        """End the process that forks."""
        self._process.communicate()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    victims = Victims()
    yield victims
    victims.close()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "counts"
    path.write_bytes(bytes(mmap.PAGESIZE))
    return path


def counted(shared: Path) -> list[list[int]]:
    """Return for each thread how many events of each kind it had certainly recorded."""
    counts = np.frombuffer(shared.read_bytes(), np.uint64)[: child.THREADS * EACH]
    return counts.astype(int).reshape(child.THREADS, EACH).tolist()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the program did not get there"
        time.sleep(0.002)


def has_counted(shared: Path) -> bool:
    """Return whether the first thread of the program has counted an event."""
    return any(shared.read_bytes()[: EACH * 8])


def is_full(path: Path) -> bool:
    """Return whether a recording of at most `FULL` bytes cannot grow any more: room is kept for the end."""
    return path.exists() and path.stat().st_size + (child.THREADS + 1) * recorder.CHUNK_BYTES > FULL


def has_stopped(victim: int) -> bool:
    """Return whether all threads of a program have stopped."""
    stats = Path(f"/proc/{victim}/task").glob("*/stat")
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats} == {"T"}


def kill(
    victims: Victims,
    mode: str,
    output: Path,
    shared: Path,
    delay: float,
    *,
    condition: Callable[[], bool] | None = None,
    **options: Any,
) -> None:
    """Start a program, wait for the condition if there is one and then for `delay` seconds, and kill it."""
    victim = victims.begin(mode, output, shared, options)
    if condition is not None:
        wait_until(condition)
    time.sleep(delay)
    os.kill(victim, signal.SIGKILL)
    assert victims.wait() == -signal.SIGKILL


def check_counted(seen: Seen, counts: list[list[int]], *, ring: bool = False) -> None:
    """Check that the trace has every event that was counted, in order, and of each kind at most one more."""
    for number, (loops, steps, begins, ends, closed, rounds) in enumerate(counts):
        category = f"t{number}"
        check_numbers(seen, seen.rows(kind="duration_begin", name="loop", category=category), loops, ring)
        check_numbers(seen, seen.rows(kind="instant", name="step", category=category), steps, ring)
        check_numbers(seen, seen.rows(kind="counter", name="round", category=category), rounds, ring)
        if number == 0:
            check_numbers(seen, seen.rows(kind="duration_begin", category="work"), begins, ring)
        if ring:
            continue
        assert len(seen.rows(kind="duration_end", name="loop", category=category)) - closed in (0, 1)
        if number == 0:
            assert len(seen.rows(kind="duration_end", category="work")) - ends in (0, 1)


def check_numbers(seen: Seen, rows: np.ndarray[Any, Any], count: int, ring: bool) -> None:
    """Check that the numbers of events have no gap, and that there are as many as were counted.

    A ring has only the last ones, and none of a thread that waited while others recorded as much as the ring holds.
    """
    numbers = seen.numbers(rows)
    if ring and not len(numbers):
        return
    first = int(numbers[0]) if ring else 0
    assert numbers.tolist() == list(range(first, first + len(numbers)))
    assert first + len(numbers) - count in (0, 1)


def recover_if_unfinished(path: Path) -> None:
    """Finish a recording unless it has ended."""
    with contextlib.suppress(RecoveryError):
        recover(path)


def check_with_perfetto(path: Path) -> None:
    if perfetto.available() is None:
        with perfetto.load(path) as p:
            assert p.errors() == {}


MODES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "busy": ("busy", "out.fxt", {}),
    "few events": ("few", "out.fxt", {}),
    "compressed": ("busy", "out.fxt.zst", {}),
    "ring": ("busy", "out.fxt", {"ring": "1MiB"}),
    "full": ("busy", "out.fxt", {"max_size": FULL}),
}


@pytest.mark.full
@pytest.mark.parametrize("how", MODES)
def test_killed(how: str, victims: Victims, tmp_path: Path, shared: Path) -> None:
    mode, name, options = MODES[how]
    chance = random.Random(f"{how} {KILLS}")
    full = count = 0
    for attempt in range(max(KILLS // (len(MODES) + 1), 1)):
        output = tmp_path / name
        live = output.with_name(f"{name}.part") if name.endswith(".zst") else output
        shared.write_bytes(bytes(mmap.PAGESIZE))
        # Every other kill certainly comes when events were recorded, or the file is full; the others may come earlier.
        condition = partial(is_full, live) if how == "full" else partial(has_counted, shared)
        delay = chance.choice([0.01, 0.04, 0.08, 0.12]) * chance.random()
        kill(victims, mode, output, shared, delay, condition=None if attempt % 2 else condition, **options)
        counts = counted(shared)
        if not live.exists():
            assert counts == [[0] * EACH] * child.THREADS
            continue
        count += 1
        ring = how == "ring"
        seen = check_trace(live, ring=ring, open_spans=True)
        if how == "full" and is_full(live):
            full += 1
            for rows in (seen.rows(kind="duration_begin", name="loop", category=f"t{number}") for number in range(3)):
                assert seen.numbers(rows).tolist() == list(range(len(rows)))
        else:
            check_counted(seen, counts, ring=ring)
            assert not sum(counts[0]) or len(seen.rows(name="loop"))
        if attempt % PERFETTO_EVERY == 0:
            check_with_perfetto(live)
        live.unlink()
    assert count
    assert full or how != "full"


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
def test_killed_while_it_starts_and_stops(name: str, victims: Victims, tmp_path: Path, shared: Path) -> None:
    chance = random.Random(f"{name} {KILLS}")
    head, dot, tail = name.partition(".")
    finished = 0
    for attempt in range(max(KILLS // 12, 1)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        shared.write_bytes(bytes(mmap.PAGESIZE))
        # Every other program has certainly finished a recording, however slow the machine is.
        condition = None if attempt % 2 else partial(has_counted, shared)
        kill(victims, "cycles", folder / name, shared, 0.01 + 0.05 * chance.random(), condition=condition)
        (count, *_), *_ = counted(shared)
        finished += count
        for number in range(count):
            seen = check_trace(folder / f"{head}-{number}{dot}{tail}")
            assert seen.numbers(seen.rows(name="step")).tolist() == list(range(100))
        last = folder / f"{head}-{count}{dot}{tail}"  # the one that was recorded, or squeezed, at the end
        for live in (last, last.with_name(f"{last.name}.part")):
            if live.exists():
                seen = check_trace(live)
                numbers = seen.numbers(seen.rows(name="step")).tolist()
                assert numbers == list(range(len(numbers)))
        if last.exists() or last.with_name(f"{last.name}.part").exists():
            recover_if_unfinished(last)
            assert not [path for path in folder.iterdir() if path.name.startswith(f".{head}-{count}.")]
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        allowed = {f"{head}-{number}{dot}{tail}" for number in range(count + 1)} | {f"{last.name}.part"}
        assert names <= allowed
    assert finished


@pytest.mark.full
def test_killed_while_events_are_put_in_order(victims: Victims, tmp_path: Path, shared: Path) -> None:
    """At the end of a large file the last events of each thread are moved: always all of them are there, once."""
    chance = random.Random(f"endings {KILLS}")
    for attempt in range(max(KILLS // 6, 1)):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        shared.write_bytes(bytes(mmap.PAGESIZE))
        counts = np.memmap(shared, np.uint64, "r")
        victim = victims.begin("endings", folder / "out.fxt", shared, {})
        deadline = time.monotonic() + PATIENCE
        while counts[0] == counts[1]:
            assert time.monotonic() < deadline, "the program did not get there"
        moment = time.perf_counter() + 0.0015 * chance.random()
        while time.perf_counter() < moment:
            pass
        os.kill(victim, signal.SIGKILL)
        assert victims.wait() == -signal.SIGKILL
        last = folder / f"out-{int(counts[0]) - 1}.fxt"
        for path in (last, recover(last).path):
            seen = check_trace(path)
            for thread in range(child.ENDING_THREADS):
                numbers = seen.numbers(seen.rows(name="step", category=f"t{thread}"))
                assert numbers.tolist() == list(range(child.ENDING_EVENTS))


@pytest.mark.full
@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
@pytest.mark.parametrize(
    ("mode", "status"), [("exit", 7), ("abort", -signal.SIGABRT), ("fault", -signal.SIGSEGV), ("busy", -signal.SIGTERM)]
)
def test_ends_without_cleanup(
    mode: str, status: int, name: str, victims: Victims, tmp_path: Path, shared: Path
) -> None:
    output = tmp_path / name
    victim = victims.begin(mode, output, shared, {})
    if mode == "busy":
        wait_until(partial(has_counted, shared))
        os.kill(victim, signal.SIGTERM)
    assert victims.wait() == status
    live = output.with_name(f"{name}.part") if name.endswith(".zst") else output
    counts = counted(shared)
    assert sum(counts[0])
    check_counted(check_trace(live, open_spans=True), counts)
    if name == "out.fxt":
        check_with_perfetto(live)


@pytest.mark.full
def test_stopped_and_continued(victims: Victims, tmp_path: Path, shared: Path) -> None:
    """The file of a program that is stopped by a signal is a valid trace."""
    output = tmp_path / "out.fxt"
    victim = victims.begin("busy", output, shared, {})
    try:
        wait_until(partial(has_counted, shared))
        for _ in range(5):
            time.sleep(0.01)
            os.kill(victim, signal.SIGSTOP)
            wait_until(partial(has_stopped, victim))
            check_counted(check_trace(output, open_spans=True), counted(shared))
            os.kill(victim, signal.SIGCONT)
    finally:
        os.kill(victim, signal.SIGKILL)
    assert victims.wait() == -signal.SIGKILL
    check_counted(check_trace(output, open_spans=True), counted(shared))
