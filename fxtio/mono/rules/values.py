"""Checks of single values: enumerations, sizes, objects, texts, counts of items; and of the header of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.stream.declare import Byte, Item, SizedText, parts_of
from fxtio.finding import Findings
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.frames import Recording
from fxtio.mono.headers import StreamHeader, profiler_of
from fxtio.mono.layout import CounterDescription, CounterValue
from fxtio.mono.rules.view import MOST_NUMBERS, Check, EventClass, View

_LARGEST_CODE = 1 << 30
"""Bytes of native code from which on the size of a method cannot be true."""

_LAST_GENERATION = 2


@dataclass(frozen=True, slots=True)
class ValueRule:
    """A rule about the values of one field of events.

    Attributes:
        rule: the id.
        cls: the class of events.
        field: the field.
        allowed: the values that it may have, as a range or a set.
        since: the first data version that the rule is about.
        before: the data version from which on it is not.
    """

    rule: str
    cls: EventClass
    field: str
    allowed: range | frozenset[int]
    since: float = 1
    before: float = 99

    def broken(self, values: Array) -> Array:
        """Return which values are not allowed (bool)."""
        if isinstance(self.allowed, range):
            return (values < self.allowed.start) | (values >= self.allowed.stop)
        return ~np.isin(values, np.array(sorted(self.allowed), values.dtype))


def _members(enumeration: type[IntEnum], *left_out: int) -> frozenset[int]:
    return frozenset(int(member) for member in enumeration) - frozenset(left_out)


_MARKS = (1, 2, 3, 4)
_LOCKED = (10, 11)

VALUE_RULES = (
    ValueRule("gc.unknown-step", r.GcEvent, "event", _members(enums.GcEventType, *_LOCKED), before=13),
    ValueRule("gc.unknown-step", r.GcEvent, "event", _members(enums.GcEventType), since=13, before=14),
    ValueRule("gc.unknown-step", r.GcEvent, "event", _members(enums.GcEventType, *_MARKS), since=14),
    ValueRule("gc.generation", r.GcEvent, "generation", range(_LAST_GENERATION + 1)),
    ValueRule("handle.unknown-type", r.HandleCreated, "handle_type", _members(enums.HandleType)),
    ValueRule("handle.unknown-type", r.HandleDestroyed, "handle_type", _members(enums.HandleType)),
    ValueRule("exception.unknown-clause", r.Clause, "kind", _members(enums.ClauseKind)),
    ValueRule("monitor.unknown-event", r.Monitor, "event", _members(enums.MonitorEvent)),
    ValueRule("root.unknown-source", r.RootRegister, "source", _members(enums.RootSource)),
    ValueRule("sync.unknown-type", r.SyncPoint, "sync_type", _members(enums.SyncPointType)),
    ValueRule("code.unknown-type", r.JitHelper, "buffer_type", range(len(enums.CodeBuffer) + 1), before=14),
    ValueRule("code.unknown-type", r.JitHelper, "buffer_type", _members(enums.CodeBuffer), since=14),
    ValueRule("sample.unknown-type", r.SampleHit, "sample_type", _members(enums.SampleType), before=14),
    ValueRule("allocation.null", r.Allocation, "object", range(1, 1 << 64)),
    ValueRule("allocation.size-zero", r.Allocation, "size", range(1, 1 << 64)),
    ValueRule("exception.null", r.Throw, "object", range(1, 1 << 64)),
)
"""The rules about the values of single fields."""


class SingleValues(Check):
    """Finds values that their field cannot have."""

    classes = tuple({rule.cls for rule in VALUE_RULES})

    def _add(self, view: View) -> None:
        for rule in VALUE_RULES:
            if not (rule.since <= view.version < rule.before and view.has(rule.cls)):
                continue
            values = view.column(rule.cls, rule.field)
            if values is not None and (broken := rule.broken(values)).any():
                self._report(rule, values, broken, view)

    def _report(self, rule: ValueRule, values: Array, broken: Array, view: View) -> None:
        def message(row: int) -> str:
            return f"{rule.cls.__name__}.{rule.field} is {int(values[row]):,}"

        self.report(rule.rule, broken, view.offsets(rule.cls), message)


class Sizes(Check):
    """Finds sizes and handles that were extended from 32 bits with their sign, and sizes of code that cannot be."""

    classes = (r.Allocation, r.HeapObject, r.JitMethod, r.HandleCreated, r.HandleDestroyed)
    _FIELDS: ClassVar[dict[EventClass, str]] = {
        r.Allocation: "size",
        r.HeapObject: "size",
        r.JitMethod: "size",
        r.HandleCreated: "handle",
        r.HandleDestroyed: "handle",
    }

    def _add(self, view: View) -> None:
        for cls, field in self._FIELDS.items():
            if not view.has(cls):
                continue
            values = view.values(cls, field)
            self._report("value.sign-extended", cls, field, values > MAX_INT64, view)
            if cls is r.JitMethod:
                self._report("method.code-size", cls, field, (values > _LARGEST_CODE) & (values <= MAX_INT64), view)

    def _report(self, rule: str, cls: EventClass, field: str, broken: Array, view: View) -> None:
        if broken.any():
            values = view.values(cls, field)
            self.report(rule, broken, view.offsets(cls), lambda row: f"{cls.__name__}.{field} is {int(values[row]):#x}")


class ClauseObjects(Check):
    """Finds clauses that handle no exception."""

    classes = (r.Clause,)

    def _add(self, view: View) -> None:
        objects, kinds = view.column(r.Clause, "object"), view.values(r.Clause, "kind")
        if objects is None:
            return
        broken = (objects == 0) & (kinds != enums.ClauseKind.FINALLY)
        names = {member.value: member.name.lower() for member in enums.ClauseKind}
        self.report(
            "exception.clause-null", broken, view.offsets(r.Clause),
            lambda row: f"a {names.get(int(kinds[row]), 'unknown')} clause runs for the exception 0",
        )  # fmt: skip


class ItemCounts(Check):
    """Finds lists whose number of items is wrong."""

    classes = (r.GcMove, r.SampleHit)

    def _add(self, view: View) -> None:
        if view.has(r.GcMove):
            counts = view.item_counts(r.GcMove, "objects")
            assert counts is not None
            self.report(
                "gc.odd-moves", counts % 2 == 1, view.offsets(r.GcMove),
                lambda row: f"{int(counts[row]):,} addresses are no pairs of an old and a new one",
            )  # fmt: skip
        if view.has(r.SampleHit):
            addresses = view.item_counts(r.SampleHit, "addresses")
            assert addresses is not None
            self.report("sample.no-address", addresses == 0, view.offsets(r.SampleHit))


_NAMES: frozenset[tuple[type[Item], str]] = frozenset(
    {(r.JitMethod, "name"), (r.ClassLoad, "name"), (r.Assembly, "name"), (CounterDescription, "name")}
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
                self.report("text.empty-name", empty, offsets, f"the name of the {cls.__name__} is empty")
            rows = np.flatnonzero(np.searchsorted(high, begin) < np.searchsorted(high, begin + size))
            broken = np.array([row for row in rows.tolist() if _is_broken(view.data, begin[row], size[row])], np.int64)
            if len(broken):
                self.report("text.not-utf8", broken, offsets, _text_message(cls, field, view.data, begin, size))


def _is_broken(data: Array, begin: int, size: int) -> bool:
    try:
        data[begin : begin + size].tobytes().decode()
    except UnicodeDecodeError:
        return True
    return False


def _text_message(cls: type[Item], field: str, data: Array, begin: Array, size: Array) -> Callable[[int], str]:
    def message(row: int) -> str:
        shown = data[begin[row] : begin[row] + min(int(size[row]), 60)].tobytes()
        return f"{cls.__name__}.{field} is not UTF-8: {shown!r}"

    return message


class ImageUnloads(Check):
    """Finds unloaded images from data version 16 on, which `mprof-report` cannot read."""

    classes = (r.Image,)
    _FIRST_VERSION = 16

    def _add(self, view: View) -> None:
        if view.version < self._FIRST_VERSION:
            return
        unloads = view.values(r.Image, "action") == enums.LoadAction.UNLOAD
        self.report("image.unload", unloads, view.offsets(r.Image), "an image is unloaded")


def check_header(recording: Recording, findings: Findings) -> None:
    """Add findings for the faults in the header of a recording."""
    header, offset = recording.header, recording.offset
    if header.major != profiler_of(header.data_version)[0]:
        message = (
            f"version {header.major}.{header.minor} of the profiler does not write data version {header.data_version}"
        )
        findings.add("header.version-pair", offset, message)
    for name, text in _header_texts(header):
        raw = text.encode("utf-8", "surrogateescape")
        if any("\udc80" <= character <= "\udcff" for character in text):
            findings.add("text.not-utf8", offset, f"the text {name} of the header is not UTF-8: {raw[:60]!r}")


def _header_texts(header: StreamHeader) -> Iterator[tuple[str, str]]:
    for name, parts in parts_of(StreamHeader).items():
        if any(isinstance(part, SizedText) for part in parts) and (text := getattr(header, name)) is not None:
            yield name, text


_ATTRIBUTES = (("section", enums.CounterSection), ("unit", enums.CounterUnit), ("variance", enums.CounterVariance))


def _columns(view: View, cls: EventClass, field: str) -> tuple[Array, Array, Array]:
    """Return the indices, the types and the byte offsets of the counters in a list; empty columns without events."""
    if view.has(cls):
        indices, types = (view.items(cls, field, name) for name in ("index", "type"))
        if indices is not None and types is not None:
            return indices[0], types[0], indices[1]
    return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)


class Counters(Check):
    """Finds faults in descriptions of counters, and values of another type than the description says."""

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
        if view.has(r.CounterValues):
            for _, _, begin, _, text_offsets in view.item_texts(r.CounterValues, "values", CounterValue):
                self.report("counter.text", begin >= 0, text_offsets)
        if view.has(r.CounterDescriptions):
            self._check_descriptions(view, indices, types, offsets)

    def _check_descriptions(self, view: View, indices: Array, types: Array, offsets: Array) -> None:
        self.report("counter.index-zero", indices == 0, offsets)
        self.report(
            "counter.unknown-type", types > max(enums.CounterType), offsets,
            lambda row: f"the type of the counter {int(indices[row])} is {int(types[row])}",
        )  # fmt: skip
        self._check_attributes(view, indices, offsets)

    def _check_attributes(self, view: View, indices: Array, offsets: Array) -> None:
        for name, members in _ATTRIBUTES:
            column = view.items(r.CounterDescriptions, "counters", name)
            is_cut = isinstance(self.recording.dialect.part(CounterDescription, name), Byte)
            if column is None or is_cut:
                continue
            broken = ~np.isin(column[0], np.array([int(member) for member in members], np.uint64))
            message = f"the {name} of the counter is none that Mono has"
            self.report("counter.unknown-attribute", broken, offsets, message)
            if name == "section":
                self.report(
                    "counter.performance", column[0] == enums.CounterSection.PERFCOUNTERS, offsets,
                    lambda row: f"the counter {int(indices[row])} is a performance counter, whose values are absolute",
                )  # fmt: skip


class Coverage(Check):
    """Finds numbers of covered methods and statements that do not fit together."""

    classes = (r.CoverageAssembly, r.CoverageClass, r.CoverageMethod, r.CoverageStatement)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._declared: dict[int, tuple[int, int]] = {}  # by method: where, and how many statements it has
        self._statements: dict[int, int] = {}

    def _add(self, view: View) -> None:
        for cls in (r.CoverageAssembly, r.CoverageClass):
            if view.has(cls):
                self._check_counts(view, cls)
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

    def _finish(self) -> None:
        for number, (offset, count) in self._declared.items():
            actual = self._statements.get(number, 0)
            if actual != count:
                message = f"the covered method {number} has {actual:,} statements, not {count:,}"
                self.findings.add("coverage.statement-count", offset, message)

    def _check_counts(self, view: View, cls: EventClass) -> None:
        methods, full, part = (
            view.values(cls, name).tolist() for name in ("methods", "fully_covered", "partially_covered")
        )
        broken = [covered + more > count for count, covered, more in zip(methods, full, part, strict=True)]
        self.report(
            "coverage.too-many", np.array(broken, bool), view.offsets(cls),
            lambda row: f"{full[row] + part[row]:,} of {methods[row]:,} methods are covered",
        )  # fmt: skip
