"""The environment variables by which a Python program is recorded: `FXTIO=out.fxt python app.py`.

A recording sets them for the processes that its program starts, so that these record parts of the same trace.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fxtio.tracer.clock import RecordingClock
from fxtio.tracer.options import DEFAULT_OUTPUT, Options

OUTPUT = "FXTIO"
OPTIONS = "FXTIO_OPTIONS"
PARENT = "FXTIO_PARENT"
WAIT = "wait"
"""The value of `FXTIO` that records nothing, but lets `fxtio attach` do so at any time."""

_USUAL = '{"functions": true}'  # as json prints it, which takes long to import
_HELPER = "multiprocessing.resource_tracker"  # a process that outlives the program and does nothing of interest
_FORK_SERVER = "multiprocessing.forkserver"  # so does this one, but the processes that it forks are the program's


def variables(trace: Path, options: Options, clock: RecordingClock) -> dict[str, str]:
    """Return the variables that let child processes record parts of the same trace."""
    text = _USUAL if options._replace(output=DEFAULT_OUTPUT) == Options(functions=True) else _as_json(options)
    return {OUTPUT: str(trace), OPTIONS: text, PARENT: " ".join(map(str, clock.facts()))}


def _as_json(options: Options) -> str:
    from json import dumps

    return dumps({name: value for name, value in options._asdict().items() if name != "output"})


def is_fork_server() -> bool:
    """Return whether this is the server of `multiprocessing` that forks processes, or a fork of it."""
    return any(_FORK_SERVER in argument for argument in sys.orig_argv)


def is_foreign() -> bool:
    """Return whether somebody with less rights than this process may have set its variables, as in a setuid program."""
    return hasattr(os, "geteuid") and (os.getuid() != os.geteuid() or os.getgid() != os.getegid())


def waits() -> bool:
    """Return whether the environment asks to wait for `fxtio attach`."""
    return os.environ.get(OUTPUT) == WAIT


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
    parent = os.environ.get(PARENT)
    clock = RecordingClock(*map(int, parent.split())) if parent else None
    return _of_json(output, os.environ.get(OPTIONS) or _USUAL), clock


def _of_json(output: str, text: str) -> Options:
    if text == _USUAL:
        return Options(output, functions=True)
    from json import loads

    return Options(output, **{name: value for name, value in loads(text).items() if name in Options._fields})
