"""Spans that stay open when the function ends in which they were opened, as in generators that manage a context.

On one track the span cannot outlive the function.  So it ends just before the function does, and goes on just behind
it, as a span of the same name without arguments.
"""

from __future__ import annotations

from typing import Any

from fxtio.tracer.python.event import BEGIN, END, bare
from fxtio.tracer.python.store import State, session

MOST_OPEN = 64
"""So many spans are looked after."""

# An entry of `State.opened` is [site, how deep in functions, the entry of the same span below].  It is made by the
# span itself, which calls nothing for it, as the stack may be full.


def settle(state: State) -> None:
    """The innermost may be another one."""
    state.top = state.opened[-1][1] if state.opened else 0


def forget(entry: list[Any]) -> None:
    """A span has ended that is not the innermost of its thread, which may be another one."""
    for state in session.states:
        for index in range(len(state.opened) - 1, -1, -1):
            if state.opened[index] is entry:
                del state.opened[index]
                settle(state)
                return


def end_held(state: State) -> int:
    """End the spans that were opened at this depth or deeper, as the function there is about to end.  How many."""
    count = 0
    for site, depth, _ in reversed(state.opened):
        if depth < state.depth:
            break
        bare(site, END, site.end)
        count += 1
    return count


def again(state: State, count: int) -> None:
    """Let them go on, outside of it, if the recording goes on."""
    if count > len(state.opened):
        return
    for index in range(len(state.opened) - count, len(state.opened)):
        entry = state.opened[index]
        bare(entry[0], BEGIN, entry[0].begin)
        entry[1] = state.depth
    settle(state)
