"""Functions that several commands share: open the input, show progress, print findings and reports.

Neither this module nor the top level of a command's module imports the readers and writers, which load numpy.  A
command imports them when it runs, so that `fxtio --help` is quick.  Text from a trace is untrusted: it is escaped
before it is printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fxtio.cli.bars import Bar, Style
from fxtio.errors import FxtioError, shown
from fxtio.report import counted, human_size, json_document, printable, short_seconds, shortened, width_of

if TYPE_CHECKING:
    from fxtio.exchange.opening import Imported
    from fxtio.formats import Format, ReportRoom, Trace
    from fxtio.io.reading import TraceInfo
    from fxtio.io.source import Source
    from fxtio.report import Report
    from fxtio.selection import Moment, Selection
    from fxtio.timeline import Timeline

OpenedT = TypeVar("OpenedT", bound="Trace | Timeline")

SEPARATOR = "\0"
"""Stands for the argument `--` of `fxtio diff` among its traces; no file has this name."""

FINE, FOUND, REFUSED = range(3)
"""The exit codes: success; the trace has findings; wrong usage, or input that cannot be read at all."""

SHOWN_PER_RULE = 3
"""The greatest number of findings of one rule that are printed."""

_MIN_LABEL_WIDTH = 8
_BETWEEN = 2
"""The number of blanks between two columns of a table."""

_MIN_TEXT = 12
"""The number of columns below which texts of a table are not shortened for a terminal."""

_NO_TERMINAL = 100
_NO_TERMINAL_LINES = 24
"""The number of columns of an output that is no terminal."""

_MAX_CELL = 400
"""The greatest number of characters of a cell of a table; names in traces may have a million."""

_PROGRESS_AFTER = 0.5
_PROGRESS_EVERY = 0.1
_ERASE_LINE = "\r\x1b[K"
_UNIT = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_MAX_DIGITS = 100
"""So many digits of a number are looked at; it is too large if it has that many."""

_BINARY_UNIT = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class UsageError(FxtioError):
    """An error for arguments that contradict each other, or an input that is not a trace."""


def add_input(parser: ArgumentParser) -> None:
    """Add the argument FILE to a command."""
    parser.add_argument("file", metavar="FILE", help="the trace, may be compressed; - for standard input")
    add_format(parser)


def add_format(parser: ArgumentParser, of: str = "FILE") -> None:
    """Add the option `--format` of a command that reads traces."""
    help_ = f"the format of {of} (default: by content, then by name)"
    parser.add_argument("--format", metavar="FORMAT", help=help_)


def add_output(parser: ArgumentParser) -> None:
    """Add the option `--output` of a command that writes a trace."""
    help_ = "the new trace; .gz, .zst and .xz compress it; - for standard output"
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=help_)


def check_output(target: str, trace: Trace | Imported) -> None:
    """Check that a trace of the same format as another one can be written to a target.

    Raises:
        UsageError: the target is a terminal, or named like a trace of another format.
    """
    from fxtio import exchange, formats

    if target == "-" and sys.stdout.isatty():
        raise UsageError("a trace is not written to a terminal; redirect standard output")
    other = exchange.by_suffix(target) or formats.by_suffix(target)
    if other is not None and other.name != trace.format:
        raise UsageError(f"{target} is named like a trace in the format {other.name}; {trace.name} is {trace.format}")


def add_examples(parser: ArgumentParser, *examples: str) -> None:
    """Show examples at the end of a command's help."""
    parser.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])


def count(text: str) -> int:
    """Parse a positive number from the command line: `1000`, `10k`, `2M`.

    Raises:
        ArgumentTypeError: the text is not a positive number.
    """
    return _number(text, _UNIT, "")


def size(text: str) -> int:
    """Parse a positive number of bytes from the command line: `4096`, `10MB`, `1GiB`.

    Raises:
        ArgumentTypeError: the text is not a positive number.
    """
    return _number(text, _UNIT | _BINARY_UNIT, "b")


def natural(text: str) -> int:
    """Parse a number of 0 or more from the command line: decimal, also with commas as in findings, or `0x78`.

    Raises:
        ArgumentTypeError: the text is not such a number, or it is too large.
    """
    try:
        value = int(text[:_MAX_DIGITS].replace(",", ""), 16 if text[:2].lower() == "0x" else 10)
    except ValueError:
        value = -1
    if value < 0:
        raise ArgumentTypeError(f"{shown(text)} is not a number of 0 or more")
    return bounded(value, text)


def _number(text: str, units: dict[str, int], ending: str) -> int:
    """Parse a positive integer with one of these units; `ending` may follow the unit."""
    lowered = text.lower()
    if lowered.endswith(ending):
        lowered = lowered.removesuffix(ending)
    digits = lowered.rstrip("kmgti")
    unit = lowered[len(digits) :]
    number = digits.rstrip().replace("_", "").replace(",", "")
    if not (number.isascii() and number.isdigit()) or unit not in units or not number.strip("0"):
        raise ArgumentTypeError(f"{shown(text)} is not a positive number")
    return bounded(int(number[:_MAX_DIGITS]) * units[unit], text)


def bounded(number: int, text: str) -> int:
    """Return the number that a text stands for, if it fits 64 bits.

    Raises:
        ArgumentTypeError: it does not.
    """
    if number >= 1 << 63:
        raise ArgumentTypeError(f"{shown(text)} is too large")
    return number


_PATTERN_OPTIONS = (
    ("thread", "threads", "threads with this name or number (tid, koid)"),
    ("process", "processes", "processes with this name or number (pid, koid)"),
    ("category", "categories", "events of this category"),
    ("name", "names", "events or functions with this name"),
)


def add_selection(parser: ArgumentParser, *ends: str) -> None:
    """Add the options that select a part of a trace, see `selection_of`.

    Args:
        parser: the parser of a command.
        ends: the options for the end of a range of times, `--until` and `--to` by default.
    """
    group = parser.add_argument_group(
        "selection",
        "A time is 1.2s, 350ms or 12us after the first event, -1s before the end, 10% of the trace, or a wall-clock "
        "time such as 14:03:05.2. A name may be a pattern such as 'net*'; one that begins with ! excludes. Options for "
        "names may be repeated.",
    )
    group.add_argument("--from", dest="begin", type=moment, metavar="TIME", help="only what is at this time or later")
    help_to = "only what is before this time; +50ms is 50 ms after --from"
    group.add_argument(*(ends or ("--until", "--to")), dest="end", type=moment, metavar="TIME", help=help_to)
    for option, attribute, what in _PATTERN_OPTIONS:
        group.add_argument(
            f"--{option}", dest=attribute, action="append", default=[], metavar="NAME", help=f"only {what}"
        )


def moment(text: str) -> Moment:
    """Parse a time from the command line, see `fxtio.selection.Moment`.

    Raises:
        ArgumentTypeError: the text is not a time.
    """
    from fxtio.selection import Moment, SelectionError

    try:
        return Moment.parse(text)
    except SelectionError as error:
        raise ArgumentTypeError(str(error)) from None


def selection_of(options: Namespace, trace: Trace) -> Selection:
    """Return what the options of `add_selection` select of a trace; a range of times reads the trace once.

    Standard input can then be read again, also where names of threads and processes may have to be found first.

    Raises:
        SelectionError: the trace has no such times.
    """
    from fxtio.readers import FileReader

    has_range = options.begin is not None or options.end is not None
    if isinstance(trace, FileReader) and (has_range or options.threads or options.processes):
        trace.reads_again = True
    return selection_within(options, lambda: trace.info)


def selects(options: Namespace) -> bool:
    """Return whether an option of `add_selection` was given."""
    given = [getattr(options, attribute) for _, attribute, _ in _PATTERN_OPTIONS]
    return any((options.begin, options.end, *given))


def selection_arguments(options: Namespace) -> list[str]:
    """Return the arguments that select what the options of `add_selection` select, with the format of the trace."""
    arguments = [f"--format={options.format}"] if options.format is not None else []
    arguments += [f"--{name}={time.text}" for name, time in (("from", options.begin), ("until", options.end)) if time]
    for option, attribute, _ in _PATTERN_OPTIONS:
        arguments += [f"--{option}={pattern}" for pattern in getattr(options, attribute)]
    return arguments


def selection_within(options: Namespace, summary: Callable[[], TraceInfo]) -> Selection:
    """Return what the options of `add_selection` select of a trace whose summary a function returns.

    Raises:
        SelectionError: the trace has no such times.
    """
    from fxtio.selection import Selection, time_range

    begin = end = None
    if options.begin is not None or options.end is not None:
        begin, end = time_range(options.begin, options.end, summary())
    return Selection(begin, end, **{name: tuple(getattr(options, name)) for _, name, _ in _PATTERN_OPTIONS})


def nothing_selected(subject: str, selection: Selection, summary: TraceInfo | None) -> str:
    """Return the sentence that nothing of a trace is selected, and what range of times it has.

    Args:
        subject: the subject of the sentence, such as `nothing of app.fxt`.
        selection: what was selected.
        summary: the summary of the trace; needed only if the selection has a range of times.
    """
    patterns = [
        f"--{option} {pattern}"
        for option, attribute, _ in _PATTERN_OPTIONS
        for pattern in getattr(selection, attribute)
    ]
    text = f"{subject} is selected"
    if patterns:
        text += f" by {' '.join(patterns)}"
    if selection.has_range and summary is not None and summary.start is not None and summary.end is not None:
        origin, lasts = summary.start, summary.end - summary.start
        begin = 0 if selection.start is None else selection.start - origin
        end = lasts if selection.end is None else selection.end - origin
        text += f" in the range from {short_seconds(begin)} s to {short_seconds(end)} s"
        text += f"; the trace is from 0 s to {short_seconds(lasts)} s"
    return text


def with_joined_times(arguments: Sequence[str]) -> list[str]:
    """Return arguments such that argparse takes `--from -1s`, a time before the end, as it takes `--from=-1s`."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--from", "--until", "--to") and argument[:1] == "-" and argument[1:2].isdigit():
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


@contextmanager
def open_trace(options: Namespace, *, prints: bool = False) -> Iterator[Trace]:
    """Open the trace that the argument FILE names, and close it at the end of a `with` block.

    Args:
        options: the parsed arguments, with those of `add_input`.
        prints: the command prints lines while it reads; then no progress is shown if they go to a terminal.

    Raises:
        UsageError: the file is empty, or a text file.
        FormatError: the file is not a trace of a known format, or of an exchange format.
        OSError: the file cannot be opened.
    """
    from fxtio.exchange.opening import open_trace

    with _opened(open_trace, options.file, format=options.format, prints=prints) as (trace, _):
        yield trace


@contextmanager
def open_any(options: Namespace) -> Iterator[tuple[Trace | Imported, Progress]]:
    """Open the trace, or the file of an exchange format, that the argument FILE names, as `opened_timeline` does."""
    from fxtio.exchange.opening import open_any

    with _opened(open_any, options.file, format=options.format) as opened:
        yield opened


@contextmanager
def opened_timeline(file: str, *, format: str | None = None) -> Iterator[tuple[Timeline, Progress]]:
    """Open a trace, or a file of an exchange format, as a timeline, and close it at the end of a `with` block.

    Args:
        file: the path, or `-` for standard input.
        format: the name of its format, by its content if None.

    Yields:
        The timeline, and the line that shows the progress, for commands that print before the end of the block.

    Raises:
        UsageError: the file is empty, or a text file.
        FormatError: the file is neither a trace of a known format nor of an exchange format.
        OSError: the file cannot be opened.
    """
    from fxtio.exchange.opening import open_timeline

    with _opened(open_timeline, file, format=format) as opened:
        yield opened


@contextmanager
def _opened(
    opener: Callable[..., OpenedT], file: str, *, format: str | None = None, prints: bool = False
) -> Iterator[tuple[OpenedT, Progress]]:
    """Open a file by a function of `fxtio.exchange.opening`, with a line that shows the progress, for a `with` block.

    Raises:
        UsageError: the file is empty, or a text file.
    """
    from fxtio.io.source import is_directory, open_source

    if file == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    source = None if is_directory(file) else open_source(file)
    if source is not None:
        try:
            _check_content(source, is_known=format is not None)
        except UsageError:
            source.close()
            raise
    with Progress(human_size, hidden=prints and sys.stdout.isatty()) as progress:
        options: dict[str, Any] = {"format": format, "source": source, "progress": progress}
        opened = opener(file, **options)
        with opened:
            yield opened, progress


def print_timeline_findings(timeline: Timeline, name: str = "") -> int:
    """Print on standard error what the timeline cannot show, and what is wrong with the trace.

    Args:
        timeline: the timeline.
        name: the name to print before it, for commands that read several traces.

    Returns:
        The exit code: losses are no faults of the trace.
    """
    sys.stdout.flush()  # so that a terminal shows the output before
    of = f"{printable(name)}: " if name else ""
    for phrase, number in timeline.losses.items():
        print(f"fxtio: {of}not shown: {printable(phrase)} ({number:,})", file=sys.stderr)
    return print_findings(timeline, name)


def _check_content(source: Source, *, is_known: bool) -> None:
    """Check that a file is not empty, and not a text without the content of a trace: a suffix is not enough.

    Args:
        source: the file.
        is_known: its format is known.

    Raises:
        UsageError: the file is one of these.
    """
    from fxtio import exchange, formats

    if not source.head:
        raise UsageError(f"{source.name}: {source.fault or 'the file is empty'}")
    if not (is_known or formats.by_content(source) or exchange.by_content(source.head)) and _is_text(source.head):
        raise UsageError(f"{source.name} is a text file, not a trace")


def format_of(trace: Trace) -> Format:
    """Return the format of a trace."""
    from fxtio.formats import by_name

    return by_name(trace.format)


def report_of(opened: Trace | Imported) -> ReportRoom:
    """Return the room that describes a trace; that of all exchange formats for one of their files."""
    from fxtio.timeline import Timeline

    if not isinstance(opened, Timeline):
        return format_of(opened).report
    from fxtio.exchange import report

    return cast("ReportRoom", report)


def _is_text(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is text: UTF-8 without control characters."""
    text = head.decode("utf-8", "ignore")
    whole = text != "" and len(text.encode()) > len(head) - 4  # the last character may be cut
    return whole and all(c.isprintable() or c in "\t\r\n" for c in text)


class Progress:
    """A line on standard error that shows how far a long task is: on terminals only, and only after half a second.

    Args:
        show: converts a number to text, for example `human_size`.
        hidden: show nothing.
    """

    def __init__(self, show: Callable[[int], str], *, hidden: bool = False) -> None:
        self._show = show
        self._hidden = hidden or sys.stderr is None or not sys.stderr.isatty()
        self._shown = False
        self._started = time.monotonic()
        self._next = self._started + _PROGRESS_AFTER

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int | None) -> None:
        """Update the line: `done` of `total`, or of an unknown total."""
        now = time.monotonic()
        if self._hidden or now < self._next:
            return
        self._next = now + _PROGRESS_EVERY
        self._shown = True
        of = f" of {self._show(total)} ({min(100 * done // total, 100)}%)" if total else ""
        rate = self._show(int(done / (now - self._started)))
        print(f"{_ERASE_LINE}{self._show(done)}{of}, {rate}/s", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            print(_ERASE_LINE, end="", file=sys.stderr, flush=True)
            self._shown = False


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
    return shutil.get_terminal_size((_NO_TERMINAL, _NO_TERMINAL_LINES)).columns


def output_height() -> int:
    """Return the number of lines of the terminal, or the variable LINES; without a terminal 24."""
    return shutil.get_terminal_size((_NO_TERMINAL, _NO_TERMINAL_LINES)).lines


def print_findings(trace: Trace | Timeline, name: str = "") -> int:
    """Print the findings of a trace on standard error: the first ones of each rule, and how many there are in all.

    Before them are hints how the trace could be shown better, if the reading has given some.

    Args:
        trace: the trace, or its timeline.
        name: the name to print before them, for commands that read several traces.

    Returns:
        The exit code.
    """
    findings = trace.findings
    sys.stdout.flush()  # so that a terminal shows the output before the findings
    of = f"{printable(name)}: " if name else ""
    for hint in findings.hints:
        print(f"fxtio: {of}{hint}", file=sys.stderr)
    if not findings:
        return FINE
    print(f"fxtio: {of}{counted(len(findings), 'finding')}", file=sys.stderr)
    shown: Counter[str] = Counter()
    for finding in findings:
        if shown[finding.rule] < SHOWN_PER_RULE:
            print(f"  {printable(str(finding))}", file=sys.stderr)
        shown[finding.rule] += 1
    for rule, number in findings.counts.items():
        if number > SHOWN_PER_RULE:
            print(f"  {number:,} in total [{rule}]", file=sys.stderr)
    return FOUND


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


def print_report(report: Report, trace: Trace | Imported, *, as_json: bool) -> int:
    """Print a report about a trace, as text or as JSON, and on standard error its findings, or what is not shown of it.

    Returns:
        The exit code.
    """
    from fxtio.timeline import Timeline

    if as_json:
        print(json_document(report.json | {"findings": findings_json(trace)}), end="")
    else:
        _print_text(report)
    return print_timeline_findings(trace) if isinstance(trace, Timeline) else print_findings(trace)


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
