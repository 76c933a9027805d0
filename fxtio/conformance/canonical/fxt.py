"""Canonical JSON of FXT traces.

A record is read twice, with its references as they stand and resolved, and both are shown.  `_RECORDS` says for each
class which canonical fields it has; reading and writing follow from it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from fxtio.codec.generate import Order, decode
from fxtio.codec.record import Opaque, Record
from fxtio.conformance.canonical.values import parsed_double, parsed_text, shown_double, shown_text
from fxtio.errors import DecodeError, EncodeError
from fxtio.fxt import records as r
from fxtio.fxt.frames import OpaqueGap
from fxtio.fxt.reader import Entry, FxtTrace
from fxtio.fxt.records import Thread
from fxtio.fxt.state import NS_PER_SECOND
from fxtio.fxt.writer import FxtWriter

Json = dict[str, Any]

_EXTENSION = "extension"


@dataclass(frozen=True)
class _Value:
    """A kind of canonical values.

    Attributes:
        show: returns the JSON of a value, given as it stands in the record and resolved.
        parse: returns the value of a record, given the JSON.
    """

    show: Callable[[Any, Any], Any]
    parse: Callable[[Any], Any]


def _shown_reference(raw: Any, resolved: Any) -> Json:
    text = {"text": None} if isinstance(resolved, int) else shown_text(resolved)
    return {"inline": True, **text} if isinstance(raw, str) else {"slot": str(raw), **text}


def _parsed_reference(value: Json) -> int | str:
    return int(value["slot"]) if "slot" in value else parsed_text(value)


def _integer_or_none(value: int | None) -> str | None:
    return None if value is None else str(value)


def _shown_process(raw: Any, resolved: Any) -> Json:
    process = resolved.process if isinstance(resolved, Thread) else None
    form: Json = {"inline": True} if isinstance(raw, Thread) else {"slot": str(raw)}
    return {**form, "process": _integer_or_none(process)}


def _shown_thread(raw: Any, resolved: Any) -> Json:
    thread = resolved.thread if isinstance(resolved, Thread) else None
    return {**_shown_process(raw, resolved), "thread": _integer_or_none(thread)}


def _parsed_thread(value: Json) -> int | Thread:
    if "slot" in value:
        return int(value["slot"])
    thread = value.get("thread")
    return Thread(int(value["process"]), None if thread is None else int(thread))


def _shown_arguments(raw: Sequence[Any], resolved: Sequence[Any]) -> list[Json]:
    return [
        {
            "type": _ARGUMENT_TYPE[type(value)],
            "name": _REFERENCE.show(plain.name, value.name),
            **(
                {}
                if type(value) is r.NullArgument
                else {"value": _ARGUMENT_VALUE[type(value)].show(plain.value, value.value)}
            ),
        }
        for plain, value in zip(raw, resolved, strict=False)
        if type(value) is not Opaque and type(plain) is type(value)
    ]


def _parsed_arguments(values: Sequence[Json]) -> tuple[r.Argument, ...]:
    result = []
    for item in values:
        cls, name = _ARGUMENT_CLASS[item["type"]], _REFERENCE.parse(item["name"])
        content = () if cls is r.NullArgument else (_ARGUMENT_VALUE[cls].parse(item["value"]),)
        result.append(cls(name, *content))
    return tuple(result)


def _frame_converters(order: Order) -> tuple[Callable[[Any, Any], str], Callable[[str], tuple[int, ...]]]:
    """Return the converters of frames of a call stack, which are shown as the bytes that they have in the trace."""

    def show(raw: Any, frames: Sequence[int]) -> str:
        return b"".join(frame.to_bytes(8, order) for frame in frames).hex()

    def parse(value: str) -> tuple[int, ...]:
        data = bytes.fromhex(value)
        return tuple(int.from_bytes(data[at : at + 8], order) for at in range(0, len(data), 8))

    return show, parse


_INTEGER = _Value(lambda raw, value: str(value), int)
_BOOLEAN = _Value(lambda raw, value: bool(value), bool)
_BYTES = _Value(lambda raw, value: bytes(value).hex(), bytes.fromhex)
_DOUBLE = _Value(lambda raw, value: shown_double(value), parsed_double)
_TEXT = _Value(lambda raw, value: shown_text(value), parsed_text)
_REFERENCE = _Value(_shown_reference, _parsed_reference)
_THREAD = _Value(_shown_thread, _parsed_thread)
_PROCESS = _Value(_shown_process, _parsed_thread)
_FRAMES = {order: _Value(*_frame_converters(order)) for order in get_args(Order)}
_ARGUMENTS = _Value(_shown_arguments, _parsed_arguments)

_ARGUMENT_VALUE: dict[type[Record], _Value] = {
    r.NullArgument: _INTEGER,
    r.Int32Argument: _INTEGER,
    r.Uint32Argument: _INTEGER,
    r.Int64Argument: _INTEGER,
    r.Uint64Argument: _INTEGER,
    r.DoubleArgument: _DOUBLE,
    r.StringArgument: _REFERENCE,
    r.PointerArgument: _INTEGER,
    r.KoidArgument: _INTEGER,
    r.BoolArgument: _BOOLEAN,
    r.BlobArgument: _BYTES,
}
_ARGUMENT_TYPE = {cls: cls.__name__.removesuffix("Argument").lower() for cls in _ARGUMENT_VALUE}
_ARGUMENT_CLASS: dict[str, Any] = {name: cls for cls, name in _ARGUMENT_TYPE.items()}

Fields = dict[str, tuple[str, _Value]]
"""Canonical fields, each with the attribute of the record and the kind of value."""

_TIMESTAMP: Fields = {"timestamp": ("timestamp", _INTEGER)}
_TIMED: Fields = {**_TIMESTAMP, "thread": ("thread", _THREAD)}
_NAME: Fields = {"name": ("name", _REFERENCE)}
_NAMED: Fields = {"category": ("category", _REFERENCE), **_NAME}
_ARGS: Fields = {"arguments": ("args", _ARGUMENTS)}
_EVENT: Fields = {**_TIMED, **_NAMED, **_ARGS}
_PROVIDER_ID: Fields = {"provider_id": ("provider_id", _INTEGER)}
_CORRELATED: Fields = {**_EVENT, "async_correlation_id": ("id", _INTEGER)}
_FLOW: Fields = {**_EVENT, "flow_correlation_id": ("id", _INTEGER)}
_CPU: Fields = {**_TIMESTAMP, "cpu": ("cpu", _INTEGER)}
_MODULE: Fields = {**_TIMED, "module_id": ("module", _INTEGER)}
_PAYLOAD: Fields = {"payload": ("payload", _BYTES)}

_RECORDS: dict[type[Record], tuple[str, Fields]] = {
    r.Magic: ("magic", {}),
    r.ProviderInfo: ("provider-info", {**_PROVIDER_ID, "name": ("name", _TEXT)}),
    r.ProviderSection: ("provider-section", _PROVIDER_ID),
    r.ProviderEvent: ("provider-event", {**_PROVIDER_ID, "event_id": ("event", _INTEGER)}),
    r.Initialization: ("initialization", {"ticks_per_second": ("ticks_per_second", _INTEGER)}),
    r.String: ("string", {"index": ("index", _INTEGER), "value": ("text", _TEXT)}),
    r.ThreadRecord: (
        "thread",
        {"index": ("index", _INTEGER), "process": ("process", _INTEGER), "thread": ("thread", _INTEGER)},
    ),
    r.Instant: ("instant", _EVENT),
    r.Counter: ("counter", {**_EVENT, "counter_id": ("id", _INTEGER)}),
    r.DurationBegin: ("duration-begin", _EVENT),
    r.DurationEnd: ("duration-end", _EVENT),
    r.DurationComplete: ("duration-complete", {**_EVENT, "end_time": ("end", _INTEGER)}),
    r.AsyncBegin: ("async-begin", _CORRELATED),
    r.AsyncInstant: ("async-instant", _CORRELATED),
    r.AsyncEnd: ("async-end", _CORRELATED),
    r.FlowBegin: ("flow-begin", _FLOW),
    r.FlowStep: ("flow-step", _FLOW),
    r.FlowEnd: ("flow-end", _FLOW),
    r.Blob: ("blob", {**_NAME, "blob_type": ("blob_type", _INTEGER), **_PAYLOAD}),
    r.UserspaceObject: (
        "userspace-object",
        {"process": ("process", _PROCESS), **_NAME, "pointer": ("pointer", _INTEGER), **_ARGS},
    ),
    r.KernelObject: (
        "kernel-object",
        {"object_type": ("object_type", _INTEGER), "koid": ("koid", _INTEGER), **_NAME, **_ARGS},
    ),
    r.ContextSwitch: (
        "context-switch",
        {
            **_CPU,
            "outgoing_thread_state": ("outgoing_state", _INTEGER),
            "outgoing_thread": ("outgoing", _INTEGER),
            "incoming_thread": ("incoming", _INTEGER),
            **_ARGS,
        },
    ),
    r.ThreadWakeup: ("thread-wakeup", {**_CPU, "waking_thread": ("waking", _INTEGER), **_ARGS}),
    r.LegacyContextSwitch: (
        "legacy-context-switch",
        {
            **_CPU,
            "outgoing_thread_state": ("outgoing_state", _INTEGER),
            "outgoing_thread": ("outgoing", _THREAD),
            "incoming_thread": ("incoming", _THREAD),
            "outgoing_thread_priority": ("outgoing_priority", _INTEGER),
            "incoming_thread_priority": ("incoming_priority", _INTEGER),
        },
    ),
    r.Log: ("log", {**_TIMED, "message": ("message", _TEXT)}),
    r.ProfilerModule: ("module", {**_MODULE, "name": ("name", _TEXT), "build_id": ("build_id", _BYTES)}),
    r.ProfilerMmap: (
        "mmap",
        {
            **_MODULE,
            "flags": ("flags", _INTEGER),
            "start_address": ("start", _INTEGER),
            "address_range": ("range", _INTEGER),
            "vaddr": ("vaddr", _INTEGER),
        },
    ),
    r.ProfilerBacktrace: ("backtrace", {**_TIMED, "backtrace_data": ("frames", _FRAMES["little"])}),
    r.LargeBlob: ("large-blob-with-metadata", {**_TIMED, **_NAMED, **_ARGS, **_PAYLOAD}),
    r.LargeBlobNoMetadata: ("large-blob-no-metadata", {**_NAMED, **_PAYLOAD}),
}
_CLASS = {name: cls for cls, (name, _) in _RECORDS.items()}

_WITHOUT_PROVIDER = (r.Magic, r.ProviderInfo, r.ProviderSection, r.ProviderEvent)
"""The records that do not belong to a provider, or have its id as a field of their own."""


# ---- reading


def records(trace: FxtTrace) -> list[Json]:
    """Return the canonical records of a trace, in the raw form.

    Raises:
        OSError: the trace cannot be read.
    """
    result: list[Json] = []
    rates: dict[int | None, int] = {}
    has_provider = False
    order: Order = "big" if trace.info.byte_order == "big" else "little"
    for raw, entry in _pairs(trace, order):
        record = entry.record
        if type(record) in (r.ProviderInfo, r.ProviderSection):
            has_provider = True
        if type(record) not in _RECORDS or (isinstance(record, r.String | r.ThreadRecord) and record.index == 0):
            continue
        provider = entry.provider if has_provider else None
        if isinstance(record, r.Initialization):
            rates[provider] = record.ticks_per_second
        result.append(_shown(raw, record, provider, rates.get(provider, NS_PER_SECOND)))
        if isinstance(record, r.ProfilerBacktrace):
            result[-1]["backtrace_data"] = _FRAMES[order].show(record.frames, record.frames)
    return result


def _pairs(trace: FxtTrace, order: Order) -> Iterator[tuple[Any, Entry]]:
    """Yield all records, as they stand and resolved, in the order of the trace."""
    resolved = list(trace.entries())  # a trace is read by one reading at a time
    exact = trace.entries(resolve=False)
    plain = next(exact, None)
    for entry in resolved:
        while plain is not None and plain.offset < entry.offset:
            plain = next(exact, None)
        raw = plain.record if plain is not None and plain.offset == entry.offset else None
        yield (_leniently(raw, order) if type(raw) in (Opaque, OpaqueGap) else raw), entry


def _leniently(raw: Any, order: Order) -> Any:
    """Decode a record that would not be encoded to the same bytes, such as one with reserved bits; None if that fails.

    A gap is what the reader could not frame, so it is no record.
    """
    if type(raw) is OpaqueGap:
        return None
    words = struct.unpack(f"{'>' if order == 'big' else '<'}{len(raw.raw) // 8}Q", raw.raw)
    try:
        return decode(r.RECORDS, words, raw.raw, 0, len(words), [])
    except DecodeError:
        return None


def _shown(raw: Any, record: Any, provider: int | None, rate: int) -> Json:
    """Return the canonical form of a record."""
    name, fields = _RECORDS[type(record)]
    result: Json = {"type": name}
    if not isinstance(record, _WITHOUT_PROVIDER):
        result["provider"] = _integer_or_none(provider)
    plain = raw if type(raw) is type(record) else record
    for key, (attribute, value) in fields.items():
        result[key] = value.show(getattr(plain, attribute), getattr(record, attribute))
        if key == "timestamp":
            result["rate"] = str(rate)
    if isinstance(record, r.Initialization) and record.base_ticks is not None and record.wall_clock is not None:
        result[_EXTENSION] = {"base_ticks": str(record.base_ticks), "wall_clock": str(record.wall_clock)}
    if isinstance(record, r.Instant) and record.scope is not None:
        result[_EXTENSION] = {"scope": str(record.scope)}
    return result


# ---- writing


def write(records: Sequence[Json], path: Path) -> None:
    """Write a trace that contains these canonical records; references whose form is free are inline.

    A magic number is added at the beginning, and a provider section where a record belongs to another provider than the
    one before.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the trace cannot be written.
    """
    with FxtWriter(path) as writer:
        current = None
        if records[0]["type"] != "magic":
            writer.put(r.Magic())
        for record in records:
            if record["type"] in {"provider-info", "provider-section"}:
                current = record["provider_id"]
            elif record.get("provider", current) != current:
                current = record["provider"]
                writer.put(r.ProviderSection(int(current)))
            writer.put(_parsed(record))


def _parsed(record: Json) -> Record:
    """Return the record of a canonical form."""
    if record["type"] not in _CLASS:
        raise EncodeError(f"there is no record {record['type']!r}", "type")
    cls = _CLASS[record["type"]]
    values = {attribute: value.parse(record[key]) for key, (attribute, value) in _RECORDS[cls][1].items()}
    if _EXTENSION in record:
        values |= {key: int(value) for key, value in record[_EXTENSION].items()}
    if cls is r.ProfilerBacktrace:
        values["flags"] = 0
    return cls(**values)
