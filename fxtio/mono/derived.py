"""What follows from the events: calls as slices, pauses, contentions, series of counters, stacks, heap shots.

Each table is a function of stored ones.  Events of a thread are in order, so a thread is read from front to back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fxtio.mono.enums import (
    NARROW_COUNTERS,
    UNSIGNED_COUNTERS,
    CounterSection,
    CounterType,
    GcEventType,
    MonitorEvent,
)
from fxtio.mono.names import Names
from fxtio.mono.slices import slices
from fxtio.table import Categories, Optional, Table

Array = np.ndarray[Any, Any]
Stored = dict[str, Table]
Known = Callable[[], Names]

SEPARATOR = ";"
"""What stands between the methods of a stack, the outermost first."""


def _gc_pauses(stored: Stored, known: Known) -> Table:
    """Each time the world was stopped: when, how long, and for how long something was collected meanwhile.

    Columns: `begin`, `duration`, `collecting` in nanoseconds, `generation`, `thread`.
    """
    events = stored["gc_events"]
    names = [events["event"].values.index(one.name.lower()) for one in GcEventType]
    rows: list[tuple[int, int, int, int, int]] = []
    open_: dict[int, list[int]] = {}  # by thread: since when it stops the world, collects, and for how long it did
    for code, time, number, thread in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["generation"].tolist(),
        events["thread"].tolist(), strict=True,
    ):  # fmt: skip
        if code == names[GcEventType.PRE_STOP_WORLD]:
            open_[thread] = [time, time, 0]
        elif thread not in open_:
            continue
        elif code == names[GcEventType.START]:
            open_[thread][1] = time
        elif code == names[GcEventType.END]:
            open_[thread][2] += time - open_[thread][1]
        elif code == names[GcEventType.POST_START_WORLD]:
            begin, _, spent = open_.pop(thread)
            rows.append((begin, time - begin, spent, number, thread))
    return _table(rows, begin=np.int64, duration=np.int64, collecting=np.int64, generation=np.uint8, thread=np.uint64)


def _contentions(stored: Stored, known: Known) -> Table:
    """Each time a thread had to wait for a monitor.

    Columns: `begin`, `duration` in nanoseconds, `thread`, `object`, `outcome`.
    """
    events = stored["monitors"]
    labels = events["event"].values
    contended = labels.index(MonitorEvent.CONTENTION.name.lower())
    waiting: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    outcomes: list[int] = []
    for code, time, thread, what in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["thread"].tolist(), events["object"].tolist(),
        strict=True,
    ):  # fmt: skip
        if code == contended:
            waiting[thread, what] = time
        elif (since := waiting.pop((thread, what), None)) is not None:
            rows.append((since, time - since, thread, what))
            outcomes.append(code)
    made = dict(_table(rows, begin=np.int64, duration=np.int64, thread=np.uint64, object=np.uint64).items())
    return Table({**made, "outcome": Categories(np.array(outcomes, np.int32), labels)})


def _counter_series(stored: Stored, known: Known) -> Table:
    """The counters' values; in the file most are changes.

    Columns: `time`, `index`, `name`, `section`, `type`, `integer` (exact), `number` (as a double), `text`.
    """
    described, readings, values = stored["counters"], stored["counter_readings"], stored["counter_values"]
    names = dict(zip(described["index"].tolist(), described["name"].codes.tolist(), strict=True))
    sections = dict(zip(described["index"].tolist(), described["section"].tolist(), strict=True))
    types = [member.name.lower() for member in CounterType]
    kind_of = {values["type"].values.index(name): number for number, name in enumerate(types)}
    index, kinds, bits = values["index"].tolist(), values["type"].codes.tolist(), values["bits"].tolist()
    last: dict[int, int] = {}
    integers = np.zeros(len(index), np.int64)
    numbers = values["bits"].view(np.float64).copy()
    whole = np.zeros(len(index), bool)
    for row, (one, code, change) in enumerate(zip(index, kinds, bits, strict=True)):
        kind = kind_of.get(code)
        if kind is None or kind in (CounterType.DOUBLE, CounterType.STRING):
            continue
        before = 0 if sections.get(one) == CounterSection.PERFCOUNTERS else last.get(one, 0)
        last[one] = value = _wrapped(
            before + change, 32 if kind in NARROW_COUNTERS else 64, kind not in UNSIGNED_COUNTERS
        )
        integers[row], whole[row] = _wrapped(value, 64, True), True
        numbers[row] = value
    textual = values["text"].codes >= 0
    return Table(
        {
            "time": readings["time"][values["event"]],
            "index": values["index"],
            "name": Categories(np.array([names.get(one, -1) for one in index], np.int32), described["name"].values),
            "section": np.array([sections.get(one, 0) for one in index], np.uint64),
            "type": values["type"],
            "integer": Optional(integers, whole),
            "number": Optional(numbers, ~textual),
            "text": values["text"],
        }
    )


def _wrapped(value: int, width: int, signed: bool) -> int:
    """A number in so many bits."""
    value %= 1 << width
    return value - (1 << width) if signed and value >= 1 << width - 1 else value


def _stacks(frames: Table, counts: Array, *, innermost_first: bool) -> Categories:
    """The stack of each event as text, from the table of its frames."""
    names = frames["method_name"]
    labels, addresses = names.to_list(), frames["method"].tolist()
    told = [label if label is not None else f"{address:#x}" for label, address in zip(labels, addresses, strict=True)]
    ends = np.cumsum(counts).tolist()
    known: dict[str, int] = {}
    codes = []
    begin = 0
    for end in ends:
        frame = told[begin:end]
        text = SEPARATOR.join(reversed(frame) if innermost_first else frame)
        codes.append(known.setdefault(text, len(known)))
        begin = end
    return Categories(np.array(codes, np.int32), list(known))


def _sample_stacks(stored: Stored, known: Known) -> Table:
    """The stack of each sample.

    Columns: `time`, `thread` (that was interrupted), `stack`: the methods, the outermost first, with `;` between them.
    """
    samples, frames = stored["samples"], stored["sample_frames"]
    stack = _stacks(frames, _counts(samples["frames"]), innermost_first=True)
    return Table({"time": samples["time"], "thread": samples["interrupted"], "stack": stack})


def _counts(column: Any) -> Array:
    found: Array = column.values if isinstance(column, Optional) else column
    return found


def _allocation_sites(stored: Stored, known: Known) -> Table:
    """What was allocated where: classes and stacks with number and bytes, the largest first.

    Columns: `class_name`, `stack` (empty without a backtrace), `count`, `bytes`.
    """
    allocations = stored["allocations"]
    stack = _stacks(stored["allocation_frames"], _counts(allocations["backtrace"]), innermost_first=False)
    classes = allocations["class_name"]
    count: Counter[tuple[int, int]] = Counter()
    total: Counter[tuple[int, int]] = Counter()
    sizes = allocations["size"].tolist()
    for key, size in zip(zip(classes.codes.tolist(), stack.codes.tolist(), strict=True), sizes, strict=True):
        count[key] += 1
        total[key] += size
    keys = [key for key, _ in total.most_common()]
    pairs = np.array(keys, np.int32).reshape(-1, 2)
    return Table(
        {
            "class_name": Categories(pairs[:, 0].copy(), classes.values),
            "stack": Categories(pairs[:, 1].copy(), stack.values),
            "count": np.array([count[key] for key in keys], np.int64),
            "bytes": np.array([min(total[key], 2**63 - 1) for key in keys], np.int64),
        }
    )


def _shots(stored: Stored) -> Iterator[tuple[int, int, Array]]:
    """Begin and end of every heap shot, and the rows of its objects."""
    ends, objects = stored["heap_ends"], stored["heap_objects"]
    offsets = ends["offset"]
    for begin, offset in zip(
        stored["heap_starts"]["time"].tolist(), stored["heap_starts"]["offset"].tolist(), strict=True
    ):
        place = int(np.searchsorted(offsets, offset))
        end = int(ends["time"][place]) if place < len(offsets) else -1
        last = int(offsets[place]) if place < len(offsets) else np.iinfo(np.int64).max
        yield begin, end, np.flatnonzero((objects["offset"] > offset) & (objects["offset"] < last))


def _heap_shots(stored: Stored, known: Known) -> Table:
    """The heap shots.

    Columns: `begin`, `end` (-1 where it has none), `objects`, `bytes`, `references`.
    """
    objects = stored["heap_objects"]
    rows = []
    for begin, end, members in _shots(stored):
        sizes, references = objects["size"][members], objects["references"][members]
        rows.append((begin, end, int((sizes > 0).sum()), int(sizes.sum()), int(references.sum())))
    return _table(rows, begin=np.int64, end=np.int64, objects=np.int64, bytes=np.uint64, references=np.int64)


def _heap_classes(stored: Stored, known: Known) -> Table:
    """What was on the heap in each shot, by class, the largest first.

    Columns: `shot` (the row in `heap_shots`), `class_name`, `count`, `bytes`.
    """
    objects = stored["heap_objects"]
    classes = objects["class_name"]
    rows, codes = [], []
    for shot, (_, _, members) in enumerate(_shots(stored)):
        first = members[objects["size"][members] > 0]  # the others only add references
        distinct, inverse, count = np.unique(classes.codes[first], return_inverse=True, return_counts=True)
        total = np.zeros(len(distinct), np.uint64)
        np.add.at(total, inverse, objects["size"][first])
        for place in np.argsort(-total.astype(np.float64), kind="stable").tolist():
            rows.append((shot, int(count[place]), int(total[place])))
            codes.append(int(distinct[place]))
    made = _table(rows, shot=np.int64, count=np.int64, bytes=np.uint64)
    named = Categories(np.array(codes, np.int32), classes.values)
    return Table({"shot": made["shot"], "class_name": named, "count": made["count"], "bytes": made["bytes"]})


def _table(rows: list[Any], **types: type[Any]) -> Table:
    """A table of rows with these columns."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in types)
    return Table({name: np.array(list(one), types[name]) for name, one in zip(types, columns, strict=True)})


DERIVED: dict[str, tuple[tuple[str, ...], Callable[[Stored, Known], Table]]] = {
    "slices": (("calls",), slices),
    "gc_pauses": (("gc_events",), _gc_pauses),
    "contentions": (("monitors",), _contentions),
    "counter_series": (("counters", "counter_readings", "counter_values"), _counter_series),
    "sample_stacks": (("samples", "sample_frames"), _sample_stacks),
    "allocation_sites": (("allocations", "allocation_frames"), _allocation_sites),
    "heap_shots": (("heap_starts", "heap_ends", "heap_objects"), _heap_shots),
    "heap_classes": (("heap_starts", "heap_ends", "heap_objects"), _heap_classes),
}
"""The tables that are made of others: of which, and how."""
