"""The arguments of the functions that answer from a timeline or convert it: what is of a wrong type is refused.

Without this, a trace in place of its timeline, or a text in place of a selection, would fail somewhere within.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike
from typing import NamedTuple

from fxtio.errors import require_type
from fxtio.selection import Selection
from fxtio.timeline.timeline import Timeline


class _Accepted(NamedTuple):
    """The types that an argument may have.

    Attributes:
        sentence: the start of an error message, which says what is accepted.
        types: the types.
    """

    sentence: str
    types: tuple[type, ...]


_NONE = type(None)
_TEXT = (str, _NONE)
_WHOLE = (Integral, _NONE)

_ACCEPTED = {
    "timeline": _Accepted(
        "a timeline is what fxtio.open_timeline or the method timeline() of a trace returns", (Timeline,)
    ),
    "selection": _Accepted("a selection is a fxtio.selection.Selection or None", (Selection, _NONE)),
    "limit": _Accepted("a limit is a whole number or None", _WHOLE),
    "most": _Accepted("the number of items is a whole number", (Integral,)),
    "last": _Accepted("the number of runs is a whole number or None", _WHOLE),
    "depth": _Accepted("a depth is a whole number or None", _WHOLE),
    "levels": _Accepted("the number of levels is a whole number", (Integral,)),
    "start": _Accepted("the start is a whole number of nanoseconds", (Integral,)),
    "end": _Accepted("the end is a whole number of nanoseconds", (Integral,)),
    "cells": _Accepted("the number of cells is a whole number", (Integral,)),
    "longer": _Accepted("a duration is a whole number of nanoseconds or None", _WHOLE),
    "shorter": _Accepted("a duration is a whole number of nanoseconds or None", _WHOLE),
    "share": _Accepted("a share is a number", (Real,)),
    "pattern": _Accepted("a pattern is a string or None", _TEXT),
    "order": _Accepted("an order is a string", (str,)),
    "by": _Accepted("what to group by is a string", (str,)),
    "sort": _Accepted("the column to sort by is a string or None", _TEXT),
    "what": _Accepted("the content is a string or None", _TEXT),
    "unit": _Accepted("a unit is a string or None", _TEXT),
    "waiting": _Accepted("whether waiting counts is True or False", (bool,)),
    "target": _Accepted("a target is a path", (str, PathLike)),
    "to": _Accepted("the name of a format is a string or None", _TEXT),
    "table": _Accepted("the name of a table is a string or None", _TEXT),
    "when_sent": _Accepted("what is told how much was sent is a function or None", (Callable, _NONE)),  # type: ignore[arg-type]
    "when_empty": _Accepted("what is called if nothing is selected is a function or None", (Callable, _NONE)),  # type: ignore[arg-type]
}


def check_types(**arguments: object) -> None:
    """Check the types of arguments, by their names.

    Raises:
        TypeError: one is of a wrong type; the message says what is accepted.
        ValueError: a limit is negative.
    """
    for name, value in arguments.items():
        accepted = _ACCEPTED[name]
        require_type(value, accepted.types, accepted.sentence)
        if name in ("limit", "last") and isinstance(value, Integral) and int(value) < 0:
            raise ValueError(f"{accepted.sentence}, not {value}")
