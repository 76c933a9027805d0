"""Reports about traces, as values, and functions that convert sizes, times and text for them.

The room `report` of a format (see `fxtio.formats.ReportRoom`) makes reports, and the commands print them.  Tables,
findings and others describe themselves as reports, which `fxtio.display` shows.  Text from a trace is untrusted:
whoever shows a report escapes all of it, and `quoted` escapes a text within a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_NS_PER = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
_CACHED_TEXTS = 1 << 12  # a text may have 32 KiB, so they are not many


@dataclass(slots=True)
class ReportTable:
    """A table of a report.

    Attributes:
        headers: the titles of the columns; a column whose title begins with `>` is aligned on the right.
        rows: the rows, each with as many cells as there are headers; integers are printed with separators.
        more: the number of rows that were left out.
        last: the number of rows at the end that come behind those that were left out.
        types: the type or unit of each column, or nothing at all.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[int | str]]
    more: int = 0
    last: int = 0
    types: Sequence[str] = ()


@dataclass(slots=True)
class Report:
    """A report about a trace, without the findings.

    Attributes:
        title: the first line.
        facts: pairs of a label and a text, printed as one line each.
        tables: the tables that follow.
        notes: the sentences at the end.
        json: the same for programs, as `json.dumps` takes it; text that may not be UTF-8 goes through `json_text`.
    """

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    json: dict[str, Any] = field(default_factory=dict)


def json_text(text: str) -> str | dict[str, str]:
    """Return a text, or `{"hex": ...}` if it is not UTF-8 (has surrogate escapes), which JSON cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return text


def printable(text: str) -> str:
    """Escape control characters and bytes that are not UTF-8, so that a text is safe to print on a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    """Return the escape sequence of a character; a surrogate escape stands for one byte."""
    if "\udc80" <= character <= "\udcff":
        return f"\\x{character.encode('utf-8', 'surrogateescape').hex()}"
    return character.encode("unicode_escape").decode("ascii")


@lru_cache(_CACHED_TEXTS)
def quoted(text: str) -> str:
    """Return a text in double quotes, escaped so that it is safe to print on a terminal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 record`, `2,000 records`, `0 addresses`."""
    plural = "" if number == 1 else "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number:,} {noun}{plural}"


def human_size(number: int) -> str:
    """Convert a number of bytes to text: `969 bytes`, `1.5 MiB`."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return counted(number, "byte") if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def human_duration(ns: int) -> str:
    """Convert nanoseconds to text with a fitting unit: `120 ns`, `1.500 ms`, `75.000 s`."""
    for unit, factor in _NS_PER:
        if ns >= factor:
            return f"{ns / factor:,.3f} {unit}"
    return f"{ns} ns"


def short_duration(ns: int) -> str:
    """Convert nanoseconds to text with three digits and a fitting unit: `120 ns`, `1.50 ms`, `75.0 s`."""
    for unit, factor in _NS_PER:
        # 999.5 us would be 1,000 us with three digits.
        if ns * 2 >= factor * 2 - factor // 1000:
            amount = ns / factor
            places = 2 if amount < 9.995 else 1 if amount < 99.95 else 0
            return f"{amount:,.{places}f} {unit}"
    return f"{ns} ns"


def human_value(number: int, unit: str) -> str:
    """Convert a number to text by its unit: `ns` and `bytes` as `short_duration` and `human_size`, others plainly."""
    if unit == "ns":
        return short_duration(number)
    return human_size(number) if unit == "bytes" else f"{number:,}"


def seconds(ns: int) -> str:
    """Convert nanoseconds to seconds as exact text: `0.000000120`."""
    whole, rest = divmod(abs(ns), 1_000_000_000)
    return f"{'-' * (ns < 0)}{whole}.{rest:09d}"


def short_seconds(ns: int) -> str:
    """Convert nanoseconds to seconds as exact text without zeros at the end: `0.00000012`, `5`."""
    return seconds(ns).rstrip("0").rstrip(".")
