"""The numbers on which the recorder in C and the tracer in Python agree: kinds of events and of results of calls.

Both are numbered by their order here.  `fxtio.tracer.header` turns them and the layout of the format into the constants
of the C code.
"""

from __future__ import annotations

from enum import IntEnum

_EVENTS = (
    "instant",
    "counter",
    "begin",
    "end",
    "async_begin",
    "async_instant",
    "async_end",
    "flow_begin",
    "flow_step",
    "flow_end",
)

KINDS = {name: number for number, name in enumerate(_EVENTS)}
"""The kinds of events that the recorder writes by name, numbered as `record` of the recorder takes them."""


class ReturnKind(IntEnum):
    """The kinds of results of a callable, numbered as `Traced` of the recorder takes it."""

    VALUE = 0
    GENERATOR = 1
    COROUTINE = 2
    ASYNC_GENERATOR = 3
