"""The fuzzer: engines that run a target, a campaign that restarts them after crashes, and the command line.

    python tests/fuzz TARGET [--minutes 10] [--engine atheris|hypothesis] [--keep DIRECTORY]
    python tests/fuzz TARGET --replay FILE

A target is a module `fuzz.TARGET` with an object `TARGET`.  If atheris is installed (`pip install atheris`; it is not a
dependency of fxtio), fuzzing is guided by coverage and starts from the target's seeds; otherwise hypothesis draws the
inputs.  The last line of the output has the number of executions, of inputs with findings, and of crashes.  The input
of each crash is a file in the directory, and `--replay` runs it again.  The exit status is 1 if there was a crash.
An input that takes too much processor time or memory for its size counts as a crash; one that never ends, too.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.limits import EXTREME_NUMBERS, processor_seconds

TARGETS = ("coreprofiler", "dcpi", "fxt", "mono", "perfetto", "uftrace", "validate")

PROCESS_SECONDS = 120  # a process of the engine runs for so long before it is replaced
MAX_CRASHES = 10  # a campaign ends after this many
LONGEST = 4096  # bytes of an input; longer ones only slow it down
INPUT_SECONDS = 3  # processor time that an input of any size may take
SECONDS_PER_MIB = 1000  # and that each MiB of it may take in addition; seeds take up to 100
MAX_INPUT_SECONDS = 120  # time after which atheris ends a process
MAX_INPUT_MIB = 128  # memory that an input may take beyond the peak of the inputs before

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "corpus"

_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|\d+")

Change = Callable[[bytes, int], bytes]
"""The engine's function that mutates bytes; the number is the maximum length of the result."""


@dataclass(frozen=True, slots=True)
class Target:
    """A reader to be fuzzed.

    Attributes:
        check: reads an input in every way and returns whether there were findings.  An exception is a crash.
        seeds: yields the inputs to start from.
        drawn: returns the hypothesis strategy for inputs.
        mutate: mutates an input, to at most this many bytes, in a way that random changes seldom do; None leaves it to
            the engine.
    """

    check: Callable[[bytes], bool]
    seeds: Callable[[], Iterator[bytes]]
    drawn: Callable[[], Any]
    mutate: Callable[[bytes, int, random.Random, Change], bytes] | None = None


class BrokenError(AssertionError):
    """A property of the reader that does not hold for an input."""


def require(condition: bool, expectation: str) -> None:
    """Raise `BrokenError` unless a condition holds; `expectation` says what was expected."""
    if not condition:
        raise BrokenError(expectation)


def target_of(name: str) -> Target:
    """Import the target of this name, and the reader with it."""
    target: Target = importlib.import_module(f"fuzz.{name}").TARGET
    return target


def checked(check: Callable[[bytes], bool], data: bytes) -> bool:
    """Check an input in bounded processor time, and return whether there were findings."""
    with processor_seconds(INPUT_SECONDS + len(data) * SECONDS_PER_MIB / 2**20):
        return check(data)


class Counts:
    """Counters of one process, written to a file now and then, so that they remain after a crash.

    Args:
        path: the file.
        check: the function `check` of the target.
    """

    def __init__(self, path: Path, check: Callable[[bytes], bool]) -> None:
        self.path = path
        self._check = check
        self.executions = self.with_findings = 0

    def run(self, data: bytes) -> None:
        """Check one input, and how much processor time and memory it takes."""
        self.executions += 1
        before = _peak()
        try:
            self.with_findings += checked(self._check, data)
            grown = _peak() - before if self.executions > 1 else 0.0  # the first one loads modules
            require(grown < MAX_INPUT_MIB, f"an input takes less than {MAX_INPUT_MIB} MiB")
        except BaseException:
            self.write()
            raise
        if self.executions % 50 == 0:
            self.write()

    def write(self) -> None:
        """Write the counters to the file."""
        self.path.write_text(json.dumps([self.executions, self.with_findings]), "utf-8")


def with_extreme_number(data: bytes, draw: random.Random) -> bytes:
    """Return the data with a number in it, in binary or as text, replaced by one at the limits of integer types."""
    number = draw.choice(EXTREME_NUMBERS)
    texts = list(_NUMBER.finditer(data))
    if texts and draw.randrange(2):
        chosen = draw.choice(texts)
        text = b"%x" % number if chosen[0].startswith(b"0x") else b"%d" % number
        return data[: chosen.start()] + (b"0x" if chosen[0].startswith(b"0x") else b"") + text + data[chosen.end() :]
    size = draw.choice([1, 2, 4, 8])
    at = draw.randrange(len(data) + 1) // size * size
    raw: bytes = (number % 2 ** (8 * size)).to_bytes(size, "big" if draw.randrange(4) == 0 else "little")
    return data[:at] + raw + data[at + size :]


def mutated(target: Target, data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Return a mutated input of at most this many bytes: one of the target's mutations, or an extreme number.

    Args:
        target: the target.
        data: the input.
        most: the greatest number of bytes.
        draw: random numbers.
        change: the engine's own function that mutates bytes.
    """
    if draw.randrange(6) == 0:
        return with_extreme_number(data, draw)[:most]
    return target.mutate(data, most, draw, change) if target.mutate else change(data, most)


def _peak() -> float:
    """Return the peak of the memory of this process in MiB."""
    import resource  # it does not exist on every system, and tests that only check an input do not need it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_atheris(name: str, keep: Path, seconds: int, seed: int) -> None:
    """Fuzz with libFuzzer until the time is over, and end the process."""
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
            f"-timeout={MAX_INPUT_SECONDS}",
            "-verbosity=0",
            f"-seed={seed}",
        ]

        def mutate(data: bytes, size: int, draw: int) -> bytes:
            return mutated(target, data, size, random.Random(draw), atheris.Mutate)

        counts = Counts(keep / "figures.json", target.check)
        atheris.Setup([sys.argv[0], *options, str(inputs)], counts.run, custom_mutator=mutate)
        atheris.Fuzz()


def run_hypothesis(name: str, keep: Path, seconds: int, seed: int) -> None:
    """Fuzz with inputs that hypothesis draws until the time is over, and end the process."""
    from hypothesis import HealthCheck, Phase, given, settings, strategies
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
    @given(target.drawn(), strategies.none() | strategies.randoms(use_true_random=False))
    def check(data: bytes, draw: random.Random | None) -> None:
        data = data if draw is None else with_extreme_number(data, draw)
        if time.monotonic() > stop:
            counts.write()
            sys.exit(0)
        last.write_bytes(data)
        counts.run(data)
        last.unlink()

    check()


ENGINES = {"atheris": run_atheris, "hypothesis": run_hypothesis}


def campaign(name: str, engine: str, keep: Path, minutes: float) -> int:
    """Run the engine in one process after another, so that a crash does not end it; return the number of crashes."""
    stop = time.monotonic() + minutes * 60
    executions = with_findings = number = 0
    crashes: list[Path] = []
    while (left := stop - time.monotonic()) > 1:
        number += 1
        figures = keep / "figures.json"
        figures.write_text("[0, 0]", "utf-8")
        child = ["--child", str(int(min(left, PROCESS_SECONDS))), str(number)]
        command = [sys.executable, str(HERE), name, "--engine", engine, "--keep", str(keep), *child]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            print(f"{process.stdout}{process.stderr}"[-2000:])
        counts = json.loads(figures.read_text("utf-8"))
        executions, with_findings = executions + counts[0], with_findings + counts[1]
        crashes = [path for kind in ("crash", "timeout", "oom", "leak") for path in keep.glob(f"{kind}-*")]
        if len(crashes) >= MAX_CRASHES or (process.returncode and not counts[0]):
            break
    summary = f"{executions:,} executions, {with_findings:,} with findings, {len(crashes)} crashes"
    print(f"{name}, {engine}: {summary} in {keep}")
    return len(crashes)


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the readers.")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument(
        "--keep", type=Path, help="the directory for crashes and the fuzzing corpus (default: a new one)"
    )
    parser.add_argument("--replay", type=Path, help="check this file once and print whether it has findings")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        has_findings = checked(target_of(given.target).check, given.replay.read_bytes())
        print("findings" if has_findings else "no findings")
        return 0
    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    keep = given.keep or Path(tempfile.mkdtemp(prefix=f"fuzz-{given.target}-"))
    keep.mkdir(parents=True, exist_ok=True)
    if given.child:
        ENGINES[engine](given.target, keep, *given.child)
        return 0
    return 1 if campaign(given.target, engine, keep, given.minutes) else 0
