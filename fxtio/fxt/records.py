"""Every record of the Fuchsia trace format, declared once; `arguments` has what they carry.

The fields stand in the order of the record's body.  A reference is an `int` (a slot of the provider's table, as in the
file) or the thing itself (`str`, `Thread`): one class serves the raw and the resolved form.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.parts import Koids, Many, Number, Optional, Sized, Stream, Text, Thread, Unsigned, Words
from fxtio.codec.record import Family, Opaque, Record
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.arguments import ARGUMENTS, Argument, NameRef
from fxtio.fxt.enums import EventType, LargeBlobFormat

CategoryRef = Annotated[int | str, Text("category", w.StringRefWord)]
ThreadRef = Annotated[int | Thread, Koids("thread")]
ProfilerThreadRef = Annotated[int | Thread, Koids("thread", short_form=True)]
Ticks = Annotated[int, Number("u", tick=True)]
"""A moment, in ticks of the provider's clock.  spec: Timestamps"""


Args = Annotated[tuple[Argument | Opaque, ...], Many(ARGUMENTS, "arg_count")]
"""Up to 15 arguments; one of an unknown type is `Opaque`."""


class Magic(Record, frozen=True):
    """The first eight bytes of a trace.  spec: Magic number record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.MagicWord,)


class ProviderInfo(Record, frozen=True):
    """Names a provider, and makes it the one that the following records come from.  spec: Provider info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderInfoWord,)
    provider: int
    name: Annotated[str, Stream("name_size", text=True)]


class ProviderSection(Record, frozen=True):
    """The following records come from this provider.  spec: Provider section metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderSectionWord,)
    provider: int


class ProviderEvent(Record, frozen=True):
    """Something that a provider reports; 0 means that a buffer filled up.  spec: Provider event metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderEventWord,)
    provider: int
    event: int


class TraceInfo(Record, frozen=True):
    """Trace info of an undefined type.  spec: Trace info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.TraceInfoWord,)
    info_type: int
    data: int


class Initialization(Record, frozen=True):
    """The provider's clock.  spec: Initialization record

    Attributes:
        ticks_per_second: the tick rate.
        base_ticks: in the four-word form, the tick that `wall_clock` belongs to.
        wall_clock: in the four-word form, nanoseconds since the Unix epoch at `base_ticks`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.InitializationWord,)
    ticks_per_second: Unsigned
    base_ticks: Annotated[int | None, Number("u", optional=True, tick=True)] = None
    wall_clock: Optional = None


class String(Record, frozen=True):
    """Puts a string in a slot of the string table.  spec: String record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringWord,)
    index: int
    text: Annotated[str, Stream("text_size", text=True)]


class ThreadRecord(Record, frozen=True):
    """Puts a process and thread in a slot of the thread table.  spec: Thread record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWord,)
    index: int
    process: Unsigned
    thread: Unsigned


class Event(Record, frozen=True):
    """What all events have.  spec: Event record"""

    timestamp: Ticks
    thread: ThreadRef
    category: CategoryRef
    name: NameRef
    args: Args


class Instant(Event, frozen=True):
    """A moment on a thread.  spec: Instant event

    Attributes:
        scope: the extra word that older producers write (see `Scope`).
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.INSTANT),)
    scope: Optional = None


class Counter(Event, frozen=True):
    """Samples of series, one per argument.  spec: Counter event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.COUNTER),)
    id: Unsigned


class DurationBegin(Event, frozen=True):
    """spec: Duration begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_BEGIN),)


class DurationEnd(Event, frozen=True):
    """spec: Duration end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_END),)


class DurationComplete(Event, frozen=True):
    """Begin and end of an operation in one.  spec: Duration complete event

    Attributes:
        end: the tick at which it ended (a moment, no duration).
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_COMPLETE),)
    end: Ticks


class AsyncBegin(Event, frozen=True):
    """spec: Async begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_BEGIN),)
    id: Unsigned


class AsyncInstant(Event, frozen=True):
    """spec: Async instant event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_INSTANT),)
    id: Unsigned


class AsyncEnd(Event, frozen=True):
    """spec: Async end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_END),)
    id: Unsigned


class FlowBegin(Event, frozen=True):
    """spec: Flow begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_BEGIN),)
    id: Unsigned


class FlowStep(Event, frozen=True):
    """spec: Flow step event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_STEP),)
    id: Unsigned


class FlowEnd(Event, frozen=True):
    """spec: Flow end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_END),)
    id: Unsigned


class Blob(Record, frozen=True):
    """A chunk of the named byte stream.  spec: BLOB record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobWord,)
    name: NameRef
    blob_type: int
    payload: Annotated[bytes, Stream("payload_size")]


class UserspaceObject(Record, frozen=True):
    """Labels whatever a pointer points at.  spec: Userspace object record

    Attributes:
        process: a slot of the thread table, or `Thread(process, None)`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.UserspaceObjectWord,)
    pointer: Unsigned
    process: Annotated[int | Thread, Koids("process", process_only=True)]
    name: NameRef
    args: Args


class KernelObject(Record, frozen=True):
    """Labels a kernel object; this is how processes and threads get names.  spec: Kernel object record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.KernelObjectWord,)
    object_type: int
    koid: Unsigned
    name: NameRef
    args: Args


class LegacyContextSwitch(Record, frozen=True):
    """spec: Legacy context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LegacyContextSwitchWord,)
    cpu: int
    outgoing_state: int
    outgoing_priority: int
    incoming_priority: int
    timestamp: Ticks
    outgoing: Annotated[int | Thread, Koids("outgoing")]
    incoming: Annotated[int | Thread, Koids("incoming")]


class ContextSwitch(Record, frozen=True):
    """spec: Context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ContextSwitchWord,)
    cpu: int
    outgoing_state: int
    timestamp: Ticks
    outgoing: Unsigned
    incoming: Unsigned
    args: Args


class ThreadWakeup(Record, frozen=True):
    """spec: Thread wakeup record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWakeupWord,)
    cpu: int
    timestamp: Ticks
    waking: Unsigned
    args: Args


class Log(Record, frozen=True):
    """A message written to the log.  spec: Log record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LogWord,)
    timestamp: Ticks
    thread: ThreadRef
    message: Annotated[str, Stream("message_size", text=True)]


class ProfilerModule(Record, frozen=True):
    """A loaded module.  spec: Module record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerModuleWord,)
    module: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    name: Annotated[str, Stream("name_size", text=True)]
    build_id: Annotated[bytes, Stream("build_id_size")]


class ProfilerMmap(Record, frozen=True):
    """Where a module is mapped.  spec: Mmap record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerMmapWord,)
    module: int
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    start: Unsigned
    range: Unsigned
    vaddr: Unsigned


class ProfilerBacktrace(Record, frozen=True):
    """A call stack.  spec: Backtrace record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerBacktraceWord,)
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    frames: Annotated[tuple[int, ...], Words("frame_count")]


class LargeBlob(Record, frozen=True):
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


class LargeBlobNoMetadata(Record, frozen=True):
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
