"""Starting and stopping a recording in another process, see `fxtio attach` and `fxtio.tracer.attached`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from fxtio.errors import FxtioError
from fxtio.tracer.mailbox import SIGNAL, START, STOP, Mailbox, unfinished_name
from fxtio.tracer.options import Options
from fxtio.tracer.processes import Process

REMOTE_VERSION = (3, 14)
"""The first version of Python with `sys.remote_exec`."""

_PATIENCE = 3.0
_INTERVAL = 0.01

_SCRIPT = """\
try:
    from fxtio.tracer.attached import obey
except ImportError as error:
    with open({unfinished!r}, "w") as file:
        file.write('{{"error": "fxtio cannot be imported there: install it for the Python of the program"}}')
    import os
    os.rename({unfinished!r}, {reply!r})
    os.unlink({request!r})
else:
    obey()
"""
_REMOTE = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"


class AttachError(FxtioError):
    """A program cannot be recorded; the message says why."""


def _patiently() -> None:
    """Wait on."""


class Attachment:
    """The right to start and stop recordings in another process, which one process at a time can have.

    Args:
        pid: the other process.

    Attributes:
        process: the other process.

    Raises:
        AttachError: the process has no way to be asked, or another one is attached to it.
        ProcessError: there is no such process, or it cannot be looked at.
        OSError: the folder for requests cannot be created.
    """

    def __init__(self, pid: int) -> None:
        self.process = Process(pid)
        version = self.process.python_version()
        if version is None:
            raise AttachError(f"process {pid} does not run Python")
        self._version = version
        self._is_listening = self.process.catches(SIGNAL) and self.process.has_recorder()
        if not self._is_listening and version < REMOTE_VERSION:
            raise AttachError(
                f"process {pid} does not listen: before Python 3.14, start it with FXTIO=wait in its environment, "
                "or use fxtio.span or the like in its main thread"
            )
        self._mailbox = Mailbox(pid)
        try:
            with self.process.acting_as_user():
                self._lock = self._mailbox.create()
        except FileExistsError:
            raise AttachError(f"{self._mailbox.folder} is not ours; nothing may be there") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise AttachError(f"another `fxtio attach` is attached to process {pid}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self.process.acting_as_user():
            self._mailbox.remove()
        os.close(self._lock)

    def start(self, options: Options, waiting: Callable[[], None] = _patiently) -> Path:
        """Start a recording.

        Args:
            options: what is recorded.
            waiting: called once if the process does not react soon.

        Returns:
            The file that is recorded to.

        Raises:
            AttachError: the process is recorded already, cannot be recorded, or has ended.
            KeyboardInterrupt: it has not reacted until this interrupted the wait; then it will not be recorded.
        """
        if recordings := self.process.recordings():
            raise AttachError(f"process {self.process.pid} is recorded already, to {recordings[0].path}")
        values = options.normalized()._asdict()
        output = os.path.realpath(values.pop("output"))
        request = {"action": START, "output": output, "options": values}
        return Path(self._ask(request, waiting)["live"])

    def stop(self, waiting: Callable[[], None] = _patiently) -> dict[str, Any]:
        """End the recording that `start` began, in this process or in an earlier one.

        Args:
            waiting: called once if the process does not react soon.

        Returns:
            Values of `fxtio.tracer.recording.Summary` by name.

        Raises:
            AttachError: there is none, or the process has ended.
            KeyboardInterrupt: it has not reacted until this interrupted the wait; then it is still recorded.
        """
        return self._ask({"action": STOP}, waiting)

    def _ask(self, request: dict[str, Any], waiting: Callable[[], None]) -> dict[str, Any]:
        with self.process.acting_as_user():
            self._mailbox.put(request)
        try:
            self._call()
            reply = self._wait(waiting)
        except BaseException:
            with self.process.acting_as_user():
                is_withdrawn = self._mailbox.withdraw()
            if is_withdrawn:
                raise
            reply = self._wait(waiting)  # the process has taken it
        if "error" in reply:
            raise AttachError(f"process {self.process.pid}: {reply['error']}")
        return reply

    def _wait(self, waiting: Callable[[], None]) -> dict[str, Any]:
        """Wait for the reply."""
        impatient = time.monotonic() + _PATIENCE
        while (reply := self._reply()) is None:
            if not self.process.is_alive:
                if reply := self._reply():
                    break
                raise AttachError(f"process {self.process.pid} has ended")
            if time.monotonic() > impatient:
                impatient = float("inf")
                waiting()
            time.sleep(_INTERVAL)
        return reply

    def _reply(self) -> dict[str, Any] | None:
        with self.process.acting_as_user():
            return self._mailbox.read_reply()

    def _call(self) -> None:
        """Make the process look for the request."""
        pid = self.process.pid
        if not self.process.is_alive:
            raise AttachError(f"process {pid} has ended")
        if self._is_listening:
            if not self.process.catches(SIGNAL):  # the signal would end it
                raise AttachError(f"process {pid} does not listen any more")
            try:
                os.kill(pid, SIGNAL)
            except PermissionError:
                raise AttachError(f"sending a signal to process {pid} is not permitted") from None
            except ProcessLookupError:
                raise AttachError(f"process {pid} has ended") from None
            return
        mailbox = self._mailbox
        unfinished = str(unfinished_name(mailbox.reply))
        text = _SCRIPT.format(unfinished=unfinished, reply=str(mailbox.reply), request=str(mailbox.request))
        with self.process.acting_as_user():
            mailbox.script.write_text(text, "utf-8")
        self._execute(str(mailbox.script))

    def _execute(self, script: str) -> None:
        """Have the process execute a script, by a Python of its version."""
        pid = self.process.pid
        if self._version == sys.version_info[:2]:
            try:
                sys.remote_exec(pid, script)  # type: ignore[attr-defined,unused-ignore]
                return
            except PermissionError:
                reason = "not permitted"
            except (RuntimeError, OSError, ValueError) as error:
                reason = str(error)
        else:
            command = [f"/proc/{pid}/exe", "-I", "-c", _REMOTE, str(pid), script]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not done.returncode:
                return
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise AttachError(
            f"executing code in process {pid}: {reason}; "
            "run fxtio as root, or start the program with FXTIO=wait, which needs no permission"
        )


def interrupt_on(*signals: int) -> None:
    """Have signals interrupt this process as Ctrl-C does."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    for number in signals:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(number, interrupt)
