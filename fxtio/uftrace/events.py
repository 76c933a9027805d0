"""Events: what happened that is no call.  Their data, their names in `events.txt`, and the messages of `extern.dat`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from fxtio.errors import EncodeError
from fxtio.finding import Findings, Level
from fxtio.uftrace.directory import from_lines, to_lines
from fxtio.uftrace.enums import EventId

NAMES_FILE, EXTERN_FILE = "events.txt", "extern.dat"
Order = Literal["little", "big"]

NAMES: dict[int, str] = {
    EventId.READ_STATM: "read:proc/statm",
    EventId.READ_PAGE_FAULT: "read:page-fault",
    EventId.DIFF_STATM: "diff:proc/statm",
    EventId.DIFF_PAGE_FAULT: "diff:page-fault",
    EventId.READ_PMU_CYCLE: "read:pmu-cycle",
    EventId.DIFF_PMU_CYCLE: "diff:pmu-cycle",
    EventId.READ_PMU_CACHE: "read:pmu-cache",
    EventId.DIFF_PMU_CACHE: "diff:pmu-cache",
    EventId.READ_PMU_BRANCH: "read:pmu-branch",
    EventId.DIFF_PMU_BRANCH: "diff:pmu-branch",
    EventId.WATCH_CPU: "watch:cpu",
    EventId.WATCH_VAR: "watch:var",
    EventId.CALLSITE: "callsite",
    EventId.SCHED_IN: "linux:sched-in",
    EventId.SCHED_OUT: "linux:sched-out",
    EventId.SCHEDULE: "linux:schedule",
    EventId.TASK_NEW: "linux:task-new",
    EventId.TASK_EXIT: "linux:task-exit",
    EventId.TASK_NAME: "linux:task-name",
    EventId.SCHED_OUT_PREEMPTED: "linux:sched-out (pre-empted)",
    EventId.SCHEDULE_PREEMPTED: "linux:schedule (pre-empted)",
    EventId.EXTERNAL: "external-data",
}
"""The names of the events that uftrace makes itself."""

_STATM = ("vmsize", "vmrss", "shared")
_FAULTS = ("major", "minor")
_CYCLE = ("cycles", "instructions")
_CACHE = ("refers", "misses")
_BRANCH = ("branch", "misses")
_WORDS: dict[EventId, tuple[str, ...]] = {
    EventId.READ_STATM: _STATM,
    EventId.DIFF_STATM: _STATM,
    EventId.READ_PAGE_FAULT: _FAULTS,
    EventId.DIFF_PAGE_FAULT: _FAULTS,
    EventId.READ_PMU_CYCLE: _CYCLE,
    EventId.DIFF_PMU_CYCLE: _CYCLE,
    EventId.READ_PMU_CACHE: _CACHE,
    EventId.DIFF_PMU_CACHE: _CACHE,
    EventId.READ_PMU_BRANCH: _BRANCH,
    EventId.DIFF_PMU_BRANCH: _BRANCH,
    EventId.CALLSITE: ("caller",),
}
_SIGNED = frozenset(event for event in _WORDS if event.name.startswith("DIFF"))
_NAMES: dict[int, tuple[str, ...]] = dict(_WORDS.items())
_LENGTH = 2
_LONGEST = 65_535


def data_of(payload: bytes | None, order: Order = "little") -> bytes:
    """The data of an event, taken out of its payload; as much of it as is there."""
    if payload is None:
        return b""
    return payload[_LENGTH : _LENGTH + int.from_bytes(payload[:_LENGTH], order)]


def payload_of(data: bytes | None, order: Order = "little") -> bytes | None:
    """The payload for an event's data.

    Raises:
        EncodeError: it is too long.
    """
    if data is None:
        return None
    if len(data) > _LONGEST:
        raise EncodeError(f"{len(data):,} bytes of data are over the limit of {_LONGEST:,}", "Event.payload")
    raw = len(data).to_bytes(_LENGTH, order) + data
    return raw + bytes(-len(raw) % 8)


def values_of(event: int, data: bytes, order: Order = "little", pointer_size: int = 8) -> dict[str, int]:
    """What an event's data says, by name; nothing where the event or the size of its data is not known.

    Sizes are in kB, differences may be negative.
    """
    names = _NAMES.get(event, ())
    if names and len(data) == 8 * len(names):
        signed = event in _SIGNED
        return {
            name: int.from_bytes(data[8 * n : 8 * n + 8], order, signed=signed) for n, name in enumerate(names)
        }  # fmt: skip
    if event == EventId.WATCH_CPU and len(data) == 4:
        return {"cpu": int.from_bytes(data, order, signed=True)}
    if event == EventId.WATCH_VAR and len(data) > pointer_size:
        address, value = data[:pointer_size], data[pointer_size:]
        return {"address": int.from_bytes(address, order), "value": int.from_bytes(value, order)}
    return {}


@dataclass(slots=True)
class EventsFile:
    """`events.txt`: the names of the user's events.

    Attributes:
        lines: the text, line by line.
        names: by id.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> EventsFile:
        """Read the file."""
        made, offset = cls(to_lines(raw)), 0
        for line in made.lines:
            found = re.fullmatch(r"EVENT: (\d{1,15}) (.*)", line, re.DOTALL)
            if found:
                made.names[int(found[1])] = found[2]
            elif line:
                findings.add("event-line", offset, "a line is not understood", level=Level.WARNING, file=NAMES_FILE)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    @classmethod
    def of(cls, names: dict[int, str]) -> EventsFile:
        """A new file."""
        return cls([*(f"EVENT: {number} {name}" for number, name in names.items()), ""], names)

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines(self.lines)

    def name(self, event: int) -> str:
        """The name of any event."""
        known = self.names.get(event) or NAMES.get(event)
        if known is not None:
            return known
        return f"{'user' if event >= EventId.FIRST_USER else 'builtin'}_event:{event}"


@dataclass(slots=True)
class ExternFile:
    """`extern.dat`: messages that somebody else put into the trace.

    Attributes:
        lines: the text, line by line.
        messages: time in nanoseconds, and text.
    """

    lines: list[str] = field(default_factory=list)
    messages: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> ExternFile:
        """Read the file."""
        made, offset = cls(to_lines(raw)), 0
        for line in made.lines:
            found = re.fullmatch(r"\s*(\d{1,12})\.(\d{1,12})\s+(.*)", line, re.DOTALL)
            if found:
                made.messages.append((int(found[1]) * 1_000_000_000 + int(found[2]), found[3]))
            elif line.strip() and not line.lstrip().startswith("#"):
                findings.add("extern-line", offset, "a line is not understood", level=Level.WARNING, file=EXTERN_FILE)
            offset += len(line.encode("utf-8", "surrogateescape")) + 1
        return made

    @classmethod
    def of(cls, messages: list[tuple[int, str]]) -> ExternFile:
        """A new file."""
        lines = [f"{time // 1_000_000_000}.{time % 1_000_000_000:09d} {text}" for time, text in messages]
        return cls([*lines, ""], messages)

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return from_lines(self.lines)
