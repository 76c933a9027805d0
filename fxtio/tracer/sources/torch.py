"""Operators and kernels of PyTorch: torch.profiler runs while the recording does, from the end of the import of torch.

What it records is in its own memory.  At the end it writes that as JSON, which another process turns into a part of the
trace, since that takes modules which the traced program should not import.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import time_ns as _time_ns  # as it is now: programs patch it
from typing import Any

from fxtio.errors import described
from fxtio.shared_folders import temporary_name
from fxtio.tracer import archive
from fxtio.tracer.backend import recorder
from fxtio.tracer.elsewhere import run_elsewhere
from fxtio.tracer.interrupts import interrupts
from fxtio.tracer.sources.hooks import Patch, observed_by
from fxtio.tracer.sources.imports import Awaiting

_STARTS = ("_prepare_profiler", "_enable_profiler")
"""The functions of `torch.autograd.profiler` by which any profiler of torch starts."""

_READINGS = 20


class Operators(Awaiting):
    """Runs torch.profiler, which sees one profiler at a time: it gives way to one that the program starts.

    Attributes:
        missing: what could not be recorded, as phrases.
    """

    module = "torch"
    _process = 0
    """The process in which a profiler runs.  What a fork copies of it to a child records nothing there."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self._profiler: Any = None
        self._is_running = False
        self._thread = 0  # the only one that can stop the profiler; 0 if any can

    def begin(self) -> None:
        """Start torch.profiler."""
        if not self._profiler and not self.missing and Operators._process in (0, os.getpid()):
            self._attempt("start", self._start_profiler)

    def stop(self) -> None:
        """Record no more."""
        super().stop()
        if self._is_running and self._process == os.getpid():
            self._end()

    def deliver(self, trace: Path, front: archive.Front) -> list[Path]:
        """Write what was recorded as a part of a trace.

        Args:
            trace: the trace.
            front: the records with which its file begins, with the rate that was measured in the end.

        Returns:
            The part, if there is one.
        """
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return []
        json = temporary_name(trace.with_name(trace.name.partition(".")[0] or "trace"))
        part = archive.part_of(trace, front.pid, front.wall_ns)
        is_converted = False
        try:
            if self._attempt("write its trace", partial(profiler.export_chrome_trace, str(json))):
                facts = json, part, front.pid, front.rate, front.wall_ns, *self._first, *self._last
                is_converted = self._attempt("convert its trace", partial(run_elsewhere, "fxtio.bridges.torch", *facts))
        finally:
            archive.remove([json, json.with_name(f"{json.name}.tmp")])  # the second one is torch's own
        return [part] if is_converted and archive.owner_of(part) == os.geteuid() else []

    def _start_profiler(self) -> None:
        torch: Any = sys.modules["torch"]
        if torch.autograd._profiler_enabled():
            raise RuntimeError("the program runs one of its own")
        profile, options = torch.profiler.profile, {}
        if "acc_events" in profile.__init__.__code__.co_varnames:  # otherwise it warns that cycles are forgotten
            options["acc_events"] = True
        try:
            options["experimental_config"] = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except TypeError:  # torch is older than 2.6
            self._thread = _thread.get_ident()
        profiler = profile(**options)
        profiler.start()
        try:
            self._first = _clocks()
        except BaseException:
            profiler.stop()
            raise
        self._profiler, self._is_running = profiler, True
        Operators._process = os.getpid()
        starting = sys.modules["torch.autograd.profiler"]
        self._patches += [Patch(starting, name, observed_by(self._give_way)) for name in _STARTS]

    def _give_way(self, *_args: object, **_kwargs: object) -> None:
        """Handle the start of another profiler."""
        if self._is_running and self._process == os.getpid():
            self._end()
            self.missing.append("events of torch after the program has started a torch.profiler of its own are missing")

    def _end(self) -> None:
        self._is_running = False
        if self._thread in (0, _thread.get_ident()):
            Operators._process = 0
            self._last = _clocks()
            if not self._attempt("stop", self._profiler.stop):
                self._profiler = None
        else:
            self._profiler = None
            self.missing.append("events of torch are missing: its profiler can be stopped only where it was started")

    def _attempt(self, aim: str, call: Callable[[], object]) -> bool:
        """Call a function unrecorded, and note that events are missing if it fails; return whether it has not."""
        try:
            recorder.unrecorded(call)
        except BaseException as error:
            if interrupts(error):
                raise
            self.missing.append(f"events of torch are missing: torch.profiler could not {aim}: {described(error)}")
            return False
        return True


def _clocks() -> tuple[int, int]:
    """Return the present tick, and the nanoseconds since the epoch, as close to each other as possible."""
    readings = []
    for _ in range(_READINGS):
        before, wall, after = recorder.now(), _time_ns(), recorder.now()
        readings.append((after - before, (before + after) // 2, wall))
    return min(readings)[1:]
