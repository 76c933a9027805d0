"""`perf-cpu<N>.dat`: scheduler events of a CPU, as records of Linux perf events without a file header.

A file is read in blocks.  The boundaries of the records of a block are found one after the other; everything else is
done for all records of a block at once, with the structures that `fxtio.uftrace.layout` declares.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Literal

import numpy as np

from fxtio.arrays import Array
from fxtio.codec.generate import Order
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.table import MAX_TIME
from fxtio.uftrace.directory import text_bytes
from fxtio.uftrace.enums import PerfType
from fxtio.uftrace.layout import PERF_COMM, PERF_HEADER, PERF_SAMPLE, PERF_TASK, PerfMiscWord

Kind = Literal["sched-in", "sched-out", "sched-out (pre-empted)", "task-new", "task-exit", "task-name", "exec", "other"]

KINDS: tuple[Kind, ...] = (
    "sched-in", "sched-out", "sched-out (pre-empted)", "task-new", "task-exit", "task-name", "exec", "other",
)  # fmt: skip
"""The kinds of events, by code; `other` is a record that uftrace does not use."""

SCHED_IN, SCHED_OUT, PREEMPTED, TASK_NEW, TASK_EXIT, TASK_NAME, EXEC, OTHER = range(len(KINDS))

_HEADER, _SAMPLE, _COMM, _TASK = (dtype.itemsize for dtype in (PERF_HEADER, PERF_SAMPLE, PERF_COMM, PERF_TASK))
_MISC = PerfMiscWord.fields
_MAX_COMM = 15
_ALIGNED, _LONGEST_NAME = 8, 16  # bytes
_SIZES: list[tuple[tuple[int, ...], int, int]] = [
    ((PerfType.SWITCH,), _HEADER + _SAMPLE, _HEADER + _SAMPLE),
    ((PerfType.FORK, PerfType.EXIT), _HEADER + _TASK + _SAMPLE, _HEADER + _TASK + _SAMPLE),
    ((PerfType.COMM,), _HEADER + _COMM + _ALIGNED + _SAMPLE, _HEADER + _COMM + _LONGEST_NAME + _SAMPLE),
]  # the least and the greatest sizes of records by type
_COLUMNS = ("time", "pid", "tid", "parent", "comm", "parent_pid")
_TYPES = {
    SCHED_IN: PerfType.SWITCH, SCHED_OUT: PerfType.SWITCH, PREEMPTED: PerfType.SWITCH, TASK_NEW: PerfType.FORK,
    TASK_EXIT: PerfType.EXIT, TASK_NAME: PerfType.COMM, EXEC: PerfType.COMM,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """A scheduler event.

    Attributes:
        time: nanoseconds.
        pid: the process.
        tid: the task; of `task-new`, the new task.
        kind: the kind of event.
        comm: the new name of the task.
        parent: the parent task of a new task or of one that ends, or 0.
        offset: the byte offset in the file.
        raw: the bytes of the record, if it was read.
        parent_pid: the process of the parent task, or 0.
        cpu: the CPU, if the event was read.
    """

    time: int
    pid: int
    tid: int
    kind: Kind
    comm: str = ""
    parent: int = 0
    offset: int = 0
    raw: bytes = b""
    parent_pid: int = 0
    cpu: int = 0


@dataclass(frozen=True, slots=True)
class PerfBlock:
    """The scheduler events of a block of a file, as columns.

    Attributes:
        cpu: the CPU.
        raw: the bytes of the block.
        base: the byte offset of the block in the file.
        at: the place of each record in the block (int64, bytes).
        size: the size of each record (int64, bytes).
        type: the type of each record (uint32, `PerfType` or another one).
        time: nanoseconds (uint64).
        pid: the processes (int64).
        tid: the tasks (int64).
        kind: codes in `KINDS` (int8).
        parent: the parent tasks of tasks that begin or end, or 0 (int64).
        parent_pid: the processes of these parents, or 0 (int64).
        comms: the new names of tasks, by row.
    """

    cpu: int
    raw: bytes
    base: int
    at: Array
    size: Array
    type: Array
    time: Array
    pid: Array
    tid: Array
    kind: Array
    parent: Array
    parent_pid: Array
    comms: dict[int, str]

    def __len__(self) -> int:
        return len(self.at)

    def has_odd_size(self) -> Array:
        """Return for each record whether its size is not one that records of its type have (bool)."""
        odd = self.size % _ALIGNED != 0
        for types, least, most in _SIZES:
            odd |= np.isin(self.type, types) & ((self.size < least) | (self.size > most))
        result: Array = odd
        return result

    def events(self) -> Iterator[PerfEvent]:
        """Yield the events as objects."""
        kinds = [KINDS[code] for code in self.kind.tolist()]
        comms = [self.comms.get(row, "") for row in range(len(self))] if self.comms else [""] * len(self)
        offsets = (self.at + self.base).tolist()
        ends = (self.at + self.size).tolist()
        raws = [self.raw[at:end] for at, end in zip(self.at.tolist(), ends, strict=True)]
        columns = (self.time.tolist(), self.pid.tolist(), self.tid.tolist(), kinds, comms, self.parent.tolist())
        return map(PerfEvent, *columns, offsets, raws, self.parent_pid.tolist(), repeat(self.cpu))


def is_name(name: str) -> bool:
    """Return whether a file has the name of a file of scheduler events."""
    return name.startswith("perf-cpu") and name.endswith(".dat") and name[8:-4].isdecimal()


# ---- reading


def parse(blocks: Iterable[bytes], name: str, order: Order, findings: Findings) -> Iterator[PerfBlock]:
    """Parse a file.

    Args:
        blocks: the content of the file, cut anywhere.
        name: the name of the file, for findings.
        order: the byte order.
        findings: receives faults.
    """
    base, rest = 0, b""
    cpu = int(name[8:-4][:9]) if is_name(name) else 0
    for block in blocks:
        raw = rest + block
        at, end = _boundaries(raw, order)
        if at:
            decoded = _decode(cpu, raw, base, at, end, order)
            over = np.flatnonzero(decoded.time > np.uint64(MAX_TIME))
            if len(over):
                findings.add("time.overflow", base + at[over[0]], times=len(over), file=name)
            yield decoded
        base, rest = base + end, raw[end:]
        if len(rest) >= _HEADER and (size := _size_reader(order)(rest, 0)[0]) < _HEADER:
            message = f"a record has the size {size}, less than its header; the rest of the file is not read"
            findings.add("perf.record", base, message, file=name)
            return
    if rest:
        findings.add("perf.record", base, "the file ends in the middle of a record", file=name)


def _size_reader(order: Order) -> Any:
    """Return a function that reads the size of the record at an offset of bytes."""
    skipped = _HEADER - PERF_HEADER["size"].itemsize  # it is the last field
    return struct.Struct(f"{'<' if order == 'little' else '>'}{skipped}xH").unpack_from


def _boundaries(raw: bytes, order: Order) -> tuple[list[int], int]:
    """Return the places of the whole records in a block, and the place after the last one."""
    read, places, at = _size_reader(order), [], 0
    last = len(raw) - _HEADER
    while at <= last:
        size = read(raw, at)[0]
        if size < _HEADER or at + size > len(raw):
            break
        places.append(at)
        at += size
    return places, at


def _taken(data: Array, at: Array, dtype: np.dtype[Any], order: Order) -> Array:
    """Return the structures at some places of the bytes, as a structured array."""
    rows = data[at[:, None] + np.arange(dtype.itemsize)]
    result: Array = rows.view(dtype if order == "little" else dtype.newbyteorder(">"))[:, 0]
    return result


def _decode(cpu: int, raw: bytes, base: int, places: list[int], end: int, order: Order) -> PerfBlock:
    data = np.frombuffer(raw, np.uint8)
    at = np.array(places, np.int64)
    size = np.diff(at, append=end)
    header = _taken(data, at, PERF_HEADER, order)
    body = size - _HEADER
    # Each type of record has its fields at another place; what a record has no room for stays 0 and `other`.
    time = np.zeros(len(at), np.uint64)
    parent, parent_pid = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    pid, tid = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    kind = np.full(len(at), OTHER, np.int8)
    rows = np.flatnonzero(body >= _SAMPLE)
    sample = _taken(data, at[rows] + size[rows] - _SAMPLE, PERF_SAMPLE, order)
    time[rows], pid[rows], tid[rows] = sample["time"], sample["pid"], sample["tid"]
    misc = header["misc"].astype(np.uint64)
    is_out, is_preempted = _MISC["out"].get(misc) != 0, _MISC["preempted"].get(misc) != 0
    switch = (header["type"] == PerfType.SWITCH) & (body >= _SAMPLE)
    kind[switch] = np.where(is_out, np.where(is_preempted, PREEMPTED, SCHED_OUT), SCHED_IN)[switch]
    rows = np.flatnonzero((header["type"] == PerfType.COMM) & (body >= _SAMPLE + _COMM))
    comm = _taken(data, at[rows] + _HEADER, PERF_COMM, order)
    pid[rows], tid[rows] = comm["pid"], comm["tid"]
    kind[rows] = np.where(is_out[rows], EXEC, TASK_NAME)
    comms = _comms(data, at, size, rows)
    forks = header["type"] == PerfType.FORK
    rows = np.flatnonzero((forks | (header["type"] == PerfType.EXIT)) & (body >= _SAMPLE + _TASK))
    task = _taken(data, at[rows] + _HEADER, PERF_TASK, order)
    time[rows], pid[rows], tid[rows] = task["time"], task["pid"], task["tid"]
    parent[rows], parent_pid[rows] = task["ptid"], task["ppid"]
    kind[rows] = np.where(forks[rows], TASK_NEW, TASK_EXIT)
    return PerfBlock(cpu, raw, base, at, size, header["type"], time, pid, tid, kind, parent, parent_pid, comms)


def _comms(data: Array, at: Array, size: Array, rows: Array) -> dict[int, str]:
    """Return the names in COMM records, by row; records of one size are taken at once."""
    comms: dict[int, str] = {}
    for record_size in np.unique(size[rows]).tolist():
        length = record_size - _HEADER - _COMM - _SAMPLE
        if not length:
            continue
        same = rows[size[rows] == record_size]
        texts = data[at[same][:, None] + (_HEADER + _COMM) + np.arange(length)].view(f"S{length}")[:, 0]
        distinct, codes = np.unique(texts, return_inverse=True)
        names = [text.split(b"\0")[0].decode("utf-8", "surrogateescape") for text in distinct.tolist()]
        comms.update(zip(same.tolist(), (names[code] for code in codes.reshape(-1).tolist()), strict=True))
    return comms


# ---- writing


def build(event: PerfEvent, order: Order = "little") -> bytes:
    """Return the bytes of a record; of an event that was read, the bytes that were read.

    Raises:
        EncodeError: a value does not fit its field, the kind is `other`, or the bytes are those of another event.
    """
    raw: Any = event.raw
    if raw:
        blocks = parse([raw], "", order, Findings("uftrace")) if isinstance(raw, bytes) else ()
        meant = [each for block in blocks for each in block.events()]
        if [replace(each, offset=event.offset, cpu=event.cpu) for each in meant] != [event]:
            raise EncodeError("the bytes of the event are not those of one with these values", "raw")
        return event.raw
    row: dict[str, list[Any]] = {name: [getattr(event, name)] for name in _COLUMNS}
    return encode(kind=[event.kind], **row, order=order)


def encode(
    *, time: Any, pid: Any, tid: Any, kind: Iterable[str | None], parent: Any, parent_pid: Any,
    comm: Iterable[str | None], order: Order = "little",
) -> bytes:  # fmt: skip
    """Return the bytes of many records.

    The columns are named as the attributes of `PerfEvent`; names have at most 15 bytes.

    Raises:
        EncodeError: a value does not fit its field, a kind is unknown or `other`, or an event of this kind has no name
            or no parent.
    """
    kinds: list[Any] = [*kind]
    if unknown := [name for name in kinds if name not in KINDS[:OTHER]]:
        raise EncodeError(f"{unknown[0]!r} is not one of {', '.join(KINDS[:OTHER])}", "kind")
    codes = np.array([KINDS.index(name) for name in kinds], np.int8)
    is_comm, is_task = np.isin(codes, (TASK_NAME, EXEC)), np.isin(codes, (TASK_NEW, TASK_EXIT))
    texts = [_comm(text, has_name) for text, has_name in zip(comm, is_comm.tolist(), strict=True)]
    padded = np.array([(len(text) // 8 + 1) * 8 for text in texts], np.int64)
    size = _HEADER + _SAMPLE + np.where(is_comm, _COMM + padded, np.where(is_task, _TASK, 0))
    # A record is a header, the fields of its kind, and at its end those that all have; names are padded to whole words.
    end = np.cumsum(size)
    at, out = end - size, np.zeros(int(end[-1]) if len(end) else 0, np.uint8)
    fields = {
        "time": checked("time", time, np.uint64), "pid": checked("pid", pid, np.int32),
        "tid": checked("tid", tid, np.int32), "ptid": checked("parent", parent, np.int32),
        "ppid": checked("parent_pid", parent_pid, np.int32),
    }  # fmt: skip
    for name, column in (("parent", "ptid"), ("parent_pid", "ppid")):
        if fields[column][~is_task].any():
            raise EncodeError(f"only {KINDS[TASK_NEW]} and {KINDS[TASK_EXIT]} have a parent", name)
    is_out = np.isin(codes, (SCHED_OUT, PREEMPTED, EXEC)).astype(np.uint16)
    words: dict[str, Any] = {"low": 0, "out": is_out, "preempted": (codes == PREEMPTED).astype(np.uint16), "high": 0}
    fields["misc"] = np.broadcast_to(PerfMiscWord(**words).value, len(codes))
    fields["type"] = np.array([_TYPES[code] for code in codes.tolist()], np.uint32)
    fields["size"] = size
    _write_structures(out, at, PERF_HEADER, fields, np.arange(len(codes)), order)
    _write_structures(out, at + size - _SAMPLE, PERF_SAMPLE, fields, np.arange(len(codes)), order)
    _write_structures(out, at + _HEADER, PERF_COMM, fields, np.flatnonzero(is_comm), order)
    _write_structures(out, at + _HEADER, PERF_TASK, fields, np.flatnonzero(is_task), order)
    for row in np.flatnonzero(is_comm).tolist():
        begin = int(at[row]) + _HEADER + _COMM
        out[begin : begin + len(texts[row])] = np.frombuffer(texts[row], np.uint8)
    return out.tobytes()


def _comm(text: Any, has_name: bool) -> bytes:
    """Return the bytes of the new name of a task."""
    if not has_name:
        if text:
            raise EncodeError(f"only {KINDS[TASK_NAME]} and {KINDS[EXEC]} have a name, here {text!r}", "name")
        return b""
    raw = text_bytes(text, "name")
    if b"\0" in raw or len(raw) > _MAX_COMM:
        raise EncodeError(f"{text!r} has more than {_MAX_COMM} bytes or a NUL", "name")
    return raw


def checked(name: str, values: Any, dtype: Any) -> Array:
    """Return integers as an array of a type.

    Raises:
        EncodeError: a value is not an integer, or does not fit the type.
    """
    limits = np.iinfo(dtype)
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(type(value) is int for value in array.tolist()):
        raise EncodeError(f"a value does not fit {limits.bits} bits", name)
    if len(array) and array.dtype.kind not in "iu":
        raise EncodeError("a value is not an integer", name)
    if len(array) and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        raise EncodeError(f"a value does not fit {limits.bits} bits", name)
    return array.astype(dtype)


def _write_structures(
    out: Array, at: Array, dtype: np.dtype[Any], fields: dict[str, Array], rows: Array, order: Order
) -> None:
    """Write structures at some places of the bytes."""
    structures = np.zeros(len(rows), dtype if order == "little" else dtype.newbyteorder(">"))
    for name in dtype.names or ():
        structures[name] = fields[name][rows]
    out[at[rows][:, None] + np.arange(dtype.itemsize)] = structures.view(np.uint8).reshape(len(rows), dtype.itemsize)
