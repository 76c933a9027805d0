"""Checks of whole traces: the rules beyond those that readers report, see `conformance/rules/uftrace.toml`.

The records are read once, chunk by chunk; everything is checked for all records of a chunk at once.  The events of the
CPUs and the text files follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.distinct import DistinctStrings, rows_of_each
from fxtio.finding import Findings
from fxtio.report import counted
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.argspec import MAX_PAYLOAD
from fxtio.uftrace.directory import byte_size, placed_lines
from fxtio.uftrace.enums import EventId, RecordType, WordClass
from fxtio.uftrace.events import (
    EXTERN_FILE,
    FIRST_OWN_EVENT,
    MAX_MESSAGE,
    NAMES,
    NAMES_FILE,
    EventsFile,
    data_of,
    sizes_of,
)
from fxtio.uftrace.frames import Chunk
from fxtio.uftrace.info import BLOCKS, HEADER_SIZE, INFO_FILE, TEXT_VERSION, InfoFile, field_offset
from fxtio.uftrace.layout import DEPTHS, Feature, InfoBit, RecordWord
from fxtio.uftrace.pairing import NO_ENTRY, NO_EXIT, CallPairing
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.small_files import SmallFiles
from fxtio.uftrace.state import Sessions, map_name
from fxtio.uftrace.symbols import END, END_MARKS, STACK, SYMBOL_TYPES, DebugFile, MapFile, SymbolFile, rows_at
from fxtio.uftrace.tasks import BINARY, TEXT, Dlopen, Fork, Session, Task, TaskEvent, TaskFile
from fxtio.uftrace.values import CombinedNames, payload_columns

_FIELDS = RecordWord.fields
_HEADER, _WORD = 2, 8


def check(trace: UftraceTrace) -> None:
    """Read a whole trace once, in bounded memory, and check it against all rules; `trace.findings` has the faults.

    Raises:
        DecodeError: in strict mode, at the first fault.
    """
    reading = trace.begin()
    info = reading.info
    deepest = info.max_stack if Feature.MAX_STACK in info.features else DEPTHS
    combined = CombinedNames(reading.findings)
    task: _TaskRules | None = None
    for chunk in trace.chunks_of(reading):
        if task is None or task.tid != chunk.tid:
            task = _TaskRules(chunk.tid, reading, deepest, info.pointer_size)
        task.check(chunk)
        if bool((chunk.size > _HEADER).any()):
            payload_columns(chunk, DistinctStrings(), combined)  # for its findings
    last: dict[str, int] = {}
    for name, block in reading.perf_blocks():
        last[name] = _check_perf(block, name, last.get(name, 0), reading.findings)
    _check_kernel(reading)
    check_files(reading)


class _TaskRules:
    """Checks the records of a task.

    Args:
        tid: the task.
        reading: the reading; its findings get the faults.
        deepest: the number of depths that are recorded.
        pointer_size: the size in bytes of an address of the traced program.
    """

    def __init__(self, tid: int, reading: SmallFiles, deepest: int, pointer_size: int) -> None:
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
        self._check_payloads(chunk)
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
        state, ended = self._pairing.pair(chunk)
        if self._pairing.has_lower_exits and not had_lower_exits:
            self._report("record.lower-exits", chunk, np.flatnonzero(kinds == RecordType.EXIT)[:1])
        if self._pairing.wraps and not self._wraps:
            self._wraps = True
            self._report("record.wrapped-depth", chunk, np.zeros(1, np.int64))
        lost = np.flatnonzero(kinds == RecordType.LOST)
        whole = ended < (lost[0] if len(lost) else len(chunk)) if self._is_whole else np.zeros(len(ended), np.bool_)
        if not self._forked:
            self._report("record.exit-without-entry", chunk, ended[whole & (state == NO_ENTRY)])
        self._report("record.entry-without-exit", chunk, ended[whole & (state == NO_EXIT)])
        self._check_depths(chunk, lost)
        self._is_whole &= not len(lost)

    def _check_depths(self, chunk: Chunk, lost: Array) -> None:
        """Check that an entry is at most one deeper than the call around it; after lost records, any depth is right."""
        step = self._pairing.step
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
        at = rows_at(chunk.functions.begin, chunk.functions.end, _FIELDS["address"].get(chunk.words[rows]))
        self._report("record.unknown-function", chunk, rows[at < 0])

    def _check_payloads(self, chunk: Chunk) -> None:
        """Check the sizes of payloads."""
        size = (chunk.size - _HEADER) * _WORD
        rows = np.flatnonzero((size > MAX_PAYLOAD + (-MAX_PAYLOAD % _WORD)) & (self._pairing.step != 0))
        self._report("record.payload-too-long", chunk, rows if chunk.has_specs else rows[:0])

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
            allowed = f"{sizes[0]}{f' to {sizes[-1]}' if len(sizes) > 1 else ''}"
            message = f"the data of the event {self._events.name(number)} have another size than {allowed} bytes"
            self._report("event.size", chunk, np.array(wrong, np.int64), message)


_BUILD_ID = re.compile(r"[0-9a-fA-F]{40}")
_FRACTION = re.compile(r"\w+ timestamp=\d+\.(\d+)")
_COUNTED = ("cpuinfo", "osinfo", "taskinfo", "usageinfo", "argspec")
_SID, _NANOSECONDS = 16, 9
_NEEDED = {
    InfoBit.EXE_NAME: "info.no-program",
    InfoBit.CMDLINE: "info.no-command",
    InfoBit.TASKINFO: "info.no-task-list",
    InfoBit.RECORD_DATE: "info.no-date",
}


Faults = Iterator[tuple[str, int, str]]
"""Faults in a file: the rule, the byte offset, and a message, empty where that of the rule says all."""


def check_files(reading: SmallFiles) -> None:
    """Check all text files, when the records were read; the findings of the reading get the faults."""
    info = reading.info
    if not reading.findings.counts["uftrace.info.header"]:  # without a header, there is nothing to check
        for faults in (_header(info), _blocks(info), _needed(info), _features(info, reading), _specs(info, reading)):
            _report(reading, INFO_FILE, faults)
    if isinstance(reading.sessions.file, TaskFile):
        _report(reading, TEXT, _task_file(reading, reading.sessions.file))
    else:
        reading.findings.add("task.binary", 0, file=BINARY)
    _check_maps(reading)
    _check_symbols(reading)
    _report(reading, NAMES_FILE, _events(reading))
    _report(reading, EXTERN_FILE, _messages(reading))


def _report(reading: SmallFiles, file: str, faults: Faults) -> None:
    for rule, place, message in faults:
        reading.findings.add(rule, place, message, file=file)


# ---- info


def _header(info: InfoFile) -> Faults:
    """Check the fields of the header."""
    words = f"the word class is {info.word_class}, neither 1 (32 bits) nor 2 (64 bits)"
    features, blocks = int(info.features) & ~sum(Feature), int(info.blocks) & ~sum(InfoBit)
    for rule, field, is_wrong, message in (
        ("header-size", "header_size", info.header_size != HEADER_SIZE,
         f"the header size is {info.header_size}, not {HEADER_SIZE}"),
        ("word-class", "word_class", info.word_class not in tuple(WordClass), words),
        ("unknown-features", "features", features, f"the features have bits without a meaning: {features:#x}"),
        ("unknown-blocks", "blocks", blocks, f"the mask of blocks has bits without a meaning: {blocks:#x}"),
        ("reserved-bytes", "reserved", any(info.reserved),
         f"the reserved bytes are not zero: {info.reserved.hex(' ')}"),
    ):  # fmt: skip
        if is_wrong:
            yield f"info.{rule}", field_offset(field), message


def _blocks(info: InfoFile) -> Faults:
    """Check which blocks of text there are, their order, and the numbers of their lines."""
    bit_of = {key: bit for bit, keys in BLOCKS.items() for key in keys}
    lines = [(offset - byte_size(key) - 1, bit_of[key], key, value)
             for offset, key, value in info.placed_items() if key in bit_of]  # fmt: skip
    for before, after in pairwise(lines):
        if after[1] < before[1]:
            yield "info.block-order", after[0], f"the line {after[2]} belongs before the line {before[2]}"
    for offset, bit, key, _ in lines:
        if bit not in info.blocks:
            message = f"there is a line {key}, but the header does not list the block {bit.name}"
            yield "info.unlisted-block", offset, message
    following = [0] * len(lines)  # the number of lines of the same block that directly follow each line
    for number in reversed(range(len(lines) - 1)):
        if lines[number + 1][1] == lines[number][1]:
            following[number] = following[number + 1] + 1
    for (offset, bit, key, value), count in zip(lines, following, strict=True):
        match = re.fullmatch(r"lines=(\d{1,9})", value, re.ASCII)
        if match and key in _COUNTED and count != int(match[1]):
            yield "info.line-count", offset, f"{count} lines of the block {bit.name} follow, not {match[1]}"
        if key == "build_id" and not _BUILD_ID.fullmatch(value):
            yield "info.build-id", offset, f"the build id {value[:60]!r} does not have 40 hexadecimal digits"


def _needed(info: InfoFile) -> Faults:
    """Check that the blocks that uftrace needs are there, and the number of tasks.

    A listed block without text is a fault of another rule.
    """
    for bit, rule in _NEEDED.items():
        if bit not in info.blocks and (bit != InfoBit.RECORD_DATE or info.version >= TEXT_VERSION):
            yield rule, field_offset("blocks"), ""
    count = info.get("taskinfo", "nr_tid")
    listed = [tid for tid in (info.get("taskinfo", "tids") or "").split(",") if tid]
    if count is not None and InfoBit.TASKINFO in info.blocks and count != str(len(listed)):
        place = next(place for place, value in info.placed_specs("taskinfo") if value.startswith("nr_tid="))
        yield "info.task-count", place, f"the list of tasks has {len(listed):,}, not {count[:20]}"


def _features(info: InfoFile, reading: SmallFiles) -> Faults:
    """Check that the features and the files of the directory agree."""
    names, place = reading.directory.names, field_offset("features")
    has_kernel = any(name == kernel.HEADER_FILE or kernel.is_name(name) for name in names)
    for feature, text, is_there in (
        (Feature.KERNEL, "of kernel events", has_kernel),
        (Feature.EVENT, NAMES_FILE, NAMES_FILE in reading.directory),
        (Feature.PERF_EVENT, "of scheduler events", any(map(perf.is_name, names))),
    ):
        if is_there and feature not in info.features:
            message = f"there are files {text}, but the header does not list the feature {feature.name}"
            yield "info.missing-feature", place, message
    for feature, text, is_there in (
        (Feature.KERNEL, "any file of kernel events", has_kernel),
        (Feature.DEBUG_INFO, "a file of debug information", any(name.endswith(".dbg") for name in names)),
        (Feature.ARGUMENT, "argument specifications", InfoBit.ARG_SPEC in info.blocks),
        (Feature.RETVAL, "argument specifications", InfoBit.ARG_SPEC in info.blocks),
    ):
        if feature in info.features and not is_there:
            yield "info.missing-file", place, f"the header lists the feature {feature.name}, but {text} is not there"
    if Feature.TASK_SESSION not in info.features and (TEXT in names or BINARY in names):
        yield "info.no-session-bit", place, ""


def _specs(info: InfoFile, reading: SmallFiles) -> Faults:
    """Check the argument specifications, as far as readers do not."""
    specs = reading.sessions.specs
    in_register = [rule.place for rule in specs.saved for value in rule.values if value.in_register]
    if in_register and InfoBit.CPUINFO not in info.blocks:
        yield "argspec.no-processor", in_register[0], ""
    saved = {(rule.text, value) for rule in specs.saved for value in rule.values}
    place = next((offset for offset, key, _ in info.placed_items() if key == "cmdline"), HEADER_SIZE)
    for rule in specs.triggers:
        if any((rule.text, value) not in saved for value in rule.values):
            message = f"the format of the return value of {rule.text[:60]!r} is only in the command line"
            yield "argspec.trigger-format", place, message


# ---- the task file


def _task_file(reading: SmallFiles, file: TaskFile) -> Faults:
    """Check the sessions, tasks, forks and libraries."""
    for offset, line in placed_lines(reading.directory.read(TEXT, Findings("uftrace")), TEXT, Findings("uftrace")):
        match = _FRACTION.match(line)
        if match and len(match[1]) != _NANOSECONDS:
            message = f"the fraction {match[1][:20]} is a number of nanoseconds, and should have nine digits"
            yield "task.time-digits", offset, message
    placed = list(zip(file.places, file.events, strict=True))
    sessions = [(place, event) for place, event in placed if isinstance(event, Session)]
    ids: set[str] = set()
    for place, session in sessions:
        if len(session.sid) != _SID:
            yield "task.session-id", place, f"the session id {session.sid!r} does not have {_SID} characters"
        if session.sid in ids:
            yield "task.repeated-session", place, f"two sessions have the id {session.sid!r}"
        ids.add(session.sid)
    yield from _relations(reading.sessions, placed)
    forked = {event.pid for event in file.events if isinstance(event, Fork)}
    first: dict[int, tuple[int, Session]] = {}
    for place, session in sessions:
        if session.pid not in first or session.time < first[session.pid][1].time:
            first[session.pid] = place, session
    begins: dict[int, int] = {}
    for event in file.events:
        if isinstance(event, Task):
            begins[event.pid] = min(event.time, begins.get(event.pid, event.time))
    for pid, (place, session) in first.items():
        if pid not in forked and begins.get(pid, session.time) < session.time:
            yield "task.session-late", place, f"the session of process {pid} begins after a task of the process"


def _relations(sessions: Sessions, placed: list[tuple[int, TaskEvent]]) -> Faults:
    """Check that the sessions and processes to which lines refer exist."""
    ids = {session.sid for session in sessions.sessions}
    forks = {event.pid for _, event in placed if isinstance(event, Fork)}
    processes = {session.pid for session in sessions.sessions} | forks
    for place, event in placed:
        if isinstance(event, Dlopen) and event.sid not in ids:
            message = f"a library is loaded in the session {event.sid!r}, which does not exist"
            yield "task.unknown-session", place, message
        elif isinstance(event, Task) and event.pid not in processes:
            yield "task.no-session", place, f"task {event.tid} belongs to process {event.pid}, which has no session"
        elif isinstance(event, Fork) and event.ppid not in processes and event.ppid not in sessions.tasks:
            yield "task.unknown-parent", place, f"process {event.pid} is a copy of {event.ppid}, which does not exist"


# ---- maps and symbols


def _check_maps(reading: SmallFiles) -> None:
    """Check the maps of the sessions; those that the reader parsed are parsed again without findings."""
    sessions: dict[str, Session] = {}
    for session in reading.sessions.sessions:
        sessions.setdefault(map_name(session.sid), session)
    for name, session in sessions.items():
        if name in reading.directory:
            findings = Findings("uftrace") if name in reading.sessions.parsed else reading.findings
            file = MapFile.parse(reading.directory.read(name, findings), name, findings)
            _report(reading, name, _map(file, session, reading))


def _map(file: MapFile, session: Session, reading: SmallFiles) -> Faults:
    """Check the mappings of a map, and that the program of its session is among them."""
    if not any(mapping.path == STACK for mapping in file.mappings):
        yield "session.no-stack", 0, ""
    mappings = []
    for place, mapping in zip(file.places, file.mappings, strict=True):
        if mapping.path.startswith("["):
            continue
        if mapping.end <= mapping.begin:
            message = f"the mapping ends at {mapping.end:x}, and begins at {mapping.begin:x}"
            yield "session.empty-mapping", place, message
            continue
        if any(character.isspace() for character in mapping.path):
            yield "session.path-space", place, f"the path {mapping.path[:60]!r} contains a space"
        mappings.append((mapping.begin, mapping.end, mapping.path, place))
    last: tuple[int, str] = (0, "")  # the mapping so far that ends last: its end and its path
    for begin, end, path, place in sorted(mappings):
        if begin < last[0] and path != last[1]:
            yield "session.overlap", place, f"the mapping overlaps with that of {last[1][:60]!r}"
        last = max(last, (end, path), key=lambda each: each[0])
    module = next((module for module in file.modules if module.path == session.exename), None)
    if module is None:
        message = f"the program {session.exename[:60]!r} of session {session.sid} is not in its map"
        yield "session.program-not-mapped", 0, message
        return
    base = module.path.rpartition("/")[2]
    if f"{base}.sym" not in reading.directory and reading.sessions.file_of(module, ".sym") is None:
        yield "symbol.no-file", 0, f"the program {module.path[:60]!r} has no symbol file"


def _check_symbols(reading: SmallFiles) -> None:
    """Check the symbol files, and read those of debug information that no record needed."""
    for name in reading.directory.names:
        findings = Findings("uftrace") if name in reading.sessions.parsed else reading.findings
        if name.endswith(".dbg") and name not in reading.sessions.parsed:
            DebugFile.parse(reading.directory.read(name, findings), name, findings)
        elif name.endswith(".sym"):
            file = SymbolFile.parse(reading.directory.read(name, findings), name, findings)
            _report(reading, name, _symbols(file))


def _symbols(file: SymbolFile) -> Faults:
    """Check the symbols of a module."""
    count = sum(symbol.type != END for symbol in file.symbols)
    if file.count is not None and file.count != count:
        yield "symbol.count", 0, f"the heading says that there are {file.count:,} symbols; there are {count:,}"
    last, symbols = -1, set[tuple[int, str]]()
    for place, symbol in zip(file.places, file.symbols, strict=True):
        what = f"the symbol {symbol.name[:60]!r}"
        if symbol.type not in SYMBOL_TYPES:
            yield "symbol.type", place, f"{what} has the type {symbol.type!r}"
        if symbol.address < last:
            yield "symbol.order", place, f"{what} is at a lower address than the one before it"
        if (symbol.address, symbol.type) in symbols:
            yield "symbol.repeated", place, f"{what} has the address and the type of another one"
        last = symbol.address
        symbols.add((symbol.address, symbol.type))
    if file.symbols and file.symbols[-1].size is None:
        top = max(symbol.address for symbol in file.symbols)
        marks = [symbol for symbol in file.symbols if symbol.type == END or symbol.name in END_MARKS]
        if not any(mark.address == top for mark in marks):
            yield "symbol.no-end", file.places[-1], ""


# ---- events and messages


def _events(reading: SmallFiles) -> Faults:
    """Check the names of events."""
    names: dict[int, str] = {}
    for place, number, name in reading.events.places:
        if names.setdefault(number, name) != name:
            message = f"the event {number} has the names {names[number][:60]!r} and {name[:60]!r}"
            yield "event.repeated-name", place, message
        if number < EventId.FIRST_USER:
            message = f"the id {number:,} is not that of a user event, from {EventId.FIRST_USER:,} on"
            yield "event.reserved-id", place, message


def _messages(reading: SmallFiles) -> Faults:
    """Check the messages of `extern.dat`."""
    placed = list(zip(reading.extern.places, reading.extern.messages, strict=True))
    for (_, before), (place, after) in pairwise(placed):
        if after.time < before.time:
            yield "event.extern-order", place, ""
    for place, (_, text) in placed:
        if (size := byte_size(text)) > MAX_MESSAGE:
            yield "event.extern-long", place, f"the message has {size:,} bytes, more than {MAX_MESSAGE:,}"


MAX_DESCRIPTION = 4095
"""The largest number of bytes of a description of a kernel event that uftrace reads."""


def _check_perf(block: perf.PerfBlock, name: str, last: int, findings: Findings) -> int:
    """Check a block of scheduler events; return the time of the last one."""
    used = block.kind != perf.OTHER
    wrong = np.flatnonzero(block.has_odd_size())
    if len(wrong):
        row = int(wrong[0])
        message = f"a record of the type {int(block.type[row])} has {int(block.size[row])} bytes"
        findings.add("perf.size", block.base + int(block.at[row]), message, times=len(wrong), file=name)
        used[wrong] = False
    rows = np.flatnonzero(used)
    if not len(rows):
        return last
    times = np.append(np.uint64(last), block.time[rows])
    back = rows[np.flatnonzero(times[1:] < times[:-1])]
    if len(back):
        offset = block.base + int(block.at[back[0]])
        findings.add("perf.time-backwards", offset, times=len(back), file=name)
    return int(times[-1])


def _check_kernel(reading: SmallFiles) -> None:
    """Check the kernel events, and their descriptions."""
    findings = reading.findings
    names = [name for name in reading.directory.names if kernel.is_name(name)]
    if names and kernel.HEADER_FILE not in reading.directory:
        findings.add("kernel.no-header", 0, file=names[0])
    for offset, path, size in reading.kernel_header.placed_blocks():
        if size > MAX_DESCRIPTION:
            message = f"the description {path[:60]!r} has {size:,} bytes, more than {MAX_DESCRIPTION:,}"
            findings.add("kernel.long-description", offset, message, file=kernel.HEADER_FILE)
    last: dict[str, int] = {}
    _ = reading.kernel_functions  # parsed for its findings
    has_symbols = kernel.SYMBOLS_FILE in reading.directory
    for name, event in reading.kernel_events():
        if not event.name and kernel.HEADER_FILE in reading.directory:
            message = f"the event {event.id} is not described"
            findings.add("kernel.undescribed-event", event.offset, message, file=name)
        if event.time < last.get(name, 0):
            findings.add("kernel.time-backwards", event.offset, file=name)
        if event.is_call and not has_symbols:
            has_symbols = True  # reported once
            findings.add("kernel.no-symbols", event.offset, file=name)
        last[name] = event.time
