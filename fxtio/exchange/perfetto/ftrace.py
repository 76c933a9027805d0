"""Events of the Linux kernel in a Perfetto trace: switches and wakeups of threads, and what programs print (atrace).

https://perfetto.dev/docs/reference/trace-packet-proto#FtraceEventBundle
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

import numpy as np

from fxtio._native.constants import SpanStep
from fxtio.arrays import Array
from fxtio.codec.distinct import number_distinct
from fxtio.codec.integers import MAX_INT32, MAX_INT64
from fxtio.codec.protobuf import Message, Wire, signed
from fxtio.codec.protobuf_columns import UNUSUAL, Bytes, Fields, Layout
from fxtio.codec.protobuf_columns import places as places_of
from fxtio.exchange.perfetto.messages import Bundle, Compact, Ftrace, Print, Switch, Waking
from fxtio.exchange.perfetto.rows import MANY, PER_PACKET, Rows
from fxtio.exchange.perfetto.scheduling import STATES
from fxtio.exchange.perfetto.tracks import Tracks
from fxtio.table import Column
from fxtio.timeline.parts import Registry
from fxtio.timeline.scheduling import IDLE, Processors
from fxtio.timeline.schema import TrackKind

_TIME, _THREAD, _SWITCHES, _WAKINGS = range(4)
_NEXT, _NEXT_NAME, _NEXT_CPU = range(3)
_PRIORITY, _STATE, _BEFORE, _BEFORE_NAME = range(2, 6)

_EVENTS = Layout(
    {
        Ftrace.TIMESTAMP: (_TIME, Wire.VARINT),
        Ftrace.THREAD: (_THREAD, Wire.VARINT),
        Ftrace.SWITCH: (_SWITCHES, Wire.BYTES),
        Ftrace.WAKING: (_WAKINGS, Wire.BYTES),
    },
    ignored={Ftrace.FLAGS},
)
_SWITCH_LAYOUT = Layout(
    {
        Switch.THREAD: (_NEXT, Wire.VARINT),
        Switch.NAME: (_NEXT_NAME, Wire.BYTES),
        Switch.PRIORITY: (_PRIORITY, Wire.VARINT),
        Switch.STATE_BEFORE: (_STATE, Wire.VARINT),
        Switch.THREAD_BEFORE: (_BEFORE, Wire.VARINT),
        Switch.NAME_BEFORE: (_BEFORE_NAME, Wire.BYTES),
    },
    ignored={Switch.PRIORITY_BEFORE},
)
_WAKING_LAYOUT = Layout(
    {
        Waking.THREAD: (_NEXT, Wire.VARINT),
        Waking.NAME: (_NEXT_NAME, Wire.BYTES),
        Waking.CPU: (_NEXT_CPU, Wire.VARINT),
    },
    ignored={Waking.PRIORITY, Waking.SUCCESS},
)

_NO_TIME = "events without a usable time"
_CLOCK = "events of the kernel on a clock of their own, whose times are kept"
_LOST = "parts of the kernel's trace before which events were lost"
_PRINTED = "texts that programs printed, other than marks of atrace"

_SWITCH = (("time", "int64"), ("cpu", "int32"), ("thread", "int32"), ("priority", "int64"), ("state", "int32"))
_STATE_NAMES = {number: name for name, number in STATES.items()}
_STATE_MASK = 0xFF
_MARKS = {"S": SpanStep.BEGIN, "F": SpanStep.END, "G": SpanStep.BEGIN, "H": SpanStep.END, "N": SpanStep.INSTANT}


class Kernel:
    """Takes bundles of events of the kernel.

    Args:
        registry: has the names.
        rows: gets the rows.
        tracks: the threads.
        least: the least events of a bundle that are taken together, by columns.
    """

    def __init__(self, registry: Registry, rows: Rows, tracks: Tracks, least: int) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._rows = rows
        self._tracks = tracks
        self._processors = Processors(registry)
        self._switches: list[tuple[int, ...]] = []
        self._packed: list[Array] = []
        self._wakes = False  # there were events at the time of the waking, which come before those of the wakeup
        self._latest = 0
        self._states = {-1: -1}
        self._least = least

    def enter(self, bundle: Message, number: int) -> None:
        """Take a bundle, of which the number of the first event is given."""
        cpu = bundle.number(Bundle.CPU)
        cpu = cpu if cpu <= MAX_INT32 else -1
        self._losses[_CLOCK] += bundle.number(Bundle.CLOCK) > 0
        self._losses[_LOST] += bundle.number(Bundle.LOST) > 0
        places = [(value, end) for wire, value, end in bundle.found.get(Bundle.EVENT, ()) if wire == Wire.BYTES]
        rest: Iterable[int] = range(len(places))
        if len(places) >= self._least:
            rest = self._enter_columns(bundle.data, np.array(places, np.int64).T, cpu)
        for place in rest:
            event = Message(bundle.data, *places[place], self._losses)
            time = event.number(Ftrace.TIMESTAMP, -1)
            if not 0 <= time <= MAX_INT64:
                self._losses[_NO_TIME] += 1
                continue
            self._event(event, cpu, time, number + min(place, PER_PACKET - 1))
        for compact in bundle.messages(Bundle.COMPACT):
            self._enter_compact(compact, cpu)

    def _enter_columns(self, data: Bytes, places: Array, cpu: int) -> Iterable[int]:
        """Take the usual events of a bundle, given by where they begin and end, and return which others there are.

        Switches and wakeups are taken together only if all of a bundle are usual, since their order may matter.
        """
        every = range(places.shape[1])
        events = _EVENTS.read(data, *map(np.ascontiguousarray, places))
        time, has_switch, has_waking = events.values[_TIME], events.has(_SWITCHES), events.has(_WAKINGS)
        is_taken = has_switch | has_waking
        is_usual = events.has(_TIME) & (time <= np.uint64(MAX_INT64)) & ((events.marks & UNUSUAL) == 0)
        if (is_taken & (~is_usual | (has_switch & has_waking))).any() or (has_waking.any() and not self._wakes):
            return every
        found = []
        for column, layout, is_there in (
            (_SWITCHES, _SWITCH_LAYOUT, has_switch),
            (_WAKINGS, _WAKING_LAYOUT, has_waking),
        ):
            rows = np.flatnonzero(is_there)
            found.append((rows, layout.read(data, *places_of(events.values[column][rows]))))
            if (found[-1][1].marks & UNUSUAL).any():
                return every
        for (rows, fields), take in zip(found, (self._take_switches, self._take_wakings), strict=True):
            if len(rows):
                take(data, fields, time[rows].astype(np.int64), cpu, events.values[_THREAD][rows].view(np.int64))
        others: list[int] = np.flatnonzero(~is_taken).tolist()
        return others

    def _take_switches(self, data: Bytes, fields: Fields, time: Array, cpu: int, _: Array) -> None:
        """Take switches, given by their fields and times."""
        if not self._rows.wants("scheduling"):
            return
        numbers = fields.values.view(np.int64)
        threads = np.stack([numbers[_NEXT], numbers[_BEFORE]], axis=1).reshape(-1)  # in the order in which names count
        self._name_threads(data, threads, np.stack([fields.values[_NEXT_NAME], fields.values[_BEFORE_NAME]], 1))
        self._pack()
        state, place = np.unique(numbers[_STATE] & _STATE_MASK, return_inverse=True)
        states = np.array([self._state(each) for each in state.tolist()])[place]
        rows = self._threads(numbers[_NEXT])
        self._packed.append(np.stack([time, np.full(len(time), cpu), rows, numbers[_PRIORITY], states], axis=1))
        self._latest = max(self._latest, int(time.max()))

    def _take_wakings(self, data: Bytes, fields: Fields, time: Array, cpu: int, waker: Array) -> None:
        """Take wakeups, given by their fields and times, and the threads that cause them."""
        if not self._rows.wants("wakeups"):
            return
        target = fields.values[_NEXT_CPU]
        by = self._threads(waker)
        thread = fields.values[_NEXT].view(np.int64)
        self._name_threads(data, thread, fields.values[_NEXT_NAME].reshape(-1, 1))
        self._rows.block(
            "wakeups",
            time=time,
            cpu=np.where(target <= np.uint64(MAX_INT32), target.astype(np.int64), -1),
            thread=np.where(thread == 0, self._tracks.thread(0), self._threads(thread)),
            waker=by,
        )

    def _name_threads(self, data: Bytes, threads: Array, names: Array) -> None:
        """Name threads, other than 0, by the first of their names that is not empty."""
        begin, end = places_of(names.reshape(-1))
        named = np.flatnonzero((threads != 0) & (end > begin))
        _, first = number_distinct(threads[named])
        for row in named[first].tolist():
            self._tracks.thread(int(threads[row]), data[begin[row] : end[row]].decode("utf-8", "surrogateescape"))

    def _threads(self, tids: Array) -> Array:
        """Return the rows of threads by their numbers (int64), `IDLE` for 0."""
        place, first = number_distinct(tids)
        rows = [self._tracks.thread(tid) if tid else IDLE for tid in tids[first].tolist()]
        return np.array(rows, np.int64)[place]

    def _event(self, event: Message, cpu: int, time: int, number: int) -> None:
        tid = event.signed(Ftrace.THREAD)
        for field in event.found:
            if field == Ftrace.SWITCH:
                for switch in event.messages(field):
                    values = (switch.signed(each) for each in (Switch.THREAD, Switch.PRIORITY, Switch.STATE_BEFORE))
                    self._switch(time, cpu, switch.text(Switch.NAME), *values)
                    self._name(switch.signed(Switch.THREAD_BEFORE), switch.text(Switch.NAME_BEFORE))
            elif field in (Ftrace.WAKING, Ftrace.WAKEUP, Ftrace.WAKEUP_NEW):
                self._wakes |= field == Ftrace.WAKING
                if field == Ftrace.WAKEUP and self._wakes:
                    continue  # the same once more, a moment later
                for waking in event.messages(field):
                    target = waking.number(Waking.CPU)
                    self._wake(time, target, waking.signed(Waking.THREAD), waking.text(Waking.NAME), tid)
            elif field == Ftrace.PRINT:
                for printed in event.messages(field):
                    self._print(printed.text(Print.TEXT) or "", tid, time, number)
            elif field not in (Ftrace.TIMESTAMP, Ftrace.THREAD, Ftrace.FLAGS):
                self._losses[f"events of the kernel of the type {field}"] += 1

    def _enter_compact(self, compact: Message, cpu: int) -> None:
        """Take switches and wakeups that are stored as columns; times and names are relative."""
        names = [each.decode("utf-8", "surrogateescape") for each in compact.texts(Compact.NAMES)]
        columns = (Compact.SWITCH_THREAD, Compact.SWITCH_PRIORITY, Compact.SWITCH_STATE, Compact.SWITCH_NAME)
        times = accumulate(compact.numbers(Compact.SWITCH_TIME))
        for time, tid, priority, state, name in zip(times, *map(compact.numbers, columns), strict=False):
            if time > MAX_INT64:
                self._losses[_NO_TIME] += 1
                break
            self._switch(
                time, cpu, names[name] if name < len(names) else None, signed(tid), signed(priority), signed(state)
            )
        wakings = (Compact.WAKING_THREAD, Compact.WAKING_CPU, Compact.WAKING_NAME)
        times = accumulate(compact.numbers(Compact.WAKING_TIME))
        for time, tid, target, name in zip(times, *map(compact.numbers, wakings), strict=False):
            if time > MAX_INT64:
                self._losses[_NO_TIME] += 1
                break
            self._wakes = True
            self._wake(time, target, signed(tid), names[name] if name < len(names) else None, 0)

    def _switch(self, time: int, cpu: int, name: str | None, tid: int, priority: int, state: int) -> None:
        """Note that a processor runs another thread, and the state in which the one before stopped."""
        if self._rows.wants("scheduling"):
            thread = self._tracks.thread(tid, name) if tid else IDLE
            self._switches.append((time, cpu, thread, priority, self._state(state)))
            if len(self._switches) >= MANY:  # an array takes a fraction of the memory
                self._pack()
            self._latest = max(self._latest, time)

    def _name(self, tid: int, name: str | None) -> None:
        if tid and name and self._rows.wants("scheduling"):
            self._tracks.thread(tid, name)

    def _wake(self, time: int, cpu: int, tid: int, name: str | None, waker: int) -> None:
        if self._rows.wants("wakeups"):
            by = self._tracks.thread(waker) if waker else -1
            thread = self._tracks.thread(tid, name if tid else None)
            self._rows.row("wakeups", time, cpu if cpu <= MAX_INT32 else -1, thread, by)

    def _state(self, number: int) -> int:
        """Return the code of a state, the lowest bit of the number; 0 is that of a thread that could go on."""
        number &= _STATE_MASK
        lowest = number & -number
        if lowest not in self._states:
            self._states[lowest] = self._registry.names.code(_STATE_NAMES.get(lowest, "blocked"))
        return self._states[lowest]

    def _pack(self) -> None:
        """Turn switches into columns."""
        if self._switches:
            self._packed.append(np.array(self._switches, np.int64))
            self._switches = []

    def tables(self) -> dict[str, dict[str, Column]]:
        """Return the rows of `scheduling` that were finished since the last call."""
        self._pack()
        if not self._packed:
            return {}
        columns = zip(_SWITCH, np.concatenate(self._packed).T, strict=True)
        self._packed = []
        return {"scheduling": self._processors.enter(**{name: each.astype(dtype) for (name, dtype), each in columns})}

    def finish(self, end: int) -> dict[str, dict[str, Column]]:
        """Return the rows of the threads that run at the end of the trace."""
        return {"scheduling": self._processors.finish(max(end, self._latest))} if self._latest else {}

    # Marks of atrace.

    def _print(self, text: str, tid: int, time: int, number: int) -> None:
        """Take a text that a thread printed: a mark begins with its kind and the number of the process."""
        kind, *parts = text.rstrip("\n\0").split("|")
        pid = int(parts[0]) if parts and parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 10 else None
        expected = {"B": 2, "I": 2, "C": 3, "S": 3, "F": 3, "G": 4, "H": 3, "N": 3}.get(kind)
        if kind == "E" and (pid is not None or not parts):
            track = self._tracks.thread_track(pid or self._tracks.known_process(tid), tid)
            self._rows.step(SpanStep.END, track.row, time, number, self._registry.names.code(""))
        elif expected is None or pid is None or len(parts) < expected:
            self._losses[_PRINTED] += 1
        elif kind == "C":
            self._count(pid, parts[1:-1], parts[-1], time, number)
        else:
            self._mark(kind, pid, parts[1:], tid, time, number)

    def _count(self, pid: int, name: list[str], value: str, time: int, number: int) -> None:
        try:
            amount = float(value)
        except ValueError:
            self._losses[_PRINTED] += 1
            return
        key = ("atrace", pid, "|".join(name))
        code = self._registry.names.code(key[2])
        track = self._registry.track(TrackKind.COUNTER, key, name=code, process=self._registry.process(pid))
        self._rows.row("counters", time, track, amount, number)

    def _mark(self, kind: str, pid: int, parts: list[str], tid: int, time: int, number: int) -> None:
        """Take a begin, an end or an instant of a thread, or of an operation."""
        code: Callable[[str], int] = self._registry.names.code
        if kind in ("B", "I"):
            step = SpanStep.BEGIN if kind == "B" else SpanStep.INSTANT
            row = self._tracks.thread_track(pid, tid).row
            self._rows.step(step, row, time, number, code("|".join(parts)))
            return
        process = self._registry.process(pid)
        track_name, name = (parts[0], parts[0]) if kind in "SF" else (parts[0], parts[1])
        cookie = parts[1] if kind in "SFH" else "" if kind == "N" else parts[2]
        key = ("atrace", pid, track_name, cookie)
        ident = int(cookie) % 2**64 if cookie.lstrip("-").isdecimal() and len(cookie) < 20 else 0
        row = self._registry.track(TrackKind.ASYNC, key, name=code(track_name), process=process, id=ident)
        self._rows.step(_MARKS[kind], row, time, number, code("" if kind in "FH" else name))
