"""The end of a recording: what is said about it, and what a killed, interrupted or full one leaves."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fxtio
from fxtio.cli.parser import COMMANDS as ALL_COMMANDS
from fxtio.errors import described
from fxtio.fxt.records import Event
from fxtio.tracer import archive
from fxtio.tracer.recovery import recover
from fxtio.tracer.units import time_as_text
from support.in_process import run_fxtio
from support.limits import PATIENCE
from support.tracer_check import check_trace
from support.tracer_run import fine, run, run_command

pytestmark = pytest.mark.recorder

APP = "import fxtio\nfor n in range(1_000):\n    with fxtio.span('step', n=n):\n        fxtio.instant('here')\n"
KILLED = APP + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"


def fxtio_run(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program by `fxtio run`, in a folder."""
    (folder / "app.py").write_text(program)
    return run_command(folder, "run", *options, "app.py")


def events(path: Path) -> int:
    """Return the number of events of a trace."""
    return sum(isinstance(record, Event) for record in fxtio.open(path, strict=True))


# ---- The last line.


@pytest.mark.parametrize("name", ["app.fxt", "app.fxt.gz"])
def test_the_last_line_says_what_was_recorded_and_what_to_do_next(name: str, tmp_path: Path) -> None:
    done = fxtio_run(tmp_path, APP, "-o", name)
    size, count = (tmp_path / name).stat().st_size, events(tmp_path / name)
    text = rf"fxtio: {name}: {count:,} events in \d+(\.\d+)? m?s, none lost, {size:,} bytes; "
    assert re.fullmatch(text + rf"see `fxtio top {name}`, or `open`, `report`\n", done.stderr)


def test_the_last_line_with_losses_elsewhere(tmp_path: Path) -> None:
    """The path is as it has to be typed."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    name = str(folder / "it's.fxt")
    done = fxtio_run(tmp_path, APP * 20, "-o", name, "--max-size", "512KiB")
    line = done.stderr.splitlines()[-1]
    lost = re.search(r" ([\d,]+) lost, ", line)
    assert lost is not None
    assert int(lost[1].replace(",", "")) > 1_000
    assert line.startswith("fxtio: a folder/it's.fxt: ")
    assert line.endswith("""see `fxtio top 'a folder/it'"'"'s.fxt'`, or `open`, `report`""")


def test_events_of_children_count(tmp_path: Path) -> None:
    program = APP + "import os\nif not os.fork():\n    fxtio.instant('child')\n    os._exit(0)\nos.wait()\n"
    program = program.replace("os._exit(0)", "raise SystemExit")
    done = fxtio_run(tmp_path, program, "-o", "app.fxt", "--spans-only")
    assert f" {events(tmp_path / 'app.fxt'):,} events " in done.stderr


def test_events_of_a_large_recording_are_estimated(tmp_path: Path) -> None:
    program = "import fxtio.tracer.file as file; file._SQUEEZED_UP_TO = 0\n" + APP * 30
    done = fxtio_run(tmp_path, program, "-o", "app.fxt", "--spans-only")
    match = re.search(r": about ([\d,]+) events in ", done.stderr)
    assert match is not None
    assert int(match[1].replace(",", "")) == pytest.approx(events(tmp_path / "app.fxt"), rel=0.1)


def test_the_summary_has_the_same(out: Path) -> None:
    source = """\
    for n in range(100): fxtio.instant("step")
    summary = fxtio.stop()
    print(summary.events, summary.is_estimate, 0 < summary.duration_ns < 10**10)
    """
    assert run(source, out, start=True).stdout == "101 False True\n"


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0 ms"), (350_400_000, "350 ms"), (10**9, "1.00 s"), (10**13, "10,000.00 s")]
)
def test_times_as_text(ns: int, text: str) -> None:
    assert time_as_text(ns) == text


# ---- Killed recordings are found.

COMMANDS = {
    "info": [],
    "top": [],
    "tree": [],
    "find": ["step"],
    "timeline": [],
    "report": ["-o", "{new}.html"],
    "dump": [],
    "explain": [],
    "stats": [],
    "validate": [],
    "query": ["select 1"],
    "diff": ["{other}"],
    "check": ["--baseline", "{other}", "--limit", "step=10%"],
    "slice": ["--until", "1s", "-o", "{new}.fxt"],
    "merge": ["-o", "{new}.fxt"],
    "convert": ["{new}.json"],
}
"""The arguments that follow the trace, for each command that reads one."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with killed recordings to app.fxt and app.fxt.zst."""
    folder = tmp_path_factory.mktemp("killed")
    for name in ("app.fxt", "app.fxt.zst"):
        assert fxtio_run(folder, KILLED, "-o", name).returncode == -signal.SIGKILL
    assert {path.name for path in folder.iterdir()} == {"app.fxt", "app.fxt.zst.part", "app.py"}
    return folder


def test_all_commands_that_read_traces_are_tried() -> None:
    others = {"synth", "conformance", "run", "attach", "recover", "completion", "help"}
    in_test_open = {"open"}  # it serves a trace until Ctrl-C
    assert set(ALL_COMMANDS) - COMMANDS.keys() == others | in_test_open


@pytest.mark.parametrize("name", ["app.fxt", "app.fxt.zst"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_recording_is_found_by_its_final_name(command: str, name: str, killed: Path, tmp_path: Path) -> None:
    trace = str(killed / name)
    places = {"other": trace, "new": tmp_path / "new"}
    done = run_fxtio(command, trace, *(argument.format(**places) for argument in COMMANDS[command]))
    assert done.returncode in (0, 1), done.stderr
    notes = [line for line in done.stderr.splitlines() if "fxtio recover" in line]
    assert len(notes) == (2 if command in ("diff", "check") else 1)
    assert f"`fxtio recover {trace}` finishes it" in notes[0]
    assert (f"there is no {trace} yet, so app.fxt.zst.part is read" in notes[0]) == name.endswith(".zst")


def test_nothing_is_said_of_finished_traces_and_missing_files(tmp_path: Path) -> None:
    fxtio_run(tmp_path, APP, "-o", "app.fxt")
    assert run_fxtio("info", str(tmp_path / "app.fxt")).stderr == ""
    for name in ("none.fxt", "none.fxt.zst", str(tmp_path)):
        assert "recover" not in run_fxtio("info", name).stderr


# ---- What a kill leaves.

UNUSED = 10**12
"""A number that the unfinished files of this process do not reach."""


def test_recover_removes_what_was_begun(killed: Path, tmp_path: Path) -> None:
    """Unfinished files of killed processes are removed, but none of others."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "app.fxt").write_bytes((killed / "app.fxt").read_bytes())
    begun = [
        f".app.{ended.pid}-{UNUSED}.fxt",  # the trace, while it was rewritten
        f".app.fxt.{ended.pid}-{UNUSED}.zst",
        f".app.fxt.123.{ended.pid}-{UNUSED}.part",  # of a child that had just started
        f".app-1.{ended.pid}-{UNUSED}.fxt",  # a dump
        f".app-123-1.{ended.pid}-{UNUSED}.fxt",
    ]
    others = [
        f".app.{os.getpid()}-{UNUSED}.fxt",  # of a process that runs
        f".apps.{ended.pid}-{UNUSED}.fxt",
        f".app-b.{ended.pid}-{UNUSED}.fxt",
        f"app.{ended.pid}-{UNUSED}.fxt",
        ".app.fxt",
        f".app.{ended.pid}.fxt",
    ]
    for name in (*begun, *others):
        (tmp_path / name).write_bytes(b"")
    recover(tmp_path / "app.fxt")
    assert {path.name for path in tmp_path.iterdir()} == {"app.fxt", *others}
    check_trace(tmp_path / "app.fxt", open_spans=True)


@pytest.mark.parametrize("name", ["app.fxt", "app[1].fxt.zst", "app-1.fxt.gz", "app", "app.fxt.123.part"])
def test_unfinished_names_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(os, "getpid", lambda: ended.pid)
    path = archive.unfinished_name(tmp_path / name)
    path.write_bytes(b"")
    assert archive.abandoned(tmp_path / name.removesuffix(".123.part")) == [path]


# ---- An end that fails.


def test_ctrl_c_while_the_file_is_rewritten(tmp_path: Path) -> None:
    program = """\
import fxtio.tracer.file as file, signal
def interrupted(*args, **options):
    signal.raise_signal(signal.SIGINT)
    yield b""
file.squeezed = interrupted
"""
    done = fxtio_run(tmp_path, program + APP, "-o", "app.fxt", "--spans-only")
    assert done.returncode == 0
    reason = "is a valid trace, but not finished: `fxtio recover` finishes it later"
    assert done.stderr == f"fxtio: interrupted: {tmp_path / 'app.fxt'} {reason}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"app.fxt", "app.py"}
    before = events(tmp_path / "app.fxt")
    recover(tmp_path / "app.fxt")
    assert events(tmp_path / "app.fxt") == before > 3_000


def test_events_lost_and_no_room_at_the_end(tmp_path: Path) -> None:
    """Both is said: the file is valid, but not everything is in it."""
    program = """\
import errno, fxtio.tracer.file as file
def full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")
file.replace = full
"""
    done = fxtio_run(tmp_path, program + APP * 20, "-o", "app.fxt", "--spans-only", "--max-size", "512KiB")
    path = tmp_path / "app.fxt"
    lost, reason = done.stderr.splitlines()
    assert re.fullmatch(rf".*RecordingWarning: {re.escape(str(path))}: [\d,]+ events were lost, .*", lost)
    assert reason.startswith(f"fxtio: {path}: No space left on device; it is a valid trace, but not finished: ")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.ENOENT, "No such file or directory", "a b.fxt"), "a b.fxt: No such file or directory"),
        (OSError(errno.ENOENT, "No such file or directory", ""), "'': No such file or directory"),
        (OSError("the device is gone"), "the device is gone"),
        (ValueError("it makes no sense"), "it makes no sense"),
        (MemoryError(), "MemoryError"),
    ],
    ids=["no file", "a file", "an empty name", "no number", "another error", "no text"],
)
def test_errors_as_text(error: Exception, text: str) -> None:
    assert described(error) == text


def test_a_program_that_the_environment_cannot_record(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "out.fxt"
    program = "from fxtio.tracer.startup import start_from_environment as start; start()"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"]
    environment = os.environ | {"FXTIO": str(path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, f"fxtio: nothing is recorded: {path}: No such file or directory\n")


def test_no_room_at_the_begin(tmp_path: Path) -> None:
    program = """\
import errno, os, sys
def full(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
os.pwrite = full
from fxtio.cli import main
sys.exit(main(["run", "-o", "app.fxt", "-c", "1"]))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (2, f"fxtio: {tmp_path / 'app.fxt'}: No space left on device\n")
    assert not any(tmp_path.iterdir())


def test_the_program_on_a_closed_standard_input(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "fxtio", "run", "-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (2, "fxtio: standard input is closed\n")


def test_no_room_at_the_end(tmp_path: Path) -> None:
    program = """\
import errno, fxtio.tracer.file as file
def full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")
file.replace = full
"""
    done = fxtio_run(tmp_path, program + APP, "-o", "app.fxt.zst", "--spans-only")
    assert done.returncode == 0
    live = tmp_path / "app.fxt.zst.part"
    reason = "No space left on device; it is a valid trace, but not finished: `fxtio recover` finishes it later"
    assert done.stderr == f"fxtio: {live}: {reason}\n"
    recover(live)
    assert events(tmp_path / "app.fxt.zst") > 3_000


@pytest.mark.parametrize(
    "place", ["sources.gc.Source.stop", "functions.stop", "plain.thread_facts", "clock.RecordingClock.measure"]
)
def test_ctrl_c_while_the_recording_ends(place: str, out: Path) -> None:
    """Nothing is recorded any more, and nothing of the recording is left in the program."""
    source = f"""
    import gc, os, sys, threading
    from fxtio.tracer import clock, functions, plain, sources
    import fxtio.tracer.sources.gc
    from fxtio.tracer.backend import recorder
    def state():
        hooks = sys.getprofile(), threading.getprofile(), len(gc.callbacks)
        return *hooks, "FXTIO" in os.environ, len(os.listdir("/dev/fd")), recorder.active()
    before = state()
    fxtio.start(OUT, functions=True, sources=["gc"])
    owner, name = {place.rpartition(".")[0]}, {place.rpartition(".")[2]!r}
    original = getattr(owner, name)
    def interrupted(*arguments):
        setattr(owner, name, original)
        raise KeyboardInterrupt
    setattr(owner, name, interrupted)
    try:
        fxtio.stop()
    except KeyboardInterrupt:
        print("interrupted", state() == before)
    with fxtio.tracing(OUT + ".2.fxt"):
        fxtio.instant("again")
    """
    assert fine(source, out) == "interrupted True\n"
    check_trace(out, open_spans=True)
    assert "again" in check_trace(f"{out}.2.fxt").names
