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

from harness import best, show

from fxtio.dcpi import DcpiTrace, DcpiWriter, rules
from fxtio.dcpi.synth import HEADER, synth
from fxtio.table import Table

SIZE = 100_000_000

MEASURED = ("profile", "sparse", "dense")


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
    for shape in MEASURED:
        path = folder / f"{shape}.dcpi"
        addresses, size = synth(path, shape, size=SIZE)
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
