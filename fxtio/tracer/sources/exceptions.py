"""Exceptions: those that nobody handled, and from CPython 3.12 on all that are raised."""

from __future__ import annotations

import sys
import threading
from functools import partial
from types import CodeType, TracebackType
from typing import Any

from fxtio.tracer import monitor
from fxtio.tracer.backend import recorder
from fxtio.tracer.describe import message_of, place_of
from fxtio.tracer.functions import PACKAGE_FOLDER
from fxtio.tracer.sources.patch import Patch, call_unnoticed, observed_by

_ITERATION_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""The exceptions by which iterators and generators end."""

_IGNORED_FILES = (PACKAGE_FOLDER, "<frozen importlib.", "<frozen zipimport>")
"""Files whose exceptions are not recorded.  The exception of a failed import comes out of the import statement too."""


class Source:
    """Observes the hooks for exceptions that nobody handled, and listens to `sys.monitoring` for raised ones."""

    def start(self) -> None:
        """Begin to observe."""
        self._patches = [
            Patch(sys, "excepthook", observed_by(_uncaught)),
            Patch(threading, "excepthook", observed_by(_uncaught_in_thread)),
            Patch(sys, "unraisablehook", observed_by(_unraisable)),
        ]
        if monitor.AVAILABLE:
            monitor.listen("RAISE", partial(recorder.guarded, _raised))

    def stop(self) -> None:
        """End the observation."""
        if monitor.AVAILABLE:
            monitor.ignore("RAISE")
        for patch in self._patches:
            patch.remove()


def _record(how: str, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    message = "" if error is None else message_of(error)
    file, line = place_of(trace)
    recorder.instant(kind.__name__, "exceptions", how=how, message=message, file=file, line=line)


def _raised(code: CodeType, _offset: int, error: BaseException) -> None:
    """Handle the event of an exception that is raised in this code or comes out of a call there."""
    if not issubclass(type(error), _ITERATION_ENDS) and not code.co_filename.startswith(_IGNORED_FILES):
        call_unnoticed(_record_first, error)


def _record_first(error: BaseException) -> None:
    """Record an exception where it is raised; it has a longer traceback where it comes out of a call."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:
        _record("raised", type(error), error, trace)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    _record("uncaught", kind, error, trace)


def _uncaught_in_thread(args: Any) -> None:
    if args.exc_type is not SystemExit:  # by which a thread ends itself
        _record("uncaught", args.exc_type, args.exc_value, args.exc_traceback)


def _unraisable(args: Any) -> None:
    _record("unraisable", args.exc_type, args.exc_value, args.exc_traceback)
