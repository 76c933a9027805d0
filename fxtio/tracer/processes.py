"""Facts about other processes, from `/proc`: whether they run Python, and what they record."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fxtio.errors import FxtioError
from fxtio.fxt.live_file import HEAD_BYTES, Chunks
from fxtio.shared_folders import open_regular
from fxtio.tracer.archive import is_alive

_PROC = Path("/proc")
_PYTHON = re.compile(r"/(?:lib)?python(?P<major>\d)\.?(?P<minor>\d{1,3})?[^/]*$|/cpython-(?P<m>\d)\.(?P<n>\d{1,3})")
_RECORDER = re.compile(r"/_recorder\.[^/]*$")


class ProcessError(FxtioError):
    """A process does not run, or cannot be looked at; the message says why."""


class OpenRecording(NamedTuple):
    """A recording that a process writes.

    Attributes:
        path: its name, as the process sees it.
        descriptor: the file in `/proc`, by which it can be opened even if it has no name any more.
    """

    path: Path
    descriptor: Path


class Process:
    """A process that runs.

    Args:
        pid: its id.

    Attributes:
        pid: its id.
        user: its effective user.
        group: its effective group.
        groups: its other groups.
        starter: its real user and group, who chose what it runs.

    Raises:
        ProcessError: there is no such process, or it runs in another container.
    """

    def __init__(self, pid: int) -> None:
        if not _PROC.joinpath("self").exists():
            raise ProcessError("looking at another process needs Linux, or a system with the same /proc")
        self.pid = pid
        self._status = _status_of(pid)
        if not self._status or not is_alive(pid):
            raise ProcessError(f"there is no process {pid}")
        if len(self._status.get("NSpid", "").split()) > len(_status_of(os.getpid()).get("NSpid", "").split()):
            raise ProcessError(f"process {pid} runs in a container; run fxtio in there")
        self.user = int(self._status["Uid"].split()[1])
        self.group = int(self._status["Gid"].split()[1])
        self.starter = int(self._status["Uid"].split()[0]), int(self._status["Gid"].split()[0])
        self.groups = [int(group) for group in self._status.get("Groups", "").split()]

    @contextmanager
    def acting_as_user(self) -> Iterator[None]:
        """Have the rights of the user of the process, and no others, for files to which that user could place links.

        All threads have them meanwhile.  That user cannot send signals to this process, nor trace it: its real user
        stays root.

        Raises:
            PermissionError: this is another user, and not root.
        """
        if os.geteuid() == self.user:
            yield
            return
        with contextlib.ExitStack() as restoring:  # even if an interrupt comes in between; what was root can do so
            restoring.callback(os.setgroups, os.getgroups())
            os.setgroups(self.groups)
            restoring.callback(os.setegid, os.getegid())
            os.setegid(self.group)
            restoring.callback(os.seteuid, os.geteuid())
            os.seteuid(self.user)
            yield

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return is_alive(self.pid)

    def catches(self, signal: int) -> bool:
        """Return whether it has a handler for a signal."""
        return signal in _signals(_status_of(self.pid).get("SigCgt", "0"))

    def has_pending(self, signal: int) -> bool:
        """Return whether a signal was sent to it that it has not taken yet."""
        return signal in _signals(_status_of(self.pid).get("ShdPnd", "0"))

    def mapped_files(self) -> Iterator[str]:
        """Yield the names of the files in its memory, which its user may have chosen.

        Raises:
            ProcessError: this is not permitted, or it has ended.
        """
        try:
            with open(_PROC / str(self.pid) / "maps", encoding="utf-8", errors="surrogateescape") as lines:
                for line in lines:
                    words = line.rstrip("\n").split(maxsplit=5)
                    if len(words) > 5:
                        yield words[5]
        except PermissionError:
            raise ProcessError(f"looking at process {self.pid} is not permitted: {self._owner()}") from None
        except (FileNotFoundError, ProcessLookupError):
            raise ProcessError(f"process {self.pid} has ended") from None

    def python_version(self) -> tuple[int, int] | None:
        """Return the version of Python that it runs, by the names of the files in its memory.

        Returns:
            The version, with the minor number 0 if the names do not say it; None if it does not run Python.

        Raises:
            ProcessError: this is not permitted, or it has ended.
        """
        found = None
        for name in self.mapped_files():
            if match := _PYTHON.search(name):
                major, minor = match["major"] or match["m"], match["minor"] or match["n"]
                if minor:
                    return int(major), int(minor)
                found = int(major), 0
        return found

    def has_recorder(self) -> bool:
        """Return whether it has loaded the recorder of fxtio.

        Raises:
            ProcessError: this is not permitted, or it has ended.
        """
        return any(_RECORDER.search(name) and "fxtio" in name for name in self.mapped_files())

    def recordings(self) -> list[OpenRecording]:
        """Return the recordings that it writes at present.

        Raises:
            ProcessError: this is not permitted, or it has ended.
        """
        folder = _PROC / str(self.pid) / "fd"
        try:
            descriptors = sorted(folder.iterdir(), key=lambda descriptor: int(descriptor.name))
        except PermissionError:
            raise ProcessError(f"looking at process {self.pid} is not permitted: {self._owner()}") from None
        except OSError:
            raise ProcessError(f"process {self.pid} has ended") from None
        return list(_recordings_among(descriptors))

    def _owner(self) -> str:
        return "run fxtio as its user" if os.geteuid() == self.user else f"it belongs to user {self.user}"


def _status_of(pid: int) -> dict[str, str]:
    """Return the fields of the status of a process, none if there is no such process."""
    try:
        lines = _PROC.joinpath(str(pid), "status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _signals(mask: str) -> set[int]:
    """Return the signals in a mask: a hexadecimal number, whose last bit stands for signal 1."""
    return {number for number, bit in enumerate(reversed(f"{int(mask, 16):b}"), 1) if bit == "1"}


def _recordings_among(descriptors: list[Path]) -> Iterator[OpenRecording]:
    """Yield the recordings among the open files of a process."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            is_writable = bool(descriptor.lstat().st_mode & stat.S_IWUSR)
            if not is_writable or not stat.S_ISREG(descriptor.stat().st_mode):
                continue
            with open(open_regular(descriptor), "rb") as file:
                if Chunks.of(file.read(HEAD_BYTES)) is not None:
                    yield OpenRecording(descriptor.readlink(), descriptor)
