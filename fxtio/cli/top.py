"""The command `fxtio top`: rank functions, threads, arguments and others by their time."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxtio.cli import blocking, console, inputs
from fxtio.cli.bars import bar_width
from fxtio.errors import FormatError, add_file_name
from fxtio.report import counted, printable, short_duration
from fxtio.shared_folders import open_regular

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.table import Table
    from fxtio.timeline.answers import Answer
    from fxtio.timeline.answers.top import Slices
    from fxtio.timeline.parts import Registry, TimelinePart

HELP = "Show what took the time: calls, self and total time, percentiles by function, thread or argument"

_SORTS = ("self", "total", "calls", "waiting", "median", "p99", "max")
_CONTENTS = ("slices", "samples", "allocations", "sched")
_NOUNS = {"slices": "slices", "samples": "samples", "allocations": "allocations", "sched": "times on a processor"}
_VALUES = ("total", "self", "waiting", "min", "median", "p99", "max")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    inputs.add_input(parser)
    by_help = "group by name, category, thread, process, track, type (of allocations), or arg:NAME (default: name)"
    parser.add_argument("--by", default="name", metavar="WHAT", help=by_help)
    sort_help = f"sort by one of {', '.join(_SORTS)} (default: self)"
    parser.add_argument("--sort", choices=_SORTS, default="self", metavar="COLUMN", help=sort_help)
    what_help = (
        f"rank {', '.join(_CONTENTS[:-1])}, or sched: times on a processor (default: the first that the trace has)"
    )
    parser.add_argument("--what", choices=_CONTENTS, metavar="CONTENT", help=what_help)
    parser.add_argument("--unit", metavar="UNIT", help="the unit of samples, if there are several (default: the most)")
    waiting_help = "rank what only waits as well, such as time.sleep, and count waiting as self time"
    parser.add_argument("--waiting", action="store_true", help=waiting_help)
    blocking_help = "show what held an event loop of asyncio that long (50ms unless given), and how late the loop was"
    parser.add_argument(
        blocking.OPTION, nargs="?", type=_positive, const=blocking.LEAST, metavar="TIME", help=blocking_help
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="follow a recording while it is written, until it ends or Ctrl-C; FILE may be a process id",
    )
    interval_help = "show what --live has read so often (default: 1s)"
    parser.add_argument("--interval", type=_positive, default=1_000_000_000, metavar="TIME", help=interval_help)
    inputs.add_rows(parser, "rows")
    inputs.add_examples(
        parser,
        "fxtio top app.fxt",
        "fxtio top --sort p99 --name 'GET *' app.fxt",
        "fxtio top --by arg:user --from 1.2s --to 1.4s app.fxt",
        "fxtio top --by thread --json app.fxt",
        "fxtio top --blocking 100ms app.fxt",
        "fxtio top --live 4711",
    )


def _positive(text: str) -> int:
    time = inputs.duration(text)
    if not time:
        raise ArgumentTypeError("the time is greater than 0")
    return time


def _refuse(reason: str, given: list[str]) -> None:
    """Refuse the first of the options that are given, and make no sense for this reason."""
    if given:
        raise inputs.UsageError(f"{reason}; it does not go with {given[0].partition('=')[0]}")


def run(options: Namespace) -> int:
    """Print the ranking and return the exit code."""
    if options.blocking is not None:
        given = [name for name in ("live", "waiting", "what", "unit") if getattr(options, name)]
        given += [name for name, default in (("by", "name"), ("sort", "self")) if getattr(options, name) != default]
        _refuse("--blocking ranks steps of event loops", [f"--{name}" for name in given])
        return blocking.run(options)
    if options.live:
        return _run_live(options)
    from fxtio.timeline.answers import top

    with inputs.opened_timeline(options.file, options.format) as timeline:
        selection = inputs.selection_of(options, timeline)
        answer = top(
            timeline,
            by=options.by,
            sort=options.sort,
            limit=options.limit,
            what=options.what,
            unit=options.unit,
            selection=selection,
            waiting=options.waiting,
        )
        noun = _NOUNS[answer.what]
        if options.by.startswith("arg:"):
            noun += f" with the argument {options.by[4:]!r}"
        sentence = "" if answer.table.num_rows else inputs.nothing_of(timeline, noun, selection)
    if not console.print_answer_rows(options, timeline, answer):
        _print(options, timeline.name, answer, selection)
    code = console.print_end(timeline, sentence)
    if (options.by, answer.what) == ("name", "slices") and answer.table.num_rows:
        inputs.suggest_open(options.file, answer.table["name"][0], options=options)
    if answer.table.num_rows:
        inputs.suggest_report(options)
    return code


def _run_live(options: Namespace) -> int:
    """Show the ranking of a recording that grows."""
    from fxtio.selection import Selection

    given = [f"--{name}" for name in ("json", "csv", "unit", "what") if getattr(options, name)]
    _refuse("--live shows all slices of a recording", [*given, *inputs.selection_arguments(options)])
    with contextlib.suppress(KeyboardInterrupt):
        follow(options, lambda answer: _print(options, str(options.file), answer, Selection()))
    return console.FINE


def _print(options: Namespace, name: str, answer: Answer, selection: Selection) -> None:
    shown = answer.table
    unit = "" if answer.unit in ("ns", "samples") else f", in {answer.unit}"
    print(printable(f"{name}: {_NOUNS[answer.what]} by {options.by}, sorted by {options.sort}{unit}"))
    notes = list(answer.notes)
    if shown.num_rows:
        print()
        sorted_by = shown[options.sort]
        width = bar_width(console.output_width()) if sys.stdout.isatty() else 0
        shares = (sorted_by / max(int(sorted_by.max()), 1)).tolist()
        console.print_answer(answer, _VALUES, header=options.by, shares=shares, width=width)
        if answer.more:
            print(f"and {answer.more:,} more (-n all)")
    else:
        has = f", or none with the argument {options.by[4:]!r}" if options.by.startswith("arg:") else ""
        notes.append(inputs.absence(_NOUNS[answer.what], selection) + has)
    if answer.error:
        notes.append(f"median and p99 are rounded: they may be off by {answer.error:.1%}")
    console.print_notes(notes)


# ---- `--live`: what a program does at present, from the recording that it writes.
# The same code ranks what was read so far; at the end it has read what `fxtio top` reads.

SHARE = 0.01
"""The part of the time of a processor that is used at most, unless there is too much to read."""

_LONGEST_PAUSE_S = 5.0
_STEP_S = 0.1
_NS = 1_000_000_000
_CLEAR = "\x1b[H\x1b[J"
_SHOWN_OPEN = 5
_IN_LINE = 3


def open_recording(target: str) -> tuple[str, int]:
    """Open the recording that a process writes, or one with a name; return its name, and a descriptor.

    Raises:
        FxtioError: the process records nothing, or cannot be looked at.
        OSError: there is no such file.
    """
    from fxtio.selection import is_number

    if is_number(target) and not Path(target).exists():
        from fxtio.tracer.attach_target import Process

        recordings = Process(int(target)).recordings()
        if not recordings:
            raise inputs.UsageError(f"process {target} records nothing; `fxtio attach {target}` records it")
        return str(recordings[0].path), open_regular(recordings[0].descriptor)
    return target, open_regular(target)


def follow(options: Namespace, done: Callable[[Answer], None]) -> None:
    """Show what happens in a recording until it ends; then `done` takes the answer."""
    from fxtio.fxt import timeline as room
    from fxtio.fxt.live_file import HEAD_BYTES
    from fxtio.fxt.tail import LiveTrace
    from fxtio.tracer.archive import Front, is_alive

    name, fd = open_recording(options.file)
    try:
        front = Front.parse(os.pread(fd, HEAD_BYTES, 0))
        view = _View(options, name, lambda: front is None or not is_alive(front.pid))
        try:
            view.follow(partial(room.parts, LiveTrace(name, fd, view.wait)), done)
        except FormatError:
            advice = f"`fxtio top {shlex.quote(name)}` shows a finished one"
            raise inputs.UsageError(f"{name} is not a recording of fxtio, or it is finished; {advice}") from None
        except OSError as error:
            add_file_name(error, name)
            raise
    finally:
        os.close(fd)


class _View:
    """The display of a recording: its rates, self times and open spans, refreshed.

    `has_ended` tells whether the process of the recording has.
    """

    def __init__(self, options: Namespace, name: str, has_ended: Callable[[], bool]) -> None:
        self._options = options
        self._name = name
        self._has_ended = has_ended
        self._interval = options.interval / _NS
        self._is_terminal = sys.stdout.isatty()
        self._slices: Slices
        self._registry: Registry
        self._before: dict[str, tuple[int, int]] = {}
        self._shown_until: int | None = None  # the first time, what was there before has been read as well
        self._read_at = time.time_ns()  # what had happened by then has been read when it is shown
        self._earliest = 0  # the earliest time of what was read since
        self._used = 0.0
        self._readings = 0

    def follow(self, parts: Any, done: Callable[[Answer], None]) -> None:
        """Read a recording to its end, and show what it has meanwhile."""
        from fxtio.timeline import Timeline

        timeline = Timeline(self._name, "fxt", partial(self._noted, parts))
        timeline.fold(self._begin, "slices", *(["args"] if self._options.by.startswith("arg:") else []))
        if self._is_terminal:
            print(_CLEAR, end="")
        done(self._slices.answer(self._registry).first(self._options.sort, self._options.limit))

    def _noted(
        self, parts: Callable[[Registry, Set[str]], Iterator[TimelinePart]], *args: Any
    ) -> Iterator[TimelinePart]:
        """Yield the parts of the recording, and note the earliest time of what is new.

        Where the clock of this process is ahead of that of the recording, open slices were shown with time that belongs
        to what came after them.
        """
        for part in parts(*args):
            if part.steps is not None and len(part.steps.time):
                self._earliest = min(self._earliest, int(part.steps.time.min()))
            yield part

    def _begin(self, registry: Registry) -> Slices:
        from fxtio.timeline.answers.top import Slices

        self._readings += 1
        self._registry = registry
        by, waiting = self._options.by, self._options.waiting
        self._slices = Slices(registry, by=by, waiting=waiting)
        return self._slices

    def wait(self) -> bool:
        """Show what was read, and wait; return whether the process had ended before, so that all of it can be read."""
        if self._has_ended():
            return True
        if self._readings == 1:  # later readings deliver only at their end
            self._show()
        before, self._used = self._used, time.process_time()
        used = self._used - before if before else 0.0
        end = time.monotonic() + min(max(self._interval, used / SHARE), max(self._interval, _LONGEST_PAUSE_S))
        while (left := end - time.monotonic()) > 0 and not self._has_ended():
            time.sleep(min(left, _STEP_S))
        self._read_at = time.time_ns()
        return False

    def _show(self) -> None:
        wall_clock, before = self._registry.wall_clock, self._shown_until
        read_until = 0 if wall_clock is None else self._read_at - wall_clock
        # Shares are those of the time of the events, however late they are read.
        until, table = self._slices.so_far(self._registry, max(read_until, before or 0))
        self._shown_until = until
        seconds = 0.0 if before is None else (until - before) / _NS
        totals = dict(
            zip(table["name"], zip(table["calls"].tolist(), table["busy"].tolist(), strict=True), strict=True)
        )
        changes = {name: _minus(values, self._before.get(name, (0, 0))) for name, values in totals.items()}
        self._before = totals
        calls = sum(count for count, _ in totals.values())
        rate = sum(count for count, _ in changes.values()) / seconds if seconds else 0.0
        whole = 0.0 if before is None else (until - min(before, self._earliest)) / _NS
        self._earliest = until
        spans = self._open_spans()
        summary = f"{time.strftime('%H:%M:%S')}  {counted(calls, 'call')}, {rate:,.0f}/s, {len(spans)} open"
        if self._is_terminal:
            self._print_screen(summary, table, changes, (seconds, whole), spans)
        else:
            busy = sorted(((change[1], name) for name, change in changes.items() if change[1] > 0), reverse=True)
            parts = [f"{printable(name)} {_share(own, whole)}" for own, name in busy[:_IN_LINE] if seconds]
            oldest = f" (longest {printable(spans[0][1])} {short_duration(spans[0][0])})" if spans else ""
            print(f"{summary}{oldest}{'; self: ' if parts else ''}{', '.join(parts)}", flush=True)

    def _print_screen(
        self,
        summary: str,
        table: Table,
        changes: dict[str, tuple[int, int]],
        passed: tuple[float, float],
        spans: list[tuple[int, str, str]],
    ) -> None:
        """Show the ranking and the open spans on a terminal.

        Args:
            summary: the first line.
            table: the groups.
            changes: by name the calls and the self time since the last refresh.
            passed: the seconds since then, and those of which self times are shares; 0 at first.
            spans: the open spans.
        """
        import numpy as np

        seconds, whole = passed
        rows = max(shutil.get_terminal_size().lines - _SHOWN_OPEN - 8, 5)
        by = self._options.sort if self._options.sort in table else "self"
        shown = table.take(np.argsort(-table[by], kind="stable")[: min(rows, self._options.limit or rows)])
        lines = [
            [
                row["calls"],
                f"{changes[row['name']][0] / seconds:,.0f}" if seconds else "",
                short_duration(row["total"]),
                short_duration(row["self"]),
                _share(max(changes[row["name"]][1], 0), whole),
                short_duration(row["max"]),
                row["name"],
            ]
            for row in shown.rows()
        ]
        print(_CLEAR + printable(f"{self._name}  {summary}"))
        print()
        console.print_table([">calls", ">calls/s", ">total", ">self", ">self/s", ">longest", self._options.by], lines)
        if spans:
            print()
            console.print_table(
                [">open for", "name", "track"], [[short_duration(age), *words] for age, *words in spans[:_SHOWN_OPEN]]
            )
            if len(spans) > _SHOWN_OPEN:
                print(f"and {len(spans) - _SHOWN_OPEN:,} more")
        sys.stdout.flush()

    def _open_spans(self) -> list[tuple[int, str, str]]:
        """Return how long each open span lasts so far in nanoseconds, its name and its track; the longest first."""
        from fxtio.timeline.answers.answer import Labels

        table = self._registry.open_slices()
        wall_clock = self._registry.wall_clock
        if not table.num_rows or wall_clock is None:
            return []
        now = time.time_ns() - wall_clock
        labels = Labels(self._registry.tables())
        rows = [
            (max(now - row["start"], 0), row["name"] or "", labels.track(row["track"]))
            for row in table.rows()
            if row["end_event"] < 0
        ]
        return sorted(rows, key=lambda row: -row[0])


def _minus(values: tuple[int, int], before: tuple[int, int]) -> tuple[int, int]:
    return values[0] - before[0], values[1] - before[1]


def _share(own: int, seconds: float) -> str:
    """Return a self time as a share of the time in which it passed."""
    return f"{own / seconds / _NS:.1%}" if seconds else ""
