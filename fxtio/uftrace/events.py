"""Events: their names in `events.txt`, the data of their records, and the messages of `extern.dat`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from fxtio.codec.generate import Order
from fxtio.codec.integers import checked_integer, limits_of
from fxtio.errors import EncodeError
from fxtio.finding import Findings
from fxtio.table import MAX_TIME
from fxtio.uftrace.directory import placed_lines, text_file
from fxtio.uftrace.enums import EventId
from fxtio.uftrace.tasks import NS, stamp

NAMES_FILE, EXTERN_FILE = "events.txt", "extern.dat"

_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "STATM": ("proc/statm", ("vmsize", "vmrss", "shared")),
    "PAGE_FAULT": ("page-fault", ("major", "minor")),
    "PMU_CYCLE": ("pmu-cycle", ("cycles", "instructions")),
    "PMU_CACHE": ("pmu-cache", ("refers", "misses")),
    "PMU_BRANCH": ("pmu-branch", ("branch", "misses")),
}  # those that events read, and of which others give the difference: their names, and those of their values
_SCHED = {
    EventId.SCHED_OUT_PREEMPTED: "sched-out (pre-empted)",
    EventId.SCHEDULE_PREEMPTED: "schedule (pre-empted)",
}


def _name_of(event: EventId) -> str:
    kind, _, rest = event.name.partition("_")
    if rest in _COUNTERS:
        return f"{kind.lower()}:{_COUNTERS[rest][0]}"
    if kind == "WATCH":
        return f"watch:{rest.lower()}"
    own = {EventId.CALLSITE: "callsite", EventId.EXTERNAL: "external-data"}
    return own.get(event) or f"linux:{_SCHED.get(event) or event.name.lower().replace('_', '-')}"


NAMES: dict[int, str] = {event: _name_of(event) for event in EventId if event != EventId.FIRST_USER}
"""The names of the events that uftrace makes itself."""

EVENT_IDS: dict[str, int] = {name: int(number) for number, name in NAMES.items()}
"""The ids of these events by name."""

_VALUES: dict[int, tuple[str, ...]] = {EventId.CALLSITE: ("caller",)}
_VALUES |= {EventId[f"{kind}_{key}"]: names for key, (_, names) in _COUNTERS.items() for kind in ("READ", "DIFF")}
READS = frozenset(event for event in EventId if event.name.startswith("READ"))
"""The events whose values are those of counters at a time."""

OF_PROCESS = frozenset({EventId.READ_STATM, EventId.READ_PAGE_FAULT})
"""Those whose counters belong to a process; the others belong to a thread."""

_SIGNED = frozenset(event for event in EventId if event.name.startswith("DIFF"))
MAX_VARIABLE = 8
"""The largest size of a watched variable in bytes."""

ADDRESSES = frozenset({"address", "caller"})
"""The names of values that are addresses in the traced program."""

MAX_MESSAGE = 1023
"""The largest number of bytes of a message in `extern.dat` that uftrace reads."""

_LENGTH, _WORD, _CPU = 2, 8, 4
_MAX_DATA = 65_535


FIRST_OWN_EVENT = 100_000
"""The number below which events are tracepoints of the kernel."""


@lru_cache(1024)
def sizes_of(event: int, pointer_size: int = 8) -> range:
    """Return the sizes in bytes that the data of an event may have; none if uftrace knows no data of the event."""
    if event == EventId.WATCH_VAR:
        return range(pointer_size + 1, pointer_size + MAX_VARIABLE + 1)
    size = sum(size for size, _ in _fields(event, pointer_size, 0).values())
    return range(size, size + 1) if size else range(0)


def data_of(payload: bytes | None, order: Order = "little") -> bytes:
    """Return the data in the payload of an event; less than its length says if the payload is cut."""
    if payload is None:
        return b""
    return payload[_LENGTH : _LENGTH + int.from_bytes(payload[:_LENGTH], order)]


def payload_of(data: bytes | None, order: Order = "little") -> bytes | None:
    """Return the payload that holds the data of an event.

    Raises:
        EncodeError: the data is too long.
    """
    if data is None:
        return None
    if len(data) > _MAX_DATA:
        raise EncodeError(f"{len(data):,} bytes of data are over the limit of {_MAX_DATA:,}", "Event.payload")
    raw = len(data).to_bytes(_LENGTH, order) + data
    return raw + bytes(-len(raw) % 8)


@lru_cache(1024)
def _fields(event: int, pointer_size: int, size: int) -> dict[str, tuple[int, bool]]:
    """Return the sizes in bytes of the values in the data of an event, and whether they are signed, by name.

    Args:
        event: the id of the event.
        pointer_size: the size in bytes of an address of the traced program.
        size: the size of a watched variable.
    """
    if event == EventId.WATCH_CPU:
        return {"cpu": (_CPU, True)}
    if event == EventId.WATCH_VAR:
        return {"address": (pointer_size, False), "value": (size, False)}
    return dict.fromkeys(_VALUES.get(event, ()), (_WORD, event in _SIGNED))


def values_of(event: int, data: bytes, order: Order = "little", pointer_size: int = 8) -> dict[str, int]:
    """Return the values in the data of an event, by name; none if the event or the size of its data is unknown.

    Sizes are in kB, except the size of a watched variable, which is in bytes; differences may be negative.
    """
    values: dict[str, int] = {}
    if len(data) not in sizes_of(event, pointer_size):
        return values
    at, rest = 0, len(data) - pointer_size
    for name, (size, signed) in _fields(event, pointer_size, rest).items():
        values[name] = int.from_bytes(data[at : at + size], order, signed=signed)
        at += size
    return values | ({"size": rest} if event == EventId.WATCH_VAR else {})


def encode_values(event: int, values: Mapping[str, int], order: Order = "little", pointer_size: int = 8) -> bytes:
    """Return the data of an event, the inverse of `values_of`.

    Args:
        event: the id of the event.
        values: its values by name; the size of a watched variable is 8 bytes if it is not given.
        order: the byte order.
        pointer_size: the size in bytes of an address of the traced program.

    Raises:
        EncodeError: the event has other values, or a value does not fit.
    """
    given, size = dict(values), MAX_VARIABLE
    if event == EventId.WATCH_VAR:
        size = checked_integer(given.pop("size", size), "size", 1, MAX_VARIABLE)
    sizes = _fields(event, pointer_size, size)
    if sizes.keys() != given.keys():
        has = f"has the values {', '.join(sizes)}" if sizes else "has no values that are known"
        raise EncodeError(f"the event {has}; given are {', '.join(given) or 'none'}", NAMES.get(event, str(event)))
    data = b""
    for name, (size, signed) in sizes.items():
        data += checked_integer(given[name], name, *limits_of(size, signed=signed)).to_bytes(size, order, signed=signed)
    return data


@dataclass(slots=True)
class EventsFile:
    """The file `events.txt`, with the names of user events.

    Attributes:
        names: the names by event id.
        places: the byte offsets, the ids and the names in the lines that were read.
    """

    names: dict[int, str] = field(default_factory=dict)
    places: list[tuple[int, int, str]] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> EventsFile:
        """Parse the file."""
        parsed = cls()
        for offset, line in placed_lines(raw, NAMES_FILE, findings):
            match = re.fullmatch(r"EVENT: (\d{1,15}) (.*)", line, re.DOTALL)
            if match:
                parsed.names[int(match[1])] = match[2]
                parsed.places.append((offset, int(match[1]), match[2]))
            elif line:
                findings.add("event.line", offset, file=NAMES_FILE)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these names."""
        return text_file(f"EVENT: {number} {name}" for number, name in self.names.items())

    def name(self, event: int) -> str:
        """Return the name of an event, invented from its id if the event has none."""
        name = self.names.get(event) or NAMES.get(event)
        if name is not None:
            return name
        return f"{'user' if event >= EventId.FIRST_USER else 'builtin'}_event:{event}"


class Message(NamedTuple):
    """A message from outside of the traced program.

    Attributes:
        time: nanoseconds.
        text: the text.
    """

    time: int
    text: str


@dataclass(slots=True)
class ExternFile:
    """The file `extern.dat`, with messages from outside of the traced program.

    Attributes:
        messages: the messages.
        places: the byte offsets of the messages that were read.
    """

    messages: list[Message] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    @classmethod
    def parse(cls, raw: bytes, findings: Findings) -> ExternFile:
        """Parse the file."""
        parsed = cls()
        for offset, line in placed_lines(raw, EXTERN_FILE, findings):
            match = re.fullmatch(r"\s*(\d{1,12})\.(\d{1,12})\s+(.*)", line, re.DOTALL)
            if match:
                time = int(match[1]) * NS + int(match[2])
                parsed.messages.append(Message(time, match[3]))
                parsed.places.append(offset)
                if time > MAX_TIME:
                    findings.add("time.overflow", offset, file=EXTERN_FILE)
            elif line.strip() and not line.lstrip().startswith("#"):
                findings.add("event.extern-line", offset, file=EXTERN_FILE)
        return parsed

    def to_bytes(self) -> bytes:
        """Return the bytes of a file with these messages."""
        return text_file(f"{stamp(time)} {text}" for time, text in self.messages)
