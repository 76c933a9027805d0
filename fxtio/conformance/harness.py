"""Harnesses: programs around a reader or writer under test, run as child processes in either mode of the protocol.

Nothing that a harness does may hang, crash or fill the memory of the runner: every wait has a deadline, what a harness
prints is read by threads that keep little of it, and files that it writes are limited where the system can do that.
A harness runs in a process group of its own, so that its children end with it, and Ctrl-C reaches only the runner.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from fxtio.errors import FxtioError, shown

PROTOCOL = 1
"""The version of the protocol."""

REFUSED_STATUS = 1
UNSUPPORTED_STATUS = 77

MAX_LINE = 65_536
"""The greatest length in bytes of a line in serve mode."""

_KEPT_OUTPUT = 4096
_BLOCK = 65_536
_WAITING_LINES = 16
_POLL_SECONDS = 0.2
_CLOSING_SECONDS = 2.0

OPERATIONS = ("read", "write")


class HarnessError(FxtioError):
    """An error: the harness cannot be started, or its handshake is wrong, so that no case can be judged."""


class Status(StrEnum):
    """The end of one operation of a harness."""

    OK = "ok"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    CRASH = "crash"
    TIMEOUT = "timeout"
    PROTOCOL_ERROR = "protocol error"


@dataclass(frozen=True)
class Limits:
    """Limits for one case.

    Attributes:
        seconds: the time.
        output: the size of the output in bytes.
    """

    seconds: float = 30.0
    output: int = 256 * 2**20


@dataclass(frozen=True)
class Request:
    """One operation that a harness is asked for.

    Attributes:
        operation: `read` or `write`.
        case: the id of the case.
        format: the name of the format.
        source: the trace to read, or the scenario.
        target: the file or directory for the result.
        tags: the features that the case needs.
    """

    operation: str
    case: str
    format: str
    source: Path
    target: Path
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The answer of a harness to a request.

    Attributes:
        status: the end of the operation.
        reason: what the harness, or the runner, says about it; may be empty.
        output: the last lines that the harness printed, apart from answers of serve mode.
        seconds: the time that it took.
    """

    status: Status
    reason: str = ""
    output: tuple[str, ...] = ()
    seconds: float = 0.0


class _Tail:
    """The end of what a harness prints, read by a thread, so that the harness never has to wait."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._blocks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._read, name="harness-output", daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._stream as stream:
            while block := os.read(stream.fileno(), _BLOCK):
                with self._lock:
                    self._blocks.append(block)
                    self._size += len(block)
                    while self._size - len(self._blocks[0]) >= _KEPT_OUTPUT:
                        self._size -= len(self._blocks.popleft())

    def lines(self) -> tuple[str, ...]:
        """Return the last lines."""
        with self._lock:
            text = b"".join(self._blocks)[-_KEPT_OUTPUT:].decode("utf-8", "replace")
        return tuple(text.rstrip().splitlines()[-10:])


class _Child:
    """A running process of a harness.

    Attributes:
        process: the process.
        output: what it prints: on standard error, and in exec mode on standard output, too.
    """

    def __init__(self, command: Sequence[str], limits: Limits, *, talks: bool, environment: Mapping[str, str]) -> None:
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if talks else subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise HarnessError(f"the harness {command[0]!r} cannot be started: {reason}") from error
        _limit_files(self.process.pid, limits.output)
        stream = self.process.stderr if talks else self.process.stdout
        assert stream is not None
        self.output = _Tail(stream)

    def wait(self, deadline: float) -> int | None:
        """Return the exit status, negative for a signal, or None if the process has not ended by the deadline."""
        while True:
            left = deadline - time.monotonic()
            self.output.thread.join(max(0.0, min(left, _POLL_SECONDS)))  # ends as soon as the pipe is closed
            if not self.output.thread.is_alive():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return self.process.wait(max(0.0, left))
            status = self.process.poll()
            if status is not None or left <= 0:
                return status

    def kill(self) -> None:
        """End the process and its children, and wait for it."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:  # Windows has no process groups
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):  # what was not sent yet
                self.process.stdin.close()
        self.output.thread.join(_CLOSING_SECONDS)


def _limit_files(pid: int, size: int) -> None:
    """Limit the size of the files that a process may write, where the system has such limits for other processes."""
    try:
        import resource

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
    except (ImportError, AttributeError, OSError):
        return  # the size is checked afterwards, too


def _status_text(status: int) -> str:
    """Return how a process ended, for people."""
    if status >= 0:
        return f"it ended with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"it was ended by the signal {signal.Signals(-status).name}"
    return f"it was ended by the signal {-status}"


class Harness(ABC):
    """A harness.  One thread calls `run`; any thread may call `kill`.

    Args:
        command: the program and its first arguments.
        limits: limits for each case.

    Attributes:
        name: the name of the testee, for reports.
        version: its version, or empty.
    """

    def __init__(self, command: Sequence[str], limits: Limits) -> None:
        self.command = list(command)
        self.limits = limits
        self.name = " ".join(self.command)
        self.version = ""
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._killed = False

    @abstractmethod
    def run(self, request: Request) -> Answer:
        """Let the harness do one operation.

        Raises:
            HarnessError: it cannot be started.
        """

    def close(self) -> None:
        """End the harness, politely at first."""
        self.kill()

    def kill(self) -> None:
        """End the harness at once; it cannot be used any more."""
        with self._lock:
            self._killed = True
            child = self._child
        if child is not None:
            child.kill()

    def _start(self, arguments: Sequence[str], *, talks: bool, environment: Mapping[str, str]) -> _Child:
        with self._lock:
            if self._killed:
                raise HarnessError("the run was stopped")
            self._child = _Child(
                [*self.command, *arguments], self.limits, talks=talks, environment={**environment, "PYTHONUTF8": "1"}
            )
            return self._child


class ExecHarness(Harness):
    """A harness in exec mode: a process for each case."""

    def run(self, request: Request) -> Answer:
        """Start the harness for one case, and wait until it ends."""
        started = time.monotonic()
        arguments = [request.operation, str(request.source), str(request.target)]
        child = self._start(arguments, talks=False, environment={"FXTIO_CASE": request.case})
        status = child.wait(started + self.limits.seconds)
        child.kill()  # also what it left running
        seconds = time.monotonic() - started
        lines = child.output.lines()
        if status is None:
            return Answer(Status.TIMEOUT, f"no result after {self.limits.seconds:g} seconds", lines, seconds)
        if status == UNSUPPORTED_STATUS:
            return Answer(Status.UNSUPPORTED, lines[-1] if lines else "", lines, seconds)
        if status in (0, REFUSED_STATUS):
            return Answer(Status.REFUSED if status else Status.OK, "", lines, seconds)
        return Answer(Status.CRASH, _status_text(status), lines, seconds)


class _NoAnswerError(Exception):
    """An error: a line breaks the protocol, or the harness ended or waited instead of answering."""

    def __init__(self, reason: str, status: Status = Status.PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class _Abilities:
    """The abilities of a harness, as its handshake names them."""

    name: str
    version: str
    formats: Mapping[str, Sequence[str]]
    skip: Mapping[str, str]
    skip_tags: Mapping[str, str]

    def reason_to_skip(self, request: Request) -> str | None:
        """Return why a request is not to be sent, or None."""
        if request.operation not in self.formats.get(request.format, ()):
            return f"the handshake does not have {request.operation!r} for the format {request.format}"
        for pattern, reason in self.skip.items():
            if fnmatchcase(request.case, pattern):
                return reason
        return next((reason for tag, reason in self.skip_tags.items() if tag in request.tags), None)


class ServeHarness(Harness):
    """A harness in serve mode: one process for many cases, which exchanges lines of JSON with the runner."""

    def __init__(self, command: Sequence[str], limits: Limits, kit: str) -> None:
        super().__init__(command, limits)
        self._kit = kit
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._abilities: _Abilities | None = None
        self._last_id = 0

    def run(self, request: Request) -> Answer:
        """Send one request, and wait for its answer; start the harness if it is not running."""
        started = time.monotonic()
        if self._abilities is None:
            self._abilities = self._greet()
        reason = self._abilities.reason_to_skip(request)
        if reason is not None:
            return Answer(Status.UNSUPPORTED, reason)
        message = {
            "op": request.operation,
            "case": request.case,
            "format": request.format,
            "in": str(request.source),
            "out": str(request.target),
        }
        try:
            answer = self._ask(message, started + self.limits.seconds)
            status = _text(answer, "status")
            if status not in {Status.OK, Status.REFUSED, Status.UNSUPPORTED}:
                raise _NoAnswerError(f"the status is {shown(status)}")
            reason = _text(answer, "reason", "")
        except _NoAnswerError as error:
            child = self._child
            assert child is not None
            child.kill()  # the next case gets a new process
            self._abilities = None
            return Answer(error.status, str(error), child.output.lines(), time.monotonic() - started)
        return Answer(Status(status), reason, (), time.monotonic() - started)

    def close(self) -> None:
        """End the harness by closing its standard input; kill it if it goes on."""
        child = self._child
        if child is not None and child.process.stdin is not None:
            with contextlib.suppress(OSError):
                child.process.stdin.close()
            child.wait(time.monotonic() + _CLOSING_SECONDS)
        self.kill()

    def _greet(self) -> _Abilities:
        """Start the harness and do the handshake.

        Raises:
            HarnessError: there is no answer, or it is wrong.
        """
        child = self._start(["serve"], talks=True, environment={})
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_pump, args=(child, self._lines), name="harness-answers", daemon=True).start()
        self._last_id = -1
        deadline = time.monotonic() + self.limits.seconds
        try:
            answer = self._ask({"op": "hello", "protocol": PROTOCOL, "kit": self._kit}, deadline)
            abilities = _abilities(answer)
        except _NoAnswerError as error:
            is_wrong = error.status is Status.PROTOCOL_ERROR
            problem = "the answer to the handshake is wrong" if is_wrong else "there was no answer to the handshake"
            child.kill()
            raise HarnessError(
                "\n  ".join([f"the harness {self.command[0]!r}: {problem}: {error}", *child.output.lines()])
            ) from None
        self.name, self.version = abilities.name, abilities.version
        return abilities

    def _ask(self, message: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send a message and return the answer."""
        child = self._child
        assert child is not None
        assert child.process.stdin is not None
        if not self._lines.empty():
            line = self._lines.get_nowait()
            if not line:
                raise self._ended()
            raise _NoAnswerError(f"a line that answers no request: {shown(line)}")
        self._last_id += 1
        line = json.dumps({"id": self._last_id, **message}).encode() + b"\n"
        try:
            child.process.stdin.write(line)
            child.process.stdin.flush()
        except OSError:
            raise self._ended() from None
        try:
            reply = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise _NoAnswerError(f"no answer after {self.limits.seconds:g} seconds", Status.TIMEOUT) from None
        if not reply:
            raise self._ended()
        return _parse(reply, self._last_id)

    def _ended(self) -> _NoAnswerError:
        """Return the error that says how the process ended, after it closed its standard output."""
        assert self._child is not None
        status = self._child.wait(time.monotonic() + _CLOSING_SECONDS)
        reason = "it closed its standard output" if status is None else _status_text(status)
        return _NoAnswerError(reason, Status.CRASH)


def _pump(child: _Child, lines: queue.SimpleQueue[bytes]) -> None:
    """Put the lines of a process into a queue, and an empty one at the end; stop at lines that nobody asked for."""
    assert child.process.stdout is not None
    with contextlib.suppress(OSError, ValueError), child.process.stdout as stream:
        while line := stream.readline(MAX_LINE + 1):
            lines.put(line)
            if len(line) > MAX_LINE or lines.qsize() > _WAITING_LINES:
                break
    lines.put(b"")


def _parse(line: bytes, expected_id: int) -> dict[str, Any]:
    """Parse an answer."""
    if len(line) > MAX_LINE:
        raise _NoAnswerError(f"a line is longer than {MAX_LINE:,} bytes")
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise _NoAnswerError(f"a line is not JSON: {shown(line)}") from None
    if not isinstance(answer, dict):
        raise _NoAnswerError(f"a line is not a JSON object: {shown(line)}")
    if type(answer.get("id")) is not int or answer["id"] != expected_id:
        raise _NoAnswerError(f"the id is {shown(answer.get('id'))}, but the request has {expected_id}")
    return answer


def _text(answer: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = answer.get(key, default)
    if not isinstance(value, str):
        raise _NoAnswerError(f"the member {key!r} is {shown(value)}, not a text")
    return value


def _reasons(answer: Mapping[str, Any], key: str) -> dict[str, str]:
    value = answer.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(reason, str) for reason in value.values()):
        raise _NoAnswerError(f"the member {key!r} is {shown(value)}, not an object of texts")
    return value


def _abilities(answer: Mapping[str, Any]) -> _Abilities:
    if answer.get("protocol") != PROTOCOL:
        raise _NoAnswerError(f"the protocol is {shown(answer.get('protocol'))}; this runner speaks {PROTOCOL}")
    formats = answer.get("formats")
    if not isinstance(formats, dict) or not all(
        isinstance(operations, list) and all(item in OPERATIONS for item in operations)
        for operations in formats.values()
    ):
        raise _NoAnswerError(f"the member 'formats' is {shown(formats)}, not an object of lists of read and write")
    return _Abilities(
        _text(answer, "name"),
        _text(answer, "version", ""),
        formats,
        _reasons(answer, "skip"),
        _reasons(answer, "skip_tags"),
    )
