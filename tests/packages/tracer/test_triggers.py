"""The triggers of dumps, and that the program behaves the same with them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fxtio
from fxtio.tracer import flight
from support.limits import PATIENCE
from support.tracer_check import Seen, check_trace
from support.tracer_run import fine, recorded, run

pytestmark = pytest.mark.recorder


def marks(seen: Seen) -> list[tuple[str, str]]:
    """Return the reasons of dumps and the names of their files."""
    arguments = [seen.args(int(row)) for row in seen.rows(name="dump", category="fxtio")]
    return [(args["reason"], Path(args["path"]).name) for args in arguments]


# ---- Exceptions.


FAILS = """
def fail():
    with fxtio.span("request"):
        raise KeyError("mine")
"""


@pytest.mark.parametrize("functions", [False, True])
def test_an_exception_ends_the_program(functions: bool, out: Path) -> None:
    done = recorded(FAILS + "fail()", out, dump_on=["exception"], functions=functions)
    assert done.returncode == 1
    assert "KeyError: 'mine'" in done.stderr
    assert "flight" not in done.stderr
    (span,) = check_trace(out.with_name("out-1.fxt")).spans("request")
    assert span.args["exception"] == "KeyError"
    assert marks(check_trace(out)) == [("exception KeyError", "out-1.fxt")]
    assert len(list(out.parent.iterdir())) == 2


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise KeyboardInterrupt", "pass"])
def test_exceptions_that_end_a_program_on_purpose(ending: str, out: Path) -> None:
    recorded(ending, out, dump_on=["exception"])
    assert marks(check_trace(out)) == []
    assert [path.name for path in out.parent.iterdir()] == ["out.fxt"]


def test_an_exception_ends_a_thread(out: Path) -> None:
    done = recorded(
        FAILS
        + """
def own(args):
    print("own", args.exc_type.__name__, args.thread.name)
threading.Thread(target=sys.exit).start()
for n in range(3):
    if n == 2:
        threading.excepthook = own
    thread = threading.Thread(target=fail, name=f"worker {n}")
    thread.start()
    thread.join()
fxtio.stop()
print(threading.excepthook is own)
""",
        out,
        dump_on=["exception"],
    )
    assert done.stdout == "own KeyError worker 2\nTrue\n"
    assert done.stderr.count("KeyError: 'mine'") == 2
    assert marks(check_trace(out)) == [("exception KeyError", "out-1.fxt")]  # the others came too soon


@pytest.mark.parametrize("when", ["before", "after, telling", "after"])
def test_the_hook_of_the_program_is_called(when: str, out: Path) -> None:
    """If the program replaces the handler of fxtio, the dump is taken at the end."""
    dumped = "{name for name in os.listdir(os.path.dirname(OUT)) if name == 'out-1.fxt'}"
    telling = "before(*args)" if when == "after, telling" else ""
    start = "fxtio.start(OUT, dump_on=['exception'])\n"
    hook = f"""
before = sys.excepthook
def own(*args):
    {telling}
    print(args[0].__name__, args[1], len({dumped}), flush=True)
sys.excepthook = own
"""
    done = run((hook + start if when == "before" else start + hook) + FAILS + "fail()", out)
    assert (done.returncode, done.stdout) == (1, f"KeyError 'mine' {int(when != 'after')}\n"), done.stderr
    assert len(check_trace(out.with_name("out-1.fxt")).spans("request")) == 1
    assert marks(check_trace(out)) == [("exception KeyError", "out-1.fxt")]


def test_hooks_are_restored(out: Path) -> None:
    def own(*_: object) -> None: ...

    before = sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGUSR2)
    with fxtio.tracing(out, dump_on=["exception", "SIGUSR2"]):
        assert sys.excepthook is not before[0]
        assert threading.excepthook is not before[1]
        assert signal.getsignal(signal.SIGUSR2) is not before[2]
    assert (sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGUSR2)) == before
    try:
        with fxtio.tracing(out, dump_on=["exception", "SIGUSR2"]):
            sys.excepthook = threading.excepthook = own
            signal.signal(signal.SIGUSR2, own)
        assert (sys.excepthook, threading.excepthook, signal.getsignal(signal.SIGUSR2)) == (own, own, own)
    finally:
        sys.excepthook, threading.excepthook = before[:2]
        signal.signal(signal.SIGUSR2, before[2])


def test_a_hook_that_cannot_be_removed_takes_no_dumps(out: Path) -> None:
    """The program has wrapped the hook of fxtio, and still calls it after the end."""
    done = run(
        """
        fxtio.start(OUT, dump_on=["exception"])
        ours = sys.excepthook
        sys.excepthook = lambda *args: ours(*args)
        fxtio.stop()
        fxtio.start(OUT)
        1 / 0
        """,
        out,
    )
    assert "ZeroDivisionError" in done.stderr
    assert "flight" not in done.stderr.replace("fxtio.tracer.flight", "")
    assert [path.name for path in out.parent.iterdir()] == ["out.fxt"]


# ---- Signals.


def test_signals_take_dumps(out: Path) -> None:
    done = run(
        """
        import signal
        fxtio.start(OUT, dump_on=["SIGUSR2", "SIGUSR2"])
        for n in range(3):
            fxtio.instant("step", n=n)
            os.kill(os.getpid(), signal.SIGUSR2)
        fxtio.stop()
        print(signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL, flush=True)
        os.kill(os.getpid(), signal.SIGUSR2)
        """,
        out,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGUSR2, "True\n")
    assert "no dump" not in done.stderr, done.stderr
    names = [f"out-{number}.fxt" for number in (1, 2, 3)]
    assert [len(check_trace(out.with_name(name)).rows(name="step")) for name in names] == [1, 2, 3]
    assert marks(check_trace(out)) == [("SIGUSR2", name) for name in names]


def test_the_handler_of_the_program_is_called(out: Path) -> None:
    done = run(
        """
        import signal
        dumps = lambda: len(os.listdir(os.path.dirname(OUT))) - 1
        def own(number, frame):
            print("own", signal.Signals(number).name, frame.f_code.co_name, dumps())
            raise KeyError("mine")
        signal.signal(signal.SIGTERM, own)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fxtio.start(OUT, dump_on=["SIGTERM", "SIGINT", "SIGHUP", "SIGWINCH"])
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGWINCH, signal.SIGWINCH):
            try:
                os.kill(os.getpid(), number)
                time.sleep(0)
            except (KeyError, KeyboardInterrupt) as error:
                print(repr(error))
        print(dumps())
        fxtio.stop()
        print(signal.getsignal(signal.SIGTERM) is own, signal.getsignal(signal.SIGINT).__name__)
        """,
        out,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "own SIGTERM <module> 1\nKeyError('mine')\nKeyboardInterrupt()\n5\nTrue default_int_handler\n"
    assert [reason for reason, _ in marks(check_trace(out))] == ["SIGTERM", "SIGINT", "SIGHUP", *["SIGWINCH"] * 2]


def test_a_signal_still_ends_the_program(out: Path) -> None:
    done = recorded(
        "import signal\nfxtio.instant('here')\nos.kill(os.getpid(), signal.SIGTERM)", out, dump_on=["SIGTERM"]
    )
    assert done.returncode == -signal.SIGTERM
    assert len(check_trace(out.with_name("out-1.fxt")).rows(name="here")) == 1
    assert marks(check_trace(out)) == [("SIGTERM", "out-1.fxt")]


def test_a_signal_that_cannot_be_handled(out: Path) -> None:
    done = run(
        """
        def begin():
            fxtio.start(OUT, dump_on=["SIGUSR2", "slow:1ns"])
        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        with fxtio.span("any"):
            pass
        """,
        out,
    )
    assert done.returncode == 0, done.stderr
    assert "fxtio: no dump on SIGUSR2: only the main thread can install a signal handler" in done.stderr
    assert marks(check_trace(out)) == [("slow any", "out-1.fxt")]


# ---- Slow spans.


def test_a_slow_span(out: Path) -> None:
    with fxtio.tracing(out, dump_on=["slow:300ms", "slow:3600s"]), fxtio.span("outer", n=1):
        with fxtio.span("quick"):
            pass
        with fxtio.span("sluggish"):
            time.sleep(0.31)
        fxtio.instant("after")
    seen = check_trace(out.with_name("out-1.fxt"), open_spans=True)
    assert [(span.name, span.end_row >= 0) for span in seen.spans()] == [
        ("outer", False),
        ("quick", True),
        ("sluggish", True),
    ]
    whole = check_trace(out)
    assert marks(whole) == [("slow sluggish", "out-1.fxt")]
    assert [whole.names[row] for row in whole.rows(kind="instant")][1:] == ["dump", "after"]
    assert len(list(out.parent.iterdir())) == 2


def test_no_span_is_slow(out: Path) -> None:
    with fxtio.tracing(out, dump_on=["slow:3600s"]):
        reused = fxtio.span("reused")
        for _ in range(3):
            with reused, reused:
                pass
    assert marks(check_trace(out)) == []


def test_spans_of_all_kinds_can_be_slow(out: Path) -> None:
    printed = fine(
        """
        import asyncio, contextlib
        from fxtio.tracer import flight, session
        flight.MIN_INTERVAL_NS = 0
        fxtio.start(OUT, dump_on=["slow:1ns"], categories=["-not"])
        def wait():
            session._process.recording._dumps.wait()
        with fxtio.span("with arguments", n=1):
            pass
        wait()
        with fxtio.span("left out", "not"):
            pass
        span = fxtio.span("in a thread")
        thread = threading.Thread(target=span.__enter__)
        thread.start()
        thread.join()
        span.__exit__(None, None, None)
        wait()
        async def task():
            with fxtio.span("in a task"):
                await asyncio.sleep(0.001)
        asyncio.run(task())
        wait()
        try:
            with fxtio.span("failing") as span:
                span.set(late=1)
                raise KeyError
        except KeyError:
            pass
        wait()
        with contextlib.ExitStack() as stack:
            stack.enter_context(fxtio.span("of a stack"))
        """,
        out,
    )
    assert printed == ""
    reasons = ["with arguments", "in a thread", "in a task", "failing", "of a stack"]
    seen = check_trace(out)
    assert sorted(marks(seen)) == sorted((f"slow {reason}", f"out-{at + 1}.fxt") for at, reason in enumerate(reasons))
    for at, reason in enumerate(reasons):
        (span,) = check_trace(out.with_name(f"out-{at + 1}.fxt")).spans(reason)
        assert span.end > span.start


def test_not_too_many(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "MIN_INTERVAL_NS", 0)
    monkeypatch.setattr(flight, "MAX_DUMPS", 2)
    with fxtio.tracing(out, dump_on=["slow:1ns", "exception"]):
        for number in range(50):
            with fxtio.span("each", n=number):
                pass
            time.sleep(0.002)
        for _ in range(3):
            sys.excepthook(KeyError, KeyError("mine"), None)
    reasons = [reason for reason, _ in marks(check_trace(out))]
    assert reasons == ["slow each"] * 2 + ["exception KeyError"] * 2
    assert len(list(out.parent.iterdir())) == 5


def test_a_dump_that_fails_is_reported(tmp_path: Path) -> None:
    out = tmp_path / "removed" / "out.fxt"
    out.parent.mkdir()
    done = run(
        """
        import shutil, signal
        fxtio.start(OUT, dump_on=["exception", "SIGUSR2", "slow:1ns"])
        shutil.rmtree(os.path.dirname(OUT))
        with fxtio.span("any"):
            pass
        os.kill(os.getpid(), signal.SIGUSR2)
        threading.Thread(target=lambda: 1 / 0).start()
        """,
        out,
    )
    assert done.returncode == 0, done.stderr
    reasons = re.findall(r"fxtio: no dump \((.*)\): .*: No such file or directory\n", done.stderr)
    assert sorted(reasons) == ["SIGUSR2", "exception ZeroDivisionError", "slow any"]


# ---- Options.


@pytest.mark.parametrize(
    "wrong", ["never", "exception:1", "SIGKILL", "SIGNOT", "slow", "slow:", "slow:0", "slow:x", ""]
)
def test_wrong_triggers_are_refused(wrong: str, out: Path) -> None:
    with pytest.raises(ValueError, match=r"trigger|time"):
        fxtio.start(out, dump_on=["exception", wrong])
    assert fxtio.stop() is None
    assert list(out.parent.iterdir()) == []


def test_a_trigger_that_lacks_its_time_is_told_how_to_write_it(out: Path) -> None:
    with pytest.raises(ValueError, match=r"^'slow' is not a trigger, such as .*slow:100ms"):
        fxtio.start(out, dump_on=["slow"])


def test_by_the_command_and_the_environment(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text("import fxtio, os\nwith fxtio.span('any'): pass\nos.kill(os.getpid(), 12)\nraise KeyError\n")
    triggers = ["exception", "SIGUSR2", "slow:1ns"]
    given = [part for trigger in triggers for part in ("--dump-on", trigger)]
    command = [sys.executable, "-P", "-m", "fxtio", "run", "-q", "-o", str(tmp_path / "run.fxt"), *given, str(program)]
    of_command = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    options = f'{{"dump_on": {triggers!s}}}'.replace("'", '"')
    environment = os.environ | {"FXTIO": str(tmp_path / "env.fxt"), "FXTIO_OPTIONS": options}
    source = f"from fxtio.tracer import startup; startup.start_from_environment(); exec(open({str(program)!r}).read())"
    of_environment = subprocess.run(
        [sys.executable, "-P", "-c", source],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )
    for done, name in ((of_command, "run"), (of_environment, "env")):
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == "KeyError"
        reasons = [reason for reason, _ in marks(check_trace(tmp_path / f"{name}.fxt"))]
        assert reasons == ["slow any", "SIGUSR2", "exception KeyError"]
        assert len(list(tmp_path.glob(f"{name}-*.fxt"))) == 3


def test_the_program_calls_the_hook_without_an_exception(out: Path) -> None:
    source = """
    import sys
    sys.excepthook(*sys.exc_info())
    print("goes on")
    """
    done = recorded(source, out, dump_on=["exception"])
    assert done.stdout == "goes on\n"
    assert not out.with_name("out-1.fxt").exists()
