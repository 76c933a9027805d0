"""How a recording begins from outside: by the environment when Python starts, or by `fxtio attach` later.

A program listens for a signal if it has used the tracer, or was started with `FXTIO=wait`.  From CPython 3.14 on others
can be asked by `sys.remote_exec` as well.  Either way the main thread calls `obey`, between two instructions of the
program.  The file of such a recording stays as it is at the end: `fxtio attach` finishes it, so that the program need
not wait.

Requests and answers are files in a folder.  It belongs to the user of the program, and nobody else may write to it; the
program looks at nothing else.  A request is a file with JSON, which the program takes by renaming it, so that it is
taken once or withdrawn.  The folder is in one where everybody writes.  So each side opens it once, asks the descriptor
to whom it belongs, and reaches the files by that descriptor.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations, which take long to import
import contextlib
import os
import stat
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from fxtio.errors import FxtioError, described
from fxtio.shared_folders import open_regular
from fxtio.tracer import options, session
from fxtio.tracer.backend import MISSING, recorder, report, require_recorder
from fxtio.tracer.options import Options

SIGNAL: int = getattr(signal, "SIGRTMIN", 0) and int(signal.SIGRTMIN) + 15
"""The signal that asks a program to look for a request; 0 where there are no real-time signals.

Programs and their libraries use the signals with names, and those at either end of the real-time signals.
"""

START, STOP = "start", "stop"
"""What a request asks for."""

UNFINISHED = "unfinished"
"""The name of a file while it is written."""

_MAX_BYTES = 1 << 20  # of a request or an answer
_TAKEN = "taken"
_FOLDER = "/tmp/fxtio-attach-{}"  # not tempfile's: the program may have another
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class AttachError(FxtioError):
    """A program cannot be recorded; the message says why."""


class Mailbox:
    """The folder of one program, with files: a request, an answer, a script for `sys.remote_exec`."""

    def __init__(self, pid: int) -> None:
        self.folder = Path(_FOLDER.format(pid))
        self.request, self.reply = self.folder / "request", self.folder / "reply"
        self.script = self.folder / "script.py"
        self._fd = -1

    def _open(self) -> None:
        """Open the folder.

        Raises:
            AttachError: others than the user of this process may write to it, or it is no folder.
            FileNotFoundError: there is none.
        """
        try:
            self._fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            status = os.fstat(self._fd)
            is_ours = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
        except (NotADirectoryError, PermissionError):
            is_ours = False
        if not is_ours:
            self._close()
            raise AttachError(f"{self.folder} is not ours; nothing may be there")

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # ---- The program's side.

    def take(self) -> Any:
        """Take the request; None if there is none, it makes no sense, or others may have written it."""
        with contextlib.suppress(OSError, AttachError):
            self._open()
            os.rename(self.request.name, _TAKEN, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            return self._read(_TAKEN)
        self._close()
        return None

    def answer(self, reply: dict[str, Any]) -> None:
        """Write the answer to a request, if the folder is still there."""
        with contextlib.suppress(OSError):
            self._write(self.reply, _as_json(reply))
        self._close()

    # ---- The other side.

    # All of it is done by the program's user, see `Process.acting_as_user`.

    def create(self) -> int:
        """Create the folder, or use the one that another process has left there; return a descriptor.

        Raises:
            AttachError: it belongs to another user, or others could exchange it.
            OSError: it cannot be created.
        """
        around = self.folder.parent.stat().st_mode
        if around & _OTHERS_WRITE and not around & stat.S_ISVTX:
            raise AttachError(f"everybody may rename what is in {self.folder.parent}, which is not safe")
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(0o700)
        self._open()
        return self._fd

    def put(self, request: dict[str, Any]) -> None:
        """Put a request into the folder, which the program can read."""
        self._unlink(self.reply)
        self._write(self.request, _as_json(request))

    def put_script(self, text: str) -> None:
        """Put the script into the folder."""
        self._write(self.script, text)

    def withdraw(self) -> bool:
        """Take a request back; return whether the program has not taken it."""
        return self._unlink(self.request)

    def read_reply(self) -> dict[str, Any] | None:
        """Return the program's answer, None while there is none.

        Raises:
            AttachError: it cannot be read, or makes no sense.
        """
        try:
            return self._read(self.reply.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AttachError(f"{self.folder}: {described(error)}") from None

    def remove(self) -> None:
        """Remove the folder with all that we have put there."""
        with contextlib.suppress(OSError, AttachError):
            if self._fd < 0:
                self._open()
            for name in (self.request, self.reply, self.script, self.folder / _TAKEN, self.folder / UNFINISHED):
                self._unlink(name)
            self.folder.rmdir()
        self._close()

    # ---- Both.

    def _read(self, name: str) -> dict[str, Any]:
        """Return what a file has.

        Raises:
            AttachError: it makes no sense.
            OSError: it cannot be read, or belongs to another user.
        """
        with open(open_regular(name, os.geteuid(), dir_fd=self._fd), "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        from json import loads

        try:
            value = loads(data) if len(data) <= _MAX_BYTES else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise AttachError(f"{self.folder / name} makes no sense")
        return value

    def _write(self, path: Path, text: str) -> None:
        """Write a file that appears when it is complete, or raise OSError."""
        self._unlink(self.folder / UNFINISHED)
        fd = os.open(UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(UNFINISHED, path.name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _unlink(self, path: Path) -> bool:
        """Remove a file, and return whether it was there."""
        try:
            os.unlink(path.name, dir_fd=self._fd)
        except FileNotFoundError:
            return False
        return True


def _as_json(value: dict[str, Any]) -> str:
    from json import dumps

    return dumps(value, default=str)


# ---- The recording.


@cache  # in a virtual environment Python reads `fxtio.pth` twice
def start_from_environment() -> None:
    """Begin to record if the environment variables ask for it; `fxtio.pth` calls this when Python starts.

    A program that cannot be recorded runs all the same; the reason is written to standard error.  A program with more
    rights than its user, such as a setuid one, does not listen to the variables that the user has set.
    """
    if options.is_foreign():
        return
    if not options.is_fork_server():
        _start_as_requested()
    elif os.environ.get(options.OUTPUT):
        server = os.getpid()
        os.register_at_fork(after_in_child=lambda: _start_as_requested() if os.getppid() == server else None)


def _start_as_requested() -> None:
    try:
        require_recorder()
        if options.waits():
            listen()
        elif session.current() is None and (request := options.requested()):
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
