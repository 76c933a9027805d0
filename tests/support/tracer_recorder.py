"""The recorder called without the rest of the tracer: programs for it, and the events that they have to leave.

`expected` is a model of the recorder in plain Python: what a program records follows from the documentation alone.
"""

from __future__ import annotations

import operator
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import strategies as st

import fxtio
from fxtio.tracer.backend import KINDS, recorder
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.file import RecordingFile
from fxtio.tracer.interrupts import describe, interrupts

Event = tuple[Any, ...]


@contextmanager
def recording(path: Path, **options: Any) -> Iterator[Any]:
    """Record to a file.

    Yields:
        An object with the `file`, and at the end the recorder's `counts`.
    """
    base, _ = recorder.clocks(False)
    clock = RecordingClock(False, base, base, 0, 1_000_000_000, 0)
    file = RecordingFile(path, (1, "test"), clock)
    result = SimpleNamespace(file=file)
    settings: dict[str, Any] = {"limit": 0, "ring": 0, "only": None, "without": None, "value_hook": describe}
    settings |= {"thread_hook": None, "task_hook": None, "step": 1, "slow": 0, "blocking": 0, "slow_hook": None}
    settings |= {"interrupt_hook": interrupts}
    recorder.start(
        **{**settings, **options},
        owner=file,
        fd=file.fd,
        definitions=file.definitions,
        end=file.end,
        has_counter=False,
        base=clock.base,
    )
    try:
        yield result
    finally:
        result.counts = recorder.stop()
        os.close(file.fd)


def _comparable(value: Any) -> Any:
    """Return a float as its bytes, so that NaN equals itself."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def event_of(record: Any, threads: dict[Any, int]) -> Event:
    """Return the class and the fields of a record without its time; threads are numbered as they first appear."""
    fields = []
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name == "timestamp":
            continue
        if name == "thread":
            value = threads.setdefault(value, len(threads))
        elif name == "args":
            value = tuple([(type(arg).__name__, *map(_comparable, msgspec.structs.astuple(arg))) for arg in value])
        fields.append(value)
    return (type(record).__name__, *fields)


def read_events(path: Path) -> dict[int, list[Event]]:
    """Return the events of a trace by thread, in the order of time; times must differ, and there must be no finding."""
    threads: dict[Any, int] = {}
    by_thread: dict[int, dict[int, Event]] = {}
    with fxtio.open(path) as reader:
        for record in reader:
            if hasattr(record, "timestamp"):
                event = event_of(record, threads)
                events = by_thread.setdefault(threads[record.thread], {})
                assert record.timestamp not in events
                events[record.timestamp] = event
        assert not reader.findings
    return {thread: [events[time] for time in sorted(events)] for thread, events in by_thread.items()}


def only_thread(trace: dict[int, list[Event]]) -> list[Event]:
    """Return the events of a trace in which one thread at most has recorded."""
    assert len(trace) <= 1
    return next(iter(trace.values()), [])


# ---- Arbitrary programs.

EDGES = [edge + step for bits in (31, 32, 63, 64) for edge in (1 << bits, -(1 << bits)) for step in (-1, 0, 1)]
texts = st.one_of(
    st.sampled_from(
        ["", "a", "name", "ü" * 200, "x" * 249, "ä" * 125, "ä" * 126, "x" * 33_000, "\udcff", "a\udc80" * 99]
    ),
    st.text(st.characters(max_codepoint=sys.maxunicode, categories=None), max_size=12),
)


class HostileText(str):
    """A string whose methods fail."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")

    def encode(self, *_: object) -> bytes:
        raise ValueError("no")


class HostileNumber(int):
    """An integer that cannot be converted or compared."""

    def __index__(self) -> int:
        raise ValueError("no")

    def __lt__(self, other: object) -> bool:
        raise ValueError("no")

    __le__ = __gt__ = __ge__ = __lt__


class Pretender:
    """An object that claims to be an integer."""

    __class__: Any = property(lambda self: int)

    def __repr__(self) -> str:
        return "pretender"


class Unprintable:
    """An object without a text."""

    def __repr__(self) -> str:
        raise ValueError("no")


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([*EDGES, 10**300, -(10**400), 10**400]),
    st.floats(),
    texts,
    st.sampled_from(
        ["x" * 1000, "x" * 999 + "ä", "\U0001f600" * 300, "x" * 5000, HostileText("text"), HostileNumber(7)]
    ),
    st.builds(Pretender) | st.builds(Unprintable) | st.binary(max_size=300) | st.just([1, [2]]) | st.just(1j),
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
"""Lists of steps: the kind of a step, then its operands."""

WITHOUT_ID = {KINDS[name] for name in ("instant", "begin", "end")}


def run(program: list[Any]) -> None:
    """Carry out the steps of a program."""
    for kind, *step in program:
        if kind == "span":
            name, category, args, late, fails, inside = step
            try:
                with recorder.span(name, category, **args) as span:
                    run(inside)
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
            assert recorder.record(step[0], site, tuple(step[2].values()), None if step[0] in WITHOUT_ID else step[3])
        elif kind == "call":
            site = recorder.Site("", step[0], tuple(step[1]))
            assert recorder.begin(site, *step[1].values())
            assert recorder.end(site, *step[2:])
            assert recorder.begin(site)
            assert recorder.end(site)
        else:
            assert recorder.message(step[0])


# ---- The model.

MAX_ARGUMENTS, MAX_EVENT_WORDS = 15, 510
MAX_TEXT, MAX_MESSAGE, MAX_INLINE_NAME, MAX_DEFINED = 1000, 4000, 250, 32_000
CLASSES = {
    "instant": "Instant",
    "counter": "Counter",
    "begin": "DurationBegin",
    "end": "DurationEnd",
    "async_begin": "AsyncBegin",
    "async_instant": "AsyncInstant",
    "async_end": "AsyncEnd",
    "flow_begin": "FlowBegin",
    "flow_step": "FlowStep",
    "flow_end": "FlowEnd",
}


def expected(program: list[Any], counts: Counter[str] | None = None) -> list[Event]:
    """Return the events that a program of one thread has to leave, in the order of time.

    Args:
        program: the steps.
        counts: grows by the recorder's counts `cut`, `dropped` and `inlined`.
    """
    events = []
    counts = Counter() if counts is None else counts

    def add(kind: str, category: str, name: str, args: dict[str, Any], id: int | None = None) -> None:
        events.append(_event(counts, kind, category, name, args, id))

    for kind, *step in program:
        if kind == "span":
            name, category, args, late, fails, inside = step
            add("begin", category, name, args)
            events += expected(inside, counts)
            add("end", category, name, {**(late or {}), **({"exception": "KeyError"} if fails else {})})
        elif kind == "instant":
            add("instant", step[1], step[0], step[2])
        elif kind == "counter":
            add("counter", step[1], step[0], {key: _number(value) for key, value in step[2].items()}, 0)
        elif kind == "value":
            add("counter", step[1], step[0], {"value": _number(step[2])}, 0)
        elif kind == "record":
            name = next(name for name, number in KINDS.items() if number == step[0])
            add(name, "cat", step[1], step[2], None if step[0] in WITHOUT_ID else step[3])
        elif kind == "call":
            name, args, key, value = step
            add("begin", "", name, args)
            add("end", "", name, {key: value})
            add("begin", "", name, {})
            add("end", "", name, {})
        else:
            events.append(("Log", 0, _cut(step[0], MAX_MESSAGE)))
            counts["cut"] += _is_cut(step[0], MAX_MESSAGE)
    return events


def _event(
    counts: Counter[str], kind: str, category: str, name: str, args: dict[str, Any], id: int | None = None
) -> Event:
    """Return an event, and count what it lacks; arguments that do not fit are left out."""
    capacity = MAX_EVENT_WORDS - 2 - (id is not None) - _inline_words(category) - _inline_words(name)
    arguments = []
    for key, value in list(args.items())[:MAX_ARGUMENTS]:
        type_name, result, words = _argument(value)
        words += 1 + _inline_words(key)
        if words <= capacity:
            capacity -= words
            arguments.append((type_name, _name(key), *result))
            counts["cut"] += type_name == "StringArgument" and _is_cut(_text(value), MAX_TEXT)
            counts.update(inlined=_is_inline(key), cut=_is_inline(key))
    counts["dropped"] += len(args) - len(arguments)
    for text in (category, name):
        counts.update(inlined=_is_inline(text), cut=_is_inline(text))
    fields = (0, _name(category), _name(name), tuple(arguments))
    if id is None:
        return (CLASSES[kind], *fields, None) if kind == "instant" else (CLASSES[kind], *fields)
    return (CLASSES[kind], *fields, id % 2**64)


def _argument(value: Any) -> tuple[str, tuple[Any, ...], int]:
    """Return the class of an argument, its value, and the number of words after its header and name."""
    if value is None:
        return "NullArgument", (), 0
    if value is True or value is False:
        return "BoolArgument", (value,), 0
    if issubclass(type(value), int):
        number = int.__int__(value)
        if -(2**31) <= number < 2**31:
            return "Int32Argument", (number,), 0
        if -(2**63) <= number < 2**64:
            return ("Int64Argument" if number < 2**63 else "Uint64Argument"), (number,), 1
        try:
            value = float(number)
        except OverflowError:
            value = float("inf") if number > 0 else float("-inf")
    if issubclass(type(value), float):
        return "DoubleArgument", (_comparable(value),), 1
    text = _cut(_text(value), MAX_TEXT)
    return "StringArgument", (text,), _words(text)


def _text(value: Any) -> str:
    """Return the text of a value that is recorded as one."""
    return str.__str__(value) if issubclass(type(value), str) else describe(value)


def _number(value: Any) -> Any:
    """Return the value of a counter as an integer or a float, if it can be one."""
    if type(value) in (int, float):
        return value
    try:
        return int(operator.index(value))
    except (TypeError, ValueError):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return value


def _bytes(text: str) -> bytes:
    return str.encode(text, "utf-8", "backslashreplace")


def _cut(text: str, limit: int) -> str:
    """Return a text of at most this many bytes of UTF-8, cut where a character begins."""
    return _bytes(text)[:limit].decode(errors="ignore")


def _is_cut(text: str, limit: int) -> bool:
    return len(_bytes(text)) > limit


def _words(text: str) -> int:
    return -(-len(_bytes(text)) // 8)


def _is_inline(text: str) -> bool:
    """Return whether a name is too long for the table: it is in its events, and is cut."""
    return _is_cut(text, MAX_DEFINED)


def _name(text: str) -> str:
    """Return a name as it is recorded."""
    return _cut(text, MAX_INLINE_NAME if _is_inline(text) else MAX_DEFINED)


def _inline_words(text: str) -> int:
    """Return the words that a name takes in its event: none if it is in the table."""
    return _words(_name(text)) if _is_inline(text) else 0
