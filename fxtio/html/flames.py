"""The longest slices of a trace, in the order of time, as a flame graph of bounded size.

When there are too many slices while the trace is read, the shortest of them are left out.  A slice is never longer than
the one around it, so what is left is still nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fxtio.arrays import Array
from fxtio.html.cells import short
from fxtio.html.contents import Flame
from fxtio.html.profiles import EVENT_SIZE, FRAME_SIZE, HEAD_SIZE, PROFILE_SIZE, Reduced, exported, json_size
from fxtio.report import counted, short_duration
from fxtio.table import Table, numbers_of
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import TrackKind

MAX_SLICES = 100_000
"""The most slices of a flame graph; twice as many are kept while a trace is read."""

MAX_TRACKS = 200
"""The most tracks of a flame graph."""


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
        fitting = int(np.searchsorted(np.cumsum(self._sizes(columns, texts, origin)), size - HEAD_SIZE, "right"))
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
        total = int(columns["duration"][is_outermost].sum())
        return Reduced(Flame(title, data, is_in_order=True), notes, fitting, total, len(np.unique(columns["track"])))

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
        sizes = np.full(len(columns["id"]), 2 * (EVENT_SIZE + digits), np.int64)
        codes, first = np.unique(columns["name"], return_index=True)
        sizes[first] += [FRAME_SIZE + json_size(texts[code]) for code in codes.tolist()]
        tracks, first = np.unique(columns["track"], return_index=True)
        infos = [self._registry.track_info(track) for track in tracks.tolist()]
        processes = self._registry.process_names()
        values = self._registry.names.values
        for place, info in zip(first.tolist(), infos, strict=True):
            name = processes[info.process] if info.process >= 0 else -1
            parts = [info.name, values[name] if name >= 0 else None, self._thread_name(info.thread)]
            sizes[place] += PROFILE_SIZE + sum(json_size(short(part)) for part in parts if part)
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
