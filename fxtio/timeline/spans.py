"""Samples as spans, for formats that show nothing but events on tracks.

The samples of a thread become spans on a track of their own: a function spans all consecutive samples that have it, up
to the next sample without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.table import Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.replay import Events
from fxtio.timeline.schema import TrackKind

TABLES = ("samples", "stacks", "frames")
"""The tables that spans are made of."""

_WEIGHTS = "weights and processors of samples, which are spans from one sample to the next now"
_UNTIMED = "samples without a time"

_MAX_CHAINS = 100_000

_FIRST_ID = 1 << 31
"""Ids of tracks of spans, which should differ from those of async operations."""


@dataclass(slots=True)
class _Stack:
    """The functions of a thread that are open as spans.

    Attributes:
        track: the track.
        functions: the codes of their names, the outermost first.
        latest: the time of the latest sample.
    """

    track: int
    functions: list[int]
    latest: int


class Chains:
    """The names of the functions of each stack."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._chains: dict[int, list[int]] = {-1: []}
        self._parents: list[int] = []
        self._frames: list[int] = []
        self._frame_names: list[int] = []
        self._unknown = registry.names.code("(unknown)")

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the frames and stacks of a batch."""
        if "frames" in tables:
            frames = tables["frames"]
            for name, address in zip(frames["name"].codes.tolist(), frames["address"].tolist(), strict=True):
                missing = self._registry.names.code(f"{address:#x}") if address else self._unknown
                self._frame_names.append(missing if name < 0 else name)
        if "stacks" in tables:
            stacks = tables["stacks"]
            self._parents += stacks["parent"].tolist()
            self._frames += stacks["frame"].tolist()

    def names(self, stack: int) -> list[int]:
        """Return the codes of the names of the functions of a stack, the outermost first.

        A function without a name has its address as name.
        """
        chain = self._chains.get(stack)
        if chain is None:
            missing = []
            while stack not in self._chains:
                missing.append(stack)
                stack = self._parents[stack]
            for each in reversed(missing):
                chain = [*self._chains[stack], self._frame_names[self._frames[each]]]
                if len(self._chains) > _MAX_CHAINS:
                    self._chains = {-1: []}
                self._chains[each] = chain
                stack = each
        assert chain is not None
        return chain


class Spans:
    """Turns samples into events, batch by batch.

    Args:
        registry: the names, threads and tracks; gets a track for each thread with samples.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._stacks: dict[int, _Stack] = {}
        self._chains = Chains(registry)
        self._weights = 0
        self._untimed = 0

    def enter(self, tables: Mapping[str, Table]) -> Events | None:
        """Return the events of a batch, None if there are none."""
        rows: list[tuple[int, int, int, int, int]] = []
        self._chains.enter(tables)
        if "samples" in tables:
            self._sample(tables["samples"], rows)
        return _events(rows) if rows else None

    def finish(self) -> Events | None:
        """Return the ends of all functions that are still open."""
        rows: list[tuple[int, int, int, int, int]] = []
        for stack in self._stacks.values():
            self._leave(stack, 0, stack.latest, rows)
        return _events(rows) if rows else None

    def note_losses(self, losses: Counter[str]) -> None:
        """Add what the spans do not show."""
        losses[_WEIGHTS] += self._weights
        losses[_UNTIMED] += self._untimed

    def _sample(self, samples: Table, rows: list[tuple[int, int, int, int, int]]) -> None:
        self._weights += int(((samples["count"] != 1) | (samples["cpu"] >= 0)).sum())
        for time, thread, stack in zip(*(samples[name].tolist() for name in ("time", "thread", "stack")), strict=True):
            if time <= 0:
                self._untimed += 1
                continue
            spans = self._stacks.get(thread)
            if spans is None:
                spans = self._stacks[thread] = _Stack(self._track(thread), [], time)
            time = max(time, spans.latest)
            chain = self._chains.names(stack)
            common = _common(spans.functions, chain)
            self._leave(spans, common, time, rows)
            rows += [(SpanStep.BEGIN, spans.track, time, time, name) for name in chain[common:]]
            spans.functions, spans.latest = chain, time

    def _leave(self, stack: _Stack, common: int, time: int, rows: list[tuple[int, int, int, int, int]]) -> None:
        rows += [(SpanStep.END, stack.track, time, time, name) for name in reversed(stack.functions[common:])]

    def _track(self, thread: int) -> int:
        info = self._registry.thread_info(thread)
        label = self._registry.names.code(f"samples of {info.name}" if info.name else "samples")
        number = _FIRST_ID + thread + 1
        return self._registry.track(TrackKind.ASYNC, ("samples", thread), name=label, process=info.process, id=number)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many numbers two lists begin with in common: few steps, however long they are."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _events(rows: list[tuple[int, int, int, int, int]]) -> Events:
    step, track, time, end, name = np.array(rows, np.int64).T
    count = len(rows)
    nothing = np.full(count, -1, np.int64)
    events = Events(
        step.astype(np.int8), track.astype(np.int32), time, end, name.astype(np.int32), np.full(count, -1, np.int32),
        nothing, nothing, np.zeros(count, np.uint64), np.zeros(count, np.int8), nothing,
    )  # fmt: skip
    return events.take(np.argsort(time, kind="stable"))


def merged(*parts: Events | None) -> Events | None:
    """Join events of different tracks in the order of time."""
    present = [part for part in parts if part is not None]
    if len(present) < 2:
        return present[0] if present else None
    joined = Events.joined(present)
    return joined.take(np.argsort(joined.time, kind="stable"))
