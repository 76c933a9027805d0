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
        # Of a chunk that continues: the byte offset, whether it begins with 0, and whether it has samples.
        self._open = (0, False, False)

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
        """Find chunks that begin or end with zeros; one that continues in the next block is checked when it ends."""
        rows = np.flatnonzero(block.count > 0)
        if not len(rows):
            return
        begin, end = block.begin[rows], block.begin[rows] + block.count[rows]
        begins_with_zero, ends_with_zero = block.words[begin] == 0, block.words[end - 1] == 0
        offsets = block.base + (begin - HEAD_WORDS) * WORD_TYPE.itemsize
        has_samples = ~begins_with_zero
        if begins_with_zero.any():
            samples = np.append(0, np.cumsum(block.words != 0))  # this many addresses with samples before each word
            has_samples = samples[end] > samples[begin]
        if block.continues and rows[0] == 0:
            offsets[0], begins_with_zero[0], has_before = self._open
            has_samples[0] |= has_before
        if block.remaining:
            self._open = int(offsets[-1]), bool(begins_with_zero[-1]), bool(has_samples[-1])
        whole = slice(len(rows) - bool(block.remaining))
        self._report("chunk.zeros", offsets[whole][~has_samples[whole]])
        self._report("chunk.padded", offsets[whole][(has_samples & (begins_with_zero | ends_with_zero))[whole]])

    def _report(self, name: str, offsets: Array) -> None:
        self._trace.findings.add_each(name, offsets.tolist())
