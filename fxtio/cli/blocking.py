"""Prints for `fxtio top --blocking` the steps that held event loops of asyncio, and how late the loops were."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.report import counted, human_value, json_lines, printable, seconds, short_duration

if TYPE_CHECKING:
    from fxtio.timeline.answers import Block, Blocks

OPTION, LEAST = "--blocking", "50ms"
"""The option, and its value where none is given."""

_COLUMNS = ("time", "duration", "name", "step", "awaiting", "thread", "calls", "defined_in")
_CALLS = 3  # the most calls between the step and the function that a line names


def with_least(arguments: Sequence[str]) -> list[str]:
    """Return arguments such that argparse does not take the file after `--blocking` for its value."""
    return [
        f"{OPTION}={LEAST}" if argument == OPTION and not _is_duration(after) else argument
        for argument, after in zip(arguments, [*arguments[1:], ""], strict=True)
    ]


def _is_duration(text: str) -> bool:
    try:
        inputs.duration(text)
    except ArgumentTypeError:
        return False
    return True


def run(options: Namespace) -> int:
    """Print what held event loops, and return the exit code."""
    from fxtio.readers import times_of
    from fxtio.timeline.answers import blocking

    with inputs.opened_timeline(options.file, options.format) as timeline:
        origin = times_of(timeline).start or 0
        selection = inputs.selection_of(options, timeline)
        blocks = blocking(timeline, longer=options.blocking, limit=options.limit, selection=selection)
        sentence = "" if blocks.loops else inputs.nothing_of(timeline, "steps of event loops", selection)
    rows = [{name: getattr(block, name) for name in _COLUMNS} for block in blocks.rows]
    loops = [{**asdict(loop), "share": loop.share} for loop in blocks.loops]
    content = {
        "what": "blocking", "longer": blocks.longer, "start": origin, "rows": rows, "more": blocks.count - len(rows),
        "loops": loops,
    }  # fmt: skip
    cells = ([_csv_cell(value) for value in row.values()] for row in rows)
    if not console.print_rows(options, timeline, content, _COLUMNS, cells):
        _print(timeline.name, blocks, origin)
    code = console.print_end(timeline, sentence)
    if blocks.rows:
        inputs.suggest_open(options.file, blocks.rows[0].name, after=blocks.rows[0].time - origin)
    return code


def _csv_cell(value: Any) -> Any:
    return json_lines([value]).rstrip("\n") if isinstance(value, list) else value


def _print(name: str, blocks: Blocks, origin: int) -> None:
    longer = short_duration(blocks.longer)
    print(printable(f"{name}: {counted(blocks.count, 'step')} held an event loop for {longer} or longer"))
    if blocks.rows:
        from fxtio.timeline.answers.places import short_place

        print()
        headers = [">time", ">duration", "thread", "step", "calls within it", "function", "defined in"]
        rows = [
            [
                f"{seconds(block.time - origin)} s",
                short_duration(block.duration),
                block.thread,
                block.step,
                _way(block),
                block.name,
                short_place(block.defined_in),
            ]
            for block in blocks.rows
        ]
        console.print_table(headers, rows)
        if blocks.count > len(rows):
            print(f"and {blocks.count - len(rows):,} more (-n all)")
    if blocks.loops:
        print()
        headers = [">steps", ">time", ">blocks", ">blocked", ">share", ">late", ">worst", "loop"]
        console.print_table(
            headers,
            [
                [
                    loop.steps,
                    human_value(loop.time, "ns"),
                    loop.blocks,
                    human_value(loop.blocked, "ns"),
                    f"{loop.share:.1%}",
                    human_value(loop.late, "ns"),
                    human_value(loop.worst, "ns"),
                    loop.thread,
                ]
                for loop in blocks.loops
            ],
        )
    else:
        console.print_notes(
            ["the trace has no steps of event loops of asyncio; `fxtio run --source asyncio` records them"]
        )


def _way(block: Block) -> str:
    """Return the calls between the step and the function, of many the innermost ones."""
    between = [name for name, _ in block.calls[1:-1]]
    dots = ["..."] if len(between) > _CALLS else []
    return " > ".join([*dots, *between[-_CALLS:]])
