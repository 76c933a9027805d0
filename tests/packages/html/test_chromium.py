"""The page of `fxtio report` in Chromium, from a file and without a network: what it shows, and that it is harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.exchange.convert import convert
from fxtio.exchange.opening import open_timeline
from fxtio.html.contents import Cell, Chart, Facts, Flame, Grid, Page, Section, short
from fxtio.html.page import render
from fxtio.report import human_duration
from judges import chromium, perfetto
from support.in_process import run_fxtio

pytestmark = [pytest.mark.full, pytest.mark.once]

NAMES = (
    "<script>window.hit = 1</script>",
    "</script></style></title><img src=x onerror='window.hit = 1'>",
    "<!--<script>",
    "_ZN3foo3barEv",  # speedscope demangles it, by WebAssembly
    "\u202egnp.exe",
    "\u05d0\u05d1\u05d2",
    "n" * 30_000,
)
TOP = "select name, count(*), sum(dur), max(dur) from slice where dur > 0 group by name"
SUMMARY = """
    select (select count(*) from slice) as slices, (select count(*) from counter) as counters,
        (select count(distinct utid) from thread_track join slice on slice.track_id = thread_track.id) as threads,
        (select max(ts) from (select ts + dur as ts from slice union select ts from counter)) -
            (select min(ts) from (select ts from slice union select ts from counter)) as lasts
"""

GRID = """
const grid = document.querySelector(".grid");
const headers = [...grid.querySelectorAll("th")];
const column = (name) => headers.findIndex((header) => header.textContent === name);
const rows = () => [...grid.querySelectorAll("tbody tr")].map((row) => [...row.cells]);
const click = (name) => headers[column(name)].querySelector("button").click();
"""
RANKING = f"""(() => {{{GRID}
  return rows().map((cells) => [
    cells[column("Name")].textContent,
    ...["Calls", "Total", "Longest"].map((name) => Number(cells[column(name)].dataset.value)),
  ]);
}})()"""
FACTS = """Object.fromEntries(
  [...document.querySelectorAll("dt")].map((label) => [label.textContent, label.nextElementSibling.textContent]),
)"""
SORTED = f"""(() => {{{GRID}
  const result = [];
  for (const name of ["Calls", "Calls", "Name", "Name"]) {{
    click(name);
    const cells = rows().map((row) => row[column(name)]);
    const sort = headers.map((header) => header.getAttribute("aria-sort"));
    const values = cells.map((cell) => cell.dataset.value ?? cell.textContent);
    result.push([sort[column(name)], sort.filter(Boolean).length, values]);
  }}
  return result;
}})()"""
SEARCHED = f"""(() => {{{GRID}
  const input = grid.querySelector("input");
  const search = (text) => {{
    input.value = text;
    input.dispatchEvent(new Event("input"));
    return [rows().map((cells) => cells[column("Name")].textContent), grid.querySelector("[role=status]").textContent];
  }};
  const result = [search("GET orders"), search("no such name"), search("")];
  const before = rows().length;
  grid.querySelector(".tools button").click();
  return [...result, [before, rows().length]];
}})()"""
FLAME = """(async () => {
  const figure = document.querySelector(".flame");
  figure.scrollIntoView();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const inside = figure.querySelector("iframe")?.contentDocument;
  const drawn = [...inside?.querySelectorAll("canvas") ?? []].map((canvas) => {
    const context = canvas.getContext("2d");
    if (!context || !canvas.width) return 0; // that of WebGL
    return context.getImageData(0, 0, canvas.width, canvas.height).data.filter((value) => value).length;
  });
  if (!inside?.title.endsWith(" - speedscope") || Math.max(...drawn) < 1000) return false;
  const turn = () => {
    const wheel = new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: 1 });
    return [...inside.querySelectorAll("canvas")].at(-1).dispatchEvent(wheel);
  };
  const scrolls = [turn()];
  figure.querySelector("iframe").focus();
  return [inside.title, ...scrolls, turn()];
})()"""
CHART = """(() => {
  const canvas = document.querySelector(".chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [new Set(new Uint32Array(data.buffer)).size > 3, document.querySelector(".chart .u-legend").textContent];
})()"""
HARMLESS = """(() => [
  window.hit ?? "not hit",
  document.images.length,
  [...document.querySelectorAll("h2")].map((heading) => heading.textContent),
  document.documentElement.scrollWidth <= innerWidth,
])()"""


def shop(path: Path) -> Path:
    """Write a trace with names that do harm where they are not escaped, and with a counter."""
    with fxtio.create(path) as writer:
        main, other = (writer.thread(7, 70 + number, f"thread {number}", "shop") for number in range(2))
        for number, name in enumerate(NAMES):
            at = 1_000_000 * (number + 1)
            main.complete(name, at, at + 600_000 + number)
            main.complete("query", at + 1_000, at + 2_000 + 10 * number)
        for number in range(40):
            at = 100_000 * (number + 1)
            kind = "orders" if number % 2 else "items"
            other.complete(f"GET /{kind}/{number}", at, at + 50_000 + 7 * (number * 7 % 40))
            other.counter("memory", at, {"used": 1000 + number})
    return path


def hostile_page(folder: Path) -> Page:
    """Return a page that has every kind of part, and hostile texts in all of them."""
    trace = shop(folder / "hostile.fxt")
    profile = folder / "hostile.speedscope.json"
    with open_timeline(trace) as timeline:
        convert(timeline, profile, to="speedscope")
    sections = [
        Section(
            name,
            [
                Facts([(name, name)]),
                Grid([name, "Number"], [[name, Cell(name, number)] for number in range(12)], 3, name),
                Chart(name, [0, 10, 20], [(name, [1, 2, None]), ("other", [None, 5, 4])], name),
                Flame(name, profile.read_bytes()),
            ],
            [name],
        )
        for name in NAMES
    ]
    return Page("".join(NAMES), sections)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def views(folder: Path) -> dict[str, chromium.View]:
    judges.require(chromium.available(), must=chromium.REQUIRED)
    report, hostile = folder / "report.html", folder / "hostile.html"
    done = run_fxtio("report", str(shop(folder / "shop.fxt")), "-o", str(report))
    assert done.returncode == 0, done.stderr
    hostile.write_bytes(render(hostile_page(folder)))
    jobs = {
        "report": chromium.Job(
            address=report.as_uri(), scripts=[SEARCHED, RANKING, SORTED, FACTS, CHART, FLAME, HARMLESS]
        ),
        "hostile": chromium.Job(address=hostile.as_uri(), scripts=[CHART, FLAME, HARMLESS], width=400, is_dark=True),
    }
    return dict(zip(jobs, chromium.look([*jobs.values()]), strict=True))


def test_nothing_is_loaded_and_nothing_fails(views: dict[str, chromium.View]) -> None:
    for view in views.values():
        assert (view.outside, view.refused, view.errors, view.logged) == ([], [], [], [])


def test_the_ranking_is_that_of_perfetto(views: dict[str, chromium.View], folder: Path) -> None:
    judges.require(perfetto.available())
    with perfetto.load(folder / "shop.fxt") as p:
        theirs: list[list[Any]] = [[*row.values()] for row in p.query(TOP)]
    shown = {short(name): [calls, total, longest] for name, calls, total, longest in theirs}
    assert {name: values for name, *values in views["report"].values[1]} == shown
    assert len(shown) == len(NAMES) + 41


def test_the_summary_is_that_of_perfetto(views: dict[str, chromium.View], folder: Path) -> None:
    judges.require(perfetto.available())
    with perfetto.load(folder / "shop.fxt") as p:
        (theirs,) = p.query(SUMMARY)
    facts = views["report"].values[3]
    assert {label: int(facts[label]) for label in ("Slices", "Values of counters", "Threads")} == {
        "Slices": theirs["slices"],
        "Values of counters": theirs["counters"],
        "Threads": theirs["threads"],
    }
    lasts = theirs["lasts"]
    assert isinstance(lasts, int)
    assert facts["Time covered"].split(",")[0] == human_duration(lasts)


def test_a_table_is_searched(views: dict[str, chromium.View]) -> None:
    (names, status), none, (some, all_status), rows = views["report"].values[0]
    assert {*names} == {f"GET /orders/{number}" for number in range(1, 40, 2)}
    assert status == "20 matches"
    assert none == [[], "0 matches"]
    assert (len(some), all_status) == (20, "20 of 48 rows")
    assert rows == [20, 48]


def test_a_table_is_sorted(views: dict[str, chromium.View]) -> None:
    by_calls, by_calls_again, by_name, by_name_again = views["report"].values[2]
    for (direction, count, values), expected in ((by_calls, "descending"), (by_calls_again, "ascending")):
        assert (direction, count) == (expected, 1)
        numbers = [int(value) for value in values]
        assert numbers == sorted(numbers, reverse=direction == "descending")
        assert len({*numbers}) > 1
    assert (by_name[:2], by_name_again[:2]) == (["ascending", 1], ["descending", 1])
    assert by_name[2] == by_name_again[2][::-1]
    gets = [name for name in by_name[2] if name.startswith("GET /orders/")]
    assert gets == [f"GET /orders/{number}" for number in range(1, 40, 2)]  # 9 is before 11


def test_charts_and_flame_graphs_are_drawn(views: dict[str, chromium.View]) -> None:
    *_, chart, flame, _ = views["report"].values
    assert chart[0]
    assert "used" in chart[1]
    title, *scrolls = flame
    assert title.endswith(" - speedscope")
    assert scrolls == [True, False]  # the wheel scrolls the page until the graph has the focus
    assert views["hostile"].values[0][0]


def test_names_do_no_harm(views: dict[str, chromium.View]) -> None:
    hit, images, _, fits = views["report"].values[-1]
    assert (hit, images, fits) == ("not hit", 0, True)
    hit, images, headings, fits = views["hostile"].values[-1]
    assert (hit, images, fits) == ("not hit", 0, True)
    assert headings == [short(name) for name in NAMES]
