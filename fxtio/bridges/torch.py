"""A trace of torch.profiler as a part of a recording; the source `torch` runs this in a process of its own.

Operators are on the tracks of the threads that ran them, among what the recording has of these.  Streams of GPUs, which
torch.profiler shows as threads of processes 0, 1 and so on, are further threads of the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import GOLDEN_RATIO
from fxtio.codec.generate import encode
from fxtio.exchange.opening import open_timeline
from fxtio.fxt.export import Exporter
from fxtio.fxt.records import ProviderSection
from fxtio.fxt.slots import NS_PER_SECOND
from fxtio.fxt.writer import FxtWriter
from fxtio.io.sink import Sink
from fxtio.shared_folders import replacing
from fxtio.table import numbers_of
from fxtio.timeline import Timeline
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.tracer.archive import Front

_FIRST_STREAM = 1_500_000_000
"""The first number of threads that the system does not have."""

_MAX_DEVICES = 1024
_FIRST_PROVIDER = 1 << 31
"""What is added to a process id for the id of a provider, so that it is not the one that the recording has."""


class Clock(NamedTuple):
    """Converts times of the wall clock to ticks of a recording, by two moments at which both were read.

    torch.profiler reads the wall clock when it starts and stops, so it does not matter how that was set before.

    Attributes:
        rate: ticks per second, as far as known.
        wall_ns: nanoseconds since the Unix epoch at tick 0.
        first_tick: the tick when torch.profiler started.
        first_ns: nanoseconds since the epoch at that moment.
        last_tick: the tick when it stopped.
        last_ns: nanoseconds since the epoch at that moment.
    """

    rate: int
    wall_ns: int
    first_tick: int
    first_ns: int
    last_tick: int
    last_ns: int

    def ticks(self, times: Array) -> Array:
        """Return the ticks of times in nanoseconds since the epoch (both int64); those before tick 0 are 0."""
        passed = self.last_ns - self.first_ns
        slope = (self.last_tick - self.first_tick) / passed if passed > 0 else self.rate / NS_PER_SECOND
        ticks = np.rint((times - self.first_ns) * slope).astype(np.int64) + self.first_tick
        result: Array = np.maximum(ticks, 0)
        return result


def main(source: str, part: str, pid: str, *clock: str) -> None:
    """Convert a trace, see `convert`; the last arguments are those of `Clock`."""
    convert(source, Path(part), int(pid), Clock(*map(int, clock)))


def convert(source: str, part: Path, pid: int, clock: Clock) -> None:
    """Write a trace of torch.profiler as a part of a recording.

    Args:
        source: the trace, as JSON.
        part: the part.
        pid: the process that both are about.
        clock: the clock of the recording.

    Raises:
        FxtioError: the source is no trace.
        OSError: it cannot be read, or the part cannot be written.
    """
    front = Front(_FIRST_PROVIDER + pid, "torch.profiler", clock.rate, clock.wall_ns)
    with open_timeline(source, format="chrome") as original, replacing(part) as fd, open(fd, "wb") as file:

        def begin(registry: Registry) -> _PartExporter:
            file.seek(0)
            file.truncate()  # where events turn out to be out of order, all is read and written once more
            return _PartExporter(Sink(file, owned=False), registry, front)

        _Placed(original, pid, clock).fold(begin, *Exporter.TABLES)[0].finish()
        file.seek(0)
        file.write(front.encode() + encode(ProviderSection(front.pid)))  # the same records, as recordings order them


class _PartExporter(Exporter):
    """Writes a part that begins with certain records."""

    def __init__(self, sink: Sink, registry: Registry, front: Front) -> None:
        super().__init__(sink, registry)
        self._front = front

    @cached_property
    def _writer(self) -> FxtWriter:
        number, name, rate, wall_ns = self._front
        return FxtWriter(self._sink, provider=name, provider_id=number, ticks_per_second=rate, wall_clock=wall_ns)


class _Placed(Timeline):
    """A timeline whose times are ticks of a recording."""

    def __init__(self, original: Timeline, pid: int, clock: Clock) -> None:
        super().__init__(original.name, original.format, self._placed_parts)
        self._original = original
        self._pid = pid
        self._clock = clock

    def _placed_parts(self, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
        salt = np.uint64(self._pid * GOLDEN_RATIO % 2**64)  # arrows of several processes have the same numbers
        own, ticks = _OneProcess(registry, self._pid), self._clock.ticks
        for part in self._original.parts(cast("Registry", own), tables):
            base = registry.wall_clock or 0  # earlier versions of torch write times since the epoch
            for columns in part.tables.values():
                if "time" in columns:
                    columns["time"] = ticks(numbers_of(columns["time"]) + base)
            if (steps := part.steps) is not None:
                time, end = ticks(steps.time + base), ticks(steps.end + base)
                numbers = np.where(steps.step == SpanStep.FLOW, steps.id ^ salt, steps.id)
                part = replace(part, steps=replace(steps, time=time, end=end, id=numbers))
            yield part


class _OneProcess:
    """A registry in which all threads belong to one process, whose names the recording knows better.

    Args:
        registry: the registry.
        pid: the process.
    """

    def __init__(self, registry: Registry, pid: int) -> None:
        self._registry = registry
        self._pid = pid
        self._streams: dict[tuple[int, int], int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def process(self, _pid: int, _name: str | None = None) -> int:
        """Return the row of the process, see `Registry.process`."""
        return self._registry.process(self._pid)

    def thread(self, pid: int, tid: int, name: str | None = None) -> int:
        """Return the row of a thread, see `Registry.thread`."""
        if pid == self._pid:
            return self._registry.thread(pid, tid)
        number = self._streams.setdefault((pid, tid), _FIRST_STREAM + len(self._streams))
        is_stream = 0 <= pid < _MAX_DEVICES
        return self._registry.thread(self._pid, number, f"stream {tid} of GPU {pid}" if is_stream else name)

    def thread_track(self, pid: int, tid: int) -> int:
        """Return the track of a thread, see `Registry.thread_track`."""
        thread = self.thread(pid, tid)
        return self._registry.thread_track(self._pid, self._registry.thread_info(thread).tid)
