"""Programs that patch what the tracer might use, or fail in what the tracer calls: they notice nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.limits import PATIENCE
from support.tracer_check import check_trace
from support.tracer_run import fine, recorded

pytestmark = pytest.mark.recorder

FRESH = """
from unittest import mock
def fresh(name, body="return 1"):
    scope = {"mock": mock}
    exec(compile(f"def {name}(*args):\\n {body}", f"fresh/{name}.py", "exec"), scope)
    return scope[name]
calls = []
def fails(*args, **kwargs):
    calls.append(args)
    raise ValueError("patched")
first, second, third = fresh("first"), fresh("second"), fresh("third", "return len(args)")
"""

PATCHED = {
    "getcwd": "with mock.patch('os.getcwd', fails): print(first(), second(), third(1, 2), calls)",
    "abspath": "with mock.patch('os.path.abspath', fails): print(first(), second(), third(1, 2), calls)",
    "normpath": "with mock.patch('os.path.normpath', fails): print(first(), second(), third(1, 2), calls)",
    "path": "with mock.patch('sys.path', None): print(first(), second(), third(1, 2), calls)",
    "weird path": "with mock.patch('sys.path', [None, 3, b'x', 'relative']): print(first(), second(), calls)",
    "compiled": "with mock.patch('re.compile', fails), mock.patch('fnmatch.fnmatchcase', fails): print(first(), calls)",
    "task": """
        import asyncio
        async def main():
            with mock.patch("asyncio.current_task", fails), mock.patch("asyncio.tasks.current_task", fails):
                await asyncio.sleep(0)
                with fxtio.span("in task"): print(first(), calls)
        asyncio.run(main())
    """,
    "mro": """
        class Meta(type):
            def mro(cls):
                names = [base.__name__ for base in super().mro()]
                print(cls.__mro__, cls.__subclasses__(), names)
                return super().mro()
        class Made(metaclass=Meta): pass
    """,
    "module": """
        import types
        module = types.ModuleType("some")
        module.__name__ = None
        del math.__name__
        print(math.floor(1.5), module)
        math.__name__ = 5
        print(math.ceil(1.5))
    """,
    "class": """
        class Meta(type):
            __module__ = property(fails)
            __mro__ = property(fails)
        class Derived(list, metaclass=Meta):
            __class__ = property(fails)
        derived = Derived()
        derived.append(1)
        print(derived, calls)
    """,
    "thread": """
        class Thread(threading.Thread):
            native_id = name = property(fails, lambda *_: None)
        thread = Thread(target=lambda: print(first()))
        thread.start(); thread.join()
        print(calls)
    """,
    "signal": """
        import signal
        class Failing:
            def __repr__(self): raise ValueError("mine")
        with mock.patch("signal.getsignal", fails), mock.patch("signal.valid_signals", fails):
            fxtio.instant("here", a=Failing())
        print(calls)
    """,
}


@pytest.mark.full
@pytest.mark.parametrize("patch", PATCHED)
def test_what_a_program_patches_is_not_called(patch: str, out: Path) -> None:
    source = f"import math{FRESH}{textwrap.dedent(PATCHED[patch])}"
    recorded(source, out, functions=True, c_functions=True, include=["fresh/", "__main__", "<string>", "mock*"])
    check_trace(out, open_spans=True)


VALUES = """
import signal, functools
class Fails:
    def __init__(self, error): self.error = error
    def __repr__(self): raise self.error
    __float__ = __index__ = __repr__
class Interrupted:
    def __init__(self, act): self.act = act
    def __repr__(self):
        self.act()
        for _ in range(100): pass
        return "never"
    def __float__(self): return float(len(repr(self)))
class Plain:
    def __repr__(self): return repr([1])
@fxtio.trace(args=True)
def takes(a, b): return 1
@fxtio.trace(args=True)
def takes_any(*a, **b): return 1
@fxtio.trace(result=True)
def gives(a, b): return a
@fxtio.trace(args=True, result=True)
def generates(a, b):
    yield 1
    return a
@fxtio.trace(args=True, result=True)
async def waits(a, b): return b
def run(coroutine):
    try: coroutine.send(None)
    except StopIteration as stop: pass
def late(a, b):
    with fxtio.span("late") as span: span.set(a=a, b=b)
def early(a, b):
    with fxtio.span("early", a=a, b=b): pass
WAYS = {
    "takes": takes, "takes_any": takes_any, "gives": gives, "generates": lambda a, b: list(generates(a, b)),
    "waits": lambda a, b: run(waits(a, b)), "early": early, "late": late,
    "instant": lambda a, b: fxtio.instant("instant", a=a, b=b), "counter": lambda a, b: fxtio.counter("c", a=a, b=b),
}
def outcome(call, *args):
    try:
        call(*args)
        return "fine"
    except BaseException as error:
        return f"{type(error).__name__}({error})"
fxtio.start(OUT)
"""


def test_failures_of_values_stay_with_the_tracer(out: Path) -> None:
    source = """
    errors = [ValueError(), SystemExit(3), GeneratorExit(), KeyboardInterrupt("mine"), StopIteration(), BaseException()]
    print({outcome(call, *pair) for call in WAYS.values() for error in errors
           for pair in ((Fails(error), Plain()), (Plain(), Fails(error)), ([Fails(error)], 2**70))})
    """
    assert fine(VALUES + textwrap.dedent(source), out) == "{'fine'}\n"
    check_trace(out)


@pytest.mark.parametrize(
    ("install", "act"),
    [
        ("", "signal.raise_signal(signal.SIGINT)"),
        ("signal.signal(signal.SIGUSR1, raising)", "signal.raise_signal(signal.SIGUSR1)"),
        ("signal.signal(signal.SIGUSR1, lambda *_: raising(*_))", "signal.raise_signal(signal.SIGUSR1)"),
        ("signal.signal(signal.SIGUSR1, once)", "signal.raise_signal(signal.SIGUSR1)"),
        ("signal.signal(signal.SIGUSR1, Handler())", "signal.raise_signal(signal.SIGUSR1)"),
        ("signal.signal(signal.SIGUSR1, functools.partial(Handler().__call__))", "signal.raise_signal(signal.SIGUSR1)"),
        ("", "asynchronous()"),
        ("", "asynchronous_in_c()"),
        ("", "asynchronous_in_c(Verbose)"),
    ],
    ids=["default", "function", "lambda", "once", "object", "partial", "thread", "thread in C", "with a message"],
)
def test_interrupts_of_values_reach_the_program(install: str, act: str, out: Path) -> None:
    source = f"""
    import _thread, ctypes
    class Mine(BaseException): pass
    def raising(number, frame): raise Mine
    def once(number, frame):
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        raise Mine
    class Handler:
        def __call__(self, number, frame): raise Mine
    def asynchronous():
        main = ctypes.c_ulong(threading.get_ident())
        is_looping = []
        def set_it():
            while not is_looping: time.sleep(0.0001)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(Mine))
        threading.Thread(target=set_it).start()
        is_looping += [1]
        while True: pass
    class Verbose(BaseException):
        def __init__(self, message="too late"): super().__init__(message)
    def asynchronous_in_c(kind=Mine):
        main = ctypes.c_ulong(threading.get_ident())
        lock = threading.Lock()
        lock.acquire()
        def set_it():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(kind))
            lock.release()
        _thread.start_new_thread(set_it, ())
        lock.acquire()
    def act(): {act}
    for name, call in WAYS.items():
        for pair in ((Interrupted(act), Plain()), (Plain(), Interrupted(act)), (Interrupted(act), Interrupted(act))):
            {install or "pass"}
            result = outcome(call, *pair)
            if result not in ("Mine()", "Verbose(too late)", "KeyboardInterrupt()"):
                print(name, type(pair[0]).__name__, result)
    """
    unrecorded_values = {"gives Plain fine", "generates Plain fine", "waits Interrupted fine"}
    assert set(fine(VALUES + textwrap.dedent(source), out).splitlines()) <= unrecorded_values
    check_trace(out)


def test_failures_in_c_stay_with_the_tracer_where_exceptions_are_set(out: Path) -> None:
    """The program sets exceptions in threads, but these are no such ones."""
    source = """
    import asyncio, ctypes, json
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(0), None)
    cancelled = asyncio.Future(loop=asyncio.new_event_loop())
    cancelled.cancel()
    class InC:
        def __init__(self, call): self.call = call
        def __repr__(self):
            self.call()
            return "never"
    def parse(): json.decoder.scanner.c_make_scanner(json.JSONDecoder())("{1", 0)
    for call in (cancelled.result, iter(()).__next__, {}.popitem, lambda: int("x"), parse):
        print({outcome(way, *pair) for way in WAYS.values() for pair in ((InC(call), 1), (1, InC(call)))
               if way not in (WAYS["counter"],)})
    """
    assert fine(VALUES + textwrap.dedent(source), out) == "{'fine'}\n" * 5
    check_trace(out)


def test_a_full_stack_looks_the_same_where_exceptions_are_recorded(out: Path) -> None:
    source = """
    def recurse(): return recurse()
    class Computed:
        def __getattr__(self, name): return self.other
    def shown(error):
        trace, files = error.__traceback__, set()
        while trace is not None:
            files.add(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        return files, error.__context__, error.__cause__
    for act in (recurse, lambda: Computed().first):
        for _ in range(3):
            try: act()
            except RecursionError as error: print(shown(error))
    """
    recorded(textwrap.dedent(source), out, sources=["exceptions"])


USE = """
import os, signal, sys
import fxtio
def use():
    uses.append(1)
    with fxtio.span("a", "c", x=1) as span: span.set(y=2)
    fxtio.instant("a"); fxtio.counter("a", 1); fxtio.log("a")
    flow = fxtio.flow("a"); flow.begin(); flow.step(); flow.end()
    assert fxtio.trace(len)([]) == fxtio.trace(name="b")(len)([]) == 0
    with fxtio.tracing(OUT): fxtio.stop()
    fxtio.dump()
    try: fxtio.start(OUT)
    except RuntimeError: pass
    fxtio.stop()
uses = []
"""
"""A program that can use everything of the tracer, which is loaded on first use."""

LATE = {
    "atexit": "import atexit; atexit.register(use)",
    "destructor": """
        class Late:
            def __del__(self): use()
        sys.modules["late"] = Late()
    """,
    "thread": """
        import threading
        def loop():
            while True: fxtio.__getattr__("span"); uses.append(1)
        threading.Thread(target=loop, daemon=True).start()
        while not uses: pass
    """,
    "signal in the middle of the import": """
        class Finder:
            seen = set()
            def find_spec(self, name, *_):
                if name.startswith("fxtio.tracer") and name not in self.seen:
                    self.seen.add(name)
                    os.kill(os.getpid(), signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda *_: use())
        sys.meta_path.insert(0, Finder())
        fxtio.span("a")
        assert len(uses) > 10, uses
        assert fxtio.span.__module__ != "fxtio.noop"
    """,
}
"""What uses it for the first time when it can hardly be loaded, or not at all."""


@pytest.mark.parametrize("name", LATE)
def test_a_first_use_that_is_late_is_not_noticed(name: str, out: Path) -> None:
    program = f"OUT = {str(out)!r}\n{USE}\n{textwrap.dedent(LATE[name])}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0
    noticed = [line for line in done.stderr.splitlines() if not line.startswith("fxtio: ")]
    assert noticed == []
