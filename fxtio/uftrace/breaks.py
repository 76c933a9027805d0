"""A small directory for each rule that breaks this rule, and no other one.

Each begins as a sound directory of the writer, of which a file is then changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fxtio.finding import Findings
from fxtio.uftrace import kernel, perf, tracefs
from fxtio.uftrace.directory import MAX_WHOLE_FILE
from fxtio.uftrace.enums import EventId, PerfType, RingType
from fxtio.uftrace.events import EXTERN_FILE, MAX_MESSAGE, NAMES_FILE, payload_of
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import DEPTHS, PERF_HEADER, PERF_SAMPLE, Feature, InfoBit
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, Lost, encode
from fxtio.uftrace.state import MAX_LIBRARIES, MAX_MODULES, MAX_SYMBOLS
from fxtio.uftrace.tasks import TEXT, stamp
from fxtio.uftrace.values import MAX_COMBINED
from fxtio.uftrace.writer import UftraceWriter

Break = Callable[[Path], None]
"""Writes a broken directory at a path."""

_PROGRAM, _TID, _SID = "/x/prog", 1, "0000000000000001"
_MAIN, _WORK, _UNKNOWN = 0x40_0000, 0x40_0010, 0x50_0000
_USER_EVENT = int(EventId.FIRST_USER)
_DAT, _SYM, _MAP, _PERF, _KERNEL = f"{_TID}.dat", "prog.sym", f"sid-{_SID}.map", "perf-cpu0.dat", "kernel-cpu0.dat"
_WAKEUP = "sched:sched_wakeup"
_CALLS = (
    FunctionEntry(1000, 0, _MAIN), FunctionEntry(1010, 1, _WORK), FunctionExit(1020, 1, _WORK),
    FunctionEntry(1030, 1, _WORK), FunctionExit(1040, 1, _WORK), Event(1045, 0, _USER_EVENT),
    FunctionExit(1050, 0, _MAIN),
)  # fmt: skip


def _write(
    path: Path, *, arguments: str = "", command: str = "prog", use: Callable[[Any], object] | None = None
) -> None:
    """Write a sound directory: a task that calls functions and has a user event.

    Args:
        path: the directory.
        arguments: the specification of the arguments of the function `work`.
        command: the command line.
        use: writes more, given the writer.
    """
    with UftraceWriter(path, program=_PROGRAM, command=command) as writer:
        writer.function("main")
        writer.function("work", arguments=arguments)
        writer.function("unused")
        writer.event_id("provider:name")
        task = writer.task(_TID)
        task.enter("main", _CALLS[0].time)
        for record in _CALLS[1:]:
            writer.put(record, tid=_TID)
        if use is not None:
            use(writer)


def _edit(path: Path, name: str, old: str, new: str) -> None:
    """Replace a text in a file, which must have it."""
    raw = (path / name).read_bytes()
    if old.encode() not in raw:
        raise ValueError(f"{name} has no {old!r}")
    (path / name).write_bytes(raw.replace(old.encode(), new.encode(), 1))


def _edited(name: str, old: str, new: str, **options: Any) -> Break:
    """Return a function that replaces a text in a file."""

    def write(path: Path) -> None:
        _write(path, **options)
        _edit(path, name, old, new)

    return write


def _appended(name: str, text: str) -> Break:
    """Return a function that appends a text to a file, which may be new."""

    def write(path: Path) -> None:
        _write(path)
        with (path / name).open("ab") as file:
            file.write(text.encode())

    return write


def _without(name: str, **options: Any) -> Break:
    """Return a function that removes a file."""

    def write(path: Path) -> None:
        _write(path, **options)
        (path / name).unlink()

    return write


def _info(change: Callable[[InfoFile], object], **options: Any) -> Break:
    """Return a function that changes the info file."""

    def write(path: Path) -> None:
        _write(path, **options)
        info = InfoFile.parse((path / INFO_FILE).read_bytes(), Findings("uftrace"))
        change(info)
        (path / INFO_FILE).write_bytes(info.to_bytes())

    return write


def _field(name: str, value: Any) -> Break:
    """Return a function that sets a field of the header of the info file."""
    return _info(lambda info: setattr(info, name, value))


def _without_block(bit: InfoBit, *keys: str, **options: Any) -> Break:
    """Return a function that removes a block of the info file: its bit and its lines."""

    def change(info: InfoFile) -> None:
        info.blocks &= ~bit
        info.lines = [line for line in info.lines if line.partition(":")[0] not in keys]

    return _info(change, **options)


def _records(*records: Any, **options: Any) -> Break:
    """Return a function that writes other records."""

    def write(path: Path) -> None:
        _write(path, **options)
        (path / _DAT).write_bytes(b"".join(map(encode, records)))

    return write


# ---- the info file


def _cut_info(path: Path) -> None:
    _write(path)
    (path / INFO_FILE).write_bytes((path / INFO_FILE).read_bytes()[:8])


def _block_order(info: InfoFile) -> None:
    program, command, *rest = info.lines
    info.lines = [command, program, *rest]


def _build_id(info: InfoFile) -> None:
    info.blocks |= InfoBit.EXE_BUILD_ID
    info.lines.insert(1, "build_id:abcd")


def _many_patterns(path: Path) -> None:
    patterns = ";".join(f"work{number}.*@arg1" for number in range(257))
    _edited(INFO_FILE, "argspec:work@arg1/i32", f"argspec:{patterns}", arguments="arg1/i32")(path)
    _edit(path, INFO_FILE, "pattern_type:simple", "pattern_type:regex")


def _bad_pattern(path: Path) -> None:
    _edited(INFO_FILE, "argspec:work", "argspec:(work", arguments="arg1/i32")(path)
    _edit(path, INFO_FILE, "pattern_type:simple", "pattern_type:regex")


def _many_flags(path: Path) -> None:
    """Write values that are combinations of flags, two of them with each number of flags that are set."""
    flags = {f"F{bit}": 1 << bit for bit in range(16)}
    values = 2 * MAX_COMBINED

    def use(writer: UftraceWriter) -> None:
        writer.enum("flags", flags)
        function = writer.function("take", arguments="arg1/e:flags")
        task = writer.task(_TID)
        kind, depth = np.tile([0, 1], values), np.zeros(2 * values, np.int64)
        payload = [raw for value in range(values) for raw in (value.to_bytes(8, "little"), None)]
        task.write_records(
            type=kind, time=np.arange(2000, 2000 + 2 * values), depth=depth, function=([function], depth),
            payload=payload,
        )  # fmt: skip

    _write(path, use=use)


def _mangled(path: Path) -> None:
    """Write a C++ name with an argument specification, which cannot be matched without a demangler."""
    call = FunctionEntry(1010, 1, _WORK, bytes(8))
    _records(_CALLS[0], call, *_CALLS[2:], arguments="arg1/i64")(path)
    _edit(path, _SYM, " work", " _ZN1AIiE4workEi")


# ---- the directory, tasks and sessions


def _too_large(path: Path) -> None:
    _write(path)
    with (path / EXTERN_FILE).open("wb") as file:
        file.write(b"#")
        file.truncate(MAX_WHOLE_FILE + 1)


def _line_ends(path: Path) -> None:
    _write(path)
    raw = (path / _SYM).read_bytes()
    (path / _SYM).write_bytes(raw.replace(b"\n", b"\r\n"))


def _a_directory(path: Path) -> None:
    _write(path)
    (path / "2.dat").mkdir()


def _binary(path: Path) -> None:
    with UftraceWriter(path, program=_PROGRAM, version=3) as writer:
        task = writer.task(_TID)
        task.enter("main", 1000)
        task.leave(1010)


def _binary_message(path: Path) -> None:
    _binary(path)
    with (path / "task").open("ab") as file:
        file.write(b"xyz")


def _times(session: int, task: int) -> Break:
    """Return a function that sets the times of the session and of the task."""

    def write(path: Path) -> None:
        _write(path)
        lines = (path / TEXT).read_text().split("\n")
        for number, time in enumerate((session, task)):
            lines[number] = lines[number].replace(stamp(_CALLS[0].time), stamp(time))
        (path / TEXT).write_text("\n".join(lines))

    return write


def _short_id(path: Path) -> None:
    _edited(TEXT, f"sid={_SID}", "sid=01")(path)
    (path / _MAP).rename(path / "sid-01.map")


def _mapping(begin: int, end: int, name: str) -> str:
    return f"{begin:08x}-{end:08x} r-xp 00000000 00:00 0 {name}\n"


def _path_with_space(path: Path) -> None:
    _edited(_MAP, _PROGRAM, "/x y/prog")(path)
    _edit(path, TEXT, _PROGRAM, "/x y/prog")


def _no_stack(path: Path) -> None:
    _write(path)
    lines = (path / _MAP).read_text().splitlines(keepends=True)
    (path / _MAP).write_text("".join(line for line in lines if "[stack]" not in line))


def _many_modules(path: Path) -> None:
    """Write modules with the same file name, which share the symbol file without a heading."""
    size = 0x1000
    begins = range(_MAIN + size, _MAIN + (MAX_MODULES + 1) * size, size)
    _appended(_MAP, "".join(_mapping(begin, begin + size, f"/{begin:x}/prog") for begin in begins))(path)


def _symbol_lines(number: int) -> str:
    return "".join(f"{16 * row:016x} T f{row}\n" for row in range(number)) + f"{16 * number:016x} ? __sym_end\n"


def _many_symbols(path: Path) -> None:
    """Write modules with the same file name, which share the symbol file without a heading."""
    symbols, size = 1 << 14, 0x10_0000
    begins = range(_MAIN + size, _MAIN + (MAX_SYMBOLS // symbols + 1) * size, size)
    _appended(_MAP, "".join(_mapping(begin, begin + size, f"/{begin:x}/prog") for begin in begins))(path)
    (path / _SYM).write_text(_symbol_lines(symbols))


def _many_sessions(path: Path) -> None:
    """Write sessions with many symbols, and a task that moves from one to the next with each of its records."""
    times, processes = range(1, 5001), range(1, 21)
    records = [FunctionEntry(1000 + time, 0, _MAIN) for time in times]
    _records(*records)(path)
    lines = [f'SESS timestamp={stamp(1)} pid={pid} sid={pid:016x} exename="{_PROGRAM}"\n' for pid in processes]
    lines += [f"TASK timestamp={stamp(1)} tid={100 + pid} pid={pid}\n" for pid in processes]
    lines += [f"TASK timestamp={stamp(1000 + time)} tid=1 pid={1 + time % len(processes)}\n" for time in times]
    (path / TEXT).write_text("".join(lines))
    mapping = (path / _MAP).read_text().replace("00401000", "00500000")
    for pid in processes:
        (path / f"sid-{pid:016x}.map").write_text(mapping)
    (path / _SYM).write_text(_symbol_lines(1 << 14))


# ---- symbols and records


def _symbols(*lines: str) -> Break:
    """Return a function that writes a symbol file."""

    def write(path: Path) -> None:
        _write(path)
        (path / _SYM).write_text("".join(f"{line}\n" for line in lines))

    return write


_FUNCTIONS = (f"{0:016x} T main", f"{16:016x} T work", f"{32:016x} T unused", f"{48:016x} ? __sym_end")


def _no_magic(path: Path) -> None:
    _write(path)
    raw = bytearray((path / _DAT).read_bytes())
    raw[16 * 3 + 8] = 0
    (path / _DAT).write_bytes(raw)


def _truncated(path: Path) -> None:
    _write(path)
    (path / _DAT).write_bytes((path / _DAT).read_bytes()[:-3])


def _wrapped(path: Path) -> None:
    with UftraceWriter(path, program=_PROGRAM, command="prog") as writer:
        depths = np.arange(DEPTHS + 1)[::-1]
        writer.write_table("slices", {
            "tid": _TID, "name": "main", "start": 1000 + depths, "duration": 2 * (DEPTHS + 1 - depths), "depth": depths,
        })  # fmt: skip
    info = InfoFile.parse((path / INFO_FILE).read_bytes(), Findings("uftrace"))
    info.max_stack = 2 * DEPTHS
    (path / INFO_FILE).write_bytes(info.to_bytes())


# ---- the files of CPUs


def _perf(*raws: bytes) -> Break:
    """Return a function that writes a file of scheduler events."""

    def use(writer: UftraceWriter) -> None:
        writer.sched(0, perf.PerfEvent(1000, _TID, _TID, "sched-out"))
        writer.file(_PERF, b"".join(raws))

    return lambda path: _write(path, use=use)


def _switch(time: int) -> bytes:
    return perf.build(perf.PerfEvent(time, _TID, _TID, "sched-in"))


def _long_switch() -> bytes:
    header, sample = np.zeros(1, PERF_HEADER), np.zeros(1, PERF_SAMPLE)
    size = PERF_HEADER.itemsize + 8 + PERF_SAMPLE.itemsize
    header["type"], header["size"], sample["time"] = PerfType.SWITCH, size, 1000
    return header.tobytes() + bytes(8) + sample.tobytes()


def _kernel_events(writer: UftraceWriter) -> None:
    writer.kernel_event(0, 1000, _TID, _WAKEUP, comm="prog", pid=_TID)


def _kernel(pages: Callable[[kernel.KernelHeader, bytes], bytes]) -> Break:
    """Return a function that writes a file of kernel events, given their descriptions and the data of one event."""
    layout = kernel.parse_format(tracefs.DESCRIPTIONS[_WAKEUP])
    assert layout is not None
    data = kernel.build_data(layout, _TID, {"comm": "prog", "pid": _TID})

    def use(writer: UftraceWriter) -> None:
        _kernel_events(writer)
        writer.file(_KERNEL, pages(kernel.KernelHeader(), data))

    return lambda path: _write(path, use=use)


def _page(entries: bytes, commit: int) -> bytes:
    """Return a page of the ring buffer with a size that it claims."""
    size = kernel.KernelHeader().page_size
    return ((1000).to_bytes(8, "little") + commit.to_bytes(8, "little") + entries).ljust(size, b"\0")


def _page_over_end(header: kernel.KernelHeader, data: bytes) -> bytes:
    whole = kernel.build_pages([(1000, data)], header)
    used = int.from_bytes(whole[8:16], "little")
    end = int(RingType.PADDING).to_bytes(4, "little")
    return _page(whole[16 : 16 + used] + end, header.page_size)


def _entry_over_end(header: kernel.KernelHeader, data: bytes) -> bytes:
    return _page((20).to_bytes(4, "little") + bytes(4), 8)


def _back_in_time(header: kernel.KernelHeader, data: bytes) -> bytes:
    return kernel.build_pages([(1000, data)], header) + kernel.build_pages([(500, data)], header)


def _undescribed(header: kernel.KernelHeader, data: bytes) -> bytes:
    return kernel.build_pages([(1000, (999).to_bytes(2, "little") + data[2:])], header)


def _described(text: str, data: bytes) -> Break:
    """Return a function that writes a kernel event with a description of its own."""
    description = f"name: odd\nID: 400\nformat:\n{text}"

    def use(writer: UftraceWriter) -> None:
        writer.kernel_format("x", description)
        writer.file(_KERNEL, kernel.build_pages([(1000, data)], kernel.KernelHeader()))

    return lambda path: _write(path, use=use)


_COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
)
_ODD_DATA = (400).to_bytes(4, "little") + _TID.to_bytes(4, "little") + b"text"
_OVERLAPPING = "".join(f"\tfield:char f{number}[4];\toffset:8;\tsize:4;\tsigned:0;\n" for number in range(24))


def _half_description(path: Path) -> None:
    _write(path, use=_kernel_events)
    with (path / kernel.HEADER_FILE).open("ab") as file:
        file.write(b"TRACEFS: events/x/y/format: 100\nname: y\n")


_TABLE: dict[str, Break] = {
    "info.header": _cut_info,
    "info.magic": _field("magic", b"ftrace!\0"),
    "info.version": _field("version", 9),
    "info.header-size": _field("header_size", 48),
    "info.word-class": _field("word_class", 3),
    "info.unknown-features": _info(lambda info: setattr(info, "features", info.features | Feature(1 << 40))),
    "info.unknown-blocks": _info(lambda info: setattr(info, "blocks", info.blocks | InfoBit(1 << 40))),
    "info.reserved-bytes": _field("reserved", b"\1\0\0\0\0\0"),
    "info.block": _info(lambda info: setattr(info, "blocks", info.blocks | InfoBit.EXIT_STATUS)),
    "info.block-order": _info(_block_order),
    "info.unlisted-block": _info(lambda info: info.lines.insert(-1, "utc_offset:5")),
    "info.line-count": _edited(INFO_FILE, "taskinfo:lines=2", "taskinfo:lines=3"),
    "info.no-task-list": _without_block(InfoBit.TASKINFO, "taskinfo"),
    "info.task-count": _edited(INFO_FILE, "nr_tid=1", "nr_tid=2"),
    "info.build-id": _info(_build_id),
    "info.no-program": _without_block(InfoBit.EXE_NAME, "exename"),
    "info.no-command": _without_block(InfoBit.CMDLINE, "cmdline"),
    "info.no-date": _without_block(InfoBit.RECORD_DATE, "record_date", "elapsed_time"),
    "info.no-session-bit": _info(lambda info: setattr(info, "features", info.features & ~Feature.TASK_SESSION)),
    "info.missing-feature": _info(lambda info: setattr(info, "features", info.features & ~Feature.EVENT)),
    "info.missing-file": _info(lambda info: setattr(info, "features", info.features | Feature.DEBUG_INFO)),
    "info.unlisted-task": _edited(INFO_FILE, "nr_tid=1\ntaskinfo:tids=1", "nr_tid=0\ntaskinfo:tids="),
    "directory.line-ends": _line_ends,
    "directory.file-too-large": _too_large,
    "directory.not-a-file": _a_directory,
    "directory.no-task-file": _edited(INFO_FILE, "nr_tid=1\ntaskinfo:tids=1", "nr_tid=2\ntaskinfo:tids=1,2"),
    "task.none": _without(TEXT),
    "task.unknown": _edited(TEXT, f"TASK timestamp={stamp(1000)} tid=1", f"TASK timestamp={stamp(1000)} tid=2"),
    "task.line": _appended(TEXT, "NONE timestamp=0.000000001\n"),
    "task.message": _binary_message,
    "task.binary": _binary,
    "task.session-late": _times(session=900, task=800),
    "task.late": _times(session=1000, task=1015),
    "task.time-digits": _edited(TEXT, f"SESS timestamp={stamp(1000)}", "SESS timestamp=0.1"),
    "task.session-id": _short_id,
    "task.repeated-session": _appended(TEXT, f'SESS timestamp={stamp(2000)} pid=2 sid={_SID} exename="{_PROGRAM}"\n'),
    "task.no-session": _appended(TEXT, f"TASK timestamp={stamp(2000)} tid=2 pid=2\n"),
    "task.unknown-parent": _appended(TEXT, f"FORK timestamp={stamp(2000)} pid=3 ppid=2\n"),
    "task.unknown-session": _appended(
        TEXT, f'DLOP timestamp={stamp(2000)} tid=1 sid={2:016x} base=500000 libname="/x/lib.so"\n'
    ),
    "session.no-map": _without(_MAP),
    "session.map-line": _appended(_MAP, "no mapping\n"),
    "session.no-stack": _no_stack,
    "session.path-space": _path_with_space,
    "session.empty-mapping": _appended(_MAP, _mapping(_UNKNOWN, _UNKNOWN, "/x/lib.so")),
    "session.overlap": _appended(_MAP, _mapping(_MAIN + 0x800, _UNKNOWN, "/x/lib.so")),
    "session.program-not-mapped": _edited(TEXT, _PROGRAM, "/x/other"),
    "session.too-many-libraries": _appended(
        TEXT,
        f'DLOP timestamp={stamp(2000)} tid=1 sid={_SID} base=500000 libname="/x/lib.so"\n' * (MAX_LIBRARIES + 1),
    ),
    "session.too-many-modules": _many_modules,
    "session.too-many": _many_sessions,
    "symbol.too-many": _many_symbols,
    "symbol.line": _appended(_SYM, "no symbol\n"),
    "symbol.debug-line": _appended("prog.dbg", "no function\n"),
    "symbol.other-module": _symbols("# path name: /y/prog", *_FUNCTIONS),
    "symbol.no-file": _without(_SYM),
    "symbol.no-end": _symbols(*_FUNCTIONS[:-1]),
    "symbol.order": _symbols(_FUNCTIONS[1], _FUNCTIONS[0], *_FUNCTIONS[2:]),
    "symbol.repeated": _symbols(_FUNCTIONS[0], f"{0:016x} T other", *_FUNCTIONS[1:]),
    "symbol.type": _symbols(*_FUNCTIONS[:2], f"{32:016x} X unused", _FUNCTIONS[3]),
    "symbol.count": _symbols("# symbols: 9", *_FUNCTIONS),
    "event.line": _appended(NAMES_FILE, "no event\n"),
    "event.extern-line": _appended(EXTERN_FILE, "no time\n"),
    "event.extern-order": _appended(EXTERN_FILE, f"{stamp(1035)} late\n{stamp(1005)} early\n"),
    "event.extern-long": _appended(EXTERN_FILE, f"{stamp(1005)} {'x' * (MAX_MESSAGE + 1)}\n"),
    "event.repeated-name": _appended(NAMES_FILE, f"EVENT: {_USER_EVENT} provider:other\n"),
    "event.reserved-id": _appended(NAMES_FILE, "EVENT: 500 provider:other\n"),
    "event.kernel-id": _records(*_CALLS, Event(2000, 0, 50)),
    "event.unknown-id": _records(*_CALLS, Event(2000, 0, _USER_EVENT + 9)),
    "event.data": _records(*_CALLS[:2], Event(1015, 0, _USER_EVENT, payload_of(b"data")), *_CALLS[2:]),
    "event.size": _records(*_CALLS, Event(2000, 0, EventId.READ_STATM, payload_of(bytes(8)))),
    "event.depth": _records(*_CALLS, Event(2000, 3, _USER_EVENT)),
    "argspec.invalid": _edited(INFO_FILE, "work@arg1/i32", "work@arg1/q", arguments="arg1/i32"),
    "argspec.pattern": _bad_pattern,
    "argspec.too-much-work": _many_patterns,
    "argspec.no-demangler": _mangled,
    "argspec.too-many-flags": _many_flags,
    "argspec.no-processor": _without_block(InfoBit.CPUINFO, "cpuinfo", arguments="arg1/i32%rdi"),
    "argspec.trigger-format": lambda path: _write(path, command="uftrace record -T work@retval/s prog"),
    "record.magic": _no_magic,
    "record.payload-unknown": _records(FunctionEntry(1000, 0, _MAIN, b"whatever"), *_CALLS[1:]),
    "record.truncated": _truncated,
    "record.payload-too-long": _records(
        _CALLS[0], FunctionEntry(1010, 1, _WORK, bytes(1600)), *_CALLS[2:3], *_CALLS[5:],
        arguments="arg1/t800,arg2/t800",
    ),
    "record.exit-without-entry": _records(FunctionExit(1000, 0, _WORK), *_CALLS),
    "record.entry-without-exit": _records(*_CALLS[:2], *_CALLS[3:]),
    "record.depth-jump": _records(_CALLS[0], FunctionEntry(1010, 2, _WORK), FunctionExit(1020, 2, _WORK), *_CALLS[3:]),
    "record.first-depth": _records(FunctionEntry(1000, 1, _MAIN), FunctionExit(1010, 1, _MAIN)),
    "record.lower-exits": _records(
        *(FunctionEntry(1000, 1, _MAIN), FunctionEntry(1010, 2, _WORK)),
        *(FunctionExit(1020, 1, _WORK), FunctionExit(1030, 0, _MAIN)),
    ),
    "record.wrapped-depth": _wrapped,
    "record.too-deep": _field("max_stack", 1),
    "record.unknown-function": _records(*_CALLS, FunctionEntry(1060, 0, _UNKNOWN), FunctionExit(1070, 0, _UNKNOWN)),
    "record.lost": _records(*_CALLS, Lost(0, 0, 5)),
    "record.lost-time": _records(*_CALLS, Lost(2000, 0, 5)),
    "time.backwards": _records(*_CALLS[:2], FunctionExit(1005, 1, _WORK), *_CALLS[3:]),
    "time.overflow": _records(*_CALLS[:-1], FunctionExit((1 << 64) - 1, 0, _MAIN)),
    "source.cut": _write,
    "kernel.header": _half_description,
    "kernel.no-header": _without(kernel.HEADER_FILE, use=_kernel_events),
    "kernel.long-description": _described(f"{_COMMON}print fmt: {'x' * 5000}\n", _ODD_DATA),
    "kernel.page": _kernel(_page_over_end),
    "kernel.entry": _kernel(_entry_over_end),
    "kernel.fields": _described(_COMMON + _OVERLAPPING, _ODD_DATA),
    "kernel.undescribed-event": _kernel(_undescribed),
    "kernel.time-backwards": _kernel(_back_in_time),
    "kernel.no-symbols": _without(
        kernel.SYMBOLS_FILE, use=lambda writer: writer.kernel_enter(0, 1000, _TID, "ksys_read")
    ),
    "kernel.missed": _kernel(lambda header, data: kernel.build_pages([(1000, data)], header, {0})),
    "perf.record": _perf(_switch(1000), b"123"),
    "perf.size": _perf(_long_switch()),
    "perf.time-backwards": _perf(_switch(1000), _switch(500)),
}  # fmt: skip

BREAKS: dict[str, Break] = {f"uftrace.{name}": write for name, write in _TABLE.items()}
"""The functions that write a directory that breaks a rule, by the id of the rule.

`uftrace.source.cut` is broken if less than the whole trace may be read (`max_bytes`), `uftrace.argspec.no-demangler` if
the extra `demangle` is not installed.

:meta hide-value:
"""
