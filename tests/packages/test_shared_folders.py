"""What other users put into a folder harms nobody who writes there, see `docs/explanation/shared-folders.md`."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fxtio
from fxtio import shared_folders
from fxtio.cli import main
from fxtio.io.sink import whole_directory, whole_file
from support.checkout import import_path
from support.other_users import NOBODY, as_nobody, as_root, forks, shared_folder
from support.tracer_run import fine, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, owners and descriptors are those of POSIX")

recorder = pytest.mark.recorder
WORDS = "somebody's words"
GUESSES = 40

with io.BytesIO() as _file:
    fxtio.create(_file, format="fxt").close()
    EMPTY = _file.getvalue()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that nobody must change."""
    path = tmp_path / "victim"
    path.write_text(WORDS)
    return path


# ---- Temporary files.


@recorder
def test_a_recording_follows_no_link_with_a_name_like_that_of_a_temporary_file(tmp_path: Path, victim: Path) -> None:
    """Names that a process gives to its temporary files were to be guessed from its id."""
    output = tmp_path / "shared" / "app.fxt"
    source = f"""
    import os
    def plant(name):
        os.symlink({str(victim)!r}, os.path.join(os.path.dirname(OUT), name))
    for number in range({GUESSES}):
        plant(f".app.{{os.getpid()}}-{{number}}.fxt")
        plant(f".dump.{{os.getpid()}}-{{number}}.fxt")
        plant(f".fxtio-dump.{{os.getpid()}}-{{number}}")
    fxtio.start(OUT)
    fxtio.instant("here")
    fxtio.dump(OUT.replace("app", "dump"))
    fxtio.stop()
    """
    output.parent.mkdir()
    fine(source, output)
    assert victim.read_text() == WORDS
    for name in ("app.fxt", "dump.fxt"):
        assert not output.with_name(name).is_symlink()
        assert "here" in {getattr(record, "name", "") for record in fxtio.open(output.with_name(name))}


def test_writing_follows_no_link_with_a_name_like_that_of_a_temporary_file(tmp_path: Path, victim: Path) -> None:
    for name in (f".out.{os.getpid()}.fxt", f".out.data.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    assert main(["synth", "spans", "--events", "10", "-o", str(tmp_path / "out.fxt")]) == 0
    assert main(["synth", "calls", "--format", "uftrace", "--events", "10", "-o", str(tmp_path / "out.data")]) == 0
    assert victim.read_text() == WORDS


def test_temporary_names_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {shared_folders.temporary_name(tmp_path / "app.fxt").name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f".app.{os.getpid()}-") and name.endswith(".fxt") for name in names)
    with whole_file(tmp_path / f"{'ä' * 120}.fxt"):
        pass
    (tmp_path / f"{'ä' * 120}.fxt").unlink()
    taken = tmp_path / "taken"
    taken.symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(shared_folders, "temporary_name", lambda _: taken)
    with pytest.raises(FileExistsError) as caught, whole_file(tmp_path / "app.fxt"):
        pass
    assert caught.value.filename == str(tmp_path / "app.fxt")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_file_without_a_name(tmp_path: Path, has_unnamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with open(shared_folders.unnamed_file(tmp_path), "r+b") as file:
        assert [*tmp_path.iterdir()] == []
        assert (os.fstat(file.fileno()).st_nlink, stat.S_IMODE(os.fstat(file.fileno()).st_mode)) == (0, 0o600)
    with pytest.raises(FileNotFoundError):
        shared_folders.unnamed_file(tmp_path / "missing")


def test_a_directory_that_is_exchanged_while_it_is_written(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("directories have no names by descriptor here")
    other, away = tmp_path / "other", tmp_path / "away"
    other.mkdir()
    (other / "info").write_text(WORDS)

    def write() -> None:
        with whole_directory(tmp_path / "out.data") as place:
            (made,) = tmp_path.glob(".out.*")
            made.rename(away)
            other.rename(made)
            (place / "info").write_text("ours")
            raise ValueError(WORDS)

    with pytest.raises(ValueError, match=WORDS):
        write()
    (exchanged,) = tmp_path.glob(".out.*")
    assert ([path.name for path in exchanged.iterdir()], [*away.iterdir()]) == (["info"], [])
    assert (exchanged / "info").read_text() == WORDS


# ---- Links to what is overwritten.


def record(target: Path) -> str:
    return run("", target, start=True).stderr


def command(*arguments: str) -> Callable[[Path, pytest.CaptureFixture[str]], str]:
    def act(target: Path, capsys: pytest.CaptureFixture[str]) -> str:
        main([str(target) if argument == "OUT" else argument for argument in arguments])
        return capsys.readouterr().err

    return act


WRITERS: dict[str, Callable[[Path, pytest.CaptureFixture[str]], str]] = {
    "synth": command("synth", "spans", "--events", "10", "-o", "OUT"),
    "synth --break": command("synth", "--break", "fxt.framing.truncated", "-o", "OUT"),
    "synth uftrace": command("synth", "calls", "--format", "uftrace", "--events", "10", "-o", "OUT"),
    "validate": command("validate", "tests/corpus/fxt/ftr-demo.fxt", "-o", "OUT"),
}


@forks
@as_root
@pytest.mark.parametrize("name", [*WRITERS, pytest.param("run", marks=recorder), "create"])
def test_links_of_other_users_are_not_followed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with shared_folder() as folder:
        secret = folder / "secret"
        target = folder / "out.fxt"
        if name == "synth uftrace":
            secret.mkdir()
        else:
            secret.write_text(WORDS)
        as_nobody(lambda: target.symlink_to(secret))
        if name == "create":
            with pytest.raises(PermissionError, match=f"is a link of user {NOBODY}"):
                fxtio.create(target, format="fxt")
        else:
            message = record(target) if name == "run" else WRITERS[name](target, capsys)
            assert f"is a link of user {NOBODY}, who could choose what is overwritten" in message
            assert str(target) in message
        assert sorted(path.name for path in folder.iterdir()) == ["out.fxt", "secret"]
        assert secret.is_dir() or secret.read_text() == WORDS


def test_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    first, second, target = tmp_path / "first.fxt", tmp_path / "folder" / "second.fxt", tmp_path / "target.fxt"
    first.symlink_to("folder/second.fxt")
    second.symlink_to("../target.fxt")
    assert shared_folders.resolved(first) == target
    assert main(["synth", "spans", "--events", "10", "-o", str(first)]) == 0
    assert (first.is_symlink(), second.is_symlink(), target.is_symlink()) == (True, True, False)
    fxtio.create(first, format="fxt").close()
    assert target.read_bytes() == EMPTY
    target.unlink()
    target.symlink_to(first)
    with pytest.raises(OSError, match="symbolic links"):
        shared_folders.resolved(first)


def test_names_of_descriptors_are_written_to(tmp_path: Path) -> None:
    """`/dev/stdout` is a link, which leads to a pipe."""
    program = "import fxtio; fxtio.create('/dev/stdout', format='fxt').close()"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=True)
    assert done.stdout == EMPTY
    fxtio.create(os.devnull, format="fxt").close()
    assert main(["synth", "spans", "--events", "10", "-o", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


# ---- Parts of a trace.

FAMILY = """
import os, time
fxtio.start(OUT)
fxtio.instant("parent")
if not os.fork():
    fxtio.instant("child")
    fxtio.stop()
    os._exit(0)
os.wait()
{meanwhile}
fxtio.stop()
"""


@recorder
def test_pipes_and_links_with_names_of_parts(tmp_path: Path, victim: Path) -> None:
    """The end of a recording, and `fxtio recover`, would wait for a pipe."""
    output = tmp_path / "app.fxt"
    meanwhile = f'os.mkfifo(OUT + ".4194305.part"); os.symlink({str(victim)!r}, OUT + ".4194306.part")'
    fine(FAMILY.format(meanwhile=meanwhile), output)
    assert {record.name for record in fxtio.open(output) if hasattr(record, "name")} >= {"parent", "child"}
    killed = FAMILY.format(meanwhile="import signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run(killed, output).returncode == -signal.SIGKILL
    assert main(["recover", str(output)]) == 1
    assert {record.name for record in fxtio.open(output) if hasattr(record, "name")} >= {"parent", "child"}
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"app.fxt", "app.fxt.4194305.part", "app.fxt.4194306.part", "victim"}


@recorder
def test_a_child_takes_another_name_where_something_is_in_its_place(tmp_path: Path) -> None:
    output = tmp_path / "app.fxt"
    source = """
    import os, sys
    fxtio.start(OUT)
    if not os.fork():
        name = f"{OUT}.{os.getpid()}.part"
        print(os.path.exists(name), flush=True)
        os.unlink(name)
        os.mkfifo(name)
        os.symlink("nothing", f"{OUT}.{os.getpid()}-1.part")
        begin = "from fxtio.tracer.startup import start_from_environment as begin; begin(); "
        os.execv(sys.executable, [sys.executable, "-P", "-c", begin + "import fxtio; fxtio.instant('again')"])
    os.wait()
    print(fxtio.stop().parts)
    """
    assert fine(source, output, functions=False).split() == ["True", "1"]
    assert "again" in {getattr(record, "name", "") for record in fxtio.open(output)}


@forks
@as_root
@recorder
def test_parts_of_other_users_are_neither_believed_nor_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with shared_folder() as folder:
        output = folder / "app.fxt"
        killed = FAMILY.format(meanwhile="import signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert run(killed, output).returncode == -signal.SIGKILL
        (own,) = folder.glob("*.part")
        content = own.read_bytes()
        foreign, left = folder / "app.fxt.4194305.part", folder / ".app.4194305-1.fxt"
        as_nobody(lambda: (foreign.write_bytes(content), left.write_bytes(content)))
        assert main(["recover", str(output)]) == 1
        assert f"{foreign} is left out: it belongs to another user\n" in capsys.readouterr().err
        assert {path.name for path in folder.iterdir()} == {"app.fxt", foreign.name, left.name}
        names = [record.name for record in fxtio.open(output) if hasattr(record, "name")]
        assert (names.count("parent"), names.count("child")) == (1, 1)
        meanwhile = (
            'import shutil; part = OUT + ".4194304.part"; import glob; own, = set(glob.glob(OUT + ".*")) - {PART}'
        )
        meanwhile += "; shutil.copy(own, PART); os.chown(PART, 65534, 65534); print(fxtio.stop().parts)"
        done = run(f"PART = {str(foreign)!r}\n" + FAMILY.format(meanwhile=meanwhile), output)
        assert done.stdout == "1\n"
        assert done.stderr == f"fxtio: {foreign} is left out: it belongs to another user\n"
        assert foreign.exists()


# ---- Reading.


def test_following_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would wait for somebody who writes."""
    os.mkfifo(tmp_path / "app.fxt")
    assert main(["top", "--live", str(tmp_path / "app.fxt")]) == 2
    assert capsys.readouterr().err == f"fxtio: {tmp_path / 'app.fxt'}: is not a regular file\n"


@as_root
@recorder
def test_a_program_with_more_rights_than_its_user_is_not_recorded(tmp_path: Path) -> None:
    begin = "from fxtio.tracer.startup import start_from_environment; start_from_environment()"
    for user in (0, NOBODY):
        output = tmp_path / f"{user}.fxt"
        source = f"import os, sys; sys.path[:] = {import_path()!r}; os.setresuid({user}, 0, 0); {begin}"
        command = [sys.executable, "-S", "-P", "-c", source]
        subprocess.run(command, env={**os.environ, "FXTIO": str(output)}, check=True)
        assert output.exists() == (user == 0)
