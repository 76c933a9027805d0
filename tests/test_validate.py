"""Validation: the rules and the broken traces of every format, and what `fxtio validate` does with them."""

from __future__ import annotations

from pathlib import Path

from fxtio.formats import Format
from fxtio.io.source import open_source
from support import toy_format


def test_a_format_without_rules_is_checked_by_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    toy = toy_format.FILES
    toy.breaks.BREAKS["toy.empty-line"](path)
    trace = toy.open(path, source=open_source(path))
    toy.rules.check(trace)
    assert trace.findings.counts == {"toy.empty-line": 1}


def test_a_format_without_broken_traces_has_none() -> None:
    assert Format("bare", "a bare format", "fxtio.codec", (), "", "").breaks.BREAKS == {}
