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
        self.chunks = self.counts = self.addresses = self.samples = self.mergeable = self.padded = 0

    def add(self, made: Segments) -> None:
        """Take in the next block."""
        heads = np.flatnonzero(made.first)
        self.chunks += len(heads)
        self.counts += int(made.count.sum())
        self._add_up(made, heads)
        if not len(heads):
            return
        number = made.count[heads] + made.behind[heads]
        offset = made.offset[heads]
        end = offset + number * STEP
        # A chunk must begin behind the one before it, and behind all that one has.
        earlier = np.concatenate([[self._offset], offset[:-1]])
        before = np.concatenate([[self._end], end[:-1]])
        self.tell("chunk-order", made, heads, offset <= earlier, "the chunk's offset is not above that before it")
        overlaps = (offset > earlier) & (offset < before)
        self.tell("chunk-overlap", made, heads, overlaps, "the chunk begins within the one before it")
        self.tell("chunk-empty", made, heads, number == 0, "the chunk has no counts")
        unaligned = offset % STEP != 0
        self.tell("unaligned", made, heads, unaligned, "the chunk begins within a word", Level.WARNING)
        if self._text_size is not None:
            beyond = end > self._text_size
            self.tell("beyond-text", made, heads, beyond, "the chunk goes beyond the text", Level.WARNING)
        self.mergeable += int(((offset == before) & (earlier >= 0)).sum())
        self._offset, self._end = int(offset[-1]), int(end[-1])

    def _add_up(self, made: Segments, heads: Array) -> None:
        """Everything is added up, and what the heads have is taken off again: so nothing is copied."""
        begin, end = made.bounds()
        words = made.words[begin:end]
        self.samples += int(words.sum(dtype=np.uint64))
        self.addresses += int(np.count_nonzero(words))
        for places in made.head_words(heads):
            of_heads = made.words[places]
            self.samples -= int(of_heads.sum(dtype=np.uint64))
            self.addresses -= int(np.count_nonzero(of_heads))
        ends = made.at[heads] + made.count[heads] - 1
        self.padded += int(((made.words[made.at[heads]] == 0) | (made.words[ends] == 0)).sum())

    def tell(
        self, rule: str, made: Segments, heads: Array, wrong: Array, message: str, level: Level = Level.ERROR
    ) -> None:
        """Note a fault of some chunks: the first of them one by one, the rest as a number."""
        for row in heads[wrong][:_EACH].tolist():
            self._findings.add(rule, made.place(row), message, level=level)
        rest = int(wrong.sum()) - _EACH
        if rest > 0:
            self._findings.add(rule, made.place(int(heads[wrong][_EACH])), message, level=level, times=rest)

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
