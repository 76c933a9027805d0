"""The Firefox Profiler as a judge: Mozilla's npm package `@firefox-devtools/profiler-cli`, under Node.js.

It reads both forms of the profiles of Firefox, and those of other programs, such as `.cpuprofile`. The environment
variable FXTIO_FIREFOX_PROFILER_DIST names the folder `dist` of the package::

    npm pack @firefox-devtools/profiler-cli@0.10.0 && tar -xzf firefox-devtools-profiler-cli-0.10.0.tgz
    export FXTIO_FIREFOX_PROFILER_DIST=$PWD/package/dist
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.limits import PATIENCE

_ALL = "1000000000"


class ProfilerError(Exception):
    """An error: the Firefox Profiler refused the file, or a question."""


@dataclass(frozen=True)
class Thread:
    """A thread as the Firefox Profiler has read it.

    Attributes:
        name: its name.
        process: the name of its process.
        pid: the number of its process.
        tid: its number.
        functions: the weight of the samples in each function itself, and in what it called as well.
        markers: name, start, and duration (None for an instant), in milliseconds.
    """

    name: str
    process: str
    pid: str
    tid: Any
    functions: dict[str, tuple[float, float]]
    markers: list[tuple[str, float, float | None]]


def _program() -> Path | None:
    chosen = os.environ.get("FXTIO_FIREFOX_PROFILER_DIST")
    program = Path(chosen or "", "profiler-cli.js")
    return program if chosen and program.is_file() else None


def available() -> str | None:
    """Return None if the Firefox Profiler can be used here, otherwise the reason why not, in one sentence."""
    if shutil.which("node") is None:
        return "the Firefox Profiler cannot run: there is no Node.js (no `node` on PATH)"
    if _program() is None:
        return (
            "the Firefox Profiler cannot run: FXTIO_FIREFOX_PROFILER_DIST does not name the folder dist of its package"
        )
    return None


def load(path: Path) -> list[Thread]:
    """Return the threads of a profile.

    Raises:
        ProfilerError: the Firefox Profiler refuses the file.
    """
    with _session(path) as ask:
        return [_thread(each, ask) for each in ask("thread", "list", "--limit", _ALL)["threads"]]


def _thread(thread: dict[str, Any], ask: Any) -> Thread:
    of = ("--thread", thread["threadHandle"], "--limit", _ALL)
    functions = ask("thread", "functions", "--include-idle", *of)["functions"]
    markers = ask("thread", "markers", "--list", *of)["flatMarkers"]
    return Thread(
        name=thread["name"],
        process=thread["processName"],
        pid=str(thread["pid"]),
        tid=thread["tid"],
        functions={each["name"]: (each["selfSamples"], each["totalSamples"]) for each in functions},
        markers=sorted((each["name"], each["start"], each.get("duration")) for each in markers),
    )


@contextmanager
def _session(path: Path) -> Iterator[Any]:
    """Yield a function that asks questions about a profile, which a process of the package has in memory.

    The process is started here, and not by the command `load`, which gives up after half a second.
    """
    with tempfile.TemporaryDirectory(prefix="fxp-") as folder:
        program = ["node", str(_program())]
        environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": folder}

        def ask(*arguments: str) -> Any:
            command = [*program, *arguments, "--session", "fxtio", "--json"]
            child = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, env=environment)
            if child.returncode:
                raise ProfilerError((child.stderr or child.stdout).decode(errors="replace")[-2000:])
            return json.loads(child.stdout)

        daemon = subprocess.Popen(
            [*program, "--daemon", str(path), "--session", "fxtio"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(ask, daemon, Path(folder))
            yield ask
        finally:
            daemon.kill()
            daemon.wait()


def _wait(ask: Any, daemon: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a profile is loaded; a question that comes before the process listens would make it unreachable.

    Raises:
        ProfilerError: it is refused, or it takes too long.
    """
    end, is_listening = time.monotonic() + PATIENCE, False
    while time.monotonic() < end and daemon.poll() is None:
        try:
            if not is_listening:
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(folder / "fxtio.sock"))
                is_listening = (folder / "fxtio.json").exists()
            if is_listening:
                ask("thread", "list")
                return
        except OSError:
            pass
        except ProfilerError as error:
            if "Profile load failed" in str(error):
                raise
        time.sleep(0.1)
    raise ProfilerError(f"the profile was not loaded in {PATIENCE} seconds")
