"""The recorder: the C extension `fxtio._native._recorder`, or stand-ins where it cannot be imported.

The recorder and the tracer agree on the numbers of kinds of events and of results of calls: both are numbered by their
order here, and `fxtio.tracer.header` turns them and the layout of the format into the constants of the C code.

What goes wrong is said to the user of a traced program by lines on standard error, and a category of warnings.
"""

from __future__ import annotations

import contextlib
import sys
from enum import IntEnum
from typing import TYPE_CHECKING

from fxtio._native.extensions import CONSEQUENCES, RECORDER, load, remedy
from fxtio._native.interpreters import NOT_MAIN, is_main
from fxtio.errors import FxtioError

if TYPE_CHECKING:
    from fxtio._native import _recorder as recorder

    MISSING: str
else:
    recorder, MISSING = load(RECORDER) if is_main() else (None, NOT_MAIN)
    if recorder is None:
        from fxtio.tracer import fallback as recorder

__all__ = ["MISSING", "RecorderMissingError", "recorder", "require_recorder"]

_EVENTS = "instant counter begin end async_begin async_instant async_end flow_begin flow_step flow_end"
KINDS = {name: number for number, name in enumerate(_EVENTS.split())}
"""The kinds of events that the recorder writes by name, numbered as `record` of the recorder takes them."""


class ReturnKind(IntEnum):
    """The kinds of results of a callable, numbered as `Traced` of the recorder takes it."""

    VALUE = 0
    GENERATOR = 1
    COROUTINE = 2
    ASYNC_GENERATOR = 3


class RecorderMissingError(FxtioError):
    """The recorder cannot be imported, so nothing can be recorded."""


def require_recorder() -> None:
    """Make sure that programs can be recorded.

    Raises:
        RecorderMissingError: the recorder is missing; the message says why and how to get it.
    """
    if MISSING == NOT_MAIN:
        raise RecorderMissingError(f"nothing can be recorded here: {MISSING}")
    if MISSING:
        consequence = f"the recorder, a C extension, is missing, so {CONSEQUENCES[RECORDER]}"
        raise RecorderMissingError(f"{consequence} ({MISSING}); {remedy(MISSING)}")


NOT_FINISHED = "is a valid trace, but not finished: `fxtio recover` finishes it later"
"""What is said of a recording whose file could not be put into its final form."""


class RecordingWarning(RuntimeWarning):
    """A recording is incomplete, or not in its final form."""


def report(message: str) -> None:
    """Write a line to standard error, if it is open and this is not a signal handler that interrupts a write to it.

    Names are escaped, which others may have chosen.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
        sys.stderr.write(f"fxtio: {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in message)}\n")
