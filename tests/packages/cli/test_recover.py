"""`fxtio recover`: the files of a killed program become the trace that it would have written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.cli import main
from fxtio.tracer.archive import is_alive
from judges import perfetto
from support.checkout import CORPUS
from support.tracer_check import check_trace
from support.tracer_run import run

pytestmark = pytest.mark.recorder

Capture = pytest.CaptureFixture[str]

SOURCE = """
import signal
with fxtio.span("parent"):
    for number in range({children}):
        child = os.fork()
        if not child:
            with fxtio.span("child", number=number):
                pass
            {how}
        os.waitpid(child, 0)
    fxtio.instant("last")
    os.kill(os.getpid(), signal.SIGKILL)
"""
CHILD_ENDS = {"stopped": "fxtio.stop(); os._exit(0)", "killed": "os.kill(os.getpid(), signal.SIGKILL)"}


def killed(out: Path, children: int = 0, how: str = "stopped", **options: Any) -> Path:
    """Record a program that is killed; return the file that it recorded to."""
    source = SOURCE.format(children=children, how=CHILD_ENDS[how])
    assert run(source, out, start=True, **options).returncode == -signal.SIGKILL
    return out.with_name(f"{out.name}.part") if out.suffix != ".fxt" else out


def check(path: Path, children: int = 0) -> None:
    """Check that the trace is complete and has no fillers."""
    seen = check_trace(path, open_spans=True)
    assert len(seen.rows(kind="instant", name="last")) == 1
    assert [span.args["number"] for span in seen.spans("child")] == list(range(children))
    assert len(seen.names_of("process")) == 1 + children
    with fxtio.open(path) as trace:
        assert trace.info.size < 4096
        assert len({provider.clock for provider in trace.info.providers}) == 1
        assert not trace.findings
    if perfetto.available() is None and path.suffix == ".fxt":
        with perfetto.load(path) as p:
            assert p.errors() == {}
            assert [item.name for item in p.slices()].count("child") == children


@pytest.mark.full
@pytest.mark.parametrize("how", CHILD_ENDS)
@pytest.mark.parametrize("children", [0, 2])
@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst", "out.fxt.gz", "out.fxt.xz"])
def test_recover(name: str, children: int, how: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / name
    live = killed(out, children, how)
    assert len(list(tmp_path.iterdir())) == 1 + children
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert main(["recover", str(live)]) == 0
    assert list(tmp_path.iterdir()) == [out]
    check(out, children)
    message = capsys.readouterr()
    assert message.out == ""
    of = " with 2 child processes" if children else ""
    size = out.stat().st_size
    shown = f"{size:,} bytes" if size < 1024 else f"{size / 1024:.1f} KiB"
    assert message.err == f"fxtio: {shown}{of}, from {before / 2**20:.1f} MiB: {out}\n"


@pytest.mark.full
def test_perfetto_is_asked() -> None:
    judges.require(perfetto.available())


def test_by_the_name_of_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(tmp_path / "out.fxt.zst", 1)
    monkeypatch.chdir(tmp_path)
    assert main(["recover", "out.fxt.zst"]) == 0
    check(tmp_path / "out.fxt.zst", 1)


def test_to_another_file(tmp_path: Path) -> None:
    live = killed(tmp_path / "out.fxt", 2)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "new.fxt.gz"
    other.write_text("replaced")
    assert main(["recover", "-o", str(other), str(live)]) == 0
    check(other, 2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_second_recovery_changes_nothing(out: Path) -> None:
    killed(out, 1)
    assert main(["recover", str(out)]) == 0
    before = out.read_bytes()
    assert main(["recover", str(out)]) == 0
    assert out.read_bytes() == before


@pytest.mark.full
def test_a_ring(out: Path) -> None:
    killed(out, ring="1MiB")
    assert main(["recover", str(out)]) == 0
    check(out)


# ------------------------------------------------------------------------------------------------ what is left as it is


def refused(capsys: Capture, *arguments: str | Path) -> str:
    """Return the message with which `recover` refuses."""
    assert main(["recover", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_an_existing_trace_is_not_replaced(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.fxt.zst"
    live = killed(out, 1)
    out.write_text("an older one")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert "exists already" in refused(capsys, live)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert main(["recover", "-o", str(out), str(live)]) == 0
    check(out, 1)
    assert list(tmp_path.iterdir()) == [out]


def test_a_recording_that_still_runs(out: Path, capsys: Capture) -> None:
    source = f"import fxtio; fxtio.start({str(out)!r}); fxtio.instant('here'); print(flush=True); input(); fxtio.stop()"
    command = [sys.executable, "-P", "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        message = refused(capsys, out)
        process.communicate(b"\n")
    assert message == f"fxtio: {out} is still recorded to, by process {process.pid}\n"
    assert process.returncode == 0
    check_trace(out)


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="needs /proc")
def test_another_process_with_the_same_id(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process does not count unless it has the file open."""
    killed(out)
    monkeypatch.setattr("fxtio.tracer.archive.is_alive", lambda pid: True)
    monkeypatch.setattr(
        "fxtio.tracer.recovery.Path", lambda path: Path("/proc/self/fdinfo" if path.startswith("/proc/") else path)
    )
    assert main(["recover", str(out)]) == 0


def test_a_link_to_itself(out: Path, capsys: Capture) -> None:
    out.symlink_to(out.name)
    assert main(["recover", str(out)]) == 2
    assert capsys.readouterr().err == f"fxtio: {out}: Too many levels of symbolic links\n"


@pytest.mark.parametrize("label", ["²", "99999999999999999999"])
def test_files_whose_names_only_look_like_those_of_parts(out: Path, label: str, capsys: Capture) -> None:
    """One is no number, the other that of no process."""
    killed(out)
    shutil.copy(out, out.with_name(f"{out.name}.{label}.part"))
    assert main(["recover", str(out)]) == 0
    assert ("1 child process" in capsys.readouterr().err) == label.isascii()


def test_parts_that_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    """A child that still runs, another recording with the same name, and a file that only looks like a part."""
    out, older = tmp_path / "out.fxt", tmp_path / "older" / "out.fxt"
    older.parent.mkdir()
    killed(older, 1)
    killed(out, 2)
    (of_older,) = older.parent.glob("*.part")
    shutil.copy(of_older, tmp_path)
    (tmp_path / "out.fxt.999999999.part").write_text("no trace at all")
    (tmp_path / "out.fxt.notes.part").write_text("somebody's notes")
    parts = [
        path for path in tmp_path.glob("out.fxt.*.part") if path.stat().st_size > 99 and path.name != of_older.name
    ]
    running = parts[0].rename(tmp_path / f"out.fxt.{os.getpid()}.part")
    assert main(["recover", str(out)]) == 1
    message = capsys.readouterr().err
    assert " with 1 child process," in message
    assert f"{running} is left out: its process still runs\n" in message
    assert f"{tmp_path / of_older.name} is left out: it is not a part of this recording\n" in message
    assert "999999999.part is left out: it is not a part of this recording\n" in message
    left = {running.name, of_older.name, "out.fxt.999999999.part", "out.fxt.notes.part", "out.fxt", "older"}
    assert {path.name for path in tmp_path.iterdir()} == left
    assert len(check_trace(out, open_spans=True).spans("child")) == 1


def test_the_end_of_a_recording_leaves_parts_of_another_one(out: Path) -> None:
    killed(out, 1)
    (part,) = out.parent.glob("*.part")
    assert run("fxtio.instant('anew')", out, start=True).returncode == 0
    assert sorted(out.parent.iterdir()) == sorted([out, part])
    assert len(check_trace(out).names_of("process")) == 1


@pytest.mark.parametrize("where", ["trace", "part"])
def test_damage(where: str, out: Path, capsys: Capture) -> None:
    """After a power failure, recovery changes no file, and the message names `merge`."""
    killed(out, 1)
    (part,) = out.parent.glob("*.part")
    damaged = out if where == "trace" else part
    with open(damaged, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.write(bytes(4096) + (damaged.read_bytes())[:4096])
    before = {path: path.read_bytes() for path in out.parent.iterdir()}
    message = refused(capsys, out)
    assert message.startswith(f"fxtio: {damaged} is damaged at byte {end:,}; `fxtio merge`")
    assert {path: path.read_bytes() for path in out.parent.iterdir()} == before
    assert main(["merge", "-o", str(out.parent / "new.fxt"), str(out), str(part)]) == 1
    assert len(fxtio.open(out.parent / "new.fxt").info.processes) == 2


@pytest.mark.full
def test_a_record_that_is_cut_off(out: Path) -> None:
    killed(out)
    with open(out, "ab") as file:
        file.write(fxtio_record(5)[:-8])
    assert main(["recover", str(out)]) == 0
    check(out)


def fxtio_record(words: int) -> bytes:
    """Return a string record of this many words."""
    from fxtio.codec.generate import encode
    from fxtio.fxt.records import String

    return encode(String(1, "x" * 8 * (words - 1)))


def test_wrong_files(tmp_path: Path, capsys: Capture) -> None:
    text, empty = tmp_path / "text.fxt", tmp_path / "empty.fxt.zst.part"
    text.write_text("no recording " * 100)
    empty.touch()
    with fxtio.create(tmp_path / "written.fxt", wall_clock=1) as writer:
        writer.thread(1, 2).instant("name", 3)
    for path in (text, empty, tmp_path / "written.fxt", CORPUS / "fxt" / "magic-trace.fxt"):
        before = path.read_bytes()
        assert refused(capsys, path) == f"fxtio: {path.resolve()} is not a recording of fxtio\n"
        assert path.read_bytes() == before
    assert refused(capsys, tmp_path) == f"fxtio: {tmp_path} is not a regular file\n"
    assert (
        refused(capsys, tmp_path / "missing.fxt") == f"fxtio: {tmp_path / 'missing.fxt'}: No such file or directory\n"
    )
    assert "missing.fxt.gz.part: No such file" in refused(capsys, tmp_path / "missing.fxt.gz")


def test_files_of_a_recording_that_are_not_its_own(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.fxt.zst"
    killed(out, 1)
    (part,) = tmp_path.glob("*.[0-9]*.part")
    assert (
        refused(capsys, part) == f"fxtio: {part} is the part of a child process; recover {out}, which it belongs to\n"
    )
    assert main(["recover", str(out)]) == 0
    capsys.readouterr()
    assert refused(capsys, out) == f"fxtio: {out} is finished: there is no out.fxt.zst.part\n"


def test_an_error_while_it_writes(out: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    killed(out, 1)
    before = {path: path.read_bytes() for path in out.parent.iterdir()}

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", fail)
    assert "No space left" in refused(capsys, out)
    assert {path: path.read_bytes() for path in out.parent.iterdir()} == before


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="the name of a process is read from Linux' /proc")
def test_a_process_whose_name_is_no_text_is_alive() -> None:
    source = "open('/proc/self/comm', 'wb').write(b'\\xff) \\xfe'); print(flush=True); input()"
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        assert is_alive(process.pid)
        process.communicate(b"\n")
        assert not is_alive(process.pid)
