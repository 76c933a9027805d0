"""Exchange requests and answers between `fxtio attach` and a program, by files in a folder and a signal.

The folder belongs to the user of the program, and nobody else may write to it; the program looks at nothing else.  A
request is a file with JSON, which the program takes by renaming it, so that it is taken once or withdrawn.

The folder is in one where everybody writes.  So each side opens it once, asks the descriptor to whom it belongs, and
reaches the files by that descriptor.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enumerations, which take long to import
import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from fxtio.errors import FxtioError, described
from fxtio.shared_folders import open_regular

SIGNAL: int = getattr(_signal, "SIGRTMIN", 0) and int(_signal.SIGRTMIN) + 15
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
    """The folder of one program.

    Args:
        pid: the program's process id.

    Attributes:
        folder: the folder.
        request: the file with the request.
        reply: the file with the answer.
        script: the file with what `sys.remote_exec` executes.
    """

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
        """Take the request.

        Returns:
            The request; None if there is none, if somebody else than the program's user may have written it, or if it
            makes no sense.
        """
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
        """Create the folder, or use the one that another process has left there.

        Returns:
            A descriptor of the folder, which `remove` closes.

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
        """Put a request into the folder, which the program can read.

        Raises:
            OSError: it cannot be written.
        """
        self._unlink(self.reply)
        self._write(self.request, _as_json(request))

    def put_script(self, text: str) -> None:
        """Put the script into the folder.

        Raises:
            OSError: it cannot be written.
        """
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
        """Write a file that appears when it is complete."""
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
