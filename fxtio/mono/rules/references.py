"""Checks of references: what an event refers to by address, id or index is defined, and before it where it must be."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.rules.view import Check, EventClass, View, mixed
from fxtio.references import Kind, References
from fxtio.table import GrowingTable


class Place(NamedTuple):
    """A field that has addresses.

    Attributes:
        cls: the class of events; None for the headers of buffers.
        field: the field, as `View.read` has it.
        action: the event has the address only with this value of its field `action`; None for all events.
    """

    cls: EventClass | None
    field: str
    action: int | None = None

    def addresses(self, view: View) -> tuple[Array, Array] | None:
        """Return the addresses and the byte offsets of their events, or None if there are none."""
        if self.cls is None:
            return view.headers[self.field].astype(np.uint64), view.header_offsets
        columns = view.read(self.cls, self.field)
        if columns is None or self.action is None:
            return columns
        selected = view.values(self.cls, "action") == self.action
        return columns[0][selected], columns[1][selected]


_LOAD = enums.LoadAction.LOAD
_WITH_BACKTRACE = (r.Allocation, r.HandleCreated, r.HandleDestroyed, r.Throw, r.Monitor)
_WRITER = Place(None, "thread")

_KINDS_WITH_NULL = (
    Kind(
        "method",
        (Place(r.JitMethod, "method"),),
        (
            Place(r.Call, "method"),
            Place(r.Clause, "method"),
            Place(r.SampleHit, "frames[]"),
            Place(r.SampleHit, "located_frames[].method"),
            *(Place(cls, "backtrace[]") for cls in _WITH_BACKTRACE),
        ),
        "method.undefined",
        "method.late",
    ),
    Kind(
        "vtable",
        (Place(r.VtableLoad, "pointer"),),
        (Place(r.Allocation, "vtable"), Place(r.HeapObject, "vtable")),
        "vtable.undefined",
        "vtable.late",
    ),
    Kind(
        "class",
        (Place(r.ClassLoad, "pointer"),),
        tuple(Place(cls, "class_pointer") for cls in (r.Allocation, r.HeapObject, r.VtableLoad)),
        "class.undefined",
    ),
    Kind(
        "image",
        (Place(r.Image, "pointer", _LOAD),),
        (Place(r.ClassLoad, "image"), Place(r.Assembly, "image")),
        "image.undefined",
    ),
    Kind(
        "domain",
        (Place(r.Domain, "id", _LOAD),),
        (Place(r.Context, "domain"), Place(r.VtableLoad, "domain")),
        "domain.undefined",
    ),
    Kind(
        "root",
        (Place(r.RootRegister, "address"),),
        (Place(r.RootUnregister, "address"),),
        "root.unregistered",
    ),
    Kind(
        "counter",
        (Place(r.CounterDescriptions, "counters[].index"),),
        (Place(r.CounterValues, "values[].index"),),
        "counter.undescribed",
        "counter.undescribed",
    ),
    Kind(
        "covered method",
        (Place(r.CoverageMethod, "method_id"),),
        (Place(r.CoverageStatement, "method_id"),),
        "coverage.undefined",
    ),
    Kind(
        "thread",
        (Place(r.Thread, "id"),),
        (_WRITER,),
        "thread.undefined",
        text="the thread {:#x} writes events, but no event announces it",
    ),
)

KINDS = (
    *(kind._replace(ignored=(0,)) for kind in _KINDS_WITH_NULL),
    Kind(
        "sampled thread",
        (Place(r.Thread, "id"), _WRITER),
        (Place(r.SampleHit, "interrupted"),),
        "sample.thread",
        text="the thread {:#x} is sampled, but no event announces it, and it writes no events",
    ),
)
"""The rules about references; null pointers refer to nothing, but 0 is no thread that can be sampled."""


class ReferenceRules(Check):
    """Finds uses of what is not defined, or only later in the file."""

    classes = r.EVENTS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._references = References(KINDS, self.findings)

    def _add(self, view: View) -> None:
        self._references.add(lambda place: place.addresses(view))

    def finish(self) -> None:
        """Report what has no definition anywhere."""
        self._references.finish()


_MOST_LOADS = 1 << 20
"""The most loads and unloads of a kind that are compared."""


class Loads(Check):
    """Finds unloads without a load, and loads of what is loaded, in the order of time: buffers come in any order."""

    classes = (r.Image, r.Assembly, r.Domain, r.Thread, r.Context)
    _IDS: ClassVar[dict[EventClass, str]] = {
        r.Image: "pointer", r.Assembly: "pointer", r.Domain: "id", r.Thread: "id", r.Context: "id",
    }  # fmt: skip

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: dict[EventClass, GrowingTable] = {}
        self._count: Counter[EventClass] = Counter()

    def _add(self, view: View) -> None:
        for cls, field in self._IDS.items():
            if not view.has(cls):
                continue
            actions = view.values(cls, "action")
            selected = np.flatnonzero(actions != enums.NameAction.NAME)[: _MOST_LOADS - self._count[cls]]
            ids = view.values(cls, field)
            if cls is r.Context:  # every domain has a context 0
                ids = mixed(ids, view.values(cls, "domain"))
            rows = {"id": ids, "time": view.times(cls), "action": actions, "offset": view.offsets(cls)}
            table = self._rows.setdefault(cls, GrowingTable())
            table.append({name: column[selected] for name, column in rows.items()})
            self._count[cls] += len(selected)

    def finish(self) -> None:
        """Compare the loads and unloads in the order of time."""
        for cls, table in self._rows.items():
            rows: dict[str, Any] = table.columns()
            ids, times, actions, offsets = rows.values()
            order = np.lexsort((offsets, times, ids))
            ids, actions, offsets = ids[order], actions[order], offsets[order]
            loads = actions == enums.LoadAction.LOAD
            same = np.diff(ids, prepend=~ids[:1]) == 0  # as the row before
            was_loaded = same & np.append(False, loads[:-1])
            name = cls.__name__.lower()
            self.report("load.missing", ~loads & ~was_loaded, offsets, f"{name} unloaded, but not loaded")
            self.report("load.twice", loads & was_loaded, offsets, f"{name} loaded for the second time")
