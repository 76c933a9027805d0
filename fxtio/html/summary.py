"""The summary of a trace: what it is, how much it has, and what is wrong with it or missing in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fxtio.exchange import exchanges
from fxtio.formats import by_name
from fxtio.html import contents
from fxtio.html.contents import Cell, Facts, Grid, Section
from fxtio.html.reading import Reading
from fxtio.report import human_duration, seconds
from fxtio.rules import rule
from fxtio.selection import Selection

if TYPE_CHECKING:
    from fxtio.finding import Finding, Findings
    from fxtio.timeline import Timeline

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
    timeline: Timeline, facts: FactRows, reading: Reading, selection: Selection, title: str = "Summary"
) -> Section:
    """Return the section with the summary of a trace.

    Args:
        timeline: the trace, which was just read.
        facts: what its format says about it, see `format_facts`.
        reading: what was collected.
        selection: the part that was selected.
        title: its heading.
    """
    facts = [*facts, *reading.notices.facts(), *_extent(reading, selection), *_counts(reading)]
    lost = reading.notices.losses()
    facts += [("Lost, as the trace says", lost)] if lost else []
    parts: list[Facts | Grid] = [Facts([(contents.short(label), contents.short(text)) for label, text in facts])]
    if timeline.findings:
        parts.append(_findings_grid(timeline.findings))
    notes = [f"Not shown: {contents.short(phrase)} ({number:,})." for phrase, number in timeline.losses.most_common()]
    return Section(title, parts, notes)


def _extent(reading: Reading, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield which part of the trace is shown, and what time it covers."""
    chosen = [*_selected(selection)]
    if chosen:
        yield "Part", "; ".join(chosen)
    if reading.start is not None and reading.end is not None:
        covered = human_duration(reading.end - reading.start)
        yield "Time covered", f"{covered}, from {seconds(reading.start)} s to {seconds(reading.end)} s"


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


def _counts(reading: Reading) -> Iterator[tuple[str, str]]:
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
