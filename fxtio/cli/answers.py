"""Functions of the commands that answer questions: parse durations, shares and limits, print rows, suggest commands."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fxtio.cli.bars import bar_of
from fxtio.cli.common import (
    add_selection,
    bounded,
    count,
    nothing_selected,
    output_style,
    print_table,
    print_timeline_findings,
    selection_arguments,
    selection_within,
    timeline_json,
)
from fxtio.errors import shown
from fxtio.report import json_document, printable, short_seconds

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import Answer

_LAST_OF_NUMBER = "0123456789."
_HINT = "write 1.2s, 350ms, 12us or 800ns"

ALL = "all"
"""The text that stands for any number of rows."""


def add_output(parser: ArgumentParser, rows: str, default: int = 20) -> None:
    """Add the options for the selection, the number of rows, and JSON and CSV.

    Args:
        parser: the parser of a command.
        rows: the rows, in the plural.
        default: how many of them are printed.
    """
    help_n = f"print at most N {rows}; `{ALL}` prints all of them (default: {default})"
    parser.add_argument("-n", "--limit", type=limit, default=default, metavar="N", help=help_n)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with times in nanoseconds")
    form.add_argument("--csv", action="store_true", help="print CSV, with times in nanoseconds")
    add_selection(parser)


def limit(text: str) -> int | None:
    """Parse a number of rows from the command line, None for all.

    Raises:
        ArgumentTypeError: the text is neither a positive number nor `all`.
    """
    try:
        return None if text == ALL else count(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, nor is it `{ALL}`") from None


def duration(text: str) -> int:
    """Parse a duration from the command line, `5ms`; return nanoseconds.  Only 0 needs no unit.

    Raises:
        ArgumentTypeError: the text is not a duration.
    """
    from fxtio.selection import Anchor, Moment, SelectionError

    try:
        moment = Moment.parse(text)
    except SelectionError:
        moment = None
    if moment is None or moment.anchor is not Anchor.START:
        raise ArgumentTypeError(f"{shown(text)} is not a duration; {_HINT}")
    if moment.distance and text.rstrip()[-1] in _LAST_OF_NUMBER:
        raise ArgumentTypeError(f"{shown(text)} has no unit; {_HINT}")
    return bounded(int(moment.distance), text)


def share(text: str) -> float:
    """Parse a share from the command line, `1%` or `0.01`.

    Raises:
        ArgumentTypeError: the text is not a share.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{shown(text)} is not a share; write 1% or 0.01")
    return value


def selection_in(options: Namespace, timeline: Timeline) -> Selection:
    """Return what the options of `add_selection` select; a range of times reads the trace once.

    Raises:
        SelectionError: the trace has no such times.
    """
    from fxtio.timeline.answers import summary

    return selection_within(options, lambda: summary(timeline))


def nothing_of(timeline: Timeline, noun: str, selection: Selection) -> str:
    """Return the sentence that nothing is selected, for `print_end`; empty if nothing was to be selected.

    Args:
        timeline: the timeline, which is still open.
        noun: what a command looked for, in the plural.
        selection: what was selected.
    """
    from fxtio.timeline.answers import summary

    if selection.is_everything:
        return ""
    return nothing_selected(
        f"none of the {noun} of {timeline.name}", selection, summary(timeline) if selection.has_range else None
    )


def print_end(timeline: Timeline, sentence: str) -> int:
    """Print the lines on standard error that end the output of a command: losses, findings and a sentence.

    Args:
        timeline: the timeline.
        sentence: the sentence of `nothing_of`; empty for none.

    Returns:
        The exit code.
    """
    code = print_timeline_findings(timeline)
    if sentence:
        print(printable(f"fxtio: {sentence}"), file=sys.stderr)
    return code


def absence(noun: str, selection: Selection) -> str:
    """Return the sentence that a trace has no rows of some kind, or that none of them is selected."""
    return f"the trace has no {noun}" if selection.is_everything else f"the trace has no {noun} that are selected"


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV with a header; control characters of texts are escaped."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(printable, names))
    for row in rows:
        writer.writerow([printable(cell) if isinstance(cell, str) else cell for cell in row])


def print_json(content: Mapping[str, Any], timeline: Timeline) -> None:
    """Print a JSON object with what the timeline cannot show, and with the findings of the trace."""
    own = timeline_json(timeline)
    print(json_document({"name": own.pop("name"), **content, **own}), end="")


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON."""
    return {
        "what": answer.what,
        "unit": answer.unit,
        "rows": [*answer.table.rows()],
        "more": answer.more,
        "error": answer.error,
    }


def print_answer(answer: Answer, values: Sequence[str], *, header: str, shares: Iterable[float], width: int) -> None:
    """Print the rows of an answer as a table.

    Args:
        answer: the answer, which has rows.
        values: the columns with values, as far as the answer has them.
        header: the title of the column of names.
        shares: for each row the share of a bar that is filled (0 to 1).
        width: the width of the bars.
    """
    telling, style = answer.telling, output_style()
    numbers = [name for name in ("calls", "open", *values, "share") if name in telling]
    texts = ["name", *(["place"] if "place" in telling else [])]
    bars = [bar_of(share, width, style, name=name) for share, name in zip(shares, answer.table["name"], strict=True)]
    headers = [
        *(f">{name}" for name in numbers),
        "",
        printable(header),
        *(["defined in"] if "place" in telling else []),
    ]
    print_table(headers, zip(*map(answer.cells, numbers), bars, *map(answer.cells, texts), strict=True))


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences behind a table: what is to be known about it."""
    lines = [*notes]
    if lines:
        print()
    for line in lines:
        print(printable(line))


def suggest_open(file: str, name: str | None, *, after: int | None = None, options: Namespace | None = None) -> None:
    """Print on standard error, if that is a terminal, the command that shows a slice.

    Nothing is printed for standard input, nor for names that cannot be typed.

    Args:
        file: the trace, as it was given on the command line.
        name: the name of the slice; None prints nothing.
        after: the time of the slice in nanoseconds after the first event; None for the longest slice.
        options: the parsed arguments whose selection of a part is to be shown, see `add_selection`.
    """
    if name is None:
        return
    words = ["open", file, f"--select={pattern_of(name)}"]
    if after is not None:
        words.append(f"--at={short_seconds(after)}s")
    if options is not None:
        words += selection_arguments(options)
    _suggest("see", file, words)


def suggest_report(options: Namespace) -> None:
    """Print, as `suggest_open` does, the command that writes a page about the same part of the trace.

    Args:
        options: the parsed arguments, with the trace and the selection of a part.
    """
    _suggest("share", options.file, ["report", options.file, *selection_arguments(options)])


def _suggest(purpose: str, file: str, words: list[str]) -> None:
    command = shlex.join(["fxtio", *words])
    if sys.stderr is not None and sys.stderr.isatty() and file != "-" and command.isprintable():
        sys.stdout.flush()
        print(f"fxtio: to {purpose} it: {command}", file=sys.stderr)


def pattern_of(name: str) -> str:
    """Return a pattern that matches a name, and as few others as possible."""
    escaped = re.sub(r"([*?[])", r"[\1]", name)
    return f"?{escaped[1:]}" if escaped.startswith("!") else escaped
