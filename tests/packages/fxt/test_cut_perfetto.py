"""Parts that are cut out of traces, judged by Perfetto: the slices of a part are those of the whole, clipped."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio import synth
from fxtio.selection import Selection
from judges import perfetto
from judges.perfetto import Perfetto
from support.checkout import CORPUS
from support.fxt_cut import Program, cut

pytestmark = [pytest.mark.full, pytest.mark.once]

SHAPES = ("spans", "flows", "async", "threads", "mixed", "system", "program")
FILES = {"ftr-demo": 2_000, "janestreet-demo": 0, "magic-trace": 0, "nixpkgs-tracy": 0, "ocaml-trace-first": 0}
"""Files of the corpus, and how many nanoseconds Perfetto's times are off in the whole, because of the tick rate.

In `ocaml-trace-second`, Perfetto forgets the threads at a late provider info record, so that file is left out."""


@pytest.fixture(autouse=True, scope="module")
def _judge() -> None:
    judges.require(perfetto.available())


def slices(p: Perfetto) -> list[tuple[Any, ...]]:
    """Return all slices: track, name, category, arguments, depth, begin, duration."""
    return [
        (item.pid, item.tid, item.track, item.name, item.category, repr(sorted(item.args.items())), item.depth,
         item.ts, item.dur)
        for item in p.slices()
    ]  # fmt: skip


def is_near(part: Counter[tuple[Any, ...]], expected: Counter[tuple[Any, ...]], tolerance: int) -> bool:
    """Return whether slices are those that are expected, with times and durations that are so far off at most."""
    pairs = zip(sorted(part.elements(), key=repr), sorted(expected.elements(), key=repr), strict=True)
    return all(
        one[:-2] == other[:-2] and all(abs(a - b) <= tolerance for a, b in zip(one[-2:], other[-2:], strict=True))
        for one, other in pairs
    )


def clipped(whole: list[tuple[Any, ...]], start: int, end: int) -> Counter[tuple[Any, ...]]:
    """Return the slices that a part of a trace has to have; a duration of -1 is one without an end."""
    part: Counter[tuple[Any, ...]] = Counter()
    for *what, time, duration in whole:
        last = None if duration < 0 else time + duration
        if start <= time < end or (time < start and (last is None or last > start)):
            begin = max(time, start)
            part[*what, begin, -1 if last is None else min(last, end) - begin] += 1
    return part


def judge(data: bytes, seed: int, ranges: int = 3, tolerance: int = 0) -> None:
    """Compare the slices of random parts of a trace with those of the whole."""
    info = fxtio.open(data, format="fxt").info
    assert info.start is not None and info.end is not None
    with perfetto.load(data) as p:
        whole, errors, switches = slices(p), p.errors(), p.sched()
    numbers = random.Random(seed)
    for _ in range(ranges):
        start, end = sorted((numbers.randrange(info.start, info.end + 1), numbers.randrange(info.start, info.end + 2)))
        end = max(end, start + 1)
        part, _ = cut(data, Selection(start, end))
        with perfetto.load(part) as p:
            got, want = Counter(slices(p)), clipped(whole, start, end)
            assert got == want or is_near(got, want, tolerance)
            assert p.errors().keys() <= errors.keys()
            running = {(one.ts, one.cpu, one.tid) for one in p.sched()}
        expected = {
            (max(one.ts, start), one.cpu, one.tid)
            for one in switches
            if one.ts < end and (one.dur < 0 or one.ts + one.dur > start)
        }
        assert expected <= running
        # A thread that is woken up while it runs stops running in Perfetto, so the whole may have less at the start.
        assert all(time == start for time, _, _ in running - expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_synthetic_traces(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.fxt"
    synth.write(path, shape, events=3_000, seed=7)
    judge(path.read_bytes(), 7)


@pytest.mark.parametrize("name", FILES)
def test_traces_of_other_programs(name: str) -> None:
    judge((CORPUS / "fxt" / f"{name}.fxt").read_bytes(), 3, tolerance=FILES[name])


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_use_slots_anew(seed: int) -> None:
    judge(Program(seed, 200).encoded(), seed)
