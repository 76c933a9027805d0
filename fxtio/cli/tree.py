"""The command `fxtio tree`: the tree of calls with their times."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.cli.bars import bar_width
from fxtio.report import printable

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.timeline.answers import Answer

HELP = "Show the tree of calls with their times: who called what, and how long it took"

_CONTENTS = ("slices", "samples", "allocations")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    share_help = "leave out what takes a smaller share of the whole time (default: 1%%)"
    parser.add_argument("--share", type=inputs.share, default=0.01, metavar="SHARE", help=share_help)
    parser.add_argument("--depth", type=inputs.count, metavar="N", help="show at most N levels")
    what_help = f"the tree of one of {', '.join(_CONTENTS)} (default: the first that the trace has)"
    parser.add_argument("--what", choices=_CONTENTS, metavar="CONTENT", help=what_help)
    inputs.add_rows(parser, "rows", 200)
    inputs.add_examples(
        parser, "fxtio tree app.fxt", "fxtio tree --share 5% --depth 4 app.fxt", "fxtio tree --thread main app.fxt"
    )


def run(options: Namespace) -> int:
    """Print the tree and return the exit code."""
    import numpy as np

    from fxtio.timeline.answers import tree

    with inputs.opened_timeline(options.file, options.format) as timeline:
        selection = inputs.selection_of(options, timeline)
        answer = tree(timeline, share=options.share, depth=options.depth, what=options.what, selection=selection)
        sentence = "" if answer.table.num_rows else inputs.nothing_of(timeline, answer.what, selection)
    if options.limit is not None and answer.table.num_rows > options.limit:
        answer.more += answer.table.num_rows - options.limit
        answer.table = answer.table.take(np.arange(options.limit))
    if not console.print_answer_rows(options, timeline, answer):
        _print(timeline.name, answer, selection)
    return console.print_end(timeline, sentence)


def _print(name: str, answer: Answer, selection: Selection) -> None:
    unit = "" if answer.unit in ("ns", "samples") else f", in {answer.unit}"
    print(printable(f"{name}: tree of {answer.what}{unit}"))
    notes = list(answer.notes)
    if answer.table.num_rows:
        print()
        shares = answer.table["share"].tolist()
        console.print_answer(
            answer, ("total", "self"), header="name", shares=shares, width=bar_width(console.output_width())
        )
    else:
        notes.append(inputs.absence(answer.what, selection))
    if answer.more:
        print(f"and {answer.more:,} more (--share 0, --depth, -n)")
    console.print_notes(notes)
