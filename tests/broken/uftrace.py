"""A broken uftrace directory for every rule: files by hand, read as a user reads them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import fxtio
from fxtio.finding import Findings

ENTRY, EXIT = range(2)
MAGIC = 5
MAIN, WORK = 0x400000, 0x400010
EXE_NAME, EXIT_STATUS, TASK_INFO, ARG_SPEC, PATTERN_TYPE = 1 << 0, 1 << 2, 1 << 7, 1 << 10, 1 << 12
PAGE = 4096
WHOLE_FILE = 1 << 26

Files = dict[str, bytes | None]


def info(*, version: int = 4, blocks: int = 0, tids: str = "1", specs: str = "", kind: str = "simple") -> bytes:
    blocks |= EXE_NAME | TASK_INFO | (ARG_SPEC | PATTERN_TYPE if specs else 0)
    header = struct.pack("<8sIHBBQQH6x", b"Ftrace!", version, 40, 1, 2, 0, blocks, 1024)
    lines = ["exename:/x/prog", "taskinfo:lines=2", "taskinfo:nr_tid=1", f"taskinfo:tids={tids}"]
    if specs:
        lines += ["argspec:lines=1", f"argspec:{specs}", f"pattern_type:{kind}"]
    return header + "\n".join([*lines, ""]).encode()


def record(time: int, kind: int, depth: int, address: int, payload: bytes = b"") -> bytes:
    more = bool(payload)
    return struct.pack("<QQ", time, kind | more << 2 | MAGIC << 3 | depth << 6 | address << 16) + payload


RECORDS = (
    record(1000, ENTRY, 0, MAIN),
    record(1010, ENTRY, 1, WORK),
    record(1020, EXIT, 1, WORK),
    record(1030, ENTRY, 1, WORK),
    record(1040, EXIT, 1, WORK),
    record(1050, EXIT, 0, MAIN),
)
MAP_NAME = "sid-0000000000000001.map"
SESSION = 'SESS timestamp=0.000000001 pid=1 sid=0000000000000001 exename="/x/prog"\n'
TASK = "TASK timestamp=0.000000001 tid=1 pid=1\n"
SYMBOLS = "0000000000000000 T main\n0000000000000010 T work\n0000000000000020 ? __sym_end\n"
MAP = "00400000-00401000 r-xp 00000000 00:00 0 /x/prog\n7ffe00000000-7fff00000000 rw-p 00000000 00:00 0 [stack]\n"
SOUND: Files = {
    "info": info(),
    "task.txt": (SESSION + TASK).encode(),
    MAP_NAME: MAP.encode(),
    "prog.sym": SYMBOLS.encode(),
    "1.dat": b"".join(RECORDS),
}


def read(folder: Path, files: Files | None = None, *, table: str = "", max_bytes: int | None = None) -> Findings:
    """Read all entries of a sound directory with some other files, or one table; return the findings.

    Args:
        folder: the directory.
        files: contents by name; None for a missing file.
        table: the table to read.
        max_bytes: the largest number of bytes to read.
    """
    for name, content in (SOUND | (files or {})).items():
        if content is not None:
            (folder / name).write_bytes(content)
    with fxtio.open(folder, format="uftrace", max_bytes=max_bytes) as trace:
        if table:
            trace.table(table)
        else:
            assert all(entry.record for entry in trace.entries())
        findings: Findings = trace.findings
    return findings


def too_large(folder: Path) -> Findings:
    (folder / "extern.dat").write_bytes(b"#")
    with (folder / "extern.dat").open("r+b") as file:
        file.truncate(WHOLE_FILE + 1)
    return read(folder, table="messages")


def a_directory(folder: Path) -> Findings:
    (folder / "2.dat").mkdir()
    return read(folder)


def task_message(folder: Path) -> Findings:
    task = struct.pack("<HHIQii", 0xFACE, 3, 16, 1, 1, 1)
    session = struct.pack("<HHIQii16s4xi8s", 0xFACE, 6, 48, 1, 1, 1, b"0000000000000001", 7, b"/x/prog")
    return read(folder, {"task.txt": None, "task": session + task + b"xyz"})


def too_many_libraries(folder: Path) -> Findings:
    load = 'DLOP timestamp=0.000000500 tid=1 sid=0000000000000001 base=500000 libname="/x/lib.so"\n'
    return read(folder, {"task.txt": (SESSION + TASK + load * 513).encode()})


def too_many_symbols(folder: Path) -> Findings:
    """Write many modules with the same file name, which share a symbol file without heading."""
    symbols, modules, size = 16_384, 257, 0x100000
    lines = [f"{16 * number:016x} T f{number}\n" for number in range(symbols)]
    begins = [0x400000 + size * number for number in range(modules)]
    mappings = [f"{at:08x}-{at + size:08x} r-xp 00000000 00:00 0 /{at:x}/prog\n" for at in begins]
    return read(folder, {MAP_NAME: "".join(mappings).encode(), "prog.sym": "".join(lines).encode()})


def too_many_modules(folder: Path) -> Findings:
    begins = range(0x400000, 0x400000 + 4097 * 0x1000, 0x1000)
    mappings = [f"{at:08x}-{at + 0x1000:08x} r-xp 00000000 00:00 0 /{at:x}/prog\n" for at in begins]
    return read(folder, {MAP_NAME: "".join(mappings).encode()})


def too_many_sessions(folder: Path) -> Findings:
    """Write 20 sessions with 16,384 symbols, and a task that moves from one to the next with each of its records."""
    times, symbols = range(1, 5001), [f"{16 * number:016x} T f{number}\n" for number in range(16_384)]
    lines = [
        f'SESS timestamp=0.{time:09d} pid=1 sid={time % 20:016x} exename="/x/prog"\n'
        f"TASK timestamp=0.{time:09d} tid=1 pid=1\n"
        for time in times
    ]
    maps: Files = {f"sid-{number:016x}.map": MAP.replace("00401000", "00500000").encode() for number in range(20)}
    records = b"".join(record(time, ENTRY, 0, MAIN) for time in times)
    task: Files = {"task.txt": "".join(lines).encode(), "prog.sym": "".join(symbols).encode(), "1.dat": records}
    return read(folder, maps | task)


def too_many_flags(folder: Path) -> Findings:
    enum = "enum flags {" + ",".join(f"F{bit}={1 << bit}" for bit in range(16)) + "}"
    specs = info(specs=f"work@arg1/e:flags\nenumauto:{enum}").replace(b"argspec:lines=1", b"argspec:lines=2")
    values = range(1 << 16)
    task = b"".join(record(1000 + value, ENTRY, 0, WORK, struct.pack("<Q", value)) for value in values)
    return read(folder, {"info": specs, "1.dat": task}, table="args")


def no_demangler(folder: Path) -> Findings:
    symbols = SYMBOLS.replace(" work", " _ZN1AIiE4workEi").encode()
    with patch("fxtio.uftrace.demangle._library", lambda: None):
        payload = record(1010, ENTRY, 1, WORK, bytes(8))
        specs = info(specs="work@arg1/i64")
        return read(folder, {"prog.sym": symbols, "info": specs, "1.dat": RECORDS[0] + payload})


def bad_magic(folder: Path) -> Findings:
    broken = bytearray(b"".join(RECORDS))
    broken[16 + 8] ^= MAGIC << 3
    return read(folder, {"1.dat": bytes(broken)})


def kernel_page(folder: Path, commit: int, body: bytes = b"") -> Findings:
    page = struct.pack("<QQ", 1000, commit) + body
    return read(folder, {"kernel-cpu0.dat": page.ljust(PAGE, b"\0")}, table="kernel")


def overlapping_fields(folder: Path) -> Findings:
    """Write an event of 12 bytes with 24 fields at the same place."""
    fields = "".join(f"\tfield:char f{number}[4];\toffset:8;\tsize:4;\tsigned:0;\n" for number in range(24))
    text = f"name: odd\nID: 300\nformat:\n{fields}".encode()
    block = b"TRACEFS: events/x/odd/format: %d\n" % len(text)
    header = b"PAGE_SIZE: 4096\nLONG_SIZE: 8\nENDIAN: LE\n" + block + text
    body = struct.pack("<IHHi4s", 3, 300, 0, 1, b"text")
    page = struct.pack("<QQ", 1000, len(body)) + body
    files: Files = {"kernel_header": header, "kernel-cpu0.dat": page.ljust(PAGE, b"\0")}
    return read(folder, files, table="kernel_values")


def lines(name: str, text: str, table: str = "") -> Callable[[Path], Findings]:
    """Return a case that appends a line to a file."""
    content = (SOUND.get(name) or b"") + text.encode()
    return lambda folder: read(folder, {name: content}, table=table)


PATTERNS = ";".join(f"work{number}.*@arg1" for number in range(257))

CASES: dict[str, Callable[[Path], Findings]] = {
    "uftrace.info.header": lambda folder: read(folder, {"info": b"Ftrace!\0"}),
    "uftrace.info.magic": lambda folder: read(folder, {"info": b"ftrace" + info()[6:]}),
    "uftrace.info.version": lambda folder: read(folder, {"info": info(version=9)}),
    "uftrace.info.block": lambda folder: read(folder, {"info": info(blocks=EXIT_STATUS)}),
    "uftrace.directory.line-ends": lambda folder: read(folder, {"prog.sym": SYMBOLS.replace("\n", "\r\n").encode()}),
    "uftrace.directory.file-too-large": too_large,
    "uftrace.directory.not-a-file": a_directory,
    "uftrace.directory.no-task-file": lambda folder: read(folder, {"info": info(tids="1,2")}),
    "uftrace.info.unlisted-task": lambda folder: read(folder, {"info": info(tids="")}),
    "uftrace.task.none": lambda folder: read(folder, {"task.txt": None}),
    "uftrace.task.unknown": lambda folder: read(folder, {"task.txt": SESSION.encode()}),
    "uftrace.task.line": lines("task.txt", "NONE timestamp=0.000000001\n"),
    "uftrace.task.message": task_message,
    "uftrace.session.too-many-libraries": too_many_libraries,
    "uftrace.symbol.too-many": too_many_symbols,
    "uftrace.session.too-many-modules": too_many_modules,
    "uftrace.session.too-many": too_many_sessions,
    "uftrace.session.no-map": lambda folder: read(folder, {MAP_NAME: None}),
    "uftrace.session.map-line": lines(MAP_NAME, "no mapping\n"),
    "uftrace.symbol.line": lines("prog.sym", "no symbol\n"),
    "uftrace.symbol.debug-line": lines("prog.dbg", "no function\n"),
    "uftrace.event.line": lines("events.txt", "no event\n"),
    "uftrace.event.extern-line": lines("extern.dat", "no time\n", "messages"),
    "uftrace.symbol.other-module": lambda folder: read(
        folder, {"prog.sym": b"# path name: /y/prog\n" + SYMBOLS.encode()}
    ),
    "uftrace.argspec.invalid": lambda folder: read(folder, {"info": info(specs="work@arg1/q")}),
    "uftrace.argspec.pattern": lambda folder: read(folder, {"info": info(specs="(work@arg1/i32", kind="regex")}),
    "uftrace.argspec.too-much-work": lambda folder: read(folder, {"info": info(specs=PATTERNS, kind="regex")}),
    "uftrace.argspec.no-demangler": no_demangler,
    "uftrace.argspec.too-many-flags": too_many_flags,
    "uftrace.record.magic": bad_magic,
    "uftrace.record.payload-unknown": lambda folder: read(folder, {"1.dat": record(1000, ENTRY, 0, MAIN, b"whatever")}),
    "uftrace.time.backwards": lambda folder: read(folder, {"1.dat": RECORDS[1] + RECORDS[0]}),
    "uftrace.time.overflow": lambda folder: read(folder, {"1.dat": record(2**64 - 1, ENTRY, 0, MAIN)}),
    "uftrace.record.truncated": lambda folder: read(folder, {"1.dat": b"".join(RECORDS)[:-3]}),
    "uftrace.source.cut": lambda folder: read(folder, max_bytes=20),
    "uftrace.kernel.header": lambda folder: read(folder, {"kernel_header": b"PAGE"}, table="kernel"),
    "uftrace.kernel.page": lambda folder: kernel_page(folder, commit=PAGE),
    "uftrace.kernel.entry": lambda folder: kernel_page(folder, commit=8, body=struct.pack("<II", 20, 0)),
    "uftrace.kernel.fields": overlapping_fields,
    "uftrace.kernel.missed": lambda folder: kernel_page(folder, commit=1 << 31),
    "uftrace.perf.record": lambda folder: read(folder, {"perf-cpu0.dat": b"123"}, table="sched"),
}
