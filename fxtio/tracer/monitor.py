"""The tracer's tool of `sys.monitoring` (CPython 3.12 on), shared by decorated functions and whole programs.

Only what starts and ends a recording takes the tool and returns it.  Meanwhile other threads may watch functions, which
they decorate: they take no lock for it, and look afterwards whether the tool is still ours.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from fxtio.tracer.backend import recorder

AVAILABLE = sys.version_info >= (3, 12)
"""Whether functions are traced this way."""

_TOOL_IDS = (4, 3, 2)  # ids without a fixed meaning first; debuggers, coverage and optimizers keep theirs
_NAME = "fxtio"
_CALLBACKS = {
    "PY_START": "on_start",
    "PY_RESUME": "on_resume",
    "PY_THROW": "on_throw",
    "PY_RETURN": "on_return",
    "PY_YIELD": "on_yield",
    "PY_UNWIND": "on_unwind",
    "CALL": "on_call",
    "C_RETURN": "on_call_over",
    "C_RAISE": "on_call_over",
}
_CALLS = ("CALL", "C_RETURN", "C_RAISE")
_LOCAL = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD")
_UNWINDING = ("PY_THROW", "PY_UNWIND")  # events that cannot be requested for single code objects

_tools: list[int] = []
"""Our tool id, if we have one."""

_watched: list[CodeType] = []
"""Code objects with events of their own."""


def _monitoring() -> Any:
    return sys.monitoring  # type: ignore[attr-defined,unused-ignore]


def _events(*names: str) -> int:
    return sum(getattr(_monitoring().events, name) for name in names)


def acquire() -> bool:
    """Take a tool id.

    Returns:
        Whether we have one: all of them may be in use by others.
    """
    monitoring = _monitoring()
    for tool in () if _tools else _TOOL_IDS:
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, _NAME)
            _tools.append(tool)
            for event, name in _CALLBACKS.items():
                monitoring.register_callback(tool, _events(event), getattr(recorder, name))
            break
    return bool(_tools)


def release() -> None:
    """End all monitoring and return the tool id.

    A recording whose file is full has disabled the events of what is called; another recording may want them.
    """
    if _tools and (loss := recorder.lost()) and loss[2]:
        _monitoring().restart_events()
    while _tools:
        tool = _tools.pop()
        _monitoring().set_events(tool, 0)
        for code in _watched[:]:
            _monitoring().set_local_events(tool, code, 0)
        for event in _CALLBACKS:
            _monitoring().register_callback(tool, _events(event), None)
        _monitoring().free_tool_id(tool)
    _watched.clear()


def watch_all(*, functions: bool, calls: bool) -> None:
    """Monitor the whole program: all functions, or only what watched code needs besides its events; C functions."""
    _add_events(_events(*_UNWINDING, *(_LOCAL if functions else ()), *(_CALLS if calls else ())))
    if functions:
        _monitoring().restart_events()  # this recording may include what an earlier one has disabled


def _add_events(events: int) -> None:
    _monitoring().set_events(_tools[0], _monitoring().get_events(_tools[0]) | events)


def watch(code: CodeType) -> None:
    """Monitor one code object, if there is a tool id for us."""
    for tool in _tools[:]:
        _watched.append(code)  # first, so that its events end with the monitoring
        with contextlib.suppress(ValueError):  # the monitoring has ended, and the tool id is not in use
            _monitoring().set_local_events(tool, code, _events(*_LOCAL))
            if tool not in _tools:
                _monitoring().set_local_events(tool, code, 0)


def listen(event: str, callback: Callable[..., Any]) -> None:
    """Call `callback` for all events of a kind that has nothing to do with calls, if there is a tool id for us."""
    if acquire():
        _monitoring().register_callback(_tools[0], _events(event), callback)
        _add_events(_events(event))


def ignore(event: str) -> None:
    """End what `listen` began."""
    for tool in _tools:
        bit = _events(event)
        _monitoring().set_events(tool, _monitoring().get_events(tool) & ~bit)
        _monitoring().register_callback(tool, bit, None)
