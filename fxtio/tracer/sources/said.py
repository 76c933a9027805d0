"""What is said by messages, exceptions and warnings: that may take code of the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType

from fxtio.tracer.backend import recorder
from fxtio.tracer.values import from_handler

_MOST = 300
"""Characters of the message of an exception."""


def text_of(make: Callable[[], str], otherwise: str) -> str:
    """The text that is made; the other one if that fails.  Of what happens meanwhile nothing is recorded."""
    try:
        text: str = recorder.unrecorded(make)
        return text
    except Exception as error:
        if from_handler(error.__traceback__):
            raise
        return otherwise


def message_of(error: BaseException) -> str:
    """The message of an exception or a warning."""
    return text_of(partial(str, error), "<str() failed>")[:_MOST]


def place_of(trace: TracebackType | None) -> tuple[str, int]:
    """File and line where an exception was raised."""
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
