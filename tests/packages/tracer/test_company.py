"""Debuggers, profilers and coverage beside the tracer: each sees what it would see alone."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.tracer_check import check_trace
from support.tracer_run import fine, recorded

pytestmark = pytest.mark.recorder

MONITORING = sys.version_info >= (3, 12)

WORK = """
def leaf(n):
    return n + 1
def work(n):
    total = 0
    for one in range(n):
        total += leaf(one)
    return total
"""


def names(out: Path, *, open_spans: bool = False) -> list[str]:
    seen = check_trace(out, open_spans=open_spans)
    return [span.name.rpartition(".")[2] for span in seen.spans() if span.category == "function"]


def beside(source: str, out: Path, *, include: Sequence[str] = ("__main__", "<string>")) -> str:
    """Run a program unrecorded, then with all functions recorded; it must print the same."""
    return recorded(WORK + textwrap.dedent(source), out, functions=True, include=list(include)).stdout


def test_a_debugger(out: Path) -> None:
    source = """
    seen = []
    def tracer(frame, event, arg):
        if frame.f_code.co_filename == "<string>":
            seen.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer
    sys.settrace(tracer)
    work(3)
    sys.settrace(None)
    print(seen)
    """
    assert "'leaf', 'return'" in beside(source, out)
    assert names(out).count("leaf") == 3


def test_pdb_stops_where_it_should(out: Path) -> None:
    source = """
    import io, pdb, tempfile
    with open(os.path.join(tempfile.mkdtemp(), "debugged.py"), "w") as file:
        file.write("def leaf(n):\\n    return n + 1\\ndef work():\\n    return leaf(1) + leaf(2)\\n")
    sys.path.insert(0, os.path.dirname(file.name))
    import debugged
    commands = ["import debugged", "break debugged.leaf", "continue", "args", "continue", "args", "clear 1", "continue"]
    script = io.StringIO("\\n".join([*commands, ""]))
    debugger = pdb.Pdb(stdin=script, stdout=io.StringIO(), nosigint=True, readrc=False)
    debugger.use_rawinput = False
    print(debugger.runcall(debugged.work))
    print([line for line in debugger.stdout.getvalue().splitlines() if "n = " in line])
    """
    assert beside(source, out, include=["debugged"]) == "5\n['(Pdb) n = 1', '(Pdb) n = 2']\n"
    assert names(out) == ["<module>", "work", "leaf", "leaf"]


def test_a_profiler_that_starts_during_the_recording(out: Path) -> None:
    """Before CPython 3.12 there is one profile function per thread: a later one replaces ours."""
    source = """
    import cProfile, pstats
    work(2)
    profiler = cProfile.Profile()
    profiler.enable()
    work(3)
    profiler.disable()
    calls = {name: count for (_, _, name), (count, *_) in pstats.Stats(profiler).stats.items()}
    print(calls["leaf"], calls["work"], sys.getprofile())
    """
    assert beside(source, out) == "3 1 None\n"
    assert names(out).count("leaf") == (5 if MONITORING else 2)


def test_a_profile_function_from_before_the_recording(out: Path) -> None:
    source = """
    seen = []
    def profiler(frame, event, arg):
        if event == "call" and frame.f_code.co_name in ("work", "leaf"):
            seen.append(frame.f_code.co_name)
    fxtio.stop()
    sys.setprofile(profiler)
    if OUT:
        fxtio.start(OUT, **OPTIONS)
    work(2)
    fxtio.stop()
    print(seen, sys.getprofile() is profiler)
    sys.setprofile(None)
    """
    assert beside(source, out) == "['work', 'leaf', 'leaf'] True\n"


def test_coverage(out: Path) -> None:
    pytest.importorskip("coverage")
    source = """
    import coverage, tempfile
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "covered.py")
    with open(path, "w") as file:
        file.write("def run(n):\\n    if n:\\n        return 1\\n    else:\\n        return 2\\n")
    sys.path.insert(0, folder)
    measured = coverage.Coverage(data_file=None, include=[path], config_file=False)
    measured.start()
    import covered
    covered.run(1)
    measured.stop()
    print(measured.analysis2(path)[3])
    """
    assert beside(source, out) == "[5]\n"


@pytest.mark.skipif(not MONITORING, reason="there is no sys.monitoring before CPython 3.12")
def test_other_tools_of_monitoring(out: Path) -> None:
    source = """
    monitoring, seen = sys.monitoring, []
    for tool in (0, 1, 2):
        monitoring.use_tool_id(tool, f"tool {tool}")
        monitoring.register_callback(tool, monitoring.events.PY_START, lambda code, at: seen.append(code.co_name))
        monitoring.set_events(tool, monitoring.events.PY_START)
    work(2)
    for tool in (0, 1, 2):
        monitoring.set_events(tool, 0)
    print(seen.count("leaf"), seen.count("work"))
    fxtio.stop()
    print([monitoring.get_tool(number) for number in range(6)])
    """
    expected = "6 3\n['tool 0', 'tool 1', 'tool 2', None, None, None]\n"
    assert beside(source, out) == expected
    assert names(out).count("leaf") == 2


@pytest.mark.skipif(not MONITORING, reason="there is no sys.monitoring before CPython 3.12")
def test_without_a_free_tool_id_the_program_runs_unrecorded(out: Path) -> None:
    source = """
    for tool in range(6):
        if sys.monitoring.get_tool(tool) is None:
            sys.monitoring.use_tool_id(tool, "other")
    fxtio.stop()
    if OUT:
        fxtio.start(OUT, **OPTIONS)
    with fxtio.span("span"):
        print(work(2))
    """
    assert beside(source, out) == "3\n"


MEANWHILE = """
from fxtio.tracer import monitor
class Meanwhile:
    "sys.monitoring, while something else happens before the events of a function are set for the first time."
    def __init__(self, happens):
        self.happens = happens
    def __getattr__(self, name):
        return getattr(sys.monitoring, name)
    def set_local_events(self, *args):
        happens, self.happens = self.happens, lambda: None
        happens()
        sys.monitoring.set_local_events(*args)
def meanwhile(happens):
    stand_in = Meanwhile(happens)
    monitor._monitoring = lambda: stand_in
def decorated(name):
    scope = {}
    exec(f"def {name}(): pass", scope)
    return fxtio.trace(scope[name])
"""


@pytest.mark.skipif(not MONITORING, reason="there is no sys.monitoring before CPython 3.12")
def test_a_function_that_is_decorated_while_a_recording_starts(out: Path) -> None:
    source = """
    first, second, late = decorated("first"), decorated("second"), []
    meanwhile(lambda: late.extend(decorated(f"late_{number}") for number in range(50)))
    fxtio.start(OUT)
    for function in (first, second, *late):
        function()
    """
    fine(MEANWHILE + textwrap.dedent(source), out)
    assert sorted(span.name for span in check_trace(out).spans()) == sorted(
        ["first", "second", *(f"late_{number}" for number in range(50))]
    )


@pytest.mark.skipif(not MONITORING, reason="there is no sys.monitoring before CPython 3.12")
@pytest.mark.parametrize("starts", [False, True])
def test_a_function_that_is_decorated_while_a_recording_ends(starts: bool, out: Path) -> None:
    source = """
    def happens():
        fxtio.stop()
        if STARTS:
            fxtio.start(OUT)
    fxtio.start(OUT)
    meanwhile(happens)
    function = decorated("function")
    print(function(), [sys.monitoring.get_tool(number) for number in range(6)].count("fxtio"))
    print(sys.monitoring.get_local_events(4, function.__code__) > 0 if STARTS else fxtio.stop())
    """
    assert fine(f"STARTS = {starts}\n{MEANWHILE}{textwrap.dedent(source)}", out) == (
        "None 1\nTrue\n" if starts else "None 0\nNone\n"
    )
    assert [span.name for span in check_trace(out).spans()] == ["function"] * starts


def test_a_recording_that_begins_within_a_debugger(out: Path) -> None:
    source = """
    import bdb
    class Counter(bdb.Bdb):
        calls = 0
        def user_call(self, frame, args):
            self.calls += frame.f_code.co_name == "leaf"
    fxtio.stop()
    def both():
        if OUT:
            fxtio.start(OUT, **OPTIONS)
        work(3)
        fxtio.stop()
    counter = Counter()
    counter.set_step()
    counter.runcall(both)
    print(counter.calls)
    """
    assert beside(source, out) == "3\n"
    assert names(out).count("leaf") == 3


def test_another_user_of_code_objects_whose_function_is_freed_first(out: Path) -> None:
    """When the interpreter ends, the function that frees what the other one has attached is gone before the code."""
    source = """
    import ctypes
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda pointer: os.write(1, b"called "))
    name = "PyUnstable_Eval_RequestCodeExtraIndex" if sys.version_info >= (3, 12) else "_PyEval_RequestCodeExtraIndex"
    request = getattr(ctypes.pythonapi, name)
    request.argtypes, request.restype = [type(free)], ctypes.c_ssize_t
    fxtio.start(OUT, functions=True)
    assert request(free) >= 0
    scope = {}
    exec(compile("def recorded(): return 1", "recorded.py", "exec"), scope)
    print(scope["recorded"]())
    kept = scope.pop("recorded")
    del free
    import gc; gc.collect()
    del kept, scope
    """
    assert fine(source, out) == "1\n"
