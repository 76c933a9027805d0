"""The least that recording in place can cost: the clock, and the stores of records of two words, and nothing else.

No texts, no limits, no check of the clock, and a small buffer that is used over and over: tracer_floor.c.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import CodeType, ModuleType

BEGIN, END = 1, 2
WORDS = 1 << 12


def built(folder: Path) -> ModuleType:
    """Compile tracer_floor.c and return it as a module.

    Raises:
        OSError, subprocess.CalledProcessError: there is no compiler, or it fails.
    """
    library = folder / "tracer_floor.so"
    source = Path(__file__).with_suffix(".c")
    compiler = [*shlex.split(os.environ.get("CC") or "cc"), "-O3", "-shared", "-fPIC"]
    subprocess.run([*compiler, f"-I{sysconfig.get_path('include')}", str(source), "-o", str(library)], check=True)
    spec = importlib.util.spec_from_file_location("tracer_floor", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def watch(least: ModuleType, codes: list[CodeType]) -> None:
    """Monitor the begins and ends of some code, as on CPython 3.12."""
    monitoring = sys.monitoring
    events = [monitoring.events.PY_START, monitoring.events.PY_RETURN]
    _listen(least, events)
    for code in codes:
        monitoring.set_local_events(monitoring.PROFILER_ID, code, sum(events))


def watch_all(least: ModuleType, *, calls: bool) -> None:
    """Monitor the begins and ends of all code, and perhaps the calls of C functions."""
    if sys.version_info < (3, 12):
        least.profile(calls)
        return
    names = ["PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND"]
    names += ["CALL", "C_RETURN", "C_RAISE"] if calls else []
    events = [getattr(sys.monitoring.events, name) for name in names]
    _listen(least, events)
    enabled = [event for event, name in zip(events, names, strict=True) if name not in ("C_RETURN", "C_RAISE")]
    sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sum(enabled))


def _listen(least: ModuleType, events: list[int]) -> None:
    sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "floor")
    for event in events:
        sys.monitoring.register_callback(sys.monitoring.PROFILER_ID, event, least.callback)
