"""Collapsed stacks: a line for each stack, its frames from the outermost on, separated by `;`, and its weight.

flamegraph.pl, inferno, py-spy (`--format raw`), speedscope and many others read or write this.  Frames may have a file
and a line as py-spy writes them: `name (file:line)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Any, ClassVar

import numpy as np

from fxtio.exchange.collect import UNKNOWN, StackExporter, StackTexts, label
from fxtio.exchange.lines import lines
from fxtio.io.source import Source
from fxtio.table import MAX_TIME, Table
from fxtio.timeline.losses import plain
from fxtio.timeline.parts import Registry, TimelinePart
from fxtio.timeline.stacks import MAX_FRAMES, Stacks

NOT_CARRIED = (
    "times; processes, threads and processors",
    "calls, categories, and arguments but the places of functions: of slices, only the own time of each stack, in ns",
    "the addresses and modules of frames; files of frames without a line",
    "semicolons and line breaks in names, which become colons and spaces",
    "samples in more than one unit, and allocations or slices beside samples",
    "instants, flows, counters, logs, scheduling",
)
"""The content of a timeline that a file does not have."""

_LINES = re.compile(rb"(?:[^\x00-\x08\n]+ \d+\r?\n)*[^\x00-\x08\n]*")
_LINE = re.compile(rb"(.*\S)\s+(\d{1,19})", re.DOTALL)
_FRAME = re.compile(r"(.+) \((.+):(\d{1,9})\)", re.DOTALL)
_BREAKS = str.maketrans({";": ":", **dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " ")})


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is of this format."""
    return b";" in head and not head.lstrip().startswith((b"{", b"[", b"<?", b"<!")) and bool(_LINES.fullmatch(head))


def parts(source: Source, registry: Registry, tables: Set[str]) -> Iterator[TimelinePart]:
    """Read a file piece by piece, and yield its stacks as samples without a time, see `fxtio.formats.TimelineRoom`."""
    stacks = Stacks(registry)
    frames = _Frames(stacks)
    unit = registry.names.code("samples")
    for piece in lines(source, registry.losses):
        numbers, weights = [], []
        for line in piece:
            match = _LINE.fullmatch(line.strip())
            if match is None:
                registry.losses["lines that are not a stack and its weight"] += bool(line.strip())
                continue
            stack = -1
            for text in match[1].split(b";"):
                stack = stacks.on(stack, frames[text])
            numbers.append(stack)
            weights.append(min(int(match[2]), MAX_TIME))
        if numbers:
            values: dict[str, Any] = {"stack": np.array(numbers, np.int32), "count": np.array(weights, np.int64)}
            columns = registry.columns("samples", {"time": 0, "thread": -1, "cpu": -1, **values, "unit": unit})
            yield TimelinePart(tables={**stacks.new_tables(), "samples": columns})


class _Frames(dict[bytes, int]):
    """The numbers of frames by their texts."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks

    def __missing__(self, text: bytes) -> int:
        name = text.decode("utf-8", "surrogateescape")
        match = _FRAME.fullmatch(name)
        stacks = self._stacks
        number = stacks.frame(match[1], file=match[2], line=int(match[3])) if match else stacks.frame(name)
        if len(self) < MAX_FRAMES:
            self[text] = number
        return number


class Exporter(StackExporter):
    """Writes a timeline as collapsed stacks, see `fxtio.formats.Exporter`.

    A file has weights of one kind: samples if there are any, else the own times of slices in ns, else the bytes
    of allocations.
    """

    LOST = (
        "slices.id",
        "slices.category",
        "samples.time",
        "samples.thread",
        "samples.cpu",
        "allocations.time",
        "allocations.thread",
        "allocations.type",
        "frames.module",
        "frames.address",
    )
    SUMS: ClassVar = {"samples": (("unit", "stack"), ("count",)), "allocations": (("stack",), ("size",))}

    def finish(self) -> None:
        """Write the file."""
        samples, allocations = (sums.table() for sums in self._sums.values())
        slices = self._slices.table()
        if samples.num_rows:
            self.losses["stacks of slices, beside samples"] += slices.num_rows
            self._write_samples(samples)
        elif slices.num_rows:
            own = self._slices.stacks.new_tables()
            frames = [self._places.with_place(row) for row in Table(own["frames"]).rows()]
            self._write(Table(own["stacks"]), frames, slices["stack"], slices["self_time"])
        if allocations.num_rows and (samples.num_rows or slices.num_rows):
            self.losses["stacks of allocations, beside samples or slices"] += allocations.num_rows
        elif allocations.num_rows:
            self._write(*self._tables(), allocations["stack"], allocations["size"])

    def _tables(self) -> tuple[Table, list[dict[str, Any]]]:
        return self._whole.table("stacks"), [*self._whole.table("frames").rows()]

    def _write_samples(self, samples: Table) -> None:
        """Write the samples of the most usual unit."""
        names = self._registry.names
        units = np.unique(samples["unit"]).tolist()
        unit = next((code for code in map(names.code, ("samples", "ns")) if code in units), units[0])
        is_written = samples["unit"] == unit
        self.losses[f"stacks of samples in units other than {names.values[unit]!r}"] += int((~is_written).sum())
        samples = samples.take(is_written)
        self._write(*self._tables(), samples["stack"], samples["count"])

    def _write(self, stacks: Table, frames: Iterable[dict[str, Any]], stack: Any, weight: Any) -> None:
        """Write a line for each stack; those with equal names are one."""
        texts = StackTexts(stacks, [self._label(row) for row in frames], self.losses)
        sums: Counter[str] = Counter()
        for number, value in zip(stack.tolist(), weight.tolist(), strict=True):
            if value > 0:
                sums[";".join(texts.frames(number)) or UNKNOWN] += value
            elif value < 0:
                self.losses["negative weights of stacks"] += 1
        for text in sorted(sums):
            self._sink.write(f"{text} {min(sums[text], MAX_TIME)}\n".encode())

    def _label(self, frame: dict[str, Any]) -> str:
        text = label(frame, self.losses)
        if frame["file"] and frame["line"] >= 0:
            text = f"{text} ({plain(frame['file'], self.losses)}:{frame['line']})"
        replaced = text.translate(_BREAKS).strip()
        self.losses["names with semicolons, line breaks, or spaces around them, which are replaced"] += replaced != text
        return replaced or UNKNOWN
