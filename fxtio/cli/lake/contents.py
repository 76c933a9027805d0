"""The action `info` of `fxtio lake`: what is in it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fxtio.cli import console, inputs
from fxtio.cli.lake.options import add_limit, add_part, lake_action, moment, part_of
from fxtio.report import counted, human_size, json_document

if TYPE_CHECKING:
    from fxtio.lake.questions import Contents, Values

_SHOWN = 4
"""The most values of a key that are printed."""


def add_actions(actions: Any) -> None:
    """Declare the action."""
    _add_info(lake_action(actions, "info", "Show what is in a lake: traces, programs, labels, losses", _info))


def _add_info(parser: ArgumentParser) -> None:
    add_part(parser)
    add_limit(parser, "labels, and kinds of losses")
    inputs.add_examples(parser, "fxtio lake info runs.lake", "fxtio lake info runs.lake --where program=app --json")


def _info(options: Namespace) -> int:
    from fxtio.lake import Lake

    answer = Lake(options.lake).info(part=part_of(options), limit=options.limit)
    if options.json:
        print(json_document(asdict(answer)), end="")
    else:
        console.print_table(["", options.lake], [*_rows(answer)])
    return console.FINE


def _rows(answer: Contents) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what is in a lake."""
    yield "traces", f"{answer.traces:,}, {human_size(answer.bytes)}"
    if answer.first is not None and answer.last is not None:
        yield "began", f"{moment(answer.first)} to {moment(answer.last)} (UTC), on {counted(answer.days, 'day')}"
    yield "rows", _counts({table: count for table, count in answer.rows.items() if count}) or "none"
    for name, values in answer.values.items():
        yield f"{name}s", _values(values)
    for name, values in answer.labels.items():
        yield f"label {name}", _values(values)
    if answer.label_count > len(answer.labels):
        yield "labels", f"and {answer.label_count - len(answer.labels):,} more (-n all)"
    yield "versions", ", ".join(f"{version} ({count:,})" for version, count in answer.versions.items())
    yield "findings", f"{answer.findings:,} in {counted(answer.with_findings, 'trace')}"
    for phrase, count in answer.losses.items():
        yield "not shown", f"{phrase} ({count:,})"
    unfinished = {"of traces without a row": answer.orphans, "unfinished": answer.unfinished, "other": answer.others}
    yield "no part of it", _counts({name: f for name, f in unfinished.items() if f}, "files ") or "nothing"


def _counts(counts: Mapping[str, int], noun: str = "") -> str:
    return ", ".join(f"{count:,} {noun}{name}" for name, count in counts.items())


def _values(values: Values) -> str:
    """Return how many values there are, and the most frequent ones."""
    shown = [f"{value} ({count:,})" for value, count in [*values.traces.items()][:_SHOWN]]
    rest = values.count - len(shown)
    return ", ".join([*shown, *([f"and {rest:,} more"] if rest else [])]) or "none"
