"""The header as a whole, which the meaning of the body depends on, and the rules that readers check of both.

`frames` has the rules about framing, and `rules` those that only a validation checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MAX_UINT64
from fxtio.dcpi.frames import Segments
from fxtio.dcpi.layout import KEYWORDS, MAX_COUNT, STEP, WORD_TYPE
from fxtio.dcpi.records import Footer, Line
from fxtio.errors import EncodeError
from fxtio.finding import Findings

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


def check_header(header: Header, findings: Findings) -> None:
    """Check a header that was read to its end."""
    _check_occurrences(header, findings)
    words = [line.word for line in header.lines]
    for index, (line, offset) in enumerate(zip(header.lines, header.offsets, strict=True)):
        _check_line(line, header.value_of(line), offset, findings)
        if line.word == "version" and index:
            findings.add("header.version-place", offset)
    if header.get("tstart") is None:
        findings.add("header.no-text-start", 0)
    elif header.text_start is not None and header.text_start % STEP:
        findings.add("header.unaligned", dict(zip(words[::-1], header.offsets[::-1], strict=True))["tstart"])
    if header.end % WORD_TYPE.itemsize and not header.has_returns:
        message = f"the header has {header.end:,} bytes, which is not a multiple of {WORD_TYPE.itemsize}"
        findings.add("header.size", 0, message)


def _check_occurrences(header: Header, findings: Findings) -> None:
    seen: set[str] = set()
    for line, offset in zip(header.lines, header.offsets, strict=True):
        keyword = KEYWORDS.get(line.word)
        if keyword is None or keyword.repeats:
            continue
        if line.word in seen:
            # The specification lists `period` as required and as optional, so two of it may be intended.
            is_error = keyword.required and line.word != "period"
            rule = "header.repeated" if is_error else "header.repeated-optional"
            findings.add(rule, offset, f"another line `{line.word}`; the first one counts")
        seen.add(line.word)
    for keyword in KEYWORDS.values():
        if keyword.required and keyword.name not in seen:
            findings.add("header.missing", 0, f"no line `{keyword.name}`")


def _check_line(line: Line, value: str, offset: int, findings: Findings) -> None:
    if "\r" in value or not (line.word + value).isascii():
        message = f"`{line.word}` has carriage returns or bytes that are not ASCII"
        findings.add("header.bytes", offset, message)
    keyword = KEYWORDS.get(line.word)
    if keyword is None:
        return
    shown = value if len(value) <= 40 else f"{value[:40]}..."
    if not keyword.syntax.pattern.fullmatch(value):
        rule = "header.version-form" if keyword.name == "version" else "header.value"
        findings.add(rule, offset, f"`{line.word}` is {shown!r}, not {keyword.syntax.description}")
    elif keyword.name == "epoch" and parse_time(value) is None:
        findings.add("header.value", offset, f"`epoch` is {shown!r}, which is not a date")
    elif (keyword.name in ("period", "tsize") and parse_decimal(value) is None) or (
        keyword.name == "tstart" and int(value, 16) > MAX_ADDRESS
    ):
        findings.add("header.value", offset, f"`{line.word}` is {shown!r}, which does not fit 64 bits")
    elif keyword.name == "period" and parse_decimal(value) == 0:
        findings.add("header.zero-period", offset)


class BodyRules:
    """Checks a body and adds it up, block by block.

    Args:
        header: the header that belongs to it.
        findings: receives the faults.

    Attributes:
        chunks: number of chunks.
        empty: number of chunks without counts.
        counts: number of counted addresses.
        addresses: number of these that have samples.
        samples: the sum of all counts.
        mergeable: number of chunks that begin where the one before ends.
        padded: number of chunks that begin or end with an address without samples.
    """

    def __init__(self, header: Header, findings: Findings) -> None:
        self._findings = findings
        self._text_size = header.text_size
        self._offset = -1  # of the last chunk
        self._end = 0  # of the last chunk
        self._begins_with_zero = False  # whether a chunk that continues in the next block begins with a zero
        self.chunks = self.empty = self.counts = self.addresses = self.samples = self.mergeable = self.padded = 0

    def add(self, block: Segments) -> None:
        """Take in the next block."""
        self.counts += int(block.count.sum())
        self.samples += block.total
        self.addresses += block.addresses
        self.padded += block.padded + self._padded_across_blocks(block)
        number = block.count[block.continues :]  # of the last chunk only the counts of this block, for now
        self.chunks += len(number)
        if not len(number):
            return
        # Each chunk is compared with the one before it, of which it must not begin before the end.
        offsets, ends = np.empty(len(number) + 1, np.int64), np.empty(len(number) + 1, np.int64)
        offsets[0], ends[0] = self._offset, self._end
        offset, end = offsets[1:], ends[1:]
        offset[:] = block.text_offset[block.continues :]
        np.multiply(number, STEP, out=end)
        end += offset
        end[-1] += block.remaining * STEP
        falls = offset <= offsets[:-1]
        self._report("chunk.order", block, falls)
        overlaps = (offset < ends[:-1]) & ~falls
        self._report("chunk.overlap", block, overlaps)
        self.empty += self._report("chunk.empty", block, end == offset)
        self._report("chunk.unaligned", block, offset % STEP != 0)
        if self._text_size is not None:
            beyond = end > self._text_size
            self._report("chunk.beyond-text", block, beyond)
        self.mergeable += int(np.count_nonzero((offset == ends[:-1]) & (offsets[:-1] >= 0)))
        self._offset, self._end = int(offset[-1]), int(end[-1])

    def _padded_across_blocks(self, block: Segments) -> int:
        """Return 1 if a chunk of an earlier block ends here and begins or ends with a zero, else 0."""
        is_single = len(block.begin) == 1
        ends_here = block.continues and not (is_single and block.remaining)
        ends_with_zero = ends_here and block.words[block.begin[0] + block.count[0] - 1] == 0
        padded = ends_here and (self._begins_with_zero or ends_with_zero)
        if block.remaining and not (is_single and block.continues):
            self._begins_with_zero = bool(block.words[block.begin[-1]] == 0)
        return int(padded)

    def _report(self, rule: str, block: Segments, is_wrong: Array) -> int:
        """Add findings about some of the chunks that begin here; return their number."""
        offsets = block.chunks()[0][is_wrong].tolist() if is_wrong.any() else []
        self._findings.add_each(rule, offsets)
        return len(offsets)

    def add_footer(self, footer: Footer, offset: int) -> None:
        """Compare the totals of the footer, which is at a byte offset, with the sums."""
        if footer.total_offsets != self.addresses:
            message = (
                f"the footer has {footer.total_offsets:,} addresses with samples, the chunks have {self.addresses:,}"
            )
            self._findings.add("footer.addresses", offset, message)
        if footer.total_samples != self.samples % (MAX_COUNT + 1):
            message = f"the footer has {footer.total_samples:,} samples, the chunks have {self.samples:,}"
            self._findings.add("footer.samples", offset, message)
        elif self.samples > MAX_COUNT:
            message = f"the chunks have {self.samples:,} samples, more than the footer can hold"
            self._findings.add("footer.overflow", offset, message)
