"""Refuse to combine traces: identifiers of functions and threads are numbers of one run."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import NoReturn

from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.formats import MergeError


def merge(traces: Sequence[CoreProfilerTrace], target: str | PathLike[str]) -> NoReturn:
    """Raise an error, see `fxtio.formats.MergeRoom`."""
    raise MergeError(
        f"{traces[0].name} is a CoreProfiler trace: its times count from the start of its process, and its numbers of "
        "functions and threads mean something in this process only, so several traces cannot be one"
    )
