"""Garbage collections: a span for each, on the thread that runs it."""

from __future__ import annotations

import gc
from functools import partial

from fxtio.tracer.backend import recorder

_CATEGORY, _NAME = "gc", "collection"


class Source:
    """Records when the garbage collector begins and ends, as one of its callbacks."""

    def __init__(self) -> None:
        begin = recorder.Site(_CATEGORY, _NAME, ("generation",))
        end = recorder.Site(_CATEGORY, _NAME, ("collected", "uncollectable"))
        self._callback = partial(recorder.collection, begin, end)

    def start(self) -> None:
        """Install the callback."""
        gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """Remove the callback."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)
