"""Our place at `sys.monitoring` (CPython 3.12 on): one tool for decorated functions and for whole programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from fxtio.tracer.backend import recorder

AVAILABLE = sys.version_info >= (3, 12) and hasattr(recorder, "on_start")
"""Whether functions are traced this way."""

_IDS = (4, 3, 2)  # those without a fixed meaning first; debuggers, coverage and optimizers keep theirs
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
_UNWINDING = ("PY_THROW", "PY_UNWIND")  # cannot be asked for code by code

_tools: list[int] = []
"""Our place, if we have one."""


def _monitoring() -> Any:
    return sys.monitoring  # type: ignore[attr-defined,unused-ignore]


def _events(*names: str) -> int:
    return sum(getattr(_monitoring().events, name) for name in names)


def acquire() -> bool:
    """Take a place, if there is one left."""
    monitoring = _monitoring()
    for tool in () if _tools else _IDS:
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, _NAME)
            _tools.append(tool)
            for event, name in _CALLBACKS.items():
                monitoring.register_callback(tool, _events(event), getattr(recorder, name))
            break
    return bool(_tools)


def release() -> None:
    """Give the place back; nothing is monitored any more."""
    for tool in _tools:
        _monitoring().set_events(tool, 0)
        for code in _watched:
            _monitoring().set_local_events(tool, code, 0)
        for event in _CALLBACKS:
            _monitoring().register_callback(tool, _events(event), None)
        _monitoring().free_tool_id(tool)
    _watched.clear()
    _tools.clear()


def watch_all(*, functions: bool, calls: bool) -> None:
    """Have the events of all functions, or only those that watched code needs beside its own; and of C functions."""
    _add_events(_events(*_UNWINDING, *(_LOCAL if functions else ()), *(_CALLS if calls else ())))
    if functions:
        _monitoring().restart_events()  # what another recording has left out may be wanted now


def _add_events(events: int) -> None:
    _monitoring().set_events(_tools[0], _monitoring().get_events(_tools[0]) | events)


_watched: list[CodeType] = []


def watch(code: CodeType) -> None:
    """Have the events of this code."""
    _monitoring().set_local_events(_tools[0], code, _events(*_LOCAL))
    _watched.append(code)


def listen(event: str, callback: Callable[..., Any]) -> None:
    """Have an event that has nothing to do with calls told to this callback, everywhere, if there is a place for us."""
    if acquire():
        _monitoring().register_callback(_tools[0], _events(event), callback)
        _add_events(_events(event))


def ignore(event: str) -> None:
    """The end of `listen`."""
    for tool in _tools:
        unwanted = _events(event)
        _monitoring().set_events(tool, _monitoring().get_events(tool) & ~unwanted)
        _monitoring().register_callback(tool, unwanted, None)
