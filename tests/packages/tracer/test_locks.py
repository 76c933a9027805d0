"""Locks of threads: who waits for them and who holds them, and that the program does not notice."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from support.tracer_check import Seen, Span, check_trace
from support.tracer_run import fine, recorded

pytestmark = pytest.mark.recorder

UNCHANGED = """
import copy, pickle, weakref, _thread
kinds = (threading.Lock, threading.RLock)
def outcome(call, *args, **kwargs):
    try:
        return repr(call(*args, **kwargs))
    except BaseException as error:
        return repr(error)
for kind in kinds:
    lock = kind()
    print(kind is getattr(threading, kind.__name__, None), type(lock).__module__, type(lock).__qualname__)
    print(isinstance(lock, type(kind())), type(lock) in (_thread.LockType, _thread.RLock))
    for args, kwargs in (
        ((), {}), ((False,), {}), ((0,), {}), ((True, 0.01), {}), ((), {"blocking": False}),
        ((), {"timeout": 0.01}),
        ((False, 1), {}), ((True, -5), {}), (("x", 1, 2), {}), ((), {"wrong": 1}), ((), {"timeout": "x"}),
        ((1e100,), {}),        ((True, 1e100), {}), ((object(),), {"timeout": 0}), ((10**30,), {}),
    ):
        lock = kind()
        first = outcome(lock.acquire, *args, **kwargs)
        print(sorted(kwargs), first, outcome(lock.acquire, False), outcome(lock.release), outcome(lock.release))
        print(outcome(lock.release), outcome(lock.release, 1), outcome(lock.__enter__), outcome(lock.__exit__, 1, 2, 3))
        lock = kind()
        with lock:
            done = []
            patience = {"timeout": 0.01, **kwargs}
            thread = threading.Thread(target=lambda: done.append(outcome(lock.acquire, *args, **patience)))
            thread.start(); thread.join()
        print(done)
    lock = kind()
    bound, released = lock.acquire, lock.release
    print(bound(), bound.__self__ is lock, bound.__name__, bound == lock.acquire, type(lock).acquire.__name__)
    print(released(), type(lock).acquire(lock), outcome(type(lock).acquire, 5), outcome(type(lock).acquire))
    print(outcome(pickle.dumps, kind())[:50], outcome(copy.copy, kind())[:50], weakref.ref(lock)() is lock)
    print(type(lock).acquire.__doc__ == kind().acquire.__doc__, type(lock).acquire.__text_signature__)
condition = threading.Condition(threading.Lock())
with condition:
    print(condition.wait(0.001), outcome(condition.notify))
print(outcome(condition.wait))
"""


@pytest.mark.parametrize("functions", [False, True])
def test_the_program_does_not_notice(functions: bool, out: Path) -> None:
    recorded(UNCHANGED, out, sources=["locks"], functions=functions)
    check_trace(out)


PLANTED = """
import json
lock, again, condition, gate = threading.Lock(), threading.RLock(), threading.Condition(), threading.Semaphore(2)
ready, waits = threading.Event(), {}
def note(kind, begin):
    waits.setdefault(kind, []).append(time.perf_counter() - begin)
def plain():
    begin = time.perf_counter()
    with lock:
        note("Lock", begin)
        time.sleep(0.02)
def nested():
    begin = time.perf_counter()
    with again:
        note("RLock", begin)
        with again:
            again.acquire()
            time.sleep(0.02)
            again.release()
def semaphore():
    begin = time.perf_counter()
    with gate:
        note("Semaphore", begin)
        time.sleep(0.02)
def event():
    ready.wait()
def notified():
    with condition:
        condition.wait()
def times_out():
    with lock:
        def tries():
            begin = time.perf_counter()
            lock.acquire(timeout=0.01)
            note("timeout", begin)
            lock.acquire(False)
        thread = threading.Thread(target=tries)
        thread.start(); thread.join()
together = threading.Barrier(4)
for function in (plain, nested, semaphore):
    def runs(function=function):
        together.wait()
        function()
    threads = [threading.Thread(target=runs) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
threads = [threading.Thread(target=function) for function in (event, notified)]
for thread in threads: thread.start()
time.sleep(0.02)
ready.set()
with condition:
    condition.notify_all()
for thread in threads: thread.join()
times_out()
fxtio.stop()
print(json.dumps(waits))
"""


def by_name(seen: Seen) -> dict[str, list[Span]]:
    """Return the spans of locks without those by which `threading` starts and ends threads."""
    result = defaultdict(list)
    for span in seen.spans():
        if span.category == "locks" and " Thread in " not in span.name:
            result[span.name].append(span)
    return result


def test_waits_and_holds(out: Path) -> None:
    waits = eval(fine("fxtio.start(OUT, sources=['locks'])\n" + PLANTED, out))
    found = by_name(check_trace(out))
    module = "<string>"
    for kind, function in (("Lock", "plain"), ("RLock", "nested"), ("Semaphore", "semaphore")):
        spans = found[f"wait for {kind} in {module}.{function}"]
        long = sorted(time for time in waits[kind] if time > 0.002)
        assert len(spans) >= len(long) >= 1
        lengths = sorted((span.end - span.start) / 1e9 for span in spans)[-len(long) :]
        assert all(0 <= expected - length < 0.5 for expected, length in zip(long, lengths, strict=True))
    assert len(found[f"wait for Event in {module}.event"]) == 1
    assert len(found[f"wait for Condition in {module}.notified"]) >= 1
    (timeout,) = found[f"wait for Lock in {module}.times_out.<locals>.tries"]
    assert timeout.end - timeout.start >= 9_000_000
    for function, kind in (("plain", "Lock"), ("nested", "RLock")):
        holds = sorted(found[f"hold {kind} in {module}.{function}"], key=lambda span: span.start)
        assert 1 <= len(holds) <= 4 and all(hold.end - hold.start >= 19_000_000 for hold in holds)
        assert all(first.end <= second.start for first, second in pairwise(holds))
        assert len({hold.id for hold in holds}) == 1
    assert not any(name.startswith("hold Event") or name == f"hold Lock in {module}.notified" for name in found)


def test_holds_end_with_the_recording(out: Path) -> None:
    source = """
lock, taken = threading.Lock(), threading.Event()
def holds():
    with lock:
        taken.set()
        time.sleep(0.02)
fxtio.start(OUT, sources=["locks"])
thread = threading.Thread(target=holds); thread.start()
taken.wait()
lock.acquire()
fxtio.stop()
lock.release()
fxtio.start(OUT + ".second")
taken.clear()
thread = threading.Thread(target=holds); thread.start()
taken.wait()
with lock: pass
fxtio.stop()
"""
    fine(source, out)
    counts = Counter(span.name for span in check_trace(out).spans() if span.category == "locks")
    assert counts["hold Lock in <string>.<module>"] == 1
    assert not [span for span in check_trace(out.with_name(out.name + ".second")).spans() if span.category == "locks"]


def test_an_interrupt_while_waiting(out: Path) -> None:
    source = """
import signal, _thread
def handler(*_):
    with fxtio.span("handler"):
        raise KeyError("mine")
signal.signal(signal.SIGALRM, handler)
lock, again = threading.Lock(), threading.RLock()
lock.acquire()
for _ in range(3):
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        lock.acquire()
    except KeyError as error:
        print(error)
lock.release()
condition = threading.Condition()
with condition:
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    try:
        condition.wait()
    except KeyError as error:
        print(error, condition._is_owned())
with condition:
    print(lock.acquire(False))
"""
    recorded(source, out, sources=["locks"])
    seen = check_trace(out)
    assert len(seen.spans("wait for Lock in <string>.<module>")) == 3
    assert len(seen.spans("handler")) == 4


@pytest.mark.parametrize("children", [False, True])
def test_forks(children: bool, out: Path) -> None:
    source = """
lock, taken = threading.Lock(), threading.Event()
def holds():
    with lock:
        taken.set()
        time.sleep(0.02)
def contend():
    taken.clear()
    thread = threading.Thread(target=holds); thread.start()
    taken.wait()
    with lock: pass
    thread.join()
contend()
for _ in range(2):
    if not (child := os.fork()):
        contend()
        sys.exit()
    os.waitpid(child, 0)
contend()
print("done")
"""
    recorded(source, out, sources=["locks"], children=children)
    waits = check_trace(out).spans("wait for Lock in <string>.contend")
    assert len(waits) == (4 if children else 2)


def test_many_threads_and_locks(out: Path) -> None:
    source = """
import sys
sys.setswitchinterval(1e-5)
locks = [threading.Lock() for _ in range(1500)] + [threading.RLock() for _ in range(5)]
counts = [0] * len(locks)
def work(seed):
    for step in range(6000):
        index = (step * 7919 + seed) % len(locks) if step % 3 else seed % 3 - 5
        with locks[index]:
            counts[index] += 1
            step % 9 or time.sleep(0)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(counts))
"""
    recorded(source, out, sources=["locks"])
    seen = check_trace(out)
    assert len([span for span in seen.spans() if span.name.startswith("hold ")]) > 0
