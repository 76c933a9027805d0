"""What the reader gives: a summary of a trace, and records with what they mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxtio.uftrace.space import Function


@dataclass(slots=True)
class Info:
    """A summary of a trace.

    Attributes:
        name: where it was read from.
        format: always `uftrace`.
        byte_order: `little` or `big`.
        version: of the format.
        recorded_by: the version of uftrace, where the trace tells it.
        command: the command that was traced, where the trace tells it.
        size: bytes of the `.dat` files.
        records: how many records of each class; `Opaque` is what could not be read.
        tasks: names of programs by task.
        start: the earliest time in nanoseconds, or None without records.
        end: the latest time in nanoseconds, or None.
        recorded_at: when it was recorded, as the trace has it (local time), or empty.
    """

    name: str
    format: str
    byte_order: str
    version: int = 4
    recorded_by: str | None = None
    command: str | None = None
    size: int = 0
    records: Counter[str] = field(default_factory=Counter)
    tasks: dict[int, str] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None
    recorded_at: str = ""


class Item(NamedTuple):
    """A record with where it is and what it means.

    Attributes:
        tid: the task.
        offset: the byte offset in the task's file.
        time: nanoseconds.
        record: the record.
        name: the function or the event; None for what has none.
        function: what is known of the function, or None.
        values: the values of the payload by name, such as `arg1`; None without one, or where nothing tells.
    """

    tid: int
    offset: int
    time: int | None
    record: Any
    name: str | None
    function: Function | None
    values: dict[str, Any] | None
