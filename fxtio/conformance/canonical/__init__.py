"""Canonical JSON of traces, as `conformance/CANONICAL.md` describes it: read with fxtio, and written with it.

Each format has a module here with the functions `records(trace)` and `write(records, path)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from fxtio.errors import EncodeError, FxtioError
from fxtio.formats import by_name

_MODULES = {
    "fxt": "fxtio.conformance.canonical.fxt",
    "dcpi": "fxtio.conformance.canonical.dcpi",
    "mono": "fxtio.conformance.canonical.mono",
    "uftrace": "fxtio.conformance.canonical.uftrace",
    "coreprofiler": "fxtio.conformance.canonical.coreprofiler",
}


class UnsupportedError(FxtioError):
    """An error: there is no canonical JSON of a format, or fxtio cannot do what a scenario asks for."""


class _Module(Protocol):
    """The module of a format."""

    def records(self, trace: Any) -> list[dict[str, Any]]:
        """Return the canonical records of a trace, in the raw form."""

    def write(self, records: Sequence[dict[str, Any]], path: Path) -> None:
        """Write a trace that contains these canonical records."""


def formats() -> tuple[str, ...]:
    """Return the names of the formats that have canonical JSON."""
    return tuple(_MODULES)


def _module(format: str) -> _Module:
    if format not in _MODULES:
        raise UnsupportedError(f"there is no canonical JSON of the format {format!r}")
    return cast("_Module", import_module(_MODULES[format]))


def read(target: Any, format: str) -> dict[str, Any]:
    """Read a trace.

    Args:
        target: what to read, see `fxtio.open`.
        format: the name of its format.

    Returns:
        An object with the canonical records.

    Raises:
        UnsupportedError: there is no canonical JSON of the format.
        FxtioError: it is not a trace.
        OSError: it cannot be read.
    """
    module = _module(format)
    with by_name(format).open(target) as trace:
        records: list[dict[str, Any]] = module.records(trace)
    return {"format": format, "records": records}


def write(scenario: Any, path: Path) -> None:
    """Write the trace that a scenario asks for.

    Raises:
        UnsupportedError: there is no canonical JSON of the format.
        EncodeError: the format cannot express it.
        FxtioError: it is not a scenario.
        OSError: the trace cannot be written.
    """
    try:
        name, records = scenario["format"], scenario["write"]
        _module(name).write(records, path)
    except EncodeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FxtioError(f"the scenario is not in canonical form: {error!r}") from error
