"""The recorder in C against its twin in Python: the same program gives the same trace, but for times and ids.

Both run in this process, each with a file of its own; see test_tracer_twins_process for whole programs.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fxtio
from fxtio.fxt import records as r
from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.file import RecordingFile
from fxtio.tracer.layout import KINDS, LAYOUT
from support.tracer_twins import both, categories, in_c, in_python, only_thread, programs, read, recording, run, said

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with shared mappings")


@pytest.fixture(autouse=True)
def _configured() -> None:
    in_python.configure(LAYOUT)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # long texts are among the values
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(program=programs)
def test_arbitrary_programs(tmp_path: Path, program: list[Any]) -> None:
    both(tmp_path, lambda recorder: run(recorder, program))


@given(category=categories, only=st.none() | st.frozensets(categories), without=st.none() | st.frozensets(categories))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_categories(tmp_path: Path, category: str, only: Any, without: Any) -> None:
    def program(recorder: Any) -> None:
        recorder.instant("always", "app")
        with recorder.span("a", category, x=1):
            recorder.counter("c", 1, category)

    only = None if only is None else {*only, "app"}
    both(tmp_path, program, only=only, without=None if without is None else set(without) - {"app"})


# ---- Examples.


def test_the_interface_is_the_same() -> None:
    here = {name for name in dir(in_c) if not name.startswith("_")} | {"LAYOUT", "configure"}
    if sys.version_info >= (3, 12):
        here |= {"profile_threads", "profile_here"}
    assert here == set(in_python.__all__)
    assert in_python.TSC == 0
    assert not in_c.active()
    assert not in_python.active()


def test_long_programs_fill_many_chunks(tmp_path: Path) -> None:
    def program(recorder: Any) -> None:
        for number in range(30_000):
            with recorder.span("outer", "app", number=number):
                recorder.instant("inner")
            if number % 100 == 0:
                recorder.instant("long", **{f"key{key}": "x" * (number % 900) for key in range(number % 14)})

    assert len(only_thread(both(tmp_path, program))) == 90_300


def test_threads_beyond_the_table(tmp_path: Path) -> None:
    """More than 255: the others stand in their events.  All of them live at the same time."""
    count = 300

    def program(recorder: Any) -> None:
        turns = [threading.Event() for _ in range(count + 1)]

        def work(number: int) -> None:
            turns[number].wait()
            for time in range(3):
                with recorder.span("work", number=number, text="x" * time):
                    recorder.instant("inside")
            recorder.message("done")
            turns[number + 1].set()
            turns[-1].wait()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        turns[0].set()
        for thread in threads:
            thread.join()

    assert len(both(tmp_path, program)) == count


def test_threads_that_end_leave_their_chunk(tmp_path: Path) -> None:
    sizes = {}
    for recorder in (in_c, in_python):
        with recording(recorder, tmp_path / "a.fxt") as done:
            for _ in range(100):
                thread = threading.Thread(target=recorder.instant, args=("here",))
                thread.start()
                thread.join()
            done.size = (tmp_path / "a.fxt").stat().st_size
        assert sum(map(len, read(tmp_path / "a.fxt").values())) == 100
        sizes[recorder] = (done.size - done.file.end) / recorder.CHUNK_BYTES
    assert all(size < 5 for size in sizes.values())


def test_more_names_than_the_table_holds(tmp_path: Path) -> None:
    def program(recorder: Any) -> None:
        for number in range(33_000):
            recorder.instant(f"name {number}")
        with recorder.span("y" * 300, "category", key=1):
            recorder.instant("name 5", "ä" * 130, value="text")

    events = only_thread(both(tmp_path, program))
    assert events[32_999][3] == "name 32999"
    assert events[33_000][3] == "y" * 250


def test_too_many_arguments_are_counted_not_recorded(tmp_path: Path) -> None:
    many = {f"key{number}": number for number in range(20)}
    events = only_thread(both(tmp_path, lambda recorder: recorder.instant("a", **many)))
    assert len(events[0][4]) == 15


@pytest.mark.no_cover  # the same again and again, slow to measure
@pytest.mark.parametrize("limit", [0, 1, 7, 40])
def test_the_limit_holds(tmp_path: Path, limit: int) -> None:
    """In chunks.  What is lost is counted, and what is there is the beginning."""
    for recorder in (in_c, in_python):
        path = tmp_path / f"{limit}.fxt"
        room = limit * recorder.CHUNK_BYTES
        before = RecordingFile(path, (1, "twin"), RecordingClock(False, 0, 0, 0, 10**9))
        os.close(before.fd)
        with recording(recorder, path, limit=before.end + room) as done:
            for number in range(200_000):
                recorder.instant("here", number=number)
            lost = recorder.lost()
        found = sum(map(len, read(path).values()))
        assert path.stat().st_size <= before.end + room
        assert found + done.counts["lost"] == 200_000
        assert lost == ((done.counts["lost"], lost[1]) if lost else None)
        assert found * 24 <= room
        assert found * 32 >= room * 0.9 - 2 * recorder.CHUNK_BYTES or not lost  # three words each, or four
        if found:
            assert [event[4][0][2] for event in only_thread(read(path))] == list(range(found))


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_ring_keeps_the_end(tmp_path: Path, chunks: int) -> None:
    for recorder in (in_c, in_python):
        path = tmp_path / "ring.fxt"
        ring = chunks * recorder.CHUNK_BYTES
        with recording(recorder, path, ring=ring) as done:
            for number in range(100_000):
                recorder.instant("here", number=number)
        assert done.counts["lost"] == 0
        with fxtio.open(path) as reader:
            found = sorted(said(record, {})[4][0][2] for record in reader if isinstance(record, r.Instant))
        assert found == list(range(100_000 - len(found), 100_000))
        assert len(found) * 32 >= ring * 0.9
        assert len(found) * 24 <= ring + recorder.CHUNK_BYTES
        assert path.stat().st_size <= done.file.end + ring + 2 * recorder.CHUNK_BYTES


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("span", (), {}),
    ("span", ("a", "b", "c"), {}),
    ("span", (1,), {}),
    ("span", (None,), {}),
    ("span", ([],), {"x": 1}),
    ("span", (("a", "b"),), {}),
    ("span", ("a", None), {}),
    ("instant", (), {}),
    ("instant", ("a", "b", "c"), {}),
    ("instant", ("a", 0), {}),
    ("counter", (), {}),
    ("counter", ("a",), {}),
    ("counter", ("a", 1), {"x": 1}),
    ("counter", ("a", 1, "b", "c"), {}),
    ("counter", (None, 1), {}),
    ("begin", (), {}),
    ("begin", (1,), {}),
    ("end", (1,), {}),
    ("message", (1,), {}),
    ("message", (b"a",), {}),
    ("reference", (b"a",), {}),
]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(("name", "args", "kwargs"), WRONG)
def test_misuse_is_refused_with_the_same_words(
    tmp_path: Path, active: bool, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    words = []
    for recorder in (in_c, in_python):
        function = getattr(recorder, name)
        with recording(recorder, tmp_path / "wrong.fxt") if active else nullcontext():
            if active:
                recorder.instant("a", "b")
            with pytest.raises(TypeError) as caught:
                function(*args, **kwargs)
        words.append(str(caught.value))
    if args or name in ("span", "instant", "counter"):
        assert words[0] == words[1]


def test_nothing_happens_while_nothing_is_recorded() -> None:
    for recorder in (in_c, in_python):
        with recorder.span("a", "b", c=1) as span:
            span.set(d=1)
        site = recorder.Site("", "a")
        assert recorder.instant("a") is None
        assert recorder.counter("a", 1) is None
        assert recorder.lost() is None
        assert recorder.task_track() == 0
        assert not (recorder.begin(site) or recorder.end(site) or recorder.message("a") or recorder.reference("a"))
        assert not recorder.record(KINDS["flow_begin"], site, (), 1)


def test_sessions_do_not_mix(tmp_path: Path) -> None:
    def program(recorder: Any) -> None:
        span = recorder.span("left open")
        span.__enter__()
        kept.setdefault(recorder, span)
        kept[recorder].__exit__(None, None, None)

    kept: dict[Any, Any] = {}
    first = only_thread(both(tmp_path, program))
    second = only_thread(both(tmp_path, program))
    assert [len(first), len(second)] == [2, 1]


def test_a_repr_that_records_is_left_out(tmp_path: Path) -> None:
    class Recording:
        def __init__(self, recorder: Any) -> None:
            self.recorder = recorder

        def __repr__(self) -> str:
            with self.recorder.span("inside"):
                self.recorder.instant("inside")
            return "value"

    events = only_thread(both(tmp_path, lambda recorder: recorder.instant("a", value=Recording(recorder))))
    assert [event[3] for event in events] == ["a"]


def test_stand_ins(tmp_path: Path) -> None:
    def program(recorder: Any) -> None:
        keyed = recorder.Site("", "keyed", ("a", "b"))
        pair = recorder.Traced(lambda a, b=2: (a, b), keyed, ((0, "a", None), (1, "b", 2)), True, 0)
        assert (pair(1), pair(a=3, b="x"), pair(1, 5)) == ((1, 2), (3, "x"), (1, 5))
        number = recorder.Traced(int, recorder.Site("", "int"), None, False, 0)
        assert (number("5"), number.__wrapped__, number.from_bytes(b"a")) == (5, int, 97)
        with pytest.raises(ValueError, match="invalid literal"):
            number("x")
        assert repr(number) == f"<traced {int!r}>"

    assert len(only_thread(both(tmp_path, program))) == 10


def test_squeezed_is_without_fillers(tmp_path: Path) -> None:
    path = tmp_path / "a.fxt"
    with recording(in_python, path):
        for number in range(3000):
            in_python.instant("here", text="x" * (number % 100))
    whole = path.read_bytes()
    images = []
    for recorder in (in_c, in_python):
        image = bytearray(whole)
        looked, left = recorder.squeeze(image)
        assert looked * 8 == len(whole)
        images.append(image[: left * 8])
    assert images[0] == images[1]
    (tmp_path / "b.fxt").write_bytes(images[0])
    assert read(tmp_path / "b.fxt") == read(path)
    assert len(images[0]) < len(whole)
