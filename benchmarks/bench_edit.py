"""Measure how fast fxtio cuts, merges and packs traces, in megabytes per second and in multiples of reading them.

    python benchmarks/bench_edit.py                # about three minutes
    python benchmarks/bench_edit.py --markdown

The traces are synthetic ones of 100 MB, but that which is packed has 1 GB.  Reading is that of all columns of the
records, with what readers report.  The memory of a cut is measured on a trace of 400 MB, too: it must not grow with the
trace.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from harness import best, peak_memory, show

import fxtio
from fxtio import synth
from fxtio.exchange.convert import convert
from fxtio.fxt import FxtTrace
from fxtio.fxt.cut import cut_to
from fxtio.fxt.merge import merge_to
from fxtio.fxt.pack import pack
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
from fxtio.uftrace import UftraceTrace

SIZE = 100_000_000
ROUNDS = 3
SHAPES = ("spans", "mixed", "program")
"""The synthetic shapes of FXT that are cut and merged."""

PEAK_OF_CUT = """
import sys
from fxtio.fxt import FxtTrace
from fxtio.fxt.cut import cut_to
from fxtio.io.sink import open_sink
from fxtio.selection import Selection
cut_to(FxtTrace(sys.argv[1]), Selection(int(sys.argv[2]), int(sys.argv[3])), open_sink(sys.argv[4]))
"""


def make(path: Path, shape: str, size: int = SIZE) -> Path:
    """Write a synthetic trace."""
    synth.write(path, shape, size=size)
    return path


def parts(path: Path) -> dict[str, Selection]:
    """Return what is cut out of a trace: a tenth in the middle, nearly everything, one thread of eight, some names."""
    info = fxtio.open(path).info
    assert info.start is not None and info.end is not None
    tenth = (info.end - info.start) // 10
    return {
        "a tenth": Selection(info.start + 4 * tenth, info.start + 5 * tenth),
        "nine tenths": Selection(info.start + tenth // 2, info.end - tenth // 2),
        "one thread": Selection(threads=(str(min(info.threads)),)) if info.threads else Selection(threads=("*1",)),
        "by name": Selection(names=("*1*",)),
    }


def read(path: Path) -> None:
    """Read a trace, with what readers report."""
    for batch in FxtTrace(path).record_batches(forget=True):
        batch.check()


def of_fxt(folder: Path) -> list[tuple[str, str, str]]:
    """Measure cuts and merges of FXT."""
    rows = []
    target = os.devnull
    for shape in SHAPES:
        path = make(folder / f"{shape}.fxt", shape)
        size = path.stat().st_size / 1e6
        reading = best(lambda path=path: read(path), ROUNDS)
        works: dict[str, tuple[Callable[[], object], float]] = {
            f"cut, {name}": (lambda path=path, part=part: cut_to(FxtTrace(path), part, open_sink(target)), 1)
            for name, part in parts(path).items()
        }
        works["merge, two files"] = (lambda path=path: merge_to([FxtTrace(path), FxtTrace(path)], open_sink(target)), 2)
        for name, (work, files) in works.items():
            seconds = best(work, ROUNDS) / files
            rows.append(
                (f"FXT {shape}: {name}", f"{size / seconds:.0f} MB/s", f"{seconds / reading:.1f} times reading")
            )
        path.unlink()
    return rows


def of_uftrace(folder: Path) -> list[tuple[str, str, str]]:
    """Measure cuts of data directories."""
    path, target = folder / "whole", folder / "part"
    synth.write(path, "calls", format="uftrace", size=SIZE)
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    info = UftraceTrace(path).info
    assert info.start is not None and info.end is not None
    tenth = (info.end - info.start) // 10
    reading = best(lambda: [chunk.words for chunk in UftraceTrace(path).chunks()], ROUNDS)

    def work() -> None:
        shutil.rmtree(target, ignore_errors=True)
        selection = Selection(info.start + 4 * tenth, info.start + 5 * tenth)
        convert(UftraceTrace(path).timeline(), target, to="uftrace", selection=selection)

    seconds = best(work, ROUNDS)
    return [("uftrace calls: cut, a tenth", f"{size / seconds:.0f} MB/s", f"{seconds / reading:.1f} times reading")]


def packed(folder: Path) -> list[tuple[str, str, str]]:
    """Measure packing, what it adds to an ordinary zstd file, and a cut of a second of a packed trace."""
    path, plain, target = (
        make(folder / "program.fxt", "program", 10 * SIZE),
        folder / "plain.zst",
        folder / "packed.zst",
    )
    size = path.stat().st_size / 1e6
    with closing(open_sink(plain)) as sink:
        FxtTrace(path).copy_bytes(sink.write)
    seconds = best(lambda: pack(FxtTrace(path), target), 1)
    path.unlink()
    more = target.stat().st_size / plain.stat().st_size - 1
    times = FxtTrace(target).times
    assert times.start is not None and times.end is not None
    middle = (times.start + times.end) // 2

    def cut_a_second() -> None:
        trace, second = FxtTrace(target), Selection(middle, middle + 1_000_000_000)
        trace.narrow(second.start, second.end)
        cut_to(trace, second, open_sink(os.devnull))

    return [
        (f"FXT program: pack {size:.0f} MB", f"{size / seconds:.0f} MB/s", f"{more:+.2%} of an ordinary zstd file"),
        ("FXT program: cut, a second of it packed", f"{best(cut_a_second, ROUNDS) * 1000:.0f} ms", ""),
    ]


def memory(folder: Path) -> list[tuple[str, str, str]]:
    """Measure the memory of a cut of a short and a long trace."""
    rows = []
    for size in (SIZE, 4 * SIZE):
        path = make(folder / "memory.fxt", "mixed", size)
        selection = parts(path)["a tenth"]
        arguments = (str(path), str(selection.start), str(selection.end), os.devnull)
        peak = peak_memory(PEAK_OF_CUT, *arguments)
        rows.append((f"FXT mixed: memory of a cut of {size / 1e6:.0f} MB", f"{peak / 1e6:.0f} MB", ""))
        path.unlink()
    return rows


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything."""
    return [*of_fxt(folder), *packed(folder), *of_uftrace(folder), *memory(folder)]


if __name__ == "__main__":
    show("parts of traces", run, "relative")
