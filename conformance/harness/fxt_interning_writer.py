"""A harness for the writer of fxtio that chooses slots and types by itself, as a tracer does, in both modes.

    fxtio conformance run --mode serve --format fxt -- python conformance/harness/fxt_interning_writer.py

It puts names and threads into the tables of the trace.  Other harnesses write them inline, which means the same.  What
this writer chooses by itself cannot be asked for: scenarios with given slots, and types of integers larger than needed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there by itself if PYTHONSAFEPATH is set

from timelines import Refused, Unsupported, run_writer

import fxtio
from fxtio.errors import EncodeError
from fxtio.fxt.records import INTEGER_LIMITS, Koid, Pointer, integer_class
from fxtio.fxt.writer import FxtWriter, Provider, Track

Json = dict[str, Any]

INTEGERS = {"int32": "Int32Argument", "uint32": "Uint32Argument", "int64": "Int64Argument", "uint64": "Uint64Argument"}
EVENTS: dict[str, tuple[Callable[..., None], str]] = {
    "instant": (Track.instant, ""),
    "duration-begin": (Track.begin, ""),
    "duration-end": (Track.end, ""),
    "async-begin": (Track.async_begin, "async_correlation_id"),
    "async-instant": (Track.async_instant, "async_correlation_id"),
    "async-end": (Track.async_end, "async_correlation_id"),
    "flow-begin": (Track.flow_begin, "flow_correlation_id"),
    "flow-step": (Track.flow_step, "flow_correlation_id"),
    "flow-end": (Track.flow_end, "flow_correlation_id"),
}
"""The method for each type of event, and the key of its last value."""


def write(scenario: Json, target: Path) -> None:
    """Write the trace of a scenario."""
    records = scenario["write"]
    infos = {record["provider_id"]: text(record["name"]) for record in records if record["type"] == "provider-info"}
    rates = {item["provider"]: int(item["ticks_per_second"]) for item in records if item["type"] == "initialization"}
    if records[0]["type"] == "magic" or any("extension" in record for record in records):
        raise Unsupported("it chooses the first provider and the form of records by itself")
    try:
        (first, name), *others = infos.items()
        clock = {"ticks_per_second": rates.get(first, 10**9)}
        with FxtWriter(target, provider=name, provider_id=int(first), **clock) as writer:
            providers = {first: writer.main}
            for number, name in others:
                providers[number] = writer.provider(name, int(number), ticks_per_second=rates.get(number, 10**9))
            for record in records:
                if record["type"] not in ("magic", "provider-info", "provider-section", "initialization"):
                    put(providers[record.get("provider", record.get("provider_id"))], record)
    except EncodeError as error:
        raise Refused(str(error)) from error


def put(provider: Provider, record: Json) -> None:
    """Write a record."""
    kind, args = record["type"], arguments(record)
    time = int(record.get("timestamp", 0))
    if kind in EVENTS:
        method, key = EVENTS[kind]
        last = [int(record[key])] if key else []
        method(track(provider, record), text(record["name"]), time, *last, category=text(record["category"]), args=args)
    elif kind == "duration-complete":
        end, category = int(record["end_time"]), text(record["category"])
        track(provider, record).complete(text(record["name"]), time, end, category=category, args=args)
    elif kind == "counter":
        number, category = int(record["counter_id"]), text(record["category"])
        track(provider, record).counter(text(record["name"]), time, args, id=number, category=category)
    elif kind == "log":
        track(provider, record).log(text(record["message"]), time)
    elif kind == "blob":
        provider.blob(text(record["name"]), bytes.fromhex(record["payload"]), int(record["blob_type"]))
    elif kind == "kernel-object":
        provider.kernel_object(int(record["object_type"]), int(record["koid"]), text(record["name"]), args)
    elif kind == "userspace-object":
        process = int(record["process"]["process"])
        provider.userspace_object(int(record["pointer"]), process, text(record["name"]), args)
    elif kind == "context-switch":
        names = ("cpu", "outgoing_thread", "incoming_thread", "outgoing_thread_state")
        provider.context_switch(time, *(int(record[name]) for name in names), args)
    elif kind == "thread-wakeup":
        provider.thread_wakeup(time, int(record["cpu"]), int(record["waking_thread"]), args)
    elif kind == "large-blob-with-metadata":
        payload, category = bytes.fromhex(record["payload"]), text(record["category"])
        track(provider, record).large_blob(text(record["name"]), payload, time, category=category, args=args)
    else:
        raise Unsupported(f"it does not write {kind}")


def track(provider: Provider, record: Json) -> Track:
    """Return the track of the thread of a record."""
    reference = record["thread"]
    check_free(reference)
    return provider.thread(int(reference["process"]), int(reference["thread"]))


def check_free(reference: Json) -> None:
    """Refuse a reference whose form is given."""
    if "slot" in reference or "inline" in reference:
        raise Unsupported("it chooses slots by itself")


def text(reference: Json) -> str:
    """Return the text of a reference or of a value."""
    check_free(reference)
    if "hex" in reference:
        return bytes.fromhex(reference["hex"]).decode("utf-8", "surrogateescape")
    return str(reference["text"])


def arguments(record: Json) -> dict[str, Any]:
    """Return the arguments of a record by name."""
    result = {text(item["name"]): value(item) for item in record.get("arguments", [])}
    if len(result) < len(record.get("arguments", [])):
        raise Unsupported("it has one argument of each name")
    return result


def value(item: Json) -> Any:
    """Return the value of an argument."""
    kind = item["type"]
    content = item.get("value")
    if kind in INTEGERS:
        number = int(content)
        chosen = integer_class(number, number)
        if chosen not in INTEGER_LIMITS or chosen.__name__ != INTEGERS[kind]:
            raise Unsupported("it chooses the smallest type of an integer")
        return number
    if kind == "double":
        return struct.unpack(">d", bytes.fromhex(content.removeprefix("f64:")))[0]
    if kind == "string":
        return text(content)
    if kind == "blob":
        return bytes.fromhex(content)
    return {"pointer": Pointer, "koid": Koid}[kind](content) if kind in ("pointer", "koid") else content


if __name__ == "__main__":
    sys.exit(run_writer("fxtio, interning", fxtio.__version__, write, "fxt"))
