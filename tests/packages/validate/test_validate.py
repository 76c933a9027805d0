"""Validation: the result of checking a trace, its reports, and the command `fxtio validate`."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import struct
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

import fxtio
from fxtio import synth
from fxtio.cli import main
from fxtio.conformance.kit import broken_traces
from fxtio.errors import FormatError
from fxtio.finding import Finding
from fxtio.formats import by_name, formats
from fxtio.io.source import open_source
from fxtio.report import human_size
from fxtio.rules import LEVELS, Rule, Severity
from fxtio.rules import rule as rule_of
from fxtio.validate import (
    ERROR,
    NEVER,
    THRESHOLDS,
    Selection,
    SelectionError,
    all_rules,
    is_at_least,
    listing,
    profiles,
    reports,
    traces_in,
    validate,
)
from support import toy_format
from support.broken import write_broken
from support.checkout import CHECKOUT, CORPUS

Capture = pytest.CaptureFixture[str]


def synthetic() -> bytes:
    """Return a small trace without a fault."""
    out = io.BytesIO()
    synth.write(out, "spans", events=40, seed=1, threads=2)
    return out.getvalue()


CLEAN = synthetic()
PLACES = [entry.offset for entry in fxtio.open(CLEAN).entries()]
BAD_WORD = struct.pack("<Q", 4)  # the header of an event whose size is 0
AT = PLACES[20]
BROKEN = CLEAN[:AT] + BAD_WORD + CLEAN[AT:]
"""A trace with a record of size 0 at the byte AT, which breaks a rule of the level `required`."""

RULE = "fxt.framing.zero-size"
SCHEMA = json.loads(Path(__file__).parents[2].joinpath("schemas", "sarif-2.1.0-rtm.5.json").read_text("utf-8"))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.fxt"
    path.write_bytes(BROKEN)
    return path


# ---- the rooms of a format


def test_a_format_without_rules_is_checked_by_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    toy = toy_format.FILES
    path.write_bytes(toy_format.BROKEN)
    trace = toy.open(path, source=open_source(path))
    toy.rules.check(trace)
    assert trace.findings.counts == {"toy.line.empty": 1}


# ---- selections


def rule(level: str, rule_id: str = "fxt.framing.zero-size") -> Rule:
    return Rule(rule_id, level, "", "", "", "", "1", Severity.ERROR)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("all", ["required", "recommended", "interop:perfetto", "interop:uftrace", "robustness"]),
        ("required", ["required"]),
        ("recommended", ["required", "recommended"]),
        ("perfetto", ["required", "interop:perfetto"]),
    ],
)
def test_profiles(monkeypatch: pytest.MonkeyPatch, profile: str, expected: list[str]) -> None:
    levels = ["required", "recommended", "interop:perfetto", "interop:uftrace", "robustness"]
    monkeypatch.setattr("fxtio.validate.all_rules", lambda: [rule(level) for level in levels])
    assert list(profiles()) == ["all", "required", "recommended", "perfetto", "uftrace"]
    assert [level for level in levels if Selection(profile).has(rule(level))] == expected


def test_patterns() -> None:
    selection = Selection(rules=("fxt.framing.*", "*.source.empty"), ignored=("*.zero-size",))
    selected = [each.id for each in all_rules() if selection.has(each)]
    assert {"fxt.framing.truncated", "fxt.source.empty", "mono.source.empty"} <= {*selected}
    assert not {"fxt.framing.zero-size", "fxt.source.cut"} & {*selected}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "chrome"}, "there is no profile 'chrome', only all, required, recommended"),
        ({"rules": ("fxt.nothing.*",)}, "no rule has an id like 'fxt.nothing.*'"),
        ({"ignored": ("zero-size",)}, "no rule has an id like 'zero-size'"),
    ],
)
def test_a_selection_that_cannot_be_meant_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message.replace("*", r"\*")):
        Selection(**arguments)


def test_rules_without_texts_can_be_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {**formats(), "toy": toy_format.FILES}
    monkeypatch.setattr("fxtio.validate.formats", lambda: everything)
    selection = Selection(ignored=("toy.line.*",))
    assert not selection.has(rule_of("toy.line.empty"))
    assert selection.has(rule_of("toy.other"))


def test_a_rule_without_texts_is_listed_by_its_findings() -> None:
    finding = Finding("toy.line.empty", 3, "a line is empty")
    result = replace(validate(CLEAN), findings=(finding,), counts={"toy.line.empty": 1})
    assert list(listing.text_of(result, CLEAN, shown=0))[1:] == [
        "",
        "required: toy.line.empty, 1 finding, at byte 3",
    ]


def test_what_is_an_error() -> None:
    """What the specification forbids, and what cannot be read, whatever rule says so; the rest is advice."""
    mild = {level: replace(rule(level), severity=Severity.WARNING) for level in (*LEVELS, "interop:perfetto")}
    assert [level for level, each in mild.items() if is_at_least(each, ERROR)] == ["required"]
    assert all(is_at_least(rule(level), ERROR) for level in mild)
    assert [Selection(profile).threshold for profile in ("all", "required", "recommended", "perfetto")] == [
        ERROR, "robustness", "robustness", "robustness",
    ]  # fmt: skip
    assert Selection(rules=("fxt.*",)).threshold == "robustness"
    assert Selection(ignored=("fxt.*",)).threshold == ERROR


@pytest.mark.parametrize("threshold", [each for each in THRESHOLDS if each != ERROR])
def test_thresholds(threshold: str) -> None:
    reached = [level for level in LEVELS if is_at_least(rule(level), threshold)]
    assert reached == ([] if threshold == NEVER else list(LEVELS[: LEVELS.index(threshold) + 1]))
    assert is_at_least(rule("interop:perfetto"), threshold) == ("interop" in reached)


# ---- validations


def test_a_clean_trace_is_valid() -> None:
    validation = validate(CLEAN)
    assert validation.is_valid()
    assert (validation.format, validation.size, validation.total, validation.broken) == ("fxt", len(CLEAN), 0, [])


def test_a_broken_trace(broken: Path) -> None:
    validation = validate(broken)
    assert (validation.name, validation.counts) == (str(broken), {RULE: 1})
    assert [(finding.rule, finding.offset) for finding in validation.findings] == [(RULE, AT)]
    assert [each.id for each in validation.broken] == [RULE]
    assert [threshold for threshold in THRESHOLDS if validation.is_valid(threshold)] == [NEVER]


def test_rules_that_are_not_selected_do_not_count(broken: Path) -> None:
    validation = validate(broken, ignore=["fxt.framing.*"])
    assert validation.is_valid()
    assert (validation.counts, validation.findings, validation.unselected) == ({}, (), 1)
    first, second = listing.text_of(validation, broken)
    assert first.startswith(f"{broken}: valid (fxt, ")
    assert second == "  1 finding of rules that are not selected"


def test_the_most_binding_rules_come_first() -> None:
    validation = validate(CORPUS / "dcpi" / "crlf.dcpi")
    assert {each.level for each in validation.broken} == {"required", "recommended"}
    places = [LEVELS.index(each.level) for each in validation.broken]
    assert places == sorted(places)
    assert not validation.is_valid("required")
    assert validate(CORPUS / "dcpi" / "given-specification.dcpi").is_valid("required")


def test_a_directory_has_the_size_of_its_files() -> None:
    directory = CORPUS / "uftrace" / "synth-lost"
    assert validate(directory).size == sum(path.stat().st_size for path in directory.iterdir())


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(FormatError):
        validate(b"no trace")
    assert validate(b"", format="fxt").counts == {"fxt.source.empty": 1}


def test_traces_in_directories(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "no-suffix").write_bytes(CLEAN)
    (tmp_path / "b" / "notes.txt").write_text("text")
    (tmp_path / "b" / "empty.mlpd").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    with by_name("uftrace").create(tmp_path / "a.data"):
        pass
    expected = [tmp_path / "a.data", tmp_path / "b" / "empty.mlpd", tmp_path / "b" / "no-suffix"]
    assert list(traces_in(tmp_path)) == expected


def test_a_directory_that_cannot_be_read(broken: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be traces in it, so it is not passed over."""
    (secret := broken.parent / "secret").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if str(path) == str(secret):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert list(traces_in(broken.parent)) == [broken, secret]
    code, out, err = run(capsys, "--show", 0, broken.parent)
    assert (code, err) == (2, f"fxtio: {secret}: Permission denied\n")
    assert out.startswith(f"{broken}: ")


# ---- bytes


def calls(path: Path) -> Path:
    """Write a uftrace directory without a fault, with two tasks."""
    synth.write(path, "calls", format="uftrace", events=25, threads=2)
    return path


def shown(path: Path, **options: Any) -> list[str]:
    return list(listing.text_of(validate(path), path, **options))


def test_the_bytes_of_the_first_findings_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    places = PLACES[10:40:10]
    parts = [CLEAN[begin:end] for begin, end in pairwise([0, *places, len(CLEAN)])]
    path.write_bytes(BAD_WORD.join(parts))
    first, second, third = (place + 8 * index for index, place in enumerate(places))
    lines = shown(path)
    assert lines[0] == f"{path}: 3 findings of 1 rule (fxt, {human_size(len(CLEAN) + 24)})"
    assert lines[2] == f"required: {RULE}, 3 findings, at bytes {first:,}, {second:,}, {third:,}"
    assert lines[3:6] == [
        '  A record whose size is 0 words (section "Record header").',
        f"  Why: {rule_of(RULE).why}",
        f"  Fix: {rule_of(RULE).fix}",
    ]
    assert [line for line in lines if "no record" in line] == [
        f"  no record, though it begins like Instant, 8 bytes at {first:,} (spec: Instant event)"
    ]
    assert f"8 bytes at {second:,}" in "\n".join(shown(path, shown=2))
    assert "8 bytes at" not in "\n".join(shown(path, shown=0))


def test_a_finding_of_another_rule_is_not_shown() -> None:
    path = CORPUS / "dcpi" / "crlf.dcpi"
    blocks = "\n".join(shown(path)).split("\n\nrequired: ")[1].split("\n\nrecommended: ")
    for block in blocks:
        name = block.partition(",")[0]
        marked = {line[line.rindex("[") + 1 : -1] for line in block.splitlines() if "  ! " in line and "[dcpi" in line}
        assert marked <= {name}


def test_a_finding_within_a_record_is_marked_on_its_bytes() -> None:
    at = next(
        entry.offset for entry in fxtio.open(CLEAN).entries() if type(entry.record).__name__ == "DurationComplete"
    )
    record = listing.record_of(CLEAN, Finding(RULE, at + 8, "the time is wrong"), "fxt")
    assert record is not None
    assert [byte_range.label for byte_range in record.ranges if byte_range.fault] == ["timestamp"]
    assert record.faults == ["the time is wrong"]
    whole = listing.record_of(CLEAN, Finding(RULE, at, "the record is wrong"), "fxt")
    assert whole is not None
    assert [each.message for each in whole.findings] == ["the record is wrong"]


def test_findings_in_files_of_a_directory(tmp_path: Path) -> None:
    path = calls(tmp_path / "t.data")
    tasks = sorted(each.name for each in path.glob("*.dat"))
    with (path / tasks[1]).open("r+b") as file:
        file.seek(16 * 5 + 8)
        file.write(bytes(8))
    validation = validate(path)
    (finding, *_) = [each for each in validation.findings if each.file == tasks[1]]
    assert f", at {tasks[1]}:{finding.offset}" in "\n".join(shown(path))
    record = listing.record_of(path, finding, "uftrace")
    assert record is not None
    assert record.offset == (path / tasks[0]).stat().st_size + finding.offset - finding.offset % 16
    text = listing.record_of(path, Finding("uftrace.x.y", 9, "a line", "task.txt"), "uftrace")
    assert text is not None
    assert (text.name, text.offset, len(text.ranges[0].raw)) == ("task.txt", 8, 32)
    for name in ("absent", "../t.data"):
        assert listing.record_of(path, Finding("uftrace.x.y", 0, "", name), "uftrace") is None


def test_records_that_are_far_away_or_cannot_be_read_again_are_not_shown(broken: Path) -> None:
    finding = validate(broken).findings[0]
    assert listing.record_of(io.BytesIO(BROKEN), finding, "fxt") is None
    far = Finding(RULE, listing.MAX_OFFSET + 1, "far")
    assert listing.record_of(broken, far, "fxt") is None
    broken.unlink()
    assert listing.record_of(broken, finding, "fxt") is None
    assert f"  ! {finding}" in list(listing.text_of(validate(BROKEN), broken))


def test_showing_records_takes_a_bounded_time(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"8 bytes at {AT:,} " in "\n".join(shown(broken))
    monkeypatch.setattr(listing, "MAX_SECONDS", -1.0)
    assert f"8 bytes at {AT:,} " not in "\n".join(shown(broken))


# ---- reports


def results(broken: Path) -> reports.Results:
    other = broken.with_name("\udcff <other> & #1%.fxt")
    other.write_bytes(CLEAN)
    directory = calls(broken.with_name("t.data"))
    return [
        validate(broken),
        validate(other),
        validate(directory),
        validate(CORPUS / "dcpi" / "crlf.dcpi"),
        reports.Unreadable("none\x1b.fxt", "there is no such file\x00"),
    ]


def test_json(broken: Path) -> None:
    report = json.loads(reports.json_of(results(broken), "required"))
    schema = json.loads((CHECKOUT / "conformance" / "schema" / "validation.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**report, "traces": [{"name": "a"}]}, schema)
    assert [trace.get("valid") for trace in report["traces"]] == [False, True, True, False, None]
    first = report["traces"][0]
    assert first["findings"][0] | {"message": ""} == {"rule": RULE, "offset": AT, "message": ""}
    assert first["counts"] == {RULE: 1}
    assert report["traces"][-1]["error"] == "there is no such file\\x00"
    assert report["rules"][RULE]["fix"] == rule_of(RULE).fix
    assert {"fxt", "dcpi"} == {name.partition(".")[0] for name in report["rules"]}


def test_sarif(broken: Path) -> None:
    report = json.loads(reports.sarif_of(results(broken)))
    jsonschema.validate(report, SCHEMA, jsonschema.Draft4Validator)
    (run,) = report["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == (RULE, "error")
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": str(broken)}, "region": {"startLine": 1, "byteOffset": AT}}
    assert {result["level"] for result in run["results"]} == {"error", "warning"}
    assert run["artifacts"][1]["location"]["uri"].endswith("%FF%20%3Cother%3E%20%26%20%231%25.fxt")
    assert run["invocations"][0]["executionSuccessful"] is False


def sarif_lines(path: Path) -> dict[str, list[int]]:
    """Return the lines of the findings of a trace by rule, as GitHub needs them."""
    report = json.loads(reports.sarif_of([validate(path)]))
    jsonschema.validate(report, SCHEMA, jsonschema.Draft4Validator)
    lines: dict[str, list[int]] = {}
    for result in report["runs"][0]["results"]:
        region = result["locations"][0]["physicalLocation"]["region"]
        lines.setdefault(result["ruleId"], []).append(region["startLine"])
    return lines


def test_sarif_has_the_lines_of_text(tmp_path: Path) -> None:
    text = b"prf stm 2020-01-01 00:00:00.000\nxyz abc\nprf tps 1\nxyz abc"
    path = tmp_path / "t.cpl"
    path.write_bytes(text)
    expected = {"coreprofiler.line.unknown": [2, 4], "coreprofiler.line.no-end": [4]}
    assert sarif_lines(path) == expected
    packed = tmp_path / "t.cpl.gz"
    packed.write_bytes(gzip.compress(text))
    assert sarif_lines(packed) == expected
    long = tmp_path / "long.cpl"
    long.write_bytes(b"prf stm 2020-01-01 00:00:00.000\n" + b"prf cfg a 1\n" * 50_000 + b"xyz abc\n")
    assert sarif_lines(long) == {"coreprofiler.line.unknown": [50_002]}


def test_sarif_has_the_lines_of_text_files_and_headers(tmp_path: Path) -> None:
    directory = calls(tmp_path / "t.data")
    with (directory / "task.txt").open("a") as file:
        count = len((directory / "task.txt").read_text().splitlines())
        file.write("no line\n")
    assert sarif_lines(directory)["uftrace.task.line"] == [count + 1]
    lines = sarif_lines(CORPUS / "dcpi" / "torn.dcpi")
    assert lines["dcpi.chunk.over-end"] == [1]  # after the header, the file is not text
    write_broken("dcpi.header.line", tmp_path / "a.dcpi")
    broken = (tmp_path / "a.dcpi").read_bytes().split(b"\n")
    (line,) = sarif_lines(tmp_path / "a.dcpi")["dcpi.header.line"]
    assert line > 1
    assert len(broken[line - 1].split(maxsplit=1)) < 2


def test_sarif_of_what_cannot_be_read_again() -> None:
    report = json.loads(reports.sarif_of([validate(io.BytesIO(b"prf tps 1\nxyz abc\n"), format="coreprofiler")]))
    assert {
        result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in report["runs"][0]["results"]
    } == {1}


def test_sarif_without_findings() -> None:
    report = json.loads(reports.sarif_of([validate(CLEAN)]))
    jsonschema.validate(report, SCHEMA, jsonschema.Draft4Validator)
    assert report["runs"][0]["results"] == []


def test_the_schema_refuses_what_is_no_sarif() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": "2.1.0", "runs": [{}]}, SCHEMA, jsonschema.Draft4Validator)


def test_junit(broken: Path) -> None:
    suites = ET.fromstring(reports.junit_of(results(broken), "required"))
    assert (suites.tag, suites.get("errors")) == ("testsuites", "1")
    for suite in suites:
        cases = suite.findall("testcase")
        for count, tag in (("tests", "."), ("failures", "failure"), ("errors", "error")):
            assert suite.get(count) == str(len([case for case in cases if case.find(tag) is not None]))
    assert suites.get("failures") == str(len(suites.findall(".//failure")))
    (failure,) = suites[0].findall("testcase/failure")
    assert failure.get("type") == "required"
    assert failure.text is not None
    assert f"at byte {AT:,}" in failure.text
    assert str(failure.get("message")).startswith("1 time: ")
    assert suites[0].find(f"testcase[@name='{RULE}']/failure") is failure
    assert suites[3].find("testcase[@name='dcpi.header.size']/system-out") is not None
    assert suites[3].find("testcase[@name='dcpi.header.size']/failure") is None


# ---- the command


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["validate", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_exit_codes(broken: Path, capsys: Capture) -> None:
    clean = broken.with_name("clean.fxt")
    clean.write_bytes(CLEAN)
    assert run(capsys, clean)[:2] == (0, f"{clean}: valid (fxt, {human_size(len(CLEAN))})\n")
    assert run(capsys, broken)[0] == 1
    assert run(capsys, clean, broken)[0] == 1
    assert run(capsys, "--fail-on", "never", broken)[0] == 0
    assert run(capsys, "--ignore", RULE, broken)[0] == 0
    assert run(capsys, "--fail-on", "required", CORPUS / "dcpi" / "given-specification.dcpi")[0] == 0
    advice = CORPUS / "dcpi" / "given-specification.dcpi"
    code, out, _ = run(capsys, advice)
    assert (code, "recommended: " in out) == (0, True)
    assert json.loads(run(capsys, "--report", "json", advice)[1])["traces"][0]["valid"] is True
    for options in (["--fail-on", "recommended"], ["--profile", "recommended"], ["--rule", "dcpi.*"]):
        assert run(capsys, *options, advice)[0] == 1, options


def test_a_file_that_cannot_be_read_does_not_stop_the_others(broken: Path, capsys: Capture) -> None:
    text = broken.with_name("a.txt")
    text.write_text("text")
    code, out, err = run(capsys, broken.with_name("none\x1b.fxt"), text, broken)
    assert code == 2
    assert out.startswith(f"{broken}: 1 finding (fxt, ")
    first, second = err.splitlines()
    assert first.endswith("none\\x1b.fxt: No such file or directory")
    assert "is not a trace of a known format" in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE is missing"),
        (["--show", "-1", "a.fxt"], "'-1' is not a number of 0 or more"),
        (["--report", "xml", "a.fxt"], "invalid choice: 'xml'"),
        (["--fail-on", "errors", "a.fxt"], "invalid choice: 'errors'"),
        (["--list-rules", "--report", "sarif"], "--report is text or json"),
        (["--list-rules", "-o", "rules.txt"], "-o is for reports about traces"),
        (["--explain", RULE, "-o", "rule.txt"], "-o is for reports about traces"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["validate", *arguments])
    assert refusal.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--profile", "chrome"], ["--rule", "nothing"], ["--explain", "fxt.zero"]])
def test_unknown_names_are_refused(arguments: list[str], broken: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, *arguments, broken)
    assert (code, out) == (2, "")
    assert err.startswith("fxtio: ")


def test_directories(broken: Path, capsys: Capture) -> None:
    broken.with_name("clean.fxt").write_bytes(CLEAN)
    code, out, _ = run(capsys, "--show", 0, broken.parent)
    assert code == 1
    assert [line.partition(": ")[0] for line in out.splitlines() if ".fxt: " in line] == [
        str(broken),
        str(broken.with_name("clean.fxt")),
    ]
    (empty := broken.parent / "empty").mkdir()
    assert run(capsys, empty)[0] == 2
    assert run(capsys, "--format", "uftrace", empty)[2] == f"fxtio: {empty}: the file info is missing or empty\n"


def test_standard_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BROKEN)))
    code, out, _ = run(capsys, "-")
    assert code == 1
    assert out.startswith("<stdin>: 1 finding")
    assert f"! error at byte {AT:,}" in out
    monkeypatch.setattr(sys, "stdin", None)
    assert run(capsys, "-")[0] == 2


@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit"])
def test_reports_go_to_a_file(output: str, broken: Path, capsys: Capture) -> None:
    target = broken.with_name("report")
    code, shown_text, _ = run(capsys, "--report", output, broken)
    assert run(capsys, "--report", output, "-o", target, broken)[:2] == (code, "")
    written = target.read_text("utf-8")
    assert RULE in written
    if output != "junit":  # that has the time it took
        assert written == shown_text


def test_a_report_does_not_overwrite_a_trace(broken: Path, capsys: Capture) -> None:
    link = broken.with_name("link")
    link.symlink_to(broken)
    for target in (broken, link):
        code, out, err = run(capsys, "-o", target, broken.parent)
        assert (code, out) == (2, "")
        assert "the report cannot go to the trace that is checked" in err
    assert broken.read_bytes() == BROKEN


def test_a_report_does_not_go_into_a_trace(tmp_path: Path, capsys: Capture) -> None:
    directory = tmp_path / "calls"
    write_broken("uftrace.record.magic", directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    for name in ("info", "new"):
        assert run(capsys, "-o", directory / name, tmp_path)[0] == 2
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert run(capsys, "-o", tmp_path / "report", tmp_path)[0] == 1


def test_colors(broken: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(capsys, broken)[1]
    monkeypatch.setattr("fxtio.cli.console.has_color", lambda: True)
    colored = run(capsys, broken)[1]
    assert "\x1b[1m" in colored
    assert "\x1b" not in plain + run(capsys, "--report", "json", broken)[1]
    for escape in ("\x1b[1m", "\x1b[31m", "\x1b[0m"):
        colored = colored.replace(escape, "")
    assert colored == plain


def test_explain_a_rule(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--explain", RULE)
    assert code == 0
    assert out.splitlines()[0] == f"{RULE}, level required"
    for text in (rule_of(RULE).why, rule_of(RULE).fix, rule_of(RULE).section, rule_of(RULE).quote):
        assert text in out
    assert "similar ones are fxt.framing.zero-size" in run(capsys, "--explain", "fxt.framing.zero")[2]


def test_list_rules(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--list-rules", "--rule", "fxt.framing.*")
    assert code == 0
    listed = [line.split()[0] for line in out.splitlines()[1:]]
    assert RULE in listed
    assert all(name.startswith("fxt.framing.") for name in listed)
    out = run(capsys, "--list-rules", "--report", "json", "--format", "dcpi", "--profile", "required")[1]
    rules = json.loads(out)
    assert {each["level"] for each in rules.values()} == {"required"}
    assert all(name.startswith("dcpi.") for name in rules)
    listed_json = json.loads(run(capsys, "--list-rules", "--report", "json", "--rule", RULE)[1])
    assert listed_json[RULE]["quote"] == rule_of(RULE).quote


# ---- traces that are broken on purpose


def test_break_a_rule(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken"
    assert main(["synth", "--break", RULE, "-o", str(path)]) == 0
    assert capsys.readouterr().err == f"fxtio: wrote a trace that breaks {RULE} to {path}\n"
    assert path.read_bytes() == (CHECKOUT / "conformance/cases/fxt/invalid/framing.zero-size.fxt").read_bytes()
    assert main(["synth", "--break", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(rule in listed for name in formats() for rule in broken_traces(name))
    for other in ("fxt.other", "toy.line.empty", "fxt.object.too-many"):  # that one is about a limit
        assert main(["synth", "--break", other, "-o", str(path)]) == 2
        assert f"there is no trace that breaks '{other}'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["synth", "--break", RULE])
    with pytest.raises(SystemExit):
        main(["synth", "--break", RULE, "spans", "-o", str(path)])
    assert "without SHAPE" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.mlpd", "x.mlpd.gz", "x.data", "x.dcpi"])
def test_a_broken_trace_has_no_ending_of_another_format(name: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / name
    assert main(["synth", "--break", RULE, "-o", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{name}: the ending is that of the format " in err
    assert f"but a trace that breaks {RULE} is of the format fxt; end the name with .fxt or .ftf" in err
    assert not path.exists()
    assert main(["synth", "--break", RULE, "-o", str(tmp_path / "x.ftf")]) == 0


def test_break_a_rule_of_directories(tmp_path: Path, capsys: Capture) -> None:
    assert main(["synth", "--break", "uftrace.record.magic", "-o", str(tmp_path / "new")]) == 0
    assert main(["synth", "--break", "uftrace.record.magic", "-o", str(tmp_path)]) == 2
    assert "must not exist yet" in capsys.readouterr().err


@pytest.mark.parametrize("name", formats())
def test_broken_traces_of_every_format_are_reported(name: str, tmp_path: Path, capsys: Capture) -> None:
    broken_rules = [each for each in broken_traces(name) if rule_of(each).level == "required"]
    rule_id = next(each for each in broken_rules if not each.partition(".")[2].startswith("source."))
    path = tmp_path / "broken"
    assert main(["synth", "--break", rule_id, "-o", str(path)]) == 0
    capsys.readouterr()
    code, out, _ = run(capsys, "--format", name, path)
    assert code == 1
    assert f"\nrequired: {rule_id}, 1 finding, at " in out
    assert f"fxtio synth --break {rule_id} -o broken" in run(capsys, "--explain", rule_id)[1]


def test_a_broken_trace_goes_to_standard_output(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    assert main(["synth", "--break", RULE, "-o", "-"]) == 0
    write_broken(RULE, path := tmp_path / "a")
    assert capsysbinary.readouterr().out == path.read_bytes()
