"""The numbers that have names in the Fuchsia trace format, in the specification's order."""

from __future__ import annotations

from enum import IntEnum


class RecordType(IntEnum):
    """spec: Record types"""

    METADATA = 0
    INITIALIZATION = 1
    STRING = 2
    THREAD = 3
    EVENT = 4
    BLOB = 5
    USERSPACE_OBJECT = 6
    KERNEL_OBJECT = 7
    SCHEDULING = 8
    LOG = 9
    PROFILER = 10
    LARGE = 15


class MetadataType(IntEnum):
    """spec: Metadata record"""

    PROVIDER_INFO = 1
    PROVIDER_SECTION = 2
    PROVIDER_EVENT = 3
    TRACE_INFO = 4


class TraceInfoType(IntEnum):
    """spec: Trace info metadata"""

    MAGIC_NUMBER = 0


class ProviderEventId(IntEnum):
    """spec: Provider event metadata"""

    BUFFER_FILLED_UP = 0


class EventType(IntEnum):
    """spec: Event record"""

    INSTANT = 0
    COUNTER = 1
    DURATION_BEGIN = 2
    DURATION_END = 3
    DURATION_COMPLETE = 4
    ASYNC_BEGIN = 5
    ASYNC_INSTANT = 6
    ASYNC_END = 7
    FLOW_BEGIN = 8
    FLOW_STEP = 9
    FLOW_END = 10


class Scope(IntEnum):
    """The extra word after an instant event, as older producers write it.  Not in the specification."""

    THREAD = 0
    PROCESS = 1
    GLOBAL = 2


class BlobType(IntEnum):
    """spec: Blob types"""

    DATA = 1
    LAST_BRANCH = 2
    PERFETTO = 3


class ObjectType(IntEnum):
    """Kernel object types; the specification points to zircon/syscalls/types.h."""

    NONE = 0
    PROCESS = 1
    THREAD = 2
    VMO = 3
    CHANNEL = 4
    EVENT = 5
    PORT = 6
    INTERRUPT = 9
    PCI_DEVICE = 11
    DEBUGLOG = 12
    SOCKET = 14
    RESOURCE = 15
    EVENTPAIR = 16
    JOB = 17
    VMAR = 18
    FIFO = 19
    GUEST = 20
    VCPU = 21
    TIMER = 22
    IOMMU = 23
    BTI = 24
    PROFILE = 25
    PMT = 26
    SUSPEND_TOKEN = 27
    PAGER = 28
    EXCEPTION = 29
    CLOCK = 30
    STREAM = 31
    MSI = 32
    IOB = 33
    COUNTER = 34
    IOB_SHARED_REGION = 35


class SchedulingType(IntEnum):
    """spec: Scheduling record"""

    LEGACY_CONTEXT_SWITCH = 0
    CONTEXT_SWITCH = 1
    THREAD_WAKEUP = 2


class ThreadState(IntEnum):
    """spec: Thread states"""

    NEW = 0
    RUNNING = 1
    SUSPENDED = 2
    BLOCKED = 3
    DYING = 4
    DEAD = 5


class ProfilerType(IntEnum):
    """spec: Profiler record"""

    MODULE = 0
    MMAP = 1
    BACKTRACE = 2


class LargeType(IntEnum):
    """spec: Large record header"""

    BLOB = 0


class LargeBlobFormat(IntEnum):
    """spec: Large BLOB record"""

    WITH_METADATA = 0
    NO_METADATA = 1


class ArgumentType(IntEnum):
    """spec: Argument types"""

    NULL = 0
    INT32 = 1
    UINT32 = 2
    INT64 = 3
    UINT64 = 4
    DOUBLE = 5
    STRING = 6
    POINTER = 7
    KOID = 8
    BOOL = 9
    BLOB = 10
