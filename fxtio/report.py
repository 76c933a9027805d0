"""Reports about traces, as values, and functions that convert sizes, times and text for them, and measure its width.

The room `report` of a format (see `fxtio.formats.ReportRoom`) makes reports, and the commands print them.  Tables,
findings and others describe themselves as reports, which `fxtio.display` shows.  Text from a trace is untrusted:
whoever shows a report escapes all of it, and `quoted` escapes a text within a line.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_NS_PER = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
_DELETE = "\x7f"
_NOT_PLAIN = re.compile(r"[^\n -~]+")  # JSON has escaped the control characters before the blank
_CACHED_TEXTS = 1 << 12  # a text may have 32 KiB, so they are not many


@dataclass(slots=True)
class ReportTable:
    """A table of a report.

    Attributes:
        headers: the titles of the columns; a column whose title begins with `>` is aligned on the right.
        rows: the rows, each with as many cells as there are headers; integers are printed with separators.
        more: the number of rows that were left out.
        last: the number of rows at the end that come after those that were left out.
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
        json: the same for programs, as `json_document` takes it.
    """

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    json: dict[str, Any] = field(default_factory=dict)


def summary_of(trace: Any) -> Report:
    """Return the summary of a trace of any format."""
    report: Report = trace.info.report()
    return report


def json_value(value: Any) -> Any:
    """Return a value such that JSON can express it: texts that are not UTF-8 as hex, infinity and the like as text.

    Args:
        value: a text, number, list, dict and so on, as `msgspec.json` takes it.
    """
    if isinstance(value, str):
        return _json_text(value)
    if isinstance(value, dict):
        return {_json_key(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json_key(key: Any) -> Any:
    return printable(key) if isinstance(key, str) and _json_text(key) is not key else key


def _json_text(text: str) -> str | dict[str, str]:
    """Return a text, or `{"hex": ...}` if it is not UTF-8 (has surrogates), which JSON cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"hex": b"".join(map(_bytes_of, text)).hex()}
    return text


def _bytes_of(character: str) -> bytes:
    """Return the bytes of a character; a surrogate escape stands for one byte, others are encoded as if allowed."""
    return character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")


def json_lines(values: Iterable[Any]) -> str:
    """Return values as lines of JSON, each with a line break.

    All output of commands that is JSON is made here.  It is ASCII without control characters, so it does nothing to a
    terminal, whatever names a trace has; and it is valid, see `json_value`.

    Args:
        values: values as `msgspec.json` takes them; what has no finite numbers only goes through `json_value` before.
    """
    from msgspec import to_builtins
    from msgspec.json import Encoder

    encoder, values = Encoder(), list(values)
    try:
        text = encoder.encode_lines(values).decode()
    except UnicodeEncodeError:
        text = encoder.encode_lines([json_value(to_builtins(value)) for value in values]).decode()
    return text if text.isascii() and _DELETE not in text else _NOT_PLAIN.sub(_json_escape, text)


def json_document(value: Any) -> str:
    """Return a value as JSON on several lines, each with a line break, see `json_lines`."""
    from msgspec.json import format  # noqa: A004

    return format(json_lines([json_value(value)]), indent=2) + "\n"


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def printable(text: str) -> str:
    """Escape control characters and bytes that are not UTF-8, so that a text is safe to print on a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: replacement characters stand for surrogates without a partner."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return names such that no two are equal: one that occurs a second time gets a number, `name_1`."""
    distinct: dict[str, None] = {}
    for name in names:
        numbers = (f"{name}_{number}" for number in itertools.count(1))
        distinct[next(each for each in itertools.chain([name], numbers) if each not in distinct)] = None
    return [*distinct]


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


_WIDE = ("W", "F")
_MARKS = ("Mn", "Me", "Cf")
_HANGUL_PARTS = range(0x1160, 0x1200)  # vowels and final consonants, which terminals draw into the syllable before


def width_of(text: str) -> int:
    """Return the number of columns that a text without control characters takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in _MARKS or ord(character) in _HANGUL_PARTS:
        return 0
    return 1 + (unicodedata.east_asian_width(character) in _WIDE)


def fitted(text: str, width: int, fill: str = " ") -> str:
    """Cut or fill a text so that it takes this number of columns."""
    start = start_of(text, width)
    return start + fill * (width - width_of(start))


def start_of(text: str, width: int) -> str:
    """Return the longest start of a text that takes at most this number of columns."""
    if text.isascii():
        return text[: max(width, 0)]
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:place]
    return text


def shortened(text: str, width: int, cut: str = "…") -> str:
    """Return a text that takes at most this number of columns: of a longer one, the start and the end.

    Args:
        text: the text.
        width: the number of columns.
        cut: the character in place of what is left out.
    """
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    head = start_of(text, (width - 1) // 3)
    tail = start_of(text[::-1], width - 1 - width_of(head))[::-1]
    while tail and not _width(tail[0]):  # a mark whose letter is cut off
        tail = tail[1:]
    return f"{head}{cut}{tail}"
