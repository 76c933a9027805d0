"""A program to record, and checks of its trace."""

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
    """Return the arguments of the calls of `work`, by thread and time."""
    numbers: list[int] = seen.numbers(seen.rows(kind="duration_begin", name="inner")).tolist()
    return numbers


def check_loss_is_reported(seen: Seen, stderr: str) -> None:
    """Check that the loss is reported in the trace, and by a warning at the end."""
    assert "RecordingWarning" in stderr
    (row,) = seen.rows(name="drop_stats")
    assert seen.args(int(row))["records"] > 0


class Chain:
    """A value whose `repr` calls a function."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __repr__(self) -> str:
        return f"made {self.act()}"
