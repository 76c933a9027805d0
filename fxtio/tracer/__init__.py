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

from typing import TYPE_CHECKING, Any

from fxtio.tracer.backend import MISSING, RecorderMissingError, RecordingWarning
from fxtio.tracer.decorate import trace
from fxtio.tracer.marks import Flow, counter, flow, instant, log, span
from fxtio.tracer.options import Options
from fxtio.tracer.session import dump, start, stop, tracing

if TYPE_CHECKING or not MISSING:
    # Not when a recording starts: the program may have changed its user or root folder, and could import nothing.
    from fxtio.tracer.recording import Recording, Summary

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


def __getattr__(name: str) -> Any:
    """Import on first use what cannot be imported on all platforms that the recorder is missing on."""
    if name not in ("Recording", "Summary"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fxtio.tracer import recording

    return getattr(recording, name)
