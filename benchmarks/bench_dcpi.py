"""How fast fxtio reads and writes DCPI profiles.

    python benchmarks/bench_dcpi.py                 # about a minute
    python benchmarks/bench_dcpi.py --markdown

The profiles are synthetic: runs of about 20 addresses with samples (`profile`), single ones (`sparse`), and one that
has samples everywhere (`dense`).  Columns are those of the samples, all three: address, offset and count.  Every figure
is the best of several rounds on one core; the megabytes are those of the file.  Whoever has profiles with long runs is
nearer to `dense`.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fxtio.dcpi import DcpiTrace, DcpiWriter
from fxtio.dcpi.synth import HEADER, SHAPES, write
from fxtio.table import Table

SIZE = 100_000_000


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - begin)
        del result
    return min(times)


def batches(path: Path) -> int:
    """Addresses, offsets and counts in bounded memory."""
    return sum(len(tables["samples"]["address"]) for tables in DcpiTrace(path).batches("samples"))


def whole(path: Path) -> Table:
    """Addresses, offsets and counts as one table."""
    samples = DcpiTrace(path).table("samples")
    assert samples.num_rows == len(samples["address"])
    return samples


def rewrite(path: Path) -> Callable[[], None]:
    """Chunks, footer and file from columns that are there."""
    samples = DcpiTrace(path).table("samples")
    offset, count = samples["offset"], samples["count"]
    header = {**HEADER, "tsize": int(offset[-1]) + 4}

    def work() -> None:
        with DcpiWriter(os.devnull, header=header) as writer:
            writer.write(offset, count)

    return work


def run(folder: Path) -> list[tuple[str, str]]:
    """Measure everything: what, and how much."""
    rows = []
    for shape in SHAPES:
        path = folder / f"{shape}.dcpi"
        addresses, size = write(path, shape, size=SIZE)
        for what, seconds in (
            ("checked, added up", best(lambda path=path: DcpiTrace(path).info)),  # type: ignore[misc]
            ("to columns, by batches", best(lambda path=path: batches(path))),  # type: ignore[misc]
            ("to columns, as a whole", best(lambda path=path: whole(path))),  # type: ignore[misc]
            ("from columns", best(rewrite(path), 3)),
        ):
            figure = f"{size / seconds / 1e6:.0f} MB/s, {addresses / seconds / 1e6:.0f} M addresses/s"
            rows.append((f"{shape}: {what}", figure))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Benchmark of reading and writing DCPI profiles.")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder))
    print(f"CPython {platform.python_version()} on {os.cpu_count()} cores ({platform.machine()})")
    if options.markdown:
        print("\n| what | figure |\n|---|---|")
    for what, figure in rows:
        print(f"| {what} | {figure} |" if options.markdown else f"{what:36} {figure}")


if __name__ == "__main__":
    main()
