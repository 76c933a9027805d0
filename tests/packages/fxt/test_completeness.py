"""No field of an FXT record is without a column: changing any field changes some table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fxtio.codec.parts import Header, Many, Number, Part, Stream, Words
from fxtio.codec.record import Opaque, Record, layout_of
from fxtio.fxt import FxtTrace
from fxtio.fxt import records as rec
from fxtio.fxt.records import ARGUMENTS, RECORDS, StringReference, Thread, ThreadReference
from fxtio.testing.strategies import encoded
from support.fxt_readings import tables_of
from support.fxt_samples import CLASSES, minimal

DEFINED = [rec.Magic(), rec.ProviderInfo(1, "p"), rec.String(1, "text"), rec.ThreadRecord(1, 2, 3)]
BOTH_FIELDS = [(cls, name) for cls in CLASSES for name, _ in layout_of(cls).parts]
UNKNOWN = [Opaque((15 | 2 << 4).to_bytes(8, "little") + bytes([value, *bytes(7)])) for value in (1, 2)]


def values(part: Part, cls: type[Record]) -> Iterator[Any]:
    """Yield different values of a part; its smallest one is that of `minimal`."""
    if isinstance(part, Header):
        yield from (True,) if part.boolean else (part.field.limits[0] + 1, part.field.limits[1])
    elif isinstance(part, Number):
        yield from (0, 1, 2**64 - 1) if part.kind == "u" else (1.5,) if part.kind == "f" else (1, -1)
    elif isinstance(part, ThreadReference):
        yield from (Thread(2, None), Thread(9, None)) if part.process_only else (Thread(2, 4), Thread(9, 3))
    elif isinstance(part, StringReference):
        yield from (1, "inline")
    elif isinstance(part, Words):
        yield from ((0,), (7,), (7, 0))
    elif isinstance(part, Many):
        yield from ((rec.NullArgument(0),), (UNKNOWN[0],), (UNKNOWN[1],))
        yield from ((minimal(one),) for one in ARGUMENTS.classes)
    else:
        yield from ("a", "b") if isinstance(part, Stream) and part.text else (b"a", b"b")


def tables(record: Any) -> dict[str, list[Any]]:
    """Return the tables of a trace in which nothing but this record varies; an argument is that of an event."""
    if type(record) in ARGUMENTS.classes:
        record = rec.Instant(1, 1, 0, 0, (record,))
    trace = FxtTrace(encoded([*DEFINED, record, rec.Instant(5, 1, 0, 0, ())]))
    return {
        name: [[each for each in row if each[0] != "offset"] for row in rows] for name, rows in tables_of(trace).items()
    }


@pytest.mark.full
@pytest.mark.parametrize(
    ("cls", "name"), BOTH_FIELDS, ids=lambda each: each if isinstance(each, str) else each.__name__
)
def test_every_field_has_a_column(cls: type[Record], name: str) -> None:
    first = {"index": 1} if "index" in cls.__struct_fields__ else {}
    first |= {"base_ticks": 0} if name == "wall_clock" else {}
    sample = minimal(cls, **first)
    part = dict(layout_of(cls).parts)[name]
    others = [sample.replace(**{name: value}) for value in values(part, cls)]
    distinct = [one for number, one in enumerate([sample, *others]) if one not in [sample, *others][:number]]
    assert len(distinct) >= 2
    seen: list[Any] = []
    for record in distinct:
        rows = tables(record)
        assert rows not in seen, record
        seen.append(rows)


@pytest.mark.parametrize("cls", RECORDS.classes, ids=lambda cls: cls.__name__)
def test_every_record_is_a_row_somewhere(cls: type[Record]) -> None:
    record = minimal(cls)
    whole, without = (tables_of(FxtTrace(encoded([*DEFINED, *more]))) for more in ([record], []))
    assert any(len(whole[name]) > len(without[name]) for name in whole)


def test_a_record_of_unknown_type_is_a_row() -> None:
    records = [Opaque((11 | 2 << 4).to_bytes(8, "little") + bytes([value, *bytes(7)])) for value in (1, 2)]
    rows = FxtTrace(encoded([*DEFINED, *records])).table("unknown_records").rows()
    assert [(row["type"], row["payload"]) for row in rows] == [(11, record.raw) for record in records]
