"""`fxtio attach` records a program that runs, and leaves it as it was."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import fxtio
from fxtio.errors import FxtioError
from fxtio.fxt.unfinished import HEAD_BYTES, Chunks
from fxtio.testing.asserts import assert_valid
from fxtio.tracer.attaching import REMOTE_VERSION, Attachment
from fxtio.tracer.mailbox import SIGNAL, Mailbox
from fxtio.tracer.options import Options
from fxtio.tracer.processes import Process
from support.attached import (
    COUNTING,
    OUTPUT,
    SERVICE,
    STATUS,
    Service,
    attach,
    begin_attach,
    fields_of,
    service,
    wait_for,
)
from support.limits import PATIENCE

pytestmark = [
    pytest.mark.recorder,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attaching needs Linux"),
]

ROUNDS = 30
MAX_GROWTH = 10
"""Blocks of memory: in the first hundreds of recordings a few are allocated and kept, but no recording is as small."""

FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

IS_REMOTE = sys.version_info >= REMOTE_VERSION


def check_trace(trace: Path, *names: str) -> None:
    """Check that a trace is finished and valid, has some functions, and none of the tracer."""
    assert_valid(trace)
    begun = {record.name for record in fxtio.open(trace) if type(record).__name__ == "DurationBegin"}
    assert set(names) <= begun
    assert not any(name.startswith(("fxtio.", "pathlib.", "json.")) for name in begun), begun
    if trace.suffix == ".fxt":
        assert Chunks.of(trace.read_bytes()[:HEAD_BYTES]) is None


def assert_unchanged(program: Service) -> None:
    """Check that a program goes on as if nothing had been, to its end."""
    assert not Mailbox(program.pid).folder.exists()
    assert program.end() == (STATUS, OUTPUT, "")


def test_for_a_time(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt"
    with service(SERVICE) as program:
        done = attach("--for", "200ms", "-o", trace, program.pid)
        assert done.returncode == 0, done.stderr
        assert "none lost" in done.stderr
        assert_unchanged(program)
    check_trace(trace, "<string>.handle", "<string>.square")


def test_until_ctrl_c(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt.zst"
    with service(SERVICE) as program:
        recording = begin_attach("-o", trace, program.pid)
        assert [opened.path.name for opened in Process(program.pid).recordings()] == ["app.fxt.zst.part"]
        recording.send_signal(signal.SIGINT)
        _, errors = recording.communicate(timeout=PATIENCE)
        assert (recording.returncode, "fxtio top" in errors) == (0, True), errors
        assert_unchanged(program)
    check_trace(trace)
    assert [path.name for path in tmp_path.iterdir()] == ["app.fxt.zst"]


def test_options_say_what_is_recorded(tmp_path: Path) -> None:
    with service("def other():\n    pass\n" + SERVICE.replace("total +=", "other(); total +=")) as program:
        trace = tmp_path / "spans.fxt"
        assert attach("--for", "50ms", "--spans-only", "-o", trace, program.pid).returncode == 0
        assert "DurationBegin" not in {type(record).__name__ for record in fxtio.open(trace)}
        trace = tmp_path / "limited.fxt"
        assert attach("--for", "100ms", "--max-depth", "1", "-o", trace, program.pid).returncode == 0
        begun = [record.name for record in fxtio.open(trace) if type(record).__name__ == "DurationBegin"]
        begun = begun[begun.index("<string>.other") :]  # a recording that begins within a call may have what that calls
        assert "<string>.square" not in begun
        assert_unchanged(program)


@pytest.mark.parametrize("listens", [True, pytest.param(False, marks=pytest.mark.skipif(not IS_REMOTE, reason="3.14"))])
def test_many_times(tmp_path: Path, listens: bool) -> None:
    """Output, status, memory, modules, descriptors, mappings and signal handlers stay."""
    trace = tmp_path / "app.fxt"

    def once() -> None:
        with Attachment(program.pid) as attachment:
            live = attachment.start(Options(trace, functions=True, children=False), lambda: None)
            program.ask()
            attachment.stop(lambda: None)
            assert_valid(live)

    with service(COUNTING, listens=listens) as program:
        for _ in range(5):
            once()
        before = fields_of(program.ask())
        for _ in range(ROUNDS):
            once()
        after = fields_of(program.ask())
        growth = after.pop("blocks") - before.pop("blocks")
        assert after == before
        assert growth < MAX_GROWTH * ROUNDS
        status, output, errors = program.end()
    assert (status, errors) == (STATUS, "")
    assert len(output.splitlines()) == 1


def test_a_program_that_was_started_to_wait(tmp_path: Path) -> None:
    start = "from fxtio.tracer.startup import start_from_environment as start; start()\n"
    with service(start + SERVICE, listens=False, env={**os.environ, "FXTIO": "wait"}) as program:
        assert Process(program.pid).catches(SIGNAL)
        assert attach("--for", "100ms", "-o", tmp_path / "app.fxt", program.pid).returncode == 0
        assert_unchanged(program)
    check_trace(tmp_path / "app.fxt", "<string>.handle")


def test_a_program_that_waits_in_a_system_call(tmp_path: Path) -> None:
    with service("import sys; print('up', flush=True); sys.stdin.readline(); sys.exit(7)") as program:
        assert attach("--for", "10ms", "-o", tmp_path / "app.fxt", program.pid).returncode == 0
        assert program.end() == (7, "up\n", "")


def test_the_program_ends_while_it_is_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt"
    with service(SERVICE) as program:
        recording = begin_attach("-o", trace, program.pid)
        assert program.end() == (STATUS, OUTPUT, "")
        _, errors = recording.communicate(timeout=PATIENCE)
        assert recording.returncode == 0, errors
        assert f"process {program.pid} has ended" in errors
    check_trace(trace)


def test_the_program_is_killed_while_it_is_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt"
    with service(SERVICE) as program:
        recording = begin_attach("-o", trace, program.pid)
        program.process.kill()
        program.process.wait()
        _, errors = recording.communicate(timeout=PATIENCE)
        assert recording.returncode == 0, errors
    assert Chunks.of(trace.read_bytes()[:HEAD_BYTES]) is None
    assert fxtio.open(trace).table("events").num_rows


@pytest.mark.full
def test_what_a_killed_attach_leaves_is_ended(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt"
    with service(SERVICE) as program:
        recording = begin_attach("-o", trace, program.pid)
        recording.kill()
        recording.communicate()
        again = attach("--for", "1s", program.pid)
        assert (again.returncode, f"is recorded already, to {trace}" in again.stderr) == (2, True), again.stderr
        done = attach("--stop", program.pid)
        assert done.returncode == 0, done.stderr
        assert attach("--stop", program.pid).stderr == f"fxtio: process {program.pid} records nothing\n"
        assert_unchanged(program)
    check_trace(trace)


def test_only_one_is_attached(tmp_path: Path) -> None:
    with service(SERVICE) as program:
        recording = begin_attach("-o", tmp_path / "app.fxt", program.pid)
        other = attach("-o", tmp_path / "other.fxt", program.pid)
        assert other.stderr == f"fxtio: another `fxtio attach` is attached to process {program.pid}\n"
        assert other.returncode == 2
        recording.terminate()
        _, errors = recording.communicate(timeout=PATIENCE)
        assert recording.returncode == 0, errors
        assert_unchanged(program)


def test_a_program_that_records_itself(tmp_path: Path) -> None:
    own = tmp_path / "own.fxt"
    with service(f"fxtio.start({str(own)!r})\n" + SERVICE) as program:
        done = attach("-o", tmp_path / "app.fxt", program.pid)
        assert (done.returncode, done.stderr) == (
            2,
            f"fxtio: process {program.pid} is recorded already, to {own}\n",
        )
        assert_unchanged(program)
    assert not (tmp_path / "app.fxt").exists()


def test_a_program_that_ends_the_recording_itself(tmp_path: Path) -> None:
    trace = tmp_path / "app.fxt"
    with service(
        "import sys\nprint('up', flush=True)\nsys.stdin.readline()\nfxtio.stop()\nsys.stdin.readline()"
    ) as program:
        recording = begin_attach("-o", trace, program.pid)
        program.write("stop\n")
        wait_for(lambda: not Process(program.pid).recordings())
        recording.send_signal(signal.SIGINT)
        _, errors = recording.communicate(timeout=PATIENCE)
        assert (recording.returncode, "has ended the recording itself" in errors) == (0, True), errors
        assert program.end() == (0, "up\n", "")
    check_trace(trace)


@pytest.mark.parametrize(
    ("output", "reason"), [("missing/app.fxt", "No such file or directory"), (".", "Is a directory")]
)
def test_what_cannot_be_written(tmp_path: Path, output: str, reason: str) -> None:
    with service(SERVICE) as program:
        done = attach("-o", tmp_path / output, program.pid)
        assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
        assert_unchanged(program)


def test_what_cannot_be_attached_to() -> None:
    with service("import sys; print('up', flush=True); sys.stdin.readline()", listens=False) as program:
        program.process.kill()
        program.process.wait()
        done = attach(program.pid)
        assert (done.returncode, done.stderr) == (2, f"fxtio: there is no process {program.pid}\n")
    with service("", command=["sh", "-c", "echo up; read line"]) as program:
        done = attach(program.pid)
        assert (done.returncode, done.stderr) == (2, f"fxtio: process {program.pid} does not run Python\n")


@pytest.mark.skipif(IS_REMOTE, reason="from 3.14 on, every program can be asked")
def test_a_program_that_does_not_listen() -> None:
    with service(SERVICE, listens=False) as program:
        done = attach(program.pid)
        assert done.returncode == 2
        assert f"process {program.pid} does not listen: before Python 3.14, start it with FXTIO=wait" in done.stderr
        assert_unchanged(program)


@pytest.mark.skipif(not IS_REMOTE, reason="before 3.14, only programs that listen can be asked")
def test_a_program_that_cannot_import_fxtio(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", SERVICE]
    with service("", command=command) as program:
        done = attach("-o", tmp_path / "app.fxt", program.pid)
        assert (done.returncode, "fxtio cannot be imported there" in done.stderr) == (2, True), done.stderr
        assert_unchanged(program)


@FORKS
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_of_another_user() -> None:
    with service(SERVICE) as program:
        child = os.fork()
        if not child:
            os.setgid(65534)
            os.setuid(65534)
            try:
                Attachment(program.pid)
            except FxtioError as error:
                is_right = f"process {program.pid} is not permitted: it belongs to user 0" in str(error)
                os._exit(0 if is_right else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert_unchanged(program)


@FORKS
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can attach to a program of another user")
@pytest.mark.parametrize("name", ["request.new", "script.py"])
def test_root_follows_no_link_of_the_user_of_a_program(tmp_path: Path, name: str) -> None:
    """The user owns the folder of a program, and may put links to files of others there."""
    secret = tmp_path / "secret"
    secret.write_text("nobody else's", "utf-8")
    secret.chmod(0o600)
    ready, sender = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgid(65534)
            os.setuid(65534)
            signal.signal(SIGNAL, lambda *_: None)
            Mailbox(os.getpid()).create()
            (Mailbox(os.getpid()).folder / name).symlink_to(secret)
            os.write(sender, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(sender)
    try:
        assert os.read(ready, 1)
        with Attachment(child) as attachment:
            attachment._is_listening = name == "request.new"  # so that the script is written at all
            with pytest.raises(PermissionError):
                attachment.start(Options(tmp_path / "app.fxt"))
        assert (os.geteuid(), secret.read_text("utf-8"), secret.stat().st_uid) == (0, "nobody else's", 0)
        assert not Mailbox(child).folder.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        Mailbox(child).remove()
        os.close(ready)


def test_a_program_takes_requests_from_its_user_only(tmp_path: Path) -> None:
    """Another user may create the folder first."""
    with service(SERVICE) as program:
        mailbox = Mailbox(program.pid)
        mailbox.folder.mkdir()
        try:
            request = {"action": "start", "output": str(tmp_path / "app.fxt"), "options": {}}
            for mode in (0o722, 0o702, 0o770):
                mailbox.folder.chmod(mode)
                mailbox.request.write_text(json.dumps(request))
                os.kill(program.pid, SIGNAL)
                wait_for(lambda: not Process(program.pid).has_pending(SIGNAL))
            mailbox.folder.chmod(0o700)
            assert mailbox.request.exists()
            assert not Process(program.pid).recordings()
        finally:
            mailbox.remove()
        assert_unchanged(program)


def test_a_signal_without_a_request_does_nothing() -> None:
    with service(SERVICE) as program:
        for _ in range(10):
            os.kill(program.pid, SIGNAL)
        assert_unchanged(program)


def test_a_program_that_uses_the_signal_itself_keeps_its_handler() -> None:
    source = f"import signal; signal.signal({SIGNAL}, print); import fxtio; fxtio.span; print('up', flush=True)\n"
    with service(source + f"print(signal.getsignal({SIGNAL}))", listens=False) as program:
        assert program.end() == (0, "up\n<built-in function print>\n", "")


@pytest.mark.parametrize("request_", [b"{", b"\xff", b"[" * 100_000, b"[]", b"{}"], ids=lambda text: ascii(text[:3]))
def test_a_request_that_makes_no_sense_does_not_reach_the_program(request_: bytes) -> None:
    with service(SERVICE) as program:
        mailbox = Mailbox(program.pid)
        mailbox.folder.mkdir(0o700)
        try:
            mailbox.request.write_bytes(request_)
            os.kill(program.pid, SIGNAL)
            wait_for(lambda: not mailbox.request.exists())
        finally:
            mailbox.remove()
        assert_unchanged(program)
