"""Checks of heap shots: their objects are in a shot, have one size each, and refer to objects of the same shot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.mono import records as r
from fxtio.mono.rules.view import Check, View, mixed
from fxtio.references import Numbers

_MOST_MISSING = 1 << 16
"""The most objects that are remembered as missing in a shot."""


@dataclass(slots=True)
class _Objects:
    """Objects of the heap, or references to them.

    Attributes:
        shots: the number of the shot of each.
        keys: a number for each object and shot, the same wherever the object occurs in the shot (uint64).
        addresses: their addresses.
        offsets: the byte offsets of their events.
    """

    shots: Array
    keys: Array
    addresses: Array
    offsets: Array

    def select(self, rows: Array) -> _Objects:
        """Return some of the rows, given by a mask or by numbers."""
        return _Objects(self.shots[rows], self.keys[rows], self.addresses[rows], self.offsets[rows])


class HeapShots(Check):
    """Finds objects outside of shots, with two sizes or none, and references to objects that the shot does not have.

    Whatever starts or ends a shot begins a new number of a shot; a shot without an end has the objects up to the next
    start.
    """

    classes = (r.HeapStart, r.HeapEnd, r.HeapObject)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shot = 0  # the number of the current shot
        self._is_open = False
        self._thread = 0  # that wrote the start of the shot
        self._present = Numbers()  # the keys of the objects in the current shot so far
        self._missing: dict[int, tuple[int, int]] = {}  # by key: objects that are only referred to, address and place

    def _add(self, view: View) -> None:
        starts, ends = view.offsets(r.HeapStart), view.offsets(r.HeapEnd)
        marks = np.concatenate([starts, ends])
        order = np.argsort(marks, kind="stable")
        marks = marks[order]
        is_open = np.append(self._is_open, order < len(starts))
        threads = np.append(
            np.uint64(self._thread), np.concatenate([view.threads(cls) for cls in (r.HeapStart, r.HeapEnd)])[order]
        )
        if view.has(r.HeapObject):
            self._check_objects(view, marks, is_open, threads)
        elif len(marks):
            self._end_shot(np.empty(0, np.uint64))
        self._shot += len(marks)
        self._is_open, self._thread = bool(is_open[-1]), int(threads[-1])

    def _check_objects(self, view: View, marks: Array, is_open: Array, threads: Array) -> None:
        offsets, addresses = view.offsets(r.HeapObject), view.values(r.HeapObject, "object")
        number = np.searchsorted(marks, offsets)
        self.report("heap.outside", ~is_open[number], offsets)
        is_other = is_open[number] & (view.threads(r.HeapObject) != threads[number])
        self.report("heap.other-thread", is_other, offsets)
        shots = number + self._shot
        objects = _Objects(shots, mixed(addresses, shots), addresses, offsets)
        inside = is_open[number]
        self._check_sizes(objects.select(inside), view.values(r.HeapObject, "size")[inside])
        self._check_references(view, objects.select(inside), inside, shots, self._shot + len(marks))

    def _check_sizes(self, objects: _Objects, sizes: Array) -> None:
        is_first = np.zeros(len(sizes), bool)
        is_first[number_distinct(objects.keys)[1]] = True
        is_first &= ~self._present.has(objects.keys) if not self._present.is_full else objects.shots != self._shot
        is_checked = (objects.shots != self._shot) | np.bool_(not self._present.is_full)
        self.report(
            "heap.no-size", is_checked & is_first & (sizes == 0), objects.offsets,
            lambda row: f"the object {int(objects.addresses[row]):#x} has no size where it first occurs in the shot",
        )  # fmt: skip
        self.report(
            "heap.second-size", is_checked & ~is_first & (sizes > 0), objects.offsets,
            lambda row: f"the object {int(objects.addresses[row]):#x} has a size again: {int(sizes[row]):,}",
        )  # fmt: skip

    def _check_references(self, view: View, objects: _Objects, inside: Array, shots: Array, last: int) -> None:
        """Report references to what their shot does not have; those of the last shot wait until it ends."""
        references, counted = (view.read(r.HeapObject, f"references{part}") for part in ("[].object", "[#]"))
        assert references is not None
        assert counted is not None
        counts = counted[0]
        of_shots = np.repeat(shots, counts)
        targets = _Objects(of_shots, mixed(references[0], of_shots), *references)
        targets = targets.select(np.repeat(inside, counts) & (references[0] != 0))
        targets = targets.select(number_distinct(targets.keys)[1])
        absent = targets.select(~np.isin(targets.keys, objects.keys))
        self._remember(absent.select(absent.shots == self._shot))
        if last != self._shot:
            between = absent.select((absent.shots != self._shot) & (absent.shots != last))
            self._report_missing(between.addresses, between.offsets)
            self._end_shot(objects.keys)
            self._remember(absent.select(absent.shots == last))
        self._present.add(objects.keys[objects.shots == last])

    def _remember(self, absent: _Objects) -> None:
        """Remember what a shot that has not ended does not have so far, as far as there is room."""
        columns = (absent.keys, absent.addresses, absent.offsets)
        room = max(_MOST_MISSING - len(self._missing), 0)
        for key, address, offset in zip(*(column[:room].tolist() for column in columns), strict=True):
            self._missing.setdefault(key, (address, offset))

    def _end_shot(self, keys: Array) -> None:
        """Report what is missing in the current shot, whose further objects have these keys, and begin another one."""
        if self._missing:
            missing = np.array([*self._missing], np.uint64)
            is_absent = ~(self._present.has(missing) | np.isin(missing, keys))
            places = np.array([*self._missing.values()], np.uint64).reshape(-1, 2)[is_absent]
            self._report_missing(places[:, 0], places[:, 1].astype(np.int64))
        self._present, self._missing = Numbers(), {}

    def _report_missing(self, addresses: Array, offsets: Array) -> None:
        self.report(
            "heap.missing-object", np.arange(len(addresses)), offsets,
            lambda row: f"an object refers to {int(addresses[row]):#x}, which is not in the heap shot",
        )  # fmt: skip
