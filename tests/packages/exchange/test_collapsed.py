"""Tests of collapsed stacks: round trips, speedscope's own importer, files of other programs, hostile files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
import judges
from fxtio.cli import main
from fxtio.exchange import lines as text_lines
from fxtio.timeline import Timeline
from judges import speedscope
from support import exchange
from support.checkout import CORPUS
from support.exchange import Content, Stack, exported, imported


def lines_of(timeline: Timeline) -> list[str]:
    return exported(timeline, "collapsed")[0].decode().splitlines()


def lines(content: Content) -> list[str]:
    return lines_of(content.timeline())


def test_samples() -> None:
    content = Content(
        samples=[
            (0, 1, ("main", "f@x.py:12"), 3, "samples"),
            (1, 2, ("main", "f@x.py:12"), 4, "samples"),
            (0, 1, ("main",), 1, "samples"),
            (0, 1, (), 2, "samples"),
            (0, 1, ("main",), 0, "samples"),
            (0, 1, ("main",), 7, "ns"),
        ],
        spans=[(0, 0, 9000, "x")],
        allocations=[(0, ("a",), 1, 1, "str")],
    )
    data, losses = exported(content.timeline(), "collapsed")
    assert data == b"[unknown] 2\nmain 1\nmain;f (x.py:12) 7\n"
    assert losses == {
        "stacks of slices, beside samples": 1,
        "stacks of allocations, beside samples or slices": 1,
        "stacks of samples in units other than 'samples'": 1,
        "slices, of which only sums by stack are left": 1,
        "times of samples": 6,
        "threads of samples": 6,
        "threads of allocations": 1,
        "classes of allocated objects": 1,
    }


def test_slices_have_their_own_time_in_nanoseconds() -> None:
    spans = [(0, 0, 100_000, "main"), (0, 10_000, 20_400, "a"), (0, 40_000, 300, "b"), (1, 0, 5_600, "main")]
    assert lines(Content(spans=spans)) == ["main 84900", "main;a 20400", "main;b 300"]


def test_allocations_have_their_bytes() -> None:
    content = Content(allocations=[(0, ("a", "b"), 2, 64, "str"), (1, ("a", "b"), 1, 6, "int")])
    assert lines(content) == ["a;b 70"]


def test_other_units() -> None:
    assert lines(Content(samples=[(0, 0, ("a",), 5, "cycles")])) == ["a 5"]
    assert lines(Content(samples=[(0, 0, ("a",), 5, "cycles"), (0, 0, ("a",), 6, "ns")])) == ["a 6"]


def test_names_cannot_break_a_line() -> None:
    content = Content(samples=[(0, 0, ("a;b", " c\nd\u2028", "e 5", "\udcff"), 1, "samples")])
    data, losses = exported(content.timeline(), "collapsed")
    assert data.decode() == "a:b;c d;e 5;\ufffd 1\n"
    assert losses["names with semicolons, line breaks, or spaces around them, which are replaced"] == 2


def test_the_command(tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "in.fxt") as writer:
        track = writer.thread(1, 2, "t", "p")
        track.complete("main", 0, 100_000)
        track.complete("work", 10_000, 30_000)
        track.complete("work", 40_000, 60_000)
    assert main(["convert", str(tmp_path / "in.fxt"), str(tmp_path / "out.folded")]) == 0
    assert (tmp_path / "out.folded").read_text() == "main 60000\nmain;work 40000\n"


def test_an_empty_timeline() -> None:
    assert lines(Content()) == []


def as_written(stack: Stack) -> Stack:
    def text(name: str) -> str:
        for character in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
            name = name.replace(character, " ")
        return name.replace(";", ":").strip() or "[unknown]"

    return tuple(map(text, stack)) or ("[unknown]",)


@given(exchange.samples)
def test_samples_come_back(samples: list[tuple[int, int, Stack, int, str]]) -> None:
    samples = [(*sample[:4], "samples") for sample in samples]
    again = imported(exported(Content(samples=samples).timeline(), "collapsed")[0], "collapsed")
    expected: Counter[tuple[Stack, str]] = Counter()
    for _, _, stack, weight, unit in samples:
        expected[as_written(stack), unit] += weight
    assert exchange.weights(again) == +expected
    assert not again.losses


@given(exchange.complete_spans)
def test_times_of_slices_come_back(spans: list[tuple[int, int, int, str]]) -> None:
    timeline = Content(spans=spans).timeline()
    again = imported(exported(timeline, "collapsed")[0], "collapsed")
    assert exchange.weights(again).total() == timeline.table("slices")["self_time"].sum()


@pytest.mark.full
@pytest.mark.once
def test_speedscope_reads_the_same_stacks(tmp_path: Path) -> None:
    judges.require(speedscope.available())
    content = Content(samples=[(0, 0, ("a;b", " c\nd\u2028", "e 5"), 3, "samples"), (0, 0, ("a;b",), 2, "samples")])
    path = tmp_path / "x.collapsed"
    path.write_bytes(exported(content.timeline(), "collapsed")[0])
    (profile,) = speedscope.load(path)
    assert profile.stacks == {("a:b", "c d", "e 5"): 3, ("a:b",): 2}


@pytest.mark.full
@pytest.mark.once
def test_speedscope_reads_the_corpus(tmp_path: Path) -> None:
    judges.require(speedscope.available())
    path = tmp_path / "x.collapsed"
    path.write_bytes(exported(fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt"), "collapsed")[0])
    (profile,) = speedscope.load(path)
    assert {(stack, "samples"): weight for stack, weight in profile.stacks.items()} == exchange.weights(
        fxtio.open_timeline(path)
    )


def test_py_spy() -> None:
    timeline = fxtio.open_timeline(CORPUS / "py-spy" / "work.collapsed")
    assert timeline.format == "collapsed"
    stack = ("<module>", "outer", "inner")
    assert exchange.weights(timeline) == {
        (stack, "samples"): 8,
        ((*stack, "inner.<locals>.<genexpr>"), "samples"): 17,
    }
    assert set(timeline.table("frames")["file"].tolist()) == {"work.py"}
    assert lines_of(timeline) == (CORPUS / "py-spy" / "work.collapsed").read_text("utf-8").splitlines()


def test_threads_of_py_spy() -> None:
    data = b"process 7:python;<module> (a.py:3);work (a b.py:9) 12\n<module> (a.py:3) 1\n"
    timeline = imported(data)
    assert timeline.format == "collapsed"
    assert exchange.weights(timeline) == {
        (("process 7:python", "<module>", "work"), "samples"): 12,
        (("<module>",), "samples"): 1,
    }
    assert timeline.table("frames")["file"].tolist() == [None, "a.py", "a b.py"]
    assert timeline.table("frames")["line"].tolist() == [-1, 3, 9]


@pytest.mark.parametrize("data", [b"a;b 12", b"\r\na;b 12\r\n", b"a;b\t12\n", b"a;b 12 \n\n"])
def test_ends_of_lines(data: bytes) -> None:
    assert exchange.weights(imported(data, "collapsed")) == {(("a", "b"), "samples"): 12}


@pytest.mark.parametrize(
    "line", [b"a;b", b"a;b x", b"12", b" 12", b"a;b 1.5", b"a;b -1", b"a;b 123456789012345678901", b"a;b 1 \xff"]
)
def test_other_lines_are_losses(line: bytes) -> None:
    timeline = imported(b"a 1\n" + line + b"\nb 2\n", "collapsed")
    assert exchange.weights(timeline) == {(("a",), "samples"): 1, (("b",), "samples"): 2}
    assert timeline.losses == {"lines that are not a stack and its weight": 1}


def test_long_lines_are_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "_CHUNK", 16)
    monkeypatch.setattr(text_lines, "MAX_LINE", 40)
    timeline = imported(b"a;b 1\n" + b"x;" * 60 + b"y 7\nc 2\n" + b"z" * 200, "collapsed")
    assert exchange.weights(timeline) == {(("a", "b"), "samples"): 1, (("c",), "samples"): 2}
    assert timeline.losses == {"lines of more than 40 bytes": 2}


@pytest.mark.parametrize(
    "data", [b"", b"plain text; more\nof it\n", b'{"a;b 1\n', b"\x00;a 1\n", b"a;b 1\nno weight\n"]
)
def test_what_is_not_recognized(data: bytes) -> None:
    with pytest.raises(fxtio.FormatError):
        imported(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    imported(data, "collapsed").tables("samples", "stacks", "frames")
