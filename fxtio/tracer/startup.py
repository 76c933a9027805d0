"""How a recording begins from outside: by the environment when Python starts, or by `fxtio attach` later.

A program listens for the signal of `fxtio.tracer.mailbox` if it has used the tracer, or was started with `FXTIO=wait`.
From CPython 3.14 on others can be asked by `sys.remote_exec` as well.  Either way the main thread calls `obey`, between
two instructions of the program.  The file of such a recording stays as it is at the end: `fxtio attach` finishes it, so
that the program need not wait.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations, which take long to import
import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from fxtio.errors import described
from fxtio.tracer import environment, session
from fxtio.tracer.backend import MISSING, recorder, report, require_recorder
from fxtio.tracer.mailbox import SIGNAL, START, STOP, Mailbox
from fxtio.tracer.options import Options


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
            listen()
        elif session.current() is None and (request := environment.requested()):
            session.begin(*request)
    except Exception as error:
        report(f"nothing is recorded: {described(error)}")


_REPORTED = ("duration_ns", "unrecorded_ns", "lost", "cut", "dropped", "inlined", "unmatched")
"""What the other process is told of the summary."""

_recordings: list[Any] = []
"""The recording that was started by a request, while it runs."""


def listen() -> bool:
    """Let `fxtio attach` start recordings in this process, by a signal.

    Returns:
        Whether it can: not if the program uses the signal itself, or if this is not the main thread.
    """
    if not SIGNAL or MISSING:
        return False
    if signal.getsignal(SIGNAL) == signal.SIG_DFL:
        try:
            signal.signal(SIGNAL, _on_signal)
        except ValueError:
            return False
    return signal.getsignal(SIGNAL) is _on_signal


def _on_signal(_number: int, _frame: Any) -> None:
    obey()


def obey() -> None:
    """Do what another process has requested, if there is a request, and answer."""
    mailbox = _unrecorded(partial(Mailbox, os.getpid()))
    request = _unrecorded(mailbox.take)
    if request is None:
        return
    try:
        reply = _ACTIONS[request["action"]](request)
    except Exception as error:  # the program must not notice
        reply = {"error": described(error)}
    _unrecorded(partial(mailbox.answer, reply))


def _unrecorded(call: Callable[[], Any]) -> Any:
    return call() if MISSING else recorder.unrecorded(call)


def _start(request: dict[str, Any]) -> dict[str, Any]:
    recording = session.begin(Options(request["output"], **request["options"]), is_finished_elsewhere=True)
    _recordings[:] = [recording]
    return {"live": recording.live}


def _stop(_request: dict[str, Any]) -> dict[str, Any]:
    if not _recordings or session.current() is not _recordings.pop():
        raise RuntimeError("the program has ended the recording itself, or was not recorded by `fxtio attach`")
    summary = session.stop()
    if summary is None:
        raise RuntimeError("nothing is recorded")
    return {name: getattr(summary, name) for name in _REPORTED}


_ACTIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {START: _start, STOP: _stop}
