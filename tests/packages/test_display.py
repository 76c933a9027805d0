"""Tests of what `print` and notebooks show: tables, findings, summaries, answers, timelines and traces."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

import fxtio
from contract.samples import SYNTHETIC, Sample, open_sample
from fxtio import readers
from fxtio.cli import main
from fxtio.display import FIRST_ROWS, LAST_ROWS, MAX_CELL, MAX_COLUMNS, MAX_ROWS, as_html, as_markdown, as_text
from fxtio.finding import Findings
from fxtio.report import Report, ReportTable, counted, fitted, printable, short_duration, start_of, width_of
from fxtio.table import Bytes, Categories, Derived, Lists, Optional, Table
from fxtio.timeline import answers
from support.checkout import CORPUS

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><b>",
    "\x1b[31m",
    "\u202egnp.exe",
    "\udcff",
    "\ud800",
    "a" * 1_000_000,
    "\n",
]
TRACE = CORPUS / "fxt" / "janestreet-demo.fxt"

texts = st.text(max_size=60) | st.sampled_from(HOSTILE)


class _Text(HTMLParser):
    """Collects the tags and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "scope"}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(html: str) -> str:
    """Return the text of HTML that has only harmless tags and attributes."""
    parsed = _Text(html)
    assert parsed.tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "br", "span"}
    return parsed.text


@st.composite
def reports(draw: st.DrawFn) -> Report:
    width = draw(st.integers(1, 6))
    headers = draw(st.lists(texts.map(lambda text: text.lstrip(">")), min_size=width, max_size=width))
    marked = [draw(st.sampled_from(["", ">"])) + header for header in headers]
    cells = [st.integers(0, 10**12) if header.startswith(">") else texts for header in marked]
    rows = draw(st.lists(st.tuples(*cells), max_size=30))
    last = draw(st.integers(0, len(rows)))
    types = headers if draw(st.booleans()) else []
    table = ReportTable(marked, rows, draw(st.integers(0, 5)), last, types)
    return Report(draw(texts), draw(st.lists(st.tuples(texts, texts), max_size=3)), [table], draw(st.lists(texts)))


@given(reports(), st.integers(1, 300))
def test_any_report_is_shown_safely(report: Report, width: int) -> None:
    lines = as_text(report, width).split("\n")
    assert all(line.isprintable() and len(line) < 20 * MAX_CELL for line in lines)
    assert text_of(as_html(report)).isprintable()
    assert len(as_html(report)) < 60_000 + 8 * MAX_CELL * sum(len(row) for row in report.tables[0].rows)


MARKUP = st.lists(
    st.sampled_from([*"`|\\<>&@#*_~[]()!:/.-+ =$ab1é\n", "@user", "https://a.example", "www.", "|`", "&lt;", "0a1b2c3"])
).map("".join)


KINDS = {"heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item"}


def shown_in_markdown(tokens: Iterable[Token]) -> Iterator[str]:
    """Yield what each paragraph, heading and cell shows; all of it but plain words must be code."""
    for token in tokens:
        if token.type == "inline":
            assert {each.type for each in token.children or ()} <= {"text", "code_inline"}
            yield "".join(each.content for each in token.children or ())
            plain = " ".join(each.content for each in token.children or () if each.type == "text").replace("|", "")
            assert not re.search(r"[`<>&@#*_~\[\]!/\\=$]|www\.\w|:\w|\b[0-9a-f]{7}", plain)
        else:
            kind = token.type.removesuffix("_open").removesuffix("_close")
            assert kind in KINDS


def words(texts: Iterable[Any]) -> list[list[str]]:
    return [(f"{each:,}" if isinstance(each, int) else printable(each)).split() for each in texts]


@given(st.lists(st.tuples(MARKUP, st.integers(0, 10**9), MARKUP), max_size=9), MARKUP)
@example([], "(0a1b2c3)")
@example([], "see-deadbeef")
def test_markdown_shows_texts_as_they_are(rows: list[tuple[str, int, str]], text: str) -> None:
    """Each text is one cell, word by word, and none becomes a link, a mention, a tag or another cell."""
    report = Report(text, [(text, "b")], [ReportTable(["a", ">b", f"c{text}"], rows)], [text, "end"])
    tokens = MarkdownIt("commonmark").enable("table").parse(as_markdown(report))
    shown = words(shown_in_markdown(tokens))
    expected = [
        text,
        f"{' '.join(printable(text).split())}: b",
        "a",
        "b",
        f"c{text}",
        *itertools.chain.from_iterable(rows),
        text,
        "end",
    ]
    assert [each for each in shown if each] == [each for each in words(expected) if each]


def test_markdown_has_a_bounded_length() -> None:
    for name in ("`|" * 10**6, "`a" * 10**6, "|" * 10**6, "\x00" * 10**6, "\u0300" * 10**6):
        table = ReportTable(["name", *[">time"] * 10], [(name, *[10**12] * 10)] * 10**4)
        assert len(as_markdown(Report(name, tables=[table], notes=[name] * 5))) < 40_000


@given(st.integers(1, 10**15), st.floats(0, 1e9))
def test_durations_and_numbers_are_plain_in_markdown(ns: int, number: float) -> None:
    cells = short_duration(ns), f"{number:.2g}", f"{number:+,.1%}", "+1.00 ms", "slower"
    table = ReportTable(["of"], [[cell] for cell in cells])
    assert "`" not in as_markdown(Report("2 of 10 names failed", tables=[table], notes=["10 checked, 2 failed; (p)"]))


@given(reports(), st.integers(100, 300))
def test_tables_fit_the_terminal(report: Report, width: int) -> None:
    (table,) = report.tables
    plain = ReportTable([header[:40] for header in table.headers], table.rows, types=[kind[:9] for kind in table.types])
    for line in as_text(Report("", tables=[plain]), width).split("\n"):
        assert width_of(line) <= width or line.startswith("columns that do not fit here: ")


def test_texts_are_cut_beside_numbers_of_the_same_width() -> None:
    table = ReportTable([">number", "text", "other"], [[int("9" * 24), "a" * 31, "b" * 40]])
    lines = as_text(Report("", tables=[table]), 80).split("\n")
    assert lines[-1] == f"{int('9' * 24):,}  {'a' * 22}…  {'b' * 21}…"


def test_a_table_shows_types_and_both_ends() -> None:
    rows = 1_234_567
    table = Table(
        {
            "start": np.arange(rows, dtype=np.int64) * 1_000,
            "duration": np.full(rows, 1_500, np.int64),
            "name": Categories(np.zeros(rows, np.int32), ["wörk"]),
            "value": Optional(np.arange(rows) / 2, np.arange(rows) % 2 == 1),
        }
    )
    lines = str(table).split("\n")
    assert lines[:5] == [
        "1,234,567 rows, 4 columns",
        "",
        "      start  duration  name     value",
        "          s  duration  text   float64",
        "0.000000000   1.50 us  wörk      null",
    ]
    assert lines[4 + FIRST_ROWS] == "…"
    assert lines[-1] == "1.234566000   1.50 us  wörk      null"
    assert len(lines) == 4 + FIRST_ROWS + 1 + LAST_ROWS
    assert text_of(table._repr_html_()).endswith(f"and {rows - MAX_ROWS:,} more")
    assert repr(table) == "Table(1,234,567 rows: start, duration, name, value)"


def test_all_kinds_of_columns_are_shown() -> None:
    items = [[{"a": 1}] * count for count in (0, 1, 4)]
    columns: dict[str, Any] = {
        "bytes": Bytes([b"", b"\x00\xff", b"x" * 40]),
        "lists": Lists.of(items),
        "text": Categories.of(["a", None, ""]),
        "flags": np.array([True, False, True]),
        "number": np.array([0.1, 1e300, np.nan]),
        "time": np.array([0.5, 1.5, 2.5]),
    }
    lines = as_text(Table(columns)._report(3, 0), 300).split("\n")[3:]
    assert [[cell.strip() for cell in line.split("  ") if cell] for line in lines] == [
        ["bytes", "items", "text", "bool", "float64", "float64"],
        ["0", "a", "True", "0.1", "0.5"],
        ["00 ff", "1: a=1", "null", "False", "1e+300", "1.5"],
        [f"{'78 ' * 32}… (40 bytes)", "4: a=1; a=1; a=1; …", "True", "nan", "2.5"],
    ]


def test_empty_tables_and_tables_without_columns() -> None:
    assert str(Table({})) == "0 rows, 0 columns"
    assert str(Table({"a": np.empty(0)})).split("\n") == ["0 rows, 1 column", "", "      a", "float64"]
    assert text_of(Table({})._repr_html_()) == "0 rows, 0 columns"


def test_only_rows_that_are_shown_are_computed() -> None:
    asked: list[int] = []

    def make(at: Any) -> Any:
        asked.append(len(np.arange(1_000_000)[at]))
        return np.arange(1_000_000)[at] * 2

    table = Table({"a": np.arange(1_000_000), "b": Derived.by_row(make)})
    assert "1999998" in str(table)
    table._repr_html_()
    assert asked == [FIRST_ROWS + LAST_ROWS, MAX_ROWS]
    assert table["b"][-1] == 1_999_998


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_rows_that_are_computed_alone_are_those_of_the_whole_column(sample: Sample, tmp_path: Path) -> None:
    with open_sample(sample, tmp_path) as trace:
        tables = trace.tables(*trace.table_names) | trace.timeline().tables("slices", "args")
    for table in tables.values():
        before = str(table)
        whole = Table(dict(table.items()))
        assert str(whole) == before


def test_wide_tables_are_cut() -> None:
    table = Table({f"column {number}": np.zeros(1) for number in range(10_000)})
    assert "columns that do not fit here: column " in str(table)
    assert f"{10_000 - MAX_COLUMNS:,} more columns" in text_of(table._repr_html_())


def test_the_terminal_decides_about_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    trace = fxtio.open(TRACE)
    assert 40 < max(map(width_of, str(trace.table("events")).split("\n")[:-1])) <= 60


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_summaries_of_all_formats(sample: Sample, tmp_path: Path) -> None:
    with open_sample(sample, tmp_path) as trace:
        html = text_of(trace._repr_html_())
        lines = str(trace.info).split("\n")
        assert trace.format in lines[1]
        assert lines[0] in html
        assert ", ".join(trace.table_names)[:300] in html
        assert "\n" not in repr(trace)


def test_one_of_a_kind_is_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [counted(number, noun) for number, noun in ((1, "address"), (0, "address"), (2, "match"), (2000, "byte"))]
    assert numbers == ["1 address", "0 addresses", "2 matches", "2,000 bytes"]
    path = str(tmp_path / "one.dcpi")
    assert main(["synth", "profile", "--events", "1", "-o", path]) == 0
    assert [main([command, path]) for command in ("info", "stats", "validate")] == [0, 0, 0]
    shown = capsys.readouterr()
    assert re.findall(r"\b1 [a-z]+[^s]s\b", shown.out + shown.err) == []
    assert {"1 event", "1 chunk", "1 address", "1 count"} <= {*re.findall(r"\b1 [a-z]+\b", shown.out + shown.err)}


def test_findings() -> None:
    findings = Findings("fxt")
    assert str(findings) == "no findings"
    for offset in range(200):
        findings.add("bits.padding", offset * 1_000, f"the padding has <b> {offset}")
    lines = str(findings).split("\n")
    assert lines[0] == "200 findings"
    assert lines[2].split() == ["severity", "byte", "rule", "message"]
    assert lines[-2].split()[:3] == ["warning", "19,000", "fxt.bits.padding"]
    assert lines[-1] == "and 180 more"
    assert "the padding has <b> 19" in text_of(findings._repr_html_())
    findings = Findings("fxt")
    findings.add("bits.padding", 8, "once", file="a.dat")
    assert str(findings).startswith("1 finding\n\nseverity  file   byte")


def test_answers() -> None:
    timeline = fxtio.open(CORPUS / "fxt" / "magic-trace.fxt").timeline()
    top = answers.top(timeline)
    lines = str(top).split("\n")
    assert lines[0] == "slices"
    assert lines[2].split() == ["calls", "total", "self", "min", "median", "p99", "max", "share", "name"]
    first = "392 35.1 us 35.1 us 1 ns 96 ns 578 ns 806 ns 10.6% next_uptodate_page"
    assert " ".join(lines[3].split()) == first
    assert lines[-1] == f"and {top.table.num_rows - MAX_ROWS} more"
    tree = str(answers.tree(timeline))
    assert "\n    1   227 us  2.24 us  69.0%    _dl_start\n" in tree
    assert ">  _dl_start<" in answers.tree(timeline)._repr_html_()
    assert "next_uptodate_page" in text_of(top._repr_html_())


def test_a_timeline_tells_its_tables_without_reading() -> None:
    timeline = fxtio.open(TRACE).timeline()
    assert repr(timeline) == f"Timeline({str(TRACE)!r}, 'fxt')"
    assert "A table is read when it is asked for" in str(timeline)
    assert timeline._latest is None
    rows = timeline.table("slices").num_rows
    assert f"slices{rows:,}id, start, duration" in text_of(timeline._repr_html_())


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_traces_are_harmless(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.fxt"
    with fxtio.create(path) as writer:
        short = name.encode("utf-8", "replace").decode()[:30_000]
        writer.thread(1, 2, name=short).complete(short, 0, 10, category=short)
    with fxtio.open(path) as trace:
        shown = [
            trace,
            trace.info,
            trace.table("events"),
            trace.timeline().table("slices"),
            answers.top(trace.timeline()),
        ]
        each: Any
        for each in shown:
            assert text_of(each._repr_html_()).isprintable()
        for each in shown[1:]:
            assert all(line.isprintable() for line in str(each).split("\n"))


@pytest.mark.parametrize("sample", SYNTHETIC, ids=str)
def test_large_traces_are_not_read_for_a_notebook(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "QUICK_BYTES", 0)
    with open_sample(sample, tmp_path) as trace:
        html = text_of(trace._repr_html_())
        assert "trace.info reads the whole trace" in html
        _ = trace.info
        assert "trace.info reads" not in text_of(trace._repr_html_())


def test_what_can_be_read_once_is_not_read_for_a_notebook() -> None:
    trace = fxtio.open(io.BytesIO(TRACE.read_bytes()))
    assert "trace.info reads the whole trace" in text_of(trace._repr_html_())
    assert len(list(trace)) == len(list(fxtio.open(TRACE)))


def test_a_broken_trace_is_shown() -> None:
    path = CORPUS / "fxt" / "ftr-counter-malformed.fxt"
    assert "findings3, of 1 rule: see trace.findings" in text_of(fxtio.open(path)._repr_html_())
    assert "the counter's id" in text_of(fxtio.open(path, strict=True)._repr_html_())


def test_a_trace_that_is_gone_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    path.write_bytes(TRACE.read_bytes())
    trace = fxtio.open(path)
    path.unlink()
    assert "No such file" in text_of(trace._repr_html_())


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("a\ufe0f", 1)]
)
def test_width(text: str, width: int) -> None:
    assert width_of(text) == width
    assert start_of(text * 3, width) == text or not text
    assert width_of(fitted(text, 7)) == 7
