"""Measure the C header of `fxtio generate c` beside the bulk writer of fxtio, in one run.

    python benchmarks/bench_generated_c.py                 # half a minute; needs a C compiler, `cc`
    python benchmarks/bench_generated_c.py --markdown      # as the table that is in docs/reference/commands/generate.md

Figures are for each span, best of several rounds; those of C are processor time.  The span with two arguments is that
of `bench_fxt.py`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench_fxt import EVENTS, encode_only
from harness import show

from fxtio.fxt.c_header import header_text

SAME = "write a span with two arguments"


def c_figures(folder: Path) -> dict[str, float]:
    """Return nanoseconds for each span, by what is done."""
    (folder / "fxt.h").write_text(header_text())
    source, program = Path(__file__).with_name("generated_c.c"), folder / "program"
    subprocess.run(["cc", "-std=c99", "-O2", f"-I{folder}", "-o", str(program), str(source)], check=True)
    lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {label: float(figure) for figure, label in (line.split("\t") for line in lines)}


def run(folder: Path) -> list[tuple[str, str, str]]:
    """Measure everything: what, how much, beside the bulk writer."""
    figures, beside = c_figures(folder), encode_only() / EVENTS * 1e9
    rows = [
        (f"C, {label}", f"{figure:.1f} ns", f"{beside / figure:.1f} times as fast" if label == SAME else "")
        for label, figure in figures.items()
    ]
    return [*rows, (f"bulk writer, {SAME}", f"{beside:.1f} ns", "")]


if __name__ == "__main__":
    show("FXT in C", run, "beside the bulk writer")
