"""Programs that run in a process of their own, forked from an interpreter that has started before.

Each begins as after `python -P -c PROGRAM ARGUMENT...`: with the standard streams as its only descriptors, in a session
of its own, as `__main__`.  Starting an interpreter takes several times as long as most of the programs.
"""

from __future__ import annotations

import array
import atexit
import io
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

INTERPRETER = os.environ.get("FXTIO_TEST_INTERPRETER", sys.executable)
"""What runs the programs: another build of the interpreter of the tests, such as a free-threaded one."""

_WORD = 8
"""The bytes of a number in the messages."""

PRELUDE = "import os, sys, threading, time, fxtio"
"""What is executed before each program."""

TRACER = PRELUDE + "; fxtio.start"
"""The same for a program that starts a recording in its first line: it imports the tracer before anything else."""

COMMAND = TRACER + "; import fxtio.cli"
"""The same for the command line."""

_SERVER = '''

def serve(descriptor):
    """Fork for each request, which is a program with its arguments and folder; in the child, return the program."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)

    def receive(count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                os._exit(0)
            data += part
        return data

    while True:
        head, ancillary, *_ = connection.recvmsg(8, _socket.CMSG_LEN(8))  # two descriptors
        if not head:
            os._exit(0)
        head += receive(8 - len(head))
        streams = memoryview(ancillary[0][2]).cast("i").tolist()
        program, folder, arguments = eval(receive(int.from_bytes(head, "little")).decode("utf-8", "surrogatepass"))
        child = os.fork()
        if not child:
            break
        for stream in streams:
            os.close(stream)
        connection.send(child.to_bytes(8, "little"))
        connection.send(os.waitpid(child, 0)[1].to_bytes(8, "little"))
    os.setsid()
    os.chdir(folder)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    connection.detach()
    os.closerange(3, max(descriptor, *streams) + 1)
    sys.argv[:] = ["-c", *arguments]
    sys.orig_argv[3:] = [program, *arguments]
    if "<string>" in getattr(sys.modules.get("linecache"), "cache", ()):  # from which tracebacks take lines of source
        sys.modules["linecache"].cache["<string>"] = len(program), None, program.splitlines(True), "<string>"
    return compile(program, "<string>", "exec")

exec(globals().pop("serve")(int(sys.argv[1])))
'''


class Forker:
    """An interpreter that forks a process for each program, and has executed what all programs begin with."""

    def __init__(self, prelude: str, environment: dict[str, str]) -> None:
        self._connection, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(
                [INTERPRETER, "-P", "-c", prelude + _SERVER, str(descriptor)],
                pass_fds=[descriptor],
                stdout=subprocess.PIPE,  # as those of a program
                stderr=subprocess.PIPE,
                env=environment,
            )

    def run(self, program: str, *arguments: str, timeout: float, folder: Path | None = None) -> tuple[int, str, str]:
        """Run a program, in the working directory or another folder; return its exit code, output and standard error.

        Raises:
            TimeoutError: it has not ended after this many seconds.  It is killed, and so are its children.
        """
        end = time.monotonic() + timeout
        pipes = [os.pipe(), os.pipe()]
        request = repr((program, str(folder or Path.cwd()), arguments)).encode("utf-8", "surrogatepass")
        rights = array.array("i", [writer for _, writer in pipes])
        size = len(request).to_bytes(_WORD, "little")
        self._connection.sendmsg([size], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self._connection.sendall(request)
        for _, writer in pipes:
            os.close(writer)
        child = self._receive()
        try:
            stdout, stderr = _read_all([reader for reader, _ in pipes], end)
            self._connection.settimeout(max(end - time.monotonic(), 0.1))
            status = self._receive()
        except BaseException:
            os.killpg(child, signal.SIGKILL)  # its children too, which would keep the pipes open
            self._connection.settimeout(None)
            self._receive()
            raise
        finally:
            for reader, _ in pipes:
                os.close(reader)
        self._connection.settimeout(None)
        return os.waitstatus_to_exitcode(status), stdout, stderr

    def _receive(self) -> int:
        """Return a number that the interpreter sends."""
        data = self._connection.recv(_WORD, socket.MSG_WAITALL)
        assert len(data) == _WORD, "the interpreter that forks has ended"
        return int.from_bytes(data, "little")

    def close(self) -> None:
        """End the interpreter."""
        self._connection.close()
        self._process.communicate()


def _read_all(readers: list[int], end: float) -> list[str]:
    """Return what comes out of pipes until they are closed."""
    outputs = {reader: bytearray() for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            remaining = end - time.monotonic()
            if remaining < 0:
                raise TimeoutError("the program has not ended")
            for key, _ in selector.select(remaining):
                part = os.read(key.fd, 1 << 16)
                outputs[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
    return [io.TextIOWrapper(io.BytesIO(output)).read() for output in outputs.values()]


_forkers: dict[str, Forker] = {}
"""The interpreters that have started, by their preludes."""

_environment: dict[str, str] = {}
"""The environment variables that they have."""


def forker(prelude: str = PRELUDE) -> Forker:
    """Return an interpreter with this prelude and the environment variables of this process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    if environment != _environment:
        end_forkers()
        _environment.clear()
        _environment.update(environment)
    if prelude not in _forkers:
        _forkers[prelude] = Forker(prelude, environment)
    return _forkers[prelude]


@atexit.register
def end_forkers() -> None:
    """End the interpreters."""
    while _forkers:
        _forkers.popitem()[1].close()
