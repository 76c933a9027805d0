"""Options that several actions of `fxtio lake` have, and lines that they print."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, find, inputs
from fxtio.cli.parser import add_action
from fxtio.report import seconds

if TYPE_CHECKING:
    from fxtio.lake import Lake
    from fxtio.lake.questions import Part


def lake_action(actions: Any, name: str, text: str, function: Any) -> ArgumentParser:
    """Add an action, whose first argument is the lake, and return its parser."""
    parser = add_action(actions, name, text, function)
    parser.add_argument("lake", metavar="LAKE", help="the folder of the lake, or a URL such as s3://bucket/lake")
    return parser


def add_part(parser: ArgumentParser) -> None:
    """Add the options that choose a part of the lake."""
    add_where(parser)
    parser.set_defaults(conditions=[])
    parser.add_argument("--since", metavar="TIME", default="", help="only traces of the last 7d, 12h or 30m")


def add_part_of_slices(parser: ArgumentParser) -> None:
    """Add the options that choose a part of the slices of the lake."""
    add_part(parser)
    find.add_conditions(parser)


def add_where(parser: ArgumentParser, when: str = "") -> None:
    """Add the option for conditions, whose help may begin with when it has a meaning."""
    help_ = f"{when}only where program=app, label:build=1a2b, name='GET *' and so on; may be repeated, all must hold"
    parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=help_)


def add_limit(parser: ArgumentParser, what: str) -> None:
    """Add the option that says how many rows are shown, and `--json`."""
    limit_help = f"show N {what}, `all` shows all (default: 20)"
    parser.add_argument("-n", "--limit", type=inputs.limit, default=20, metavar="N", help=limit_help)
    parser.add_argument("--json", action="store_true", help="print JSON, with times in nanoseconds")


def part_of(options: Namespace) -> Part:
    """Return the part that options choose."""
    from fxtio.lake.questions import Part

    return Part(options.where, options.since, options.conditions)


def print_more(more: int) -> None:
    """Print how many rows are not shown."""
    if more:
        print(f"and {more:,} more (-n all)")


def moment(start: int) -> str:
    """Return a time in nanoseconds since the Unix epoch as text, to the microsecond (UTC)."""
    from fxtio.lake.layout import moment_of

    try:
        text = f"{moment_of(start):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # of a damaged trace
        return f"{seconds(start)} s"
    return f"{text}.{start % 1_000_000_000 // 1_000:06d}"


def words_of(labels: Mapping[str, str]) -> str:
    """Return labels as they are given to commands."""
    return " ".join(f"{name}={text}" for name, text in labels.items())


def suggest_open(lake: Lake, slice_of: Callable[[], Mapping[str, Any] | None]) -> None:
    """Print, as `inputs.suggest_open` does, the command that shows a slice, if its trace is still where it was.

    Args:
        lake: the lake.
        slice_of: returns the slice, with `trace`, `url`, `name` and `time`; None if there is none.
    """
    from fxtio.lake.layout import KEPT, identity_of

    if not sys.stderr.isatty():  # whoever does not see it need not wait for it
        return
    found = slice_of()
    if found is None or found["name"] is None:
        return
    url, trace, name = found["url"], found["trace"], found["name"]
    try:
        is_there = url.startswith(f"{lake.url}/{KEPT}/") or identity_of(Path(url))[0] == trace
    except (OSError, ValueError):  # the latter for a path with a null character
        is_there = False
    if is_there:
        inputs.suggest_open(url, name, after=_after(lake, trace, name, found["time"]))
    else:
        console.say(f"the trace with the slowest one is no longer {url}")


def _after(lake: Lake, trace: str, name: str, time: int) -> int | None:
    """Return how long after the first event of its trace a slice begins; None if its name is enough to show it."""
    from fxtio.lake.questions import Part
    from fxtio.readers import times_of

    part = Part([f"trace={trace}"])
    longest = lake.longest("name", name, part=part)
    if longest is None or longest["time"] == time:
        return None
    with inputs.opened_timeline(longest["url"]) as timeline:  # the lake does not have all kinds of events
        return time - (times_of(timeline).start or 0)
