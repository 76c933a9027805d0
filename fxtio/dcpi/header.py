"""The header as a whole: what its lines say together, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fxtio.dcpi.layout import KEYWORDS, STEP, WORD_TYPE
from fxtio.dcpi.records import Line
from fxtio.finding import Findings, Level

_MAX_ADDRESS = 2**64 - 1
_PIVOT = 69  # two digits of a year from here on are of the 20th century, as POSIX has it
_MAX_SIZE = 2**63 - 1


@dataclass(slots=True)
class Header:
    """The lines of a header by their words.

    Attributes:
        lines: all lines, in the order of the file.
        places: the byte offset of each of them.
        end: the byte offset behind the header.
    """

    lines: list[Line] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    end: int = 0

    def add(self, line: Line, offset: int) -> None:
        """Take in the next line."""
        self.lines.append(line)
        self.places.append(offset)

    def get(self, word: str) -> str | None:
        """The value of the first line with this word, or None."""
        return next((line.value for line in self.lines if line.word == word), None)

    def _valid(self, word: str) -> str | None:
        value = self.get(word)
        return value if value is not None and KEYWORDS[word].form.pattern.fullmatch(value) else None

    @property
    def major(self) -> int | None:
        """The major version, or None where no line tells one."""
        value = self._valid("version")
        return None if value is None else int(value.removeprefix("pdb-").partition(".")[0][-_DIGITS:])

    @property
    def text_start(self) -> int | None:
        """The address of the text, or None where no line tells one that fits 64 bits."""
        value = self._valid("tstart")
        number = None if value is None else int(value, 16)
        return number if number is not None and number <= _MAX_ADDRESS else None

    @property
    def text_size(self) -> int | None:
        """The size of the text in bytes, or None."""
        return self._number("tsize")

    @property
    def period(self) -> int | None:
        """Events from one sample to the next, or None."""
        return self._number("period")

    @property
    def epoch(self) -> datetime | None:
        """When the epoch began, or None where no line tells a date that there is."""
        value = self._valid("epoch")
        return None if value is None else moment(value)

    def _number(self, word: str) -> int | None:
        value = self._valid(word)
        return int(value) if value is not None and len(value) <= _DIGITS and int(value) <= _MAX_SIZE else None


_DIGITS = 19
"""No number of more digits fits 64 bits."""


def moment(digits: str) -> datetime | None:
    """A time of the header in UTC, or None where there is no such date.

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


def digits_of(time: datetime) -> str:
    """A time as the header has it: 10 digits, or 12 where two digits of a year would mean another century."""
    when = time.astimezone(UTC)
    short = _PIVOT + 1900 <= when.year < _PIVOT + 2000
    return f"{when.year:04}{when:%m%d%H%M}"[2 if short else 0 :]


def check_header(header: Header, findings: Findings) -> None:
    """Find what is wrong with a header that was read to its end."""
    _check_counts(header, findings)
    for place, (line, offset) in enumerate(zip(header.lines, header.places, strict=True)):
        _check_line(line, offset, findings)
        if line.word == "version" and place:
            findings.add("version-place", offset, "the version is not in the first line", level=Level.WARNING)
    if header.get("tstart") is None:
        told = "no line `tstart`, so addresses are not known, only offsets"
        findings.add("no-text-start", 0, told, level=Level.WARNING)
    elif header.text_start is not None and header.text_start % STEP:
        findings.add("unaligned", _place(header, "tstart"), "the text begins within a word", level=Level.WARNING)
    if header.end % WORD_TYPE.itemsize:
        told = f"the header has {header.end:,} bytes, which is no multiple of {WORD_TYPE.itemsize}"
        findings.add("header-size", 0, told, level=Level.WARNING)


def _place(header: Header, word: str) -> int:
    return next(at for line, at in zip(header.lines, header.places, strict=True) if line.word == word)


def _check_counts(header: Header, findings: Findings) -> None:
    seen: set[str] = set()
    for line, offset in zip(header.lines, header.places, strict=True):
        keyword = KEYWORDS.get(line.word)
        if keyword is None or keyword.repeats:
            continue
        if line.word in seen:
            # The specification lists `period` as required and as optional, so two of it may be meant.
            hard = keyword.required and line.word != "period"
            level = Level.ERROR if hard else Level.WARNING
            findings.add("repeated-line", offset, f"another line `{line.word}`; the first one counts", level=level)
        seen.add(line.word)
    for keyword in KEYWORDS.values():
        if keyword.required and keyword.name not in seen:
            findings.add("missing-line", 0, f"no line `{keyword.name}`")


def _check_line(line: Line, offset: int, findings: Findings) -> None:
    if "\r" in line.value or not (line.word + line.value).isascii():
        findings.add("header-bytes", offset, f"`{line.word}` has bytes that are no text", level=Level.WARNING)
    keyword = KEYWORDS.get(line.word)
    if keyword is None:
        return
    shown = line.value if len(line.value) <= 40 else f"{line.value[:40]}..."
    if not keyword.form.pattern.fullmatch(line.value):
        level = Level.WARNING if keyword.name == "version" else Level.ERROR
        findings.add("header-value", offset, f"`{line.word}` is {shown!r}, not {keyword.form.told}", level=level)
    elif keyword.name == "epoch" and moment(line.value) is None:
        findings.add("header-value", offset, f"`epoch` is {shown!r}, which is no date")
    elif keyword.name in ("period", "tsize", "tstart") and _too_large(line):
        findings.add("header-value", offset, f"`{line.word}` is {shown!r}, more than 64 bits hold")
    elif keyword.name == "period" and int(line.value) == 0:
        findings.add("zero-period", offset, "the period is 0", level=Level.WARNING)


def _too_large(line: Line) -> bool:
    """Whether a number of any length is beyond what is computed with; the length is looked at first."""
    if line.word == "tstart":
        return int(line.value, 16) > _MAX_ADDRESS
    digits = line.value.lstrip("0")
    return len(digits) > _DIGITS or int(digits or "0") > _MAX_SIZE


def lines_of(values: Iterable[tuple[str, str | int]]) -> list[Line]:
    """Lines from pairs of a word and a value, in the order in which the specification has them, unknown ones last."""
    order = {word: place for place, word in enumerate(KEYWORDS)}
    lines = [Line(word, str(value)) for word, value in values]
    return sorted(lines, key=lambda line: order.get(line.word, len(order)))
