"""A program to record, and what is asked of its trace."""

from __future__ import annotations

from collections.abc import Callable

from support.tracer_check import Seen

WORK = """\
@fxtio.trace
def work(n):
    with fxtio.span("inner", n=n, text="a text of some length, so that the file grows"):
        fxtio.instant("here")
    return n * n
"""
MUCH = WORK + "print(sum(work(n) for n in range(30_000)))\n"


def inners(seen: Seen) -> list[int]:
    """What `work` was called with, by thread and time."""
    numbers: list[int] = seen.numbers(seen.rows(kind="duration_begin", name="inner")).tolist()
    return numbers


def check_loss_told(seen: Seen, stderr: str) -> None:
    """What was lost is told twice: in the trace, and at the end."""
    assert "RecordingWarning" in stderr
    (row,) = seen.rows(name="drop_stats")
    assert seen.args(int(row))["records"] > 0


class Chain:
    """Something whose description does other things."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __repr__(self) -> str:
        return f"made {self.act()}"
