"""Selections of rules: by a profile, by patterns of their ids, and by how binding they are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from fxtio.errors import FxtioError
from fxtio.formats import formats
from fxtio.rules import LEVELS, Rule, Severity, rules_of

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
        if self.profile not in profiles():
            raise SelectionError(f"there is no profile {self.profile!r}, only {', '.join(profiles())}")
        without_texts = {name for name in formats() if not rules_of(name)}
        for pattern in (*self.rules, *self.ignored):
            is_foreign = pattern.partition(".")[0] in without_texts  # the ids of its rules are not declared
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
