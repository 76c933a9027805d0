"""The fuzz target of the uftrace reader: reading any files in a directory neither crashes nor loses records.

An input holds the files of a directory: for each file its name, a NUL, the size in four bytes, the content.

Checked for each input: no reading raises an error, except that the directory is not one of uftrace (and in strict mode
a `DecodeError`, exactly if there are findings); every file is copied to the same bytes; no byte of a task's file is
missing in its records; tables have as many rows as there are records; without findings, small blocks give the same
result; everything that the commands print can be made; a check against all rules finds what reading finds, and more.
"""

from __future__ import annotations

import random
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz.checks import check_presented, check_strict, counts_and_places
from fuzz.engine import LONGEST, Change, Target, require
from fxtio.errors import FormatError
from fxtio.uftrace import frames, kernel, perf, rules
from fxtio.uftrace.directory import is_file_name
from fxtio.uftrace.events import Message
from fxtio.uftrace.layout import RecordWord
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.records import CLASSES, encode
from fxtio.uftrace.writer import UftraceWriter
from support.uftrace_kernel import kernel_trace
from support.uftrace_samples import EXTREMES, SAMPLES, UFTRACE, minimal

SIZE = 4  # bytes of a file's size
MOST = 40  # files
LONGEST_NAME = 60


def check(data: bytes) -> bool:
    """Read one input in every way, see `Target.check`."""
    with tempfile.TemporaryDirectory() as folder:
        files = unpacked(data)
        target = Path(folder) / "trace"
        target.mkdir()
        for name, content in files.items():
            (target / name).write_bytes(content)
        try:
            trace = UftraceTrace(target)
        except FormatError:
            return True
        return check_directory(trace, target, files)


def check_directory(trace: UftraceTrace, target: Path, files: dict[str, bytes]) -> bool:
    """Read a directory in every way; return whether there were findings."""
    entries = list(trace.entries())
    findings = counts_and_places(trace.findings)
    check_strict(lambda: list(UftraceTrace(target, strict=True).entries()), trace.findings)
    tables = trace.tables(*trace.table_names)
    for table in tables.values():
        require(len(list(table.rows())) == table.num_rows, "a table has its rows")
    complete = [item for item in entries if type(item.record) in CLASSES.values()]
    require(tables["records"].num_rows == len(complete), "columns hold as many records")
    for name, cls in (("sched", perf.PerfEvent), ("kernel", kernel.KernelEvent), ("messages", Message)):
        number = sum(isinstance(item.record, cls) for item in entries)
        require(tables[name].num_rows == number, f"the table {name} has a row for each record")
    require(sum(UftraceTrace(target).info.records.values()) == len(entries), "the summary counts the records")
    for tid in trace.tids:
        raw = b"".join(encode(item, trace.info_file.order) for item in trace.records(tid=tid))
        require(raw == files[f"{tid}.dat"], "no byte of a task is missing")
    copy = target.parent / "copy"
    with UftraceWriter(copy) as writer:
        writer.copy(trace)
    require({path.name: path.read_bytes() for path in copy.iterdir()} == files, "a copy is the same bytes")
    check_presented(UftraceTrace(target))
    check_rules(target, findings[0])
    if not findings[0]:
        with patch.object(frames, "BLOCK", 1024), patch.object(frames, "_MAX_RECORD", 1024):
            require(repr(list(UftraceTrace(target).entries())) == repr(entries), "small blocks give the same records")
    return bool(findings[0])


def check_rules(target: Path, of_reading: Mapping[str, int]) -> None:
    """Check a directory against all rules: it finds what reading finds, in blocks of any size."""
    checked = UftraceTrace(target)
    rules.check(checked)
    counts = dict(checked.findings.counts)
    require(of_reading.keys() <= counts.keys(), "a check finds what reading finds")
    check_strict(lambda: rules.check(UftraceTrace(target, strict=True)), checked.findings)
    if not of_reading:
        with patch.object(frames, "BLOCK", 1024), patch.object(frames, "_MAX_RECORD", 1024):
            again = UftraceTrace(target)
            rules.check(again)
            require(dict(again.findings.counts) == counts, "small blocks give the same findings")


def packed(files: dict[str, bytes]) -> bytes:
    """Return an input of the files of a directory."""
    parts = [name.encode() + b"\0" + len(raw).to_bytes(SIZE, "little") + raw for name, raw in sorted(files.items())]
    return b"".join(parts)


def unpacked(data: bytes) -> dict[str, bytes]:
    """Return the files in an input; sizes beyond the end are cut, and names that no file can have are left out."""
    files: dict[str, bytes] = {}
    at = 0
    while at < len(data) and len(files) < MOST:
        end = data.find(b"\0", at)
        if end < 0:
            break
        name = data[at:end].decode("ascii", "replace")
        begin = end + 1 + SIZE
        at = begin + int.from_bytes(data[end + 1 : begin], "little")
        if is_file_name(name) and len(name) <= LONGEST_NAME and name.isprintable():
            files[name] = data[begin:at]
    return files


def seeds() -> Iterator[bytes]:
    """Yield the small directories of the corpus, a minimal one, and one with kernel events."""
    for name in SAMPLES:
        seed = packed(_files(UFTRACE / name))
        if len(seed) < LONGEST:
            yield seed
    with tempfile.TemporaryDirectory() as folder:
        yield packed(_files(minimal(Path(folder) / "minimal", records=6)))
        kernel_trace(Path(folder) / "kernel")
        yield packed(_files(Path(folder) / "kernel"))


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def _directories() -> list[dict[str, bytes]]:
    """Return the files of all seeds."""
    return [unpacked(seed) for seed in seeds()]


def mutate(data: bytes, most: int, draw: random.Random, change: Change) -> bytes:
    """Change one file of a directory, or take it from another directory, and adjust its size."""
    files = unpacked(data)
    if not files or draw.randrange(8) == 0:
        return change(data, most)
    name = draw.choice(list(files))
    choice = draw.randrange(8)
    if choice == 0:
        del files[name]
    elif choice == 1:
        files |= dict([draw.choice(list(draw.choice(_directories()).items()))])
    elif choice == 2 and len(files[name]) > 8:
        at = draw.randrange(len(files[name]) // 8) * 8
        files[name] = files[name][:at] + files[name][at + 8 * draw.randrange(3) :]
    elif choice == 3:
        files[name] = with_extreme(files[name], draw.randrange(2**16), draw.choice(EXTREMES))
    elif choice == 4:
        files[name] = files[name].replace(b"\n", b"\r\n")
    else:
        files[name] = change(files[name], max(len(files[name]) + 64, 64))
    return packed(files)[:most]


def with_extreme(raw: bytes, place: int, value: int) -> bytes:
    """Return the content of a file with a number in a place: a word of 8 bytes, or the first digits of a line."""
    if b"\0" in raw or not raw:
        at = place * 8 % (len(raw) // 8 * 8 + 8)
        return raw[:at] + value.to_bytes(8, "little") + raw[at + 8 :]
    lines = raw.split(b"\n")
    line = place % len(lines)
    lines[line] = re.sub(rb"[0-9]+", str(value).encode(), lines[line], count=1 + place % 2)
    return b"\n".join(lines)


def drawn() -> Any:
    """Return a strategy for seeds with changed bytes or extreme numbers, and for files of tasks of any words."""
    from hypothesis import strategies as st

    def damaged(files: dict[str, bytes], which: int, changes: list[tuple[int, int]]) -> bytes:
        name = sorted(files)[which % len(files)]
        raw = bytearray(files[name])
        for position, value in changes if raw else ():
            raw[position % len(raw)] = value
        return packed(files | {name: bytes(raw)})

    def extreme(files: dict[str, bytes], which: int, places: list[tuple[int, int]]) -> bytes:
        name = sorted(files)[which % len(files)]
        for place, value in places:
            files = files | {name: with_extreme(files[name], place, value)}
        return packed(files)

    numbers = st.sampled_from(EXTREMES)
    changes = st.lists(st.tuples(st.integers(0, LONGEST), st.integers(0, 255)), min_size=1, max_size=6)
    places = st.lists(st.tuples(st.integers(0, LONGEST), numbers), min_size=1, max_size=6)
    directories = _directories()
    names, which = st.sampled_from(directories), st.integers(0, MOST)
    head = st.builds(
        lambda kind, more, depth, function: int(
            RecordWord(type=kind, more=more, depth=depth, address=0x400000 + 16 * function)
        ),
        st.integers(0, 3), st.integers(0, 1), st.sampled_from([0, 1, 2, 1023]), st.integers(0, 2),
    )  # fmt: skip
    record = st.tuples(numbers | st.integers(0, 5000), head)
    words = st.lists(record | st.tuples(numbers), max_size=40).map(
        lambda parts: [word for part in parts for word in part]
    )
    raw = words.map(lambda chosen: struct.pack(f"<{len(chosen)}Q", *chosen)) | st.binary(max_size=200)
    anything = st.builds(lambda files, content: packed(files | {"1.dat": content}), names, raw)
    return st.builds(damaged, names, which, changes) | st.builds(extreme, names, which, places) | anything


TARGET = Target(check, seeds, drawn, mutate)
