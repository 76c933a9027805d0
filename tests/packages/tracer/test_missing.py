"""An installation without the recorder: marks do nothing, recordings are refused, and everything else works.

Each program runs in a child process that cannot import the C extension, so these tests run on every installation.
"""

from __future__ import annotations

import gzip
import shutil
import signal
import textwrap
from pathlib import Path

import pytest

import fxtio
from fxtio._native import extensions
from support.forks import forker
from support.limits import PATIENCE
from support.tracer_check import check_trace
from support.tracer_recorder import recording
from support.tracer_run import Done

pytestmark = pytest.mark.native

BLOCKED = "import sys; sys.modules['fxtio._native._recorder'] = None\n"
COMMAND = "from fxtio.cli import main; sys.exit(main(sys.argv[1:]))"
SENTENCE = "the recorder, a C extension, is missing, so programs cannot be traced (it was not built "


def run(source: str, *arguments: str | Path, front: str = BLOCKED) -> Done:
    """Run a program in a process without the recorder, or with another reason in `front`."""
    program = front + textwrap.dedent(source)
    return Done([program], *forker("import os, sys").run(program, *map(str, arguments), timeout=PATIENCE))


MARKS = """
    import asyncio, warnings
    import fxtio
    warnings.simplefilter("error")
    def function(first, second=2):
        return first + second
    async def coroutine():
        async with asyncio.timeout(60):
            with fxtio.span("in a task"):
                return 3
    class Class:
        def method(self):
            return 4
        @staticmethod
        def static():
            return 5
    original = {name: vars(Class)[name] for name in ("method", "static")}
    traced = [fxtio.trace(function), fxtio.trace(args=True, result=True)(coroutine)]
    traced += [fxtio.trace(Class), fxtio.trace(len)]
    results = [traced[0](1), asyncio.run(traced[1]()), traced[2]().method(), traced[2].static(), traced[3]("abc")]
    with fxtio.span("outer", "category", number=1) as outer, outer, fxtio.span("inner"):
        outer.set(late=2)
        fxtio.instant("moment", "category", number=1)
        fxtio.counter("value", 1.5)
        fxtio.counter("series", a=1, b=2)
        arrow = fxtio.flow("arrow", "category")
        arrow.step()
        fxtio.flow("arrow", id=arrow.id).end()
        fxtio.log("message")
    try:
        with fxtio.span("fails"):
            raise KeyError("mine")
    except KeyError as error:
        results.append(error.args[0])
    print(results, fxtio.stop())
"""


def test_marks_do_nothing() -> None:
    done = run(
        MARKS
        + """
    print([traced[0] is function, traced[1] is coroutine, traced[2] is Class, traced[3] is len])
    print(all(vars(Class)[name] is value for name, value in original.items()))
    print(fxtio.span("a", "b", c=1) is fxtio.span("d"))
    """
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "[3, 3, 4, 5, 3, 'mine'] None\n[True, True, True, True]\nTrue\nTrue\n"


REFUSED = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name == "fxtio._native._recorder":
            raise RuntimeWarning("the interpreter lock has been enabled")
sys.meta_path.insert(0, Refusing())
"""


def test_a_warning_of_the_import_that_is_an_error() -> None:
    """A free-threaded CPython 3.13 warns when it loads the recorder, which needs the interpreter lock there."""
    done = run("import fxtio; fxtio.instant('moment'); fxtio.start('out.fxt')", front=REFUSED)
    assert "RecorderMissingError" in done.stderr
    assert "programs cannot be traced (the interpreter lock has been enabled)" in done.stderr


@pytest.mark.recorder
def test_the_program_behaves_as_with_the_recorder() -> None:
    with_recorder, without = (run(MARKS, front=front) for front in ("", BLOCKED))
    assert (without.stdout, without.stderr) == (with_recorder.stdout, with_recorder.stderr)


def test_wrong_marks_are_refused() -> None:
    done = run(
        """
        import fxtio
        for call in (fxtio.span, fxtio.instant, fxtio.counter):
            for arguments in ((), ("a", 1, "b", "c", "d")):
                try:
                    call(*arguments)
                except TypeError:
                    print("refused")
        """
    )
    assert done.stdout.split() == ["refused"] * 6


@pytest.mark.parametrize(
    "call", ["fxtio.start('out.fxt')", "fxtio.tracing('out.fxt').__enter__()", "fxtio.dump()", "fxtio.dump('out.fxt')"]
)
def test_recordings_are_refused(call: str) -> None:
    done = run(
        f"""
        import os
        import fxtio, fxtio.tracer
        try:
            {call}
        except fxtio.tracer.RecorderMissingError as error:
            assert isinstance(error, fxtio.FxtioError)
            print(error, os.path.exists("out.fxt"))
        """
    )
    assert done.stdout.startswith(SENTENCE), done.stderr
    hidden = f"({extensions.HIDDEN}); {extensions.REMEDY_IF_HIDDEN} False\n"
    if extensions.HIDDEN in done.stdout:  # a new installation would not help in a checkout
        assert done.stdout.endswith(hidden)
    else:
        assert done.stdout.endswith(f"; {extensions.REMEDY} False\n")


def test_the_remedy_fits_the_reason() -> None:
    assert extensions.remedy("it was not built when fxtio was installed") == extensions.REMEDY
    assert extensions.remedy(extensions.HIDDEN) == extensions.REMEDY_IF_HIDDEN


def test_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.fxt"
    done = run(COMMAND, "run", "-o", out, "-c", "print('started')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fxtio: {SENTENCE}")
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_the_environment_variable_is_refused(tmp_path: Path) -> None:
    """The program runs unrecorded, and the reason is reported once."""
    out = tmp_path / "out.fxt"
    # Set by the program itself: where fxtio is installed, `fxtio.pth` would start a recording before the block.
    front = (
        f"{BLOCKED}import os; os.environ['FXTIO'] = {str(out)!r}\n"
        "from fxtio.tracer.startup import start_from_environment as start; start(); start(); import fxtio\n"
    )
    done = run("with fxtio.span('work'): print('done')", front=front)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.startswith(f"fxtio: nothing is recorded: {SENTENCE}")
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_reading_and_writing_work(tmp_path: Path) -> None:
    done = run(
        """
        import fxtio
        from fxtio.fxt.records import String
        with fxtio.create(sys.argv[1]) as writer:
            writer.put(String(1, "here"))
        with fxtio.open(sys.argv[1]) as trace:
            print([record.text for record in trace if isinstance(record, String)])
        """,
        tmp_path / "out.fxt",
    )
    assert done.stdout == "['here']\n", done.stderr


@pytest.mark.recorder
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_recover_works(suffix: str, tmp_path: Path) -> None:
    live = tmp_path / "out.fxt"
    with recording(live):
        for number in range(5_000):
            fxtio.instant("here", number=number, text="x" * (number % 50))
    paths = [tmp_path / f"{label}.fxt{suffix}" for label in ("with", "without")]
    for path, front in zip(paths, ("import sys\n", BLOCKED), strict=True):
        done = run(COMMAND, "recover", "-o", path, live, front=front)
        assert done.returncode == 0, done.stderr
    results = [fxtio.open(path) for path in paths]
    assert list(results[0]) == list(results[1])
    assert results[1].table("events").num_rows == 5_000
    assert paths[1].stat().st_size < live.stat().st_size


CHILDREN = """
import os, signal, sys
import fxtio
fxtio.start(sys.argv[1])
with fxtio.span("parent"):
    for number in range(4):
        child = os.fork()
        if not child:
            for again in range(500):
                with fxtio.span("child", number=number, text="x" * (again % 50)):
                    pass
            if number % 2:
                fxtio.stop()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    fxtio.instant("last")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.recorder
@pytest.mark.parametrize("name", ["out.fxt", "out.fxt.gz"])
def test_recover_joins_the_parts_of_children(name: str, tmp_path: Path) -> None:
    """Two children ended their recordings and two did not, like their parent."""
    live = tmp_path / "live"
    live.mkdir()
    assert run(CHILDREN, live / name, front="").returncode == -signal.SIGKILL
    recorded = live / (name if name == "out.fxt" else f"{name}.part")
    images = []
    for label, front in (("with", "import sys\n"), ("without", BLOCKED)):
        folder = shutil.copytree(live, tmp_path / label)
        done = run(COMMAND, "recover", folder / recorded.name, front=front)
        assert done.returncode == 0, done.stderr
        assert "with 4 child processes" in done.stderr
        assert [path.name for path in folder.iterdir()] == [name]
        data = (folder / name).read_bytes()
        images.append(gzip.decompress(data) if name.endswith(".gz") else data)
    assert images[0] == images[1]
    seen = check_trace(tmp_path / "without" / name, open_spans=True)
    assert [span.args["number"] for span in seen.spans("child")] == [number for number in range(4) for _ in range(500)]
    assert len(seen.rows(kind="instant", name="last")) == 1


# ---- Why it is missing.


def test_an_import_that_fails_is_quoted(tmp_path: Path) -> None:
    """The extension cannot be imported if it was built for another interpreter."""
    broken = "fxtio._native._recorder"
    front = textwrap.dedent(f"""
        import sys
        class Finder:
            def find_spec(self, name, path, target=None):
                if name == {broken!r}:
                    raise ImportError("undefined symbol: _Py_Nothing")
        sys.meta_path.insert(0, Finder())
    """)
    done = run(COMMAND, "run", "-o", tmp_path / "out.fxt", "-c", "pass", front=front)
    assert "cannot be traced (undefined symbol: _Py_Nothing); install" in done.stderr
    version = run(COMMAND, "--version", front=front).stdout
    assert version.splitlines()[2] == "recorder: no, programs cannot be traced (undefined symbol: _Py_Nothing)"


def test_version_reports_the_missing_extension() -> None:
    lines = run(COMMAND, "--version").stdout.splitlines()
    assert lines[0] == f"fxtio {fxtio.__version__}"
    assert lines[2].startswith("recorder: no, programs cannot be traced (it was not built ")


def test_all_that_a_program_imports_can_be_imported() -> None:
    done = run(
        """
        import fxtio.tracer, fxtio.tracer.options, fxtio.tracer.session
        from fxtio.tracer import Recording, RecordingWarning, Summary
        for name in fxtio.tracer.__all__:
            getattr(fxtio.tracer, name)
        print("fine")
        """
    )
    assert done.stdout == "fine\n", done.stderr
