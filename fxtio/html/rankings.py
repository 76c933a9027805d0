"""Rankings as grids: functions and classes by slices, samples and allocations; changes between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fxtio.html import contents
from fxtio.html.collect import Reading
from fxtio.html.contents import Cell, Grid, Section
from fxtio.report import short_duration
from fxtio.timeline.answers.answer import Answer
from fxtio.timeline.answers.places import short_place
from fxtio.timeline.comparison import Change, Difference, Times, compare

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
    unit = "" if answer.unit in ("samples", "ns") else f", in {contents.short(answer.unit)}"
    sections.append(Section(f"Samples by function{unit}", [_grid(answer, "Function")], _sentences(answer)))
    grids = []
    for by, header in (("type", "Class"), ("name", "Function")):
        answer = reading.rankings["allocations", by].answer(reading.registry).first("self", MAX_ROWS)
        grids.append(_grid(answer, header, f"By {header.lower()}"))
    sections.append(Section("Allocations", grids))
    filled = [(each, [grid for grid in each.parts if isinstance(grid, Grid) and grid.rows]) for each in sections]
    return [replace(each, parts=grids) for each, grids in filled if grids]


def _sentences(answer: Answer) -> list[str]:
    return [f"{contents.short(note[:1].upper() + note[1:])}." for note in answer.notes]


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
        row_cells: list[str | Cell] = [row["name"], contents.count(row["calls"])]
        row_cells += [contents.value(row[name], answer.unit) for name in times]
        row_cells.append(contents.share(row["share"]))
        return [*row_cells, short_place(row["place"])] if has_places else row_cells

    return contents.grid(headers, map(row_of, table.rows()), more=answer.more, title=title, size=_SIZE)


MAX_CHANGES = 500
"""The most rows of each grid."""

_HEADERS = (
    "Name", "Change", "Calls before", "Calls after", "Time before", "Time after", "Ratio", "of", "Per run",
)  # fmt: skip
_CHANGES_SIZE = 200_000


def changes_section(before: Mapping[str, Times], after: Mapping[str, Times]) -> Section | None:
    """Return the section about what changed between two runs, None if none of them has slices that ended."""
    comparison = compare([before], [after])
    differences = comparison.differences
    if not differences:
        return None
    changed = [each for each in differences if each.change.is_sure]
    groups = {
        "What takes more time": [each for each in changed if each.cost >= 0],
        "What takes less time": [each for each in changed if each.cost < 0],
        "What may be by chance": [each for each in differences if each.change is Change.UNCLEAR],
        "Without a change that matters": [each for each in differences if each.change is Change.SAME],
    }
    counts = Counter(str(each.change) for each in differences)
    notes = [f"Names: {', '.join(f'{number:,} {change}' for change, number in counts.items())}."]
    notes.append("A name counts as changed if the difference is at least 5 % and 1 ms in all, and none by chance.")
    if comparison.advice:
        notes.append(f"{comparison.advice} (fxtio diff before*.fxt -- after*.fxt).")
    return Section("What changed", [_changes_grid(title, each) for title, each in groups.items() if each], notes)


def _changes_grid(title: str, differences: Sequence[Difference]) -> Grid:
    rows = map(_row, differences[:MAX_CHANGES])
    return contents.grid(_HEADERS, rows, more=max(len(differences) - MAX_CHANGES, 0), title=title, size=_CHANGES_SIZE)


def _row(each: Difference) -> list[str | Cell]:
    cost = round(each.cost)
    sign = "-" if cost < 0 else "+"
    ratio: str | Cell = Cell(f"{each.ratio:+.1%}", each.ratio) if min(each.calls) else ""
    return [
        each.name,
        str(each.change),
        *(contents.count(round(calls)) for calls in each.calls),
        *(contents.duration(round(time)) if calls else "" for time, calls in zip(each.time, each.calls, strict=True)),
        ratio,
        each.by,
        Cell(f"{sign}{short_duration(abs(cost))}", cost),
    ]
