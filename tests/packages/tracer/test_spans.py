"""Spans and recordings that are used in unusual ways."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import fxtio
from fxtio.tracer import RecordingWarning
from support.tracer_check import check_trace
from support.tracer_program import Chain
from support.tracer_run import fine
from support.tracer_view import View

pytestmark = pytest.mark.recorder


def test_exceptions_leave_spans_unchanged(out: Path) -> None:
    class OwnError(Exception):
        pass

    @fxtio.trace
    def fails(error: BaseException) -> None:
        with fxtio.span("inner"):
            raise error

    errors = [ValueError("é"), OwnError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), StopIteration(5)]
    with fxtio.tracing(out):
        for error in errors:
            with pytest.raises(type(error)) as caught:
                fails(error)
            assert caught.value is error
        with pytest.raises(ZeroDivisionError), fxtio.span("cause", value=Chain(lambda: 1)):
            1 / 0  # noqa: B018
    seen = check_trace(out)
    assert [span.args["exception"] for span in seen.spans("inner")] == [type(error).__name__ for error in errors]


def test_interrupts_are_not_lost(out: Path) -> None:
    """A signal that comes while the recorder describes a value still interrupts the program."""
    source = """
    import signal
    class Slow:
        def __repr__(self):
            signal.raise_signal(signal.SIGINT)
            return "slow"
    fxtio.start(OUT)
    try:
        for n in range(1000):
            fxtio.instant("here", value=Slow())
    except KeyboardInterrupt:
        print("interrupted")
    with fxtio.span("goes on"):
        pass
    """
    assert fine(source, out) == "interrupted\n"
    assert [span.name for span in check_trace(out).spans()] == ["goes on"]


def test_signal_handlers_raise_where_they_would(out: Path) -> None:
    """The exception of a handler, such as a time limit, reaches the program wherever the signal arrives."""
    source = """
    import asyncio, signal
    class TimeUp(Exception): pass
    def up(*_): raise TimeUp
    signal.signal(signal.SIGALRM, up)
    class Value:
        def __repr__(self): return "x" * sum(1 for _ in range(300))
    def record():  # CPython 3.13.0 loses such an exception of a handler in the condition of a loop right after `try`
        while time.monotonic() < end:
            fxtio.instant("here", value=Value())
    fxtio.start(OUT)
    seen = 0
    for n in range(20):
        end = time.monotonic() + 60
        try:  # around the timer, too: it may have run out before the next instruction
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            record()
        except TimeUp:
            seen += 1
        else:
            break
    print(seen)
    """
    assert fine(source, out) == "20\n"
    check_trace(out)


def test_a_long_chain_of_spans_is_freed(out: Path) -> None:
    source = """
    fxtio.start(OUT)
    span = None
    for n in range(300_000):
        span = fxtio.span("chain", before=span)
    span = None
    print("alive")
    """
    assert fine(source, out) == "alive\n"


def test_spans_can_be_reused(out: Path) -> None:
    with fxtio.tracing(out):
        span = fxtio.span("again", n=1)
        for _ in range(2):
            with span, span, span:
                fxtio.instant("in")
    spans = check_trace(out).spans("again")
    assert [span.depth for span in spans] == [1, 2, 3, 1, 2, 3]
    assert [span.args for span in spans] == [{"n": 1}] * 6


def test_one_span_in_many_threads(out: Path) -> None:
    """The span is open in all of them at the same time, and ends in each."""
    barrier = threading.Barrier(4)

    def work() -> None:
        with fxtio.span("own"), span:
            barrier.wait(60)

    with fxtio.tracing(out):
        span = fxtio.span("shared")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    spans = check_trace(out).spans("shared")
    assert len({span.thread for span in spans}) == 4


def test_a_span_that_ends_in_another_thread(out: Path) -> None:
    """Its end must not end a span that is open there."""
    with fxtio.tracing(out):
        span = fxtio.span("wanders")
        span.__enter__()

        def end() -> None:
            with fxtio.span("other"):
                span.__exit__(None, None, None)
                fxtio.instant("after")

        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
    seen = check_trace(out, open_spans=True)
    (other,) = seen.spans("other")
    (behind,) = seen.rows(name="after")
    assert other.start < seen.tables["events"]["time"][behind] < other.end


def test_spans_that_end_in_the_wrong_order(out: Path) -> None:
    """Each end belongs to the span that is open, and the rest of the trace stays correct."""
    with fxtio.tracing(out):
        outer, inner = fxtio.span("outer"), fxtio.span("inner")
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        inner.__exit__(None, None, None)
        inner.__exit__(None, None, None)
        with fxtio.span("next"):
            pass
    seen = check_trace(out, crossed=True)
    assert seen.spans("next")[0].depth == 1


def test_recordings_and_spans_that_overlap(tmp_path: Path) -> None:
    """A span that began in one recording does not end in the next."""
    first, second = tmp_path / "1.fxt", tmp_path / "2.fxt"
    span, early = fxtio.span("across"), fxtio.span("early")
    fxtio.start(first)
    unentered = fxtio.span("created in the first")
    late = fxtio.span("across", n=1)
    with early, late, unentered:
        fxtio.stop()
        fxtio.start(second)
        with fxtio.span("inside"), late, unentered:
            pass
        with span:
            pass
    with fxtio.span("next"):
        pass
    fxtio.stop()
    assert [span.name for span in check_trace(first, open_spans=True).spans()] == ["across", "created in the first"]
    seen = check_trace(second)
    assert [(span.name, span.depth) for span in seen.spans()] == [
        ("inside", 1), ("across", 2), ("created in the first", 3), ("next", 1)
    ]  # fmt: skip


def test_a_description_that_begins_a_new_recording(tmp_path: Path) -> None:
    """The event with that value is in neither trace; both are complete."""
    first, second = tmp_path / "1.fxt", tmp_path / "2.fxt"

    def restart() -> str:
        fxtio.stop()
        fxtio.start(second)
        return "restarted"

    fxtio.start(first)
    for n in range(50):
        fxtio.instant(f"name {n}", f"category {n}")
    with fxtio.span("outer"):
        fxtio.instant("described", "with a category", key=Chain(restart))
        fxtio.instant("after")
    fxtio.stop()
    check_trace(first, open_spans=True)
    assert check_trace(second).rows(name="after").size == 1


@pytest.mark.parametrize("functions", [False, True], ids=["decorated", "functions"])
def test_start_and_stop_inside_of_calls(functions: bool, tmp_path: Path) -> None:
    source = """
    @fxtio.trace
    def starts():
        fxtio.start(OUT, **OPTIONS)
        return inner()
    @fxtio.trace
    def inner():
        with fxtio.span("inner"):
            return 5
    @fxtio.trace
    def stops():
        with fxtio.span("open"):
            inner()
            fxtio.stop()
        inner()
    def generator():
        yield 1
        yield 2
    running = fxtio.trace(generator)()
    next(running)
    starts()
    print(list(running))
    stops()
    inner()
    """
    path = tmp_path / "out.fxt"
    assert fine(source, path, functions=functions) == "[2]\n"
    seen = check_trace(path, open_spans=True)
    assert len(seen.spans("inner")) >= 2
    assert len(seen.spans("open")) == 1


def test_nested_recordings_share_a_session(tmp_path: Path) -> None:
    with fxtio.tracing(tmp_path / "outer.fxt"):
        with fxtio.tracing(tmp_path / "inner.fxt"), fxtio.span("in"):
            pass
        with fxtio.span("after"):
            pass
        with pytest.raises(RuntimeError, match="runs already"):
            fxtio.start(tmp_path / "other.fxt")
    assert [path.name for path in tmp_path.iterdir()] == ["outer.fxt"]
    assert [span.name for span in check_trace(tmp_path / "outer.fxt").spans()] == ["in", "after"]
    fxtio.stop()


def test_generators_that_never_end(out: Path) -> None:
    @fxtio.trace
    def numbers() -> Generator[int, None, None]:
        n = 0
        while True:
            yield n
            n += 1

    with fxtio.tracing(out):
        running, closed = numbers(), numbers()
        assert [next(running), next(closed), next(running)] == [0, 0, 1]
        closed.close()
        assert next(numbers()) == 0  # and is let go
        never = numbers()
        with pytest.raises(ValueError, match="thrown"):
            running.throw(ValueError("thrown"))
    del never
    spans = check_trace(out).spans()
    assert len(spans) >= 5
    assert {span.name.rpartition(".")[2] for span in spans} == {"numbers"}


@pytest.mark.full
@pytest.mark.parametrize("how", ["decorated", "functions"])
def test_a_span_outlives_the_function_that_opened_it(how: str, out: Path) -> None:
    """The function may be a generator that manages a context, or a method such as `setUp`."""
    source = """
    import contextlib
    fxtio.start(OUT, **OPTIONS)
    traced = (lambda function: function) if OPTIONS else fxtio.trace
    @contextlib.contextmanager
    @traced
    def managed():
        with fxtio.span("outer span"), fxtio.span("inner span"):
            yield
    class Case:
        @traced
        def set_up(self):
            self.span = fxtio.span("left open")
            self.span.__enter__()
        @traced
        def tear_down(self):
            self.span.__exit__(None, None, None)
    @traced
    def body():
        pass
    for _ in range(2):
        with fxtio.span("around"), managed():
            body()
    case = Case()
    case.set_up()
    body()
    case.tear_down()
    fxtio.instant("after")
    """
    options = {"functions": True, "include": ["__main__", "<string>", "contextlib"]} if how == "functions" else {}
    fine(source, out, **options)
    view = View(out, crossed=True)
    bodies = view.named("body")
    assert len(bodies) == 3
    for number, body in enumerate(bodies):
        above = []
        parent = view.parent(body)
        while parent is not None:
            above.append((parent.name or "").rpartition(".")[2])
            parent = view.parent(parent)
        assert above == (["inner span", "outer span", "around"] if number < 2 else ["left open"])
    parents = {body.parent_id for body in bodies[:2]}
    assert len(parents) == 2
    assert parents <= {item.id for item in view.named("inner span")}


def test_excluded_categories_leave_no_events(out: Path) -> None:
    @fxtio.trace
    def work(n: int) -> int:
        return n

    with fxtio.tracing(out, categories=["-noise"]), fxtio.span("kept"), fxtio.span("left out", "noise"):
        fxtio.instant("left out", "noise")
        work(1)
    assert [span.name.rpartition(".")[2] for span in check_trace(out).spans()] == ["kept", "work"]


def test_a_full_file_gives_a_warning(out: Path) -> None:
    fxtio.start(out, max_size="3MiB")
    for n in range(200_000):
        fxtio.instant("here", n=n)
    with pytest.warns(RecordingWarning, match=r"the last .* were not recorded, because the file was full"):
        summary = fxtio.stop()
    assert summary is not None
    assert summary.lost == 1  # what follows is not even counted
    assert summary.unrecorded_ns > 0
    seen = check_trace(out)
    recorded = seen.rows(name="here")
    assert seen.numbers(recorded).tolist() == list(range(len(recorded)))
    (row,) = seen.rows(name="drop_stats", kind="instant")
    assert seen.args(int(row))["records"] == summary.lost
    last_ns = int(fxtio.open(out).table("events")["time"].max())
    assert summary.duration_ns == pytest.approx(last_ns, abs=10_000)


def test_arguments_of_dicts_are_told_apart_by_their_names(out: Path) -> None:
    """The names come in another tuple each time, which may be where an earlier one was."""
    names = [[f"key {number % 7}", f"key {number % 5 + 7}", "last"][number % 3 :] for number in range(300)]
    expected = [dict.fromkeys(each, number) for number, each in enumerate(names)]
    with fxtio.tracing(out):
        for arguments in expected:
            with fxtio.span("span", **arguments) as span:
                span.set(**{f"late {name}": value for name, value in reversed(arguments.items())})
    found = [span.args for span in check_trace(out).spans("span")]
    assert found == [each | {f"late {name}": value for name, value in each.items()} for each in expected]


def test_arguments_for_the_end_are_set_one_after_the_other(out: Path) -> None:
    def fails(span: Any) -> None:
        span.set(exception="mine", value=1.5)
        span.set(value=2**70, text="x" * 100)
        raise KeyError

    with fxtio.tracing(out):
        with pytest.raises(KeyError), fxtio.span("fails") as span:
            fails(span)
        with fxtio.span("many") as span:
            span.set(**{str(number): [number] for number in range(40)})
        with fxtio.span("self") as span:
            span.set(cycle=span)
            span.set(text="short")
    failed, many, self = (span.args for span in check_trace(out).spans())
    assert failed == {"exception": "KeyError", "value": float(2**70), "text": "x" * 100}
    assert many == {str(number): f"[{number}]" for number in range(15)}
    assert self["text"] == "short"


def test_a_name_that_sets_arguments_while_others_are_added_does_no_harm(out: Path) -> None:
    class Name(str):
        __slots__ = ()
        __eq__ = str.__eq__

        def __hash__(self) -> int:
            if waiting:
                waiting.pop()
                span.set(inner=1)
                kept.extend((None,) * count for count in range(1, 20) for _ in range(50))  # where freed names were
            return str.__hash__(self)

    waiting: list[int] = []
    kept: list[tuple[None, ...]] = []
    with fxtio.tracing(out), fxtio.span("span") as span:
        span.set(**{Name("name"): 1, "first": 2})
        waiting.append(1)
        span.set(last=3)
    [found] = check_trace(out).spans("span")
    assert found.args == {"name": 1, "first": 2, "last": 3} and kept
