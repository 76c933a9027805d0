"""Reports that the commands print about files of exchange formats: what is in their timelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fxtio.exchange.opening import Imported
from fxtio.report import Report, ReportTable, counted, human_size
from fxtio.table import Table
from fxtio.timeline.answers import summary
from fxtio.timeline.answers.answer import TIMED, Times
from fxtio.timeline.parts import Registry

_TEXTS = {"category": "categories", "name": "names"}
"""The columns whose texts are counted, and their plurals."""


def info(timeline: Imported) -> Report:
    """Describe what is inside a file."""
    facts = summary(timeline)
    facts = replace(facts, compression=timeline.compression, size=timeline.size)
    tables = [ReportTable([">rows", "table"], facts.records.most_common())]
    return replace(facts.report(), tables=tables, json=facts.as_json() | {"losses": dict(timeline.losses)})


def stats(timeline: Imported, top: int) -> Report:
    """Count the rows of each table of a timeline, and its events by category and name.

    Args:
        timeline: the timeline; all of the file is read.
        top: how many categories and names are listed.
    """
    counts, registry = timeline.fold(_Counts, *TIMED)
    names = registry.names.values
    title = f"{timeline.name}: {counted(counts.rows.total(), 'row')}, {human_size(timeline.size)}"
    report = Report(title, tables=[ReportTable([">rows", "table"], counts.rows.most_common())])
    report.json = {"rows": dict(counts.rows), "bytes": timeline.size, "losses": dict(timeline.losses)}
    for column, plural in _TEXTS.items():
        sums = counts.texts[column]
        used = np.flatnonzero(sums)
        largest = used[np.argsort(-sums[used], kind="stable")[:top]]
        shares = [(names[code - 1] if code else None, int(sums[code])) for code in largest.tolist()]
        if used.any():  # others than those without a text
            rows = [(count, f"{100 * count / int(sums.sum()):.1f}%", _shown(text)) for text, count in shares]
            report.tables.append(ReportTable([">events", ">share", column], rows, len(used) - len(rows)))
        report.json[plural] = [{"name": text, "events": count} for text, count in shares]
    return report


def _shown(text: str | None) -> str:
    return "(none)" if text is None else text or '""'


class _Counts(Times):
    """Counts the rows of each table, and those of each text.

    Attributes:
        texts: for each of `_TEXTS`, the number of rows without one, and then of those with each name of the registry.
    """

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.texts: dict[str, Any] = {column: np.zeros(0, np.int64) for column in _TEXTS}

    def enter(self, tables: Mapping[str, Table]) -> None:
        """Take the rows of a batch."""
        super().enter(tables)
        for table in tables.values():
            for column, sums in self.texts.items():
                if column in table:
                    counts = np.bincount(table[column].codes + 1, minlength=len(sums))
                    counts[: len(sums)] += sums
                    self.texts[column] = counts
