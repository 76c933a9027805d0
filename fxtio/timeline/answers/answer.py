"""An answer: a table and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fxtio.display import MAX_ROWS, as_html, as_text
from fxtio.errors import FxtioError
from fxtio.report import Report, ReportTable, human_value
from fxtio.table import Table
from fxtio.timeline.answers.places import short_place

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
        shown = self.table.take(np.arange(min(count, MAX_ROWS)))
        columns = {name: self._texts(name, shown) for name in self.telling if name not in _STRUCTURE}
        names = sorted(columns, key=lambda name: name in _TEXTS)  # numbers stand before texts, which may be long
        headers = [name if name in _TEXTS else f">{name}" for name in names]
        rows = [*zip(*(columns[name] for name in names), strict=True)]
        title = self.what if self.unit in ("ns", self.what) else f"{self.what}, in {self.unit}"
        table = ReportTable(headers, rows, self.more + count - len(rows))
        return Report(title, tables=[table], notes=self.notes)

    def _texts(self, name: str, shown: Table) -> list[int | str]:
        values = shown[name].tolist()
        if name in _TEXTS:
            texts = [short_place(value) if name == "place" else value or "" for value in values]
            levels = shown["depth"].tolist() if "depth" in shown and name == "name" else [0] * len(texts)
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
