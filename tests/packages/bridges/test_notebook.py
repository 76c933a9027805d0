"""Tests of the magics of IPython: what they run, record and show, in a shell of this process and in notebooks."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.tracer import functions
from judges import chromium
from support.checkout import CHECKOUT

pytest.importorskip("IPython", reason="IPython is installed for CPython up to 3.13 only, see the extra `test`")

pytestmark = pytest.mark.recorder

FIB = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)"


class Shell:
    """An IPython shell with the extension.

    Attributes:
        shell: the shell.
        shown: what was displayed, by kind of content.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.shown: list[dict[str, str]] = []
        self.shell.display_pub.publish = lambda data, **_: self.shown.append(data)
        self.shell.run_line_magic("load_ext", "fxtio")
        self.run(FIB)

    def run(self, cell: str) -> Any:
        """Run a cell; return its result."""
        outcome = self.shell.run_cell(cell)
        outcome.raise_error()
        return outcome.result

    def error(self, cell: str) -> BaseException:
        """Run a cell; return the exception."""
        error: BaseException | None = self.shell.run_cell(cell).error_in_exec
        assert error is not None
        return error


@cache
def interactive_shell() -> Any:
    """Return the shell of this process, which ends with it."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    make: Any = InteractiveShell  # without types
    main = sys.modules["__main__"]
    try:
        return make(config=Config({"HistoryManager": {"enabled": False}, "colors": "nocolor"}))
    finally:
        sys.modules["__main__"] = main  # which it replaces


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setitem(sys.modules, "__main__", interactive_shell().user_module)
    shell = Shell(interactive_shell())
    yield shell
    shell.shell.run_line_magic("unload_ext", "fxtio")
    shell.shell.reset()


def calls(shown: dict[str, str]) -> dict[str, int]:
    """Return the numbers of calls by name of the text that was shown."""
    rows = re.findall(r"^ *([\d,]+)  .*?%  (\S+)", shown["text/plain"], re.MULTILINE)
    return {name: int(number.replace(",", "")) for number, name in rows}


def test_a_cell_is_recorded(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run("%%fxtio\nx = fib(10)\nprint(x)\nx + 1") == 56
    assert shell.shell.user_ns["x"] == 55
    assert "_fxtio_value" not in shell.shell.user_ns
    (shown,) = shell.shown
    assert calls(shown).items() >= {"__main__.fib": 177, "__main__.<module>": 1}.items()
    assert shown["text/html"].startswith('<iframe sandbox="allow-scripts" ')
    page = html.unescape(shown["text/html"])
    assert "<h2>What took the time</h2>" in page
    assert "<h2>Flame graph</h2>" in page
    assert "default-src 'none'" in page
    out, err = capsys.readouterr()
    assert out.startswith("55\n")
    assert err == ""


@pytest.mark.parametrize(
    ("cell", "result"),
    [
        ("%fxtio fib(5)", 5),
        ("%fxtio --include __main__ --max-depth=9 fib(5)", 5),
        ("%fxtio -- -fib(5)", -5),
        ("%%fxtio --spans-only\nwith fxtio.span('part'):\n    y = 'a'\ny", "a"),
        ("%%fxtio\nfor _ in range(2):\n    fib(1)", None),
        ("%%fxtio\nfib(3);", 2),
        ("%%fxtio\n%time fib(4)", 3),
        ("z = %fxtio fib(6)\nz", 8),
    ],
)
def test_statements_are_run_as_ever(shell: Shell, cell: str, result: Any) -> None:
    shell.shell.user_ns["fxtio"] = fxtio
    assert shell.run(cell) == result
    (shown,) = shell.shown
    assert (">part</td>" if "span" in cell else ">__main__.fib</td>") in html.unescape(shown["text/html"])


@pytest.mark.parametrize("option", ['-o "a b.fxt"', "--output='a b.fxt' --spans-only", r"-o a\ b.fxt --"])
def test_quotes_hold_the_words_of_an_option_together(
    shell: Shell, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shell.run(f"%fxtio {option} 'a  b' + str( fib(5))") == "a  b5"
    assert [each.name for each in tmp_path.iterdir()] == ["a b.fxt"]


def test_an_exception_comes_behind_the_trace(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    def published(data: dict[str, str], **_: Any) -> None:
        shell.shown.append(data)
        print("SHOWN")

    shell.shell.display_pub.publish = published
    error = shell.error("%%fxtio\ny = fib(5)\nraise ValueError('no')")
    assert (type(error), str(error)) == (ValueError, "no")
    assert calls(shell.shown[0])["__main__.fib"] == 15
    assert shell.shell.user_ns["y"] == 5
    out = capsys.readouterr().out
    assert out.index("SHOWN") < out.index("ValueError")
    assert "notebook.py" not in out


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%fxtio --nonsense\n1", "unrecognized arguments: --nonsense; `%fxtio?` shows the options"),
        ("%%fxtio --include 'a\n1", "No closing quotation"),
        ("%fxtio -o 'a fib(5)", "No closing quotation"),
        ("%fxtio", "there is nothing to record"),
        ("%%fxtio --min-duration 3\n1", "nothing was recorded: '3' is not a time such as 10us"),
        ("%%fxtio --max-depth -1\n1", "nothing was recorded: the greatest depth is -1"),
    ],
)
def test_wrong_use_is_explained(shell: Shell, cell: str, message: str) -> None:
    error = shell.error(cell)
    assert type(error).__name__ == "UsageError"
    assert message in str(error)
    assert shell.shown == []


def test_a_syntax_error_stays_one(shell: Shell) -> None:
    assert isinstance(shell.error("%%fxtio\nx ="), SyntaxError)
    assert shell.shown == []


def test_the_trace_is_kept(
    shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    shell.run("%%fxtio -o cell.fxt.zst\nimport os\nos.chdir('below')\nfib(3)")
    assert "__main__.fib" in fxtio.open(tmp_path / "cell.fxt.zst").table("events")["name"].tolist()
    assert f"fxtio: {tmp_path}/cell.fxt.zst: " in capsys.readouterr().err


def test_another_recording_goes_on(shell: Shell, tmp_path: Path) -> None:
    with fxtio.tracing(tmp_path / "whole.fxt"):
        error = shell.error("%%fxtio\nfib(3)")
    assert "runs already" in str(error)


def test_a_cell_that_ends_the_recording_itself(shell: Shell, tmp_path: Path) -> None:
    shell.shell.user_ns["fxtio"] = fxtio
    assert shell.run("%%fxtio\nfib(3)\nfxtio.stop()\n1") == 1
    assert calls(shell.shown[0])["__main__.fib"] == 5


def test_nothing_recorded_is_said(shell: Shell) -> None:
    shell.run("%%fxtio --spans-only\n1 + 1")
    assert shell.shown == [{"text/plain": "nothing was recorded: no function was called, and nothing was marked"}]


def test_names_from_the_code_are_harmless(shell: Shell) -> None:
    name = '</script></iframe>" onload="x'
    shell.run(f"fib.__code__ = fib.__code__.replace(co_qualname={name!r})")
    shell.run("%%fxtio\nfib(1)")
    content = shell.shown[0]["text/html"]
    assert content.count("<") == 2
    assert content.count('"') == 2 * len(re.findall(r' \w+="', content))


def test_the_extension_can_be_unloaded(shell: Shell) -> None:
    assert "--min-duration" in shell.shell.find_magic("fxtio").__doc__
    shell.shell.run_line_magic("unload_ext", "fxtio")
    assert shell.shell.find_magic("fxtio") is None
    shell.shell.run_line_magic("load_ext", "fxtio")
    assert shell.run("%fxtio fib(4)") == 3


def test_cells_are_the_module_main() -> None:
    for path in ("<ipython-input-1-abc>", "/tmp/ipykernel_12/34.py"):
        assert functions.module_of(path) == "__main__"
    assert functions.module_of("<string>") == "<string>"


@pytest.mark.full
@pytest.mark.once
def test_the_notebook_in_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    import nbformat
    from nbclient import NotebookClient

    read: Any = nbformat.read  # without types
    notebook = read(CHECKOUT / "examples" / "notebook.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    frames = [page for page in pages if page.startswith("<iframe")]
    assert len(frames) == 1
    assert "__main__.fibonacci" in html.unescape(frames[0])
    tops = [output["data"]["text/plain"] for output in outputs if "iframe" in str(output.get("data", {}))]
    assert calls({"text/plain": tops[0]}).items() >= {"__main__.fibonacci": 465, "__main__.<module>": 1}.items()
    assert sum("<table" in page for page in pages) == 3
    assert any("no findings" in page for page in pages)
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.full
@pytest.mark.once
def test_the_frame_of_a_cell_in_a_browser(shell: Shell, tmp_path: Path) -> None:
    judges.require(chromium.available(), must=chromium.REQUIRED)
    from matplotlib import image

    shell.run("%%fxtio\nfib(12)")
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(f"<!DOCTYPE html><title>notebook</title>{shell.shown[0]['text/html']}", encoding="utf-8")
    looking = """(() => {
        const frame = document.querySelector("iframe");
        return frame.contentWindow.length === 1 && (frame.contentDocument === null ? "shut" : "open");
    })()"""
    for seconds in (3, 30):  # the page around the frame cannot tell whether the flame graph is drawn
        waiting = f"new Promise((resolve) => setTimeout(() => resolve(true), {1_000 * seconds}))"
        job = chromium.Job(address=page.as_uri(), scripts=[looking, waiting], screenshot=str(picture))
        (view,) = chromium.look([job])
        assert view.values[0] == "shut"
        assert (view.refused, view.outside, view.errors, view.logged) == ([], [], [], [])
        is_black = (image.imread(picture)[..., :3] == 0).all(axis=2)
        if is_black.mean(axis=1).max() > 0.5:  # the toolbar of the flame graph
            return
    pytest.fail("the flame graph is not drawn")
