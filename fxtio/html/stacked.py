"""Flame graphs of stacks with weights, of bounded size: samples, allocations, and calls merged by their callers.

Each stack is kept with its weight; if the samples are few, each of them is kept, in the order of time.  Calls are a
tree.  The time of calls that are left out counts as time of their caller, so that the width of all others is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fxtio.arrays import Array
from fxtio.html.cells import short
from fxtio.html.contents import Flame
from fxtio.html.profiles import FRAME_SIZE, HEAD_SIZE, PROFILE_SIZE, Reduced, exported, json_size
from fxtio.report import counted
from fxtio.selection import Selection
from fxtio.table import Table
from fxtio.timeline.answers.labels import text_of
from fxtio.timeline.answers.rows import Chosen
from fxtio.timeline.answers.stack_tree import StackCollector, StackTree
from fxtio.timeline.answers.tree import Nodes, SliceTree
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.stacks import Stacks, Sums

MAX_SAMPLES = 20_000
"""The most samples that are kept each by itself, in the order of time."""

MAX_PATHS = 100_000
"""The most paths of calls that are told apart."""

_ROWS = 10_000
_MAX_WEIGHT = 1 << 50
"""The largest weight of a sample, so that sums do not overflow."""


class MergedStacks:
    """Adds up samples or allocations by thread and stack.

    Args:
        what: `samples` or `allocations`.
        registry: the registry of the reading.
    """

    def __init__(self, what: str, registry: Registry) -> None:
        self.count = 0
        self._what = what
        self._registry = registry
        self._stacks = StackCollector()
        self._sums = Sums(("unit", "thread", "stack"), ("weight",))
        self._single: list[Array] | None = []  # while they are few: unit, thread, stack, weight of each

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the samples or allocations of a batch, and stacks."""
        self._stacks.enter(tables)
        if self._what not in tables:
            return
        rows = tables[self._what]
        count = rows.num_rows
        self.count += count
        is_sampled = self._what == "samples"
        unit = rows["unit"].codes if is_sampled else np.full(count, -1)
        weight = np.clip(rows["count" if is_sampled else "size"], 0, _MAX_WEIGHT)
        columns = {"unit": unit, "thread": rows["thread"], "stack": rows["stack"], "weight": weight}
        self._sums.add(columns, count)
        if self._single is not None:
            self._single.append(np.stack([column.astype(np.int64) for column in columns.values()]))
            if not is_sampled or self.count > MAX_SAMPLES:
                self._single = None

    def flame(self, title: str, size: int) -> Reduced:
        """Return the flame graph; there is at least one row.

        Args:
            title: its title.
            size: the most bytes of JSON.
        """
        tree = self._stacks.finish()
        if self._single is not None:
            every = np.concatenate(self._single, axis=1)
            written = _Stacked(self._registry, tree, every, size)
            if not written.left_out:
                return Reduced(Flame(title, written.json(title, self._what)), [], self.count, written.total)
        merged = self._sums.table()
        rows = np.stack([merged[name] for name in ("unit", "thread", "stack", "weight")])
        rows = rows[:, np.lexsort((rows[2], rows[1], -rows[3]))]
        written = _Stacked(self._registry, tree, rows, size)
        notes = ["The order of time is not shown."] if self._what == "samples" else []
        if written.left_out:
            share = written.missing / ((written.total + written.missing) or 1)
            left_out = f"{written.left_out:,} of {rows.shape[1]:,} stacks"
            notes.append(f"The stacks with the least weight are left out: {left_out}, {share:.1%} of the weight.")
        return Reduced(Flame(title, written.json(title, self._what)), notes, self.count, written.total)


class _Stacked:
    """Rows of stacks with weights that fit a size.

    Attributes:
        total: the weight of the rows that fit.
        left_out: the number of the others.
        missing: their weight.
    """

    def __init__(self, registry: Registry, tree: StackTree, rows: Array, size: int) -> None:
        self.total = self.left_out = self.missing = 0
        self._registry = registry
        self._tree = tree
        self._own = Registry()
        self._new = Stacks(self._own)
        self._frame_of: dict[int, int] = {}
        self._profiles: set[tuple[int, int]] = set()
        self._rows: list[tuple[int, int, int, int]] = []
        left = size - HEAD_SIZE
        for first in range(0, rows.shape[1], _ROWS):
            for unit, thread, stack, weight in rows[:, first : first + _ROWS].T.tolist():
                frames, needed = self._frames(stack, left)
                left -= needed + len(str(weight)) + 4 + self._profile(unit, thread)
                if left < 0:
                    break
                self._rows.append((unit, thread, self._new.stack(reversed(frames)), weight))
                self.total += weight
            if left < 0:
                self.left_out = rows.shape[1] - len(self._rows)
                self.missing = int(rows[3, len(self._rows) :].sum(dtype=np.float64))
                break

    def _frames(self, stack: int, size: int) -> tuple[list[int], int]:
        """Return the frames of a stack, the innermost first, and the most bytes of JSON that they take.

        A stack that takes more than `size` is not followed to its end.
        """
        frames: list[int] = []
        needed = 0
        while stack >= 0 and needed <= size:
            frame = int(self._tree.frame[stack])
            if frame not in self._frame_of:
                needed += self._take_frame(frame)
            frames.append(self._frame_of[frame])
            needed += len(str(frames[-1])) + 1
            stack = int(self._tree.parent[stack])
        return frames, needed

    def _profile(self, unit: int, thread: int) -> int:
        """Return the most bytes of JSON that the head of a profile takes, if it is new."""
        if (unit, thread) in self._profiles:
            return 0
        self._profiles.add((unit, thread))
        return PROFILE_SIZE + json_size(self._thread_name(thread)) + json_size(self._unit(unit))

    def _thread_name(self, thread: int) -> str:
        return short(self._registry.thread_info(thread).name or "")

    def _unit(self, code: int) -> str:
        return short(self._registry.names.values[code]) if code >= 0 else "samples"

    def _take_frame(self, number: int) -> int:
        """Copy a frame; return the most bytes of JSON that it takes."""
        frames = self._tree.frames
        name, file = (frames[column][number] for column in ("name", "file"))
        line, address = int(frames["line"][number]), int(frames["address"][number])
        texts = [None if text is None else short(text) for text in (name, file)]
        self._frame_of[number] = self._new.frame(texts[0], None, texts[1], line, address)
        return FRAME_SIZE + sum(json_size(text) for text in texts if text)

    def json(self, title: str, what: str, *, unnamed: str = "samples") -> bytes:
        """Return the rows as speedscope JSON."""
        own = self._own
        threads = np.array([self._copied_thread(row[1]) for row in self._rows], np.int32)
        stack, weight = (np.array([row[place] for row in self._rows], np.int64) for place in (2, 3))
        tables: dict[str, Table] = {name: Table(columns) for name, columns in self._new.new_tables().items()}
        common = {"time": np.zeros(len(stack), np.int64), "thread": threads, "stack": stack}
        if what == "samples":
            units = np.array([own.names.code(self._unit(row[0])) for row in self._rows], np.int32)
            tables[what] = Table(own.columns(what, {**common, "cpu": -1, "count": weight, "unit": units}))
        else:
            tables[what] = Table(own.columns(what, {**common, "type": -1, "count": 1, "size": weight}))
        return exported(title, own, tables, unnamed=unnamed)

    def _copied_thread(self, thread: int) -> int:
        if thread < 0:
            return -1
        info = self._registry.thread_info(thread)
        return self._own.thread(info.pid, info.tid, short(info.name) if info.name else None)


class MergedCalls:
    """Merges the calls of all threads by the names of their callers; without any, other slices.

    Args:
        registry: the registry of the reading.
        selection: the part of the trace.
        subset: the tracks that are selected, None for all.
    """

    def __init__(self, registry: Registry, selection: Selection, subset: Chosen | None) -> None:
        self._registry = registry
        self._calls, self._others = (SliceTree(registry, selection, subset, most=MAX_PATHS) for _ in range(2))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take all slices of a batch, whatever is selected."""
        if "slices" not in tables:
            return
        slices = tables["slices"]
        is_call = self._registry.track_kinds(slices["track"]) == TrackKind.THREAD
        self._calls.enter(slices.take(is_call))
        self._others.enter(slices.take(~is_call))

    def flame(self, title: str, size: int) -> Reduced | None:
        """Return the flame graph, None without slices.

        Args:
            title: its title.
            size: the most bytes of JSON.
        """
        tree, unnamed, nodes = self._calls, "all threads", self._calls.finish()
        if not nodes.count:
            tree, unnamed, nodes = self._others, "all tracks", self._others.finish()
        total, depth = _bounded(nodes)
        used = np.flatnonzero(nodes.used)
        if not len(used):
            return None
        order = used[np.argsort(-total[used], kind="stable")]  # so that a parent stands before its children
        kept = order[: self._fitting(nodes, depth, order, size)]
        missing = tree.lost + int(nodes.calls[order[len(kept) :]].sum())
        place = np.full(len(nodes.parent) + 1, -1, np.int64)  # the last item stands for the parent of a root
        place[kept] = np.arange(len(kept))
        parent, own = place[nodes.parent[kept]], total[kept]
        below = np.flatnonzero(parent >= 0)
        np.subtract.at(own, parent[below], total[kept[below]])
        own = np.maximum(own, 0)
        rows = np.array([row for row in _depth_first(parent.tolist()) if own[row]], np.int64)
        unit = self._registry.names.code("ns")
        columns = np.stack([np.full(len(rows), unit), np.full(len(rows), -1), rows, own[rows]])
        written = _Stacked(self._registry, self._tree_of(parent, nodes.code[kept]), columns, size)
        notes = [f"The time of {counted(missing, 'call')} is shown only as time of their callers."] if missing else []
        data = written.json(title, "samples", unnamed=unnamed)
        return Reduced(Flame(title, data), notes, int(nodes.calls[kept].sum()), written.total)

    def _fitting(self, nodes: Nodes, depth: Array, order: Array, size: int) -> int:
        """Return how many nodes fit a size, in this order."""
        values = self._registry.names.values
        codes, first = np.unique(nodes.code[order], return_index=True)
        digits = len(str(len(codes))) + 1
        sizes = (depth[order] + 1) * digits + len(str(int(nodes.total.max(initial=0)))) + 4
        sizes[first] += [FRAME_SIZE + json_size(short(text_of(values, code))) for code in codes.tolist()]
        return int(np.searchsorted(np.cumsum(sizes), size - HEAD_SIZE - PROFILE_SIZE, "right"))

    def _tree_of(self, parent: Array, code: Array) -> StackTree:
        """Return a tree whose stacks are nodes, and whose frames are the distinct names of nodes."""
        codes, frame = np.unique(code, return_inverse=True)
        values = {"name": codes.astype(np.int32), "module": -1, "file": -1, "line": -1, "address": 0}
        frames = Table(self._registry.columns("frames", values))
        return StackTree(Table({"parent": parent, "frame": frame}), frames)


def _bounded(nodes: Nodes) -> tuple[Array, Array]:
    """Return the time of each node, which is not more than that of its parent, and its depth (int64)."""
    total, depth = nodes.total.tolist(), [0] * len(nodes.parent)
    for node, parent in enumerate(nodes.parent.tolist()):
        if parent >= 0:
            total[node], depth[node] = min(total[node], total[parent]), depth[parent] + 1
    return np.array(total, np.int64), np.array(depth, np.int64)


def _depth_first(parents: list[int]) -> Iterator[int]:
    """Yield nodes, each before its children, and these in their order; `parents` has the parent of each, or -1."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    waiting = children.get(-1, [])[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += children.get(node, [])[::-1]
