"""Every word of the Fuchsia trace format: the only place in the package that knows its bit positions.

In the specification's order, with its names and inclusive ranges.  Sizes are in words of 8 bytes, header included.
"""

from __future__ import annotations

from fxtio.codec.word import Word, bits, const, reserved, tag
from fxtio.fxt.enums import (
    ArgumentType,
    BlobType,
    EventType,
    LargeBlobFormat,
    LargeType,
    MetadataType,
    ObjectType,
    ProfilerType,
    ProviderEventId,
    RecordType,
    SchedulingType,
    ThreadState,
    TraceInfoType,
)


class StringRefWord(Word, width=16):
    """A reference to a string.  spec: String references"""

    index: int = bits(0, 14, doc="slot of the string table, 0 = empty; length in bytes if inline")
    inline: int = bits(15, 15, doc="1 = the text is in the record")


class RecordWord(Word, partial=True):
    """The start of the header of every record.  spec: Record header"""

    type: RecordType = tag(0, 3, doc="record type")
    size: int = bits(4, 15, least=1, doc="record size in words")


class LargeWord(Word, partial=True):
    """The start of the header of every large record.  spec: Large record header"""

    type: RecordType = tag(0, 3, RecordType.LARGE)
    size: int = bits(4, 35, least=1, doc="record size in words")
    large_type: LargeType = tag(36, 39)


class MetadataWord(RecordWord, partial=True):
    """spec: Metadata record"""

    type: RecordType = tag(0, 3, RecordType.METADATA)
    metadata_type: MetadataType = tag(16, 19)


class ProviderInfoWord(MetadataWord):
    """spec: Provider info metadata"""

    metadata_type: MetadataType = tag(16, 19, MetadataType.PROVIDER_INFO)
    provider_id: int = bits(20, 51)
    name_size: int = bits(52, 59, doc="name length in bytes")
    unused: int = reserved(60, 63)


class ProviderSectionWord(MetadataWord):
    """spec: Provider section metadata"""

    metadata_type: MetadataType = tag(16, 19, MetadataType.PROVIDER_SECTION)
    provider_id: int = bits(20, 51)
    unused: int = reserved(52, 63)


class ProviderEventWord(MetadataWord):
    """spec: Provider event metadata"""

    metadata_type: MetadataType = tag(16, 19, MetadataType.PROVIDER_EVENT)
    provider_id: int = bits(20, 51)
    event: ProviderEventId = bits(52, 55, doc="the event id")
    unused: int = reserved(56, 63)


class TraceInfoWord(MetadataWord):
    """Trace info of a type that the specification does not define.  spec: Trace info metadata"""

    metadata_type: MetadataType = tag(16, 19, MetadataType.TRACE_INFO)
    info_type: TraceInfoType = bits(20, 23, least=1, doc="trace info type; 0 is the magic number's")
    data: int = bits(24, 63, doc="varies by trace info type")


class MagicWord(MetadataWord):
    """spec: Magic number record"""

    metadata_type: MetadataType = tag(16, 19, MetadataType.TRACE_INFO)
    info_type: TraceInfoType = tag(20, 23, TraceInfoType.MAGIC_NUMBER)
    magic: int = const(24, 55, 0x16547846, doc='"FxT" and a random byte')
    zero: int = const(56, 63, 0)


class InitializationWord(RecordWord):
    """spec: Initialization record"""

    type: RecordType = tag(0, 3, RecordType.INITIALIZATION)
    unused: int = reserved(16, 63)


class StringWord(RecordWord):
    """spec: String record"""

    type: RecordType = tag(0, 3, RecordType.STRING)
    index: int = bits(16, 30, least=1, doc="slot of the string table; a record with slot 0 is ignored")
    zero: int = reserved(31, 31, "always zero")
    text_size: int = bits(32, 46, doc="string length in bytes")
    zero_2: int = reserved(47, 47, "always zero")
    unused: int = reserved(48, 63)


class ThreadWord(RecordWord):
    """spec: Thread record"""

    type: RecordType = tag(0, 3, RecordType.THREAD)
    index: int = bits(16, 23, least=1, doc="slot of the thread table; a record with slot 0 is ignored")
    unused: int = reserved(24, 63)


class EventWord(RecordWord):
    """spec: Event record"""

    type: RecordType = tag(0, 3, RecordType.EVENT)
    event_type: EventType = tag(16, 19)
    arg_count: int = bits(20, 23, doc="number of arguments")
    thread: int = bits(24, 31, doc="thread ref, 0 = inline")
    category: int = bits(32, 47, doc="string ref")
    name: int = bits(48, 63, doc="string ref")


class BlobWord(RecordWord):
    """spec: BLOB record"""

    type: RecordType = tag(0, 3, RecordType.BLOB)
    name: int = bits(16, 31, doc="string ref")
    payload_size: int = bits(32, 46, doc="payload size in bytes")
    unused: int = reserved(47, 47)
    blob_type: BlobType = bits(48, 55)
    unused_2: int = reserved(56, 63)


class UserspaceObjectWord(RecordWord):
    """spec: Userspace object record"""

    type: RecordType = tag(0, 3, RecordType.USERSPACE_OBJECT)
    process: int = bits(16, 23, doc="thread ref, 0 = inline")
    name: int = bits(24, 39, doc="string ref")
    arg_count: int = bits(40, 43, doc="number of arguments")
    unused: int = reserved(44, 63)


class KernelObjectWord(RecordWord):
    """spec: Kernel object record"""

    type: RecordType = tag(0, 3, RecordType.KERNEL_OBJECT)
    object_type: ObjectType = bits(16, 23)
    name: int = bits(24, 39, doc="string ref")
    arg_count: int = bits(40, 43, doc="number of arguments")
    unused: int = reserved(44, 63)


class SchedulingWord(RecordWord, partial=True):
    """spec: Scheduling record"""

    type: RecordType = tag(0, 3, RecordType.SCHEDULING)
    scheduling_type: SchedulingType = tag(60, 63)


class LegacyContextSwitchWord(SchedulingWord):
    """spec: Legacy context switch record"""

    cpu: int = bits(16, 23, doc="cpu number")
    outgoing_state: ThreadState = bits(24, 27)
    outgoing: int = bits(28, 35, doc="thread ref, 0 = inline")
    incoming: int = bits(36, 43, doc="thread ref, 0 = inline")
    outgoing_priority: int = bits(44, 51)
    incoming_priority: int = bits(52, 59)
    scheduling_type: SchedulingType = tag(60, 63, SchedulingType.LEGACY_CONTEXT_SWITCH)


class ContextSwitchWord(SchedulingWord):
    """spec: Context switch record"""

    arg_count: int = bits(16, 19, doc="number of arguments")
    cpu: int = bits(20, 35, doc="cpu number")
    outgoing_state: ThreadState = bits(36, 39)
    unused: int = reserved(40, 59)
    scheduling_type: SchedulingType = tag(60, 63, SchedulingType.CONTEXT_SWITCH)


class ThreadWakeupWord(SchedulingWord):
    """spec: Thread wakeup record"""

    arg_count: int = bits(16, 19, doc="number of arguments")
    cpu: int = bits(20, 35, doc="cpu number")
    unused: int = reserved(36, 59)
    scheduling_type: SchedulingType = tag(60, 63, SchedulingType.THREAD_WAKEUP)


class LogWord(RecordWord):
    """spec: Log record"""

    type: RecordType = tag(0, 3, RecordType.LOG)
    message_size: int = bits(16, 30, doc="message length in bytes")
    zero: int = reserved(31, 31, "always zero")
    thread: int = bits(32, 39, doc="thread ref, 0 = inline")
    unused: int = reserved(40, 63)


class ProfilerWord(RecordWord, partial=True):
    """spec: Profiler record"""

    type: RecordType = tag(0, 3, RecordType.PROFILER)
    profiler_type: ProfilerType = tag(16, 19)


class ProfilerModuleWord(ProfilerWord):
    """spec: Module record"""

    profiler_type: ProfilerType = tag(16, 19, ProfilerType.MODULE)
    thread: int = bits(20, 27, doc="thread ref, 0 = inline")
    module: int = bits(28, 43, doc="module id")
    name_size: int = bits(44, 51, doc="name length in bytes")
    build_id_size: int = bits(52, 59, doc="build id length in bytes")
    unused: int = reserved(60, 63)


class ProfilerMmapWord(ProfilerWord):
    """spec: Mmap record"""

    profiler_type: ProfilerType = tag(16, 19, ProfilerType.MMAP)
    thread: int = bits(20, 27, doc="thread ref, 0 = inline")
    module: int = bits(28, 43, doc="module id")
    flags: int = bits(44, 46, doc="1 read, 2 write, 4 execute")
    unused: int = reserved(47, 63)


class ProfilerBacktraceWord(ProfilerWord):
    """spec: Backtrace record.  Rust producers use the reserved bits 36 to 63 as flags."""

    profiler_type: ProfilerType = tag(16, 19, ProfilerType.BACKTRACE)
    thread: int = bits(20, 27, doc="thread ref, 0 = inline")
    frame_count: int = bits(28, 35, doc="number of frames")
    flags: int = bits(36, 63, doc="reserved by the specification; used as flags in practice")


class LargeBlobWord(LargeWord):
    """spec: Large BLOB record"""

    large_type: LargeType = tag(36, 39, LargeType.BLOB)
    blob_format: LargeBlobFormat = tag(40, 43)
    unused: int = reserved(44, 63)


class LargeBlobMetadataWord(Word):
    """The format header word.  spec: In band large BLOB record with metadata"""

    category: int = bits(0, 15, doc="string ref")
    name: int = bits(16, 31, doc="string ref")
    arg_count: int = bits(32, 35, doc="number of arguments")
    thread: int = bits(36, 43, doc="thread ref, 0 = inline")
    unused: int = reserved(44, 63)


class LargeBlobNoMetadataWord(Word):
    """The format header word.  spec: In band large BLOB record no metadata"""

    category: int = bits(0, 15, doc="string ref")
    name: int = bits(16, 31, doc="string ref")
    unused: int = reserved(32, 63)


class ArgumentWord(Word, partial=True):
    """The start of every argument.  spec: Argument header"""

    type: ArgumentType = tag(0, 3, doc="argument type")
    size: int = bits(4, 15, least=1, doc="argument size in words")
    name: int = bits(16, 31, doc="string ref")


class PlainArgumentWord(ArgumentWord):
    """An argument whose value, if it has one, is the word after the name.  spec: Argument header"""

    type: ArgumentType = tag(0, 3)
    unused: int = reserved(32, 63)


class Int32ArgumentWord(ArgumentWord):
    """spec: 32-bit signed integer argument"""

    type: ArgumentType = tag(0, 3, ArgumentType.INT32)
    value: int = bits(32, 63, signed=True)


class Uint32ArgumentWord(ArgumentWord):
    """spec: 32-bit unsigned integer argument"""

    type: ArgumentType = tag(0, 3, ArgumentType.UINT32)
    value: int = bits(32, 63)


class StringArgumentWord(ArgumentWord):
    """spec: String argument"""

    type: ArgumentType = tag(0, 3, ArgumentType.STRING)
    value: int = bits(32, 47, doc="string ref")
    unused: int = reserved(48, 63)


class BoolArgumentWord(ArgumentWord):
    """spec: Boolean argument"""

    type: ArgumentType = tag(0, 3, ArgumentType.BOOL)
    value: int = bits(32, 32)
    unused: int = reserved(33, 63)


class BlobArgumentWord(ArgumentWord):
    """spec: Blob argument"""

    type: ArgumentType = tag(0, 3, ArgumentType.BLOB)
    value_size: int = bits(32, 63, doc="payload size in bytes")


# The limits of the format.  Whoever needs one imports it from here.

MAX_ARGUMENTS = EventWord.fields["arg_count"].mask
"""The most arguments of a record.  spec: Arguments"""

MAX_RECORD_WORDS = RecordWord.fields["size"].mask
"""The most words of a record that is not a large one, header included.  spec: Record header"""

MAX_TEXT_BYTES = 32_000
"""The longest string in bytes that may be written.  spec: String references"""

MAX_BLOB_BYTES = 32_000
"""The most bytes that the writer puts into an ordinary blob record; it writes more as a large blob."""

MAX_STRING_SLOT = StringWord.fields["index"].mask
"""The last slot of the string table; the first is 1.  spec: String record"""

MAX_THREAD_SLOT = ThreadWord.fields["index"].mask
"""The last slot of the thread table; the first is 1.  spec: Thread record"""

MAX_PROVIDER_ID = ProviderInfoWord.fields["provider_id"].mask
"""The largest provider id.  spec: Provider info metadata"""

MAGIC: bytes = (MagicWord.pattern("tag", "const")[1] | MagicWord.fields["size"].put(1)).to_bytes(8, "little")
"""The first eight bytes of a little-endian trace; a big-endian trace has them reversed.  spec: Magic number record"""
