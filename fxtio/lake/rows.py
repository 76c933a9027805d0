"""The rows of a lake, made of those of a timeline: each has the names of its trace, process, thread and track."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fxtio.arrays import Array
from fxtio.exchange.collect import label
from fxtio.exchange.table_files import ParquetExporter
from fxtio.lake.layout import TABLES
from fxtio.table import Categories, Column, Table
from fxtio.timeline.parts import Registry
from fxtio.timeline.schema import WHOLE_KINDS, ArgumentKind

MAX_STACK_TEXT = 16_384
"""The most characters of the text of a stack; outer frames are left out of longer ones."""

MAX_STACK_TEXTS = 16_777_216
"""The most characters of the texts of all stacks of a trace; further stacks have no text."""


MAX_NAMES, MAX_NAME_CHARACTERS = 1_000, 32_768
"""The most names of slices, and the most characters of all of them, that the row about a trace has."""


class LakeExporter(ParquetExporter):
    """Writes a Parquet file for each table of a lake, see `fxtio.formats.Exporter`.

    Args:
        sink: the folder of the files.
        registry: the registry of the reading.
        identity: the id of the trace.
        known: a registry of an earlier reading, whose processes and threads have all of their names.

    Attributes:
        folder: the folder of the files.
        counts: the number of rows of each table.
        start: the first time of an event (ns), None without events.
        end: the last one.
    """

    DECLARED: ClassVar = TABLES
    HAS_EMPTY_FILES: ClassVar = False
    TABLES: ClassVar = (*TABLES, "frames", "stacks")

    def __init__(self, sink: Any, registry: Registry, identity: str, known: Registry | None = None) -> None:
        super().__init__(sink, registry)
        self.folder = Path(sink)
        self.counts: Counter[str] = Counter()
        self.start: int | None = None
        self.end = 0
        self._identity = [identity]  # one list for all batches, or each would have a value of its own
        self._places = _Places(known or registry)
        self._stacks = _StackTexts(self.losses)

    @property
    def is_named(self) -> bool:
        """Whether all rows have the names that their threads, processes and tracks have in the end."""
        return self._places.is_current(self._registry)

    @property
    def names(self) -> list[str] | None:
        """The names of slices, in the order of their numbers in the trace; None if they are many."""
        names = self._groups["slices"].values("name")
        return [*names] if len(names) <= MAX_NAMES and sum(map(len, names)) <= MAX_NAME_CHARACTERS else None

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Write the rows of a batch, or keep them until they are a group."""
        self._stacks.enter(tables)
        self._places.update()
        rows = {name: Table(self._columns(name, tables[name])) for name in TABLES if name in tables}
        for name, table in rows.items():
            self.counts[name] += table.num_rows
        self._note_times(tables)
        super().enter(rows)

    def _note_times(self, tables: Mapping[str, Table]) -> None:
        for table in tables.values():
            name = next((each for each in ("start", "time") if each in table), None)
            if name is None or not table.num_rows:
                continue
            start, end = table[name], table[name] + table["duration"] if "duration" in table else table[name]
            self.start = min(int(start.min()), int(start.min()) if self.start is None else self.start)
            self.end = max(self.end, int(end.max()))

    def _columns(self, name: str, table: Table) -> dict[str, Column]:
        """Return the columns of the rows of a table."""
        trace = Categories(np.zeros(table.num_rows, np.int32), self._identity)
        columns: dict[str, Column] = {"trace": trace, **dict(table.items())}
        if "track" in columns:
            columns |= self._places.of_tracks(table["track"])
        elif "thread" in columns:
            columns |= self._places.of_threads(table["thread"])
        if name == "args":
            columns |= _values(table)
        if name == "samples":
            columns |= self._stacks.columns(table["stack"])
        return {each: columns[each] for each in TABLES[name]}


class _StackTexts:
    """The stacks of a timeline, which grow from batch to batch, as texts.

    Args:
        losses: counts the stacks that are cut, and those without a text.
    """

    def __init__(self, losses: Counter[str]) -> None:
        self._losses = losses
        self._frames: list[str] = []
        self._stacks: list[tuple[int, int]] = []  # the outer stack and the innermost frame of each
        self._functions: list[str] = []
        self._texts: list[str] = []
        self._codes: dict[int, tuple[int, int]] = {-1: (-1, -1)}  # by stack, those of its function and its text
        self._function_codes: dict[str, int] = {}
        self._left = MAX_STACK_TEXTS

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the frames and stacks of a batch."""
        if "frames" in tables:
            self._frames += [label(frame, self._losses) for frame in tables["frames"].rows()]
        if "stacks" in tables:
            stacks = tables["stacks"]
            self._stacks += zip(stacks["parent"].tolist(), stacks["frame"].tolist(), strict=True)

    def columns(self, stacks: Array) -> dict[str, Column]:
        """Return the innermost function, and all functions, of the stacks of rows, -1 for none."""
        used, place = np.unique(stacks, return_inverse=True)
        codes = np.array([self._code(stack) for stack in used.tolist()], np.int32).reshape(-1, 2)
        functions, texts = codes[:, 0][place], codes[:, 1][place]
        return {"function": Categories(functions, self._functions), "stack": Categories(texts, self._texts)}

    def _code(self, stack: int) -> tuple[int, int]:
        """Return the codes of the function and the text of a stack."""
        if stack not in self._codes:
            function = self._frames[self._stacks[stack][1]]
            code = self._function_codes.setdefault(function, len(self._functions))
            if code == len(self._functions):
                self._functions.append(function)
            self._codes[stack] = code, self._text(stack)
        return self._codes[stack]

    def _text(self, stack: int) -> int:
        frames: list[str] = []
        left = MAX_STACK_TEXT
        while stack >= 0 and left > 0:
            stack, frame = self._stacks[stack]
            frames.append(self._frames[frame][:left])
            left -= len(self._frames[frame]) + 1
        is_cut = stack >= 0 or left < -1
        self._losses[f"outer frames of stacks of more than {MAX_STACK_TEXT:,} characters"] += is_cut
        text = ";".join(reversed(frames))
        self._left -= len(text)
        if self._left < 0:
            self._losses[f"texts of stacks beyond {MAX_STACK_TEXTS:,} characters"] += 1
            return -1
        self._texts.append(text)
        return len(self._texts) - 1


def _values(args: Table) -> dict[str, Column]:
    """Return the values of arguments by their types."""
    kinds, bits = args["type"].codes, args["bits"]
    is_whole, is_number = np.isin(kinds, WHOLE_KINDS), kinds == ArgumentKind.NUMBER
    whole = np.where(is_whole, bits, 0).view(np.int64)
    number = np.where(is_number, bits.view(np.float64), np.where(is_whole, whole, np.nan))
    return {"integer": whole, "number": number}


class _Places:
    """The names of processes, threads and tracks, as columns for rows of a timeline.

    Args:
        registry: the registry that has them.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._owners: Mapping[str, Table] = {}
        self._sizes = (-1, -1)

    def update(self) -> None:
        """Take what is new."""
        sizes = (len(self._registry.process_names()), self._registry.thread_count)
        if sizes != self._sizes:
            self._owners, self._sizes = self._registry.owners(), sizes

    def is_current(self, registry: Registry) -> bool:
        """Return whether a registry has the same names; those of tracks do not change."""
        latest = registry.owners()
        return all(
            np.array_equal(table["name"].codes, latest[name]["name"].codes[: table.num_rows])
            for name, table in self._owners.items()
        )

    def of_threads(self, threads: Array) -> dict[str, Column]:
        """Return process and thread of rows, by the rows of their threads, -1 for none."""
        owner = _taken(self._owners["threads"]["process"], threads, -1)
        return self._named("processes", "process", owner) | self._named("threads", "thread", threads)

    def of_tracks(self, tracks: Array) -> dict[str, Column]:
        """Return process, thread and name of the tracks of rows."""
        registry = self._registry
        owners = self._named("processes", "process", registry.track_processes(tracks))
        threads = self._named("threads", "thread", registry.track_threads(tracks))
        return owners | threads | {"track": Categories(registry.track_names(tracks), registry.names.values)}

    def _named(self, table: str, name: str, rows: Array) -> dict[str, Column]:
        """Return names and numbers of processes or threads."""
        number = {"processes": "pid", "threads": "tid"}[table]
        owners = self._owners[table]
        codes = _taken(owners["name"].codes, rows, -1)
        return {name: Categories(codes, owners["name"].values), number: _taken(owners[number], rows, -1)}


def _taken(column: Array, rows: Array, nothing: int) -> Array:
    """Return the values of rows, or of -1 that of nothing."""
    result: Array = np.append(column, np.array([nothing], column.dtype))[rows]
    return result
