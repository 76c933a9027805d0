"""Shapes as timelines, which the exporter of a format writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.formats import Format
from fxtio.io.sink import open_sink
from fxtio.synth.columns import FIRST_PROCESS, FIRST_THREAD, THREADS_PER_PROCESS, Amount, Events, Part, Rows, Shape
from fxtio.synth.shapes import FRAME, FUNCTIONS, PARENT, TYPES
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, Steps, TimelinePart
from fxtio.timeline.schema import ArgumentKind, number_types

_STEPS = {
    "duration_begin": SpanStep.BEGIN,
    "duration_end": SpanStep.END,
    "duration_complete": SpanStep.COMPLETE,
    "instant": SpanStep.INSTANT,
}
"""The kinds of events that function tracers and profilers can have; others are left out."""

_SPAN_BYTES = 32  # of a directory, at least: two records

Names = Callable[[int, int, int], tuple[str, str]]
"""Returns the names of a process and of a thread in it, see `fxtio.synth.columns.plain_names`."""


def thread_names(threads: int, names: Names) -> Iterator[tuple[int, int, str, str]]:
    """Yield the numbers of the process and of the thread for all threads, and the names of both."""
    for number in range(threads):
        process, rank = divmod(number, THREADS_PER_PROCESS)
        of_process = min(threads - process * THREADS_PER_PROCESS, THREADS_PER_PROCESS)
        yield FIRST_PROCESS + process, FIRST_THREAD + number, *names(process, rank, of_process)


def _size(directory: Path) -> int:
    """Return the bytes of the files in a directory, which need not exist yet."""
    return sum(file.stat().st_size for file in directory.glob("*"))


def export(target: Any, format: Format, shapes: Sequence[Shape], names: Names, amount: Amount) -> tuple[int, int]:
    """Write shapes in turn with the exporter of a format, on threads with these names; see `fxtio.synth.write`."""
    exporter: Any = format.exporter
    place: Any = Path(target) if format.directory else open_sink(target)
    written = 0

    def position() -> int:
        # The writer of a directory keeps blocks of each thread back.
        return max(_size(place), written * _SPAN_BYTES) if format.directory else int(place.position)

    def parts(registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        nonlocal written
        made = _Parts(registry, amount, names)
        yield made.definitions()
        for group, chunk in amount.chunks(shapes, made.groups, position):
            written += sum(map(len, chunk))
            yield made.part(group, chunk)

    timeline = Timeline("synthetic", format.name, parts)
    writing, _ = timeline.fold(lambda registry: exporter(place, registry), *exporter.TABLES)
    writing.finish()
    if not format.directory:
        place.close()
    return written, position()


class _Parts:
    """Converts the parts of shapes to those of a timeline.

    Args:
        registry: numbers threads, tracks and names.
        amount: how many threads there are.
        names: returns their names.

    Attributes:
        groups: the groups of threads.
    """

    def __init__(self, registry: Registry, amount: Amount, names: Names) -> None:
        self.groups = amount.groups()
        self._registry = registry
        threads, tracks = [], []
        for pid, tid, process_name, name in thread_names(amount.threads, names):
            registry.process(pid, process_name)
            threads.append(registry.thread(pid, tid, name))
            tracks.append(registry.thread_track(pid, tid))
        self._threads, self._tracks = np.array(threads), np.array(tracks)
        self._events = 0

    def definitions(self) -> TimelinePart:
        """Return the frames and stacks of samples and allocations."""
        names = np.array([self._registry.names.code(name) for name in FUNCTIONS])
        depth = np.zeros(len(PARENT), np.int32)
        for number, parent in enumerate(PARENT.tolist()):
            depth[number] = depth[parent] + 1 if parent >= 0 else 0
        tables: dict[str, dict[str, Any]] = {
            "frames": {"name": names, "module": -1, "file": -1, "line": -1, "address": 0},
            "stacks": {"parent": PARENT, "frame": FRAME, "depth": depth},
        }
        return TimelinePart(tables={name: self._registry.columns(name, rows) for name, rows in tables.items()})

    def part(self, group: int, parts: Sequence[Part]) -> TimelinePart:
        """Return the events and rows of a group of threads."""
        own = self.groups[group]
        threads = slice(own.first, own.first + own.width)
        result = TimelinePart()
        for rows in parts:
            if isinstance(rows, Rows):
                result.tables[rows.table] = self._registry.columns(rows.table, self._row_columns(rows, threads))
        made = [
            self._steps(events, threads) for events in parts if isinstance(events, Events) and events.kind in _STEPS
        ]
        if made:
            steps = Steps.joined([steps for steps, _ in made])
            result.steps = steps.take(np.argsort(steps.time, kind="stable"))
            args = {name: np.concatenate([args[name] for _, args in made]) for name in made[0][1]}
            order = np.argsort(args["event"], kind="stable")
            result.tables["args"] = self._registry.columns("args", {name: args[name][order] for name in args})
        return result

    def _row_columns(self, rows: Rows, threads: slice) -> dict[str, Any]:
        """Return the columns of a table of a timeline."""
        columns = {**rows.columns, "thread": self._threads[threads][rows.columns["thread"]]}
        time = columns.pop("ticks")
        match rows.table:
            case "logs":
                message = self._registry.names.column(self._registry.names.codes(columns.pop("message")))
                return {**columns, "time": time, "level": -1, "message": message}
            case "samples":
                return {**columns, "time": time, "cpu": -1, "count": 1, "unit": self._registry.names.code("samples")}
            case "allocations":
                return {**columns, "time": time, "type": self._codes((TYPES, columns["type"]), len(time))}
        return {**columns, "start": time, "event": -1}

    def _codes(self, names: Any, count: int) -> Array:
        """Return the codes of names: of one, or of a list and places in it."""
        values, places = ([names], np.zeros(count, np.int64)) if isinstance(names, str) else names
        result: Array = np.array([self._registry.names.code(value) for value in values], np.int32)[places]
        return result

    def _steps(self, events: Events, threads: slice) -> tuple[Steps, dict[str, Array]]:
        """Return events as steps, and their arguments as columns of `args`."""
        count, columns = len(events), events.columns
        steps = Steps.of(
            self._events,
            step=np.full(count, _STEPS[events.kind], np.int8),
            track=self._tracks[threads][events.thread].astype(np.int32),
            time=events.timestamp,
            end=columns.get("end", np.zeros(count, np.int64)),
            name=self._codes(events.name, count),
            category=self._codes(columns["category"], count),
        )
        self._events += count
        args: list[dict[str, Array]] = [_no_args()]
        for name, values in columns.get("args", {}).items():
            is_text = isinstance(values, str | tuple)
            kind = ArgumentKind.TEXT if is_text else ArgumentKind.INTEGER
            one = {
                "event": steps.event,
                "name": self._codes(name, count),
                "type": np.full(count, kind, np.int32),
                "bits": np.full(count, 0 if is_text else values, np.int64).view(np.uint64),
                "text": self._codes(values, count) if is_text else np.full(count, -1, np.int32),
            }
            args.append(one)
        return steps, {name: np.concatenate([one[name] for one in args]) for name in args[0]}


def _no_args() -> dict[str, Array]:
    return {name: np.empty(0, dtype) for name, dtype in number_types("args").items()}
