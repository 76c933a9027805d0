"""Cut a part out of a recording: a range of times, some threads and methods.

The part has a buffer for each buffer with something in it, so what stands in front of something else still does.
Events that define names and the like are all in the part; those from outside of the range have the time of its start or
end.  Calls, collections, and other pairs of events that are open at the start of the range begin there, and those that
end behind it end there.  Counters have their last values at the start.  A heap shot is in the part if it starts there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np
from msgspec.structs import replace

from fxtio.codec.record import Opaque
from fxtio.codec.stream.declare import Dialect
from fxtio.formats import CutResult
from fxtio.io.sink import Sink, whole_file
from fxtio.mono import records as r
from fxtio.mono.buffers import decode_events, untimed_events
from fxtio.mono.columns import Batch
from fxtio.mono.cut_state import STATEFUL, CounterSums, OpenEvents, begins, ends
from fxtio.mono.frames import Recording
from fxtio.mono.headers import CLAIMED, BufferHeader, header_record
from fxtio.mono.layout import HYBRID
from fxtio.mono.reader import MonoTrace
from fxtio.mono.writer import MonoWriter
from fxtio.report import counted, human_size
from fxtio.selection import Selection, SelectionError, is_number, is_selected
from fxtio.table import MAX_TIME

_ALWAYS = frozenset({
    r.ClassLoad, r.Image, r.Assembly, r.Domain, r.Thread, r.Context, r.VtableLoad, r.JitMethod, r.JitHelper,
    r.NativeSymbol, r.NativeBinary, r.CounterDescriptions, r.RootRegister, r.RootUnregister, r.AotId,
    r.CoverageAssembly, r.CoverageMethod, r.CoverageStatement, r.CoverageClass,
})  # fmt: skip
"""The events that other events need, or that are about the whole recording."""

_HEAP = (r.HeapObject, r.HeapRoots, r.HeapEnd)
"""The events of a heap shot, behind its start."""

_MOST_EVENTS = 1 << 16
"""This many events of a buffer are written at once."""

_BEHIND = np.array([cls in _ALWAYS or cls in STATEFUL or cls in _HEAP for cls in r.EVENTS])
"""Whether events of each class that are behind the range may matter (bool)."""


def cut(trace: MonoTrace, selection: Selection, target: str | PathLike[str]) -> CutResult:
    """Write a part of a recording as a new file, see `fxtio.formats.CutRoom`."""
    if selection.processes or selection.categories:
        what = "processes" if selection.processes else "categories"
        raise SelectionError(
            f"{trace.name} is a recording of one process by the Mono log profiler, whose events have no categories, so "
            f"{what} cannot be selected; give a range of times, threads, or names of methods"
        )
    choice = _Choice(trace, selection)
    with whole_file(target) as sink:
        cutter = _Cutter(selection, choice, sink)
        for batch in trace._batches():
            cutter.enter(batch)
        cutter.finish()
    text = f"{counted(cutter.events, 'event')} ({human_size(sink.position)})"
    return CutResult(text, is_empty=cutter.events == cutter.definitions)


class _Choice:
    """The threads and methods that are selected."""

    def __init__(self, trace: MonoTrace, selection: Selection) -> None:
        self._selection = selection
        has_names = not all(map(is_number, selection.threads))
        self._names = trace.info.threads if has_names else {}
        self._threads: dict[int, bool] = {}
        self.is_all = not (selection.threads or selection.names)
        self._nameless = is_selected(selection.names, None)
        self._methods: dict[int, tuple[list[int], list[bool]]] = {}  # by address: times of definitions, chosen or not
        if selection.names:
            methods = trace.table("methods")
            order = np.argsort(methods["time"], kind="stable")
            names = [selection.has_name(name) for name in methods["name"].values]
            columns = methods["method"][order], methods["time"][order], methods["name"].codes[order]
            for address, time, code in zip(*(column.tolist() for column in columns), strict=True):
                times, chosen = self._methods.setdefault(address, ([], []))
                times.append(time)
                chosen.append(names[code] if code >= 0 else self._nameless)

    def has(self, event: Any, thread: int) -> bool:
        """Return whether an event of a thread is selected."""
        if self.is_all:
            return True
        kind = type(event)
        if kind is r.SampleHit and event.interrupted is not None:
            thread = event.interrupted
        if thread not in self._threads:
            self._threads[thread] = self._selection.has_thread(self._names.get(thread) or None, thread)
        if not self._threads[thread]:
            return False
        if not self._selection.names:
            return True
        if kind is r.Call or kind is r.Clause:
            return self._has_method(event.method, event.time)
        if kind is r.SampleHit:
            frames = event.frames or [frame.method for frame in event.located_frames or ()]
            return self._has_method(frames[0], event.time) if frames else self._nameless
        return self._nameless

    def _has_method(self, address: int, time: int) -> bool:
        times, chosen = self._methods.get(address, ((), ()))
        return chosen[max(bisect_right(times, time) - 1, 0)] if chosen else self._nameless


class _Cutter:
    """The work on one file.

    Attributes:
        events: the number of events that were written.
        definitions: the number of those that are in every part, and values of counters at its start.
    """

    def __init__(self, selection: Selection, choice: _Choice, sink: Sink) -> None:
        self._start = min(max(selection.start or 0, 0), MAX_TIME)
        self._end = MAX_TIME if selection.end is None else max(selection.end, 0)
        self._has_end = selection.end is not None
        self._choice = choice
        self._sink = sink
        self._output: _Output | None = None
        self._begin()
        self._header, self._goes_on = BufferHeader(), False  # of the present buffer; whether it is the last one written
        self._events: list[Any] = []  # of this buffer, not written yet
        self.events = self.definitions = 0

    def _begin(self) -> None:
        """Begin a recording."""
        self._open, self._counters = OpenEvents(), CounterSums()
        self._has_begun: set[int] = set()  # threads
        self._takes_heap: bool | None = None  # whether the heap shot that is open is in the part

    def enter(self, batch: Batch) -> None:
        """Take the next buffers."""
        frame = batch.frame
        may_matter = batch.counts[:, np.flatnonzero(_BEHIND)].sum(axis=1).tolist()
        for item in frame.in_order():
            if isinstance(item, Recording):
                self._flush()
                if self._output is None:
                    self._output = _Output(self._sink, frame.dialect)
                self._output.begin(item)
                self._begin()
                continue
            header = frame.header(item)
            if header.time >= self._end and self._has_end and not may_matter[item]:
                continue
            begin, end = int(frame.begin[item]), int(batch.stop[item])
            self._buffer(frame.dialect, header, frame.data[begin:end].tobytes())

    def _buffer(self, dialect: Dialect, header: BufferHeader, data: bytes) -> None:
        """Write what is in the part of a buffer; as it is, if that is all."""
        assert self._output is not None
        self._header = replace(header, time=min(max(header.time, self._start), self._end))
        self._goes_on = False
        is_whole = self._header == header
        for _, event in decode_events(dialect, header, data):
            self._events += (written := list(self._event(event, header.thread)))
            is_whole = is_whole and len(written) == 1 and written[0] is event
            if len(self._events) >= _MOST_EVENTS:
                self._write()
        if is_whole and not self._goes_on and self._events:
            self._output.put_raw(header, data)
            self.events += len(self._events)
            self._events.clear()
        else:
            self._write()

    def _write(self) -> None:
        """Write the events of the present buffer so far."""
        if self._events:
            assert self._output is not None
            self._output.put(self._header, self._events, goes_on=self._goes_on)
            self.events += len(self._events)
            self._events.clear()
            self._goes_on = True

    def finish(self) -> None:
        """Write the end of the part."""
        self._flush()
        if self._output is not None:
            self._output.close()

    def _flush(self) -> None:
        """Write what is open at the start of the range in threads without events in it."""
        for thread in {**dict.fromkeys(self._open.threads()), **dict.fromkeys(self._counters.threads())}:
            self._open_thread(thread)

    def _open_thread(self, thread: int) -> None:
        """Write what is open in a thread at the start of the range, and the values of its counters."""
        self._has_begun.add(thread)
        counters = list(self._counters.write(thread))
        self.definitions += len(counters)
        events = [*self._open.write(thread), *counters]
        if events:
            assert self._output is not None
            self._write()
            self._goes_on = False
            header = BufferHeader(time=self._start, thread=thread)
            self._output.put(header, [self._at(event, self._start) for event in events])
            self.events += len(events)

    def _at(self, event: Any, time: int) -> Any:
        """Return an event with another time."""
        return event if event.time == time else replace(event, time=time)

    def _event(self, event: Any, thread: int) -> Iterable[Any]:
        """Yield what is written for an event."""
        kind = type(event)
        if kind in _ALWAYS:
            self.definitions += 1
            if kind is r.CounterDescriptions:
                self._counters.describe(event)
            if event.time >= self._start and thread not in self._has_begun:
                self._open_thread(thread)  # before a buffer of a later time
            return (self._at(event, min(max(event.time, self._start), self._end)),)
        if not self._choice.has(event, thread):
            return ()
        if kind in _HEAP and self._takes_heap is not None:
            return self._of_heap(event)
        if kind in STATEFUL and ends(event):
            return self._ending(event, thread)
        time = event.time
        if kind is r.SampleHit and event.sample_time is not None:
            time = event.sample_time
        if time < self._start:
            return self._early(event, thread)
        if time >= self._end and self._has_end:
            if kind in STATEFUL and begins(event):
                self._open.put(event, thread, waits=False, is_written=False)
            return ()
        return self._within(event, thread)

    def _early(self, event: Any, thread: int) -> tuple[()]:
        """Remember an event before the range."""
        kind = type(event)
        if kind is r.CounterValues and thread not in self._has_begun:
            self._counters.add(event, thread)
        elif kind is r.HeapStart:
            self._takes_heap = False
        elif kind in STATEFUL and begins(event):
            waits = thread not in self._has_begun
            self._open.put(event, thread, waits=waits, is_written=False)
        return ()

    def _within(self, event: Any, thread: int) -> Iterator[Any]:
        """Yield an event in the range, which ends nothing."""
        if type(event) is r.SyncPoint:  # all events before it in the file are earlier than those behind it
            self._flush()
        if thread not in self._has_begun:
            self._open_thread(thread)
        if type(event) is r.HeapStart:
            self._takes_heap = True
        elif type(event) in STATEFUL and begins(event):
            self._open.put(event, thread, waits=False, is_written=True)
        yield event

    def _ending(self, event: Any, thread: int) -> Iterator[Any]:
        """Yield an event that ends something, at the end of the range if that has begun in the part."""
        opened = self._open.opened_by(event, thread)
        is_waiting = opened is not None and opened.is_waiting
        is_early = event.time < self._start or (is_waiting and event.time == self._start)
        is_behind = self._has_end and event.time >= self._end
        if not is_early:
            if opened is not None and is_waiting:
                self._open_thread(opened.thread)
            if not is_behind and thread not in self._has_begun:
                self._open_thread(thread)
        self._open.end(event, thread)
        if not is_early and not is_behind:
            yield event
        elif not is_early and opened is not None and opened.is_written and type(event) is not r.HandleDestroyed:
            yield self._at(event, self._end)

    def _of_heap(self, event: Any) -> Iterator[Any]:
        """Yield an event of a heap shot whose start is in the part."""
        if self._takes_heap:
            yield self._at(event, min(event.time, self._end))
        if type(event) is r.HeapEnd:
            self._takes_heap = None


class _Output:
    """The new recording.

    Args:
        sink: takes the bytes.
        dialect: the events of the first recording.
    """

    def __init__(self, sink: Sink, dialect: Dialect) -> None:
        self._is_hybrid = dialect.version == HYBRID
        self._writer = MonoWriter(sink, data_version=HYBRID) if self._is_hybrid else MonoWriter(sink)
        self._untimed = untimed_events(dialect)
        self._last = 0

    def begin(self, recording: Recording) -> None:
        """Begin a recording.

        Raises:
            SelectionError: it cannot be in one file with those before it.
        """
        if recording.header.data_version == CLAIMED and (recording.dialect.version == HYBRID) != self._is_hybrid:
            raise SelectionError(
                "a recording of Mono 5.10.0 follows one of another version, or the other way round; both say that they "
                "have the same version, so no part of both can be written"
            )
        self._untimed = untimed_events(recording.dialect)
        self._writer.put(header_record(recording.header, recording.raw))

    def put(self, header: BufferHeader, events: list[Any], *, goes_on: bool = False) -> None:
        """Write a buffer.

        Args:
            header: its header.
            events: its events.
            goes_on: it is the one that was written last.
        """
        if not goes_on:
            self._put_header(header)
        for event in events:
            is_untimed = type(event) in self._untimed
            if is_untimed and event.time != self._last:
                self._put_header(replace(header, time=event.time))
            self._writer.put(event)
            if not is_untimed:
                self._last = event.time

    def put_raw(self, header: BufferHeader, data: bytes) -> None:
        """Write a buffer with the given bytes of events."""
        self._put_header(header)
        self._writer.put(Opaque(data))

    def _put_header(self, header: BufferHeader) -> None:
        self._writer.put(header)
        self._last = header.time

    def close(self) -> None:
        """Write the rest."""
        self._writer.close()
