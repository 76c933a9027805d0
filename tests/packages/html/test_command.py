"""The command `fxtio report`: what it writes where, what it refuses, its messages and exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fxtio
from support.checkout import CORPUS
from support.in_process import run_fxtio, run_piped

TRACE = CORPUS / "fxt" / "magic-trace.fxt"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a small trace of two threads."""
    path = tmp_path / "app.fxt"
    with fxtio.create(path) as writer:
        for number in (1, 2):
            thread = writer.thread(1, number, f"thread {number}", "app")
            for at in range(0, 10_000, 1_000):
                thread.complete(f"work {number}", at, at + 500)
    return path


def headings(path: Path) -> list[str]:
    """Return the title of a page and those of its sections."""
    return re.findall(r"<h[12]>(.*?)</h[12]>", path.read_text("ascii"))


def test_a_page_is_written(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    done = run_fxtio("report", str(trace), "-o", str(output))
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"fxtio: wrote [\d.]+ KiB; open it in a browser: {re.escape(output.as_uri())}\n", done.stderr)
    assert headings(output)[:2] == ["app.fxt", "Summary"]
    assert "work 2" in output.read_text("ascii")
    assert {*tmp_path.iterdir()} == {trace, output}


def test_the_page_has_the_name_of_the_trace(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run_fxtio("report", str(trace), "--title", "A <b>bold</b> title").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["app.fxt.html"]
    assert headings(folder / "app.fxt.html")[0] == "A &lt;b&gt;bold&lt;/b&gt; title"


def test_a_part_is_shown(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    assert run_fxtio("report", str(trace), "-o", str(output), "--thread", "thread 1", "--to", "5us").returncode == 0
    text = output.read_text("ascii")
    assert "work 1" in text
    assert "work 2" not in text


def test_short_slices_are_left_out(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    arguments = ["--name", "work 1", "--from", "250ns", "--min-duration", "300ns", "--max-depth", "5"]
    assert run_fxtio("report", str(trace), "-o", str(output), *arguments).returncode == 0
    text = output.read_text("ascii")
    assert "work 1" in text and "work 2" not in text
    assert "Not shown: slices shorter than 300 ns, and those within them (1)." in text


def test_nothing_is_selected(trace: Path, tmp_path: Path) -> None:
    done = run_fxtio("report", str(trace), "-o", str(tmp_path / "page.html"), "--thread", "none", "--to", "5us")
    assert done.returncode == 0
    sentence = (
        f"fxtio: none of the events of {trace} is selected by --thread none in the range from 0 s to 0.000005 s; "
        "the trace is from 0 s to 0.0000095 s\n"
    )
    assert done.stderr.startswith(sentence)
    assert headings(tmp_path / "page.html") == ["app.fxt", "Summary"]


def test_two_traces_are_compared(trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    done = run_fxtio("report", str(trace), "--diff", str(TRACE), "-o", str(output))
    assert done.returncode == 0
    assert headings(output)[0] == "app.fxt and magic-trace.fxt"


def test_standard_input_and_output(trace: Path) -> None:
    done = run_piped(trace.read_bytes(), "report", "-", "--title", "From a pipe", "--from", "1us")
    assert done.returncode == 0
    assert b"<h1>From a pipe</h1>" in done.stdout
    assert b"work 2" in done.stdout
    assert done.stderr == b""


def test_findings_are_printed(tmp_path: Path) -> None:
    path = tmp_path / "broken.fxt"
    path.write_bytes(TRACE.read_bytes()[:-8])
    done = run_fxtio("report", str(path), "-o", str(tmp_path / "page.html"))
    assert done.returncode == 1
    assert "[fxt.framing" in done.stderr
    assert "fxt.framing" in (tmp_path / "page.html").read_text("ascii")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["app.fxt", "-o", "app.fxt"], "app.fxt is the trace; give the page another name"),
        (["other.fxt", "--diff", "app.fxt", "-o", "link.fxt"], "link.fxt is the trace; give the page another name"),
        (["-", "--diff", "-"], "only one of the traces can come from standard input"),
        (["app.fxt", "--diff", "other.fxt", "--from", "1us"], "--diff compares whole traces, whose times differ"),
        (["missing.fxt"], "No such file or directory"),
        (["app.fxt", "-o", "missing/page.html"], "No such file or directory"),
    ],
)
def test_refusals(trace: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(trace.parent)
    Path("other.fxt").write_bytes(trace.read_bytes())
    Path("link.fxt").symlink_to("app.fxt")
    before = {path.name: path.read_bytes() for path in trace.parent.iterdir()}
    done = run_fxtio("report", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert {path.name: path.read_bytes() for path in trace.parent.iterdir()} == before


def test_a_page_that_fails_leaves_the_file_as_it_was(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fxtio.html import page

    output = trace.with_name("page.html")
    output.write_text("before")
    monkeypatch.setattr(page, "MAX_BYTES", 1_000)
    done = run_fxtio("report", str(trace), "-o", str(output))
    assert done.returncode == 2
    assert "select a part of the trace" in done.stderr
    assert output.read_text() == "before"
    assert {path.name for path in trace.parent.iterdir()} == {"app.fxt", "page.html"}
