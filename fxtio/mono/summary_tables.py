"""Tables that follow from those of events: pauses, contentions, counters, stacks, allocation sites, heap shots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import MAX_INT64, MAX_UINT64
from fxtio.codec.stream.values import signed
from fxtio.mono.enums import (
    NARROW_COUNTERS,
    UNSIGNED_COUNTERS,
    CounterSection,
    CounterType,
    GcEventType,
    MonitorEvent,
)
from fxtio.references import last_until
from fxtio.table import Categories, Optional, Table

STACK_SEPARATOR = ";"
"""The text between the methods of a stack, the outermost first."""

_STACK_TEXT = 1 << 26
"""The characters that the different stacks of a table may have together, besides those for each frame."""

_STACK_TEXT_PER_FRAME = 256
"""The characters that each frame of a table adds to those that its stacks may have."""


def _gc_pauses(tables: dict[str, Table]) -> Table:
    """Return the times during which all threads were stopped for the garbage collector."""
    events = tables["gc_events"]
    codes = [events["event"].values.index(member.name.lower()) for member in GcEventType]
    rows: list[tuple[int, int, int, int, int]] = []
    stops: dict[int, list[int]] = {}  # by thread: the start of the stop, of the collection, and the time spent in it
    for code, time, generation, thread in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["generation"].tolist(),
        events["thread"].tolist(), strict=True,
    ):  # fmt: skip
        if code == codes[GcEventType.PRE_STOP_WORLD]:
            stops[thread] = [time, time, 0]
        elif thread not in stops:
            continue
        elif code == codes[GcEventType.START]:
            stops[thread][1] = time
        elif code == codes[GcEventType.END]:
            stops[thread][2] += time - stops[thread][1]
        elif code == codes[GcEventType.POST_START_WORLD]:
            start, _, collecting = stops.pop(thread)
            rows.append((start, time - start, max(min(collecting, MAX_INT64), -MAX_INT64), generation, thread))
    return _table(rows, start=np.int64, duration=np.int64, collecting=np.int64, generation=np.uint64, thread=np.uint64)


def _contentions(tables: dict[str, Table]) -> Table:
    """Return the times during which a thread waited for a monitor."""
    events = tables["monitors"]
    labels = events["event"].values
    contention = labels.index(MonitorEvent.CONTENTION.name.lower())
    waiting: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int, int]] = []
    states: list[int] = []
    for code, time, thread, monitor in zip(
        events["event"].codes.tolist(), events["time"].tolist(), events["thread"].tolist(), events["object"].tolist(),
        strict=True,
    ):  # fmt: skip
        if code == contention:
            waiting[thread, monitor] = time
        elif (start := waiting.pop((thread, monitor), None)) is not None:
            rows.append((start, time - start, thread, monitor))
            states.append(code)
    columns = dict(_table(rows, start=np.int64, duration=np.int64, thread=np.uint64, object=np.uint64).items())
    return Table({**columns, "state": Categories(np.array(states, np.int32), labels)})


def _counter_series(tables: dict[str, Table]) -> Table:
    """Return the absolute values of counters, most of which the file stores as changes.

    A description that comes again, as in the next recording of a file, begins a counter anew.
    """
    described, readings, values = tables["counters"], tables["counter_readings"], tables["counter_values"]
    description = _last_description(tables)
    types = [member.name.lower() for member in CounterType]
    type_of = {values["type"].values.index(name): number for number, name in enumerate(types)}
    sections = np.array([*described["section"].tolist(), 0], np.uint64)[description]  # -1: no description
    indices, codes, bits = values["index"].tolist(), values["type"].codes.tolist(), values["bits"].tolist()
    last: dict[tuple[int, int], int] = {}
    integers = np.zeros(len(indices), np.int64)
    numbers = values["bits"].view(np.float64).copy()
    is_integer = np.zeros(len(indices), bool)
    for row, (index, code, change, section, description_row) in enumerate(
        zip(indices, codes, bits, sections.tolist(), description.tolist(), strict=True)
    ):
        counter_type = type_of.get(code)
        if counter_type is None or counter_type in (CounterType.DOUBLE, CounterType.STRING):
            continue
        before = 0 if section == CounterSection.PERFCOUNTERS else last.get((index, description_row), 0)
        last[index, description_row] = value = counter_sum(counter_type, before, change)
        numbers[row] = value
        if value <= MAX_INT64:
            integers[row], is_integer[row] = value, True
    return Table(
        {
            "time": readings["time"][values["counter_reading"]],
            "index": values["index"],
            "name": Categories(
                np.array([*described["name"].codes, -1], np.int32)[description], described["name"].values
            ),
            "section": sections,
            "type": values["type"],
            "integer": Optional(integers, is_integer),
            "number": Optional(numbers, values["text"].codes < 0),
            "text": values["text"],
        }
    )


def _last_description(tables: dict[str, Table]) -> Array:
    """Return for each value of a counter the row of its last description before it in the file.

    It is that of the first description if all come later, and -1 where there is none.
    """
    described, values = tables["counters"], tables["counter_values"]
    at = tables["counter_descriptions"]["offset"][described["counter_description"]]
    order = np.lexsort((at, described["index"]))
    index, place = described["index"][order], at[order]
    offset = tables["counter_readings"]["offset"][values["counter_reading"]]
    first = np.searchsorted(index, values["index"], "left")
    end = np.searchsorted(index, values["index"], "right")
    rows: Array = np.full(len(offset), -1, np.int64)
    has_description = end > first
    bounds = first[has_description], end[has_description]
    rows[has_description] = order[last_until(place, *bounds, offset[has_description])]
    return rows


def counter_sum(kind: int, value: int, change: int) -> int:
    """Return the sum of a value and a change as a counter of a type has it: without the bits that it lacks."""
    mask = (1 << 32) - 1 if kind in NARROW_COUNTERS else MAX_UINT64
    total = (value + change) & mask
    return total if kind in UNSIGNED_COUNTERS else signed(total, mask)


def _stacks(frames: Table, counts: Array, *, innermost_first: bool) -> Categories:
    """Return the stack of each event as text, from the table of its frames.

    A stack is null if the texts of the different stacks before it leave no room for its text.
    """
    names, addresses = frames["method_name"].tolist(), frames["method"].tolist()
    labels = [f"{address:#x}" if name is None else name for name, address in zip(names, addresses, strict=True)]
    left = _STACK_TEXT + _STACK_TEXT_PER_FRAME * len(labels)
    code_of: dict[str, int] = {}
    code_of_frames: dict[tuple[str, ...], int] = {}
    codes = []
    begin = 0
    for end in np.cumsum(counts).tolist():
        frame = tuple(labels[begin:end])
        code = code_of_frames.get(frame)
        if code is None:
            size = sum(map(len, frame)) + len(frame)
            code = -1
            if size <= left:
                left -= size
                text = STACK_SEPARATOR.join(reversed(frame) if innermost_first else frame)
                code = code_of.setdefault(text, len(code_of))
            code_of_frames[frame] = code
        codes.append(code)
        begin = end
    return Categories(np.array(codes, np.int32), list(code_of))


def _sample_stacks(tables: dict[str, Table]) -> Table:
    """Return the stack of each sample."""
    samples, frames = tables["samples"], tables["sample_frames"]
    stack = _stacks(frames, _counts(samples["frames"]), innermost_first=True)
    return Table({"time": samples["time"], "thread": samples["interrupted"], "stack": stack})


def _counts(column: Array | Optional) -> Array:
    return column.values if isinstance(column, Optional) else column


def _allocation_sites(tables: dict[str, Table]) -> Table:
    """Return the classes and stacks of all allocations with count and bytes, the most bytes first."""
    allocations = tables["allocations"]
    stack = _stacks(tables["allocation_frames"], _counts(allocations["backtrace"]), innermost_first=False)
    classes = allocations["class_name"]
    count: Counter[tuple[int, int]] = Counter()
    size_of: Counter[tuple[int, int]] = Counter()
    sizes = allocations["size"].tolist()
    for key, size in zip(zip(classes.codes.tolist(), stack.codes.tolist(), strict=True), sizes, strict=True):
        count[key] += 1
        size_of[key] += size
    keys = [key for key, _ in size_of.most_common()]
    pairs = np.array(keys, np.int32).reshape(-1, 2)
    return Table(
        {
            "class_name": Categories(pairs[:, 0].copy(), classes.values),
            "stack": Categories(pairs[:, 1].copy(), stack.values),
            "count": np.array([count[key] for key in keys], np.int64),
            "bytes": np.array([min(size_of[key], MAX_INT64) for key in keys], np.int64),
        }
    )


def _shots(tables: dict[str, Table]) -> Iterator[tuple[int, int | None, slice]]:
    """Yield the start and the end of every heap shot, and the range of its objects.

    A shot without an end has the objects up to the start of the next one, so no object belongs to two shots.
    """
    starts, ends, objects = tables["heap_starts"], tables["heap_ends"], tables["heap_objects"]["offset"]
    offsets = starts["offset"]
    first = np.searchsorted(objects, offsets)
    following = np.append(first, len(objects))[1:]
    place = np.searchsorted(ends["offset"], offsets)
    next_place = np.append(place, len(ends["offset"]))[1:]
    ended = place < next_place
    following[ended] = np.searchsorted(objects, ends["offset"][place[ended]])
    end_times = iter(ends["time"][place[ended]].tolist())
    for start, has_end, begin, stop in zip(
        starts["time"].tolist(), ended.tolist(), first.tolist(), following.tolist(), strict=True
    ):
        yield start, next(end_times) if has_end else None, slice(begin, stop)


def total(sizes: Array) -> int:
    """Return the sum of sizes (uint64), at most 2**64 - 1."""
    return int(totals(1, np.zeros(len(sizes), np.intp), sizes)[0])


def totals(groups: int, group: Array, sizes: Array) -> Array:
    """Return the sums of sizes (uint64) by the number of their group, each at most 2**64 - 1."""
    half = np.uint64(32)
    low_bits = np.uint64((1 << 32) - 1)
    low, high = np.zeros(groups, np.uint64), np.zeros(groups, np.uint64)  # of 32 bits each, so sums do not wrap
    np.add.at(low, group, sizes & low_bits)
    np.add.at(high, group, sizes >> half)
    high += low >> half
    sums: Array = np.where(high > low_bits, np.uint64(MAX_UINT64), (high << half) | (low & low_bits))
    return sums


def _heap_shots(tables: dict[str, Table]) -> Table:
    """Return the heap shots."""
    objects = tables["heap_objects"]
    rows, ends = [], []
    for start, end, members in _shots(tables):
        sizes, references = objects["size"][members], objects["references"][members]
        rows.append((start, int((sizes > 0).sum()), total(sizes), int(references.sum())))
        ends.append(end)
    columns = dict(_table(rows, start=np.int64, objects=np.int64, bytes=np.uint64, references=np.int64).items())
    present = np.array([end is not None for end in ends], bool)
    end_times = Optional(np.array([end or 0 for end in ends], np.int64), present)
    return Table({"start": columns.pop("start"), "end": end_times, **columns})


def _heap_classes(tables: dict[str, Table]) -> Table:
    """Return the objects of each heap shot by class, the most bytes first."""
    objects = tables["heap_objects"]
    classes = objects["class_name"]
    rows, codes = [], []
    for shot, (_, _, members) in enumerate(_shots(tables)):
        sizes = objects["size"][members]
        is_first = sizes > 0  # the others only add references
        codes_of_shot = classes.codes[members][is_first]
        distinct, inverse, count = np.unique(codes_of_shot, return_inverse=True, return_counts=True)
        sums = totals(len(distinct), inverse, sizes[is_first])
        for place in np.argsort(-sums.astype(np.float64), kind="stable").tolist():
            rows.append((shot, int(count[place]), int(sums[place])))
            codes.append(int(distinct[place]))
    columns = dict(_table(rows, heap_shot=np.int64, count=np.int64, bytes=np.uint64).items())
    class_names = Categories(np.array(codes, np.int32), classes.values)
    return Table({"heap_shot": columns.pop("heap_shot"), "class_name": class_names, **columns})


def _table(rows: list[Any], **types: type[Any]) -> Table:
    """Return a table of rows with these columns."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in types)
    return Table({name: np.array(list(values), types[name]) for name, values in zip(types, columns, strict=True)})


DERIVED_TABLES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Table]], Table]]] = {
    "gc_pauses": (("gc_events",), _gc_pauses),
    "contentions": (("monitors",), _contentions),
    "counter_series": (("counters", "counter_descriptions", "counter_readings", "counter_values"), _counter_series),
    "sample_stacks": (("samples", "sample_frames"), _sample_stacks),
    "allocation_sites": (("allocations", "allocation_frames"), _allocation_sites),
    "heap_shots": (("heap_starts", "heap_ends", "heap_objects"), _heap_shots),
    "heap_classes": (("heap_starts", "heap_ends", "heap_objects"), _heap_classes),
}
"""The tables that follow from others: from which, and the function that makes them."""

_SPAN = {"start": "the start in nanoseconds", "duration": "the length in nanoseconds", "thread": "the thread"}
_STACK = {"stack": "the methods with `;` between them, the outermost first; null if the texts get too long"}

DERIVED_MEANINGS: dict[str, tuple[str, dict[str, str]]] = {
    "gc_pauses": (
        "Times during which all threads were stopped for the garbage collector",
        _SPAN
        | {"collecting": "the part of it that was spent collecting", "generation": "the generation that was collected"},
    ),
    "contentions": (
        "Times during which a thread waited for a lock",
        _SPAN | {"object": "the address of the object", "state": "`acquired` or `failed`"},
    ),
    "counter_series": (
        "Values of counters",
        {
            "time": "the time in nanoseconds",
            "index": "the number of the counter",
            "name": "its name",
            "section": "the part of the runtime that it belongs to",
            "type": "the type of its values",
            "integer": "a whole number, exactly; null from 2**63 on",
            "number": "a number, as a double",
            "text": "a text",
        },
    ),
    "sample_stacks": (
        "Stacks of samples",
        {"time": "the time in nanoseconds", "thread": "the thread that was sampled"} | _STACK,
    ),
    "allocation_sites": (
        "Where objects were allocated, the most bytes first",
        _STACK | {"class_name": "the class", "count": "the number of objects", "bytes": "the bytes of all of them"},
    ),
    "heap_shots": (
        "Heap shots; one without an end has the objects up to the start of the next one",
        {
            "start": "the start in nanoseconds",
            "end": "the end in nanoseconds, null if it is missing",
            "objects": "the number of objects",
            "bytes": "the bytes of all of them",
            "references": "the number of references between them",
        },
    ),
    "heap_classes": (
        "Classes of the objects of a heap shot",
        {
            "heap_shot": "the row in `heap_shots`",
            "class_name": "the class",
            "count": "the number of objects",
            "bytes": "the bytes of all of them",
        },
    ),
}
"""What the rows of each table are, and the values of its columns."""
