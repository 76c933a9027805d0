"""`fxtio attach` records a program that runs, and leaves it as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.errors import FxtioError
from fxtio.fxt.live_file import HEAD_BYTES, Chunks
from fxtio.testing.asserts import assert_valid
from fxtio.tracer.attach_target import _REMOTE, REMOTE_VERSION, Attachment, Process
from fxtio.tracer.options import Options
from fxtio.tracer.startup import SIGNAL, AttachError, Mailbox
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
from support.other_users import NOBODY, as_root, become_nobody, forks, shared_folder

pytestmark = [
    pytest.mark.recorder,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attaching needs Linux"),
]

ROUNDS = 30
MAX_GROWTH = 10
"""Blocks of memory: in the first hundreds of recordings a few are allocated and kept, but no recording is as small."""

IS_REMOTE = sys.version_info >= REMOTE_VERSION


def check_trace(trace: Path, *names: str) -> None:
    """Check that a trace is finished and valid, has some functions, and none of the tracer."""
    assert_valid(trace, ignore=["fxt.event.open"])  # it may end within a call
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


@forks
@as_root
def test_a_program_of_another_user() -> None:
    with service(SERVICE) as program:
        child = os.fork()
        if not child:
            become_nobody()
            try:
                Attachment(program.pid)
            except FxtioError as error:
                is_right = f"process {program.pid} is not permitted: it belongs to user 0" in str(error)
                os._exit(0 if is_right else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert_unchanged(program)


@contextmanager
def program_of_nobody(prepare: Callable[[], object] = lambda: None) -> Iterator[int]:
    """Start a process of the user nobody, which waits for a signal after some preparation, and yield its id."""
    ready, sender = os.pipe()
    child = os.fork()
    if not child:
        try:
            become_nobody()
            signal.signal(SIGNAL, lambda *_: None)
            prepare()
            os.write(sender, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(sender)
    try:
        assert os.read(ready, 1)
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        Mailbox(child).remove()
        os.close(ready)


@forks
@as_root
@pytest.mark.parametrize("name", ["unfinished", "request", "reply", "taken", "script.py"])
def test_root_follows_no_link_of_the_user_of_a_program(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user owns the folder of a program, and may put links to files of others there."""
    secret = tmp_path / "secret"
    secret.write_text("nobody else's", "utf-8")
    secret.chmod(0o600)

    def prepare() -> None:
        Mailbox(os.getpid()).create()
        (Mailbox(os.getpid()).folder / name).symlink_to(secret)

    def execute(*_: object) -> None:
        raise AttachError("not executed")

    monkeypatch.setattr(Attachment, "_execute", execute)
    with program_of_nobody(prepare) as child:
        with Attachment(child) as attachment:
            attachment._is_listening = name != "script.py"  # otherwise the script is not written at all
            with pytest.raises(AttachError):
                attachment.start(Options(tmp_path / "app.fxt"))
        assert (os.geteuid(), secret.read_text("utf-8"), secret.stat().st_uid) == (0, "nobody else's", 0)
        assert not Mailbox(child).folder.exists()


@forks
@as_root
def test_root_runs_no_program_of_the_user_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs a binary with this name chooses what it does."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    source = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
    with shared_folder() as folder, ExitStack() as running:
        binary = shutil.copy(shutil.which("sh") or "", folder / "python3.99")
        command = [sys.executable, "-c", source, str(binary), "-c", "echo up; read line"]
        program = running.enter_context(service("", command=command))
        reason = rf"only the fxtio of its Python can ask it .* `python3.99 -m fxtio attach {program.pid}`"
        with pytest.raises(AttachError, match=reason), Attachment(program.pid) as attachment:
            attachment.start(Options(tmp_path / "app.fxt"))
    assert commands == []


@forks
@as_root
def test_root_imports_nothing_with_the_rights_of_the_user_of_a_program(tmp_path: Path) -> None:
    """That user may not be able to read it."""

    def answer(*_: object) -> None:
        mailbox = Mailbox(os.getpid())
        mailbox.take()
        mailbox.answer({"error": "not today"})

    with program_of_nobody(lambda: signal.signal(SIGNAL, answer)) as child:
        command = [sys.executable, "-m", "fxtio", "attach", "-o", str(tmp_path / "app.fxt"), str(child)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, f"fxtio: process {child}: not today\n")


@as_root
def test_root_reads_files_for_a_program_as_its_user() -> None:
    """`sys.remote_exec` opens files that the program names."""
    remote = "import sys; sys.remote_exec = lambda _, name: print(open(name).read())\n" + _REMOTE

    def read(*ids: int) -> str:
        command = [sys.executable, "-I", "-S", "-c", remote, "1", str(secret), *map(str, ids)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + "".join(done.stderr.splitlines()[-1:])

    with shared_folder() as folder:
        secret = folder / "secret"
        secret.write_text("nobody else's", "utf-8")
        secret.chmod(0o600)
        assert read() == "nobody else's\n"
        assert "Permission denied" in read(NOBODY, NOBODY)
        os.chown(secret, 0, 4711)
        secret.chmod(0o640)
        assert "Permission denied" in read(NOBODY, NOBODY, 4712)
        assert read(NOBODY, NOBODY, 4712, 4711) == "nobody else's\n"


@forks
@as_root
def test_root_has_no_other_rights_than_the_user_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def rights() -> tuple[int, int, list[int]]:
        return os.geteuid(), os.getegid(), os.getgroups()

    groups = os.getgroups()
    with program_of_nobody() as child:
        try:
            os.setgroups([4711])
            process = Process(child)
            with process.acting_as_user():
                assert rights() == (NOBODY, NOBODY, [])
            assert rights() == (0, 0, [4711])
            for step in ("setgroups", "setegid", "seteuid"):
                with monkeypatch.context() as patch:
                    patch.setattr(os, step, failing_once(getattr(os, step)))
                    with pytest.raises(PermissionError), process.acting_as_user():
                        pass
                assert rights() == (0, 0, [4711])
        finally:
            os.setgroups(groups)


def failing_once(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function that fails when it is called first."""
    errors = [PermissionError()]

    def call(value: Any) -> None:
        if errors:
            raise errors.pop()
        function(value)

    return call


COUNTS = {"duration_ns": 1, "lost": 0, "cut": 0, "dropped": 0, "inlined": 0, "unmatched": []}
NO_REPLIES = [
    b"",
    b"{",
    b"[]",
    b"5",
    b"null",
    b"\0",
    b"\xff",
    b"[" * 100_000,
    b'{"error": ' + b"[" * 100_000,
    b"9" * 5000,
]
NO_REPLIES += [b" " * (2 << 20), b'{"a": ' + b"9" * 5000 + b"}"]
NO_COUNTS: list[dict[str, Any]] = [{}, {"live": 5}]
NO_COUNTS += [COUNTS | {"lost": value} for value in (True, -1, 1e999, 10**30, "1", None)]
NO_COUNTS += [COUNTS | {"unmatched": value} for value in (5, None, [5], [["include"]], [["include", 5]])]


def test_answers_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer: list[Callable[[Path], object]] = []

    def call(attachment: Attachment) -> None:
        mailbox = attachment._mailbox
        mailbox.request.unlink()
        answer[0](mailbox.reply)

    monkeypatch.setattr(Attachment, "_call", call)
    incomplete = [json.dumps(values).encode() for values in NO_COUNTS]
    files: list[Callable[[Path], object]] = [partial(Path.write_bytes, data=data) for data in NO_REPLIES]
    files += [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("request"), lambda path: path.symlink_to("/dev/zero")]
    with service(SERVICE) as program, Attachment(program.pid) as attachment:
        reply = attachment._mailbox.reply
        for answer[:] in [[file] for file in files]:
            for ask in (partial(attachment.start, Options(tmp_path / "app.fxt")), attachment.stop):
                with pytest.raises(AttachError, match=r"makes no sense|reply: "):
                    ask()
                if reply.is_dir():
                    reply.rmdir()
        for answer[:] in [[partial(Path.write_bytes, data=data)] for data in incomplete]:
            with pytest.raises(AttachError, match=f"^process {program.pid}: its answer makes no sense$"):
                attachment.stop()
        errors: list[object] = ["\0", "\ud800", "\x1b[2J", [], {}, 1e999]
        for error in errors:
            answer[:] = [partial(Path.write_bytes, data=json.dumps({"error": error}).encode())]
            with pytest.raises(AttachError, match=f"^process {program.pid}: "):
                attachment.stop()
        answer[:] = [partial(Path.write_bytes, data=json.dumps(COUNTS | {"unmatched": [["a", "b"]]}).encode())]
        assert attachment.stop() == COUNTS | {"unmatched": (("a", "b"),)}


HOSTILE = f"""
import os, signal, sys
def take(*_):
    folder = f"/tmp/fxtio-attach-{{os.getpid()}}/"
    os.unlink(folder + "request")
    exec(sys.argv[1])
import fxtio; fxtio.span
signal.signal({SIGNAL}, take)
print("up", flush=True)
sys.stdin.readline()
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("os.mkfifo(folder + 'reply')", "reply: is not a regular file\n"),
        ("open(folder + 'reply', 'w').write('{\"error\": \"a\\\\u001bb\"}')", ": a\\x1bb\n"),
        ("", "fxtio: interrupted\n"),
    ],
)
def test_a_program_that_answers_nothing_cannot_hold_back_sigterm(tmp_path: Path, does: str, reason: str) -> None:
    with service("", command=[sys.executable, "-P", "-c", HOSTILE, does]) as program:
        command = [sys.executable, "-m", "fxtio", "attach", "-o", str(tmp_path / "app.fxt"), str(program.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            if not does:
                assert "has not reacted" in process.stderr.readline()
                process.terminate()
            assert process.communicate(timeout=PATIENCE)[1].endswith(reason)
        assert process.returncode == (2 if does else 130)
        assert not Mailbox(program.pid).folder.exists()


def test_a_folder_that_is_exchanged(tmp_path: Path) -> None:
    """Each side goes on with the folder that it has opened."""
    mailbox, program = Mailbox(os.getpid()), Mailbox(os.getpid())
    victim, away = tmp_path / "victim", mailbox.folder.with_suffix(".away")  # on one device
    victim.mkdir()
    (victim / "request").write_text("{}")

    def exchange() -> None:
        mailbox.folder.rename(away)
        mailbox.folder.symlink_to(victim)

    mailbox.create()
    exchange()
    try:
        mailbox.put({"action": "start"})
        assert program.take() is None
        assert {path.name for path in victim.iterdir()} == {"request"}
        mailbox.folder.unlink()
        away.rename(mailbox.folder)
        assert program.take() == {"action": "start"}
        exchange()
        program.answer({"lost": 1})
        assert mailbox.read_reply() == {"lost": 1}
    finally:
        mailbox.remove()
        mailbox.folder.unlink()
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("request", "{}")]
    away.rmdir()  # it is empty


@pytest.mark.parametrize("kind", ["link", "file", "of others"])
def test_a_folder_that_is_none_of_ours(tmp_path: Path, kind: str) -> None:
    mailbox = Mailbox(os.getpid())
    if kind == "link":
        mailbox.folder.symlink_to(tmp_path)
    elif kind == "file":
        mailbox.folder.touch()
    else:
        mailbox.folder.mkdir()
        mailbox.folder.chmod(0o777)
    try:
        with pytest.raises(AttachError, match=f"^{mailbox.folder} is not ours; nothing may be there$"):
            mailbox.create()
        (tmp_path / "request").write_text("{}")
        assert mailbox.take() is None
        assert (tmp_path / "request").exists()
    finally:
        mailbox.folder.chmod(0o700)
        (mailbox.folder.rmdir if mailbox.folder.is_dir() and kind != "link" else mailbox.folder.unlink)()


def test_a_temporary_folder_in_which_others_may_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setattr("fxtio.tracer.startup._FOLDER", f"{tmp_path}/{{}}")
    with pytest.raises(AttachError, match="everybody may rename"):
        Mailbox(os.getpid()).create()
    tmp_path.chmod(0o1777)
    mailbox = Mailbox(os.getpid())
    mailbox.create()
    mailbox.remove()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_request_that_is_no_file(plant: Callable[[Path], None]) -> None:
    mailbox = Mailbox(os.getpid())
    mailbox.folder.mkdir(0o700)
    try:
        plant(mailbox.request)
        assert mailbox.take() is None
    finally:
        shutil.rmtree(mailbox.folder)


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
