"""The command `fxtio timeline`: a view of a range of times, with threads as rows."""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fxtio.cli.answers import add_output, print_csv, print_json, selection_in
from fxtio.cli.bars import Style, axis, bars, fitted
from fxtio.cli.common import add_examples, add_input, count, has_color, opened_timeline, print_timeline_findings
from fxtio.report import json_text, printable, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.answers import Lane, Lanes

NAME = "timeline"
HELP = "Draw a range of times on the terminal: threads as rows, and what ran when"

_MAX_LABEL = 24
_MIN_CELLS = 10


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_input(parser)
    parser.add_argument("--depth", type=count, default=1, metavar="N", help="draw N levels of slices (default: 1)")
    add_output(parser, "of the busiest threads")
    add_examples(
        parser,
        "fxtio timeline app.fxt",
        "fxtio timeline app.fxt --from 1.2s --to +50ms --depth 3",
        "COLUMNS=200 fxtio timeline app.fxt | less -S",
    )


def run(options: Namespace) -> int:
    """Draw the range and return the exit code."""
    from fxtio.timeline.answers import Lanes, lanes, summary

    with opened_timeline(options.file) as (timeline, _):
        selection = selection_in(options, timeline)
        info = summary(timeline)
        origin = info.start or 0
        start = max(origin, origin if selection.start is None else selection.start)
        end = max(start, info.end or 0) + 1 if selection.end is None else max(selection.end, start + 1)
        width = shutil.get_terminal_size((80, 24)).columns - 1
        cells = max(width - _MAX_LABEL - 1, _MIN_CELLS)
        if info.start is None:
            drawn = Lanes(start, end, [], 0)
        else:
            drawn = lanes(timeline, start, end, cells, depth=options.depth, limit=options.limit, selection=selection)
    if options.json:
        print_json(
            {"start": drawn.start, "end": drawn.end, "lanes": [*_lanes_json(drawn)], "more": drawn.more}, timeline
        )
    elif options.csv:
        print_csv(("thread", "depth", "start", "end", "name", "fill"), _cells(drawn))
    else:
        _print(timeline.name, drawn, origin, cells)
    return print_timeline_findings(timeline)


def _bounds(drawn: Lanes, lane: Lane) -> list[int]:
    count = len(lane.names)
    return [drawn.start + (drawn.end - drawn.start) * cell // count for cell in range(count + 1)]


def _cells(drawn: Lanes) -> Iterator[tuple[object, ...]]:
    """Yield the cells of all lanes in which something ran."""
    for lane in drawn.rows:
        bounds = _bounds(drawn, lane)
        for cell, (name, fill) in enumerate(zip(lane.names, lane.fill, strict=True)):
            if name is not None:
                yield lane.label, lane.depth, bounds[cell], bounds[cell + 1], name, round(fill, 6)


def _lanes_json(drawn: Lanes) -> Iterator[dict[str, object]]:
    for lane in drawn.rows:
        bounds = _bounds(drawn, lane)
        cells = [
            {"start": bounds[cell], "end": bounds[cell + 1], "name": json_text(name), "fill": round(fill, 6)}
            for cell, (name, fill) in enumerate(zip(lane.names, lane.fill, strict=True))
            if name is not None
        ]
        facts = {"thread": json_text(lane.label), "depth": lane.depth, "slices": lane.calls, "busy": lane.busy}
        yield {**facts, "cells": cells}


def _print(name: str, drawn: Lanes, origin: int, cells: int) -> None:
    style = Style.of(sys.stdout.encoding, color=has_color())
    lasts = drawn.end - drawn.start
    title = f"{name}: {short_duration(lasts)} from {short_duration(drawn.start - origin)} on"
    print(printable(f"{title}, a column is {short_duration(max(lasts // cells, 1))}"))
    if not drawn.rows:
        print("no slices here")
        return
    label_width = min(_MAX_LABEL, max(len(lane.label) for lane in drawn.rows))
    print()
    for line in axis(drawn.start - origin, drawn.end - origin, cells, style):
        print(f"{'':{label_width}} {line}".rstrip())
    before = None
    for lane in drawn.rows:
        label = "" if lane.label == before and lane.depth else lane.label
        before = lane.label
        print(f"{fitted(printable(label), label_width)} {bars(lane.names, lane.fill, style)}".rstrip())
    if drawn.more:
        print(f"and {drawn.more:,} more (-n all)")
