"""Sources on request: what they record, and that the program behaves as it does without them."""

from __future__ import annotations

from pathlib import Path

import pytest

import fxtio
from support.tracer_check import check_trace
from support.tracer_run import fine, recorded
from support.tracer_sources import RAISED, exceptions, instants, logs

pytestmark = pytest.mark.recorder


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "nosuch",
            "no source 'nosuch'; the sources are asyncio, exceptions, gc, imports, locks, logging, process, torch",
        ),
        ("gc:10ms", "gc takes no option"),
        ("process:soon", "'soon' is not a time"),
        ("process:0ms", "time between samples"),
    ],
)
def test_a_wrong_source_is_refused(source: str, message: str, out: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fxtio.start(out, sources=["gc", source])
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
        asyncio.events.Handle._run, asyncio.base_events.BaseEventLoop._run_once,
        asyncio.mixins._LoopBoundMixin._get_loop,
    ]
"""


def test_all_hooks_are_restored(out: Path) -> None:
    source = f"""{HOOKS}
before = hooks()
for _ in range(3):
    fxtio.start(OUT, sources=["all"])
    during = hooks()
    assert during[1:3] == before[1:3] and during[8:10] == before[8:10] and during[11:15] == before[11:15]
    fxtio.stop()
    for _ in range(1000):  # the system lists a thread a moment longer than Python does
        if hooks() != before:
            time.sleep(0.01)
    assert hooks() == before
"""
    fine(source, out)


def test_hooks_of_the_program_stay(out: Path) -> None:
    source = """
import logging, warnings
messages = []
fxtio.start(OUT, sources=["all"])
inner = sys.excepthook, logging.Logger.callHandlers, warnings.showwarning
def hook(*args):
    messages.append(args[0].__name__)
    inner[0](*args)
def call_handlers(self, record):
    messages.append(record.getMessage())
    inner[1](self, record)
sys.excepthook, logging.Logger.callHandlers = hook, call_handlers
warnings.showwarning = lambda *args: messages.append(str(args[0]))
for n in range(2):
    logging.error("message")
    warnings.warn(f"warning {n}")
    sys.excepthook(ValueError, ValueError("shown"), None)
    fxtio.stop()
    assert sys.excepthook is hook and logging.Logger.callHandlers is call_handlers
print(messages)
"""
    assert fine(source, out).count("message") == 2
    seen = check_trace(out)
    assert logs(seen) == ["ERROR:root:message"]
    assert [name for name, _ in instants(seen, "warnings")] == ["UserWarning"]
    assert [name for name, args in instants(seen, "exceptions") if args["how"] == "uncaught"] == ["ValueError"]


def test_categories_exclude_sources(out: Path) -> None:
    source = """
import gc, logging
fxtio.start(OUT, sources=["gc", "logging"], categories=["-logging"])
gc.collect()
logging.error("excluded")
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


def test_a_message_that_logs_while_it_is_formatted(out: Path) -> None:
    source = """
import logging
class Talks:
    def __str__(self):
        logging.error("inner")
        with fxtio.span("formatting"):
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
    assert len(seen.spans("formatting")) == 1


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
    recorded_warnings = instants(check_trace(out), "warnings")
    assert [(name, args["message"]) for name, args in recorded_warnings] == [
        ("UserWarning", "first"),
        ("UserWarning", "once for each line"),
        ("RuntimeWarning", "caught"),
        ("UserWarning", "own way"),
        ("UserWarning", "captured"),
    ]
    assert {args["file"] for _, args in recorded_warnings} == {"<string>"}
    assert recorded_warnings[0][1]["line"] == recorded_warnings[1][1]["line"] + 1


# ---- Exceptions.


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
    raised = exceptions(seen, "raised")
    assert raised[:4] == (expected if RAISED else [])
    assert {name for name, _ in raised[4:]} <= {"RecursionError"}
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
    assert exceptions(seen, "unraisable") == [("OSError", "[Errno 5] in finalizer")]
    last = {"raise L": ("LookupError", "('last', 1)"), "raise K": ("KeyboardInterrupt", "")}
    last |= {"1 / 0": ("ZeroDivisionError", "division by zero")}
    uncaught = exceptions(seen, "uncaught")
    assert sorted(uncaught) == sorted([("ValueError", "in thread"), *([last[end[:7]]] if end[:7] in last else [])])


def test_an_excepthook_that_fails_or_was_removed(out: Path) -> None:
    source = """
def fails(*args):
    print("asked", args[0].__name__, flush=True)
sys.excepthook = fails
del threading.excepthook
raise LookupError
"""
    recorded(source, out, sources=["exceptions"])
    check_trace(out)
