"""What `fxtio top`, `tree`, `find`, `timeline` and `info` print: text, JSON, CSV, selections, hostile names, colors."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio.cli import main
from fxtio.cli.bars import Bar, Style, axis, bar_of, bar_width, bars
from fxtio.cli.common import print_table
from fxtio.text_width import fitted, shortened, width_of
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
        "name": "GET /", "calls": 30, "total": 124 * MS, "self": 60 * MS, "min": 4 * MS, "median": 4 * MS,
        "p99": 8 * MS, "max": 8 * MS, "share": 60 / 139,
    }  # fmt: skip
    text = printed(capsys, "top", trace, "--csv", "--sort", "total", "-n", "1")
    (in_csv,) = csv.DictReader(io.StringIO(text))
    assert in_csv == {name: str(value) for name, value in row.items()}


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
    assert header == "depth,parent,name,calls,total,self,share"
    assert first.startswith("0,-1,GET /,30,124000000,60000000,0.89")


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
        (["check", "--baseline", "no.fxt", "-o", "x.json"], "-o writes the report of --report json or junit"),
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
    assert printed(capsys, "diff", trace, "--all", "--self", trace).endswith("3 same\n")
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
        (["top", "--from", "3h"], "3h is behind the end of"),
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
        assert capsys.readouterr().err == "fxtio: not shown: 1 ends of spans that have not begun\n"
        result = json.loads(printed(capsys, command, lost, "--json"))
        assert result["losses"] == {"ends of spans that have not begun": 1}
    assert main(["diff", lost, lost]) == 0
    assert capsys.readouterr().err == f"fxtio: {lost}: not shown: 1 ends of spans that have not begun\n" * 2


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


def test_profiles_are_no_traces(capsys: Capture) -> None:
    profile = str(CORPUS / "py-spy" / "work.speedscope.json")
    assert main(["info", profile]) == 2
    assert "is a file of the format speedscope" in capsys.readouterr().err
    assert main(["top", profile]) == 0


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


# ---- bars


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
