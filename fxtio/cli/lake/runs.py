"""The action `diff` of `fxtio lake`: what differs between the runs of two parts of a lake."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, diff, inputs
from fxtio.cli.lake.options import add_part_of_slices, lake_action, part_of, suggest_open
from fxtio.report import counted, json_document

if TYPE_CHECKING:
    from fxtio.lake.questions import Side


def add_actions(actions: Any) -> None:
    """Declare the action."""
    _add_diff(lake_action(actions, "diff", "Compare the runs of two parts of a lake: what got slower or faster", _diff))


def _add_diff(parser: ArgumentParser) -> None:
    parser.add_argument(
        "before", metavar="BEFORE", help="what the traces of one side have, such as 1a2b; may be a pattern"
    )
    parser.add_argument("after", metavar="AFTER", help="what those of the other side have")
    by_help = "of which these are the values: label:NAME, program, host, day, trace, format or url"
    parser.add_argument("--by", metavar="WHAT", required=True, help=by_help)
    last_help = "compare the latest N runs of each side, `all` compares all (default: 100)"
    parser.add_argument("--last", type=inputs.limit, default=100, metavar="N", help=last_help)
    add_part_of_slices(parser)
    diff.add_comparison(parser)
    inputs.add_examples(
        parser,
        "fxtio lake diff runs.lake --by label:build 1a2b 3c4d",
        "fxtio lake diff runs.lake --by day '2026-11-2?' 2026-12-01 --where program=app --floor +2%,100us",
    )


def _diff(options: Namespace) -> int:
    from fxtio.lake import Lake
    from fxtio.lake.questions.parts import of_trace
    from fxtio.timeline.comparison import Change

    of_trace(options.by)  # or else it would be said of each trace that it is on both sides
    lake, part = Lake(options.lake), part_of(options)
    parts = [replace(part, where=[*part.where, f"{options.by}={each}"]) for each in (options.before, options.after)]
    answer = lake.diff(*parts, last=options.last, floor=options.floor, column=diff.column_of(options))
    comparison = answer.comparison
    changed = [each for each in comparison.differences if each.change.is_sure]
    shown = diff.shown_of(comparison, options)
    title = f"{options.by}: {_runs(options.before, answer.before)} against {_runs(options.after, answer.after)}"
    if options.report == "json":
        sides = {"before": _side_json(answer.before), "after": _side_json(answer.after)}
        print(json_document(diff.comparison_json(comparison, shown, options.floor) | sides), end="")
    elif options.report == "markdown":
        print(diff.comparison_markdown(title, comparison, shown, options.floor))
    else:
        print(f"{title}\n")
        diff.print_comparison(comparison, shown, options.floor)
        if changed:
            first, of_side = changed[0], parts[0 if changed[0].change is Change.GONE else 1]
            suggest_open(lake, lambda: lake.longest("name", first.name or None, part=of_side))
    return console.FOUND if changed else console.FINE


def _runs(value: str, side: Side) -> str:
    of = f" of {side.more + len(side.runs):,}" if side.more else ""
    return f"{value} ({counted(len(side.runs), 'run')}{of})"


def _side_json(side: Side) -> dict[str, Any]:
    return {"traces": [row["id"] for row in side.traces], "more": side.more}
