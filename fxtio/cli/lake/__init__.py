"""The command `fxtio lake`: keep thousands of traces as Parquet files, and ask all of them at once."""

from __future__ import annotations

import os
import warnings
from argparse import ArgumentParser, Namespace
from collections import Counter

from fxtio.cli import console, inputs, query
from fxtio.cli.lake import contents, runs, slices
from fxtio.cli.lake.options import add_limit, add_part, add_where, lake_action, part_of, print_more, words_of
from fxtio.cli.parser import MixedParser
from fxtio.report import counted, json_document, short_duration

HELP = "Keep thousands of traces as Parquet files, and ask all of them at once"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_examples(
        parser,
        "fxtio lake add runs.lake traces/*.fxt --label build=1a2b",
        "fxtio lake top runs.lake --by label:build --where 'name=GET *'",
        "fxtio lake diff runs.lake --by label:build 1a2b 3c4d",
        "fxtio lake sql runs.lake 'select program, count(*) from traces group by program'",
        "fxtio check app.fxt --baseline runs.lake --last 20",
        "fxtio lake ACTION --help",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=MixedParser)
    _add_add(lake_action(actions, "add", "Add traces to a lake, which is made if there is none", _add))
    _add_ls(lake_action(actions, "ls", "List the traces of a lake, the latest first", _ls))
    slices.add_actions(actions)
    runs.add_actions(actions)
    contents.add_actions(actions)
    _add_sql(lake_action(actions, "sql", "Run SQL over the tables of all traces", _sql))
    _add_export(lake_action(actions, "export", "Let tables of Delta Lake, Iceberg or DuckLake have its files", _export))
    _add_drop(lake_action(actions, "drop", "Remove traces from a lake", _drop))


def _add_add(parser: ArgumentParser) -> None:
    traces_help = "traces of any format, and folders of which all files are taken"
    parser.add_argument("traces", nargs="+", metavar="TRACE", help=traces_help)
    label_help = "label all of them, as build=1a2b; may be repeated"
    parser.add_argument("--label", metavar="NAME=TEXT", action="append", default=[], help=label_help)
    ci_help = "label them with commit, branch, build, job and repository of the CI run"
    parser.add_argument("--label-ci", action="store_true", help=ci_help)
    keep_help = "keep the traces themselves in the lake, too, so that they can be opened from there"
    parser.add_argument("--keep", action="store_true", help=keep_help)
    jobs_help = "how many traces are read at once (default: the cores)"
    parser.add_argument("-j", "--jobs", metavar="N", type=inputs.count, help=jobs_help)
    inputs.add_examples(
        parser,
        "fxtio lake add runs.lake app.fxt",
        "fxtio lake add s3://bucket/runs traces/ --label-ci -j 4",
    )


def _add_ls(parser: ArgumentParser) -> None:
    add_part(parser)
    add_limit(parser, "traces")
    inputs.add_examples(parser, "fxtio lake ls runs.lake", "fxtio lake ls runs.lake --where program=app --since 7d")


def _add_sql(parser: ArgumentParser) -> None:
    parser.add_argument("sql", metavar="SQL", help="the query; - reads it from standard input")
    query.add_shape(parser)
    inputs.add_examples(
        parser,
        "fxtio lake sql runs.lake 'select program, count(*) from traces group by program'",
        "fxtio lake sql runs.lake 'select * from slices where duration > 1e9' -o slow.parquet",
    )


def _add_export(parser: ArgumentParser) -> None:
    target_help = "a folder, or catalog://NAME/NAMESPACE, for iceberg; a database for ducklake; nothing for delta"
    parser.add_argument("target", nargs="?", metavar="TARGET", help=target_help)
    kinds = ("delta", "iceberg", "ducklake")
    parser.add_argument("--to", choices=kinds, required=True, help="what has these tables")
    inputs.add_examples(
        parser,
        "fxtio lake export runs.lake --to delta",
        "fxtio lake export runs.lake --to iceberg warehouse",
        "fxtio lake export runs.lake --to ducklake runs.ducklake",
    )


def _add_drop(parser: ArgumentParser) -> None:
    parser.add_argument("traces", nargs="*", metavar="ID", help="the ids of traces, as `fxtio lake ls` has them")
    older_help = "traces that began longer ago than 30d, 12h or 30m, and what killed writers left over"
    parser.add_argument("--older", metavar="TIME", default="", help=older_help)
    add_where(parser, "with --older, ")
    inputs.add_examples(
        parser,
        "fxtio lake drop runs.lake 24e965725f8051abc885ad830412598f",
        "fxtio lake drop runs.lake --older 30d --where label:branch=main",
    )


def run(options: Namespace) -> int:
    """Run the action and return the exit code."""
    from fxtio.lake import LakeWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", LakeWarning)
        warnings.showwarning = lambda message, *_, **__: console.say(str(message))
        code: int = options.action(options)
    return code


def _add(options: Namespace) -> int:
    from fxtio.labels import checked, of_ci
    from fxtio.lake import ADDED, KNOWN, REFUSED, Lake

    try:
        labels = (of_ci(os.environ) if options.label_ci else {}) | checked(options.label)
    except ValueError as error:
        raise inputs.UsageError(str(error)) from None
    lake = Lake(options.lake, create=True)
    kinds: Counter[str] = Counter()
    with console.Progress(lambda number: counted(number, "trace")) as progress:
        jobs = options.jobs or inputs.processors()
        for outcome in lake.add(options.traces, labels=labels, jobs=jobs, keep=options.keep):
            kinds[outcome.kind] += 1
            progress(kinds.total(), None)
            if outcome.kind == REFUSED:
                console.say(f"{outcome.path} is left out: {outcome.reason}")
    known = f", {kinds[KNOWN]:,} there already" if kinds[KNOWN] else ""
    refused = f", {kinds[REFUSED]:,} left out" if kinds[REFUSED] else ""
    console.say(f"added {counted(kinds[ADDED], 'trace')} to {options.lake}{known}{refused}")
    return console.FOUND if kinds[REFUSED] else console.FINE


def _ls(options: Namespace) -> int:
    from fxtio.lake import Lake
    from fxtio.lake.layout import moment_of

    rows, more = Lake(options.lake).traces(part_of(options), limit=options.limit)
    if options.json:
        print(json_document({"traces": rows, "more": more}))
        return console.FINE
    table = [
        (
            row["id"],
            "" if row["start"] is None else f"{moment_of(row['start']):%Y-%m-%d %H:%M:%S}",
            short_duration(row["duration"]),
            row["slices"],
            row["program"],
            words_of(row["labels"]),
        )
        for row in rows
    ]
    console.print_table(["id", "start (UTC)", ">duration", ">slices", "program", "labels"], table)
    print_more(more)
    return console.FINE


def _sql(options: Namespace) -> int:
    from fxtio.lake import Lake

    query.check_ending(options)
    query.print_relation(Lake(options.lake).sql(query.query_of(options.sql)), options)
    return console.FINE


def _export(options: Namespace) -> int:
    from fxtio.lake import Lake

    exported = Lake(options.lake).export(options.to, options.target)
    added, removed = counted(exported.added, "trace"), counted(exported.removed, "trace")
    console.say(f"added {added} to the tables of {options.to}, removed {removed}")
    return console.FINE


def _drop(options: Namespace) -> int:
    from fxtio.lake import Lake
    from fxtio.lake.questions import Part

    if bool(options.traces) == bool(options.older) or (options.where and not options.older):
        raise inputs.UsageError("name the traces to remove, or say --older, which --where may narrow")
    lake = Lake(options.lake)
    if options.older:
        count = lake.drop_older(options.older, Part(options.where))
        console.say(f"removed {counted(count, 'trace')} from {options.lake}")
        return console.FINE
    known = lake.ids()
    for identity in options.traces:
        if identity not in known:
            raise inputs.UsageError(f"{options.lake} has no trace {identity}")
    lake.drop(*options.traces)
    console.say(f"removed {counted(len(options.traces), 'trace')} from {options.lake}")
    return console.FINE
