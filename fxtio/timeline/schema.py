"""The tables of a timeline: their columns, types and meanings, declared once.

Rows of one table refer to rows of another by number, -1 for none.  Times are nanoseconds on the clock of the trace.
Names are dictionary-encoded; all columns of names of one timeline share their values, so that codes can be compared.
`docs/reference/timeline.md` is made from these declarations.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from fxtio._native.constants import SliceState
from fxtio.schema import TEXT, ColumnSpec
from fxtio.table import Categories, Column


class TrackKind(IntEnum):
    """The content of a track."""

    THREAD = 0
    "What a thread does: spans that nest."
    ASYNC = 1
    "An operation that no thread owns, such as a task: spans that nest."
    PROCESS = 2
    "Events of a whole process."
    GLOBAL = 3
    "Events of the whole trace."
    COUNTER = 4
    "A number over time."


class ArgumentKind(IntEnum):
    """The type of an argument."""

    NULL = 0
    "No value."
    INTEGER = 1
    "A signed number of 64 bits."
    UNSIGNED = 2
    "An unsigned number of 64 bits."
    NUMBER = 3
    "A double."
    TEXT = 4
    "A string, in `text`."
    POINTER = 5
    "An address."
    KOID = 6
    "The id of a kernel object."
    BOOLEAN = 7
    "0 or 1."


WHOLE_KINDS = (
    ArgumentKind.INTEGER, ArgumentKind.UNSIGNED, ArgumentKind.POINTER, ArgumentKind.KOID, ArgumentKind.BOOLEAN,
)  # fmt: skip
"""The types of arguments that are whole numbers."""

TABLES: dict[str, dict[str, ColumnSpec]] = {
    "processes": {
        "pid": ColumnSpec("int64", "the number of the process; a koid from 2**63 on is negative"),
        "name": ColumnSpec(TEXT, "its name, null if it has none"),
    },
    "threads": {
        "tid": ColumnSpec("int64", "the number of the thread; a koid from 2**63 on is negative"),
        "process": ColumnSpec("int32", "the row of its process"),
        "name": ColumnSpec(TEXT, "its name, null if it has none"),
    },
    "tracks": {
        "kind": ColumnSpec(TEXT, "`thread`, `async`, `process`, `global` or `counter`"),
        "name": ColumnSpec(TEXT, "its name, null if it is that of the thread or process"),
        "process": ColumnSpec("int32", "the row of its process, or -1"),
        "thread": ColumnSpec("int32", "the row of its thread, or -1"),
        "id": ColumnSpec("uint64", "the id of an async operation, or of a counter"),
    },
    "slices": {
        "id": ColumnSpec("int64", "the number of the slice, which others refer to; the row in a whole table"),
        "start": ColumnSpec("int64", "its begin"),
        "duration": ColumnSpec("int64", "its length; that of an open slice is up to the end of the trace"),
        "self_time": ColumnSpec("int64", "the part of the duration in which no slice within it runs"),
        "depth": ColumnSpec("int32", "the number of slices around it"),
        "parent": ColumnSpec("int64", "the id of the slice around it, or -1"),
        "track": ColumnSpec("int32", "the row of its track"),
        "category": ColumnSpec(TEXT, "its category, null if it has none"),
        "name": ColumnSpec(TEXT, "its name"),
        "state": ColumnSpec(TEXT, "`closed`, `open`, `overlapping` or `thrown`"),
        "event": ColumnSpec(
            "int64", "the number of the event that begins it, to which its arguments refer; -1 without one"
        ),
        "end_event": ColumnSpec("int64", "the number of the event that ends it, -1 if there is none of its own"),
        "ticks": ColumnSpec("uint64", "its begin as the source has it"),
    },
    "instants": {
        "time": ColumnSpec("int64", "its time"),
        "track": ColumnSpec("int32", "the row of its track"),
        "slice": ColumnSpec("int64", "the id of the innermost slice around it, or -1"),
        "category": ColumnSpec(TEXT, "its category, null if it has none"),
        "name": ColumnSpec(TEXT, "its name"),
        "scope": ColumnSpec(TEXT, "`thread`, `process` or `global`"),
        "event": ColumnSpec("int64", "the number of the event"),
        "ticks": ColumnSpec("uint64", "the time as the source has it"),
    },
    "flow_points": {
        "time": ColumnSpec("int64", "its time"),
        "track": ColumnSpec("int32", "the row of its track"),
        "slice": ColumnSpec("int64", "the id of the innermost slice around it, or -1"),
        "type": ColumnSpec(TEXT, "`begin`, `step` or `end`"),
        "id": ColumnSpec("uint64", "points with the same id belong together"),
        "category": ColumnSpec(TEXT, "its category, null if it has none"),
        "name": ColumnSpec(TEXT, "its name"),
        "event": ColumnSpec("int64", "the number of the event"),
        "ticks": ColumnSpec("uint64", "the time as the source has it"),
    },
    "counters": {
        "time": ColumnSpec("int64", "the time of the value"),
        "track": ColumnSpec("int32", "the row of its track, whose name is that of the counter"),
        "value": ColumnSpec("float64", "the value, which holds from this time on"),
        "event": ColumnSpec("int64", "the number of the event, or -1"),
    },
    "frames": {
        "name": ColumnSpec(TEXT, "the function, null if it is not known"),
        "module": ColumnSpec(TEXT, "the program, library, or class of the function, null if it is not known"),
        "file": ColumnSpec(TEXT, "the source file, null if it is not known"),
        "line": ColumnSpec("int64", "the line in the file, or -1"),
        "address": ColumnSpec("uint64", "the address of the code, 0 if it is not known"),
    },
    "stacks": {
        "parent": ColumnSpec("int32", "the row of the stack without its innermost frame, or -1"),
        "frame": ColumnSpec("int32", "the row of the innermost frame"),
        "depth": ColumnSpec("int32", "the number of frames around the innermost one"),
    },
    "samples": {
        "time": ColumnSpec("int64", "the time of the sample; 0 where the source has none"),
        "thread": ColumnSpec("int32", "the row of the thread, or -1"),
        "cpu": ColumnSpec("int32", "the processor, or -1"),
        "stack": ColumnSpec("int32", "the row of the stack, -1 if it is empty"),
        "count": ColumnSpec("int64", "the weight of the sample, in the unit"),
        "unit": ColumnSpec(TEXT, "`samples`, `ns`, or the name of an event such as `cycles`"),
    },
    "allocations": {
        "time": ColumnSpec("int64", "the time of the allocations"),
        "thread": ColumnSpec("int32", "the row of the thread, or -1"),
        "stack": ColumnSpec("int32", "the row of the stack, -1 if it is empty"),
        "type": ColumnSpec(TEXT, "the class of the objects, null if it is not known"),
        "count": ColumnSpec("int64", "the number of objects"),
        "size": ColumnSpec("int64", "the bytes of all of them"),
    },
    "logs": {
        "time": ColumnSpec("int64", "the time of the message"),
        "thread": ColumnSpec("int32", "the row of the thread, or -1"),
        "level": ColumnSpec(TEXT, "its level, null if it has none"),
        "message": ColumnSpec(TEXT, "the text"),
    },
    "scheduling": {
        "start": ColumnSpec("int64", "when the thread began to run"),
        "duration": ColumnSpec("int64", "how long it ran; up to the end of the trace where the end is missing"),
        "cpu": ColumnSpec("int32", "the processor"),
        "thread": ColumnSpec("int32", "the row of the thread"),
        "state": ColumnSpec(TEXT, "the state in which it stopped (`runnable`, `blocked`, ...), null if it still ran"),
        "priority": ColumnSpec("int64", "its priority, 0 where the source has none"),
    },
    "wakeups": {
        "time": ColumnSpec("int64", "when the thread became ready to run"),
        "cpu": ColumnSpec("int32", "the processor"),
        "thread": ColumnSpec("int32", "the row of the thread"),
        "waker": ColumnSpec("int32", "the row of the thread that woke it, or -1"),
    },
    "collections": {
        "start": ColumnSpec("int64", "the start of the garbage collection"),
        "duration": ColumnSpec("int64", "its length"),
        "thread": ColumnSpec("int32", "the row of the thread, or -1"),
        "generation": ColumnSpec("int32", "the oldest generation that was collected, or -1"),
        "event": ColumnSpec("int64", "the number of the event that begins it, which is that of its slice in `slices`"),
    },
    "args": {
        "event": ColumnSpec("int64", "the number of the event that has it, see `event` and `end_event` of the others"),
        "name": ColumnSpec(TEXT, "its name"),
        "type": ColumnSpec(TEXT, "`null`, `integer`, `unsigned`, `number`, `text`, `pointer`, `koid` or `boolean`"),
        "bits": ColumnSpec("uint64", "the value: a signed number and a double by their bits"),
        "text": ColumnSpec(TEXT, "the value of a text, null for all others"),
    },
}
"""The tables of a timeline and their columns."""

PASSING: dict[str, dict[str, ColumnSpec]] = {
    "opened": {
        **{name: spec for name, spec in TABLES["slices"].items() if name != "self_time"},
        "duration": ColumnSpec("int64", "its length, -1 if its end is in a later batch"),
    },
    "unended": {"id": TABLES["slices"]["id"]},
}
"""Tables that only `Timeline.fold` has: slices that a batch begins, and that come in a later one; those without an end.
"""


def _labels(members: type[IntEnum]) -> list[str]:
    """Return the texts of the members of an enumeration, by their numbers."""
    return [member.name.lower() for member in members]


FLOW_TYPES = ["begin", "step", "end"]
"""The values of `flow_points.type`."""

SCOPES = ["thread", "process", "global"]
"""The values of `instants.scope`."""

LABELS: dict[tuple[str, str], list[str]] = {
    ("tracks", "kind"): _labels(TrackKind),
    ("slices", "state"): _labels(SliceState),
    ("opened", "state"): _labels(SliceState),
    ("args", "type"): _labels(ArgumentKind),
    ("flow_points", "type"): FLOW_TYPES,
    ("instants", "scope"): SCOPES,
}
"""The texts of the columns of text whose codes are fixed."""


def number_types(table: str) -> dict[str, str]:
    """Return the numpy type of the numbers of each column of a table; those of names are codes."""
    return {name: spec.numbers.name for name, spec in (TABLES | PASSING)[table].items()}


def empty_columns(table: str) -> dict[str, Column]:
    """Return the columns of a table without rows."""
    return {name: spec.nulls(0, LABELS.get((table, name), [])) for name, spec in (TABLES | PASSING)[table].items()}


def column_of(spec: ColumnSpec, values: Any, count: int) -> Column:
    """Return values as a column of a declared type: an array, names, or one value for all rows."""
    if isinstance(values, Categories):
        return values
    array = np.asarray(values, spec.dtype)
    return np.full(count, array, spec.dtype) if array.ndim == 0 else array


LOSSES = {
    ("drop_stats", "records"): "events",
    ("drop_stats", "num_records"): "records",
    ("lost records", "count"): "records",
}
"""The names of slices and instants that say how many events were lost, the argument with the number, and a noun."""

FACTS = {
    ("recording", "command"): "Command",
    ("recording", "python"): "Python",
    ("recording", "engine"): "Functions recorded by",
}
"""The name of an instant, its argument, and the label of the fact that it is."""
