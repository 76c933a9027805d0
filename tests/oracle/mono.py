"""The Mono log profiler's events, restated with construct from the specification text: bytes to dicts.

Strategy: the specification is data version 14 in an early state (`mono-log-profiler-format.txt`). It is restated here
as it is, with the corrections that real files demand: objects are differences in units of 8 bytes, times and
addresses wrap. Data version 17 is the same with the changes that came since. Values are absolute, so a
context carries what they are relative to. Names are the specification's.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from construct import (
    Adapter,
    Array,
    Byte,
    Bytes,
    Computed,
    Construct,
    ConstructError,
    FixedSized,
    Float64l,
    GreedyRange,
    If,
    IfThenElse,
    Int8ul,
    Int16ul,
    Int32ul,
    Int64ul,
    NullTerminated,
    Pass,
    RepeatUntil,
    Struct,
    Switch,
    VarInt,
    this,
)
from construct import GreedyBytes as Rest

Event = dict[str, Any]


class OracleError(Exception):
    """The specification forbids these bytes."""


class Sleb(Construct):
    """A signed LEB128 number."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = shift = 0
        while True:
            byte = Byte._parse(stream, context, path)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                signed: int = value - (1 << shift) if byte & 0x40 else value
                return signed


class Relative(Adapter):
    """A difference from something in the buffer's context."""

    def __init__(self, of: str, *, last: bool = False, unit: int = 1) -> None:
        super().__init__(Sleb())
        self.of, self.last, self.unit = of, last, unit

    def _decode(self, obj: int, context: Any, path: str) -> int:
        state = context._root._.state
        value: int = ((state[self.of] + obj) * self.unit) % (1 << state["bits"])
        if self.last:
            state[self.of] = value
        return value


class TimeDiff(Adapter):
    """Nanoseconds since the last timing."""

    def _decode(self, obj: int, context: Any, path: str) -> int:
        state = context._root._.state
        state["time_base"] = (state["time_base"] + obj) % (1 << 64)
        return state["time_base"]  # type: ignore[no-any-return]


TIME = TimeDiff(VarInt)
PTR = Relative("ptr_base")
OBJ = Relative("obj_base", unit=8)
METHOD = Relative("method_base", last=True)
STRING = NullTerminated(Rest)


def counted(part: Any) -> Any:
    return Struct("num" / VarInt, "items" / Array(this.num, part))


BACKTRACE = counted(METHOD)


def since(version: int, part: Any) -> Any:
    return If(lambda context: context._root._.state["version"] >= version, part)


def before(version: int, part: Any) -> Any:
    return If(lambda context: context._root._.state["version"] < version, part)


def with_backtrace(exinfo: int) -> Any:
    return If(this.exinfo == exinfo, BACKTRACE)


ALLOC = Struct(
    "exinfo" / Computed(this._.exinfo), "time" / TIME, "ptr" / PTR, "obj" / OBJ, "size" / VarInt,
    "backtrace" / with_backtrace(1),
)  # fmt: skip

GC_EVENT = Struct("time" / TIME, "event type" / Byte, "generation" / Byte)
GC_RESIZE = Struct("time" / TIME, "heap_size" / VarInt)
GC_MOVE = Struct("time" / TIME, "objaddr" / counted(OBJ))
GC_HANDLE_CREATED = Struct(
    "exinfo" / Computed(this._.exinfo), "time" / TIME, "handle_type" / VarInt, "handle" / VarInt, "objaddr" / OBJ,
    "backtrace" / with_backtrace(6),
)  # fmt: skip
GC_HANDLE_DESTROYED = Struct(
    "exinfo" / Computed(this._.exinfo), "time" / TIME, "handle_type" / VarInt, "handle" / VarInt,
    "backtrace" / with_backtrace(7),
)  # fmt: skip
ONLY_TIME = Struct("time" / TIME)
GC_FINALIZE_OBJECT = Struct("time" / TIME, "object" / OBJ)

METADATA = Struct(
    "exinfo" / Computed(this._.exinfo),
    "time" / TIME,
    "mtype" / Byte,
    "pointer" / PTR,
    "body" / Switch(this.mtype, {
        1: Struct("image" / PTR, "name" / STRING),
        2: Struct("name" / STRING, "mvid" / If(this._.exinfo == 2, since(16, STRING))),
        3: Struct("image" / PTR, "name" / STRING),
        4: Struct("name" / If(this._.exinfo == 0, STRING)),
        5: Struct("name" / If(this._.exinfo == 0, STRING)),
        6: Struct("domain" / PTR),
        7: Struct("domain" / PTR, "class" / PTR),
    }),
)  # fmt: skip

METHOD_EVENT = Struct("time" / TIME, "method" / METHOD)
JIT = Struct("time" / TIME, "method" / METHOD, "code address" / PTR, "code size" / VarInt, "name" / STRING)

CLAUSE = Struct("time" / TIME, "clause type" / Byte, "clause index" / VarInt, "method" / METHOD, "object" / OBJ)
THROW = Struct("exinfo" / Computed(this._.exinfo), "time" / TIME, "object" / OBJ, "backtrace" / with_backtrace(8))

MONITOR = Struct(
    "exinfo" / Computed(this._.exinfo), "time" / TIME, "type" / Byte, "object" / OBJ, "backtrace" / with_backtrace(8)
)

HEAP_OBJECT = Struct(
    "time" / TIME, "object" / OBJ, "class" / PTR, "size" / VarInt, "generation" / since(16, Byte),
    "refs" / counted(Struct("offset" / VarInt, "objref" / OBJ)),
)  # fmt: skip
OLD_HEAP_ROOT = Struct(
    "time" / TIME, "num_roots" / VarInt, "num_gc" / VarInt,
    "roots" / Array(this.num_roots, Struct("object" / OBJ, "root_type" / VarInt, "extra_info" / VarInt)),
)  # fmt: skip
HEAP_ROOT = Struct("time" / TIME, "roots" / counted(Struct("address" / PTR, "object" / OBJ)))
ROOT_REGISTER = Struct("time" / TIME, "start" / PTR, "size" / VarInt, "source" / Byte, "key" / PTR, "name" / STRING)
ROOT_UNREGISTER = Struct("time" / TIME, "start" / PTR)

SAMPLE_HIT = Struct("time" / TIME, "thread" / PTR, "ip" / counted(PTR), "mbt" / counted(METHOD))
SAMPLE_USYM = Struct("time" / TIME, "address" / PTR, "size" / VarInt, "name" / STRING)
SAMPLE_UBIN = Struct("time" / TIME, "address" / PTR, "offset" / VarInt, "size" / VarInt, "name" / STRING)
NUMBER = IfThenElse(lambda context: context._root._.state["version"] >= 15, VarInt, Byte)
COUNTER_DESC = Struct(
    "section" / VarInt, "section_name" / If(this.section == 0x8000, STRING), "name" / STRING, "type" / NUMBER,
    "unit" / NUMBER, "variance" / NUMBER, "index" / VarInt,
)  # fmt: skip
COUNTERS_DESC = Struct("time" / TIME, "counters" / counted(COUNTER_DESC))
COUNTER = Struct(
    "index" / VarInt,
    "type" / If(this.index != 0, NUMBER),
    "value" / Switch(this.type, {
        **dict.fromkeys((0, 2, 3, 7), Sleb()), 1: VarInt, 4: VarInt, 5: Float64l,
        6: Struct("there" / Byte, "value" / If(this.there == 1, STRING)),
    }, Pass),
)  # fmt: skip
COUNTERS = Struct("time" / TIME, "counters" / RepeatUntil(lambda counter, *_: counter.index == 0, COUNTER))

JITHELPER = Struct(
    "time" / TIME, "type" / Byte, "buffer address" / PTR, "buffer size" / VarInt, "name" / If(this.type == 5, STRING)
)

COVERAGE = {
    0: Struct("time" / TIME, "name" / STRING, "guid" / STRING, "filename" / STRING, "number_of_methods" / VarInt,
              "fully_covered" / VarInt, "partially_covered" / VarInt),
    1: Struct("time" / TIME, "assembly" / STRING, "class" / STRING, "name" / STRING, "signature" / STRING,
              "filename" / STRING, "token" / VarInt, "method_id" / VarInt, "len" / VarInt),
    2: Struct("time" / TIME, "method_id" / VarInt, "offset" / VarInt, "counter" / VarInt, "line" / VarInt,
              "column" / VarInt),
    3: Struct("time" / TIME, "name" / STRING, "class" / STRING, "number_of_methods" / VarInt,
              "fully_covered" / VarInt, "partially_covered" / VarInt),
}  # fmt: skip

SYNC_POINT = Struct("time" / TIME, "type" / Byte)
AOT_ID = Struct("time" / TIME, "id" / STRING)

# By type and extended info. Data version 15 added root regions and vtables and changed roots; 16 added AOT ids and took
# away coverage and native binaries.
EVENTS: dict[tuple[int, int], Any] = {
    (0, 0): ALLOC, (0, 1): ALLOC, (1, 1): GC_EVENT, (1, 2): GC_RESIZE, (1, 3): GC_MOVE, (1, 4): GC_HANDLE_CREATED,
    (1, 5): GC_HANDLE_DESTROYED, (1, 6): GC_HANDLE_CREATED, (1, 7): GC_HANDLE_DESTROYED, (1, 8): ONLY_TIME,
    (1, 9): ONLY_TIME, (1, 10): GC_FINALIZE_OBJECT, (1, 11): GC_FINALIZE_OBJECT, (2, 0): METADATA, (2, 2): METADATA,
    (2, 4): METADATA, (3, 1): METHOD_EVENT, (3, 2): METHOD_EVENT, (3, 3): METHOD_EVENT, (3, 4): JIT, (4, 0): THROW,
    (4, 8): THROW, (4, 1): CLAUSE, (5, 0): MONITOR, (5, 8): MONITOR, (6, 0): ONLY_TIME, (6, 1): ONLY_TIME,
    (6, 2): HEAP_OBJECT, (7, 0): SAMPLE_HIT, (7, 1): SAMPLE_USYM, (7, 3): COUNTERS_DESC, (7, 4): COUNTERS,
    (8, 1): JITHELPER, (10, 0): SYNC_POINT,
}  # fmt: skip
BY_VERSION: dict[int, dict[tuple[int, int], Any]] = {
    14: EVENTS
    | {(6, 3): OLD_HEAP_ROOT, (7, 2): SAMPLE_UBIN}
    | {(9, kind): struct for kind, struct in COVERAGE.items()},
    17: EVENTS | {(6, 3): HEAP_ROOT, (6, 4): ROOT_REGISTER, (6, 5): ROOT_UNREGISTER, (10, 1): AOT_ID},
}

_SIZED = Struct("size" / Int32ul, "text" / FixedSized(this.size, Rest))
HEADER = Struct(
    "id" / Bytes(4), "major" / Int8ul, "minor" / Int8ul, "format" / Int8ul, "ptrsize" / Int8ul,
    "startup time" / Int64ul, "startup tick" / If(this.major >= 3, Int64ul), "timer overhead" / Int32ul,
    "flags" / Int32ul, "pid" / Int32ul, "port" / Int16ul, "args" / _SIZED, "arch" / _SIZED, "os" / _SIZED,
)  # fmt: skip
BUFFER = Struct(
    "bufid" / Bytes(4), "len" / Int32ul, "time_base" / Int64ul, "ptr_base" / Int64ul, "obj_base" / Int64ul,
    "thread id" / Int64ul, "method_base" / Int64ul, "data" / Bytes(this.len),
)  # fmt: skip
FILE = Struct("header" / HEADER, "buffers" / GreedyRange(BUFFER))


def parse_events(data: bytes, version: int, bits: int, bases: dict[str, int]) -> list[tuple[tuple[int, int], Event]]:
    """Return the events of a buffer: type and extended info, and fields. Raise OracleError for forbidden input."""
    state = {"version": version, "bits": bits, **bases}
    stream, events = BytesIO(data), []
    while stream.tell() < len(data):
        head = stream.read(1)[0]
        key = head & 15, head >> 4
        if key not in BY_VERSION[version]:
            raise OracleError(f"data version {version} has no event {head:#x}")
        try:
            event = BY_VERSION[version][key].parse_stream(stream, exinfo=key[1], state=state)
        except ConstructError as error:
            raise OracleError(str(error)) from error
        events.append((key, event))
    return events
