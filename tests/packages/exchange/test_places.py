"""Where functions are defined, in the formats of other tools: a recording says it with the first slice of each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.cli import main
from fxtio.exchange.convert import convert
from fxtio.timeline.answers import top
from judges import go_pprof, speedscope

SOURCE = """\
def work(count):
    return work(count - 1) if count else 0


async def fetch():
    return work(1)
"""


def place(path: Path, line: int) -> dict[str, Any]:
    return {"source.file_name": str(path), "source.line_number": line}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace in which the slices that say it end after others of the same name, and one that says half."""
    source = tmp_path / "app.py"
    source.write_text(SOURCE)
    path = tmp_path / "app.fxt"
    with fxtio.create(path) as writer:
        track = writer.thread(1, 2, "t", "p")
        track.async_begin("await app.fetch", 0, 5, args={"url": "x"})
        track.begin("app.fetch", 0, args=place(source, 5))
        track.begin("app.work", 100, args=place(source, 1) | {"count": 1})
        track.complete("app.work", 200, 300)
        track.complete("half", 310, 320, args={"source.file_name": "half.py"})
        track.end("app.work", 400)
        track.end("app.fetch", 500)
        track.async_end("await app.fetch", 600, 5)
    return path


def written(trace: Path, target: str) -> tuple[Path, Counter[str]]:
    path = trace.with_name(target)
    with fxtio.open_timeline(trace) as timeline:
        return path, convert(timeline, path)


def frames(trace: Path, target: str) -> tuple[dict[str, tuple[str | None, int]], int]:
    """Return the places of the frames of a file by their names, and how many arguments are lost."""
    path, losses = written(trace, target)
    with fxtio.open_timeline(path) as timeline:
        return {row["name"]: (row["file"], row["line"]) for row in timeline.table("frames").rows()}, losses["arguments"]


def test_pprof(trace: Path) -> None:
    app = str(trace.with_name("app.py"))
    expected = {"app.fetch": (app, 5), "app.work": (app, 1), "await app.fetch": (app, 5), "half": (None, -1)}
    assert frames(trace, "x.pb.gz") == (expected, 3)  # the URL, the count and the half


def test_collapsed(trace: Path) -> None:
    app = trace.with_name("app.py")
    path, losses = written(trace, "x.collapsed")
    fetch, work = f"app.fetch ({app}:5)", f"app.work ({app}:1)"
    lines = [f"{fetch} 200", f"{fetch};{work} 190", f"{fetch};{work};{work} 100", f"{fetch};{work};half 10"]
    assert path.read_text().splitlines() == [*lines, f"await {fetch} 600"]
    assert losses["arguments"] == 3


def test_speedscope(trace: Path) -> None:
    path, losses = written(trace, "x.speedscope.json")
    app = str(trace.with_name("app.py"))
    rows = {row["name"]: row for row in json.loads(path.read_text())["shared"]["frames"]}
    assert rows == {
        "app.fetch": {"name": "app.fetch", "file": app, "line": 5},
        "app.work": {"name": "app.work", "file": app, "line": 1},
        "await app.fetch": {"name": "await app.fetch", "file": app, "line": 5},
        "half": {"name": "half"},
    }
    assert losses["arguments"] == 3


def test_otlp(trace: Path) -> None:
    """Each span has them, by the names of the semantic conventions, in place of the arguments."""
    path, losses = written(trace, "x.otlp.jsonl")
    app = str(trace.with_name("app.py"))
    spans = []
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
    found = []
    for span in spans:
        attributes = [(each["key"], *each["value"].values()) for each in span["attributes"]]
        assert len({key for key, _ in attributes}) == len(attributes)
        found.append((span["name"], {key: value for key, value in attributes if "thread" not in key}))
    work = {"code.function.name": "app.work", "code.file.path": app, "code.line.number": "1"}
    fetch = {"code.function.name": "app.fetch", "code.file.path": app, "code.line.number": "5"}
    assert sorted(found, key=str) == [
        ("app.fetch", fetch),
        ("app.work", {**work, "count": "1"}),
        ("app.work", work),
        ("await app.fetch", {**fetch, "url": "x"}),
        ("half", {"source.file_name": "half.py"}),
    ]
    assert not losses


def test_what_is_read_back_says_it(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = str(trace.with_name("app.py"))
    for target in ("x.otlp.jsonl", "x.json", "x.speedscope.json"):
        path, _ = written(trace, target)
        with fxtio.open_timeline(path) as timeline:
            rows = {row["name"]: row["place"] for row in top(timeline, waiting=True).table.rows()}
        assert rows == {"app.fetch": f"{app}:5", "app.work": f"{app}:1", "await app.fetch": f"{app}:5", "half": None}
        assert main(["find", str(path), "app.fetch"]) == 0
        (line,) = [each for each in capsys.readouterr().out.splitlines() if "app.py:5" in each]
        assert "code." not in line
        assert "source." not in line


def test_speedscope_frames_that_are_hostile(tmp_path: Path) -> None:
    """Each frame says what it has; events without a frame say nothing."""
    path = tmp_path / "x.speedscope.json"
    frames = [
        {"name": "whole", "file": "a.py", "line": 3, "col": 1},
        {"name": "half", "file": "b.py"},
        {"name": "line", "line": 2.0},
        {"name": "none", "file": 7, "line": [1]},
        {"name": "py-spy", "file": "", "line": 0},
        {"name": "unused", "file": "c.py", "line": 1},
    ]
    events = [(kind, frame, at) for at in (0, 9) for frame in range(5) for kind in "OC"] + [("C", 5, 20), ("O", 9, 21)]
    profiles = [
        {
            "type": "evented",
            "name": f"t{number}",
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": 30,
            "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events],
        }
        for number in range(2)
    ]
    schema = "https://www.speedscope.app/file-format-schema.json"
    path.write_text(json.dumps({"$schema": schema, "shared": {"frames": frames}, "profiles": profiles}))
    with fxtio.open_timeline(path) as timeline:
        assert {row["name"]: row["place"] for row in top(timeline).table.rows()} == {
            "whole": "a.py:3", "half": None, "line": None, "none": None, "py-spy": None,
        }  # fmt: skip
        args = [(row["name"], row["event"]) for row in timeline.table("args").rows()]
    assert args == [
        ("source.file_name", 0),
        ("source.line_number", 0),
        ("source.file_name", 2),
        ("source.line_number", 4),
    ]


def test_speedscope_functions_of_one_name(tmp_path: Path) -> None:
    """Slices are named with their places, of which the folder stands only where it tells functions apart."""
    path = tmp_path / "x.speedscope.json"
    places = [("/x/a.py", 3), ("/x/a.py", 9), ("/x/a.py", 3), ("", 0), ("/x/b.py", 1), ("/y/b.py", 1), ("/x/c.py", 1)]
    names = ["work", "work", "work", "work", "other", "other", "third"]
    frames = [{"name": name, "file": file, "line": line} for name, (file, line) in zip(names, places, strict=True)]
    events = [{"type": kind, "frame": number, "at": 2 * number + (kind == "C")} for number in range(7) for kind in "OC"]
    evented = {"type": "evented", "name": "t", "unit": "nanoseconds", "startValue": 0, "endValue": 99, "events": events}
    schema = "https://www.speedscope.app/file-format-schema.json"
    path.write_text(json.dumps({"$schema": schema, "shared": {"frames": frames}, "profiles": [evented]}))
    for _ in range(2):  # as it was, and as it is written again
        with fxtio.open_timeline(path) as timeline:
            rows = {row["name"]: (row["calls"], row["place"]) for row in top(timeline).table.rows()}
            assert rows == {
                "work (a.py:3)": (2, "/x/a.py:3"),
                "work (a.py:9)": (1, "/x/a.py:9"),
                "work": (1, None),
                "other (/x/b.py:1)": (1, "/x/b.py:1"),
                "other (/y/b.py:1)": (1, "/y/b.py:1"),
                "third": (1, "/x/c.py:1"),
            }
            path = tmp_path / "again.speedscope.json"
            convert(timeline, path)


@pytest.mark.full
@pytest.mark.once
def test_pprof_lists_the_lines(trace: Path) -> None:
    judges.require(go_pprof.available())
    path, _ = written(trace, "x.pb.gz")
    app = trace.with_name("app.py")
    raw = go_pprof.run(path, "-raw")
    assert f"app.work {app}:1 s=1()" in raw
    assert f"app.fetch {app}:5 s=5()" in raw
    listed = go_pprof.run(path, "-sample_index=self_time", f"-source_path={app.parent}", "-list=app")
    lines = [line.split(maxsplit=2) for line in listed.splitlines()]
    assert ["290ns", "300ns", "1:def work(count):"] in lines
    assert ["200ns", "500ns", "5:async def fetch():"] in lines


@pytest.mark.full
@pytest.mark.once
def test_speedscope_shows_them(trace: Path) -> None:
    judges.require(speedscope.available())
    app = str(trace.with_name("app.py"))
    for target in ("x.speedscope.json", "x.pb.gz"):
        shown: dict[str, Any] = {}
        for profile in speedscope.load(written(trace, target)[0]):
            shown |= profile.frames
        assert shown["app.work"][0] == shown["app.fetch"][0] == app
        assert target == "x.pb.gz" or (shown["app.work"][1], shown["app.fetch"][1]) == (1, 5)
