"""Findings: the faults of a trace, each with a rule, a place and a message.

A reader adds a finding and goes on after the fault.  `Findings` keeps the first findings of each rule and counts the
rest, so that a hostile file cannot fill the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from fxtio.display import MAX_ROWS, as_html, as_text
from fxtio.errors import DecodeError
from fxtio.report import Report, ReportTable, counted
from fxtio.rules import Severity, rule

ADDED_SINGLY = 20
"""The greatest number of findings of one rule that `Findings.add_each` adds one by one; the rest is one finding."""

KEPT_PER_RULE = 100
"""The greatest number of findings of one rule that are kept; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a trace.

    Attributes:
        rule: the id of the rule that was broken, for example `fxt.framing.truncated`; `fxtio.rules` describes it.
        offset: the byte offset in the (decompressed) trace, or in `file`.
        message: a description of the fault.
        file: the name of the file with the fault, if the trace is a directory; otherwise empty.
    """

    rule: str
    offset: int
    message: str
    file: str = ""

    @property
    def severity(self) -> Severity:
        """The severity: `error` if something could not be read, `warning` if everything could."""
        return rule(self.rule).severity

    @property
    def level(self) -> str:
        """The level of the rule, see `fxtio.rules.LEVELS`."""
        return rule(self.rule).level

    def __str__(self) -> str:
        where = f" in {self.file}" if self.file else ""
        return f"{self.severity}{where} at byte {self.offset:,}: {self.message} [{self.rule}]"


def _offset_of(finding: Finding) -> int:
    return finding.offset


class Findings:
    """The findings of one reading; iterating gives those that are kept, by file and offset, and `len` counts all.

    Attributes:
        format: the name of the format, with which the ids of its rules begin.
        counts: the number of findings of each rule.
        strict: whether `add` raises `DecodeError` instead of adding a finding.
        hints: sentences that say how the trace could be read better, each once; they are no faults.
    """

    def __init__(self, format_name: str, *, strict: bool = False) -> None:
        self.format = format_name
        self.strict = strict
        self.hints: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        self._kept: list[Finding] = []
        self._by_offset: list[Finding] = []  # the same, as far as `between` was called

    def add(self, name: str, offset: int, message: str = "", *, times: int = 1, file: str = "") -> None:
        """Add a finding for a fault that occurred `times` times, first at `offset` (in `file`).

        Args:
            name: the id of the rule without its format, for example `framing.truncated`.
            offset: the byte offset.
            message: what is wrong, where there is more to tell than the rule says, such as a value.
            times: how often it occurred.
            file: the name of the file, if the trace is a directory.

        Raises:
            DecodeError: in strict mode.
        """
        rule_id = f"{self.format}.{name}"
        if self.strict or self.counts[rule_id] < KEPT_PER_RULE:
            message = message or rule(rule_id).summary
        if self.strict:
            raise DecodeError(rule_id, f"{file}: {message}" if file else message, offset)
        if self.counts[rule_id] < KEPT_PER_RULE:
            more = f" (and {times - 1:,} more like it)" if times > 1 else ""
            self._kept.append(Finding(rule_id, offset, message + more, file))
        self.counts[rule_id] += times

    def add_each(self, name: str, offsets: Sequence[int], message: str = "") -> None:
        """Add a finding at each of some byte offsets, and from some number on one for the rest.

        Raises:
            DecodeError: in strict mode, if there are any.
        """
        for offset in offsets[:ADDED_SINGLY]:
            self.add(name, offset, message)
        if rest := offsets[ADDED_SINGLY:]:
            self.add(name, rest[0], message, times=len(rest))

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

    def __str__(self) -> str:
        """Return the first findings as text that fits the terminal, see `fxtio.display`."""
        return as_text(self._report())

    def _repr_html_(self) -> str:
        """Return the first findings as HTML for notebooks."""
        return as_html(self._report())

    def _report(self) -> Report:
        if not self:
            return Report("no findings")
        shown = [*islice(self, MAX_ROWS)]
        has_files = any(finding.file for finding in shown)
        headers = ["severity", *(["file"] if has_files else []), ">byte", "rule", "message"]
        rows: list[list[int | str]] = [
            [each.severity, *([each.file] if has_files else []), each.offset, each.rule, each.message] for each in shown
        ]
        count = len(self)
        return Report(counted(count, "finding"), tables=[ReportTable(headers, rows, count - len(rows))])
