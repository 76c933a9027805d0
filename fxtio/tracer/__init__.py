"""The tracer: records what a Python program does, as a trace in the Fuchsia format.

    import fxtio

    @fxtio.trace
    def work(): ...

    with fxtio.tracing("app.fxt"):
        with fxtio.span("request", path="/"):
            work()

What is called here may be called at any time and from any thread; while nothing is recorded it does next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxtio.tracer.backend import IMPLEMENTATION, recorder
from fxtio.tracer.decorate import trace
from fxtio.tracer.flows import Flow, flow, log
from fxtio.tracer.options import Options
from fxtio.tracer.recording import Recording, RecordingWarning, Summary
from fxtio.tracer.session import dump, start, stop, tracing

if TYPE_CHECKING:  # the twin says what the types are
    from fxtio.tracer.python.span import counter, instant, span
else:
    span = recorder.span
    instant = recorder.instant
    counter = recorder.counter

__all__ = [
    "IMPLEMENTATION",
    "Flow",
    "Options",
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
