"""The numbers on which the recorder in C and the tracer in Python agree: kinds of events and of results of calls.

Both are numbered by their order here.  `fxtio.tracer.header` turns them and the layout of the format into the constants
of the C code.
"""

from __future__ import annotations

from enum import IntEnum

from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.enums import ArgumentType, EventType

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


_PLAIN = {
    "null": ArgumentType.NULL,
    "int64": ArgumentType.INT64,
    "uint64": ArgumentType.UINT64,
    "double": ArgumentType.DOUBLE,
}


def _unit(word: type[Word], field: str) -> int:
    """A field that holds 1."""
    return 1 << word.fields[field].lo


def _pattern(word: type[Word]) -> int:
    """A header in which all that is not fixed is 0."""
    return word.pattern("tag", "const")[1]


def _recorder_layout() -> dict[str, int]:
    words = {
        "size": _unit(w.RecordWord, "size"),
        "filler": _pattern(w.StringWord),  # slot 0; spec: a string record with index 0 is ignored
        "string": _pattern(w.StringWord),
        "string_slot": _unit(w.StringWord, "index"),
        "string_size": _unit(w.StringWord, "text_size"),
        "string_slots": w.StringWord.fields["index"].mask,
        "initialization": _pattern(w.InitializationWord) + 4 * _unit(w.RecordWord, "size"),  # with base and wall clock
        "thread": _pattern(w.ThreadWord),
        "thread_slot": _unit(w.ThreadWord, "index"),
        "thread_slots": w.ThreadWord.fields["index"].mask,
        "event_args": _unit(w.EventWord, "arg_count"),
        "event_thread": _unit(w.EventWord, "thread"),
        "event_category": _unit(w.EventWord, "category"),
        "event_name": _unit(w.EventWord, "name"),
        "int32": _pattern(w.Int32ArgumentWord),
        "text": _pattern(w.StringArgumentWord),
        "bool": _pattern(w.BoolArgumentWord),
        "argument_name": _unit(w.ArgumentWord, "name"),
        "argument_value": _unit(w.Int32ArgumentWord, "value"),
        "text_inline": _unit(w.StringRefWord, "inline"),
        "log": _pattern(w.LogWord),
        "log_size": _unit(w.LogWord, "message_size"),
        "log_thread": _unit(w.LogWord, "thread"),
    }
    words |= {name: _pattern(w.EventWord.of(event_type=kind)) for name, kind in EVENT_TYPES.items()}
    words |= {name: _pattern(w.PlainArgumentWord.of(type=kind)) for name, kind in _PLAIN.items()}
    return words


LAYOUT = _recorder_layout()
"""The layout as the recorder's `configure` takes it."""
