"""Count what a reading costs, so that a test can compare the costs of a small and of a larger trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Return how many instructions of the interpreter a function executes; loops of C code count as one."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
