"""An argument of a wrong type is refused with a TypeError or an error of fxtio, never with an AttributeError."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fxtio
from contract.samples import SYNTHETIC, Sample, open_sample
from fxtio.errors import FxtioError

pytestmark = pytest.mark.kernels

WRONG = [None, 5, 1.5, b"select 1", ["select 1"], object()]

FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "open": fxtio.open,
    "open_timeline": fxtio.open_timeline,
    "create": fxtio.create,
}

METHODS: dict[str, Callable[[Any, Any], object]] = {
    "sql": lambda trace, value: trace.sql(value),
    "sql of the timeline": lambda trace, value: trace.timeline().sql(value),
    "table of the timeline": lambda trace, value: trace.timeline().table(value),
    "table": lambda trace, value: trace.table(value),
    "tables": lambda trace, value: trace.tables(value),
}


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, FxtioError)):
        FUNCTIONS[function](value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sample", {sample.format.name: sample for sample in SYNTHETIC}.values(), ids=str)
def test_methods_of_traces(sample: Sample, method: str, tmp_path: Path) -> None:
    with open_sample(sample, tmp_path) as trace:
        for value in WRONG:
            with pytest.raises((TypeError, FxtioError, KeyError)):  # there is no table of such a name
                METHODS[method](trace, value)
