"""Which recorder runs: the one in C, or where that is not there its twin in Python, which is slower and says so."""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from typing import Any

from fxtio.tracer.layout import LAYOUT

IN_C = "c"
IN_PYTHON = "python"


def _load() -> tuple[Any, str]:
    if (os.environ.get("FXTIO_RECORDER") or IN_C) == IN_C:
        with contextlib.suppress(ImportError):
            return import_module("fxtio._native._recorder"), IN_C
    return import_module("fxtio.tracer.recorder"), IN_PYTHON


recorder, IMPLEMENTATION = _load()
if IMPLEMENTATION == IN_PYTHON:
    recorder.configure(LAYOUT)
