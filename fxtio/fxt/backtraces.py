"""The records of profilers as samples of a timeline: backtraces, whose frames are places in modules.

A frame is in the module that its process has mapped at the address; its address is then that in the module, which
does not depend on where the module was loaded.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import Record
from fxtio.fxt import records as r
from fxtio.fxt.batch_tables import BatchTables
from fxtio.fxt.state import Batch
from fxtio.fxt.tables import TABLES
from fxtio.table import Column
from fxtio.timeline.parts import Registry
from fxtio.timeline.stacks import Stacks

CLASSES = (r.ProfilerModule, r.ProfilerMmap, r.ProfilerBacktrace)
"""The records of profilers."""

MAX_MAPPINGS = 100_000
"""The most mappings, and the most modules, of all processes; the frames in further ones have no module."""

_TOO_MANY = f"modules and mappings beyond {MAX_MAPPINGS:,}"


class _Mappings:
    """The parts of the memory of a process to which modules are mapped; of several at an address, the latest counts."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._mappings: list[tuple[int, int, str | None]] = []  # the end, the address in the module, and its name

    def add(self, start: int, size: int, address: int, module: str | None) -> None:
        """Add a mapping; what it covers of earlier ones is not theirs any more."""
        end = start + size
        low = bisect_right(self._starts, start)
        if low and self._mappings[low - 1][0] > start:
            low -= 1
        high = low
        starts, mappings = [start], [(end, address, module)]
        while high < len(self._starts) and self._starts[high] < end:
            first, (last, place, name) = self._starts[high], self._mappings[high]
            if first < start:
                starts.insert(0, first)
                mappings.insert(0, (start, place, name))
            if last > end:
                starts.append(end)
                mappings.append((last, place + end - first, name))
            high += 1
        self._starts[low:high], self._mappings[low:high] = starts, mappings

    def find(self, address: int) -> tuple[str | None, int]:
        """Return the name of the module at an address, and the address in it; without a module, the address itself."""
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._mappings[place][0]:
            return None, address
        _, first, module = self._mappings[place]
        return module, (first + address - self._starts[place]) & MAX_UINT64


class Backtraces:
    """Turns the records of profilers into samples, batch by batch.

    Args:
        registry: numbers names and threads.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._stacks = Stacks(registry)
        self._modules: dict[tuple[int, int], str] = {}
        self._mappings: dict[int, _Mappings] = {}
        self._mapping_count = 0
        self._frames: dict[tuple[int, int], int] = {}  # by process and address

    def tables(self, batch: Batch) -> dict[str, dict[str, Column]]:
        """Return the samples of a batch, with the frames and stacks that are new."""
        tables, present = BatchTables(batch), batch.classes()
        steps: list[tuple[int, type[Record], tuple[Any, ...]]] = []
        if r.ProfilerModule in present:
            steps += _rows(tables, r.ProfilerModule, "modules", "process", "module", "name")
        if r.ProfilerMmap in present:
            steps += _rows(tables, r.ProfilerMmap, "mmaps", "process", "module", "address", "size", "vaddr")
        if r.ProfilerBacktrace in present:
            steps += _rows(tables, r.ProfilerBacktrace, "backtraces", "time", "process", "thread", "frames")
        frames = iter(_frame_addresses(tables) if r.ProfilerBacktrace in present else ())
        samples = []
        for _, cls, values in sorted(steps, key=lambda step: step[0]):
            if cls is r.ProfilerModule:
                self._add_module(*values)
            elif cls is r.ProfilerMmap:
                self._add_mapping(*values)
            else:
                at, process, koid, count = values
                stack = self._stack(process, [next(frames) for _ in range(count)])
                samples.append((at, self._registry.thread(process, koid), stack))
        result = self._stacks.new_tables()
        if samples:
            times, threads, numbers = zip(*samples, strict=True)
            unit = self._registry.names.code("samples")
            columns = {"time": times, "thread": threads, "stack": numbers, "cpu": -1, "count": 1, "unit": unit}
            result["samples"] = self._registry.columns("samples", columns)
        return result

    def _add_module(self, process: int, number: int, name: str) -> None:
        if len(self._modules) < MAX_MAPPINGS or (process, number) in self._modules:
            self._modules[process, number] = name
        else:
            self._registry.losses[_TOO_MANY] += 1

    def _add_mapping(self, process: int, number: int, start: int, size: int, address: int) -> None:
        if self._mapping_count >= MAX_MAPPINGS:
            self._registry.losses[_TOO_MANY] += 1
            return
        self._mapping_count += 1
        self._mappings.setdefault(process, _Mappings()).add(start, size, address, self._modules.get((process, number)))
        self._frames.clear()

    def _stack(self, process: int, addresses: list[int]) -> int:
        """Return the number of a stack whose innermost frame comes first."""
        stack = -1
        for address in reversed(addresses):
            frame = self._frames.get((process, address))
            if frame is None:
                frame = self._frames[process, address] = self._frame(process, address)
            stack = self._stacks.on(stack, frame)
        return stack

    def _frame(self, process: int, address: int) -> int:
        if len(self._frames) >= MAX_MAPPINGS:
            self._frames.clear()
        mappings = self._mappings.get(process)
        module, place = (None, address) if mappings is None else mappings.find(address)
        return self._stacks.frame(None, module, address=place)


def _rows(
    tables: BatchTables, cls: type[Record], table: str, *names: str
) -> list[tuple[int, type[Record], tuple[Any, ...]]]:
    """Return the row in the batch and some columns of each record of a class."""
    columns = TABLES[table].contribute(tables)
    values = [columns[name].tolist() for name in names]
    rows = tables.batch.columns(cls)[0].tolist()
    return [(row, cls, each) for row, each in zip(rows, zip(*values, strict=True), strict=True)]


def _frame_addresses(tables: BatchTables) -> list[int]:
    """Return the addresses of the frames of all backtraces."""
    addresses: list[int] = TABLES["frames"].contribute(tables)["address"].tolist()
    return addresses
