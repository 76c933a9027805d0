"""Enumerations of the uftrace format."""

from __future__ import annotations

from enum import IntEnum


class RecordType(IntEnum):
    """spec: Data record"""

    ENTRY = 0
    EXIT = 1
    LOST = 2
    EVENT = 3


class ByteOrder(IntEnum):
    """ELF's EI_DATA.  spec: The info file"""

    LITTLE = 1
    BIG = 2


class WordClass(IntEnum):
    """ELF's EI_CLASS.  spec: The info file"""

    BITS32 = 1
    BITS64 = 2


class EventId(IntEnum):
    """Ids of the events that uftrace makes itself; smaller ids are those of the kernel's tracepoints."""

    READ_STATM = 100_001
    READ_PAGE_FAULT = 100_002
    DIFF_STATM = 100_003
    DIFF_PAGE_FAULT = 100_004
    READ_PMU_CYCLE = 100_005
    DIFF_PMU_CYCLE = 100_006
    READ_PMU_CACHE = 100_007
    DIFF_PMU_CACHE = 100_008
    READ_PMU_BRANCH = 100_009
    DIFF_PMU_BRANCH = 100_010
    WATCH_CPU = 100_011
    WATCH_VAR = 100_012
    CALLSITE = 100_013
    SCHED_IN = 200_001
    SCHED_OUT = 200_002
    SCHEDULE = 200_003
    TASK_NEW = 200_004
    TASK_EXIT = 200_005
    TASK_NAME = 200_006
    SCHED_OUT_PREEMPTED = 200_007
    SCHEDULE_PREEMPTED = 200_008
    FIRST_USER = 1_000_000
    EXTERNAL = 2_000_000


class PerfType(IntEnum):
    """Types of the records of `perf-cpu<N>.dat` that uftrace reads; the numbers of Linux perf events."""

    COMM = 3
    EXIT = 4
    FORK = 7
    SWITCH = 14


class RingType(IntEnum):
    """Values of the size field of a ring buffer entry that are no size."""

    LONG = 0
    PADDING = 29
    TIME_EXTEND = 30
    TIME_STAMP = 31
