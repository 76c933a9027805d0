"""Short texts for values, exceptions and warnings.  Making them may call code of the traced program."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from functools import partial
from types import TracebackType

from fxtio.tracer.backend import recorder
from fxtio.tracer.interrupts import interrupts
from fxtio.tracer.plain import class_name

_MAX_MESSAGE = 300
"""Characters of the message of an exception."""


class _ShortRepr(reprlib.Repr):
    """Makes texts of bounded length."""

    def repr_instance(self, value: object, level: int) -> str:
        """Return the text of an object.

        Unlike the inherited method this one lets exceptions out: a signal handler of the program may have raised them.
        """
        text = repr(value)
        return text if len(text) <= self.maxother else f"{text[: self.maxother]}..."


_SHORT = _ShortRepr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 120
_SHORT.maxlevel = 3


def describe(value: object) -> str:
    """Return a text of bounded length that describes any value.

    Nothing is raised but what interrupts the program meanwhile.
    """
    try:
        return _SHORT.repr(value)
    except BaseException as error:
        if interrupts(error):
            raise
        return f"<{class_name(type(value))}>"


def text_or(make: Callable[[], str], fallback: str) -> str:
    """Return the text that `make` returns, or `fallback` if it fails.  Nothing is recorded meanwhile."""
    try:
        return recorder.unrecorded(make)
    except BaseException as error:
        if interrupts(error):
            raise
        return fallback


def message_of(error: BaseException) -> str:
    """Return the message of an exception or a warning, shortened."""
    return text_or(partial(str, error), "<str() failed>")[:_MAX_MESSAGE]


def place_of(trace: TracebackType | None) -> tuple[str, int]:
    """Return the file and the line where an exception with this traceback was raised."""
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
