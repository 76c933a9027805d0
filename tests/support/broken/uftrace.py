"""Directories that break one rule each: those about limits, and those that lead uftrace astray.

Each begins as a sound directory of the writer, of which a file is then changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fxtio.finding import Findings
from fxtio.uftrace import kernel
from fxtio.uftrace.directory import MAX_WHOLE_FILE
from fxtio.uftrace.enums import EventId
from fxtio.uftrace.events import EXTERN_FILE
from fxtio.uftrace.info import INFO_FILE, InfoFile
from fxtio.uftrace.layout import DEPTHS, Feature, InfoBit
from fxtio.uftrace.records import Event, FunctionEntry, FunctionExit, encode
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


def _many_patterns(path: Path) -> None:
    patterns = ";".join(f"work{number}.*@arg1" for number in range(257))
    _edited(INFO_FILE, "argspec:work@arg1/i32", f"argspec:{patterns}", arguments="arg1/i32")(path)
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


def _times(session: int, task: int) -> Break:
    """Return a function that sets the times of the session and of the task."""

    def write(path: Path) -> None:
        _write(path)
        lines = (path / TEXT).read_text().split("\n")
        for number, time in enumerate((session, task)):
            lines[number] = lines[number].replace(stamp(_CALLS[0].time), stamp(time))
        (path / TEXT).write_text("\n".join(lines))

    return write


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


def _wrapped(path: Path) -> None:
    with UftraceWriter(path, program=_PROGRAM, command="prog") as writer:
        depths = np.arange(DEPTHS + 1)[::-1]
        writer.write_table("slices", {
            "tid": _TID, "name": "main", "start": 1000 + depths, "duration": 2 * (DEPTHS + 1 - depths), "depth": depths,
        })  # fmt: skip
    info = InfoFile.parse((path / INFO_FILE).read_bytes(), Findings("uftrace"))
    info.max_stack = 2 * DEPTHS
    (path / INFO_FILE).write_bytes(info.to_bytes())


# ---- kernel events


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


_TABLE: dict[str, Break] = {
    "info.no-date": _without_block(InfoBit.RECORD_DATE, "record_date", "elapsed_time"),
    "info.no-session-bit": _info(lambda info: setattr(info, "features", info.features & ~Feature.TASK_SESSION)),
    "info.unlisted-task": _edited(INFO_FILE, "nr_tid=1\ntaskinfo:tids=1", "nr_tid=0\ntaskinfo:tids="),
    "directory.file-too-large": _too_large,
    "task.session-late": _times(session=900, task=800),
    "task.late": _times(session=1000, task=1015),
    "session.no-stack": _no_stack,
    "session.path-space": _path_with_space,
    "session.too-many-libraries": _appended(
        TEXT,
        f'DLOP timestamp={stamp(2000)} tid=1 sid={_SID} base=500000 libname="/x/lib.so"\n' * (MAX_LIBRARIES + 1),
    ),
    "session.too-many-modules": _many_modules,
    "session.too-many": _many_sessions,
    "symbol.too-many": _many_symbols,
    "symbol.no-file": _without(_SYM),
    "symbol.no-end": _symbols(*_FUNCTIONS[:-1]),
    "argspec.too-much-work": _many_patterns,
    "argspec.no-demangler": _mangled,
    "argspec.too-many-flags": _many_flags,
    "argspec.no-processor": _without_block(InfoBit.CPUINFO, "cpuinfo", arguments="arg1/i32%rdi"),
    "record.wrapped-depth": _wrapped,
    "source.cut": _write,
    "kernel.long-description": _described(f"{_COMMON}print fmt: {'x' * 5000}\n", _ODD_DATA),
}  # fmt: skip

BREAKS: dict[str, Break] = {f"uftrace.{name}": write for name, write in _TABLE.items()}
"""The functions that write a directory that breaks a rule, by the id of the rule.

`uftrace.source.cut` is broken if less than the whole trace may be read (`max_bytes`), `uftrace.argspec.no-demangler` if
the extra `demangle` is not installed.
"""
