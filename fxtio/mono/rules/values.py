"""Checks of single values: enumerations, sizes, objects, texts, counts of items; and of the header of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64
from fxtio.codec.stream.declare import Item, SizedText, parts_of
from fxtio.finding import Findings
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.frames import Recording
from fxtio.mono.headers import StreamHeader, profiler_of
from fxtio.mono.rules.view import Check, EventClass, View

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
    {(r.JitMethod, "name"), (r.ClassLoad, "name"), (r.Assembly, "name"), (r.CounterDescription, "name")}
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
