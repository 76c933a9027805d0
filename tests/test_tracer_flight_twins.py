"""What the flight recorder has of the recorder in C and of its twin: copies, silence, slow spans."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from fxtio.tracer.layout import LAYOUT
from support.tracer_check import check_trace
from support.tracer_twins import in_c, in_python, only_thread, read, recording

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with shared mappings")


@pytest.fixture(params=[0, 1], ids=["twin", "C"])
def either(request: pytest.FixtureRequest) -> Any:
    """The recorder in C and its twin, with a layout."""
    recorder = in_c if request.param else in_python
    in_python.configure(LAYOUT)
    return recorder


def test_a_copy_is_the_file(either: Any, out: Path) -> None:
    with recording(either, out) as done, open(out.with_name("copy.fxt"), "w+b") as copy:
        for number in range(5_000):
            either.instant("step", "app", number=number)
        size = either.copy(copy.fileno())
        assert copy.read() == out.read_bytes()[:size]
        either.instant("later")
        with pytest.raises(OSError, match="descriptor"), open(out, "rb") as readable:
            either.copy(readable.fileno())
        os.close(done.file.fd)
        with pytest.raises(OSError, match="descriptor"):
            either.copy(copy.fileno())
        done.file.fd = os.open(out, os.O_RDWR)
    assert only_thread(read(out))[:-1] == only_thread(read(out.with_name("copy.fxt")))


def test_unrecorded(either: Any, out: Path) -> None:
    def call() -> int:
        with either.span("no"):
            either.instant("no")
        inner: int = either.unrecorded(lambda: 3)
        return inner + 4

    def fail() -> None:
        raise RecursionError("mine")

    def elsewhere() -> None:
        either.unrecorded(call)
        either.instant("of a thread")

    assert either.unrecorded(call) == 7
    with recording(either, out):
        assert either.unrecorded(call) == 7
        either.instant("yes")
        with pytest.raises(RecursionError, match="mine"):
            either.unrecorded(fail)
        either.instant("yes")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert sorted(check_trace(out).names) == ["of a thread", "yes", "yes"]


def test_the_hook_for_slow_spans(either: Any, out: Path) -> None:
    told: list[tuple[str, int]] = []

    def hook(name: str, ticks: int) -> Any:
        told.append((name, ticks))
        with either.span("inside of the hook"):
            either.instant("inside of the hook")
        return (site, (name,)) if name == "a" else None

    site = either.Site("app", "told", ("name",))
    with recording(either, out, slow=1, slow_hook=hook):
        for name in "abc":
            with either.span(name):
                either.instant("here")
        with either.span("left open"):
            either.instant("here")
            either.seal()
    assert [name for name, _ in told] == ["a", "b", "c"]
    assert all(ticks > 1 for _, ticks in told)
    seen = check_trace(out, open_spans=True)
    rows = seen.rows(category="app", name="told")
    assert [seen.args(int(row)) for row in rows] == [{"name": "a"}]
    assert "inside of the hook" not in seen.names
