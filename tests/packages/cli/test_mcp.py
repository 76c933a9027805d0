"""The server for agents: its answers are those of the command line, are short, and come from its folder only."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import pytest

import fxtio
from fxtio.cli import FAULT
from fxtio.cli.inputs import UsageError
from fxtio.cli.mcp import child, tools
from fxtio.cli.mcp.root import Root
from fxtio.cli.mcp.tools import MOST_TOKENS, TOOLS, answer
from fxtio.fxt import pack
from fxtio.fxt.packed import INDEX_ENTRY, SEEK_ENTRY, Index
from support.checkout import CORPUS
from support.in_process import run_fxtio
from support.limits import PATIENCE

pytestmark = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="files cannot be opened by their folder here")

MAGIC, FIRST, SLOW, TASKS = "magic.fxt", "same-01.fxt.gz", "slow-02.fxt.gz", "sub/uftrace.data"
BUSIEST = "select name, count(*) as calls, max(dur) as longest from slice group by name order by 2 desc, 1 limit 5"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with traces, and a file that is not in it."""
    root = tmp_path_factory.mktemp("agents") / "traces"
    (root / "sub").mkdir(parents=True)
    shutil.copy(CORPUS / "fxt" / "magic-trace.fxt", root / MAGIC)
    for name in (FIRST, SLOW):
        shutil.copy(CORPUS / "runs" / name, root / name)
    shutil.copytree(CORPUS / "uftrace" / "fork-v013", root / TASKS)
    with fxtio.create(root / "-x,y.fxt") as writer:
        thread = writer.thread(process=1, thread=1, name="main")
        for number in range(3000):
            thread.complete(f"-{number} \n\x1b[31m語" + "x" * 300, number * 10, number * 10 + 5, args={"n": number})
    (root.parent / "secret.fxt").write_bytes((root / MAGIC).read_bytes())
    return root


def ask(folder: Path, name: str, **arguments: Any) -> str:
    text, is_error = answer(Root(str(folder)), 300, name, arguments, Event())
    assert not is_error, text
    return text


def refusal(folder: Path, name: str, **arguments: Any) -> str:
    text, is_error = answer(Root(str(folder)), 300, name, arguments, Event())
    assert is_error, text
    return text


def tables(text: str) -> dict[str, Any]:
    """Parse an answer: its values, and its tables as lists of rows, by their names."""
    found: dict[str, Any] = {}
    rows: list[dict[str, str]] = []
    header: list[str] = []
    for line in text.splitlines():
        name, mark, value = line.partition(": ")
        if line.endswith(":") and "," not in line:
            rows = found[line[:-1]] = []
            header = []
        elif mark and re.fullmatch(r"[a-z_. ]+", name):
            found[name] = value
        elif not header:
            (header,) = csv.reader([line])
        else:
            (cells,) = csv.reader([line])
            rows.append(dict(zip(header, cells, strict=True)))
    return found


def cell(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    return "" if value is None else str(value)


def shown(value: Any) -> str:
    """Return a value as it is in a cell of an answer, which has at most 200 characters."""
    text = cell(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def assert_equal(text: str, document: dict[str, Any]) -> None:
    """Check that an answer has the numbers and texts of what the command line prints as JSON."""
    found = tables(text)
    compared = 0
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = found.get(name, [])
            assert rows == [{key: shown(each) for key, each in row.items()} for row in value][: len(rows)]
            assert len(rows) == len(value) or "\nnext page: " in text
            compared += len(rows)
        elif name == "more" and value and not isinstance(value, dict):
            assert f"\nmore: {value}\n" in text or "\nnext page: " in text
        elif isinstance(value, str | int | float) and value != "" and name != "more":
            assert found[name] == str(value), name
            compared += 1
    assert compared


QUESTIONS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("overview", {"path": MAGIC}, ["info", MAGIC]),
    ("overview", {"path": TASKS}, ["info", TASKS]),
    ("top", {"path": MAGIC}, ["top", MAGIC]),
    ("top", {"path": MAGIC, "sort": "p99", "name": ["_dl*"]}, ["top", MAGIC, "--sort=p99", "--name=_dl*"]),
    ("top", {"path": FIRST, "by": "thread", "waiting": True}, ["top", FIRST, "--by=thread", "--waiting"]),
    ("top", {"path": MAGIC, "from": "10%", "to": "+50us"}, ["top", MAGIC, "--from=10%", "--to=+50us"]),
    ("top", {"path": MAGIC, "blocking": "1ms"}, ["top", MAGIC, "--blocking=1ms"]),
    ("tree", {"path": MAGIC, "depth": 3, "share": "5%"}, ["tree", MAGIC, "--depth=3", "--share=5%"]),
    ("tree", {"path": TASKS, "process": ["*"]}, ["tree", TASKS, "--process=*"]),
    ("find", {"path": MAGIC, "pattern": "dl_main"}, ["find", MAGIC, "dl_main"]),
    ("find", {"path": MAGIC, "longer": "20us", "limit": 4}, ["find", MAGIC, "--longer=20us", "-n4"]),
    ("find", {"path": "-x,y.fxt", "arg": ["n>=2999"]}, ["find", "./-x,y.fxt", "--arg=n>=2999"]),
    ("compare", {"before": FIRST, "after": SLOW}, ["diff", FIRST, SLOW]),
    ("compare", {"before": MAGIC, "after": MAGIC, "all": True}, ["diff", MAGIC, MAGIC, "--all"]),
    ("query", {"path": MAGIC, "sql": BUSIEST}, ["query", MAGIC, BUSIEST]),
]  # fmt: skip


@pytest.mark.full
def test_the_official_client_gets_the_numbers_of_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = pytest.importorskip("mcp", reason="mcp is not installed")

    async def ask_all() -> tuple[Any, list[Any]]:
        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-P", "-m", "fxtio", "mcp", str(folder)], env={**os.environ}
        )
        async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            listed = await session.list_tools()
            return listed, [await session.call_tool(name, arguments) for name, arguments, _ in QUESTIONS]

    listed, answers = asyncio.run(asyncio.wait_for(ask_all(), PATIENCE))
    assert [tool.name for tool in listed.tools] == [*TOOLS]
    assert all(tool.description and tool.annotations.read_only_hint for tool in listed.tools)
    assert len(QUESTIONS) == len(answers) == 15
    monkeypatch.chdir(folder)
    for (name, arguments, command), result in zip(QUESTIONS, answers, strict=True):
        (content,) = result.content
        assert not result.is_error, content.text
        assert content.text.splitlines()[-1].startswith("next: "), (name, arguments)
        printed = run_fxtio(*command, "--json")
        assert printed.returncode in (0, 1), printed.stderr
        document = json.loads(printed.stdout)
        if name == "query":
            rows = [*csv.DictReader(content.text.splitlines()[:-1])]
            assert rows == [{key: str(value) for key, value in row.items()} for row in document]
        elif command[1] != "./-x,y.fxt":
            assert_equal(content.text, document)
        else:
            assert f'"{document["rows"][0]["time"]}"' not in content.text  # numbers are no texts
            assert f"slice,{document['rows'][0]['time']},5,main (1)," in content.text


@pytest.mark.full
def test_every_next_step_can_be_called(folder: Path) -> None:
    for name, arguments, _ in (QUESTIONS[0], QUESTIONS[2], QUESTIONS[9], QUESTIONS[12]):
        following = ask(folder, name, **arguments).splitlines()[-1]
        _, tool, given = following.split(" ", 2)
        assert ask(folder, tool, **json.loads(given))


def test_folders_are_listed(folder: Path) -> None:
    text, traces = ask(folder, "overview"), {MAGIC, FIRST, SLOW, "-x,y.fxt"}
    assert {row["path"] for row in tables(text)["files"]} == {*traces, "sub/"}
    assert json.loads(text.splitlines()[-1].removeprefix("next: overview "))["path"] in traces
    assert [row["path"] for row in tables(ask(folder, "overview", path="sub/"))["files"]] == [f"{TASKS}/"]


def test_what_cannot_be_a_trace_is_not_listed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.fxt")
    assert ask(tmp_path, "overview").startswith("files: []\n")


def test_files_of_odd_times_are_listed_and_those_that_vanish_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"early.fxt": -(2**53), "late.fxt": 2**53, "later.fxt": 2**62}  # few file systems have such times

    class Entry(NamedTuple):
        name: str

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            assert not follow_symlinks
            if self.name == "gone.fxt":
                raise FileNotFoundError(self.name)
            return os.stat_result((stat.S_IFREG, 0, 0, 0, 0, 0, 7, 0, times[self.name], 0))

    monkeypatch.setattr(tools, "_is_no_trace", lambda _: True)
    monkeypatch.setattr(os, "scandir", lambda _: [Entry("gone.fxt"), *map(Entry, times)])
    text = ask(tmp_path, "overview")
    assert text.splitlines()[:-1] == ["files:", "path,bytes,modified", "later.fxt,7,", "late.fxt,7,", "early.fxt,7,"]


@pytest.mark.full
def test_the_root_may_be_a_trace(folder: Path) -> None:
    root = folder / TASKS
    assert ask(root, "overview").splitlines()[-1] == 'next: top {"path": "."}'
    assert "\n16\n" in ask(root, "query", path=".", sql="select count(*) from slices", **{"from": "0%"})
    assert tables(ask(root, "compare", before=".", after=".", **{"from": "0%"}))["runs"] == "[1,1]"


@pytest.mark.full
def test_null_is_an_argument_that_is_not_given(folder: Path) -> None:
    assert ask(folder, "overview", path=None) == ask(folder, "overview")
    assert ask(folder, "top", path=MAGIC, limit=None, **{"from": None}) == ask(folder, "top", path=MAGIC)


# ---- Pages.


def pages(folder: Path, name: str, arguments: dict[str, Any]) -> Iterator[str]:
    more = 'next page: the same call with "cursor": '
    while True:
        text = ask(folder, name, **arguments)
        assert tools._tokens(text) <= MOST_TOKENS
        assert len(text) <= 4 * MOST_TOKENS
        *lines, following = text.splitlines()
        assert following.startswith("next: ")
        if not lines[-1].startswith(more):
            yield "\n".join(lines)
            return
        yield "\n".join(lines[:-1])
        arguments = arguments | {"cursor": int(lines[-1].removeprefix(more))}


@pytest.mark.full
def test_pages_are_short_and_together_the_whole(folder: Path) -> None:
    whole = "\n".join(pages(folder, "find", {"path": "-x,y.fxt", "limit": 60, "sort": "time"}))
    found = tables(whole)["rows"]
    assert [row["time"] for row in found] == [str(number * 10) for number in range(60)]
    assert "\\x1b[31m" in whole
    assert "\x1b" not in whole
    assert len([*pages(folder, "tree", {"path": MAGIC, "limit": 200, "share": "0"})]) > 3


def test_a_page_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Whoever got the first page again instead would ask for it for ever."""
    for number in range(300):
        (tmp_path / f"{number}.fxt").touch()
    assert ask(tmp_path, "overview", cursor="70") == ask(tmp_path, "overview", cursor=70) != ask(tmp_path, "overview")
    for cursor in (-5, "x", True, 1.5, [1]):
        assert refusal(tmp_path, "overview", cursor=cursor).startswith("`cursor` is the number")
    assert refusal(tmp_path, "overview", cursor=302).endswith("of an answer, which has 302 lines")


@pytest.mark.full
def test_rows_of_queries_are_bounded(folder: Path) -> None:
    text = "\n".join(pages(folder, "query", {"path": MAGIC, "sql": "select * from range(1_000_000)"}))
    lines = text.splitlines()
    assert lines[:3] == ["only the first 1,000 rows:", "range", "0"]
    assert lines[-1] == "999"
    assert ask(folder, "query", path=MAGIC, sql="select * from range(1_000)").startswith("range\n0\n")
    long = ask(folder, "query", path=MAGIC, sql="select range, repeat('x', 10_000) from range(999)")
    note = re.match(r"only the first (\d+) rows:\n", long)
    assert note
    assert 400 < int(note[1]) < 420  # of 4 MiB
    columns = ", ".join(f"repeat('語', 1000) as c{number}" for number in range(300))
    assert [*pages(folder, "query", {"path": MAGIC, "sql": f"select {columns} from range(3)"})]


# ---- What is refused.


@pytest.mark.parametrize(
    "path", ["../secret.fxt", "sub/../../secret.fxt", "/etc/passwd", "link.fxt", "away/secret.fxt", "a\0b"]
)
def test_paths_outside_are_refused(path: str, folder: Path) -> None:
    for name, target in (("link.fxt", "../secret.fxt"), ("away", "..")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    try:
        for tool in ("overview", "top", "query"):
            assert "is not beneath the folder" in refusal(folder, tool, path=path)
        assert "is not beneath the folder" in refusal(folder, "compare", before=MAGIC, after=path)
    finally:
        (folder / "link.fxt").unlink()
        (folder / "away").unlink()


@pytest.mark.full
def test_links_within_the_folder_are_followed(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / MAGIC, tmp_path / MAGIC)
    (tmp_path / "latest.fxt").symlink_to(MAGIC)
    assert tables(ask(tmp_path, "top", path="latest.fxt"))["name"] == MAGIC
    assert tables(ask(tmp_path, "top", path=str(tmp_path / MAGIC)))["name"] == MAGIC


def test_a_link_that_appears_meanwhile_is_not_followed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("file.fxt", "inner"):
        (tmp_path / name).symlink_to(folder / MAGIC if name == "file.fxt" else folder)
    root = Root(str(tmp_path))
    monkeypatch.setattr(os.path, "realpath", str)  # as if it were no link at this moment
    for path in ("file.fxt", f"inner/{MAGIC}"):
        with pytest.raises(OSError, match=path), root.open(path):
            pytest.fail("it was opened")


@pytest.mark.full
def test_what_is_no_file_is_refused(tmp_path: Path, folder: Path) -> None:
    os.mkfifo(tmp_path / "pipe.fxt")
    assert "neither a file nor a folder" in refusal(tmp_path, "top", path="pipe.fxt")
    shutil.copytree(folder / TASKS, tmp_path / "data")
    (tmp_path / "data" / "more.txt").symlink_to("/etc/passwd")
    assert "has a link in it, more.txt" in refusal(tmp_path, "top", path="data")
    (tmp_path / "text.fxt").write_text("no trace")
    assert refusal(tmp_path, "top", path="text.fxt") == "text.fxt is a text file, not a trace"
    assert "No such file" in refusal(tmp_path, "top", path="none.fxt")


@pytest.mark.full
def test_a_trace_is_the_file_that_was_opened(folder: Path, tmp_path: Path) -> None:
    """Whoever replaces the name after that changes nothing."""
    if sys.platform != "linux":
        pytest.skip("only Linux opens files by their descriptors")
    shutil.copy(folder / MAGIC, tmp_path / MAGIC)
    (tmp_path / "place").mkdir()
    with Root(str(tmp_path)).open(MAGIC) as opened:
        (tmp_path / MAGIC).unlink()
        (tmp_path / MAGIC).symlink_to("/etc/passwd")
        text = child.Child([opened], tmp_path / "place", 300, Event()).run("top", MAGIC, "--json")
    assert json.loads(text)["rows"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("topp", {}, "there is no such tool; there are overview, top,"),
        ("top", {"path": MAGIC, "output": "x"}, "there is no such argument; there are path, from,"),
        ("top", {"path": MAGIC, "by": "--live"}, "is not something to group by"),
        ("top", {"path": MAGIC, "limit": -1}, "'-1' is not a positive number"),
        ("top", {"path": MAGIC, "limit": 0}, "'0' is not a positive number"),
        ("top", {}, ". is a folder, not a trace; `overview` lists what is in it"),
        ("top", {"path": MAGIC, "from": "yesterday"}, "yesterday"),
        ("find", {"path": MAGIC, "pattern": "a\0b"}, "null byte"),
        ("find", {"path": MAGIC, "pattern": "x" * 1_000_000}, "Argument list too long"),
        ("query", {"path": MAGIC}, "give a trace and a query"),
        ("query", {"path": MAGIC, "sql": "select 'infinity'::date"}, "make it a text: value::varchar"),
        ("query", {"path": MAGIC, "sql": "-"}, "syntax error"),
        ("query", {"path": MAGIC, "sql": "--output=x"}, "no result"),
    ],
)
def test_wrong_calls_are_explained(tool: str, arguments: dict[str, Any], message: str, folder: Path) -> None:
    assert message in refusal(folder, tool, **arguments)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/*')",
        "copy (select 1) to 'out.csv'",
        "attach 'other.db'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset memory_limit",
        "select * from sql",
    ],
)
def test_queries_reach_the_trace_only(sql: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(folder, "query", path=MAGIC, sql=sql)
    monkeypatch.chdir(folder)
    done = run_fxtio("query", "--confined", MAGIC, sql)
    assert done.returncode == 2
    assert not (folder / "out.csv").exists()


@pytest.mark.full
def test_messages_that_quote_a_trace_do_not_look_like_answers(folder: Path) -> None:
    first, *others = refusal(folder, "query", path="-x,y.fxt", sql="select name::int from slice").split("\n")
    assert first.endswith("'-0 ")
    assert others
    assert all(line.startswith("  ") for line in others)


@pytest.mark.full
def test_a_confined_query_does_not_hinder_a_later_one() -> None:
    with fxtio.open_timeline(CORPUS / "fxt" / "magic-trace.fxt") as timeline:
        assert timeline.sql("select count(*) from thread", confined=True).fetchall() == [(1,)]
        assert timeline.sql("select count(*) from slice", confined=True).fetchall() == [(17296,)]


@pytest.mark.full
def test_the_memory_of_questions_is_bounded(folder: Path) -> None:
    """DuckDB does not count all that a list takes."""
    if sys.platform != "linux":
        pytest.skip("only Linux limits the memory of another process")
    for sql in ("select unnest(range(3_000_000_000))", "select list(r.range) from range(2_000_000_000) r"):
        assert "emory" in refusal(folder, "query", path=MAGIC, sql=sql)


@pytest.mark.full
def test_long_answers_are_given_up(folder: Path) -> None:
    sql = "select sum(sqrt(range)) from range(1_000_000_000_000)"  # which needs no memory
    text, is_error = answer(Root(str(folder)), 3, "query", {"path": MAGIC, "sql": sql}, Event())
    assert is_error
    assert text.startswith("there is no answer within 3 s; ask for a part")


@pytest.mark.full
def test_all_commands_of_a_question_have_its_time_together(folder: Path, tmp_path: Path) -> None:
    sql = "select sum(sqrt(range)) from range(1_000_000_000_000)"  # which needs no memory
    with Root(str(folder)).open(MAGIC) as opened:
        asked = child.Child([opened], tmp_path, 3, Event())
        for command in (["query", MAGIC, sql], ["info", MAGIC]):
            with pytest.raises(UsageError, match="no answer within 3 s"):
                asked.run(*command)


def test_a_command_that_fails_gives_no_answer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    source = f"print('name: 1'); sys.stderr.write('Traceback\\nValueError: invalid literal\\n'); sys.exit({FAULT})"
    python.write_text(f"#!{sys.executable}\nimport sys; {source}")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    for tool, arguments in (("overview", {}), ("query", {"sql": "from slice"})):
        assert "a fault of fxtio: ValueError: invalid literal" in refusal(folder, tool, path=MAGIC, **arguments)


def test_an_answer_tells_of_a_fault_of_the_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_asked", lambda *_: 1 // 0)
    assert refusal(folder, "overview", path=MAGIC).startswith("this is a fault of fxtio: ZeroDivisionError: ")


def test_the_schemas_say_what_is_taken() -> None:
    for tool in TOOLS.values():
        schema = tool.schema()
        assert {*schema["required"]} <= schema["properties"].keys()
        assert all(each["description"] for each in schema["properties"].values())
        assert "standard input" not in str(schema)
    assert TOOLS["query"].schema()["required"] == ["path", "sql"]
    properties = TOOLS["top"].schema()["properties"]
    assert properties["limit"]["anyOf"] == [{"type": "integer", "minimum": 1}, {"const": "all"}]
    assert "one that begins with ! excludes" in properties["thread"]["description"]


def test_an_answer_without_rows_says_so(folder: Path) -> None:
    text = ask(folder, "find", path=MAGIC, pattern="nothing of this name")
    assert text.splitlines()[2:] == ["rows: []", "more: 0", f'next: top {{"path": "{MAGIC}"}}']


# ---- Questions that nobody waits for any more.

ENDLESS = "select sum(sqrt(range)) from range(1_000_000_000_000)"  # which needs no memory


def line(method: str, number: int | None = None, **params: Any) -> bytes:
    """Return a message of the protocol; one without a number is not answered."""
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
    return json.dumps(message).encode() + b"\n"


@pytest.fixture
def busy(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Return a server that computes what does not end; its temporary folder is `tmp_path`."""
    pytest.importorskip("mcp_types", reason="mcp is not installed")
    command = [sys.executable, "-P", "-m", "fxtio", "mcp", str(folder), "--seconds", "1000"]
    environment, pipe = os.environ | {"TMPDIR": str(tmp_path)}, subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin
        assert server.stdout
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        server.stdin.write(line("initialize", 0, **about))
        server.stdin.flush()
        server.stdout.readline()
        server.stdin.write(line("notifications/initialized"))
        server.stdin.write(line("tools/call", 1, name="query", arguments={"path": MAGIC, "sql": ENDLESS}))
        server.stdin.flush()
        end = time.monotonic() + PATIENCE
        while not (found := [*tmp_path.glob("fxtio-*/whole/*")]) and time.monotonic() < end:
            time.sleep(0.01)
        assert found
        yield server
        server.kill()


@pytest.mark.full
def test_a_question_that_is_cancelled_makes_room(busy: subprocess.Popen[bytes]) -> None:
    assert busy.stdin
    assert busy.stdout
    busy.stdin.write(line("notifications/cancelled", requestId=1))
    busy.stdin.write(line("tools/call", 2, name="overview", arguments={}))
    busy.stdin.flush()
    assert json.loads(busy.stdout.readline())["id"] == 2


@pytest.mark.full
@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_busy_ends(number: int | None, busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """It ends after its client, by Ctrl-C and by a signal, and leaves nothing."""
    assert busy.stdin
    if number is None:
        busy.stdin.close()
        busy.stdin = None  # which `communicate` would flush
    else:
        busy.send_signal(number)
    _, said = busy.communicate(timeout=PATIENCE)
    assert (busy.returncode, said) == (0 if number is None else 130, b"")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.full
def test_limits_of_the_server_stay(folder: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux limits the memory of another process")
    code = (
        "import resource, sys; from threading import Event; from fxtio.cli.mcp import root, tools;"
        "resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30));"
        "resource.setrlimit(resource.RLIMIT_CPU, (200, 200));"
        "print(tools.answer(root.Root(sys.argv[1]), 300, 'top', {'path': sys.argv[2]}, Event())[0])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, folder, MAGIC], capture_output=True, text=True, check=True)
    assert f"name: {MAGIC}\n" in done.stdout


def test_a_folder_of_countless_files_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxtio.cli.mcp.root._MOST_FILES", 3)
    assert "has more than 3 files in it" in refusal(folder, "top", path=TASKS)


def test_the_package_that_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    done = run_fxtio("mcp", str(folder))
    assert (done.returncode, done.stderr) == (2, "fxtio: agents need the package mcp_types; install fxtio[mcp]\n")


# ---- Large traces.


def test_the_portion_of_an_index_is_around_the_middle() -> None:
    entries = np.zeros(100, INDEX_ENTRY)
    entries["first"], entries["last"] = np.arange(100) * 1000, np.arange(100) * 1000 + 999
    sizes = np.zeros(100, SEEK_ENTRY)
    sizes["decompressed"] = 10
    index = Index(entries, sizes, None, 0, 0)
    assert index.portion(1000) is None
    begin, end = index.portion(100) or (0, 0)
    assert 0 < begin < 50_000 < end
    assert 10 * index.needed(begin, end).sum() <= 100
    entries["first"], entries["last"] = 0, 99_000
    begin, end = index.portion(100) or (0, 0)  # all frames are needed for any range
    assert end - begin <= 3


@pytest.mark.full
def test_a_large_trace_is_answered_from_a_part(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "FRAME_WORDS", 1 << 12)
    for name, limit in (("LARGE", 1 << 18), ("_PART", 1 << 17), ("_SMALL", 0)):
        monkeypatch.setattr(child, name, limit)
    shutil.copy(folder / MAGIC, tmp_path / "big.fxt")
    monkeypatch.chdir(tmp_path)
    assert run_fxtio("pack", "big.fxt", "big.fxt.zst").returncode == 0
    assert refusal(tmp_path, "top", path="big.fxt") == "big.fxt is too large for this, unless `fxtio pack` packs it"
    assert "give `from` and `to`" in refusal(tmp_path, "compare", before="big.fxt.zst", after="big.fxt.zst")
    for name in TOOLS:
        if name == "compare":
            continue
        text = ask(
            tmp_path,
            name,
            path="big.fxt.zst",
            **({"sql": "select min(ts), max(ts) from slice"} if name == "query" else {}),
        )
        note = text.splitlines()[0]
        assert note.startswith("this is about the part from 0.000"), note
        assert note.endswith("of a large trace, which lasts 0.000329913s; `from` and `to` choose another part")
        words = note.split()
        assert json.loads(text.splitlines()[-1].split(" ", 2)[2])["path"] == "big.fxt.zst"
        if name in ("top", "tree", "find"):
            command = [name, "big.fxt.zst", f"--from={words[6]}", f"--to={words[8]}", "--json"]
            assert_equal(text.partition("\n")[2], json.loads(run_fxtio(*command).stdout))
    given = {"from": "100us", "to": "+10us"}
    assert tables(ask(tmp_path, "compare", before="big.fxt", after="big.fxt.zst", **given))["runs"] == "[1,1]"
    assert "part" not in ask(tmp_path, "top", path="big.fxt", **given).splitlines()[0]
