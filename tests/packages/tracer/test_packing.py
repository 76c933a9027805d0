"""Large recordings that end in `.zst` are packed at their end, by another process, where that can be done."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from fxtio.fxt.packed import index_of
from fxtio.io.source import open_source
from fxtio.tracer import file
from fxtio.tracer.recovery import recover
from support.tracer_check import check_trace
from support.tracer_run import fine, recorded, run

pytestmark = pytest.mark.recorder

PACKS = "import sys, os, fxtio.tracer.file as file; file._PACKED_FROM = 0\n"
"""All recordings are large."""

SPANS = """
for number in range(300):
    with fxtio.span("work"):
        pass
"""
NO_INTERPRETERS = ["/bin/false", "/nonexistent/python", ""]


def is_packed(path: Path) -> bool:
    with closing(open_source(path)) as source:
        return index_of(source) is not None


def check(path: Path, *, packed: bool) -> None:
    """Check that a trace is complete, alone in its folder, and whether it is packed."""
    assert is_packed(path) is packed
    assert len(check_trace(path).spans("work")) == 300
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("size", ["", "file._PACKED_FROM = 1 << 40\n"])
def test_a_large_recording_is_packed(size: str, tmp_path: Path) -> None:
    recorded(PACKS + size + SPANS, tmp_path / "app.fxt.zst")
    check(tmp_path / "app.fxt.zst", packed=not size)


def test_child_processes_are_in_it(tmp_path: Path) -> None:
    forks = "\nfor _ in range(2):\n    if not os.fork():\n        with fxtio.span('child'):\n            pass\n"
    fine(PACKS + SPANS + forks + "        sys.exit()\n    os.wait()", tmp_path / "app.fxt.zst", start=True)
    check(tmp_path / "app.fxt.zst", packed=True)
    assert len(check_trace(tmp_path / "app.fxt.zst").spans("child")) == 2


@pytest.mark.parametrize("program", NO_INTERPRETERS)
def test_without_an_interpreter_it_is_complete(program: str, tmp_path: Path) -> None:
    """Where Python is embedded, `sys.executable` may be the program itself, which must not run again."""
    fine(f"{PACKS}sys.executable = {program!r}\n{SPANS}", tmp_path / "app.fxt.zst", start=True)
    check(tmp_path / "app.fxt.zst", packed=False)


def test_a_process_that_fails_does_no_harm(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o700)
    (tmp_path / "out").mkdir()
    done = run(f"{PACKS}sys.executable = {str(python)!r}\n{SPANS}", tmp_path / "out" / "app.fxt.zst", start=True)
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path / "out" / "app.fxt.zst", packed=False)


def test_a_recovered_recording_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_PACKED_FROM", 0)
    assert run(SPANS + "\nos.kill(os.getpid(), 9)", tmp_path / "app.fxt.zst", start=True).returncode == -9
    recover(tmp_path / "app.fxt.zst")
    check(tmp_path / "app.fxt.zst", packed=True)


def test_ctrl_c_while_it_is_packed(tmp_path: Path) -> None:
    """The trace is complete by then, and nothing else is said."""
    interrupts = """
def interrupted(*_):
    raise KeyboardInterrupt
file.run_elsewhere = interrupted
"""
    done = run(PACKS + interrupts + SPANS, tmp_path / "app.fxt.zst", start=True)
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path / "app.fxt.zst", packed=False)


def test_a_trace_that_became_a_link_is_left_alone(tmp_path: Path) -> None:
    from fxtio.fxt.pack import main

    fine(SPANS, tmp_path / "app.fxt.zst", start=True)
    (tmp_path / "link.fxt.zst").symlink_to("app.fxt.zst")
    before = (tmp_path / "app.fxt.zst").read_bytes()
    with pytest.raises(OSError, match="symbolic links"):
        main(os.fspath(tmp_path / "link.fxt.zst"))
    assert (tmp_path / "app.fxt.zst").read_bytes() == before
