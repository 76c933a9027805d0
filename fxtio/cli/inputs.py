"""The arguments that commands share, and what they stand for: numbers, times, traces, parts of traces.

Neither this module nor the top level of a command's module imports the readers and writers, which load numpy.  A
command imports them when it runs, so that `fxtio --help` is quick.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fxtio.cli.console import Progress, say
from fxtio.errors import FxtioError, shown
from fxtio.report import human_size, short_seconds

if TYPE_CHECKING:
    from fxtio.exchange.opening import Imported
    from fxtio.formats import Format, ReportRoom, Trace
    from fxtio.io.source import Source
    from fxtio.selection import Moment, Selection
    from fxtio.timeline import Timeline
    from fxtio.timeline.together import Placed

OpenedT = TypeVar("OpenedT", bound="Trace | Timeline")
SEPARATOR = "\0"
"""Stands for the argument `--` of `fxtio diff` among its traces; no file has this name."""
ALL = "all"
"""The text that stands for any number of rows."""
_UNIT = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNIT = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_MAX_DIGITS = 100
"""This many digits of a number are looked at; it is too large if it has that many."""
_LAST_OF_NUMBER = "0123456789."
_HINT = "write 1.2s, 350ms, 12us or 800ns"


class UsageError(FxtioError):
    """An error for arguments that contradict each other, or an input that is not a trace."""


# ---- Declarations.


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


def add_offsets(parser: ArgumentParser) -> None:
    """Add the option `--offset` of a command that lays traces beside each other."""
    help_ = (
        "lay FILE beside the first trace: TIME is what to add to its times, for example +1.5ms; "
        "without it, by a clock that both know; may be repeated"
    )
    parser.add_argument("--offset", action="append", default=[], type=_offset, metavar="FILE=TIME", help=help_)


def _offset(text: str) -> tuple[str, int]:
    """Parse the name of a file, and a time with or without a sign, in nanoseconds."""
    file, mark, time = text.rpartition("=")
    if not mark or not file:
        raise ArgumentTypeError(f"{shown(text)} is not FILE=TIME, for example app.json=+1.5ms")
    return file, (-1 if time[:1] == "-" else 1) * duration(time.removeprefix("+").removeprefix("-"))


def placed(timelines: Sequence[Timeline], options: Namespace) -> list[Placed]:
    """Lay the traces of the argument FILE beside each other, by clocks or by the option `--offset`.

    Raises:
        UsageError: the option names another file, or the first one.
        AlignmentError: there is no way to lay one beside the others.
    """
    from fxtio.timeline.together import AlignmentError, placed

    for file, _ in options.offset:
        if file not in options.files[1:]:
            others = ", ".join(options.files[1:])
            raise UsageError(
                f"--offset {file}: this is for the traces after the first one: {others or 'there are none'}"
            )
    try:
        offsets = dict(options.offset)
        numbers = [number for number, file in enumerate(options.files) if number and file in offsets]
        return placed(timelines, {number: offsets[options.files[number]] for number in numbers})
    except AlignmentError as error:
        raise UsageError(f"{error} (--offset FILE=TIME)") from None


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refuse_two_streams(files: Sequence[str]) -> None:
    """Make sure that at most one of some traces comes from standard input.

    Raises:
        UsageError: several are `-`.
    """
    if files.count("-") > 1:
        raise UsageError("only one of the traces can come from standard input")


def refuse_terminal(target: str) -> None:
    """Make sure that a trace does not go to a terminal.

    Raises:
        UsageError: it would.
    """
    if target == "-" and sys.stdout.isatty():
        raise UsageError("a trace is not written to a terminal; redirect standard output")


def check_output(target: str, trace: Trace | Imported) -> None:
    """Check that a trace of the same format as another one can be written to a target.

    Raises:
        UsageError: the target is a terminal, or named like a trace of another format.
    """
    from fxtio import exchange, formats

    refuse_terminal(target)
    other = exchange.by_suffix(target) or formats.by_suffix(target)
    if other is not None and other.name != trace.format:
        raise UsageError(f"{target} is named like a trace in the format {other.name}; {trace.name} is {trace.format}")


def add_examples(parser: ArgumentParser, *examples: str) -> None:
    """Show examples at the end of a command's help."""
    parser.epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)])


def add_rows(parser: ArgumentParser, rows: str, default: int = 20) -> None:
    """Add the options for the selection, the number of rows (which are named in the plural), and JSON and CSV."""
    help_n = f"print at most N {rows}; `{ALL}` prints all of them (default: {default})"
    parser.add_argument("-n", "--limit", type=limit, default=default, metavar="N", help=help_n)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with times in nanoseconds")
    form.add_argument("--csv", action="store_true", help="print CSV, with times in nanoseconds")
    add_selection(parser)


_PATTERN_OPTIONS = (
    ("thread", "threads", "threads with this name or number (tid, koid)"),
    ("process", "processes", "processes with this name or number (pid, koid)"),
    ("category", "categories", "events of this category"),
    ("name", "names", "events or functions with this name"),
)


def add_selection(parser: ArgumentParser, *ends: str) -> None:
    """Add the options that select a part of a trace, see `selection_of`.

    `ends` are the options for the end of a range of times, `--until` and `--to` by default.
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


def add_simplification(parser: ArgumentParser, description: str) -> Any:
    """Add the options that leave out slices, see `fxtio.exchange.filter.Simplification`; return their group."""
    group = parser.add_argument_group("simplification", description)
    min_help = "leave out slices shorter than this, with a unit: 10us"
    group.add_argument("--min-duration", type=duration, default=0, metavar="TIME", help=min_help)
    depth_help = "leave out slices with N or more slices around them"
    group.add_argument("--max-depth", type=count, default=None, metavar="N", help=depth_help)
    return group


# ---- Values, for the argument `type` of a parser: other texts raise `ArgumentTypeError`.


def count(text: str) -> int:
    """Parse a positive number: `1000`, `10k`, `2M`."""
    return _number(text, _UNIT, "")


def size(text: str) -> int:
    """Parse a positive number of bytes: `4096`, `10MB`, `1GiB`."""
    return _number(text, _UNIT | _BINARY_UNIT, "b")


def natural(text: str) -> int:
    """Parse a number of 0 or more: decimal, also with commas as in findings, or `0x78`."""
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
    """Return the number that a text stands for, if it fits 64 bits."""
    if number >= 1 << 63:
        raise ArgumentTypeError(f"{shown(text)} is too large")
    return number


def limit(text: str) -> int | None:
    """Parse a number of rows, None for `all` of them."""
    try:
        return None if text == ALL else count(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, nor is it `{ALL}`") from None


def duration(text: str) -> int:
    """Parse a duration, `5ms`; return nanoseconds.  Only 0 needs no unit."""
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
    """Parse a share, `1%` or `0.01`."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{shown(text)} is not a share; write 1% or 0.01")
    return value


def moment(text: str) -> Moment:
    """Parse a time, see `fxtio.selection.Moment`."""
    from fxtio.selection import Moment, SelectionError

    try:
        return Moment.parse(text)
    except SelectionError as error:
        raise ArgumentTypeError(str(error)) from None


def with_joined_times(arguments: Sequence[str]) -> list[str]:
    """Return arguments such that argparse takes `--from -1s`, a time before the end, as it takes `--from=-1s`."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--from", "--until", "--to") and argument[:1] == "-" and argument[1:2].isdigit():
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


# ---- Traces.


@contextmanager
def open_trace(options: Namespace, *, prints: bool = False) -> Iterator[Trace]:
    """Open the trace that the argument FILE names, for a `with` block, see `_opened`.

    If the command prints lines while it reads, no progress is shown where they go to a terminal.
    """
    from fxtio.exchange.opening import open_trace

    with _opened(open_trace, options.file, options.format, prints=prints) as trace:
        yield trace


@contextmanager
def open_any(options: Namespace) -> Iterator[Trace | Imported]:
    """Open the trace, or the file of an exchange format, that the argument FILE names, for a `with` block."""
    from fxtio.exchange.opening import open_any

    with _opened(open_any, options.file, options.format) as opened:
        yield opened


@contextmanager
def opened_timeline(file: str, format: str | None = None) -> Iterator[Timeline]:
    """Open a trace, or a file of an exchange format, as a timeline, for a `with` block, see `_opened`."""
    from fxtio.exchange.opening import open_timeline

    with _opened(open_timeline, file, format) as timeline:
        yield timeline


@contextmanager
def _opened(
    opener: Callable[..., OpenedT], file: str, format: str | None, *, prints: bool = False
) -> Iterator[OpenedT]:
    """Open a file by a function of `fxtio.exchange.opening`, with a line that shows the progress, for a `with` block.

    Raises:
        UsageError: the file is empty, a text file, or a lake.
        FormatError: the file is not of a format that the function opens.
        OSError: the file cannot be opened.
    """
    from fxtio.io.source import is_directory, open_source

    if file == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    if is_directory(file):
        refuse_lake(file)
        source = None
    else:
        source = open_source(file)
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
            yield opened


def refuse_lake(directory: str) -> None:
    """Refuse a directory that is a lake, and say what asks lakes.

    Raises:
        UsageError: the directory is a lake.
    """
    from fxtio.lake.layout import is_lake

    if is_lake(directory):
        raise UsageError(f"{directory} is a lake of traces; `fxtio lake top`, `find` and so on ask it")


def _check_content(source: Source, *, is_known: bool) -> None:
    """Check that a file is not empty, and not a text without the content of a trace: a suffix is not enough.

    Raises:
        UsageError: the file is one of these, and its format is not given.
    """
    from fxtio import exchange, formats

    if not source.head:
        raise UsageError(f"{source.name}: {source.fault or 'the file is empty'}")
    if not (is_known or formats.by_content(source) or exchange.by_content(source.head)) and _is_text(source.head):
        raise UsageError(f"{source.name} is a text file, not a trace")


def _is_text(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is text: UTF-8 without control characters."""
    text = head.decode("utf-8", "ignore")
    whole = text != "" and len(text.encode()) > len(head) - 4  # the last character may be cut
    return whole and all(c.isprintable() or c in "\t\r\n" for c in text)


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


# ---- Parts of traces.


def selection_of(options: Namespace, opened: Trace | Timeline) -> Selection:
    """Return what the options of `add_selection` select.

    For a range of times the trace is read once, unless it is packed: of such a trace only what the range needs is read
    from now on.  Standard input can then be read again, and also for the names of threads and processes.

    Raises:
        SelectionError: the trace has no such times.
    """
    from fxtio.readers import FileReader, times_of
    from fxtio.selection import Selection, time_range
    from fxtio.timeline import Timeline

    begin = end = None
    has_range = options.begin is not None or options.end is not None
    if isinstance(opened, FileReader) and (has_range or options.threads or options.processes):
        opened.reads_again = True
    if has_range:
        begin, end = time_range(options.begin, options.end, times_of(opened))
        trace = opened.trace if isinstance(opened, Timeline) else opened
        if isinstance(trace, FileReader):
            trace.narrow(begin, end)
    return Selection(begin, end, **{name: tuple(getattr(options, name)) for _, name, _ in _PATTERN_OPTIONS})


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


def nothing_of(opened: Trace | Timeline, noun: str, selection: Selection) -> str:
    """Return the sentence that nothing of a kind is selected, and what range of times there is.

    It is empty without a selection.  The trace is still open.
    """
    if selection.is_everything:
        return ""
    from fxtio.readers import times_of

    patterns = [
        f"--{option} {pattern}"
        for option, attribute, _ in _PATTERN_OPTIONS
        for pattern in getattr(selection, attribute)
    ]
    text = f"none of the {noun} of {opened.name} is selected"
    if patterns:
        text += f" by {' '.join(patterns)}"
    summary = times_of(opened) if selection.has_range else None
    if summary is not None and summary.start is not None and summary.end is not None:
        origin, lasts = summary.start, summary.end - summary.start
        begin = 0 if selection.start is None else selection.start - origin
        end = lasts if selection.end is None else selection.end - origin
        text += f" in the range from {short_seconds(begin)} s to {short_seconds(end)} s"
        text += f"; the trace is from 0 s to {short_seconds(lasts)} s"
    return text


def absence(noun: str, selection: Selection) -> str:
    """Return the sentence that a trace has no rows of some kind, or that none of them is selected."""
    return f"the trace has no {noun}" if selection.is_everything else f"the trace has no {noun} that are selected"


# ---- Commands that show more.


def suggest_open(file: str, name: str | None, *, after: int | None = None, options: Namespace | None = None) -> None:
    """Print on standard error, if that is a terminal, the command that shows a slice, of a part that options select.

    Nothing is printed for standard input, nor for names that cannot be typed.  The slice is the one at a time in
    nanoseconds after the first event, else the longest.
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
    """Print, as `suggest_open` does, the command that writes a page about the same part of the trace."""
    _suggest("share", options.file, ["report", options.file, *selection_arguments(options)])


def _suggest(purpose: str, file: str, words: list[str]) -> None:
    command = shlex.join(["fxtio", *words])
    if sys.stderr.isatty() and file != "-" and command.isprintable():
        say(f"to {purpose} it: {command}")


def pattern_of(name: str) -> str:
    """Return a pattern that matches a name, and as few others as possible."""
    escaped = re.sub(r"([*?[])", r"[\1]", name)
    return f"?{escaped[1:]}" if escaped.startswith("!") else escaped
