"""The flight recorder: dumps of a recording that continues."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.fxt.records import Event, Initialization
from judges import perfetto
from support.tracer_check import Seen, check_trace
from support.tracer_program import check_loss_is_reported
from support.tracer_run import fine, run

pytestmark = pytest.mark.recorder


def steps(first: int, last: int) -> None:
    """Record numbered spans."""
    for number in range(first, last):
        with fxtio.span("step", n=number, text="a text of some length, so that the file grows"):
            pass


def numbers(seen: Seen) -> list[int]:
    """Return the numbers of the spans in a trace."""
    result: list[int] = seen.numbers(seen.rows(kind="duration_begin", name="step")).tolist()
    return result


def dumped(**how: Any) -> Path:
    path = fxtio.dump(**how)
    assert path is not None
    return path


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst", "out.fxt.gz"])
def test_a_dump_has_everything_so_far(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    with fxtio.tracing(out):
        steps(0, 3_000)
        with fxtio.span("open"):
            first = dumped()
        steps(3_000, 3_001)
        second = dumped()
        steps(3_001, 6_000)
    assert [first.name, second.name] == [name.replace("out", "out-1"), name.replace("out", "out-2")]
    seen = check_trace(first, open_spans=True)
    assert numbers(seen) == list(range(3_000))
    assert [(span.name, span.end_row) for span in seen.spans() if span.name != "step"] == [("open", -1)]
    assert numbers(check_trace(second)) == list(range(3_001))
    assert numbers(check_trace(out)) == list(range(6_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, first.name, second.name])


def test_a_dump_of_a_ring_has_the_last_events(out: Path) -> None:
    with fxtio.tracing(out, ring="256KiB"):
        steps(0, 20_000)
        first = dumped()
        steps(20_000, 40_000)
        second = dumped()
        steps(40_000, 40_010)
    for path, last in ((first, 20_000), (second, 40_000), (out, 40_010)):
        recorded = numbers(check_trace(path, ring=True))
        assert recorded == list(range(last - len(recorded), last))
        assert len(recorded) > 1_000
        assert path.stat().st_size < 1 << 20


def test_names(tmp_path: Path) -> None:
    (tmp_path / "app.v2-1.fxt.gz").touch()
    (tmp_path / "sub").mkdir()
    with fxtio.tracing(tmp_path / "app.v2.fxt.gz"):
        assert dumped() == tmp_path / "app.v2-2.fxt.gz"
        assert dumped(path=tmp_path / "sub" / "other.fxt") == tmp_path / "sub" / "other.fxt"
        assert dumped() == tmp_path / "app.v2-3.fxt.gz"
        fxtio.instant("here")
        assert dumped(path=str(tmp_path / "sub" / "other.fxt")) == tmp_path / "sub" / "other.fxt"
        for own in ("app.v2.fxt.gz", "app.v2.fxt.gz.part"):
            with pytest.raises(ValueError, match="the file of the recording itself"):
                fxtio.dump(tmp_path / own)
    assert check_trace(tmp_path / "sub" / "other.fxt").rows(name="here").size == 1
    assert check_trace(tmp_path / "app.v2.fxt.gz").rows(name="here").size == 1
    assert (tmp_path / "app.v2-1.fxt.gz").read_bytes() == b""


def test_no_dump_without_a_recording(tmp_path: Path) -> None:
    assert fxtio.dump(tmp_path / "none.fxt") is None
    assert list(tmp_path.iterdir()) == []


def test_a_dump_has_threads_and_the_clock(out: Path) -> None:
    def work() -> None:
        fxtio.instant("here")
        threading.current_thread().name = "renamed"
        go_on.wait()

    go_on = threading.Event()
    with fxtio.tracing(out):
        fxtio.instant("first")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        while thread.name != "renamed":
            time.sleep(0.001)
        time.sleep(0.05)
        path = dumped()
        go_on.set()
        thread.join()
    seen, whole = check_trace(path), check_trace(out)
    assert seen.names_of("thread")[thread.native_id or 0] == "renamed"
    assert seen.names_of("process") == whole.names_of("process")
    with fxtio.open(path) as trace, fxtio.open(out) as other:
        rates = [
            next(record.ticks_per_second for record in each if isinstance(record, Initialization))
            for each in (trace, other)
        ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)


def test_a_loss_is_reported_in_the_dump_and_the_recording(out: Path) -> None:
    fxtio.start(out, max_size="1MiB")
    steps(0, 30_000)
    path = dumped()
    steps(30_000, 30_010)
    with pytest.warns(fxtio.tracer.RecordingWarning):
        fxtio.stop()
    for trace_path in (path, out):
        check_loss_is_reported(check_trace(trace_path, open_spans=True), "RecordingWarning")
    assert numbers(check_trace(path, open_spans=True)) == numbers(check_trace(out, open_spans=True))
    ticks = [record.timestamp for record in fxtio.open(path) if isinstance(record, Event)]
    assert ticks == sorted(ticks)


def test_a_dump_that_cannot_be_written(tmp_path: Path) -> None:
    out = tmp_path / "out.fxt"
    (tmp_path / "folder.fxt").mkdir()
    with fxtio.tracing(out):
        steps(0, 10)
        for target, error in (("none/x.fxt", FileNotFoundError), ("folder.fxt", IsADirectoryError)):
            with pytest.raises(error):
                fxtio.dump(tmp_path / target)
        steps(10, 20)
    assert numbers(check_trace(out)) == list(range(20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.fxt", "out.fxt"]


def test_a_program_that_closes_all_descriptors(out: Path) -> None:
    printed = fine(
        """
        fxtio.instant("here")
        os.closerange(3, 4096)
        try:
            print(fxtio.dump())
        except OSError as error:
            print("refused", os.listdir(os.path.dirname(OUT)))
        """,
        out,
        start=True,
    )
    assert printed == "refused ['out.fxt']\n"


@pytest.mark.parametrize("trigger", ["", "slow:1ns"])
def test_a_full_disk(trigger: str, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.system(f"mount -t tmpfs -o size=6m none {folder} 2>/dev/null"):
        pytest.skip("no small file system can be mounted here")
    try:
        done = run(
            """
            with open(OUT + ".other", "wb") as file:
                file.write(bytes(5 << 20))
            with fxtio.tracing(OUT, dump_on=[TRIGGER] if TRIGGER else []):
                for n in range(100):
                    fxtio.instant("step", n=n)
                with fxtio.span("any"):
                    pass
                try:
                    if not TRIGGER:
                        fxtio.dump()
                except OSError as error:
                    print(error.strerror)
            """.replace("TRIGGER", repr(trigger)),
            folder / "out.fxt",
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ("" if trigger else "No space left on device\n")
        assert done.stderr.count("fxtio: no dump (slow any): No space left on device") == bool(trigger)
        assert len(check_trace(folder / "out.fxt").rows(name="step")) == 100
        assert sorted(path.name for path in folder.iterdir()) == ["out.fxt", "out.fxt.other"]
    finally:
        os.system(f"umount {folder}")


BUSY = """
import itertools
sys.setswitchinterval(1e-4)
counts, most, over = [0] * 4, 0, False

@fxtio.trace
def work(number):
    for n in itertools.count():
        while n >= most and not over:
            time.sleep(0.0005)
        if over:
            break
        with fxtio.span("loop", f"t{number}", n=n, half=n / 2):
            fxtio.instant("within", f"t{number}", n=n)
        counts[number] = n + 1

threads = [threading.Thread(target=work, args=[number], name=f"worker {number}") for number in range(4)]
for thread in threads:
    thread.start()
for number in range(20):
    most += 400
    time.sleep(0.003)  # in the midst of it
    before = counts[:]
    print(fxtio.dump(), *before)
over = True
for thread in threads:
    thread.join()
"""


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, {"ring": "1MiB"}, {"functions": True}], ids=str)
def test_dumps_while_threads_record(options: dict[str, Any], out: Path) -> None:
    ring = "ring" in options
    lines = fine(BUSY, out, start=True, **options).splitlines()
    assert len(lines) == 20
    for at, line in enumerate(lines):
        path, *counts = line.split()
        assert path == str(out.with_name(f"out-{at + 1}.fxt"))
        seen = check_trace(path, ring=ring, open_spans=True)
        check_contiguous(seen, [int(count) for count in counts], ring=ring)
        started = {f"worker {number}" for number, count in enumerate(counts) if int(count)}
        assert started <= set(seen.names_of("thread").values())
    check_contiguous(check_trace(out, ring=ring), [], ring=ring)
    if perfetto.available() is None:
        for number in (1, 20):
            with perfetto.load(out.with_name(f"out-{number}.fxt")) as p:
                assert p.errors() == {}


def check_contiguous(seen: Seen, counts: list[int], *, ring: bool) -> None:
    """Check that each thread's events have no gap, and that all that were counted before the dump are there."""
    for number in range(4):
        begins = seen.numbers(seen.rows(kind="duration_begin", name="loop", category=f"t{number}")).tolist()
        within = seen.numbers(seen.rows(kind="instant", name="within", category=f"t{number}")).tolist()
        for these in (begins, within):
            if not these and ring:
                continue
            first = these[0] if ring else 0
            assert these == list(range(first, first + len(these)))
            assert not counts or first + len(these) >= counts[number]


def test_a_child_dumps_its_own_events(out: Path) -> None:
    printed = fine(
        """
        fxtio.instant("parent")
        child = os.fork()
        if not child:
            fxtio.instant("child")
            print(os.path.basename(fxtio.dump()), os.getpid(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(os.path.basename(fxtio.dump()))
        """,
        out,
        start=True,
    )
    (of_child, child), (of_parent,) = (line.split() for line in printed.splitlines())
    assert (of_child, of_parent) == (f"out-{child}-1.fxt", "out-1.fxt")
    assert [len(check_trace(out.with_name(of_child)).rows(name=name)) for name in ("parent", "child")] == [0, 1]
    assert [len(check_trace(out.with_name(of_parent)).rows(name=name)) for name in ("parent", "child")] == [1, 0]
    assert [len(check_trace(out).rows(name=name)) for name in ("parent", "child")] == [1, 1]


@pytest.mark.full
def test_killed_during_a_dump(tmp_path: Path) -> None:
    """The recording is complete, and so is every dump that appeared under its name."""
    program = """
    print("begun", flush=True)
    for n in range(10**6):
        for _ in range(50):
            with fxtio.span("step", n=n):
                pass
        fxtio.dump(OUT.replace("out", f"dump{n % 3}"))
    """
    chance, dumps = random.Random(1), 0
    prelude = "import os, sys, fxtio\nOUT = sys.argv[1]\nfxtio.start(OUT)\n"
    source = prelude + "\n".join(line[4:] for line in program.splitlines())
    for attempt in range(12):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        out = folder / ("out.fxt" if attempt % 2 else "out.fxt.gz")
        command = [sys.executable, "-P", "-c", source, str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.1 * chance.random())
            process.kill()
        live = out if out.suffix == ".fxt" else out.with_name("out.fxt.gz.part")
        recorded_numbers = numbers(check_trace(live, open_spans=True))
        assert sorted(recorded_numbers) == recorded_numbers
        for path in folder.glob("dump*"):
            dumped = numbers(check_trace(path))
            assert len(dumped) % 50 == 0
            assert dumped == recorded_numbers[: len(dumped)]
            dumps += 1
    assert dumps
