"""Commands of fxtio as child processes with bounded time, memory and output, for questions of agents.

The traces are open already.  A child sees them under their names, as links to the descriptors that it inherits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from fxtio.cli import FAULT
from fxtio.cli.console import FOUND
from fxtio.cli.inputs import UsageError
from fxtio.cli.mcp.root import Opened, refuse_links
from fxtio.errors import FormatError
from fxtio.report import short_seconds

LARGE = 512 * 2**20
"""A packed trace of more bytes answers a question without a range of times from a part; no other may be so large."""

_PART = 32 * 2**20  # the bytes of such a part, a million events or so
_SMALL = 2**20  # the bytes of a file that is not worth a look whether it is a large trace
_MAX_OUTPUT = 4 * 2**20
_MEMORY = 4 * 2**30


class Child:
    """Runs commands on traces, all of them together within a number of seconds, and until the question is over.

    Attributes:
        names: the traces, as arguments of a command.
        messages: what the latest command has said on standard error.
        is_cut: whether it has printed more than `run` returned.
    """

    def __init__(self, opened: Sequence[Opened], place: Path, seconds: int, over: Event) -> None:
        self.names = [f"{each.name}" if f"{each.name}"[0] != "-" else f"./{each.name}" for each in opened]
        self.messages, self.is_cut = "", False
        self._descriptors = [each.fd for each in opened]
        self._place, self._seconds, self._over = place / "whole", seconds, over
        self._end = time.monotonic() + seconds
        for each in {each.name: each for each in opened}.values():
            if each.size is None:
                refuse_links(each)
            _new(self._place / each.name).symlink_to(each.path)

    def cut(self, times: Sequence[str]) -> None:
        """Let the parts of the traces in a range of times take their place."""
        part = self._place.with_name("part")
        for name in dict.fromkeys(self.names):
            self.run("cut", name, "-o", str(_new(part / name)), *times)
        self._place = part

    def run(self, *arguments: str) -> str:
        """Run a command, and return the first megabytes that it prints.

        Raises:
            UsageError: it refuses its arguments or a trace, or does not end in time.
        """
        command = [sys.executable, "-P", "-m", "fxtio", *arguments]
        environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, cwd=self._place,
                env=environment, pass_fds=self._descriptors,
            )  # fmt: skip
            Thread(target=self._kill_in_time, args=(process,), daemon=True).start()
            with process:
                try:
                    self._limit(process.pid)
                    text = process.stdout.read(_MAX_OUTPUT) if process.stdout else b""
                    self.is_cut = bool(process.stdout and process.stdout.read(1))
                    code = 0 if self.is_cut else process.wait()
                finally:
                    is_late = time.monotonic() >= self._end
                    process.kill()
            said.seek(0)
            words = said.read(_MAX_OUTPUT).decode(errors="replace")
        self.messages = words.replace("fxtio: ", "")
        if is_late:
            advice = "ask for a part with `from` and `to`; traces that `fxtio pack` has packed answer that at once"
            raise UsageError(f"there is no answer within {self._seconds} s; {advice}")
        if code == FAULT:
            last = words.rstrip().rpartition("\n")[2]
            raise UsageError(f"the command failed, which is a fault of fxtio: {last}")
        if not 0 <= code <= FOUND:
            raise UsageError(self.messages.rpartition("error: ")[2] or "out of memory")
        return text.decode(errors="replace")

    def _kill_in_time(self, process: subprocess.Popen[bytes]) -> None:
        self._over.wait(max(self._end - time.monotonic(), 0))
        process.kill()

    def _limit(self, pid: int) -> None:
        """Limit the memory of a process, and its time should this process be killed before it, where the system can."""
        if sys.platform == "linux":
            import resource

            seconds = self._seconds * (os.cpu_count() or 1)
            for limit, wanted in ((resource.RLIMIT_DATA, _MEMORY), (resource.RLIMIT_CPU, seconds)):
                _, most = resource.prlimit(pid, limit)  # which only root can raise
                value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
                resource.prlimit(pid, limit, (value, value))


def _new(path: Path) -> Path:
    """Return a path whose folder exists from now on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def part_of(opened: Sequence[Opened]) -> tuple[dict[str, str], str]:
    """Return the range of times that answers a question without one, as arguments `from` and `to`, and a note about it.

    Both are empty for traces of which all can be read.

    Raises:
        UsageError: a trace is too large, and no part of it can be read on its own.
    """
    from fxtio.exchange.opening import open_any
    from fxtio.readers import FileReader, times_of

    for each in opened:
        size, part = each.size or 0, None
        if size < _SMALL:
            continue
        with suppress(FormatError), open_any(each.path) as trace:  # the command will say what is wrong
            if isinstance(trace, FileReader) and trace.portion(LARGE):
                part, summary = trace.portion(_PART), times_of(trace)
        if part is None and size > LARGE:
            raise UsageError(f"{each.name} is too large for this, unless `fxtio pack` packs it")
        if part and len(opened) > 1:
            raise UsageError(f"{each.name} is too large to be compared as a whole; give `from` and `to`")
        if part:
            times = (time - (summary.start or 0) for time in (*part, summary.end or 0))
            begin, end, whole = (f"{short_seconds(time)}s" for time in times)
            note = f"this is about the part from {begin} to {end} of a large trace, which lasts {whole}"
            return {"from": begin, "to": end}, f"{note}; `from` and `to` choose another part"
    return {}, ""
