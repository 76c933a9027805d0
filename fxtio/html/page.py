"""Makes the file that shows a page: HTML that contains everything it needs, and loads nothing.

Texts and numbers are in the HTML, so that they can be read where no scripts run, as in the preview of a mail.  A
script makes tables sortable, and draws charts and flame graphs from JSON.

Texts may come from a trace, so they are untrusted: control characters, also those that change the direction of
writing, are shown as escapes, long texts are cut, and what is special in HTML is escaped.  Beyond that, a content
security policy lets the page run only the scripts of this package, by their hashes, and forbids it to load anything.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from fxtio import __version__
from fxtio.errors import FxtioError
from fxtio.html.assets import assets
from fxtio.html.contents import MAX_TEXT, Cell, Chart, Facts, Flame, Grid, Page, Part, short
from fxtio.report import human_size

MAX_BYTES = 10_000_000
"""The greatest number of bytes of a page."""

_SHORT = 24  # a column of texts with at most this number of characters has no line breaks
_DIGITS = 9  # of the times and values of charts
_TIME_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_SIZE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_IN_HTML = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


class PageTooLargeError(FxtioError):
    """An error: a page has too many bytes, even without its flame graphs."""


def render(page: Page) -> bytes:
    """Return the HTML of a page, which is ASCII and has at most `MAX_BYTES`.

    Flame graphs for which there is no room are left out, the last ones first, and the page says so.

    Raises:
        PageTooLargeError: there is no room for the rest.
    """
    flames = [part for section in page.sections for part in section.parts if isinstance(part, Flame)]
    profiles = [_profile(flame) for flame in flames]
    while True:
        content = "\n".join(_lines(page, profiles)).encode("ascii", "xmlcharrefreplace")
        if len(content) <= MAX_BYTES:
            return content
        kept = [number for number, profile in enumerate(profiles) if profile]
        if not kept:
            raise PageTooLargeError(
                f"the page would have {human_size(len(content))}, more than {human_size(MAX_BYTES)}; "
                "select a part of the trace"
            )
        profiles[kept[-1]] = ""


def _profile(flame: Flame) -> str:
    """Return the profile of a flame graph, compressed; speedscope decompresses it."""
    return base64.b64encode(gzip.compress(flame.speedscope, mtime=0)).decode("ascii")


def _text(text: str) -> str:
    """Return a text as it is in HTML; one that may run from right to left does not mix with what is beside it."""
    escaped = _escaped(text)
    return escaped if escaped.isascii() else f"<bdi>{escaped}</bdi>"


def _escaped(text: str) -> str:
    """Return a text as it is in HTML or in an attribute."""
    return html.escape(short(text))


def _json(content: Any, attributes: str = "") -> str:
    """Return a script element that is data."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_IN_HTML)
    return f'<script type="application/json"{attributes}>{text}</script>'


# ---------------------------------------------------------------------------------------------------------------- parts


def _facts(facts: Facts) -> Iterator[str]:
    yield "<dl>"
    for label, text in facts.rows:
        yield f"<dt>{_text(label)}</dt><dd>{_text(text)}</dd>"
    yield "</dl>"


def _grid(grid: Grid, section: str) -> Iterator[str]:
    title = grid.title or section
    kinds = [_kind([row[column] for row in grid.rows]) for column in range(len(grid.headers))]
    heading = f"<h3>{_text(grid.title)}</h3>" if grid.title else ""
    yield f'<div class="grid" data-title="{_escaped(title)}">'
    yield f'<div class="heading">{heading}<div class="tools"></div></div>'
    width = " narrow" if {*kinds} == {"number"} else ""
    yield f'<div class="scroll{width}" tabindex="0" role="region" aria-label="{_escaped(title)}"><table><thead><tr>'
    for header, kind in zip(grid.headers, kinds, strict=True):
        yield f'<th scope="col" class="{kind}">{_text(header)}</th>'
    yield "</tr></thead><tbody>"
    for row in grid.rows:
        yield f"<tr>{''.join(map(_cell, row, kinds))}</tr>"
    yield "</tbody></table></div>"
    if grid.more:
        yield f'<p class="note">And {grid.more:,} more, which are left out.</p>'
    yield "</div>"


def _kind(column: Sequence[str | Cell]) -> str:
    """Return how a column is laid out: `number`, `long` if its texts may have several lines, or `short`."""
    if all(isinstance(cell, Cell) for cell in column):
        return "number"
    longest = max((len(cell.text if isinstance(cell, Cell) else cell) for cell in column), default=0)
    return "long" if longest > _SHORT else "short"


def _cell(cell: str | Cell, kind: str) -> str:
    if isinstance(cell, str):
        return f'<td class="{kind}">{_text(cell)}</td>'
    value = "" if math.isnan(cell.value) else f' data-value="{_script_number(cell.value)}"'
    return f'<td class="{kind}"{value}>{_text(cell.text)}</td>'


def _script_number(value: int | float) -> str:
    """Return a number as JavaScript reads it."""
    return repr(value).replace("inf", "Infinity")


def _chart(chart: Chart, end: int) -> Iterator[str]:
    """Yield the HTML of a chart, whose axis is from 0 to `end` (in nanoseconds) as that of the other ones."""
    time_unit, per_unit = next(((unit, ns) for unit, ns in _TIME_UNITS if end >= ns), _TIME_UNITS[-1])
    before = [0] if not chart.times or chart.times[0] > 0 else []
    after = [end] if not chart.times or chart.times[-1] < end else []
    unit, scale = chart.unit, 1
    if unit == "bytes":
        greatest = max((abs(value) for _, values in chart.series for value in _finite(values)), default=0)
        power = min(int(math.log(greatest, 1024)) if greatest >= 1 else 0, len(_SIZE_UNITS) - 1)
        unit, scale = _SIZE_UNITS[power], 1024**power
    content = {
        "times": [_rounded(time / per_unit) for time in [*before, *chart.times, *after]],
        "timeUnit": time_unit,
        "unit": short(unit),
        "series": [
            {
                "name": short(name),
                "values": [
                    _number_or_null(value, scale) for value in [*[None] * len(before), *values, *[None] * len(after)]
                ],
            }
            for name, values in chart.series
        ],
    }
    yield f'<figure class="chart"><figcaption>{_text(chart.title)}</figcaption>{_json(content)}'
    yield f'<div class="place" role="img" aria-label="{_escaped(_description(chart))}"></div></figure>'


def _finite(values: Sequence[int | float | None]) -> list[int | float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _number_or_null(value: int | float | None, scale: int) -> int | float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) and scale == 1 else _rounded(value / scale)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _description(chart: Chart) -> str:
    """Return what a chart shows, in words."""
    lines = []
    for name, values in chart.series:
        numbers = _finite(values)
        if numbers:
            lines.append(f"{name[:MAX_TEXT]} from {min(numbers):,} to {max(numbers):,} {chart.unit}".rstrip())
    return "; ".join(lines) or "no values"


def _flame(flame: Flame, profile: str) -> Iterator[str]:
    if not profile:
        yield f'<p class="note">{_text(flame.title)}: there is no room for this flame graph on the page.</p>'
        return
    view = "time-ordered" if flame.is_in_order else "left-heavy"
    content = {"title": short(flame.title), "view": view, "profile": profile}
    yield '<figure class="flame"><div class="heading">'
    yield f'<figcaption>{_text(flame.title)}</figcaption><div class="tools"></div></div>'
    yield f'<div class="place">{_json(content)}</div></figure>'


# ------------------------------------------------------------------------------------------------------------- the page


def _lines(page: Page, profiles: Sequence[str]) -> Iterator[str]:
    """Yield the HTML of a page; `profiles` are those of its flame graphs, empty for what is left out."""
    own = assets()
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{own.policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{_escaped(page.title)}</title>\n{own.notices}\n<style>{own.style}</style>\n</head>\n<body>"
    yield f"<header><h1>{_text(page.title)}</h1>"
    links = (f'<a href="#section-{at}">{_text(each.title)}</a>' for at, each in enumerate(page.sections, 1))
    yield f"<nav>{' '.join(links)}</nav>"
    yield '<noscript><p class="note">Without JavaScript there are no charts and flame graphs.</p></noscript>'
    yield "</header><main>"
    rest = iter(profiles)
    charts = (part for section in page.sections for part in section.parts if isinstance(part, Chart))
    end = max((chart.times[-1] for chart in charts if chart.times), default=0)
    for at, section in enumerate(page.sections, 1):
        yield f'<section id="section-{at}"><h2>{_text(section.title)}</h2>'
        for part in section.parts:
            yield from _part(part, section.title, rest, end)
        yield from (f'<p class="note">{_text(note)}</p>' for note in section.notes)
        yield "</section>"
    yield f"</main><footer>Made by fxtio {__version__}. This file contains everything, and loads nothing.</footer>"
    if any(profiles):
        yield _json(own.frame, ' id="flame-page"')
    yield f"<script>{own.script}</script>\n</body>\n</html>\n"


def _part(part: Part, section: str, profiles: Iterator[str], end: int) -> Iterator[str]:
    """Yield the HTML of a part.

    Args:
        part: the part.
        section: the title of its section.
        profiles: the profiles of the flame graphs that follow.
        end: the last time of all charts in nanoseconds.
    """
    match part:
        case Facts():
            yield from _facts(part)
        case Grid():
            yield from _grid(part, section)
        case Chart():
            yield from _chart(part, end)
        case Flame():
            yield from _flame(part, next(profiles))
