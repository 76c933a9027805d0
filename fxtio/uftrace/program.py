"""Write the trace of a made-up web server: the synthetic shape `program`.

Requests arrive at random and wait for one of several workers.  A request is parsed, looks up its session, asks the
database (which blocks in the kernel), fills a template and sends its answer; many are answered from the cache, a few
fail.
Now and then a garbage collection runs, a job of the background thread, or a child process that compresses logs.
Durations are log-normal, as those of real programs are.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fxtio.table import MAX_TIME
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter

PATH = "/usr/bin/shopd"
PID = 2000

MAX_WORKERS = 1000

_SPREAD = 0.6  # of the logarithms of durations
_ARRIVAL, _GC, _JOB = 40_000, 200, 97  # nanoseconds between requests; requests between collections, and between jobs
_COMPRESSIONS, _COMPRESS = 3, 500
_TRACED = 2000  # requests whose events of the kernel and the scheduler are written
_STATES = {"NEW": 0, "ACTIVE": 1, "EXPIRED": 2}
_LEVELS = {"DEBUG": 0, "INFO": 1, "WARNING": 2, "ERROR": 3}
_PATHS = ["/", "/cart", "/item/4711", "/item/815", "/search?q=tea", "/login", "/static/style.css", "/checkout"]
_QUERIES = [
    "SELECT * FROM items WHERE id = ?", "SELECT * FROM carts WHERE user = ?", "UPDATE carts SET total = ?",
    "INSERT INTO orders VALUES (?, ?)",
]  # fmt: skip
_SOURCE = "/src/shopd/server.cc"
_LIBC, _SSL, _SQL = "/usr/lib/libc.so.6", "/usr/lib/libssl.so.3", "/usr/lib/libsqlite3.so.0"
_FUNCTIONS: dict[str, dict[str, Any]] = {
    "shop::Server::accept": {"returns": "retval/i32"},
    "shop::Worker::run": {},
    "shop::Request::handle": {"arguments": "arg1/u64,arg2/s", "returns": "retval/i32"},
    "shop::Request::parse": {},
    "shop::parse_header": {"arguments": "arg1/s"},
    "shop::Session::lookup": {"arguments": "arg1/x64", "returns": "retval/e:session_state"},
    "shop::Cache::get": {"arguments": "arg1/s", "returns": "retval/p"},
    "shop::Database::query": {"arguments": "arg1/s", "returns": "retval/i32"},
    "shop::Template::render": {"arguments": "arg1/s", "returns": "retval/u64"},
    "shop::price_with_tax": {"arguments": "fparg1/64", "returns": "retval/f64"},
    "shop::Response::send": {"arguments": "arg1/i32,arg2/u64"},
    "shop::log": {"arguments": "arg1/e:log_level,arg2/s"},
    "shop::gc::collect": {"returns": "retval/u64"},
    "shop::gc::mark": {},
    "shop::gc::sweep": {},
    "shop::Jobs::run": {"arguments": "arg1/s"},
    "shop::Jobs::expire_sessions": {},
    "memcpy": {"module": _LIBC, "library": True},
    "malloc": {"module": _LIBC, "library": True, "arguments": "arg1/u64", "returns": "retval/p"},
    "free": {"module": _LIBC, "library": True},
    "read": {"module": _LIBC, "library": True, "arguments": "arg1/i32", "returns": "retval/i64"},
    "write": {"module": _LIBC, "library": True, "arguments": "arg1/i32", "returns": "retval/i64"},
    "fork": {"module": _LIBC, "library": True, "returns": "retval/i32"},
    "SSL_write": {"module": _SSL, "library": True},
    "sqlite3_step": {"module": _SQL, "library": True, "returns": "retval/i32"},
}


def _line(number: int, given: dict[str, Any]) -> int | None:
    """Return the line of a function of the program; the sources of libraries are not known."""
    return None if "module" in given else 40 * number


@dataclass(slots=True)
class _Thread:
    """A thread of the program: its writer, its CPU, which no other thread uses, and its time in nanoseconds."""

    task: TaskWriter
    cpu: int
    now: int


class Program:
    """Writes requests.

    Args:
        writer: the writer.
        rng: the random numbers.
        workers: the number of threads that handle requests, at most `MAX_WORKERS`.
        begin: the time at which the program begins in nanoseconds.
    """

    def __init__(self, writer: UftraceWriter, rng: random.Random, workers: int, begin: int) -> None:
        self._writer = writer
        self._rng = rng
        self._requests = self._order = 0
        self._arrived = begin
        self._waiting: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []  # what is written in order
        writer.enum("session_state", _STATES)
        writer.enum("log_level", _LEVELS)
        self._functions = {
            name: writer.function(name, source="" if "module" in given else _SOURCE, line=_line(number, given), **given)
            for number, (name, given) in enumerate(_FUNCTIONS.items(), 1)
        }
        self._main = _Thread(writer.task(PID), 0, begin)
        workers = min(workers, MAX_WORKERS)
        self._workers = [
            _Thread(writer.task(PID + 1 + number, PID), 1 + number, begin + 50_000 + 2_000 * number)
            for number in range(workers)
        ]
        self._background = _Thread(writer.task(PID + 1 + workers, PID), 1 + workers, begin + 40_000)
        self._enter(self._main, "main", 5_000)
        for worker in self._workers:
            self._enter(worker, "shop::Worker::run", 1_000)

    # ---- calls

    def _pass(self, thread: _Thread, median: float) -> int:
        """Let time pass, so many nanoseconds in the median; return the time."""
        thread.now += max(int(self._rng.lognormvariate(0, _SPREAD) * median), 1)
        return thread.now

    def _enter(self, thread: _Thread, name: str, median: float, *values: Any) -> None:
        """Begin a call after some time."""
        target: NewFunction | str = self._functions.get(name, name)
        thread.task.enter(target, self._pass(thread, median), *values)

    def _leave(self, thread: _Thread, median: float, value: Any = ...) -> None:
        """End a call after some time."""
        thread.task.leave(self._pass(thread, median), value)

    def _call(self, thread: _Thread, name: str, median: float, *values: Any, returns: Any = ...) -> None:
        """Write a call that takes so many nanoseconds in the median."""
        self._enter(thread, name, 30, *values)
        self._leave(thread, median, returns)

    # ---- requests

    def write_round(self) -> None:
        """Write a request, and what happens beside it."""
        self._requests += 1
        self._arrived += int(self._rng.expovariate(1 / _ARRIVAL)) + 1
        self._main.now = max(self._main.now, self._arrived)
        self._call(self._main, "shop::Server::accept", 3_000, returns=10 + self._requests % 50)
        worker = min(self._workers, key=lambda thread: thread.now)
        worker.now = max(worker.now, self._main.now + 500)
        self._handle(worker)
        if self._requests % _GC == 0:
            self._collect()
        if self._requests % _JOB == 0:
            self._job()
        if self._requests % _COMPRESS == 0 and self._requests <= _COMPRESSIONS * _COMPRESS:
            self._compress()
        self._write_until(min(thread.now for thread in [self._main, *self._workers]))

    def end(self) -> None:
        """Write what is left; the threads are still running."""
        self._write_until(MAX_TIME + 1)

    def _handle(self, worker: _Thread) -> None:
        rng, path = self._rng, self._rng.choices(_PATHS, [30, 10, 20, 5, 10, 4, 20, 1])[0]
        self._enter(worker, "shop::Request::handle", 300, self._requests, path)
        self._enter(worker, "shop::Request::parse", 100)
        self._io(worker, "read", "ksys_read", 4_000, rng.randrange(200, 4000))
        for header in ("Host", "Cookie", "Accept")[: rng.randrange(1, 4)]:
            self._call(worker, "shop::parse_header", 250, header)
        self._leave(worker, 200)
        state = rng.choices(list(_STATES), [5, 90, 5])[0]
        self._call(worker, "shop::Session::lookup", 900, rng.getrandbits(48), returns=state)
        hit = path.startswith("/static") or rng.random() < 0.3
        self._call(worker, "shop::Cache::get", 400, path, returns=0x7F0000001000 if hit else 0)
        size, status = rng.randrange(500, 60_000), 200
        if not hit:
            status = self._answer(worker, path)
        if status != 200:
            self._log(worker, "ERROR", f"request {self._requests} failed with status {status}")
        self._enter(worker, "shop::Response::send", 200, status, size)
        self._call(worker, "SSL_write", 2_500)
        self._io(worker, "write", "ksys_write", 6_000, size)
        self._leave(worker, 150)
        if rng.random() < 0.1:
            self._log(worker, "INFO", f"GET {path} {status}")
        self._leave(worker, 250, status)

    def _answer(self, worker: _Thread, path: str) -> int:
        """Ask the database and fill the template; return the status."""
        rng = self._rng
        for _ in range(rng.choices([1, 2, 3], [6, 3, 1])[0]):
            rows = rng.randrange(20)
            self._enter(worker, "shop::Database::query", 300, rng.choice(_QUERIES))
            for _ in range(min(rows, 4)):
                self._call(worker, "sqlite3_step", 1_500, returns=100)
            self._io(worker, "read", "ksys_read", 80_000, 4096)
            self._leave(worker, 400, rows)
        if rng.random() < 0.01:
            return 500
        self._enter(worker, "shop::Template::render", 200, path)
        self._call(worker, "malloc", 120, 4096, returns=0x7F0000002000)
        for _ in range(rng.randrange(5)):
            price = round(rng.uniform(1, 200), 2)
            self._call(worker, "shop::price_with_tax", 60, price, returns=price * 1.19)
            self._call(worker, "memcpy", 80)
        self._call(worker, "free", 90)
        self._leave(worker, 3_000, rng.randrange(500, 60_000))
        return 200

    def _io(self, thread: _Thread, name: str, kernel: str, median: float, size: int) -> None:
        """Write a call that enters the kernel, and loses its CPU if it takes long."""
        self._enter(thread, name, 100, 7)
        begin = self._pass(thread, 200)
        end = self._pass(thread, median)
        if self._requests <= _TRACED and end - begin > 500:
            tid, cpu, writer = thread.task.tid, thread.cpu, self._writer
            self._later(begin, writer.kernel_enter, cpu, begin, tid, "do_syscall_64")
            self._later(begin + 100, writer.kernel_enter, cpu, begin + 100, tid, kernel)
            if end - begin > 20_000:
                self._later(begin + 200, writer.sched, cpu, PerfEvent(begin + 200, PID, tid, "sched-out"))
                self._later(end - 200, writer.sched, cpu, PerfEvent(end - 200, PID, tid, "sched-in"))
            self._later(end - 100, writer.kernel_leave, cpu, end - 100, tid)
            self._later(end - 50, writer.kernel_leave, cpu, end - 50, tid)
        self._leave(thread, 100, size)

    def _log(self, thread: _Thread, level: str, text: str) -> None:
        self._call(thread, "shop::log", 700, level, text)
        self._later(thread.now, self._writer.message, thread.now, f"{level} {text}")

    # ---- beside requests

    def _collect(self) -> None:
        """Write a garbage collection, in the thread that has waited longest."""
        thread = min(self._workers, key=lambda worker: worker.now)
        size = self._rng.randrange(50_000, 90_000)
        self._enter(thread, "shop::gc::collect", 500)
        thread.task.event("read:proc/statm", thread.now + 1, vmsize=200_000 + size, vmrss=size, shared=12_000)
        self._call(thread, "shop::gc::mark", 150_000)
        self._call(thread, "shop::gc::sweep", 90_000)
        freed = self._rng.randrange(size // 2)
        thread.task.event("diff:proc/statm", self._pass(thread, 50), vmsize=-freed, vmrss=-freed, shared=0)
        self._leave(thread, 800, freed * 1024)

    def _job(self) -> None:
        """Write a job of the background thread."""
        thread = self._background
        thread.now = max(thread.now, self._main.now)
        self._enter(thread, "shop::Jobs::run", 300, "expire sessions")
        self._call(thread, "shop::Jobs::expire_sessions", 60_000)
        self._leave(thread, 500)
        thread.task.event("shopd:job-done", self._pass(thread, 100))

    def _compress(self) -> None:
        """Write a child process that runs gzip."""
        number = self._requests // _COMPRESS
        self._enter(self._main, "fork", 100)
        time = self._pass(self._main, 60_000)
        child = _Thread(self._main.task.fork(PID + 10_000 + number, time), self._background.cpu, time)
        self._leave(self._main, 500, child.task.tid)
        self._leave(child, 900, 0)
        self._enter(child, "execv", 300)
        child.task.exec("/usr/bin/gzip", self._pass(child, 200_000))
        self._enter(child, "main", 900_000)
        for _ in range(20):
            self._call(child, "deflate", 400_000)
        self._leave(child, 5_000)
        self._log(self._main, "INFO", f"compressed log {number}")

    # ---- events in the order of time

    def _later(self, time: int, write: Callable[..., object], *arguments: Any) -> None:
        """Write something when everything before it is written."""
        self._order += 1
        heapq.heappush(self._waiting, (time, self._order, write, arguments))

    def _write_until(self, time: int) -> None:
        """Write what belongs to earlier times."""
        while self._waiting and self._waiting[0][0] < time:
            _, _, write, arguments = heapq.heappop(self._waiting)
            write(*arguments)
