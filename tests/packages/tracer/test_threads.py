"""Threads that record at the same time: every event is there, and each thread's events belong to it.

On a free-threaded build of CPython they do so without an interpreter lock; see CONTRIBUTING.md for how to run these
tests there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

THREADS, ROUNDS = 4, 3000

TOGETHER = f"""
def together(target):
    "Run a function in several threads that begin at the same time."
    barrier = threading.Barrier({THREADS})
    def body(number):
        barrier.wait()
        target(number)
    threads = [threading.Thread(target=body, args=(number,), name=f"worker {{number}}") for number in range({THREADS})]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""

RECORDS = f"""
@fxtio.trace
def decorated(): pass
@fxtio.trace(args=True, result=True)
def described(value): return value
def plain(): pass
def generated():
    yield 1
    yield 2
def target(number):
    for index in range({ROUNDS}):
        with fxtio.span("shared", "work", index=index):
            with fxtio.span(f"name {{index % 100}}"):
                plain()
        decorated()
        described(index)
        fxtio.instant("moment")
        fxtio.counter("level", index)
        for _ in generated(): pass
"""


def test_every_event_of_every_thread(out: Path) -> None:
    """Far more than a chunk holds, so that threads flush, and move each other's records, all the time."""
    source = f"{TOGETHER}{RECORDS}\nfxtio.start(OUT, functions=True)\ntogether(target)\n"
    source += "summary = fxtio.stop(); print(summary.lost, summary.inlined)"
    assert fine(source, out) == "0 0\n"
    seen = check_trace(out)
    spans = Counter(span.name.rpartition(".")[2] for span in seen.spans())
    every = THREADS * ROUNDS
    expected = {"shared": every, "plain": every, "decorated": every, "described": every, "generated": 3 * every}
    assert {name: spans[name] for name in expected} == expected
    assert sum(count for name, count in spans.items() if name.startswith("name ")) == every
    indices = Counter(span.args["index"] for span in seen.spans("shared"))
    assert indices == dict.fromkeys(range(ROUNDS), THREADS)


@pytest.mark.parametrize("options", ["ring='1MiB'", "max_size='2MiB'"])
def test_dumps_while_threads_record(out: Path, options: str) -> None:
    """What is overwritten or has no room is missing; what is there is whole."""
    source = f"""{TOGETHER}{RECORDS}
dumps = []
def dumping():
    while len(dumps) < 5:
        dumps.append(fxtio.dump(f"{{OUT}}-{{len(dumps)}}.fxt"))
fxtio.start(OUT, functions=True, {options})
thread = threading.Thread(target=dumping)
thread.start()
together(target)
thread.join()
fxtio.stop()
print(len(dumps))
"""
    assert fine(source, out) == "5\n"
    for path in (out, *(Path(f"{out}-{number}.fxt") for number in range(5))):
        check_trace(path, ring="ring" in options, open_spans=True)


def test_spans_that_other_threads_end(out: Path) -> None:
    """Each ends on the track where it began, whether it was opened within a function or not."""
    source = f"""{TOGETHER}
import queue
def opened(name):
    span = fxtio.span(name)
    span.__enter__()
    return span
fxtio.start(OUT, functions=True)
handed = queue.SimpleQueue()
def give(number):
    for index in range(500):
        handed.put(opened("deep") if index % 2 else fxtio.span("shallow").__enter__())
    for index in range(500):
        handed.get().__exit__(None, None, None)
together(give)
fxtio.stop()
"""
    fine(source, out)
    names = Counter(record.name for record in check_trace(out, crossed=True).spans())
    assert names["shallow"] >= THREADS * 250
    assert names["deep"] >= THREADS * 250


def test_recordings_that_begin_and_end_while_threads_record(out: Path) -> None:
    source = f"""{TOGETHER}{RECORDS}
import itertools
is_over = threading.Event()
def recordings():
    for number in range(8):
        fxtio.start(f"{{OUT}}{{number}}.fxt", functions=number % 2 == 0, max_size="1MiB")
        time.sleep(0.01)
        fxtio.stop()
    is_over.set()
def endless(number):
    while not is_over.is_set():
        with fxtio.span(f"span {{number}}"):
            plain()
        decorated()
        described(number)
thread = threading.Thread(target=recordings)
thread.start()
together(endless)
thread.join()
print("over")
"""
    assert fine(source, out) == "over\n"
    for number in range(8):
        check_trace(Path(f"{out}{number}.fxt"), open_spans=True)


def test_the_name_of_a_thread_stays_out_of_the_next_recording(out: Path) -> None:
    """Another thread may end a recording, and begin one, while a name is written: its text has another slot there."""
    source = """
    from fxtio.tracer import encode
    original = encode.thread_name
    def thread_name(*args):
        record = original(*args)
        encode.thread_name = original
        fxtio.stop()
        fxtio.start(OUT)
        return record
    fxtio.start(OUT + ".first.fxt")
    for number in range(50): fxtio.instant(f"name {number}")
    encode.thread_name = thread_name
    thread = threading.Thread(target=fxtio.instant, args=("here",), name="worker")
    thread.start()
    thread.join()
    fxtio.instant("last")
    fxtio.stop()
    """
    assert fine(source, out) == ""
    check_trace(Path(f"{out}.first.fxt"))
    assert "last" in check_trace(out).names
