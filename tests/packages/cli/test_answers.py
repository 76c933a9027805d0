"""What `fxtio top`, `tree`, `find`, `timeline` and `info` print: text, JSON, CSV, selections, hostile names, colors."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from argparse import ArgumentTypeError
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.cli import main
from fxtio.cli.bars import Bar
from fxtio.cli.console import print_table
from fxtio.cli.parser import COMMANDS as ALL_COMMANDS
from fxtio.cli.parser import parser_of
from fxtio.exchange.convert import convert
from fxtio.fxt.enums import ThreadState
from fxtio.report import shortened, width_of
from fxtio.selection import Moment
from fxtio.timeline.answers import waiting
from support.checkout import CORPUS
from support.in_process import piped
from support.terminal import in_terminal

Capture = pytest.CaptureFixture[str]

COMMANDS = ("top", "tree", "find", "timeline")
HOSTILE = "\x1b[31mred\x1b[0m\n\u202e\udcff"
MS = 1_000_000


def write(path: Path) -> str:
    """Write a trace of 30 requests on two threads, one of them slow, and two log messages."""
    with fxtio.create(path) as writer:
        main, worker = (writer.thread(1, 10 + n, name, "shop") for n, name in enumerate(("main", "worker")))
        for number in range(30):
            at, query = number * 10 * MS + 5, (6 if number == 20 else 2) * MS
            args = {"user": ("ann", "bob")[number % 2], "size": number, "share": 0.5}
            main.complete("GET /", at, at + query + 2 * MS, category="http", args=args)
            main.complete("query", at + MS, at + MS + query, category="db")
            if number % 10 == 0:
                worker.complete("job", at, at + 5 * MS, category="jobs", args={"ok": bool(number)})
            if number == 20:
                main.instant("slow", at + 3 * MS, category="db", args={"size": 99})
                main.log("query took long", at + 4 * MS)
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write(tmp_path / "shop.fxt")


def printed(capsys: Capture, *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def rows_of_json(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(printed(capsys, *arguments, "--json"))["rows"]
    return rows


def test_top(capsys: Capture, trace: str) -> None:
    lines = printed(capsys, "top", trace).splitlines()
    assert lines[0] == f"{trace}: slices by name, sorted by self"
    assert lines[2:] == [
        "calls    total     self      min   median      p99      max  share  name",
        "   30  64.0 ms  64.0 ms  2.00 ms  2.00 ms  6.00 ms  6.00 ms  46.0%  query",
        "   30   124 ms  60.0 ms  4.00 ms  4.00 ms  8.00 ms  8.00 ms  43.2%  GET /",
        "    3  15.0 ms  15.0 ms  5.00 ms  5.00 ms  5.00 ms  5.00 ms  10.8%  job",
    ]


def test_top_as_json_and_csv(capsys: Capture, trace: str) -> None:
    result = json.loads(printed(capsys, "top", trace, "--json", "--sort", "total", "-n", "1"))
    assert (result["what"], result["unit"], result["more"], result["error"]) == ("slices", "ns", 2, 0.0)
    (row,) = result["rows"]
    assert row == {
        "name": "GET /", "calls": 30, "total": 124 * MS, "self": 60 * MS, "waiting": 0, "open": 0, "min": 4 * MS,
        "median": 4 * MS, "p99": 8 * MS, "max": 8 * MS, "share": 60 / 139,
    }  # fmt: skip
    text = printed(capsys, "top", trace, "--csv", "--sort", "total", "-n", "1")
    (in_csv,) = csv.DictReader(io.StringIO(text))
    assert in_csv == {name: str(value) for name, value in row.items()}


def waiting_program(path: Path) -> str:
    """Write a recording of a thread that works for 3 ms, and of a task; the thread is still in its last call."""
    with fxtio.create(path) as writer:
        main = writer.thread(1, 10, "main", "shop")
        main.begin("app.main", 0, category="function")
        main.complete("queue.Queue.get", MS, 5 * MS, category="function")
        main.complete("time.sleep", 6 * MS, 7 * MS, category="function")
        main.async_begin("await app.fetch", 0, 1, category="function")
        main.async_begin("request", MS, 1, category="web")
        main.async_end("request", 3 * MS, 1, category="web")
        main.async_end("await app.fetch", 8 * MS, 1, category="function")
        main.complete("await", 7 * MS, 8 * MS, category="function")  # on the track of a thread, and another name
    return str(path)


def test_waiting_is_a_column_of_its_own(capsys: Capture, tmp_path: Path) -> None:
    path = waiting_program(tmp_path / "waits.fxt")
    rows = {row["name"]: row for row in rows_of_json(capsys, "top", path)}
    assert {name: (row["self"], row["waiting"], row["open"]) for name, row in rows.items()} == {
        "app.main": (2 * MS, 0, 1),
        "request": (2 * MS, 0, 0),
        "await": (MS, 0, 0),
    }
    assert rows["app.main"]["share"] == 2 / 5
    lines = printed(capsys, "top", path).splitlines()
    assert lines[2].split()[:5] == ["calls", "open", "total", "self", "min"]
    assert lines[-1] == "11.0 ms of waiting left out, in 3 rows (--waiting)"
    lines = printed(capsys, "top", path, "--waiting").splitlines()
    assert lines[2].split()[:5] == ["calls", "open", "total", "self", "waiting"]
    assert [line.split()[-1] for line in lines[3:6]] == ["app.fetch", "queue.Queue.get", "app.main"]
    assert "left out" not in lines[-1]
    (row,) = rows_of_json(capsys, "top", path, "--by", "thread", "--name", "!await*", "--name", "!request")
    assert (row["self"], row["waiting"]) == (2 * MS, 5 * MS)
    (row,) = rows_of_json(capsys, "top", path, "--waiting", "--name", "*.get", "--from", "4ms", "--to", "5ms")
    assert (row["self"], row["waiting"]) == (MS, MS)


def test_rows_of_calls_without_an_end_are_marked(capsys: Capture, tmp_path: Path) -> None:
    path = waiting_program(tmp_path / "waits.fxt")
    header, *lines = printed(capsys, "tree", path, "--depth", "1").splitlines()[2:]
    assert header.split()[:3] == ["calls", "open", "total"]
    assert [line.split()[1] for line in lines if line.endswith("app.main")] == ["1"]
    assert [row["open"] for row in rows_of_json(capsys, "tree", path, "--name", "app.main")] == [1]


def test_a_thread_that_the_scheduler_has_blocked_waits(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is blocked twice, once within each slice, and preempted once; the other one is blocked once."""
    path = tmp_path / "scheduled.fxt"
    blocked, preempted = ThreadState.BLOCKED, ThreadState.RUNNING
    with fxtio.create(path) as file:
        writer = file.provider("scheduler")
        first, second = (writer.thread(1, tid) for tid in (10, 11))
        writer.context_switch(0, 0, 11, 10, blocked)
        for at, back, state, other in ((100, 130, blocked, preempted), (150, 190, preempted, blocked)):
            writer.context_switch(at, 0, 10, 11, state)
            writer.context_switch(back, 0, 11, 10, other)
        writer.context_switch(300, 0, 10, 11, blocked)
        writer.context_switch(330, 0, 11, 10, blocked)
        first.complete("outer", 10, 400)
        first.complete("inner", 90, 200)
        second.complete("other", 105, 320)
    rows = {row["name"]: (row["self"], row["waiting"]) for row in rows_of_json(capsys, "top", str(path))}
    assert rows == {"outer": (250, 30), "inner": (80, 30), "other": (105, 110)}
    rows = {row["name"]: (row["self"], row["waiting"]) for row in rows_of_json(capsys, "top", str(path), "--waiting")}
    assert rows == {"outer": (280, 30), "inner": (110, 30), "other": (215, 110)}
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "MAX_RUNS", 3)
        note = printed(capsys, "top", str(path)).splitlines()[-1]
        assert note.endswith("times on a processor: what waits is known by names only")
    in_range = rows_of_json(capsys, "top", str(path), "--from", "115ns", "--to", "310ns")
    assert {row["name"]: row["waiting"] for row in in_range} == {"outer": 10, "inner": 15, "other": 110}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--by", "category"], {"http": 30, "db": 30, "jobs": 3}),
        (["--by", "thread"], {"main (10)": 60, "worker (11)": 3}),
        (["--by", "process"], {"shop (1)": 63}),
        (["--by", "track", "--thread", "main"], {"main (10)": 60}),
        (["--by", "arg:user"], {"ann": 15, "bob": 15}),
        (["--by", "arg:ok"], {"true": 2, "false": 1}),
        (["--by", "arg:none"], {}),
        (["--thread", "11"], {"job": 3}),
        (["--thread", "!w*"], {"GET /": 30, "query": 30}),
        (["--process", "other"], {}),
        (["--category", "db"], {"query": 30}),
        (["--name", "GET*", "--name", "j?b"], {"GET /": 30, "job": 3}),
        (["--from", "100ms", "--to", "+10ms"], {"GET /": 1, "query": 1, "job": 1}),
        (["--from", "-10ms"], {"query": 1, "GET /": 1}),
    ],
)
def test_groups_and_selections(capsys: Capture, trace: str, options: list[str], expected: dict[str, int]) -> None:
    assert {row["name"]: row["calls"] for row in rows_of_json(capsys, "top", trace, *options)} == expected


def test_a_range_cuts_slices(capsys: Capture, trace: str) -> None:
    rows = rows_of_json(capsys, "top", trace, "--from", "201ms", "--to", "203ms", "--thread", "main")
    assert {row["name"]: (row["total"], row["self"]) for row in rows} == {
        "GET /": (2 * MS, 0),
        "query": (2 * MS, 2 * MS),
    }


def test_tree(capsys: Capture, trace: str) -> None:
    lines = printed(capsys, "tree", trace).splitlines()
    assert lines[2:] == [
        "calls    total     self  share               name",
        "   30   124 ms  60.0 ms  89.2%  ██████████▊  GET /",
        "   30  64.0 ms  64.0 ms  46.0%  █████▌         query",
        "    3  15.0 ms  15.0 ms  10.8%  █▎           job",
    ]
    assert printed(capsys, "tree", trace, "--share", "50%").splitlines()[-1].startswith("and 2 more")
    assert [row["name"] for row in rows_of_json(capsys, "tree", trace, "--depth", "1")] == ["GET /", "job"]
    assert [row["name"] for row in rows_of_json(capsys, "tree", trace, "-n", "1")] == ["GET /"]
    assert [row["parent"] for row in rows_of_json(capsys, "tree", trace)] == [-1, 0, -1]
    header, first, *_ = printed(capsys, "tree", trace, "--csv").splitlines()
    assert header == "depth,parent,name,calls,total,self,open,share"
    assert first.startswith("0,-1,GET /,30,124000000,60000000,0,0.89")


def test_find(capsys: Capture, trace: str) -> None:
    lines = printed(capsys, "find", trace, "--longer", "5ms", "--ancestors", "--thread", "main").splitlines()
    assert lines == [
        f"{trace}: 2 matches",
        "",
        "         time  duration  thread     name   arguments                   within",
        "0.200000000 s   8.00 ms  main (10)  GET /  user=ann size=20 share=0.5",
        "0.201000000 s   6.00 ms  main (10)  query                              GET /",
    ]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["slow"], 1),
        (["*took*"], 1),
        (["s*"], 1),
        (["--arg", "user=b*"], 15),
        (["--arg", "user=bob", "--arg", "size>=28"], 1),
        (["--arg", "size>=28"], 3),
        (["--arg", "ok=false"], 1),
        (["--arg", "share=0.5", "--longer", "7ms"], 1),
        (["--shorter", "3ms"], 29),
        (["--longer", "1s"], 0),
        (["--from", "50%", "--category", "jobs"], 1),
    ],
)
def test_what_is_found(capsys: Capture, trace: str, arguments: list[str], count: int) -> None:
    assert len(rows_of_json(capsys, "find", trace, *arguments, "-n", "all")) == count
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "find", trace, *arguments, "-n", "all", "--csv"))))
    assert len(rows) == count
    number = "1 match" if count == 1 else f"{count} matches"
    assert printed(capsys, "find", trace, *arguments).splitlines()[0].endswith(number)


def test_what_is_found_as_json(capsys: Capture, trace: str) -> None:
    result = json.loads(printed(capsys, "find", trace, "--sort", "time", "-n", "2", "--json"))
    assert (result["start"], result["more"]) == (5, 63)
    assert result["rows"][0] == {
        "kind": "slice", "time": 5, "duration": 5 * MS, "thread": "worker (11)", "category": "jobs", "name": "job",
        "arguments": {"ok": False}, "ancestors": [], "defined_in": None,
    }  # fmt: skip
    (slow,) = rows_of_json(capsys, "find", trace, "slow")
    assert (slow["kind"], slow["duration"], slow["ancestors"]) == ("instant", None, ["GET /", "query"])
    (log,) = rows_of_json(capsys, "find", trace, "query took long")
    assert (log["kind"], log["thread"], log["time"]) == ("log", "main (10)", 204 * MS + 5)
    (row,) = csv.DictReader(io.StringIO(printed(capsys, "find", trace, "slow", "--csv")))
    assert json.loads(row["ancestors"]) == ["GET /", "query"]
    assert json.loads(row["arguments"]) == {"size": 99}


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_timeline(capsys: Capture, trace: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed(capsys, "timeline", trace, "--from", "200ms", "--to", "+10ms", "--depth", "2").splitlines()
    assert lines[0].startswith(f"{trace}: 10.0 ms from 200 ms on, a column is ")
    assert all(len(line) < columns for line in lines[2:])
    assert len(lines[2]) > 0.5 * columns  # names leave most of the columns to the bars
    assert re.fullmatch(r"main \(10\)   ┣GET /━+┫[▁▂▃▄]?", lines[4])
    assert re.fullmatch(r" {12} *[┃▄]?┣query━+┫[┃▁▂▃▄]* *", lines[5].ljust(columns))
    assert re.fullmatch(r"worker \(11\) ┣job━+┫[▁▂▃▄]?", lines[6])


@pytest.mark.parametrize(("lines", "levels"), [(1, 1), (7, 1), (8, 2), (9, 3), (24, 3)])
def test_a_timeline_has_as_many_levels_as_fit(
    capsys: Capture, lines: int, levels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep.fxt"
    with fxtio.create(path) as writer:
        for number, depth in enumerate((3, 1)):
            thread = writer.thread(1, 10 + number)
            for level in range(depth):
                thread.complete(f"level {level}", level, 1000 - level)
    monkeypatch.setenv("LINES", str(lines))
    drawn = printed(capsys, "timeline", str(path)).splitlines()
    assert len(drawn) == 4 + levels + 1
    assert len(drawn) < lines or levels == 1  # a prompt has the last line
    assert len(printed(capsys, "timeline", str(path), "--depth", "3").splitlines()) == 8
    assert {lane["depth"] for lane in json.loads(printed(capsys, "timeline", str(path), "--json"))["lanes"]} == {0}


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_long_names_of_threads_in_a_timeline(
    columns: int, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They keep their begin and their end, and have more room on a wide terminal."""
    with fxtio.create(tmp_path / "x.fxt") as writer:
        writer.thread(1, 11, "a thread with a name to the end").complete("work", 0, 10**9)
    monkeypatch.setenv("COLUMNS", str(columns))
    line = printed(capsys, "timeline", str(tmp_path / "x.fxt")).splitlines()[-1]
    assert len(line) <= columns
    shown = line.partition(" ┣")[0]
    if columns == 200:
        assert shown == "a thread with a name to the end (11)"
    else:
        assert re.fullmatch(r"a t\S*.*….*the end \(11\)", shown)
        assert len(shown) == min(24, (columns - 1) // 3)


def test_timeline_as_json_and_csv(capsys: Capture, trace: str) -> None:
    result = json.loads(printed(capsys, "timeline", trace, "--json", "--thread", "worker"))
    (lane,) = result["lanes"]
    assert (lane["thread"], lane["depth"], lane["slices"], lane["busy"]) == ("worker (11)", 0, 3, 15 * MS)
    assert (result["start"], result["end"]) == (5, 294 * MS + 6)
    filled = sum((cell["end"] - cell["start"]) * cell["fill"] for cell in lane["cells"])
    assert filled == pytest.approx(15 * MS, rel=1e-3)
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "timeline", trace, "--csv", "--thread", "worker"))))
    assert [int(row["start"]) for row in rows] == [cell["start"] for cell in lane["cells"]]
    assert {row["name"] for row in rows} == {"job"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["top", "--by", "arg:"], "'arg:' names no argument; write arg:NAME"),
        (["top", "--unit", "cycles"], "there are no samples in the unit 'cycles'"),
        (["top", "--unit", "ns", "--what", "slices"], "slices have no units; only samples are ranked by one"),
        (["diff", "-", "-"], "only one of the traces can come from standard input"),
        (["check", "-", "--baseline", "-"], "only one of the traces can come from standard input"),
        (["check", "--baseline", "no.fxt", "-o", "x.json"], "-o writes the report of --report json, junit or markdown"),
        (["query", "-o", "x.txt", "select 1"], "x.txt: the ending must be .parquet, .csv or .json"),
    ],
)
def test_refusals(capsys: Capture, trace: str, arguments: list[str], message: str) -> None:
    command, *rest = arguments
    assert main([command, *([] if "-" in rest else [trace]), *rest]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"fxtio: {message}\n")


def test_options_between_other_arguments(capsys: Capture, trace: str) -> None:
    whole = printed(capsys, "find", trace, "query*", "--longer", "5ms")
    assert printed(capsys, "find", trace, "--longer", "5ms", "query*") == whole
    assert printed(capsys, "find", "--longer", "5ms", trace, "--sort", "time", "query*") == whole
    assert printed(capsys, "diff", trace, "--all", "--self", trace).splitlines()[-2] == "3 same"
    with pytest.raises(SystemExit, match="2"):
        main(["find", trace, "--longer", "5ms", "query", "--nosuch"])
    assert "fxtio find: error: unrecognized arguments: --nosuch" in capsys.readouterr().err


def test_a_wrong_number_of_rows(capsys: Capture, trace: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["top", trace, "-n", "some"])
    assert "'some' is not a positive number, nor is it `all`" in capsys.readouterr().err


def test_nothing_there_or_nothing_selected(capsys: Capture, trace: str) -> None:
    for command in ("top", "tree"):
        assert "the trace has no samples\n" in printed(capsys, command, trace, "--what", "samples")
        text = printed(capsys, command, trace, "--thread", "nobody")
        assert "the trace has no slices that are selected\n" in text


PY_SPY = CORPUS / "py-spy"


@pytest.mark.parametrize("columns", [40, 80])
def test_timeline_of_samples(capsys: Capture, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed(capsys, "timeline", str(PY_SPY / "work.speedscope.json")).splitlines()
    assert lines[4] == "samples:"
    assert lines[5].startswith('Thre…6 "" (1) ' if columns == 40 else 'Thread 27426 "" (1) ')
    bar = lines[5].partition("(1) ")[2]
    assert re.fullmatch("[┣┃].*[┫┃]", bar)
    assert len(bar) >= 0.6 * columns


def test_timeline_of_samples_of_more_threads_than_lines(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINES", "10")
    (path := tmp_path / "a.json").write_text(
        json.dumps({"meta": {"interval": 1}, "threads": [{"samples": {"stack": [0], "time": [1]}}] * 20})
    )
    lines = printed(capsys, "timeline", str(path), "-n", "all").splitlines()
    assert [line.split("  ")[0] for line in lines[-20:]] == [f"thread {number}" for number in range(20)]


def test_timeline_of_samples_as_json_and_csv(capsys: Capture) -> None:
    path = str(CORPUS / "mono" / "sample.mlpd.gz")
    result = json.loads(printed(capsys, "timeline", path, "--json"))
    assert (result["lanes"], result["unit"]) == ([], "samples")
    assert sum(lane["samples"] for lane in result["samples"]) == 228
    assert sum(lane["weight"] for lane in result["samples"]) == 228
    cells = [cell for lane in result["samples"] for cell in lane["cells"]]
    assert max(cell["fill"] for cell in cells) == 1
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "timeline", path, "--csv"))))
    assert {row["content"] for row in rows} == {"samples"}
    assert [row["name"] for row in rows] == [cell["name"] for cell in cells]


@pytest.mark.parametrize("options", [["--from", "0"], ["--until", "1ms"], ["--from", "1ms"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_traces_without_times(capsys: Capture, command: str, options: list[str]) -> None:
    collapsed = str(PY_SPY / "work.collapsed")
    assert main([command, collapsed, *options]) == 2
    assert capsys.readouterr().err == f"fxtio: {collapsed} has no times, so no range of it can be selected\n"
    text = printed(capsys, "timeline", collapsed)
    assert text == f"{collapsed}: no slices or samples have times; fxtio top shows what has none\n"
    assert json.loads(printed(capsys, "timeline", collapsed, "--json"))["samples"] == []


@pytest.mark.parametrize(
    ("text", "width", "result"),
    [
        ("main (1)", 8, "main (1)"),
        ("ThreadPoolExecutor-0_1 (4567)", 14, "Thre…_1 (4567)"),
        ("Thread", 2, "…d"),
        ("日本語スレッド (7)", 10, "日…ド (7)"),
        ("e\u0301e\u0301e\u0301e\u0301", 3, "…e\u0301e\u0301"),
        ("abcdef", 0, ""),
    ],
)
def test_names_are_cut_in_the_middle(text: str, width: int, result: str) -> None:
    assert shortened(text, width) == result
    assert width_of(result) <= width


def test_info(capsys: Capture, trace: str) -> None:
    text = printed(capsys, "info", trace)
    assert "longest             at  thread       slice\n8.00 ms  0.200000000 s  main (10)    GET /\n" in text
    assert "   busy  slices  busiest thread\n 124 ms      60  main (10)\n15.0 ms       3  worker (11)\n" in text
    result = json.loads(printed(capsys, "info", trace, "--json"))
    assert result["slices"] == 63
    assert result["longest"][0] == {"name": "GET /", "time": 200 * MS + 5, "duration": 8 * MS, "thread": "main (10)"}
    assert result["busiest"][0] == {"thread": "main (10)", "busy": 124 * MS, "slices": 60}
    assert result["gaps"][0] == {"time": 14 * MS + 5, "duration": 6 * MS}


@pytest.mark.parametrize("command", COMMANDS)
def test_traces_without_slices(command: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "empty.fxt"
    for events in (0, 1):
        with fxtio.create(path) as writer:
            for _ in range(events):
                writer.thread(1, 2).counter("load", 5, {"value": 7})
        text = printed(capsys, command, str(path))
        assert "no slices" in text or "0 matches" in text
        assert main([command, str(path), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["lanes" if command == "timeline" else "rows"] == []
        assert len(printed(capsys, command, str(path), "--csv").splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_one_slice(command: str, capsys: Capture, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "one.fxt") as writer:
        writer.thread(1, 2).complete("only", 7, 7)
    assert "only" in printed(capsys, command, str(tmp_path / "one.fxt"), "--csv")
    assert printed(capsys, command, str(tmp_path / "one.fxt"))


@pytest.mark.parametrize("command", [*COMMANDS, "info"])
def test_hostile_names(command: str, capsys: Capture, tmp_path: Path) -> None:
    path = str(tmp_path / "hostile.fxt")
    with fxtio.create(path) as writer:
        track = writer.thread(1, 2, HOSTILE, HOSTILE)
        track.complete(HOSTILE, 10, 900, category=HOSTILE, args={HOSTILE: HOSTILE})
    options: list[list[str]] = [[], ["--json"]]
    if command != "info":
        options += [["--csv"]]
    if command == "top":
        options += [["--by", by] for by in ("category", "thread", "process", "track", f"arg:{HOSTILE}")]
    for each in options:
        text = printed(capsys, command, path, *each, code=1)
        assert "red" in text or "7265640a" in text or "726564" in text
        assert not set(text) & set("\x1b\u202e\udcff")
        if "--json" in each:
            json.loads(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["top", "--by", "color"], "'color' is not something to group by"),
        (["top", "--what", "samples", "--sort", "p99"], "samples have no p99; sort by self, total or calls"),
        (["top", "--what", "sched", "--by", "category"], "sched can be grouped by"),
        (["top", "--what", "samples", "--unit", "cycles"], "there are no samples in the unit 'cycles'"),
        (["top", "--from", "3h"], "3h is after the end of"),
        (["find", "--from", "10:00"], "does not tell its wall-clock time"),
    ],
)
def test_questions_without_an_answer(capsys: Capture, trace: str, arguments: list[str], message: str) -> None:
    assert main([*arguments, trace]) == 2
    error = capsys.readouterr().err
    assert error.startswith("fxtio: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["find", "--longer", "soon"], "'soon' is not a duration; write 1.2s, 350ms, 12us or 800ns"),
        (["find", "--longer", "-5ms"], "is not a duration"),
        (["find", "--arg", "size"], "'size' is not a condition"),
        (["tree", "--share", "120%"], "'120%' is not a share; write 1% or 0.01"),
        (["tree", "--share", "nan"], "'nan' is not a share"),
        (["top", "-n", "0"], "'0' is not a positive number"),
        (["attach", "--stop"], "is not a process id"),
        (["top", "--from", "12 parsecs"], "is not a time"),
        (["top", "--json", "--csv"], "not allowed with argument"),
    ],
)
def test_wrong_usage(capsys: Capture, trace: str, arguments: list[str], message: str) -> None:
    command, option, *value = arguments
    joined = (
        [f"{option}={value[0]}"]
        if value and option.startswith("--") and not value[0].startswith("--")
        else [option, *value]
    )
    with pytest.raises(SystemExit) as caught:
        main([command, trace, *joined])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_damaged_traces(command: str, capsys: Capture, tmp_path: Path) -> None:
    data = (CORPUS / "fxt" / "magic-trace.fxt").read_bytes()
    (tmp_path / "cut.fxt").write_bytes(data[:-500] + b"\xff" * 12)
    assert main([command, str(tmp_path / "cut.fxt")]) == 1
    captured = capsys.readouterr()
    assert "_start" in captured.out or command == "top"
    assert "finding" in captured.err
    (tmp_path / "text").write_text("hello")
    assert main([command, str(tmp_path / "text")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_lost_is_told(capsys: Capture, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "lost.fxt") as writer:
        writer.thread(1, 2).end("nothing", 5)
        writer.thread(1, 2).complete("span", 7, 9)
    lost = str(tmp_path / "lost.fxt")
    for command in COMMANDS:
        assert main([command, lost]) == 0
        assert capsys.readouterr().err == "fxtio: not shown: ends of spans that have not begun (1)\n"
        result = json.loads(printed(capsys, command, lost, "--json"))
        assert result["losses"] == {"ends of spans that have not begun": 1}
    assert main(["diff", lost, lost]) == 0
    assert capsys.readouterr().err == f"fxtio: {lost}: not shown: ends of spans that have not begun (1)\n" * 2


@pytest.mark.parametrize("command", [*COMMANDS, "info", "convert", "diff", "check"])
def test_empty_files_are_refused(command: str, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty.fxt").touch()
    (tmp_path / "text.fxt").write_text("hello")
    for name, message in (("empty.fxt", ": the file is empty"), ("text.fxt", " is a text file, not a trace")):
        path = str(tmp_path / name)
        others = {"convert": [str(tmp_path / "out.json")], "diff": [path], "check": ["--baseline", path]}
        assert main([command, path, *others.get(command, [])]) == 2
        assert capsys.readouterr().err == f"fxtio: {path}{message}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_end_of_a_range_has_two_names(command: str, capsys: Capture, trace: str) -> None:
    until, to = (printed(capsys, command, trace, "--from", "50ms", option, "100ms") for option in ("--until", "--to"))
    assert until == to


def test_the_end_of_a_range_is_no_format(capsys: Capture, trace: str, tmp_path: Path) -> None:
    assert main(["convert", trace, str(tmp_path / "out.json"), "--to", "1.4s"]) == 2
    assert "--until" in capsys.readouterr().err


EXCHANGED = {
    "chrome": "json",
    "otlp": "otlp.jsonl",
    "speedscope": "speedscope.json",
    "pprof": "pprof",
    "collapsed": "folded",
}
OF_RECORDS = (["dump"], ["validate"], ["explain"])


@pytest.fixture(params=EXCHANGED)
def exchanged(request: pytest.FixtureRequest, trace: str, tmp_path: Path) -> tuple[str, Path]:
    """Return the name of an exchange format, and a file of it with what the trace has."""
    path = tmp_path / f"given.{EXCHANGED[request.param]}"
    convert(fxtio.open_timeline(trace), path)
    return request.param, path


def test_exchange_formats_are_counted(capsys: Capture, exchanged: tuple[str, Path]) -> None:
    name, path = exchanged
    summary = json.loads(printed(capsys, "info", str(path), "--json"))
    counts = json.loads(printed(capsys, "stats", str(path), "--json", "--top", "1"))
    assert (summary["format"], summary["records"]) == (name, counts["rows"])
    assert summary["findings"] == counts["findings"] == {"counts": {}, "first": []}
    text = printed(capsys, "info", str(path)) + printed(capsys, "stats", str(path))
    assert re.search(rf"format +{name}", text)
    if name in ("pprof", "collapsed"):
        assert {*counts["rows"]} == {"samples"}
        assert summary["functions"]["rows"]
    else:
        assert counts["rows"]["slices"] == summary["slices"] == 63
        assert counts["names"] == [{"name": "GET /", "events": 30}]
        assert (summary["start"], summary["end"]) == (5, 294 * MS + 5)
        assert re.search(r"30 +4\d\.\d% +GET /", text)
    content = path.read_bytes()
    is_packed = summary["compression"] == "gzip"
    assert counts["bytes"] == summary["size"] == len(gzip.decompress(content) if is_packed else content)


def test_parts_of_exchange_formats(capsys: Capture, exchanged: tuple[str, Path], tmp_path: Path) -> None:
    name, path = exchanged
    part = tmp_path / f"part.{EXCHANGED[name]}"
    to_95ms = [] if name in ("pprof", "collapsed") else ["--until", "95ms"]
    code = main(["cut", str(path), "-o", str(part), "--name", "GET *", *to_95ms])
    if name in ("pprof", "collapsed"):
        assert (code, part.exists()) == (2, False)
        assert "has no times" in capsys.readouterr().err
    else:
        assert code == 0
        assert fxtio.open_timeline(part).table("slices")["name"].tolist() == ["GET /"] * 10
    assert main(["cut", str(path), "-o", str(tmp_path / "part.fxt"), "--name", "GET *"]) == 2
    assert f"given.{EXCHANGED[name]} is {name}" in capsys.readouterr().err


def test_exchange_formats_have_no_records(capsys: Capture, exchanged: tuple[str, Path], tmp_path: Path) -> None:
    """One sentence says so, from every command and from the interface for programs, and what to do."""
    name, path = exchanged
    sentence = (
        f"{path} is a file of the format {name}, which has no records to read; "
        f"convert it first: fxtio convert {path} trace.fxt"
    )
    for command in OF_RECORDS:
        assert main([*command, str(path)]) == 2
        assert capsys.readouterr().err == f"fxtio: {sentence}\n"
    for chosen in (None, name):
        with pytest.raises(fxtio.FormatError, match=f"^{re.escape(sentence)}$"):
            fxtio.open(path, format=chosen)
    with pytest.raises(fxtio.FormatError, match="first: fxtio convert IN trace"):
        fxtio.open(path.read_bytes())


def test_a_format_that_is_not_there(trace: str, tmp_path: Path) -> None:
    """The names are those of all formats that can be read."""
    for opener in (fxtio.open, fxtio.open_timeline):
        with pytest.raises(fxtio.FormatError, match=r"no format 'nope', only fxt, .*mono.*, chrome, .*otlp, perfetto$"):
            opener(trace, format="nope")
        with pytest.raises(fxtio.FormatError, match="is a directory; a trace in the format chrome is a file"):
            opener(tmp_path, format="chrome")


def _taken(convert: Any, text: str) -> Any:
    """Return what an option makes of a text, or its refusal."""
    try:
        return convert(text)
    except ArgumentTypeError as error:
        return str(error)


@pytest.mark.parametrize("name", [name for name in ALL_COMMANDS if name not in ("run", "attach")])
def test_numbers_that_are_too_large(name: str) -> None:
    """Each option refuses a number that does not fit 64 bits in a short sentence, however many digits it has."""
    converters = [action.type for action in parser_of(name)._actions if action.type not in (None, Path)]
    for convert_text, digits, unit in product(converters, (20, 309, 5000), ("", "s", "%", "k", "GiB")):
        taken = _taken(convert_text, "9" * digits + unit)
        assert len(taken) < 250 if isinstance(taken, str) else (isinstance(taken, Moment) and digits < 30)


def test_a_number_that_is_too_large(capsys: Capture, trace: str) -> None:
    with pytest.raises(SystemExit):
        main(["find", trace, "--longer", "9" * 20 + "s"])
    assert "error: argument --longer: '99999999999999999999s' is too large" in capsys.readouterr().err


def test_long_names_are_cut_in_tables(capsys: Capture, tmp_path: Path) -> None:
    with fxtio.create(tmp_path / "long.fxt") as writer:
        writer.thread(1, 2).complete("x" * 30_000, 5, 9)
    for command in ("top", "tree", "info"):
        text = printed(capsys, command, str(tmp_path / "long.fxt"))
        assert "x" * 300 in text
        assert max(map(len, text.splitlines())) < 600
    assert "x" * 30_000 in printed(capsys, "top", str(tmp_path / "long.fxt"), "--json")


def test_an_argument_that_nothing_has(capsys: Capture, trace: str) -> None:
    assert "the trace has no slices, or none with the argument 'color'\n" in printed(
        capsys, "top", "--by", "arg:color", trace
    )


def test_rounded_percentiles_are_told(capsys: Capture, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.timeline.answers.totals.EXACT_ROWS", 10)
    assert printed(capsys, "top", trace).splitlines()[-1] == "median and p99 are rounded: they may be off by 0.8%"
    (query, *_) = rows_of_json(capsys, "top", trace)
    assert abs(query["median"] - 2 * MS) <= 2 * MS * 0.0079


@pytest.mark.parametrize("command", [*COMMANDS, "info"])
def test_standard_input(command: str, capsys: Capture, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ([], ["--from", "10%"]) if command != "info" else ([],):
        with piped(Path(trace).read_bytes()) as pipe:
            monkeypatch.setattr(sys, "stdin", pipe)
            text = printed(capsys, command, "-", *options)
        assert ("main (10)" if command == "timeline" else "GET /") in text


def test_colors_are_for_terminals(trace: str) -> None:
    arguments = ["timeline", trace]
    assert "\x1b[30;48;5;" in in_terminal(arguments, NO_COLOR="")
    for variables in ({"NO_COLOR": "1"}, {"NO_COLOR": "", "TERM": "dumb"}):
        plain = in_terminal(arguments, **variables)
        assert "\x1b" not in plain
        assert "┃" in plain
    for encoding in ("ascii", "latin-1", "cp437"):
        ascii_only = in_terminal(arguments, encoding, NO_COLOR="1")
        assert ascii_only.isascii()
        assert "|" in ascii_only


def test_tables_on_a_terminal(tmp_path: Path) -> None:
    """A row is one line: names are shortened, and there are bars."""
    path = str(tmp_path / "t.fxt")
    with fxtio.create(path) as writer:
        thread = writer.thread(1, 2, "main")
        thread.complete("日本語の関数" * 20, 0, 900)
        for depth in range(40):
            thread.complete(f"level {depth:02} " + "x" * 50, depth, 800 - depth)
    for command, mark in (("top", "█"), ("tree", "█"), ("timeline", "▏")):
        for columns in (100, 120) if command == "top" else (60, 100):
            text = in_terminal([command, path, "-n", "all"], COLUMNS=str(columns), NO_COLOR="1")
            lines = text.splitlines()
            assert max(map(width_of, lines[2:])) <= columns
            assert mark in text or command == "timeline"
            assert "日本" in text
    tree = in_terminal(["tree", path], COLUMNS="100", NO_COLOR="1").splitlines()
    indents = [line.index("level") for line in tree if "level" in line][:10]
    assert indents == [*range(indents[0], indents[0] + 20, 2)]
    assert "…" in tree[-1]
    colored = in_terminal(["tree", path], NO_COLOR="")
    assert re.search(r"\x1b\[38;5;\d+m█", colored)


def test_colors_can_be_forced(capsys: Capture, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variables, has_color in (
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ):
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            assert ("\x1b[" in printed(capsys, "timeline", trace)) == has_color


def test_a_pipe_has_100_columns(capsys: Capture, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = printed(capsys, "timeline", trace).splitlines()
    assert 80 < max(map(len, lines[2:])) < 100
    assert "█" not in printed(capsys, "top", trace)  # programs divide its lines into columns


def test_columns_of_tables(capsys: Capture) -> None:
    """Wide characters take two columns, marks none."""
    print_table(["name", ">n", "", "more"], [["日本", 5, Bar("█▌"), "a"], ["e\u0301", 1234, Bar(""), "b"]])
    assert capsys.readouterr().out == "name      n      more\n日本      5  █▌  a\ne\u0301     1,234      b\n"
    print_table(["name", "", "more"], [["a", Bar(""), "b"]])
    assert capsys.readouterr().out == "name  more\na     b\n"
