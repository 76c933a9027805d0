"""The content of a page about a trace, or about two: the order of its sections, the summary, and rankings as grids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fxtio.exchange import exchanges
from fxtio.formats import by_name
from fxtio.html import contents
from fxtio.html.collect import PageReading, read
from fxtio.html.contents import Cell, Facts, Grid, Page, Section, short
from fxtio.html.flames import Reduced
from fxtio.report import human_duration, seconds, short_duration
from fxtio.rules import rule
from fxtio.timeline.answers.answer import Answer
from fxtio.timeline.answers.places import short_place
from fxtio.timeline.comparison import Change, Difference, Times, compare

if TYPE_CHECKING:
    from fxtio.exchange.filter import Filter, Plan
    from fxtio.finding import Finding, Findings
    from fxtio.html.messages import Notices
    from fxtio.selection import Selection
    from fxtio.timeline import Timeline

FLAMES_SIZE = 6_000_000
"""The bytes of JSON that all flame graphs of a page have together, at most."""

CHARTS_SIZE = 900_000
"""The bytes of JSON that all charts of a page have together, at most."""


def trace_page(timeline: Timeline, plan: Plan) -> Page:
    """Return the page about a trace.

    Args:
        timeline: the trace.
        plan: the part that the page is about.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    facts = format_facts(timeline)
    passed = read(timeline, plan)
    reading = passed.target
    sections = [summary_section(timeline, facts, passed, plan)]
    sections += ranking_sections(reading)
    sections += flame_sections(reading, FLAMES_SIZE)
    origin, labels = reading.origin, reading.labels
    optional = [
        reading.counters.section(labels, origin, CHARTS_SIZE),
        *thread_sections(reading, origin),
        reading.moments.pauses(labels, origin),
        reading.moments.slow(reading.longest, reading.ranking.table, labels, origin),
        reading.instants.section(origin),
        reading.messages.section(labels, origin),
    ]
    sections += [section for section in optional if section is not None]
    return Page(title_of(timeline), sections)


def short_page(timeline: Timeline, plan: Plan) -> Page:
    """Return the page about what took the time: the rankings and the flame graphs of a trace.

    Args:
        timeline: the trace.
        plan: the part that the page is about.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    reading = read(timeline, plan).target
    return Page(title_of(timeline), [*ranking_sections(reading), *flame_sections(reading, FLAMES_SIZE)])


def title_of(timeline: Timeline) -> str:
    """Return the name of a trace without its folder."""
    return short(PurePath(timeline.name).name or timeline.name)


def compared_page(before: Timeline, after: Timeline, plan: Plan) -> Page:
    """Return the page that compares two traces of a program.

    Args:
        before: the first trace.
        after: the second one.
        plan: the part of each that the page is about.

    Raises:
        DecodeError: a trace was opened with `strict`, and has a fault.
    """
    sides = [_read_side(timeline, plan) for timeline in (before, after)]
    sections = []
    changes = changes_section(*(reading.run.times() for reading, _ in sides))
    sections += [changes] if changes is not None else []
    sections += [summary for _, summary in sides]
    flames = [flame_sections(reading, FLAMES_SIZE // len(sides)) for reading, _ in sides]
    names = {"before": before, "after": after}
    for (side, timeline), own in zip(names.items(), flames, strict=True):
        sections += [replace(each, title=f"{each.title} {side}: {title_of(timeline)}") for each in own]
    return Page(f"{title_of(before)} and {title_of(after)}", sections)


def _read_side(timeline: Timeline, plan: Plan) -> tuple[PageReading, Section]:
    """Read a trace that is compared; return what was collected, and its summary."""
    facts = format_facts(timeline)
    passed = read(timeline, plan, to_compare=True)
    return passed.target, summary_section(timeline, facts, passed, plan, f"Summary of {title_of(timeline)}")


def thread_sections(reading: PageReading, origin: int) -> list[Section]:
    """Return the sections about threads, tasks and arrows, without those that would be empty."""
    arrows = reading.arrows.grid()
    tasks = [*reading.tracks.tasks(reading.labels, origin), *([arrows] if arrows is not None else [])]
    end = reading.extent[1] if reading.extent is not None else origin
    threads = reading.tracks.threads(reading.labels, origin, end - origin)
    own = [*([threads] if threads is not None else []), *reading.processors.grids(reading.labels)]
    sections = [Section("Threads", own, reading.processors.notes())] if own else []
    return [*sections, *([Section("Tasks, and who waits for whom", tasks, reading.arrows.notes())] if tasks else [])]


def flame_sections(reading: PageReading, size: int) -> list[Section]:
    """Return the sections with flame graphs, of which all together have this many bytes of JSON."""
    filled = [name for name in ("slices", "samples", "allocations") if reading.counts[name]]
    each = size // max(len(filled), 1)
    sections = []
    if reading.counts["slices"]:
        sections.append(_flame_section("Flame graph", _slice_flames(reading, each)))
    for what, title in (("samples", "Samples"), ("allocations", "Allocated bytes")):
        if reading.counts[what]:
            flame = reading.stacks[what].flame(title, each)
            sections.append(_flame_section(f"Flame graph of {what}", [flame]))
    return sections


def _slice_flames(reading: PageReading, size: int) -> list[Reduced]:
    """Return the flame graphs of slices: those in the order of time and, if these do not show it, all calls merged."""
    in_order = reading.longest.flame("In the order of time", reading.origin, size // 3 * 2)
    if not in_order.notes and in_order.profiles <= 1:
        return [in_order]
    merged = reading.calls.flame("Calls by their callers", size // 3)
    return [in_order] if merged is None else [merged, in_order]


def _flame_section(title: str, flames: Sequence[Reduced]) -> Section:
    return Section(title, [each.flame for each in flames], [note for each in flames for note in each.notes])


FactRows = Sequence[tuple[str, str]]
"""Pairs of a label and a text."""

MAX_NAMED = 5
"""The most processes that are named in the summary."""

_COUNTED = {
    "slices": "Slices",
    "instants": "Instants",
    "samples": "Samples",
    "allocations": "Allocations",
    "counters": "Values of counters",
    "logs": "Log messages",
    "flow_points": "Points of flows",
    "scheduling": "Runs on processors",
    "wakeups": "Wakeups",
    "collections": "Garbage collections",
}
_OWN_FACTS = ("duration", "lasts", "records")
"""Facts of formats for which the summary has its own."""


def format_facts(timeline: Timeline) -> FactRows:
    """Return what the format of a trace says about it: pairs of a label and a text.

    The first use may read the trace once, so it comes before the reading whose findings are shown.
    """
    if timeline.trace is None:
        exchange = exchanges().get(timeline.format)
        return [("Format", timeline.format if exchange is None else exchange.title)]
    facts = by_name(timeline.format).report.info(timeline.trace).facts
    return [(label[:1].upper() + label[1:], text) for label, text in facts if label not in _OWN_FACTS]


def summary_section(
    timeline: Timeline, facts: FactRows, passed: Filter[PageReading, Notices], plan: Plan, title: str = "Summary"
) -> Section:
    """Return the section with the summary of a trace.

    Args:
        timeline: the trace, which was just read.
        facts: what its format says about it, see `format_facts`.
        passed: what was collected.
        plan: the part that was selected.
        title: its heading.
    """
    reading, notices = passed.target, passed.watcher
    facts = [*facts, *notices.facts(), *_extent(reading, plan.selection), *_counts(reading)]
    lost = notices.losses()
    facts += [("Lost, as the trace says", lost)] if lost else []
    parts: list[Facts | Grid] = [Facts([(contents.short(label), contents.short(text)) for label, text in facts])]
    if timeline.findings:
        parts.append(_findings_grid(timeline.findings))
    missing = (*timeline.losses.most_common(), *(+passed.left_out).most_common())
    notes = [f"Not shown: {contents.short(phrase)} ({number:,})." for phrase, number in missing]
    return Section(title, parts, notes)


def _extent(reading: PageReading, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield which part of the trace is shown, and what time it covers."""
    chosen = [*_selected(selection)]
    if chosen:
        yield "Part", "; ".join(chosen)
    if reading.extent is not None:
        start, end = reading.extent
        yield "Time covered", f"{human_duration(end - start)}, from {seconds(start)} s to {seconds(end)} s"


def _selected(selection: Selection) -> Iterator[str]:
    if selection.start is not None:
        yield f"from {seconds(selection.start)} s"
    if selection.end is not None:
        yield f"until {seconds(selection.end)} s"
    patterns: Mapping[str, tuple[str, ...]] = {
        "threads": selection.threads,
        "processes": selection.processes,
        "categories": selection.categories,
        "names": selection.names,
    }
    for noun, texts in patterns.items():
        if texts:
            yield f"{noun} {', '.join(texts)}"


def _counts(reading: PageReading) -> Iterator[tuple[str, str]]:
    """Yield how many processes, threads and rows of each kind there are."""
    tables, labels = reading.tables, reading.labels
    count = tables["processes"].num_rows
    if count:
        names = [labels.process(row) for row in islice(range(count), MAX_NAMED)]
        more = f" and {count - len(names):,} more" if count > len(names) else ""
        yield "Process" if count == 1 else "Processes", f"{', '.join(map(contents.short, names))}{more}"
    if tables["threads"].num_rows:
        yield "Threads", f"{tables['threads'].num_rows:,}"
    for name, label in _COUNTED.items():
        if reading.counts[name]:
            yield label, f"{reading.counts[name]:,}"


def _findings_grid(findings: Findings) -> Grid:
    """Return the findings by rule."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    rows: list[list[str | Cell]] = []
    for rule_id, number in findings.counts.most_common():
        known = rule(rule_id)
        place = first[rule_id]
        where = f"byte {place.offset:,}" + (f" of {place.file}" if place.file else "")
        meaning = f"{known.summary}. {known.why}".strip()
        rows.append([meaning, str(known.severity), contents.count(number), f"{where}: {place.message}", rule_id])
    return contents.grid(["Finding", "Severity", "Count", "First one", "Rule"], rows, title="Findings")


MAX_ROWS = 1_000
"""The most rows of a ranking."""

_SIZE = 300_000
_TIMES = {"self": "Self", "total": "Total", "median": "Median", "p99": "p99", "max": "Longest"}


def ranking_sections(reading: PageReading) -> list[Section]:
    """Return the sections about slices, samples and allocations, without those that would be empty."""
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
    grids = [
        contents.grid(
            _HEADERS,
            map(_row, each[:MAX_CHANGES]),
            more=max(len(each) - MAX_CHANGES, 0),
            title=title,
            size=_CHANGES_SIZE,
        )
        for title, each in groups.items()
        if each
    ]
    return Section("What changed", grids, notes)


def _row(each: Difference) -> list[str | Cell]:
    cost = round(each.cost)
    sign = "-" if cost < 0 else "+"
    ratio: str | Cell = Cell(f"{each.ratio:+,.1%}", each.ratio) if min(each.calls) else ""
    return [
        each.name,
        str(each.change),
        *(contents.count(round(calls)) for calls in each.calls),
        *(contents.duration(round(time)) if calls else "" for time, calls in zip(each.time, each.calls, strict=True)),
        ratio,
        each.by,
        Cell(f"{sign}{short_duration(abs(cost))}", cost),
    ]
