"""Values that are no plain arguments, as short texts."""

from __future__ import annotations

import reprlib
import signal
from types import TracebackType


class _Short(reprlib.Repr):
    """Texts of bounded length."""

    def repr_instance(self, value: object, level: int) -> str:
        """Unlike the inherited one it lets exceptions out: they may be those of a signal handler."""
        text = repr(value)
        return text if len(text) <= self.maxother else f"{text[: self.maxother]}..."


_SHORT = _Short()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 120
_SHORT.maxlevel = 3


def describe(value: object) -> str:
    """A text of bounded length that says what the value is, whatever it is.

    Nothing is raised but what a signal handler raises while the value describes itself: that is for the program.
    """
    try:
        return _SHORT.repr(value)
    except Exception as error:
        if from_handler(error.__traceback__):
            raise
        return f"<{type(value).__name__}>"


def from_handler(trace: TracebackType | None) -> bool:
    """Whether an exception of this traceback came out of a signal handler."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False
