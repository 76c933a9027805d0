"""Messages of the tracer to the user of a traced program: lines on standard error, and a category of warnings."""

from __future__ import annotations

import contextlib
import sys


class RecordingWarning(RuntimeWarning):
    """A recording is incomplete, or not in its final form."""


def report(message: str) -> None:
    """Write a line to standard error, if it is open."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"fxtio: {message}\n")
