"""What formats tell about their traces: reports for people and programs, and how values are written in them.

A format's presenting module (see `fxtio.formats.Presenter`) makes reports, a command prints them.  Text from a trace is
hostile: what is printed is escaped by whoever prints it, and `quoted` does so for a text within a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_NS_PER = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
_KEPT_TEXTS = 1 << 12  # a text may have 32 KiB


@dataclass(slots=True)
class ReportTable:
    """Rows below headers.

    Attributes:
        headers: the titles of the columns; what stands below one that begins with `>` is aligned on the right.
        rows: as many cells each as there are headers; integers get separators.
        more: how many rows were left out.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[int | str]]
    more: int = 0


@dataclass(slots=True)
class Report:
    """What a command tells about a trace, without the findings.

    Attributes:
        title: the first line.
        facts: pairs of a label and a text, a line each.
        tables: they follow, in this order.
        notes: sentences for the end.
        json: the same for programs, as `json.dumps` takes it; text that is not UTF-8 needs `json_text`.
    """

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    json: dict[str, Any] = field(default_factory=dict)


def json_text(text: str) -> str | dict[str, str]:
    """Text as JSON can hold it: `{"hex": ...}` where it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": text.encode("utf-8", "surrogateescape").hex()}
    return text


def printable(text: str) -> str:
    """Text that does no harm on a terminal: control characters and bytes that are not UTF-8 are escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{character.encode('utf-8', 'surrogateescape').hex()}"
    return character.encode("unicode_escape").decode("ascii")


@lru_cache(_KEPT_TEXTS)
def quoted(text: str) -> str:
    """Text in double quotes, safe on a terminal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def human_size(number: int) -> str:
    """Bytes for people: `969 bytes`, `1.5 MiB`."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{number:,} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def human_duration(ns: int) -> str:
    """Nanoseconds for people: `120 ns`, `1.500 ms`, `75.000 s`."""
    for unit, factor in _NS_PER:
        if ns >= factor:
            return f"{ns / factor:,.3f} {unit}"
    return f"{ns} ns"


def seconds(ns: int) -> str:
    """Nanoseconds as seconds, exactly."""
    whole, rest = divmod(abs(ns), 1_000_000_000)
    return f"{'-' * (ns < 0)}{whole}.{rest:09d}"
