"""Reports of a run: a table for people, JSON, JUnit XML for CI services, a page of HTML, and a scoreboard of many runs.

What a harness returned or printed is untrusted, so it is escaped.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from fxtio.conformance.harness import PROTOCOL
from fxtio.conformance.judge import KnownFailures, Result, Verdict
from fxtio.conformance.kit import Case
from fxtio.conformance.runner import MODES, Run
from fxtio.errors import FxtioError
from fxtio.report import counted, json_document, printable

_MAX_DETAILS = 30


def table(run: Run, *, verbose: bool = False) -> str:
    """Return a report for people: what failed, then how many cases of each format have each verdict.

    Args:
        run: the run.
        verbose: list the cases that did not fail, too.
    """
    lines = []
    for result in run.results:
        if verbose or result.verdict.is_failure:
            lines.append(f"{result.verdict.upper()}  {result.operation} {result.case}")
            lines += [f"    {printable(detail)}" for detail in result.details[:_MAX_DETAILS]]
    if lines:
        lines.append("")
    lines += _count_lines(run)
    lines += ["", f"{printable(_title(run))}: {_summary(run)}", *hint(run)]
    return "\n".join(lines)


def hint(run: Run) -> list[str]:
    """Return lines that say why the testee supports no case of a run; none if it supports one."""
    if not run.results or any(result.verdict is not Verdict.UNSUPPORTED for result in run.results):
        return []
    lines = [f"{printable(_title(run))} supports none of these cases, in {run.mode} mode of the protocol {PROTOCOL}:"]
    for group, results in _groups(run).items():
        reasons = Counter(result.details[0] if result.details else "no reason is given" for result in results)
        (reason, _), *others = reasons.most_common()
        further = "; --verbose shows further reasons" if others else ""
        lines.append(f"  {' '.join(group)} ({len(results):,}): {printable(reason)}{further}")
    where = {
        "exec": "The harness ended with the exit status 77. It should do so only for what the testee cannot do.",
        "serve": "The formats and operations in the answer to the handshake say which cases the harness is sent.",
    }
    return [*lines, where[run.mode]]


def _groups(run: Run) -> dict[tuple[str, str], list[Result]]:
    """Return the results of a run by format and operation."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in run.results:
        groups.setdefault((result.format, result.operation), []).append(result)
    return groups


def _count_lines(run: Run) -> list[str]:
    """Return a table of the number of cases by format, operation and verdict."""
    verdicts = [verdict for verdict in Verdict if run.counts[verdict]]
    rows = [["format", "operation", *(str(verdict) for verdict in verdicts)]]
    for group, members in _groups(run).items():
        counts = [sum(result.verdict is verdict for result in members) for verdict in verdicts]
        rows.append([*group, *(str(count) if count else "-" for count in counts)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.ljust(width) if number < 2 else cell.rjust(width) for number, (cell, width) in enumerate(pairs)]
        for pairs in (zip(row, widths, strict=True) for row in rows)
    ]
    return ["  ".join(row).rstrip() for row in aligned]


def _title(run: Run) -> str:
    """Return the name and the version of the testee."""
    return f"{run.name} {run.version}".strip()


def _summary(run: Run) -> str:
    """Return one sentence about a run."""
    parts = [f"{count:,} {verdict}" for verdict in Verdict if (count := run.counts[verdict])]
    text = f"{counted(len(run.results), 'case')} of the kit {run.kit}: {', '.join(parts)}"
    if not run.failures and not run.successful:
        text += "; this proves nothing, so the run fails"
    return text


def to_json(run: Run) -> str:
    """Return a report as JSON, which `from_json` reads."""
    content = {
        "kit": run.kit,
        "testee": {"name": run.name, "version": run.version},
        "mode": run.mode,
        "successful": run.successful,
        "counts": {str(verdict): run.counts[verdict] for verdict in Verdict},
        "results": [
            {
                "case": result.case,
                "format": result.format,
                "operation": result.operation,
                "verdict": str(result.verdict),
                "seconds": round(result.seconds, 3),
                **({"circles": dict(result.circles)} if result.circles else {}),
                "details": [_sound(detail) for detail in result.details],
            }
            for result in run.results
        ],
    }
    return json_document(content)


def from_json(text: str | bytes, name: str) -> Run:
    """Read a report that `to_json` made.

    Args:
        text: the JSON; bytes are UTF-8.
        name: where it comes from, for messages.

    Raises:
        FxtioError: it is not such a report.
    """
    try:
        content = json.loads(text)
        results = tuple(
            Result(
                _text(item["case"]),
                _text(item["format"]),
                _text(item["operation"]),
                Verdict(item["verdict"]),
                tuple(map(_text, item["details"])),
                float(item["seconds"]),
                dict(item.get("circles", {})),
            )
            for item in content["results"]
        )
        testee, mode = content["testee"], content["mode"]
        if mode not in MODES:
            raise ValueError(mode)
        return Run(_text(content["kit"]), _text(testee["name"]), _text(testee["version"]), mode, results)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FxtioError(f"{name} is not a JSON report of `fxtio conformance run`") from error


def _text(value: Any) -> str:
    """Return a value of a report that must be a text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def to_junit(run: Run) -> str:
    """Return a report as JUnit XML, with a test suite for each format."""
    root = ET.Element("testsuites", name=_sound(f"conformance of {_title(run)}"))
    for name in dict.fromkeys(result.format for result in run.results):
        results = [result for result in run.results if result.format == name]
        suite = ET.SubElement(root, "testsuite", {"name": name, **_junit_counts(results)})
        for result in results:
            case = ET.SubElement(
                suite,
                "testcase",
                classname=f"{name}.{result.operation}",
                name=result.case,
                time=f"{result.seconds:.3f}",
            )
            tag = _junit_tag(result.verdict)
            if tag is not None:
                element = ET.SubElement(case, tag, message=str(result.verdict))
                element.text = _sound("\n".join(result.details))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _junit_tag(verdict: Verdict) -> str | None:
    """Return the element that JUnit has for a verdict, or None for a success."""
    if verdict.is_success:
        return None
    if not verdict.is_failure:
        return "skipped"
    return "failure" if verdict in {Verdict.FAIL, Verdict.UNEXPECTED_PASS} else "error"


def _junit_counts(results: Iterable[Result]) -> dict[str, str]:
    tags = [_junit_tag(result.verdict) for result in results]
    names = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    return {"tests": str(len(tags))} | {name: str(tags.count(tag)) for tag, name in names.items()}


def _sound(text: str) -> str:
    """Return text in which everything that cannot be printed, or that XML forbids, is escaped."""
    return "\n".join(printable(line) for line in text.split("\n"))


_STYLE = """\
body { font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .7rem; text-align: left }
tr { border-bottom: 1px solid #ddd; vertical-align: top } pre { margin: 0; white-space: pre-wrap; font-size: .85em }
.success { color: #1a7f37 } .failure { color: #c01c28; font-weight: 600 } .neither { color: #777 }
"""


def to_html(run: Run) -> str:
    """Return a report as a page of HTML that needs no other file."""
    title = html.escape(f"Conformance of {printable(_title(run))}")
    rows = "\n".join(_html_row(result) for result in _failures_first(run))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n"
        f"<h1>{title}</h1>\n<p>{html.escape(_summary(run))}</p>\n"
        f"<pre>{html.escape(chr(10).join(_count_lines(run)))}</pre>\n"
        f"<table>\n<tr><th>verdict<th>operation<th>case<th>details\n{rows}\n</table>\n</html>\n"
    )


def _failures_first(run: Run) -> list[Result]:
    return sorted(run.results, key=lambda result: not result.verdict.is_failure)


def _html_row(result: Result) -> str:
    kind = "success" if result.verdict.is_success else "failure" if result.verdict.is_failure else "neither"
    details = html.escape("\n".join(printable(detail) for detail in result.details))
    return (
        f'<tr><td class="{kind}">{html.escape(str(result.verdict))}<td>{result.operation}'
        f"<td>{html.escape(result.case)}<td><pre>{details}</pre>"
    )


REPORTS: Mapping[str, Callable[[Run], str]] = {"json": to_json, "junit": to_junit, "html": to_html}
"""The functions that make reports for other programs, by the name of the kind of report."""


# ---- the scoreboard


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Read JSON reports, see `to_json`.

    Raises:
        FxtioError: a file is not a JSON report.
        OSError: a file cannot be read.
    """
    return [from_json(Path(path).read_bytes(), str(path)) for path in paths]


def scoreboard(runs: Iterable[Run]) -> str:
    """Return a page of Markdown that compares runs."""
    runs = list(runs)
    lines = [
        "# Scoreboard",
        "",
        "Programs of this and of other projects, judged by the conformance kit. `fxtio conformance scoreboard` makes",
        "this page from the JSON reports of their runs.",
        "",
        "| Testee | Format | Operation | Cases | Success | Unsupported | Known failures | Failures |",
        "|---|---|---|--:|--:|--:|--:|--:|",
        *(line for run in runs for line in _scores(run)),
        "",
        "A success is a *pass*, or an invalid trace that was *refused as expected*. A known failure is listed with its",
        "reason below. The verdicts are described in the protocol, `conformance/PROTOCOL.md`.",
    ]
    for run in runs:
        lines += _known_failures(run)
        if unsupported := hint(run):
            lines += ["", f"## {_markdown(_title(run))}, {run.mode} mode, is not in the table", ""]
            lines += [f"    {line}" for line in unsupported]
    return "\n".join(lines) + "\n"


def _scores(run: Run) -> Iterator[str]:
    """Yield a row of the scoreboard for each format and operation that the testee supports."""
    for group, results in _groups(run).items():
        unsupported = sum(result.verdict is Verdict.UNSUPPORTED for result in results)
        if unsupported == len(results):
            continue
        success = sum(result.verdict.is_success for result in results)
        known = sum(result.verdict is Verdict.KNOWN_FAILURE for result in results)
        failures = sum(result.verdict.is_failure for result in results)
        counts = (len(results), success, unsupported, known, failures)
        name = f"{_markdown(_title(run))} ({run.mode})"
        yield f"| {' | '.join([name, *group, *(str(count) for count in counts)])} |"


def _known_failures(run: Run) -> Iterator[str]:
    """Yield the known failures of a run, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for result in run.results:
        if result.verdict is Verdict.KNOWN_FAILURE:
            by_reason.setdefault(result.details[0], []).append(result.case)
    if by_reason:
        yield from ("", f"## Known failures of {_markdown(_title(run))}, {run.mode} mode", "")
    for reason, cases in by_reason.items():
        yield f"- {_markdown(reason)}: {', '.join(f'`{case}`' for case in cases)}"


def known_page(name: str, known: KnownFailures, cases: Iterable[Case]) -> str:
    """Return a page of Markdown about a program: the cases that it is known to fail, by what it does in them.

    Args:
        name: the name of the program.
        known: its known failures.
        cases: the cases that it is given.
    """
    given = list(cases)
    by_reason: dict[str, list[Case]] = {}
    for case in given:
        if reason := known.reason(case.id):
            by_reason.setdefault(reason, []).append(case)
    formats = ", ".join(sorted({f"{case.format} ({case.operation})" for case in given}))
    failed = sum(map(len, by_reason.values()))
    lines = [f"# {_markdown(name)}", "", f"Of {counted(len(given), 'case')} of the conformance kit, {formats}, it is "]
    lines[-1] += f"known to fail {failed:,}. By what it does in them:"
    for reason, failing in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        lines += ["", f"## {_markdown(reason[0].upper() + reason[1:])}", ""]
        lines += [f"- {_markdown(case.title)}: `{case.id}`{_rules(case)}" for case in failing]
    return "\n".join(lines) + "\n"


def _rules(case: Case) -> str:
    """Return the rules that a case breaks, as Markdown after its id; empty if it is valid."""
    return f", which breaks {', '.join(f'`{rule}`' for rule in case.rules)}" if case.rules else ", which is valid"


def _markdown(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in printable(text))


def cases_as_json(cases: Iterable[Case]) -> str:
    """Return cases of the kit as JSON, for programs that choose among them."""
    content = [
        {
            "id": case.id,
            "format": case.format,
            "operation": case.operation,
            "title": case.title,
            "tags": list(case.tags),
            "rules": list(case.rules),
        }
        for case in cases
    ]
    return json_document(content)
