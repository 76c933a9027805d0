"""Checks of counters and of coverage: descriptions, and what refers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.stream.declare import Byte
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.rules.view import MOST_NUMBERS, Check, EventClass, View

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
            for _, _, begin, _, text_offsets in view.item_texts(r.CounterValues, "values", r.CounterValue):
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
            is_cut = isinstance(self.recording.dialect.part(r.CounterDescription, name), Byte)
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
