"""Threads, destructors and hooks that start, end and dump recordings while another start, end or dump is going on.

They may hold what that one needs to go on, such as the lock of the import system.  So none of them waits for long.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

HOOK = """
from pathlib import Path
import fxtio.tracer.session as session

def when(event, path, act):
    "Act once, the first time that the interpreter reports this event for a file whose name begins like that."
    def hook(name, args):
        nonlocal act
        if act and name == event and args and Path(str(args[0])).name.startswith(path):
            action, act = act, None
            action()
    sys.addaudithook(hook)

def elsewhere(function):
    "Return what the function returns or raises in another thread, or how long that takes."
    result = ["takes long"]
    def call():
        try:
            result[0] = function()
        except Exception as error:
            result[0] = f"{type(error).__name__}: {error}"
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    return result[0]
"""


def test_nobody_waits_for_a_start(out: Path) -> None:
    source = """
    class Output(os.PathLike):
        def __fspath__(self):
            "Called by the start."
            if not answers:
                answers.append(None)
                calls = fxtio.stop, fxtio.dump, in_block, lambda: fxtio.start(OUT)
                answers.extend(elsewhere(call) for call in calls)
                answers.extend(call() for call in calls[:3])
            return OUT
    def in_block():
        with fxtio.tracing(OUT + "2"):
            return "in block"
    answers = []
    fxtio.start(Output())
    print(*answers[1:], sep="\\n")
    print(fxtio.stop().path == Path(OUT), os.path.exists(OUT + "2"))
    """
    started = "RuntimeError: a recording is being started"
    answers = ["None", "None", "in block", started, "None", "None", "in block"]
    assert fine(HOOK + dedent(source), out).splitlines() == [*answers, "True False"]


def test_nobody_waits_long_for_an_end(out: Path) -> None:
    source = """
    fxtio.start(OUT)
    session.PATIENCE_S = 0.2
    def act():
        answers.append(elsewhere(fxtio.stop))
        answers.append(fxtio.stop())
        answers.append(elsewhere(lambda: fxtio.start(OUT)))
        answers.append(elsewhere(lambda: fxtio.start(OUT + "2.fxt") and "starts"))
        answers.append(elsewhere(lambda: fxtio.stop().path == Path(OUT + "2.fxt")))
    answers = []
    when("os.rename", "." + Path(OUT).stem, act)
    print(fxtio.stop().path == Path(OUT))
    print(*answers, sep="\\n")
    """
    busy = f"RuntimeError: a recording to {out} is still being finished"
    answers = ["None", "None", busy, "starts", "True"]
    assert fine(HOOK + dedent(source), out).splitlines() == ["True", *answers]
    for path in (out, Path(f"{out}2.fxt")):
        check_trace(path)


def test_another_end_waits_until_the_trace_is_finished(out: Path) -> None:
    source = """
    fxtio.start(OUT)
    def act():
        def end():
            entered.set()
            print("other", fxtio.stop(), is_finished)
        threading.Thread(target=end).start()
        entered.wait()
        time.sleep(0.1)
    entered, is_finished = threading.Event(), False
    when("os.rename", "." + Path(OUT).stem, act)
    def mark(name, args):
        global is_finished
        is_finished |= name == "os.rename"
    sys.addaudithook(mark)
    fxtio.stop()
    """
    assert fine(HOOK + dedent(source), out) == "other None True\n"


def test_a_start_waits_for_the_end_of_a_recording_with_the_same_name(out: Path) -> None:
    source = """
    fxtio.start(OUT)
    def act():
        def block():
            entered.set()
            with fxtio.tracing(OUT):
                fxtio.instant("second")
        thread = threading.Thread(target=block)
        thread.start()
        entered.wait()
        time.sleep(0.1)
    entered = threading.Event()
    fxtio.instant("first")
    when("os.rename", "." + Path(OUT).stem, act)
    fxtio.stop()
    """
    fine(HOOK + dedent(source), out)
    seen = check_trace(out)
    assert len(seen.rows(name="second")) == 1
    assert len(seen.rows(name="first")) == 0


def test_the_program_ends_when_recordings_of_threads_are_finished(out: Path) -> None:
    source = """
    fxtio.start(OUT)
    session.PATIENCE_S = 0.01
    when("os.rename", "." + Path(OUT).stem, lambda: (ending.set(), time.sleep(0.3)))
    ending = threading.Event()
    threading.Thread(target=fxtio.stop, daemon=True).start()
    ending.wait()
    print(fxtio.stop())
    """
    assert fine(HOOK + dedent(source), out) == "None\n"
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    check_trace(out)


def test_a_destructor_in_a_dump_does_not_wait_for_what_waits_for_the_dump(out: Path) -> None:
    source = """
    def act():
        thread.start()
        while not waiting._owners.get(thread.ident):
            time.sleep(0.001)
        begin = time.monotonic()
        print(fxtio.stop(), fxtio.dump(), time.monotonic() - begin < 4)  # it would wait for 5 seconds
    import fxtio.tracer.interrupts as waiting
    ended = []
    thread = threading.Thread(target=lambda: ended.append(fxtio.stop().path == Path(OUT)))
    fxtio.start(OUT)
    when("open", Path(OUT).parent.name, act)  # of the file without a name that a dump begins as
    print(fxtio.dump(OUT + "2") == Path(OUT + "2"))
    thread.join()
    print(*ended)
    """
    assert fine(HOOK + dedent(source), out).splitlines() == ["None None True", "True", "True"]
    check_trace(out)


@pytest.mark.parametrize("call", ["fxtio.start(OUT)", "fxtio.tracing(OUT).__enter__()"])
def test_nothing_is_recorded_when_the_interpreter_has_ended(call: str, out: Path) -> None:
    source = f"""
    fxtio.start, fxtio.tracing
    class Last:
        def __del__(self, fxtio=fxtio, OUT=OUT):
            try:
                {call}
            except RuntimeError as error:
                print(error)
            else:
                print("no error")
    kept = Last()
    """
    assert fine(source, out) == ("no error\n" if "tracing" in call else "Python is shutting down\n")
    assert list(out.parent.iterdir()) == []


SLOW_DUMP = """
fxtio.start(OUT, dump_on=["SIGUSR1"])
when("os.rename", "." + Path(OUT).stem + "-1", act)
import signal
signal.raise_signal(signal.SIGUSR1)
"""


def test_a_destructor_in_the_thread_of_a_dump_ends_the_recording(out: Path) -> None:
    source = """
    def act():
        print(fxtio.stop().path == Path(OUT), threading.get_ident() != threading.main_thread().ident)
        ended.release()
    ended = threading.Semaphore(0)
    """
    after = """
    print(ended.acquire(timeout=300), fxtio.stop())
    """
    assert fine(HOOK + dedent(source) + SLOW_DUMP + dedent(after), out) == "True True\nTrue None\n"


@pytest.mark.parametrize("ends", [False, True])
def test_the_program_ends_when_dumps_are_written(ends: bool, out: Path) -> None:
    source = """
    act = lambda: time.sleep(0.3)
    session.PATIENCE_S = 0.01
    """
    dump = out.with_name(f"{out.stem}-1.fxt")
    fine(HOOK + dedent(source) + SLOW_DUMP + "fxtio.stop()\n" * ends, out)
    assert {path.name for path in out.parent.iterdir()} == {out.name, dump.name}
    check_trace(dump)


def test_an_end_does_not_wait_long_for_a_dump_that_is_taken(out: Path) -> None:
    source = """
    import fxtio.tracer.recording as recording
    recording.PATIENCE_S = 0.2
    def act():
        print(elsewhere(lambda: fxtio.dump(OUT + "2")))
        print(elsewhere(fxtio.stop).path == Path(OUT))
    fxtio.start(OUT)
    when("open", Path(OUT).parent.name, act)  # of the file without a name that a dump begins as
    try:
        fxtio.dump()
    except OSError as error:
        print(error)
    """
    taken = f"TimeoutError: [Errno 110] another thread takes a dump: '{out}2'"
    ended = "[Errno 9] the recording has ended"
    assert fine(HOOK + dedent(source), out).splitlines() == [taken, "True", ended]
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    check_trace(out)
