"""Simulated runs of a program, on a quiet and on a busy machine, and in jobs of a CI, as the comparison takes them."""

from __future__ import annotations

import numpy as np

from fxtio.timeline.comparison import Times

Run = dict[str, Times]
"""The times of a run by name."""

NAMES = 6
MEANS = np.random.default_rng(1).lognormal(11.5, 1, NAMES)
CALLS = np.random.default_rng(2).integers(100, 600, NAMES)

BETWEEN_JOBS, WITHIN_JOBS, BETWEEN_RUNS = 0.3, 0.1, 0.02
"""By which share the speed of jobs differs, that of a job from start to end, and that of single runs (deviations)."""

WAIT = 4_000_000
"""How long a process waits for its processor, and how long it has it, on a busy machine (ns)."""


def simulated_run(random: np.random.Generator, slow: int | None = None, by: float = 0.1, *, busy: bool = False) -> Run:
    """Return a run: durations with noise, slow calls, disturbances, and another speed of the whole.

    On a busy machine, another program shares the processor's core: a third of the runs take twice as long, others
    do in parts; and calls wait for their processor.

    Args:
        random: the source of noise.
        slow: the number of the function that is slower.
        by: how much slower each of its calls is.
        busy: whether the machine is busy.
    """
    run, whole = {}, random.normal(1, 0.005)
    shared = random.random() < 1 / 3
    for number, (mean, calls) in enumerate(zip(MEANS, CALLS, strict=True)):
        times = mean * whole * random.normal(1, 0.005) * (1 + random.exponential(0.1, calls))
        times[random.random(calls) < 0.002] *= 10
        for begin in random.integers(0, calls, random.poisson(1)):
            times[begin : begin + calls // 50] *= 2
        if number == slow:
            times *= 1 + by
        if busy:
            times[random.integers(0, calls) if not shared else 0 :] *= 2 * random.normal(1, 0.02)
            times += WAIT * random.poisson(times / WAIT)
        run[str(number)] = Times(int(calls), float(times.sum()), float(times.min()))
    return run


def simulated_job(random: np.random.Generator, sides: str, slow: int | None = None, by: float = 0.1) -> list[Run]:
    """Return the runs of a job of a CI, on a machine that is slower or faster than those of other jobs.

    Args:
        random: the source of noise.
        sides: the order of the runs: `b` for one before the change, `a` for one after it.
        slow: the number of the function that is slower after the change.
        by: how much slower each of its calls is.
    """
    job, drift = random.lognormal(0, BETWEEN_JOBS), random.normal(0, WITHIN_JOBS)
    runs = []
    for place, side in enumerate(sides):
        factor = job * (1 + drift * (place / len(sides) - 0.5)) * random.lognormal(0, BETWEEN_RUNS)
        run = simulated_run(random, slow if side == "a" else None, by)
        runs.append({name: Times(calls, total * factor, fast * factor) for name, (calls, total, fast) in run.items()})
    return runs


def simulated_gate(
    random: np.random.Generator, runs: int, slow: int | None = None, by: float = 0.1
) -> tuple[list[Run], list[Run]]:
    """Return both sides of a job that records them in turn, in the order of the gate for pull requests."""
    order = ("baab" * runs)[: 2 * runs]
    job = simulated_job(random, order, slow, by)
    before, after = ([run for run, each in zip(job, order, strict=True) if each == side] for side in "ba")
    return before, after
