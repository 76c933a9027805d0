"""Selections of a part of a trace: a range of times, threads, processes, categories and names, as people write them.

`Moment` is a time as it is on a command line: relative to the start or the end of a trace, a share of it, or of the
wall clock.  `time_range` turns two of them into times of a trace.  `Selection` is what functions take: a range in
nanoseconds, and patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum, auto
from fnmatch import fnmatchcase
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Final

from fxtio.errors import FxtioError, require_type, shown
from fxtio.report import short_seconds

if TYPE_CHECKING:
    from fxtio.io.reading import TraceInfo

NS_PER_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""The nanoseconds of each unit of time that may follow a number; a number without a unit is in seconds."""

EXCLUDED: Final = "!"
"""The first character of a pattern that excludes what it matches."""

_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1
_HINT = "write 1.2s, 350ms, 12us, 10%, -1s (from the end), or a wall-clock time such as 14:03:05"
_NUMBER = re.compile(r"([+-]?)(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}) ?(%|[a-zµμ]{0,3})", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = re.compile(r"\d{1,2}:\d\d")


class SelectionError(FxtioError, ValueError):
    """An error: a text is not a time, or a trace has no such time."""


class Anchor(Enum):
    """The point to which a moment is relative."""

    START = auto()
    """The first event of the trace."""
    END = auto()
    """The last event of the trace."""
    SHARE = auto()
    """The first event; the distance is a share of the whole duration."""
    FROM = auto()
    """The start of the range; only the end of a range can be relative to it."""
    CLOCK = auto()
    """Nothing: it is a wall-clock time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a person writes it.

    Attributes:
        text: the text that was parsed.
        anchor: what the time is relative to.
        distance: nanoseconds from there; a share from 0 to 1 if the anchor is `SHARE`.
        clock: a date and time, or a time of day, if the anchor is `CLOCK`.
    """

    text: str
    anchor: Anchor
    distance: Fraction = Fraction(0)
    clock: datetime | time | None = None

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Parse a time: `1.2s`, `350ms`, `+50ms` (after the start), `-1s` (before the end), `10%`, `14:03:05.2`.

        Units are those of `NS_PER_UNIT`; a number without a unit is in seconds.  Dates and times are as in ISO 8601.

        Raises:
            SelectionError: the text is not a time.
        """
        stripped = text.strip()
        number = _NUMBER.fullmatch(stripped)
        if number is None:
            return cls(text, Anchor.CLOCK, clock=_parse_clock(stripped))
        sign, digits, unit = number[1], Fraction(f"0{number[2]}"), number[3].lower()
        if unit == "%":
            if sign or digits > 100:
                raise SelectionError(f"{shown(text)} is not a share of the trace; write 0% to 100%")
            return cls(text, Anchor.SHARE, digits / 100)
        if unit not in NS_PER_UNIT:
            raise SelectionError(f"{shown(text)} is not a time; the units are {', '.join(filter(None, NS_PER_UNIT))}")
        anchor = {"": Anchor.START, "+": Anchor.FROM, "-": Anchor.END}[sign]
        return cls(text, anchor, digits * NS_PER_UNIT[unit] * (-1 if sign == "-" else 1))


def _parse_clock(text: str) -> datetime | time:
    """Parse a date, a date and time, or a time of day."""
    try:
        if _DATE.match(text):
            return datetime.fromisoformat(text)
        if _CLOCK.match(text):
            return time.fromisoformat(text.rjust(len(text) + (text[1] == ":"), "0"))
    except ValueError as error:
        raise SelectionError(f"{shown(text)} is not a time: {error}") from None
    raise SelectionError(f"{shown(text)} is not a time; {_HINT}")


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a trace.  What is not given does not restrict it.

    A pattern is a glob as `fnmatch` has it, where case matters; what begins with `!` excludes what it matches.

    Attributes:
        start: the start of the range in nanoseconds, as the trace's tables have times.
        end: the end of the range, which is not part of it.
        threads: patterns of threads' names, or numbers: thread ids.
        processes: patterns of processes' names, or numbers: process ids.
        categories: patterns of categories.
        names: patterns of the names of events or functions.

    Raises:
        SelectionError: the range is empty.
        TypeError: a time is not a whole number, or patterns are not a tuple of strings.
    """

    start: int | None = None
    end: int | None = None
    threads: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for moment in (self.start, self.end):
            require_type(
                moment, (Integral, type(None)), "the times of a selection are whole numbers of nanoseconds or None"
            )
        for patterns in (self.threads, self.processes, self.categories, self.names):
            require_type(patterns, (tuple, list), _PATTERNS)
            for pattern in patterns:
                require_type(pattern, (str,), _PATTERNS)
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise SelectionError("the range is empty: its end is not later than its begin")

    @property
    def has_range(self) -> bool:
        """Whether times are restricted."""
        return self.start is not None or self.end is not None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is restricted."""
        return self == EVERYTHING

    def has_thread(self, name: str | None, *numbers: int) -> bool:
        """Return whether a thread is selected.

        Args:
            name: its name; None if it has none.
            numbers: the numbers that identify it, such as its tid or koid.
        """
        return is_selected(self.threads, name, numbers)

    def has_process(self, name: str | None, *numbers: int) -> bool:
        """Return whether a process is selected, as `has_thread`."""
        return is_selected(self.processes, name, numbers)

    def has_category(self, category: str) -> bool:
        """Return whether a category is selected."""
        return is_selected(self.categories, category)

    def has_name(self, name: str) -> bool:
        """Return whether the name of an event or a function is selected."""
        return is_selected(self.names, name)


_PATTERNS = "the patterns of a selection are tuples of strings"
EVERYTHING: Final = Selection()
"""The whole of any trace."""


def is_selected(patterns: Iterable[str], name: str | None, numbers: Iterable[int] = ()) -> bool:
    """Return whether patterns select something: one of them matches, or all exclude, and none that excludes matches.

    Args:
        patterns: the patterns; without any, everything is selected.
        name: the name of the thing; None if it has none.
        numbers: numbers that identify it, one of which a pattern of digits must equal.  Without any, a pattern of
            digits is one of names, too.
    """
    included = True
    is_first = True
    decimals = {str(number) for number in numbers}
    for pattern in patterns:
        excludes = pattern.startswith(EXCLUDED)
        text = pattern[1:] if excludes else pattern
        if decimals and is_number(pattern):
            matches = text in decimals
        else:
            matches = name is not None and (text == name or fnmatchcase(name, text))
        if excludes and matches:
            return False
        if not excludes:
            included = matches or (included and not is_first)
            is_first = False
    return included


def is_number(pattern: str) -> bool:
    """Return whether a pattern is a number, such as a thread id."""
    text = pattern.removeprefix(EXCLUDED)
    return text.isascii() and text.isdecimal()


def time_range(begin: Moment | None, end: Moment | None, info: TraceInfo) -> tuple[int | None, int | None]:
    """Return the start and the end of a range in the nanoseconds of a trace.

    Args:
        begin: the start; None for that of the trace.
        end: the end; None for that of the trace.
        info: the summary of the trace.

    Returns:
        The start, and the end, which is not part of the range; None where the trace is not restricted.

    Raises:
        SelectionError: the trace has no times, or no wall-clock time; the range is empty, or not within the trace.
    """
    if begin is None and end is None:
        return None, None
    if info.start is None or info.end is None:
        raise SelectionError(f"{info.name} has no times, so no range of it can be selected")
    if begin is not None and begin.anchor is Anchor.FROM:
        raise SelectionError(f"{begin.text} is relative to the start of the range, so only the end can be given so")
    first = None if begin is None else _resolve(begin, info, info.start)
    last = None if end is None else _resolve(end, info, info.start if first is None else first)
    if begin is not None and end is not None and first is not None and last is not None and last <= first:
        raise SelectionError(f"the range is empty: {end.text} is not later than {begin.text}")
    lasts = f"; it lasts {short_seconds(info.end - info.start)} s"
    if begin is not None and first is not None and first > info.end:
        raise SelectionError(f"{begin.text} is after the end of {info.name}{lasts}")
    if end is not None and last is not None and last <= info.start:
        raise SelectionError(f"{end.text} is not after the start of {info.name}{lasts}")
    return first, last


def _resolve(moment: Moment, info: TraceInfo, begin: int) -> int:
    """Return the time of a moment in the nanoseconds of the trace, rounded down."""
    assert info.start is not None and info.end is not None
    behind = info.end + 1  # so that a range to the end has the last event
    if moment.anchor is Anchor.CLOCK:
        return _bounded(_of_clock(moment, info))
    if moment.anchor is Anchor.SHARE:
        return _bounded(info.start + moment.distance * (behind - info.start))
    origin = {Anchor.START: info.start, Anchor.END: behind, Anchor.FROM: begin}[moment.anchor]
    return _bounded(origin + moment.distance)


def _bounded(exact: Fraction | int) -> int:
    return max(_EARLIEST, min(int(exact // 1), _LATEST))


def _of_clock(moment: Moment, info: TraceInfo) -> int:
    """Return a wall-clock time in the nanoseconds of the trace.

    A time of day is one of the day on which the trace starts, or of the next day if only that one is within the trace.
    """
    origin, at, clock = info.started_at, info.started_at_time, moment.clock
    if origin is None or at is None:
        raise SelectionError(f"{info.name} does not tell its wall-clock time; give {moment.text} relative to its start")
    assert info.start is not None and info.end is not None
    if clock is not None and clock.tzinfo is None:
        clock = clock.replace(tzinfo=origin.tzinfo)
    elif origin.tzinfo is None:
        raise SelectionError(f"{info.name} tells its local time only; write {moment.text} without a time zone")
    if isinstance(clock, datetime):
        return at + _ns(clock - origin)
    assert clock is not None
    day = _day_of(origin, info.start - at, clock)
    same, next_day = (at + _ns(datetime.combine(day + timedelta(days), clock) - origin) for days in (0, 1))
    return next_day if same < info.start and next_day <= info.end else same


def _day_of(origin: datetime, after: int, clock: time) -> date:
    """Return the date at a distance (in nanoseconds) from a wall-clock time, in the time zone of another one."""
    start = origin + timedelta(microseconds=after // 1000)
    return (start if clock.tzinfo is None else start.astimezone(clock.tzinfo)).date()


def _ns(difference: timedelta) -> int:
    return difference // timedelta(microseconds=1) * 1000
