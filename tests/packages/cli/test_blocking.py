"""What `fxtio top --blocking` prints: text, JSON, CSV, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import fxtio
from fxtio.cli import main

Capture = pytest.CaptureFixture[str]

MS = 1_000_000


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Write a trace of a loop that a function holds for 60 ms, and a callback for 15 ms."""
    path = tmp_path / "loop.fxt"
    with fxtio.create(path) as writer:
        loop = writer.thread(1, 10, "loop", "shop")
        loop.complete("iteration", 5 * MS, 85 * MS, category="asyncio")
        loop.complete("step shop.serve", 5 * MS, 69 * MS, category="asyncio")
        place = {"source.file_name": "/home/ada/shop.py", "source.line_number": 7}
        for name, start, end in (("serve", 6, 68), ("pay", 7, 67), ("render", 7, 67)):
            loop.complete(f"shop.{name}", start * MS, end * MS, args=place if name == "render" else {})
        loop.complete("step shop.\x1b[31mred", 70 * MS, 85 * MS, category="asyncio")
    return str(path)


def printed(capsys: Capture, *arguments: str) -> str:
    assert main(["top", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("order", [("--blocking", "FILE"), ("FILE", "--blocking"), ("--blocking", "50ms", "FILE")])
def test_text(order: tuple[str, ...], capsys: Capture, trace: str) -> None:
    lines = printed(capsys, *(trace if each == "FILE" else each for each in order)).splitlines()
    assert lines[0] == f"{trace}: 1 step held an event loop for 50.0 ms or longer"
    assert lines[3].split("  ")[0].split() == ["0.000000000", "s"]
    words = "64.0 ms  loop (10)  shop.serve  shop.pay         shop.render  shop.py:7"
    assert lines[3].endswith(words)
    assert lines[6].split() == [
        "2",
        "80.0",
        "ms",
        "1",
        "64.0",
        "ms",
        "80.0%",
        "80.0",
        "ms",
        "80.0",
        "ms",
        "loop",
        "(10)",
    ]


def test_more_and_hostile_names(capsys: Capture, trace: str) -> None:
    text = printed(capsys, "--blocking", "10ms", trace, "-n", "1")
    assert "and 1 more (-n all)" in text
    text = printed(capsys, "--blocking=10ms", trace)
    assert r"\x1b[31mred" in text and "\x1b" not in text


def test_json_and_csv(capsys: Capture, trace: str) -> None:
    result = json.loads(printed(capsys, "--blocking", trace, "--json"))
    (row,) = result["rows"]
    calls = [["shop.serve", 62 * MS], ["shop.pay", 60 * MS], ["shop.render", 60 * MS]]
    assert row == {
        "time": 5 * MS, "duration": 64 * MS, "name": "shop.render", "step": "shop.serve", "awaiting": None,
        "thread": "loop (10)", "calls": calls, "defined_in": "/home/ada/shop.py:7",
    }  # fmt: skip
    assert (result["what"], result["longer"], result["more"]) == ("blocking", 50 * MS, 0)
    assert result["loops"] == [
        {
            "thread": "loop (10)", "steps": 2, "time": 80 * MS, "blocks": 1, "blocked": 64 * MS, "late": 80 * MS,
            "worst": 80 * MS, "share": 0.8,
        }
    ]  # fmt: skip
    rows = [*csv.DictReader(io.StringIO(printed(capsys, "--blocking", "1ms", trace, "--csv")))]
    assert [(row["step"], row["duration"]) for row in rows] == [
        ("shop.serve", "64000000"),
        (r"shop.\x1b[31mred", "15000000"),
    ]
    assert json.loads(rows[0]["calls"]) == calls


def test_selections(capsys: Capture, trace: str) -> None:
    assert "1 step held" in printed(capsys, "--blocking", "10ms", trace, "--name", "*render")
    assert "0 steps held" in printed(capsys, "--blocking", trace, "--from", "64ms")
    assert "no steps of event loops" in printed(capsys, "--blocking", trace, "--thread", "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "thread"], "--blocking ranks steps of event loops; it does not go with --by"),
        (["--live"], "it does not go with --live"),
        (["--waiting"], "it does not go with --waiting"),
    ],
)
def test_what_makes_no_sense(options: list[str], message: str, capsys: Capture, trace: str) -> None:
    assert main(["top", "--blocking", trace, *options]) == 2
    assert message in capsys.readouterr().err


def test_a_time_of_nothing(capsys: Capture, trace: str) -> None:
    with pytest.raises(SystemExit):
        main(["top", "--blocking", "0", trace])
    assert "greater than 0" in capsys.readouterr().err
