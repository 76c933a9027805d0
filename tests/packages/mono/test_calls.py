"""Named calls of the writer: each writes all of its events or nothing, whatever the values are."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from fxtio.errors import EncodeError
from fxtio.mono import records as r
from fxtio.mono.enums import CounterType
from fxtio.mono.layout import Root
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from fxtio.table import MAX_TIME

CALLS: dict[str, dict[str, Any]] = {
    "method": {"name": "P:M ()", "address": 64, "code": 8, "size": 9},
    "image": {"name": "/a.exe", "address": 64, "mvid": "m"},
    "assembly": {"name": "a", "image": 64, "address": 128},
    "class_": {"name": "Node", "image": 64, "domain": 1, "address": 128},
    "domain": {"name": "main", "id": 1},
    "thread": {"id": 7, "name": "Main"},
    "thread_end": {"id": 7},
    "enter": {"method": 64},
    "leave": {"method": 64},
    "allocation": {"type": 64, "object": 64, "size": 24, "backtrace": [64]},
    "gc_event": {"event": 0, "generation": 1},
    "heap_object": {"object": 64, "type": 64, "size": 24, "references": [(8, 64)] * 200, "generation": 1},
    "sample": {"address": 64, "frames": [64], "interrupted": 7},
    "counter": {"name": "n", "index": 5, "type": 3, "unit": 0, "variance": 0, "section": 0x8000, "category": "c"},
    "counters": {"values": {1: 5, 2: 7, 3: 1.5, 4: "text"}},
    "event": {"cls": r.GcResize, "size": 4096},
    "event with a backtrace": {"cls": r.HandleCreated, "handle_type": 2, "handle": 1, "object": 64, "backtrace": [64]},
    "event with a list": {"cls": r.HeapRoots, "roots": [Root(address=64, object=72)]},
    "event of old versions": {
        "cls": r.CoverageClass, "assembly": "a", "name": "P", "methods": 2, "fully_covered": 1, "partially_covered": 0,
    },
}  # fmt: skip
"""A call of each named method, which begins the key, that is accepted by a data version that has it."""

OTHER_METHODS = {"put", "copy", "write_table", "write_tables", "flush", "close"}

WRONG: list[Any] = [
    None, -1, 1 << 63, 1 << 64, 1 << 80, -(1 << 70), 0.5, float("nan"), float("inf"), Fraction(1, 2), "text", "\ud800",
    "a\0b", b"bytes", [], [1], [(1, 2, 3, 4, 5)], [("x", "y")], [(1, None)], [None], {}, {9: 1}, {1: "text"},
    {1: 1 << 63}, {2: -1}, {2: 1 << 32}, {3: "text"}, {4: 1}, {1: True}, object(), MAX_TIME,
]  # fmt: skip


def begun(version: int) -> tuple[io.BytesIO, MonoWriter]:
    """Return a writer that has written something, and its output."""
    out = io.BytesIO()
    writer = MonoWriter(out, data_version=version)
    if version >= 5:
        for index, kind in ((1, 3), (2, 1), (3, 5), (4, 6)):
            writer.counter("n", index, type=CounterType(kind), time=0)
    writer.event(r.GcResize, size=8, time=1)
    return out, writer


def version_of(name: str) -> int:
    return 14 if name.endswith("old versions") else 17


def method_of(name: str) -> str:
    return name.partition(" ")[0]


def test_every_named_method_has_a_call() -> None:
    methods = {name for name, _ in inspect.getmembers(MonoWriter, inspect.isfunction) if not name.startswith("_")}
    assert methods == {*map(method_of, CALLS)} | OTHER_METHODS
    for name, values in CALLS.items():
        if method_of(name) == "event":
            continue
        parameters = inspect.signature(getattr(MonoWriter, name)).parameters.keys() - {"self", "time", "thread"}
        assert parameters - {"thrown"} == values.keys(), name


def written_by(name: str, values: dict[str, Any], version: int) -> tuple[bool, bytes, int]:
    """Return whether a call is accepted, the file after it, and the number of events before it."""
    out, writer = begun(version)
    before, accepted = writer.position, True
    try:
        getattr(writer, method_of(name))(**values)
    except EncodeError:
        accepted = False
        assert writer.position == before
    writer.close()
    return accepted, out.getvalue(), 5


@pytest.fixture(autouse=True)
def _same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all recordings begin at the same moment."""
    monkeypatch.setattr("fxtio.mono.writer.time.time_ns", lambda: 10**18)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_writes_all_of_its_events_or_nothing(name: str) -> None:
    version = version_of(name)
    out, writer = begun(version)
    writer.close()
    nothing = out.getvalue()
    good = {**CALLS[name], "time": 10}
    if "thread" in inspect.signature(getattr(MonoWriter, method_of(name))).parameters:
        good["thread"] = 3
    accepted, data, events = written_by(name, good, version)
    assert accepted
    expected = len(list(MonoTrace(data, strict=True))) - events
    assert expected >= 1
    for argument in good:
        for wrong in WRONG:
            accepted, data, events = written_by(name, good | {argument: wrong}, version)
            if accepted:
                assert len(list(MonoTrace(data, strict=True))) > events, (argument, wrong)
            else:
                assert data == nothing, (argument, wrong)


@pytest.mark.full
@pytest.mark.parametrize("version", range(1, 18))
def test_calls_of_every_version_are_read_again_or_refused(version: int) -> None:
    accepted_calls = 0
    for name, values in CALLS.items():
        accepted, data, _ = written_by(name, {**values, "time": 10}, version) if version >= 5 else (False, b"", 0)
        if accepted:
            accepted_calls += 1
            trace = MonoTrace(data, strict=True)
            trace.tables(*trace.table_names)
    assert 2 * accepted_calls > len(CALLS) or version < 5


REFUSED: list[Callable[[MonoWriter], object]] = [
    lambda writer: writer.class_("Node", time=1, domain=-1),
    lambda writer: writer.domain("\ud800", time=1),
    lambda writer: writer.thread(7, "a\0b", time=1),
    lambda writer: writer.thread(7, None, time=1),  # type: ignore[arg-type]
    lambda writer: writer.heap_object(64, 64, 24, [(8, 64)] * 128 + [(8, -1)], time=1),
    lambda writer: writer.counter("n", 9, time=1, type=99),  # type: ignore[arg-type]
    lambda writer: writer.counter("n", 0, time=1),
    lambda writer: writer.enter(64, time=1 << 63),
    lambda writer: writer.enter(64, time=1, thread=[]),  # type: ignore[arg-type]
    lambda writer: writer.write_tables(None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused_leaves_no_trace(number: int) -> None:
    out, writer = begun(17)
    writer.close()
    nothing = out.getvalue()
    out, writer = begun(17)
    with pytest.raises(EncodeError):
        REFUSED[number](writer)
    with pytest.raises(EncodeError):
        writer.counters({9: 1}, time=2)  # no counter was introduced
    writer.close()
    assert out.getvalue() == nothing


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(0, -(2**31), 2**31 - 1), (1, 0, 2**32 - 1), (3, -(2**63), 2**63 - 1), (4, 0, 2**64 - 1)],
)
def test_counters_of_all_widths_are_read_as_they_were_written(kind: int, least: int, most: int) -> None:
    out = io.BytesIO()
    values = [least, most, least, 0, most, 1]
    with MonoWriter(out) as writer:
        writer.counter("n", 1, type=kind, time=0)  # type: ignore[arg-type]
        for time, value in enumerate(values):
            writer.counters({1: value}, time=time)
        for wrong in (least - 1, most + 1):
            with pytest.raises(EncodeError):
                writer.counters({1: wrong}, time=9)
    series = MonoTrace(out.getvalue(), strict=True).table("counter_series")
    assert series["integer"].tolist() == [value if value < 2**63 else None for value in values]
    assert series["number"].tolist() == [float(value) for value in values]
