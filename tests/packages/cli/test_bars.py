"""Bars that commands draw: their cells, their edges, the styles of encodings, colors."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fxtio.cli.bars import Style, axis, bar_of, bar_width, bars
from fxtio.report import fitted, width_of

PLAIN = Style.of("utf-8", color=False)
ASCII = Style.of("ascii", color=False)


def test_bars() -> None:
    names = ["a", "a", "a", "a", None, "b", "c", "c", "d", "d"]
    fill = [1, 0.5, 0.6, 1, 0, 1, 1, 1, 0.1, 0.49]
    assert bars(names, fill, PLAIN) == "┣a━┫ ┃┣┫▁▄"
    assert bars(names, fill, ASCII) == "[a=] |[].:"
    colored = bars(names, fill, Style.of("UTF8", color=True))
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == "a    bc ▁▄"
    assert bars([], [], PLAIN) == ""


def test_styles_of_encodings() -> None:
    for encoding in ("utf-8", "UTF8", "utf_16", "utf-8-sig", "gb18030"):
        assert Style.of(encoding, color=False) == PLAIN
    for missing in ("ascii", "latin-1", "cp437", "cp1252", "no such encoding", "", None):
        assert Style.of(missing, color=False) == ASCII


def test_bars_of_shares() -> None:
    assert [bar_of(share, 2, PLAIN).text for share in (0, 1e-9, 1 / 16, 0.25, 0.5, 9 / 16, 1, 7)] == [
        "", "▏", "▏", "▌", "█", "█▏", "██", "██",
    ]  # fmt: skip
    assert [bar_of(share, 4, ASCII).text for share in (0, 0.01, 0.25, 0.4, 1)] == ["", ".", "#", "#.", "####"]
    colored = Style.of("utf-8", color=True)
    worse, better = (bar_of(1, 1, colored, is_worse=is_worse) for is_worse in (True, False))
    assert worse.text == better.text == "█"
    assert worse.color != better.color
    assert str(worse) == f"\x1b[38;5;{worse.color}m█\x1b[0m"
    assert bar_of(1, 1, colored, name="a").color == bar_of(1, 1, colored, name="a").color is not None
    assert [bar_width(columns) for columns in (20, 59, 60, 100, 400)] == [0, 0, 7, 12, 12]


def test_the_edges_of_colored_bars() -> None:
    """A bar begins and ends within a column: the right part of the first one is that of a reversed cell."""
    style = Style.of("utf-8", color=True)
    text = bars(["a"] * 6, [0.25, 1, 1, 1, 1, 0.625], style)
    color = re.findall(r"48;5;(\d+)", text)[0]
    assert text == f"\x1b[7;38;5;{color}m▊\x1b[0m\x1b[30;48;5;{color}ma   \x1b[0m\x1b[38;5;{color}m▋\x1b[0m"
    assert re.sub(r"\x1b\[[\d;]*m", "", bars(["a", "a", None], [0.2, 0.2, 0], style)) == "▂▂ "
    assert re.sub(r"\x1b\[[\d;]*m", "", bars(["b", "a", "a"], [1, 0.1, 1], style)) == "b▉a"
    assert re.sub(r"\x1b\[[\d;]*m", "", bars(["a", "a", "a"], [1, 0.1, 1], style)) == "a▁a"


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "日本語", "e\u0301\x1b"]), st.floats(0, 1)), max_size=30),
    st.sampled_from(["utf-8", "ascii"]),
    st.booleans(),
)
def test_bars_take_one_column_for_each_cell(cells: list[tuple[str | None, float]], encoding: str, color: bool) -> None:
    names, fill = [name for name, _ in cells], [share for _, share in cells]
    text = re.sub(r"\x1b\[[\d;]*m", "", bars(names, fill, Style.of(encoding, color=color)))
    assert width_of(text) == len(cells)
    assert text.isprintable()


def test_names_in_bars_are_safe_and_fit() -> None:
    assert bars(["\x1b[1m"] * 12, [1] * 12, ASCII) == r"[\x1b[1m===]"
    assert fitted("日本語", 5) == "日本 "
    assert fitted("e\u0301te", 3) == "e\u0301te"
    assert fitted("", 2, "=") == "=="
    assert [width_of(text) for text in ("", "ab", "日本", "e\u0301", "\u1112\u1161\u11ab", "\u200b", "👍🏽")] == [
        0, 2, 4, 1, 2, 0, 4,
    ]  # fmt: skip


def test_axis() -> None:
    times, marks = axis(0, 330_000, 54, PLAIN)
    assert times.rstrip() == "0 ns            100 us          200 us"
    assert [at for at, mark in enumerate(marks) if mark == "╷"] == [0, 16, 32, 49]
    for start, end, cells in ((0, 1, 10), (10**18, 10**18 + 5, 40), (3, 2**62, 15)):
        times, marks = axis(start, end, cells, ASCII)
        assert len(times) == len(marks) == cells
