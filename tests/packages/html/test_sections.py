"""The content of pages: complete, equal to other answers, and of bounded size, whatever the trace has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import fxtio
from fxtio.errors import FxtioError
from fxtio.exchange.convert import convert
from fxtio.exchange.filter import Plan, Simplification
from fxtio.formats import BUILT_IN
from fxtio.html import sections
from fxtio.html.contents import MAX_TEXT, Cell, Chart, Facts, Flame, Grid, Page
from fxtio.html.page import render
from fxtio.html.sections import compared_page, trace_page
from fxtio.selection import Selection
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from support.broken import broken_rules, write_broken
from support.checkout import CORPUS
from support.exchange import Content, imported
from support.limits import lower_limits

PartT = TypeVar("PartT")

GRIDS_SIZE = 1_000_000
EVERYTHING = Plan()


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
        own: Counter[str] = Counter()
        for row in slices.rows():
            own["(no name)" if row["name"] is None else row["name"]] += row["self_time"]
        assert {row[0]: row[2].value for row in ranked.rows} == own
    if tables["allocations"].num_rows:
        for grid in section_named(page, "Allocations").parts:
            assert sum(row[2].value for row in grid.rows) == tables["allocations"]["size"].sum()


def test_facts_of_a_recording_as_chrome_json() -> None:
    """They are arguments of events, which a ranking of functions alone would not ask for."""
    events = [
        {"ph": "X", "name": "work", "ts": 1, "dur": 5, "pid": 1, "tid": 1},
        {"ph": "i", "name": "recording", "ts": 2, "pid": 1, "tid": 1, "args": {"command": "python app.py"}},
    ]
    with fxtio.open_timeline(json.dumps(events).encode()) as timeline:
        page = trace_page(timeline, EVERYTHING)
    facts = [fact for part in parts_of(page, Facts) for fact in part.rows]
    assert ("Command", "python app.py") in facts


@pytest.mark.full
@pytest.mark.parametrize("path", traces(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_pages_of_the_corpus(path: Path) -> None:
    with fxtio.open_timeline(path) as timeline:
        page = trace_page(timeline, EVERYTHING)
        check_sizes(page)
        check_totals(timeline, page)


PARTS = [
    Plan(Selection(start=1_000, end=10**7)),
    Plan(Selection(start=5, names=("*a*",)), Simplification(min_duration=500, max_depth=3)),
    Plan(Selection(threads=("!main",), categories=("*",))),
]


@pytest.mark.full
@pytest.mark.parametrize("path", traces(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_pages_of_parts_of_the_corpus(path: Path) -> None:
    with fxtio.open_timeline(path) as timeline:
        for plan in PARTS:
            check_sizes(trace_page(timeline, plan))


@pytest.mark.full
@pytest.mark.once
@pytest.mark.parametrize("name", BUILT_IN)
def test_pages_of_broken_traces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trace that breaks a rule has a page with its findings, or is refused with an error of fxtio."""
    lower_limits(monkeypatch)
    found = 0
    for number, rule in enumerate(broken_rules(name)):
        if rule == "uftrace.session.too-many":  # which takes long to read
            continue
        path = tmp_path / str(number)
        write_broken(rule, path)
        try:
            with fxtio.open_timeline(path, format=name) as timeline:
                page = trace_page(timeline, EVERYTHING)
                findings = dict(timeline.trace.findings.counts)
        except FxtioError:
            continue
        except Exception as error:
            raise AssertionError(rule) from error
        check_sizes(page)
        rows: list[Any] = [row for grid in parts_of(page, Grid) if grid.title == "Findings" for row in grid.rows]
        assert {row[4]: row[2].value for row in rows} == findings, rule
        found += bool(findings)
    assert found > 5


HOSTILE = ["<script>alert(1)</script>", "\u202eevil\u2066", "</style><b>", "\ud800\udc80\x00\x1b[31m", "&amp;" * 50_000]


@pytest.mark.full
def test_hostile_names_of_any_length() -> None:
    names = [*HOSTILE, "x" * 1_000_000, *(f"{number}" + "\U0001f600" * 200_000 for number in range(12))]
    stack = tuple(names[:6])
    content = Content(
        spans=[(0, 10 * number, 5, name) for number, name in enumerate(names)],
        samples=[(0, 1, stack, 3, names[5]), (1, 2, (names[0],), 1, names[1])],
        allocations=[(0, stack, 1, 8, names[5])],
        threads=[names[5], names[1]],
    )
    page = trace_page(content.timeline(), EVERYTHING)
    check_sizes(page)
    assert len(render(page)) < 10_000_000
    for grid in parts_of(page, Grid):
        for row in grid.rows:
            assert all(len(cell) <= MAX_TEXT and cell.isprintable() for cell in row if isinstance(cell, str))


@pytest.mark.full
def test_many_long_names_fit() -> None:
    spans = [(number % 2, 10 * number, 1 + number % 7, f"{number} " + "é<" * 500) for number in range(20_000)]
    timeline = Content(spans=spans, size=20_000).timeline()
    page = trace_page(timeline, EVERYTHING)
    check_sizes(page)
    (ranked,) = section_named(page, "What took the time").parts
    assert 0 < len(ranked.rows) < 1000 and len(ranked.rows) + ranked.more == len(spans)
    notes = section_named(page, "Flame graph").notes
    assert any(note.startswith("The shortest slices") for note in notes)
    assert len(render(page)) < 10_000_000


def made() -> Timeline:
    """Return a timeline with two threads, samples and times of all kinds."""
    spans = [(number % 2, 100 * number, 10 + number, "fgh"[number % 3]) for number in range(60)]
    samples = [(number % 2, 100 * number, ("main", "fgh"[number % 3]), 1, "samples") for number in range(60)]
    return Content(spans=spans, samples=samples).timeline()


@pytest.mark.parametrize(
    "selection",
    [
        Selection(start=1_000, end=3_050),
        Selection(threads=("worker",)),
        Selection(names=("f",)),
        Selection(start=500, threads=("main",), names=("g", "h")),
    ],
    ids=["range", "thread", "name", "all"],
)
def test_a_part_of_a_trace(selection: Selection) -> None:
    page = trace_page(made(), Plan(selection))
    facts = dict(parts_of(page, Facts)[0].rows)
    answer = top(made(), selection=selection).table
    assert facts["Slices"] == f"{answer['calls'].sum():,}"
    assert facts["Part"]
    (ranked,) = section_named(page, "What took the time").parts
    assert {row[0]: (row[1].value, row[3].value) for row in ranked.rows} == {
        row["name"]: (row["calls"], row["total"]) for row in answer.rows()
    }
    flame = section_named(page, "Flame graph").parts[-1]
    slices = imported(flame.speedscope).table("slices")
    assert slices["duration"].sum() == answer["total"].sum()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(Selection(start=1_000, end=3_050, names=("g", "outer"))),
        Plan(Selection(threads=("worker",)), Simplification(min_duration=40)),
        Plan(simplification=Simplification(max_depth=1)),
    ],
    ids=["part", "short", "deep"],
)
def test_a_part_is_that_which_is_converted(plan: Plan, tmp_path: Path) -> None:
    """The page about a part has the rankings and flame graphs of a trace with nothing else, and says what it lacks."""
    spans = [(number % 2, 100 * number, 10 + number, "fgh"[number % 3]) for number in range(60)]
    timeline = Content(spans=[*spans, (0, 0, 7_000, "outer"), (1, 0, 7_000, "outer")]).timeline()
    page = trace_page(timeline, plan)
    lost = convert(timeline, tmp_path / "part.fxt", selection=plan.selection, simplification=plan.simplification)
    with fxtio.open_timeline(tmp_path / "part.fxt") as part:
        expected = trace_page(part, EVERYTHING)
    rankings = [section_named(each, "What took the time").parts for each in (page, expected)]
    assert rankings[0] == rankings[1]
    durations = [
        sorted(imported(section_named(each, "Flame graph").parts[-1].speedscope).table("slices")["duration"].tolist())
        for each in (page, expected)
    ]
    assert durations[0] == durations[1]
    notes = section_named(page, "Summary").notes
    assert [f"Not shown: {phrase} ({number:,})." for phrase, number in lost.items()] == notes
    assert bool(notes) == (not plan.simplification.is_nothing)


def test_a_trace_without_anything() -> None:
    page = trace_page(Content().timeline(), EVERYTHING)
    assert [section.title for section in page.sections] == ["Summary"]
    check_sizes(page)


def test_what_changed() -> None:
    def side(lasts: int, *more: tuple[int, int, int, str]) -> Timeline:
        calls = [(0, 10_000_000 * number, lasts + number % 3, "work") for number in range(50)]
        return Content(spans=[*calls, *more]).timeline()

    page = compared_page(
        side(1_000_000, (1, 5, 9_000_000, "only before")), side(3_500_000, (1, 5, 9_000_000, "only after")), EVERYTHING
    )
    check_sizes(page)
    grids = {grid.title: [row[:2] for row in grid.rows] for grid in section_named(page, "What changed").parts}
    assert grids["What takes more time"] == [["work", "slower"], ["only after", "new"]]
    assert grids["What takes less time"] == [["only before", "gone"]]
    assert any("1 run against 1 cannot tell" in note for note in section_named(page, "What changed").notes)
    page = compared_page(side(1_000_000), side(1_500_000), EVERYTHING)
    grids = {grid.title: [row[:2] for row in grid.rows] for grid in section_named(page, "What changed").parts}
    assert grids == {"What may be by chance": [["work", "unclear"]]}
    assert len(parts_of(page, Facts)) == 2 and len(parts_of(page, Flame)) >= 2
    sides = [section.title for section in page.sections if "Flame graph" in section.title]
    assert sides == ["Flame graph before: test", "Flame graph after: test"]


@pytest.mark.full
def test_traces_of_different_kinds_are_compared() -> None:
    traces = (CORPUS / "mono/sample.mlpd.gz", CORPUS / "dcpi/given-specification.dcpi")
    with fxtio.open_timeline(traces[0]) as before, fxtio.open_timeline(traces[1]) as after:
        page = compared_page(before, after, EVERYTHING)
    check_sizes(page)
    assert "What changed" not in [section.title for section in page.sections]
