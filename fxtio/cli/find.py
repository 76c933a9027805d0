"""The command `fxtio find`: slices, instants and log messages by name, argument, duration and time."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.report import counted, json_lines, json_value, printable, seconds, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.answers import Condition, Hit, Hits

HELP = "Find slices, instants and log messages by name, argument, duration and time"

_ORDERS = ("longest", "time")
_COLUMNS = ("kind", "time", "duration", "thread", "category", "name", "arguments", "ancestors", "defined_in")
_MAX_TEXT = 120


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    pattern_help = "the name or message, may be a pattern such as 'GET *' (default: any)"
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help=pattern_help)
    add_conditions(parser)
    parser.add_argument(
        "--longer", type=inputs.duration, metavar="TIME", help="only slices of at least this duration, as 5ms"
    )
    parser.add_argument("--shorter", type=inputs.duration, metavar="TIME", help="only slices of at most this duration")
    parser.add_argument("--ancestors", action="store_true", help="show the slices around each")
    sort_help = "longest: the longest first; time: the earliest first (default: longest)"
    parser.add_argument("--sort", choices=_ORDERS, default="longest", metavar="ORDER", help=sort_help)
    inputs.add_rows(parser, "rows")
    inputs.add_examples(
        parser,
        "fxtio find app.fxt 'GET *' --longer 5ms --ancestors",
        "fxtio find app.fxt --arg user=bob --sort time",
        "fxtio find app.fxt --from 1.2s --to 1.4s --thread main -n all --csv",
    )


def add_conditions(parser: ArgumentParser) -> None:
    """Add the option for conditions on arguments."""
    arg_help = "only with an argument such as user=bob*, size>4096 or ok=false; may be repeated, all must hold"
    parser.add_argument(
        "--arg", dest="conditions", type=_condition, action="append", default=[], metavar="CONDITION", help=arg_help
    )


def _condition(text: str) -> Condition:
    from fxtio.timeline.answers import Condition, QuestionError

    try:
        return Condition.parse(text)
    except QuestionError as error:
        raise ArgumentTypeError(str(error)) from None


def run(options: Namespace) -> int:
    """Print what was found and return the exit code."""
    from fxtio.readers import times_of
    from fxtio.timeline.answers import find

    with inputs.opened_timeline(options.file, options.format) as timeline:
        origin = times_of(timeline).start or 0
        selection = inputs.selection_of(options, timeline)
        hits = find(
            timeline,
            options.pattern,
            conditions=options.conditions,
            longer=options.longer,
            shorter=options.shorter,
            order=options.sort,
            limit=options.limit,
            selection=selection,
        )
        sentence = "" if hits.rows else inputs.nothing_of(timeline, "matches", selection)
    rows = [_json(hit) for hit in hits.rows]
    content = {"start": origin, "rows": rows, "more": hits.count - len(rows)}
    cells = ([_csv_cell(value) for value in row.values()] for row in rows)
    if not console.print_rows(options, timeline, content, _COLUMNS, cells):
        _print(timeline.name, hits, origin, with_ancestors=options.ancestors)
    code = console.print_end(timeline, sentence)
    shown = next((hit for hit in hits.rows if hit.kind != "log"), None)
    if shown is not None:
        inputs.suggest_open(options.file, shown.name, after=shown.time - origin)
    return code


def _json(hit: Hit) -> dict[str, Any]:
    return {name: hit.place if name == "thread" else getattr(hit, name) for name in _COLUMNS}


def _csv_cell(value: Any) -> Any:
    value = json_value(value)
    return json_lines([value]).rstrip("\n") if isinstance(value, dict | list) else value


def _print(name: str, hits: Hits, origin: int, *, with_ancestors: bool) -> None:
    print(printable(f"{name}: {counted(hits.count, 'match')}"))
    if not hits.rows:
        return
    print()
    headers = [">time", ">duration", "thread", "name", "arguments"]
    if with_ancestors:
        headers.append("within")
    with_places = any(hit.defined_in for hit in hits.rows)
    if with_places:
        headers.append("defined in")
    rows = [_cells(hit, origin, with_ancestors=with_ancestors, with_places=with_places) for hit in hits.rows]
    console.print_table(headers, rows)
    if hits.count > len(hits.rows):
        print(f"and {hits.count - len(hits.rows):,} more (-n all)")


def _cells(hit: Hit, origin: int, *, with_ancestors: bool, with_places: bool) -> list[int | str]:
    from fxtio.timeline.answers.places import CODE_FUNCTION, NAMES, short_place

    hidden = {*NAMES, CODE_FUNCTION} if with_places else ()
    shown = {name: value for name, value in hit.arguments.items() if name not in hidden}
    arguments = " ".join(f"{name}={_shown(value)}" for name, value in shown.items())
    lasts = "-" if hit.duration is None else short_duration(hit.duration)
    row: list[int | str] = [f"{seconds(hit.time - origin)} s", lasts, hit.place, _cut(hit.name or ""), _cut(arguments)]
    if with_ancestors:
        row.append(" > ".join(hit.ancestors))
    return [*row, short_place(hit.defined_in)] if with_places else row


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False) if " " in value or not value else value
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
