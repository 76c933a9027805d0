"""Messages of the `logging` module: each record that a logger passes to its handlers.

A handler of ours at the root logger would keep `logging.basicConfig` and the handler of last resort from working, so we
replace the method through which all records pass.  It uses the message that a handler has formatted, because formatting
may run code of the program, which should not run a second time.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.describe import text_or
from fxtio.tracer.sources.patch import Function, Patch, call_unnoticed, disguised

if TYPE_CHECKING:
    from logging import Logger, LogRecord


class Source:
    """Replaces `Logger.callHandlers`."""

    def __init__(self) -> None:
        self._class = import_module("logging").Logger  # here, so that only those who ask for the source import it

    def start(self) -> None:
        """Begin to record messages."""
        self._patch = Patch(self._class, "callHandlers", _recording_method)

    def stop(self) -> None:
        """Record no more messages."""
        self._patch.remove()


def _recording_method(patch: Patch, call_handlers: Function) -> Function:
    def replacement(logger: Logger, record: LogRecord) -> Any:
        try:
            return call_handlers(logger, record)
        finally:
            if patch.is_on:
                call_unnoticed(_record, record)

    return disguised(replacement, call_handlers)


def _record(record: LogRecord) -> None:
    text = vars(record).get("message")
    if type(text) is not str:
        fallback = record.msg if type(record.msg) is str else "<the message cannot be formatted>"
        text = text_or(partial(_message, record), fallback)
    site = recorder.Site("logging", record.levelname, ("logger", "message"))
    if recorder.instant_of(site, (record.name, text)):
        recorder.message(f"{record.levelname}:{record.name}:{text}")


def _message(record: LogRecord) -> str:
    """Return what its `getMessage` would return."""
    text = str(record.msg)
    return text % record.args if record.args else text
