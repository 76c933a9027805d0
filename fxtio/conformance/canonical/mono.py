"""Canonical JSON of Mono recordings.

`_EVENTS` says for each type of canonical records which event it is and which fields it has; reading and writing follow
from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fxtio.conformance.canonical.values import parsed_double, parsed_text, shown_double, shown_text
from fxtio.errors import DecodeError, EncodeError
from fxtio.mono import records as r
from fxtio.mono.enums import CounterType, LoadAction, MethodAction, NameAction
from fxtio.mono.headers import (
    BufferHeader,
    OpaqueBufferHeader,
    OpaqueHeader,
    StreamHeader,
    decode_buffer_header,
    decode_header,
)
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter

Json = dict[str, Any]


@dataclass(frozen=True)
class _Value:
    """A kind of canonical values: how one is shown, and parsed."""

    show: Callable[[Any], Any]
    parse: Callable[[Any], Any]


@dataclass(frozen=True)
class _Field:
    """A canonical field: the attribute that has it, and the kind of value."""

    attribute: str
    value: _Value


Fields = Mapping[str, _Field]


def _show(source: Any, fields: Fields) -> Json:
    """Return the canonical fields of a record; those that its version does not have are left out."""
    values = {name: (each, getattr(source, each.attribute)) for name, each in fields.items()}
    return {name: each.value.show(value) for name, (each, value) in values.items() if value is not None}


def _parse(source: Json, fields: Fields) -> dict[str, Any]:
    """Return the attributes of a record by the fields that it has.

    Raises:
        EncodeError: there is a field that the record does not have.
    """
    unknown = source.keys() - fields.keys() - {"type", "thread_id"}
    if unknown:
        raise EncodeError(f"there is no field {min(unknown)!r}", source["type"])
    return {each.attribute: each.value.parse(source[name]) for name, each in fields.items() if name in source}


_INTEGER = _Value(str, int)
_TEXT = _Value(shown_text, parsed_text)
_INTEGERS = _Value(lambda values: list(map(str, values)), lambda values: tuple(map(int, values)))


def _integers(*names: str, **renamed: str) -> dict[str, _Field]:
    """Return fields that are integers, by their names; those with another attribute have it as value."""
    attributes = {name: name for name in names} | {name.rstrip("_"): other for name, other in renamed.items()}
    return {name: _Field(attribute, _INTEGER) for name, attribute in attributes.items()}


def _texts(*names: str, **renamed: str) -> dict[str, _Field]:
    """Return fields that are texts, likewise."""
    attributes = {name: name for name in names} | {name.rstrip("_"): other for name, other in renamed.items()}
    return {name: _Field(attribute, _TEXT) for name, attribute in attributes.items()}


def _lists(**attributes: str) -> dict[str, _Field]:
    """Return fields that are lists of integers, likewise."""
    return {name: _Field(attribute, _INTEGERS) for name, attribute in attributes.items()}


def _items(cls: type[Any], fields: Fields) -> _Value:
    """Return the kind of values that are lists of items of a class."""
    return _Value(
        lambda items: [_show(item, fields) for item in items],
        lambda items: tuple(cls(**_parse(item, fields)) for item in items),
    )


def _shown_values(values: Sequence[r.CounterValue]) -> list[Json]:
    return [{**_show(each, _COUNTER), "value": _shown_counter(each.value)} for each in values]


def _shown_counter(value: int | float | str | None) -> Any:
    if isinstance(value, str):
        return shown_text(value)
    if isinstance(value, float):
        return shown_double(value)
    return None if value is None else str(value)


def _parsed_values(values: Sequence[Json]) -> tuple[r.CounterValue, ...]:
    return tuple(
        r.CounterValue(**_parse({key: each[key] for key in _COUNTER}, _COUNTER), value=_parsed_counter(each))
        for each in values
    )


def _parsed_counter(item: Json) -> int | float | str | None:
    value = item["value"]
    if value is None:
        return None
    kind = int(item["counter_type"])
    if kind == CounterType.STRING:
        return parsed_text(value)
    return parsed_double(value) if kind == CounterType.DOUBLE else int(value)


_COUNTER = _integers("index", counter_type="type")
_REFERENCES = _items(r.Reference, _integers("object", offset="field_offset"))
_ROOTS = _items(r.Root, _integers("address", "object", "root_type", "extra_info"))
_DESCRIPTIONS = _items(
    r.CounterDescription,
    {
        **_integers("section", "unit", "variance", "index", counter_type="type"),
        **_texts("name", section_name="category"),
    },
)
_BACKTRACE = _lists(backtrace="backtrace")
_CLASS = _integers("vtable", class_="class_pointer")


@dataclass(frozen=True)
class _Event:
    """A type of canonical records that is an event.

    Attributes:
        cls: the class of the event.
        fields: its fields, besides the time.
        constants: attributes that the type implies, such as the action.
    """

    cls: type[r.Event]
    fields: Fields = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)


def _loads(name: str, cls: type[r.Event], fields: Fields, *, named: bool = False) -> dict[str, _Event]:
    """Return the types of records for loading, unloading and naming something."""
    name_free = {key: each for key, each in fields.items() if not named or key != "name"}
    result = {
        f"{name}-load": _Event(cls, name_free, {"action": LoadAction.LOAD}),
        f"{name}-unload": _Event(cls, name_free, {"action": LoadAction.UNLOAD}),
    }
    if named:
        result[f"{name}-name"] = _Event(cls, fields, {"action": NameAction.NAME})
    return result


_EVENTS: dict[str, _Event] = {
    "alloc": _Event(r.Allocation, {**_CLASS, **_integers("object", "size"), **_BACKTRACE}),
    "gc-event": _Event(r.GcEvent, _integers("generation", event_type="event")),
    "gc-resize": _Event(r.GcResize, _integers(heap_size="size")),
    "gc-move": _Event(r.GcMove, _lists(objects="objects")),
    "gc-handle-created": _Event(r.HandleCreated, {**_integers("handle_type", "handle", "object"), **_BACKTRACE}),
    "gc-handle-destroyed": _Event(r.HandleDestroyed, {**_integers("handle_type", "handle"), **_BACKTRACE}),
    "gc-finalize-start": _Event(r.FinalizeStart),
    "gc-finalize-end": _Event(r.FinalizeEnd),
    "gc-finalize-object-start": _Event(r.FinalizeObjectStart, _integers("object")),
    "gc-finalize-object-end": _Event(r.FinalizeObjectEnd, _integers("object")),
    "class-load": _Event(r.ClassLoad, {**_integers("pointer", "image"), **_texts("name")}),
    **_loads("image", r.Image, {**_integers("pointer"), **_texts("name", "mvid")}),
    **_loads("assembly", r.Assembly, {**_integers("pointer", "image"), **_texts("name")}),
    **_loads("domain", r.Domain, {**_integers(pointer="id"), **_texts("name")}, named=True),
    **_loads("thread", r.Thread, {**_integers(pointer="id"), **_texts("name")}, named=True),
    **_loads("context", r.Context, _integers("domain", pointer="id")),
    "vtable-load": _Event(r.VtableLoad, _integers("pointer", "domain", class_="class_pointer")),
    "method-enter": _Event(r.Call, _integers("method"), {"action": MethodAction.ENTER}),
    "method-leave": _Event(r.Call, _integers("method"), {"action": MethodAction.LEAVE}),
    "method-exceptional-leave": _Event(r.Call, _integers("method"), {"action": MethodAction.EXCEPTION_LEAVE}),
    "method-jit": _Event(r.JitMethod, {**_integers("method", code_address="code", code_size="size"), **_texts("name")}),
    "exception-throw": _Event(r.Throw, {**_integers("object"), **_BACKTRACE}),
    "exception-clause": _Event(r.Clause, _integers("method", "object", clause_type="kind", clause_index="index")),
    "monitor": _Event(r.Monitor, {**_integers("event", "object"), **_BACKTRACE}),
    "heap-start": _Event(r.HeapStart),
    "heap-end": _Event(r.HeapEnd),
    "heap-object": _Event(
        r.HeapObject,
        {**_CLASS, **_integers("object", "size", "generation"), "references": _Field("references", _REFERENCES)},
    ),
    "heap-roots": _Event(r.HeapRoots, {**_integers(num_gc="collections"), "roots": _Field("roots", _ROOTS)}),
    "root-register": _Event(
        r.RootRegister, {**_integers("size", "source", "key", start="address"), **_texts(description="name")}
    ),
    "root-unregister": _Event(r.RootUnregister, _integers(start="address")),
    "sample-hit": _Event(
        r.SampleHit, {**_integers(thread="interrupted"), **_lists(addresses="addresses", methods="frames")}
    ),
    "sample-symbol": _Event(r.NativeSymbol, {**_integers("address", "size"), **_texts("name")}),
    "sample-binary": _Event(r.NativeBinary, {**_integers("address", "size", offset="file_offset"), **_texts("name")}),
    "counters-description": _Event(r.CounterDescriptions, {"counters": _Field("counters", _DESCRIPTIONS)}),
    "counters-values": _Event(r.CounterValues, {"values": _Field("values", _Value(_shown_values, _parsed_values))}),
    "jit-helper": _Event(
        r.JitHelper,
        {**_integers("buffer_type", buffer_address="address", buffer_size="size"), **_texts("name")},
    ),
    "sync-point": _Event(r.SyncPoint, _integers(sync_point_type="sync_type")),
    "aot-id": _Event(r.AotId, _texts("id")),
    "coverage-assembly": _Event(
        r.CoverageAssembly,
        {
            **_texts("name", "guid", "filename"),
            **_integers("fully_covered", "partially_covered", number_of_methods="methods"),
        },
    ),
    "coverage-class": _Event(
        r.CoverageClass,
        {
            **_texts(name="assembly", class_="name"),
            **_integers("fully_covered", "partially_covered", number_of_methods="methods"),
        },
    ),
    "coverage-method": _Event(
        r.CoverageMethod,
        {
            **_texts("assembly", "name", "signature", "filename", class_="class_name"),
            **_integers("token", "method_id", len_="statements"),
        },
    ),
    "coverage-statement": _Event(
        r.CoverageStatement, _integers("method_id", "counter", "line", "column", offset="il_offset")
    ),
}

_TIME = _integers("time")
_HEADER: Fields = {
    **_integers("major", "minor", "startup_time", "timer_overhead", "flags", "pid", "port"),
    **_integers(format="data_version", ptrsize="pointer_size", startup_clock="startup_tick"),
    **_texts("args", "arch", "os"),
}
_BUFFER = _integers(time_base="time", ptr_base="pointer", obj_base="object", thread_id="thread", method_base="method")


# ---- reading


def records(trace: MonoTrace) -> list[Json]:
    """Return the canonical records of a recording, in the raw form.

    Raises:
        OSError: the recording cannot be read.
    """
    headers = [
        (entry.offset, shown)
        for entry in trace.entries(resolve=False)
        if (shown := _shown_header(entry.record)) is not None
    ]
    events = [(entry.offset, _shown(entry.record)) for entry in trace.entries() if isinstance(entry.record, r.Event)]
    return [record for _, record in sorted([*headers, *events], key=lambda pair: pair[0])]


def _shown_header(record: Any) -> Json | None:
    """Return the canonical form of a header, as far as it can be read; None for anything else."""
    try:
        if isinstance(record, OpaqueHeader):
            record = decode_header(record.raw, any_mark=True)[0]
        elif isinstance(record, OpaqueBufferHeader):
            record = decode_buffer_header(record.raw)
    except DecodeError:
        return None
    if isinstance(record, StreamHeader):
        return {"type": "header", **_show(record, _HEADER)}
    if isinstance(record, BufferHeader):
        return {"type": "buffer", **_show(record, _BUFFER)}
    return None


def _shown(event: r.Event) -> Json:
    """Return the canonical form of an event."""
    name = _TYPES[type(event), getattr(event, "action", None)]
    return {"type": name, **_show(event, _TIME), **_show(event, _EVENTS[name].fields)}


_TYPES = {(each.cls, each.constants.get("action")): name for name, each in _EVENTS.items()}


# ---- writing


def write(records: Sequence[Json], path: Path) -> None:
    """Write a recording that contains these canonical records; events belong to the last buffer, or to their thread.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the recording cannot be written.
    """
    with MonoWriter(path) as writer:
        for record in records:
            kind = record["type"]
            if kind == "header":
                missing: dict[str, Any] = {} if "startup_clock" in record else {"startup_tick": None}
                writer.put(StreamHeader(**missing, **_parse(record, _HEADER)))
            elif kind == "buffer":
                writer.put(BufferHeader(**_parse(record, _BUFFER)))
            else:
                thread = record.get("thread_id")
                writer.put(_parsed(record), thread=None if thread is None else int(thread))


def _parsed(record: Json) -> r.Event:
    """Return the event of a canonical form."""
    kind = _EVENTS.get(record["type"])
    if kind is None:
        raise EncodeError(f"there is no record {record['type']!r}", "type")
    return kind.cls(**kind.constants, **_parse(record, {**_TIME, **kind.fields}))
