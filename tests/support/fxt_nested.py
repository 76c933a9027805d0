"""FXT traces of made-up steps, whose spans nest as Perfetto demands it."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import strategies as st

import fxtio

STEPS = st.tuples(
    st.sampled_from(["begin", "end", "complete", "instant", "async begin", "async end", "begin flow", "end flow"]),
    st.integers(1, 2),
    st.integers(0, 3),
    st.integers(1, 5),
    st.sampled_from(["one", "two"]),
)


BEGUN = -1
"""Stands on a stack of a thread for a span that has begun; others are complete, and stand there with their end."""


def settle(track: Any, stack: list[int], time: int) -> None:
    """End the spans that have begun within a complete one that does not last longer than this time."""
    while any(BEGUN < end <= time for end in stack):
        last = max(place for place, end in enumerate(stack) if BEGUN < end <= time)
        for _ in stack[last + 1 :]:
            track.end("any", stack[last], category="test")
        del stack[last:]


def write(steps: list[tuple[str, int, int, int, str]]) -> bytes:
    """Write a trace in which spans nest, and async ends have the name of the start that they end."""
    out = io.BytesIO()
    with fxtio.create(out, format="fxt") as writer:
        time, operations = 10, dict[int, list[str]]()
        stacks: dict[int, list[int]] = {1: [], 2: []}
        for number, (kind, thread, wait, length, name) in enumerate(steps):
            track, time, stack = writer.thread(1, thread), time + wait, stacks[thread]
            args = {"number": number, "text": name, "half": number / 2, name: thread}
            settle(track, stack, time)
            match kind:
                case "begin":
                    stack.append(BEGUN)
                    track.begin(name, time, category="test", args=args)
                case "end" if not stack or stack[-1] == BEGUN:
                    del stack[-1:]
                    track.end(name, time, category="test", args={"end": number})
                case "complete":
                    stack.append(min([time + length, *(end for end in stack if end != BEGUN)]))
                    track.complete(name, time, stack[-1], args=args)
                case "instant":
                    track.instant(name, time)
                case "async begin":
                    operations.setdefault(length, []).append(name)
                    track.async_begin(name, time, length, category="test", args=args)
                case "async end" if operations.get(length):
                    track.async_end(operations[length].pop(), time, length, category="test", args={"end": 1})
                case "begin flow":
                    track.flow_begin(name, time, length)
                case "end flow":
                    track.flow_end(name, time, length)
    return out.getvalue()
