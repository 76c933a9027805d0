"""Functions of the commands that compare runs: read the runs, parse limits, print differences."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fxtio.cli.answers import duration
from fxtio.cli.bars import Bar, bar_of, bar_width
from fxtio.cli.common import (
    FINE,
    UsageError,
    opened_timeline,
    output_style,
    output_width,
    print_table,
    print_timeline_findings,
    timeline_json,
)
from fxtio.errors import shown
from fxtio.report import short_duration

if TYPE_CHECKING:
    from fxtio.timeline.comparison import Difference, Floor, Times

DEFAULT_FLOOR = "+5%,1ms"
"""The smallest difference that matters, as it stands on a command line."""


def add_column(parser: ArgumentParser) -> None:
    """Add the option `--self`."""
    parser.add_argument("--self", action="store_true", help="compare self times, not durations")


def floor(text: str) -> Floor:
    """Parse the smallest difference that matters: `+5%,1ms`; a part that is missing is 0.

    Raises:
        ArgumentTypeError: the text is something else.
    """
    from fxtio.timeline.comparison import Floor

    share, time = 0.0, 0
    try:
        for part in text.split(","):
            if part.endswith("%"):
                share = float(part.removeprefix("+").removesuffix("%")) / 100
            else:
                time = duration(part.removeprefix("+"))
    except (ValueError, ArgumentTypeError):
        raise ArgumentTypeError(f"{shown(text)} is not a limit; write +5%, 1ms, or both: +5%,1ms") from None
    if not 0 <= share < 1000 or text == "":
        raise ArgumentTypeError(f"{shown(text)} is not a limit; write +5%, 1ms, or both: +5%,1ms")
    return Floor(share, time)


@dataclass(slots=True)
class Side:
    """The runs of a side of a comparison.

    Attributes:
        runs: the times of each run by name.
        code: the exit code that the findings of the traces demand.
        traces: for each run the name, losses and findings of its trace, see `timeline_json`.
    """

    runs: list[dict[str, Times]] = field(default_factory=list)
    code: int = FINE
    traces: list[dict[str, Any]] = field(default_factory=list)


def check_inputs(files: Sequence[str]) -> None:
    """Check that at most one of the traces comes from standard input.

    Raises:
        UsageError: several are `-`.
    """
    if files.count("-") > 1:
        raise UsageError("only one of the traces can come from standard input")


def side_of(files: Iterable[str], options: Namespace) -> Side:
    """Read the runs of a side, and print what is wrong with their traces."""
    from fxtio.timeline.comparison import run_of

    column = "self_time" if options.self else "duration"
    side = Side()
    for file in files:
        with opened_timeline(file, format=options.format) as (timeline, _):
            side.runs.append(run_of(timeline, column))
            side.code = max(side.code, print_timeline_findings(timeline, timeline.name))
            side.traces.append(timeline_json(timeline))
    return side


def print_differences(differences: Sequence[Difference]) -> None:
    """Print differences as a table; numbers of calls and times are those of a run."""
    width, style = bar_width(output_width()) if sys.stdout.isatty() else 0, output_style()
    greatest = max((abs(each.cost) for each in differences), default=0) or 1
    rows: list[tuple[str | Bar, ...]] = [
        (
            each.name,
            str(each.change),
            *(_number(calls) for calls in each.calls),
            *(short_duration(round(time)) if calls else "" for time, calls in zip(each.time, each.calls, strict=True)),
            f"{each.ratio:+.1%}" if min(each.calls) else "",
            each.by,
            f"{'-' if each.cost < 0 else '+'}{short_duration(round(abs(each.cost)))}",
            bar_of(abs(each.cost) / greatest, width, style, is_worse=each.cost > 0),
            "" if each.p is None else f"{each.p:.2g}",
        )
        for each in differences
    ]
    print_table(["name", "change", ">calls", ">then", ">time", ">then", ">ratio", "of", ">per run", "", ">p"], rows)


def _number(calls: float) -> str:
    return f"{calls:,.0f}" if calls == int(calls) else f"{calls:,.1f}"


def difference_json(each: Difference) -> dict[str, Any]:
    """Return a difference as JSON; pairs have the side before first, times are nanoseconds."""
    return {
        "name": each.name,
        "change": str(each.change),
        "by": each.by,
        "calls": each.calls,
        "total": each.total,
        "mean": each.mean,
        "fastest": each.fastest,
        "ratio": each.ratio,
        "cost": each.cost,
        "p": each.p,
    }
