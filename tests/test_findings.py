"""Every rule that is documented is broken by a file, and every rule that such a file breaks is documented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from fxtio.finding import Findings
from fxtio.formats import formats
from support.checkout import CHECKOUT, PACKAGE

PAGE = (CHECKOUT / "docs/reference/findings.md").read_text()
SECTION = re.compile(r"^\(findings-([a-z]+)\)=$", re.MULTILINE)
ROW = re.compile(r"^\| `([a-z0-9-]+)` \| (error|warning) \|", re.MULTILINE)
ADDED = re.compile(r"""(?:\.add|DecodeError|Fault)\(\s*"([a-z]+(?:-[a-z]+)*)",""")


def test_findings_between_two_places() -> None:
    findings = Findings()
    assert findings.between(0, 100) == []
    for offset in (5, 1, 9):
        findings.add("rule", offset, "text")
    assert [finding.offset for finding in findings.between(1, 9)] == [1, 5]
    findings.add("other", 8, "text")
    assert [finding.offset for finding in findings.between(5, 9)] == [5, 8]


def documented() -> Iterator[tuple[str, str, str]]:
    """Format, rule and level of every row of the page; a section begins with a label such as `(findings-fxt)=`."""
    parts = SECTION.split(PAGE)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        for rule, level in ROW.findall(text):
            yield name, rule, level


DOCUMENTED = [*documented()]
READS = {"merge": "fxt"}
"""The format that a command reads, whose rules are also those of its input."""


def cases_of(name: str) -> dict[str, Callable[[Path], Findings]]:
    cases: dict[str, Callable[[Path], Findings]] = import_module(f"broken.{name}").CASES
    return cases


@pytest.mark.parametrize(("name", "rule", "level"), DOCUMENTED)
def test_a_documented_rule_is_reported(name: str, rule: str, level: str, tmp_path: Path) -> None:
    findings = cases_of(name)[rule](tmp_path)
    assert rule in findings.counts
    assert {finding.level.value for finding in findings if finding.rule == rule} == {level}
    pages = {name, READS.get(name, name)}
    assert {*findings.counts} <= {each for format_name, each, _ in DOCUMENTED if format_name in pages}


@pytest.mark.parametrize("name", [*formats(), "merge"])
def test_every_case_is_documented(name: str) -> None:
    assert {*cases_of(name)} == {rule for format_name, rule, _ in DOCUMENTED if format_name == name}


def test_every_rule_in_the_source_is_documented() -> None:
    used = {rule for path in PACKAGE.rglob("*.py") for rule in ADDED.findall(path.read_text())}
    assert used <= {rule for _, rule, _ in DOCUMENTED}
