"""Refuse to cut parts out of recordings: what names methods, classes and objects stands in events all over them."""

from __future__ import annotations

from os import PathLike
from typing import NoReturn

from fxtio.mono.reader import MonoTrace
from fxtio.selection import Selection, SelectionError


def cut(trace: MonoTrace, selection: Selection, target: str | PathLike[str]) -> NoReturn:
    """Raise an error, see `fxtio.formats.CutRoom`."""
    raise SelectionError(
        f"{trace.name} is a Mono recording, whose events get their names from events before and behind them, so no "
        "part of it stands alone; convert it to FXT (fxtio convert), and slice the result"
    )
