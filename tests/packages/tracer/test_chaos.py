"""Programs whose every callback may start or end the recording: strings, finalizers, values, threads.

The sanitizers run these tests too: what is used after it was freed shows there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tracer_run import fine

pytestmark = pytest.mark.recorder

MANY_STEPS = 1000
"""More than a thread takes in the time that it has, unless a machine is very fast."""

CHAOS = """
import faulthandler, gc, random
import inspect, json, traceback  # not in destructors, where on CPython 3.11 an import can wait for its own thread
faulthandler.dump_traceback_later(LIMIT, exit=True)
dice = random.Random(SEED)
sys.setswitchinterval(1e-5)
depth = threading.local()
fxtio.start  # imports what it needs: during an import, a destructor sees an incomplete module

has_ended = False

class Failure(Exception):
    "Raised by callbacks; the program meets no other exceptions."

def check(error):
    if not isinstance(error, Failure) and not has_ended:
        os.write(2, "".join(traceback.format_exception(error)).encode())
        os._exit(1)
sys.unraisablehook = threading.excepthook = lambda args: check(args.exc_value)

def act():
    "What a callback of a program may do."
    level = getattr(depth, "level", 0)
    if level > 2:
        return
    depth.level = level + 1
    try:
        choice = dice.randrange(10)
        if choice == 0:
            fxtio.stop()
        elif choice == 1:
            begin()
        elif choice == 2:
            gc.collect(0)
        elif choice == 3:
            time.sleep(0)
        elif choice == 4:
            fxtio.instant(text())
        elif choice == 5:
            Finalized()
        elif choice == 6:
            call(compiled())
        elif choice == 7:
            raise Failure
        elif choice == 8 and dice.random() < 0.1:
            dump()
    finally:
        depth.level = level

def begin():
    try:
        fxtio.start(f"{OUT}{dice.randrange(2)}.fxt", functions=dice.random() < 0.7, c_functions=dice.random() < 0.3,
                    categories=dice.choice([(), (Text("a"), Text("b"), Text("")), (Text("-a"),)]),
                    min_duration=dice.choice([0, "1us"]), ring=dice.choice([None, "1MiB"]))
    except RuntimeError as error:
        if "recording" not in str(error):
            raise

def dump():
    try:
        fxtio.dump(f"{OUT}-{dice.randrange(2)}.fxt")
    except TimeoutError:  # another thread waits, as for an import that a destructor has interrupted
        pass
    except OSError as error:
        if "the recording has ended" not in str(error):
            raise

class Text(str):
    "A text that acts when it is compared, hashed, or freed."
    def __hash__(self):
        act()
        return str.__hash__(self)
    def __eq__(self, other):
        act()
        return str.__eq__(self, other)
    def __str__(self):
        act()
        return self
    def __del__(self):
        act()

class Value:
    def __repr__(self):
        act()
        return "value"
    def __float__(self):
        act()
        return 1.5
    def __del__(self):
        act()

class Finalized:
    def __init__(self):
        self.me = self
    def __del__(self):
        act()

names = [chr(97 + n) for n in range(4)]
def text():
    name = dice.choice(names)
    return dice.choice([name, name + "x", Text(name), Text("long " * dice.randrange(80))])

def compiled():
    scope = {"fxtio": fxtio}
    decorator = dice.choice(["", "@fxtio.trace", "@fxtio.trace(args=True, result=True)"])
    body = dice.choice(["def f(a, b=1, *, c=2):\\n return a", "def f(a):\\n yield a\\n yield act()\\n return a",
                        "async def f(a):\\n return act()"])
    exec(compile(f"{decorator}\\n{body}", f"{dice.choice(names)}.py", "exec"), scope | {"act": act}, scope)
    return scope["f"]

def call(function):
    result = function(Value())
    if hasattr(result, "send"):
        try:
            result.send(None)
        except StopIteration:
            pass

def step():
    choice = dice.randrange(10)
    if choice < 2:
        fxtio.instant(text(), text(), **{text(): Value(), text() + "2": 2})
    elif choice < 4:
        with fxtio.span(text(), text(), **{text(): Value()}) as span:
            span.set(**{text(): Value()})
            act()
    elif choice == 4:
        fxtio.counter(text(), Value(), text())
    elif choice == 5:
        fxtio.log(text(), text())
    elif choice == 6:
        call(compiled())
    elif choice == 7:
        fxtio.flow(text(), text()).end()
    elif choice == 8:
        threading.Thread(target=act, name=text()).start()
    else:
        act()

def steps(until):
    for _ in range(STEPS):
        if time.monotonic() > until:
            break
        try:
            step()
        except Exception as error:
            check(error)

import warnings
warnings.simplefilter("ignore")
gc.set_threshold(20)
until = time.monotonic() + SECONDS
threads = [threading.Thread(target=steps, args=(until,)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
fxtio.stop()
has_ended = True  # what destructors do when the interpreter ends fails for want of modules
print("survived")
"""


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_chaos(seed: int, out: Path) -> None:
    settings = f"SEED, SECONDS, STEPS, LIMIT = {seed}, 1.5, {MANY_STEPS}, 90"
    assert fine(f"{settings}\n{CHAOS}", out, timeout=120) == "survived\n"


def test_a_recording_ends_while_another_thread_holds_the_lock_of_threading(out: Path) -> None:
    """As when a destructor that runs while a thread ends waits for the end of the recording."""
    source = """
    import _thread
    done = _thread.allocate_lock()
    done.acquire()
    def stop():
        fxtio.stop()
        done.release()
    with threading._active_limbo_lock:
        _thread.start_new_thread(stop, ())
        print(done.acquire(timeout=200))
    """
    assert fine(source, out, start=True) == "True\n"
