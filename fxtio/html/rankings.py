"""Rankings as grids: functions by their slices, samples and allocations, classes by their allocations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fxtio.html import cells
from fxtio.html.contents import Cell, Grid, Section
from fxtio.html.reading import Reading
from fxtio.timeline.answers.answer import Answer
from fxtio.timeline.answers.places import short_place

MAX_ROWS = 1_000
"""The most rows of a ranking."""

_SIZE = 300_000
_TIMES = {"self": "Self", "total": "Total", "median": "Median", "p99": "p99", "max": "Longest"}


def ranking_sections(reading: Reading) -> list[Section]:
    """Return the sections about slices, samples and allocations, as far as the trace has them."""
    answer = replace(reading.ranking).first("self", MAX_ROWS)
    notes = [*_sentences(answer)]
    if answer.error:
        notes.append(f"Median and p99 are rounded: they may be off by {answer.error:.1%}.")
    sections = [Section("What took the time", [_grid(answer, "Name")], notes)]
    answer = reading.rankings["samples", "name"].answer(reading.registry).first("self", MAX_ROWS)
    unit = "" if answer.unit in ("samples", "ns") else f", in {cells.short(answer.unit)}"
    sections.append(Section(f"Samples by function{unit}", [_grid(answer, "Function")], _sentences(answer)))
    grids = []
    for by, header in (("type", "Class"), ("name", "Function")):
        answer = reading.rankings["allocations", by].answer(reading.registry).first("self", MAX_ROWS)
        grids.append(_grid(answer, header, f"By {header.lower()}"))
    sections.append(Section("Allocations", grids))
    filled = [(each, [grid for grid in each.parts if isinstance(grid, Grid) and grid.rows]) for each in sections]
    return [replace(each, parts=grids) for each, grids in filled if grids]


def _sentences(answer: Answer) -> list[str]:
    return [f"{cells.short(note[:1].upper() + note[1:])}." for note in answer.notes]


def _grid(answer: Answer, header: str, title: str = "") -> Grid:
    """Return a ranking as a grid."""
    table = answer.table
    times = [name for name in _TIMES if name in table]
    if answer.what != "slices" and header == "Class":
        times.remove("total")  # a class has no callers, so both are the same
    calls = {"slices": "Calls", "samples": "Samples", "allocations": "Objects"}[answer.what]
    headers = [header, calls, *(_TIMES[name] for name in times), "Share"]
    has_places = "place" in table
    if has_places:
        headers.append("Defined in")

    def row_of(row: dict[str, Any]) -> list[str | Cell]:
        row_cells: list[str | Cell] = [row["name"], cells.count(row["calls"])]
        row_cells += [cells.value(row[name], answer.unit) for name in times]
        row_cells.append(cells.share(row["share"]))
        return [*row_cells, short_place(row["place"])] if has_places else row_cells

    return cells.grid(headers, map(row_of, table.rows()), more=answer.more, title=title, size=_SIZE)
