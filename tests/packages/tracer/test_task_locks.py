"""Locks of asyncio: which tasks wait for them and hold them, and that the program does not notice."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from support.tracer_check import Seen, Span, check_trace
from support.tracer_run import fine, recorded

pytestmark = pytest.mark.recorder

UNCHANGED = """
import asyncio, traceback
def outcome(call, *args):
    try:
        return repr(call(*args))
    except BaseException:
        return traceback.format_exc().replace("<sys>", "")
async def takes(lock, done, name):
    async with lock:
        done.append(name)
        await asyncio.sleep(0)
async def fails(lock):
    try:
        raise KeyError("handled")
    except KeyError:
        await lock.acquire()
        lock.release()
    await asyncio.sleep(0.001)
    await asyncio.wait_for(lock.acquire(), 0.005)
async def main():
    for kind in (asyncio.Lock, asyncio.Semaphore, asyncio.BoundedSemaphore, asyncio.Condition):
        lock, done = kind(), []
        await lock.acquire()
        tasks = [asyncio.create_task(takes(lock, done, n)) for n in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[3].cancel()
        print(lock.locked(), repr(lock).rpartition("[")[2], len(asyncio.all_tasks()))
        lock.release()
        print(await asyncio.gather(*tasks, return_exceptions=True), done, lock.locked())
        await lock.acquire()
        task = asyncio.create_task(fails(lock))
        await asyncio.sleep(0.001)
        lock.release()
        await asyncio.sleep(0)
        await lock.acquire()
        try:
            await task
        except BaseException as error:
            print(type(error), type(error.__context__), len(traceback.format_exception(error)))
        lock.release()
        print(outcome(lock.release), lock.acquire.__qualname__, sorted(vars(lock)))
    event = asyncio.Event()
    tasks = [asyncio.create_task(event.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    event.set()
    print(await asyncio.gather(*tasks), await event.wait())
    barrier = asyncio.Barrier(3)
    print(sorted(await asyncio.gather(*(barrier.wait() for _ in range(3)))))
    queue = asyncio.Queue(1)
    task = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    await queue.put(5)
    print(await task)
    lock = asyncio.Lock()
    await asyncio.gather(takes(lock, done, 8), takes(lock, done, 9))
    return lock
def other_loop(lock):
    async def run():
        await lock.acquire()
        try:
            await lock.acquire()
        except RuntimeError:
            print(traceback.format_exc().count("File"))
    asyncio.run(run())
lock = asyncio.run(main())
other_loop(lock)
async def no_task():
    pass
try:
    lock.acquire().send(None)
    lock.acquire().send(None)
except BaseException as error:
    print(repr(error)[:40])
print(type(asyncio.Lock().acquire).__name__, asyncio.iscoroutinefunction(asyncio.Lock.acquire))
"""


@pytest.mark.parametrize("functions", [False, True])
def test_the_program_does_not_notice(functions: bool, out: Path) -> None:
    recorded(UNCHANGED, out, sources=["locks"], functions=functions)
    check_trace(out)


def by_name(seen: Seen) -> dict[str, list[Span]]:
    """Return the spans of locks in the order of their begins, without what asyncio itself and threads use."""
    result = defaultdict(list)
    for span in sorted(seen.spans(), key=lambda span: span.start):
        if span.category == "locks" and " in <string>." in span.name:
            result[span.name.replace(" in <string>.", " in ")].append(span)
    return result


PLANTED = """
import asyncio
async def save(lock):
    async with lock:
        await asyncio.sleep(0.01)
async def waits(ready, condition, gate):
    await ready.wait()
    async with condition:
        await condition.wait()
    async with gate:
        await asyncio.sleep(0.005)
async def main():
    lock, ready, condition, gate = asyncio.Lock(), asyncio.Event(), asyncio.Condition(), asyncio.Semaphore()
    await asyncio.gather(*(save(lock) for _ in range(4)))
    await save(lock)
    await save(asyncio.Lock())
    tasks = [asyncio.create_task(waits(ready, condition, gate)) for _ in range(2)]
    await asyncio.sleep(0.005)
    ready.set()
    await asyncio.sleep(0.005)
    async with condition:
        condition.notify_all()
    await asyncio.gather(*tasks)
"""


@pytest.mark.parametrize("start", ["", "fxtio.start(OUT, sources=['locks'])"])
def test_waits_and_holds(start: str, out: Path) -> None:
    """The recording begins before asyncio is imported, or after it."""
    after = "" if start else "fxtio.start(OUT, sources=['locks'])"
    fine(f"{start}\n{PLANTED}\n{after}\nasyncio.run(main())\nfxtio.stop()", out)
    seen = check_trace(out)
    found = by_name(seen)
    waits, holds = found["wait for Lock in save"], found["hold Lock in save"]
    assert len(waits) == 3 and waits[0].start < waits[0].end
    assert all(wait.start <= hold.start < hold.end <= wait.end for wait, hold in zip(waits[1:], holds, strict=False))
    assert len(holds) == 4  # the first task took it when nobody had waited; the last one was alone
    assert all(9_000_000 < hold.end - hold.start < 1_000_000_000 for hold in holds)
    assert all(first.end <= second.start for first, second in pairwise(holds))
    assert all(wait.end <= hold.start for wait, hold in zip(waits, holds, strict=False))
    assert len({hold.id for hold in holds}) == 1 and len({wait.id for wait in waits}) == 3
    assert seen.tables["args"]["name"].tolist().count("source.line_number") == 4  # with the first wait of each place
    assert len(found["wait for Event in waits"]) == len(found["wait for Condition in waits"]) == 2
    assert len(found["wait for Semaphore in waits"]) == 1
    assert not [name for name in found if name.startswith("hold ") and "Lock" not in name and "Condition" not in name]


def test_waits_that_end_without_the_lock(out: Path) -> None:
    source = """
import asyncio
async def gives_up(lock):
    try:
        raise KeyError
    except KeyError:
        asyncio.get_running_loop().call_later(0.005, fxtio.instant, "due")
        async with asyncio.timeout(0.005):
            await lock.acquire()
async def patient(lock):
    await asyncio.wait_for(lock.acquire(), 5)
    lock.release()
async def main():
    lock = asyncio.Lock()
    async with lock:
        for _ in range(2):
            try:
                await gives_up(lock)
            except TimeoutError:
                print("late")
        task = asyncio.create_task(patient(lock))
        await asyncio.sleep(0.005)
    await task
asyncio.run(main())
"""
    recorded(source, out, sources=["locks"])
    seen = check_trace(out)
    found = by_name(seen)
    waits, due = found["wait for Lock in gives_up"], seen.tables["events"]["time"][seen.rows(name="due")].tolist()
    assert len(waits) == len(due) == 2
    assert all(wait.start < time < wait.end for wait, time in zip(waits, due, strict=True))
    assert not [name for name in found if name.startswith("hold Lock in gives_up")]


def test_waits_and_holds_that_outlast_the_recording(out: Path) -> None:
    source = """
import asyncio
async def save(lock):
    async with lock:
        await asyncio.sleep(0.005)
async def main():
    lock = asyncio.Lock()
    tasks = [asyncio.create_task(save(lock)) for _ in range(4)]
    await asyncio.sleep(0.008)
    fxtio.stop()
    fxtio.start(OUT + ".second", sources=["gc"])
    await tasks[2]
    fxtio.stop()
    fxtio.start(OUT + ".third", sources=["locks"])
    await asyncio.gather(*tasks, *(save(lock) for _ in range(2)))
    fxtio.stop()
fxtio.start(OUT, sources=["locks"])
asyncio.run(main())
"""
    fine(source, out)
    seen = check_trace(out)
    assert len(by_name(seen)["wait for Lock in save"]) == 3
    second = check_trace(out.with_name(out.name + ".second"))
    assert not second.rows(category="locks").size
    third = by_name(check_trace(out.with_name(out.name + ".third")))
    assert len(third["wait for Lock in save"]) == 2
    assert len(third["hold Lock in save"]) == 2


@pytest.mark.parametrize("children", [False, True])
def test_forks(children: bool, out: Path) -> None:
    """The child goes on with a lock that its parent has watched, and with one that was held when it was forked."""
    source = """
import asyncio
async def save(lock):
    async with lock:
        await asyncio.sleep(0.002)
async def contend(lock):
    await asyncio.gather(*(save(lock) for _ in range(3)))
with asyncio.Runner() as runner:
    watched, held = asyncio.Lock(), asyncio.Lock()
    runner.run(contend(watched))
    runner.run(contend(held))
    runner.run(held.acquire())
    child = os.fork()
    held.release()
    for lock in (watched, held):
        runner.run(contend(lock))
    if not child:
        os._exit(watched.locked() + held.locked())
    print(os.waitpid(child, 0)[1], watched.locked(), held.locked())
"""
    recorded(source, out, sources=["locks"], children=children)
    found = by_name(check_trace(out))
    assert len(found["wait for Lock in save"]) == (12 if children else 8)


def test_many_tasks_and_locks(out: Path) -> None:
    source = """
import asyncio
async def work(locks, seed):
    for step in range(60):
        async with locks[(step * 7919 + seed) % len(locks)]:
            await asyncio.sleep(0)
async def main():
    locks = [asyncio.Lock() for _ in range(40)]
    await asyncio.gather(*(work(locks, seed) for seed in range(80)))
    print(sum(lock.locked() for lock in locks))
asyncio.run(main())
"""
    recorded(source, out, sources=["locks", "asyncio"])
    seen = check_trace(out)
    found = by_name(seen)
    holds = defaultdict(list)
    for hold in found["hold Lock in work"]:
        holds[hold.id].append(hold)
    assert len(holds) == 40 and len(found["wait for Lock in work"]) > 1000
    for each in holds.values():
        assert all(first.end <= second.start for first, second in pairwise(each))
