"""Checks of single values: enumerations, sizes, objects, texts, counts of items; and of the header of a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.columns import is_utf8
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.stream.declare import SizedText, parts_of
from fxtio.finding import Findings
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.frames import Recording
from fxtio.mono.headers import StreamHeader, profiler_of
from fxtio.mono.layout import HYBRID
from fxtio.mono.rules.view import Check, EventClass, View
from fxtio.references import MOST_NUMBERS

_LARGEST_CODE = 1 << 30
"""Bytes of native code from which on the size of a method cannot be true."""

_LAST_GENERATION = 2


@dataclass(frozen=True, slots=True)
class ValueRule:
    """A rule about the values that an event of a class has in one field, or in several.

    Attributes:
        rule: the id.
        cls: the class of events.
        fields: the fields, as `View.read` has them, with a space between them; the message shows their values.  A
            version has all of them, or none.
        broken: returns which rows break the rule (bool), from the values of each field.
        since: the first data version that the rule is about.
        before: the data version from which on it is not.
    """

    rule: str
    cls: EventClass
    fields: str
    broken: Callable[..., Array]
    since: float = 1
    before: float = 99


Broken = Callable[..., Array]
"""Returns which values of the first field are not allowed; further fields are only for the message."""


def _none_of(enumeration: type[IntEnum], *left_out: int) -> Broken:
    """Return what finds values that are no members of an enumeration, or that are left out."""
    members = sorted({int(member) for member in enumeration} - {*left_out})
    return lambda values, *_: ~np.isin(values, np.array(members, values.dtype))


def _above(limit: int) -> Broken:
    return lambda values, *_: values > limit


def _is(number: int) -> Broken:
    return lambda values, *_: values == number


_MARKS = (1, 2, 3, 4)
_LOCKED = (10, 11)
_DESCRIBED = r.CounterDescriptions

VALUE_RULES = (
    ValueRule("gc.unknown-step", r.GcEvent, "event", _none_of(enums.GcEventType, *_LOCKED), before=13),
    ValueRule("gc.unknown-step", r.GcEvent, "event", _none_of(enums.GcEventType), since=13, before=14),
    ValueRule("gc.unknown-step", r.GcEvent, "event", _none_of(enums.GcEventType, *_MARKS), since=14),
    ValueRule("gc.generation", r.GcEvent, "generation", _above(_LAST_GENERATION)),
    ValueRule("gc.odd-moves", r.GcMove, "objects[#]", lambda counts: counts % 2 == 1),
    ValueRule("handle.unknown-type", r.HandleCreated, "handle_type", _none_of(enums.HandleType)),
    ValueRule("handle.unknown-type", r.HandleDestroyed, "handle_type", _none_of(enums.HandleType)),
    ValueRule("exception.null", r.Throw, "object", _is(0)),
    ValueRule("exception.unknown-clause", r.Clause, "kind", _none_of(enums.ClauseKind)),
    ValueRule(
        "exception.clause-null", r.Clause, "object kind",
        lambda objects, kinds: (objects == 0) & (kinds != enums.ClauseKind.FINALLY), since=14,
    ),
    ValueRule("image.unload", r.Image, "action", _is(enums.LoadAction.UNLOAD), since=16),
    ValueRule("monitor.unknown-event", r.Monitor, "event", _none_of(enums.MonitorEvent)),
    ValueRule("root.unknown-source", r.RootRegister, "source", _none_of(enums.RootSource)),
    ValueRule("sync.unknown-type", r.SyncPoint, "sync_type", _none_of(enums.SyncPointType)),
    ValueRule("code.unknown-type", r.JitHelper, "buffer_type", _above(len(enums.CodeBuffer)), before=14),
    ValueRule("code.unknown-type", r.JitHelper, "buffer_type", _none_of(enums.CodeBuffer), since=14),
    ValueRule("sample.unknown-type", r.SampleHit, "sample_type", _none_of(enums.SampleType), before=14),
    ValueRule("sample.no-address", r.SampleHit, "addresses[#]", _is(0)),
    ValueRule("allocation.null", r.Allocation, "object", _is(0)),
    ValueRule("allocation.size-zero", r.Allocation, "size", _is(0)),
    *(
        ValueRule("value.sign-extended", cls, field, _above(MAX_INT64))
        for field, classes in (
            ("size", (r.Allocation, r.HeapObject, r.JitMethod)), ("handle", (r.HandleCreated, r.HandleDestroyed)),
        )
        for cls in classes
    ),
    ValueRule(
        "method.code-size", r.JitMethod, "size", lambda sizes: (sizes > _LARGEST_CODE) & (sizes <= MAX_INT64)
    ),
    ValueRule("counter.index-zero", _DESCRIBED, "counters[].index", _is(0)),
    ValueRule("counter.unknown-type", _DESCRIBED, "counters[].type counters[].index", _above(max(enums.CounterType))),
    ValueRule("counter.unknown-attribute", _DESCRIBED, "counters[].section", _none_of(enums.CounterSection)),
    *(
        # The versions between have only the lowest byte, which is 0.
        ValueRule("counter.unknown-attribute", _DESCRIBED, f"counters[].{field}", _none_of(enumeration), since, before)
        for field, enumeration in (("unit", enums.CounterUnit), ("variance", enums.CounterVariance))
        for since, before in ((1, 13), (HYBRID, 99))
    ),
    ValueRule(
        "counter.performance", _DESCRIBED, "counters[].section counters[].index",
        _is(enums.CounterSection.PERFCOUNTERS),
    ),
    *(
        ValueRule(
            "coverage.too-many", cls, "methods fully_covered partially_covered",
            lambda methods, full, part: (full > methods) | (part > methods - full),
        )
        for cls in (r.CoverageAssembly, r.CoverageClass)
    ),
)  # fmt: skip
"""The rules about the values of events, each by itself."""


class SingleValues(Check):
    """Finds values that their fields cannot have."""

    classes = tuple({rule.cls for rule in VALUE_RULES})

    def _add(self, view: View) -> None:
        for rule in VALUE_RULES:
            if not (rule.since <= view.version < rule.before and view.has(rule.cls)):
                continue
            columns = [column for field in rule.fields.split() if (column := view.read(rule.cls, field))]
            if columns:
                values = [column for column, _ in columns]
                self.report(rule.rule, rule.broken(*values), columns[0][1], partial(_message, rule, values))


def _message(rule: ValueRule, columns: list[Array], row: int) -> str:
    """Return the values of a row; those that look like negative numbers as hexadecimal ones."""
    values = [f"{value:,}" if (value := int(column[row])) <= MAX_INT64 else f"{value:#x}" for column in columns]
    fields = zip(rule.fields.split(), values, strict=True)
    return f"{rule.cls.__name__}: {', '.join(f'{field} is {value}' for field, value in fields)}"


_NAMES: frozenset[tuple[EventClass, str]] = frozenset(
    {(r.JitMethod, "name"), (r.ClassLoad, "name"), (r.Assembly, "name"), (r.CounterDescriptions, "counters[].name")}
)
"""The texts that must not be empty."""


class Texts(Check):
    """Finds texts that are not UTF-8, and names that are empty."""

    classes = r.EVENTS

    def _add(self, view: View) -> None:
        columns = list(view.texts())
        if not any(len(begin) for _, _, begin, _, _ in columns):
            return
        high = np.flatnonzero(view.data[view.place] >= 0x80) + (view.place.start or 0)
        for cls, field, begin, size, offsets in columns:
            if (cls, field) in _NAMES and (empty := (begin >= 0) & (size == 0)).any():
                self.report("text.empty-name", empty, offsets, f"{cls.__name__}.{field} is empty")
            rows = np.flatnonzero(np.searchsorted(high, begin) < np.searchsorted(high, begin + size))
            texts = ((row, view.data[begin[row] : begin[row] + size[row]].tobytes()) for row in rows.tolist())
            broken = {row: text for row, text in texts if not is_utf8(text)}
            message = partial(_text_message, cls, field, broken)
            self.report("text.not-utf8", np.array([*broken], np.int64), offsets, message)


def _text_message(cls: EventClass, field: str, texts: dict[int, bytes], row: int) -> str:
    return f"{cls.__name__}.{field} is not UTF-8: {texts[row][:60]!r}"


def check_header(recording: Recording, findings: Findings) -> None:
    """Add findings for the faults in the header of a recording."""
    header, offset = recording.header, recording.offset
    if header.major != profiler_of(header.data_version)[0]:
        message = (
            f"version {header.major}.{header.minor} of the profiler does not write data version {header.data_version}"
        )
        findings.add("header.version-pair", offset, message)
    for name, parts in parts_of(StreamHeader).items():
        text = getattr(header, name) if isinstance(parts[0], SizedText) else None
        if not is_utf8(raw := (text or "").encode("utf-8", "surrogateescape")):
            findings.add("text.not-utf8", offset, f"the text {name} of the header is not UTF-8: {raw[:60]!r}")


def _columns(view: View, cls: EventClass, field: str) -> tuple[Array, Array, Array]:
    """Return the indices, the types and the byte offsets of the counters in a list; empty columns without events."""
    indices, types = (view.read(cls, f"{field}[].{name}") for name in ("index", "type"))
    if indices is not None and types is not None:
        return indices[0], types[0], indices[1]
    return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)


class Counters(Check):
    """Finds counters that are described again, and values that are texts, or of another type than is described."""

    classes = (r.CounterDescriptions, r.CounterValues)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._types: dict[int, int] = {}  # by index

    def _add(self, view: View) -> None:
        indices, types, offsets = _columns(view, r.CounterDescriptions, "counters")
        used, used_types, places = _columns(view, r.CounterValues, "values")
        bounds = np.searchsorted(offsets, places).tolist()  # the descriptions in front of each value
        described = list(zip(indices.tolist(), types.tolist(), strict=True))
        repeated, expected, first = [], [], 0
        for index, bound in zip([*used.tolist(), 0], [*bounds, len(described)], strict=True):
            for row in range(first, bound):
                if described[row][0] in self._types:
                    repeated.append(row)
                if len(self._types) < MOST_NUMBERS:
                    self._types[described[row][0]] = described[row][1]
            first = bound
            expected.append(self._types.get(index))
        self.report(
            "counter.index-twice", np.array(repeated, np.int64), offsets,
            lambda row: f"the index {int(indices[row])} has a counter already",
        )  # fmt: skip
        broken = [kind not in (None, actual) for kind, actual in zip(expected, used_types.tolist(), strict=False)]
        self.report(
            "counter.other-type", np.array(broken, bool), places,
            lambda row: f"counter {int(used[row])}: a value of type {int(used_types[row])}, not {expected[row]}",
        )  # fmt: skip
        if (texts := view.read(r.CounterValues, "values[].value", "text")) is not None:
            self.report("counter.text", texts[0] >= 0, texts[1])


class Coverage(Check):
    """Finds methods that have another number of covered statements than they say."""

    classes = (r.CoverageMethod, r.CoverageStatement)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._declared: dict[int, tuple[int, int]] = {}  # by method: where, and how many statements it has
        self._statements: dict[int, int] = {}

    def _add(self, view: View) -> None:
        if view.has(r.CoverageMethod):
            columns = (
                view.values(r.CoverageMethod, "method_id"), view.offsets(r.CoverageMethod),
                view.values(r.CoverageMethod, "statements"),
            )  # fmt: skip
            for number, offset, count in zip(*(column.tolist() for column in columns), strict=True):
                if len(self._declared) < MOST_NUMBERS:
                    self._declared[number] = offset, count
        if view.has(r.CoverageStatement):
            numbers, counts = np.unique(view.values(r.CoverageStatement, "method_id"), return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                if number in self._declared or len(self._statements) < MOST_NUMBERS:
                    self._statements[number] = self._statements.get(number, 0) + count

    def finish(self) -> None:
        """Compare the statements of each method with the number that it says."""
        for number, (offset, count) in self._declared.items():
            actual = self._statements.get(number, 0)
            if actual != count:
                message = f"the covered method {number} has {actual:,} statements, not {count:,}"
                self.findings.add("coverage.statement-count", offset, message)
