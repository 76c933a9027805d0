"""Measure how fast fxtio reads and writes Mono recordings, beside Mono's own mprof-report, all measured in one run.

    python benchmarks/bench_mono.py                # about a minute
    python benchmarks/bench_mono.py --markdown     # as the table in docs/explanation/speed.md
    python benchmarks/bench_mono.py FILE.mlpd      # on this recording

The workload is a recording of more than 20 million calls and allocations, made here by Mono; without Mono, a synthetic
one of 25 million events.  `mprof-report --reports=stats` decodes everything and stores nothing; the plain Python
decoder reads one number at a time and stores nothing either.  Every figure is the best of several rounds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
from harness import best, peak_memory, show

import fxtio
from fxtio import synth
from fxtio.mono.reader import MonoTrace
from fxtio.mono.rules import check
from fxtio.mono.writer import MonoWriter

PROGRAM = Path(__file__).parent.parent / "tests" / "judges" / "mono_programs" / "busy.cs"
ROUNDS_OF_PROGRAM = 5_500
SYNTHETIC = 25_000_000
WRITTEN = 5_000_000
TABLES = ("calls", "allocations", "allocation_frames", "methods", "classes", "vtables", "gc_events", "threads")
ONE_BYTE = 0x80

MEMORY = """
import sys
import fxtio
for _ in fxtio.open(sys.argv[1], format="mono").batches(*sys.argv[2:]):
    pass
"""


def recording(folder: Path) -> Path:
    """Make the workload and return its path."""
    out = folder / "busy.mlpd"
    if not all(map(shutil.which, ("mono", "mcs"))):
        synth.write(out, "calls", format="mono", events=SYNTHETIC // 2)
        return out
    program = folder / "busy.exe"
    subprocess.run(["mcs", f"-out:{program}", str(PROGRAM)], check=True)
    profile = f"--profile=log:nodefaults,calls,alloc,output={out}"
    subprocess.run(["mono", profile, str(program), str(ROUNDS_OF_PROGRAM)], check=True, stdout=subprocess.DEVNULL)
    return out


def batches(path: Path) -> None:
    """Read all fields of all events to columns, in batches."""
    for _ in fxtio.open(path, format="mono").batches(*TABLES):
        pass


def all_rules(path: Path) -> None:
    """Check a recording against all rules."""
    with MonoTrace(path) as trace:
        check(trace)


def plain_decoder(data: bytes) -> int:
    """Decode calls in plain Python, a number at a time; return the number of events."""
    at, end, events, now, method = 0, len(data), 0, 0, 0
    while at < end:
        at += 1
        for signed in (False, True):
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < ONE_BYTE:
                    break
            if not signed:
                now += value
            else:
                method += value - (1 << shift) if byte & 0x40 else value
        events += 1
    return events


def plain(folder: Path) -> float:
    """Return the events per second of the plain decoder, for calls only."""
    count = 500_000
    path = folder / "plain.mlpd"
    with MonoWriter(path) as writer:
        number = np.arange(count)
        methods = 0x7F00_0000_0000 + 64 * (number % 100)
        writer.write_table("calls", {"time": number * 90, "action": 2 - number % 2, "method": methods})
    index = MonoTrace(path).index()
    raw = path.read_bytes()
    begins = (index["offset"] + 48).tolist()
    payloads = [raw[a : a + size] for a, size in zip(begins, index["size"].tolist(), strict=True)]
    return count / best(lambda: [plain_decoder(payload) for payload in payloads], 3)


def bulk() -> float:
    """Return the events per second of `write_table`, into the null device."""
    number = np.arange(WRITTEN)
    columns = {"time": number * 90, "action": 2 - number % 2, "method": 0x7F00_0000_0000 + 64 * (number % 100)}

    def work() -> None:
        with MonoWriter(os.devnull) as writer:
            writer.write_table("calls", columns)

    return WRITTEN / best(work)


def run(folder: Path, file: Path | None) -> list[tuple[str, str, str]]:
    """Measure everything."""
    path = file or recording(folder)
    size = path.stat().st_size
    events = fxtio.open(path, format="mono").info.records.total()
    read = best(lambda: batches(path))
    memory = peak_memory(MEMORY, str(path), *TABLES)
    whole = best(lambda: MonoTrace(path).tables(*TABLES), 3)
    checked = best(lambda: all_rules(path), 2)
    label = f"{events / 1e6:.1f} M events, {size / 1e6:,.0f} MB: "
    rows = [
        (f"{label}to columns, in batches", f"{events / read / 1e6:.1f} M events/s", f"{memory / 1e6:.0f} MB of memory"),
        (f"{label}to columns, whole tables", f"{events / whole / 1e6:.1f} M events/s", ""),
        (f"{label}check of all rules", f"{events / checked / 1e6:.1f} M events/s", f"{size / checked / 1e6:.0f} MB/s"),
    ]
    if shutil.which("mprof-report"):
        command = ["mprof-report", "--reports=stats", str(path)]
        peer = best(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
        ratio = f"fxtio in batches: {peer / read:.2f} times that"
        rows.append((f"{label}`mprof-report`", f"{events / peer / 1e6:.1f} M events/s", ratio))
    else:
        rows.append(("`mprof-report`", "not installed", ""))
    rate = plain(folder)
    ratio = f"fxtio in batches: {events / read / rate:.1f} times that"
    rows.append(("plain Python decoder", f"{rate / 1e6:.1f} M events/s", ratio))
    indexed = best(lambda: MonoTrace(path).index())
    rows.append(("index of buffers from their headers", f"{indexed / size * 1e8:.3f} s for 100 MB", ""))
    rows.append(("`write_table`", f"{bulk() / 1e6:.1f} M events/s", ""))
    return rows


def main() -> None:
    """Measure and print."""
    show("Mono recordings", run, "", file="a recording to read instead of the workload")


if __name__ == "__main__":
    main()
