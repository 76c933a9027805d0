"""The records of the Fuchsia trace format, each declared once.  Their arguments are in `arguments`.

The fields stand in the order of the record's body.  A reference is an `int` (a slot of the provider's table, as in the
file) or its value (`str`, `Thread`): the same class serves the raw and the resolved form.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.codec.parts import Many, Number, Optional, Sized, Stream, Unsigned, Words
from fxtio.codec.record import Opaque, Record, TaggedUnion
from fxtio.codec.word import Word
from fxtio.fxt import layout as w
from fxtio.fxt.arguments import ARGUMENTS, Argument, NameRef
from fxtio.fxt.enums import EventType, LargeBlobFormat
from fxtio.fxt.references import StringReference, Thread, ThreadReference

CategoryRef = Annotated[int | str, StringReference("category")]
ThreadRef = Annotated[int | Thread, ThreadReference("thread")]
ProfilerThreadRef = Annotated[int | Thread, ThreadReference("thread", short_form=True)]
Ticks = Annotated[int, Number("u", tick=True)]
"""A time in ticks of the provider's clock.  spec: Timestamps"""

Address = Annotated[int, Number("u", display="hexadecimal")]
"""An address, or a size in memory."""

Args = Annotated[tuple[Argument | Opaque, ...], Many(ARGUMENTS, "arg_count")]
"""The arguments of a record, at most `layout.MAX_ARGUMENTS`; one of an unknown type is `Opaque`."""


def _text(size: str) -> Stream:
    """Return the part for text whose length in bytes is in the header field `size`."""
    return Stream(size, text=True, max_bytes=w.MAX_TEXT_BYTES)


class Magic(Record, frozen=True):
    """The first eight bytes of a trace.  spec: Magic number record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.MagicWord,)


class ProviderInfo(Record, frozen=True):
    """Names a provider; the records that follow come from it.  spec: Provider info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderInfoWord,)
    provider_id: int
    name: Annotated[str, _text("name_size")]


class ProviderSection(Record, frozen=True):
    """The records that follow come from this provider.  spec: Provider section metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderSectionWord,)
    provider_id: int


class ProviderEvent(Record, frozen=True):
    """An event that a provider reports; 0 means that a buffer filled up.  spec: Provider event metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderEventWord,)
    provider_id: int
    event: int


class TraceInfo(Record, frozen=True):
    """Trace info of an undefined type.  spec: Trace info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.TraceInfoWord,)
    info_type: int
    data: int


class Initialization(Record, frozen=True):
    """Describes the provider's clock.  spec: Initialization record

    Attributes:
        ticks_per_second: the tick rate.
        base_ticks: the tick at which `wall_clock` was read; only in the form with four words.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`; only in the form with four words.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.InitializationWord,)
    ticks_per_second: Unsigned
    base_ticks: Annotated[int | None, Number("u", optional=True, tick=True)] = None
    wall_clock: Optional = None


class String(Record, frozen=True):
    """Defines a slot of the string table.  spec: String record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringWord,)
    index: int
    text: Annotated[str, _text("text_size")]


class ThreadRecord(Record, frozen=True):
    """Defines a slot of the thread table.  spec: Thread record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWord,)
    index: int
    process: Unsigned
    thread: Unsigned


class Event(Record, frozen=True):
    """The base class of all events.  spec: Event record"""

    timestamp: Ticks
    thread: ThreadRef
    category: CategoryRef
    name: NameRef
    args: Args


class Instant(Event, frozen=True):
    """A point in time on a thread.  spec: Instant event

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
    """The begin and the end of an operation in one record.  spec: Duration complete event

    Attributes:
        end: the tick at which the operation ended.
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
    """A chunk of a named byte stream.  spec: BLOB record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobWord,)
    name: NameRef
    blob_type: int
    payload: Annotated[bytes, Stream("payload_size")]


class UserspaceObject(Record, frozen=True):
    """Gives a name to the object that a pointer points at.  spec: Userspace object record

    Attributes:
        process: a slot of the thread table, or `Thread(process, None)`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.UserspaceObjectWord,)
    pointer: Address
    process: Annotated[int | Thread, ThreadReference("process", process_only=True)]
    name: NameRef
    args: Args


class KernelObject(Record, frozen=True):
    """Gives a name to a kernel object, such as a process or a thread.  spec: Kernel object record"""

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
    outgoing: Annotated[int | Thread, ThreadReference("outgoing")]
    incoming: Annotated[int | Thread, ThreadReference("incoming")]


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
    message: Annotated[str, _text("message_size")]


class ProfilerModule(Record, frozen=True):
    """A loaded module.  spec: Module record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerModuleWord,)
    module: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    name: Annotated[str, _text("name_size")]
    build_id: Annotated[bytes, Stream("build_id_size")]


class ProfilerMmap(Record, frozen=True):
    """Tells where a module is mapped into memory.  spec: Mmap record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerMmapWord,)
    module: int
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    start: Address
    range: Address
    vaddr: Address


class ProfilerBacktrace(Record, frozen=True):
    """A call stack.  spec: Backtrace record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerBacktraceWord,)
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    frames: Annotated[tuple[int, ...], Words("frame_count", display="hexadecimal")]


class LargeBlob(Record, frozen=True):
    """Up to 32 GiB of bytes with a time, a thread and arguments.  spec: In band large BLOB record with metadata"""

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
    """Up to 32 GiB of bytes.  spec: In band large BLOB record no metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (
        w.LargeBlobWord.of(blob_format=LargeBlobFormat.NO_METADATA),
        w.LargeBlobNoMetadataWord,
    )
    category: CategoryRef
    name: NameRef
    payload: Annotated[bytes, Sized()]


RECORDS = TaggedUnion(
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
"""All records that the specification defines; a record's kind is its index in `RECORDS.classes`."""

KINDS: dict[type[Record], int] = {cls: kind for kind, cls in enumerate(RECORDS.classes)}
"""The kind of every record class."""

EVENT_CLASSES: dict[str, type[Event]] = {
    EventType(cls.words[0].fields["event_type"].value).name.lower(): cls
    for cls in RECORDS.classes
    if issubclass(cls, Event)
}
"""The class of every event type, by its name in tables, such as `duration_complete`."""
