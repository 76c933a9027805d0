"""The numbers on which the recorder in C and the tracer in Python agree: kinds of events and of results of calls.

Both are numbered by their order here.  `fxtio.tracer.header` turns them and the layout of the format into the constants
of the C code.
"""

from __future__ import annotations

from enum import IntEnum

from fxtio.fxt.enums import EventType

EVENT_TYPES = {
    "instant": EventType.INSTANT,
    "counter": EventType.COUNTER,
    "begin": EventType.DURATION_BEGIN,
    "end": EventType.DURATION_END,
    "async_begin": EventType.ASYNC_BEGIN,
    "async_instant": EventType.ASYNC_INSTANT,
    "async_end": EventType.ASYNC_END,
    "flow_begin": EventType.FLOW_BEGIN,
    "flow_step": EventType.FLOW_STEP,
    "flow_end": EventType.FLOW_END,
}
"""The kinds of events that the recorder writes, and their types in the format."""

KINDS = {name: number for number, name in enumerate(EVENT_TYPES)}
"""The kinds of events by name, numbered as `record` of the recorder takes them."""


class ReturnKind(IntEnum):
    """The kinds of results of a callable, numbered as `Traced` of the recorder takes it."""

    VALUE = 0
    GENERATOR = 1
    COROUTINE = 2
    ASYNC_GENERATOR = 3
