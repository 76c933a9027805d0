"""The command `fxtio timeline`: a view of a range of times, with threads as rows."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from fxtio.cli import console, inputs
from fxtio.cli.bars import axis, bars
from fxtio.report import fitted, printable, short_duration, shortened, width_of

if TYPE_CHECKING:
    from fxtio.cli.bars import Style
    from fxtio.timeline.answers import Lane, Lanes

HELP = "Draw a range of times on the terminal: threads as rows, and what ran when, from slices and samples"

_COLUMNS = ("content", "thread", "depth", "start", "end", "name", "fill")
_MAX_LABEL = 24
_LABEL_SHARE = 5  # of the columns, the part that labels may take where it is more than `_MAX_LABEL`
_MIN_LABEL = 6
_MIN_CELLS = 10
_FRAME_LINES = 5  # the title, an empty line, the two of the axis, and that of the prompt after it


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    depth_help = "draw N levels of slices (default: as many as fit; with --json and --csv 1)"
    parser.add_argument("--depth", type=inputs.count, metavar="N", help=depth_help)
    inputs.add_rows(parser, "of the busiest threads")
    inputs.add_examples(
        parser,
        "fxtio timeline app.fxt",
        "fxtio timeline app.fxt --from 1.2s --to +50ms --depth 3",
        "COLUMNS=200 fxtio timeline app.fxt | less -S",
    )


def run(options: Namespace) -> int:
    """Draw the range and return the exit code."""
    from fxtio.readers import times_of
    from fxtio.timeline.answers import Lanes, lanes

    with inputs.opened_timeline(options.file, options.format) as timeline:
        selection = inputs.selection_of(options, timeline)
        info = times_of(timeline)
        origin = info.start or 0
        start = max(origin, origin if selection.start is None else selection.start)
        end = max(start, info.end or 0) + 1 if selection.end is None else max(selection.end, start + 1)
        width = console.output_width() - 1
        label_width = max(min(max(_MAX_LABEL, width // _LABEL_SHARE), width // 3), _MIN_LABEL)
        cells = max(width - label_width - 1, _MIN_CELLS)
        is_fitted = options.depth is None and not options.json and not options.csv
        depth = options.depth or (console.output_height() if is_fitted else 1)
        if info.start is None:
            drawn = Lanes([start, end], [], [])
        else:
            drawn = lanes(timeline, start, end, cells, depth=depth, limit=options.limit, selection=selection)
        if is_fitted:
            _leave_out_levels(drawn, console.output_height())
        is_empty = not drawn.rows and not drawn.samples
        sentence = inputs.nothing_of(timeline, "slices and samples", selection) if is_empty else ""
    if console.print_rows(options, timeline, _json(drawn), _COLUMNS, _cells(drawn)):
        pass
    elif info.start is None:
        print(printable(f"{timeline.name}: no slices or samples have times; fxtio top shows what has none"))
    else:
        _print(timeline.name, drawn, origin, cells, label_width)
    return console.print_end(timeline, sentence)


def _leave_out_levels(drawn: Lanes, height: int) -> None:
    """Leave out the innermost levels of slices, so that what is printed has at most as many lines, or one level."""
    others = _FRAME_LINES + (len(drawn.samples) + 1 if drawn.samples else 0) + (1 if drawn.more else 0)
    levels = sorted(lane.depth for lane in drawn.rows)
    if levels and len(levels) > height - others:
        most = max(levels[max(height - others, 0)], 1)
        drawn.rows = [lane for lane in drawn.rows if lane.depth < most]


def _cells(drawn: Lanes) -> Iterator[tuple[object, ...]]:
    """Yield the cells of all lanes in which something ran."""
    for content, rows in (("slices", drawn.rows), ("samples", drawn.samples)):
        for lane in rows:
            for (begin, end), name, fill in zip(pairwise(drawn.bounds), lane.names, lane.fill, strict=True):
                if name is not None:
                    yield content, lane.label, lane.depth, begin, end, name, round(fill, 6)


def _json(drawn: Lanes) -> dict[str, object]:
    slices = [
        {"thread": each.label, "depth": each.depth, "slices": each.calls, "busy": each.busy, **_cells_json(drawn, each)}
        for each in drawn.rows
    ]
    samples = [
        {"thread": each.label, "samples": each.calls, "weight": each.busy, **_cells_json(drawn, each)}
        for each in drawn.samples
    ]
    facts = {"start": drawn.start, "end": drawn.end, "lanes": slices, "samples": samples}
    return {**facts, "unit": drawn.unit if samples else None, "more": drawn.more}


def _cells_json(drawn: Lanes, lane: Lane) -> dict[str, object]:
    cells = [
        {"start": begin, "end": end, "name": name, "fill": round(fill, 6)}
        for (begin, end), name, fill in zip(pairwise(drawn.bounds), lane.names, lane.fill, strict=True)
        if name is not None
    ]
    return {"cells": cells}


def _print(name: str, drawn: Lanes, origin: int, cells: int, widest_label: int) -> None:
    style = console.output_style()
    lasts = drawn.end - drawn.start
    title = f"{name}: {short_duration(lasts)} from {short_duration(drawn.start - origin)} on"
    print(printable(f"{title}, a column is {short_duration(max(lasts // cells, 1))}"))
    lanes = [*drawn.rows, *drawn.samples]
    if not lanes:
        print("no slices or samples here")
        return
    label_width = min(widest_label, max(width_of(printable(lane.label)) for lane in lanes))
    print()
    for line in axis(drawn.start - origin, drawn.end - origin, cells, style):
        print(f"{'':{label_width}} {line}".rstrip())
    _print_lanes(drawn.rows, label_width, style)
    if drawn.samples:
        unit = "" if drawn.unit in ("samples", "ns") else f", in {drawn.unit}"
        most = "" if drawn.unit == "ns" else f", at most {drawn.most:,} in a column"
        print(printable(f"samples{unit}{most}:"))
        _print_lanes(drawn.samples, label_width, style)
    if drawn.more:
        print(f"and {drawn.more:,} more (-n all)")


def _print_lanes(lanes: Iterable[Lane], label_width: int, style: Style) -> None:
    before = None
    for lane in lanes:
        label = "" if lane.label == before and lane.depth else shortened(printable(lane.label), label_width, style.cut)
        before = lane.label
        print(f"{fitted(label, label_width)} {bars(lane.names, lane.fill, style)}".rstrip())
