"""The command `fxtio diff`: what got slower, faster, more or fewer, new or gone between runs of a program.

The command `fxtio check` reads runs, parses limits and prints differences in the same way.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.cli.bars import bar_of, bar_width
from fxtio.display import as_markdown
from fxtio.errors import shown
from fxtio.report import Report, ReportTable, counted, json_document, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.comparison import Comparison, Difference, Floor, Times

HELP = "Compare runs of a program: what got slower, faster, more or fewer, new or gone"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    files_help = "the two traces; or several of a side, then --, then several of the other side"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files_help)
    inputs.add_format(parser, "all FILEs")
    add_in_turn(parser)
    add_comparison(parser)
    inputs.add_examples(
        parser,
        "fxtio diff before.fxt after.fxt",
        "fxtio diff before*.fxt -- after*.fxt",
        "fxtio diff --floor +2%,100us --self before.fxt after.fxt",
    )


def add_comparison(parser: ArgumentParser) -> None:
    """Add the options that say what is compared, and how it is printed."""
    default = DEFAULT_FLOOR.replace("%", "%%")
    floor_help = f"the smallest difference that matters, in percent and in time per run (default: {default})"
    parser.add_argument("--floor", type=floor, default=DEFAULT_FLOOR, metavar="LIMIT", help=floor_help)
    add_column(parser)
    parser.add_argument("--all", action="store_true", help="print all names, also those that are the same")
    parser.add_argument(
        "--report", choices=("text", "json", "markdown"), default="text", help="the form of the report (default: text)"
    )
    json_help = "the same as --report json: print JSON, with times in nanoseconds"
    parser.add_argument("--json", action="store_const", const="json", dest="report", help=json_help)


def run(options: Namespace) -> int:
    """Print the differences and return the exit code."""
    from fxtio.timeline.comparison import Change, compare

    sides = _sides(options.files)
    inputs.refuse_two_streams([*sides[0], *sides[1]])
    before, after = (side_of(files, options) for files in sides)
    comparison = compare(before.runs, after.runs, options.floor, in_turn=options.in_turn)
    changed = [each for each in comparison.differences if each.change.is_sure]
    shown = shown_of(comparison, options)
    if options.report == "json":
        traces = {"before": before.traces, "after": after.traces}
        print(json_document(comparison_json(comparison, shown, options.floor) | traces), end="")
    elif options.report == "markdown":
        title = f"{counted(comparison.runs[0], 'run')} against {comparison.runs[1]:,}"
        print(comparison_markdown(title, comparison, shown, options.floor))
    else:
        print_comparison(comparison, shown, options.floor, hint="fxtio diff before*.fxt -- after*.fxt")
        for each in changed[:1]:
            inputs.suggest_open(sides[0 if each.change is Change.GONE else 1][0], each.name)
    return max(before.code, after.code, console.FOUND if changed else console.FINE)


def shown_of(comparison: Comparison, options: Namespace) -> list[Difference]:
    """Return the differences that are printed: those that are any, and with `--all` the others, too."""
    from fxtio.timeline.comparison import Change

    return [each for each in comparison.differences if options.all or each.change is not Change.SAME]


def comparison_json(comparison: Comparison, shown: Sequence[Difference], floor: Floor) -> dict[str, Any]:
    """Return a comparison as JSON."""
    short = sum(each.is_too_short(floor) for each in comparison.differences)
    facts = {"runs": comparison.runs, "advice": comparison.advice, "too_short": short}
    return facts | {"differences": [difference_json(each) for each in shown]}


def print_comparison(comparison: Comparison, shown: Sequence[Difference], floor: Floor, *, hint: str = "") -> None:
    """Print differences as a table, how many names changed, and what the runs cannot tell, with a hint what to type."""
    if shown:
        print_differences(shown)
        print()
    print(_summary(comparison.differences, floor))
    if comparison.advice:
        print(f"{comparison.advice} ({hint})" if hint else comparison.advice)


def comparison_markdown(title: str, comparison: Comparison, shown: Sequence[Difference], floor: Floor) -> str:
    """Return a comparison as Markdown."""
    tables = [differences_table(shown)] if shown else []
    notes = [_summary(comparison.differences, floor), *([comparison.advice] if comparison.advice else [])]
    return as_markdown(Report(title, tables=tables, notes=notes))


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
    if inputs.SEPARATOR in files:
        place = files.index(inputs.SEPARATOR)
        before, after = files[:place], files[place + 1 :]
        if before and after and inputs.SEPARATOR not in after:
            return before, after
    elif len(files) == 2:
        return files[:1], files[1:]
    raise inputs.UsageError("give two traces, or several of a side, then --, then several of the other side")


DEFAULT_FLOOR = "+5%,1ms"
"""The smallest difference that matters, as it is on a command line."""


def add_in_turn(parser: ArgumentParser) -> None:
    """Add the option `--in-turn`."""
    in_turn_help = "both sides were recorded in turn, and are named in that order: compare runs of about the same time"
    parser.add_argument("--in-turn", action="store_true", help=in_turn_help)


def add_column(parser: ArgumentParser) -> None:
    """Add the option `--self`."""
    parser.add_argument("--self", action="store_true", help="compare self times, not durations")


def column_of(options: Namespace) -> str:
    """Return the column that is compared."""
    return "self_time" if options.self else "duration"


def floor(text: str) -> Floor:
    """Parse the smallest difference that matters, for a parser: `+5%,1ms`; a part that is missing is 0."""
    from fxtio.timeline.comparison import Floor

    share, time = 0.0, 0
    try:
        for part in text.split(","):
            if part.endswith("%"):
                share = float(part.removeprefix("+").removesuffix("%")) / 100
            else:
                time = inputs.duration(part.removeprefix("+"))
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
        programs: for each run its program.
    """

    runs: list[dict[str, Times]] = field(default_factory=list)
    code: int = console.FINE
    traces: list[dict[str, Any]] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)


def side_of(files: Iterable[str], options: Namespace) -> Side:
    """Read the runs of a side, and print what is wrong with their traces."""
    from fxtio.timeline.comparison import run_and_program

    side = Side()
    for file in files:
        with inputs.opened_timeline(file, options.format) as timeline:
            run, program = run_and_program(timeline, column_of(options))
            side.runs.append(run)
            side.programs.append(program)
            side.code = max(side.code, console.print_findings(timeline, timeline.name))
            side.traces.append(console.timeline_json(timeline))
    return side


def differences_table(differences: Sequence[Difference]) -> ReportTable:
    """Return differences as a table; numbers of calls and times are those of a run."""
    rows = [
        (
            each.name,
            str(each.change),
            *(_number(calls) for calls in each.calls),
            *(short_duration(round(time)) if calls else "" for time, calls in zip(each.time, each.calls, strict=True)),
            f"{each.ratio:+,.1%}" if min(each.calls) else "",
            each.by,
            f"{'-' if each.cost < 0 else '+'}{short_duration(round(abs(each.cost)))}",
            "" if each.p is None else f"{each.p:.2g}",
        )
        for each in differences
    ]
    return ReportTable(["name", "change", ">calls", ">then", ">time", ">then", ">ratio", "of", ">per run", ">p"], rows)


def print_differences(differences: Sequence[Difference]) -> None:
    """Print differences as a table, with bars on a terminal."""
    width, style = bar_width(console.output_width()) if sys.stdout.isatty() else 0, console.output_style()
    greatest = max((abs(each.cost) for each in differences), default=0) or 1
    table = differences_table(differences)
    rows = [
        (*row[:-1], bar_of(abs(each.cost) / greatest, width, style, is_worse=each.cost > 0), row[-1])
        for row, each in zip(table.rows, differences, strict=True)
    ]
    console.print_table([*table.headers[:-1], "", table.headers[-1]], rows)


def _number(calls: float) -> str:
    return f"{calls:,.0f}" if calls == int(calls) else f"{calls:,.1f}"


def difference_json(each: Difference) -> dict[str, Any]:
    """Return a difference as JSON; pairs have the side before first, times are nanoseconds."""
    names = ("name", "by", "calls", "total", "mean", "fastest", "ratio", "cost", "p")
    return {"name": each.name, "change": str(each.change)} | {name: getattr(each, name) for name in names}
