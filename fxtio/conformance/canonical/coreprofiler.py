"""Canonical JSON of CoreProfiler trace logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from fxtio.conformance.canonical.values import parsed_text, shown_text
from fxtio.coreprofiler import records as declared
from fxtio.coreprofiler.layout import UNDEFINED, OsThread
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.errors import EncodeError

Json = dict[str, Any]

_SAME = {"thread": "thread_iid", "status": "status"}
_NAMES: dict[type, dict[str, str]] = {
    declared.ProfilerStart: {"started_at": "systime"},
    declared.ThreadAssigned: {"os_thread": "os_thread_id"},
    declared.ModuleLoaded: {"base_address": "base_load_address", "name": "module_name"},
    declared.AssemblyLoaded: {"name": "assembly_name"},
    declared.AppDomainCreated: {"name": "app_domain_name"},
    declared.ClassLoaded: {"token": "class_token"},
    declared.ClassLoadedOld: {"token": "class_token"},
    declared.ClassName: {"class_iid": "internal_id", "name": "full_name"},
    declared.FunctionInfo: {"function_iid": "internal_id", "token": "func_token", "code": "code_info"},
    declared.FunctionName: {"function_iid": "internal_id", "name": "full_name"},
    declared.FunctionNameOld: {"function_iid": "internal_id", "name": "full_name"},
    declared.GcStarted: {"generations": "gen_collect"},
    declared.StackSample: {"match": "match_prefix_size", "size": "stack_size"},
    declared.AltItem: {"count": "alloc_count", "size": "mem_size"},
    declared.AllocItem: {"count": "alloc_count", "size": "mem_size"},
    declared.CodeInfo: {"address": "start_addr"},
}
"""Names of canonical fields, where they are not those of the attributes."""

_LEFT_OUT = {declared.FunctionCompiled, declared.FunctionFound}
"""Records of old dialects that CANONICAL.md does not have."""

_CLASSES: dict[str, list[type[declared.Record]]] = {}
for _cls in declared.RECORDS:
    if _cls not in _LEFT_OUT:
        _CLASSES.setdefault(_cls.tag.replace(" ", "-"), []).append(_cls)


def _name(cls: type, field: str) -> str:
    """Return the canonical name of a field."""
    return _NAMES.get(cls, {}).get(field) or _SAME.get(field, field)


def records(trace: CoreProfilerTrace) -> list[Json]:
    """Return the canonical records of a log.

    Raises:
        OSError: the log cannot be read.
    """
    return [
        {"type": record.tag.replace(" ", "-"), **_shown_fields(record)}
        for record in trace.records()
        if isinstance(record, declared.Record) and type(record) not in _LEFT_OUT
    ]


def _shown_fields(struct: msgspec.Struct) -> Json:
    """Return the canonical fields of a record or a compound item."""
    result: Json = {}
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if field == "ip":
            result |= {} if value is None else {"ip": None if value == UNDEFINED else str(value)}
        elif isinstance(value, OsThread):
            result["os_thread_id"] = str(value.number)
        elif field != "extra":
            result[_name(type(struct), field)] = _shown(value)
    return result


def _shown(value: Any) -> Any:
    """Return the canonical form of a value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return shown_text(value)
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else f" {value.isoformat()[-6:]}"
        return shown_text(value.replace(tzinfo=None).isoformat(" ", "milliseconds") + zone)
    return [item if isinstance(item, bool) else _shown_fields(item) for item in value]


def write(records: Sequence[Json], path: Path) -> None:
    """Write a log that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the log cannot be written.
    """
    with CoreProfilerWriter(path) as writer:
        for record in records:
            classes = [cls for cls in _CLASSES.get(record["type"], []) if _fits(cls, record)]
            if not classes:
                raise EncodeError(f"there is no record {record['type']!r} with these fields", "type")
            writer.put(_parsed_struct(classes[0], record))


def _fits(cls: type[declared.Record], record: Json) -> bool:
    """Return whether all items that a class of records cannot do without are there."""
    required = cls.__struct_fields__[: len(cls.__struct_fields__) - len(cls.__struct_defaults__)]
    return all(field == "thread" or _name(cls, field) in record for field in required)


def _parsed_struct(cls: type[Any], value: Json) -> Any:
    """Return a record or a compound item of a canonical form."""
    hints = get_type_hints(cls)
    items: Json = {}
    for field in cls.__struct_fields__:
        name = _name(cls, field)
        if field == "thread" and "os_thread_id" in value and "thread_iid" not in value:
            items[field] = OsThread(int(value["os_thread_id"]))
        elif name in value:
            item = value[name]
            items[field] = UNDEFINED if field == "ip" and item is None else _parsed(item, hints[field])
    return cls(**items)


def _parsed(value: Any, hint: Any) -> Any:
    """Return the value of an attribute with a type."""
    if isinstance(value, dict):
        text = parsed_text(value)
        return datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-")) if hint is datetime else text
    if isinstance(value, list):
        (member, *_) = hint.__args__
        return tuple(item if isinstance(item, bool) else _parsed_struct(member, item) for item in value)
    return None if value is None else int(value)
