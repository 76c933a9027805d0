"""Records as JSON: for people, and in the canonical form, from which traces are written as well.

In the canonical form a record shows its references as they are, and what they mean; so a trace is read twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fxtio.codec.canonical import (
    Json,
    JsonField,
    described_entries,
    parsed,
    parsed_record,
    parsed_text,
    shown_record,
    shown_text,
    type_of,
)
from fxtio.codec.canonical import shown as shown_value
from fxtio.codec.generate import Order, decode
from fxtio.codec.parts import Many, Part, Words
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.errors import DecodeError, EncodeError
from fxtio.fxt import records as r
from fxtio.fxt.frames import OpaqueGap
from fxtio.fxt.reader import Entry, FxtTrace
from fxtio.fxt.records import StringReference, Thread, ThreadReference
from fxtio.fxt.slots import NS_PER_SECOND
from fxtio.fxt.writer import FxtWriter

_CLASSES: dict[str, type[Record]] = {type_of(cls): cls for cls in r.RECORDS.classes if cls is not r.TraceInfo}
_ARGUMENTS: dict[str, type[Record]] = {type_of(cls): cls for cls in r.ARGUMENTS.classes}
_PARTS = {cls: dict(layout_of(cls).parts) for cls in (*_CLASSES.values(), *_ARGUMENTS.values())}

_WITHOUT_PROVIDER: tuple[type[Record], ...] = (r.Magic, *r.WITH_PROVIDER_ID)
"""The records that do not belong to a provider, or have its id as a field of their own."""

_WORD_BYTES = 8

json_objects = partial(described_entries, more=("end_time", "provider"))
"""Returns records as JSON objects for people, see `fxtio.codec.canonical.described_entries`."""


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
        if type(record) not in _PARTS or (isinstance(record, r.String | r.ThreadRecord) and record.index == 0):
            continue
        provider = entry.provider if has_provider else None
        if isinstance(record, r.Initialization):
            rates[provider] = record.ticks_per_second
        form = _shown(raw if type(raw) is type(record) else record, record, order)
        if not isinstance(record, _WITHOUT_PROVIDER):
            form["provider"] = shown_value(provider)
        if "timestamp" in form:
            form["rate"] = str(rates.get(provider, NS_PER_SECOND))
        result.append(form)
    return result


def _pairs(trace: FxtTrace, order: Order) -> Iterator[tuple[Any, Entry]]:
    """Yield all records, as they are and resolved, in the order of the trace."""
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


def _shown(raw: Any, record: Any, order: Order) -> Json:
    """Return the canonical form of a record or an argument, given as it is and resolved."""
    parts = _PARTS[type(record)]

    def show(attribute: str, value: Any) -> Any:
        as_it_stands = getattr(raw, attribute)
        match parts[attribute]:
            case StringReference():
                return _shown_string(as_it_stands, value)
            case ThreadReference(process_only=process_only):
                return _shown_thread(as_it_stands, value, process_only)
            case Many():
                pairs = zip(as_it_stands, value, strict=False)
                return [_shown(a, b, order) for a, b in pairs if type(b) is not Opaque and type(a) is type(b)]
            case Words():
                return b"".join(word.to_bytes(_WORD_BYTES, order) for word in value).hex()
            case _:
                return shown_value(value)

    return shown_record(record, show)


def _shown_string(raw: Any, resolved: Any) -> Json:
    text = {"text": None} if isinstance(resolved, int) else shown_text(resolved)
    return {"inline": True, **text} if isinstance(raw, str) else {"slot": str(raw), **text}


def _shown_thread(raw: Any, resolved: Any, process_only: bool) -> Json:
    thread = resolved if isinstance(resolved, Thread) else None
    form: Json = {"inline": True} if isinstance(raw, Thread) else {"slot": str(raw)}
    form["process"] = None if thread is None else str(thread.process)
    if not process_only:
        form["thread"] = None if thread is None else shown_value(thread.thread)
    return form


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
            if record["type"] not in _CLASSES:
                raise EncodeError(f"there is no record {record['type']!r}", "type")
            writer.put(_parsed(_CLASSES[record["type"]], record))


def _parsed(cls: type[Record], form: Json) -> Record:
    """Return the record or the argument of a class that has a canonical form."""
    parts = _PARTS[cls]

    def parse(field: JsonField, value: Any) -> Any:
        parser = _PARSERS.get(type(parts[field.attribute]))
        return parsed(value, field.kinds) if parser is None else parser(value)

    not_canonical = {"flags": 0} if cls is r.ProfilerBacktrace else {}
    record: Record = parsed_record(cls, form, parse, **not_canonical)
    return record


def _parsed_thread(form: Json) -> int | Thread:
    if "slot" in form:
        return int(form["slot"])
    thread = form.get("thread")
    return Thread(int(form["process"]), None if thread is None else int(thread))


def _parsed_words(form: str) -> tuple[int, ...]:
    data = bytes.fromhex(form)
    return tuple([word for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % _WORD_BYTES))])


_PARSERS: dict[type[Part], Callable[[Any], Any]] = {
    StringReference: lambda form: int(form["slot"]) if "slot" in form else parsed_text(form),
    ThreadReference: _parsed_thread,
    Many: lambda forms: tuple([_parsed(_ARGUMENTS[form["type"]], form) for form in forms]),
    Words: _parsed_words,
}
