"""Measure how fast fxtio reads and writes DCPI profiles.

    python benchmarks/bench_dcpi.py                 # about a minute
    python benchmarks/bench_dcpi.py --markdown

The profiles are synthetic: runs of about 20 addresses with samples (`profile`), single ones (`sparse`), and one that
has samples everywhere (`dense`).  Columns are those of the samples, all three: address, offset and count.  Every figure
is the best of several rounds on one core; the megabytes are those of the file.  Profiles with long runs are nearer to
`dense`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import best, show

from fxtio import synth
from fxtio.dcpi import DcpiTrace, DcpiWriter, rules
from fxtio.dcpi.layout import STEP
from fxtio.synth.dcpi import HEADER
from fxtio.table import Table

SIZE = 100_000_000

MEASURED = {"profile": 0, "sparse": 21, "dense": 1}
"""What is measured, and how many instructions the addresses with samples are apart; 0 for the synthetic shape."""


def write(path: Path, apart: int) -> tuple[int, int]:
    """Write a profile of about the size; return the numbers of its addresses and bytes."""
    if not apart:
        return synth.write(path, "profile", size=SIZE)
    count = SIZE // (4 if apart == 1 else 12)
    offset = np.arange(count) * STEP * apart
    with DcpiWriter(path, header={**HEADER, "tsize": int(offset[-1]) + STEP}) as writer:
        writer.write_table("samples", {"text_offset": offset, "count": 1 + offset % 61})
        return count, writer.position


def batches(path: Path) -> int:
    """Read addresses, offsets and counts in bounded memory."""
    return sum(len(tables["samples"]["address"]) for tables in DcpiTrace(path).batches("samples"))


def whole(path: Path) -> Table:
    """Read addresses, offsets and counts as one table."""
    samples = DcpiTrace(path).table("samples")
    assert samples.num_rows == len(samples["address"])
    return samples


def rewrite(path: Path) -> Callable[[], None]:
    """Return a function that writes a file from columns."""
    samples = DcpiTrace(path).table("samples")
    header = {**HEADER, "tsize": int(samples["text_offset"][-1]) + 4}

    def work() -> None:
        with DcpiWriter(os.devnull, header=header) as writer:
            writer.write_table("samples", samples)

    return work


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure everything, and return the titles and figures."""
    rows = []
    for shape, apart in MEASURED.items():
        path = folder / f"{shape}.dcpi"
        addresses, size = write(path, apart)
        for what, seconds in (
            ("checked, added up", best(lambda path=path: DcpiTrace(path).info)),  # type: ignore[misc]
            ("all rules", best(lambda path=path: rules.check(DcpiTrace(path)))),  # type: ignore[misc]
            ("to columns, by batches", best(lambda path=path: batches(path))),  # type: ignore[misc]
            ("to columns, as a whole", best(lambda path=path: whole(path))),  # type: ignore[misc]
            ("from columns", best(rewrite(path), 3)),
        ):
            figure = f"{size / seconds / 1e6:.0f} MB/s, {addresses / seconds / 1e6:.0f} M addresses/s"
            rows.append((f"{shape}: {what}", figure))
    return rows


if __name__ == "__main__":
    show("DCPI profiles", run)
