"""Checks of references: what an event refers to by address, id or index is defined, and before it where it must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.mono import enums
from fxtio.mono import records as r
from fxtio.mono.rules.view import Check, EventClass, Numbers, View, mixed
from fxtio.table import GrowingTable

MOST_UNDEFINED = 1 << 16
"""The most addresses without a definition that are remembered until the end; there are no findings of further ones."""


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


class ReferenceRule(NamedTuple):
    """A kind of address: the events that define it, those that use it, and the rules about both.

    Attributes:
        subject: what the address is of, for messages.
        definitions: where it is defined.
        uses: where it is used.
        undefined: the rule that is broken by a use without a definition anywhere.
        late: the rule that is broken by a use before the definition; empty if this is allowed.
    """

    subject: str
    definitions: tuple[Place, ...]
    uses: tuple[Place, ...]
    undefined: str
    late: str = ""


def _backtraces(*classes: EventClass) -> Iterator[Place]:
    return (Place(cls, "backtrace[]") for cls in classes)


_LOAD = enums.LoadAction.LOAD
_WRITER = Place(None, "thread")

REFERENCE_RULES = (
    ReferenceRule(
        "method",
        (Place(r.JitMethod, "method"),),
        (
            Place(r.Call, "method"),
            Place(r.Clause, "method"),
            Place(r.SampleHit, "frames[]"),
            Place(r.SampleHit, "located_frames[].method"),
            *_backtraces(r.Allocation, r.HandleCreated, r.HandleDestroyed, r.Throw, r.Monitor),
        ),
        "method.undefined",
        "method.late",
    ),
    ReferenceRule(
        "vtable",
        (Place(r.VtableLoad, "pointer"),),
        (Place(r.Allocation, "vtable"), Place(r.HeapObject, "vtable")),
        "vtable.undefined",
        "vtable.late",
    ),
    ReferenceRule(
        "class",
        (Place(r.ClassLoad, "pointer"),),
        tuple(Place(cls, "class_pointer") for cls in (r.Allocation, r.HeapObject, r.VtableLoad)),
        "class.undefined",
    ),
    ReferenceRule(
        "image",
        (Place(r.Image, "pointer", _LOAD),),
        (Place(r.ClassLoad, "image"), Place(r.Assembly, "image")),
        "image.undefined",
    ),
    ReferenceRule(
        "domain",
        (Place(r.Domain, "id", _LOAD),),
        (Place(r.Context, "domain"), Place(r.VtableLoad, "domain")),
        "domain.undefined",
    ),
    ReferenceRule(
        "root",
        (Place(r.RootRegister, "address"),),
        (Place(r.RootUnregister, "address"),),
        "root.unregistered",
    ),
    ReferenceRule(
        "counter",
        (Place(r.CounterDescriptions, "counters[].index"),),
        (Place(r.CounterValues, "values[].index"),),
        "counter.undescribed",
        "counter.undescribed",
    ),
    ReferenceRule(
        "covered method",
        (Place(r.CoverageMethod, "method_id"),),
        (Place(r.CoverageStatement, "method_id"),),
        "coverage.undefined",
    ),
    ReferenceRule("thread", (Place(r.Thread, "id"),), (_WRITER,), "thread.undefined"),
    ReferenceRule(
        "sampled thread", (Place(r.Thread, "id"), _WRITER), (Place(r.SampleHit, "interrupted"),), "sample.thread"
    ),
)  # fmt: skip
"""The rules about references; null pointers refer to nothing."""


def first_places(places: tuple[Place, ...], view: View) -> tuple[Array, Array]:
    """Return the different addresses of some fields, and the byte offset of the first event that has each of them."""
    addresses, offsets = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for place in places:
        columns = place.addresses(view)
        if columns is not None and len(columns[0]):
            first = number_distinct(columns[0])[1]
            addresses.append(columns[0][first])
            offsets.append(columns[1][first])
    values, places_of = np.concatenate(addresses), np.concatenate(offsets)
    order = np.argsort(places_of, kind="stable")
    distinct, first = np.unique(values[order], return_index=True)
    return distinct, places_of[order][first]


def _remember(first: dict[int, int], addresses: Array, offsets: Array) -> None:
    """Add addresses that are not in `first` yet, with the byte offsets of their events, as far as there is room."""
    room = max(MOST_UNDEFINED - len(first), 0)
    for address, offset in zip(addresses[:room].tolist(), offsets[:room].tolist(), strict=True):
        first.setdefault(address, offset)


class References(Check):
    """Finds uses of what is not defined, or only later in the file."""

    classes = r.EVENTS

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._defined = [Numbers() for _ in REFERENCE_RULES]
        self._open: list[dict[int, int]] = [{} for _ in REFERENCE_RULES]  # without a definition so far: the first use

    def _add(self, view: View) -> None:
        for rule, defined, unresolved in zip(REFERENCE_RULES, self._defined, self._open, strict=True):
            used, use_offsets = first_places(rule.uses, view)
            new, definition_offsets = first_places(rule.definitions, view)
            if len(used):
                unknown = (used != 0) & ~defined.has(used)
                used, use_offsets = used[unknown], use_offsets[unknown]
                place = np.minimum(np.searchsorted(new, used), max(len(new) - 1, 0))
                is_early = np.ones(len(used), bool)
                if len(new):
                    is_early = (new[place] != used) | (definition_offsets[place] > use_offsets)
                _remember(unresolved, used[is_early], use_offsets[is_early])
            if len(new):
                self._resolve(rule, unresolved, new)
                defined.add(new)

    def _resolve(self, rule: ReferenceRule, unresolved: dict[int, int], new: Array) -> None:
        """Take the addresses that are now defined from those that are not."""
        if not unresolved:
            return
        for address in np.intersect1d(new, np.array([*unresolved], np.uint64)).tolist():
            offset = unresolved.pop(address)
            if rule.late:
                self.findings.add(
                    rule.late, offset, f"the {rule.subject} {address:#x} is used before the event that defines it"
                )

    def finish(self) -> None:
        """Report what has no definition anywhere."""
        for rule, unresolved in zip(REFERENCE_RULES, self._open, strict=True):
            for address, offset in unresolved.items():
                self.findings.add(rule.undefined, offset, f"the {rule.subject} {address:#x} is never defined")


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
