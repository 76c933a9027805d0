"""Checks of heap shots: their objects are in a shot, have one size each, and refer to objects of the same shot."""

from __future__ import annotations

from typing import Any

import numpy as np

from fxtio.mono import records as r
from fxtio.mono.rules.view import Array, Check, Numbers, View
from fxtio.mono.state import numbered

_MOST_MISSING = 1 << 16
"""The most objects that are remembered as missing in a shot."""


class HeapShots(Check):
    """Finds objects outside of shots, with two sizes or none, and references to objects that the shot does not have.

    A shot without an end has the objects up to the next start.
    """

    classes = (r.HeapStart, r.HeapEnd, r.HeapObject)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_open = False
        self._begin()

    def _begin(self) -> None:
        self._objects = Numbers()
        self._missing: dict[int, int] = {}  # the objects that are referred to, but not in the shot so far: where

    def _add(self, view: View) -> None:
        starts, ends = view.offsets(r.HeapStart), view.offsets(r.HeapEnd)
        objects = view.offsets(r.HeapObject)
        marks = np.concatenate([starts, ends])
        order = np.argsort(marks, kind="stable")
        bounds = np.searchsorted(objects, marks[order])
        begin = 0
        for bound, is_start in zip(bounds.tolist(), (order < len(starts)).tolist(), strict=True):
            self._add_objects(view, begin, bound)
            begin = bound
            if is_start or self._is_open:
                self._end()
            self._is_open = is_start
        self._add_objects(view, begin, len(objects))

    def _add_objects(self, view: View, begin: int, end: int) -> None:
        if begin == end:
            return
        offsets = view.offsets(r.HeapObject)[begin:end]
        if not self._is_open:
            rows = np.arange(end - begin)
            self.report("heap.outside", rows, offsets, lambda _: "the object of the heap is not in a heap shot")
            return
        addresses = view.values(r.HeapObject, "object")[begin:end]
        self._check_sizes(addresses, view.values(r.HeapObject, "size")[begin:end], offsets)
        self._objects.add(addresses)
        references = view.items(r.HeapObject, "references", "object")
        counts = view.item_counts(r.HeapObject, "references")
        if references is None or counts is None:
            return
        bounds = np.append(0, np.cumsum(counts))
        targets, places = (column[bounds[begin] : bounds[end]] for column in references)
        first = numbered(targets)[1]
        targets, places = targets[first], places[first]
        absent = (targets != 0) & ~self._objects.has(targets)
        for target, place in zip(targets[absent].tolist(), places[absent].tolist(), strict=True):
            if len(self._missing) < _MOST_MISSING:
                self._missing.setdefault(target, place)

    def _check_sizes(self, addresses: Array, sizes: Array, offsets: Array) -> None:
        is_first = np.zeros(len(addresses), bool)
        is_first[numbered(addresses)[1]] = True
        is_first &= ~self._objects.has(addresses) | self._objects.is_full
        if not self._objects.is_full:
            self.report(
                "heap.no-size", is_first & (sizes == 0), offsets,
                lambda row: f"the object {int(addresses[row]):#x} has the size 0 where it first occurs in the shot",
            )  # fmt: skip
            self.report(
                "heap.second-size", ~is_first & (sizes > 0), offsets,
                lambda row: f"the object {int(addresses[row]):#x} has a size again: {int(sizes[row]):,}",
            )  # fmt: skip

    def _end(self) -> None:
        """Report what is missing in the shot that ends, and begin without objects."""
        if not self._objects.is_full and self._missing:
            targets = np.array([*self._missing], np.uint64)
            for target in targets[~self._objects.has(targets)].tolist():
                message = f"an object refers to {target:#x}, which is not in the heap shot"
                self.findings.add("heap.missing-object", self._missing[target], message)
        self._begin()
