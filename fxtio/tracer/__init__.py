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
_BEGIN, _INSTANT, _END = (KINDS[name] for name in ("async_begin", "async_instant", "async_end"))
_NO_SESSION = (1 << 64) - 1
"""The number of no session: nothing is recorded in it."""


def _new_id() -> int:
    """Return an id of a flow or an operation that no other process of the machine uses."""
    return os.getpid() * _PER_PROCESS + next(_numbers)


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
        self.id = _new_id() if id is None else id
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


class Operation:
    """A piece of work that may begin in one thread or task and end in another, on a track of its own.

    While it is open, further operations with its id are drawn within it.  What is recorded of it belongs to the
    recording in which it began: an end that comes when that has ended is left out.

    Args:
        name: its name.
        category: its category.
        id: what tells it from others; a new one unless given.  Only the lowest 64 bits count.

    Attributes:
        id: what another thread or process needs to end it.
    """

    __slots__ = ("_category", "_name", "_session", "id")

    def __init__(self, name: str, category: str = "", /, *, id: int | None = None) -> None:
        self.id = _new_id() if id is None else id
        self._name = name
        self._category = category
        self._session = 0

    def begin(self, /, **args: object) -> None:
        """Begin it, with arguments."""
        # Where nothing is recorded now, nothing is later either.
        self._session = recorder.mark(_BEGIN, self.id, 0, self._name, self._category, **args) or _NO_SESSION

    def instant(self, name: str, /, **args: object) -> None:
        """Record a moment of it, with arguments."""
        recorder.mark(_INSTANT, self.id, self._session, name, self._category, **args)

    def end(self, /, **args: object) -> None:
        """End it, with further arguments."""
        recorder.mark(_END, self.id, self._session, self._name, self._category, **args)


def operation(name: str, category: str = "", /, *, id: int | None = None, **args: object) -> Operation:
    """Begin an operation, or return the one with the given id, which has begun elsewhere in the program.

    Args:
        name: its name.
        category: its category.
        id: the id of the operation to continue or to end; without it, a new one begins.
        args: what to record with its begin; none if it has begun elsewhere.
    """
    result = Operation(name, category, id=id)
    if id is None:
        result.begin(**args)
    return result


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
    "Operation",
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
    "operation",
    "span",
    "start",
    "stop",
    "trace",
    "tracing",
]
