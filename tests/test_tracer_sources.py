"""Sources on request: what they record, and that the program behaves as it does without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.tracer import IMPLEMENTATION
from fxtio.tracer.sources import NAMES
from support.tracer_check import Seen, check_trace
from support.tracer_run import fine, of_program, recorded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs what POSIX has")

QUIET = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)  # of forks in threads\n"


def instants(seen: Seen, category: str) -> list[tuple[str, dict[str, Any]]]:
    """Names and arguments of a category's instants, by track and time."""
    found = []
    for row in seen.rows(category=category).tolist():
        assert seen.kinds[row] in ("instant", "async_instant")
        found.append((seen.names[row], seen.args(row)))
    return found


def logs(seen: Seen) -> list[str]:
    """The log records of a trace."""
    return [str(message) for message in seen.tables["logs"]["message"].to_list()]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nosuch", r"no source 'nosuch'; there are exceptions, gc, imports, logging, process, warnings, and all"),
        ("gc:10ms", "gc takes no option"),
        ("process:soon", "'soon' is not a time"),
        ("process:0ms", "time between samples"),
    ],
)
def test_a_wrong_source_is_told(given: str, told: str, out: Path) -> None:
    with pytest.raises(ValueError, match=told):
        fxtio.start(out, sources=["gc", given])
    assert not out.exists()


HOOKS = """
import asyncio, gc, importlib, logging, warnings
def hooks():
    bootstrap = sys.modules["importlib._bootstrap"]
    return [
        list(gc.callbacks), list(sys.meta_path), list(sys.path_hooks), bootstrap._ModuleLockManager, sys.excepthook,
        threading.excepthook, sys.unraisablehook, warnings._showwarnmsg, warnings.showwarning, warnings.filters[:],
        logging.Logger.callHandlers, logging.root.handlers[:], logging.getLogRecordFactory(), logging.lastResort,
        threading.enumerate(), sys.getprofile(), threading.getprofile(), len(os.listdir("/proc/self/task")),
    ]
"""


def test_all_is_put_back(out: Path) -> None:
    source = f"""{HOOKS}
before = hooks()
for _ in range(3):
    fxtio.start(OUT, sources=["all"])
    during = hooks()
    assert during[1:3] == before[1:3] and during[8:10] == before[8:10] and during[11:15] == before[11:15]
    fxtio.stop()
    assert hooks() == before
"""
    fine(source, out)


def test_what_the_program_has_put_there_stays(out: Path) -> None:
    source = """
import logging, warnings
told = []
fxtio.start(OUT, sources=["all"])
inner = sys.excepthook, logging.Logger.callHandlers, warnings.showwarning
def hook(*args):
    told.append(args[0].__name__)
    inner[0](*args)
def call_handlers(self, record):
    told.append(record.getMessage())
    inner[1](self, record)
sys.excepthook, logging.Logger.callHandlers = hook, call_handlers
warnings.showwarning = lambda *args: told.append(str(args[0]))
for n in range(2):
    logging.error("message")
    warnings.warn(f"warning {n}")
    sys.excepthook(ValueError, ValueError("shown"), None)
    fxtio.stop()
    assert sys.excepthook is hook and logging.Logger.callHandlers is call_handlers
print(told)
"""
    assert fine(source, out).count("message") == 2
    seen = check_trace(out)
    assert logs(seen) == ["ERROR:root:message"]
    assert [name for name, _ in instants(seen, "warnings")] == ["UserWarning"]
    assert [name for name, args in instants(seen, "exceptions") if args["how"] == "uncaught"] == ["ValueError"]


def test_categories_switch_sources_off(out: Path) -> None:
    source = """
import gc, logging
fxtio.start(OUT, sources=["gc", "logging"], categories=["-logging"])
gc.collect()
logging.error("not wanted")
"""
    fine(source, out)
    seen = check_trace(out)
    assert [span.name for span in seen.spans()] == ["collection"]
    assert logs(seen) == [] and not seen.rows(category="logging").size


# ---- Collections.


def test_collections(out: Path) -> None:
    source = """
import gc
gc.disable()
class Loop: pass
def loops(count):
    for _ in range(count):
        one = Loop()
        one.own = one
loops(5)
with fxtio.span("around"):
    gc.collect()
thread = threading.Thread(target=lambda: gc.collect(0), name="other")
thread.start(); thread.join()
"""
    recorded(source, out, sources=["gc"])
    seen = check_trace(out)
    first, second = seen.spans("collection")
    assert first.category == "gc"
    assert first.args["generation"] == 2
    assert first.args["collected"] >= 5
    assert first.args["uncollectable"] == 0
    assert second.args["generation"] == 0
    assert seen.names_of("thread")[second.thread] == "other"
    (around,) = seen.spans("around")
    assert around.depth + 1 == first.depth


@pytest.mark.skipif(IMPLEMENTATION != "c", reason="a callback in Python needs room on the stack")
def test_collections_at_the_end_of_the_stack(out: Path) -> None:
    source = """
import gc
@fxtio.trace(args=True, result=True)
def deep(n):
    return [deep(n + 1)]
gc.set_threshold(1)
for _ in range(3):
    try:
        deep(0)
    except RecursionError:
        print("full")
gc.set_threshold(700)
"""
    recorded(source, out, sources=["gc"])
    seen = check_trace(out)
    assert len(seen.spans("deep")) > 1000
    assert len(seen.spans("collection")) > 1000


# ---- Messages.


def test_messages(out: Path) -> None:
    source = """
import logging
logging.root.warning("last %s", "resort")
logging.getLogger("quiet").info("below the level")
logging.basicConfig(level=logging.INFO, format="%(name)s %(lineno)d %(funcName)s %(message)s")
print(logging.root.handlers)
logger = logging.getLogger("app.db")
def slow():
    logger.info("took %d ms, %s", 12, {"a": 1})
slow()
logger.addFilter(lambda record: "secret" not in record.msg)
logger.error("secret")
logger.critical(["no", "text"])
logger.error("not a %d", "number")
logging.disable()
logger.critical("disabled")
""".replace("print(logging.root.handlers)", "print(len(logging.root.handlers))")
    recorded(source, out, sources=["logging"])
    seen = check_trace(out)
    expected = [
        ("WARNING", "root", "last resort"),
        ("INFO", "app.db", "took 12 ms, {'a': 1}"),
        ("CRITICAL", "app.db", "['no', 'text']"),
        ("ERROR", "app.db", "not a %d"),
    ]
    assert instants(seen, "logging") == [
        (level, {"logger": logger, "message": message}) for level, logger, message in expected
    ]
    assert logs(seen) == [":".join(parts) for parts in expected]


def test_a_message_that_logs_when_it_is_made(out: Path) -> None:
    source = """
import logging
class Talks:
    def __str__(self):
        logging.error("inner")
        with fxtio.span("made"):
            return "outer"
logging.error("%s", Talks())
class Never:
    def __str__(self):
        logging.getLogger("silent").error("%s", self)
        return "never asked"
logging.getLogger("silent").addHandler(logging.NullHandler())
logging.getLogger("silent").propagate = False
logging.getLogger("silent").error("%s", Never())
"""
    recorded(source, out, sources=["logging"])
    seen = check_trace(out)
    messages = [args["message"] for _, args in instants(seen, "logging")]
    assert messages == ["inner", "outer", "never asked"]
    assert len(seen.spans("made")) == 1


def test_messages_of_tasks_are_on_their_tracks(out: Path) -> None:
    source = """
import asyncio, logging
async def work(n):
    with fxtio.span("work", n=n):
        await asyncio.sleep(0)
        logging.error("in task %d", n)
async def main():
    await asyncio.gather(*(work(n) for n in range(3)))
asyncio.run(main())
"""
    recorded(source, out, sources=["logging"])
    seen = check_trace(out)
    tracks = {span.args["n"]: span.id for span in seen.spans("work")}
    ids = seen.tables["events"]["id"]
    for row in seen.rows(category="logging").tolist():
        assert tracks[int(seen.args(row)["message"][-1])] == int(ids[row])
    assert len(instants(seen, "logging")) == 3


# ---- Warnings.


def test_warnings(out: Path) -> None:
    source = """
import warnings
def warn(message, *more, **how):
    warnings.warn(message, *more, **how)
warn("first", stacklevel=2)
for _ in range(3):
    warn("once for each line")
warnings.simplefilter("ignore", DeprecationWarning)
warn("ignored", DeprecationWarning)
with warnings.catch_warnings(record=True) as caught:
    warn("caught", RuntimeWarning)
print([str(one.message) for one in caught])
warnings.simplefilter("error", SyntaxWarning)
try:
    warn("raised", SyntaxWarning)
except SyntaxWarning as error:
    print("raised", error)
warnings.showwarning = lambda *args, **more: print("shown", args[:4])
warn("own way")
import logging
logging.captureWarnings(True)
warn("captured")
logging.captureWarnings(False)
"""
    recorded(source, out, sources=["warnings"])
    found = instants(check_trace(out), "warnings")
    assert [(name, args["message"]) for name, args in found] == [
        ("UserWarning", "first"),
        ("UserWarning", "once for each line"),
        ("RuntimeWarning", "caught"),
        ("UserWarning", "own way"),
        ("UserWarning", "captured"),
    ]
    assert {args["file"] for _, args in found} == {"<string>"}
    assert found[0][1]["line"] == found[1][1]["line"] + 1


# ---- Exceptions.

RAISED = sys.version_info >= (3, 12)


def told(seen: Seen, how: str) -> list[tuple[str, str]]:
    """Types and messages of exceptions that became known so."""
    return [(name, args["message"]) for name, args in instants(seen, "exceptions") if args["how"] == how]


def test_raised_exceptions(out: Path) -> None:
    source = """
def fail(error):
    raise error
def passes(error):
    try:
        fail(error)
    finally:
        print("passed")
class Mute(Exception):
    def __str__(self):
        raise Mute
for error in (ValueError("bad"), KeyError("key"), Mute()):
    try:
        passes(error)
    except Exception as caught:
        try:
            raise caught
        except Exception:
            print("caught")
print([*iter((one for one in range(3)))], next(iter(()), None))
try:
    next(iter(()))
except StopIteration:
    pass
try:
    import nosuch
except ImportError as error:
    print(error)
try:
    def deep(): deep()
    deep()
except RecursionError as error:
    print(error)
"""
    recorded(source, out, sources=["exceptions"])
    seen = check_trace(out)
    expected = [
        ("ValueError", "bad"),
        ("KeyError", "'key'"),
        ("Mute", "<str() failed>"),
        ("ModuleNotFoundError", "No module named 'nosuch'"),
    ]
    found = told(seen, "raised")
    assert found[:4] == (expected if RAISED else [])
    assert {name for name, _ in found[4:]} <= {"RecursionError"}
    places = {(args["file"], args["line"]) for _, args in instants(seen, "exceptions")[:3]}
    assert len(places) == (1 if RAISED else 0)


@pytest.mark.parametrize("end", ["raise LookupError('last', 1)", "sys.exit(3)", "raise KeyboardInterrupt", "1 / 0"])
def test_exceptions_that_nobody_handles(end: str, out: Path) -> None:
    source = f"""
class Bad:
    def __del__(self):
        raise OSError(5, "in finalizer")
import io
shown, sys.stderr = sys.stderr, io.StringIO()
Bad()
shown, sys.stderr = sys.stderr, shown
print(shown.getvalue().splitlines()[1:])  # the first names an address
def work():
    raise ValueError("in thread")
for target in (work, sys.exit):
    thread = threading.Thread(target=target)
    thread.start(); thread.join()
def main():
    {end}
main()
"""
    recorded(source, out, sources=["exceptions"])
    seen = check_trace(out)
    assert told(seen, "unraisable") == [("OSError", "[Errno 5] in finalizer")]
    last = {"raise L": ("LookupError", "('last', 1)"), "raise K": ("KeyboardInterrupt", "")}
    last |= {"1 / 0": ("ZeroDivisionError", "division by zero")}
    uncaught = told(seen, "uncaught")
    assert sorted(uncaught) == sorted([("ValueError", "in thread"), *([last[end[:7]]] if end[:7] in last else [])])


def test_an_excepthook_that_fails_and_one_that_is_gone(out: Path) -> None:
    source = """
def fails(*args):
    print("asked", args[0].__name__, flush=True)
sys.excepthook = fails
del threading.excepthook
raise LookupError
"""
    recorded(source, out, sources=["exceptions"])
    check_trace(out)


# ---- The process.

COUNTERS = {"cpu": {"user", "system"}, "context switches": {"voluntary", "involuntary"}}


def counters(seen: Seen) -> dict[str, list[dict[str, Any]]]:
    """The samples of the process, by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in seen.rows(kind="counter", category="process").tolist():
        found.setdefault(seen.names[row], []).append(seen.args(row))
    return found


def test_samples(out: Path) -> None:
    source = """
print(len(threading.enumerate()), threading.active_count())
time.sleep(0.05)
files = [open(os.devnull) for _ in range(10)]
fxtio.stop()
"""
    recorded(source, out, sources=["process:5ms"])
    seen = check_trace(out)
    found = counters(seen)
    assert {name: set(found[name][0]) for name in COUNTERS} == COUNTERS
    if sys.platform == "linux":
        assert len(found["memory"]) > 2
        assert all(sample["resident"] > 1 << 20 for sample in found["memory"])
        assert {sample["value"] for sample in found["threads"]} == {1}
        files = [sample["value"] for sample in found["open files"]]
        assert max(files) >= min(files) + 10
    assert all(sample["user"] >= 0 for sample in found["cpu"])


def test_samples_with_functions(out: Path) -> None:
    """The thread that samples records no functions, whatever runs there."""
    recorded("time.sleep(0.05)\nprint(1)\n", out, sources=["process:2ms"], functions=True)
    seen = check_trace(out)
    main = next(koid for koid, name in seen.names_of("thread").items() if name == "MainThread")
    events = seen.tables["events"]
    assert {int(thread) for thread in events["thread"][events["type"].is_in("duration_begin")].tolist()} <= {main}
    assert not [name for name in seen.names if "sources" in name or "suppress" in name]


def test_a_program_forks_as_if_it_had_one_thread(out: Path) -> None:
    """CPython 3.12 and later would warn of threads; each child is sampled itself."""
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


def test_samples_go_on_after_a_fork(out: Path) -> None:
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
    assert names.index("outer") < names.index("inner") < names.index("package.part") < names.index("package")
    base = depths["outer"]
    inside = ("inner", "package.part", "package", "package.other")
    assert [depths[name] - base for name in inside] == [1, 1, 2, 1]
    by_name = {span.name: span.args for span in spans}
    assert by_name["inner"] == {"origin": str(modules / "inner.py")}
    assert by_name["broken"] == {"exception": "RuntimeError"}
    assert by_name["wrong"] == {"exception": "SyntaxError"}
    assert by_name["needs"] == by_name["nosuch"] == {"exception": "ModuleNotFoundError"}


def test_imports_with_everything_else(modules: Path, out: Path) -> None:
    recorded(IMPORTS.format(folder=str(modules)), out, sources=["all"], functions=True)
    seen = check_trace(out)
    ours = ("fxtio.", "fxtio: ", "seen_by.", "_telling.")
    assert not [name for name in seen.names if any(part in name for part in ours)]


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


def test_forks_and_threads(out: Path) -> None:
    source = (
        QUIET
        + """
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
    )
    recorded(source, out, sources=[*(name for name in NAMES if name != "process"), "process:1ms"])
    seen = check_trace(out, open_spans=True)
    messages = {args["message"] for _, args in instants(seen, "logging")}
    assert messages == {f"message {n}" for n in range(6)}
    pids = {int(pid) for pid in seen.tables["events"]["process"][seen.rows(name="collection")].tolist()}
    assert len(pids) == 6
    raised = {message for name, message in told(seen, "raised") if name == "ValueError"}
    assert raised == ({str(n) for n in range(6)} if RAISED else set())


def python(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run the interpreter."""
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **how)


def test_run(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import gc, logging\ngc.collect()\nlogging.error('said')\n")
    done = python("-m", "fxtio", "run", "--source", "gc", "--source", "logging", "--spans-only", "app.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = check_trace(tmp_path / "trace.fxt")
    assert (len(seen.spans("collection")), logs(seen)) == (1, ["ERROR:root:said"])
    done = python("-m", "fxtio", "run", "-q", "--source", "all", "app.py", cwd=tmp_path)
    assert (done.returncode, of_program(done.stderr)) == (0, ["ERROR:root:said"])
    assert set(counters(check_trace(tmp_path / "trace.fxt"))) >= set(COUNTERS)
    done = python("-m", "fxtio", "run", "--source", "gcc", "app.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "no source 'gcc'" in done.stderr


def test_environment(out: Path) -> None:
    wanted = {"FXTIO": str(out), "FXTIO_OPTIONS": '{"sources": ["logging"]}'}
    source = "import fxtio.tracer.environment as e; e.start(); import logging; logging.error('said')"
    assert python("-c", source, env=os.environ | wanted).returncode == 0
    assert logs(check_trace(out)) == ["ERROR:root:said"]
