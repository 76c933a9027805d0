"""uftrace: calls, events and system events of every kind.

What a directory can say is in the texts of its small files, such as the formats of values, rather than in declarations
of records; so this lists them, and the friendly writer declares what they need.

A round has calls with values of every format, events of every kind, lost records, calls without an end and without a
beginning, and messages; also scheduler and kernel events.  The first rounds fork processes, run another program, and
load a library.  Some values are at the limits of their formats.

What versions of uftrace before 0.17 cannot read is done by one task of its own, `NEWER`.
"""

from __future__ import annotations

import random
from typing import Any

from fxtio.synth.columns import Amount
from fxtio.uftrace.declarations import NewFunction
from fxtio.uftrace.enums import EventId
from fxtio.uftrace.perf import PerfEvent
from fxtio.uftrace.task_writer import TaskWriter
from fxtio.uftrace.writer import UftraceWriter

MAIN, NEWER, CHILD = 1000, 1001, 5000
"""The first process; its task with what old versions of uftrace cannot read; the first of the forked processes."""

_BEGIN = 1_000_000_000_000
_FORKED_ROUNDS = 3
_CPUS = 2
_COLORS = {"NONE": 0, "RED": 1, "GREEN": 2, "BLUE": 4}
_LIBRARY, _PLUGIN, _OTHER = "/usr/lib/libshapes.so", "/usr/lib/plugin.so", "/usr/bin/other"
_TEXTS: list[str | None] = ["", "text", "naïve Ünïcödé", 'quoted "text"', "x" * 98, None, "\udcff not UTF-8"]
_FORMATS = [
    "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "d8", "d16", "d32", "d64", "x8", "x16", "x32", "x64", "c",
    "p", "e:color", "s", "S", "t12:Point", "t1",
]  # fmt: skip
_NEWER_FORMATS = ["o8", "o16", "o32", "o64"]
_PLACES = {64: "arg1/i32%rdi,arg2/x64%stack+1,fparg1/32%xmm0", 32: "arg1/i32%stack+2,arg2/x64%stack+1,fparg1/32"}
_NAMES = [
    ("_ZN6shapes6Square4areaEi", True), ("_ZN4core3fmt5write17h0123456789abcdefE", True), ("operator new", True),
    ("memcpy", False),
]  # fmt: skip
_PERF_KINDS: list[dict[str, Any]] = [
    {"kind": "sched-out"}, {"kind": "sched-in"}, {"kind": "sched-out (pre-empted)"}, {"kind": "sched-in"},
    {"kind": "task-name", "comm": "renamed"}, {"kind": "exec", "comm": "other"}, {"kind": "task-new", "parent": MAIN},
    {"kind": "task-exit"},
]  # fmt: skip


def everything(target: Any, amount: Amount, options: dict[str, Any]) -> tuple[int, int]:
    """Write whole rounds until there is enough; events are records, and a size is that of the records."""
    options = {"program": "/usr/bin/synthetic", "command": "synthetic everything", **options}
    with UftraceWriter(target, **options) as writer:
        rounds = _Rounds(writer, random.Random(amount.seed), amount.threads, _BEGIN)
        while amount.left(writer.records, writer.position) > 0:
            rounds.write_round()
        rounds.end()
    return writer.records, writer.position


class _Rounds:
    """Writes rounds.

    Args:
        writer: the writer.
        rng: the random numbers.
        threads: the number of tasks that make calls.
        begin: the time of the first record in nanoseconds.
    """

    def __init__(self, writer: UftraceWriter, rng: random.Random, threads: int, begin: int) -> None:
        self._writer = writer
        self._rng = rng
        self._now = begin
        self._bits = 8 * writer.pointer_size
        self._number = 0
        writer.enum("color", _COLORS)
        main = writer.task(MAIN)
        self._tasks = [main, *(writer.task(NEWER + 1 + number, MAIN) for number in range(threads - 1))]
        self._newer = writer.task(NEWER, MAIN)
        self._values = self._functions("take", _FORMATS)
        self._newer_values = self._functions("take", _NEWER_FORMATS)
        self._floats = [writer.function(f"take_f{size}", arguments=f"fparg1/{size}", returns=f"retval/f{size}")
                        for size in (32, 64, 80)]  # fmt: skip
        self._placed = writer.function("take_places", arguments=_PLACES[self._bits], source="/src/take.c", line=12)
        self._plain = [writer.function(name, library=not own, module="" if own else _LIBRARY) for name, own in _NAMES]
        self._watched = writer.variable("watched", 4)
        self._plugin: NewFunction | None = None

    def _functions(self, name: str, formats: list[str]) -> dict[str, NewFunction]:
        """Declare a function for each format, which takes and returns such a value."""
        return {
            text: self._writer.function(
                f"{name}_{text.replace(':', '_')}", arguments=f"arg1/{text}", returns=f"retval/{text}"
            )
            for text in formats
        }

    def write_round(self) -> None:
        """Write one round."""
        if self._number == 0:
            self._tasks[0].enter("main", self._time())
        for task in self._tasks:
            self._values_of(task)
            self._events(task)
            self._calls(task)
        self._newer_records()
        self._kernel_and_scheduler()
        self._writer.message(self._time(), f"message of round {self._number}")
        if self._number < _FORKED_ROUNDS:
            self._processes()
        self._number += 1

    def end(self) -> None:
        """Write a call that does not end."""
        self._tasks[0].enter("still running", self._time())

    def _time(self) -> int:
        self._now += self._rng.randrange(1, 1000)
        return self._now

    def _value(self, text: str) -> Any:
        """Draw a value of a format, sometimes one at its limits."""
        rng, letter = self._rng, text[0]
        if letter in "sS":
            return rng.choice(_TEXTS) if letter == "s" else rng.choice(_TEXTS[:5])
        if letter == "t":
            return rng.randbytes(int(text[1:].partition(":")[0]))
        if letter == "c":
            return chr(rng.randrange(32, 127))
        if letter == "e":
            return rng.choice([*_COLORS.values(), 3, 7])
        if letter == "p":
            return rng.choice([0, self._placed.address, self._watched.address, 2**self._bits - 1])
        bits = int(text[1:])
        first, last = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if letter in "id" else (0, 2**bits - 1)
        return rng.choice([first, last, 0, rng.randrange(first, last + 1), rng.randrange(100)])

    def _values_of(self, task: TaskWriter) -> None:
        """Write calls with values of all formats."""
        for text, function in self._values.items():
            task.enter(function, self._time(), self._value(text))
            task.leave(self._time(), self._value(text))
        for function in self._floats[:2]:
            value = self._rng.choice([0.0, -1.5, float("inf"), self._rng.uniform(-1e6, 1e6)])
            task.enter(function, self._time(), value)
            task.leave(self._time(), value)
        task.enter(self._placed, self._time(), -1, 2**64 - 1, 0.5)
        task.leave(self._time())

    def _events(self, task: TaskWriter) -> None:
        """Write events of all kinds that have values in the records of tasks."""
        rng = self._rng
        for name in ("read", "diff"):
            first = -5 if name == "diff" else 0
            task.event(f"{name}:proc/statm", self._time(), vmsize=rng.randrange(first, 10**6), vmrss=7, shared=first)
            task.event(f"{name}:page-fault", self._time(), major=rng.randrange(9), minor=first)
            task.event(f"{name}:pmu-cycle", self._time(), cycles=rng.randrange(10**9), instructions=10**9)
            task.event(f"{name}:pmu-cache", self._time(), refers=rng.randrange(10**6), misses=10)
            task.event(f"{name}:pmu-branch", self._time(), branch=rng.randrange(10**6), misses=10)
        task.event("watch:cpu", self._time(), cpu=rng.randrange(_CPUS))
        for number in range(2):
            task.event(f"everything:user{number}", self._time())

    def _calls(self, task: TaskWriter) -> None:
        """Write calls without values, one in another, also of a library."""
        for function in self._plain:
            task.enter(function, self._time())
        for _ in self._plain:
            task.leave(self._time())

    def _jump(self, task: TaskWriter) -> None:
        """Write a jump out of a call, whose exit is missing; the next entry is less deep."""
        functions = [self._writer.function(name, module=_OTHER) for name in ("start_thread", "jump", "after")]
        task.write_records(
            type=[0, 0, 0, 1, 1], time=[self._time() for _ in range(5)], depth=[0, 1, 1, 1, 0],
            function=(functions, [0, 1, 2, 2, 0]),
        )  # fmt: skip

    def _newer_records(self) -> None:
        """Write what old versions of uftrace cannot read."""
        task = self._newer
        for text, function in self._newer_values.items():
            task.enter(function, self._time(), self._value(f"u{text[1:]}"))
            task.leave(self._time(), self._value(f"u{text[1:]}"))
        task.enter(self._floats[2], self._time(), self._rng.choice([1.5, -(2.0**1000)]))
        task.leave(self._time(), 0.1)
        task.event("watch:var", self._time(), address=self._watched, value=self._rng.randrange(2**32))
        task.event("callsite", self._time(), caller=self._placed)
        task.event(EventId.FIRST_USER + 500, self._time(), b"data of an event without a name")
        for number in (EventId.SCHED_IN, EventId.SCHED_OUT, EventId.TASK_NAME, EventId.EXTERNAL):
            task.event(number, self._time())
        task.lost(self._rng.randrange(1, 2**48))

    def _kernel_and_scheduler(self) -> None:
        writer, rng = self._writer, self._rng
        for item in _PERF_KINDS:
            writer.sched(rng.randrange(_CPUS), PerfEvent(self._time(), MAIN, MAIN, **item))
        names = ["do_syscall_64", "ksys_read", "vfs_read"]
        for name in names:
            writer.kernel_enter(rng.randrange(_CPUS), self._time(), MAIN, name)
        writer.kernel_event(0, self._time(), MAIN, "sched:sched_switch", prev_comm="main", prev_pid=MAIN, prev_state=1,
                            prev_prio=120, next_comm="idle", next_pid=0, next_prio=rng.randrange(140))  # fmt: skip
        writer.kernel_event(1, self._time(), MAIN, "sched:sched_wakeup", comm="main", pid=MAIN, prio=120, target_cpu=1)
        writer.kernel_event(1, self._time(), MAIN, "sched:sched_process_exec", filename=_OTHER, pid=MAIN, old_pid=MAIN)
        for _ in names:
            writer.kernel_leave(rng.randrange(_CPUS), self._time(), MAIN)

    def _processes(self) -> None:
        """Fork a process that runs another program, which has a thread; and load a library."""
        parent = self._tasks[0]
        parent.enter("fork", self._time())
        child = parent.fork(CHILD + 10 * self._number, self._time())
        parent.leave(self._time())
        child.leave(self._time())
        child.enter("execv", self._time())
        child.exec(_OTHER, self._time())
        child.enter("main", self._time())
        thread = self._writer.task(child.tid + 1, child.tid)
        self._jump(thread)
        child.leave(self._time())
        parent.dlopen(_PLUGIN, self._time())
        self._plugin = self._plugin or self._writer.function("plugin_init", module=_PLUGIN)
        parent.enter(self._plugin, self._time())
        parent.leave(self._time())
