"""No field of a record is without a column: another value of any field changes some table.

The records of a synthetic trace are written again with another value in one field of one of them.  What tables leave
out on purpose is in `docs/reference/tables.md`, with the reason; the list there has neither more nor less.
"""

from __future__ import annotations

import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

import fxtio
from contract.calls.case import Path as Way
from contract.calls.case import fields_of, replaced
from contract.samples import SYNTHETIC, Sample, recordings, same_style
from fxtio.codec.parts import Part
from fxtio.codec.record import Opaque
from fxtio.errors import EncodeError
from fxtio.formats import Format, formats
from fxtio.fxt.records import TraceInfo
from support.checkout import CHECKOUT

EVENTS = 100
"""The number of events of the traces: few, since they are written and read hundreds of times."""

MOST = 40
"""The largest number of records of a class that are written again."""

TRIES = 6
"""The number of records, and of values of each, that are tried until a table differs."""

ENCODED = {"offset", "buffers.size"}
"""Columns that follow from the lengths of encoded records, or from their places, and so show no field."""

UNDEFINED: dict[str, list[Any]] = {"fxt": [TraceInfo(5, 6), TraceInfo(7, 8)]}
"""Records that no shape has, since their types are such as the specification does not define."""


def fullest(name: str) -> list[Sample]:
    """Return the samples of a format that together have all of its records: the shape `everything`, or all shapes."""
    samples = [replace(sample, events=EVENTS) for sample in SYNTHETIC if sample.format.name == name]
    return [sample for sample in samples if sample.shape == "everything"] or samples


def all_classes(name: str) -> set[str]:
    """Return the names of all classes of records and of their values, without those that declare parts of a body."""
    room = formats()[name].room("records")
    classes = [cls for cls in vars(room).values() if isinstance(cls, type) and cls.__module__ == room.__name__]
    values = [cls for cls in classes if fields_of(cls) and not issubclass(cls, Part)]
    return {cls.__name__ for cls in values if not cls.__subclasses__()}


@dataclass
class Content:
    """The records of a trace, and how they are written again.

    Attributes:
        format: the format.
        records: the raw records, each with the keyword arguments for `put`.
        options: those of the writer.
        files: the other files of a directory.
        without: the columns that are left out, as `table.column`, or `column` of any table.
    """

    format: Format
    records: list[tuple[Any, dict[str, Any]]]
    options: dict[str, Any]
    files: dict[str, bytes]
    without: set[str] = field(default_factory=lambda: ENCODED)

    @classmethod
    def of(cls, item: Format, path: Path) -> Content:
        """Read a trace; of one whose records do not depend on each other the first ones of each class."""
        trace: Any
        with fxtio.open(path, format=item.name) as trace:
            entries = list(trace.entries(resolve=False))
            own = {entry.file for entry in entries} if item.directory else set()
            if item.directory:
                entries = _first_of_each_class(entries)
            places = [{"tid": entry.tid} if item.directory else {} for entry in entries]
            records = [(entry.record, place) for entry, place in zip(entries, places, strict=True)]
            files = {}
            if item.directory:
                files = {file.name: file.read_bytes() for file in path.iterdir() if file.name not in own}
            return cls(item, records, same_style(trace), files)

    def write(self, folder: Path, number: int = -1, record: Any = None) -> Any:
        """Write the records, one of them replaced, and return the bytes or the directory.

        Raises:
            EncodeError: the record cannot be written.
        """
        target: Any = Path(mkdtemp(dir=folder)) if self.files else io.BytesIO()
        writer: Any
        with fxtio.create(target, format=self.format.name, **self.options) as writer:
            for name, content in self.files.items():
                writer.file(name, content)
            for at, (original, place) in enumerate(self.records):
                writer.put(record if at == number else original, **place)
        return target if self.files else target.getvalue()

    @cached_property
    def places(self) -> dict[str, list[tuple[int, Way, Any]]]:
        """Where each field occurs, by `Class.field`: the number of the record, the way in it, and the value."""
        result: dict[str, list[tuple[int, Way, Any]]] = {}
        for number, (record, _) in enumerate(self.records):
            for name, way, value in _fields_within(record, ()):
                result.setdefault(name, []).append((number, way, value))
        return result

    def records_of(self, target: Any) -> list[Any]:
        """Return the raw records of a trace."""
        with fxtio.open(target, format=self.format.name) as trace:
            return list(trace.records(resolve=False))

    def tables(self, target: Any) -> dict[str, list[Any]]:
        """Return the tables of a trace."""
        with fxtio.open(target, format=self.format.name) as trace:
            tables = trace.tables(*trace.table_names)
        return {
            name: [
                (column, _digest(table[column]))
                for column in table.column_names
                if not self.without & {column, f"{name}.{column}"}
            ]
            for name, table in tables.items()
        }


def _first_of_each_class(entries: list[Any]) -> list[Any]:
    number = Counter[type]()
    kept = []
    for entry in entries:
        number[type(entry.record)] += 1
        if number[type(entry.record)] <= MOST:
            kept.append(entry)
    return kept


def _digest(column: Any) -> Any:
    """Return something that is equal for equal columns only."""
    if isinstance(column, np.ndarray):
        return len(column), zlib.crc32(column.tobytes())
    return zlib.crc32(repr([*column]).encode("utf-8", "surrogatepass"))


def _fields_within(record: Any, way: Way) -> Iterator[tuple[str, Way, Any]]:
    """Yield the fields of a record and of its parts: `Class.field`, the way, the value."""
    if isinstance(record, Opaque):
        return
    for name in fields_of(record):
        value = getattr(record, name)
        yield f"{type(record).__name__}.{name}", (*way, name), value
        for at, part in enumerate(value if isinstance(value, tuple) else ()):
            yield from _fields_within(part, (*way, name, at))
        yield from _fields_within(value, (*way, name))


def others(value: Any, donors: list[Any]) -> list[Any]:
    """Return values that differ from a value: of its kind, of some other kinds, and those of other records."""
    match value:
        case bool():
            result: list[Any] = [not value]
        case int():
            result = [value + 1, value ^ 1, value + 8, value * 2 + 1, value - 1, value + 256, 0, 1, 2, 3, 5, None]
        case float():
            result = [value + 1, value * 2, 0.5]
        case str():
            result = ["changed", value[:-1], value + "x", "1", "2", value + " ", 0, None]
        case bytes():
            result = [bytes([byte ^ 1 for byte in value]), value + bytes(8), value[:-8], b"changed!", None]
        case None:
            result = [0, 1, 5, "changed", (), b"", b"changed!", (1,)]
        case datetime():
            result = [value + timedelta(seconds=1)]
        case tuple() if not hasattr(value, "_fields"):
            result = [value[:-1], (*value, *value[-1:]), value[::-1], (1,), (1, 2), None]
            if value and isinstance(value[0], int):
                result.insert(0, (value[0] + 8, *value[1:]))
        case _:
            result = [replaced(value, (name,), other) for name in fields_of(value) for other in (1, 5, None)] + [
                1,
                None,
            ]
    return [other for other in [*result, *donors] if type(other) is not type(value) or other != value]


def is_shown(content: Content, folder: Path, tables: Any, place: str) -> bool | None:
    """Return whether another value of a field, in some of the places where it occurs, changes a table.

    It is None if the field takes no other value while the other fields stay: another record is read than was written.
    """
    places = content.places[place]
    name = place.partition(".")[2]
    donors = [values[0][2] for other, values in content.places.items() if other.endswith(f".{name}")]
    donors += list({repr(value): value for _, _, value in places[:100]}.values())[:TRIES]
    tried = unread = 0
    for number, way, value in places[:: max(len(places) // TRIES, 1)][: 2 * TRIES]:
        for other in others(value, donors):
            try:
                record = replaced(content.records[number][0], way, other)
                written = content.write(folder, number, record)
            except (EncodeError, TypeError, AttributeError):
                continue  # the format, or the class, does not take this value
            records = content.records_of(written)
            if len(records) != len(content.records) or record not in records:
                unread += 1  # with this value, something else is read
                if unread == TRIES * TRIES:
                    return False if tried else None
                continue
            if content.tables(written) != tables:
                return True
            tried += 1
            if tried == TRIES * TRIES:
                return False
    return False if tried else None


def hidden_fields(contents: list[Content], folder: Path) -> set[str]:
    """Return the fields that change no table in any of some traces.

    A field that takes no other value while the other fields stay must have a column of its name.
    """
    shown: dict[str, bool | None] = {}
    columns: set[str] = set()
    for content in contents:
        copies = Path(mkdtemp(dir=folder))
        copy = content.write(copies)
        assert content.records_of(copy) == [record for record, _ in content.records]
        tables = content.tables(copy)
        columns |= {column for table in tables.values() for column, _ in table}
        for place in content.places:
            if not shown.get(place):
                result = is_shown(content, copies, tables, place)
                shown[place] = result or (shown.get(place) if result is None else result)
    return {
        place
        for place, result in shown.items()
        if not (place.partition(".")[2] in columns if result is None else result)
    }


def contents_of(name: str, folder: Path) -> list[Content]:
    """Return the fullest traces of a format, a file of several recordings as one for each."""
    contents = [
        Content.of(sample.format, path)
        for sample in fullest(name)
        for path in recordings(sample, Path(mkdtemp(dir=folder)))
    ]
    for content in contents:
        content.records += [(record, {}) for record in UNDEFINED.get(name, ())]
    return contents


def left_out(name: str) -> set[str]:
    """Return the fields of a format that the documents list as left out of its tables."""
    text = (CHECKOUT / "docs" / "reference" / "tables.md").read_text("utf-8")
    section = text.partition("\n## What tables leave out")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(f"| {name} ")]
    return {field for line in lines for field in re.findall(r"`([A-Z]\w*\.\w+)`", line)}


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", formats())
def test_every_field_of_a_record_changes_a_table(name: str, tmp_path: Path) -> None:
    hidden = hidden_fields(contents_of(name, tmp_path), tmp_path)
    listed = left_out(name)
    assert sorted(hidden - listed) == [], "these fields have no column and no reason"
    assert sorted(listed - hidden) == [], "these fields have a column, or do not exist"


SHOWN_BY = {
    "fxt": ("Log.message", {"logs.message"}),
    "mono": ("AotId.id", {"aot_ids.id"}),
    "uftrace": ("Event.depth", {"records.depth"}),
    "coreprofiler": ("SourceFile.path", {"source_files.path"}),
    "dcpi": ("Line.blanks", {"header.blanks"}),
}
"""For each format a field of records, and the columns that show it."""


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", formats())
def test_a_field_whose_columns_are_left_out_is_found(name: str, tmp_path: Path) -> None:
    """Its other lengths change the places and sizes of records, which does not count."""
    place, columns = SHOWN_BY[name]
    content = next(content for content in contents_of(name, tmp_path) if place in content.places)
    assert is_shown(content, tmp_path, content.tables(content.write(tmp_path)), place)
    content.without = ENCODED | columns
    assert is_shown(content, tmp_path, content.tables(content.write(tmp_path)), place) is False


@pytest.mark.parametrize("name", formats())
def test_the_shape_everything_has_all_records(name: str, tmp_path: Path) -> None:
    assert {sample.shape for sample in fullest(name)} == {"everything"}
    seen: set[str] = set()
    for content in contents_of(name, tmp_path):
        seen |= {place.partition(".")[0] for place in content.places}
        seen |= {type(record).__name__ for record, _ in content.records}
    assert all_classes(name) - seen == set()
