"""Sources that put something of their own in the place of a function of a library, or next to it.

A replacement does what the original does, and records what happens besides.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial, update_wrapper
from importlib import import_module
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from fxtio.tracer import monitor
from fxtio.tracer.backend import recorder
from fxtio.tracer.functions import DISGUISE, PACKAGE_FOLDER
from fxtio.tracer.interrupts import interrupts, message_of, place_of, text_or

if TYPE_CHECKING:
    from logging import Logger, LogRecord

Function = Callable[..., Any]
Replacements = list[tuple[Any, str, Callable[["Patch", Any], Any]]]


class Patch:
    """A replacement of an attribute of a module or class; `make` returns it for this patch and the original.

    Attributes:
        is_on: whether the replacement may record.  Others may have kept or wrapped it and go on to use it after the
            end; then it does only what the original does.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Patch, Any], Any]) -> None:
        self._owner, self._name = owner, name
        original = self._original = getattr(owner, name, None)
        self.is_on = original is not None
        if original is not None:
            self._replacement = make(self, original)
            setattr(owner, name, self._replacement)

    def remove(self) -> None:
        """Restore the original, unless somebody has replaced our replacement."""
        if self.is_on and getattr(self._owner, self._name, None) is self._replacement:
            setattr(self._owner, self._name, self._original)
        self.is_on = False


class PatchingSource(ABC):
    """The base of sources that replace attributes while they record."""

    @abstractmethod
    def replacements(self) -> Replacements:
        """Return what is replaced: the arguments of each `Patch`."""

    def start(self) -> None:
        """Begin to record."""
        self._patches = [Patch(*each) for each in self.replacements()]

    def stop(self) -> None:
        """Record no more."""
        for patch in self._patches:
            patch.remove()


def observed_by(observe: Function) -> Callable[[Patch, Function], Function]:
    """Return a `make` for `Patch`: its replacement passes its arguments to `observe`, then calls the original."""

    def make(patch: Patch, original: Function) -> Function:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if patch.is_on:
                call_unnoticed(observe, *args, **kwargs)
            return original(*args, **kwargs)

        return update_wrapper(replacement, original)

    return make


class _ThreadState(threading.local):
    """The state of a thread: whether a source is at work in it, since what a source causes itself is not recorded."""

    is_busy = False


_state = _ThreadState()


def _before_fork() -> None:
    """Record nothing until the child has a recording of its own, lest it writes to its parent's."""
    _state.is_busy = True


def _after_fork() -> None:
    _state.is_busy = False


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def call_unnoticed(function: Function, /, *args: Any, **kwargs: Any) -> None:
    """Call a function that may fail; only what interrupts the program meanwhile reaches it."""
    if _state.is_busy:
        return
    _state.is_busy = True
    try:
        function(*args, **kwargs)
    except BaseException as error:
        if interrupts(error):
            raise
    finally:
        _state.is_busy = False


def disguised(replacement: Function, original: Function) -> Function:
    """Give the replacement the file and line of the original.

    Libraries recognize their own calls by the file, and leave them out of the stacks that they show.
    """
    if type(replacement) is FunctionType and type(original) is FunctionType:
        place = {name: getattr(original.__code__, name) for name in ("co_filename", "co_name", "co_firstlineno")}
        replacement.__code__ = replacement.__code__.replace(co_qualname=DISGUISE + original.__name__, **place)
    return update_wrapper(replacement, original)


_ITERATION_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""The exceptions by which iterators and generators end."""

_IGNORED_FILES = (PACKAGE_FOLDER, "<frozen importlib.", "<frozen zipimport>")
"""Files whose exceptions are not recorded.  The exception of a failed import comes out of the import statement too."""


class Exceptions(PatchingSource):
    """Exceptions: those that nobody handled, by their hooks, and from CPython 3.12 on all that are raised."""

    def replacements(self) -> Replacements:
        """Return the hooks for exceptions that nobody handled."""
        return [
            (sys, "excepthook", observed_by(_uncaught)),
            (threading, "excepthook", observed_by(_uncaught_in_thread)),
            (sys, "unraisablehook", observed_by(_unraisable)),
        ]

    def start(self) -> None:
        """Begin to record."""
        super().start()
        if monitor.AVAILABLE:
            monitor.listen("RAISE", partial(recorder.guarded, _raised))

    def stop(self) -> None:
        """Record no more."""
        if monitor.AVAILABLE:
            monitor.ignore("RAISE")
        super().stop()


def _record_exception(
    how: str, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
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
        _record_exception("raised", type(error), error, trace)


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    _record_exception("uncaught", kind, error, trace)


def _uncaught_in_thread(args: Any) -> None:
    if args.exc_type is not SystemExit:  # by which a thread ends itself
        _record_exception("uncaught", args.exc_type, args.exc_value, args.exc_traceback)


def _unraisable(args: Any) -> None:
    _record_exception("unraisable", args.exc_type, args.exc_value, args.exc_traceback)


class Collections:
    """Garbage collections: a span for each, on the thread that runs it, by a callback of the collector."""

    def __init__(self) -> None:
        begin = recorder.Site("gc", "collection", ("generation",))
        end = recorder.Site("gc", "collection", ("collected", "uncollectable"))
        self._callback = partial(recorder.collection, begin, end)

    def start(self) -> None:
        """Install the callback."""
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """Remove the callback."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)


class Messages(PatchingSource):
    """Messages of the `logging` module: each record that a logger passes to its handlers, by `Logger.callHandlers`.

    A handler of ours at the root logger would keep `logging.basicConfig` and the handler of last resort from working.
    The message is the one that a handler has formatted, because formatting may run code of the program, which should
    not run a second time.
    """

    def __init__(self) -> None:
        self._class = import_module("logging").Logger  # here, so that only those who ask for the source import it

    def replacements(self) -> Replacements:
        """Return the method through which all records pass."""
        return [(self._class, "callHandlers", _recording_method)]


def _recording_method(patch: Patch, call_handlers: Function) -> Function:
    def replacement(logger: Logger, record: LogRecord) -> Any:
        try:
            return call_handlers(logger, record)
        finally:
            if patch.is_on:
                call_unnoticed(_record_message, record)

    return disguised(replacement, call_handlers)


def _record_message(record: LogRecord) -> None:
    text = vars(record).get("message")
    if type(text) is not str:
        fallback = record.msg if type(record.msg) is str else "<the message cannot be formatted>"
        text = text_or(partial(_formatted, record), fallback)
    site = recorder.Site("logging", record.levelname, ("logger", "message"))
    if recorder.instant_of(site, (record.name, text)):
        recorder.message(f"{record.levelname}:{record.name}:{text}")


def _formatted(record: LogRecord) -> str:
    """Return what its `getMessage` would return."""
    text = str(record.msg)
    return text % record.args if record.args else text


class Warnings(PatchingSource):
    """Warnings: an instant for each one that passes the filters, by the function that shows them.

    That is not `warnings.showwarning`, which belongs to the program: `logging.captureWarnings` and
    `warnings.catch_warnings` replace it.  All warnings pass the private function before they go there.
    """

    def replacements(self) -> Replacements:
        """Return the function that shows warnings."""
        return [(warnings, "_showwarnmsg", observed_by(_record_warning))]


def _record_warning(warning: warnings.WarningMessage) -> None:
    message = warning.message if isinstance(warning.message, str) else message_of(warning.message)
    place = {"file": warning.filename, "line": warning.lineno}
    recorder.instant(warning.category.__name__, "warnings", message=message, **place)
