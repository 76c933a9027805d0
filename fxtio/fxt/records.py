"""The records of the Fuchsia trace format and their arguments, each declared once, and the references in them.

The fields are in the order of the record's body.  A reference is an `int` (a slot of the provider's table, as in the
file) or its value (`str`, `Thread`): the same class serves the raw and the resolved form.  Tags and names of fields are
those of `fxtio.codec.canonical`.  `reference_columns` has the numpy code for references; this module must not import
numpy, since the tracer uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from fxtio.codec.generate import Order, put_u64
from fxtio.codec.integers import limits_of
from fxtio.codec.parts import Double, Many, Number, Optional, Part, Signed, Sized, Stream, Unsigned, Words
from fxtio.codec.record import Layout, Opaque, Record, TaggedUnion, layout_of
from fxtio.codec.word import Word
from fxtio.errors import EncodeError, shown
from fxtio.fxt import layout as w
from fxtio.fxt.enums import ArgumentType, EventType, LargeBlobFormat
from fxtio.fxt.layout import MAX_TEXT_BYTES, StringRefWord

# ---- references

_EXTENSION = "fxtio.fxt.reference_columns"
_INDEX, _INLINE = StringRefWord.fields["index"], StringRefWord.fields["inline"]
_LAST = _INDEX.mask


class Thread(msgspec.Struct, frozen=True, gc=False, order=True):
    """A process and a thread by their koids.

    Attributes:
        process: the process koid.
        thread: the thread koid; None where a profiler record or an object record has only the process.
    """

    process: int
    thread: int | None


def put_string_slot(value: Any, where: str) -> int:
    """Return a slot of the string table, checked.

    Raises:
        EncodeError: it is not a slot.
    """
    if type(value) is not int or not 0 <= value <= _LAST:
        raise EncodeError(f"{shown(value)} is neither text nor an index from 0 to {_LAST}", where)
    return value


def put_thread(value: Any, order: Order, where: str, process_only: bool, thread_is_optional: bool) -> tuple[int, bytes]:
    """Return a slot of the thread table (0 for an inline thread), and the bytes of the inline koids.

    Raises:
        EncodeError: the value is neither a slot nor a `Thread`, or its thread koid must or must not be there.
    """
    if type(value) is int:
        if value == 0:
            raise EncodeError("slot 0 means inline; give a Thread", where)
        return value, b""
    if not isinstance(value, Thread):
        raise EncodeError(f"{shown(value)} is neither a slot nor a Thread", where)
    process = put_u64(value.process, order, where)
    if value.thread is None:
        if not thread_is_optional:
            raise EncodeError("the thread koid is missing", where)
        return 0, process
    if process_only:
        raise EncodeError("only a process koid fits here", where)
    return 0, process + put_u64(value.thread, order, where)


@dataclass(frozen=True, slots=True)
class StringReference(Part):
    """A slot of the string table (0 is the empty string), or a length and the text inline.  spec: String references

    Attributes:
        ref: the header field that holds the reference, a `StringRefWord`.
    """

    ref: str
    helpers: ClassVar[Mapping[str, object]] = MappingProxyType({"put_string_slot": put_string_slot})
    extension: ClassVar[str] = _EXTENSION

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def header_words(self) -> str:
        return f"({_INDEX.expression(f'{self.ref}_')} + 7 >> 3 if {_INLINE.expression(f'{self.ref}_')} else 0)"

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.ref}_"
        yield f"if {_INLINE.expression(name)}:"
        yield f"    {name} = {_INDEX.expression(name)}"
        yield f"    {name}, c = take_text(data, c, {name}, stop, {where!r})"

    def encode(self, name: str, where: str) -> Iterator[str]:
        yield f"if type({name}) is str:"
        yield f"    {name}_body, {self.ref}_ = put_text({name}, {where!r}, {MAX_TEXT_BYTES})"
        yield f"    {self.ref}_ |= {_INLINE.put(1):#x}"
        yield "else:"
        yield f"    {self.ref}_, {name}_body = put_string_slot({name}, {where!r}), b''"


@dataclass(frozen=True, slots=True)
class ThreadReference(Part):
    """A slot of the thread table, or 0 and the koids inline.  spec: Thread references

    Attributes:
        ref: the header field that holds the slot.
        process_only: the inline form has only a process koid (userspace objects).
        short_form: the inline form may have only a process koid, as real producers write it; the record's size tells.
    """

    ref: str
    process_only: bool = False
    short_form: bool = False
    helpers: ClassVar[Mapping[str, object]] = MappingProxyType({"Thread": Thread, "put_thread": put_thread})
    extension: ClassVar[str] = _EXTENSION

    @property
    def owns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.ref,)

    def header_words(self) -> str | None:
        return None if self.short_form else f"({1 if self.process_only else 2} if {self.ref}_ == 0 else 0)"

    def short_size(self, layout: Layout) -> str:
        """Return source for the size in words of a record whose inline thread is only a process koid."""
        others = [part.header_words() for _, part in layout.parts if part is not self]
        return " + ".join([str(len(layout.words)), "1", *(size for size in others if size and size != "0")])

    def prologue(self, layout: Layout) -> Iterator[str]:
        if self.short_form:
            yield f"short_size = {self.short_size(layout)}"

    def decode(self, name: str, where: str) -> Iterator[str]:
        yield f"{name} = {self.ref}_"
        yield f"if {name} == 0:"
        both = [f"if c + 2 > stop: raise short({where!r})", f"{name} = Thread(words[c], words[c + 1])", "c += 2"]
        alone = [f"if c + 1 > stop: raise short({where!r})", f"{name} = Thread(words[c], None)", "c += 1"]
        if self.short_form:
            yield "    if stop - at == short_size:"
            yield from (f"        {line}" for line in alone)
            yield "    else:"
            yield from (f"        {line}" for line in both)
        else:
            yield from (f"    {line}" for line in (alone if self.process_only else both))

    def encode(self, name: str, where: str) -> Iterator[str]:
        optional = self.process_only or self.short_form
        yield f"{self.ref}_, {name}_body = put_thread({name}, order, {where!r}, {self.process_only}, {optional})"


# ---- arguments

NameRef = Annotated[int | str, StringReference("name")]
ValueRef = Annotated[int | str, StringReference("value")]


class Argument(Record, frozen=True):
    """A typed key and value.  spec: Arguments"""

    name: NameRef


class NullArgument(Argument, frozen=True, tag="null"):
    """A key without a value.  spec: Null argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.NULL),)


class Int32Argument(Argument, frozen=True, tag="int32"):
    """spec: 32-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Int32ArgumentWord,)
    value: int


class Uint32Argument(Argument, frozen=True, tag="uint32"):
    """spec: 32-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.Uint32ArgumentWord,)
    value: int


class Int64Argument(Argument, frozen=True, tag="int64"):
    """spec: 64-bit signed integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.INT64),)
    value: Signed


class Uint64Argument(Argument, frozen=True, tag="uint64"):
    """spec: 64-bit unsigned integer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.UINT64),)
    value: Unsigned


class DoubleArgument(Argument, frozen=True, tag="double"):
    """spec: Double-precision floating point argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.DOUBLE),)
    value: Double


class StringArgument(Argument, frozen=True, tag="string"):
    """spec: String argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringArgumentWord,)
    value: ValueRef


class PointerArgument(Argument, frozen=True, tag="pointer"):
    """spec: Pointer argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.POINTER),)
    value: Annotated[int, Number("u", display="hexadecimal")]


class KoidArgument(Argument, frozen=True, tag="koid"):
    """spec: Kernel object id argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.PlainArgumentWord.of(type=ArgumentType.KOID),)
    value: Annotated[int, Number("u", display="koid")]


class BoolArgument(Argument, frozen=True, tag="bool"):
    """spec: Boolean argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BoolArgumentWord,)
    value: bool


class BlobArgument(Argument, frozen=True, tag="blob"):
    """spec: Blob argument"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobArgumentWord,)
    value: Annotated[bytes, Stream("value_size")]


ARGUMENTS = TaggedUnion(
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
"""All arguments that the specification defines; an argument's kind is its index in `ARGUMENTS.classes`."""


def _limits(cls: type[Argument]) -> tuple[int, int]:
    """Return the smallest and the largest value of an argument class whose value is an integer."""
    part = dict(layout_of(cls).parts)["value"]
    if isinstance(part, Number):
        return limits_of(8, signed=part.kind == "i")
    return cls.words[0].fields["value"].limits


INTEGER_LIMITS: dict[type[Argument], tuple[int, int]] = {
    cls: _limits(cls) for cls in (Int32Argument, Uint32Argument, Int64Argument, Uint64Argument)
}
"""The classes of integer arguments with the smallest and the largest value of each, in the order of preference."""


def integer_class(low: int, high: int) -> type[Argument] | None:
    """Return the first class in `INTEGER_LIMITS` that holds all integers from `low` to `high`; None if none does."""
    for cls, (least, most) in INTEGER_LIMITS.items():
        if least <= low and high <= most:
            return cls
    return None


class Koid(int):
    """A kernel object id, given to the writer as the value of an argument."""

    __slots__ = ()


class Pointer(int):
    """A pointer, given to the writer as the value of an argument."""

    __slots__ = ()


# ---- records

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


class Magic(Record, frozen=True, tag="magic"):
    """The first eight bytes of a trace.  spec: Magic number record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.MagicWord,)


class ProviderInfo(Record, frozen=True, tag="provider-info"):
    """Names a provider; the records that follow come from it.  spec: Provider info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderInfoWord,)
    provider_id: int
    name: Annotated[str, _text("name_size")]


class ProviderSection(Record, frozen=True, tag="provider-section"):
    """The records that follow come from this provider.  spec: Provider section metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderSectionWord,)
    provider_id: int


class ProviderEvent(Record, frozen=True, tag="provider-event"):
    """An event that a provider reports; 0 means that a buffer filled up.  spec: Provider event metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProviderEventWord,)
    provider_id: int
    event: int = field(name="event_id")


class TraceInfo(Record, frozen=True, tag="trace-info"):
    """Trace info of an undefined type.  spec: Trace info metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (w.TraceInfoWord,)
    info_type: int
    data: int


class Initialization(Record, frozen=True, tag="initialization"):
    """Describes the provider's clock.  spec: Initialization record

    Attributes:
        ticks_per_second: the tick rate.
        base_ticks: the tick at which `wall_clock` was read; only in the form with four words.
        wall_clock: nanoseconds since the Unix epoch at `base_ticks`; only in the form with four words.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.InitializationWord,)
    ticks_per_second: Unsigned
    base_ticks: Annotated[int | None, Number("u", optional=True, tick=True)] = field(
        default=None, name="extension.base_ticks"
    )
    wall_clock: Optional = field(default=None, name="extension.wall_clock")


class String(Record, frozen=True, tag="string"):
    """Defines a slot of the string table.  spec: String record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.StringWord,)
    index: int
    text: Annotated[str, _text("text_size")] = field(name="value")


class ThreadRecord(Record, frozen=True, tag="thread"):
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
    args: Args = field(name="arguments")


class Instant(Event, frozen=True, tag="instant"):
    """A point in time on a thread.  spec: Instant event

    Attributes:
        scope: the extra word that older producers write (see `Scope`).
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.INSTANT),)
    scope: Optional = field(default=None, name="extension.scope")


class Counter(Event, frozen=True, tag="counter"):
    """Samples of series, one per argument.  spec: Counter event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.COUNTER),)
    id: Unsigned = field(name="counter_id")


class DurationBegin(Event, frozen=True, tag="duration-begin"):
    """spec: Duration begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_BEGIN),)


class DurationEnd(Event, frozen=True, tag="duration-end"):
    """spec: Duration end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_END),)


class DurationComplete(Event, frozen=True, tag="duration-complete"):
    """The start and the end of an operation in one record.  spec: Duration complete event

    Attributes:
        end: the tick at which the operation ended.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.DURATION_COMPLETE),)
    end: Ticks = field(name="end_time")


class AsyncBegin(Event, frozen=True, tag="async-begin"):
    """spec: Async begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_BEGIN),)
    id: Unsigned = field(name="async_correlation_id")


class AsyncInstant(Event, frozen=True, tag="async-instant"):
    """spec: Async instant event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_INSTANT),)
    id: Unsigned = field(name="async_correlation_id")


class AsyncEnd(Event, frozen=True, tag="async-end"):
    """spec: Async end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.ASYNC_END),)
    id: Unsigned = field(name="async_correlation_id")


class FlowBegin(Event, frozen=True, tag="flow-begin"):
    """spec: Flow begin event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_BEGIN),)
    id: Unsigned = field(name="flow_correlation_id")


class FlowStep(Event, frozen=True, tag="flow-step"):
    """spec: Flow step event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_STEP),)
    id: Unsigned = field(name="flow_correlation_id")


class FlowEnd(Event, frozen=True, tag="flow-end"):
    """spec: Flow end event"""

    words: ClassVar[tuple[type[Word], ...]] = (w.EventWord.of(event_type=EventType.FLOW_END),)
    id: Unsigned = field(name="flow_correlation_id")


class Blob(Record, frozen=True, tag="blob"):
    """A chunk of a named byte stream.  spec: BLOB record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.BlobWord,)
    name: NameRef
    blob_type: int
    payload: Annotated[bytes, Stream("payload_size")]


class UserspaceObject(Record, frozen=True, tag="userspace-object"):
    """Gives a name to the object that a pointer points at.  spec: Userspace object record

    Attributes:
        process: a slot of the thread table, or `Thread(process, None)`.
    """

    words: ClassVar[tuple[type[Word], ...]] = (w.UserspaceObjectWord,)
    pointer: Address
    process: Annotated[int | Thread, ThreadReference("process", process_only=True)]
    name: NameRef
    args: Args = field(name="arguments")


class KernelObject(Record, frozen=True, tag="kernel-object"):
    """Gives a name to a kernel object, such as a process or a thread.  spec: Kernel object record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.KernelObjectWord,)
    object_type: int
    koid: Unsigned
    name: NameRef
    args: Args = field(name="arguments")


class LegacyContextSwitch(Record, frozen=True, tag="legacy-context-switch"):
    """spec: Legacy context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LegacyContextSwitchWord,)
    cpu: int
    outgoing_state: int = field(name="outgoing_thread_state")
    outgoing_priority: int = field(name="outgoing_thread_priority")
    incoming_priority: int = field(name="incoming_thread_priority")
    timestamp: Ticks
    outgoing: Annotated[int | Thread, ThreadReference("outgoing")] = field(name="outgoing_thread")
    incoming: Annotated[int | Thread, ThreadReference("incoming")] = field(name="incoming_thread")


class ContextSwitch(Record, frozen=True, tag="context-switch"):
    """spec: Context switch record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ContextSwitchWord,)
    cpu: int
    outgoing_state: int = field(name="outgoing_thread_state")
    timestamp: Ticks
    outgoing: Unsigned = field(name="outgoing_thread")
    incoming: Unsigned = field(name="incoming_thread")
    args: Args = field(name="arguments")


class ThreadWakeup(Record, frozen=True, tag="thread-wakeup"):
    """spec: Thread wakeup record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ThreadWakeupWord,)
    cpu: int
    timestamp: Ticks
    waking: Unsigned = field(name="waking_thread")
    args: Args = field(name="arguments")


class Log(Record, frozen=True, tag="log"):
    """A message written to the log.  spec: Log record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.LogWord,)
    timestamp: Ticks
    thread: ThreadRef
    message: Annotated[str, _text("message_size")]


class ProfilerModule(Record, frozen=True, tag="module"):
    """A loaded module.  spec: Module record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerModuleWord,)
    module: int = field(name="module_id")
    timestamp: Ticks
    thread: ProfilerThreadRef
    name: Annotated[str, _text("name_size")]
    build_id: Annotated[bytes, Stream("build_id_size")]


class ProfilerMmap(Record, frozen=True, tag="mmap"):
    """Tells where a module is mapped into memory.  spec: Mmap record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerMmapWord,)
    module: int = field(name="module_id")
    flags: int
    timestamp: Ticks
    thread: ProfilerThreadRef
    start: Address = field(name="start_address")
    range: Address = field(name="address_range")
    vaddr: Address


class ProfilerBacktrace(Record, frozen=True, tag="backtrace"):
    """A call stack.  spec: Backtrace record"""

    words: ClassVar[tuple[type[Word], ...]] = (w.ProfilerBacktraceWord,)
    flags: int = field(name="_flags")
    timestamp: Ticks
    thread: ProfilerThreadRef
    frames: Annotated[tuple[int, ...], Words("frame_count", display="hexadecimal")] = field(name="backtrace_data")


class LargeBlob(Record, frozen=True, tag="large-blob-with-metadata"):
    """Up to 32 GiB of bytes with a time, a thread and arguments.  spec: In band large BLOB record with metadata"""

    words: ClassVar[tuple[type[Word], ...]] = (
        w.LargeBlobWord.of(blob_format=LargeBlobFormat.WITH_METADATA),
        w.LargeBlobMetadataWord,
    )
    category: CategoryRef
    name: NameRef
    timestamp: Ticks
    thread: ThreadRef
    args: Args = field(name="arguments")
    payload: Annotated[bytes, Sized()]


class LargeBlobNoMetadata(Record, frozen=True, tag="large-blob-no-metadata"):
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

TIMED: frozenset[type[Record]] = frozenset(cls for cls in RECORDS.classes if "timestamp" in cls.__struct_fields__)
"""The classes of records that have a time."""

WITH_PROVIDER_ID: frozenset[type[Record]] = frozenset(
    cls for cls in RECORDS.classes if "provider_id" in cls.__struct_fields__
)
"""The classes of records that have the id of a provider as a field; all others belong to the provider before them."""

EVENT_CLASSES: dict[str, type[Event]] = {
    EventType(cls.words[0].fields["event_type"].value).name.lower(): cls
    for cls in RECORDS.classes
    if issubclass(cls, Event)
}
"""The class of every event type, by its name in tables, such as `duration_complete`."""
