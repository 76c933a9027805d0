"""Reports of validations for programs: JSON, SARIF 2.1.0 (for code scanning) and JUnit XML (for CI servers).

A report is about several traces, some of which could perhaps not be read.  Text from a trace is untrusted: whatever is
not printable is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import fxtio
from fxtio.errors import FxtioError
from fxtio.finding import Finding
from fxtio.formats import by_name
from fxtio.io.source import open_source
from fxtio.report import counted, json_document, printable
from fxtio.rules import Rule, rules_of
from fxtio.validate import INTEROP, RECOMMENDED, REQUIRED, ROBUSTNESS, Validation, is_at_least

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_CHUNK = 1 << 18  # bytes

_SARIF_LEVELS = {REQUIRED: "error", RECOMMENDED: "warning", INTEROP: "warning", ROBUSTNESS: "note"}


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be checked.

    Attributes:
        name: the name of the file.
        reason: why.
    """

    name: str
    reason: str


Results = Sequence[Validation | Unreadable]
"""What is reported: a result for each file."""


def rule_json(rule: Rule) -> dict[str, str]:
    """Return a rule as JSON has it; texts that it does not have are left out."""
    names = ("level", "severity", "section", "quote", "basis", "summary", "why", "fix", "also", "since")
    return {name: str(text) for name in names if (text := getattr(rule, name))}


def json_of(results: Results, threshold: str = ROBUSTNESS) -> str:
    """Return the report as JSON; `threshold` decides which traces are valid, see `Validation.is_valid`."""
    rules = {rule.id: rule_json(rule) for rule in _broken_rules(results)}
    traces = [_trace_json(result, threshold) for result in results]
    return json_document({"fxtio": fxtio.__version__, "traces": traces, "rules": rules})


def _trace_json(result: Validation | Unreadable, threshold: str) -> dict[str, Any]:
    if isinstance(result, Unreadable):
        return {"name": result.name, "error": printable(result.reason)}
    return {
        "name": result.name,
        "format": result.format,
        "compression": result.compression,
        "size": result.size,
        "valid": result.is_valid(threshold),
        "counts": dict(result.counts),
        "findings": [_finding_json(finding) for finding in result.findings],
        "unselected": result.unselected,
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    place = {"file": finding.file} if finding.file else {}
    return {"rule": finding.rule, **place, "offset": finding.offset, "message": finding.message}


def _broken_rules(results: Results) -> list[Rule]:
    """Return the rules that any of the traces breaks, each once."""
    rules = {rule.id: rule for result in results if isinstance(result, Validation) for rule in result.broken}
    return list(rules.values())


# ---- SARIF


def sarif_of(results: Results) -> str:
    """Return the report as SARIF 2.1.0, with the rules that are broken, and a result for each finding that was kept."""
    rules = _broken_rules(results)
    index_of = {rule.id: index for index, rule in enumerate(rules)}
    driver = {
        "name": "fxtio",
        "semanticVersion": fxtio.__version__,
        "rules": [_sarif_rule(rule) for rule in rules],
    }
    validations = [result for result in results if isinstance(result, Validation)]
    unreadable = [result for result in results if isinstance(result, Unreadable)]
    notifications = [
        {
            "level": "error",
            "message": {"text": printable(result.reason)},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(result.name)}}}],
        }
        for result in unreadable
    ]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not unreadable, "toolExecutionNotifications": notifications}],
        "artifacts": [_sarif_artifact(result) for result in validations],
        "results": [
            _sarif_result(result, finding, rules[index_of[finding.rule]], index_of[finding.rule], line)
            for result in validations
            for finding, line in zip(result.findings, _lines(result), strict=True)
        ],
    }
    return json_document({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why or rule.summary},
        "help": {"text": rule.fix or rule.summary},
        "defaultConfiguration": {"level": _sarif_level(rule)},
        "properties": {"level": rule.level, "section": rule.section},
    }


def _sarif_level(rule: Rule) -> str:
    return _SARIF_LEVELS[rule.level.partition(":")[0]]


def _sarif_artifact(result: Validation) -> dict[str, Any]:
    length = {} if result.size is None or result.compression else {"length": result.size}
    return {"location": {"uri": _uri(result.name)}, **length, "properties": {"counts": dict(result.counts)}}


def _sarif_result(result: Validation, finding: Finding, rule: Rule, index: int, line: int) -> dict[str, Any]:
    uri = _uri(f"{result.name}/{finding.file}" if finding.file else result.name)
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line, "byteOffset": max(finding.offset, 0)}}
    return {
        "ruleId": rule.id,
        "ruleIndex": index,
        "level": _sarif_level(rule),
        "message": {"text": printable(finding.message)},
        "locations": [{"physicalLocation": place}],
    }


def _lines(result: Validation) -> list[int]:
    """Return for each finding of a trace the number of its line, from 1 on.

    It is 1 where the place is not in text, and where the trace cannot be read a second time.
    """
    has_lines = by_name(result.format).has_lines
    offsets: dict[str, list[int]] = {}
    for finding in result.findings:
        if has_lines(finding.rule, finding.file):
            offsets.setdefault(finding.file, []).append(finding.offset)
    lines: dict[tuple[str, int], int] = {}
    for file, places in offsets.items():
        path = Path(result.name, file) if file else Path(result.name)
        if path.is_file() and not (file and path.is_symlink()):
            lines |= {(file, place): line for place, line in _lines_at(path, sorted({*places}))}
    return [lines.get((finding.file, finding.offset), 1) for finding in result.findings]


def _lines_at(path: Path, offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Yield offsets in a file, which ascend, each with the number of its line; not those that cannot be read."""
    buffer = bytearray(_CHUNK)
    line, begin = 1, 0
    try:
        with closing(open_source(path)) as source:
            for offset in offsets:
                while begin < offset:
                    count = source.readinto(memoryview(buffer)[: min(_CHUNK, offset - begin)])
                    if not count:
                        return
                    line += buffer.count(b"\n", 0, count)
                    begin += count
                yield offset, line
    except (OSError, FxtioError):  # the trace is not what it was
        return


def _uri(name: str) -> str:
    """Return the name of a file as a relative or absolute URI."""
    return quote(os.fsencode(name))


# ---- JUnit


def junit_of(results: Results, threshold: str = ROBUSTNESS) -> str:
    """Return the report as JUnit XML.

    A trace is a suite, and each rule of its format that is selected is a case.  A case fails if the rule is broken and
    is as binding as the threshold, see `Validation.is_valid`.  A file that could not be checked is an error.
    """
    suites = ET.Element("testsuites", name="fxtio validate")
    for result in results:
        name = printable(result.name)
        if isinstance(result, Unreadable):
            suite = ET.SubElement(suites, "testsuite", name=name, tests="1", failures="0", errors="1")
            case = ET.SubElement(suite, "testcase", name="read", classname=name)
            ET.SubElement(case, "error", message=printable(result.reason))
        else:
            _junit_suite(suites, name, result, threshold)
    for count in ("tests", "failures", "errors"):
        suites.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _junit_suite(suites: ET.Element, name: str, result: Validation, threshold: str) -> None:
    """Add the suite of a trace."""
    rules = {rule.id: rule for rule in rules_of(result.format).values() if result.selection.has(rule)}
    rules |= {rule.id: rule for rule in result.broken}  # those of a format without texts
    failed = [rule for rule in result.broken if is_at_least(rule, threshold)]
    suite = ET.SubElement(
        suites,
        "testsuite",
        name=name,
        tests=str(len(rules)),
        failures=str(len(failed)),
        errors="0",
        time=f"{result.seconds:.3f}",
    )
    title = by_name(result.format).title
    for rule in rules.values():
        case = ET.SubElement(suite, "testcase", name=rule.id, classname=title)
        if rule.id in result.counts:
            number = result.counts[rule.id]
            message = f"{counted(number, 'time')}: {rule.summary}"
            lines = [printable(str(finding)) for finding in result.findings_of(rule.id)]
            is_failure = rule in failed
            element = ET.SubElement(case, "failure" if is_failure else "system-out")
            if is_failure:
                element.set("message", message)
                element.set("type", rule.level)
            element.text = "\n".join([message, *filter(None, [rule.why, rule.fix]), *lines])
