"""What runs the fuzz targets: engines, a campaign of processes that survives crashes, and the command line.

    python tests/fuzz TARGET [--minutes 10] [--engine atheris|hypothesis] [--keep DIRECTORY]
    python tests/fuzz TARGET --replay FILE

A target is a module `fuzz.TARGET` with a `TARGET`.  With atheris installed (`pip install atheris`; not a dependency of
fxtio) the fuzzing is guided by coverage and starts from the target's seeds; otherwise hypothesis draws inputs.  At the
end stands a line with the number of executions, how many of the inputs had findings, and the crashes; each crash is
kept as a file in the directory, and `--replay` shows it again.  The exit status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = ("coreprofiler", "dcpi", "fxt", "mono", "uftrace")

CHUNK = 120  # seconds that a process of the engine runs before it is started anew
ENOUGH = 10  # crashes after which it makes no sense to go on
LONGEST = 4096  # bytes of an input; longer ones only slow it down
SLOW = 20  # seconds after which an input counts as a crash
ROOM = 128  # MiB that an input may take beyond what was taken before

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "corpus"

Change = Callable[[bytes, int], bytes]
"""The engine's own way of changing some bytes, to at most so many."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is fuzzed.

    Attributes:
        check: reads an input in every way; whether there were findings.  What it raises is a crash.
        seeds: inputs to start from.
        drawn: the hypothesis strategy for inputs.
        mutate: changes an input in a way that chance alone does not find, to at most so many bytes; None leaves it to
            the engine.
    """

    check: Callable[[bytes], bool]
    seeds: Callable[[], Iterator[bytes]]
    drawn: Callable[[], Any]
    mutate: Callable[[bytes, int, random.Random, Change], bytes] | None = None


class BrokenError(AssertionError):
    """A property that does not hold."""


def require(condition: bool, what: str) -> None:
    """Raise `BrokenError` unless the property holds."""
    if not condition:
        raise BrokenError(what)


def target_of(name: str) -> Target:
    """The target of this name; loads what it reads with."""
    found: Target = importlib.import_module(f"fuzz.{name}").TARGET
    return found


class Counts:
    """Figures of one process, written to a file now and then so that they outlive it.

    Args:
        path: the file.
        check: the target's.
    """

    def __init__(self, path: Path, check: Callable[[bytes], bool]) -> None:
        self.path = path
        self._check = check
        self.executions = self.with_findings = 0

    def run(self, data: bytes) -> None:
        """Check one input, and that memory stays bounded."""
        self.executions += 1
        before = _peak()
        try:
            self.with_findings += self._check(data)
            grown = _peak() - before if self.executions > 1 else 0.0  # the first one loads modules
            require(grown < ROOM, f"less than {ROOM} MiB are needed")
        except BaseException:
            self.write()
            raise
        if self.executions % 50 == 0:
            self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps([self.executions, self.with_findings]), "utf-8")


def _peak() -> float:
    """The most MiB of memory that the process has had so far."""
    import resource  # not on every system; tests that only check an input do without

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_atheris(name: str, keep: Path, seconds: int, seed: int) -> None:
    """Fuzz with libFuzzer until the time is over; ends the process."""
    atheris = importlib.import_module("atheris")
    inputs = keep / "corpus"
    with atheris.instrument_imports(include=["fxtio"]):
        target = target_of(name)
        if not inputs.is_dir():
            inputs.mkdir(parents=True)
            for number, data in enumerate(target.seeds()):
                (inputs / f"seed-{number}").write_bytes(data)
        options = [
            f"-max_total_time={seconds}",
            f"-artifact_prefix={keep}/",
            f"-max_len={LONGEST}",
            f"-timeout={SLOW}",
            "-verbosity=0",
            f"-seed={seed}",
        ]
        how = {}
        if (mutate := target.mutate) is not None:
            how["custom_mutator"] = lambda data, most, draw: mutate(data, most, random.Random(draw), atheris.Mutate)
        counts = Counts(keep / "figures.json", target.check)
        atheris.Setup([sys.argv[0], *options, str(inputs)], counts.run, **how)
        atheris.Fuzz()


def run_hypothesis(name: str, keep: Path, seconds: int, seed: int) -> None:
    """Draw inputs until the time is over."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    target = target_of(name)
    counts = Counts(keep / "figures.json", target.check)
    stop = time.monotonic() + seconds
    last = keep / f"crash-{seed}"

    @seeded(seed)
    @settings(
        max_examples=10**6,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.drawn())
    def one(data: bytes) -> None:
        if time.monotonic() > stop:
            counts.write()
            sys.exit(0)
        last.write_bytes(data)
        counts.run(data)
        last.unlink()

    one()


ENGINES = {"atheris": run_atheris, "hypothesis": run_hypothesis}


def campaign(name: str, engine: str, keep: Path, minutes: float) -> int:
    """Run the engine in one process after another, so that a crash does not end it.  How many crashes there were."""
    stop = time.monotonic() + minutes * 60
    executions = with_findings = number = 0
    crashes: list[Path] = []
    while (left := stop - time.monotonic()) > 1:
        number += 1
        figures = keep / "figures.json"
        figures.write_text("[0, 0]", "utf-8")
        child = ["--child", str(int(min(left, CHUNK))), str(number)]
        command = [sys.executable, str(HERE), name, "--engine", engine, "--keep", str(keep), *child]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{done.stdout}{done.stderr}"[-2000:])
        one = json.loads(figures.read_text("utf-8"))
        executions, with_findings = executions + one[0], with_findings + one[1]
        crashes = [path for kind in ("crash", "timeout", "oom", "leak") for path in keep.glob(f"{kind}-*")]
        if len(crashes) >= ENOUGH or (done.returncode and not one[0]):
            break
    told = f"{executions:,} executions, {with_findings:,} with findings, {len(crashes)} crashes"
    print(f"{name}, {engine}: {told} in {keep}")
    return len(crashes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the readers.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument(
        "--keep", type=Path, help="where crashes and the fuzzing corpus go (a new directory unless told)"
    )
    parser.add_argument("--replay", type=Path, help="check this file once")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        print("findings" if target_of(given.target).check(given.replay.read_bytes()) else "no findings")
        return 0
    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    keep = given.keep or Path(tempfile.mkdtemp(prefix=f"fuzz-{given.target}-"))
    keep.mkdir(parents=True, exist_ok=True)
    if given.child:
        ENGINES[engine](given.target, keep, *given.child)
        return 0
    return 1 if campaign(given.target, engine, keep, given.minutes) else 0
