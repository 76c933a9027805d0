"""Simulated runs of a program, on a quiet and on a busy machine, as the comparison of runs takes them."""

from __future__ import annotations

import numpy as np

from fxtio.timeline.comparison import Times

NAMES = 6
MEANS = np.random.default_rng(1).lognormal(11.5, 1, NAMES)
CALLS = np.random.default_rng(2).integers(100, 600, NAMES)

WAIT = 4_000_000
"""How long a process waits for its processor, and how long it has it, on a busy machine (ns)."""


def simulated_run(
    random: np.random.Generator, slow: int | None = None, by: float = 0.1, *, busy: bool = False
) -> dict[str, Times]:
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
