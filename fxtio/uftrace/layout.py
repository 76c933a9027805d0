"""Words, structures and constants of the uftrace format: the only module of the package that knows bit positions.

A record is two words of 64 bits: a time, and a packed word.  Declared here are also the entries of the kernel's ring
buffers and the records of Linux perf events, both of which uftrace copies unchanged, and the masks of the info file.
"""

from __future__ import annotations

from enum import IntFlag

import numpy as np

from fxtio.codec.word import Word, bits, const, reserved, tag
from fxtio.uftrace.enums import RecordType, RingType

INFO_MAGIC = b"Ftrace!\0"
"""The first bytes of an info file.  spec: The info file"""

RECORD_MAGIC = 5
DEPTHS = 1024
"""The number of depths that a record can hold; a deeper call wraps around, and carries into the address."""


class TimeWord(Word):
    """The first word of every record.  spec: Data record"""

    time: int = bits(0, 63, doc="nanoseconds of the monotonic clock; 0 in a lost record")


class HeadWord(Word, partial=True):
    """The common beginning of the second word of all records.  spec: Data record"""

    type: RecordType = tag(0, 1, doc="record type")
    more: int = bits(2, 2, doc="1 = a payload follows")
    magic: int = const(3, 5, RECORD_MAGIC)
    depth: int = bits(6, 15, doc="depth of the call, modulo 1024")


class RecordWord(HeadWord):
    """The second word of a record of any type.  spec: Data record"""

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
    count: int = bits(16, 63, doc="number of records that were lost")


class EventWord(HeadWord):
    """spec: Data record"""

    type: RecordType = tag(0, 1, RecordType.EVENT)
    event: int = bits(16, 63, doc="id of the event")


class RingWord(Word, width=32):
    """The first word of every entry of a page of the kernel's ring buffer."""

    kind: RingType = bits(0, 4, doc="size in words of 4 bytes, or another kind of entry")
    delta: int = bits(5, 31, doc="nanoseconds since the previous entry; of a time extend, its lower bits")


class CommitWord(Word):
    """The used size of a page of the kernel's ring buffer."""

    size: int = bits(0, 19, doc="bytes used")
    unused: int = reserved(20, 29)
    stored: int = bits(30, 30, doc="1 = the number of missed events follows the last entry")
    missed: int = bits(31, 31, doc="1 = events were missed before this page")
    upper: int = reserved(32, 63)


class ExtendWord(Word):
    """The whole delta of a time extend: the entry's own 27 bits, then the word that follows it."""

    low: int = bits(0, 26)
    high: int = bits(27, 58)
    unused: int = reserved(59, 63)


class DataLocWord(Word, width=32):
    """The place of a text of variable length in the data of a kernel event (`__data_loc`)."""

    offset: int = bits(0, 15, doc="offset in the data in bytes")
    size: int = bits(16, 31, doc="bytes of the text, with the NUL at its end")


class PerfMiscWord(Word, width=16):
    """The flags of a perf record that uftrace uses."""

    low: int = bits(0, 12)
    out: int = bits(13, 13, doc="of a switch: 1 = out; of a comm: 1 = the task called exec")
    preempted: int = bits(14, 14, doc="of a switch out: 1 = pre-empted")
    high: int = bits(15, 15)


PERF_HEADER = np.dtype([("type", "<u4"), ("misc", "<u2"), ("size", "<u2")])
"""The header of a perf record, little-endian; `newbyteorder` gives the other order.  `misc` is a `PerfMiscWord`."""

PERF_SAMPLE = np.dtype([("pid", "<i4"), ("tid", "<i4"), ("time", "<u8")])
"""The last bytes of every perf record: the task that was running, and the time in nanoseconds."""

PERF_COMM = np.dtype([("pid", "<i4"), ("tid", "<i4")])
"""The body of a COMM record; the task's new name follows, padded with NULs."""

PERF_TASK = np.dtype([("pid", "<i4"), ("ppid", "<i4"), ("tid", "<i4"), ("ptid", "<i4"), ("time", "<u8")])
"""The body of a FORK or EXIT record."""


class Feature(IntFlag):
    """The bits of `feat_mask`.  spec: The info file; the bits from EVENT on were added later"""

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
    """The bits of `info_mask`: the blocks of text that follow, in this order."""

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
