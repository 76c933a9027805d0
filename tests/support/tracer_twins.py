"""Programs for the recorder in C and its twin in Python, and what their traces say, in a form that can be compared."""

from __future__ import annotations

import importlib
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

import fxtio
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.file import RecordingFile
from fxtio.tracer.layout import KINDS
from fxtio.tracer.values import describe

in_c: Any = pytest.importorskip("fxtio._native._recorder", reason="the recorder in C is not built")
in_python: Any = importlib.import_module("fxtio.tracer.recorder")

MAXIMUM = sys.maxunicode
Program = Callable[[Any], object]


@contextmanager
def recording(recorder: Any, path: Path, **options: Any) -> Iterator[Any]:
    """Record to this file; what comes out has the counts, in the end."""
    base, _ = recorder.clocks(False)
    clock = RecordingClock(False, base, base, 0, 1_000_000_000)
    file = RecordingFile(path, (1, "twin"), clock)
    done = SimpleNamespace(file=file)
    how: dict[str, Any] = {"limit": 0, "ring": 0, "only": None, "without": None, "value_hook": describe}
    how |= {"thread_hook": None, "task_hook": None, "wait_hook": None, "step": 1, "slow": 0, "slow_hook": None}
    recorder.start(
        **{**how, **options}, fd=file.fd, definitions=file.definitions, end=file.end, tsc=False, base=clock.base
    )
    try:
        yield done
    finally:
        done.counts = recorder.stop()
        os.close(file.fd)


def comparable(value: Any) -> Any:
    """A value as what can be compared: NaN equals itself."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def said(record: Any, threads: dict[Any, int]) -> tuple[Any, ...]:
    """What a record of a thread says, without its time; threads by the order in which they come."""
    fields = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name == "timestamp":
            continue
        if name == "thread":
            value = threads.setdefault(value, len(threads))
        elif name == "args":
            value = tuple([(type(one).__name__, *map(comparable, msgspec.structs.astuple(one))) for one in value])
        fields.append(value)
    return (type(record).__name__, *fields)


def read(path: Path) -> dict[int, list[tuple[Any, ...]]]:
    """The events of a trace by thread and time, which never stands still; the file must be without a fault."""
    threads: dict[Any, int] = {}
    found: dict[int, dict[int, tuple[Any, ...]]] = {}
    with fxtio.open(path) as reader:
        for record in reader:
            if hasattr(record, "timestamp"):
                one = said(record, threads)
                events = found.setdefault(threads[record.thread], {})
                assert record.timestamp not in events
                events[record.timestamp] = one
        assert not reader.findings
    return {thread: [events[time] for time in sorted(events)] for thread, events in found.items()}


def both(tmp_path: Path, program: Program, **options: Any) -> dict[int, list[tuple[Any, ...]]]:
    """What the program's trace says, which is the same with both recorders."""
    traces, counts = [], []
    for recorder in (in_c, in_python):
        path = tmp_path / f"{recorder.TSC}.fxt"
        with recording(recorder, path, **options) as done:
            program(recorder)
        traces.append(read(path))
        counts.append({name: done.counts[name] for name in ("lost", "inlined")})
    assert traces[0] == traces[1]
    assert counts[0] == counts[1]
    return traces[1]


def only_thread(trace: dict[int, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    (events,) = trace.values()
    return events


# ---- Arbitrary programs.

EDGES = [edge + step for bits in (31, 32, 63, 64) for edge in (1 << bits, -(1 << bits)) for step in (-1, 0, 1)]
texts = st.one_of(
    st.sampled_from(
        ["", "a", "name", "ü" * 200, "x" * 249, "ä" * 125, "ä" * 126, "x" * 33_000, "\udcff", "a\udc80" * 99]
    ),
    st.text(st.characters(max_codepoint=MAXIMUM, categories=None), max_size=12),
)


class Odd(str):
    """A string that is not what it seems."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")

    def encode(self, *_: object) -> bytes:
        raise ValueError("no")


class Number(int):
    def __index__(self) -> int:
        raise ValueError("no")

    def __lt__(self, other: object) -> bool:
        raise ValueError("no")

    __le__ = __gt__ = __ge__ = __lt__


class Pretender:
    """Says that it is an integer."""

    __class__: Any = property(lambda self: int)

    def __repr__(self) -> str:
        return "pretender"


class Silent:
    def __repr__(self) -> str:
        raise ValueError("no")


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([*EDGES, 10**300, -(10**400), 10**400]),
    st.floats(),
    texts,
    st.sampled_from(["x" * 1000, "x" * 999 + "ä", "\U0001f600" * 300, "x" * 5000, Odd("odd"), Number(7)]),
    st.builds(Pretender) | st.builds(Silent) | st.binary(max_size=300) | st.just([1, [2]]) | st.just(1j),
)
names = st.sampled_from(["work", "other", "", "ü"]) | texts
categories = st.sampled_from(["", "app"]) | texts
arguments = st.dictionaries(texts, values, max_size=4) | st.integers(16, 20).flatmap(
    lambda count: st.fixed_dictionaries({f"key{number}": values for number in range(count)})
)
steps: Any = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("span"), names, categories, arguments, arguments | st.none(), st.booleans(), programs),
        st.tuples(st.just("instant"), names, categories, arguments),
        st.tuples(st.just("counter"), names, categories, st.dictionaries(texts, values, min_size=1, max_size=3)),
        st.tuples(st.just("value"), names, categories, values.filter(lambda value: value is not None)),
        st.tuples(st.just("record"), st.sampled_from(sorted(KINDS.values())), names, arguments, st.integers(-1, 2**65)),
        st.tuples(st.just("call"), names, arguments, texts, values),
        st.tuples(st.just("log"), texts),
    )
)
programs: Any = st.lists(steps, max_size=5)


NO_ID = {KINDS[name] for name in ("instant", "begin", "end")}


def run(recorder: Any, program: list[Any]) -> None:
    for kind, *step in program:
        if kind == "span":
            name, category, args, late, fails, inside = step
            try:
                with recorder.span(name, category, **args) as span:
                    run(recorder, inside)
                    if late is not None:
                        span.set(**late)
                    if fails:
                        raise KeyError
            except KeyError:
                pass
        elif kind == "instant":
            recorder.instant(*step[:2], **step[2])
        elif kind == "counter":
            recorder.counter(step[0], None, step[1], **step[2])
        elif kind == "value":
            recorder.counter(step[0], step[2], step[1])
        elif kind == "record":
            site = recorder.Site("cat", step[1], tuple(step[2]))
            has_id = step[0] not in NO_ID
            assert recorder.record(step[0], site, tuple(step[2].values()), step[3] if has_id else None)
        elif kind == "call":
            site = recorder.Site("", step[0], tuple(step[1]))
            assert recorder.begin(site, *step[1].values())
            assert recorder.end(site, *step[2:])
            assert recorder.begin(site)
            assert recorder.end(site)
        else:
            assert recorder.message(step[0])
