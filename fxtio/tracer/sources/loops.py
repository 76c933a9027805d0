"""Event loops of asyncio: spans for steps (a callback, or what a task does until its next `await`) and iterations.

The spans are on the track of the loop's thread.  A step is called after what it runs; an iteration lasts from the begin
of its first step to the end of the last one, so that what becomes ready meanwhile waits that long at most.
"""

from __future__ import annotations

from importlib import import_module
from types import CodeType
from typing import Any

from fxtio.tracer import plain, tracks
from fxtio.tracer.backend import recorder
from fxtio.tracer.functions import module_of, place_of
from fxtio.tracer.sources.hooks import Function, Patch, PatchingSource, Replacements

CATEGORY = "asyncio"


class Steps(PatchingSource):
    """Replaces the two methods of asyncio through which all iterations and steps go, those of other loops excepted."""

    def __init__(self) -> None:
        # Here, so that only those who ask for the source import them.
        self._handle = import_module("asyncio.events").Handle
        self._loop = import_module("asyncio.base_events").BaseEventLoop
        self._iteration = recorder.Site(CATEGORY, "iteration")

    def replacements(self) -> Replacements:
        """Return the methods."""
        return [(self._loop, "_run_once", self._recording_iterations), (self._handle, "_run", self._recording_steps)]

    def start(self) -> None:
        """Begin to record."""
        tracks.look_around()  # by which the recorder knows tasks
        super().start()

    def _recording_iterations(self, _: Patch, run_once: Function) -> Any:
        return recorder.LoopMethod(run_once, self._iteration, None)

    def _recording_steps(self, _: Patch, run: Function) -> Any:
        return recorder.LoopMethod(run, self._iteration, _site_of)


def _site_of(runs: CodeType | type | str) -> Any:
    """Return the site of steps that run this code, a function in C of this name, or a callable of this type."""
    if type(runs) is CodeType:
        name = f"{module_of(plain.text(runs.co_filename))}.{runs.co_qualname}"
        return recorder.Site(CATEGORY, f"step {name}", **place_of(runs))
    if isinstance(runs, str):
        return recorder.Site(CATEGORY, f"step {runs}")
    return recorder.Site(CATEGORY, f"step {plain.module_of_class(runs)}.{plain.qualified_name(runs)}")
