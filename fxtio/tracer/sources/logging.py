"""Messages of the `logging` module: each record that a logger hands to its handlers.

A handler of ours at the root logger would keep `logging.basicConfig` and the handler of last resort from doing their
work, so a function stands in place of the method through which all records go.  It takes the message that a handler has
made, since what makes it may be the program's code, which would run once more.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fxtio.tracer.backend import recorder
from fxtio.tracer.layout import KINDS
from fxtio.tracer.sources.patch import Function, Patch, disguised, unnoticed
from fxtio.tracer.sources.said import text_of

if TYPE_CHECKING:
    from logging import Logger, LogRecord


class Source:
    """Stands in for `Logger.callHandlers`."""

    def __init__(self) -> None:
        self._class = import_module("logging").Logger  # only now: who does not ask for it does not pay for it

    def start(self) -> None:
        """Begin to see the records."""
        self._patch = Patch(self._class, "callHandlers", _telling)

    def stop(self) -> None:
        """See no more."""
        self._patch.remove()


def _telling(patch: Patch, call_handlers: Function) -> Function:
    def ours(logger: Logger, record: LogRecord) -> Any:
        try:
            return call_handlers(logger, record)
        finally:
            if patch.on:
                unnoticed(_see, record)

    return disguised(ours, call_handlers)


def _see(record: LogRecord) -> None:
    text = vars(record).get("message")
    if type(text) is not str:
        otherwise = record.msg if type(record.msg) is str else "<no message can be made>"
        text = text_of(partial(_message, record), otherwise)
    track = recorder.task_track()
    kind = KINDS["async_instant" if track else "instant"]
    site = recorder.Site("logging", record.levelname, ("logger", "message"))
    if recorder.record(kind, site, (record.name, text), track or None):
        recorder.message(f"{record.levelname}:{record.name}:{text}")


def _message(record: LogRecord) -> str:
    """As its `getMessage` makes it."""
    text = str(record.msg)
    return text % record.args if record.args else text
