"""Warnings: an instant for each one that passes the filters."""

from __future__ import annotations

import warnings

from fxtio.tracer.backend import recorder
from fxtio.tracer.describe import message_of
from fxtio.tracer.sources.patch import Patch, observed_by


class Source:
    """Observes the function that shows warnings.

    That is not `warnings.showwarning`, which belongs to the program: `logging.captureWarnings` and
    `warnings.catch_warnings` replace it.  All warnings pass the private function before they go there.
    """

    def start(self) -> None:
        """Begin to observe."""
        self._patch = Patch(warnings, "_showwarnmsg", observed_by(_record))

    def stop(self) -> None:
        """End the observation."""
        self._patch.remove()


def _record(warning: warnings.WarningMessage) -> None:
    message = warning.message if isinstance(warning.message, str) else message_of(warning.message)
    place = {"file": warning.filename, "line": warning.lineno}
    recorder.instant(warning.category.__name__, "warnings", message=message, **place)
