"""What was wrong with a trace: findings with a rule, a level, a place and a sentence.

Reading goes on behind a fault.  `Findings` keeps the first of each rule and counts the rest, so that a hostile file
cannot fill the memory with complaints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fxtio.errors import DecodeError

KEPT_PER_RULE = 100
"""How many findings of one rule are kept whole."""


class Level(StrEnum):
    """How much a finding weighs."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    Attributes:
        rule: the id of the rule that was broken.
        level: `error` where something could not be delivered, `warning` where it could.
        offset: the byte offset in the (decompressed) trace.
        message: what is wrong there.
        file: the file that it is in, where a trace is a directory.
    """

    rule: str
    level: Level
    offset: int
    message: str
    file: str = ""

    def __str__(self) -> str:
        where = f" in {self.file}" if self.file else ""
        return f"{self.level}{where} at byte {self.offset:,}: {self.message} [{self.rule}]"


class Findings:
    """The findings of one reading.

    Attributes:
        counts: how often each rule was broken.
        strict: raise `DecodeError` instead of collecting.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.counts: Counter[str] = Counter()
        self._kept: list[Finding] = []

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
        """Note a fault that occurred `times` times, first at `offset` (of `file`).

        Raises:
            DecodeError: in strict mode.
        """
        if self.strict:
            raise DecodeError(rule, f"{file}: {message}" if file else message, offset)
        if self.counts[rule] < KEPT_PER_RULE:
            more = f" (and {times - 1:,} more like it)" if times > 1 else ""
            self._kept.append(Finding(rule, level, offset, message + more, file))
        self.counts[rule] += times

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._kept, key=lambda finding: (finding.file, finding.offset)))

    def __len__(self) -> int:
        return self.counts.total()

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __repr__(self) -> str:
        return f"Findings({dict(self.counts)})"
