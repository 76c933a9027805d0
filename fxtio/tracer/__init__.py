"""The tracer: records what a Python program does, as a trace in the Fuchsia format.

    import fxtio

    @fxtio.trace
    def work(): ...

    with fxtio.tracing("app.fxt"):
        with fxtio.span("request", path="/"):
            work()

All of this may be called at any time and from any thread; while nothing is recorded it does next to nothing.  Where the
recorder, a C extension, is missing, the marks do nothing and a recording cannot be started.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from fxtio.tracer.backend import KINDS, MISSING, RecorderMissingError, RecordingWarning, recorder
from fxtio.tracer.decorate import trace
from fxtio.tracer.options import Options
from fxtio.tracer.session import dump, start, stop, tracing

if TYPE_CHECKING or not MISSING:
    # Not when a recording starts: the program may have changed its user or root folder, and could import nothing.
    from fxtio.tracer.recording import Recording, Summary

span = recorder.span
instant = recorder.instant
counter = recorder.counter

_numbers = itertools.count(1)
_PER_PROCESS = 1 << 40


class Flow:
    """An arrow from span to span, across threads and processes.

    Each method marks the span that is open where it is called; a step or an end elsewhere needs only the id.

    Args:
        name: its name.
        category: its category.
        id: the same for all of its points; a new one unless given.

    Attributes:
        id: what another process needs to continue the arrow.
    """

    __slots__ = ("_site", "id")

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None) -> None:
        self.id = os.getpid() * _PER_PROCESS + next(_numbers) if id is None else id
        self._site = recorder.Site(category, name)

    def begin(self) -> None:
        """Begin the arrow in the span that is open here."""
        recorder.record(KINDS["flow_begin"], self._site, (), self.id)

    def step(self) -> None:
        """Lead the arrow through the span that is open here."""
        recorder.record(KINDS["flow_step"], self._site, (), self.id)

    def end(self) -> None:
        """End the arrow in the span that is open here."""
        recorder.record(KINDS["flow_end"], self._site, (), self.id)


def flow(name: str, category: str = "", /, *, id: int | None = None) -> Flow:
    """Begin an arrow in the span that is open here, or continue the arrow with the given id.

    Args:
        name: its name.
        category: its category.
        id: the id of the arrow to continue; without it, a new arrow begins.
    """
    arrow = Flow(name, category, id=id)
    if id is None:
        arrow.begin()
    return arrow


def log(message: str, category: str = "log", /) -> None:
    """Record a message: as a log record, and as an instant, because not every viewer shows log records.

    Args:
        message: the text; at most 1,000 bytes of it are in the instant, 4,000 in the log record.
        category: the category of the instant.
    """
    recorder.message(message)
    recorder.instant("log", category, message=message)


def __getattr__(name: str) -> Any:
    """Import on first use what cannot be imported on all platforms that the recorder is missing on."""
    if name not in ("Recording", "Summary"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fxtio.tracer import recording

    return getattr(recording, name)


# The last line, so that who has the names has what they stand for, see `fxtio._of_tracer`.
__all__ = [
    "Flow",
    "Options",
    "RecorderMissingError",
    "Recording",
    "RecordingWarning",
    "Summary",
    "counter",
    "dump",
    "flow",
    "instant",
    "log",
    "span",
    "start",
    "stop",
    "trace",
    "tracing",
]
