"""The command `fxtio top`: rank functions, threads, arguments and others by their time."""

from __future__ import annotations

import contextlib
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from fxtio.cli.answers import (
    absence,
    add_output,
    answer_json,
    duration,
    nothing_of,
    print_answer,
    print_csv,
    print_end,
    print_json,
    print_notes,
    selection_in,
    suggest_open,
    suggest_report,
)
from fxtio.cli.bars import bar_width
from fxtio.cli.common import (
    FINE,
    UsageError,
    add_examples,
    add_input,
    opened_timeline,
    output_width,
)
from fxtio.report import printable

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.timeline.answers import Answer

NAME = "top"
HELP = "Show what took the time: calls, self and total time, percentiles by function, thread or argument"

_SORTS = ("self", "total", "calls", "waiting", "median", "p99", "max")
_CONTENTS = ("slices", "samples", "allocations", "sched")
_NOUNS = {"slices": "slices", "samples": "samples", "allocations": "allocations", "sched": "times on a processor"}
_VALUES = ("total", "self", "waiting", "min", "median", "p99", "max")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    by_help = "group by name, category, thread, process, track, type (of allocations), or arg:NAME (default: name)"
    parser.add_argument("--by", default="name", metavar="WHAT", help=by_help)
    sort_help = f"sort by one of {', '.join(_SORTS)} (default: self)"
    parser.add_argument("--sort", choices=_SORTS, default="self", metavar="COLUMN", help=sort_help)
    what_help = (
        f"rank {', '.join(_CONTENTS[:-1])}, or sched: times on a processor (default: the first that the trace has)"
    )
    parser.add_argument("--what", choices=_CONTENTS, metavar="CONTENT", help=what_help)
    parser.add_argument("--unit", metavar="UNIT", help="the unit of samples, if there are several (default: the most)")
    waiting_help = "rank what only waits as well, such as time.sleep, and count waiting as self time"
    parser.add_argument("--waiting", action="store_true", help=waiting_help)
    parser.add_argument(
        "--live",
        action="store_true",
        help="follow a recording while it is written, until it ends or Ctrl-C; FILE may be a process id",
    )
    interval_help = "show what --live has read so often (default: 1s)"
    parser.add_argument("--interval", type=_interval, default=1_000_000_000, metavar="TIME", help=interval_help)
    add_output(parser, "rows")
    add_examples(
        parser,
        "fxtio top app.fxt",
        "fxtio top --sort p99 --name 'GET *' app.fxt",
        "fxtio top --by arg:user --from 1.2s --to 1.4s app.fxt",
        "fxtio top --by thread --json app.fxt",
        "fxtio top --live 4711",
    )


def _interval(text: str) -> int:
    interval = duration(text)
    if not interval:
        raise ArgumentTypeError("the interval is greater than 0")
    return interval


def run(options: Namespace) -> int:
    """Print the ranking and return the exit code."""
    if options.live:
        return _run_live(options)
    from fxtio.timeline.answers import top

    with opened_timeline(options.file, format=options.format) as (timeline, _):
        selection = selection_in(options, timeline)
        answer = top(
            timeline,
            by=options.by,
            sort=options.sort,
            limit=options.limit,
            what=options.what,
            unit=options.unit,
            selection=selection,
            waiting=options.waiting,
        )
        noun = _NOUNS[answer.what]
        if options.by.startswith("arg:"):
            noun += f" with the argument {options.by[4:]!r}"
        sentence = "" if answer.table.num_rows else nothing_of(timeline, noun, selection)
    if options.json:
        print_json(answer_json(answer), timeline)
    elif options.csv:
        print_csv(answer.table.column_names, ([*row.values()] for row in answer.table.rows()))
    else:
        _print(options, timeline.name, answer, selection)
    code = print_end(timeline, sentence)
    if (options.by, answer.what) == ("name", "slices") and answer.table.num_rows:
        suggest_open(options.file, answer.table["name"][0], options=options)
    if answer.table.num_rows:
        suggest_report(options)
    return code


def _run_live(options: Namespace) -> int:
    """Show the ranking of a recording that grows."""
    from fxtio.cli.live import follow
    from fxtio.selection import Selection

    refused = {"--json": options.json, "--csv": options.csv, "--unit": options.unit, "--what": options.what}
    refused |= {"--from": options.begin, "--until": options.end, "--format": options.format}
    refused |= {"--thread": options.threads, "--process": options.processes}
    refused |= {"--category": options.categories, "--name": options.names}
    for option, value in refused.items():
        if value:
            raise UsageError(f"--live shows all slices of a recording; it does not go with {option}")
    with contextlib.suppress(KeyboardInterrupt):
        follow(options, lambda answer: _print(options, str(options.file), answer, Selection()))
    return FINE


def _print(options: Namespace, name: str, answer: Answer, selection: Selection) -> None:
    shown = answer.table
    unit = "" if answer.unit in ("ns", "samples") else f", in {answer.unit}"
    print(printable(f"{name}: {_NOUNS[answer.what]} by {options.by}, sorted by {options.sort}{unit}"))
    notes = list(answer.notes)
    if shown.num_rows:
        print()
        sorted_by = shown[options.sort]
        width = bar_width(output_width()) if sys.stdout.isatty() else 0
        shares = (sorted_by / max(int(sorted_by.max()), 1)).tolist()
        print_answer(answer, _VALUES, header=options.by, shares=shares, width=width)
        if answer.more:
            print(f"and {answer.more:,} more (-n all)")
    else:
        has = f", or none with the argument {options.by[4:]!r}" if options.by.startswith("arg:") else ""
        notes.append(absence(_NOUNS[answer.what], selection) + has)
    if answer.error:
        notes.append(f"median and p99 are rounded: they may be off by {answer.error:.1%}")
    print_notes(notes)
