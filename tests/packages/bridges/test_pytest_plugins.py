"""`pytest --fxtio` beside the largest plug-ins of pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
import judges
from fxtio.timeline.answers import find
from judges import pytest_plugins


@pytest.mark.once
@pytest.mark.full
@pytest.mark.recorder
@pytest.mark.parametrize("options", [[], ["-n2"]], ids=["one process", "workers"])
def test_tests_have_the_same_outcomes(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judges.require(pytest_plugins.available())
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    before, output = pytest_plugins.run(tmp_path, *options)
    assert before["failed"] == 1 and before["xfailed"] == 1 and before["rerun"] == 1, output
    after, output = pytest_plugins.run(tmp_path, *options, "--fxtio=out.fxt", "--fxtio-on-failure")
    assert after == before, output
    assert "shared fixture" in output and "fxtio: last moments" in output
    with fxtio.open_timeline(tmp_path / "out.fxt") as timeline:
        tests = find(timeline, "*test_it.py::test_*").rows
    outcomes = [row.arguments.get("outcome") for row in tests if row.category == "pytest"]
    assert outcomes.count("failed") == 1 and outcomes.count("passed") > 15
