"""Arrows between processes: their points, and the ids that come with what a process is sent.

A point is in a slice of its own, `send` or `receive`, because viewers draw arrows between slices of threads only, and
what sends may be a task or an operation.
"""

from __future__ import annotations

from typing import Any

from fxtio.tracer.backend import KINDS, recorder

BEGIN, STEP, END = (KINDS[name] for name in ("flow_begin", "flow_step", "flow_end"))
"""The kinds of points."""

_CATEGORY = "arrow"
_ARROW, _SEND, _RECEIVE = (recorder.Site(_CATEGORY, name) for name in ("arrow", "send", "receive"))

_SPAN_ID = slice(36, 52)
"""Where a header `traceparent` has the id of the span that sent it."""


_MAX_ID = (1 << 64) - 1


def draw(kind: int, number: int) -> None:
    """Record a point of the arrow with this id."""
    site = _SEND if kind == BEGIN else _RECEIVE
    if recorder.begin(site):
        recorder.record(kind, _ARROW, (), number)
        recorder.end(site)


def of_header(traceparent: object) -> int | None:
    """Return the id of the arrow that comes with a request, None if the header is not as it should be.

    https://www.w3.org/TR/trace-context/
    """
    return number_of(traceparent[_SPAN_ID], 16) if isinstance(traceparent, str | bytes) else None


def number_of(text: Any, base: int = 10) -> int | None:
    """Return an id, which others have sent as a text; None if it is none."""
    try:
        number = int(text, base)
    except (TypeError, ValueError):
        return None
    return number if 0 < number <= _MAX_ID else None
