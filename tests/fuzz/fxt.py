"""The fuzz target of the FXT reader: whatever the bytes are, every way of reading them gives the same, and no crash.

    python tests/fuzz/fxt.py --minutes 10 [--engine atheris|hypothesis] [--keep DIRECTORY]

With atheris installed (`pip install atheris`; not a dependency of fxtio) the fuzzing is guided by coverage and starts
from the vectors and traces of the corpus; otherwise hypothesis draws damaged and arbitrary traces.  At the end stands a
line with the number of executions, how many of the inputs had findings, and the crashes; each crash is kept as a file
in the directory, and `python tests/fuzz/fxt.py --replay FILE` shows it again.  The exit status is 1 if there was one.

What is checked of each input: no reading raises anything (strict ones a `DecodeError`, and that exactly where there are
findings); reading in small batches or byte by byte gives the same records; a well-framed trace is copied to the same
bytes, and each of its records means what the plain model (`support.fxt_model`) says.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

CHUNK = 120  # seconds that a process of the engine runs before it is started anew
ENOUGH = 10  # crashes after which it makes no sense to go on
FAR = 64 * 1024  # bytes; longer inputs only slow it down


class BrokenError(AssertionError):
    """A property that does not hold."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise BrokenError(what)


def check(data: bytes) -> bool:
    """Read one input in every way.

    Returns:
        Whether there were findings.

    Raises:
        BrokenError: a property does not hold.
        Exception: the reader crashed.
    """
    from fxtio.errors import DecodeError
    from fxtio.fxt import FxtTrace
    from support.fxt_readings import Trickle, in_batches, tables_of, told
    from support.fxt_twins import plain

    trace = FxtTrace(data)
    records = plain(list(trace))
    findings = told(trace.findings)
    strict = FxtTrace(data, strict=True)
    raised = None
    try:
        list(strict)
    except DecodeError as error:
        raised = (error.rule, error.offset)
    require((raised is not None) == bool(findings), "strict reading raises where there are findings")
    require(
        raised is None or raised in {(rule, at) for rule, _, at in findings}, "what strict reading raises is a finding"
    )
    for other in (FxtTrace(Trickle(data, 61)), FxtTrace(data)):
        with in_batches(1 + len(data) % 37, 1 + len(data) % 7):
            require(plain(list(other)) == records, "pieces give the same records")
    _ = trace.info
    tables_of(trace)
    entries = list(trace.entries())
    require(plain([entry[-1] for entry in entries]) == records, "entries hold the same records")
    check_framed(data, trace, entries)
    return bool(findings)


def check_framed(data: bytes, trace: Any, entries: list[Any]) -> None:
    """What holds for traces in which only the content of records can be wrong."""
    from fxtio.codec.generate import Order, encode
    from fxtio.fxt.framing import MAGIC
    from support import fxt_model
    from support.fxt_twins import plain

    order: Order = "big" if data[:8] == MAGIC[::-1] else "little"
    try:
        framed = len(data) % 8 == 0 and all(True for _ in fxt_model.pieces(data, order))
    except AssertionError:
        return
    if framed:
        copy = b"".join([encode(one, order) for one in trace.records(resolve=False)])
        require(copy == data, "a copy is the same bytes")
        model = [
            plain((one.offset, one.time, one.end, one.provider, one.record)) for one in fxt_model.read(data, order)
        ]
        require([plain(entry) for entry in entries] == model, "every record means what the model says")


# --- Inputs -----------------------------------------------------------------------------------------------------------


def seeds() -> Iterator[bytes]:
    """The vectors in both byte orders, with a magic number before them, and the small traces of the corpus."""
    from fxtio.codec.generate import encode
    from fxtio.errors import EncodeError
    from fxtio.fxt import FxtTrace
    from fxtio.fxt.framing import MAGIC

    corpus = HERE.parent / "corpus" / "fxt"
    for vector in json.loads((corpus / "vectors.json").read_text("utf-8")):
        data = MAGIC + bytes.fromhex(vector["hex"])
        yield data
        with contextlib.suppress(EncodeError):  # what is kept as bytes keeps its byte order
            yield b"".join([encode(one, "big") for one in FxtTrace(data).records(resolve=False)])
    for path in sorted(corpus.glob("*.fxt")):
        if path.stat().st_size < FAR:
            yield path.read_bytes()


class Mutator:
    """Changes traces by whole records and by sizes, which chance alone does not keep right."""

    def __init__(self, engine: Any) -> None:
        from fxtio.fxt.framing import MAGIC

        self._engine = engine
        self.records = [seed[len(MAGIC) :] for seed in seeds()]  # of both byte orders

    def __call__(self, data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        choice = draw.randrange(4)
        at = draw.randrange(len(data) // 8 + 1) * 8
        if choice == 0:
            data = data[:at] + draw.choice(self.records) + data[at:]
        elif choice == 1:
            rest = self._engine.Mutate(data[at:], max(most - at, 8)) if len(data) > at else b""
            data = data[:at] + self._resized(rest)
        elif choice == 2:
            data = data[:at] + data[at + 8 * draw.randrange(1, 5) :]
        else:
            data = self._engine.Mutate(data, most)
        return bytes(data[:most])

    def _resized(self, rest: bytes) -> bytes:
        """The first record's size made to be that of all that follows."""
        from fxtio.fxt.records import RECORDS
        from support.fxt_hostile import resized

        whole = rest[: len(rest) // 8 * 8]
        return resized(whole, "little", RECORDS) if 8 <= len(whole) < 8 * 4096 else rest


# --- Engines ----------------------------------------------------------------------------------------------------------


class Counts:
    """Figures of one process, written to a file now and then so that they outlive it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.executions = self.with_findings = 0

    def run(self, data: bytes) -> None:
        """Check one input."""
        self.executions += 1
        try:
            self.with_findings += check(data)
        except BaseException:
            self.write()
            raise
        if self.executions % 50 == 0:
            self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps([self.executions, self.with_findings]), "utf-8")


def run_atheris(keep: Path, counts: Counts, seconds: int, seed: int) -> None:
    """Fuzz with libFuzzer until the time is over; ends the process."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["fxtio"]):
        for name in ("fxtio.fxt.reader", "fxtio.io.source"):
            importlib.import_module(name)
    inputs = keep / "corpus"
    if not inputs.is_dir():
        inputs.mkdir(parents=True)
        for number, data in enumerate(seeds()):
            (inputs / f"seed-{number}").write_bytes(data)
    options = [
        f"-max_total_time={seconds}",
        f"-artifact_prefix={keep}/",
        "-max_len=4096",
        "-verbosity=0",
        f"-seed={seed}",
    ]
    mutate = Mutator(atheris)
    atheris.Setup([sys.argv[0], *options, str(inputs)], counts.run, custom_mutator=mutate)
    atheris.Fuzz()


def run_hypothesis(keep: Path, counts: Counts, seconds: int, seed: int) -> None:
    """Draw traces until the time is over."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    from support.fxt_hostile import arbitrary, damaged_traces
    from support.fxt_samples import ORDERS

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
    @given(st.sampled_from(ORDERS).flatmap(lambda order: damaged_traces(order) | arbitrary(order)))
    def target(data: bytes) -> None:
        if time.monotonic() > stop:
            counts.write()
            sys.exit(0)
        last.write_bytes(data)
        counts.run(data)
        last.unlink()

    target()


ENGINES = {"atheris": run_atheris, "hypothesis": run_hypothesis}


def campaign(engine: str, keep: Path, minutes: float) -> int:
    """Run the engine in one process after another, so that a crash does not end it.  How many crashes there were."""
    stop = time.monotonic() + minutes * 60
    executions = with_findings = number = 0
    crashes: list[Path] = []
    while (left := stop - time.monotonic()) > 1:
        number += 1
        figures = keep / "figures.json"
        figures.write_text("[0, 0]", "utf-8")
        seconds = str(int(min(left, CHUNK)))
        command = [sys.executable, __file__, "--engine", engine, "--keep", str(keep), "--child", seconds, str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{done.stdout}{done.stderr}"[-2000:])
        one = json.loads(figures.read_text("utf-8"))
        executions, with_findings = executions + one[0], with_findings + one[1]
        crashes = [path for kind in ("crash", "timeout", "oom", "leak") for path in keep.glob(f"{kind}-*")]
        if len(crashes) >= ENOUGH or (done.returncode and not one[0]):
            break
    print(f"{engine}: {executions:,} executions, {with_findings:,} with findings, {len(crashes)} crashes in {keep}")
    return len(crashes)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the FXT reader.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument(
        "--keep", type=Path, help="where crashes and the fuzzing corpus go (a new directory unless told)"
    )
    parser.add_argument("--replay", type=Path, help="check this file once")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        print("findings" if check(given.replay.read_bytes()) else "no findings")
        return 0
    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    keep = given.keep or Path(tempfile.mkdtemp(prefix="fuzz-fxt-"))
    keep.mkdir(parents=True, exist_ok=True)
    if given.child:
        ENGINES[engine](keep, Counts(keep / "figures.json"), *given.child)
        return 0
    return 1 if campaign(engine, keep, given.minutes) else 0


if __name__ == "__main__":
    sys.exit(main())
