"""Samples of stacks in a Perfetto trace, and the stacks that its sequences define.

https://perfetto.dev/docs/reference/trace-packet-proto#PerfSample
"""

from __future__ import annotations

from fxtio.codec.integers import MAX_INT32
from fxtio.codec.protobuf import Message, signed
from fxtio.exchange.perfetto.messages import Interned, PerfSample, StreamingProfile
from fxtio.exchange.perfetto.rows import Rows
from fxtio.exchange.perfetto.state import NOT_DEFINED, Sequence
from fxtio.exchange.perfetto.tracks import Tracks
from fxtio.table import MAX_TIME
from fxtio.timeline.parts import Registry

_LOST = "samples that the recorder lost or left out"
_NO_THREAD = "samples of sequences whose thread is not known"
_NO_STACK = "samples without a stack"


class Samples:
    """Takes samples.

    Args:
        registry: has the names.
        rows: gets the rows.
        tracks: the threads.
    """

    def __init__(self, registry: Registry, rows: Rows, tracks: Tracks) -> None:
        self._registry = registry
        self._losses = registry.losses
        self._rows = rows
        self._tracks = tracks

    def enter(self, sample: Message, sequence: Sequence, time: int) -> None:
        """Take a sample of a processor (PerfSample)."""
        if PerfSample.LOST in sample or PerfSample.SKIPPED in sample:
            self._losses[_LOST] += 1
            return
        number = sample.number(PerfSample.CALLSTACK)
        self._losses[_NO_STACK] += not number
        thread = self._tracks.thread(sample.signed(PerfSample.TID), pid=sample.signed(PerfSample.PID))
        cpu = sample.number(PerfSample.CPU)
        self._add(time, thread, cpu if cpu <= MAX_INT32 else -1, number, sequence)

    def enter_stream(self, profile: Message, sequence: Sequence, time: int | None) -> None:
        """Take samples of the thread of a sequence (StreamingProfilePacket)."""
        if sequence.pid is None:
            self._losses[_NO_THREAD] += 1
            return
        thread = self._registry.thread(sequence.pid, sequence.tid)
        here = sequence.reference if time is None else time
        stacks, deltas = profile.numbers(StreamingProfile.CALLSTACK), profile.numbers(StreamingProfile.DELTA)
        for stack, delta in zip(stacks, deltas, strict=False):
            here = min(max(here + signed(delta) * 1000, 0), MAX_TIME)
            self._add(here, thread, -1, stack, sequence)

    def _add(self, time: int, thread: int, cpu: int, number: int, sequence: Sequence) -> None:
        if self._rows.wants("samples"):
            unit = self._registry.names.code("samples")
            self._rows.row("samples", time, thread, cpu, self._stack(number, sequence), 1, unit)

    def _stack(self, number: int, sequence: Sequence) -> int:
        """Return the row of a stack, -1 if it is empty."""
        stack = sequence.stacks.get(number, -1)
        if stack < 0 and number:
            frames = sequence.others.get((Interned.CALLSTACK, number))
            self._losses[NOT_DEFINED] += frames is None
            stack = sequence.stacks[number] = self._rows.stacks.stack(
                self._frame(each, sequence) for each in frames or ()
            )
        return stack

    def _frame(self, number: int, sequence: Sequence) -> int:
        """Return the number of a frame."""
        others = sequence.others
        function, mapping, address, path, line = others.get((Interned.FRAME, number), (0, 0, 0, 0, 0))
        paths = others.get((Interned.MAPPING, mapping), ())
        parts = [others.get((Interned.PATH, each), "") for each in paths]
        module = "/" + "/".join(parts) if parts else None
        file = others.get((Interned.SOURCE_PATH, path)) if path else None
        name = others.get((Interned.FUNCTION, function)) or None
        return self._rows.stacks.frame(name, module, file, line if 0 < line <= MAX_TIME else -1, address)
