"""The scheduler events of a new trace, by CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.integers import checked_integer
from fxtio.errors import EncodeError
from fxtio.table import MAX_TIME
from fxtio.uftrace import perf
from fxtio.uftrace.kernel_writer import MAX_CPU

Order = Literal["little", "big"]


class SchedFiles:
    """Collects what the files of scheduler events will contain.

    Args:
        order: the byte order.
    """

    def __init__(self, order: Order) -> None:
        self._order: Order = order
        self._files: dict[int, bytearray] = {}
        self._last: dict[int, int] = {}  # the time of the last event of each CPU

    def __bool__(self) -> bool:
        return bool(self._files)

    def add(self, cpu: int, event: perf.PerfEvent) -> None:
        """Append an event of a CPU.

        Raises:
            EncodeError: a value does not fit, or time goes back; nothing was added.
        """
        if not isinstance(event, perf.PerfEvent):
            raise EncodeError(f"{event!r} is not a scheduler event", "event")
        raw = perf.build(event, self._order)
        time = event.time if event.raw else checked_integer(event.time, "time", 0, MAX_TIME)
        if event.kind == perf.KINDS[perf.OTHER]:  # it need not have a time
            time = self._last.get(cpu, 0)
        self.check_times(cpu, np.array([time], np.uint64))
        self.append(cpu, time, raw)

    def encode(self, cpu: int, time: Array, **columns: Array | Sequence[str | None]) -> bytes:
        """Return the bytes of events that can be appended for a CPU.

        Args:
            cpu: the CPU.
            time: nanoseconds.
            columns: the other columns, see `perf.encode`.

        Raises:
            EncodeError: a value does not fit, or time goes back.
        """
        fields: dict[str, Any] = columns
        raw = perf.encode(time=time, **fields, order=self._order)
        self.check_times(cpu, time)
        return raw

    def check_times(self, cpu: int, times: Array) -> None:
        """Raise an error if the next events of a CPU cannot have these times.

        Raises:
            EncodeError: time goes back, or the number of the CPU is too large.
        """
        number = checked_integer(cpu, "cpu", 0, MAX_CPU)
        if int(times[0]) < self._last.get(number, 0) or bool((times[1:] < times[:-1]).any()):
            raise EncodeError("time goes back", f"CPU {cpu}")

    def append(self, cpu: int, last: int, raw: bytes) -> None:
        """Append the bytes of events of a CPU, given the time of the last one."""
        self._files.setdefault(cpu, bytearray()).extend(raw)
        self._last[cpu] = last

    def files(self) -> dict[str, Any]:
        """Return the files by name."""
        return {f"perf-cpu{cpu}.dat": raw for cpu, raw in self._files.items()}
