"""The content of whole profiles, gathered from a timeline: samples, allocations and slices with their frames.

The formats that store stacks share the texts of them, too: labels of frames, titles of threads and tracks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from fxtio.arrays import Array
from fxtio.io.sink import Sink
from fxtio.table import Table, numbers_of
from fxtio.timeline.answers.places import Place, Places, place_of
from fxtio.timeline.losses import LOST_ROWS, count_lost, plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.stacks import MAX_STACK_DEPTH, SliceStacks, WholeTables
from fxtio.timeline.sums import Sums

TextT = TypeVar("TextT", str, bytes)

OTHER_TABLES = ("args", "instants", "flow_points", "counters", "logs", "scheduling", "wakeups")
"""The tables beside those of stacks."""


class StackExporter(ABC):
    """The base of exporters of stacks, which write everything when the timeline ends, see `fxtio.formats.Exporter`.

    Attributes:
        LOST: the columns that the format does not have, as `table.column`; rows with a value in them are counted.
        KEPT: the tables that are kept as they are, see `WholeTables`.
        SUMS: the tables of which sums are kept: the columns of their keys and of their values, see `Sums`.  Slices are
            summed up by stack if there are any.
    """

    TABLES: ClassVar = ("slices", "samples", "allocations", "stacks", "frames", *OTHER_TABLES)
    WRITES_LABELS: ClassVar = False
    LOST: ClassVar[tuple[str, ...]]
    KEPT: ClassVar[Mapping[str, tuple[str, ...] | None]] = {"stacks": None, "frames": None}
    SUMS: ClassVar[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {}

    def __init__(self, sink: Sink, registry: Registry) -> None:
        self.losses: Counter[str] = Counter()
        self._sink = sink
        self._registry = registry
        self._whole = WholeTables(self.KEPT)
        self._slices = SliceStacks(registry)
        self._places = FramePlaces(registry, self.losses)
        self._sums = {name: Sums(*columns) for name, columns in self.SUMS.items()}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        count_lost(self.losses, tables, OTHER_TABLES)
        for column in self.LOST:
            table, _, name = column.partition(".")
            if table in tables:
                phrase, nothing = _COLUMNS[column]
                self.losses[phrase] += int(np.count_nonzero(numbers_of(tables[table][name]) != nothing))
        self._whole.enter(tables)
        self._places.enter(tables)
        if self.SUMS:
            self._slices.enter(tables)
        for name, (keys, values) in self.SUMS.items():
            if name in tables:
                columns = {column: numbers_of(tables[name][column]) for column in (*keys, *values)}
                self._sums[name].add(columns, tables[name].num_rows)

    @abstractmethod
    def finish(self) -> None:
        """Write the file."""


class FramePlaces:
    """The files and lines at which the functions of slices are defined, for formats whose frames have them.

    Args:
        registry: the registry of the reading.
        losses: the losses of the exporter, in which the arguments that become places do not count.
    """

    def __init__(self, registry: Registry, losses: Counter[str]) -> None:
        self._places = Places(registry)
        self._losses = losses
        self._found: dict[str, Place] | None = None

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        self._places.enter(tables)
        if "slices" in tables:
            self._losses[LOST_ROWS["args"]] -= self._places.note(tables["slices"])
        self._places.leave(tables)

    def with_place(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """Return the frame of a slice, a row of the table `frames`, with the file and the line of its function."""
        if self._found is None:
            self._found = self._places.found()
            self._losses[LOST_ROWS["args"]] += self._places.loose_parts
        place = place_of(frame["name"], self._found)
        return {**frame} if place is None else {**frame, "file": place.file, "line": place.line}


_COLUMNS = {
    "slices.id": ("slices, of which only sums by stack are left", -1),
    "slices.category": ("categories of slices", -1),
    "samples.time": ("times of samples", 0),
    "samples.thread": ("threads of samples", -1),
    "samples.cpu": ("processors of samples", -1),
    "allocations.time": ("times of allocations", 0),
    "allocations.thread": ("threads of allocations", -1),
    "allocations.type": ("classes of allocated objects", -1),
    "frames.module": ("modules of frames", -1),
    "frames.address": ("addresses of frames", 0),
}
"""For columns a phrase, and the value of rows without one."""


UNKNOWN = "[unknown]"
"""The label of a frame of which nothing is known."""


def label(frame: dict[str, Any], losses: Counter[str]) -> str:
    """Return the name of a frame, a row of the table `frames`; the address or `UNKNOWN` if it has none."""
    if frame["name"]:
        return plain(frame["name"], losses)
    return f"0x{frame['address']:x}" if frame["address"] else UNKNOWN


def thread_titles(tables: dict[str, Table], losses: Counter[str]) -> list[str]:
    """Return a title for each thread, from the tables `processes` and `threads` of a registry.

    Files without numbers of processes are read as the process 0, and their threads are counted.  The title of such a
    thread is its name alone, so that a file has the same titles when it was read and written again.
    """
    pids = tables["processes"]["pid"].tolist()
    processes = [_titled(row["name"], "process", row["pid"], losses) for row in tables["processes"].rows()]
    several = len(processes) > 1
    titles = []
    for row in tables["threads"].rows():
        is_counted = row["name"] and pids[row["process"]] == 0
        title = plain(row["name"], losses) if is_counted else _titled(row["name"], "thread", row["tid"], losses)
        titles.append(f"{processes[row['process']]} / {title}" if several else title)
    return titles


def track_titles(tables: dict[str, Table], losses: Counter[str]) -> list[str]:
    """Return a title for each track, from the tables `processes`, `threads` and `tracks` of a registry."""
    threads = thread_titles(tables, losses)
    return [
        threads[row["thread"]] if row["thread"] >= 0 else _titled(row["name"], row["kind"], row["id"], losses)
        for row in tables["tracks"].rows()
    ]


def _titled(name: str | None, kind: str, number: int, losses: Counter[str]) -> str:
    return f"{plain(name, losses)} ({number})" if name else f"{kind} {number}"


MAX_DEPTH = 1024
"""The most frames of a stack in formats that repeat all of them for each stack; deeper ones lose the innermost.

So a file has at most this number of times the frames of the trace.  It is the limit of Java's virtual machines, too.
"""


class StackTexts(Generic[TextT]):
    """The stacks of a timeline as texts, or as encoded numbers.

    Args:
        stacks: the table `stacks`, whole.
        frames: a text for each frame.
        losses: counts the stacks that are cut.
    """

    def __init__(self, stacks: Table, frames: Sequence[TextT], losses: Counter[str]) -> None:
        is_deep = stacks["depth"] >= MAX_DEPTH
        losses[f"stacks of more than {MAX_DEPTH:,} frames, of which the innermost are left out"] += int(is_deep.sum())
        result: Array = np.where(is_deep, stacks["parent"], np.arange(len(is_deep))).astype(np.int64)
        for _ in range(MAX_STACK_DEPTH.bit_length()):
            result = result[result]
        # For each stack itself, or that of its outermost `MAX_DEPTH` frames; a last item is for no stack.
        self._shallow: list[int] = [*result.tolist(), -1]
        self._parents, self._inner = stacks["parent"].tolist(), stacks["frame"].tolist()
        self._frames: Sequence[TextT] = frames

    def frames(self, stack: int) -> list[TextT]:
        """Return the texts of the frames of a stack, the outermost first; none for -1."""
        texts, stack = [], self._shallow[stack]
        while stack >= 0:
            texts.append(self._frames[self._inner[stack]])
            stack = self._parents[stack]
        return texts[::-1]
