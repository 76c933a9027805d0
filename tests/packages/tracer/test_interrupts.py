"""Code of the program that the recorder runs: exceptions that it raises, and recordings that it ends."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

PRELUDE = """
import signal
def handler(*_):
    raise KeyboardInterrupt("mine")
signal.signal(signal.SIGUSR1, handler)
class Raising:
    "A signal comes while it describes itself."
    def __repr__(self):
        signal.raise_signal(signal.SIGUSR1)
        return "never"
def interrupted(call):
    try:
        call()
    except KeyboardInterrupt as error:
        return str(error)
fxtio.start(OUT)
"""


@pytest.mark.parametrize(
    "source",
    [
        "print(interrupted(lambda: fxtio.instant('here', a=Raising(), b=2**63, c=-(2**70))))",
        """
        def late():
            with fxtio.span("here") as span:
                span.set(a=Raising(), b=2**70)
        print(interrupted(late))
        """,
        """
        @fxtio.trace(result=True)
        def gives():
            return Raising()
        print(interrupted(gives))
        """,
        """
        @fxtio.trace(args=True)
        def takes(value):
            return 1
        print(interrupted(lambda: takes(Raising())))
        """,
        """
        class Number:
            def __float__(self):
                signal.raise_signal(signal.SIGUSR1)
        print(interrupted(lambda: fxtio.counter("counter", Number())))
        """,
    ],
    ids=["instant", "late", "result", "argument", "counter"],
)
def test_an_interrupt_reaches_the_program(source: str, out: Path) -> None:
    assert fine(PRELUDE + textwrap.dedent(source), out) == "mine\n"
    check_trace(out, open_spans=True)


def test_an_interrupt_stays_in_its_thread(out: Path) -> None:
    source = """
    seen, going = [], True
    def other():
        while going:
            try:
                fxtio.instant("other")
            except BaseException as error:
                seen.append(error)
            time.sleep(0)
    class Slow:
        def __repr__(self):
            time.sleep(0.05)
            return "slow"
    thread = threading.Thread(target=other)
    thread.start()
    print(interrupted(lambda: fxtio.instant("here", a=Raising(), b=Slow())))
    going = False
    thread.join()
    print(seen)
    """
    assert fine(PRELUDE + textwrap.dedent(source), out) == "mine\n[]\n"


@pytest.mark.parametrize(
    "method",
    ["__hash__(self): fxtio.stop(); return str.__hash__(self)", "__eq__(self, other): fxtio.stop(); return False"],
    ids=["hash", "eq"],
)
def test_a_string_method_that_ends_the_recording(method: str, out: Path) -> None:
    source = f"""
    class Text(str):
        __hash__ = str.__hash__
        def {method}
    fxtio.start(OUT)
    fxtio.instant("text"); fxtio.instant("text", a=1)
    for call in (lambda: fxtio.instant(Text("text")), lambda: fxtio.instant("here", Text("text")),
                 lambda: fxtio.instant("here", **{{Text("text"): 1}}), lambda: fxtio.log(Text("text"))):
        call()
        fxtio.stop()
        fxtio.start(OUT)
    print("survived")
    """
    assert fine(source, out) == "survived\n"


def test_a_finalizer_that_ends_the_recording(out: Path) -> None:
    source = """
    import gc
    class Last:
        def __init__(self): self.me = self
        def __del__(self): fxtio.stop()
    for number in range(40):
        fxtio.start(OUT)
        gc.collect(); gc.disable()
        Last()
        gc.set_threshold(number + 1); gc.enable()
        fxtio.instant(f"name {number}", "category")
        with fxtio.span("span") as span:
            span.set(a=1)
        gc.set_threshold(700)
        fxtio.stop()
    print("survived")
    """
    assert fine(source, out) == "survived\n"


def test_a_collection_that_ends_the_recording(out: Path) -> None:
    """The collection begins while a span is created, whose site nothing else refers to."""
    source = """
    import gc
    kept = []
    class Last:
        def __init__(self): self.me = self
        def __del__(self):
            fxtio.stop()
            kept.extend([bytes([65]) * size for size in range(100, 470, 8) for _ in range(100)])
    def span(name):
        return fxtio.span(name, "category")
    gc.disable()
    fxtio.start(OUT)
    spans = [span("held") for _ in range(200)]  # more than the recorder keeps for reuse
    span("fresh")
    spans.append(span("held"))
    Last()
    gc.set_threshold(1); gc.enable()
    fresh = span("fresh")
    with fresh:
        gc.disable()
    print("survived")
    """
    assert fine(source, out) == "survived\n"


def test_threads_that_begin_while_the_recording_ends(out: Path) -> None:
    source = """
    sys.setswitchinterval(1e-6)
    for number in range(50):
        fxtio.start(OUT, functions=True)
        names = {}
        exec(compile("def first(n):\\n return n", f"new{number}.py", "exec"), names)
        threads = [threading.Thread(target=names["first"], args=(1,)) for _ in range(6)]
        for thread in threads: thread.start()
        if number % 2: fxtio.stop()
        for thread in threads: thread.join()
        fxtio.stop()
    print("survived")
    """
    assert fine(source, out) == "survived\n"


def test_without_a_working_directory(tmp_path: Path) -> None:
    source = """
    import tempfile
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    sys.path[:0] = ["", None, b"bytes"]
    fxtio.start(OUT, functions=True, include=["here.py", "elsewhere/"])
    names = {}
    exec(compile("def here(): return 1", "here.py", "exec"), names)
    print(names["here"]())
    """
    assert fine(source, tmp_path / "out.fxt") == "1\n"
