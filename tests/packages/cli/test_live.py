"""`fxtio top --live` reads a recording that grows: every event once, whatever happens to the program."""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fxtio
from fxtio._native.constants import SpanStep
from fxtio.cli import main
from fxtio.cli.console import REFUSED
from fxtio.errors import FormatError
from fxtio.fxt import timeline as room
from fxtio.fxt.live_file import HEAD_BYTES, Chunks, filler_header
from fxtio.fxt.tail import Follower, LiveTrace
from fxtio.table import Table
from fxtio.timeline import Timeline
from fxtio.timeline.answers import top
from fxtio.timeline.answers.top import Slices
from fxtio.timeline.nesting import Nesting
from fxtio.timeline.parts import Registry, Steps
from support.attached import wait_for
from support.costs import operations
from support.in_process import run_fxtio
from support.tracer_run import run

pytestmark = pytest.mark.recorder

ENDLESS = 10**9

PROGRAM = """
import os, sys, threading, time
import fxtio

def work(name, rounds, pause):
    for number in range(rounds):
        with fxtio.span(name, number=number):
            for inner in range(number % 5):
                with fxtio.span(f"inner {inner}", "in", text="x" * (number % 90)):
                    pass
        fxtio.instant("moment")
        if number % 100 == 0:
            time.sleep(pause)

with fxtio.tracing(sys.argv[1], **eval(sys.argv[2])):
    with fxtio.span("everything\\x1b"):
        rounds = int(sys.argv[3])
        pause = float(sys.argv[5]) if sys.argv[5:] else 0.002
        threads = [threading.Thread(target=work, args=(f"outer {n}", rounds // (n + 1), pause)) for n in range(3)]
        for thread in threads:
            thread.start()
        if sys.argv[4:]:
            print("up", flush=True)
        for thread in threads:
            thread.join()
        if sys.argv[6:]:
            sys.stdin.read()
"""


def start(
    output: Path, rounds: int, pause: float = 0.002, *, until_told: bool = False, **options: Any
) -> subprocess.Popen[str]:
    """Start the program; with `until_told` it ends when its standard input does."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(output), repr(options), str(rounds), "says", str(pause)]
    command += ["waits"] * until_told
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe if until_told else None, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def rows_of(timeline: Timeline) -> dict[str, tuple[int, int]]:
    table = top(timeline).table
    return {row["name"]: (row["calls"], row["self"]) for row in table.rows()}


def live_timeline(path: Path, wait: Any) -> tuple[Timeline, int]:
    fd = os.open(path, os.O_RDONLY)
    return Timeline(str(path), "fxt", partial(room.parts, LiveTrace(str(path), fd, wait))), fd


def following(path: Path, process: subprocess.Popen[str], act: Any = None) -> dict[str, tuple[int, int]]:
    """Follow a recording to its end; do something at each wait."""

    def wait() -> bool:
        is_over = process.poll() is not None
        if act is not None:
            act()
        time.sleep(0.003)
        return is_over

    timeline, fd = live_timeline(path, wait)
    try:
        return rows_of(timeline)
    finally:
        os.close(fd)


@pytest.mark.parametrize("options", [{}, {"max_size": "1MiB"}], ids=["whole", "limited"])
def test_what_is_read_live_is_what_is_in_the_trace(tmp_path: Path, options: dict[str, Any]) -> None:
    output = tmp_path / "app.fxt"
    process = start(output, 20_000, until_told=True, **options)
    waits = 0

    def end_after_some() -> None:
        nonlocal waits
        waits += 1
        if waits == 4:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None

    live = following(output, process, end_after_some)
    process.communicate(timeout=60)
    finished = rows_of(fxtio.open_timeline(output))
    assert {name: calls for name, (calls, _) in live.items()} == {name: calls for name, (calls, _) in finished.items()}


@pytest.mark.parametrize("seed", range(6))
def test_a_program_that_is_killed(tmp_path: Path, seed: int) -> None:
    """What was read is exactly what the file has, down to the self times."""
    output = tmp_path / "app.fxt"
    process = start(output, ENDLESS)
    delay = random.Random(seed).uniform(0.01, 0.5)
    threading.Timer(delay, process.send_signal, (signal.SIGKILL,)).start()
    live = following(output, process)
    process.communicate()
    assert live == rows_of(fxtio.open_timeline(output))
    assert live["everything\x1b"][0] == 1


def test_each_event_comes_once_and_in_order(tmp_path: Path) -> None:
    output = tmp_path / "app.fxt"
    process = start(output, 30_000)
    fd = os.open(output, os.O_RDONLY)

    def wait() -> bool:
        time.sleep(0.002)
        return process.poll() is not None

    threads, ticks = [], []
    for batch in LiveTrace("app.fxt", fd, wait).record_batches(forget=True):
        words, at = batch.frame.block.words, batch.frame.at
        events = at[words[at] % 16 == 4]
        threads.append(words[events] // 2**24 % 256)
        ticks.append(words[events + 1])
    os.close(fd)
    process.communicate(timeout=60)
    order = np.argsort(thread := np.concatenate(threads), kind="stable")
    tick = np.concatenate(ticks)[order]
    assert (tick[1:] > tick[:-1])[np.diff(thread[order]) == 0].all()  # so none comes twice
    assert len(tick) == fxtio.open(output).table("events").num_rows


@pytest.mark.parametrize("pages", [1, 5, 20, 31])
def test_a_chunk_of_which_only_a_part_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """The end of a reading may be older than its words: a chunk that is shown by now may not be in it whole."""
    output = tmp_path / "app.fxt"
    process = start(output, ENDLESS, pause=0)
    wait_for(lambda: output.stat().st_size > 1 << 22)
    process.kill()
    process.communicate()
    fd = os.open(output, os.O_RDONLY)
    whole = sum(map(len, Follower(fd).poll(last=True)))
    ends = [output.stat().st_size - pages * 4096]
    read = os.pread

    def read_to_an_earlier_end(fd: int, size: int, offset: int) -> bytes:
        data = read(fd, size, offset)
        return data[: max(ends[0] - offset, 0)] if ends and size == 1 << 20 else data

    monkeypatch.setattr("fxtio.fxt.tail.os.pread", read_to_an_earlier_end)
    follower = Follower(fd)
    parts = list(follower.poll())
    while follower.is_behind:
        parts += follower.poll()
    ends.clear()
    parts += follower.poll(last=True)
    assert sum(map(len, parts)) == whole
    os.close(fd)


def test_a_long_recording_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a thread is idle since its start, and each poll reads but a part."""
    output = tmp_path / "app.fxt"
    source = """
        idle = threading.Event()
        def wait():
            with fxtio.span("idle"):
                idle.wait()
        threading.Thread(target=wait, daemon=True).start()
        for number in range(100_000):
            fxtio.instant("much", n=number)
        os.kill(os.getpid(), 9)
    """
    run(source, output, start=True)
    with open(output, "rb") as file:
        whole = sum(map(len, Follower(file.fileno()).poll(last=True)))
        monkeypatch.setattr("fxtio.fxt.tail._POLL_BYTES", 1 << 17)
        follower = Follower(file.fileno())
        sizes = [sum(map(len, follower.poll())) for _ in range(100)]
        assert not follower.is_behind
    assert sum(map(bool, sizes)) > 5 and max(sizes) < 1 << 20
    assert sum(sizes) == whole


def test_records_that_come_while_a_chunk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of what is read may be older than its end: it has filler where records are by then."""
    output = tmp_path / "app.fxt"
    run("for n in range(2000): fxtio.instant('moment', n=n)\nos.kill(os.getpid(), 9)", output, start=True)
    read = os.pread
    doctored: list[int] = []

    def read_slowly(fd: int, size: int, offset: int) -> bytes:
        data = read(fd, size, offset)
        if doctored or size < 100_000 or offset % 4096 != 8:
            return data
        doctored.append(offset)
        words = list(memoryview(data[:4096]).cast("Q"))
        place = 0
        while place < 300:
            place += words[place] // 16 % 4096
        stale = filler_header(510 - place).to_bytes(8, "little")  # up to the last word of the page
        return data[: place * 8] + stale + data[place * 8 + 8 :]

    monkeypatch.setattr("fxtio.fxt.tail.os.pread", read_slowly)
    timeline, fd = live_timeline(output, lambda: True)
    assert timeline.table("instants").num_rows == 2001  # with that of the start
    assert doctored
    os.close(fd)


def test_a_ring_shows_more_than_it_keeps(tmp_path: Path) -> None:
    output = tmp_path / "app.fxt"
    process = start(output, 20_000, ring="512KiB")
    live = following(output, process)
    process.communicate(timeout=60)
    kept = rows_of(fxtio.open_timeline(output))
    assert sum(calls for calls, _ in live.values()) >= sum(calls for calls, _ in kept.values())
    assert live["outer 0"][0] <= 20_000


def test_little_is_read_again(tmp_path: Path) -> None:
    """A poll of a large recording in which nothing happens reads a few words of each chunk."""
    output = tmp_path / "app.fxt"
    process = start(output, ENDLESS)
    wait_for(lambda: output.stat().st_size > 8 << 20)
    process.send_signal(signal.SIGSTOP)
    with open(output, "rb") as file:
        follower = Follower(file.fileno())
        for _ in range(10):
            list(follower.poll())
        before = _bytes_read()
        assert not list(follower.poll())
        assert _bytes_read() - before < 1 << 19
    process.kill()
    process.communicate()


def test_the_latest_events_are_read_once(tmp_path: Path) -> None:
    """Also while the program that reads records, and whatever it has recorded before."""
    source = """
        from functools import partial
        from fxtio.fxt import timeline as room
        from fxtio.fxt.tail import LatestEvents
        from fxtio.timeline import Timeline
        from fxtio.timeline.answers import find
        from fxtio.tracer.backend import recorder

        def names():
            with Timeline(OUT, "fxt", partial(room.parts, latest)) as timeline:
                return [hit.name for hit in find(timeline, order="time").rows]

        def read():
            with open("/proc/self/io") as file:
                before = int(file.read().split()[1])
                latest.read(since, recorder.now())
                file.seek(0)
                return int(file.read().split()[1]) - before

        whole = fxtio.span("whole")
        whole.__enter__()
        latest = LatestEvents(OUT, os.open(OUT, os.O_RDONLY))
        for number in range(3):
            for n in range(100_000):
                fxtio.instant("much", n=n)
            since = recorder.now()
            with fxtio.span(f"outer {number}"):
                fxtio.instant("inner")
            print(read() > 1 << 20, names())
            with fxtio.span("later"):
                pass
            print(read() < 1 << 18, names())
        whole.__exit__(None, None, None)
    """
    done = run(source, tmp_path / "app.fxt", start=True)
    lines = [
        f"True {names}"
        for n in range(3)
        for names in (["outer " + str(n), "inner"], ["outer " + str(n), "inner", "later"])
    ]
    assert done.stdout.splitlines() == lines, done.stderr


def work_of_shown_pages(folder: Path, head: bytes, count: int) -> int:
    """Return what the poll after this many hidden pages were shown costs."""
    with open(folder / f"{count}.fxt", "w+b", buffering=0) as file:
        hidden = filler_header(512).to_bytes(8, sys.byteorder).ljust(4096, b"\0")
        file.write(head + hidden * count)
        follower = Follower(file.fileno())
        list(follower.poll())
        for page in range(count):
            os.pwrite(file.fileno(), filler_header(1).to_bytes(8, sys.byteorder), len(head) + page * 4096)
        return operations(lambda: [*follower.poll()])


def test_pages_that_are_shown_cost_the_same_each(tmp_path: Path) -> None:
    output = tmp_path / "app.fxt"
    run("os.kill(os.getpid(), 9)", output, start=True)
    with open(output, "rb") as file:
        chunks = Chunks.of(file.read(HEAD_BYTES))
        assert chunks is not None
        file.seek(0)
        head = file.read(chunks[0])
    few, many = (work_of_shown_pages(tmp_path, head, count) for count in (100, 400))
    assert many < 5 * few


def _bytes_read() -> int:
    return int(re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())[1])  # type: ignore[index]


@pytest.mark.parametrize("name", ["finished.fxt", "no trace.txt", "folder"])
def test_what_is_no_recording(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "no trace.txt":
        path.write_text("hello")
    else:
        with fxtio.create(path) as writer:
            writer.thread(1, 2).instant("event", 1)
    assert main(["top", "--live", str(path)]) == 2
    advice = (
        f"is not a recording of fxtio, or it is finished; `fxtio top {shlex.quote(str(path))}` shows a finished one"
    )
    reason = ": is not a regular file" if name == "folder" else f" {advice}"
    assert capsys.readouterr().err == f"fxtio: {path}{reason}\n"


def test_a_finished_trace_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "app.fxt"
    run("pass", output, start=True)
    with open(output, "rb") as file, pytest.raises(FormatError, match="finished"):
        Follower(file.fileno())


def command(*arguments: str | Path) -> subprocess.Popen[str]:
    whole = [sys.executable, "-m", "fxtio", "top", "--live", "--interval", "100ms", *map(str, arguments)]
    return subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("by_pid", [False, True])
def test_the_command_shows_lines_and_then_the_ranking(tmp_path: Path, by_pid: bool) -> None:
    output = tmp_path / "app.fxt.zst"
    process = start(output, ENDLESS, pause=0.05)
    live = command(str(process.pid) if by_pid else output)
    assert live.stdout is not None
    lines = [live.stdout.readline() for _ in range(4)]
    process.kill()
    process.communicate()
    rest, errors = live.communicate(timeout=60)
    assert (live.returncode, errors) == (0, "")
    assert all(re.fullmatch(r"[\d:]{8}  [\d,]+ calls, [\d,]+/s, \d+ open.*\n", line) for line in lines), lines
    assert r"longest everything\x1b" in lines[-1]
    counts = {name: calls for calls, name in re.findall(r"^ *([\d,]+) .*  (\w+ \d)$", rest, re.MULTILINE)}
    part = output.with_name("app.fxt.zst.part")
    expected = {name: f"{calls:,}" for name, (calls, _) in rows_of(fxtio.open_timeline(part)).items()}
    assert counts == {name: expected[name] for name in counts}
    assert len(counts) >= 7


@pytest.mark.parametrize("target", ["²", "9" * 30])
def test_neither_a_file_nor_a_process(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--live", target]) == REFUSED
    assert re.fullmatch(r"fxtio: (²: No such file or directory|there is no process 9{30})\n", capsys.readouterr().err)


QUIET = """
import sys, time
import fxtio

with fxtio.tracing(sys.argv[1]), fxtio.span("everything"):
    print("up", flush=True)
    while True:
        for name in ("first", "second", "third", "fourth"):
            with fxtio.span(name):
                time.sleep(0.002)
"""


SLEEPING = QUIET.replace("0.002", "0.7")


def test_the_shares_of_a_thread_that_sleeps(tmp_path: Path) -> None:
    """A slice that is longer than the time between two lines has its share in each of them, and no more than all."""
    output = tmp_path / "app.fxt"
    process = subprocess.Popen([sys.executable, "-P", "-c", SLEEPING, str(output)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    live = command(output)
    assert live.stdout is not None
    lines = [live.stdout.readline() for _ in range(9)]
    process.kill()
    process.communicate()
    live.communicate(timeout=60)
    shares = [[float(share) for share in re.findall(r"([\d.]+)%", line)] for line in lines[1:]]
    assert all(shares), lines
    assert max(map(sum, shares)) < 100.3, lines  # three shares, each of them rounded


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=40),
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
)
def test_busy_times_add_up(actions: list[tuple[int, int, int]], waits: list[int], ahead: list[int]) -> None:
    """At any moment, the self times of the slices of a thread are the time for which any of them was open.

    They are no more than all, also where the time of a display was ahead of the events that are read after it.
    """
    registry = Registry()
    nesting, slices = Nesting(registry), Slices(registry, by="name")
    track, time, open_names, expected = registry.thread_track(1, 2), 0, list[int](), Counter[str]()
    shown_until, shown = 0, Counter[str]()
    for (action, name, passed), wait, early in zip(actions, itertools.cycle(waits), itertools.cycle(ahead)):
        time += passed
        if open_names:
            expected[str(open_names[-1])] += passed
        steps = Steps.blank(1)
        steps.step[:], steps.track[:], steps.time[:] = SpanStep.BEGIN if action else SpanStep.END, track, time
        steps.name[:] = registry.names.code(str(name))
        if action:
            open_names.append(name)
        elif open_names:
            open_names.pop()
        slices.enter({key: Table(columns) for key, columns in nesting.enter(steps).items()})
        until, table = slices.so_far(registry, time + wait)
        so_far = expected + Counter({str(open_names[-1]): wait} if open_names else {})
        assert (until, dict(zip(table["name"], table["busy"].tolist(), strict=True))) == (time + wait, so_far)
        until, table = slices.so_far(registry, max(time + early, shown_until))
        busy = Counter(dict(zip(table["name"], table["busy"].tolist(), strict=True)))
        changes = [busy[name] - shown[name] for name in busy | shown]
        assert sum(change for change in changes if change > 0) <= until - min(shown_until, time)
        shown_until, shown = until, busy


def terminal(columns: int, lines: int) -> tuple[int, int]:
    """Return the two ends of a terminal of this size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    return leader, follower


def read_until(leader: int, pattern: str | None) -> str:
    """Return what a terminal gets until a pattern matches, or until its other end is closed."""
    data = b""
    while pattern is None or not re.search(pattern, data.decode(errors="replace"), re.DOTALL):
        try:
            part = os.read(leader, 1 << 16)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            assert pattern is None, data
            break
        data += part
    return data.decode().replace("\r\n", "\n")


def test_the_table_on_a_terminal(tmp_path: Path) -> None:
    """It is drawn again and again, fits the terminal, and is replaced by the ranking at the end."""
    output = tmp_path / "app.fxt"
    process = subprocess.Popen([sys.executable, "-P", "-c", QUIET, str(output)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    leader, follower = terminal(120, 24)
    whole = [sys.executable, "-m", "fxtio", "top", "--live", "--interval", "50ms", "-n", "3", str(output)]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    live = subprocess.Popen(whole, stdout=follower, stderr=subprocess.PIPE, env=environment, text=True)
    os.close(follower)
    clear = "\x1b[H\x1b[J"
    screens = read_until(leader, r"(\x1b\[H\x1b\[J[^\x1b]*calls/s[^\x1b]*){3}\x1b").split(clear)[1:]
    process.kill()
    process.communicate()
    ranking = read_until(leader, None).split(clear)[-1]
    os.close(leader)
    assert live.stderr is not None
    assert (live.wait(60), live.stderr.read()) == (0, "")
    live.stderr.close()
    for screen in screens[1:3]:
        title, _, header, *rows = screen.splitlines()
        assert re.fullmatch(r".*app.fxt  [\d:]{8}  [\d,]+ calls, [\d,]+/s, \d+ open", title)
        assert header.split() == ["calls", "calls/s", "total", "self", "self/s", "longest", "name"]
        end = rows.index("")
        assert end == 3
        assert all(re.match(r" *[\d,]+ +[\d,]+ +[\d.]+ [mnu]?s ", row) for row in rows[:end]), rows
        assert rows[end + 1].split() == ["open", "for", "name", "track"]
        assert "everything" in rows[end + 2]
        assert all(len(row) <= 120 for row in rows)
        assert len(screen.splitlines()) <= 24
    assert ranking.startswith(f"{output}: slices by name, sorted by self\n")


def test_ctrl_c_ends_with_0(tmp_path: Path) -> None:
    process = start(tmp_path / "app.fxt", ENDLESS, pause=0.05)
    live = command(tmp_path / "app.fxt")
    assert live.stdout is not None
    live.stdout.readline()
    live.send_signal(signal.SIGINT)
    _, errors = live.communicate(timeout=60)
    process.kill()
    process.communicate()
    assert (live.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tests.fxt"], "tests.fxt: No such file or directory"),
        ([str(os.getpid())], f"process {os.getpid()} records nothing; `fxtio attach {os.getpid()}` records it"),
        (["--json", "app.fxt"], "it does not go with --json"),
        (["--name", "x", "app.fxt"], "it does not go with --name"),
    ],
    ids=["no file", "no recording", "json", "name"],
)
def test_what_cannot_be_followed(arguments: list[str], message: str) -> None:
    done = run_fxtio("top", "--live", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
