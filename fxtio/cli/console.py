"""Print what commands say: lines on standard error, progress, findings, reports, tables, answers.

Text from a trace is untrusted: it is escaped before it is printed.
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from fxtio.cli.bars import Bar, Style, bar_of
from fxtio.report import counted, json_document, printable, shortened, width_of

if TYPE_CHECKING:
    from fxtio.exchange.opening import Imported
    from fxtio.formats import Trace
    from fxtio.report import Report
    from fxtio.timeline import Timeline
    from fxtio.timeline.answers import Answer

FINE, FOUND, REFUSED = range(3)
"""The exit codes: success; the trace has findings; wrong usage, or input that cannot be read at all."""
SHOWN_PER_RULE = 3
"""The greatest number of findings of one rule that are printed."""
_MIN_LABEL_WIDTH = 8
_BETWEEN = 2
"""The number of blanks between two columns of a table."""
_MIN_TEXT = 12
"""The number of columns below which texts of a table are not shortened for a terminal."""
_NO_TERMINAL = 100, 24
"""The number of columns and lines of an output that is no terminal."""
_MAX_CELL = 400
"""The greatest number of characters of a cell of a table; names in traces may have a million."""
_PROGRESS_AFTER = 0.5
_PROGRESS_EVERY = 0.1
_ERASE_LINE = "\r\x1b[K"
# ---- Lines.


def say(message: str) -> None:
    """Print a line on standard error: erase the line of the progress first, and flush standard output."""
    Progress.clear()
    sys.stdout.flush()
    print(f"fxtio: {printable(message)}", file=sys.stderr, flush=True)


def say_written(what: str, output: str) -> None:
    """Say what was written to the argument OUT."""
    say(f"wrote {what} to {'standard output' if output == '-' else output}")


class Progress:
    """A line on standard error that shows how far a long task is: on terminals only, and only after half a second.

    `show` converts a number to text, as `human_size` does.
    """

    _is_shown = False

    def __init__(self, show: Callable[[int], str], *, hidden: bool = False) -> None:
        self._show = show
        self._hidden = hidden or sys.stderr is None or not sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = self._started + _PROGRESS_AFTER

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int | None) -> None:
        """Update the line: `done` of `total`, or of an unknown total; with nothing done, the task starts now."""
        now = time.monotonic()
        if not done:
            self._started, self._next = now, now + _PROGRESS_AFTER
        if self._hidden or now < self._next:
            return
        self._next = now + _PROGRESS_EVERY
        Progress._is_shown = True
        of = f" of {self._show(total)} ({min(100 * done // total, 100)}%)" if total else ""
        rate = self._show(int(done / (now - self._started)))
        print(f"{_ERASE_LINE}{self._show(done)}{of}, {rate}/s", end="", file=sys.stderr, flush=True)

    @classmethod
    def clear(cls) -> None:
        """Erase the line, if there is one."""
        if cls._is_shown:
            print(_ERASE_LINE, end="", file=sys.stderr, flush=True)
            cls._is_shown = False


def print_findings(opened: Trace | Timeline, name: str = "", *, with_losses: bool = True) -> int:
    """Print on standard error what a timeline cannot show, and the findings: the first of each rule, and their number.

    Before them are hints how the trace could be shown better, if the reading has given some.

    Args:
        opened: the trace, or its timeline.
        name: the name to print before them, for commands that read several traces.
        with_losses: whether to print what is not shown; losses are no faults of the trace.

    Returns:
        The exit code.
    """
    from fxtio.timeline import Timeline

    findings = opened.findings
    of = f"{name}: " if name else ""
    for phrase, number in opened.losses.items() if with_losses and isinstance(opened, Timeline) else ():
        say(f"{of}not shown: {phrase} ({number:,})")
    for hint in findings.hints:
        say(f"{of}{hint}")
    if not findings:
        return FINE
    say(f"{of}{counted(len(findings), 'finding')}")
    shown: Counter[str] = Counter()
    for finding in findings:
        if shown[finding.rule] < SHOWN_PER_RULE:
            print(f"  {printable(str(finding))}", file=sys.stderr)
        shown[finding.rule] += 1
    for rule, number in findings.counts.items():
        if number > SHOWN_PER_RULE:
            print(f"  {number:,} in total [{rule}]", file=sys.stderr)
    return FOUND


def print_end(opened: Trace | Timeline, sentence: str, *, with_losses: bool = True) -> int:
    """Print what ends the output of a command, see `print_findings`, and a sentence, if it is not empty."""
    code = print_findings(opened, with_losses=with_losses)
    if sentence:
        say(sentence)
    return code


# ---- The terminal.


def has_color() -> bool:
    """Return whether standard output is to have colors: on terminals that show them.

    The variable NO_COLOR turns them off; FORCE_COLOR turns them on, also in files and pipes.
    """
    if sys.stdout is None or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def output_style() -> Style:
    """Return how bars are drawn on standard output."""
    return Style.of(sys.stdout.encoding, color=has_color())


def output_width() -> int:
    """Return the number of columns of the terminal, or the variable COLUMNS; without a terminal 100."""
    return shutil.get_terminal_size(_NO_TERMINAL).columns


def output_height() -> int:
    """Return the number of lines of the terminal, or the variable LINES; without a terminal 24."""
    return shutil.get_terminal_size(_NO_TERMINAL).lines


# ---- Reports and answers.


def print_report(report: Report, trace: Trace | Imported, *, as_json: bool) -> int:
    """Print a report about a trace, as text or as JSON, and on standard error its findings, or what is not shown of it.

    Returns:
        The exit code.
    """
    if as_json:
        print(json_document(report.json | {"findings": findings_json(trace)}), end="")
    else:
        _print_text(report)
    return print_findings(trace)


def _print_text(report: Report) -> None:
    """Print a report as text."""
    print(printable(report.title))
    width = max([_MIN_LABEL_WIDTH, *(len(label) for label, _ in report.facts)])
    for label, value in report.facts:
        print(f"  {label:{width}}  {printable(value)}".rstrip())
    for table in report.tables:
        print()
        print_table(table.headers, table.rows)
        if table.more:
            print(f"and {table.more:,} more")
    if report.notes:
        print()
    for note in report.notes:
        print(printable(note))


def findings_json(trace: Trace | Timeline) -> dict[str, Any]:
    """Return the findings of a trace as JSON: how many there are of each rule, and the first ones of each."""
    first = [
        {
            "rule": finding.rule,
            "severity": finding.severity.value,
            "level": finding.level,
            "offset": finding.offset,
            "message": finding.message,
            **({"file": finding.file} if finding.file else {}),
        }
        for finding in trace.findings
    ]
    return {"counts": dict(trace.findings.counts), "first": first}


def timeline_json(timeline: Timeline) -> dict[str, Any]:
    """Return the name of a timeline, what it cannot show, and the findings of its trace, as JSON."""
    return {"name": timeline.name, "losses": dict(timeline.losses), "findings": findings_json(timeline)}


def print_rows(
    options: Namespace,
    timeline: Timeline,
    content: Mapping[str, Any],
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
) -> bool:
    """Print rows as the options `--json` and `--csv` ask for, and return whether they do.

    JSON is the content, what the timeline cannot show, and the findings; CSV is the rows, with the names of columns.
    """
    if options.json:
        own = timeline_json(timeline)
        print(json_document({"name": own.pop("name"), **content, **own}), end="")
    elif options.csv:
        print_csv(names, rows)
    return bool(options.json or options.csv)


def print_answer_rows(options: Namespace, timeline: Timeline, answer: Answer) -> bool:
    """Print an answer as the options `--json` and `--csv` ask for, and return whether they do."""
    rows = ([*row.values()] for row in answer.table.rows())
    return print_rows(options, timeline, answer_json(answer), answer.table.column_names, rows)


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV with a header; control characters of texts are escaped."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(printable, names))
    for row in rows:
        writer.writerow([printable(cell) if isinstance(cell, str) else cell for cell in row])


def answer_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON."""
    rows = [*answer.table.rows()]
    return {"what": answer.what, "unit": answer.unit, "rows": rows, "more": answer.more, "error": answer.error}


def print_answer(answer: Answer, values: Sequence[str], *, header: str, shares: Iterable[float], width: int) -> None:
    """Print the rows of an answer as a table.

    Args:
        answer: an answer with at least one row.
        values: the columns with values, as far as the answer has them.
        header: the title of the column of names.
        shares: for each row the share of a bar that is filled (0 to 1), `width` columns wide.
        width: the width of the bars.
    """
    telling, style = answer.telling, output_style()
    numbers = [name for name in ("calls", "open", *values, "share") if name in telling]
    texts = ["name", *(["place"] if "place" in telling else [])]
    bars = [bar_of(share, width, style, name=name) for share, name in zip(shares, answer.table["name"], strict=True)]
    places = ["defined in"] if "place" in telling else []
    headers = [*(f">{name}" for name in numbers), "", printable(header), *places]
    print_table(headers, zip(*map(answer.cells, numbers), bars, *map(answer.cells, texts), strict=True))


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences after a table: what is to be known about it."""
    lines = [*notes]
    if lines:
        print()
    for line in lines:
        print(printable(line))


# ---- Tables.


def print_table(headers: Sequence[str], rows: Iterable[Sequence[int | str | Bar]]) -> None:
    """Print rows as aligned columns; a column whose header begins with `>` is aligned on the right.

    Columns of bars that are all empty are left out.  Long text is cut; on a terminal, names are also shortened in
    their middle, so that a row is one line.
    """
    titles: list[str | Bar] = [_cell(header.removeprefix(">")) for header in headers]
    table = [titles, *([cell if isinstance(cell, Bar) else _cell(cell) for cell in row] for row in rows)]
    widths = [max(map(width_of, map(_plain, column))) for column in zip(*table, strict=True)]
    numeric = [header.startswith(">") for header in headers]
    if sys.stdout.isatty():
        columns = output_width()
        narrowed = _narrowed(widths, numeric, columns)
        if _row_width(narrowed) > columns:  # names are worth more than bars
            narrowed = _narrowed(
                [width if title else 0 for width, title in zip(widths, titles, strict=True)], numeric, columns
            )
        widths = narrowed
    used = [width > 0 for width in widths]
    table = [[*compress(row, used)] for row in table]
    numeric, widths = [*compress(numeric, used)], [*compress(widths, used)]
    cut = output_style().cut
    for row in table:
        aligned = [
            _aligned(cell, width, cut, right=right) for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def _plain(cell: str | Bar) -> str:
    return cell.text if isinstance(cell, Bar) else cell


def _narrowed(widths: Sequence[int], numeric: Sequence[bool], columns: int) -> list[int]:
    """Return the widths of columns such that a row fits a terminal, if it can: the widest texts are made narrower."""
    narrowed = [*widths]
    for column in sorted(range(len(widths)), key=lambda column: -widths[column]):
        excess = _row_width(narrowed) - columns
        if excess > 0 and not numeric[column] and narrowed[column] > _MIN_TEXT:
            narrowed[column] = max(narrowed[column] - excess, _MIN_TEXT)
    return narrowed


def _row_width(widths: Sequence[int]) -> int:
    """Return the width of a row; columns that are empty are left out."""
    used = [width for width in widths if width]
    return sum(used) + _BETWEEN * (len(used) - 1)


def _aligned(cell: str | Bar, width: int, cut: str, *, right: bool) -> str:
    """Return a cell that takes this number of columns; the indentation of a text is kept, up to half of them."""
    text = _plain(cell)
    if width_of(text) > width:
        words = text.lstrip(" ")
        indent = min(len(text) - len(words), width // 2)
        text = " " * indent + shortened(words, width - indent, cut)
    blank = " " * (width - width_of(text))
    return blank + text if right else f"{cell if isinstance(cell, Bar) else text}{blank}"


def _cell(value: int | str) -> str:
    """Return a cell of a table as text: escaped, and not too long."""
    if isinstance(value, int):
        return f"{value:,}"
    shown = printable(value[: _MAX_CELL + 1])
    return shown if len(shown) <= _MAX_CELL else f"{shown[: _MAX_CELL - 3]}..."
