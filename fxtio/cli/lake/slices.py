"""The actions `top`, `find` and `worst` of `fxtio lake`: slices in groups, single ones, and traces by their slices."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fxtio.cli import console, inputs
from fxtio.cli.lake.options import (
    add_limit,
    add_part_of_slices,
    lake_action,
    moment,
    part_of,
    print_more,
    suggest_open,
    words_of,
)
from fxtio.report import json_document, seconds, short_duration

_TIMES = ("self", "total", "median", "p99", "max")
_PATTERN = "the name of the slices, may be a pattern such as 'GET *' (default: any)"


def add_actions(actions: Any) -> None:
    """Declare the actions."""
    _add_top(lake_action(actions, "top", "Rank the slices of all traces by their time", _top))
    _add_find(lake_action(actions, "find", "Find single slices of all traces by name, argument and duration", _find))
    _add_worst(lake_action(actions, "worst", "Rank traces by the times of their slices, the worst first", _worst))


def _add_top(parser: ArgumentParser) -> None:
    by_help = "group by name, category, process, thread, program, day, trace, host or label:NAME (default: name)"
    parser.add_argument("--by", default="name", metavar="WHAT", help=by_help)
    sort_help = "sort by self, total, calls, median, p99 or max (default: self)"
    parser.add_argument("--sort", default="self", metavar="COLUMN", help=sort_help)
    add_part_of_slices(parser)
    add_limit(parser, "rows")
    inputs.add_examples(
        parser,
        "fxtio lake top runs.lake",
        "fxtio lake top runs.lake --by label:build --where 'name=GET *' --sort p99",
        "fxtio lake top runs.lake --where program=app --since 7d",
    )


def _add_find(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help=_PATTERN)
    longer_help = "only slices of at least this duration, as 5ms"
    parser.add_argument("--longer", type=inputs.duration, metavar="TIME", help=longer_help)
    parser.add_argument("--shorter", type=inputs.duration, metavar="TIME", help="only slices of at most this duration")
    sort_help = "longest: the longest first; time: the earliest first (default: longest)"
    parser.add_argument("--sort", default="longest", metavar="ORDER", help=sort_help)
    add_part_of_slices(parser)
    add_limit(parser, "slices")
    inputs.add_examples(
        parser,
        "fxtio lake find runs.lake 'GET *' --longer 5ms",
        "fxtio lake find runs.lake --arg order=17 --where label:build=1a2b --since 7d",
    )


def _add_worst(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help=_PATTERN)
    sort_help = (
        "sort by max, total, calls, self, median or p99 of the slices, or by duration of the trace (default: max)"
    )
    parser.add_argument("--sort", default="max", metavar="COLUMN", help=sort_help)
    add_part_of_slices(parser)
    add_limit(parser, "traces")
    inputs.add_examples(
        parser,
        "fxtio lake worst runs.lake 'GET *'",
        "fxtio lake worst runs.lake query --sort p99 --where label:branch=main --since 7d",
    )


def _is_printed(options: Namespace, answer: Any) -> bool:
    """Print an answer as JSON, or that there is none; return whether that was all."""
    if options.json:
        print(json_document(asdict(answer)), end="")
    elif not answer.rows:
        console.say(f"{options.lake} has no such slices")
    return bool(options.json or not answer.rows)


def _top(options: Namespace) -> int:
    from fxtio.lake import Lake

    lake, part = Lake(options.lake), part_of(options)
    answer = lake.top(options.by, part=part, sort=options.sort, limit=options.limit)
    if _is_printed(options, answer):
        return console.FINE
    table = [
        (row["calls"], *_times(row, _TIMES), "(none)" if row["key"] is None else row["key"]) for row in answer.rows
    ]
    console.print_table([">calls", *(f">{name}" for name in _TIMES), options.by], table)
    print_more(answer.more)
    suggest_open(lake, lambda: lake.longest(answer.by, answer.rows[0]["key"], part=part))
    return console.FINE


def _find(options: Namespace) -> int:
    from fxtio.lake import Lake

    lake, part = Lake(options.lake), part_of(options)
    answer = lake.find(
        options.pattern,
        part=part,
        longer=options.longer,
        shorter=options.shorter,
        order=options.sort,
        limit=options.limit,
    )
    if _is_printed(options, answer):
        return console.FINE
    table = [
        (
            f"{seconds(row['time'])} s" if row["start"] is None else moment(row["start"] + row["time"]),
            short_duration(row["duration"]),
            row["thread"] or row["track"] or "",
            row["process"] or "",
            row["name"] or "",
            row["trace"],
        )
        for row in answer.rows
    ]
    console.print_table(["time (UTC)", ">duration", "thread", "process", "name", "trace"], table)
    print_more(answer.more)
    suggest_open(lake, lambda: max(answer.rows, key=lambda row: row["duration"]))
    return console.FINE


def _worst(options: Namespace) -> int:
    from fxtio.lake import Lake

    lake = Lake(options.lake)
    answer = lake.worst(options.pattern, part=part_of(options), sort=options.sort, limit=options.limit)
    if _is_printed(options, answer):
        return console.FINE
    names = ("max", "p99", "total", "duration")
    table = [
        (
            *_times(row, names),
            row["calls"],
            row["key"],
            "" if row["start"] is None else moment(row["start"]),
            row["program"],
            words_of(row["labels"]),
        )
        for row in answer.rows
    ]
    headers = [">longest", ">p99", ">total", ">of trace", ">calls", "trace", "start (UTC)", "program", "labels"]
    console.print_table(headers, table)
    print_more(answer.more)
    suggest_open(lake, lambda: answer.rows[0] | {"trace": answer.rows[0]["key"]})
    return console.FINE


def _times(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [short_duration(row[name]) for name in names]
