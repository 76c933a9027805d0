"""Assertions about traces, for the tests of programs that write them.

They need no test framework.  The plug-in of pytest gives them as the fixture `validate_trace`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fxtio.validate import Validation, validate
from fxtio.validate.listing import text_of

RECOMMENDED = "recommended"
"""The profile that is used by default: what the specification demands or advises."""


def assert_valid(
    trace: Any,
    *,
    profile: str = RECOMMENDED,
    rules: Iterable[str] = (),
    ignore: Iterable[str] = (),
    format: str | None = None,
    **options: Any,
) -> Validation:
    """Assert that a trace breaks no rule.

    Args:
        trace: bytes, or the path of a file or directory, see `fxtio.open`.
        profile: the rules that count, see `fxtio.validate.validate`.
        rules: patterns of rule ids; if there are any, only rules that match one count.
        ignore: patterns of rule ids that do not count.
        format: the name of the format; by default it is recognized by content, then by suffix.
        options: options of the format's reader.

    Returns:
        The result.

    Raises:
        AssertionError: the trace breaks a rule; the message has every rule that is broken, and the annotated bytes of
            its first finding.
        FormatError: it is not a trace of a known format.
        SelectionError: there is no such profile, or no rule matches a pattern.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    validation = validate(trace, format=format, profile=profile, rules=rules, ignore=ignore, **options)
    if not validation.is_valid():
        raise AssertionError("\n".join(text_of(validation, trace)))
    return validation
