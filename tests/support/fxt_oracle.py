"""Conversion of fxtio's records to the dicts of the oracle.

The names are a table; the values follow the parts of the declaration.  The oracle keeps text as bytes and doubles as
their bits, so that nothing compares by luck.
"""

from __future__ import annotations

import struct
from typing import Any

from fxtio.codec.generate import Order
from fxtio.codec.parts import Many, Number, Part, Stream, Words
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt import records as rec
from fxtio.fxt.records import StringReference, ThreadReference

_EVENT = {"id": "async_correlation_id"}
_FLOW = {"id": "flow_correlation_id"}

KINDS: dict[type[Record], tuple[str, dict[str, str]]] = {
    rec.Magic: ("magic", {}),
    rec.ProviderInfo: ("provider_info", {"provider_id": "provider_id", "name": "provider_name"}),
    rec.ProviderSection: ("provider_section", {"provider_id": "provider_id"}),
    rec.ProviderEvent: ("provider_event", {"provider_id": "provider_id", "event": "event_id"}),
    rec.TraceInfo: ("trace_info", {"info_type": "trace_info_type", "data": "varies"}),
    rec.Initialization: ("initialization", {"wall_clock": "wall_clock_ns"}),
    rec.String: ("string", {"index": "string_index", "text": "string_value"}),
    rec.ThreadRecord: ("thread", {"index": "thread_index", "process": "process_id", "thread": "thread_id"}),
    rec.Instant: ("instant", {}),
    rec.Counter: ("counter", {"id": "counter_id"}),
    rec.DurationBegin: ("duration_begin", {}),
    rec.DurationEnd: ("duration_end", {}),
    rec.DurationComplete: ("duration_complete", {"end": "end_time"}),
    rec.AsyncBegin: ("async_begin", _EVENT),
    rec.AsyncInstant: ("async_instant", _EVENT),
    rec.AsyncEnd: ("async_end", _EVENT),
    rec.FlowBegin: ("flow_begin", _FLOW),
    rec.FlowStep: ("flow_step", _FLOW),
    rec.FlowEnd: ("flow_end", _FLOW),
    rec.Blob: ("blob", {"name": "blob_name"}),
    rec.UserspaceObject: ("userspace_object", {}),
    rec.KernelObject: ("kernel_object", {"object_type": "kernel_object_type"}),
    rec.LegacyContextSwitch: (
        "legacy_context_switch",
        {
            "cpu": "cpu_number",
            "outgoing_state": "outgoing_thread_state",
            "outgoing_priority": "outgoing_thread_priority",
            "incoming_priority": "incoming_thread_priority",
            "outgoing": "outgoing_thread",
            "incoming": "incoming_thread",
        },
    ),
    rec.ContextSwitch: (
        "context_switch",
        {
            "cpu": "cpu_number",
            "outgoing_state": "outgoing_thread_state",
            "outgoing": "outgoing_thread_id",
            "incoming": "incoming_thread_id",
        },
    ),
    rec.ThreadWakeup: ("thread_wakeup", {"cpu": "cpu_number", "waking": "waking_thread_id"}),
    rec.Log: ("log", {"message": "log_message"}),
    rec.ProfilerModule: ("profiler_module", {"module": "module_id", "name": "module_name"}),
    rec.ProfilerMmap: (
        "profiler_mmap",
        {"module": "module_id", "start": "start_address", "range": "address_range"},
    ),
    rec.ProfilerBacktrace: ("profiler_backtrace", {"frames": "backtrace_data"}),
    rec.LargeBlob: ("large_blob", {}),
    rec.LargeBlobNoMetadata: ("large_blob_no_metadata", {}),
}

ARGUMENT_TYPES: dict[type[Record], str] = {
    rec.NullArgument: "null",
    rec.Int32Argument: "int32",
    rec.Uint32Argument: "uint32",
    rec.Int64Argument: "int64",
    rec.Uint64Argument: "uint64",
    rec.DoubleArgument: "double",
    rec.StringArgument: "string",
    rec.PointerArgument: "pointer",
    rec.KoidArgument: "koid",
    rec.BoolArgument: "bool",
    rec.BlobArgument: "blob",
}


def to_oracle(record: Any, order: Order = "little") -> dict[str, Any]:
    """Return the dict that the oracle would give for a record with unresolved references."""
    if isinstance(record, Opaque):
        return {"kind": "unknown", "raw": record.raw}
    kind, names = KINDS[type(record)]
    result = {"kind": kind, **_fields(record, names, order)}
    if isinstance(record, rec.TraceInfo):
        result["payload"] = b""
    if isinstance(record, rec.ProfilerBacktrace):
        assert result.pop("flags") == 0, "the oracle knows no flags"
    if "thread" in result and result["thread"] == {"process": getattr(record.thread, "process", 0)}:
        result["pid_only"] = True
    return result


def _argument(argument: Any, order: Order) -> dict[str, Any]:
    if isinstance(argument, Opaque):
        return {"type": "unknown", "raw": argument.raw}
    return {"type": ARGUMENT_TYPES[type(argument)], **_fields(argument, {}, order)}


def _fields(record: Record, names: dict[str, str], order: Order) -> dict[str, Any]:
    result = {}
    for name, part in layout_of(type(record)).parts:
        value = getattr(record, name)
        key = "bits" if isinstance(part, Number) and part.kind == "f" else names.get(name, name)
        if value is not None:
            result[key] = _value(part, value, order)
    return result


def _value(part: Part, value: Any, order: Order) -> Any:
    if isinstance(part, StringReference):
        return {"inline": _raw(value)} if isinstance(value, str) else {"index": value}
    if isinstance(part, ThreadReference):
        if isinstance(value, int):
            return {"index": value}
        return {"process": value.process} | ({} if value.thread is None else {"thread": value.thread})
    if isinstance(part, Stream):
        return _raw(value) if part.text else value
    if isinstance(part, Words):
        return b"".join([word.to_bytes(8, order) for word in value])
    if isinstance(part, Many):
        return [_argument(argument, order) for argument in value]
    if isinstance(part, Number) and part.kind == "f":
        return int.from_bytes(struct.pack("<d", value), "little")
    return value


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
