"""Operations, which begin and end anywhere."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import fxtio
from fxtio.testing.asserts import assert_valid
from fxtio.tracer import Operation
from support.tracer_check import check_trace
from support.tracer_run import fine
from support.tracer_view import View

pytestmark = pytest.mark.recorder


def test_one_begins_here_and_ends_in_another_thread(out: Path) -> None:
    with fxtio.tracing(out):
        order = fxtio.operation("order", "shop", number=7)
        order.instant("paid", amount=1.5)
        other = threading.Thread(target=lambda: fxtio.operation("order", "shop", id=order.id).end(status="sent"))
        other.start()
        other.join()
    [span] = check_trace(out).spans("order")
    assert (span.id, span.category, span.on_track) == (order.id, "shop", True)
    assert span.args == {"number": 7, "status": "sent"}
    [instant] = check_trace(out).rows(kind="async_instant", name="paid")
    assert check_trace(out).args(int(instant)) == {"amount": 1.5}
    assert_valid(out)


def test_those_at_the_same_time_have_ids_and_tracks_of_their_own(out: Path) -> None:
    async def work(number: int) -> None:
        operation = fxtio.operation("work", number=number)
        await asyncio.sleep(0.001 * (3 - number))
        operation.end(done=number)

    async def main() -> None:
        await asyncio.gather(*map(work, range(3)))

    with fxtio.tracing(out):
        asyncio.run(main())
    spans = check_trace(out).spans("work")
    assert len({span.id for span in spans}) == 3
    assert [span.args["number"] for span in spans] == [span.args["done"] for span in spans] == [0, 1, 2]


def test_one_with_the_same_id_is_within_it(out: Path) -> None:
    with fxtio.tracing(out):
        order = Operation("order", id=-5)
        order.begin()
        part = Operation("pack", id=order.id)
        part.begin(boxes=2)
        part.end()
        order.end()
    outer, inner = check_trace(out).spans()
    assert (outer.name, outer.depth, inner.name, inner.depth) == ("order", 1, "pack", 2)
    assert outer.id == inner.id == (1 << 64) - 5


def test_what_belongs_to_an_earlier_recording_is_left_out(out: Path) -> None:
    never = fxtio.operation("never")
    with fxtio.tracing(out):
        never.end()
        never.instant("nothing")
        order = fxtio.operation("order")
    with fxtio.tracing(out):
        order.end()
        order.instant("late")
        order.begin()
        order.end()
    assert [span.name for span in check_trace(out).spans()] == ["order"]
    assert not len(check_trace(out).rows(kind="async_instant"))


def test_names_of_arguments_are_those_of_the_program(out: Path) -> None:
    with fxtio.tracing(out):
        order = fxtio.operation("order", "shop", self=1, name=2, category=3, kind=4)
        order.instant("moment", self=1, name=2, kind=5)
        order.end(session=6, value=7)
    [span] = check_trace(out).spans()
    assert span.args == {"self": 1, "name": 2, "category": 3, "kind": 4, "session": 6, "value": 7}


def test_wrong_types_are_errors_whether_something_is_recorded_or_not(out: Path) -> None:
    def check() -> None:
        with pytest.raises(TypeError):
            Operation("order", id="text").begin()  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            fxtio.operation(5)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            fxtio.operation("order").instant("moment", "category")  # type: ignore[call-arg]

    check()
    with fxtio.tracing(out):
        check()


def test_a_killed_process_keeps_those_that_are_open(out: Path) -> None:
    fine("""
    fxtio.start(OUT)
    if os.fork() == 0:
        fxtio.operation("order", "shop", number=7)
        os.kill(os.getpid(), 9)
    os.wait()
    fxtio.stop()
    """, out)  # fmt: skip
    [span] = check_trace(out, open_spans=True).spans("order")
    assert (span.end_row, span.args) == (-1, {"number": 7})


def test_another_process_ends_it_by_its_id(out: Path) -> None:
    fine("""
    fxtio.start(OUT)
    order = fxtio.operation("order", "shop", number=7)
    if os.fork() == 0:
        fxtio.operation("order", "shop", id=order.id).end(by="child")
        fxtio.stop()
        os._exit(0)
    os.wait()
    fxtio.stop()
    """, out)  # fmt: skip
    [span] = check_trace(out).spans("order")
    assert span.args == {"number": 7, "by": "child"}
    with fxtio.open_timeline(out) as timeline:
        assert timeline.table("slices")["state"].tolist() == ["closed"]


@pytest.mark.full
@pytest.mark.once
def test_perfetto_shows_them_on_tracks_of_their_own(out: Path) -> None:
    with fxtio.tracing(out):
        first, second = fxtio.operation("first"), fxtio.operation("second")
        within = Operation("within", id=first.id)
        within.begin()
        threading.Thread(target=second.end).start()
        within.end()
        first.end(status=200)
    view = View(out)
    by_name = {item.name: item for item in view.slices}
    assert by_name["within"].parent_id == by_name["first"].id
    assert by_name["second"].parent_id is None
    assert by_name["first"].args["status"] == 200
    assert all(item.dur >= 0 for item in view.slices)
