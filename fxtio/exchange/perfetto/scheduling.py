"""The scheduler in a Perfetto trace: switches and wakeups of threads, as those of the Linux kernel (ftrace).

A timeline has intervals in which threads run.  They become switches between threads, in a bundle for each processor and
batch.  Between two intervals a processor runs the idle thread, whose number is 0.

https://perfetto.dev/docs/reference/trace-packet-proto#FtraceEventBundle
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.byte_columns import ByteColumn
from fxtio.codec.protobuf import bytes_field, messages, varints
from fxtio.exchange.perfetto.messages import Bundle, Ftrace, Packet, Switch, Waking
from fxtio.table import Table
from fxtio.timeline.parts import Registry

_RUNNABLE, _SLEEPING = 0, 1
STATES = {
    "new": _RUNNABLE,
    "running": _RUNNABLE,
    "runnable": _RUNNABLE,
    "blocked": _SLEEPING,
    "suspended": 4,
    "dead": 16,
    "dying": 32,
}
"""The states in which threads stop, as numbers of the Linux kernel."""

_IDLE = -1
_MAX_CPU = 1023

_CPUS = f"intervals and wakeups on processors beyond {_MAX_CPU:,}, which Perfetto refuses"
_UNKNOWN = "states of threads that Linux does not have, which are sleeping now"
_ZERO = "threads with the number 0, which Perfetto takes for idle processors"

_COLUMNS = {"cpu": "int32", "start": "int64", "end": "int64", "thread": "int32", "priority": "int64", "state": "int32"}


class Scheduler:
    """Turns the rows of `scheduling` and `wakeups` into bundles of events, batch by batch.

    Args:
        registry: the threads.
        number: returns the number of a thread as a file has it.
        text: returns a name, given by its code.
        losses: counts what a file cannot have.
    """

    def __init__(
        self, registry: Registry, number: Callable[[int], int], text: Callable[[int], bytes], losses: Counter[str]
    ) -> None:
        self._registry = registry
        self._number = number
        self._text = text
        self._losses = losses
        self._last = {name: np.empty(0, dtype) for name, dtype in _COLUMNS.items()}  # the interval of each processor
        self._states: dict[int, int] = {-1: _RUNNABLE}  # by the codes of their names

    def switches(self, table: Table) -> ByteColumn:
        """Return bundles for rows of `scheduling`, of which those of a processor are in the order of time."""
        table = self._possible(table)
        new = {name: table[name] for name in ("cpu", "start", "thread", "priority")}
        new |= {"end": table["start"] + table["duration"], "state": table["state"].codes}
        rows = {name: np.concatenate([self._last[name], new[name]]) for name in _COLUMNS}
        # The last interval of each processor from before is the first of its rows, however it is timed.
        is_new = np.arange(len(rows["cpu"])) >= len(self._last["cpu"])
        order = np.lexsort((rows["start"], is_new, rows["cpu"]))
        rows, is_new = {name: column[order] for name, column in rows.items()}, is_new[order]
        is_first = np.ones(len(order), bool)
        is_first[1:] = rows["cpu"][1:] != rows["cpu"][:-1]
        is_last = np.append(is_first[1:], True)[: len(order)]
        begins = np.flatnonzero(is_new)
        before = np.where(is_first[begins], _IDLE, begins - 1)
        stopped = before[(before >= 0) & (rows["end"][before] < rows["start"][begins])]
        before[np.isin(before, stopped)] = _IDLE
        self._last = {name: column[is_last] for name, column in rows.items()}
        in_order = np.argsort(np.concatenate([2 * stopped + 1, 2 * begins]))  # also where an interval lasts 0 ns
        before = np.concatenate([stopped, before])[in_order]
        after = np.concatenate([np.full(len(stopped), _IDLE), begins])[in_order]
        cpu = np.concatenate([rows["cpu"][stopped], rows["cpu"][begins]])[in_order]
        time = np.concatenate([rows["end"][stopped], rows["start"][begins]])[in_order]
        return self._switches(rows, before, after, cpu, time)

    def finish(self) -> ByteColumn:
        """Return bundles with the last switches of processors; a thread that still runs at the end has none."""
        stopped = np.flatnonzero(self._last["state"] >= 0)
        idle = np.full(len(stopped), _IDLE)
        return self._switches(self._last, stopped, idle, self._last["cpu"][stopped], self._last["end"][stopped])

    def wakeups(self, table: Table) -> ByteColumn:
        """Return bundles for rows of `wakeups`."""
        table = self._possible(table)
        order = np.lexsort((table["time"], table["cpu"]))
        cpu, time, thread, waker = (table[name][order] for name in ("cpu", "time", "thread", "waker"))
        numbers, names = self._threads(thread, Waking.NAME)
        waking = messages(
            Ftrace.WAKING,
            names,
            varints(Waking.THREAD, numbers, with_zero=True),
            varints(Waking.SUCCESS, np.ones(len(cpu), np.int64)),
            varints(Waking.CPU, cpu, with_zero=True),
        )
        return _bundles(cpu, time, self._threads(waker, Waking.NAME)[0], waking)

    def _possible(self, table: Table) -> Table:
        """Return the rows that a file can have."""
        is_possible = (table["cpu"] >= 0) & (table["cpu"] <= _MAX_CPU)
        if is_possible.all():
            return table
        self._losses[_CPUS] += int((~is_possible).sum())
        return table.take(np.flatnonzero(is_possible))

    def _switches(self, rows: dict[str, Array], before: Array, after: Array, cpu: Array, time: Array) -> ByteColumn:
        """Return bundles with switches between intervals, given by their rows (int64), `_IDLE` for none.

        They are in the order of the processors, and of time.
        """
        rows = {name: np.append(column, _IDLE) for name, column in rows.items()}  # the last row is that of `_IDLE`
        from_thread, _ = self._threads(rows["thread"][before], Switch.NAME)
        to_thread, names = self._threads(rows["thread"][after], Switch.NAME)
        states, place = np.unique(rows["state"][before], return_inverse=True)
        state = np.array([*map(self._state, states.tolist())], np.int64)[place]
        priority = np.where(after >= 0, rows["priority"][after], 0)
        switch = messages(
            Ftrace.SWITCH,
            varints(Switch.THREAD_BEFORE, from_thread, with_zero=True),
            varints(Switch.STATE_BEFORE, state, with_zero=True),
            names,
            varints(Switch.THREAD, to_thread, with_zero=True),
            varints(Switch.PRIORITY, priority, with_zero=True),
        )
        return _bundles(cpu, time, from_thread, switch)

    def _state(self, code: int) -> int:
        """Return a state as a number, given by the code of its name."""
        if code not in self._states:
            name = self._registry.names.values[code]
            if name not in STATES:
                self._losses[_UNKNOWN] += 1
            self._states[code] = STATES.get(name, _SLEEPING)
        return self._states[code]

    def _threads(self, threads: Array, name_field: int) -> tuple[Array, ByteColumn]:
        """Return the number of each thread (int64), and a field with its name; of the idle thread 0 and nothing."""
        distinct, place = np.unique(threads, return_inverse=True)
        numbers, fields = [], []
        names = self._registry.thread_names()
        for thread in distinct.tolist():
            number = self._number(self._registry.thread_info(thread).tid) if thread >= 0 else 0
            self._losses[_ZERO] += thread >= 0 and not number
            numbers.append(number)
            is_named = thread >= 0 and names[thread] >= 0
            fields.append(bytes_field(name_field, self._text(names[thread])) if is_named else b"")
        return np.array(numbers, np.int64)[place], ByteColumn.of(fields).take(place)


def _bundles(cpu: Array, time: Array, thread: Array, event: ByteColumn) -> ByteColumn:
    """Return a bundle for each processor.

    Args:
        cpu: the processors of events, ascending.
        time: their times (int64 ns).
        thread: the numbers of the threads that cause them.
        event: what happens.
    """
    fields = (varints(Ftrace.TIMESTAMP, time, with_zero=True), varints(Ftrace.THREAD, thread, with_zero=True), event)
    events = messages(Bundle.EVENT, *fields)
    cpus, place = np.unique(cpu, return_inverse=True)
    return messages(Packet.FTRACE_EVENTS, varints(Bundle.CPU, cpus, with_zero=True), events.grouped(place, len(cpus)))
