"""Canonical JSON of traces, as `conformance/CANONICAL.md` describes it: read with fxtio, and written with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fxtio.errors import EncodeError, FormatError, FxtioError
from fxtio.formats import BUILT_IN, Format, by_name


class UnsupportedError(FxtioError):
    """An error: there is no canonical JSON of a format, or fxtio cannot do what a scenario asks for."""


def formats() -> tuple[str, ...]:
    """Return the names of the formats that have canonical JSON."""
    return tuple(BUILT_IN)


def _format(name: Any) -> Format:
    try:
        return by_name(name)
    except FormatError:
        raise UnsupportedError(f"there is no canonical JSON of the format {name!r}") from None


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
    found = _format(format)
    with found.open(target) as trace:
        return {"format": format, "records": found.canonical.records(trace)}


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
        _format(name).canonical.write(records, path)
    except EncodeError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FxtioError(f"the scenario is not in canonical form: {error!r}") from error
