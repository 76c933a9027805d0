"""The rules of uftrace directories: broken ones break one rule, and uftrace goes wrong where a rule says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import fxtio
from fxtio.rules import rules_of
from fxtio.uftrace.breaks import BREAKS
from fxtio.uftrace.rules import check

OPTIONS: dict[str, dict[str, Any]] = {"uftrace.source.cut": {"max_bytes": 32}}


@contextmanager
def circumstances(rule: str) -> Iterator[None]:
    """Provide what a rule about the machine of the reader depends on."""
    if rule == "uftrace.argspec.no-demangler":
        with patch("fxtio.uftrace.demangle._library", lambda: None):
            yield
    else:
        yield


@pytest.mark.parametrize("rule", rules_of("uftrace"))
def test_a_broken_trace_breaks_its_rule_only(rule: str, tmp_path: Path) -> None:
    BREAKS[rule](tmp_path / "t")
    with circumstances(rule), fxtio.open(tmp_path / "t", format="uftrace", **OPTIONS.get(rule, {})) as trace:
        check(trace)
    assert {*trace.findings.counts} == {rule, *rules_of("uftrace")[rule].implied}, [*trace.findings]


def test_every_rule_has_a_broken_trace() -> None:
    assert [*BREAKS] == [*rules_of("uftrace")]
