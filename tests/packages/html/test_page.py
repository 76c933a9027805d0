"""The HTML of a page: inert texts, numbers to sort by, the limit of its size, the policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxtio.html.assets import assets
from fxtio.html.contents import MAX_TEXT, Cell, Chart, Facts, Flame, Grid, Page, Part, Section, short
from fxtio.html.page import MAX_BYTES, PageTooLargeError, render

HOSTILE = (
    "<script>window.hit = 1</script>",
    "</style></script></title><img src=x onerror='window.hit = 1'>",
    '" onmouseover="window.hit = 1',
    "<!--<script>",
    "]]>&lt;&amp;",
    "\u202egnp.exe\u2066",
    "line\u2028one\u2029two\r\nthree\x00\x1b[31m",
    "half \ud800 byte \udcff",
    "\u05d0\u05d1\u05d2 (1)",
    "n" * 1_000_000,
)
"""Texts that do harm where they are not escaped, cut and isolated."""

VOID = {"meta", "input", "br", "img"}


class Reader(HTMLParser):
    """Reads a page: its elements with their attributes, and the texts of each kind of element."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self._open: list[str] = []
        self.feed(content.decode("ascii"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((tuple(self._open), data))

    def within(self, tag: str) -> list[str]:
        """Return the texts within a kind of element."""
        return [text for path, text in self.texts if tag in path]

    def data(self) -> list[dict[str, object]]:
        """Return the content of the scripts that are data and objects."""
        blocks = [text for path, text in self.texts if path[-1] == "script" and text[0] == "{"]
        return [json.loads(text) for text in blocks]


def page_of(*parts: Part, title: str = "app.fxt") -> Page:
    return Page(title, [Section("Section", parts)])


def hostile_page(profile: bytes = b"{}") -> Page:
    """Return a page whose every text is hostile."""
    texts = [*HOSTILE]
    return Page(
        "".join(texts[:5]),
        [
            Section(
                text,
                [
                    Facts([(text, text)]),
                    Grid([text, text], [[text, Cell(text, 1)]] * 30, 3, text),
                    Chart(text, [0, 10**9], [(text, [1, 2])], text),
                    Flame(text, profile),
                ],
                [text],
            )
            for text in texts
        ],
    )


def test_texts_are_inert() -> None:
    content = render(hostile_page())
    reader = Reader(content)
    scripts = [attributes for tag, attributes in reader.elements if tag == "script"]
    assert [each for each in scripts if each.get("type") != "application/json"] == [{}]
    assert {tag for tag, _ in reader.elements}.isdisjoint({"img", "object", "link", "iframe", "base", "form"})
    assert not any(name.startswith("on") or name in ("src", "style") for _, each in reader.elements for name in each)
    shown = [text.strip("\n") for path, text in reader.texts if not {"script", "style"} & {*path}]
    assert all(text.isprintable() and len(text) <= MAX_TEXT for text in shown)
    assert all("bdi" in path for path, text in reader.texts if "\u05d0" in text and "title" not in path)
    assert HOSTILE[0] in shown
    assert "\\u202egnp.exe\\u2066" in shown
    assert "line\\u2028one\\u2029two\\r\\nthree\\x00\\x1b[31m" in shown
    assert len(content) < 2 * len(render(page_of(Flame("", b"{}"))))


def test_texts_that_are_data_are_inert() -> None:
    for block in Reader(render(hostile_page())).data():
        texts = [block["title"]] if "title" in block else [block["unit"]]
        assert all(isinstance(text, str) and text.isprintable() and len(text) <= MAX_TEXT for text in texts)


@given(st.text(st.characters(), max_size=MAX_TEXT + 20))
def test_a_text_is_shown_as_it_is_printed(text: str) -> None:
    (shown,) = [*Reader(render(page_of(Facts([("Label", text)])))).within("dd"), ""][:1]
    assert shown.strip() == short(text).strip()
    assert shown.isprintable()


def test_a_column_of_numbers_is_sorted_by_their_values() -> None:
    rows: list[list[str | Cell]]
    rows = [[Cell("1.00 ms", 10**6), "a"], [Cell("2 ns", 2), Cell("7", 7)], [Cell("?", float("nan")), "c"]]
    rows.append([Cell("never", float("inf")), Cell("-1", -1.5)])
    reader = Reader(render(page_of(Grid(["Time", "Name"], rows))))
    cells = [attributes for tag, attributes in reader.elements if tag in ("th", "td")]
    assert [each.get("class") for each in cells] == ["number", "short"] * 5
    values = [each.get("data-value") for each in cells]
    assert values == [None, None, "1000000", None, "2", "7", None, None, "Infinity", "-1.5"]


def test_rows_that_are_left_out_are_counted() -> None:
    assert "And 1,234 more, which are left out." in Reader(render(page_of(Grid(["A"], [["a"]], 1234)))).within("p")


def test_the_units_of_a_chart_fit_its_values() -> None:
    chart = Chart("Memory", [0, 1_500_000], [("heap", [1024, 3 * 1024**2]), ("rest", [None, float("nan")])], "bytes")
    reader = Reader(render(page_of(chart)))
    (content,) = reader.data()
    assert content["times"] == [0, 1.5]
    assert (content["timeUnit"], content["unit"]) == ("ms", "MiB")
    heap, rest = [1024 / 1024**2, 3.0], [None, None]
    assert content["series"] == [{"name": "heap", "values": heap}, {"name": "rest", "values": rest}]
    labels = [attributes.get("aria-label") for _, attributes in reader.elements if attributes.get("role") == "img"]
    assert labels == ["heap from 1,024 to 3,145,728 bytes"]


def test_charts_have_the_same_times() -> None:
    charts = [Chart(name, times, [("", [7] * len(times))]) for name, times in (("a", [0, 10]), ("b", [5]), ("c", []))]
    blocks = Reader(render(page_of(*charts))).data()
    assert [block["times"] for block in blocks] == [[0, 10], [0, 5, 10], [0, 10]]
    values = [[7, 7], [None, 7, None], [None, None]]
    assert [block["series"] for block in blocks] == [[{"name": "", "values": each}] for each in values]


def test_a_flame_graph_is_embedded_whole() -> None:
    profile = b'{"name": "</script>"}'
    blocks = Reader(render(page_of(Flame("Flames", profile)))).data()
    (block,) = [each for each in blocks if "profile" in each]
    assert block["view"] == "left-heavy"
    assert gzip.decompress(base64.b64decode(str(block["profile"]))) == profile


def noise(size: int) -> bytes:
    """Return bytes that cannot be compressed."""
    return hashlib.shake_128(b"noise").digest(size)


def test_flame_graphs_without_room_are_left_out() -> None:
    flames = [Flame(name, noise(MAX_BYTES // 3)) for name in ("first", "second", "third")]
    content = render(page_of(*flames))
    assert len(content) <= MAX_BYTES
    reader = Reader(content)
    assert [block["title"] for block in reader.data() if "profile" in block] == ["first", "second"]
    assert "third: there is no room for this flame graph on the page." in reader.within("p")


def test_a_page_that_is_too_large_is_refused() -> None:
    row = ["x" * MAX_TEXT]
    with pytest.raises(PageTooLargeError, match=r"the page would have .* MiB, more than 9\.5 MiB; select a part"):
        render(page_of(Grid(["A"], [row] * (MAX_BYTES // MAX_TEXT)), Flame("Flames", b"{}")))


def hashes_in(content: bytes) -> Iterator[str]:
    """Yield the hashes of the scripts and styles that run in a page and in its frames."""
    text = content.decode()
    for tag in ("script", "style"):
        for inline in re.findall(rf"<{tag}>(.*?)</{tag}>", text + assets().frame, re.DOTALL):
            yield f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def test_the_policy_allows_what_the_page_contains_and_nothing_else() -> None:
    content = render(hostile_page())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', content.decode())
    empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"  # of speedscope's style, which begins empty
    allowed = re.findall(r"'sha256-[^']*'", policy)
    assert sorted(allowed) == sorted([*hashes_in(content), empty])
    rest = re.sub(r" 'sha256-[^']*'", "", policy)
    assert rest == (
        "default-src 'none'; script-src 'wasm-unsafe-eval'; style-src; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
