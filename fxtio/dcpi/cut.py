"""Refuse to cut parts out of profiles: they count samples at addresses, and have no times, threads or names."""

from __future__ import annotations

from os import PathLike
from typing import NoReturn

from fxtio.dcpi.reader import DcpiTrace
from fxtio.selection import Selection, SelectionError


def cut(trace: DcpiTrace, selection: Selection, target: str | PathLike[str]) -> NoReturn:
    """Raise an error, see `fxtio.formats.CutRoom`."""
    raise SelectionError(
        f"{trace.name} is a DCPI profile, which only counts samples at addresses of one image, for one event: "
        "it has no times, threads, processes or names of functions of which a part could be selected"
    )
