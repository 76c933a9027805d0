"""Validation: check traces against the rules of their format.

    from fxtio.validate import validate

    validation = validate("app.fxt", profile="recommended")
    print(validation.is_valid("required"), validation.counts)

The trace is read once, in bounded memory; of each rule, the first findings are kept and all are counted.
`fxtio.validate.listing` shows the bytes of findings, `fxtio.validate.reports` makes SARIF, JUnit and JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike, fspath, walk
from pathlib import Path
from typing import Any, Final

import fxtio
from fxtio.errors import FxtioError
from fxtio.finding import Finding
from fxtio.formats import by_content, by_name, by_suffix, formats, of_directory
from fxtio.io.source import open_source
from fxtio.rules import LEVELS, Rule, Severity, rule, rules_of

ALL: Final = "all"
"""The profile that has all rules."""

REQUIRED, RECOMMENDED, INTEROP, ROBUSTNESS = LEVELS

ERROR: Final = "error"
"""The threshold of what no trace may have: what the specification forbids, or what cannot be read."""

NEVER: Final = "never"
"""The threshold that no rule reaches."""

THRESHOLDS: Final = (ERROR, *LEVELS, NEVER)
"""What a threshold may be: a level, `error` or `never`."""


class SelectionError(FxtioError):
    """An error: there is no such profile, or no rule has an id like this."""


def all_rules() -> list[Rule]:
    """Return the rules of all formats."""
    return [rule for name in formats() for rule in rules_of(name).values()]


def profiles() -> dict[str, str]:
    """Return the name and description of each profile: those of levels, and one for each program of a rule."""
    programs = {rule.level.partition(":")[2] for rule in all_rules()} - {""}
    return {
        ALL: "all rules",
        REQUIRED: "what the specification demands",
        RECOMMENDED: "what the specification demands or advises",
        **{name: f"what the specification demands, and what {name} needs" for name in sorted(programs)},
    }


def is_at_least(rule: Rule, threshold: str) -> bool:
    """Return whether a rule is as binding as a threshold, or more; `required` is the most binding level."""
    if threshold == NEVER:
        return False
    if threshold == ERROR:
        return rule.level == REQUIRED or rule.severity is Severity.ERROR
    return LEVELS.index(rule.level.partition(":")[0]) <= LEVELS.index(threshold)


@dataclass(frozen=True)
class Selection:
    """A selection of rules.

    Attributes:
        profile: one of `profiles()`.
        rules: patterns of ids, such as `fxt.framing.*`; if there are any, a rule must match one of them.
        ignored: patterns of ids; a rule that matches one of them is not selected.

    Raises:
        SelectionError: there is no such profile, or no rule matches a pattern.
    """

    profile: str = ALL
    rules: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.profile != ALL and self.profile not in profiles():  # the rules of all formats take a while to read
            raise SelectionError(f"there is no profile {self.profile!r}, only {', '.join(profiles())}")
        for pattern in (*self.rules, *self.ignored):
            name = pattern.partition(".")[0]
            is_foreign = name in formats() and not rules_of(name)  # the ids of its rules are not declared
            if not is_foreign and not any(fnmatchcase(rule.id, pattern) for rule in all_rules()):
                raise SelectionError(
                    f"no rule has an id like {pattern!r}; `fxtio validate --list-rules` prints the ids"
                )

    @property
    def threshold(self) -> str:
        """The threshold from which on findings are errors: all rules that were chosen, else no advice."""
        return ERROR if self.profile == ALL and not self.rules else ROBUSTNESS

    def has(self, rule: Rule) -> bool:
        """Return whether a rule is selected."""
        level, _, program = rule.level.partition(":")
        in_profile = (
            self.profile == ALL
            or level == REQUIRED
            or (self.profile == RECOMMENDED and level == RECOMMENDED)
            or (level == INTEROP and self.profile == program)
        )
        return in_profile and self._matches(rule)

    def _matches(self, rule: Rule) -> bool:
        included = not self.rules or any(fnmatchcase(rule.id, pattern) for pattern in self.rules)
        return included and not any(fnmatchcase(rule.id, pattern) for pattern in self.ignored)


__all__ = ["Selection", "SelectionError", "Validation", "traces_in", "validate"]


@dataclass(frozen=True)
class Validation:
    """The result of checking a trace.

    Attributes:
        name: where the trace was read from.
        format: the name of its format.
        compression: `gzip`, `zstd`, `xz` or None.
        size: the number of bytes that were read, decompressed; None if the format's reader does not count them.
        seconds: how long it took.
        selection: the rules that count.
        findings: the first findings of each selected rule, by file and offset.
        counts: the number of findings of each selected rule, by its id.
        unselected: the number of findings of rules that are not selected.
    """

    name: str
    format: str
    compression: str | None
    size: int | None
    seconds: float
    selection: Selection
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    unselected: int

    @property
    def total(self) -> int:
        """The number of findings of selected rules."""
        return sum(self.counts.values())

    @property
    def broken(self) -> list[Rule]:
        """The selected rules that the trace breaks, the most binding ones first."""
        rules = [rule(rule_id) for rule_id in self.counts]
        return sorted(rules, key=lambda each: LEVELS.index(each.level.partition(":")[0]))

    def is_valid(self, threshold: str = ROBUSTNESS) -> bool:
        """Return whether the trace breaks no selected rule that is as binding as a level, or more.

        Args:
            threshold: one of `fxtio.rules.LEVELS`, from `required` to `robustness`, which stands for all rules;
                `error` for what the specification forbids and what cannot be read; or `never`, for which every trace is
                valid.
        """
        return not any(is_at_least(each, threshold) for each in self.broken)

    def findings_of(self, rule_id: str) -> list[Finding]:
        """Return the first findings of a rule."""
        return [finding for finding in self.findings if finding.rule == rule_id]


def validate(
    target: Any,
    *,
    format: str | None = None,
    profile: str = ALL,
    rules: Iterable[str] = (),
    ignore: Iterable[str] = (),
    max_bytes: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    **options: Any,
) -> Validation:
    """Read a trace once, in bounded memory, and check it against the rules of its format.

    Args:
        target: what to read, see `fxtio.open`.
        format: the name of the format; by default it is recognized by content, then by suffix.
        profile: the rules that count: `required`, `recommended` (with the required ones), the name of a program such
            as `perfetto` (the required ones, and what the program needs), or `all`.
        rules: patterns of rule ids, such as `fxt.framing.*`; if there are any, only rules that match one count.
        ignore: patterns of rule ids that do not count.
        max_bytes: the greatest number of decompressed bytes to read.
        progress: called now and then with the number of bytes read and the number of bytes in total (or None).
        options: options of the format's reader.

    Raises:
        SelectionError: there is no such profile, or no rule matches a pattern.
        FormatError: the target is not a trace of a known format.
        OSError: the target cannot be read.
    """
    selection = Selection(profile, tuple(rules), tuple(ignore))
    started = time.perf_counter()
    with fxtio.open(target, format=format, max_bytes=max_bytes, progress=progress, **options) as trace:
        by_name(trace.format).rules.check(trace)
        return _validation(trace, target, selection, time.perf_counter() - started)


def _validation(trace: Any, target: Any, selection: Selection, seconds: float) -> Validation:
    findings = trace.findings
    counts = {rule_id: number for rule_id, number in findings.counts.items() if selection.has(rule(rule_id))}
    return Validation(
        name=trace.name,
        format=trace.format,
        compression=trace.compression,
        size=_size_of(trace, target),
        seconds=seconds,
        selection=selection,
        findings=tuple(finding for finding in findings if finding.rule in counts),
        counts=counts,
        unselected=len(findings) - sum(counts.values()),
    )


def _size_of(trace: Any, target: Any) -> int | None:
    """Return the number of bytes of a trace that was read; of a directory, those of its files."""
    if not by_name(trace.format).directory:
        return getattr(trace, "position", None)
    return sum(path.lstat().st_size for path in Path(target).iterdir())


def traces_in(directory: str | PathLike[str]) -> Iterator[Path]:
    """Yield the traces in a directory and the directories below it, in the order of their names.

    A directory that is a trace itself is yielded as a whole.  A file is a trace if it begins like one, or if it has the
    suffix of a format.  Symbolic links to directories are not followed.  A directory that cannot be read is yielded at
    the end, since there may be traces in it that nobody has checked.
    """
    unreadable: list[str] = []
    for folder, folders, files in walk(fspath(directory), onerror=lambda error: unreadable.append(error.filename)):
        if _is_trace_directory(folder):
            folders.clear()
            yield Path(folder)
            continue
        folders.sort()
        yield from (path for path in map(Path(folder).joinpath, sorted(files)) if _is_trace_file(path))
    yield from map(Path, unreadable)


def _is_trace_directory(folder: str) -> bool:
    try:
        of_directory(folder)
    except fxtio.FormatError:
        return False
    return True


def _is_trace_file(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        source = open_source(path)
    except (OSError, fxtio.FxtioError):
        return by_suffix(path.name) is not None
    try:
        chosen = by_content(source) or by_suffix(path.name)
    finally:
        source.close()
    return chosen is not None and not chosen.directory
