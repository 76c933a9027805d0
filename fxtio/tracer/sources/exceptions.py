"""Exceptions: those that nobody handled, and from CPython 3.12 on all that are raised."""

from __future__ import annotations

import sys
import threading
from types import CodeType, TracebackType
from typing import Any

from fxtio.tracer import monitor
from fxtio.tracer.backend import recorder
from fxtio.tracer.functions import HERE
from fxtio.tracer.sources.patch import Patch, seen_by, unnoticed
from fxtio.tracer.sources.said import message_of, place_of

_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""How iterators and generators end."""

_MACHINERY = (HERE, "<frozen importlib.", "<frozen zipimport>")
"""Files whose exceptions are no news.  Those of a failed import come out of the import statement."""


class Source:
    """Stands in front of the hooks for exceptions that nobody handled, and asks `sys.monitoring` for raised ones."""

    def start(self) -> None:
        """Begin to see exceptions."""
        self._patches = [
            Patch(sys, "excepthook", seen_by(_uncaught)),
            Patch(threading, "excepthook", seen_by(_uncaught_in_thread)),
            Patch(sys, "unraisablehook", seen_by(_unraisable)),
        ]
        if monitor.AVAILABLE:
            monitor.listen("RAISE", _raised)

    def stop(self) -> None:
        """See no more."""
        if monitor.AVAILABLE:
            monitor.ignore("RAISE")
        for patch in self._patches:
            patch.remove()


def _record(how: str, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    message = "" if error is None else message_of(error)
    file, line = place_of(trace)
    recorder.instant(kind.__name__, "exceptions", how=how, message=message, file=file, line=line)


def _raised(code: CodeType, _offset: int, error: BaseException) -> None:
    """An exception is raised in this code or comes out of a call there."""
    if not issubclass(type(error), _ENDS) and not code.co_filename.startswith(_MACHINERY):
        unnoticed(_record_new, error)


def _record_new(error: BaseException) -> None:
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:  # it comes from no call that has told of it
        _record("raised", type(error), error, trace)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    _record("uncaught", kind, error, trace)


def _uncaught_in_thread(args: Any) -> None:
    if args.exc_type is not SystemExit:  # that is how a thread ends itself
        _record("uncaught", args.exc_type, args.exc_value, args.exc_traceback)


def _unraisable(args: Any) -> None:
    _record("unraisable", args.exc_type, args.exc_value, args.exc_traceback)
