"""Recording because of the environment: `FXTIO=out.fxt python app.py`, and child processes of a recorded program.

A file that Python reads at its start (`fxtio.pth`) comes here if the variable is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fxtio.tracer.clock import RecordingClock

OUTPUT = "FXTIO"
OPTIONS = "FXTIO_OPTIONS"
PARENT = "FXTIO_PARENT"

_HELPER = "multiprocessing.resource_tracker"  # a process that outlives the program and does nothing of interest


def for_children(output: Path, options: dict[str, Any], clock: RecordingClock) -> dict[str, str]:
    """The variables that let child processes record parts of the same trace."""
    parent = json.dumps({"pid": os.getpid(), "clock": asdict(clock)})
    return {OUTPUT: str(output), OPTIONS: json.dumps(options), PARENT: parent}


def start() -> None:
    """Begin to record as the environment says.  A program that cannot be recorded runs all the same."""
    try:
        _start()
    except Exception as error:
        tell(f"nothing is recorded: {error}")


def tell(message: str) -> None:
    """Say something on standard error, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"fxtio: {message}\n")


def _start() -> None:
    from fxtio.tracer import session
    from fxtio.tracer.options import Options

    output = os.environ.get(OUTPUT)
    if not output or session.running() or any(_HELPER in argument for argument in sys.orig_argv):
        return
    options = json.loads(os.environ.get(OPTIONS) or '{"functions": true}')
    parent = json.loads(os.environ.get(PARENT) or "null")
    known = {field.name for field in fields(Options)}
    chosen = Options(output, **{name: value for name, value in options.items() if name in known})
    if parent is not None:
        session.begin(chosen, RecordingClock(**parent["clock"]))
    else:
        session.begin(chosen)
