"""Greenlets, where the program uses them: each records to a track of its own."""

from __future__ import annotations

import sys
from typing import Any

from fxtio.tracer.backend import recorder

_MODULE = "greenlet._greenlet"
"""The part of greenlet in C, which programs do not patch."""


class _Chain:
    """A function for `greenlet.settrace` that also calls the one that the program has set before."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, event: str, greenlets: tuple[object, object]) -> None:
        """Handle a switch from one greenlet to another."""
        recorder.switched(event, greenlets)
        self._function(event, greenlets)


def follow() -> None:
    """Follow the switches of this thread's greenlets from now on, if the program has imported greenlet."""
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        return
    function = module.gettrace()
    if function is recorder.switched or type(function) is _Chain:
        return
    attributes = vars(module.greenlet)
    recorder.know_greenlets(attributes["dead"].__get__)
    module.settrace(recorder.switched if function is None else _Chain(function))
    parent_of = attributes["parent"].__get__
    current = first = module.getcurrent()
    while (parent := parent_of(first)) is not None:
        first = parent
    if first is not current:
        recorder.switched("switch", (first, current))


def track_name(thread: int) -> str:
    """Return the name of the track of a greenlet, an empty text for the id of a thread."""
    number = thread - recorder.FIRST_GREENLET_TRACK + 1
    return f"greenlet {number}" if number > 0 else ""
