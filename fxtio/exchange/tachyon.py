"""The JSON lines of CPython's sampling profiler: how many samples each line of a program had.

`python -m profiling.sampling run --jsonl` writes this since CPython 3.15, in which the profiler is called Tachyon.
A file has strings, frames that refer to them, and sums of samples by frame.  It has no stacks, so a sample is a frame
alone, and the samples of what a frame called are lost.

https://docs.python.org/3.15/library/profiling.sampling.html
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import Any

import msgspec

from fxtio.exchange.json_columns import EMPTY, ROWS
from fxtio.exchange.json_events import UNREADABLE, items
from fxtio.exchange.lines import lines
from fxtio.io.source import Source
from fxtio.table import MAX_TIME
from fxtio.timeline.parts import MAX_NAMES, Registry, TimelinePart
from fxtio.timeline.stacks import MAX_FRAMES, Stacks

_STRINGS, _FRAMES = ("str_def", "string_table"), ("frame_def", "frame_table")
"""The types of lines that define something: those of version 1, and those of version 0, which CPython 3.15 writes."""

_UNREADABLE = "lines that cannot be read, or not to their end"


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    line = head.lstrip().partition(b"\n")[0]
    return line.startswith(b"{") and b'"run_id"' in line and b'"sample_interval_usec"' in line


class _Line(msgspec.Struct):
    type: str
    defs: msgspec.Raw = EMPTY
    strings: msgspec.Raw = EMPTY
    frames: msgspec.Raw = EMPTY
    entries: msgspec.Raw = EMPTY


class _String(msgspec.Struct, gc=False):
    str_id: int
    value: str


class _Frame(msgspec.Struct, gc=False):
    frame_id: int
    path_str_id: Any = None
    func_str_id: Any = None
    line: Any = None


class _Entry(msgspec.Struct, gc=False):
    frame_id: int
    self: int = 0
    cumulative: int = 0


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file line by line, and yield the sums as samples without a time, see `fxtio.formats.TimelineRoom`."""
    reader = _Reader(registry)
    for piece in lines(source, registry.losses):
        for text in piece:
            if not text.strip():
                continue
            try:
                yield from reader.line(msgspec.json.decode(text, type=_Line))
            except UNREADABLE:
                registry.losses[_UNREADABLE] += 1
    registry.losses["the end, which is missing"] += not reader.has_end


class _Reader:
    """The strings and frames so far.

    Attributes:
        has_end: whether the latest line is the last one of a profile.
    """

    def __init__(self, registry: Registry) -> None:
        self.has_end = False
        self._registry = registry
        self._losses = registry.losses
        self._stacks = Stacks(registry)
        self._strings: dict[int, str] = {}
        self._frames: dict[int, int] = {}  # the stack of each frame alone

    def line(self, line: _Line) -> Iterator[TimelinePart]:
        """Take a line, and yield its samples."""
        self.has_end = line.type == "end"
        if line.type == "meta":  # a file may have several profiles, one after the other
            self._strings, self._frames = {}, {}
        elif line.type in _STRINGS:
            for array in (line.defs, line.strings):
                for string in items(array, _String):
                    self._define(self._strings, string.str_id, string.value, MAX_NAMES)
        elif line.type in _FRAMES:
            for array in (line.defs, line.frames):
                for frame in items(array, _Frame):
                    self._define(self._frames, frame.frame_id, self._stack(frame), MAX_FRAMES)
        elif line.type == "agg":
            entries = items(line.entries, _Entry)
            while piece := [*islice(entries, ROWS)]:
                yield from self._samples(piece)
        elif line.type != "end":
            self._losses[f"lines of the type {line.type[:16]!r}"] += 1

    def _define(self, known: dict[int, Any], number: int, value: Any, limit: int) -> None:
        if len(known) < limit:
            known[number] = value
        else:
            self._losses[f"strings and frames beyond {limit:,}"] += 1

    def _stack(self, frame: _Frame) -> int:
        name, path = (
            self._strings.get(each) if type(each) is int else None for each in (frame.func_str_id, frame.path_str_id)
        )
        line = frame.line if type(frame.line) is int and 0 < frame.line < 1 << 31 else -1  # what CPython adds has none
        return self._stacks.on(-1, self._stacks.frame(name, file=path, line=line))

    def _samples(self, entries: list[_Entry]) -> Iterator[TimelinePart]:
        rows = [
            (self._frames.get(entry.frame_id, -1), min(entry.self, MAX_TIME)) for entry in entries if entry.self > 0
        ]
        self._losses["samples of what frames called"] += sum(
            min(max(entry.cumulative - max(entry.self, 0), 0), MAX_TIME) for entry in entries
        )
        self._losses["frames of samples that are not defined"] += sum(stack < 0 for stack, _ in rows)
        if rows:
            unit = self._registry.names.code("samples")
            columns = self._registry.columns_of_rows(
                "samples", rows, ("stack", "count"), time=0, thread=-1, cpu=-1, unit=unit
            )
            yield TimelinePart(tables={**self._stacks.new_tables(), "samples": columns})
