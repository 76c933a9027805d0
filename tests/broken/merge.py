"""For each rule of `fxtio merge`, traces that break it, as words of 64 bits."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import fxtio
from fxtio.finding import Findings
from fxtio.fxt.merge import merge
from fxtio.io.sink import open_sink

MAGIC = 0x0016_5478_4604_0010
INSTANT = (0x44, 5, 1, 2)  # an instant event at tick 5 on the thread 2 of the process 1, without names
STRING = (0x0000_0001_0001_0022, 0x61)  # "a" in slot 1
SECOND = 10**9
IN_2023 = 1_700_000_000 * SECOND


def clock(ticks_per_second: int, base_ticks: int, wall_clock: int) -> tuple[int, ...]:
    """Return an initialization record with a wall clock."""
    return 0x41, ticks_per_second, base_ticks, wall_clock


def provider(number: int) -> tuple[int, ...]:
    """Return a provider info record with the name "a"."""
    return 0x0010_0000_0001_0020 | number << 20, 0x61


def trace(*words: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(words) + 1}Q", MAGIC, *words)


def merged(*traces: bytes) -> Findings:
    """Return the findings of all traces after they were merged."""
    opened = [fxtio.open(data, format="fxt") for data in traces]
    merge(opened, open_sink(io.BytesIO()))
    result = Findings("fxt")
    for each in opened:
        for finding in each.findings:
            result.add(finding.rule.removeprefix("fxt."), finding.offset, finding.message)
    return result


SOUND = trace(*clock(SECOND, 0, IN_2023), *INSTANT)


def no_wall_clock(_: Path) -> Findings:
    return merged(SOUND, trace(0x21, 1000, *INSTANT))


def clock_apart(_: Path) -> Findings:
    return merged(SOUND, trace(*clock(2**64 - 1, 0, 2**64 - 1), *INSTANT))


def late_provider(_: Path) -> Findings:
    return merged(trace(*STRING * 200_000, *provider(3), *STRING))


def byte_order(_: Path) -> Findings:
    unknown_type = 0x1D  # of one word; which of its bytes are text, nobody knows
    return merged(trace(unknown_type, *INSTANT, order=">"))


CASES: dict[str, Callable[[Path], Findings]] = {
    "fxt.merge.no-wall-clock": no_wall_clock,
    "fxt.merge.clock-apart": clock_apart,
    "fxt.merge.late-provider": late_provider,
    "fxt.merge.byte-order": byte_order,
}
