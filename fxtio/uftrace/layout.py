"""Every word of the uftrace format: the only place in the package that knows its bit positions.

A record is two words of 64 bits: a time, and a packed word.  The kernel's ring buffers, which uftrace copies as they
are, and the masks of the info file are here, too.
"""

from __future__ import annotations

from enum import IntFlag

from fxtio.codec.word import Word, bits, const, reserved, tag
from fxtio.uftrace.enums import RecordType, RingType

MAGIC = 5
DEPTHS = 1024
"""How many depths a record can tell apart; a deeper one wraps around, and carries into the address."""


class TimeWord(Word):
    """The first word of every record.  spec: Data record"""

    time: int = bits(0, 63, doc="nanoseconds of the monotonic clock; 0 in a lost record")


class HeadWord(Word, partial=True):
    """What the second word of all records begins with.  spec: Data record"""

    type: RecordType = tag(0, 1, doc="record type")
    more: int = bits(2, 2, doc="1 = a payload follows")
    magic: int = const(3, 5, MAGIC)
    depth: int = bits(6, 15, doc="depth of the call, modulo 1024")


class RecordWord(HeadWord):
    """The second word of a record whose type is not known beforehand.  spec: Data record"""

    address: int = bits(16, 63, doc="lower 48 bits of an address inside the function")


class EntryWord(RecordWord):
    """spec: Data record"""

    type: RecordType = tag(0, 1, RecordType.ENTRY)


class ExitWord(RecordWord):
    """spec: Data record"""

    type: RecordType = tag(0, 1, RecordType.EXIT)


class LostWord(HeadWord):
    """spec: Data record"""

    type: RecordType = tag(0, 1, RecordType.LOST)
    count: int = bits(16, 63, doc="how many records were lost")


class EventWord(HeadWord):
    """spec: Data record"""

    type: RecordType = tag(0, 1, RecordType.EVENT)
    event: int = bits(16, 63, doc="id of the event")


class RingWord(Word, width=32):
    """What every entry of a page of the kernel's ring buffer begins with."""

    kind: RingType = bits(0, 4, doc="words of 4 bytes, or what else it is")
    delta: int = bits(5, 31, doc="nanoseconds since the entry before; of a time extend, its lower bits")


class CommitWord(Word):
    """How much of a page of the kernel's ring buffer is used."""

    size: int = bits(0, 19, doc="bytes used")
    unused: int = reserved(20, 29)
    stored: int = bits(30, 30, doc="1 = how many events were missed stands behind the last entry")
    missed: int = bits(31, 31, doc="1 = events were missed before this page")
    upper: int = reserved(32, 63)


class ExtendWord(Word):
    """The whole delta of a time extend: the entry's own 27 bits, then the word behind it."""

    low: int = bits(0, 26)
    high: int = bits(27, 58)
    unused: int = reserved(59, 63)


class PerfMiscWord(Word, width=16):
    """The flags of a perf record, as far as uftrace uses them."""

    low: int = bits(0, 12)
    out: int = bits(13, 13, doc="of a switch: 1 = out; of a comm: 1 = the task called exec")
    preempted: int = bits(14, 14, doc="of a switch out: 1 = pre-empted")
    high: int = bits(15, 15)


class Feature(IntFlag):
    """The bits of `feat_mask`.  spec: The info file; those from EVENT on came later"""

    PLTHOOK = 1 << 0
    TASK_SESSION = 1 << 1
    KERNEL = 1 << 2
    ARGUMENT = 1 << 3
    RETVAL = 1 << 4
    SYM_REL_ADDR = 1 << 5
    MAX_STACK = 1 << 6
    EVENT = 1 << 7
    PERF_EVENT = 1 << 8
    AUTO_ARGS = 1 << 9
    DEBUG_INFO = 1 << 10
    ESTIMATE_RETURN = 1 << 11
    SYM_SIZE = 1 << 12
    CALLSITE = 1 << 13


class InfoBit(IntFlag):
    """The bits of `info_mask`: which blocks of text follow, in this order."""

    EXE_NAME = 1 << 0
    EXE_BUILD_ID = 1 << 1
    EXIT_STATUS = 1 << 2
    CMDLINE = 1 << 3
    CPUINFO = 1 << 4
    MEMINFO = 1 << 5
    OSINFO = 1 << 6
    TASKINFO = 1 << 7
    USAGEINFO = 1 << 8
    LOADINFO = 1 << 9
    ARG_SPEC = 1 << 10
    RECORD_DATE = 1 << 11
    PATTERN_TYPE = 1 << 12
    VERSION = 1 << 13
    UTC_OFFSET = 1 << 14
    SYSCTL = 1 << 15


def sign_extended(value: int, bits: int) -> int:
    """A two's complement number of so many bits."""
    half = 1 << bits - 1
    return (value & (1 << bits) - 1 ^ half) - half


_KERNEL_BASES = (
    (0x4000_0000, 0x4000_0000),
    (0x8000_0000, 0x8000_0000),
    (0xB000_0000, 0xB000_0000),
    (0xC000_0000, 0xC000_0000),
    (0x80_0000_0000, 0xFFFF_FF80_0000_0000),
    (0x400_0000_0000, 0xFFFF_FC00_0000_0000),
    (0x8000_0000_0000, 0xFFFF_8000_0000_0000),
)


def kernel_base(stack: int) -> int:
    """Where the kernel's addresses begin, by an address of the stack of a program."""
    return next((base for limit, base in _KERNEL_BASES if stack < limit), 0xFFFF_0000_0000_0000)


def kernel_address(address: int, base: int) -> int:
    """The whole address of a kernel function, of which a record keeps the lower 48 bits."""
    return address | base


def cut_address(address: int) -> int:
    """What a record keeps of an address."""
    return address & RecordWord.fields["address"].mask
