"""The rules of the formats: what each demands, why, and how to fix a trace that breaks it.

The rules are data, `conformance/rules/<format>.toml`.  Each file is read once, when one of its rules is first asked
for, so that reading a sound trace does not read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

LEVELS: Final = ("required", "recommended", "interop", "robustness")
"""The levels of rules, without the name of the program after `interop`.

- `required`: the specification demands it.
- `recommended`: the specification advises it, or traces without it are of less use.
- `interop`: a widely used program goes wrong; it is named, as in `interop:perfetto`.
- `robustness`: a limit of readers, or a loss that the trace has in itself.
"""


class Severity(StrEnum):
    """The effect of a fault on reading: `error` if something could not be read, `warning` if everything could."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a format.

    Attributes:
        id: format, group and name, for example `fxt.framing.zero-size`.
        level: how binding it is, see `LEVELS`.
        section: the heading of the specification that it follows from, or empty.
        quote: the words of that section that demand it, or empty; ` ... ` stands for words that are left out.
        basis: what demands it where the specification has no words for it, or empty.
        summary: what is wrong in a trace that breaks it.
        why: why that matters.
        fix: how to fix the program that wrote the trace.
        since: the version of the conformance kit that first had the rule.
        severity: what the fault does to a reading.
        reading: what the reader does about it; empty where readers do not notice it, only `fxtio validate`.
        also: producers that are known to break it, or empty.
        excepted: what looks like a fault and is not reported, or empty.
        implied: rules that a trace cannot keep if it breaks this one.
    """

    id: str
    level: str
    section: str
    summary: str
    why: str
    fix: str
    since: str
    severity: Severity = Severity.WARNING
    reading: str = ""
    quote: str = ""
    basis: str = ""
    also: str = ""
    excepted: str = ""
    implied: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.id.partition(".")[0]

    @property
    def group(self) -> str:
        """The subject of the rule, for example `framing`."""
        return self.id.split(".")[1]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The texts of the rule other than `summary`, as pairs of a title and a text that is not empty."""
        reading = f"{self.severity}: {self.reading}" if self.reading else ""
        facts = [
            ("Quote", f'"{self.quote}"' if self.quote else ""),
            ("Basis", self.basis),
            ("Why", self.why),
            ("Fix", self.fix),
            ("Readers", reading),
            ("Known", self.also),
            ("Except", self.excepted),
            ("Along", ", ".join(self.implied)),
        ]
        return [(title, text) for title, text in facts if text]


def folder() -> Path:
    """Return the folder of the conformance kit: that of the checkout, or what is installed: the rules and an archive.

    `fxtio.conformance.files` reads the archive; a trace with findings needs the rules only.
    """
    package = Path(__file__).parent
    installed = package / "_kit"
    return installed if installed.is_dir() else package.parent / "conformance"


@cache
def rules_of(format_name: str) -> dict[str, Rule]:
    """Return the rules of a format by id, in the order of their file; those of a format without a file are empty."""
    import tomllib

    path = folder() / "rules" / f"{format_name}.toml"
    if not path.is_file():
        return {}
    groups = tomllib.loads(path.read_text("utf-8"))[format_name]
    rules = (
        _rule(f"{format_name}.{group}.{name}", entry)
        for group, entries in groups.items()
        for name, entry in entries.items()
    )
    return {rule.id: rule for rule in rules}


def _rule(rule_id: str, entry: dict[str, Any]) -> Rule:
    """Make a rule of its table in the file."""
    entry = dict(entry)
    severity = Severity(entry.pop("severity", "warning"))
    implied = tuple(entry.pop("with", ()))
    return Rule(id=rule_id, severity=severity, excepted=entry.pop("except", ""), implied=implied, **entry)


def rule(rule_id: str) -> Rule:
    """Return a rule; for an id that no file has, such as one of another distribution's format, one without texts."""
    known = rules_of(rule_id.partition(".")[0]).get(rule_id)
    return known or Rule(rule_id, "required", "", rule_id, "", "", "", Severity.ERROR)
