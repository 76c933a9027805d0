"""The header as a whole, which the meaning of the body depends on: its version, and the address of the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fxtio.codec.integers import MAX_INT64, MAX_UINT64
from fxtio.dcpi.layout import KEYWORDS
from fxtio.dcpi.records import Line
from fxtio.errors import EncodeError

MAX_ADDRESS = MAX_UINT64
MAX_NUMBER = MAX_INT64
"""The largest decimal number that is used; larger ones are faults."""

_MAX_DIGITS = 19  # decimal digits of `MAX_NUMBER`; longer numbers are not converted

_PIVOT = 69  # two digits of a year from here on are of the 20th century, as in POSIX


@dataclass(slots=True)
class Header:
    """The lines of a header by their words.

    Attributes:
        lines: all lines, in the order of the file.
        offsets: the byte offset of each line.
        end: the byte offset of the end of the header.
        has_returns: whether every line ends with CRLF, as after a transfer as text; the carriage return is part of the
            value in `lines`, but of no other value.
    """

    lines: list[Line] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0
    has_returns: bool = False

    def add(self, line: Line, offset: int) -> None:
        """Append a line."""
        self.lines.append(line)
        self.offsets.append(offset)

    def get(self, word: str) -> str | None:
        """Return the value of the first line with this word, or None."""
        return next((self.value_of(line) for line in self.lines if line.word == word), None)

    def value_of(self, line: Line) -> str:
        """Return the value of one of the lines."""
        return line.value.removesuffix("\r") if self.has_returns else line.value

    def _valid(self, word: str) -> str | None:
        value = self.get(word)
        return value if value is not None and KEYWORDS[word].syntax.pattern.fullmatch(value) else None

    @property
    def major(self) -> int | None:
        """The major version, `MAX_NUMBER` for a larger one, or None if no line gives it."""
        value = self._valid("version")
        if value is None:
            return None
        number = parse_decimal(value.removeprefix("pdb-").partition(".")[0])
        return MAX_NUMBER if number is None else number

    @property
    def text_start(self) -> int | None:
        """The address of the text, or None if no line gives one that fits 64 bits."""
        value = self._valid("tstart")
        number = None if value is None else int(value, 16)
        return number if number is not None and number <= MAX_ADDRESS else None

    @property
    def text_size(self) -> int | None:
        """The size of the text in bytes, or None."""
        return self._number("tsize")

    @property
    def period(self) -> int | None:
        """The number of events from one sample to the next, or None."""
        return self._number("period")

    @property
    def epoch(self) -> datetime | None:
        """The start of the epoch in UTC, or None if no line gives a valid date."""
        value = self._valid("epoch")
        return None if value is None else parse_time(value)

    def _number(self, word: str) -> int | None:
        value = self._valid(word)
        return None if value is None else parse_decimal(value)


def parse_decimal(digits: str) -> int | None:
    """Convert decimal digits to a number; None if it is above `MAX_NUMBER`."""
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= _MAX_DIGITS else MAX_NUMBER + 1
    return number if number <= MAX_NUMBER else None


def parse_time(digits: str) -> datetime | None:
    """Convert a time of the header to a datetime in UTC, or None if there is no such date.

    Args:
        digits: 10 digits YYMMDDHHMM (years from 1969 to 2068), 12 digits YYYYMMDDHHMM, or 14 with seconds.
    """
    if len(digits) == 10:
        digits = f"{'19' if int(digits[:2]) >= _PIVOT else '20'}{digits}"
    month, day, hour, minute, second = (int(digits[at : at + 2] or 0) for at in range(4, 14, 2))
    try:
        return datetime(int(digits[:4]), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def format_time(time: datetime) -> str:
    """Convert a datetime to digits of the header; one without a zone is in UTC.

    Returns:
        10 digits; 12 where two digits of a year would mean another century; 14 where there are seconds.

    Raises:
        EncodeError: it is finer than a second.
    """
    utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    if utc.microsecond:
        raise EncodeError(f"{time} is finer than a second", "epoch")
    digits = f"{utc.year:04}{utc:%m%d%H%M}"
    if utc.second:
        return f"{digits}{utc:%S}"
    is_short = _PIVOT + 1900 <= utc.year < _PIVOT + 2000
    return digits[2 if is_short else 0 :]


def sorted_lines(values: Iterable[tuple[str, str]]) -> list[Line]:
    """Convert pairs of a word and a value to lines in the specification's order, with unknown words last."""
    order = {word: index for index, word in enumerate(KEYWORDS)}
    lines = [Line(word, value) for word, value in values]
    return sorted(lines, key=lambda line: order.get(line.word, len(order)))
