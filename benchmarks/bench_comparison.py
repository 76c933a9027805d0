"""How often the comparison of runs alarms about equal runs, and finds slower ones: simulated and recorded.

    python benchmarks/bench_comparison.py                # some 10 minutes
    python benchmarks/bench_comparison.py --markdown
    python benchmarks/bench_comparison.py --record 0     # only simulated runs
    python benchmarks/bench_comparison.py --jobs 1000    # only simulated jobs of a CI, also some 10 minutes

Simulated runs are those of `tests/support/simulated_runs.py`.  The recorded program is `tests/corpus/runs/program.py`;
the same work is recorded twice in each round, and work of which one function does 10 % or 30 % more, in turn: plainly,
and beside programs that keep all processors busy most of the time.  Sides are chosen at random from all recordings of a
kind.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

import fxtio
from fxtio.timeline.comparison import Change, Comparison, Times, compare, run_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.checkout import CORPUS, run_python
from support.simulated_runs import CALLS, MEANS, NAMES, simulated_gate, simulated_job, simulated_run

RunTimes = dict[str, Times]
Side = list[RunTimes]

KINDS = {"equal": "0", "10 %": "10", "30 %": "30"}
"""The kinds of runs that are compared with the runs of the plain work, and by how much a function of them is slower."""

BUSY = """
import random, time
while True:
    until = time.perf_counter() + random.uniform(0.02, 1)
    while time.perf_counter() < until:
        pass
    time.sleep(random.uniform(0.02, 0.6))
"""


@contextlib.contextmanager
def load(programs: int) -> Iterator[None]:
    """Keep processors busy with this many programs."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(programs)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def recorded(folder: Path, rounds: int) -> dict[str, Side]:
    """Record runs of each kind in turn; of the equal ones, twice as many."""
    runs: dict[str, Side] = defaultdict(list)
    for _ in range(rounds):
        for more in ("0", "10", "0", "30"):
            path = folder / "run.fxt"
            run_python("-m", "fxtio", "run", "-q", "-o", str(path), str(CORPUS / "runs/program.py"), more)
            with fxtio.open_timeline(path) as timeline:
                runs[more].append(run_of(timeline))
            path.unlink()
    return runs


def judged(
    pairs: Iterable[tuple[Side, Side]], slower: Sequence[Sequence[str]], *, in_turn: bool = False
) -> tuple[float, float, float]:
    """Return how often a slower function is found, how often there is an alarm, and how often something is unclear.

    Args:
        pairs: the sides that are compared.
        slower: for each pair the names that are slower, of which the first is to be found.
        in_turn: whether both sides were recorded in turn.
    """
    found = alarms = unclear = 0
    for pair, names in zip(pairs, slower, strict=True):
        result: Comparison = compare(*pair, in_turn=in_turn)
        changes = {each.name: each.change for each in result.differences}
        found += any(changes.get(name) is Change.SLOWER for name in names[:1])
        alarms += any(change.is_sure for name, change in changes.items() if name not in names)
        unclear += Change.UNCLEAR in changes.values()
    return found / len(slower), alarms / len(slower), unclear / len(slower)


def simulated_rows(pairs: int, comparisons: int) -> Iterator[list[str]]:
    """Yield the rows of simulated runs."""
    random = np.random.default_rng(1)
    for busy in (False, True):
        for runs, count in ((1, pairs), (10, comparisons), (20, comparisons)):
            for kind, more in KINDS.items():
                by = int(more) / 100
                matter = [number for number in range(NAMES) if MEANS[number] * CALLS[number] * by > 2e6]
                slow = [matter[at % len(matter)] if matter else None for at in range(count)]
                pairs_of_sides = (
                    (
                        [simulated_run(random, busy=busy) for _ in range(runs)],
                        [simulated_run(random, each, by, busy=busy) for _ in range(runs)],
                    )
                    for each in slow
                )
                names = [[] if each is None else [str(each)] for each in slow]
                yield row("simulated", "busy" if busy else "quiet", runs, kind, count, judged(pairs_of_sides, names))


def recorded_rows(pools: dict[str, dict[str, Side]], pairs: int, comparisons: int) -> Iterator[list[str]]:
    """Yield the rows of recorded runs, by how the machine was."""
    random = np.random.default_rng(2)
    around = ["program.search", "program.answer", "program.<module>"]
    for machine, pool in pools.items():
        for runs, count in ((1, pairs), (10, comparisons), (20, comparisons)):
            for kind, more in KINDS.items():
                plain, other = pool["0"], pool[more]
                if runs > min(len(plain) // 2, len(other)):
                    continue
                sides = []
                for _ in range(count):
                    mixed = [plain[place] for place in random.permutation(len(plain))]
                    several = [other[place] for place in random.permutation(len(other))[:runs]]
                    sides.append((mixed[:runs], mixed[runs : 2 * runs] if more == "0" else several))
                names = [[] if more == "0" else around] * count
                yield row("recorded", machine, runs, kind, count, judged(sides, names))


def row(what: str, machine: str, runs: int, kind: str, count: int, result: tuple[float, float, float]) -> list[str]:
    found, alarms, unclear = (f"{100 * share:.1f} %" for share in result)
    return [what, machine, f"{runs} and {runs}", kind, f"{count:,}", "" if kind == "equal" else found, alarms, unclear]


def job_rows(count: int) -> Iterator[list[str]]:
    """Yield rows of simulated jobs: how both sides were recorded, how many runs, false alarms, and what was found."""
    matter = [number for number in range(NAMES) if MEANS[number] * CALLS[number] > 2e7]
    arrangements = {
        "a job for each side": lambda runs, slow: tuple(simulated_job(random, side * runs, slow) for side in "ba"),
        "one after the other": lambda runs, slow: halves(simulated_job(random, "b" * runs + "a" * runs, slow)),
        "in turn": lambda runs, slow: simulated_gate(random, runs, slow),
        "in turn, `--in-turn`": lambda runs, slow: simulated_gate(random, runs, slow),
    }
    kinds = [*((each, 12) for each in arrangements), *(("in turn, `--in-turn`", runs) for runs in (8, 10, 20))]
    for arrangement, runs in kinds:
        random, in_turn = np.random.default_rng(5), "--in-turn" in arrangement
        slow = [matter[at % len(matter)] for at in range(count)]
        sides = arrangements[arrangement]
        _, alarms, _ = judged((sides(runs, None) for _ in slow), [[]] * count, in_turn=in_turn)
        names = [[str(each)] for each in slow]
        found, others, _ = judged((sides(runs, each) for each in slow), names, in_turn=in_turn)
        shares = (f"{100 * share:.1f} %" for share in (alarms, found, others))
        yield [arrangement, f"{runs} and {runs}", f"{count:,}", *shares]


def halves(runs: Side) -> tuple[Side, Side]:
    return runs[: len(runs) // 2], runs[len(runs) // 2 :]


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge the comparison of runs.")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--record", type=int, default=30, metavar="ROUNDS", help="rounds of four recordings (30)")
    parser.add_argument("--pairs", type=int, default=1000, help="simulated comparisons of single runs (1000)")
    parser.add_argument("--comparisons", type=int, default=200, help="comparisons of several runs (200)")
    parser.add_argument("--jobs", type=int, metavar="PAIRS", help="only simulated jobs of a CI, this many of each kind")
    options = parser.parse_args()
    if options.jobs:
        titles = ["recorded", "of each side", "comparisons", "alarms if equal", "found if 10 % slower", "other alarms"]
        print_rows(titles, list(job_rows(options.jobs)), options.markdown)
        return
    pools: dict[str, dict[str, Side]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.record:
            average = os.getloadavg()[0]
            pools[f"as it was (load {average:.1f})"] = recorded(Path(folder), options.record)
            with load(os.cpu_count() or 1):
                pools["busy"] = recorded(Path(folder), options.record)
    rows = [*simulated_rows(options.pairs, options.comparisons), *recorded_rows(pools, 60, options.comparisons)]
    titles = ["runs", "machine", "of each side", "difference", "comparisons", "found", "other alarms", "some unclear"]
    print_rows(titles, rows, options.markdown)


def print_rows(titles: list[str], rows: list[list[str]], markdown: bool) -> None:
    """Print a table, and what it was measured with."""
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}).\n")
    if markdown:
        print("\n".join(f"| {' | '.join(each)} |" for each in (titles, ["---"] * len(titles), *rows)))
        return
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for each in (titles, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(each, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
