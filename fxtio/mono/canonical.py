"""Records as JSON: for people, and in the canonical form, from which recordings are written as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fxtio.codec.canonical import Json, described, fields_of, parsed_record, shown_record, type_of
from fxtio.codec.record import Opaque
from fxtio.codec.stream.declare import enumeration_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.mono import records as r
from fxtio.mono.headers import (
    BufferHeader,
    OpaqueBufferHeader,
    OpaqueHeader,
    StreamHeader,
    decode_buffer_header,
    decode_header,
)
from fxtio.mono.reader import Entry, MonoTrace
from fxtio.mono.writer import MonoWriter

_ACTION = "action"


def _types_of(cls: type[Any]) -> dict[int | None, str]:
    """Return the types of the records of a class: one for each action if there are several."""
    if _ACTION not in cls.__struct_fields__:
        return {None: type_of(cls)}
    labels = {member.value: member.name.lower().replace("_", "-") for member in enumeration_of(cls, _ACTION) or ()}
    return {action: f"{type_of(cls)}-{label}" for action, label in labels.items()}


_TYPES = {(cls, action): name for cls in r.EVENTS for action, name in _types_of(cls).items()}
_EVENTS = {name: event for event, name in _TYPES.items()}


def _type_of(record: Any) -> str:
    cls = type(record)
    return _TYPES.get((cls, getattr(record, _ACTION, None))) or type_of(cls)


def json_objects(entries: Sequence[Entry]) -> list[Json]:
    """Return records as JSON objects for people: `offset`, `type`, `time`, `thread_id`, then the fields."""
    return [
        described(
            entry.record,
            {
                "offset": entry.offset,
                "type": _type_of(entry.record),
                "time": entry.time,
                "thread_id": entry.thread,
            },
        )
        for entry in entries
    ]


# ---- reading


def records(trace: MonoTrace) -> list[Json]:
    """Return the canonical records of a recording, in the raw form.

    Raises:
        OSError: the recording cannot be read.
    """
    headers = [
        (entry.offset, shown_record(header))
        for entry in trace.entries(resolve=False)
        if (header := _header(entry.record)) is not None
    ]
    events = [
        (entry.offset, shown_record(entry.record) | {"type": _type_of(entry.record)})
        for entry in trace.entries()
        if isinstance(entry.record, r.Event)
    ]
    return [form for _, form in sorted([*headers, *events], key=lambda pair: pair[0])]


def _header(record: Any) -> Any:
    """Return a header, as far as it can be read; None for anything else."""
    try:
        if isinstance(record, OpaqueHeader):
            return decode_header(record.raw, any_mark=True)[0]
        if isinstance(record, OpaqueBufferHeader):
            return decode_buffer_header(record.raw)
    except DecodeError:
        return None
    return None if isinstance(record, r.Event | Opaque) else record


# ---- writing


def write(records: Sequence[Json], path: Path) -> None:
    """Write a recording that contains these canonical records; events belong to the last buffer, or to their thread.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the recording cannot be written.
    """
    with MonoWriter(path) as writer:
        for form in records:
            kind, thread = form["type"], form.get("thread_id")
            if kind == type_of(StreamHeader):
                writer.put(_parsed(StreamHeader, form))
            elif kind == type_of(BufferHeader):
                writer.put(_parsed(BufferHeader, form))
            elif kind in _EVENTS:
                cls, action = _EVENTS[kind]
                values = {} if action is None else {_ACTION: action}
                writer.put(_parsed(cls, form, **values), thread=None if thread is None else int(thread))
            else:
                raise EncodeError(f"there is no record {kind!r}", "type")


def _parsed(cls: type[Any], form: Json, **values: Any) -> Any:
    """Return the record of a class that has a canonical form.

    Raises:
        EncodeError: there is a field that the record does not have.
    """
    names = {field.name for field in fields_of(cls) if field.is_canonical}
    if unknown := form.keys() - names - {"type", "thread_id"}:
        raise EncodeError(f"there is no field {min(unknown)!r}", form["type"])
    return parsed_record(cls, form, **values)
