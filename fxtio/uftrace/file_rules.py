"""Rules about the files of a data directory besides those of tasks: text files, and the events of CPUs."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from fxtio.errors import DecodeError
from fxtio.finding import Findings
from fxtio.uftrace import kernel, perf
from fxtio.uftrace.directory import Directory, byte_size, placed_lines
from fxtio.uftrace.enums import EventId, WordClass
from fxtio.uftrace.events import EXTERN_FILE, MAX_MESSAGE, NAMES_FILE
from fxtio.uftrace.info import BLOCKS, HEADER_SIZE, INFO_FILE, TEXT_VERSION, InfoFile, field_offset
from fxtio.uftrace.layout import Feature, InfoBit
from fxtio.uftrace.small_files import SmallFiles
from fxtio.uftrace.state import Sessions, map_name
from fxtio.uftrace.symbols import END, END_MARKS, SYMBOL_TYPES, DebugFile, MapFile, SymbolFile
from fxtio.uftrace.tasks import BINARY, TEXT, Dlopen, Fork, Session, Task, TaskEvent, TaskFile

_BUILD_ID = re.compile(r"[0-9a-fA-F]{40}")
_FRACTION = re.compile(r"\w+ timestamp=\d+\.(\d+)")
_COUNTED = ("cpuinfo", "osinfo", "taskinfo", "usageinfo", "argspec")
_SID, _NANOSECONDS = 16, 9


def check_files(reading: SmallFiles, info: InfoFile) -> None:
    """Check all text files, when the records were read.

    Args:
        reading: the reading; its findings get the faults.
        info: the info file.
    """
    if _is_sound(reading.directory):
        _check_header(info, reading.findings)
        _check_blocks(info, reading.findings)
        _check_tasks_of_info(info, reading.findings)
        _check_features(info, reading)
        _check_specs(info, reading)
    _check_task_file(reading)
    _check_maps(reading)
    _check_symbols(reading)
    _check_events(reading)
    _check_messages(reading)


def _is_sound(directory: Directory) -> bool:
    """Return whether the header of the info file can be read; if not, a finding of the reader says so."""
    try:
        InfoFile.parse(directory.read(INFO_FILE, Findings("uftrace")), Findings("uftrace"))
    except DecodeError:
        return False
    return True


# ---- info


def _check_header(info: InfoFile, findings: Findings) -> None:
    """Check the fields of the header."""
    if info.header_size != HEADER_SIZE:
        message = f"the header size is {info.header_size}, not {HEADER_SIZE}"
        findings.add("info.header-size", field_offset("header_size"), message, file=INFO_FILE)
    if info.word_class not in tuple(WordClass):
        message = f"the word class is {info.word_class}, neither 1 (32 bits) nor 2 (64 bits)"
        findings.add("info.word-class", field_offset("word_class"), message, file=INFO_FILE)
    if unknown := int(info.features) & ~sum(Feature):
        message = f"the features have bits without a meaning: {unknown:#x}"
        findings.add("info.unknown-features", field_offset("features"), message, file=INFO_FILE)
    if unknown := int(info.blocks) & ~sum(InfoBit):
        message = f"the mask of blocks has bits without a meaning: {unknown:#x}"
        findings.add("info.unknown-blocks", field_offset("blocks"), message, file=INFO_FILE)
    if any(info.reserved):
        message = f"the reserved bytes are not zero: {info.reserved.hex(' ')}"
        findings.add("info.reserved-bytes", field_offset("reserved"), message, file=INFO_FILE)


def _check_blocks(info: InfoFile, findings: Findings) -> None:
    """Check which blocks of text there are, their order, and the numbers of their lines."""
    bit_of = {key: bit for bit, keys in BLOCKS.items() for key in keys}
    lines = [(offset - byte_size(key) - 1, bit_of[key], key, value)
             for offset, key, value in info.placed_items() if key in bit_of]  # fmt: skip
    for before, after in pairwise(lines):
        if after[1] < before[1]:
            message = f"the line {after[2]} belongs before the line {before[2]}"
            findings.add("info.block-order", after[0], message, file=INFO_FILE)
    for offset, bit, key, _ in lines:
        if bit not in info.blocks:
            message = f"there is a line {key}, but the header does not list the block {bit.name}"
            findings.add("info.unlisted-block", offset, message, file=INFO_FILE)
    following = [0] * len(lines)  # the number of lines of the same block that directly follow each line
    for number in reversed(range(len(lines) - 1)):
        if lines[number + 1][1] == lines[number][1]:
            following[number] = following[number + 1] + 1
    for (offset, bit, key, value), count in zip(lines, following, strict=True):
        match = re.fullmatch(r"lines=(\d{1,9})", value, re.ASCII)
        if match and key in _COUNTED and count != int(match[1]):
            message = f"{count} lines of the block {bit.name} follow, not {match[1]}"
            findings.add("info.line-count", offset, message, file=INFO_FILE)
        if key == "build_id" and not _BUILD_ID.fullmatch(value):
            message = f"the build id {value[:60]!r} does not have 40 hexadecimal digits"
            findings.add("info.build-id", offset, message, file=INFO_FILE)
    _check_needed(info, findings)


def _check_needed(info: InfoFile, findings: Findings) -> None:
    """Check that the blocks that uftrace needs are there; a listed one without text is a fault of another rule."""
    place = field_offset("blocks")
    if InfoBit.EXE_NAME not in info.blocks:
        findings.add("info.no-program", place, file=INFO_FILE)
    if InfoBit.CMDLINE not in info.blocks:
        findings.add("info.no-command", place, file=INFO_FILE)
    if InfoBit.TASKINFO not in info.blocks:
        findings.add("info.no-task-list", place, file=INFO_FILE)
    if InfoBit.RECORD_DATE not in info.blocks and info.version >= TEXT_VERSION:
        findings.add("info.no-date", place, file=INFO_FILE)


def _check_tasks_of_info(info: InfoFile, findings: Findings) -> None:
    """Check the number of tasks."""
    count = info.get("taskinfo", "nr_tid")
    listed = [tid for tid in (info.get("taskinfo", "tids") or "").split(",") if tid]
    if count is not None and InfoBit.TASKINFO in info.blocks and count != str(len(listed)):
        place = next(place for place, value in info.placed_specs("taskinfo") if value.startswith("nr_tid="))
        message = f"the list of tasks has {len(listed):,}, not {count[:20]}"
        findings.add("info.task-count", place, message, file=INFO_FILE)


def _check_features(info: InfoFile, reading: SmallFiles) -> None:
    """Check that the features and the files of the directory agree."""
    names, findings, place = reading.directory.names, reading.findings, field_offset("features")
    has_kernel = any(name == kernel.HEADER_FILE or kernel.is_name(name) for name in names)
    files = {
        Feature.KERNEL: ("of kernel events", has_kernel),
        Feature.EVENT: (NAMES_FILE, NAMES_FILE in reading.directory),
        Feature.PERF_EVENT: ("of scheduler events", any(map(perf.is_name, names))),
    }
    for feature, (text, is_there) in files.items():
        if is_there and feature not in info.features:
            message = f"there are files {text}, but the header does not list the feature {feature.name}"
            findings.add("info.missing-feature", place, message, file=INFO_FILE)
    promised = {
        Feature.KERNEL: ("any file of kernel events", has_kernel),
        Feature.DEBUG_INFO: ("a file of debug information", any(name.endswith(".dbg") for name in names)),
        Feature.ARGUMENT: ("argument specifications", InfoBit.ARG_SPEC in info.blocks),
        Feature.RETVAL: ("argument specifications", InfoBit.ARG_SPEC in info.blocks),
    }
    for feature, (text, is_there) in promised.items():
        if feature in info.features and not is_there:
            message = f"the header lists the feature {feature.name}, but {text} is not there"
            findings.add("info.missing-file", place, message, file=INFO_FILE)
    if Feature.TASK_SESSION not in info.features and (TEXT in names or BINARY in names):
        findings.add("info.no-session-bit", place, file=INFO_FILE)


def _check_specs(info: InfoFile, reading: SmallFiles) -> None:
    """Check the argument specifications, as far as readers do not."""
    findings, specs = reading.findings, reading.sessions.specs
    in_register = [rule.place for rule in specs.saved for value in rule.values if value.in_register]
    if in_register and InfoBit.CPUINFO not in info.blocks:
        findings.add("argspec.no-processor", in_register[0], file=INFO_FILE)
    saved = {(rule.text, value) for rule in specs.saved for value in rule.values}
    place = next((offset for offset, key, _ in info.placed_items() if key == "cmdline"), HEADER_SIZE)
    for rule in specs.triggers:
        if any((rule.text, value) not in saved for value in rule.values):
            message = f"the format of the return value of {rule.text[:60]!r} is only in the command line"
            findings.add("argspec.trigger-format", place, message, file=INFO_FILE)


# ---- the task file


def _check_task_file(reading: SmallFiles) -> None:
    """Check the sessions, tasks, forks and libraries."""
    file, findings = reading.sessions.file, reading.findings
    if not isinstance(file, TaskFile):
        findings.add("task.binary", 0, file=BINARY)
        return
    for offset, line in placed_lines(reading.directory.read(TEXT, Findings("uftrace")), TEXT, Findings("uftrace")):
        match = _FRACTION.match(line)
        if match and len(match[1]) != _NANOSECONDS:
            message = f"the fraction {match[1][:20]} is a number of nanoseconds, and should have nine digits"
            findings.add("task.time-digits", offset, message, file=TEXT)
    placed = list(zip(file.places, file.events, strict=True))
    sessions = [(place, event) for place, event in placed if isinstance(event, Session)]
    _check_sessions(sessions, findings)
    _check_relations(reading.sessions, placed, findings)
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
            message = f"the session of process {pid} begins after a task of the process"
            findings.add("task.session-late", place, message, file=TEXT)


def _check_sessions(sessions: list[tuple[int, Session]], findings: Findings) -> None:
    """Check the ids of sessions."""
    ids: set[str] = set()
    for place, session in sessions:
        if len(session.sid) != _SID:
            message = f"the session id {session.sid!r} does not have {_SID} characters"
            findings.add("task.session-id", place, message, file=TEXT)
        if session.sid in ids:
            message = f"two sessions have the id {session.sid!r}"
            findings.add("task.repeated-session", place, message, file=TEXT)
        ids.add(session.sid)


def _check_relations(sessions: Sessions, placed: list[tuple[int, TaskEvent]], findings: Findings) -> None:
    """Check that the sessions and processes to which lines refer exist."""
    ids = {session.sid for session in sessions.sessions}
    forks = {event.pid for _, event in placed if isinstance(event, Fork)}
    processes = {session.pid for session in sessions.sessions} | forks
    for place, event in placed:
        if isinstance(event, Dlopen) and event.sid not in ids:
            message = f"a library is loaded in the session {event.sid!r}, which does not exist"
            findings.add("task.unknown-session", place, message, file=TEXT)
        elif isinstance(event, Task) and event.pid not in processes:
            message = f"task {event.tid} belongs to process {event.pid}, which has no session"
            findings.add("task.no-session", place, message, file=TEXT)
        elif isinstance(event, Fork) and event.ppid not in processes and event.ppid not in sessions.tasks:
            message = f"process {event.pid} is a copy of {event.ppid}, which does not exist"
            findings.add("task.unknown-parent", place, message, file=TEXT)


# ---- maps and symbols


def _check_maps(reading: SmallFiles) -> None:
    """Check the maps of the sessions."""
    checked: set[str] = set()
    for session in reading.sessions.sessions:
        name = map_name(session.sid)
        if name in checked or name not in reading.directory:
            continue
        checked.add(name)
        findings = Findings("uftrace") if name in reading.sessions.parsed else reading.findings
        file = MapFile.parse(reading.directory.read(name, findings), name, findings)
        _check_map(file, name, reading.findings)
        module = next((module for module in file.modules if module.path == session.exename), None)
        if module is None:
            message = f"the program {session.exename[:60]!r} of session {session.sid} is not in its map"
            reading.findings.add("session.program-not-mapped", 0, message, file=name)
            continue
        base = module.path.rpartition("/")[2]
        if f"{base}.sym" not in reading.directory and reading.sessions.file_of(module, ".sym") is None:
            message = f"the program {module.path[:60]!r} has no symbol file"
            reading.findings.add("symbol.no-file", 0, message, file=name)


def _check_map(file: MapFile, name: str, findings: Findings) -> None:
    """Check the mappings of a map."""
    if file.kernel_base is None:
        findings.add("session.no-stack", 0, file=name)
    modules = []
    for place, mapping in zip(file.places, file.mappings, strict=True):
        if mapping.path.startswith("["):
            continue
        if mapping.end <= mapping.begin:
            message = f"the mapping ends at {mapping.end:x}, and begins at {mapping.begin:x}"
            findings.add("session.empty-mapping", place, message, file=name)
            continue
        if any(character.isspace() for character in mapping.path):
            message = f"the path {mapping.path[:60]!r} contains a space"
            findings.add("session.path-space", place, message, file=name)
        modules.append((mapping.begin, mapping.end, mapping.path, place))
    last: tuple[int, str] = (0, "")  # the mapping so far that ends last: its end and its path
    for begin, end, path, place in sorted(modules):
        if begin < last[0] and path != last[1]:
            message = f"the mapping overlaps with that of {last[1][:60]!r}"
            findings.add("session.overlap", place, message, file=name)
        last = max(last, (end, path), key=lambda each: each[0])


def _check_symbols(reading: SmallFiles) -> None:
    """Check the symbol files, and read those of debug information that no record needed."""
    for name in reading.directory.names:
        findings = Findings("uftrace") if name in reading.sessions.parsed else reading.findings
        if name.endswith(".dbg"):
            if name not in reading.sessions.parsed:
                DebugFile.parse(reading.directory.read(name, findings), name, findings)
        elif name.endswith(".sym"):
            _check_symbol_file(SymbolFile.parse(reading.directory.read(name, findings), name, findings), name, reading)


def _check_symbol_file(file: SymbolFile, name: str, reading: SmallFiles) -> None:
    """Check the symbols of a module."""
    findings = reading.findings
    count = sum(symbol.type != END for symbol in file.symbols)
    if file.count is not None and file.count != count:
        message = f"the heading says that there are {file.count:,} symbols; there are {count:,}"
        findings.add("symbol.count", 0, message, file=name)
    last, symbols = -1, set[tuple[int, str]]()
    for place, symbol in zip(file.places, file.symbols, strict=True):
        if symbol.type not in SYMBOL_TYPES:
            message = f"the symbol {symbol.name[:60]!r} has the type {symbol.type!r}"
            findings.add("symbol.type", place, message, file=name)
        if symbol.address < last:
            message = f"the symbol {symbol.name[:60]!r} is at a lower address than the one before it"
            findings.add("symbol.order", place, message, file=name)
        if (symbol.address, symbol.type) in symbols:
            message = f"the symbol {symbol.name[:60]!r} has the address and the type of another one"
            findings.add("symbol.repeated", place, message, file=name)
        last = symbol.address
        symbols.add((symbol.address, symbol.type))
    if file.symbols and file.symbols[-1].size is None:
        top = max(symbol.address for symbol in file.symbols)
        marks = [symbol for symbol in file.symbols if symbol.type == END or symbol.name in END_MARKS]
        if not any(mark.address == top for mark in marks):
            findings.add("symbol.no-end", file.places[-1], file=name)


# ---- events and messages


def _check_events(reading: SmallFiles) -> None:
    """Check the names of events."""
    names: dict[int, str] = {}
    for place, number, name in reading.events.places:
        if names.setdefault(number, name) != name:
            message = f"the event {number} has the names {names[number][:60]!r} and {name[:60]!r}"
            reading.findings.add("event.repeated-name", place, message, file=NAMES_FILE)
        if number < EventId.FIRST_USER:
            message = f"the id {number:,} is not that of a user event, from {EventId.FIRST_USER:,} on"
            reading.findings.add("event.reserved-id", place, message, file=NAMES_FILE)


def _check_messages(reading: SmallFiles) -> None:
    """Check the messages of `extern.dat`."""
    file = reading.extern
    placed = list(zip(file.places, file.messages, strict=True))
    for (_, before), (place, after) in pairwise(placed):
        if after.time < before.time:
            reading.findings.add("event.extern-order", place, file=EXTERN_FILE)
    for place, (_, text) in placed:
        size = byte_size(text)
        if size > MAX_MESSAGE:
            message = f"the message has {size:,} bytes, more than {MAX_MESSAGE:,}"
            reading.findings.add("event.extern-long", place, message, file=EXTERN_FILE)


MAX_DESCRIPTION = 4095
"""The largest number of bytes of a description of a kernel event that uftrace reads."""


def check_cpus(reading: SmallFiles) -> None:
    """Check the events of all CPUs; the findings of the reading get the faults."""
    last: dict[str, int] = {}
    for name, block in reading.perf_blocks():
        last[name] = _check_perf(block, name, last.get(name, 0), reading.findings)
    _check_kernel(reading)


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
        message = "there are kernel events, but no file that describes them"
        findings.add("kernel.no-header", 0, message, file=names[0])
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
