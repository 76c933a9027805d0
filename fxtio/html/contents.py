"""The kinds of content that a page has.

A page has sections, and a section has parts: facts, grids, charts and flame graphs.  Who makes the content knows
traces and no HTML; who shows it knows these classes and no traces.  All text may come from a trace, so it is untrusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels with texts.

    Attributes:
        rows: the pairs of a label and a text.
    """

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid that is sorted by a number.

    Attributes:
        text: its text.
        value: the number.
    """

    text: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that can be sorted and searched.

    Attributes:
        headers: the titles of the columns.
        rows: the rows, each with as many cells as there are headers; a `str` is sorted as text.
        more: the number of rows that were left out.
        title: the title, if its section has several parts.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    more: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers over time.

    Attributes:
        title: the name of the counter.
        times: nanoseconds since the begin of the trace, ascending.
        series: the names of the lines, and for each time its value, None where it has none.
        unit: the unit of the values, if there is one.
    """

    title: str
    times: Sequence[int]
    series: Sequence[tuple[str, Sequence[int | float | None]]]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph, which can also be seen in the order of time.

    Attributes:
        title: its name.
        speedscope: the profile as speedscope JSON.
        is_in_order: whether the order of time is what is seen first.
    """

    title: str
    speedscope: bytes
    is_in_order: bool = False


Part = Facts | Grid | Chart | Flame


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page.

    Attributes:
        title: its heading.
        parts: the content, from top to bottom.
        notes: the sentences at the end, such as what was left out.
    """

    title: str
    parts: Sequence[Part]
    notes: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True)
class Page:
    """A page about a trace, or about two.

    Attributes:
        title: its heading.
        sections: the content, from top to bottom.
    """

    title: str
    sections: Sequence[Section]
