"""Garbage collections: a span for each, on the thread that runs it."""

from __future__ import annotations

import gc
from functools import partial

from fxtio.tracer.backend import recorder

_NAME = "gc", "collection"


class Source:
    """Asks the collector to tell us when it begins and ends."""

    def __init__(self) -> None:
        begin = recorder.Site(*_NAME, ("generation",))
        end = recorder.Site(*_NAME, ("collected", "uncollectable"))
        self._see = partial(recorder.collection, begin, end)

    def start(self) -> None:
        """Begin to be told."""
        gc.callbacks.append(self._see)

    def stop(self) -> None:
        """Be told no more."""
        if self._see in gc.callbacks:
            gc.callbacks.remove(self._see)
