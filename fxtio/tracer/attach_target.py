"""Starting and stopping a recording in another process, see `fxtio attach` and `fxtio.tracer.startup`.

What is to be known about that process is in `/proc`: whether it runs Python, and what it records.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from fxtio.errors import FxtioError
from fxtio.fxt.live_file import HEAD_BYTES, Chunks
from fxtio.shared_folders import open_regular
from fxtio.tracer.archive import is_alive
from fxtio.tracer.file import live_path
from fxtio.tracer.options import Options
from fxtio.tracer.startup import SIGNAL, START, STOP, UNFINISHED, AttachError, Mailbox

# ---- The process.

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
    """A process that runs.  Its methods raise `ProcessError` if looking at it is not permitted, or if it has ended.

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
        """Yield the names of the files in its memory, which its user may have chosen."""
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
        """Return the version of Python that it runs, by the names of the files in its memory; None if it runs none.

        The minor number is 0 if the names do not say it.
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
        """Return whether it has loaded the recorder of fxtio."""
        return any(_RECORDER.search(name) and "fxtio" in name for name in self.mapped_files())

    def recordings(self) -> list[OpenRecording]:
        """Return the recordings that it writes at present."""
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


# ---- Its recording.

REMOTE_VERSION = (3, 14)
"""The first version of Python with `sys.remote_exec`."""

_COUNTS = ("duration_ns", "lost", "cut", "dropped", "inlined")
_MAX_COUNT = 1 << 64
_PATIENCE = 3.0
_INTERVAL = 0.01

_LONGEST = 30.0
"""Seconds for handing a script to a process, which takes milliseconds unless a hostile one delays it."""

_SCRIPT = """\
try:
    from fxtio.tracer.startup import obey
except ImportError:
    import os
    with open({unfinished!r}, "x") as file:
        file.write('{{"error": "fxtio cannot be imported there: install it for the Python of the program"}}')
    os.rename({unfinished!r}, {reply!r})
    os.unlink({request!r})
else:
    obey()
"""

_REMOTE = """\
import os, sys
pid, script, *ids = sys.argv[1:]
if ids:
    import ctypes
    user, group, *groups = map(int, ids)
    os.setgroups(groups)
    libc = ctypes.CDLL(None)
    libc.setfsgid(group), libc.setfsuid(user)
    if (libc.setfsgid(-1) & 0xFFFFFFFF, libc.setfsuid(-1) & 0xFFFFFFFF) != (group, user):
        raise PermissionError(f"files cannot be read as user {user} does")
sys.remote_exec(int(pid), script)
"""
"""Has a process execute a script, in a process of its own.

`sys.remote_exec` opens and parses files that the other process names, whose user may have crafted them.  So it takes on
the rights of that user for files.  The right to trace processes stays, since that user may not have it.
"""


def _patiently() -> None:
    """Wait on."""


class Attachment:
    """The right to start and stop recordings in another process, which one process at a time can have.

    Args:
        pid: the other process.

    Attributes:
        process: the other process.

    Raises:
        AttachError: the process has no way to be asked, or another one is attached to it, or the folder for requests
            cannot be trusted.
        ProcessError: there is no such process, or it cannot be looked at.
        OSError: the folder for requests cannot be created.
    """

    def __init__(self, pid: int) -> None:
        self.process = Process(pid)
        version = self.process.python_version()
        if version is None:
            raise AttachError(f"process {pid} does not run Python")
        self._is_listening = self.process.catches(SIGNAL) and self.process.has_recorder()
        if not self._is_listening and version < REMOTE_VERSION:
            raise AttachError(
                f"process {pid} does not listen: before Python 3.14, start it with FXTIO=wait in its environment, "
                "or use fxtio.span or the like in its main thread"
            )
        if not self._is_listening and version != sys.version_info[:2]:
            name = "python{}.{}".format(*version)
            raise AttachError(
                f"process {pid} does not listen, and only the fxtio of its Python can ask it otherwise: "
                f"run `{name} -m fxtio attach {pid}`, or start the program with FXTIO=wait in its environment"
            )
        self._mailbox = Mailbox(pid)
        with self.process.acting_as_user():
            folder = self._mailbox.create()
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(folder)
            raise AttachError(f"another `fxtio attach` is attached to process {pid}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self.process.acting_as_user():
            self._mailbox.remove()

    def start(self, options: Options, waiting: Callable[[], None] = _patiently) -> Path:
        """Start a recording; return the file that is recorded to.  `waiting` is called if that takes long.

        Raises:
            AttachError: the process is recorded already, cannot be recorded, or has ended.
            KeyboardInterrupt: it has not reacted until this interrupted the wait; then it will not be recorded.
        """
        if recordings := self.process.recordings():
            raise AttachError(f"process {self.process.pid} is recorded already, to {recordings[0].path}")
        values = options.normalized()._asdict()
        output = os.path.realpath(values.pop("output"))
        self._ask({"action": START, "output": output, "options": values}, waiting)
        return live_path(Path(output))

    def stop(self, waiting: Callable[[], None] = _patiently) -> dict[str, Any]:
        """End the recording that `start` began, in this process or in an earlier one, see `start`.

        Returns:
            Values of `fxtio.tracer.recording.Summary` by name.

        Raises:
            AttachError: there is none, or the process has ended.
            KeyboardInterrupt: it has not reacted until this interrupted the wait; then it is still recorded.
        """
        reply = self._ask({"action": STOP}, waiting)
        counts, pairs = [reply.get(name) for name in _COUNTS], reply.get("unmatched")
        if not all(map(_is_count, counts)) or not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
            raise AttachError(f"process {self.process.pid}: its answer makes no sense")
        return dict(zip(_COUNTS, counts, strict=True), unmatched=tuple(map(tuple, pairs)))

    def _ask(self, request: dict[str, Any], waiting: Callable[[], None]) -> dict[str, Any]:
        with self.process.acting_as_user():
            self._mailbox.put(request)
        try:
            self._call()
            reply = self._wait(waiting, float("inf"))
        except BaseException:
            with self.process.acting_as_user():
                is_withdrawn = self._mailbox.withdraw()
            if is_withdrawn:
                raise
            reply = self._wait(waiting, _PATIENCE)  # the process has taken it
            if reply is None:
                raise
        assert reply is not None
        if (error := reply.get("error")) is not None:
            raise AttachError(f"process {self.process.pid}: {error}")
        return reply

    def _wait(self, waiting: Callable[[], None], seconds: float) -> dict[str, Any] | None:
        """Wait for the reply; return None if there is none after some seconds."""
        end, impatient = time.monotonic() + seconds, time.monotonic() + _PATIENCE
        while (reply := self._reply()) is None:
            if not self.process.is_alive:
                if reply := self._reply():
                    break
                raise AttachError(f"process {self.process.pid} has ended")
            if time.monotonic() > end:
                break
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
        names = {name: str(getattr(mailbox, name)) for name in ("request", "reply", "script")}
        text = _SCRIPT.format(unfinished=str(mailbox.folder / UNFINISHED), **names)
        with self.process.acting_as_user():
            mailbox.put_script(text)
        self._execute(names["script"])

    def _execute(self, script: str) -> None:
        """Have the process execute a script, by our own Python: never by a program that its user has chosen."""
        process = self.process
        command = [sys.executable, "-I", "-S", "-c", _REMOTE, str(process.pid), script]
        if process.starter[0] != os.geteuid():
            command += map(str, (*process.starter, *process.groups))
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, timeout=_LONGEST
            )
        except subprocess.TimeoutExpired:
            reason = f"it takes longer than {_LONGEST:.0f} s"
        else:
            if not done.returncode:
                return
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise AttachError(
            f"executing code in process {process.pid}: {reason}; "
            "run fxtio as root, or start the program with FXTIO=wait, which needs no permission"
        )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def interrupt_on(*signals: int) -> None:
    """Have signals interrupt this process as Ctrl-C does."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    for number in signals:
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(number, interrupt)
