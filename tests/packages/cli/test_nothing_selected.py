"""The sentence that commands print if nothing is selected: in which range the trace has events."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
from fxtio.cli import main
from fxtio.mono.writer import MonoWriter


def fxt(path: Path) -> Path:
    with fxtio.create(path, format="fxt") as writer:
        thread = writer.thread(1, 11, "main", "app")
        for time in (1_000_000_000, 5_000_000_000):
            thread.complete("work", time, time + 1_000)
        thread.counter("load", 1_000_000_000, {"value": 1})
    return path


def uftrace(path: Path) -> Path:
    with fxtio.create(path, format="uftrace", program="/app") as writer:
        task = writer.task(11)
        for time in (1_000_000_000, 5_000_000_000):
            task.enter("work", time)
            task.leave(time + 1_000)
    return path


def mono(path: Path) -> Path:
    with MonoWriter(path) as writer:
        writer.thread(11, "main", time=1_000_000_000)
        method = writer.method("A:b ()", time=1_000_000_000, thread=11)
        number = writer.counter("load", 1, time=1_000_000_000, thread=11)
        writer.counters({number: 1}, time=1_000_000_000, thread=11)
        for time in (1_000_000_000, 5_000_000_000):
            writer.enter(method, time=time, thread=11)
            writer.leave(method, time=time + 1_000, thread=11)
    return path


MAKERS = {"fxt": fxt, "uftrace": uftrace, "mono": mono}


@pytest.mark.parametrize("name", MAKERS)
def test_a_range_without_events(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = MAKERS[name](tmp_path / f"whole.{name}")
    assert main(["cut", str(path), "-o", str(tmp_path / "part"), "--from", "1s", "--to", "2s"]) == 0
    errors = capsys.readouterr().err
    sentence = "is selected in the range from 1 s to 2 s; the trace is from 0 s to 4.000001 s"
    assert f"none of the events of {path} {sentence}" in errors
    assert main(["cut", str(path), "-o", str(tmp_path / "other"), "--from", "1s"]) == 0
    assert "is selected" not in capsys.readouterr().err


@pytest.mark.parametrize("name", MAKERS)
def test_a_thread_that_is_not_there(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = MAKERS[name](tmp_path / f"whole.{name}")
    assert main(["cut", str(path), "-o", str(tmp_path / "part"), "--thread", "nobody"]) == 0
    assert f"none of the events of {path} is selected by --thread nobody\n" in capsys.readouterr().err
    assert main(["cut", str(path), "-o", str(tmp_path / "other"), "--thread", "11"]) == 0
    assert "is selected" not in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]], ids=["text", "json", "csv"])
@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["top"], "slices"),
        (["top", "--by", "arg:user"], "slices with the argument 'user'"),
        (["tree"], "slices"),
        (["find"], "matches"),
        (["timeline"], "slices and samples"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_questions_about_nothing(
    command: list[str], what: str, form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fxt(tmp_path / "whole.fxt")
    assert main([*command, str(path), "--thread", "nobody", *form]) == 0
    assert capsys.readouterr().err == f"fxtio: none of the {what} of {path} is selected by --thread nobody\n"
    assert main([*command, str(path), "--from", "2us", "--to", "20us", *form]) == 0
    assert capsys.readouterr().err == (
        f"fxtio: none of the {what} of {path} is selected in the range from 0.000002 s to 0.00002 s; "
        "the trace is from 0 s to 4.000001 s\n"
    )
    assert main([*command, str(path), *form]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", MAKERS)
def test_a_conversion_of_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = MAKERS[name](tmp_path / f"whole.{name}")
    assert main(["convert", str(path), str(tmp_path / "none.json"), "--thread", "nobody"]) == 0
    errors = capsys.readouterr().err
    assert errors.splitlines()[-1] == f"fxtio: none of the events of {path} is selected by --thread nobody"
    assert main(["convert", str(path), str(tmp_path / "some.json"), "--thread", "11"]) == 0
    assert "is selected" not in capsys.readouterr().err


def test_questions_about_nothing_of_an_exchange_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "whole.json"
    path.write_text('[{"ph": "X", "name": "work", "ts": 0, "dur": 5000000, "pid": 1, "tid": 1}]')
    assert main(["find", str(path), "--from", "1s", "--name", "idle"]) == 0
    assert capsys.readouterr().err == (
        f"fxtio: none of the matches of {path} is selected by --name idle in the range from 1 s to 5 s; "
        "the trace is from 0 s to 5 s\n"
    )
