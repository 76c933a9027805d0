"""The command `fxtio report`: write one HTML file that shows a trace, or two, and needs nothing else."""

from __future__ import annotations

import dataclasses
import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.report import human_size

if TYPE_CHECKING:
    from fxtio.exchange.filter import Plan
    from fxtio.html.contents import Page
    from fxtio.timeline import Timeline

HELP = "Write one HTML file that shows a trace, or compares two, and opens without a network"

_SUFFIX = ".html"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    output_help = "the HTML file (default: the name of the trace and .html, in this folder); - for standard output"
    parser.add_argument("-o", "--output", metavar="OUT", help=output_help)
    parser.add_argument("--diff", metavar="OTHER", help="compare FILE with this trace, which was recorded later")
    parser.add_argument("--title", metavar="TEXT", help="the heading of the page")
    inputs.add_selection(parser)
    inputs.add_simplification(parser, "What is left out is counted on the page.")
    inputs.add_examples(
        parser,
        "fxtio report app.fxt",
        "fxtio report app.mlpd -o report.html --title 'Load test of Monday'",
        "fxtio report before.fxt --diff after.fxt -o changes.html",
        "fxtio report big.fxt.zst --from 1.2s --to 1.4s --thread main",
        "fxtio report uftrace.data --min-duration 10us --max-depth 20",
    )


def run(options: Namespace) -> int:
    """Write the page and return the exit code."""
    from fxtio.exchange.filter import Plan, Simplification
    from fxtio.html.page import render
    from fxtio.io.sink import whole_file

    files = [options.file] if options.diff is None else [options.file, options.diff]
    output = _output_of(options, files)
    with ExitStack() as stack:
        timelines = [stack.enter_context(inputs.opened_timeline(file, options.format)) for file in files]
        selection = inputs.selection_of(options, timelines[0])
        plan = Plan(selection, Simplification(options.min_duration, options.max_depth))
        page = _page(timelines, plan)
        content = render(page if options.title is None else dataclasses.replace(page, title=options.title))
        is_empty = len(page.sections) == 1  # the summary
        sentence = inputs.nothing_of(timelines[0], "events", selection) if is_empty else ""
        console.Progress.clear()
        with whole_file(output) as sink:
            sink.write(content)
        if options.diff is None:
            code = console.print_end(timelines[0], sentence)
        else:
            code = max(console.print_findings(timeline, timeline.name) for timeline in timelines)
    if output != "-":
        address = Path(os.path.realpath(output)).as_uri()
        console.say(f"wrote {human_size(len(content))}; open it in a browser: {address}")
    return code


def _output_of(options: Namespace, files: list[str]) -> str:
    """Return where the page is written to."""
    inputs.refuse_two_streams(files)
    if options.diff is not None and (options.begin is not None or options.end is not None):
        raise inputs.UsageError(
            "--diff compares whole traces, whose times differ; it does not go with --from and --until"
        )
    output: str | None = options.output
    if output is None:
        output = "-" if options.file == "-" else _name_of(options.file) + _SUFFIX
    if output == "-" and sys.stdout.isatty():
        raise inputs.UsageError("the page is not written to a terminal; give -o, or redirect standard output")
    path = Path(output)
    if any(Path(file).exists() and path.exists() and path.samefile(file) for file in files if output != "-"):
        raise inputs.UsageError(f"{output} is the trace; give the page another name")
    return output


def _name_of(file: str) -> str:
    """Return the name of a file, without the query of a URL."""
    return Path(os.path.realpath(file.partition("?")[0] if "://" in file else file)).name


def _page(timelines: list[Timeline], plan: Plan) -> Page:
    from fxtio.html.sections import compared_page, trace_page

    if len(timelines) == 1:
        return trace_page(timelines[0], plan)
    before, after = timelines
    return compared_page(before, after, plan)
