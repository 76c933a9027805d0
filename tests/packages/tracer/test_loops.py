"""Event loops of asyncio: their steps and iterations, dumps for those that take long, and blocks that are planted."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import fxtio
from fxtio.timeline.answers import Blocks, blocking
from support.checkout import run_python
from support.tracer_check import check_trace
from support.tracer_run import recorded, run

pytestmark = pytest.mark.recorder

MS = 1_000_000

STEPS = """
import asyncio, functools, traceback
class Odd:
    def __call__(self):
        print("odd")
async def work():
    await asyncio.sleep(0)
    print(len([line for line in traceback.format_stack() if "asyncio" in line]))
    raise KeyError("mine")
def callback(*args):
    print("callback", args)
def fails():
    raise ValueError("its own")
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: print(context["message"], traceback.format_exception(
        context["exception"])[1:]))
    for each in (Odd(), functools.partial(functools.partial(callback, 1), 2), fails, [].clear, callback):
        loop.call_soon(each)
    loop.call_soon_threadsafe(callback, "from a thread")
    try:
        await asyncio.create_task(work(), name="named")
    except KeyError as error:
        print(traceback.format_exception(error)[1:])
    loop.call_later(0.02, callback, "later")
    await asyncio.sleep(0.04)
    print(asyncio.Handle._run.__name__, asyncio.Handle._run.__qualname__, callable(loop._run_once))
asyncio.run(main())
"""


@pytest.mark.parametrize("functions", [False, True])
def test_steps(functions: bool, out: Path) -> None:
    recorded(STEPS, out, sources=["asyncio"], functions=functions)
    seen = check_trace(out)
    steps = [span for span in seen.spans() if span.name.startswith("step ")]
    names = [span.name for span in steps]
    module = "<string>"
    assert names.count(f"step {module}.work") == 2
    assert names.count(f"step {module}.callback") == 4
    assert {f"step {module}.main", f"step {module}.fails", "step clear", "step __main__.Odd"} <= set(names)
    iterations = seen.spans("asyncio.base_events.BaseEventLoop._run_once" if functions else "iteration")
    assert {span.category for span in seen.spans() if span in steps or span.name == "iteration"} == {"asyncio"}
    ends = {(span.start, span.end) for span in iterations}
    for step in steps:
        assert any(start <= step.start and step.end <= end for start, end in ends)
        assert step.args.get("source.file_name", module) == module or "asyncio" in step.args["source.file_name"]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_step_that_ends_the_recording(goes_on: bool, out: Path) -> None:
    source = f"""
import asyncio
def ends():
    if OUT:
        fxtio.stop()
    if OUT and {goes_on}:
        fxtio.start(OUT, sources=["asyncio"])
async def main():
    asyncio.get_running_loop().call_soon(ends)
    for _ in range(3):
        await asyncio.sleep(0.001)
asyncio.run(main())
"""
    recorded(source, out, sources=["asyncio"])
    names = [span.name for span in check_trace(out, open_spans=True).spans()]
    assert ("step <string>.ends" in names) != goes_on
    assert names.count("step <string>.main") >= (3 if goes_on else 1)


def test_a_step_that_ends_the_program(out: Path) -> None:
    source = """
import asyncio
def ends():
    raise SystemExit(3)
async def main():
    asyncio.get_running_loop().call_soon(ends)
    await asyncio.sleep(1)
asyncio.run(main())
"""
    assert recorded(source, out, sources=["asyncio"]).returncode == 3
    assert len(check_trace(out).spans("step <string>.ends")) == 1


def test_many_functions(out: Path) -> None:
    source = """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    for number in range(11_000):
        loop.call_soon(eval(f"lambda: {number}"))
        if number % 1000 == 0:
            await asyncio.sleep(0)
asyncio.run(main())
"""
    recorded(source, out, sources=["asyncio"])
    names = [span.name for span in check_trace(out).spans()]
    assert sum("lambda" in name for name in names) == 11_000


# ---- Dumps.


BLOCKS = """
import asyncio
def hold():
    time.sleep(0.03)
async def main():
    loop = asyncio.get_running_loop()
    loop.call_soon(hold)
    loop.call_soon(hold)
    await asyncio.sleep(0.05)
asyncio.run(main())
"""


@pytest.mark.parametrize("functions", [False, True])
def test_a_dump_for_a_loop_that_is_held(functions: bool, out: Path) -> None:
    recorded(BLOCKS, out, dump_on=["blocking:20ms"], functions=functions)
    dumps = [path for path in out.parent.iterdir() if path != out]
    assert [path.name for path in dumps] == ["out-1.fxt"]  # at most one in a second
    (row,) = check_trace(out).rows(name="dump", category="fxtio")
    assert check_trace(out).args(int(row))["reason"] == "blocking step <string>.hold"
    with fxtio.open_timeline(out.with_name("out-1.fxt")) as timeline:
        (block,) = blocking(timeline, longer=20 * MS).rows
    assert (block.name, block.step) == ("<string>.hold",) * 2


def test_no_dump_for_short_steps_and_for_other_spans(out: Path) -> None:
    source = BLOCKS + "with fxtio.span('slow'):\n    time.sleep(0.2)"
    recorded(source, out, dump_on=["blocking:150ms"])
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_dump_that_fails_does_no_harm(out: Path) -> None:
    source = (
        """
fxtio.start(OUT, dump_on=["blocking:20ms"])
import fxtio.tracer.flight as flight
def fails(*_): raise OSError("no room")
flight.Dumps.take = fails
"""
        + BLOCKS
    )
    done = run(source, out)
    assert done.returncode == 0
    assert "no dump (blocking step <string>.hold): no room" in done.stderr


# ---- Blocks that are planted.


planted_blocks = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("starlette", "httpx"))), reason="starlette or httpx is not installed"
)


def plant(
    folder: Path, count: int, longest: int, limit: int, *options: str
) -> tuple[Path, list[tuple[str, float]], list[float]]:
    """Record a program that plants blocks; return the trace, the blocks, and the times that asyncio reports (ms)."""
    path, out = Path(__file__).parents[2] / "support" / "planted_blocks.py", folder / "planted.fxt"
    arguments = ["-m", "fxtio", "run", "-q", "-o", str(out), *options, str(path)]
    planted, reported = json.loads(run_python(*arguments, *map(str, (count, 5, longest, limit))).stdout)
    return out, [(name, took) for name, took in planted], reported


def check_planted(answer: Blocks, planted: list[tuple[str, float]], reported: list[float], limit: int) -> None:
    """Check that the blocks are those that are planted, with their functions, and others only where asyncio says so.

    On a busy machine, a step may wait for a processor longer than for what is planted in it, or between the two clocks
    that are read: one in 200 may differ, and one besides, so that a few are not judged more strictly than many.
    """
    few = 1 + len(planted) // 200
    took = [block.duration / MS for block in answer.rows]
    assert len([time for time in reported if time >= limit + 1]) - few <= len(took)
    assert len(took) <= len(reported) + 1 + few  # the first step
    kinds = {name for name, _ in planted}
    rows = sorted(answer.rows, key=lambda block: block.time)
    found = [(name, block.duration / MS) for block in rows if (name := block.name.rpartition(".")[2]) in kinds]
    matched = 0
    for name, time in planted:
        matched += matched < len(found) and found[matched][0] == name and found[matched][1] >= time
    assert matched == len(found) and len(planted) - matched <= few


@planted_blocks
@pytest.mark.parametrize("options", [[], ["--source=asyncio"]], ids=["functions", "with steps"])
def test_planted_blocks(options: list[str], tmp_path: Path) -> None:
    out, planted, reported = plant(tmp_path, 40, 15, 4, *options)
    assert len(planted) == 40
    with fxtio.open_timeline(out) as timeline:
        check_planted(blocking(timeline, longer=4 * MS), planted, reported, 4)


@planted_blocks
def test_planted_blocks_without_functions(tmp_path: Path) -> None:
    out, planted, reported = plant(tmp_path, 20, 15, 4, "--spans-only", "--source=asyncio")
    with fxtio.open_timeline(out) as timeline:
        answer = blocking(timeline, longer=4 * MS)
    assert len([took for took in reported if took >= 5]) <= answer.count <= len(reported)
    assert answer.count >= len(planted) == 20


@pytest.mark.full
@planted_blocks
def test_a_thousand_planted_blocks(tmp_path: Path) -> None:
    out, planted, reported = plant(tmp_path, 1000, 60, 4)
    with fxtio.open_timeline(out) as timeline:
        answer = blocking(timeline, longer=4 * MS)
        check_planted(answer, planted, reported, 4)
        assert len(planted) == 1000
        for limit in (20 * MS, 40 * MS):  # of which the longest ones are found
            fewer = blocking(timeline, longer=limit)
            assert fewer.rows == [block for block in answer.rows if block.duration >= limit]
            assert fewer.count == len(fewer.rows)
