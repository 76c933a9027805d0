"""The environment variables by which a Python program is recorded: `FXTIO=out.fxt python app.py`.

A recording sets them for the processes that its program starts, so that these record parts of the same trace.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.options import DEFAULT_OUTPUT, Options

OUTPUT = "FXTIO"
OPTIONS = "FXTIO_OPTIONS"
PARENT = "FXTIO_PARENT"

_HELPER = "multiprocessing.resource_tracker"  # a process that outlives the program and does nothing of interest
_FORK_SERVER = "multiprocessing.forkserver"  # so does this one, but the processes that it forks are the program's


def variables(output: Path, options: dict[str, Any], clock: RecordingClock) -> dict[str, str]:
    """Return the variables that let child processes record parts of the same trace."""
    parent = json.dumps({"pid": os.getpid(), "clock": asdict(clock)})
    return {OUTPUT: str(output), OPTIONS: json.dumps(options), PARENT: parent}


def is_fork_server() -> bool:
    """Return whether this is the server of `multiprocessing` that forks processes, or a fork of it."""
    return any(_FORK_SERVER in argument for argument in sys.orig_argv)


def requested() -> tuple[Options, RecordingClock | None] | None:
    """Return the recording that the environment asks for.

    Returns:
        The options, and the clock of the parent process if that is recorded; None if nothing is asked for.

    Raises:
        ValueError, TypeError: the variables make no sense.
    """
    output = os.environ.get(OUTPUT)
    if not output or any(_HELPER in argument for argument in sys.orig_argv):
        return None
    if output == "1":  # the usual way to switch something on is no name
        output = DEFAULT_OUTPUT
    options = json.loads(os.environ.get(OPTIONS) or '{"functions": true}')
    parent = json.loads(os.environ.get(PARENT) or "null")
    names = {field.name for field in fields(Options)}
    valid = {name: value for name, value in options.items() if name in names}
    return Options(output, **valid), None if parent is None else RecordingClock(**parent["clock"])
