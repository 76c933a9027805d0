"""The beginnings of tasks and sessions: `task.txt`, and the binary file `task` of format version 3."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import msgspec
from construct import Bytes, BytesInteger, Const, ConstructError, Struct
from msgspec import field

from fxtio.codec.canonical import Identifier
from fxtio.codec.generate import Order
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.report import counted
from fxtio.uftrace.directory import placed_lines, text_bytes, text_file

TEXT, BINARY = "task.txt", "task"
"""The name of the file, and its name in format version 3."""

NS = 1_000_000_000


class Session(msgspec.Struct, frozen=True, gc=False, tag="session"):
    """The beginning of a session: a process began, or called exec.

    Attributes:
        time: nanoseconds.
        pid: the process.
        sid: the session id, which is part of the name of its map file.
        exename: the program.
        key: the key in front of `pid`: `pid`, or `tid` in old versions.
    """

    time: int = field(name="timestamp")
    pid: int
    sid: Identifier
    exename: str
    key: str = field(default="pid", name="_key")

    def __str__(self) -> str:
        return f'SESS timestamp={stamp(self.time)} {self.key}={self.pid} sid={self.sid} exename="{self.exename}"'


class Task(msgspec.Struct, frozen=True, gc=False, tag="task"):
    """The beginning of a task; a later line of the same task moves it to the newest session of its process.

    Attributes:
        time: nanoseconds.
        tid: the task.
        pid: its process.
    """

    time: int = field(name="timestamp")
    tid: int
    pid: int

    def __str__(self) -> str:
        return f"TASK timestamp={stamp(self.time)} tid={self.tid} pid={self.pid}"


class Fork(msgspec.Struct, frozen=True, gc=False, tag="fork"):
    """The beginning of a process that is a copy of another one.

    Attributes:
        time: nanoseconds.
        pid: the new process.
        ppid: the process that called fork.
    """

    time: int = field(name="timestamp")
    pid: int
    ppid: int

    def __str__(self) -> str:
        return f"FORK timestamp={stamp(self.time)} pid={self.pid} ppid={self.ppid}"


class Dlopen(msgspec.Struct, frozen=True, gc=False, tag="dlopen"):
    """The loading of a library.

    Attributes:
        time: nanoseconds.
        tid: the task that loaded it.
        sid: the session of the task.
        base: the address of the library.
        libname: the path of the library.
    """

    time: int = field(name="timestamp")
    tid: int
    sid: Identifier
    base: int
    libname: str

    def __str__(self) -> str:
        when = f"timestamp={stamp(self.time)}"
        return f'DLOP {when} tid={self.tid} sid={self.sid} base={self.base:x} libname="{self.libname}"'


TaskEvent = Session | Task | Fork | Dlopen


def stamp(time: int) -> str:
    """Return nanoseconds as uftrace writes them, in seconds."""
    return f"{time // NS}.{time % NS:09d}"


_HEX = r"(?:0x)?([0-9a-fA-F]{1,16})"
_TIME = r"timestamp=(\d{1,12})\.(\d{1,12}) "
_LINES: list[tuple[re.Pattern[str], Callable[[int, tuple[str, ...]], TaskEvent]]] = [
    (
        re.compile(rf'SESS {_TIME}([pt]id)=(-?\d{{1,12}}) sid=(\S{{1,16}}) exename="(.*)"', re.DOTALL),
        lambda time, groups: Session(time, int(groups[1]), groups[2], groups[3], groups[0]),
    ),
    (
        re.compile(rf"TASK {_TIME}tid=(-?\d{{1,12}}) pid=(-?\d{{1,12}})"),
        lambda time, groups: Task(time, int(groups[0]), int(groups[1])),
    ),
    (
        re.compile(rf"FORK {_TIME}pid=(-?\d{{1,12}}) ppid=(-?\d{{1,12}})"),
        lambda time, groups: Fork(time, int(groups[0]), int(groups[1])),
    ),
    (
        re.compile(rf'DLOP {_TIME}tid=(-?\d{{1,12}}) sid=(\S{{1,16}}) base={_HEX} libname="(.*)"'),
        lambda time, groups: Dlopen(time, int(groups[0]), groups[1], int(groups[2], 16), groups[3]),
    ),
]


@dataclasses.dataclass(slots=True)
class TaskFile:
    """The file `task.txt`.

    Attributes:
        events: the events in the order of the file.
        places: the byte offsets of the events that were read.
    """

    events: list[TaskEvent] = dataclasses.field(default_factory=list)
    places: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> TaskFile:
        """Parse the file."""
        parsed = cls()
        for offset, line in placed_lines(raw, TEXT, findings):
            made = ((match, make) for pattern, make in _LINES if (match := pattern.match(line)))
            match, make = next(made, (None, None))
            if match and make:
                seconds, nanoseconds, *rest = match.groups()
                parsed.events.append(make(int(seconds) * NS + int(nanoseconds), tuple(rest)))
                parsed.places.append(offset)
            elif line:
                message = f"the line beginning with {line[:20]!r} is unknown"
                findings.add("task.line", offset, message, file=TEXT)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these events."""
        return text_file(self.events)


# ---- format version 3

_SID_SIZE = 16


def _structures(big: bool) -> dict[str, Any]:
    u16, u32, u64 = (BytesInteger(size, swapped=not big) for size in (2, 4, 8))
    i32 = BytesInteger(4, signed=True, swapped=not big)
    task = {"time": u64, "pid": i32, "tid": i32}
    magic = 0xFACE
    return {
        "head": Struct("magic" / Const(magic, u16), "type" / u16, "size" / u32),
        "task": Struct(*(name / kind for name, kind in task.items())),
        "session": Struct(
            *(n / k for n, k in task.items()), "sid" / Bytes(_SID_SIZE), "unused" / Bytes(4), "length" / i32
        ),
    }


MESSAGES = {"little": _structures(False), "big": _structures(True)}
"""The structures of the binary task file, by byte order and name."""

_TASK, _FORK, _SESSION = (3,), (5, 6), (6, 7)  # uftrace 0.8 renumbered them; the size tells a fork from a session
_HEAD, _TASK_SIZE, _SESSION_SIZE = 8, 16, 40


@dataclasses.dataclass(slots=True)
class BinaryTaskFile:
    """The file `task` of format version 3, a sequence of messages.

    Attributes:
        order: the byte order.
        events: the events in the order of the file.
        places: the byte offsets of the events that were read.
    """

    order: Order = "little"
    events: list[TaskEvent] = dataclasses.field(default_factory=list)
    places: list[int] = dataclasses.field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, order: Order, findings: Findings) -> BinaryTaskFile:
        """Parse the file."""
        parsed, at = cls(order=order), 0
        while at < len(raw):
            try:
                head = MESSAGES[order]["head"].parse(raw[at : at + _HEAD])
            except ConstructError:
                break
            end = at + _HEAD + (head.size + 7) // 8 * 8
            if end > len(raw):
                break
            event = _event(head.type, head.size, raw[at + _HEAD : end], MESSAGES[order])
            if event is not None:
                parsed.events.append(event)
                parsed.places.append(at)
            at = end
        if at < len(raw):
            findings.add("task.message", at, f"not a whole message: {counted(len(raw) - at, 'byte')}", file=BINARY)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these events, numbered as before uftrace 0.8.

        Raises:
            EncodeError: an event is the loading of a library, or does not fit.
        """
        structures = MESSAGES[self.order]
        try:
            messages = [_message(event, structures) for event in self.events]
            heads = [structures["head"].build({"type": kind, "size": size}) for kind, size, _ in messages]
        except ConstructError as error:
            raise EncodeError(f"a number does not fit its field: {error}", BINARY) from None
        return b"".join(head + body for head, (_, _, body) in zip(heads, messages, strict=True))


def _event(kind: int, size: int, body: bytes, structures: dict[str, Any]) -> TaskEvent | None:
    """Return the event of a message, given its type, its size and its padded body; None if it describes none."""
    if size == _TASK_SIZE and kind in (*_TASK, *_FORK):
        task = structures["task"].parse(body)
        return Task(task.time, task.tid, task.pid) if kind in _TASK else Fork(task.time, task.tid, task.pid)
    if size < _SESSION_SIZE or kind not in _SESSION:
        return None
    session = structures["session"].parse(body)
    texts = session.sid, body[_SESSION_SIZE : _SESSION_SIZE + max(session.length, 0)]
    return Session(
        session.time, session.pid, *(text.rstrip(b"\0").decode("utf-8", "surrogateescape") for text in texts)
    )


def _message(event: TaskEvent, structures: dict[str, Any]) -> tuple[int, int, bytes]:
    """Return the type, the size and the padded body of the message about an event."""
    if isinstance(event, Dlopen):
        raise EncodeError("version 3 of the format has no libraries that are loaded", event.libname)
    if isinstance(event, Task):
        return _TASK[0], _TASK_SIZE, structures["task"].build({"time": event.time, "pid": event.pid, "tid": event.tid})
    if isinstance(event, Fork):
        body = structures["task"].build({"time": event.time, "pid": event.ppid, "tid": event.pid})
        return _FORK[0], _TASK_SIZE, body
    name, sid = text_bytes(event.exename, "program"), text_bytes(event.sid, "sid")
    if len(sid) > _SID_SIZE:
        raise EncodeError(f"{event.sid!r} has more than {_SID_SIZE} bytes", "sid")
    values = {"time": event.time, "pid": event.pid, "tid": event.pid, "sid": sid.ljust(_SID_SIZE, b"\0")}
    body = structures["session"].build(values | {"unused": bytes(4), "length": len(name)}) + name
    return _SESSION[0], len(body), body + bytes(-len(body) % 8)


def check_text(text: str, where: str) -> str:
    """Return a text that can be written in a line of a file.

    Raises:
        EncodeError: it is not a text, or contains a line end, a NUL or a lone surrogate.
    """
    text_bytes(text, where)
    if any(character in text for character in "\r\n\0"):
        raise EncodeError(f"{text[:60]!r} contains a line end or a NUL", where)
    return text
