"""Tasks of asyncio: each track has the name of its task, and a coroutine is counted once, with every way to record."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import fxtio
import judges
from fxtio.fxt.records import String
from fxtio.validate import validate
from judges import perfetto
from support.tracer_check import check_trace
from support.tracer_run import fine

pytestmark = pytest.mark.recorder

PROGRAM = """
import asyncio

DECORATE
async def inner(number):
    with fxtio.span("request", number=number):
        await asyncio.sleep(0.001)

DECORATE
async def job(number):
    await inner(number)
    if number == 2:
        raise KeyError
    await asyncio.sleep(0)

async def main():
    tasks = [asyncio.create_task(job(number), name=f"job {number}") for number in range(3)]
    await asyncio.gather(*tasks, return_exceptions=True)

fxtio.start(OUT, functions=not DECORATED, include=["<string>"])
asyncio.run(main())
fxtio.stop()
"""

SQL = """
select t.name as track, s.name as name, s.depth as depth, s.dur as dur
from slice s join track t on t.id = s.track_id where t.type like '%async%' order by t.id, s.ts, s.depth
"""


def program(*, decorated: bool) -> str:
    return PROGRAM.replace("DECORATED", str(decorated)).replace("DECORATE", "@fxtio.trace" if decorated else "")


@pytest.mark.full
@pytest.mark.parametrize("decorated", [False, True])
def test_tracks_have_the_names_of_tasks(decorated: bool, out: Path) -> None:
    fine(program(decorated=decorated), out)
    prefix = "" if decorated else "<string>."
    judges.require(perfetto.available())
    with perfetto.load(out) as p:
        assert p.errors() == {}
        rows = p.query(SQL)
    tracks: dict[str, list[str]] = {}
    for row in rows:
        tracks.setdefault(str(row["track"]), []).append(f"{'> ' * int(row['depth'] or 0)}{row['name']!s}")
    within = [f"await {prefix}job", f"> await {prefix}inner", "> > request"]
    expected = {f"job {number}": [f"job {number}", *(f"> {name}" for name in within)] for number in range(3)}
    lone = ["Task-1", "> await <string>.main"]
    if sys.version_info < (3, 12):  # nothing tells that a coroutine is that of its task
        lone = ["Task-1", "> Task-1", "await <string>.main"]
        expected = {f"job {number}": [f"job {number}", f"> job {number}", *within] for number in range(3)}
    if not decorated:
        expected["Task-1"] = lone
    assert tracks == expected
    assert all(int(str(row["dur"])) > 1_000_000 for row in rows if str(row["name"]).startswith("await"))


@pytest.mark.parametrize("decorated", [False, True])
def test_a_coroutine_is_counted_once(decorated: bool, out: Path) -> None:
    """As an awaited call, on the track of the task, and apart from what runs of it in its thread."""
    fine(program(decorated=decorated), out)
    seen = check_trace(out)
    prefix = "" if decorated else "<string>."
    calls, stretches = seen.spans(f"await {prefix}job"), seen.spans(f"{prefix}job")
    assert len(calls) == 3
    assert all(call.on_track for call in calls)
    assert not any(stretch.on_track for stretch in stretches)
    assert len(stretches) == 3 + 3 + 2
    inner = seen.spans(f"await {prefix}inner")
    assert len(inner) == 3
    assert {span.id for span in inner} == {span.id for span in calls}


def test_the_names_of_tasks_take_no_room_in_the_table(out: Path) -> None:
    """There may be millions of them, and each recording has those of the tasks that run on."""
    source = """
    import asyncio
    async def work():
        with fxtio.span("works"):
            pass
    async def twice(path):
        fxtio.start(path)
        with fxtio.span("around"):
            await asyncio.gather(*(work() for _ in range(100)))
        return fxtio.stop()
    async def main():
        asyncio.current_task().set_name("the first")
        for path in (OUT, OUT + ".2.fxt"):
            summary = await twice(path)
            print(summary.inlined, summary.cut)
    asyncio.run(main())
    """
    assert fine(source, out) == "0 0\n0 0\n"
    for path in (out, Path(f"{out}.2.fxt")):
        seen = check_trace(path)
        names = [seen.names[row] for row in seen.rows(kind="async_instant", category="asyncio")]
        assert len(set(names)) == len(names) == 101
        assert "the first" in names
        coroutines = {seen.args(row)["coroutine"] for row in seen.rows(kind="async_instant", category="asyncio")}
        assert coroutines == {"work", "main"}
        assert not set(texts_of(path)) & set(names)


def texts_of(path: Path) -> list[str]:
    """Return the texts in the table of strings."""
    with fxtio.open(path) as trace:
        return [record.text for record in trace if isinstance(record, String)]


def test_tasks_of_other_classes(out: Path) -> None:
    """The methods of a program's own class are not called; another kind of task is called a task."""
    source = """
    import asyncio
    class Own(asyncio.Task):
        def get_name(self): raise AssertionError
        def get_coro(self): raise AssertionError
    async def work():
        with fxtio.span("works"):
            await asyncio.sleep(0)
    async def main():
        loop = asyncio.get_running_loop()
        await Own(work(), loop=loop, name="own")
        await asyncio.tasks._PyTask(work(), loop=loop, name="python")
    with fxtio.tracing(OUT):
        asyncio.run(main())
    """
    fine(source, out)
    seen = check_trace(out)
    assert len(seen.spans("works")) == 2
    names = [seen.names[row] for row in seen.rows(kind="async_instant", category="asyncio")]
    assert names[0] == "own"
    assert set(names[1:]) <= {"task"}


def test_a_coroutine_outlives_the_recording(out: Path) -> None:
    source = """
    import asyncio
    async def work():
        await asyncio.sleep(0)
        fxtio.stop()
        await asyncio.sleep(0)
        fxtio.start(OUT + ".2.fxt", functions=True, include=["<string>"])
        await asyncio.sleep(0)
    async def main():
        await work()
        await asyncio.sleep(0)
    fxtio.start(OUT, functions=True, include=["<string>"])
    asyncio.run(main())
    fxtio.stop()
    """
    fine(source, out)
    check_trace(out, open_spans=True)
    check_trace(f"{out}.2.fxt")


def test_the_whole_call_of_a_decorated_coroutine_has_its_arguments(out: Path) -> None:
    source = """
    import asyncio
    @fxtio.trace(args=True)
    async def fetch(url, size=1):
        await asyncio.sleep(0)
    with fxtio.tracing(OUT):
        asyncio.run(fetch("u"))
    """
    fine(source, out)
    seen = check_trace(out)
    assert [span.args for span in seen.spans("await fetch")] == [{"url": "u", "size": 1}]
    assert [span.args for span in seen.spans("fetch")] == [{"url": "u", "size": 1}, {}]


@pytest.mark.parametrize("include", ["<string>", "nothing"], ids=["recorded", "not recorded"])
@pytest.mark.parametrize("factory", ["None", "getattr(asyncio, 'eager_task_factory', None)"], ids=["usual", "eager"])
def test_tasks_at_the_addresses_of_earlier_ones(factory: str, include: str, out: Path) -> None:
    """Each has a track of its own, which begins with its own name; arrows lead only to those that were waited for."""
    source = f"""
    import asyncio, gc, logging
    logging.disable()
    seen = []
    async def work(number):
        me = asyncio.current_task()
        fxtio.instant("me", name=me.get_name(), number=number)
        if number % 5 == 0:
            me.set_name(f"renamed {{number}}")
        await asyncio.sleep(0)
        fxtio.instant("later", number=number)
        if number % 7 == 0:
            await asyncio.Event().wait()
    async def waits(numbers):
        tasks = [asyncio.create_task(work(number), name=f"job {{number}}" if number % 3 == 0 else None)
                 for number in numbers]
        for task in tasks[::4]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    def abandoned(base):
        loop = asyncio.new_event_loop()
        loop.set_task_factory({factory})
        task = loop.create_task(waits(range(base, base + 20)))
        for _ in range(base // 20 % 4):
            loop.call_soon(loop.stop)
            loop.run_forever()
        if base % 40:
            gc.disable()
        loop.close()
        del loop, task
        gc.enable()
    with fxtio.tracing(OUT, functions=True, include=[{include!r}]):
        for base in range(0, 1200, 20):
            abandoned(base)
    """
    fine(source, out)
    seen = check_trace(out, open_spans=True)
    ids = seen.tables["events"]["id"].tolist()
    labels: dict[int, str] = {}
    for row in seen.rows(kind="async_begin", category="asyncio"):
        assert labels.setdefault(ids[row], seen.names[row]) == seen.names[row]
    assert len(labels) == len(seen.rows(kind="async_begin", category="asyncio"))
    tracks = {}
    for row in seen.rows(kind="async_instant", name="me"):
        tracks[seen.args(row)["number"]] = ids[row]
        assert labels[ids[row]] == seen.args(row)["name"]
    assert len(set(tracks.values())) == len(tracks) > 300
    for row in seen.rows(kind="async_instant", name="later"):
        assert ids[row] == tracks[seen.args(row)["number"]]
    begun = [ids[row] for row in seen.rows(kind="flow_begin")]
    ended = [ids[row] for row in seen.rows(kind="flow_end")]
    assert len(set(begun)) == len(begun)
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(begun)
    assert bool(ended) == (include == "<string>")


SHAPES = {
    "gather": """
        await asyncio.gather(*(handle(number) for number in range(5)))
    """,
    "nested tasks": """
        async def outer(depth):
            with fxtio.span("outer", depth=depth):
                fxtio.instant("within")
                if depth:
                    await asyncio.create_task(outer(depth - 1))
            fxtio.instant("after")
        await outer(4)
    """,
    "group": """
        async def fails():
            fxtio.instant("fails")
            with fxtio.span("failing"):
                await asyncio.sleep(0)
                raise KeyError
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(handle(1), name="a" * 300)
                group.create_task(fails())
                group.create_task(waits())
        except* KeyError:
            fxtio.instant("failed", "web")
    """,
    "cancelled": """
        tasks = [asyncio.create_task(waits()) for _ in range(4)]
        tasks[0].cancel()
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    """,
    "generators": """
        numbers = count(3)
        async for number in numbers:
            fxtio.instant("number", number=number)
        async for number in count(3):
            with fxtio.span("body"):
                await query(number)
            break
        await numbers.aclose()
    """,
    "instants only": """
        async def tick(number):
            for _ in range(3):
                fxtio.instant("tick", "clock", text="a longer text", number=number)
                logging.getLogger("app").warning("tick %d", number)
                await asyncio.sleep(0)
        await asyncio.gather(*(tick(number) for number in range(3)))
        await asyncio.to_thread(fxtio.instant, "elsewhere")
        asyncio.get_running_loop().call_soon(fxtio.instant, "callback")
        await asyncio.sleep(0)
    """,
    "a span that many tasks end": """
        spans = [fxtio.span("handed over", number=number) for number in range(3)]
        async def end(span):
            fxtio.instant("ends")
            span.__exit__(None, None, None)
        for span in spans:
            span.__enter__()
        fxtio.instant("between")
        for span in reversed(spans):
            await asyncio.create_task(end(span))
        fxtio.instant("after")
    """,
    "a value that records": """
        class Value:
            def __repr__(self):
                fxtio.instant("in a value")
                with fxtio.span("in a value"):
                    return "value"
        fxtio.instant("value", value=Value())
        with fxtio.span("around", value=Value()) as span:
            span.set(value=Value())
        fxtio.instant("value", value=Value())
    """,
    "overlapping": """
        first, second = fxtio.span("first"), fxtio.span("second", number=2)
        for step in (first.__enter__, second.__enter__):
            step()
            await asyncio.sleep(0)
        first.__exit__(None, None, None)
        fxtio.instant("in the second")
        await query(1)
        second.__exit__(None, None, None)
    """,
    "generators that take turns": """
        async def numbers():
            for number in range(3):
                with fxtio.span("yields", number=number):
                    yield await query(number)
        several = [numbers() for _ in range(3)]
        for _ in range(3):
            for each in several:
                await anext(each)
        async for _ in numbers():
            break
        for each in several:
            await each.aclose()
    """,
    "open at the end": """
        async def abandons():
            kept.extend(asyncio.create_task(waits(), name=f"job {number}") for number in range(2))
            fxtio.span("never left").__enter__()
            await query(1)
        def left():
            kept.append(asyncio.new_event_loop())
            kept[-1].run_until_complete(abandons())
        await asyncio.to_thread(left)
    """,
    "open tasks that wait for each other": """
        async def follows(task):
            await task
        async def abandons():
            kept.append(asyncio.create_task(waits()))
            kept.extend(asyncio.create_task(follows(kept[-1])) for _ in range(3))
            await query(1)
        def left():
            kept.append(asyncio.new_event_loop())
            kept[-1].run_until_complete(abandons())
        await asyncio.to_thread(left)
    """,
    "timeouts": """
        for wait in (asyncio.wait_for(waits(), 0.001), asyncio.wait([asyncio.create_task(waits())], timeout=0.001)):
            try:
                await wait
            except TimeoutError:
                fxtio.instant("too late")
        await asyncio.shield(handle(1))
    """,
    "a queue": """
        queue = asyncio.Queue()
        async def work():
            while True:
                item = await queue.get()
                with fxtio.span("item", number=item):
                    await asyncio.sleep(0)
                queue.task_done()
        workers = [asyncio.create_task(work()) for _ in range(2)]
        for number in range(5):
            await queue.put(number)
        await queue.join()
        for worker in workers:
            worker.cancel()
    """,
    "eager tasks": """
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
        with fxtio.span("around"):
            tasks = [asyncio.create_task(handle(number)) for number in range(3)]
            await asyncio.wait(tasks)
        await asyncio.create_task(asyncio.sleep(0))
    """,
    "several loops": """
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, handle(number)) for number in range(3)))
    """,
    "restarted": """
        with fxtio.span("over both"):
            await handle(1)
            task = asyncio.create_task(handle(2))
            await task
        fxtio.stop()
        with fxtio.span("over the start"):
            fxtio.start(OUT, **OPTIONS)
            fxtio.instant("started")
        fxtio.instant("later")
        await asyncio.gather(task, asyncio.create_task(handle(3)))
    """,
}

COMMON = """
import asyncio, logging

kept = []

DECORATE
async def query(number):
    fxtio.instant("asked")
    await asyncio.sleep(0.001)
    return number

DECORATE
async def handle(number):
    fxtio.instant("before", "web")
    with fxtio.span("request", "web", number=number) as span:
        fxtio.instant("accepted", "web")
        span.set(answer=await query(number))
    fxtio.instant("after", "web")

DECORATE
async def waits():
    try:
        with fxtio.span("waiting"):
            await asyncio.Event().wait()
    finally:
        fxtio.instant("ends")

DECORATE
async def count(last):
    for number in range(last):
        fxtio.instant("yields", number=number)
        yield number
        with fxtio.span("between"):
            await asyncio.sleep(0)

DECORATE
async def main():
BODY

logging.disable(logging.NOTSET)
fxtio.start(OUT, **OPTIONS)
asyncio.run(main())
fxtio.stop()
"""

WAYS: dict[str, dict[str, Any]] = {
    "marks": {},
    "decorated": {},
    "functions": {"functions": True, "include": ["<string>"], "args": ["<string>"]},
    "a category": {"categories": ["web"]},
    "outer calls": {"functions": True, "max_depth": 4},
    "a ring": {"functions": True, "ring": "64MiB"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_programs_break_no_rule(shape: str, way: str, out: Path) -> None:
    """Those about other programs included: what is open on a track is nested, and instants are within operations."""
    body = textwrap.indent(textwrap.dedent(SHAPES[shape]), "    ")
    program = COMMON.replace("BODY", body).replace("DECORATE", "@fxtio.trace" if way == "decorated" else "")
    fine(program, out, **WAYS[way])
    assert validate(out).counts == {}


def test_an_instant_outside_of_spans_lies_in_one_of_its_own(out: Path) -> None:
    source = """
    import asyncio
    async def main():
        fxtio.instant("before", "web", number=1)
        with fxtio.span("request"):
            fxtio.instant("within", "web")
        fxtio.instant("after", "web", number=2)
    with fxtio.tracing(OUT):
        asyncio.run(main())
    """
    fine(source, out)
    seen = check_trace(out)
    expected = [("Task-1", "asyncio"), ("before", "web"), ("request", ""), ("after", "web")]
    assert [(span.name, span.category) for span in seen.spans()] == expected
    instants = {seen.names[row]: seen.args(row) for row in seen.rows(kind="async_instant")}
    assert instants == {
        "Task-1": {"coroutine": "main"},
        "before": {"number": 1},
        "within": {},
        "after": {"number": 2},
    }
    assert not any(span.args for span in seen.spans())


def test_a_coroutine_that_catches_what_is_thrown_into_it_awaits_again(out: Path) -> None:
    source = """
    import asyncio
    @fxtio.trace
    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "done"
    async def main():
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        task.cancel()
        print(await task)
    with fxtio.tracing(OUT):
        asyncio.run(main())
    """
    assert fine(source, out) == "done\n"
    assert len(check_trace(out).spans("stubborn")) == 3


def test_an_arrow_ends_where_the_waiting_task_goes_on_if_the_other_has_no_slices(out: Path) -> None:
    """Whether that records nothing or was canceled before it began; and only once if it begins later."""
    source = """
    import asyncio
    async def silent():
        await asyncio.sleep(0)
    @fxtio.trace
    async def traced():
        await asyncio.sleep(0)
    @fxtio.trace
    async def main():
        await asyncio.create_task(silent())
        await asyncio.gather(silent(), traced(), silent())
        never = asyncio.create_task(traced())
        never.cancel()
        await asyncio.gather(never, return_exceptions=True)
        late = asyncio.create_task(waits_for_all())
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
    @fxtio.trace
    async def waits_for_all():
        await asyncio.gather(*[traced() for _ in range(3)])
    with fxtio.tracing(OUT):
        asyncio.run(main())
    """
    fine(source, out)
    assert validate(out).counts == {}
    seen = check_trace(out)
    ids = seen.tables["events"]["id"].tolist()
    begun, ended = ([ids[row] for row in seen.rows(kind=kind)] for kind in ("flow_begin", "flow_end"))
    assert len(begun) == len(set(begun)) == 9
    assert sorted(begun) == sorted(ended)
    starts = [(span.start, span.end, span.name) for span in seen.spans() if not span.on_track]
    times = seen.tables["events"]["time"]
    places = [
        next(name for start, end, name in starts if start <= times[row] <= end) for row in seen.rows(kind="flow_end")
    ]
    assert 3 <= places.count("main") <= 4  # that which never began may have a slice with its exception


def test_messages_of_loggers_lie_in_operations_of_their_tasks(out: Path) -> None:
    source = """
    import asyncio, logging
    async def main():
        logging.warning("alone %d", 1)
        with fxtio.span("request"):
            logging.warning("within")
    with fxtio.tracing(OUT, sources=["logging"]):
        logging.warning("outside")
        asyncio.run(main())
    """
    fine(source, out)
    assert dict(validate(out).counts).keys() == {"fxt.log.not-shown"}
    seen = check_trace(out)
    assert [span.name for span in seen.spans()] == ["Task-1", "WARNING", "request"]
    rows = seen.rows(kind="async_instant", category="logging")
    assert [seen.args(row)["message"] for row in rows] == ["alone 1", "within"]
    assert len(seen.rows(kind="instant", category="logging")) == 1
