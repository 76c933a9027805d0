"""The named calls of the writer about memory and measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fxtio.codec.stream import Dialect
from fxtio.errors import EncodeError
from fxtio.mono import records as r
from fxtio.mono.enums import (
    NARROW_COUNTERS,
    UNSIGNED_COUNTERS,
    ClauseKind,
    CounterSection,
    CounterType,
    CounterUnit,
    CounterVariance,
    MonitorEvent,
)

_ABSOLUTE = (CounterType.DOUBLE, CounterType.STRING)

MAX_REFERENCES = 128
"""Mono splits a heap object with more references than this."""


class Measuring:
    """Appends events about memory, exceptions, monitors, samples and counters."""

    _dialect: Dialect
    _counters: dict[int, tuple[CounterType, bool, int]]

    def put(self, event: r.Event, *, thread: int = 0) -> None:
        """Append an event to the buffer of a thread."""
        raise NotImplementedError

    def _flagged(self, frames: Sequence[int] | None) -> dict[str, Any]:
        """The fields of a backtrace."""
        old = self._dialect.version < 13
        return {
            "backtrace": None if frames is None else tuple(frames),
            "backtrace_flags": 0 if old and frames is not None else None,
        }

    def _typed(self, type: int) -> dict[str, Any]:
        """What tells an object's type: its vtable, or its class before data version 15."""
        return {"vtable" if self._dialect.version >= 15 else "class_pointer": type}

    def allocation(
        self, type: int, object: int, size: int, *, time: int, thread: int = 0, backtrace: Sequence[int] | None = None
    ) -> None:
        """An object is allocated.

        Args:
            type: what `class_` gave.
            object: its address, a multiple of 8.
            size: in bytes.
            time: nanoseconds.
            thread: who allocates.
            backtrace: methods, the outermost first.

        Raises:
            EncodeError: a value does not fit.
        """
        event = r.Allocation(time=time, object=object, size=size, **self._typed(type), **self._flagged(backtrace))
        self.put(event, thread=thread)

    def gc_event(self, event: int, generation: int, *, time: int, thread: int = 0) -> None:
        """A step of a garbage collection, see `GcEventType`."""
        self.put(r.GcEvent(time=time, event=event, generation=generation), thread=thread)

    def gc_resize(self, size: int, *, time: int, thread: int = 0) -> None:
        """The heap has a new size in bytes."""
        self.put(r.GcResize(time=time, size=size), thread=thread)

    def gc_moves(self, moves: Iterable[tuple[int, int]], *, time: int, thread: int = 0) -> None:
        """Objects moved: pairs of the old and the new address."""
        flat = tuple(address for pair in moves for address in pair)
        self.put(r.GcMove(time=time, objects=flat), thread=thread)

    def handle_created(
        self, handle: int, object: int, *, type: int, time: int, thread: int = 0, backtrace: Sequence[int] | None = None
    ) -> None:
        """A GC handle is created, of a `HandleType`."""
        given = self._flagged(backtrace)
        self.put(r.HandleCreated(time=time, handle_type=type, handle=handle, object=object, **given), thread=thread)

    def handle_destroyed(
        self, handle: int, *, type: int, time: int, thread: int = 0, backtrace: Sequence[int] | None = None
    ) -> None:
        """A GC handle is destroyed."""
        given = self._flagged(backtrace)
        self.put(r.HandleDestroyed(time=time, handle_type=type, handle=handle, **given), thread=thread)

    def throw(self, object: int, *, time: int, thread: int = 0, backtrace: Sequence[int] | None = None) -> None:
        """An exception is thrown."""
        self.put(r.Throw(time=time, object=object, **self._flagged(backtrace)), thread=thread)

    def clause(
        self, method: int, *, time: int, kind: int = ClauseKind.CATCH, index: int = 0, object: int = 0, thread: int = 0
    ) -> None:
        """An exception clause of a method begins; `object` is the exception, left out before data version 14."""
        kept = object if self._dialect.version >= 14 else None
        self.put(r.Clause(time=time, kind=kind, index=index, method=method, object=kept), thread=thread)

    def monitor(
        self, event: MonitorEvent, object: int, *, time: int, thread: int = 0, backtrace: Sequence[int] | None = None
    ) -> None:
        """Something happens at the monitor of an object."""
        self.put(r.Monitor(time=time, event=event, object=object, **self._flagged(backtrace)), thread=thread)

    def heap_start(self, *, time: int, thread: int = 0) -> None:
        """A heap shot begins."""
        self.put(r.HeapStart(time=time), thread=thread)

    def heap_end(self, *, time: int, thread: int = 0) -> None:
        """A heap shot ends."""
        self.put(r.HeapEnd(time=time), thread=thread)

    def heap_object(
        self, object: int, type: int, size: int, references: Sequence[tuple[int, int]] = (), *, time: int,
        generation: int = 0, thread: int = 0,
    ) -> None:  # fmt: skip
        """An object of a heap shot.

        Args:
            object: its address.
            type: what `class_` gave.
            size: in bytes.
            references: offset in the object and address of what is referred to, for each reference.
            time: nanoseconds; before data version 13 that of the event before.
            generation: its GC generation, left out before data version 16.
            thread: who writes the shot.

        Raises:
            EncodeError: a value does not fit.
        """
        version = self._dialect.version
        made = tuple(r.Reference(offset=at if version >= 2 else None, object=to) for at, to in references)
        kept = generation if version >= 16 else None
        for first in range(0, max(len(made), 1), MAX_REFERENCES):
            part = made[first : first + MAX_REFERENCES]
            event = r.HeapObject(
                time=time, object=object, size=0 if first else size, generation=kept, references=part,
                **self._typed(type),
            )  # fmt: skip
            self.put(event, thread=thread)

    def heap_roots(self, roots: Iterable[tuple[int, int]], *, time: int, thread: int = 0) -> None:
        """What keeps objects alive: pairs of where the reference stands and the object.

        Raises:
            EncodeError: a value does not fit; or the data version has roots of another sort (use `put`).
        """
        made = tuple(r.Root(address=at, object=held) for at, held in roots)
        self.put(r.HeapRoots(time=time, roots=made), thread=thread)

    def root_register(
        self, start: int, size: int, *, source: int, time: int, key: int = 0, name: str = "", thread: int = 0
    ) -> None:
        """A region that holds GC roots is registered, of a `RootSource`."""
        event = r.RootRegister(time=time, start=start, size=size, source=source, key=key, name=name)
        self.put(event, thread=thread)

    def sample(self, address: int, frames: Sequence[int] = (), *, interrupted: int, time: int, thread: int = 0) -> None:
        """A sample was taken: the instruction pointer, and the methods, the innermost first.

        Raises:
            EncodeError: a value does not fit; or the data version has samples of another sort (use `put`).
        """
        kind = 1 if self._dialect.version < 14 else None
        event = r.SampleHit(
            time=time, sample_type=kind, interrupted=interrupted, addresses=(address,), frames=tuple(frames)
        )
        self.put(event, thread=thread)

    def counter(
        self, name: str, index: int, *, time: int, type: CounterType = CounterType.LONG, unit: int = CounterUnit.RAW,
        variance: int = CounterVariance.VARIABLE, section: int = CounterSection.RUNTIME, category: str | None = None,
        thread: int = 0,
    ) -> int:  # fmt: skip
        """Introduce a counter; gives its index.

        Args:
            name: its name.
            index: the number that its values go by, from 1 on.
            time: nanoseconds.
            type: the form of its values.
            unit: see `CounterUnit`; data versions 13 and 14 cannot say it.
            variance: see `CounterVariance`; likewise.
            section: see `CounterSection`.
            category: the category of a performance counter.
            thread: who writes it.

        Raises:
            EncodeError: a value does not fit.
        """
        if 13 <= self._dialect.version < 15:
            unit = variance = 0
        described = r.CounterDescription(
            section=section, category=category, name=name, type=type, unit=unit, variance=variance, index=index
        )
        self.put(r.CounterDescriptions(time=time, counters=(described,)), thread=thread)
        self._counters[index] = CounterType(type), section == CounterSection.PERFCOUNTERS, 0
        return index

    def counters(self, values: Mapping[int, int | float | str | None], *, time: int, thread: int = 0) -> None:
        """Values of counters by index; what goes to the file is how they changed.

        Raises:
            EncodeError: a counter was not introduced, or a value does not fit.
        """
        found = []
        for index, value in values.items():
            if index not in self._counters:
                raise EncodeError(f"{index} was not introduced", "counter")
            kind, absolute, last = self._counters[index]
            if kind not in _ABSOLUTE:
                if type(value) is not int:
                    raise EncodeError(f"{value!r} is no integer", f"counter {index}")
                change = value - (0 if absolute else last)
                if kind in UNSIGNED_COUNTERS:  # a falling one wraps
                    change %= 1 << (32 if kind in NARROW_COUNTERS else 64)
                found.append(r.CounterValue(index=index, type=kind, value=change))
            else:
                found.append(r.CounterValue(index=index, type=kind, value=value))
        milliseconds = time // 1_000_000 if self._dialect.version < 13 else None
        self.put(r.CounterValues(time=time, milliseconds=milliseconds, values=tuple(found)), thread=thread)
        for index, value in values.items():
            kind, absolute, _ = self._counters[index]
            self._counters[index] = kind, absolute, value if type(value) is int else 0

    def coverage_assembly(
        self, name: str, *, guid: str, filename: str, methods: int, covered: int, time: int, thread: int = 0
    ) -> None:
        """Coverage of an assembly: how many methods it has, and how many of them were run.  Up to data version 15."""
        event = r.CoverageAssembly(
            time=time, name=name, guid=guid, filename=filename, methods=methods, fully_covered=covered,
            partially_covered=0,
        )  # fmt: skip
        self.put(event, thread=thread)

    def coverage_class(
        self, assembly: str, name: str, *, methods: int, covered: int, time: int, thread: int = 0
    ) -> None:
        """Coverage of a class, likewise."""
        event = r.CoverageClass(
            time=time, assembly=assembly, name=name, methods=methods, fully_covered=covered, partially_covered=0
        )
        self.put(event, thread=thread)

    def coverage_method(
        self, assembly: str, class_name: str, name: str, statements: Sequence[tuple[int, int, int, int]], *,
        signature: str, filename: str, token: int, id: int, time: int, thread: int = 0,
    ) -> None:  # fmt: skip
        """Coverage of a method and its statements.

        Args:
            assembly: the assembly.
            class_name: the class.
            name: the method.
            statements: of each its IL offset, how often it was run, its line and its column.
            signature: of the method.
            filename: the source file.
            token: of the method.
            id: a number that no other method has.
            time: nanoseconds; before data version 13 that of the event before.
            thread: who writes it.

        Raises:
            EncodeError: a value does not fit, or the data version has no coverage.
        """
        event = r.CoverageMethod(
            time=time, assembly=assembly, class_name=class_name, name=name, signature=signature, filename=filename,
            token=token, method_id=id, statements=len(statements),
        )  # fmt: skip
        self.put(event, thread=thread)
        last = 0
        for offset, counter, line, column in statements:
            told = r.CoverageStatement(
                time=time, method_id=id, offset=offset - last, counter=counter, line=line, column=column
            )
            self.put(told, thread=thread)
            last = offset

    def sync_point(self, type: int, *, time: int, thread: int = 0) -> None:
        """Whatever is written from here on is later than what was written before, see `SyncPointType`."""
        self.put(r.SyncPoint(time=time, type=type), thread=thread)
