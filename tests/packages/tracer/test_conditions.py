"""Bad conditions, such as a full disk: the program does not notice that it is recorded."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import fxtio
from fxtio.tracer.sources.hooks import Collections
from support.tracer_check import check_trace
from support.tracer_program import MUCH, WORK, check_loss_is_reported, inners
from support.tracer_run import fine, of_program, recorded, run

pytestmark = pytest.mark.recorder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that other users can read and write."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_max_size(out: Path) -> None:
    done = recorded(MUCH, out, max_size="4MiB")
    assert out.stat().st_size <= 4 << 20
    seen = check_trace(out, open_spans=True)
    assert inners(seen) == list(range(len(inners(seen))))
    assert 5_000 < len(inners(seen)) < 30_000
    check_loss_is_reported(seen, done.stderr)


@pytest.mark.parametrize("size", ["1MiB", "256KiB"])
def test_a_small_max_size_is_used(size: str, out: Path) -> None:
    done = recorded(MUCH, out, max_size=size)
    assert out.stat().st_size <= {"1MiB": 1 << 20, "256KiB": 1 << 18}[size]
    seen = check_trace(out, open_spans=True)
    assert inners(seen) == list(range(len(inners(seen))))
    assert len(inners(seen)) > 500
    check_loss_is_reported(seen, done.stderr)


def test_unused_disk_space_is_given_back(out: Path) -> None:
    program = "import fxtio.tracer.file as file; file._SQUEEZED_UP_TO = 0\n"
    recorded(program + "for _ in range(400_000): fxtio.instant('tick')", out)
    status = out.stat()
    assert status.st_size > 6_000_000
    assert status.st_blocks * 512 < status.st_size + 200_000


def test_ring(out: Path) -> None:
    done = recorded(MUCH, out, ring="1MiB")
    seen = check_trace(out, ring=True)
    values = inners(seen)
    assert values == list(range(30_000 - len(values), 30_000))
    assert len(values) > 1_000
    assert out.stat().st_size < 3 << 20
    assert of_program(done.stderr) == []


def test_limited_file_size(out: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))\n"
    done = recorded(limit + MUCH, out)
    seen = check_trace(out, open_spans=True)
    assert inners(seen) == list(range(len(inners(seen))))
    assert len(inners(seen)) > 1_000
    check_loss_is_reported(seen, done.stderr)


def test_a_start_without_disk_space_is_an_os_error(out: Path) -> None:
    printed = fine(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        try:
            fxtio.start(OUT)
        except OSError as error:
            print("refused", error.errno is not None)
        fxtio.instant("goes on")
        print(fxtio.stop(), os.listdir(os.path.dirname(OUT)))
        """,
        out,
    )
    assert printed == "refused True\nNone []\n"


REFUSED = """
import fxtio.io.sink, zstandard
fxtio.stop()  # what it needs is loaded while it can be read
if {user}:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    fxtio.start(OUT)
except OSError as error:
    print("refused", type(error).__name__)
else:
    print("started", fxtio.stop() is not None)
with fxtio.span("goes on"):
    pass
"""


def refusal(target: Path, *, user: bool = False) -> str:
    return fine(REFUSED.replace("{user}", str(user and os.geteuid() == 0)), target)


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
def test_a_folder_that_cannot_be_written(name: str, open_folder: Path) -> None:
    open_folder.chmod(0o555)
    assert refusal(open_folder / name, user=True) == "refused PermissionError\n"


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
def test_a_file_that_cannot_be_written(name: str, open_folder: Path) -> None:
    target = open_folder / name
    target.write_bytes(b"precious")
    target.chmod(0o444)
    assert refusal(target, user=True) == "refused PermissionError\n"
    assert target.read_bytes() == b"precious"
    assert list(open_folder.iterdir()) == [target]


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
def test_a_folder_as_target(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert refusal(tmp_path / name) == "refused IsADirectoryError\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_no_such_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none" / "out.fxt") == "refused FileNotFoundError\n"


def test_a_pipe_as_target_is_left_alone(out: Path) -> None:
    """Only regular files are replaced, no pipes or devices."""
    os.mkfifo(out)
    assert refusal(out).startswith("refused ")
    assert stat.S_ISFIFO(out.lstat().st_mode)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
def test_a_link_as_target_stays(name: str, tmp_path: Path) -> None:
    link, real = tmp_path / name, tmp_path / "real" / f"real-{name}"
    real.parent.mkdir()
    link.symlink_to(real)
    fine("with fxtio.tracing(OUT):\n    fxtio.instant('here')\n", link)
    assert link.is_symlink()
    assert check_trace(real).rows(name="here").size == 1


FULL_DISK = """
{work}
import warnings
kept = []
with fxtio.tracing(OUT):
    try:
        total = sum(work(n) for n in range(200_000))
    except OSError as error:
        print("failed", error)
print(total)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.system(f"mount -t tmpfs -o size=6m none {shlex.quote(str(folder))} 2>/dev/null"):
        pytest.skip("no small file system can be mounted here")
    try:
        out = folder / "out.fxt"
        done = run(FULL_DISK.replace("{work}", WORK), out)
        bare = sum(n * n for n in range(200_000))
        assert (done.returncode, done.stdout) == (0, f"{bare}\n"), done.stderr
        seen = check_trace(out, open_spans=True)
        assert len(inners(seen)) > 1_000
        assert inners(seen) == list(range(len(inners(seen))))
        check_loss_is_reported(seen, done.stderr)
    finally:
        os.system(f"umount {shlex.quote(str(folder))}")


def test_a_program_that_closes_all_descriptors(out: Path) -> None:
    done = recorded("os.closerange(3, 256)\n" + MUCH, out)
    values = inners(check_trace(out, open_spans=True))
    assert values == list(range(len(values)))
    assert len(values) > 100
    assert len(values) == 30_000 or "RecordingWarning" in done.stderr


def test_a_program_that_reuses_the_descriptor_of_the_trace(out: Path) -> None:
    """Nothing is written to a file of the program that has the descriptor of the trace, and it is not closed."""
    done = recorded(
        WORK
        + """
import tempfile
os.closerange(3, 256)
files = [tempfile.TemporaryFile() for _ in range(8)]
for number, file in enumerate(files):
    file.write(b"my own" + bytes([number]))
    file.flush()
print(sum(work(n) for n in range(30_000)))
for n in range(300):
    with fxtio.span(f"new name {n}"):
        pass
threading.Thread(target=work, args=(1,)).start()
fxtio.stop()
for number, file in enumerate(files):
    file.seek(0)
    print(number, file.read() == b"my own" + bytes([number]), file.fileno())
""",
        out,
    )
    assert "False" not in done.stdout
    check_trace(out, open_spans=True)


@pytest.mark.full
def test_a_ring_whose_descriptor_the_program_reuses(out: Path) -> None:
    """At every position in the ring: a part of it is mapped, and more may be mapped when it is needed."""
    source = """
    import contextlib, tempfile, warnings
    warnings.simplefilter("ignore")
    text = "x" * 900
    def record(events):
        for _ in range(events):
            fxtio.instant("here", text=text)
    def is_ours(descriptor):
        path = f"/proc/self/fd/{descriptor}"
        return os.path.exists(path) and os.readlink(path) == os.path.realpath(OUT)
    mine = b"m" * (12 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(mine)
        for round in range(40):  # the ring has 39 chunks, of 141 events each
            fxtio.start(OUT, ring="5MB")
            record(5_880 + round * 141)
            (descriptor,) = [int(name) for name in os.listdir("/proc/self/fd") if is_ours(name)]
            os.dup2(file.fileno(), descriptor)
            record(350)
            file.seek(0)
            print(end="" if file.read() == mine else f"changed in round {round} ")
            with contextlib.suppress(OSError):  # the recording stays as it was
                fxtio.stop()
            os.close(descriptor)
    """
    assert fine(source, out) == ""


def test_threads_without_room_for_a_chunk(out: Path) -> None:
    """The other threads are still recorded."""
    source = """
    barrier = threading.Barrier(41)
    def work():
        fxtio.instant("thread")
        barrier.wait()
    threads = [threading.Thread(target=work) for _ in range(40)]
    for thread in threads: thread.start()
    barrier.wait()
    for thread in threads: thread.join()
    for number in range(1_000): fxtio.instant("after", n=number)
    """
    done = recorded(textwrap.dedent(source), out, max_size="1MiB")
    seen = check_trace(out)
    assert 0 < len(seen.rows(name="thread")) < 40
    assert len(seen.rows(name="after")) == 1_000
    check_loss_is_reported(seen, done.stderr)


def test_a_program_that_changes_its_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    done = run(f"os.chdir({str(tmp_path)!r})\nfxtio.start('out.fxt')\nos.chdir('there')\nfxtio.instant('here')\n")
    assert (done.returncode, of_program(done.stderr)) == (0, [])
    assert [path.name for path in (tmp_path / "there").iterdir()] == []
    assert check_trace(tmp_path / "out.fxt").rows(name="here").size == 1


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst", "out.fxt.gz"])
def test_a_program_that_deletes_the_file(name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    recorded("import glob\nfor path in glob.glob(os.path.dirname(OUT) + '/out*'): os.unlink(path)\n" + MUCH, out)
    if out.exists():
        assert inners(check_trace(out)) == list(range(30_000))


@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.zst"])
@pytest.mark.parametrize("how", ["at exit", "block", "block with an error"])
def test_a_program_that_deletes_the_folder(how: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    delete = f"import shutil; shutil.rmtree({str(folder)!r}, ignore_errors=bool(OUT))\n"
    if how == "at exit":
        done = run(delete + MUCH, folder / name, start=True)
        assert (done.returncode, done.stdout) == (0, f"{sum(n * n for n in range(30_000))}\n"), done.stderr
        assert "fxtio: " in done.stderr or "RecordingWarning" in done.stderr
        return
    error = "raise KeyError('mine')" if how == "block with an error" else "pass"
    done = run(
        f"{WORK}\ntry:\n    with fxtio.tracing(OUT):\n        {delete}        print(work(3))\n        {error}\n"
        "except KeyError as error:\n    print('caught', error)\nprint('goes on')\n",
        folder / name,
    )
    caught = "caught 'mine'\n" if how == "block with an error" else ""
    assert (done.returncode, done.stdout) == (0, f"9\n{caught}goes on\n"), done.stderr
    assert "RecordingWarning" in done.stderr


def test_a_start_that_fails_leaves_nothing_behind(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise KeyboardInterrupt

    hooks, environment = sys.excepthook, dict(os.environ)
    with monkeypatch.context() as patched:
        patched.setattr(Collections, "start", refuse)
        with pytest.raises(KeyboardInterrupt):
            fxtio.start(out, sources=["exceptions", "gc"], dump_on="exception", functions=True)
    assert sys.excepthook is hooks
    assert dict(os.environ) == environment
    with fxtio.tracing(out), fxtio.span("works"):
        pass
    assert [span.name for span in check_trace(out).spans()] == ["works"]


def test_options_take_any_iterable_of_names(out: Path) -> None:
    for categories in ("mine", ["mine"], {"mine"}, (name for name in ["mine"])):
        with fxtio.tracing(out, categories=categories):
            fxtio.instant("here", "mine")
            fxtio.instant("not here", "other")
        assert check_trace(out).rows(kind="instant", category="mine").size == 1
        assert not check_trace(out).rows(name="not here").size
