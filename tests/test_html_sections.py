"""The content of pages: complete, equal to other answers, and of bounded size, whatever the trace has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import fxtio
from fxtio.html import sections
from fxtio.html.contents import Cell, Chart, Facts, Flame, Grid, Page
from fxtio.html.sections import trace_page
from fxtio.selection import Selection
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from support.checkout import CORPUS

PartT = TypeVar("PartT")

GRIDS_SIZE = 1_000_000
EVERYTHING = Selection()


def traces() -> list[Path]:
    """Return the traces of the corpus."""
    suffixes = {".fxt", ".mlpd", ".gz", ".log", ".dcpi", ".json"}
    files = [path for path in sorted(CORPUS.glob("*/*")) if path.suffix in suffixes and "expect" not in path.name]
    files = [path for path in files if path.name not in ("files.json", "vectors.json")]
    return files + [path for path in sorted((CORPUS / "uftrace").iterdir()) if (path / "info").exists()]


def parts_of(page: Page, kind: type[PartT]) -> list[PartT]:
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def section_named(page: Page, title: str) -> Any:
    return next(section for section in page.sections if section.title == title)


def size_of(value: Any) -> int:
    """Return the bytes of JSON of a part of a page."""
    return len(json.dumps(list(plain(value))))


def plain(part: Facts | Grid | Chart) -> Iterator[Any]:
    if isinstance(part, Facts):
        yield from part.rows
    elif isinstance(part, Grid):
        yield [[[cell.text, cell.value] if isinstance(cell, Cell) else cell for cell in row] for row in part.rows]
    else:
        yield [part.title, [*part.times], [[name, [*values]] for name, values in part.series]]


def check_sizes(page: Page) -> None:
    """Check that a page is within its limits, and that its rows fit their headers."""
    found = parts_of(page, Flame)
    assert sum(len(flame.speedscope) for flame in found) <= sections.FLAMES_SIZE
    for flame in found:
        json.loads(flame.speedscope)
    assert sum(size_of(chart) for chart in parts_of(page, Chart)) <= 1_000_000
    grids = parts_of(page, Grid)
    assert sum(size_of(grid) for grid in grids) <= GRIDS_SIZE
    assert sum(size_of(facts) for facts in parts_of(page, Facts)) <= 100_000
    for grid in grids:
        assert grid.rows and {len(row) for row in grid.rows} == {len(grid.headers)}
    assert len(json.dumps([[page.title, *(section.title for section in page.sections)]])) < 20_000
    assert sum(len(note) for section in page.sections for note in section.notes) < 100_000


def check_totals(timeline: Timeline, page: Page) -> None:
    """Check that the rankings and flame graphs of a page have the sums of the tables."""
    tables = timeline.tables("slices", "samples", "allocations")
    slices = tables["slices"]
    titles = [section.title for section in page.sections]
    assert ("What took the time" in titles) == (slices.num_rows > 0)
    if slices.num_rows:
        section = section_named(page, "What took the time")
        (ranked,) = section.parts
        assert sum(row[1].value for row in ranked.rows) == slices.num_rows
        rows = {row[0]: row[3].value for row in ranked.rows}
        assert rows == {row["name"]: row["total"] for row in top(timeline, by="name").table.rows()}
    if tables["allocations"].num_rows:
        for grid in section_named(page, "Allocations").parts:
            assert sum(row[2].value for row in grid.rows) == tables["allocations"]["size"].sum()


@pytest.mark.full
@pytest.mark.parametrize("path", traces(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_pages_of_the_corpus(path: Path) -> None:
    with fxtio.open_timeline(path) as timeline:
        page = trace_page(timeline, EVERYTHING)
        check_sizes(page)
        check_totals(timeline, page)
