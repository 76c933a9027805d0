"""The messages of a Perfetto trace: the numbers of their fields, for reading and writing.

A class has the fields of one message that are used here.  `Packet` has all kinds of content, so that what is not read
can be named.

https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

from enum import IntEnum

PACKET = 1
"""The field of Trace that is a packet."""

CLEARED, NEEDS_STATE = 1, 2
"""The flags of a packet: its sequence begins anew; it needs what its sequence has defined."""

BOOTTIME, MONOTONIC, REALTIME = 6, 3, 1
"""The clock in which times are by default, and the wall clock."""

FIRST_OWN_CLOCK, FIRST_SHARED_CLOCK = 64, 128
"""Clocks from the first to before the second one belong to their sequence."""

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
"""The types of events."""


class Packet(IntEnum):
    """The fields of TracePacket."""

    FTRACE_EVENTS = 1
    PROCESS_TREE = 2
    TRUSTED_UID = 3
    INODE_FILE_MAP = 4
    CHROME_EVENTS = 5
    CLOCK_SNAPSHOT = 6
    SYS_STATS = 7
    TIMESTAMP = 8
    PROCESS_STATS = 9
    SEQUENCE = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACE_CONFIG = 33
    FTRACE_STATS = 34
    TRACE_STATS = 35
    SYNCHRONIZATION_MARKER = 36
    PROFILE_PACKET = 37
    BATTERY = 38
    ANDROID_LOG = 39
    POWER_RAILS = 40
    STATE_CLEARED = 41
    PREVIOUS_DROPPED = 42
    PROCESS_DESCRIPTOR = 43
    THREAD_DESCRIPTOR = 44
    SYSTEM_INFO = 45
    TRIGGER = 46
    PACKAGES_LIST = 47
    CHROME_BENCHMARK_METADATA = 48
    PERFETTO_METATRACE = 49
    COMPRESSED_PACKETS = 50
    CHROME_METADATA = 51
    GPU_COUNTER_EVENT = 52
    GPU_RENDER_STAGE_EVENT = 53
    STREAMING_PROFILE_PACKET = 54
    HEAP_GRAPH = 56
    GRAPHICS_FRAME_EVENT = 57
    CLOCK = 58
    DEFAULTS = 59
    TRACK_DESCRIPTOR = 60
    MODULE_SYMBOLS = 61
    VULKAN_MEMORY_EVENT = 62
    GPU_LOG = 63
    DEOBFUSCATION_MAPPING = 64
    VULKAN_API_EVENT = 65
    PERF_SAMPLE = 66
    CPU_INFO = 67
    SMAPS_PACKET = 68
    SERVICE_EVENT = 69
    INITIAL_DISPLAY_STATE = 70
    GPU_MEM_TOTAL_EVENT = 71
    EXTENSION_DESCRIPTOR = 72
    MEMORY_TRACKER_SNAPSHOT = 73
    STREAMING_ALLOCATION = 74
    STREAMING_FREE = 75
    FRAME_TIMELINE_EVENT = 76
    ANDROID_ENERGY_ESTIMATION_BREAKDOWN = 77
    UI_STATE = 78
    TRUSTED_PID = 79
    TRANSLATION_TABLE = 82
    ANDROID_GAME_INTERVENTION_LIST = 83
    STATSD_ATOM = 84
    ANDROID_SYSTEM_PROPERTY = 86
    FIRST_ON_SEQUENCE = 87
    NETWORK_PACKET = 88
    TRACE_UUID = 89
    TRACK_EVENT_RANGE_OF_INTEREST = 90
    ENTITY_STATE_RESIDENCY = 91
    NETWORK_PACKET_BUNDLE = 92
    ETW_EVENTS = 95
    MACHINE_ID = 98
    V8_JS_CODE = 99
    V8_INTERNAL_CODE = 100
    V8_WASM_CODE = 101
    V8_REG_EXP_CODE = 102
    V8_CODE_MOVE = 103
    REMOTE_CLOCK_SYNC = 107
    GENERIC_KERNEL_TASK_STATE_EVENT = 117
    GENERIC_KERNEL_CPU_FREQ_EVENT = 118
    GENERIC_KERNEL_TASK_RENAME_EVENT = 120
    GENERIC_KERNEL_PROCESS_TREE = 122
    TRACE_ATTRIBUTES = 126
    ZSTD_COMPRESSED_PACKETS = 133
    STACK_SAMPLE = 135


NUMBERS = frozenset({
    Packet.TRUSTED_UID, Packet.TIMESTAMP, Packet.SEQUENCE, Packet.SEQUENCE_FLAGS, Packet.STATE_CLEARED,
    Packet.PREVIOUS_DROPPED, Packet.CLOCK, Packet.TRUSTED_PID, Packet.FIRST_ON_SEQUENCE, Packet.MACHINE_ID,
})  # fmt: skip
"""The fields of packets that are numbers; all others are messages or bytes."""


class Snapshot(IntEnum):
    """The fields of ClockSnapshot."""

    CLOCKS = 1
    PRIMARY = 2


class Clock(IntEnum):
    """The fields of ClockSnapshot.Clock."""

    ID = 1
    TIMESTAMP = 2
    IS_INCREMENTAL = 3
    MULTIPLIER = 4


class Attribute(IntEnum):
    """The fields of TraceAttributes.Attribute, of which TraceAttributes is a list."""

    KEY = 1
    NUMBER = 2
    TEXT = 3


ATTRIBUTES = 1
"""The field of TraceAttributes that has the attributes."""


class Defaults(IntEnum):
    """The fields of TracePacketDefaults, and of its TrackEventDefaults those of `Event`."""

    TRACK_EVENT = 11
    CLOCK = 58


class Descriptor(IntEnum):
    """The fields of TrackDescriptor."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT = 5
    COUNTER = 8
    STATIC_NAME = 10
    ATRACE_NAME = 13


class Owner(IntEnum):
    """The fields of ProcessDescriptor and ThreadDescriptor, of which the process has none with a thread's name."""

    PID = 1
    TID = 2
    CMDLINE = 2
    THREAD_NAME = 5
    PROCESS_NAME = 6
    REFERENCE_TIME = 6


class CounterField(IntEnum):
    """The fields of CounterDescriptor."""

    TYPE = 1
    CATEGORIES = 2
    UNIT = 3
    MULTIPLIER = 4
    IS_INCREMENTAL = 5
    UNIT_NAME = 6


class Event(IntEnum):
    """The fields of TrackEvent; those from `TASK_EXECUTION` on are not read."""

    CATEGORY = 3
    ANNOTATION = 4
    LEGACY = 6
    TYPE = 9
    NAME = 10
    TRACK = 11
    EXTRA_VALUES = 12
    CATEGORY_TEXT = 22
    NAME_TEXT = 23
    VALUE = 30
    EXTRA_TRACKS = 31
    OLD_FLOWS = 36
    OLD_LAST_FLOWS = 42
    DOUBLE = 44
    EXTRA_DOUBLE_TRACKS = 45
    EXTRA_DOUBLES = 46
    FLOWS = 47
    LAST_FLOWS = 48
    TASK_EXECUTION = 5
    LOG_MESSAGE = 21
    SOURCE_LOCATION = 33
    SOURCE_LOCATION_IID = 34
    CORRELATION_ID = 52
    CORRELATION_ID_STR = 53
    CORRELATION_ID_STR_IID = 54
    CALLSTACK = 55
    CALLSTACK_IID = 56


class Legacy(IntEnum):
    """The fields of TrackEvent.LegacyEvent."""

    NAME = 1
    PHASE = 2
    DURATION = 3
    ID = 6
    SCOPE = 7
    BIND_ID = 8
    LOCAL_ID = 10
    GLOBAL_ID = 11
    TO_ENCLOSING = 12
    INSTANT_SCOPE = 14
    PID = 18
    TID = 19


class Annotation(IntEnum):
    """The fields of DebugAnnotation."""

    NAME = 1
    BOOL = 2
    UINT = 3
    INT = 4
    DOUBLE = 5
    STRING = 6
    POINTER = 7
    NESTED = 8
    JSON = 9
    NAME_TEXT = 10
    ENTRIES = 11
    ITEMS = 12
    TEXT = 17


class Nested(IntEnum):
    """The fields of DebugAnnotation.NestedValue."""

    TYPE = 1
    KEYS = 2
    VALUES = 3
    ITEMS = 4
    INT = 5
    DOUBLE = 6
    BOOL = 7
    STRING = 8


class Interned(IntEnum):
    """The fields of InternedData: kinds of names and others, each with numbers of its own."""

    CATEGORY = 1
    EVENT = 2
    ANNOTATION = 3
    FUNCTION = 5
    FRAME = 6
    CALLSTACK = 7
    PATH = 17
    SOURCE_PATH = 18
    MAPPING = 19
    TEXT = 29


class Entry(IntEnum):
    """The fields of an item of InternedData: its number, and its name if it is one."""

    IID = 1
    NAME = 2


class Frame(IntEnum):
    """The fields of Frame."""

    FUNCTION = 2
    MAPPING = 3
    ADDRESS = 4
    SOURCE_PATH = 5
    LINE = 6


class Callstack(IntEnum):
    """The fields of Callstack."""

    FRAMES = 2


class Mapping(IntEnum):
    """The fields of Mapping."""

    PATHS = 7


class PerfSample(IntEnum):
    """The fields of PerfSample."""

    CPU = 1
    PID = 2
    TID = 3
    CALLSTACK = 4
    LOST = 17
    SKIPPED = 18


class StreamingProfile(IntEnum):
    """The fields of StreamingProfilePacket."""

    CALLSTACK = 1
    DELTA = 2


class Tree(IntEnum):
    """The fields of ProcessTree."""

    PROCESSES = 1
    THREADS = 2


class TreeProcess(IntEnum):
    """The fields of ProcessTree.Process."""

    PID = 1
    CMDLINE = 3


class TreeThread(IntEnum):
    """The fields of ProcessTree.Thread."""

    TID = 1
    NAME = 2
    TGID = 3


class Bundle(IntEnum):
    """The fields of FtraceEventBundle."""

    CPU = 1
    EVENT = 2
    LOST = 3
    COMPACT = 4
    CLOCK = 5


class Compact(IntEnum):
    """The fields of FtraceEventBundle.CompactSched."""

    SWITCH_TIME = 1
    SWITCH_STATE = 2
    SWITCH_THREAD = 3
    SWITCH_PRIORITY = 4
    NAMES = 5
    SWITCH_NAME = 6
    WAKING_TIME = 7
    WAKING_THREAD = 8
    WAKING_CPU = 9
    WAKING_NAME = 11


class Ftrace(IntEnum):
    """The fields of FtraceEvent."""

    TIMESTAMP = 1
    THREAD = 2
    PRINT = 3
    SWITCH = 4
    FLAGS = 5
    WAKEUP = 17
    WAKING = 20
    WAKEUP_NEW = 114


class Switch(IntEnum):
    """The fields of SchedSwitchFtraceEvent."""

    NAME_BEFORE = 1
    THREAD_BEFORE = 2
    PRIORITY_BEFORE = 3
    STATE_BEFORE = 4
    NAME = 5
    THREAD = 6
    PRIORITY = 7


class Waking(IntEnum):
    """The fields of SchedWakingFtraceEvent and SchedWakeupFtraceEvent."""

    NAME = 1
    THREAD = 2
    PRIORITY = 3
    SUCCESS = 4
    CPU = 5


class Print(IntEnum):
    """The fields of PrintFtraceEvent."""

    TEXT = 2
