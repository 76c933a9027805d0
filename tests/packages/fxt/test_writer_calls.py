"""Every public method of the writer, with absurd values: a call writes all of its records, or it is refused as a whole.

The methods are found by reflection, so a new one must be added to `CALLS`.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.errors import EncodeError
from fxtio.fxt import FxtWriter
from fxtio.fxt import records as rec
from fxtio.fxt.writer import Provider, Track
from fxtio.table import Table
from support.fxt_absurd import LONE, absurd

EVENT: dict[str, Any] = {"name": "name", "timestamp": 5, "category": "cat", "args": {"key": "value"}}
WITH_ID = {**EVENT, "id": 7}
TRACK = "the track"
"""Stands for a track of the writer."""

COLUMNS = {"kind": "counter", "timestamp": [1, 2], "thread": TRACK, "name": "n", "id": [3, 4]}
MIXED = {**COLUMNS, "category": "c", "args": {"a": 1}}
CALLS: dict[type, dict[str, dict[str, Any]]] = {
    FxtWriter: {
        "provider": {"name": "second", "id": 9, "ticks_per_second": 1000},
        "thread": {"process": 1, "thread": 2, "name": "thread", "process_name": "process"},
        "put": {"record": rec.Magic()},
        "write_table": {"name": "logs", "columns": {"ticks": 1, "process": 1, "thread": 2, "message": "text"}},
    },
    Provider: {
        "thread": {"process": 1, "thread": 2, "name": "thread", "process_name": "process"},
        "kernel_object": {"object_type": 1, "koid": 2, "name": "name", "args": {"key": "value"}},
        "userspace_object": {"pointer": 1, "process": 2, "name": "name", "args": {"key": "value"}},
        "blob": {"name": "name", "data": b"bytes", "blob_type": 1},
        "context_switch": {
            "timestamp": 1, "cpu": 2, "outgoing": 3, "incoming": 4, "outgoing_state": 1, "args": {"key": "value"},
        },
        "thread_wakeup": {"timestamp": 1, "cpu": 2, "waking": 3, "args": {"key": "value"}},
        "legacy_context_switch": {
            "timestamp": 1, "cpu": 2, "outgoing": TRACK, "incoming": TRACK, "outgoing_state": 1,
            "outgoing_priority": 2, "incoming_priority": 3,
        },
        "module": {"timestamp": 1, "process": 2, "module": 3, "name": "name", "build_id": b"id"},
        "mmap": {"timestamp": 1, "process": 2, "module": 3, "start": 4, "range": 5, "vaddr": 6, "flags": 5},
        "backtrace": {"timestamp": 1, "process": 2, "thread": 3, "frames": [4, 5]},
        "buffer_filled_up": {},
        "write_events": {**MIXED},
        "write_mixed": {"groups": MIXED},
    },
    Track: {
        "instant": EVENT,
        "complete": {"name": "name", "start": 1, "end": 2, "category": "cat", "args": {"key": "value"}},
        "begin": EVENT,
        "end": EVENT,
        "counter": {"name": "name", "timestamp": 5, "values": {"key": 5}, "id": 6, "category": "cat"},
        **dict.fromkeys(
            ["async_begin", "async_instant", "async_end", "flow_begin", "flow_step", "flow_end"], WITH_ID
        ),
        "log": {"message": "text", "timestamp": 5},
        "large_blob": {"name": "name", "data": b"bytes", "timestamp": 5, "category": "cat", "args": {"key": "value"}},
    },
}  # fmt: skip

NO_VALUES = {"close", "flush", "copy"}
"""Methods without values; that a copy is refused is a test of the contract."""


def methods(cls: type) -> set[str]:
    """Return the names of the public methods of a class."""
    return {name for name, value in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("cls", CALLS, ids=lambda cls: cls.__name__)
def test_every_public_method_has_a_call(cls: type) -> None:
    assert methods(cls) - NO_VALUES == {*CALLS[cls]}
    for name, values in CALLS[cls].items():
        parameters = {*inspect.signature(getattr(cls, name)).parameters} - {"self", "columns"}
        assert parameters <= {*values, "columns"}, name


PLACES = [
    (cls, method, parameter) for cls, calls in CALLS.items() for method, values in calls.items() for parameter in values
]


def call(writer: FxtWriter, cls: type, method: str, values: dict[str, Any]) -> object:
    """Call a method of the writer, of its main provider, or of a track."""
    track = writer.thread(1, 2)
    owner = {FxtWriter: writer, Provider: writer.main, Track: track}[cls]
    values = {key: with_track(value, track) for key, value in values.items()}
    positional = [values.pop("groups")] if "groups" in values else []
    return getattr(owner, method)(*positional, **values)


def with_track(value: Any, track: Track) -> Any:
    if isinstance(value, dict):
        return {key: with_track(item, track) for key, item in value.items()}
    return track if isinstance(value, str) and value == TRACK else value


Attempt = Callable[[FxtWriter], object]


def accepted(attempts: dict[str, Attempt], good: str = "good") -> set[str]:
    """Try calls one after the other, and return the names of those that are accepted.

    Each is accepted or refused as a whole: also as the first call of a trace, where a preamble would come before it.
    """
    taken = {name for name, attempt in attempts.items() if is_accepted(FxtWriter(io.BytesIO()), name, attempt)}
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        track = writer.thread(1, 2)
        for name, attempt in attempts.items():
            track.instant(name, 1, category=good, args={"key": name})
            assert is_accepted(writer, name, attempt) == (name in taken)
        track.instant("end", 2, category=good)
    trace = fxtio.open(out.getvalue())
    events: list[Any] = [event for event in trace if isinstance(event, rec.Instant) and event.category == good]
    assert [event.name for event in events] == [*attempts, "end"]
    assert [event.args[0].value for event in events[:-1]] == [*attempts]
    assert {*trace.findings.counts} <= {"fxt.text.not-utf8"}  # surrogate escapes stand for any bytes
    return taken


def is_accepted(writer: FxtWriter, name: str, attempt: Attempt) -> bool:
    """Return whether a call is accepted; check that one that is refused writes nothing."""
    position = writer.position
    try:
        attempt(writer)
    except EncodeError:
        assert writer.position == position, name
        return False
    except Exception as error:
        error.add_note(f"with the value: {name}")
        raise
    return True


@pytest.mark.full
@pytest.mark.parametrize(("cls", "method", "parameter"), PLACES, ids=str)
def test_a_call_is_accepted_or_refused_as_a_whole(cls: type, method: str, parameter: str) -> None:
    good = dict(CALLS[cls][method])
    if method == "provider" and parameter != "id":
        del good["id"]  # two providers cannot have the same
    attempts: dict[str, Attempt] = {"good": lambda writer: call(writer, cls, method, good)}
    for label, value in absurd().items():
        attempts[label] = partial(call, cls=cls, method=method, values={**good, parameter: value})
    taken = accepted(attempts)
    assert "good" in taken < {*attempts}


COLUMNS_OF_TABLES = [
    (table, column) for table, spec in FxtWriter.writable_tables.items() for column in (*spec.required, *spec.optional)
]


ROWS: dict[str, dict[str, Any]] = {
    "events": {"type": "duration_complete", "process": 1, "thread": 2, "name": "n", "ticks": [1, 2], "duration": 5},
    "objects": {"kind": "kernel", "id": [1, 2], "name": "n", "type": "process", "process": 5},
    "logs": {"process": 1, "thread": [2, 3], "message": "n", "ticks": 5},
    "blobs": {"name": "n", "payload": [b"1", b"2"], "type": "data"},
    "scheduling": {"type": "thread_wakeup", "cpu": 1, "incoming_thread": [2, 3], "ticks": 5},
    "modules": {"process": 1, "module": [1, 2], "name": "n", "build_id": b"id", "ticks": 5},
    "mmaps": {"process": 1, "module": [1, 2], "address": 3, "size": 4, "vaddr": 5, "ticks": 5},
}


@pytest.mark.parametrize(("table", "column"), COLUMNS_OF_TABLES)
def test_a_table_is_accepted_or_refused_as_a_whole(table: str, column: str) -> None:
    good = ROWS[table]
    attempts: dict[str, Attempt] = {"good": lambda writer: writer.write_table(table, good)}
    values = absurd() | {
        "a null after a value": [1, None],
        "a null after text": ["a", None],
        "numbers over 63 bits": np.array([1, (1 << 64) - 1], np.uint64),
        "a second that is refused": [1, -1],
        "text, then a lone surrogate": ["a", LONE],
        "text, then long text": ["a", "x" * 32_001],
        "bytes, then text": [b"a", "a"],
    }
    for label, value in values.items():
        attempts[label] = partial(write_table, table=table, columns={**good, column: value})
    taken = accepted(attempts)
    assert "good" in taken < {*attempts}


def write_table(writer: FxtWriter, table: str, columns: dict[str, Any]) -> None:
    writer.write_table(table, columns)


@pytest.mark.parametrize("column", ["kind", *MIXED])
def test_columns_are_needed_or_not(column: str) -> None:
    """A group without a column is refused with its name, or has a value for all rows."""

    def attempt(writer: FxtWriter) -> None:
        group = with_track(MIXED, writer.thread(1, 2))
        del group[column]
        writer.main.write_mixed(group)

    assert bool(accepted({"group": attempt})) == (column in ("category", "args"))


values = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)),
    st.sampled_from([0, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -1, LONE, Table({})]),
)  # fmt: skip


@given(place=st.sampled_from([(cls, method) for cls, method, _ in PLACES]), data=st.data())
def test_any_values_are_accepted_or_refused_as_a_whole(place: tuple[type, str], data: st.DataObject) -> None:
    cls, method = place
    good = CALLS[cls][method]
    changed = {name: data.draw(values) for name in good if data.draw(st.booleans())}
    accepted({"changed": partial(call, cls=cls, method=method, values={**good, **changed})})
