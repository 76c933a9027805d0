"""Judgment of what a harness returned: the verdict about a case, with the reasons for it."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fxtio.conformance import canonical, timeline
from fxtio.conformance.files import Place
from fxtio.conformance.harness import Answer, Limits, Status
from fxtio.conformance.kit import READ, Case
from fxtio.errors import FxtioError
from fxtio.validate import validate


class Verdict(StrEnum):
    """The verdict about one case.  `conformance/PROTOCOL.md` describes them."""

    PASS = "pass"
    REFUSED = "refused as expected"
    UNSUPPORTED = "unsupported"
    KNOWN_FAILURE = "known failure"
    FAIL = "fail"
    UNEXPECTED_PASS = "unexpected pass"
    CRASH = "crash"
    TIMEOUT = "timeout"
    PROTOCOL_ERROR = "protocol error"

    @property
    def is_success(self) -> bool:
        """Whether the testee did what the case expects."""
        return self in {Verdict.PASS, Verdict.REFUSED}

    @property
    def is_failure(self) -> bool:
        """Whether a run with this verdict fails."""
        return self in {
            Verdict.FAIL,
            Verdict.UNEXPECTED_PASS,
            Verdict.CRASH,
            Verdict.TIMEOUT,
            Verdict.PROTOCOL_ERROR,
        }


@dataclass(frozen=True)
class Result:
    """The result of one case.

    Attributes:
        case: the id of the case.
        format: the name of its format.
        operation: `read` or `write`.
        verdict: the verdict.
        details: lines for people: the first differences, a reason, the end of what the harness printed.
        seconds: the time that the harness took.
        circles: for writers, by the name of a circle (`valid`, `same meaning`, `same bytes`), whether the trace is
            within it; circles that were not judged are missing.
    """

    case: str
    format: str
    operation: str
    verdict: Verdict
    details: tuple[str, ...] = ()
    seconds: float = 0.0
    circles: Mapping[str, bool] = field(default_factory=dict)


class KnownFailures:
    """The cases that a testee is known to fail, each with a reason.

    Args:
        reasons: the reason by the id of a case; `*` in an id stands for any characters.
    """

    def __init__(self, reasons: Mapping[str, str] | None = None) -> None:
        self.reasons = dict(reasons or {})

    @classmethod
    def read(cls, path: str | Place) -> KnownFailures:
        """Read a TOML file with the table `[known]`, which may be one of the kit.

        Raises:
            FxtioError: the file is not TOML, or has anything else than this table of texts.
            OSError: the file cannot be read.
        """
        try:
            content = tomllib.loads((Path(path) if isinstance(path, str) else path).read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FxtioError(f"{path} is not a TOML file: {error}") from error
        reasons = content.get("known", {})
        if content.keys() - {"known"} or not isinstance(reasons, dict):
            raise FxtioError(f"{path}: there must be one table, [known], and nothing else")
        for case, reason in reasons.items():
            if not isinstance(reason, str) or not reason.strip():
                raise FxtioError(f"{path}: {case}: the reason must be a text")
        return cls(reasons)

    def check(self, cases: Iterable[str]) -> None:
        """Check that each entry stands for at least one of these cases.

        Raises:
            FxtioError: an entry matches no case.
        """
        names = list(cases)
        for pattern in self.reasons:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise FxtioError(f"the list of known failures has {pattern!r}, which matches no case of the kit")

    def reason(self, case: str) -> str | None:
        """Return why a case is known to fail, or None."""
        return next((reason for pattern, reason in self.reasons.items() if fnmatchcase(case, pattern)), None)

    def apply(self, result: Result) -> Result:
        """Return the result with the verdict that takes known failures into account."""
        reason = self.reason(result.case)
        if reason is None:
            return result
        if result.verdict.is_success:
            details = (f"it is in the list of known failures ({reason}), but does not fail", *result.details)
            return replace(result, verdict=Verdict.UNEXPECTED_PASS, details=details)
        if result.verdict.is_failure:
            details = (reason, f"verdict: {result.verdict}", *result.details)
            return replace(result, verdict=Verdict.KNOWN_FAILURE, details=details)
        return result


VALID, SAME_MEANING, SAME_BYTES = "valid", "same meaning", "same bytes"
"""The circles in which a written trace is judged."""

_MAX_RULES = 20


class MissingJudgeError(FxtioError):
    """An error: what is needed to judge a case is not there, so a run would prove nothing."""


@dataclass(frozen=True)
class Judges:
    """The checks that judge a written trace.

    Attributes:
        validate: returns the ids of the rules of the level `required` that the trace at a path breaks.
        read: returns the canonical records of the trace at a path of a format, or raises `FxtioError`.
    """

    validate: Callable[[Path, str], Sequence[str]]
    read: Callable[[Path, str], Sequence[Any]]


class _ProtocolError(Exception):
    """An error: the result breaks the protocol."""


def judge(case: Case, answer: Answer, target: Path, judges: Judges, limits: Limits) -> Result:
    """Return the result of a case, without regard to known failures.

    Args:
        case: the case.
        answer: the answer of the harness.
        target: where the harness was asked to write its result.
        judges: the judges of written traces.
        limits: the limits of the run.
    """
    verdicts = {
        Status.CRASH: Verdict.CRASH,
        Status.TIMEOUT: Verdict.TIMEOUT,
        Status.PROTOCOL_ERROR: Verdict.PROTOCOL_ERROR,
        Status.UNSUPPORTED: Verdict.UNSUPPORTED,
        Status.REFUSED: Verdict.REFUSED if case.may_refuse else Verdict.FAIL,
    }
    verdict = verdicts.get(answer.status)
    details: tuple[str, ...] = (answer.reason,) if answer.reason else ()
    circles: dict[str, bool] = {}
    if verdict is None:
        try:
            _check_size(target, limits.output)
            problems = _problems_of_reading(case, target) if case.operation == READ else []
            if case.operation != READ:
                circles, problems = _circles(case, target, judges)
        except _ProtocolError as error:
            verdict, details = Verdict.PROTOCOL_ERROR, (str(error),)
        else:
            verdict, details = (Verdict.FAIL if problems else Verdict.PASS), tuple(problems)
    elif verdict is Verdict.FAIL:
        details = (f"the testee refused the case, but {_reason_not_to_refuse(case)}", *details)
    if verdict.is_failure and answer.output:
        details = (*details, "the harness printed:", *(f"  {line}" for line in answer.output))
    return Result(case.id, case.format, case.operation, verdict, details, answer.seconds, circles)


def _reason_not_to_refuse(case: Case) -> str:
    if case.operation != READ:
        return "the format can express the scenario"
    return "the trace is valid" if case.is_valid else "a reader can read everything in spite of the broken rule"


def _check_size(target: Path, limit: int) -> None:
    """Check that a result is a file, or a directory of files, of a bounded size."""
    size = 0
    try:
        paths = [target, *target.rglob("*")] if target.is_dir() and not target.is_symlink() else [target]
        for path in paths:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                size += status.st_size
            elif not stat.S_ISDIR(status.st_mode):
                raise _ProtocolError(f"{path.name} is neither a file nor a directory")
    except FileNotFoundError:
        raise _ProtocolError("the harness did not write its result") from None
    except OSError as error:
        raise _ProtocolError(f"the result cannot be read: {error}") from error
    if size > limit:
        raise _ProtocolError(f"the result has {size:,} bytes, {limit:,} at most")


def _problems_of_reading(case: Case, target: Path) -> list[str]:
    """Compare the result of reading with the expectation."""
    result = _load(target)
    problems = _problems_of_findings(case, result)
    if "timeline" in result:
        if result["timeline"] == {}:
            raise _ProtocolError("the timeline has no members, so there is nothing to compare")
        return problems + timeline.differences(case.format, case.records, result["timeline"])
    records = result.get("records")
    if not isinstance(records, list):
        raise _ProtocolError("the result has neither a list 'records' nor a 'timeline'")
    form = result.get("form", "raw")
    if form not in ("raw", "resolved"):
        raise _ProtocolError("the member 'form' of the result is neither 'raw' nor 'resolved'")
    if form == "resolved":
        return problems + canonical.differences_in_meaning(case.format, case.records, records)
    return problems + canonical.differences(case.records, records)


def _load(target: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        result = json.loads(target.read_bytes())
    except OSError as error:
        raise _ProtocolError(f"the result cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise _ProtocolError(f"the result is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise _ProtocolError("the result is not a JSON object")
    return result


def _problems_of_findings(case: Case, result: dict[str, Any]) -> list[str]:
    """Compare the rules that a testee says are broken with those that are; most testees do not say any."""
    if "findings" not in result:
        return []
    findings = result["findings"]
    if not isinstance(findings, list) or not all(isinstance(rule, str) for rule in findings):
        raise _ProtocolError("the member 'findings' of the result is not a list of ids of rules")
    missing = [f"it does not report the rule {rule}" for rule in case.rules if rule not in findings]
    broken = {*case.rules, *case.remarks}
    wrong = [f"it reports the rule {rule}, which is not broken" for rule in findings if rule not in broken]
    return (missing + wrong)[:_MAX_RULES]


def _circles(case: Case, target: Path, judges: Judges) -> tuple[dict[str, bool], list[str]]:
    """Judge a written trace; return which circles it is in, and what is wrong."""
    rules = judges.validate(target, case.format)
    circles = {VALID: not rules}
    problems = [f"it breaks the rule {rule}" for rule in rules[:_MAX_RULES]]
    try:
        differences = canonical.differences_in_meaning(case.format, case.records, judges.read(target, case.format))
    except MissingJudgeError:
        raise
    except (FxtioError, OSError) as error:
        differences = [f"it cannot be read: {error}"]
    circles[SAME_MEANING] = not differences
    problems += differences
    others = list(_other_bytes(case, target))
    if case.bytes is not None or case.files:
        circles[SAME_BYTES] = not others
    if others and not problems:
        problems.append("it is valid and means the same, but the scenario demands certain bytes:")
    return circles, problems + others


def _other_bytes(case: Case, target: Path) -> Iterator[str]:
    """Describe where the bytes of a written trace differ, if they are given: of a file, or of files of a directory."""
    if case.bytes is not None:
        written = target.read_bytes() if target.is_file() else b""
        if written != case.bytes:
            yield _first_other_byte(case.bytes, written)
    for name, expected in case.files.items():
        path = target / name
        if not path.is_file():
            yield f"there is no file {name}"
        elif (written := path.read_bytes()) != expected:
            yield f"{name}: {_first_other_byte(expected, written)}"


def _first_other_byte(expected: bytes, actual: bytes) -> str:
    """Describe where two byte strings begin to differ."""
    pairs = zip(expected, actual, strict=False)
    place = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(actual)))
    start = place - place % 8
    return (
        f"the bytes differ from byte {place} on: {actual[start : start + 8].hex(' ') or 'the end'}, "
        f"expected {expected[start : start + 8].hex(' ') or 'the end'}"
    )


def standard_judges() -> Judges:
    """Return the judges of fxtio: its validator, and its reader."""
    return Judges(_broken_rules, _records)


def _records(path: Path, format: str) -> list[Any]:
    """Return the canonical records of a trace.

    Raises:
        MissingJudgeError: there is no canonical JSON of the format.
        FxtioError: it is not a trace.
    """
    try:
        records: list[Any] = canonical.read(path, format)["records"]
    except canonical.UnsupportedError as error:
        raise MissingJudgeError(f"written traces of the format {format} cannot be judged: {error}") from error
    return records


def _broken_rules(path: Path, format: str) -> list[str]:
    """Return the ids of the rules of the level `required` that a trace breaks."""
    try:
        return [rule.id for rule in validate(path, format=format, profile="required").broken]
    except (FxtioError, OSError) as error:
        return [f"(it is not a trace: {error})"]
