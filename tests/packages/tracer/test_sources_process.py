"""Sources on request: the process, imports, and all of them together with forks and threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fxtio.tracer.sources import NAMES
from support.limits import PATIENCE
from support.tracer_check import Seen, check_trace
from support.tracer_run import fine, of_program, recorded
from support.tracer_sources import RAISED, exceptions, instants, logs

pytestmark = pytest.mark.recorder

# ---- The process.

COUNTERS = {"cpu": {"user", "system"}, "context switches": {"voluntary", "involuntary"}}


def counters(seen: Seen) -> dict[str, list[dict[str, Any]]]:
    """Return the samples of the process by counter."""
    samples: dict[str, list[dict[str, Any]]] = {}
    for row in seen.rows(kind="counter", category="process").tolist():
        samples.setdefault(seen.names[row], []).append(seen.args(row))
    return samples


def test_samples(out: Path) -> None:
    source = """
print(len(threading.enumerate()), threading.active_count())
time.sleep(0.05)
files = [open(os.devnull) for _ in range(10)]
fxtio.stop()
"""
    recorded(source, out, sources=["process:5ms"])
    seen = check_trace(out)
    samples = counters(seen)
    assert {name: set(samples[name][0]) for name in COUNTERS} == COUNTERS
    if sys.platform == "linux":
        assert len(samples["memory"]) > 2
        assert all(sample["resident"] > 1 << 20 for sample in samples["memory"])
        assert {sample["value"] for sample in samples["threads"]} == {1}
        files = [sample["value"] for sample in samples["open files"]]
        assert max(files) >= min(files) + 10
    assert all(sample["user"] >= 0 for sample in samples["cpu"])


def test_samples_with_functions(out: Path) -> None:
    """No functions of the sampling thread are recorded."""
    recorded("time.sleep(0.05)\nprint(1)\n", out, sources=["process:2ms"], functions=True)
    seen = check_trace(out)
    main = next(koid for koid, name in seen.names_of("thread").items() if name == "MainThread")
    events = seen.tables["events"]
    assert {int(thread) for thread in events["thread"][events["type"].is_in("duration_begin")].tolist()} <= {main}
    assert not [name for name in seen.names if "sources" in name or "suppress" in name]


def test_a_program_forks_as_if_it_had_one_thread(out: Path) -> None:
    """CPython 3.12 and later would warn of threads.  Each child is sampled as well."""
    source = """
import gc, warnings
warnings.simplefilter("error")
for number in range(5):
    child = os.fork()
    if not child:
        os._exit(number)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    gc.collect()
"""
    recorded(source, out, sources=["process:1ms"])
    seen = check_trace(out)
    assert len(seen.names_of("process")) == 6
    rows = seen.rows(kind="counter", category="process")
    assert len({int(pid) for pid in seen.tables["events"]["process"][rows].tolist()}) == 6


def test_samples_continue_after_a_fork(out: Path) -> None:
    source = """
import gc
fxtio.start(OUT, sources=["process:1ms"], children=False)
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
gc.collect()
fxtio.instant("forked")
time.sleep(0.1)
"""
    fine(source, out)
    seen = check_trace(out)
    (forked,) = seen.rows(name="forked")
    times = seen.tables["events"]["time"]
    after = [row for row in seen.rows(name="threads") if times[int(row)] > times[int(forked)]]
    assert len(after) > 2


def test_the_sampling_thread_takes_no_signals(out: Path) -> None:
    source = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait({signal.SIGUSR1}))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    recorded(source, out, sources=["process:1ms"])


# ---- Imports.

MODULES = {
    "outer.py": "import inner, package.part\nfrom package import other\n",
    "inner.py": "import outer\nnumber = 1\n",
    "package/__init__.py": "",
    "package/part.py": "import warnings\nwarnings.warn('of part', stacklevel=2)\n",
    "package/other.py": "def __getattr__(name): raise AttributeError(name)\n",
    "broken.py": "import inner\nraise RuntimeError('broken')\n",
    "wrong.py": "def\n",
    "needs.py": "import nosuch\n",
    "late.py": "print('late')\nvalue = 2\n",
    "changed.py": "import sys\nsys.modules[__name__] = object()\n",
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "modules"
    for name, text in MODULES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


IMPORTS = """
import importlib, importlib.util, traceback
sys.path.insert(0, {folder!r})
sys.dont_write_bytecode = True
import outer
import inner, package
importlib.import_module("package.part")
importlib.reload(inner)
print(inner.number, changed) if "changed" in globals() else None
import changed
for name in ("broken", "wrong", "needs", "nosuch", "package.nosuch", "json.nosuch.nosuch"):
    try:
        importlib.import_module(name)
    except BaseException:
        traceback.print_exc()
    try:
        __import__(name)
    except BaseException:
        traceback.print_exc()
spec = importlib.util.find_spec("late")
spec.loader = importlib.util.LazyLoader(spec.loader)
late = sys.modules["late"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(late)
import late as again
print("not yet")
print(again.value)
"""


def test_imports(modules: Path, out: Path) -> None:
    recorded(IMPORTS.format(folder=str(modules)), out, sources=["imports"])
    seen = check_trace(out)
    spans = [span for span in seen.spans() if span.category == "imports"]
    depths = {span.name: span.depth for span in reversed(spans)}
    names = [span.name for span in spans]
    assert {name: names.count(name) for name in ("outer", "inner", "package", "package.part", "package.other")} == {
        "outer": 1, "inner": 2, "package": 1, "package.part": 1, "package.other": 1,
    }  # fmt: skip
    parent_first = sys.version_info >= (3, 15)  # earlier ones import the package while they hold the lock of its module
    packages = ("package", "package.part") if parent_first else ("package.part", "package")
    order = [names.index(name) for name in ("outer", "inner", *packages)]
    assert order == sorted(order)
    base = depths["outer"]
    inside = ("inner", "package.part", "package", "package.other")
    assert [depths[name] - base for name in inside] == [1, 1, 1 if parent_first else 2, 1]
    by_name = {span.name: span.args for span in spans}
    assert by_name["inner"] == {"origin": str(modules / "inner.py")}
    assert by_name["broken"] == {"exception": "RuntimeError"}
    assert by_name["wrong"] == {"exception": "SyntaxError"}
    assert by_name["needs"] == by_name["nosuch"] == {"exception": "ModuleNotFoundError"}


def test_imports_with_everything_else(modules: Path, out: Path) -> None:
    recorded(IMPORTS.format(folder=str(modules)), out, sources=["all"], functions=True)
    seen = check_trace(out)
    prefixes = ("fxtio.", "fxtio: ", "seen_by.", "_telling.")
    assert not [name for name in seen.names if any(part in name for part in prefixes)]


def test_imports_in_threads(modules: Path, out: Path) -> None:
    source = f"""
sys.path.insert(0, {str(modules)!r})
sys.dont_write_bytecode = True
import warnings; warnings.simplefilter("ignore")
def load():
    import inner, outer, package.part
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(name for name in sys.modules if name in ("inner", "outer", "package")))
"""
    recorded(source, out, sources=["imports", "gc"])
    assert len(check_trace(out).spans("inner")) >= 1


# ---- All together.


@pytest.mark.full
def test_forks_and_threads(out: Path) -> None:
    source = """
import gc, logging
def work(n):
    logging.error("message %d", n)
    gc.collect(0)
    try:
        raise ValueError(n)
    except ValueError:
        pass
def forever():
    while not done:
        work(0)
done = False
others = [threading.Thread(target=forever) for _ in range(2)]
logging.getLogger().addHandler(logging.NullHandler())
for other in others: other.start()
for n in range(1, 6):
    child = os.fork()
    if not child:
        work(n)
        os._exit(n)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done = True
for other in others: other.join()
"""
    recorded(source, out, sources=[*(name for name in NAMES if name != "process"), "process:1ms"])
    seen = check_trace(out, open_spans=True)
    messages = {args["message"] for _, args in instants(seen, "logging")}
    assert messages == {f"message {n}" for n in range(6)}
    pids = {int(pid) for pid in seen.tables["events"]["process"][seen.rows(name="collection")].tolist()}
    assert len(pids) > 3  # a child that was forked during a collection records none
    raised = {message for name, message in exceptions(seen, "raised") if name == "ValueError"}
    assert raised == ({str(n) for n in range(6)} if RAISED else set())


def python(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run the Python interpreter."""
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, **how)


def test_run(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import gc, logging\ngc.collect()\nlogging.error('logged')\n")
    done = python("-m", "fxtio", "run", "--source", "gc", "--source", "logging", "--spans-only", "app.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = check_trace(tmp_path / "trace.fxt")
    assert (len(seen.spans("collection")), logs(seen)) == (1, ["ERROR:root:logged"])
    done = python("-m", "fxtio", "run", "-q", "--source", "all", "app.py", cwd=tmp_path)
    assert (done.returncode, of_program(done.stderr)) == (0, ["ERROR:root:logged"])
    assert set(counters(check_trace(tmp_path / "trace.fxt"))) >= set(COUNTERS)
    done = python("-m", "fxtio", "run", "--source", "gcc", "app.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "no source 'gcc'" in done.stderr


def test_environment(out: Path) -> None:
    variables = {"FXTIO": str(out), "FXTIO_OPTIONS": '{"sources": ["logging"]}'}
    source = (
        "from fxtio.tracer import startup; startup.start_from_environment(); import logging; logging.error('logged')"
    )
    assert python("-c", source, env=os.environ | variables).returncode == 0
    assert logs(check_trace(out)) == ["ERROR:root:logged"]
