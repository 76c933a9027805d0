"""Flame graphs of bounded size: the longest slices in the order of time, calls by their callers, stacks with weights.

When there are too many slices while the trace is read, the shortest of them are left out.  A slice is never longer than
the one around it, so what is left is still nested.  Calls by their callers are a tree: the time of calls that are left
out counts as time of their caller, so that the width of all others is right.  Samples and allocations are added up by
their stacks; if the samples are few, each of them is kept, in the order of time.

What is written as speedscope JSON and has too many bytes is written again with fewer rows, the most important ones.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from fxtio.arrays import Array
from fxtio.exchange.speedscope import Exporter
from fxtio.html.contents import Flame, short
from fxtio.io.sink import Sink
from fxtio.report import counted, short_duration
from fxtio.table import Table, numbers_of
from fxtio.timeline.answers.stack_tree import StackCollector, StackTree
from fxtio.timeline.answers.tree import Nodes, SliceTree, depth_first
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.stacks import Stacks
from fxtio.timeline.sums import Sums

MAX_SLICES = 100_000
"""The most slices of a flame graph; twice as many are kept while a trace is read."""

MAX_TRACKS = 200
"""The most tracks of a flame graph."""

MAX_SAMPLES = 20_000
"""The most samples that are kept each by itself, in the order of time."""

MAX_PATHS = 100_000
"""The most paths of calls that are told apart."""

_MAX_WEIGHT = 1 << 50
"""The largest weight of a sample, so that sums do not overflow."""

_EVENT_SIZE: Final = len('{"type":"O","frame":0,"at":0},')
"""The fewest bytes of JSON of the start or end of a slice."""

_FRAME_SIZE: Final = len("0,")
"""The fewest bytes of JSON of a frame on a stack."""

_SPARE = 0.99
"""The part of the size that is aimed at, since names take bytes besides those of rows."""

_KEPT = ("id", "start", "duration", "self_time", "depth", "track", "name")


@dataclass(slots=True)
class Reduced:
    """A flame graph, and what it does not show.

    Attributes:
        flame: the flame graph.
        notes: sentences about what was left out.
        count: the number of slices, samples or allocations that are shown.
        total: the time of the outermost ones, or the weight.
        profiles: the number of tracks, or of other profiles.
    """

    flame: Flame
    notes: list[str]
    count: int
    total: int
    profiles: int = 1


def exported(title: str, registry: Registry, tables: Mapping[str, Table], *, unnamed: str = "samples") -> bytes:
    """Return tables as speedscope JSON.

    Args:
        title: the name of the file.
        registry: the names, threads and tracks of the tables.
        tables: the rows.
        unnamed: the title of samples without a thread.
    """
    stream = io.BytesIO()
    name = plain(short(title), Counter())
    exporter = Exporter(Sink(stream, owned=False), registry, name=name, unnamed=unnamed)
    exporter.enter(tables)
    exporter.finish()
    return stream.getvalue()


def fitting(least: Array, size: int, write: Callable[[int], bytes]) -> tuple[bytes, int]:
    """Return the JSON of the first rows, as many as have at most this many bytes, and their number.

    Args:
        least: the fewest bytes of each row, which bound what is tried.
        size: the most bytes.
        write: returns the JSON of the first rows, this many as are given.
    """
    kept = int(np.searchsorted(np.cumsum(least), size, "right"))
    while len(data := write(kept)) > size and kept:
        kept = min(kept - 1, int(kept * _SPARE * size / len(data)))
    return data, kept


class LongestSlices:
    """Keeps the longest slices of a reading; of equally long ones those with the lowest ids."""

    def __init__(self, registry: Registry) -> None:
        self.count = 0
        self._own_time = 0.0
        self._registry = registry
        self._waiting: list[dict[str, Array]] = []
        self._rows = 0
        self._shortest = 0  # shorter ones are certainly left out
        self._longest_missing = 0

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch."""
        if "slices" not in tables:
            return
        slices = tables["slices"]
        self.count += slices.num_rows
        self._own_time += float(slices["self_time"].sum(dtype=np.float64))
        columns = {name: numbers_of(slices[name]) for name in _KEPT}
        if self._shortest:
            is_kept = columns["duration"] >= self._shortest
            self._miss(columns["duration"][~is_kept])
            rows = np.flatnonzero(is_kept)
            columns = {name: column[rows] for name, column in columns.items()}
        self._waiting.append(columns)
        self._rows += len(columns["id"])
        if self._rows > 2 * MAX_SLICES:
            self._reduce(MAX_SLICES)

    def _joined(self) -> dict[str, Array]:
        if not self._waiting:
            return {name: np.empty(0, np.int64) for name in _KEPT}
        return {name: np.concatenate([part[name] for part in self._waiting]) for name in _KEPT}

    def _reduce(self, most: int) -> dict[str, Array]:
        """Keep only this many slices; return them, the longest first."""
        columns = self._joined()
        order = np.lexsort((columns["id"], -columns["duration"]))
        self._miss(columns["duration"][order[most:]])
        columns = {name: column[order[:most]] for name, column in columns.items()}
        self._waiting, self._rows = [columns], len(columns["id"])
        if self._rows == most:
            self._shortest = int(columns["duration"][-1])
        return columns

    def columns(self) -> dict[str, Array]:
        """Return the slices that are kept, the longest first: arrays of the columns of `slices`, names as codes."""
        return self._reduce(MAX_SLICES)

    def _miss(self, duration: Array) -> None:
        """Note the durations of slices that are left out."""
        self._longest_missing = max(self._longest_missing, int(duration.max(initial=0)))

    def flame(self, title: str, origin: int, size: int) -> Reduced:
        """Return the flame graph; there is at least one slice.

        Args:
            title: its title.
            origin: the time that is shown as 0, in nanoseconds.
            size: the most bytes of JSON.
        """
        columns = self._reduce(MAX_SLICES)
        notes = []
        missing, own = self.count - len(columns["id"]), self._own_time - _sum(columns["self_time"])
        tracks = self._longest_tracks(columns)
        if len(tracks) > MAX_TRACKS:
            rest = len(tracks) - MAX_TRACKS
            tracks = tracks[:MAX_TRACKS]
            rows = np.flatnonzero(np.isin(columns["track"], tracks))
            slices = len(columns["id"]) - len(rows)
            notes.append(f"The tracks on which the least runs are left out: {rest:,} with {counted(slices, 'slice')}.")
            columns = {name: column[rows] for name, column in columns.items()}
        names = self._registry.names.values
        texts = {code: short(names[code]) if code >= 0 else "" for code in np.unique(columns["name"]).tolist()}

        def written(most: int) -> bytes:
            longest = {name: column[:most] for name, column in columns.items()}
            return self._written(title, longest, tracks, texts, origin)

        data, kept = fitting(np.full(len(columns["id"]), 2 * _EVENT_SIZE), size, written)
        self._miss(columns["duration"][kept:])
        missing, own = missing + len(columns["id"]) - kept, own + _sum(columns["self_time"][kept:])
        if missing:
            longest, of_all = short_duration(self._longest_missing), missing / self.count
            of_time = max(own, 0.0) / self._own_time if self._own_time else 0.0
            left_out = f"{missing:,} of {self.count:,} ({of_all:.1%}), {of_time:.1%} of the time"
            notes.insert(0, f"The shortest slices, of at most {longest}, are left out: {left_out}.")
        columns = {name: column[:kept] for name, column in columns.items()}
        is_outermost = columns["depth"] == 0
        total = int(columns["duration"][is_outermost].sum())
        return Reduced(Flame(title, data, is_in_order=True), notes, kept, total, len(np.unique(columns["track"])))

    @staticmethod
    def _longest_tracks(columns: dict[str, Array]) -> list[int]:
        """Return the tracks, those whose outermost slices last longest in sum first."""
        distinct, place = np.unique(columns["track"], return_inverse=True)
        sums = np.zeros(len(distinct))
        is_outermost = columns["depth"] == 0
        np.add.at(sums, place[is_outermost], columns["duration"][is_outermost])
        order: list[int] = distinct[np.lexsort((distinct, -sums))].tolist()
        return order

    def _written(
        self, title: str, columns: dict[str, Array], tracks: Sequence[int], texts: dict[int, str], origin: int
    ) -> bytes:
        """Return the slices as speedscope JSON, the longest track first."""
        own = Registry()
        codes, place = np.unique(columns["name"], return_inverse=True)
        new_codes = np.array([own.names.code(texts[code]) for code in codes.tolist()], np.int32)
        new_tracks = _copied_tracks(self._registry, own, tracks)
        order = np.argsort(tracks)
        rows = own.columns(
            "slices",
            {
                **{name: columns[name] for name in ("id", "duration", "self_time", "depth")},
                "start": columns["start"] - origin,
                "parent": -1,
                "track": new_tracks[order[np.searchsorted(np.array(tracks)[order], columns["track"])]],
                "category": -1,
                "name": new_codes[place] if len(codes) else new_codes,
                "state": 0,
                "event": -1,
                "end_event": -1,
                "ticks": 0,
            },
        )
        return exported(title, own, {"slices": Table(rows)})


def _copied_tracks(registry: Registry, own: Registry, tracks: Sequence[int]) -> Array:
    """Make tracks of one registry in another one, in this order, with shortened names; return their rows there."""
    process_names, values = registry.process_names(), registry.names.values
    rows = []
    for number, track in enumerate(tracks):
        info = registry.track_info(track)
        name = process_names[info.process] if info.process >= 0 else -1
        process = own.process(info.pid, short(values[name]) if name >= 0 else None) if info.process >= 0 else -1
        thread = -1
        if info.thread >= 0:
            thread_name = registry.thread_info(info.thread).name
            thread = own.thread(info.pid, info.tid, short(thread_name) if thread_name else None)
        code = own.names.code(short(info.name)) if info.name else -1
        kind = TrackKind(info.kind)
        rows.append(own.track(kind, number, name=code, process=process, thread=thread, id=info.id))
    return np.array(rows, np.int32)


def _sum(column: Array) -> float:
    return float(column.sum(dtype=np.float64))


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
            rows = np.concatenate(self._single, axis=1)
            data, kept = self._fitting(title, tree, rows, size)
            if kept == rows.shape[1]:
                return Reduced(Flame(title, data), [], self.count, sum(rows[3].tolist()))
        merged = self._sums.table()
        rows = np.stack([merged[name] for name in ("unit", "thread", "stack", "weight")])
        rows = rows[:, np.lexsort((rows[2], rows[1], -rows[3]))]
        data, kept = self._fitting(title, tree, rows, size)
        notes = ["The order of time is not shown."] if self._what == "samples" else []
        total, missing = (sum(part.tolist()) for part in (rows[3, :kept], rows[3, kept:]))
        if kept < rows.shape[1]:
            left_out = f"{rows.shape[1] - kept:,} of {rows.shape[1]:,} stacks, {missing / (total + missing or 1):.1%}"
            notes.append(f"The stacks with the least weight are left out: {left_out} of the weight.")
        return Reduced(Flame(title, data), notes, self.count, total)

    def _fitting(self, title: str, tree: StackTree, rows: Array, size: int) -> tuple[bytes, int]:
        least = (tree.depth[rows[2]] + 1) * _FRAME_SIZE
        return fitting(least, size, lambda most: _stacked(title, self._registry, tree, rows[:, :most], self._what))


def _stacked(
    title: str, registry: Registry, tree: StackTree, rows: Array, what: str = "samples", *, unnamed: str = "samples"
) -> bytes:
    """Return weights of stacks as speedscope JSON.

    Args:
        title: the name of the file.
        registry: the names and threads.
        tree: the stacks.
        rows: the unit, thread, stack and weight of each row.
        what: `samples` or `allocations`.
        unnamed: the title of samples without a thread.
    """
    own, values, frames = Registry(), registry.names.values, tree.frames
    new = Stacks(own)

    @cache
    def frame(number: int) -> int:
        texts = (frames[column][number] for column in ("name", "file"))
        name, file = (None if text is None else short(text) for text in texts)
        return new.frame(name, None, file, int(frames["line"][number]), int(frames["address"][number]))

    @cache
    def thread(number: int) -> int:
        info = registry.thread_info(number)
        return own.thread(info.pid, info.tid, short(info.name) if info.name else None) if number >= 0 else -1

    copied = {-1: -1}
    for each in np.unique(rows[2]).tolist():
        around = []
        while each not in copied:
            around.append(each)
            each = int(tree.parent[each])
        stack = copied[each]
        for each in reversed(around):
            stack = copied[each] = new.on(stack, frame(int(tree.frame[each])))
    units = [own.names.code(short(values[code]) if code >= 0 else "samples") for code in rows[0].tolist()]
    common = {
        "time": np.zeros(rows.shape[1], np.int64),
        "thread": np.array([thread(each) for each in rows[1].tolist()], np.int32),
        "stack": np.array([copied[each] for each in rows[2].tolist()], np.int64),
    }
    tables: dict[str, Table] = {name: Table(columns) for name, columns in new.new_tables().items()}
    if what == "samples":
        columns = {**common, "cpu": -1, "count": rows[3], "unit": np.array(units, np.int32)}
    else:
        columns = {**common, "type": -1, "count": 1, "size": rows[3]}
    tables[what] = Table(own.columns(what, columns))
    return exported(title, own, tables, unnamed=unnamed)


class MergedCalls:
    """Merges the calls of all threads by the names of their callers; without any, other slices."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._calls, self._others = (SliceTree(registry, most=MAX_PATHS) for _ in range(2))

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the slices of a batch."""
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
        total = _bounded(nodes)
        used = np.flatnonzero(nodes.used)
        if not len(used):
            return None
        order = used[np.argsort(-total[used], kind="stable")]  # so that a parent is before its children

        def written(most: int) -> bytes:
            kept = order[:most]
            place = np.full(len(nodes.parent) + 1, -1, np.int64)  # the last item stands for the parent of a root
            place[kept] = np.arange(len(kept))
            parent, own = place[nodes.parent[kept]], total[kept]
            below = np.flatnonzero(parent >= 0)
            np.subtract.at(own, parent[below], total[kept[below]])
            own = np.maximum(own, 0)
            rows = np.array(depth_first(np.arange(len(kept)), parent), np.int64)
            rows = rows[own[rows] > 0]
            unit = self._registry.names.code("ns")
            columns = np.stack([np.full(len(rows), unit), np.full(len(rows), -1), rows, own[rows]])
            return _stacked(title, self._registry, self._tree_of(parent, nodes.code[kept]), columns, unnamed=unnamed)

        data, count = fitting((nodes.depth[order] + 1) * _FRAME_SIZE, size, written)
        kept, rest = order[:count], order[count:]
        missing = tree.lost + int(nodes.calls[rest].sum())
        notes = [f"The time of {counted(missing, 'call')} is shown only as time of their callers."] if missing else []
        whole = int(total[kept][nodes.parent[kept] < 0].sum())
        return Reduced(Flame(title, data), notes, int(nodes.calls[kept].sum()), whole)

    def _tree_of(self, parent: Array, code: Array) -> StackTree:
        """Return a tree whose stacks are nodes, and whose frames are the distinct names of nodes."""
        codes, frame = np.unique(code, return_inverse=True)
        values = {"name": codes.astype(np.int32), "module": -1, "file": -1, "line": -1, "address": 0}
        frames = Table(self._registry.columns("frames", values))
        return StackTree(Table({"parent": parent, "frame": frame}), frames)


def _bounded(nodes: Nodes) -> Array:
    """Return the time of each node, which is not more than that of its parent (int64)."""
    total = nodes.total.tolist()
    for node, parent in enumerate(nodes.parent.tolist()):
        if parent >= 0:
            total[node] = min(total[node], total[parent])
    return np.array(total, np.int64)
