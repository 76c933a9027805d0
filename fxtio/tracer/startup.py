"""The start of a Python program: it is recorded, or waits for `fxtio attach`, if its environment asks for that."""

from __future__ import annotations

import os
from functools import cache

from fxtio.errors import described
from fxtio.tracer import attached, environment, session
from fxtio.tracer.backend import require_recorder
from fxtio.tracer.notices import report


@cache  # in a virtual environment Python reads `fxtio.pth` twice
def start_from_environment() -> None:
    """Begin to record if the environment variables ask for it; `fxtio.pth` calls this when Python starts.

    A program that cannot be recorded runs all the same; the reason is written to standard error.  A program with more
    rights than its user, such as a setuid one, does not listen to the variables that the user has set.
    """
    if environment.is_foreign():
        return
    if not environment.is_fork_server():
        _start_as_requested()
    elif os.environ.get(environment.OUTPUT):
        server = os.getpid()
        os.register_at_fork(after_in_child=lambda: _start_as_requested() if os.getppid() == server else None)


def _start_as_requested() -> None:
    try:
        require_recorder()
        if environment.waits():
            attached.listen()
        elif session.current() is None and (request := environment.requested()):
            session.begin(*request)
    except Exception as error:
        report(f"nothing is recorded: {described(error)}")
