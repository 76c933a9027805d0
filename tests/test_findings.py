"""Every rule that readers report is broken by a file, and every rule in the source is declared.

Formats with a room `breaks` have their files there, see `contract/test_rules.py`; those of the others are in `broken`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from contract.test_rules import WITHOUT
from fxtio.finding import Findings
from fxtio.formats import formats
from fxtio.rules import Rule, rules_of
from fxtio.rules import rule as rule_of
from support.checkout import PACKAGE

USED = re.compile(r"""(?:\.add|report|note|_warn|DecodeError|Fault|Oddity)\(\s*"([a-z]+\.[a-z0-9-]+)",""")


def test_findings_between_two_places() -> None:
    findings = Findings("fxt")
    assert findings.between(0, 100) == []
    for offset in (5, 1, 9):
        findings.add("group.rule", offset, "text")
    assert [finding.offset for finding in findings.between(1, 9)] == [1, 5]
    findings.add("group.other", 8, "text")
    assert [finding.offset for finding in findings.between(5, 9)] == [5, 8]


DECLARED = [rule for name in formats() for rule in rules_of(name).values()]


def cases_of(rule: Rule) -> dict[str, Callable[[Path], Findings]]:
    module = import_module("broken.merge" if rule.group == "merge" else f"broken.{rule.format}")
    cases: dict[str, Callable[[Path], Findings]] = module.CASES
    return cases


@pytest.mark.parametrize(
    "rule", [rule for rule in DECLARED if rule.reading and rule.format in WITHOUT], ids=lambda rule: rule.id
)
def test_a_rule_of_readers_is_reported(rule: Rule, tmp_path: Path) -> None:
    findings = cases_of(rule)[rule.id](tmp_path)
    assert rule.id in findings.counts
    assert {*findings.counts} <= {each.id for each in DECLARED}


def test_every_rule_in_the_source_is_declared() -> None:
    used = {name for path in PACKAGE.rglob("*.py") for name in USED.findall(path.read_text())}
    assert used <= {rule.id.partition(".")[2] for rule in DECLARED}


def test_a_rule_without_a_declaration_has_no_texts() -> None:
    assert (rule_of("toy.line.bad").found, rule_of("toy.line.bad").why) == ("toy.line.bad", "")
    assert rules_of("toy") == {}
