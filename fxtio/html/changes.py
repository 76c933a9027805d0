"""Changes between two traces: names that take more time, less time, or are only in one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fxtio.html import cells
from fxtio.html.contents import Cell, Grid, Section
from fxtio.report import short_duration
from fxtio.timeline.comparison import Change, Difference, Times, compare

MAX_ROWS = 500
"""The most rows of each grid."""

_HEADERS = (
    "Name", "Change", "Calls before", "Calls after", "Time before", "Time after", "Ratio", "of", "Per run",
)  # fmt: skip
_SIZE = 200_000


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
    return Section("What changed", [_grid(title, each) for title, each in groups.items() if each], notes)


def _grid(title: str, differences: Sequence[Difference]) -> Grid:
    rows = map(_row, differences[:MAX_ROWS])
    return cells.grid(_HEADERS, rows, more=max(len(differences) - MAX_ROWS, 0), title=title, size=_SIZE)


def _row(each: Difference) -> list[str | Cell]:
    cost = round(each.cost)
    sign = "-" if cost < 0 else "+"
    ratio: str | Cell = Cell(f"{each.ratio:+.1%}", each.ratio) if min(each.calls) else ""
    return [
        each.name,
        str(each.change),
        *(cells.count(round(calls)) for calls in each.calls),
        *(cells.duration(round(time)) if calls else "" for time, calls in zip(each.time, each.calls, strict=True)),
        ratio,
        each.by,
        Cell(f"{sign}{short_duration(abs(cost))}", cost),
    ]
