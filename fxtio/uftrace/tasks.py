"""`task.txt`: which tasks and sessions there were, and from when on; and its binary forerunner of file version 3.

A line that is not of a known form, or would not be written back the same, stays text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from construct import (
    Bytes,
    Const,
    ConstructError,
    Int16ub,
    Int16ul,
    Int32sb,
    Int32sl,
    Int32ub,
    Int32ul,
    Int64ub,
    Int64ul,
    Struct,
)

from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines

TEXT, BINARY = "task.txt", "task"
"""The names of the file, today's and that of version 3."""

NS = 1_000_000_000
Order = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class Session:
    """A process began, or called exec.

    Attributes:
        time: nanoseconds.
        pid: the process.
        sid: names its map file.
        exename: the program.
        key: `tid` in lines of old versions.
    """

    time: int
    pid: int
    sid: str
    exename: str
    key: str = "pid"

    def __str__(self) -> str:
        return f'SESS timestamp={stamp(self.time)} {self.key}={self.pid} sid={self.sid} exename="{self.exename}"'


@dataclass(frozen=True, slots=True)
class Task:
    """A task began, or takes the newest session of its process from here on.

    Attributes:
        time: nanoseconds.
        tid: the task.
        pid: its process.
    """

    time: int
    tid: int
    pid: int

    def __str__(self) -> str:
        return f"TASK timestamp={stamp(self.time)} tid={self.tid} pid={self.pid}"


@dataclass(frozen=True, slots=True)
class Fork:
    """A process began as a copy of another one.

    Attributes:
        time: nanoseconds.
        pid: the new process.
        ppid: the old one.
    """

    time: int
    pid: int
    ppid: int

    def __str__(self) -> str:
        return f"FORK timestamp={stamp(self.time)} pid={self.pid} ppid={self.ppid}"


@dataclass(frozen=True, slots=True)
class Dlopen:
    """A library was loaded.

    Attributes:
        time: nanoseconds.
        tid: the task that did it.
        sid: its session.
        base: where the library begins.
        libname: the library.
    """

    time: int
    tid: int
    sid: str
    base: int
    libname: str

    def __str__(self) -> str:
        when = f"timestamp={stamp(self.time)}"
        return f'DLOP {when} tid={self.tid} sid={self.sid} base={self.base:x} libname="{self.libname}"'


Fact = Session | Task | Fork | Dlopen


def stamp(time: int) -> str:
    """Nanoseconds as uftrace writes them."""
    return f"{time // NS}.{time % NS:09d}"


_HEX = r"(?:0x)?([0-9a-fA-F]{1,16})"
_TIME = r"timestamp=(\d{1,12})\.(\d{1,12}) "
_FORMS: list[tuple[re.Pattern[str], Callable[[int, tuple[str, ...]], Fact]]] = [
    (
        re.compile(rf'SESS {_TIME}([pt]id)=(-?\d{{1,12}}) sid=(\S{{1,16}}) exename="(.*)"', re.DOTALL),
        lambda time, got: Session(time, int(got[1]), got[2], got[3], got[0]),
    ),
    (
        re.compile(rf"TASK {_TIME}tid=(-?\d{{1,12}}) pid=(-?\d{{1,12}})"),
        lambda time, got: Task(time, int(got[0]), int(got[1])),
    ),
    (
        re.compile(rf"FORK {_TIME}pid=(-?\d{{1,12}}) ppid=(-?\d{{1,12}})"),
        lambda time, got: Fork(time, int(got[0]), int(got[1])),
    ),
    (
        re.compile(rf'DLOP {_TIME}tid=(-?\d{{1,12}}) sid=(\S{{1,16}}) base={_HEX} libname="(.*)"'),
        lambda time, got: Dlopen(time, int(got[0]), got[1], int(got[2], 16), got[3]),
    ),
]


def parse_fact(line: str) -> Fact | None:
    """The fact that a line tells, or None."""
    for form, make in _FORMS:
        found = form.match(line)
        if found:
            seconds, nanos, *rest = found.groups()
            return make(int(seconds) * NS + int(nanos), tuple(rest))
    return None


@dataclass(slots=True)
class TaskFile:
    """The file.

    Attributes:
        lines: facts, and as text what is none; an empty last text for the line end.
        facts: the facts in the order of the file.
    """

    lines: list[Fact | str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> TaskFile:
        """Read `task.txt`."""
        made = cls()
        offset = 0
        for line in to_lines(raw):
            fact = parse_fact(line)
            made.lines.append(fact if fact is not None and str(fact) == line else line)
            if fact is not None:
                made.facts.append(fact)
            elif line:
                told = f"a line that begins with {line[:20]!r} is not understood"
                findings.add("task-line", offset, told, level=Level.WARNING, file=TEXT)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines([str(line) for line in self.lines])


# ---- file version 3


def _messages(big: bool) -> dict[str, Any]:
    u16, u32, i32, u64 = (Int16ub, Int32ub, Int32sb, Int64ub) if big else (Int16ul, Int32ul, Int32sl, Int64ul)
    task = {"time": u64, "pid": i32, "tid": i32}
    magic = 0xFACE
    return {
        "head": Struct("magic" / Const(magic, u16), "type" / u16, "size" / u32),
        "task": Struct(*(name / kind for name, kind in task.items())),
        "session": Struct(*(n / k for n, k in task.items()), "sid" / Bytes(16), "unused" / Bytes(4), "length" / i32),
    }


MESSAGES = {"little": _messages(False), "big": _messages(True)}
_TASK, _FORK, _SESSION = (3,), (5, 6), (6, 7)  # numbered anew in 0.8; the size tells a fork from a session
_HEAD, _TASK_SIZE, _SESSION_SIZE = 8, 16, 40


@dataclass(slots=True)
class BinaryTaskFile:
    """The file `task` of version 3: messages.

    Attributes:
        pieces: of every message its type, its size, and its body, which is padded to 8 bytes.
        rest: bytes behind the last whole message.
        order: the byte order.
    """

    pieces: list[tuple[int, int, bytes]] = field(default_factory=list)
    rest: bytes = b""
    order: Order = "little"

    @classmethod
    def parse(cls, raw: bytes, order: Order, findings: Findings) -> BinaryTaskFile:
        """Read the file."""
        made, at = cls(order=order), 0
        while at < len(raw):
            try:
                head = MESSAGES[order]["head"].parse(raw[at : at + _HEAD])
            except ConstructError:
                break
            end = at + _HEAD + (head.size + 7) // 8 * 8
            if end > len(raw):
                break
            made.pieces.append((head.type, head.size, raw[at + _HEAD : end]))
            at = end
        made.rest = raw[at:]
        if made.rest:
            findings.add("task-message", at, "bytes that are no whole message", file=BINARY)
        return made

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        head = MESSAGES[self.order]["head"]
        messages = [head.build({"type": kind, "size": size}) + body for kind, size, body in self.pieces]
        return b"".join(messages) + self.rest

    @property
    def facts(self) -> list[Fact]:
        """The facts in the order of the file."""
        return list(self._facts())

    def _facts(self) -> Iterator[Fact]:
        forms = MESSAGES[self.order]
        for kind, size, body in self.pieces:
            if kind in _TASK and size == _TASK_SIZE:
                got = forms["task"].parse(body)
                yield Task(got.time, got.tid, got.pid)
            elif kind in _FORK and size == _TASK_SIZE:
                got = forms["task"].parse(body)
                yield Fork(got.time, got.tid, got.pid)
            elif kind in _SESSION and size >= _SESSION_SIZE:
                got = forms["session"].parse(body)
                name = body[_SESSION_SIZE : _SESSION_SIZE + max(got.length, 0)]
                sid = got.sid.rstrip(b"\0").decode("ascii", "replace")
                yield Session(got.time, got.pid, sid, name.rstrip(b"\0").decode("utf-8", "surrogateescape"))


def check_name(text: str, where: str) -> str:
    """A name that can stand in the files of a trace.

    Raises:
        EncodeError: it holds a line end or a NUL.
    """
    if any(sign in text for sign in "\n\0"):
        raise EncodeError(f"{text!r} holds a line end or a NUL", where)
    return text
