"""The end of a recording: what is said about it, and what a killed, interrupted or full one leaves."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fxtio
from fxtio.cli.parser import COMMANDS as ALL_COMMANDS
from fxtio.errors import described
from fxtio.fxt.live_file import Chunks
from fxtio.fxt.records import Event
from fxtio.shared_folders import temporary_name
from fxtio.tracer import archive
from fxtio.tracer.options import time_as_text
from fxtio.tracer.recovery import recover
from support.checkout import import_path
from support.in_process import run_fxtio
from support.limits import PATIENCE
from support.tracer_check import check_trace
from support.tracer_run import fine, recorded, run, run_command

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
    assert re.search(r" m?s, then the file was full: the last \d+(\.\d+)? m?s were not recorded, ", line)
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


# ---- Programs that end by `os._exit`, which calls no exit functions.


def is_finished(path: Path) -> bool:
    """Return whether a recording was put into its final form."""
    return Chunks.of(path.read_bytes()[:512]) is None


@pytest.mark.parametrize("name", ["app.fxt", "app.fxt.gz"])
@pytest.mark.parametrize("call", ["os._exit(3)", "os._exit(status=3)", "leave(True + 2)"])
def test_a_program_that_ends_by_os_exit(call: str, name: str, tmp_path: Path) -> None:
    done = fxtio_run(tmp_path, "from os import _exit as leave\nimport os\n" + APP + call, "-o", name)
    assert done.returncode == 3
    assert re.fullmatch(rf"fxtio: {name}: {events(tmp_path / name):,} events in .*, none lost, .*\n", done.stderr)
    assert {path.name for path in tmp_path.iterdir()} == {name, "app.py"}
    assert name.endswith(".gz") or is_finished(tmp_path / name)


@pytest.mark.parametrize("bad", ["'3'", "3, 4", "", "2**31", "-2**31 - 1", "state=3", "3.0"])
def test_os_exit_refuses_what_it_refuses(bad: str, out: Path) -> None:
    """Then the program goes on, and so does the recording."""
    source = f"""
    try:
        os._exit({bad})
    except (TypeError, OverflowError) as error:
        print(type(error).__name__, error)
    fxtio.instant("later")
    """
    recorded(textwrap.dedent(source), out)
    assert check_trace(out).rows(name="later").size == 1


def test_os_exit_stays_what_it_is(out: Path) -> None:
    program = "import os\nbefore = {os._exit: (repr(os._exit), os._exit.__text_signature__)}\n"
    program += f"import fxtio\nfxtio.start({str(out)!r})\nimport posix\n"
    program += "print(before[os._exit] == (repr(os._exit), os._exit.__text_signature__), posix._exit is os._exit)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True True\n", "")


INTERRUPT = "def interrupt(*_): os.kill(os.getpid(), signal.SIGINT)\n"
HARD_EXITS = {
    "thread": "threading.Thread(target=os._exit, args=(5,)).start(); time.sleep(60)",
    "signal handler": "signal.signal(signal.SIGUSR1, lambda *_: os._exit(5)); os.kill(os.getpid(), signal.SIGUSR1)",
    "while it ends": "fxtio.tracer.archive.parts_and_faults = lambda *_: os._exit(5)",
    "destructor": "Ends = type('Ends', (), {'__del__': lambda _: os._exit(5)}); Ends()",
    "exit function": "import atexit; atexit.register(os._exit, 5)",
    "full stack": "def deeper():\n    try: deeper()\n    except RecursionError: os._exit(5)\ndeeper()",
    "interrupted": INTERRUPT + "fxtio.tracer.archive.parts_and_faults = interrupt; os._exit(5)",
}


@pytest.mark.parametrize("where", HARD_EXITS)
def test_os_exit_anywhere(where: str, out: Path) -> None:
    """The program ends as it would; the file is finished unless something keeps it from that, and valid in any case."""
    prelude = "import signal\nimport fxtio.tracer.archive, fxtio.tracer.session\n"
    done = run(f"{prelude}fxtio.instant('here')\n{HARD_EXITS[where]}\n", out, start=True)
    assert done.returncode == 5
    assert check_trace(out).rows(name="here").size == 1
    assert is_finished(out) == (where not in ("while it ends", "interrupted", "full stack"))


def test_children_that_end_by_os_exit(out: Path) -> None:
    """Each finishes its own part, with what is known at its end, and nobody but the parent the whole."""
    source = """
    import multiprocessing
    def work(number):
        threading.current_thread().name = f"renamed {number}"
        fxtio.instant("in child", n=number)
    children = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    fxtio.instant("in parent")
    print([child.exitcode for child in children], flush=True)
    os._exit(4)
    """
    done = run(source, out, start=True)
    assert (done.returncode, done.stdout, done.stderr) == (4, "[0, 0, 0]\n", "")
    seen = check_trace(out)
    assert sorted(seen.numbers(seen.rows(name="in child")).tolist()) == [0, 1, 2]
    assert seen.rows(name="in parent").size == 1
    assert {f"renamed {number}" for number in range(3)} <= set(seen.names_of("thread").values())
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("end", ["os._exit(6)", "sys.exit(6)", "fxtio.stop(); os._exit(6)"])
def test_a_fork_that_python_does_not_see(end: str, out: Path) -> None:
    """Its child does not finish the file of its parent, which goes on to record."""
    source = f"""
    import ctypes
    fxtio.instant("before")
    child = ctypes.CDLL(None).fork()
    if not child:
        {end}
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.samestat(os.stat(OUT), os.fstat(
        fxtio.tracer.session.current()._file.fd)))
    fxtio.instant("after")
    """
    done = run(source, out, start=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "6 True\n", "")
    assert [check_trace(out).rows(name=name).size for name in ("before", "after")] == [1, 1]


# ---- Full files.


def test_a_full_recording_costs_nothing_more(tmp_path: Path) -> None:
    """The interpreter reports no more calls, also those of decorated functions; the next recording has all of them."""
    source = """
    from fxtio.tracer.backend import recorder
    @fxtio.trace
    def decorated(): pass
    def plain(): decorated()
    fxtio.start(OUT, functions=True, max_size="512KiB")
    for _ in range(20_000): plain()
    if sys.version_info >= (3, 12):
        callbacks = [recorder.on_start(code, 0) for code in (plain.__code__, decorated.__code__)]
        assert callbacks == [sys.monitoring.DISABLE] * 2
    recorded = [plain(), fxtio.instant("later")]
    import warnings; warnings.simplefilter("ignore")
    assert fxtio.stop().unrecorded_ns
    for number, functions in enumerate([False, True]):
        fxtio.start(f"{OUT}.{number}.fxt", functions=functions)
        for _ in range(2): plain()
        fxtio.stop()
    """
    out = tmp_path / "out.fxt"
    fine(source, out)
    assert not check_trace(out, open_spans=True).rows(name="later").size
    decorated, both = (check_trace(Path(f"{out}.{number}.fxt")) for number in range(2))
    assert [span.name.rpartition(".")[2] for span in decorated.spans()] == ["decorated"] * 2
    assert sorted(span.name.rpartition(".")[2] for span in both.spans()) == ["decorated"] * 2 + ["plain"] * 2


def test_a_full_recording_in_answers(tmp_path: Path) -> None:
    """The note about it is an instant, which takes no time."""
    fxtio_run(tmp_path, APP * 20, "-o", "app.fxt", "--max-size", "512KiB")
    answer = json.loads(run_fxtio("top", str(tmp_path / "app.fxt"), "--json").stdout)
    assert "step" in json.dumps(answer)
    assert "drop_stats" not in json.dumps(answer)


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
    "cut": ["--until", "1s", "-o", "{new}.fxt"],
    "merge": ["-o", "{new}.fxt"],
    "convert": ["{new}.json"],
    "pack": ["{new}.fxt.zst"],
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
    others = {"synth", "conformance", "generate", "run", "attach", "recover", "lake", "skill", "mcp", "completion"}
    others.add("help")
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
    path = temporary_name(tmp_path / name)
    path.write_bytes(b"")
    assert archive.abandoned(tmp_path / name.removesuffix(".123.part"), os.geteuid()) == [path]


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
    missing = r"the last \d+(\.\d+)? m?s were not recorded, because the file was full"
    assert re.fullmatch(rf".*RecordingWarning: {re.escape(str(path))}: {missing}", lost)
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
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {import_path()!r}; {program}"]
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
    "place", ["sources.hooks.Collections.stop", "functions.stop", "plain.thread_facts", "clock.RecordingClock.measure"]
)
def test_ctrl_c_while_the_recording_ends(place: str, out: Path) -> None:
    """Nothing is recorded any more, and nothing of the recording is left in the program."""
    source = f"""
    import gc, os, sys, threading
    from fxtio.tracer import clock, functions, plain, sources
    import fxtio.tracer.sources.hooks
    from fxtio.tracer.backend import recorder
    def state():
        hooks = sys.getprofile(), threading.getprofile(), len(gc.callbacks)
        return *hooks, "FXTIO" in os.environ, len(os.listdir("/dev/fd")), bool(recorder.active())
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
