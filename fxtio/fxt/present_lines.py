"""Records as lines of text for people, and as JSON objects for programs.

A function for each class is put together once, from the declaration; a line then costs a few microseconds.  A number
in the place of a name or a thread is a slot of the provider's table: `#12` in text, a plain number in JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any

import msgspec

from fxtio.codec.parts import Thread
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt.arguments import (
    BlobArgument,
    BoolArgument,
    DoubleArgument,
    Int32Argument,
    Int64Argument,
    KoidArgument,
    NullArgument,
    PointerArgument,
    StringArgument,
    Uint32Argument,
    Uint64Argument,
)
from fxtio.fxt.reader import Entry
from fxtio.fxt.records import Event
from fxtio.present import quoted, seconds

Kind = type[Record] | type[Opaque]

_PLAIN = re.compile(r'[^\s"#={},][^\s"={},]*')
_ADDRESSES = {"pointer", "start", "range", "vaddr", "frames"}
_SHOWN_BYTES = 32
_KEPT_TEXTS = 1 << 12  # a text may have 32 KiB


def text_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Records as lines of text."""
    return map(_text_line, entries)


def _text_line(entry: Entry) -> str:
    """A record as a line of text: offset, time in seconds, class, then what is in it."""
    offset, time, end, _, record = entry
    cls: Kind = type(record)
    when = "" if time is None else seconds(time)
    took = "" if time is None or end is None else f" dur={seconds(end - time)}"
    return f"{offset:>10}  {when:>16}  {cls.__name__:<16}  {_writer(cls)(record, took)}".rstrip()


@cache
def _writer(cls: Kind) -> Callable[[Any, str], str]:
    if issubclass(cls, Opaque):
        return lambda record, took: _bytes(record.raw)
    if issubclass(cls, Event):
        return _event_writer(cls)
    fields = [(name, _shower(cls, name)) for name in cls.__struct_fields__ if name != "timestamp"]

    def write(record: Any, took: str) -> str:
        return _fields(record, fields)

    return write


def _event_writer(cls: type[Record]) -> Callable[[Any, str], str]:
    """Thread, category and name stand in columns; whatever the class has besides follows, the arguments last."""
    common = (*Event.__struct_fields__, "end")  # `end` is told as the duration
    fields = [(name, _shower(cls, name)) for name in cls.__struct_fields__ if name not in common]

    def write(event: Any, took: str) -> str:
        where = event.thread
        thread = f"{where.process}/{where.thread}" if type(where) is Thread else f"#{where}"
        rest = _fields(event, fields)
        line = f"{thread:<12} {_name_text(event.category):<12} {_name_text(event.name)}{took}{' ' * bool(rest)}{rest}"
        return f"{line} {_args(event.args)}" if event.args else line

    return write


def _fields(record: Any, fields: list[tuple[str, Callable[[Any], str]]]) -> str:
    """What a record has, without what it could have and has not."""
    values = [(name, show, getattr(record, name)) for name, show in fields]
    return " ".join([f"{name}={show(value)}" for name, show, value in values if value is not None and value != ()])


def _shower(cls: type[Record], name: str) -> Callable[[Any], str]:
    """How a field of a class is shown."""
    meanings = [field.meaning for _, field in layout_of(cls).header_fields() if field.name == name and field.meaning]
    if meanings:
        labels = {member.value: member.name.lower() for member in meanings[0]}
        return lambda value: labels.get(value, str(value))
    if name in _ADDRESSES:
        return lambda value: _addresses(value) if type(value) is tuple else f"{value:#x}"
    if name == "args":
        return _args
    slots = name in ("name", "category", "thread", "process", "outgoing", "incoming")
    refers = slots and type(dict(layout_of(cls).parts)[name]).__name__ in ("Text", "Koids")
    return _reference if refers else _value


@lru_cache(_KEPT_TEXTS)
def _name_text(name: int | str) -> str:
    """A name as it is, in quotes if it could be misread, or `#` and the slot."""
    if isinstance(name, int):
        return f"#{name}"
    return name if _PLAIN.fullmatch(name) and name.isprintable() else quoted(name)


def _reference(value: Any) -> str:
    return f"#{value}" if type(value) is int else _value(value)


def _value(value: Any) -> str:
    if type(value) is str:
        return quoted(value)
    if type(value) is bytes:
        return _bytes(value)
    if type(value) is Thread:
        return f"{value.process}/{'-' if value.thread is None else value.thread}"
    return str(value)


def _addresses(values: tuple[int, ...]) -> str:
    return f"[{', '.join(map(hex, values))}]"


def _bytes(data: bytes) -> str:
    more = "..." if len(data) > _SHOWN_BYTES else ""
    return f"({len(data):,} bytes) {data[:_SHOWN_BYTES].hex(' ', 8)}{more}".rstrip()


def _args(args: tuple[Any, ...]) -> str:
    return f"{{{', '.join([_ARGUMENT[type(one)](one) for one in args])}}}"


_ARGUMENT: dict[type[Any], Callable[[Any], str]] = {
    NullArgument: lambda one: f"{_name_text(one.name)}=null",
    StringArgument: lambda one: f"{_name_text(one.name)}={_reference(one.value)}",
    PointerArgument: lambda one: f"{_name_text(one.name)}={one.value:#x}",
    KoidArgument: lambda one: f"{_name_text(one.name)}=koid({one.value})",
    BoolArgument: lambda one: f"{_name_text(one.name)}={'true' if one.value else 'false'}",
    BlobArgument: lambda one: f"{_name_text(one.name)}={_bytes(one.value)}",
    Opaque: lambda one: f"?={_bytes(one.raw)}",
} | dict.fromkeys(
    (Int32Argument, Uint32Argument, Int64Argument, Uint64Argument, DoubleArgument),
    lambda one: f"{_name_text(one.name)}={one.value}",
)


def json_objects(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Records as JSON objects.

    Each has `offset`, `type` (the class), `provider`, `time` and `end_time` (nanoseconds or null); then the fields of
    the class.  Bytes are hexadecimal.
    """
    return [_object(entry) for entry in entries]


def _object(entry: Entry) -> dict[str, Any]:
    offset, time, end, provider, record = entry
    cls: Kind = type(record)
    made = {"offset": offset, "type": cls.__name__, "provider": provider, "time": time, "end_time": end}
    fields = msgspec.structs.asdict(record)
    if "args" in fields:
        fields["args"] = [_argument(one) for one in fields["args"]]
    for name in _bytes_fields(cls):
        fields[name] = fields[name].hex()
    made.update(fields)  # in a provider record, `provider` is the one that it names
    return made


@cache
def _bytes_fields(cls: Kind) -> tuple[str, ...]:
    return tuple(name for name in ("raw", "payload", "build_id") if name in cls.__struct_fields__)


def _argument(one: Any) -> dict[str, Any]:
    if type(one) is Opaque:
        return {"name": None, "type": "unknown", "value": one.raw.hex()}
    cls: Kind = type(one)
    value = getattr(one, "value", None)
    if type(value) is bytes:
        value = value.hex()
    elif type(value) is float and not math.isfinite(value):
        value = {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return {"name": one.name, "type": _type_name(cls), "value": value}


@cache
def _type_name(cls: Kind) -> str:
    return cls.__name__.removesuffix("Argument").lower()
