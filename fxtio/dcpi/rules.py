"""The check of all rules of DCPI profiles and of listings; `state` has those that readers of profiles report."""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.dcpi import dcpicat
from fxtio.dcpi.frames import Segments
from fxtio.dcpi.layout import HEAD_WORDS, STEP, WORD_TYPE
from fxtio.dcpi.reader import DcpiTrace
from fxtio.dcpi.records import MAX_COUNTS
from fxtio.dcpi.state import Header
from fxtio.finding import Findings

_EPOCH_DIGITS = 10


def check(trace: DcpiTrace) -> None:
    """Read a profile once, in bounded memory, and add a finding for each fault to `trace.findings`.

    The file may be a listing of `dcpicat`, too, which has rules of its own.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    if dcpicat.looks_like_listing(trace.head()):
        trace.read_with(dcpicat.check)
        return
    chunks = _Chunks(trace)
    _check_header(trace.watch(chunks.add).header, trace.findings)


def _check_header(header: Header, findings: Findings) -> None:
    if header.lines and header.get("version") is None:
        findings.add("header.no-version", 0)
    for line, offset in zip(header.lines, header.offsets, strict=True):
        digits = header.value_of(line)
        if line.word == "epoch" and digits.isdecimal() and len(digits) in (12, 14):
            message = f"`epoch` has {len(digits)} digits; programs of the specification's time know {_EPOCH_DIGITS}"
            findings.add("header.epoch-form", offset, message)


class _Chunks:
    """Finds chunks that could be written in fewer bytes.

    Args:
        trace: the profile that is read.
    """

    def __init__(self, trace: DcpiTrace) -> None:
        self._trace = trace
        self._end = -1  # of the last chunk, as an offset in the text
        self._length = 0  # its number of counts
        self._open = _OpenChunk(0)

    def add(self, block: Segments) -> None:
        """Take in the next block."""
        offset, text_offset, number = block.chunks()
        if len(number):
            ends = np.concatenate([[self._end], (text_offset + STEP * number)[:-1]])
            lengths = np.concatenate([[self._length], number[:-1]])
            adjacent = (text_offset == ends) & (lengths > 0) & (lengths < MAX_COUNTS)
            self._report("chunk.mergeable", offset[adjacent])
            self._end, self._length = int(text_offset[-1] + STEP * number[-1]), int(number[-1])
        self._check_zeros(block)

    def _check_zeros(self, block: Segments) -> None:
        """Find chunks that begin or end with zeros; those that are only partly in the block one by one."""
        rows = np.flatnonzero(block.count > 0)
        begin, last = block.begin[rows], block.begin[rows] + block.count[rows] - 1
        has_zero = (block.words[begin] == 0) | (block.words[last] == 0)
        is_part = np.zeros(len(rows), bool)
        if len(rows):
            is_part[0] |= block.continues and rows[0] == 0
            is_part[-1] |= bool(block.remaining) and rows[-1] == len(block.count) - 1
        if len(whole := np.flatnonzero(has_zero & ~is_part)):
            samples = np.cumsum(block.words != 0)  # this many addresses with samples up to each word
            is_empty = samples[last[whole]] - samples[begin[whole]] + (block.words[begin[whole]] != 0) == 0
            offsets = block.base + (begin[whole] - HEAD_WORDS) * WORD_TYPE.itemsize
            self._report_zeros(offsets[is_empty], offsets[~is_empty])
        for row in np.flatnonzero(is_part).tolist():
            self._add_part(block, int(rows[row]))

    def _add_part(self, block: Segments, row: int) -> None:
        if not (block.continues and row == 0):
            self._open = _OpenChunk(block.offset_of(row))
        begin = int(block.begin[row])
        self._open.add(block.words[begin : begin + int(block.count[row])])
        if not (block.remaining and row == len(block.count) - 1):
            offsets = np.array([self._open.offset])
            nothing = offsets[:0]
            if not self._open.has_samples:
                self._report_zeros(offsets, nothing)
            elif self._open.begins_with_zero or self._open.ends_with_zero:
                self._report_zeros(nothing, offsets)

    def _report_zeros(self, empty: Array, padded: Array) -> None:
        self._report("chunk.zeros", empty)
        self._report("chunk.padded", padded)

    def _report(self, name: str, offsets: Array) -> None:
        self._trace.findings.add_each(name, offsets.tolist())


class _OpenChunk:
    """A chunk whose counts are in several blocks.

    Attributes:
        offset: its byte offset.
        has_samples: whether a count is not 0 so far.
        begins_with_zero: whether its first count is 0.
        ends_with_zero: whether its last count so far is 0.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.has_samples = self.begins_with_zero = self.ends_with_zero = False
        self._is_fresh = True

    def add(self, counts: Array) -> None:
        """Take in the next counts, at least one."""
        if self._is_fresh:
            self.begins_with_zero = bool(counts[0] == 0)
            self._is_fresh = False
        self.has_samples = self.has_samples or bool(counts.any())
        self.ends_with_zero = bool(counts[-1] == 0)
