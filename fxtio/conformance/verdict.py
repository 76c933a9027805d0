"""Verdicts about single cases, and the list of known failures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from fxtio.errors import FxtioError


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
    def read(cls, path: str | Path) -> KnownFailures:
        """Read a TOML file with the table `[known]`.

        Raises:
            FxtioError: the file is not TOML, or has anything else than this table of texts.
            OSError: the file cannot be read.
        """
        try:
            content = tomllib.loads(Path(path).read_text("utf-8"))
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
