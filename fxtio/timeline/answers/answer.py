"""An answer: a table and what is to be known about it; the texts in it, and the times of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fxtio.display import MAX_ROWS, as_html, as_text
from fxtio.errors import FxtioError
from fxtio.io.reading import TraceInfo
from fxtio.report import Report, ReportTable, human_value
from fxtio.table import Table
from fxtio.timeline.answers.places import short_place
from fxtio.timeline.schema import LABELS, TABLES, ArgumentKind, TrackKind
from fxtio.timeline.typecheck import check_types

if TYPE_CHECKING:
    from fxtio.timeline.parts import Registry
    from fxtio.timeline.timeline import Timeline

_TEXTS = ("name", "place")
_STRUCTURE = ("depth", "parent")
_RARE = ("waiting", "open")
_COUNTS = ("calls", "open")
_INDENT = "  "


class QuestionError(FxtioError, ValueError):
    """An error: a question that a trace, or this kind of content, has no answer for."""


@dataclass(slots=True)
class Answer:
    """An answer.

    Attributes:
        what: the content that it is about: `slices`, `samples`, `allocations` or `sched`.
        table: the rows.
        unit: the unit of its values: `ns`, `bytes`, or what samples count.
        more: the number of rows that were left out.
        error: the greatest relative error of its percentiles; 0 if they are exact.
        notes: sentences about it for people.
    """

    what: str
    table: Table
    unit: str = "ns"
    more: int = 0
    error: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the first rows as text that fits the terminal, see `fxtio.display`."""
        return as_text(self._report())

    def _repr_html_(self) -> str:
        """Return the first rows as HTML for notebooks."""
        return as_html(self._report())

    def _report(self) -> Report:
        """Describe the first rows, with times, sizes and shares as people read them."""
        count = self.table.num_rows
        shown = replace(self, table=self.table.take(np.arange(min(count, MAX_ROWS))))
        columns = {name: shown.cells(name) for name in self.telling if name not in _STRUCTURE}
        names = sorted(columns, key=lambda name: name in _TEXTS)  # numbers are before texts, which may be long
        headers = [name if name in _TEXTS else f">{name}" for name in names]
        rows = [*zip(*(columns[name] for name in names), strict=True)]
        title = self.what if self.unit in ("ns", self.what) else f"{self.what}, in {self.unit}"
        table = ReportTable(headers, rows, self.more + count - len(rows))
        return Report(title, tables=[table], notes=self.notes)

    def cells(self, name: str) -> list[int | str]:
        """Return a column as people read it: times, sizes and shares as text, names indented by their depth."""
        values = self.table[name].tolist()
        if name in _TEXTS:
            texts = [short_place(value) if name == "place" else value or "" for value in values]
            levels = self.table["depth"].tolist() if "depth" in self.table and name == "name" else [0] * len(texts)
            return [_INDENT * level + text for level, text in zip(levels, texts, strict=True)]
        if name == "share":
            return [f"{value:.1%}" for value in values]
        return values if name in _COUNTS else [human_value(value, self.unit) for value in values]

    @property
    def telling(self) -> list[str]:
        """The names of its columns without those that tell something of few traces only, and nothing of these rows."""
        return [name for name in self.table if name not in _RARE or self.table[name].any()]

    def first(self, column: str, limit: int | None) -> Answer:
        """Keep the rows with the greatest values of a column of a ranking, in order; return this answer."""
        values = self.table
        order = np.lexsort((-values["calls"], -values["total"], -values[column]))
        kept = order if limit is None else order[:limit]
        self.more = len(order) - len(kept)
        self.table = values.take(kept)
        return self


UNNAMED = "(no name)"
"""The text for what has no name."""

ArgumentValue = int | float | str | bool | None
"""The value of an argument in Python."""


class Labels:
    """The texts for the processes, threads and tracks of a whole reading.

    Args:
        tables: `processes`, `threads` and `tracks`, see `Registry.tables`.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def process(self, row: int) -> str:
        """Return the text for a process, `name (pid)`; -1 is none."""
        return self._numbered("processes", "pid", "process", row)

    def thread(self, row: int) -> str:
        """Return the text for a thread, `name (tid)`; -1 is none."""
        return self._numbered("threads", "tid", "thread", row)

    def track(self, row: int) -> str:
        """Return the text for a track: that of its thread, and its name and id, if it has them."""
        tracks = self._tables["tracks"]
        thread, name = int(tracks["thread"][row]), tracks["name"][row]
        if thread >= 0:
            return f"{self.thread(thread)}: {name}" if name else self.thread(thread)
        kind = LABELS["tracks", "kind"][int(tracks["kind"].codes[row])]
        number = int(tracks["id"][row])
        if tracks["kind"].codes[row] == TrackKind.ASYNC:
            return f"{name or kind} ({number})"
        process = int(tracks["process"][row])
        return name or (self.process(process) if process >= 0 else kind)

    def _numbered(self, table: str, column: str, noun: str, row: int) -> str:
        if row < 0:
            return f"(no {noun})"
        name, number = self._tables[table]["name"][row], int(self._tables[table][column][row])
        return f"{name} ({number})" if name else f"{noun} {number}"


def argument_value(kind: int, bits: int, text: str | None) -> ArgumentValue:
    """Return the value of an argument, see the table `args` of `fxtio.timeline.schema`.

    Args:
        kind: its type, see `ArgumentKind`.
        bits: its bits.
        text: its text.
    """
    if kind == ArgumentKind.TEXT:
        return text
    if kind == ArgumentKind.NUMBER:
        return float(np.uint64(bits).view(np.float64))
    if kind == ArgumentKind.INTEGER:
        return int(np.uint64(bits).view(np.int64))
    if kind == ArgumentKind.BOOLEAN:
        return bool(bits)
    return None if kind == ArgumentKind.NULL else bits


def argument_text(kind: int, bits: int, text: str | None) -> str:
    """Return the value of an argument as text; pointers are hexadecimal."""
    value = argument_value(kind, bits, text)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:#x}" if kind == ArgumentKind.POINTER else str(value)


def text_of(values: Sequence[str], code: int) -> str:
    """Return the text of a code, `UNNAMED` for -1."""
    return values[code] if code >= 0 else UNNAMED


TIMED = tuple(name for name, columns in TABLES.items() if "time" in columns or "start" in columns)
"""The tables whose rows have times."""

_MAY_BE_UNTIMED = frozenset({"samples", "allocations"})


def summary(timeline: Timeline) -> TraceInfo:
    """Return the summary of a timeline's trace; for an exchange format one of its name, its times, and rows of tables.

    The first use reads the trace once.

    Raises:
        TypeError: it is no timeline.
    """
    check_types(timeline=timeline)
    trace = timeline.trace
    if trace is not None:
        info: TraceInfo = trace.info
        return info
    times, registry = timeline.fold(Times, *TIMED)
    info = TraceInfo(timeline.name, timeline.format, records=times.rows)
    if times.extent is not None:
        info.start, info.end = times.extent
        info.set_started_at(registry.wall_clock)
    return info


class Times:
    """The first and the last time of a timeline, and the rows of its tables; a consumer of `Timeline.fold`.

    Samples and allocations of a profile have no times: they are all at 0.

    Attributes:
        rows: the number of rows of each table.
    """

    def __init__(self, registry: Registry) -> None:
        self.rows: Counter[str] = Counter()
        self._extents: dict[str, tuple[int, int]] = {}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Look at the times of a batch."""
        for name, table in tables.items():
            self.rows[name] += table.num_rows
            if name not in TIMED:
                continue
            begin = table["time" if "time" in table else "start"]
            end: Any = begin + table["duration"] if "duration" in table else begin
            first, last = int(np.min(begin)), int(np.max(end))
            before = self._extents.get(name, (first, last))
            self._extents[name] = min(before[0], first), max(before[1], last)

    @property
    def extent(self) -> tuple[int, int] | None:
        """The first and the last time, None if nothing has a time."""
        known = [each for name, each in self._extents.items() if name not in _MAY_BE_UNTIMED or each != (0, 0)]
        return (min(first for first, _ in known), max(last for _, last in known)) if known else None

    @property
    def is_profile(self) -> bool:
        """Whether there is something, but nothing has a time."""
        return bool(self._extents) and self.extent is None
