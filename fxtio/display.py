"""Reports as text for terminals, as HTML for notebooks, and as Markdown for pull requests.

Tables, findings, summaries and answers describe themselves as a `fxtio.report.Report`: `str` of them is `as_text` of
it, and notebooks show `as_html`.  Their `repr` stays one short line, since it also is within other texts: in
messages of failed assertions, in debuggers, in lists.

All text may come from a trace, so it is untrusted: it is escaped, and cut to `MAX_CELL` characters before that.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from html import escape

from fxtio.report import Report, ReportTable, counted, fitted, printable, start_of, width_of

MAX_ROWS = 20
"""The most rows of a table that are shown."""

FIRST_ROWS, LAST_ROWS = 10, 5
"""The rows from the start and from the end of a longer table that are shown on a terminal."""

MAX_CELL = 400
"""The most characters of a cell that are shown; names in traces may have a million."""

MAX_COLUMNS = 100
"""The most columns of a table that are shown."""

_CUT = "…"
_GAP = "  "
_NO_TERMINAL = (100, 24)
_LEAST_TEXT = 16
"""The width below which a column of text is not cut to make room for other columns."""

_GRAY = "rgba(128, 128, 128, 0.35)"
_CELL_STYLE = "padding: 1px 8px; vertical-align: top; max-width: 40em; overflow-wrap: anywhere; white-space: pre-wrap"
_TABLE_STYLE = "border-collapse: collapse; margin: 4px 0; font-size: 90%"


def as_text(report: Report, width: int | None = None) -> str:
    """Return a report as lines of text without a line break at the end.

    Args:
        report: the report; of a table with more than `MAX_ROWS` rows the first ones are shown.
        width: the number of columns that tables may take; by default that of the terminal, and 100 where there is none.
    """
    if width is None:
        width = shutil.get_terminal_size(_NO_TERMINAL).columns
    lines = [_cut(report.title)]
    facts = [(_cut(label), _cut(value)) for label, value in report.facts]
    labels = max((width_of(label) for label, _ in facts), default=0)
    lines += [f"{_GAP}{fitted(label, labels)}{_GAP}{value}".rstrip() for label, value in facts]
    for table in report.tables:
        if table.headers:
            lines += ["", *_table_lines(_bounded(table), width)]
    if report.notes:
        lines += ["", *map(_cut, report.notes)]
    return "\n".join(lines)


def as_html(report: Report) -> str:
    """Return a report as HTML for notebooks: without scripts, and with the colors of the page.

    Args:
        report: the report; of a table with more than `MAX_ROWS` rows the first ones are shown.
    """
    parts = [f"<div><strong>{_html(report.title)}</strong></div>"]
    if report.facts:
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL_STYLE}; text-align: left">{_html(label)}</th>{_html_cell(value)}</tr>'
            for label, value in report.facts
        )
        parts.append(f'<table style="{_TABLE_STYLE}"><tbody>{rows}</tbody></table>')
    parts += [_html_table(_bounded(table)) for table in report.tables if table.headers]
    parts += [f"<div>{_html(note)}</div>" for note in report.notes]
    return f"<div>{''.join(parts)}</div>"


def as_markdown(report: Report) -> str:
    """Return a report as Markdown with tables, in at most some 20,000 characters for a table and 1,000 for a note.

    Only plain words and numbers are outside of code spans, so no text of a trace becomes a link, a mention or a tag.

    Args:
        report: the report; of a table with more than `MAX_ROWS` rows the first ones are shown.
    """
    parts = [f"## {_prose(report.title)}"]
    if report.facts:
        parts.append("\n".join(f"- {_prose(label)}: {_prose(value)}" for label, value in report.facts))
    parts += [_markdown_table(_bounded(table)) for table in report.tables if table.headers]
    parts += map(_prose, report.notes)
    return "\n\n".join(parts)


def _bounded(table: ReportTable) -> ReportTable:
    """Return a table with at most `MAX_ROWS` rows and `MAX_COLUMNS` columns."""
    if len(table.headers) > MAX_COLUMNS:
        rows = [[*row[:MAX_COLUMNS], _CUT] for row in table.rows]
        headers = [*table.headers[:MAX_COLUMNS], f"{counted(len(table.headers) - MAX_COLUMNS, 'more column')}"]
        types = [*table.types[:MAX_COLUMNS], ""] if table.types else ()
        table = ReportTable(headers, rows, table.more, table.last, types)
    left_out = len(table.rows) - MAX_ROWS
    if left_out <= 0:
        return table
    return ReportTable(table.headers, table.rows[:MAX_ROWS], table.more + left_out, 0, table.types)


def _cut(text: str, at: int = MAX_CELL) -> str:
    """Return the start of a text, escaped, in at most this number of characters."""
    shown = printable(text[: at + 1])
    return shown if len(shown) <= at else shown[: at - 1] + _CUT


def _cell(cell: int | str) -> str:
    return f"{cell:,}" if isinstance(cell, int) else _cut(cell)


def _end_of(table: ReportTable) -> str:
    return f"and {table.more:,} more" if table.more else ""


# ---- text


def _table_lines(table: ReportTable, width: int) -> list[str]:
    right = [header.startswith(">") for header in table.headers]
    titles = [_cut(header.removeprefix(">")) for header in table.headers]
    rows = [
        titles,
        *([list(map(_cut, table.types))] if table.types else []),
        *([*map(_cell, row)] for row in table.rows),
    ]
    widths = _fitting([max(map(width_of, column)) for column in zip(*rows, strict=True)], right, width)
    hidden = titles[len(widths) :]
    lines = []
    for row in rows:
        cells = [_aligned(*each) for each in zip(row, widths, right, strict=False)]
        lines.append(_GAP.join([*cells, _CUT] if hidden else cells).rstrip())
    if table.more and table.last:
        lines.insert(len(lines) - table.last, _CUT)
    notes = [_end_of(table)] if table.more and not table.last else []
    if hidden:
        notes.append(f"columns that do not fit here: {', '.join(hidden)}")
    return lines + notes


def _fitting(widths: Sequence[int], right: Sequence[bool], available: int) -> list[int]:
    """Return the widths of the first columns, as many as fit; texts are cut for that, numbers are not.

    Args:
        widths: the widths of all columns.
        right: for each column whether it is aligned on the right, as numbers are.
        available: the width of all together, with gaps.
    """
    least = [width if is_right else min(width, _LEAST_TEXT) for width, is_right in zip(widths, right, strict=True)]
    shown = len(widths)
    while shown > 1 and _total(least[:shown]) + (len(_GAP + _CUT) if shown < len(widths) else 0) > available:
        shown -= 1
    if shown < len(widths):
        available -= len(_GAP + _CUT)
    result = list(widths[:shown])
    excess = _total(result) - available
    while excess > 0:
        texts = sorted((width, column) for column, width in enumerate(result) if width > least[column])
        if not texts:
            break
        width, widest = texts[-1]
        second = texts[-2][0] if len(texts) > 1 else least[widest]
        step = min(excess, max(width - second, 1), width - least[widest])
        result[widest] -= step
        excess -= step
    return result


def _total(widths: Sequence[int]) -> int:
    """Return the width of columns with the gaps between them."""
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _aligned(cell: str, width: int, is_right: bool) -> str:
    missing = width - width_of(cell)
    if missing < 0:
        cell = start_of(cell, width - 1) + _CUT
        missing = width - width_of(cell)
    return " " * missing + cell if is_right else cell + " " * missing


# ---- HTML


def _html(text: str) -> str:
    return escape(_cut(text))


def _html_cell(cell: int | str, *, is_right: bool = False) -> str:
    return f'<td style="{_CELL_STYLE}; text-align: {"right" if is_right else "left"}">{escape(_cell(cell))}</td>'


def _html_table(table: ReportTable) -> str:
    right = [header.startswith(">") for header in table.headers]
    types = table.types or [""] * len(right)
    titles = "".join(
        f'<th style="{_CELL_STYLE}; text-align: {"right" if is_right else "left"}; border-bottom: 1px solid {_GRAY}">'
        f"{_html(header.removeprefix('>'))}{_html_type(kind)}</th>"
        for header, kind, is_right in zip(table.headers, types, right, strict=True)
    )
    rows = [
        "".join(_html_cell(cell, is_right=is_right) for cell, is_right in zip(row, right, strict=True))
        for row in table.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    whole = f'<table style="{_TABLE_STYLE}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'
    return whole + (f"<div>{_end_of(table)}</div>" if table.more else "")


def _html_type(text: str) -> str:
    return f'<br><span style="font-weight: normal; opacity: 0.7">{_html(text)}</span>' if text else ""


# ---- Markdown

_MARKDOWN_CELL = 120
"""The most characters of a cell in Markdown; a comment on GitHub may have 65,536."""

_PLAIN = re.compile(r"(?!.*[0-9a-f]{7})[(+-]?(\d[^\W_]*([.,%+-]+[^\W_]*)*|[^\W\d_]+([-'][^\W\d_]+)*)[).,:;]*")
"""A word or number that means nothing else in Markdown or on GitHub, where seven hexadecimal digits are a commit."""


def _markdown_table(table: ReportTable) -> str:
    rows = [
        [_prose(header.removeprefix(">")) for header in table.headers],
        ["--:" if header.startswith(">") else "---" for header in table.headers],
        *zip(*map(_markdown_column, zip(*table.rows, strict=True)), strict=True),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + (f"\n\n{_end_of(table)}" if table.more else "")


def _markdown_column(cells: Sequence[int | str]) -> list[str]:
    """Return the cells of a column, all as code where one has more than plain words, so that they look alike."""
    texts = [f"{cell:,}" if isinstance(cell, int) else _cut(cell, _MARKDOWN_CELL) for cell in cells]
    return texts if all(map(_PLAIN.fullmatch, " ".join(texts).split())) else [*map(_code, texts)]


def _prose(text: str) -> str:
    """Return a text whose words are plain, or else code."""
    return " ".join(word if _PLAIN.fullmatch(word) else _code(word) for word in _cut(text).split())


def _code(text: str) -> str:
    """Return a text as code spans; a `|` is between them, since in a table it ends a cell even within code."""
    return "&#124;".join(map(_code_span, text.split("|")))


def _code_span(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    gap = " " if {text[0], text[-1]} & {"`", " "} else ""
    return f"{fence}{gap}{text}{gap}{fence}"
