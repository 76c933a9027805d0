"""No field of a Mono recording is without a column: changing any field changes some table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from fxtio.codec.stream.declare import Clock, Item, layout_of, parts_of
from fxtio.errors import EncodeError
from fxtio.mono import records as r
from fxtio.mono.headers import BufferHeader, StreamHeader
from fxtio.mono.layout import Reference
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from support.mono_every import every_event
from support.mono_samples import header

REFUSED = (EncodeError, TypeError)


def other_values(value: Any) -> Iterator[Any]:
    """Yield values that differ from a value of a field; some of them may not be legal in it."""
    if isinstance(value, str):
        yield value + "x"
    elif isinstance(value, tuple):
        if not value:
            yield from ((8,), (Reference(field_offset=8, object=8),))
        for number, item in enumerate(value):
            fields = [(item, None)] if not isinstance(item, Item) else [(item, name) for name in item.__struct_fields__]
            for _, name in fields:
                for other in other_values(item if name is None else getattr(item, name)):
                    changed = other if name is None else msgspec.structs.replace(item, **{name: other})
                    yield (*value[:number], changed, *value[number + 1 :])
    elif isinstance(value, int):
        yield from (value + step for step in (1, 2, 3, 8, -1))
    else:
        yield from (0, 1, 8, "text", (8,), ())


def recording(version: int, event: Any) -> MonoTrace:
    """Return a recording of one event."""
    out = io.BytesIO()
    with MonoWriter(out, header=header(version)) as writer:
        writer.put(BufferHeader(time=event.time, pointer=0x4000, object=0x1000, thread=1, method=0x2000))
        writer.put(event)
    trace = MonoTrace(out.getvalue())
    assert list(trace) == [event]
    return trace


def rows(trace: MonoTrace, names: Iterable[str]) -> dict[str, list[Any]]:
    """Return the rows of some tables, without the offset, which follows from others; tables without rows are absent."""
    tables = trace.tables(*names)
    return {name: [{**row, "offset": 0} for row in table.rows()] for name, table in tables.items() if table.num_rows}


def cases() -> Iterator[tuple[int, type[r.Event]]]:
    """Yield each event with each version that changes its layout, or what can be tried of it."""
    tried: dict[type[r.Event], list[Any]] = {cls: [] for cls in r.EVENTS}
    for version in (1, 5, 6, 11, 12, 13, 14, 15, 17):
        events = every_event(version)
        for cls in dict.fromkeys(type(event) for event in events):
            layout = layout_of(cls, version)
            assert layout is not None
            what = layout.word, layout.parts, layout.absent, [event for event in events if type(event) is cls]
            if what not in tried[cls]:
                tried[cls].append(what)
                yield version, cls


CASES = [*cases()]


def test_some_version_tries_every_event() -> None:
    assert {cls for _, cls in CASES} == {*r.EVENTS}


@pytest.mark.full
@pytest.mark.parametrize(("version", "cls"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))
def test_changing_any_field_changes_a_table(version: int, cls: type[r.Event]) -> None:
    """The fields of items are changed one by one, too."""
    untested = {*cls.__struct_fields__}
    layout = layout_of(cls, version)
    assert layout is not None
    untested -= {name for name in layout.absent if not any(isinstance(part, Clock) for part in parts_of(cls)[name])}
    for event in every_event(version):
        if type(event) is not cls:
            continue
        trace = recording(version, event)
        names = [name for name in trace.table_names if name != "buffers"]
        before = rows(trace, names)
        for name in cls.__struct_fields__:
            for other in other_values(getattr(event, name)):
                changed = event.replace(**{name: other})
                try:
                    trace = recording(version, changed)
                except REFUSED:
                    continue
                is_shown = rows(trace, before) != before or rows(trace, names) != before  # fewer tables take less time
                assert is_shown, (name, other)
                untested.discard(name)
    assert untested <= OPTIONAL.get(cls, set()), "every event of this version and each field are tried"


OPTIONAL: dict[type[r.Event], set[str]] = {
    r.Image: {"mvid", "action"},
    r.Domain: {"name"},
    r.HandleCreated: {"backtrace", "backtrace_flags"},
    r.HandleDestroyed: {"backtrace", "backtrace_flags"},
}
"""Fields that the version has only together with others; other versions or events try them."""


@pytest.mark.parametrize("name", StreamHeader.__struct_fields__)
def test_changing_the_header_of_a_recording_changes_a_table(name: str) -> None:
    changes = {"data_version": 16, "pointer_size": 4, "args": "x", "arch": "x", "os": "x", "major": 2, "sysid": 7}
    old = {"startup_tick": None} if name == "major" else {}
    first = (
        header()
        if name != "sysid"
        else msgspec.structs.replace(header(1), major=0, sysid=0, args=None, arch=None, os=None)
    )
    other = msgspec.structs.replace(first, **{name: changes.get(name, 9)}, **old)
    rows = []
    for each in (first, other):
        out = io.BytesIO()
        MonoWriter(out, header=each).close()
        (row,) = MonoTrace(out.getvalue()).table("recordings").rows()
        rows.append(row)
    assert rows[0][name] != rows[1][name]


def test_the_headers_of_buffers_are_a_table() -> None:
    first = BufferHeader(time=1, pointer=2, object=3, thread=4, method=5)
    out = io.BytesIO()
    with MonoWriter(out, header=header()) as writer:
        writer.put(first)
        writer.put(r.GcResize(time=6, size=7))
        writer.put(BufferHeader(time=2**64 - 1, thread=2**64 - 1))
    trace = MonoTrace(out.getvalue())
    rows = list(trace.table("buffers").rows())
    offset = trace.index()["offset"].tolist()
    assert rows[0] == {"offset": offset[0], "size": 3, "time": 1, "pointer": 2, "object": 3, "thread": 4, "method": 5}
    assert (rows[1]["offset"], rows[1]["time"], rows[1]["thread"]) == (offset[1], 2**63 - 1, 2**64 - 1)
    assert [row["offset"] for batch in trace.batches("buffers") for row in batch["buffers"].rows()] == offset
