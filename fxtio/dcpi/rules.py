"""What is wrong with a body: chunks that overlap, a footer that does not add up.  All of a block is checked at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.dcpi.framing import Segments
from fxtio.dcpi.header import Header
from fxtio.dcpi.layout import MAX_COUNT, STEP
from fxtio.dcpi.records import Footer
from fxtio.finding import Findings, Level

Array = np.ndarray[Any, Any]

_EACH = 20  # places that are told of one fault in one block; the rest is counted


class BodyRules:
    """Checks a body and adds it up, block by block.

    Args:
        header: the header that belongs to it.
        findings: takes what is wrong.

    Attributes:
        chunks: how many chunks there were.
        counts: how many addresses they have.
        addresses: how many of these have a sample.
        samples: the sum of all counts.
        mergeable: how many chunks begin where the one before ends.
        padded: how many chunks begin or end with an address without samples.
    """

    def __init__(self, header: Header, findings: Findings) -> None:
        self._findings = findings
        self._text_size = header.text_size
        self._offset = -1  # of the last chunk
        self._end = 0  # the offset behind it
        self._bare = False  # whether a chunk that goes beyond its block begins with a zero
        self.chunks = self.counts = self.addresses = self.samples = self.mergeable = self.padded = 0

    def add(self, made: Segments) -> None:
        """Take in the next block."""
        self.counts += int(made.count.sum())
        self.samples += made.total
        self.addresses += made.addresses
        self.padded += made.padded + self._cut(made)
        number = made.count[made.begun :]  # of the last one those of this block, for now
        self.chunks += len(number)
        if not len(number):
            return
        # Each chunk beside the one before it: it must begin behind that, and behind all that one has.
        offsets, ends = np.empty(len(number) + 1, np.int64), np.empty(len(number) + 1, np.int64)
        offsets[0], ends[0] = self._offset, self._end
        offset, end = offsets[1:], ends[1:]
        offset[:] = made.offset[made.begun :]
        np.multiply(number, STEP, out=end)
        end += offset
        end[-1] += made.behind * STEP
        falls = offset <= offsets[:-1]
        self.tell("chunk-order", made, falls, "the chunk's offset is not above that before it")
        overlaps = (offset < ends[:-1]) & ~falls
        self.tell("chunk-overlap", made, overlaps, "the chunk begins within the one before it")
        self.tell("chunk-empty", made, end == offset, "the chunk has no counts")
        self.tell("unaligned", made, offset % STEP != 0, "the chunk begins within a word", Level.WARNING)
        if self._text_size is not None:
            beyond = end > self._text_size
            self.tell("beyond-text", made, beyond, "the chunk goes beyond the text", Level.WARNING)
        self.mergeable += int(np.count_nonzero((offset == ends[:-1]) & (offsets[:-1] >= 0)))
        self._offset, self._end = int(offset[-1]), int(end[-1])

    def _cut(self, made: Segments) -> int:
        """Whether a chunk that an earlier block began ends here, and begins or ends with a zero."""
        single = len(made.at) == 1
        done = made.begun and not (single and made.behind)
        padded = done and (self._bare or made.words[made.at[0] + made.count[0] - 1] == 0)
        if made.behind and not (single and made.begun):
            self._bare = bool(made.words[made.at[-1]] == 0)
        return int(padded)

    def tell(self, rule: str, made: Segments, wrong: Array, message: str, level: Level = Level.ERROR) -> None:
        """Note a fault of some of the chunks that begin here: the first of them one by one, the rest as a number."""
        rows = np.flatnonzero(wrong) + int(made.begun)
        for row in rows[:_EACH].tolist():
            self._findings.add(rule, made.place(row), message, level=level)
        rest = len(rows) - _EACH
        if rest > 0:
            self._findings.add(rule, made.place(int(rows[_EACH])), message, level=level, times=rest)

    def footer(self, footer: Footer, offset: int) -> None:
        """Compare the totals."""
        if footer.total_offsets != self.addresses:
            told = f"the footer tells {footer.total_offsets:,} addresses with samples, there are {self.addresses:,}"
            self._findings.add("footer-addresses", offset, told)
        if footer.total_samples != self.samples % (MAX_COUNT + 1):
            told = f"the footer tells {footer.total_samples:,} samples, there are {self.samples:,}"
            self._findings.add("footer-samples", offset, told)
        elif self.samples > MAX_COUNT:
            told = f"there are {self.samples:,} samples, more than the footer can tell"
            self._findings.add("footer-overflow", offset, told, level=Level.WARNING)
