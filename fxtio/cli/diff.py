"""The command `fxtio diff`: what got slower, faster, more or fewer, new or gone between runs of a program."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fxtio.cli.common import FINE, FOUND, SEPARATOR, UsageError, add_examples, add_format
from fxtio.cli.compared import (
    DEFAULT_FLOOR,
    add_column,
    check_inputs,
    difference_json,
    floor,
    print_differences,
    side_of,
)
from fxtio.cli.seeing import suggest_open
from fxtio.report import json_document, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.comparison import Difference, Floor

NAME = "diff"
HELP = "Compare runs of a program: what got slower, faster, more or fewer, new or gone"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    files_help = "the two traces; or several of a side, then --, then several of the other side"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files_help)
    add_format(parser, "all FILEs")
    default = DEFAULT_FLOOR.replace("%", "%%")
    floor_help = f"the smallest difference that matters, in percent and in time per run (default: {default})"
    parser.add_argument("--floor", type=floor, default=DEFAULT_FLOOR, metavar="LIMIT", help=floor_help)
    add_column(parser)
    parser.add_argument("--all", action="store_true", help="print all names, also those that are the same")
    parser.add_argument("--json", action="store_true", help="print JSON, with times in nanoseconds")
    add_examples(
        parser,
        "fxtio diff before.fxt after.fxt",
        "fxtio diff before*.fxt -- after*.fxt",
        "fxtio diff --floor +2%,100us --self before.fxt after.fxt",
    )


def run(options: Namespace) -> int:
    """Print the differences and return the exit code."""
    from fxtio.timeline.comparison import Change, compare

    sides = _sides(options.files)
    check_inputs([*sides[0], *sides[1]])
    before, after = (side_of(files, options) for files in sides)
    comparison = compare(before.runs, after.runs, options.floor)
    differences = comparison.differences
    changed = [each for each in differences if each.change.is_sure]
    shown = [each for each in differences if options.all or each.change is not Change.SAME]
    if options.json:
        facts = {"runs": comparison.runs, "advice": comparison.advice, "before": before.traces, "after": after.traces}
        short = sum(each.is_too_short(options.floor) for each in differences)
        rows = [difference_json(each) for each in shown]
        print(json_document({**facts, "too_short": short, "differences": rows}), end="")
    else:
        if shown:
            print_differences(shown)
            print()
        print(_summary(differences, options.floor))
        if comparison.advice:
            print(f"{comparison.advice} (fxtio diff before*.fxt -- after*.fxt)")
        for each in changed[:1]:
            suggest_open(sides[0 if each.change is Change.GONE else 1][0], each.name)
    return max(before.code, after.code, FOUND if changed else FINE)


def _summary(differences: Sequence[Difference], floor: Floor) -> str:
    """Return how many names changed in which way, and how many were too short to tell."""
    if not differences:
        return "there are no slices"
    short = sum(each.is_too_short(floor) for each in differences)
    counts = Counter(str(each.change) for each in differences if not each.is_too_short(floor))
    parts = [f"{number:,} {change}" for change, number in counts.items()]
    if short:
        advice = f"--floor +{100 * floor.share:g}% compares them as well"
        parts.append(f"{short:,} too short: less than {short_duration(floor.time)} per run ({advice})")
    return ", ".join(parts)


def _sides(files: list[str]) -> tuple[list[str], list[str]]:
    if SEPARATOR in files:
        place = files.index(SEPARATOR)
        before, after = files[:place], files[place + 1 :]
        if before and after and SEPARATOR not in after:
            return before, after
    elif len(files) == 2:
        return files[:1], files[1:]
    raise UsageError("give two traces, or several of a side, then --, then several of the other side")
