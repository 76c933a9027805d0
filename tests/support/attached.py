"""Programs that run until they are told to end, and `fxtio attach` for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.tracer_run import run_command

LISTENS = "import fxtio; fxtio.span\n"
"""The beginning of a program that uses the tracer."""

STATUS = 7
"""The exit status of the services."""

SERVICE = f"""
import sys, threading, time

def handle(number):
    return square(number)

def square(number):
    return number * number

def serve():
    total = 0
    while not ended.is_set():
        total += handle(3)
        time.sleep(0.001)
    return total % 9

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
print("up", flush=True)
print("down", serve(), flush=True)
sys.exit({STATUS})
"""
"""A program that works until a line or the end of its input, prints `OUTPUT`, and exits with `STATUS`."""

OUTPUT = "up\ndown 0\n"

COUNTING = f"""
import gc, json, os, select, signal, sys

def facts():
    gc.collect()
    with open("/proc/self/maps") as maps:
        mapped = sum(".fxt" in line for line in maps)
    handlers = [str(signal.getsignal(number)) for number in signal.valid_signals()]
    return {{
        "modules": len(sys.modules), "mapped": mapped, "descriptors": len(os.listdir("/proc/self/fd")),
        "environment": len(os.environ), "handlers": handlers, "profile": str(sys.getprofile()),
        "threads": len(os.listdir("/proc/self/task")), "blocks": sys.getallocatedblocks(),
    }}

print("up", flush=True)
while True:
    if select.select([0], [], [], 0.01)[0]:
        if sys.stdin.readline() == "end\\n":
            break
        print(json.dumps(facts()), flush=True)
sys.exit({STATUS})
"""
"""A program that answers each line with what it has, such as memory and descriptors."""


class Service:
    """A program that runs.

    Attributes:
        pid: its process id.
        process: the process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self._output = ""
        self._output = self._line()

    def _line(self) -> str:
        """Read a line; nothing after it, which `communicate` would miss."""
        assert self.process.stdout is not None
        line = b""
        while not line.endswith(b"\n") and (byte := os.read(self.process.stdout.fileno(), 1)):
            line += byte
        assert line, self.process.communicate()
        return line.decode()

    def write(self, text: str) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def ask(self) -> str:
        """Write a line, and return the one that it answers."""
        self.write("ask\n")
        return self._line()

    def end(self) -> tuple[int, str, str]:
        """Let the program end; return its exit status, standard output without answers, and standard error."""
        stdout, stderr = self.process.communicate("end\n", timeout=60)
        return self.process.returncode, self._output + stdout, stderr


@contextmanager
def service(
    source: str, *, listens: bool = True, command: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[Service]:
    """Start a program that prints a line when it runs."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    whole = [sys.executable, "-P", "-c", (LISTENS if listens else "") + source]
    with subprocess.Popen(command or whole, text=True, env=env, **pipes) as process:
        try:
            yield Service(process)
        finally:
            process.kill()


def fields_of(line: str) -> dict[str, Any]:
    """Return what a line of the program `COUNTING` says."""
    fields: dict[str, Any] = json.loads(line)
    return fields


def attach(*arguments: str | int | Path) -> subprocess.CompletedProcess[str]:
    """Run `fxtio attach`."""
    return run_command(Path.cwd(), "attach", *map(str, arguments))


def begin_attach(*arguments: str | int | Path) -> subprocess.Popen[str]:
    """Run `fxtio attach`, and return when it records."""
    command = [sys.executable, "-m", "fxtio", "attach", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("fxtio: recording process "), line
    return process


def wait_for(condition: Callable[[], object], timeout: float = 30) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.02)
