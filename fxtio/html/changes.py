"""Changes between two traces: names that take more time, less time, or are only in one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fxtio.html import cells
from fxtio.html.contents import Cell, Grid, Section
from fxtio.report import short_duration
from fxtio.timeline.comparison import Blocks, Change, Difference, compare

MAX_ROWS = 500
"""The most rows of each grid."""

_HEADERS = (
    "Name", "Change", "Time before", "Time after", "Difference", "Calls before", "Calls after", "Mean before",
    "Mean after", "Ratio",
)  # fmt: skip
_SIZE = 200_000


def changes_section(before: Blocks, after: Blocks) -> Section | None:
    """Return the section about what changed between two runs, None if none of them has slices that ended."""
    differences = compare([before], [after])
    if not differences:
        return None
    changed = [each for each in differences if each.change is not Change.SAME]
    groups = {
        "What takes more time": [each for each in changed if each.cost >= 0],
        "What takes less time": [each for each in changed if each.cost < 0],
        "Without a change that matters": [each for each in differences if each.change is Change.SAME],
    }
    counts = Counter(str(each.change) for each in differences)
    notes = [f"Names: {', '.join(f'{number:,} {change}' for change, number in counts.items())}."]
    notes.append(
        "A name counts as slower or faster if the difference is at least 5 % and 1 ms in all, and unlikely by chance."
    )
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
        *(cells.duration(round(total)) for total in each.total),
        Cell(f"{sign}{short_duration(abs(cost))}", cost),
        *(cells.count(round(calls)) for calls in each.calls),
        *(cells.duration(round(mean)) if calls else "" for mean, calls in zip(each.mean, each.calls, strict=True)),
        ratio,
    ]
