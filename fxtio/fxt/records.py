"""Every record and argument of the Fuchsia trace format, declared once.

The fields stand in the order of the record's body.  A reference is an `int` (a slot of the provider's table, as in the
file) or the thing itself (`str`, `Thread`): one class serves the raw and the resolved form.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.parts import Double, Koids, Many, Optional, Signed, Sized, Stream, Text, Thread, Unsigned, Words
from fxtio.codec.record import Family, Opaque, Record
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.layout import ArgumentType, EventType, LargeBlobFormat

_FORM = w.StringRefWord

NameRef = Annotated[int | str, Text("name", _FORM)]
CategoryRef = Annotated[int | str, Text("category", _FORM)]
ThreadRef = Annotated[int | Thread, Koids("thread")]
ProfilerThreadRef = Annotated[int | Thread, Koids("thread", short_form=True)]
Ticks = Unsigned
"""A moment, in ticks of the provider's clock.  spec: Timestamps"""


class Argument(Record):
    """A typed key and value.  spec: Arguments"""

    name: NameRef


class NullArgument(Argument):
    """A key without a value.  spec: Null argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.NULL),)


class Int32Argument(Argument):
    """spec: 32-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Int32ArgumentWord,)
    value: int


class Uint32Argument(Argument):
    """spec: 32-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Uint32ArgumentWord,)
    value: int


class Int64Argument(Argument):
    """spec: 64-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.INT64),)
    value: Signed


class Uint64Argument(Argument):
    """spec: 64-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.UINT64),)
    value: Unsigned


class DoubleArgument(Argument):
    """spec: Double-precision floating point argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.DOUBLE),)
    value: Double


class StringArgument(Argument):
    """spec: String argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringArgumentWord,)
    value: Annotated[int | str, Text("value", _FORM)]


class PointerArgument(Argument):
    """spec: Pointer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.POINTER),)
    value: Unsigned


class KoidArgument(Argument):
    """spec: Kernel object id argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.KOID),)
    value: Unsigned


class BoolArgument(Argument):
    """spec: Boolean argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BoolArgumentWord,)
    value: bool


class BlobArgument(Argument):
    """spec: Blob argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobArgumentWord,)
    value: Annotated[bytes, Stream("value_size")]


ARGUMENTS = Family(
    w.ArgumentWord,
    [
        NullArgument,
        Int32Argument,
        Uint32Argument,
        Int64Argument,
        Uint64Argument,
        DoubleArgument,
        StringArgument,
        PointerArgument,
        KoidArgument,
        BoolArgument,
        BlobArgument,
    ],
)

Args = Annotated[tuple[Argument | Opaque, ...], Many(ARGUMENTS, "arg_count")]
"""Up to 15 arguments; one of an unknown type is `Opaque`."""


class Magic(Record):
    """The first eight bytes of a trace.  spec: Magic number record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.MagicWord,)


class ProviderInfo(Record):
    """Names a provider, and makes it the one that the following records come from.  spec: Provider info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderInfoWord,)
    provider: int
    name: Annotated[str, Stream("name_size", text=True)]


class ProviderSection(Record):
    """The following records come from this provider.  spec: Provider section metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderSectionWord,)
    provider: int


class ProviderEvent(Record):
    """Something that a provider reports; 0 means that a buffer filled up.  spec: Provider event metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderEventWord,)
    provider: int
    event: int


class TraceInfo(Record):
    """Trace info of an undefined type.  spec: Trace info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.TraceInfoWord,)
    info_type: int
    data: int


class Initialization(Record):
    """The provider's clock.  spec: Initialization record

    Attributes:
        ticks_per_second: the tick rate.
        base_ticks: in the four-word form, the tick that `wall_clock` belongs to.
        wall_clock: in the four-word form, nanoseconds since the Unix epoch at `base_ticks`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.InitializationWord,)
    ticks_per_second: Unsigned
    base_ticks: Optional = None
    wall_clock: Optional = None


class String(Record):
    """Puts a string in a slot of the string table.  spec: String record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringWord,)
    index: int
    text: Annotated[str, Stream("text_size", text=True)]


class ThreadRecord(Record):
    """Puts a process and thread in a slot of the thread table.  spec: Thread record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWord,)
    index: int
    process: Unsigned
    thread: Unsigned


class Event(Record):
    """What all events have.  spec: Event record"""

    timestamp: Ticks
    thread: ThreadRef
    category: CategoryRef
    name: NameRef
    args: Args


class Instant(Event):
    """A moment on a thread.  spec: Instant event

    Attributes:
        scope: the extra word that older producers write (see `Scope`).
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.INSTANT),)
    scope: Optional = None


class Counter(Event):
    """Samples of series, one per argument.  spec: Counter event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.COUNTER),)
    id: Unsigned


class DurationBegin(Event):
    """spec: Duration begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_BEGIN),)


class DurationEnd(Event):
    """spec: Duration end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_END),)


class DurationComplete(Event):
    """Begin and end of an operation in one.  spec: Duration complete event

    Attributes:
        end: the tick at which it ended (a moment, no duration).
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_COMPLETE),)
    end: Ticks


class AsyncBegin(Event):
    """spec: Async begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_BEGIN),)
    id: Unsigned


class AsyncInstant(Event):
    """spec: Async instant event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_INSTANT),)
    id: Unsigned


class AsyncEnd(Event):
    """spec: Async end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_END),)
    id: Unsigned


class FlowBegin(Event):
    """spec: Flow begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_BEGIN),)
    id: Unsigned


class FlowStep(Event):
    """spec: Flow step event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_STEP),)
    id: Unsigned


class FlowEnd(Event):
    """spec: Flow end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_END),)
    id: Unsigned


class Blob(Record):
    """A chunk of the named byte stream.  spec: BLOB record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobWord,)
    name: NameRef
    blob_type: int
    payload: Annotated[bytes, Stream("payload_size")]


class UserspaceObject(Record):
    """Labels whatever a pointer points at.  spec: Userspace object record

    Attributes:
        process: a slot of the thread table, or `Thread(process, None)`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.UserspaceObjectWord,)
    pointer: Unsigned
    process: Annotated[int | Thread, Koids("process", process_only=True)]
    name: NameRef
    args: Args


class KernelObject(Record):
    """Labels a kernel object; this is how processes and threads get names.  spec: Kernel object record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.KernelObjectWord,)
    object_type: int
    koid: Unsigned
    name: NameRef
    args: Args


class LegacyContextSwitch(Record):
    """spec: Legacy context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LegacyContextSwitchWord,)
    cpu: int
    outgoing_state: int
    outgoing_priority: int
    incoming_priority: int
    timestamp: Ticks
    outgoing: Annotated[int | Thread, Koids("outgoing")]
    incoming: Annotated[int | Thread, Koids("incoming")]


class ContextSwitch(Record):
    """spec: Context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ContextSwitchWord,)
    cpu: int
    outgoing_state: int
    timestamp: Ticks
    outgoing: Unsigned
    incoming: Unsigned
    args: Args


class ThreadWakeup(Record):
    """spec: Thread wakeup record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWakeupWord,)
    cpu: int
    timestamp: Ticks
    waking: Unsigned
    args: Args


class Log(Record):
    """A message written to the log.  spec: Log record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LogWord,)
    timestamp: Ticks
    thread: ThreadRef
    message: Annotated[str, Stream("message_size", text=True)]


class ProfilerModule(Record):
    """A loaded module.  spec: Module record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerModuleWord,)
    module: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    name: Annotated[str, Stream("name_size", text=True)]
    build_id: Annotated[bytes, Stream("build_id_size")]


class ProfilerMmap(Record):
    """Where a module is mapped.  spec: Mmap record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerMmapWord,)
    module: int
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    start: Unsigned
    range: Unsigned
    vaddr: Unsigned


class ProfilerBacktrace(Record):
    """A call stack.  spec: Backtrace record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerBacktraceWord,)
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    frames: Annotated[tuple[int, ...], Words("frame_count")]


class LargeBlob(Record):
    """Bytes of up to 32 GiB with a moment, a thread and arguments.  spec: In band large BLOB record with metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (
        w.LargeBlobWord.of(blob_format=LargeBlobFormat.WITH_METADATA),
        w.LargeBlobMetadataWord,
    )
    category: CategoryRef
    name: NameRef
    timestamp: Ticks
    thread: ThreadRef
    args: Args
    payload: Annotated[bytes, Sized()]


class LargeBlobNoMetadata(Record):
    """Bytes of up to 32 GiB.  spec: In band large BLOB record no metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (
        w.LargeBlobWord.of(blob_format=LargeBlobFormat.NO_METADATA),
        w.LargeBlobNoMetadataWord,
    )
    category: CategoryRef
    name: NameRef
    payload: Annotated[bytes, Sized()]


RECORDS = Family(
    w.RecordWord,
    [
        Magic,
        ProviderInfo,
        ProviderSection,
        ProviderEvent,
        TraceInfo,
        Initialization,
        String,
        ThreadRecord,
        Instant,
        Counter,
        DurationBegin,
        DurationEnd,
        DurationComplete,
        AsyncBegin,
        AsyncInstant,
        AsyncEnd,
        FlowBegin,
        FlowStep,
        FlowEnd,
        Blob,
        UserspaceObject,
        KernelObject,
        LegacyContextSwitch,
        ContextSwitch,
        ThreadWakeup,
        Log,
        ProfilerModule,
        ProfilerMmap,
        ProfilerBacktrace,
        LargeBlob,
        LargeBlobNoMetadata,
    ],
    large=w.LargeWord,
)
"""Every record that the specification defines; a record's kind is its index in `RECORDS.classes`."""
