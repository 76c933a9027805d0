"""Exchange requests and answers between `fxtio attach` and a program, by files in a folder and a signal.

The folder belongs to the user of the program, and nobody else may write to it; the program looks at nothing else.  A
request is a file with JSON, which the program takes by renaming it, so that it is taken once or withdrawn.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enumerations, which take long to import
import contextlib
import os
import stat
from pathlib import Path
from typing import Any

SIGNAL: int = getattr(_signal, "SIGRTMIN", 0) and int(_signal.SIGRTMIN) + 15
"""The signal that asks a program to look for a request; 0 where there are no real-time signals.

Programs and their libraries use the signals with names, and those at either end of the real-time signals.
"""

START, STOP = "start", "stop"
"""What a request asks for."""

_FOLDER = "/tmp/fxtio-attach-{}"  # not tempfile's: the program may have another
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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

    # ---- The program's side.

    def take(self) -> Any:
        """Take the request.

        Returns:
            The request; None if there is none, if somebody else than the program's user or root may have written it, or
            if it is not JSON.
        """
        try:
            status = os.lstat(self.folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()):
                return None
            if status.st_mode & _OTHERS_WRITE:
                return None
            taken = self.folder / "taken"
            self.request.rename(taken)
            text = taken.read_text("utf-8")
            from json import loads

            return loads(text)
        except (OSError, ValueError, RecursionError):
            return None

    def answer(self, reply: dict[str, Any]) -> None:
        """Write the answer to a request, if the folder is still there."""
        with contextlib.suppress(OSError):
            self._write(self.reply, reply)

    # ---- The other side.

    # All of it is done by the program's user, see `Process.acting_as_user`.

    def create(self) -> int:
        """Create the folder, or use the one that another process has left there.

        Returns:
            A descriptor of the folder.

        Raises:
            OSError: it cannot be created, or belongs to another user.
        """
        try:
            self.folder.mkdir(0o700)
        except FileExistsError:
            if self.folder.is_symlink() or self.folder.stat().st_uid != os.geteuid():
                raise
        return os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def put(self, request: dict[str, Any]) -> None:
        """Put a request into the folder, which the program can read.

        Raises:
            OSError: it cannot be written.
        """
        self.reply.unlink(missing_ok=True)
        self._write(self.request, request)

    def withdraw(self) -> bool:
        """Take a request back; return whether the program has not taken it."""
        try:
            self.request.unlink()
        except FileNotFoundError:
            return False
        return True

    def read_reply(self) -> dict[str, Any] | None:
        """Return the program's answer, None while there is none."""
        from json import loads

        try:
            text = self.reply.read_text("utf-8")
        except FileNotFoundError:
            return None
        value: dict[str, Any] = loads(text)
        return value

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()

    def _write(self, path: Path, value: dict[str, Any]) -> None:
        """Write a file that appears when it is complete."""
        from json import dumps

        unfinished = unfinished_name(path)
        unfinished.write_text(dumps(value, default=str), "utf-8")
        unfinished.rename(path)


def unfinished_name(path: Path) -> Path:
    """Return the name of a file of a mailbox while it is written."""
    return path.with_name(f"{path.name}.new")
