"""Some of CPython's own tests have the same outcomes when they are recorded; `tests/outside` compares many more."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from outside.compare import SMALL, differences, outcomes_of_module

pytestmark = [
    pytest.mark.recorder,
    pytest.mark.skipif(find_spec("test.test_code") is None, reason="no tests of CPython"),
]


@pytest.mark.full
@pytest.mark.parametrize("module", SMALL)
def test_tests_of_cpython(module: str, tmp_path: Path) -> None:
    count, different = differences(partial(outcomes_of_module, module), tmp_path / "out.fxt")
    assert count > 5
    assert different == []
