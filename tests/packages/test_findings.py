"""Findings, and their rules: every rule in the source is declared; `contract/test_rules.py` has a trace for each."""

from __future__ import annotations

import ast
import re

import pytest

from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.formats import formats
from fxtio.rules import rule as rule_of
from fxtio.rules import rules_of
from support.checkout import PACKAGE

USED = re.compile(
    r"""(?:\.add|\.rows|report\w*|note|_warn|DecodeError|Fault|Oddity)\((?:[\w.]+,)?\s*"([a-z]+\.[a-z0-9-]+)"[,)]"""
)


def test_findings_between_two_places() -> None:
    findings = Findings("fxt")
    assert findings.between(0, 100) == []
    for offset in (5, 1, 9):
        findings.add("group.rule", offset, "text")
    assert [finding.offset for finding in findings.between(1, 9)] == [1, 5]
    findings.add("group.other", 8, "text")
    assert [finding.offset for finding in findings.between(5, 9)] == [5, 8]


SOURCES = [path for path in PACKAGE.rglob("*.py") if path.parts[len(PACKAGE.parts)] in formats()]
"""The modules of formats."""

DECLARED = [rule for name in formats() for rule in rules_of(name).values()]


def test_without_a_message_a_finding_has_the_text_of_its_rule() -> None:
    text = rule_of("dcpi.chunk.empty").summary
    findings = Findings("dcpi")
    findings.add("chunk.empty", 5)
    findings.add_each("chunk.empty", [6, 7])
    findings.add("chunk.empty", 8, "there is more to tell", times=2)
    assert [finding.message for finding in findings] == [text] * 3 + ["there is more to tell (and 1 more like it)"]
    with pytest.raises(DecodeError, match=text):
        Findings("dcpi", strict=True).add("chunk.empty", 5)


DECODERS = {"fxt/faults.py"}
"""The modules that name the errors of decoders, whose messages are also shown where there are no findings."""


@pytest.mark.parametrize("name", formats())
def test_no_message_repeats_what_the_rule_says(name: str) -> None:
    texts = {rule.summary for rule in rules_of(name).values()}
    for path in (PACKAGE / name).rglob("*.py"):
        if str(path.relative_to(PACKAGE)) not in DECODERS:
            constants = {node.value: node.lineno for node in ast.walk(ast.parse(path.read_bytes()))
                         if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
            repeated = texts & constants.keys()
            assert not repeated, [f"{path}:{constants[text]}: {text}" for text in repeated]


def test_of_many_findings_the_first_ones_are_added_singly() -> None:
    findings = Findings("dcpi")
    findings.add_each("chunk.order", [], "nothing")
    findings.add_each("chunk.order", range(100, 130), "wrong")
    assert [finding.offset for finding in findings] == [*range(100, 121)]
    assert [*findings][-1].message == "wrong (and 9 more like it)"
    assert findings.counts == {"dcpi.chunk.order": 30}


def test_every_rule_in_the_source_is_declared() -> None:
    used = {name for path in SOURCES for name in USED.findall(path.read_text())} - {"arg.size"}  # told apart later
    assert used <= {rule.id.partition(".")[2] for rule in DECLARED}


def test_a_rule_without_a_declaration_has_no_texts() -> None:
    assert (rule_of("toy.line.bad").summary, rule_of("toy.line.bad").why) == ("toy.line.bad", "")
    assert rules_of("toy") == {}
