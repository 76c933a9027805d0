"""An answer: a table and what is to be known about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fxtio.errors import FxtioError
from fxtio.table import Table


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

    def first(self, column: str, limit: int | None) -> Answer:
        """Keep the rows with the greatest values of a column of a ranking, in order; return this answer."""
        values = self.table
        order = np.lexsort((-values["calls"], -values["total"], -values[column]))
        kept = order if limit is None else order[:limit]
        self.more = len(order) - len(kept)
        self.table = values.take(kept)
        return self
