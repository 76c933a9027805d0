"""Flame graphs of bounded size, as speedscope JSON.

Of slices, the longest are kept while the trace is read: when there are too many, the shortest of them are left out.  A
slice is never longer than the one around it, so what is left is still nested.  Of samples and allocations, each stack
is kept with its weight; if the samples are few, each of them is kept, in the order of time.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fxtio.exchange.speedscope import Exporter
from fxtio.html.cells import short
from fxtio.html.contents import Flame
from fxtio.io.sink import Sink
from fxtio.report import short_duration
from fxtio.table import Table
from fxtio.timeline.answers.stack_tree import StackCollector, StackTree
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind
from fxtio.timeline.stacks import Stacks, Sums

Array = np.ndarray[Any, Any]

MAX_SLICES = 100_000
"""The most slices of a flame graph; twice as many are kept while a trace is read."""

MAX_TRACKS = 200
"""The most tracks of a flame graph."""

MAX_SAMPLES = 20_000
"""The most samples that are kept each by itself, in the order of time."""

_FRAME_SIZE = 60
"""The most bytes of JSON of a frame, besides its texts."""

_PROFILE_SIZE = 400
"""The most bytes of JSON of a profile, besides its title and events."""

_EVENT_SIZE = len('{"type":"O","frame":,"at":},')
_HEAD_SIZE = 1_000
_ROWS = 10_000
_MAX_WEIGHT = 1 << 50
"""The largest weight of a sample, so that sums do not overflow."""


@dataclass(slots=True)
class Reduced:
    """A flame graph, and what it does not show.

    Attributes:
        flame: the flame graph.
        notes: sentences about what was left out.
        count: the number of slices, samples or allocations that are shown.
        total: their time or weight.
    """

    flame: Flame
    notes: list[str]
    count: int
    total: int


_KEPT = ("id", "start", "duration", "self_time", "depth", "track", "name")


class LongestSlices:
    """Keeps the longest slices of a reading; of equally long ones those with the lowest ids.

    Args:
        registry: the registry of the reading.
    """

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
        columns = {name: _numbers(slices[name]) for name in _KEPT}
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
        """Keep only so many slices; return them, the longest first."""
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

    def flame(self, title: str, origin: int, size: int) -> Reduced | None:
        """Return the flame graph, None without slices.

        Args:
            title: its title.
            origin: the time that is shown as 0, in nanoseconds.
            size: the most bytes of JSON.
        """
        if not self.count:
            return None
        columns = self._reduce(MAX_SLICES)
        notes = []
        missing, own = self.count - len(columns["id"]), self._own_time - _sum(columns["self_time"])
        tracks = self._longest_tracks(columns)
        if len(tracks) > MAX_TRACKS:
            rest = len(tracks) - MAX_TRACKS
            tracks = tracks[:MAX_TRACKS]
            rows = np.flatnonzero(np.isin(columns["track"], tracks))
            slices = len(columns["id"]) - len(rows)
            notes.append(f"The {rest:,} tracks on which the least runs are left out, with {slices:,} slices.")
            columns = {name: column[rows] for name, column in columns.items()}
        names = self._registry.names.values
        texts = {code: short(names[code]) if code >= 0 else "" for code in np.unique(columns["name"]).tolist()}
        fitting = int(np.searchsorted(np.cumsum(self._sizes(columns, texts, origin)), size - _HEAD_SIZE, "right"))
        self._miss(columns["duration"][fitting:])
        missing, own = missing + len(columns["id"]) - fitting, own + _sum(columns["self_time"][fitting:])
        if missing:
            longest, of_all = short_duration(self._longest_missing), missing / self.count
            of_time = max(own, 0.0) / self._own_time if self._own_time else 0.0
            left_out = f"{missing:,} of {self.count:,} ({of_all:.1%}), {of_time:.1%} of the time"
            notes.insert(0, f"The shortest slices, of at most {longest}, are left out: {left_out}.")
        columns = {name: column[:fitting] for name, column in columns.items()}
        data = self._written(title, columns, tracks, texts, origin)
        is_outermost = columns["depth"] == 0
        return Reduced(Flame(title, data), notes, fitting, int(columns["duration"][is_outermost].sum()))

    @staticmethod
    def _longest_tracks(columns: dict[str, Array]) -> list[int]:
        """Return the tracks, those whose outermost slices last longest in sum first."""
        distinct, place = np.unique(columns["track"], return_inverse=True)
        sums = np.zeros(len(distinct))
        is_outermost = columns["depth"] == 0
        np.add.at(sums, place[is_outermost], columns["duration"][is_outermost])
        order: list[int] = distinct[np.lexsort((distinct, -sums))].tolist()
        return order

    def _sizes(self, columns: dict[str, Array], texts: dict[int, str], origin: int) -> Array:
        """Return the most bytes of JSON that each slice takes in this order, with what it is the first to need."""
        latest = int((columns["start"] + columns["duration"]).max(initial=0)) - origin
        digits = len(str(latest)) + len(str(len(texts)))
        sizes = np.full(len(columns["id"]), 2 * (_EVENT_SIZE + digits), np.int64)
        codes, first = np.unique(columns["name"], return_index=True)
        sizes[first] += [_FRAME_SIZE + json_size(texts[code]) for code in codes.tolist()]
        tracks, first = np.unique(columns["track"], return_index=True)
        infos = [self._registry.track_info(track) for track in tracks.tolist()]
        processes = self._registry.process_names()
        values = self._registry.names.values
        for place, info in zip(first.tolist(), infos, strict=True):
            name = processes[info.process] if info.process >= 0 else -1
            parts = [info.name, values[name] if name >= 0 else None, self._thread_name(info.thread)]
            sizes[place] += _PROFILE_SIZE + sum(json_size(short(part)) for part in parts if part)
        return sizes

    def _thread_name(self, thread: int) -> str | None:
        return self._registry.thread_info(thread).name

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
        return _exported(title, own, {"slices": Table(rows)})


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

    def flame(self, title: str, size: int) -> Reduced | None:
        """Return the flame graph, None without rows.

        Args:
            title: its title.
            size: the most bytes of JSON.
        """
        if not self.count:
            return None
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
        left = size - _HEAD_SIZE
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
        return _PROFILE_SIZE + json_size(self._thread_name(thread)) + json_size(self._unit(unit))

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
        return _FRAME_SIZE + sum(json_size(text) for text in texts if text)

    def json(self, title: str, what: str) -> bytes:
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
        return _exported(title, own, tables)

    def _copied_thread(self, thread: int) -> int:
        if thread < 0:
            return -1
        info = self._registry.thread_info(thread)
        return self._own.thread(info.pid, info.tid, short(info.name) if info.name else None)


def _exported(title: str, registry: Registry, tables: Mapping[str, Table]) -> bytes:
    """Return tables as speedscope JSON."""
    stream = io.BytesIO()
    losses: Counter[str] = Counter()
    exporter = Exporter(Sink(stream, owned=False), registry, name=plain(short(title), losses))
    exporter.enter(tables)
    exporter.finish()
    return stream.getvalue()


def json_size(text: str) -> int:
    """Return the most bytes that a text takes in JSON in UTF-8."""
    return len(msgspec.json.encode(plain(text, Counter())))


def _sum(column: Array) -> float:
    return float(column.sum(dtype=np.float64))


def _numbers(column: Any) -> Array:
    codes: Array = getattr(column, "codes", column)
    return codes
