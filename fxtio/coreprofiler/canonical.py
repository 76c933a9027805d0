"""Records as JSON: for people, and in the canonical form, from which logs are written as well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fxtio.codec.canonical import (
    Json,
    JsonField,
    described_entries,
    fields_of,
    parsed,
    parsed_record,
    parsed_text,
    shown,
    shown_record,
    shown_text,
    type_of,
)
from fxtio.coreprofiler import records as r
from fxtio.coreprofiler.layout import UNDEFINED, OsThread
from fxtio.coreprofiler.reader import CoreProfilerTrace
from fxtio.coreprofiler.writer import CoreProfilerWriter
from fxtio.errors import EncodeError

_LEFT_OUT = (r.FunctionCompiled, r.FunctionFound)
"""Records of old dialects that the canonical form does not have."""

_CLASSES: dict[str, list[type[r.Record]]] = {}
for _cls in r.RECORDS:
    if _cls not in _LEFT_OUT:
        _CLASSES.setdefault(type_of(_cls), []).append(_cls)

_THREAD, _OS_THREAD = "thread_iid", "os_thread_id"
_IP = "ip"


json_objects = described_entries


# ---- reading


def records(trace: CoreProfilerTrace) -> list[Json]:
    """Return the canonical records of a log.

    Raises:
        OSError: the log cannot be read.
    """
    return [
        _shown(record)
        for record in trace.records()
        if isinstance(record, r.Record) and not isinstance(record, _LEFT_OUT)
    ]


def _shown(record: Any) -> Json:
    """Return the canonical form of a record or a compound item."""
    form = shown_record(record, _shown_value)
    if isinstance(form.get(_THREAD), OsThread):
        form[_OS_THREAD] = str(form.pop(_THREAD).number)
    return form


def _shown_value(attribute: str, value: Any) -> Any:
    if attribute == _IP and value == UNDEFINED:
        return None
    if isinstance(value, OsThread):
        return value
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else f" {value.isoformat()[-6:]}"
        return shown_text(value.replace(tzinfo=None).isoformat(" ", "milliseconds") + zone)
    if isinstance(value, tuple):
        return [_shown(item) if isinstance(item, r.Compound) else item for item in value]
    return shown(value)


# ---- writing


def write(records: Sequence[Json], path: Path) -> None:
    """Write a log that contains these canonical records.

    Raises:
        EncodeError: the format cannot express a record.
        OSError: the log cannot be written.
    """
    with CoreProfilerWriter(path) as writer:
        for form in records:
            classes = [cls for cls in _CLASSES.get(form["type"], []) if _fits(cls, form)]
            if not classes:
                raise EncodeError(f"there is no record {form['type']!r} with these fields", "type")
            writer.put(_parsed(classes[0], form))


def _fits(cls: type[r.Record], form: Json) -> bool:
    """Return whether all items that a class of records cannot do without are there."""
    return all(
        field.is_optional or field.name in form or (field.name == _THREAD and _OS_THREAD in form)
        for field in fields_of(cls)
    )


def _parsed(cls: type[Any], form: Json) -> Any:
    """Return the record or the compound item of a class that has a canonical form."""
    if _OS_THREAD in form and _THREAD in {field.name for field in fields_of(cls)}:
        form = {_THREAD: OsThread(int(form[_OS_THREAD]))} | form
    return parsed_record(cls, form, _parsed_value)


def _parsed_value(field: JsonField, form: Any) -> Any:
    if isinstance(form, OsThread):
        return form
    if field.attribute == _IP and form is None:
        return UNDEFINED
    if datetime in field.kinds:
        return datetime.fromisoformat(parsed_text(form).replace(" +", "+").replace(" -", "-"))
    if isinstance(form, list):
        (member, *_) = field.kinds[0].__args__
        return tuple([_parsed(member, each) if isinstance(each, dict) else each for each in form])
    return parsed(form, field.kinds)
