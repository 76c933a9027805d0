"""`perf-cpu<N>.dat`: what the kernel's scheduler did, as records of Linux perf events without a file header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from construct import Bytes, Int16ub, Int16ul, Int32sb, Int32sl, Int32ub, Int32ul, Int64ub, Int64ul, Struct

from fxtio.finding import Findings
from fxtio.uftrace.enums import PerfType
from fxtio.uftrace.layout import PerfMiscWord

Order = Literal["little", "big"]
Kind = Literal["sched-in", "sched-out", "sched-out (pre-empted)", "task-new", "task-exit", "task-name", "exec", "other"]

_HEAD, _SAMPLE = 8, 16


def _forms(big: bool) -> dict[str, Any]:
    u16, u32, i32, u64 = (Int16ub, Int32ub, Int32sb, Int64ub) if big else (Int16ul, Int32ul, Int32sl, Int64ul)
    return {
        "head": Struct("type" / u32, "misc" / u16, "size" / u16),
        "sample": Struct("pid" / i32, "tid" / i32, "time" / u64),
        "comm": Struct("pid" / i32, "tid" / i32, "comm" / Bytes(lambda ctx: ctx._params.length - 8)),
        "task": Struct("pid" / i32, "ppid" / i32, "tid" / i32, "ptid" / i32, "time" / u64),
    }


FORMS = {"little": _forms(False), "big": _forms(True)}


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """One record.

    Attributes:
        time: nanoseconds.
        pid: the process.
        tid: the task; of `task-new`, the new one.
        kind: what happened.
        comm: the new name of the task.
        parent: the task that made the new one, or 0.
        offset: byte offset in the file.
        raw: the record.
    """

    time: int
    pid: int
    tid: int
    kind: Kind
    comm: str = ""
    parent: int = 0
    offset: int = 0
    raw: bytes = b""


def is_name(name: str) -> bool:
    """Whether a file is called like one."""
    return name.startswith("perf-cpu") and name.endswith(".dat") and name[8:-4].isdecimal()


def cpu_of(name: str) -> int:
    """The number in the file's name."""
    return int(name[8:-4][:9])


def parse(pieces: Iterable[bytes], name: str, order: Order, findings: Findings) -> Iterator[PerfEvent]:
    """Read a file, given in pieces."""
    forms, base, held = FORMS[order], 0, b""
    for piece in pieces:
        raw, at = held + piece, 0
        while at + _HEAD <= len(raw):
            head = forms["head"].parse(raw[at : at + _HEAD])
            if head.size < _HEAD:
                told = f"a record of {head.size} bytes; the rest of the file is left out"
                findings.add("perf-record", base + at, told, file=name)
                return
            if at + head.size > len(raw):
                break
            yield _event(forms, head, raw[at : at + head.size], base + at)
            at += head.size
        base, held = base + at, raw[at:]
    if held:
        findings.add("perf-record", base, "the file ends in the middle of a record", file=name)


def _event(forms: dict[str, Any], head: Any, raw: bytes, offset: int) -> PerfEvent:
    body = raw[_HEAD:]
    misc = PerfMiscWord.read(head.misc)
    if len(body) < _SAMPLE:
        return PerfEvent(0, 0, 0, "other", offset=offset, raw=raw)
    sample = forms["sample"].parse(body[-_SAMPLE:])
    if head.type == PerfType.SWITCH:
        kind: Kind = "sched-in" if not misc.out else "sched-out (pre-empted)" if misc.preempted else "sched-out"
        return PerfEvent(sample.time, sample.pid, sample.tid, kind, offset=offset, raw=raw)
    if head.type == PerfType.COMM and len(body) >= _SAMPLE + 8:
        comm = forms["comm"].parse(body[:-_SAMPLE], length=len(body) - _SAMPLE)
        text = comm.comm.split(b"\0")[0].decode("utf-8", "surrogateescape")
        return PerfEvent(sample.time, comm.pid, comm.tid, "exec" if misc.out else "task-name", text, 0, offset, raw)
    if head.type in (PerfType.FORK, PerfType.EXIT) and len(body) >= _SAMPLE + 24:
        task = forms["task"].parse(body)
        if head.type == PerfType.FORK:
            return PerfEvent(task.time, task.pid, task.tid, "task-new", "", task.ptid, offset, raw)
        return PerfEvent(task.time, task.pid, task.tid, "task-exit", offset=offset, raw=raw)
    return PerfEvent(sample.time, sample.pid, sample.tid, "other", offset=offset, raw=raw)


def build(event: PerfEvent, order: Order = "little") -> bytes:
    """The bytes of a record; of one that was read, those that were read."""
    if event.raw:
        return event.raw
    forms = FORMS[order]
    sample = forms["sample"].build({"pid": event.pid, "tid": event.tid, "time": event.time})
    out = event.kind in ("sched-out", "sched-out (pre-empted)", "exec")
    misc = int(PerfMiscWord(low=0, out=int(out), preempted=int("pre-empted" in event.kind), high=0))
    if event.kind in ("task-name", "exec"):
        comm = event.comm.encode("utf-8", "surrogateescape")[:15]
        comm += bytes(8 - len(comm) % 8)
        body = forms["comm"].build({"pid": event.pid, "tid": event.tid, "comm": comm}, length=len(comm) + 8)
        kind = PerfType.COMM
    elif event.kind in ("task-new", "task-exit"):
        task = {"pid": event.pid, "ppid": event.pid, "tid": event.tid, "ptid": event.parent, "time": event.time}
        body = forms["task"].build(task)
        kind = PerfType.FORK if event.kind == "task-new" else PerfType.EXIT
    else:
        body, kind = b"", PerfType.SWITCH
    raw = body + sample
    head: bytes = forms["head"].build({"type": kind, "misc": misc, "size": _HEAD + len(raw)})
    return b"".join([head, raw])
