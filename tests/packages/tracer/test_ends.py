"""All ways in which a program ends or forks: the trace is complete, and the program behaves the same."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fxtio.cli import main
from support.tracer_check import check_trace
from support.tracer_program import WORK, inners
from support.tracer_run import fine, of_program, recorded, run

pytestmark = pytest.mark.recorder


ENDS = {
    "end": "",
    "sys.exit": "sys.exit(3)",
    "text": "sys.exit('a text')",
    "exception": "raise ValueError('not handled')",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import signal; signal.raise_signal(signal.SIGINT)",
    "in thread": "threading.Thread(target=lambda: 1 / 0).start()",
    "in span": "with fxtio.span('last'): sys.exit(4)",
    "in function": "@fxtio.trace\ndef f(): raise LookupError('inside')\nf()",
}


@pytest.mark.full
@pytest.mark.parametrize("functions", [False, True], ids=["decorated", "functions"])
@pytest.mark.parametrize("how", ENDS)
def test_ends(how: str, functions: bool, out: Path) -> None:
    source = f"{WORK}print(work(5), flush=True)\n{ENDS[how]}\n"
    recorded(source, out, functions=functions, exclude=["threading"])
    seen = check_trace(out)
    assert inners(seen) == [5]
    if how == "in span":
        (last,) = seen.spans("last")
        assert last.args == {"exception": "SystemExit"}


@pytest.mark.full
@pytest.mark.parametrize("functions", [False, True], ids=["decorated", "functions"])
def test_daemon_threads_record_until_the_end(functions: bool, out: Path) -> None:
    source = """
    @fxtio.trace
    def work(n):
        with fxtio.span("inner", n=n):
            fxtio.instant("here")
    counts = [0, 0, 0]
    sys.setswitchinterval(1e-4)  # or much more would be recorded until all three have been running
    def forever(number):
        while True:
            work(counts[number])
            counts[number] += 1
    for number in range(3):
        threading.Thread(target=forever, args=[number], daemon=True).start()
    while min(counts) < 100:
        time.sleep(0.001)
    print("done")
    """
    recorded(textwrap.dedent(source), out, functions=functions)
    assert len(check_trace(out, open_spans=True).spans("inner")) > 100


@pytest.mark.parametrize("children", [True, False])
def test_forks(children: bool, out: Path) -> None:
    """A child that is forked in a thread while others record ends as it would, and is recorded if children are."""
    source = (
        WORK
        + """
def forever():
    n = 10**6
    while not done:
        work(n)
        n += 1
        time.sleep(0.0001)
def forker():
    for number in range(10):
        with fxtio.span("around"):
            child = os.fork()
            if not child:
                with fxtio.span("in child"):
                    work(-1)
                fxtio.counter("in child", 1)
                os._exit(number)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
done = False
others = [threading.Thread(target=forever) for _ in range(2)]
for other in others: other.start()
one = threading.Thread(target=forker)
one.start(); one.join()
done = True
for other in others: other.join()
child = os.fork()
if child:
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print("I am the child", flush=True)
    sys.exit(5)
"""
    )
    for _ in range(2):
        done = run(source, out, start=True, children=children)
        expected = "".join(f"{number}\n" for number in range(10)) + "I am the child\nchild 5\n"
        assert (done.returncode, done.stdout, of_program(done.stderr)) == (0, expected, [])
        seen = check_trace(out, open_spans=children)
        assert len(seen.spans("around")) == 10
        assert seen.rows(kind="counter", name="in child").size == (10 if children else 0)
        assert inners(seen).count(-1) == (10 if children else 0)
        assert len(seen.names_of("process")) == (12 if children else 1)
        assert list(out.parent.iterdir()) == [out]


def test_a_child_can_record_to_a_file_of_its_own(tmp_path: Path) -> None:
    source = """
    fxtio.start(OUT, children=False)
    with fxtio.span("parent"):
        child = os.fork()
        if not child:
            with fxtio.tracing(OUT.replace("out", "child")), fxtio.span("child"):
                pass
            os._exit(0)
        os.waitpid(child, 0)
    """
    fine(source, tmp_path / "out.fxt")
    parent, child = check_trace(tmp_path / "out.fxt"), check_trace(tmp_path / "child.fxt")
    assert [span.name for span in parent.spans()] == ["parent"]
    assert [span.name for span in child.spans()] == ["child"]
    assert set(parent.names_of("process")) != set(child.names_of("process"))


@pytest.mark.parametrize("children", [True, False])
@pytest.mark.parametrize("preexec", ["None", "lambda: fxtio.instant('in child')"])
def test_subprocesses(preexec: str, children: bool, out: Path) -> None:
    source = f"""
import subprocess
for number in range(2):
    with fxtio.span("call", n=number):
        print(subprocess.run([sys.executable, "-c", "print(1)"], preexec_fn={preexec}, capture_output=True).stdout)
"""
    recorded(source, out, children=children)
    seen = check_trace(out)
    assert len(seen.spans("call")) == 2
    assert seen.rows(name="in child").size == (2 if children and preexec != "None" else 0)
    assert list(out.parent.iterdir()) == [out]


def test_a_daemon_closes_what_it_inherited(out: Path) -> None:
    source = """
    print("begin", flush=True)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        os.closerange(3, 256)
        os.setsid()
        print("daemon", flush=True)
        os._exit(0)
    """
    recorded(textwrap.dedent(source), out)
    check_trace(out)


def test_a_child_that_outlives_its_parent(out: Path, tmp_path: Path) -> None:
    """Its part stays beside the trace, the summary names it, and `fxtio merge` joins them."""
    source = """
    import signal
    ready, going = os.pipe(), os.pipe()
    fxtio.start(OUT)
    with fxtio.span("parent"):
        child = os.fork()
    if not child:
        with fxtio.span("child"):
            os.write(ready[1], b"1")
            os.read(going[0], 1)
        fxtio.stop()
        os._exit(0)
    os.read(ready[0], 1)
    summary = fxtio.stop()
    print(summary.parts, *[path.name for path in summary.left])
    os.write(going[1], b"1")
    os.waitpid(child, 0)
    """
    parts, left = fine(source, out).split()
    assert parts == "0"
    assert [span.name for span in check_trace(out).spans()] == ["parent"]
    merged = tmp_path / "merged.fxt"
    assert main(["merge", "-o", str(merged), str(out), str(out.with_name(left))]) == 0
    assert {span.name for span in check_trace(merged).spans()} == {"parent", "child"}
