"""Assertions about traces, for the tests of programs that write them.

They need no test framework.  The plug-in of pytest gives them as the fixture `validate_trace`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, zip_longest
from typing import Any

import fxtio
from fxtio.conformance import canonical
from fxtio.validate import Validation, validate
from fxtio.validate.listing import text_of

_MAX_SHOWN = 200

RECOMMENDED = "recommended"
"""The profile that is used by default: what the specification demands or advises."""


def assert_valid(
    trace: Any,
    *,
    profile: str = RECOMMENDED,
    rules: Iterable[str] = (),
    ignore: Iterable[str] = (),
    expected: Any = None,
    format: str | None = None,
    **options: Any,
) -> Validation:
    """Assert that a trace breaks no rule, and that it means the same as another one.

    Args:
        trace: bytes, or the path of a file or directory, see `fxtio.open`.
        profile: the rules that count, see `fxtio.validate.validate`.
        rules: patterns of rule ids; if there are any, only rules that match one count.
        ignore: patterns of rule ids that do not count.
        expected: another trace that must mean the same, see `assert_same_meaning`; none by default.
        format: the name of the format; by default it is recognized by content, then by suffix.
        options: options of the format's reader.

    Returns:
        The result.

    Raises:
        AssertionError: the trace breaks a rule; the message has every rule that is broken, and the annotated bytes of
            its first finding; or it does not mean what was expected.
        FormatError: it is not a trace of a known format.
        SelectionError: there is no such profile, or no rule matches a pattern.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    validation = validate(trace, format=format, profile=profile, rules=rules, ignore=ignore, **options)
    if not validation.is_valid():
        raise AssertionError("\n".join(text_of(validation, trace)))
    if expected is not None:
        assert_same_meaning(trace, expected, format=format)
    return validation


def assert_same_meaning(trace: Any, expected: Any, *, format: str | None = None) -> None:
    """Assert that two traces have the same records, whatever the slots are that they use.

    Both are compared as canonical JSON, as `conformance/CANONICAL.md` describes it: references count as what they refer
    to, times as seconds, and the place of a definition does not count.  The records of formats without canonical JSON
    are compared as `fxtio.open` returns them, in their order.  Both traces must fit into memory.

    Args:
        trace: bytes, or the path of a file or directory, see `fxtio.open`.
        expected: the other trace, likewise.
        format: the name of the format of both; by default it is recognized by content, then by suffix.

    Raises:
        AssertionError: the traces differ; the message has the first differences.
        FormatError: one of them is not a trace of a known format.
    """
    __tracebackhide__ = True
    name, other = format or _format_of(trace), format or _format_of(expected)
    if name != other:
        raise AssertionError(f"the trace has the format {name}, expected {other}")
    if name in canonical.formats():
        both = [canonical.read(target, name)["records"] for target in (expected, trace)]
        problems = canonical.differences_in_meaning(name, *both)
    else:
        problems = _differences(_records(expected, name), _records(trace, name))
    if problems:
        raise AssertionError("\n".join(["the trace does not mean what was expected", *problems]))


def _format_of(target: Any) -> str:
    """Return the name of the format of a trace."""
    with fxtio.open(target) as trace:
        return str(trace.format)


def _records(target: Any, format: str) -> list[str]:
    """Return the records of a trace as texts, in which values that are not numbers are equal, too."""
    with fxtio.open(target, format=format) as trace:
        return [repr(record) for record in trace]


def _differences(expected: list[str], actual: list[str]) -> list[str]:
    """Return the first differences of records."""
    pairs = enumerate(zip_longest(expected, actual, fillvalue="missing"))
    problems = (f"record {number} is {b[:_MAX_SHOWN]}, expected {a[:_MAX_SHOWN]}" for number, (a, b) in pairs if a != b)
    return list(islice(problems, canonical.MAX_DIFFERENCES))
