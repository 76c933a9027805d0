"""Findings: the faults of a trace, each with a rule, a level, a place and a message.

A reader adds a finding and goes on behind the fault.  `Findings` keeps the first findings of each rule and counts the
rest, so that a hostile file cannot fill the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fxtio.errors import DecodeError

KEPT_PER_RULE = 100
"""The greatest number of findings of one rule that are kept; further ones are only counted."""


class Level(StrEnum):
    """The severity of a finding: `error` if something could not be read, `warning` otherwise."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a trace.

    Attributes:
        rule: the id of the rule that was broken, for example `truncated`.
        level: `error` if something could not be read, `warning` otherwise.
        offset: the byte offset in the (decompressed) trace, or in `file`.
        message: a description of the fault.
        file: the name of the file with the fault, if the trace is a directory; otherwise empty.
    """

    rule: str
    level: Level
    offset: int
    message: str
    file: str = ""

    def __str__(self) -> str:
        where = f" in {self.file}" if self.file else ""
        return f"{self.level}{where} at byte {self.offset:,}: {self.message} [{self.rule}]"


def _offset_of(finding: Finding) -> int:
    return finding.offset


class Findings:
    """The findings of one reading; iterating gives those that are kept, by file and offset, and `len` counts all.

    Attributes:
        counts: the number of findings of each rule.
        strict: whether `add` raises `DecodeError` instead of adding a finding.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.counts: Counter[str] = Counter()
        self._kept: list[Finding] = []
        self._by_offset: list[Finding] = []  # the same, as far as `between` was called

    def add(
        self,
        rule: str,
        offset: int,
        message: str,
        *,
        level: Level = Level.ERROR,
        times: int = 1,
        file: str = "",
    ) -> None:
        """Add a finding for a fault that occurred `times` times, first at `offset` (in `file`).

        Raises:
            DecodeError: in strict mode.
        """
        if self.strict:
            raise DecodeError(rule, f"{file}: {message}" if file else message, offset)
        if self.counts[rule] < KEPT_PER_RULE:
            more = f" (and {times - 1:,} more like it)" if times > 1 else ""
            self._kept.append(Finding(rule, level, offset, message + more, file))
        self.counts[rule] += times

    def between(self, begin: int, end: int) -> list[Finding]:
        """Return the findings at the byte offsets from `begin` to before `end`, in order; of all files."""
        if len(self._by_offset) != len(self._kept):
            self._by_offset = sorted(self._kept, key=_offset_of)
        first, last = (bisect_left(self._by_offset, offset, key=_offset_of) for offset in (begin, end))
        return self._by_offset[first:last]

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._kept, key=lambda finding: (finding.file, finding.offset)))

    def __len__(self) -> int:
        return self.counts.total()

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __repr__(self) -> str:
        return f"Findings({dict(self.counts)})"
