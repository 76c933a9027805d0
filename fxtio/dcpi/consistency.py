"""Rules about the header and the body; `frames` has those about framing."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi.frames import Segments
from fxtio.dcpi.layout import KEYWORDS, MAX_COUNT, STEP, WORD_TYPE
from fxtio.dcpi.records import Footer, Line
from fxtio.dcpi.state import MAX_ADDRESS, Header, parse_decimal, parse_time
from fxtio.finding import Findings


def check_header(header: Header, findings: Findings) -> None:
    """Check a header that was read to its end."""
    _check_occurrences(header, findings)
    for index, (line, offset) in enumerate(zip(header.lines, header.offsets, strict=True)):
        _check_line(line, header.value_of(line), offset, findings)
        if line.word == "version" and index:
            findings.add("header.version-place", offset)
    if header.get("tstart") is None:
        message = "no line `tstart`: addresses are unknown, only offsets are known"
        findings.add("header.no-text-start", 0, message)
    elif header.text_start is not None and header.text_start % STEP:
        message = f"`tstart` is not a multiple of {STEP}"
        findings.add("header.unaligned", _offset_of(header, "tstart"), message)
    if header.end % WORD_TYPE.itemsize and not header.has_returns:
        message = f"the header has {header.end:,} bytes, which is not a multiple of {WORD_TYPE.itemsize}"
        findings.add("header.size", 0, message)


def _offset_of(header: Header, word: str) -> int:
    return next(at for line, at in zip(header.lines, header.offsets, strict=True) if line.word == word)


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
    elif keyword.name in ("period", "tsize", "tstart") and _is_too_large(line.word, value):
        findings.add("header.value", offset, f"`{line.word}` is {shown!r}, which does not fit 64 bits")
    elif keyword.name == "period" and parse_decimal(value) == 0:
        findings.add("header.zero-period", offset)


def _is_too_large(word: str, value: str) -> bool:
    """Return whether a number of any length is beyond the limits."""
    return int(value, 16) > MAX_ADDRESS if word == "tstart" else parse_decimal(value) is None


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
