"""Warnings: each one that passes the filters, whoever takes it then."""

from __future__ import annotations

import warnings

from fxtio.tracer.backend import recorder
from fxtio.tracer.sources.patch import Patch, seen_by
from fxtio.tracer.sources.said import message_of


class Source:
    """Stands in front of what shows warnings.

    That is not `warnings.showwarning`, which belongs to the program: `logging.captureWarnings` and
    `warnings.catch_warnings` replace it.  All warnings come through here before they go there.
    """

    def start(self) -> None:
        """Begin to see the warnings."""
        self._patch = Patch(warnings, "_showwarnmsg", seen_by(_see))

    def stop(self) -> None:
        """See no more."""
        self._patch.remove()


def _see(shown: warnings.WarningMessage) -> None:
    message = shown.message if isinstance(shown.message, str) else message_of(shown.message)
    place = {"file": shown.filename, "line": shown.lineno}
    recorder.instant(shown.category.__name__, "warnings", message=message, **place)
