"""Extreme use: deep recursion, very many names and threads, strange values."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fxtio
from support.tracer_check import check_trace
from support.tracer_program import Chain
from support.tracer_run import fine, recorded

pytestmark = pytest.mark.recorder


def depth_of(source: str, call: str, out: Path | str, **options: Any) -> str:
    measure = f"""
{source}
import threading
def measure():
    global deepest
    deepest = 0
    try:
        {call}
    except RecursionError:
        print(deepest)
measure()
thread = threading.Thread(target=measure)
thread.start()
thread.join()
"""
    return fine(measure, out, start=True, **options)


@pytest.mark.parametrize("limit", [1_000, 20_000])
@pytest.mark.parametrize("how", ["decorated", "functions", "spans"])
def test_recursion(how: str, limit: int, out: Path) -> None:
    """A program recurses as deep as unrecorded; with a wrapper it recurses less deep, but gets its RecursionError."""
    lines = [
        f"sys.setrecursionlimit({limit})",
        "@fxtio.trace" if how == "decorated" else "",
        "def down(n):",
        "    global deepest",
        "    deepest = n",
        "    with fxtio.span('s'):\n        down(n + 1)" if how == "spans" else "    down(n + 1)",
    ]
    bare = [int(text) for text in depth_of("\n".join(lines).replace("@fxtio.trace", ""), "down(1)", "").split()]
    traced = depth_of("\n".join(lines), "down(1)", out, functions=how == "functions", include=["__main__", "<string>"])
    depths = [int(text) for text in traced.split()]
    assert len(depths) == len(bare) == 2
    wrapped = how == "decorated" and sys.version_info < (3, 12)
    for depth, without in zip(depths, bare, strict=True):
        assert depth >= (min(without, 3_000) - 10 if wrapped else without - 10)
    check_trace(out)


@pytest.mark.parametrize("size", [64 << 10, 256 << 10, 512 << 10])
def test_threads_with_a_small_stack(size: int, out: Path) -> None:
    """A name that is new takes no more of the stack, however long it is."""
    recorded(
        f"""
threading.stack_size({size})
@fxtio.trace
def work(n): return n if n < 10 else work(n - 1)
length = fxtio.trace(len)
def run():
    fxtio.instant("n" * 30_000)
    print(work(30), length("abc"))
thread = threading.Thread(target=run)
thread.start()
thread.join()
""",
        out,
    )
    seen = check_trace(out)
    assert len(seen.spans("work")) == 22
    assert len(seen.rows(kind="instant", name="n" * 30_000)) == 1


@pytest.mark.full
@pytest.mark.no_cover  # many equal events, slow to measure
def test_many_names(out: Path) -> None:
    """Each of them is in the trace, though the table holds 32,767, and the recorder remembers 40,000 call sites."""
    fine(
        """
        with fxtio.tracing(OUT):
            for n in range(100_000):
                with fxtio.span(f"name {n}"):
                    pass
        """,
        out,
    )
    seen = check_trace(out)
    names = seen.tables["events"]["name"]
    used = {names.values[code] for code in set(names.codes[seen.rows(kind="duration_begin")].tolist())}
    assert used == {f"name {n}" for n in range(100_000)}


def test_long_names_are_cut_and_counted(out: Path) -> None:
    long = "é" * 40_000
    with fxtio.tracing(out):
        for n in range(200):  # more than the definitions can hold
            with fxtio.span(f"{n} {'é' * 15_000}"):
                pass
        with fxtio.span(long, long, **{long: long}):
            fxtio.log(long)
    seen = check_trace(out)
    names = [span.name for span in seen.spans()]
    assert len(names) == 201
    assert all(name.startswith(f"{n} ") and set(name[4:]) == {"é"} for n, name in enumerate(names[:200]))
    assert set(names[200]) == {"é"}
    (value,) = seen.spans()[200].args.values()
    assert value == "é" * 500
    assert seen.tables["logs"]["message"].tolist() == ["é" * 2_000]


@pytest.mark.full
def test_forty_thousand_functions(out: Path) -> None:
    count = 40_000
    fine(
        f"""
        exec("\\n".join(f"def f{{n}}(): pass" for n in range({count})))
        calls = [globals()[f"f{{n}}"] for n in range({count})]
        fxtio.start(OUT, functions=True)
        for _ in range(2):
            for call in calls:
                call()
        fxtio.stop()
        """,
        out,
    )
    seen = check_trace(out, open_spans=True)
    names = [name.rpartition(".")[2] for name in (seen.names[row] for row in seen.rows(kind="duration_begin"))]
    numbered = [name for name in names if name[1:].isdigit()]
    assert numbered == [f"f{n}" for n in range(count)] * 2


@pytest.mark.full
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
def test_a_thousand_threads(at_once: bool, out: Path) -> None:
    fine(
        f"""
        threading.stack_size(256 << 10)
        barrier = threading.Barrier(1000)
        def work(n):
            with fxtio.span("outer", n=n):
                if {at_once}:
                    barrier.wait(60)
                fxtio.instant("in", n=n)
        with fxtio.tracing(OUT):
            threads = [threading.Thread(target=work, args=(n,), name=f"thread {{n}}") for n in range(1000)]
            for thread in threads:
                thread.start()
                if not {at_once}:
                    thread.join()
            for thread in threads:
                thread.join()
        """,
        out,
    )
    seen = check_trace(out)
    spans = seen.spans("outer")
    assert sorted(span.args["n"] for span in spans) == list(range(1000))
    if at_once:
        names = seen.names_of("thread")
        assert {span.args["n"]: names[span.thread] for span in spans} == {n: f"thread {n}" for n in range(1000)}


def test_many_recordings(tmp_path: Path) -> None:
    """They leave no descriptor, no mapping and no memory after.  FXTIO_RECORDINGS says how many there are."""
    printed = fine(
        """
        import resource
        def maps(): return sum(1 for line in open("/proc/self/maps") if "fxt" in line)
        done, stopping = [], False
        def others():
            while not stopping:
                with fxtio.span("other"):
                    pass
                time.sleep(0.01)
        thread = threading.Thread(target=others)
        thread.start()
        count = int(os.environ.get("FXTIO_RECORDINGS", "150"))
        for n in range(count):
            fxtio.start(OUT)
            with fxtio.span("here", n=n):
                pass
            fxtio.stop()
            if n == count // 2:
                before = len(os.listdir("/proc/self/fd")), maps()
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stopping = True
        thread.join()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        print(before == (len(os.listdir("/proc/self/fd")), maps()), grown < 10_000 or grown)
        """,
        tmp_path / "out.fxt",
    )
    assert printed == "True True\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.fxt"]
    assert [span.args for span in check_trace(tmp_path / "out.fxt").spans("here")] == [
        {"n": int(os.environ.get("FXTIO_RECORDINGS", "150")) - 1}
    ]


def test_arguments_of_all_sorts(out: Path) -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    def spans() -> str:
        with fxtio.span("while it is described", n=Chain(lambda: 1)):
            return "it"

    def deep() -> object:
        return repr(values)

    values: list[object] = []
    values.append(Chain(deep))
    given: dict[str, tuple[object, object]] = {
        "none": (None, None),
        "yes": (True, True),
        "int": (-5, -5),
        "31": (2**31, 2**31),
        "63": (-(2**63), -(2**63)),
        "64": (2**64 - 1, 2**64 - 1),
        "70": (2**70, float(2**70)),
        "huge": (10**5_000, float("inf")),
        "half": (0.5, 0.5),
        "text": ("é\0\n", "é\0\n"),
        "empty": ("", ""),
        "surrogate": ("a\ud800b", "a\\ud800b"),
        "subclass": (Text("mine"), "mine"),
        "number": (Number(7), 7),
        "list": ([1, 2], "[1, 2]"),
        "bytes": (b"\xff", r"b'\xff'"),
        "fails": (Chain(lambda: 1 / 0), None),
        "spans": (Chain(spans), "made it"),
        "type": (Path, "<class 'pathlib.Path'>"),
        "": ("no key", "no key"),
        "\ud800": ("key", "key"),
        "key" * 200: (1, 1),
    }
    with fxtio.tracing(out):
        for key, (value, _) in given.items():
            fxtio.instant("one", **{key: value})
        fxtio.instant("loops", value=values[0])
        fxtio.instant("after")
    seen = check_trace(out)
    arguments = [seen.args(int(row)) for row in seen.rows(name="one")]
    assert "Chain" in arguments[16].pop("fails")
    arguments[16] = {"fails": None}
    keys = ["\\ud800" if key == "\ud800" else key for key in given]
    expected: Any = [{key: meant} for key, (_, meant) in zip(keys, given.values(), strict=True)]
    if sys.version_info >= (3, 13):
        expected[18] = {"type": repr(Path)}
    assert arguments == expected
    assert seen.rows(name="after").size == 1
    assert not seen.rows(name="while it is described").size


def test_too_many_arguments_are_counted(out: Path) -> None:
    fxtio.start(out)
    many = {f"key{n}": n for n in range(20)}
    with fxtio.span("many", **many):
        pass
    with fxtio.span("late") as span:
        span.set(**many)
    summary = fxtio.stop()
    first, late = check_trace(out).spans()
    assert first.args == late.args == {f"key{n}": n for n in range(15)}
    assert summary is not None
    assert summary.dropped == 10


@pytest.mark.parametrize("name", [5, None, b"bytes", 2.5, ["list"]])
@pytest.mark.parametrize("on", [False, True])
def test_names_that_are_not_strings(name: Any, on: bool, out: Path) -> None:
    """The error is the same whether or not a recording runs."""
    if on:
        fxtio.start(out)
    try:
        for call in (fxtio.span, fxtio.instant):
            with pytest.raises(TypeError):
                call(name)
            with pytest.raises(TypeError):
                call("good", name)
        with pytest.raises(TypeError):
            fxtio.counter(name, 1)
        with pytest.raises(TypeError):
            fxtio.flow(name)
        with pytest.raises(TypeError):
            fxtio.log(name)
    finally:
        fxtio.stop()
    if on:
        assert not check_trace(out).spans()


def test_names_of_string_subclasses_and_surrogates(out: Path) -> None:
    class NoHash(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise ValueError("no hash")

    class Text(str):
        __slots__ = ()

    names = ["", "\0", "\ud800", Text("mine"), "a" * 250, "é", "\U0001f600" * 100]
    with fxtio.tracing(out):
        for name in names:
            with fxtio.span(name, name):
                pass
        with fxtio.span(NoHash("odd")):
            fxtio.instant(NoHash("odd"))
        fxtio.instant("after")
    seen = check_trace(out)
    recorded_names = [span.name for span in seen.spans()]
    assert recorded_names[: len(names)] == ["\\ud800" if name == "\ud800" else str(name) for name in names]
    assert seen.rows(name="after").size == 1


SPANS_LEFT_OPEN = """
spans = []
@fxtio.trace
def opens():
    span = fxtio.span("held")
    span.__enter__()
    spans.append(span)
def down(n):
    down(n - 1) if n else opens()
@fxtio.trace
def outer(n):
    with contextlib.suppress(RecursionError):
        down(n)
    while spans:
        spans.pop().__exit__(None, None, None)
before = sys.getrecursionlimit()
for n in range(90, 150):
    fxtio.start(OUT)
    outer(0)
    sys.setrecursionlimit(150)
    with contextlib.suppress(RecursionError):
        outer(n)
    sys.setrecursionlimit(before)
    spans.clear()
    fxtio.stop()
    depth = 0
    for record in fxtio.open(OUT):
        depth += (type(record).__name__ == "DurationBegin") - (type(record).__name__ == "DurationEnd")
        assert depth >= 0, n
    assert depth == 0, n
"""


def test_a_span_that_outlives_its_function_where_the_stack_is_full(out: Path) -> None:
    fine("import contextlib, warnings\nwarnings.simplefilter('ignore')\n" + SPANS_LEFT_OPEN, out)


def test_texts_of_any_size_are_whole(out: Path) -> None:
    """Short ones are written by other code than long ones, and all end with a whole word."""
    texts = ["x" * size for size in range(80)] + ["é" * size for size in range(40)]
    with fxtio.tracing(out):
        for _ in range(20):  # across the ends of pages
            for text in texts:
                fxtio.instant("text", first=text, second=text[1:], third=len(text))
    seen = check_trace(out)
    rows = seen.rows(kind="instant", name="text").tolist()
    assert [seen.args(row) for row in rows] == [
        {"first": text, "second": text[1:], "third": len(text)} for text in texts * 20
    ]
