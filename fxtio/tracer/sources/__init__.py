"""Sources: what is recorded on request besides functions and the program's own marks.

Each source is a class.  Its object is created with the option after the name (`process:50ms`), which changes nothing
yet.  `start` is called when the recorder runs; `stop` is called before the recorder is sealed, and in the child after a
fork.  The category of its events is the name of the source.  An error in a source never reaches the program.

A source whose events are elsewhere has `deliver` as well, see `fxtio.tracer.sources.torch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

_CLASSES = {
    "asyncio": "loops.Steps",
    "exceptions": "hooks.Exceptions",
    "gc": "hooks.Collections",
    "imports": "imports.Imports",
    "locks": "locks.Locks",
    "logging": "hooks.Messages",
    "process": "process.Samples",
    "torch": "torch.Operators",
    "warnings": "hooks.Warnings",
}

NAMES = tuple(_CLASSES)
"""The names of all sources."""

ALL = "all"


def create(requested: Iterable[str]) -> list[Any]:
    """Create sources without starting them, by names, perhaps with an option: `process:50ms`; `all` for every source.

    Raises:
        ValueError: there is no such source, or its option makes no sense.
    """
    options: dict[str, str] = {}
    for request in requested:
        name, _, option = request.partition(":")
        if request == ALL:
            options = dict.fromkeys(NAMES, "") | options
        elif name in NAMES:
            options[name] = option
        else:
            raise ValueError(f"there is no source {request!r}; the sources are {', '.join(NAMES)}, and {ALL}")
    return [_create(name, options[name]) for name in NAMES if name in options]


def _create(name: str, option: str) -> Any:
    module, _, class_name = _CLASSES[name].partition(".")
    source = getattr(import_module(f"{__name__}.{module}"), class_name)
    if not option:
        return source()
    if name != "process":
        raise ValueError(f"the source {name} takes no option, but {option!r} was given")
    return source(option)
