"""Checks of whole traces: the rules beyond those that readers report, see `conformance/rules/uftrace.toml`.

The records are read once, chunk by chunk; everything is checked for all records of a chunk at once.  Then follow the
files of the CPUs (`cpu_rules`) and the text files (`file_rules`).
"""

from __future__ import annotations

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, rows_of_each
from fxtio.finding import Findings
from fxtio.report import counted
from fxtio.uftrace.argspec import MAX_PAYLOAD
from fxtio.uftrace.enums import RecordType
from fxtio.uftrace.events import FIRST_OWN_EVENT, NAMES, EventsFile, data_of, sizes_of
from fxtio.uftrace.file_rules import check_cpus, check_files
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.layout import DEPTHS, Feature, RecordWord
from fxtio.uftrace.pairing import NO_ENTRY, NO_EXIT, CallPairing
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.reading import Reading
from fxtio.uftrace.values import CombinedNames, payload_columns

_FIELDS = RecordWord.fields
_HEADER, _WORD = 2, 8
_STEPS = np.array([{RecordType.ENTRY: 1, RecordType.EXIT: -1}.get(kind, 0) for kind in RecordType], np.int64)


def check(trace: UftraceTrace) -> None:
    """Read a whole trace once, in bounded memory, and check it against all rules; `trace.findings` has the faults.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    reading = trace.begin()
    info = reading.info()
    deepest = info.max_stack if Feature.MAX_STACK in info.features else DEPTHS
    combined = CombinedNames(reading.findings)
    task: _TaskRules | None = None
    for chunk in trace.chunks_of(reading):
        if task is None or task.tid != chunk.tid:
            task = _TaskRules(chunk.tid, reading, deepest, info.pointer_size)
        task.check(chunk)
        if bool((chunk.size > _HEADER).any()):
            payload_columns(chunk, DistinctStrings(), combined)  # for its findings
    check_cpus(reading)
    check_files(reading, info)


class _TaskRules:
    """Checks the records of a task.

    Args:
        tid: the task.
        reading: the reading; its findings get the faults.
        deepest: the number of depths that are recorded.
        pointer_size: the size in bytes of an address of the traced program.

    Attributes:
        tid: the task.
    """

    def __init__(self, tid: int, reading: Reading, deepest: int, pointer_size: int) -> None:
        self.tid = tid
        self._findings: Findings = reading.findings
        self._events: EventsFile = reading.events
        self._begin = reading.sessions.begin_of(tid)
        self._forked = reading.sessions.forked(tid) is not None
        self._deepest = deepest
        self._pointer_size = pointer_size
        self._pairing = CallPairing()
        self._is_first = self._is_first_call = True
        self._is_whole = True  # no records were lost or damaged so far
        self._previous: tuple[int, int] | None = (-1, 0)  # the step and the depth of the last call record, if known
        self._wraps = False

    def check(self, chunk: Chunk) -> None:
        """Check the records of a chunk, or the bytes that are no record."""
        if chunk.gap is not None:
            self._pairing.skip()
            self._previous, self._is_whole = None, False
        if not len(chunk):
            return
        kinds = _FIELDS["type"].get(chunk.words).view(np.int64)
        self._check_begin(chunk, kinds)
        self._check_calls(chunk, kinds)
        self._check_functions(chunk, kinds)
        self._check_payloads(chunk, kinds)
        self._check_lost(chunk, kinds)
        self._check_events(chunk, kinds)

    def _report(self, name: str, chunk: Chunk, rows: Array, message: str = "") -> None:
        """Add a finding about some records of a chunk, if there are any."""
        if len(rows):
            offset = int(chunk.offsets()[rows[0]])
            self._findings.add(name, offset, message, times=len(rows), file=chunk.file)

    # ---- calls

    def _check_begin(self, chunk: Chunk, kinds: Array) -> None:
        """Check the first record that has a time."""
        rows = np.flatnonzero(kinds != RecordType.LOST)
        if not self._is_first or not len(rows):
            return
        self._is_first = False
        first = int(chunk.times[rows[0]])
        if self._begin is not None and first < self._begin:
            message = f"the first record is earlier than the line of task {self.tid} in the task file"
            self._findings.add("task.late", int(chunk.offsets()[rows[0]]), message, file=chunk.file)

    def _check_calls(self, chunk: Chunk, kinds: Array) -> None:
        """Check the depths, and the pairs of entries and exits."""
        had_lower_exits = self._pairing.has_lower_exits
        calls = self._pairing.pair(chunk)
        if self._pairing.has_lower_exits and not had_lower_exits:
            self._report("record.lower-exits", chunk, np.flatnonzero(kinds == RecordType.EXIT)[:1])
        if self._pairing.wraps and not self._wraps:
            self._wraps = True
            message = f"calls are deeper than the {DEPTHS:,} depths of a record"
            self._report("record.wrapped-depth", chunk, np.zeros(1, np.int64), message)
        ended = calls.row
        lost = np.flatnonzero(kinds == RecordType.LOST)
        whole = ended < (lost[0] if len(lost) else len(chunk)) if self._is_whole else np.zeros(len(ended), np.bool_)
        if not self._forked:
            message = "the exit of a call whose entry is not in the file"
            self._report("record.exit-without-entry", chunk, ended[whole & (calls.state == NO_ENTRY)], message)
        message = "a call ended without an exit: this record shows that it is over"
        self._report("record.entry-without-exit", chunk, ended[whole & (calls.state == NO_EXIT)], message)
        self._check_depths(chunk, kinds, lost)
        self._is_whole &= not len(lost)

    def _check_depths(self, chunk: Chunk, kinds: Array, lost: Array) -> None:
        """Check that an entry is at most one deeper than the call around it; after lost records, any depth is right."""
        step = _STEPS[kinds]
        rows = np.flatnonzero(step)
        if not len(rows):
            self._previous = None if len(lost) else self._previous
            return
        steps, depths = step[rows], self._pairing.depth[rows]
        message = f"the depth is not below the largest one of the header, {self._deepest:,}"
        self._report("record.too-deep", chunk, rows[depths >= self._deepest], message)
        before = self._previous or (1, DEPTHS)
        # An entry may be one deeper than an entry before it, and as deep as the call whose exit is before it.
        most = np.append(before[1] + (before[0] > 0), depths[:-1] + (steps[:-1] > 0))
        jump = (steps > 0) & (depths > most)
        if len(lost):
            losses = np.searchsorted(lost, rows)  # the number of losses in the chunk before each record
            jump &= np.diff(losses, prepend=0) == 0
        if self._is_first_call and not self._forked and jump[0]:
            message = f"the first call has the depth {int(depths[0])}, not 0"
            self._report("record.first-depth", chunk, rows[:1], message)
            jump[0] = False
        self._is_first_call = False
        self._report("record.depth-jump", chunk, rows[jump])
        self._previous = None if len(lost) and lost[-1] > rows[-1] else (int(steps[-1]), int(depths[-1]))

    def _check_functions(self, chunk: Chunk, kinds: Array) -> None:
        """Check that the functions of calls are known."""
        if not len(chunk.functions):
            return  # other rules tell why there are no symbols at all
        rows = np.flatnonzero(kinds == RecordType.ENTRY)
        functions, address = chunk.functions, _FIELDS["address"].get(chunk.words[rows])
        index = np.searchsorted(functions.begin, address, "right") - 1
        inside = (index >= 0) & (address < np.append(functions.end, np.uint64(0))[index])
        self._report("record.unknown-function", chunk, rows[~inside])

    def _check_payloads(self, chunk: Chunk, kinds: Array) -> None:
        """Check the sizes of payloads."""
        size = (chunk.size - _HEADER) * _WORD
        rows = np.flatnonzero((size > MAX_PAYLOAD + (-MAX_PAYLOAD % _WORD)) & (_STEPS[kinds] != 0))
        message = f"the payload has more than {MAX_PAYLOAD:,} bytes"
        self._report("record.payload-too-long", chunk, rows if chunk.has_specs else rows[:0], message)

    def _check_lost(self, chunk: Chunk, kinds: Array) -> None:
        """Report lost records."""
        rows = np.flatnonzero(kinds == RecordType.LOST)
        count = int(_FIELDS["address"].get(chunk.words[rows]).sum())
        self._report("record.lost", chunk, rows, f"{counted(count, 'record')} lost here, or here and later")
        timed = rows[chunk.times[rows] != 0]
        self._report("record.lost-time", chunk, timed)

    # ---- events

    def _check_events(self, chunk: Chunk, kinds: Array) -> None:
        """Check the ids of events and the sizes of their data."""
        rows = np.flatnonzero(kinds == RecordType.EVENT)
        if not len(rows):
            return
        ids, depth = _FIELDS["address"].get(chunk.words[rows]), _FIELDS["depth"].get(chunk.words[rows])
        self._report("event.depth", chunk, rows[depth != 0])
        has_data = _FIELDS["more"].get(chunk.words[rows]) != 0
        for number, chosen in rows_of_each(ids):
            own = rows[chosen]
            if number < FIRST_OWN_EVENT:
                message = f"the event {number:,} is one of the kernel, which records of a task do not have"
                self._report("event.kernel-id", chunk, own, message)
            elif number not in NAMES and number not in self._events.names:
                self._report("event.unknown-id", chunk, own, f"the event {number:,} has no name")
            with_data = own[has_data[chosen]]
            sizes = sizes_of(number, self._pointer_size)
            if not sizes:
                message = f"the event {self._events.name(number)} has data, which uftrace does not know"
                self._report("event.data", chunk, with_data, message)
                continue
            raw = chunk.payloads(with_data)
            wrong = [row for row, payload in zip(with_data.tolist(), raw, strict=True)
                     if len(data_of(payload, chunk.order)) not in sizes]  # fmt: skip
            message = f"the data of the event {self._events.name(number)} have another size than {_list(sizes)} bytes"
            self._report("event.size", chunk, np.array(wrong, np.int64), message)


def _list(sizes: range) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
