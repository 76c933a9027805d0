"""Sources: what is recorded beside functions and the program's own marks, on request.

Each is a module here with a class `Source`: made from the option that stands behind its name (`process:50ms`), which
changes nothing yet; `start` when the recorder runs; `stop` before it is sealed, and in the child after a fork.  Events
of a source have its name as their category.  None of them lets the program notice an error of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

NAMES = ("exceptions", "gc", "imports", "logging", "process", "warnings")
"""All sources."""

ALL = "all"


def made(wanted: Iterable[str]) -> list[Any]:
    """The sources of these names, not started yet.

    Args:
        wanted: names, perhaps with an option, such as `process:50ms`; `all` for every one of them.

    Raises:
        ValueError: there is no such source, or its option makes no sense.
    """
    options: dict[str, str] = {}
    for given in wanted:
        name, _, option = given.partition(":")
        if given == ALL:
            options = dict.fromkeys(NAMES, "") | options
        elif name in NAMES:
            options[name] = option
        else:
            raise ValueError(f"there is no source {given!r}; there are {', '.join(NAMES)}, and {ALL}")
    return [_made(name, options[name]) for name in NAMES if name in options]


def _made(name: str, option: str) -> Any:
    source = import_module(f"{__name__}.{name}").Source
    if not option:
        return source()
    if name != "process":
        raise ValueError(f"the source {name} takes no option, {option!r} was given")
    return source(option)
