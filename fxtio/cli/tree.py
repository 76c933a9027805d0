"""The command `fxtio tree`: the tree of calls with their times."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from fxtio.cli.answers import (
    absence,
    add_output,
    answer_json,
    nothing_of,
    print_answer,
    print_csv,
    print_end,
    print_json,
    print_notes,
    selection_in,
    share,
)
from fxtio.cli.bars import bar_width
from fxtio.cli.common import (
    add_examples,
    add_input,
    count,
    opened_timeline,
    output_width,
)
from fxtio.report import printable

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.timeline.answers import Answer

NAME = "tree"
HELP = "Show the tree of calls with their times: who called what, and how long it took"

_CONTENTS = ("slices", "samples", "allocations")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    share_help = "leave out what takes a smaller share of the whole time (default: 1%%)"
    parser.add_argument("--share", type=share, default=0.01, metavar="SHARE", help=share_help)
    parser.add_argument("--depth", type=count, metavar="N", help="show at most N levels")
    what_help = f"the tree of one of {', '.join(_CONTENTS)} (default: the first that the trace has)"
    parser.add_argument("--what", choices=_CONTENTS, metavar="CONTENT", help=what_help)
    add_output(parser, "rows", 200)
    add_examples(
        parser, "fxtio tree app.fxt", "fxtio tree --share 5% --depth 4 app.fxt", "fxtio tree --thread main app.fxt"
    )


def run(options: Namespace) -> int:
    """Print the tree and return the exit code."""
    import numpy as np

    from fxtio.timeline.answers import tree

    with opened_timeline(options.file, format=options.format) as (timeline, _):
        selection = selection_in(options, timeline)
        answer = tree(timeline, share=options.share, depth=options.depth, what=options.what, selection=selection)
        sentence = "" if answer.table.num_rows else nothing_of(timeline, answer.what, selection)
    if options.limit is not None and answer.table.num_rows > options.limit:
        answer.more += answer.table.num_rows - options.limit
        answer.table = answer.table.take(np.arange(options.limit))
    if options.json:
        print_json(answer_json(answer), timeline)
    elif options.csv:
        print_csv(answer.table.column_names, ([*row.values()] for row in answer.table.rows()))
    else:
        _print(timeline.name, answer, selection)
    return print_end(timeline, sentence)


def _print(name: str, answer: Answer, selection: Selection) -> None:
    unit = "" if answer.unit in ("ns", "samples") else f", in {answer.unit}"
    print(printable(f"{name}: tree of {answer.what}{unit}"))
    notes = list(answer.notes)
    if answer.table.num_rows:
        print()
        shares = answer.table["share"].tolist()
        print_answer(answer, ("total", "self"), header="name", shares=shares, width=bar_width(output_width()))
    else:
        notes.append(absence(answer.what, selection))
    if answer.more:
        print(f"and {answer.more:,} more (--share 0, --depth, -n)")
    print_notes(notes)
