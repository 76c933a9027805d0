"""The records, each declared once: its type and subtype, then its items in their order; the codec of one line.

A field is an item, and its annotation says of which kind.  Compound items are structs of their own, whose parts have
colons between them.  What decodes, encodes, makes columns, explains and describes records is derived from this.

Times in records are milliseconds from the start of profiling, as in the file.  Internal IDs are None where the file
has `?`.  Tags and names of fields are those of `fxtio.codec.canonical`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import field

from fxtio.codec.canonical import type_of
from fxtio.codec.integers import MAX_UINT64
from fxtio.codec.record import Opaque
from fxtio.codec.text import codec
from fxtio.codec.text.items import Continued, Decimal, Flags, Hexadecimal, Quoted, Repeated, Rest, Word
from fxtio.coreprofiler.layout import (
    BYTE_ORDER_MARK,
    MAX_32,
    MAX_63,
    MIN_63,
    TAG_SIZE,
    LocalTime,
    OsThread,
    Pointer,
    Style,
    ThreadNumber,
)
from fxtio.errors import DecodeError, EncodeError

TIME_FIELD = "timestamp"
"""The field of records with their time in milliseconds; tables have it as `time`, in nanoseconds."""

Num = Annotated[int, Decimal("num")]
Pid = Annotated[int, Decimal("pid")]
Ms = Annotated[int, Decimal("ms", low=MIN_63, high=MAX_63)]
Us = Annotated[int, Decimal("us", high=MAX_UINT64)]
Id = Annotated[int, Hexadecimal("id", kind="pointer", one_width=True)]
Ptr = Annotated[int, Hexadecimal("ptr", kind="pointer", one_width=True)]
Hr = Annotated[int, Hexadecimal("hr", kind="hex32", high=MAX_32)]
Token = Annotated[int, Hexadecimal("token", kind="hex32", high=MAX_32)]
Iid = Annotated[int | None, Hexadecimal("iid", kind="hex32", high=MAX_32, unknown=True)]
SampleIid = Annotated[int | None, Hexadecimal("iid", kind="sample", high=MAX_32, unknown=True)]
Thread = Annotated[int | OsThread | None, ThreadNumber("iid")]
Name = Annotated[str, Quoted("qtn")]

# Within compound items: parts after a colon.
Part = Annotated[int, Decimal("num", separator=":")]
HexPart = Annotated[int, Hexadecimal("hex", separator=":")]
IpPart = Annotated[int | None, Pointer("ip", separator=":", optional=True)]


class Compound(msgspec.Struct, frozen=True, gc=False):
    """Base of the compound items.

    Attributes:
        item: the item's name in the specification.
        table: the name of the table of all such items of a record class.
    """

    item: ClassVar[str] = ""
    table: ClassVar[str] = ""


class Frame(Compound, frozen=True, gc=False):
    """A frame of a call stack.

    Attributes:
        function_iid: the function's Internal ID.
        ip: where the next frame was called from; None where the file has none, -1 where it has `?` (undefined).
    """

    item: ClassVar[str] = "frame"
    table: ClassVar[str] = "frames"
    function_iid: SampleIid
    ip: IpPart = None


class AllocItem(Compound, frozen=True, gc=False):
    """Objects of a class that were allocated.

    Attributes:
        class_iid: the Internal ID of the class.
        count: number of objects.
        size: bytes of all of them.
        ip: the instruction; None where the file has none, -1 where it has `?` (undefined).
    """

    item: ClassVar[str] = "alloc_item"
    table: ClassVar[str] = "allocations"
    class_iid: SampleIid
    count: Part = field(name="alloc_count")
    size: Part = field(name="mem_size")
    ip: IpPart = None


class AltItem(Compound, frozen=True, gc=False):
    """Objects of a class that remain in the heap.

    Attributes:
        class_iid: the Internal ID of the class.
        count: number of objects.
        size: bytes of all of them.
    """

    item: ClassVar[str] = "alt_item"
    table: ClassVar[str] = "survivors"
    class_iid: Iid
    count: Part = field(name="alloc_count")
    size: Part = field(name="mem_size")


class CodeInfo(Compound, frozen=True, gc=False):
    """A block of native code.

    Attributes:
        address: the address of its first byte.
        size: its bytes.
    """

    item: ClassVar[str] = "code_info"
    table: ClassVar[str] = "code"
    address: Id = field(name="start_addr")
    size: HexPart


class IlMap(Compound, frozen=True, gc=False):
    """The native code of some IL code.  The largest IL offsets are markers: no mapping, prolog, epilog.

    Attributes:
        il_offset: offset in the IL code.
        native_start: offset of the first native instruction.
        native_end: offset after the last one.
    """

    item: ClassVar[str] = "il_map"
    table: ClassVar[str] = "il_map"
    il_offset: Annotated[int, Hexadecimal("hex")]
    native_start: HexPart
    native_end: HexPart


class HeapItem(Compound, frozen=True, gc=False):
    """A part of the heap, in the records of newer dialects.

    Attributes:
        name: any word; readers go by the order: large objects, generation 2, 1, 0.
        allocated: bytes in use.
        reserved: further bytes.
    """

    item: ClassVar[str] = "gen_item"
    table: ClassVar[str] = "generations"
    name: Annotated[str, Word("str")]
    allocated: Part
    reserved: Part


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the records.

    The tag of a class is the type and the subtype, with a hyphen between them.  A class without a section of the
    specification is of a record that the specification does not know.

    Attributes:
        table: the name of the table of all records of the class.
    """

    table: ClassVar[str] = ""


class ProfilerStart(Record, frozen=True, gc=False, tag="prf-stm"):
    """The start of profiling.  spec: Profiler Start Time: `prf stm`

    Attributes:
        started_at: local time; with its distance from UTC in newer dialects.
    """

    table: ClassVar[str] = "starts"
    started_at: Annotated[datetime, LocalTime("systime")] = field(name="systime")


class ProfilerConfig(Record, frozen=True, gc=False, tag="prf-cfg"):
    """A parameter of the profiler.  spec: Profiler Configuration: `prf cfg`

    Attributes:
        name: its name.
        value: its value, as in the file.
    """

    table: ClassVar[str] = "config"
    name: Annotated[str, Word("str")]
    value: Annotated[str, Rest("str")]


class ProfilerPaused(Record, frozen=True, gc=False, tag="prf-tps"):
    """Profiling is paused.  spec: Profiler Pause/Resume: `prf tps`/`prf tps`"""

    table: ClassVar[str] = "pauses"
    timestamp: Ms


class ProfilerResumed(Record, frozen=True, gc=False, tag="prf-trs"):
    """Profiling is resumed.  spec: Profiler Pause/Resume: `prf tps`/`prf tps`"""

    table: ClassVar[str] = "resumptions"
    timestamp: Ms


class ProcessCpu(Record, frozen=True, gc=False, tag="prc-cpu"):
    """CPU time of the process since the last such record.  spec: Process CPU Usage: `prc cpu`

    Attributes:
        timestamp: milliseconds from the start of profiling.
        usage: microseconds; values from 2**63 on come from an underflow and stand for negative ones.
    """

    table: ClassVar[str] = "process_cpu"
    timestamp: Ms
    usage: Us


class ThreadCreated(Record, frozen=True, gc=False, tag="thr-crt"):
    """A managed thread was created.  spec: Thread Created: `thr crt`"""

    table: ClassVar[str] = "threads"
    thread_id: Id
    thread: Iid = field(name="thread_iid")


class ThreadAssigned(Record, frozen=True, gc=False, tag="thr-aos"):
    """A managed thread runs on a thread of the operating system; the newest assignment counts.

    spec: Thread Assigned To OS Thread: `thr aos`
    """

    table: ClassVar[str] = "thread_assignments"
    thread: Iid = field(name="thread_iid")
    os_thread: Pid = field(name="os_thread_id")


class ThreadDestroyed(Record, frozen=True, gc=False, tag="thr-dst"):
    """A managed thread was destroyed.  The specification prints it as `thr crt`; the style says which tag it has.

    spec: Thread Destroyed: `thr crt`

    Attributes:
        thread: its Internal ID.
        extra: another number, which a reader of 2019 expects here.
    """

    table: ClassVar[str] = "threads_destroyed"
    thread: Iid = field(name="thread_iid")
    extra: Annotated[int | None, Hexadecimal("id", kind="pointer", optional=True)] = field(default=None, name="_extra")


class ThreadEvent(Record, frozen=True, gc=False):
    """Base of records about a thread that newer writers give by its number in the operating system.

    Attributes:
        thread: the thread.
        timestamp: milliseconds from the start of profiling.
    """

    thread: Thread = field(name="thread_iid")
    timestamp: Ms


class ManagedThreadEvent(Record, frozen=True, gc=False):
    """Base of records about a managed thread.

    Attributes:
        thread: the thread's Internal ID.
        timestamp: milliseconds from the start of profiling.
    """

    thread: Iid = field(name="thread_iid")
    timestamp: Ms


class ThreadCpu(ManagedThreadEvent, frozen=True, gc=False, tag="thr-cpu"):
    """CPU time of a thread since the last such record.  spec: Thread CPU Usage: `thr cpu`

    Attributes:
        thread: the thread's Internal ID.
        timestamp: milliseconds from the start of profiling.
        usage: microseconds, see `ProcessCpu`.
    """

    table: ClassVar[str] = "thread_cpu"
    usage: Us


class ModuleLoaded(Record, frozen=True, gc=False, tag="mod-ldf"):
    """A module was loaded.  spec: Module Load Finished: `mod ldf`"""

    table: ClassVar[str] = "modules"
    module_id: Id
    base_address: Ptr = field(name="base_load_address")
    assembly_id: Id
    status: Hr
    name: Name = field(name="module_name")


class ModuleAttached(Record, frozen=True, gc=False, tag="mod-ata"):
    """A module was attached to its assembly.  spec: Module Attached To Assembly: `mod ata`"""

    table: ClassVar[str] = "module_attachments"
    module_id: Id
    assembly_id: Id


class AssemblyLoaded(Record, frozen=True, gc=False, tag="asm-ldf"):
    """An assembly was loaded.  spec: Assembly Load Finished: `asm ldf`"""

    table: ClassVar[str] = "assemblies"
    assembly_id: Id
    app_domain_id: Id
    module_id: Id
    status: Hr
    name: Name = field(name="assembly_name")


class AppDomainCreated(Record, frozen=True, gc=False, tag="apd-crf"):
    """An application domain was created.  spec: Application Domain Creation Finished: `apd crf`"""

    table: ClassVar[str] = "app_domains"
    app_domain_id: Id
    process_id: Id
    status: Hr
    name: Name = field(name="app_domain_name")


class ClassLoaded(Record, frozen=True, gc=False, tag="cls-ldf"):
    """A class was loaded.  spec: Class Load Finished: `cls ldf`"""

    table: ClassVar[str] = "classes"
    class_id: Id
    class_iid: Iid
    module_id: Id
    token: Token = field(name="class_token")
    status: Hr


class ClassLoadedOld(Record, frozen=True, gc=False, tag="cls-ldf"):
    """A class was loaded, in the oldest dialect: without an Internal ID."""

    table: ClassVar[str] = "classes_old"
    class_id: Id
    module_id: Id
    token: Token = field(name="class_token")
    status: Hr


class ClassName(Record, frozen=True, gc=False, tag="cls-nam"):
    """The name of a class.  spec: Class Name: `cls nam`"""

    table: ClassVar[str] = "class_names"
    class_iid: Iid = field(name="internal_id")
    name: Name = field(name="full_name")


_Code = Annotated[tuple[CodeInfo, ...], Repeated("code_info", members=(CodeInfo, IlMap))]
_IlMap = Annotated[tuple[IlMap, ...], Continued("il_map")]


class FunctionInfo(Record, frozen=True, gc=False, tag="fun-inf"):
    """A function and its code.  spec: Function info: `fun inf`

    Attributes:
        function_iid: its Internal ID.
        function_id: its identifier in the runtime.
        class_id: the identifier of its class.
        module_id: the identifier of its module.
        token: its metadata token.
        code: blocks of native code.
        il_map: which native code belongs to which IL code.
    """

    table: ClassVar[str] = "functions"
    function_iid: Iid = field(name="internal_id")
    function_id: Id
    class_id: Id
    module_id: Id
    token: Token = field(name="func_token")
    code: _Code = field(default=(), name="code_info")
    il_map: _IlMap = ()


class RuntimeFunction(Record, frozen=True, gc=False):
    """Base of the records of functions in older dialects: the identifier comes before the Internal ID."""

    function_id: Id
    function_iid: Iid
    class_id: Id
    module_id: Id
    token: Token


class FunctionCompiled(RuntimeFunction, frozen=True, gc=False, tag="fun-cmf"):
    """A function that was compiled, in older dialects: the identifier comes first, and there is a result."""

    table: ClassVar[str] = "compiled_functions"
    status: Hr
    code: _Code = ()
    il_map: _IlMap = ()


class FunctionFound(RuntimeFunction, frozen=True, gc=False, tag="fun-csf"):
    """A function that had been compiled before and was found in the cache, in older dialects."""

    table: ClassVar[str] = "cached_functions"
    code: _Code = ()
    il_map: _IlMap = ()


class FunctionName(Record, frozen=True, gc=False, tag="fun-nam"):
    """The name of a function.  spec: Function name: `fun nam`

    Attributes:
        function_iid: its Internal ID.
        name: its full name.
        return_type: the type that it returns.
        signature: the types of its parameters, in parentheses.
    """

    table: ClassVar[str] = "function_names"
    function_iid: Iid = field(name="internal_id")
    name: Annotated[str, Quoted("qtn", texts=3)] = field(name="full_name")
    return_type: Annotated[str, Continued("qtn")]
    signature: Annotated[str, Continued("qtn")]


class FunctionNameOld(Record, frozen=True, gc=False, tag="fun-nam"):
    """The name of a function as a single text, in the oldest dialect."""

    table: ClassVar[str] = "function_names_old"
    function_iid: Iid = field(name="internal_id")
    name: Name = field(name="full_name")


class JitEvent(ThreadEvent, frozen=True, gc=False):
    """Base of the records of the compiler.

    Attributes:
        thread: the thread.
        timestamp: milliseconds from the start of profiling.
        function_id: the function's identifier in the runtime.
    """

    function_id: Id


class JitStarted(JitEvent, frozen=True, gc=False, tag="jit-cms"):
    """The compiler begins a function.  spec: JIT Compilation Started: `jit cms`"""

    table: ClassVar[str] = "jit_starts"


class JitFinished(JitEvent, frozen=True, gc=False, tag="jit-cmf"):
    """The compiler has finished a function.  spec: JIT Compilation Finished: `jit cmf`"""

    table: ClassVar[str] = "jit_ends"
    status: Hr


class JitSearchStarted(JitEvent, frozen=True, gc=False, tag="jit-css"):
    """A search for a compiled function begins.  spec: JIT Cached Function Search Started: `jit css`"""

    table: ClassVar[str] = "jit_search_starts"


class JitSearchFinished(JitEvent, frozen=True, gc=False, tag="jit-csf"):
    """A search for a compiled function has ended; the record does not have the result.

    spec: JIT Cached Function Search Finished: `jit csf`
    """

    table: ClassVar[str] = "jit_search_ends"


class GcStarted(ThreadEvent, frozen=True, gc=False, tag="gch-gcs"):
    """A garbage collection begins.  spec: Garbage Collection Started: `gch gcs`

    Attributes:
        thread: the thread.
        timestamp: milliseconds from the start of profiling.
        reason: `induced`, or `?`.
        generations: whether generation 0, 1, 2 and the large objects are collected.
    """

    table: ClassVar[str] = "gc_starts"
    reason: Annotated[str, Word("str")]
    generations: Annotated[tuple[bool, ...], Flags("t|f")] = field(default=(), name="gen_collect")


class GcFinished(ThreadEvent, frozen=True, gc=False, tag="gch-gcf"):
    """A garbage collection has ended.  spec: Garbage Collection Finished: `gch gcf`"""

    table: ClassVar[str] = "gc_ends"


class AllocationTable(Record, frozen=True, gc=False, tag="gch-alt"):
    """The objects that remain in the heap after a garbage collection.  spec: GC Heap Allocation Table: `gch alt`"""

    table: ClassVar[str] = "allocation_tables"
    timestamp: Ms
    items: Annotated[tuple[AltItem, ...], Repeated("alt_item", members=(AltItem,))] = ()


class HeapGenerations(Record, frozen=True, gc=False, tag="gch-gen"):
    """The sizes of the parts of the heap, in newer dialects."""

    table: ClassVar[str] = "heap_generations"
    timestamp: Ms
    items: Annotated[tuple[HeapItem, ...], Repeated("gen_item", members=(HeapItem,))] = ()


class StackSample(ManagedThreadEvent, frozen=True, gc=False, tag="sam-str"):
    """The change of a thread's stack since its last sample.  `CoreProfilerTrace.samples` gives whole stacks.

    spec: Stack Trace Sample: `sam str`

    Attributes:
        thread: the thread's Internal ID.
        timestamp: milliseconds from the start of profiling.
        count: sampling ticks since the last sample; None in the oldest dialect, where it may be `?`.
        match: number of frames, from the bottom, that were not left since.
        size: number of frames of the last stack.
        ip: where the last matched frame is now; None where that did not change, -1 where it is undefined.
        frames: new frames, the top one last.
    """

    table: ClassVar[str] = "samples"
    count: Annotated[int | None, Decimal("num", unknown=True)]
    match: Num = field(name="match_prefix_size")
    size: Part = field(name="stack_size")
    ip: IpPart = None
    frames: Annotated[tuple[Frame, ...], Repeated("frame", members=(Frame,))] = ()


class MemorySample(ManagedThreadEvent, frozen=True, gc=False, tag="sam-mem"):
    """The allocations of a thread on its current stack since its last record of this kind.

    spec: Memory Sample: `sam mem`
    """

    table: ClassVar[str] = "memory_samples"
    items: Annotated[tuple[AllocItem, ...], Repeated("alloc_item", members=(AllocItem,))] = ()


class SourceFile(Record, frozen=True, gc=False, tag="fil-src"):
    """A source file, in logs that the development tools have written anew."""

    table: ClassVar[str] = "source_files"
    file_iid: Iid
    path: Name


class SourceLine(Record, frozen=True, gc=False, tag="lin-src"):
    """A place in a source file, in the same logs.

    Instruction pointers there are numbers of such lines; 0 is unknown.
    """

    table: ClassVar[str] = "source_lines"
    line_iid: Iid
    file_iid: Iid
    function_iid: Iid
    start_line: Num
    start_column: Num
    end_line: Num
    end_column: Num


RECORDS: tuple[type[Record], ...] = (
    ProfilerStart, ProfilerConfig, ProfilerPaused, ProfilerResumed, ProcessCpu,
    ThreadCreated, ThreadAssigned, ThreadDestroyed, ThreadCpu,
    ModuleLoaded, ModuleAttached, AssemblyLoaded, AppDomainCreated,
    ClassLoaded, ClassLoadedOld, ClassName,
    FunctionInfo, FunctionCompiled, FunctionFound, FunctionName, FunctionNameOld,
    JitStarted, JitFinished, JitSearchStarted, JitSearchFinished,
    GcStarted, GcFinished, AllocationTable, HeapGenerations,
    StackSample, MemorySample, SourceFile, SourceLine,
)  # fmt: skip
"""All records, in the specification's order.  A line is the first one with its tag that fits."""


def tag_of(cls: type[Record]) -> str:
    """Return the type and the subtype of a class of records, as they are in the file."""
    return type_of(cls).replace("-", " ")


TAGS: dict[bytes, tuple[type[Record], ...]] = {}
"""The classes of each type and subtype."""
for _cls in RECORDS:
    _tag = tag_of(_cls).encode()
    TAGS[_tag] = (*TAGS.get(_tag, ()), _cls)
# Other spellings: D0 has the two words of a stack sample in another order, the specification misprints another tag.
TAGS[b"str sam"] = TAGS[b"sam str"]
TAGS[b"thr crt"] = (ThreadCreated, ThreadDestroyed)


_MISPRINT = b"thr crt"
"""Also means that a thread was destroyed; with two numbers, it was created."""

_CLASSES = frozenset(RECORDS)


def decode(line: bytes) -> Any:
    """Decode a line, given without its end, to a record.

    Raises:
        DecodeError: the line is not a record.
    """
    classes = TAGS.get(line[:TAG_SIZE])
    if classes is None:
        raise DecodeError("line.unknown", f"no record begins with {codec.excerpt(line[:TAG_SIZE])}")
    first: DecodeError | None = None
    for cls in classes:
        try:
            record = codec.decode(cls, line, TAG_SIZE)
        except DecodeError as error:
            first = first or error
        else:
            if not (line.startswith(_MISPRINT) and getattr(record, "extra", None) is not None):
                return record
    assert first is not None
    raise first


def _tag_of(record: Record, style: Style) -> str:
    if isinstance(record, StackSample):
        return style.stack
    if isinstance(record, ThreadDestroyed) and record.extra is None:
        return style.destroyed
    return tag_of(type(record))  # with another number, the misprint would be a created thread


def encode(record: Record | Opaque, style: Style) -> bytes:
    """Encode a record as its line with the line end; of an `Opaque`, return the bytes.

    Raises:
        EncodeError: it is not a record, or the format cannot express it.
    """
    if isinstance(record, Opaque):
        if not isinstance(record.raw, bytes):
            raise EncodeError(f"{record.raw!r} is not bytes", "Opaque.raw")
        return record.raw
    cls = type(record)
    if cls not in _CLASSES:
        raise EncodeError(f"{cls.__name__} is not a record of the format", "record")
    line = (_tag_of(record, style) + codec.encode(record, style)).encode("utf-8", "surrogateescape")
    if len(TAGS[line[:TAG_SIZE]]) > 1 and not _is_read_as(line, record):
        raise EncodeError("the line would be read as another record", cls.__name__)
    return line + style.newline.encode("ascii")


def _is_read_as(line: bytes, record: Record) -> bool:
    try:
        return bool(decode(line) == record)
    except DecodeError:
        return False


def looks_like_record(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a trace: its first line is a record, or begins one."""
    line, end, _ = head.removeprefix(BYTE_ORDER_MARK).partition(b"\n")
    if not end:
        return line[:TAG_SIZE] in TAGS and line[TAG_SIZE : TAG_SIZE + 1] == b" "
    try:
        decode(line.removesuffix(b"\r"))
    except DecodeError:
        return False
    return True
