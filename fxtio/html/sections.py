"""The content of a page about a trace, or about two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from fxtio.html.contents import Page, Section, short
from fxtio.html.flames import Reduced
from fxtio.html.rankings import changes_section, ranking_sections
from fxtio.html.reading import Reading, read
from fxtio.html.summary import format_facts, summary_section

if TYPE_CHECKING:
    from fxtio.selection import Selection
    from fxtio.timeline import Timeline

FLAMES_SIZE = 6_000_000
"""The bytes of JSON that all flame graphs of a page have together, at most."""

CHARTS_SIZE = 900_000
"""The bytes of JSON that all charts of a page have together, at most."""


def trace_page(timeline: Timeline, selection: Selection) -> Page:
    """Return the page about a trace.

    Args:
        timeline: the trace.
        selection: the part that the page is about.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    facts = format_facts(timeline)
    reading = read(timeline, selection)
    sections = [summary_section(timeline, facts, reading, selection)]
    sections += ranking_sections(reading)
    sections += flame_sections(reading, FLAMES_SIZE)
    origin, labels = reading.start or 0, reading.labels
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


def short_page(timeline: Timeline, selection: Selection) -> Page:
    """Return the page about what took the time: the rankings and the flame graphs of a trace.

    Args:
        timeline: the trace.
        selection: the part that the page is about.

    Raises:
        DecodeError: the trace was opened with `strict`, and has a fault.
    """
    reading = read(timeline, selection)
    return Page(title_of(timeline), [*ranking_sections(reading), *flame_sections(reading, FLAMES_SIZE)])


def title_of(timeline: Timeline) -> str:
    """Return the name of a trace without its folder."""
    return short(PurePath(timeline.name).name or timeline.name)


def compared_page(before: Timeline, after: Timeline, selection: Selection) -> Page:
    """Return the page that compares two traces of a program.

    Args:
        before: the first trace.
        after: the second one.
        selection: the part of each that the page is about.

    Raises:
        DecodeError: a trace was opened with `strict`, and has a fault.
    """
    sides = [_read_side(timeline, selection) for timeline in (before, after)]
    sections = []
    runs = [reading.run.times() for reading, _ in sides if reading.run is not None]
    changes = changes_section(*runs)
    sections += [changes] if changes is not None else []
    sections += [summary for _, summary in sides]
    flames = [flame_sections(reading, FLAMES_SIZE // len(sides)) for reading, _ in sides]
    names = {"before": before, "after": after}
    for (side, timeline), own in zip(names.items(), flames, strict=True):
        sections += [replace(each, title=f"{each.title} {side}: {title_of(timeline)}") for each in own]
    return Page(f"{title_of(before)} and {title_of(after)}", sections)


def _read_side(timeline: Timeline, selection: Selection) -> tuple[Reading, Section]:
    """Read a trace that is compared; return what was collected, and its summary."""
    facts = format_facts(timeline)
    reading = read(timeline, selection, to_compare=True)
    return reading, summary_section(timeline, facts, reading, selection, f"Summary of {title_of(timeline)}")


def thread_sections(reading: Reading, origin: int) -> list[Section]:
    """Return the sections about tasks and arrows, and about threads, as far as there is something to show."""
    arrows = reading.arrows.grid()
    tasks = [*reading.tracks.tasks(reading.labels, origin), *([arrows] if arrows is not None else [])]
    threads = reading.tracks.threads(reading.labels, origin, (reading.end or 0) - origin)
    own = [*([threads] if threads is not None else []), *reading.processors.grids(reading.labels)]
    sections = [Section("Threads", own)] if own else []
    return [*sections, *([Section("Tasks, and who waits for whom", tasks, reading.arrows.notes())] if tasks else [])]


def flame_sections(reading: Reading, size: int) -> list[Section]:
    """Return the sections with flame graphs, of which all together have so many bytes of JSON."""
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


def _slice_flames(reading: Reading, size: int) -> list[Reduced]:
    """Return the flame graphs of slices: those in the order of time and, if these do not show it, all calls merged."""
    in_order = reading.longest.flame("In the order of time", reading.start or 0, size // 3 * 2)
    if not in_order.notes and in_order.profiles <= 1:
        return [in_order]
    merged = reading.calls.flame("Calls by their callers", size // 3)
    return [in_order] if merged is None else [merged, in_order]


def _flame_section(title: str, flames: Sequence[Reduced]) -> Section:
    return Section(title, [each.flame for each in flames], [note for each in flames for note in each.notes])
