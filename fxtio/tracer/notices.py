"""Messages of the tracer to the user of a traced program: lines on standard error, and a category of warnings."""

from __future__ import annotations

import contextlib
import sys

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
