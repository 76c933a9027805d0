"""Checks of counters and of coverage: descriptions, and what refers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.rules.view import MOST_NUMBERS, Array, Check, EventClass, View, always
from fxtio.mono.stream.declare import Byte

_ATTRIBUTES = (("section", enums.CounterSection), ("unit", enums.CounterUnit), ("variance", enums.CounterVariance))


class Counters(Check):
    """Finds faults in descriptions of counters, and values of another type than the description says."""

    classes = (r.CounterDescriptions, r.CounterValues)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._types: dict[int, int] = {}  # by index

    def _add(self, view: View) -> None:
        if view.has(r.CounterDescriptions):
            self._describe(view)
        if not view.has(r.CounterValues):
            return
        indices, types = (view.items(r.CounterValues, "values", name) for name in ("index", "type"))
        if indices is None or types is None:
            return
        for _, _, begin, _, offsets in view.item_texts(r.CounterValues, "values", r.CounterValue):
            self.report("counter.text", begin >= 0, offsets, always("the value of a counter is a text"))
        described = [self._types.get(index) for index in indices[0].tolist()]
        broken = np.array(
            [kind not in (None, actual) for kind, actual in zip(described, types[0].tolist(), strict=True)], bool
        )
        self.report(
            "counter.other-type", broken, indices[1],
            lambda row: f"counter {int(indices[0][row])}: a value of type {int(types[0][row])}, not {described[row]}",
        )  # fmt: skip

    def _describe(self, view: View) -> None:
        fields = {name: view.items(r.CounterDescriptions, "counters", name) for name in ("index", "type")}
        if fields["index"] is None or fields["type"] is None:
            return
        (indices, offsets), (types, _) = fields["index"], fields["type"]
        self.report("counter.index-zero", indices == 0, offsets, lambda _: "a counter has the index 0")
        repeated_rows = []
        for row, (index, kind) in enumerate(zip(indices.tolist(), types.tolist(), strict=True)):
            if index in self._types:
                repeated_rows.append(row)
            if len(self._types) < MOST_NUMBERS:
                self._types[index] = kind
        self.report(
            "counter.index-twice", np.array(repeated_rows, np.int64), offsets,
            lambda row: f"the index {int(indices[row])} has a counter already",
        )  # fmt: skip
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
            message = always(f"the {name} of the counter is none that Mono has")
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
