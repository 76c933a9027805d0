"""The records, each declared once: its type and subtype, then its items in their order.

A field is an item, and its annotation says of which kind.  Compound items are structs of their own whose parts have
colons between them.  What decodes, encodes, makes columns, explains and describes a record is derived from this.

Times are milliseconds from the start of profiling.  Internal IDs are None where the file has `?`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from fxtio.coreprofiler.layout import UNDEFINED, Count, Flags, OsThread, Quoted, Same, Several, Word
from fxtio.coreprofiler.loading import (
    AppDomainCreated,
    AssemblyLoaded,
    ClassLoaded,
    ClassLoadedOld,
    ClassName,
    ModuleAttached,
    ModuleLoaded,
    ProcessCpu,
    ProfilerConfig,
    ProfilerPaused,
    ProfilerResumed,
    ProfilerStart,
    ThreadAssigned,
    ThreadCpu,
    ThreadCreated,
    ThreadDestroyed,
)
from fxtio.coreprofiler.parts import (
    AllocItem,
    AltItem,
    CodeInfo,
    Frame,
    HeapItem,
    Hr,
    Id,
    Iid,
    IlMap,
    IpPart,
    Ms,
    Name,
    Num,
    Part,
    Record,
    Thread,
    Token,
)

__all__ = [
    "RECORDS",
    "TAGS",
    "UNDEFINED",
    "AllocItem",
    "AllocationTable",
    "AltItem",
    "AppDomainCreated",
    "AssemblyLoaded",
    "ClassLoaded",
    "ClassLoadedOld",
    "ClassName",
    "CodeInfo",
    "Frame",
    "FunctionCompiled",
    "FunctionFound",
    "FunctionInfo",
    "FunctionName",
    "FunctionNameOld",
    "GcFinished",
    "GcStarted",
    "HeapGenerations",
    "HeapItem",
    "IlMap",
    "JitFinished",
    "JitSearchFinished",
    "JitSearchStarted",
    "JitStarted",
    "MemorySample",
    "ModuleAttached",
    "ModuleLoaded",
    "OsThread",
    "ProcessCpu",
    "ProfilerConfig",
    "ProfilerPaused",
    "ProfilerResumed",
    "ProfilerStart",
    "Record",
    "SourceFile",
    "SourceLine",
    "StackSample",
    "ThreadAssigned",
    "ThreadCpu",
    "ThreadCreated",
    "ThreadDestroyed",
]

_Code = Annotated[tuple[CodeInfo, ...], Several("code_info", members=(CodeInfo, IlMap))]
_IlMap = Annotated[tuple[IlMap, ...], Same("il_map")]


class FunctionInfo(Record, frozen=True, gc=False):
    """A function and its code.

    Attributes:
        function: its Internal ID.
        function_id: its identifier in the runtime.
        class_id: that of its class.
        module_id: that of its module.
        token: its metadata token.
        code: blocks of native code.
        il_map: which native code belongs to which IL code.
    """

    tag: ClassVar[str] = "fun inf"
    table: ClassVar[str] = "functions"
    spec: ClassVar[str] = "Function info: `fun inf`"
    function: Iid
    function_id: Id
    class_id: Id
    module_id: Id
    token: Token
    code: _Code = ()
    il_map: _IlMap = ()


class FunctionCompiled(Record, frozen=True, gc=False):
    """A function that was compiled, in older dialects: with the result, and the identifier first."""

    tag: ClassVar[str] = "fun cmf"
    table: ClassVar[str] = "functions_compiled"
    function_id: Id
    function: Iid
    class_id: Id
    module_id: Id
    token: Token
    status: Hr
    code: _Code = ()
    il_map: _IlMap = ()


class FunctionFound(Record, frozen=True, gc=False):
    """A function that was found compiled, in older dialects."""

    tag: ClassVar[str] = "fun csf"
    table: ClassVar[str] = "functions_found"
    function_id: Id
    function: Iid
    class_id: Id
    module_id: Id
    token: Token
    code: _Code = ()
    il_map: _IlMap = ()


class FunctionName(Record, frozen=True, gc=False):
    """The name of a function.

    Attributes:
        function: its Internal ID.
        name: its full name.
        return_type: the type that it returns.
        signature: the types of its parameters, in brackets.
    """

    tag: ClassVar[str] = "fun nam"
    table: ClassVar[str] = "function_names"
    spec: ClassVar[str] = "Function name: `fun nam`"
    function: Iid
    name: Annotated[str, Quoted("qtn", texts=3)]
    return_type: Annotated[str, Same("qtn")]
    signature: Annotated[str, Same("qtn")]


class FunctionNameOld(Record, frozen=True, gc=False):
    """The name of a function, as the oldest dialect tells it: one text."""

    tag: ClassVar[str] = "fun nam"
    table: ClassVar[str] = "function_names_old"
    function: Iid
    name: Name


class JitStarted(Record, frozen=True, gc=False):
    """The compiler begins a function."""

    tag: ClassVar[str] = "jit cms"
    table: ClassVar[str] = "jit_starts"
    spec: ClassVar[str] = "JIT Compilation Started: `jit cms`"
    thread: Thread
    timestamp: Ms
    function_id: Id


class JitFinished(Record, frozen=True, gc=False):
    """The compiler has finished a function."""

    tag: ClassVar[str] = "jit cmf"
    table: ClassVar[str] = "jit_ends"
    spec: ClassVar[str] = "JIT Compilation Finished: `jit cmf`"
    thread: Thread
    timestamp: Ms
    function_id: Id
    status: Hr


class JitSearchStarted(Record, frozen=True, gc=False):
    """A search for a compiled function begins."""

    tag: ClassVar[str] = "jit css"
    table: ClassVar[str] = "jit_search_starts"
    spec: ClassVar[str] = "JIT Cached Function Search Started: `jit css`"
    thread: Thread
    timestamp: Ms
    function_id: Id


class JitSearchFinished(Record, frozen=True, gc=False):
    """A search for a compiled function has ended; the record does not tell how."""

    tag: ClassVar[str] = "jit csf"
    table: ClassVar[str] = "jit_search_ends"
    spec: ClassVar[str] = "JIT Cached Function Search Finished: `jit csf`"
    thread: Thread
    timestamp: Ms
    function_id: Id


class GcStarted(Record, frozen=True, gc=False):
    """A garbage collection begins.

    Attributes:
        thread: the thread.
        timestamp: when.
        reason: `induced`, or `?`.
        generations: whether generation 0, 1, 2 and the large objects are collected.
    """

    tag: ClassVar[str] = "gch gcs"
    table: ClassVar[str] = "gc_starts"
    spec: ClassVar[str] = "Garbage Collection Started: `gch gcs`"
    thread: Thread
    timestamp: Ms
    reason: Annotated[str, Word("str")]
    generations: Annotated[tuple[bool, ...], Flags("t|f")] = ()


class GcFinished(Record, frozen=True, gc=False):
    """A garbage collection has ended."""

    tag: ClassVar[str] = "gch gcf"
    table: ClassVar[str] = "gc_ends"
    spec: ClassVar[str] = "Garbage Collection Finished: `gch gcf`"
    thread: Thread
    timestamp: Ms


class AllocationTable(Record, frozen=True, gc=False):
    """What remains in the heap after a garbage collection."""

    tag: ClassVar[str] = "gch alt"
    table: ClassVar[str] = "allocation_tables"
    spec: ClassVar[str] = "GC Heap Allocation Table: `gch alt`"
    timestamp: Ms
    items: Annotated[tuple[AltItem, ...], Several("alt_item", members=(AltItem,))] = ()


class HeapGenerations(Record, frozen=True, gc=False):
    """How large the parts of the heap are, in newer dialects."""

    tag: ClassVar[str] = "gch gen"
    table: ClassVar[str] = "heap_generations"
    timestamp: Ms
    items: Annotated[tuple[HeapItem, ...], Several("gen_item", members=(HeapItem,))] = ()


class StackSample(Record, frozen=True, gc=False):
    """How a thread's stack changed since its last sample.  `stacks` puts whole stacks together.

    Attributes:
        thread: the thread.
        timestamp: when.
        count: sampling ticks since then; None in the oldest dialect, where it may be `?`.
        match: frames from the bottom that were not left since.
        size: frames of the last stack.
        ip: where the last matched frame is now; None where that did not change, -1 undefined.
        frames: new frames, the top one last.
    """

    tag: ClassVar[str] = "sam str"
    table: ClassVar[str] = "samples"
    spec: ClassVar[str] = "Stack Trace Sample: `sam str`"
    thread: Iid
    timestamp: Ms
    count: Annotated[int | None, Count("num")]
    match: Num
    size: Part
    ip: IpPart = None
    frames: Annotated[tuple[Frame, ...], Several("frame", members=(Frame,))] = ()


class MemorySample(Record, frozen=True, gc=False):
    """What a thread allocated since its last such record; it belongs to the thread's current stack."""

    tag: ClassVar[str] = "sam mem"
    table: ClassVar[str] = "memory_samples"
    spec: ClassVar[str] = "Memory Sample: `sam mem`"
    thread: Iid
    timestamp: Ms
    items: Annotated[tuple[AllocItem, ...], Several("alloc_item", members=(AllocItem,))] = ()


class SourceFile(Record, frozen=True, gc=False):
    """A source file, in logs that the development tools have written anew."""

    tag: ClassVar[str] = "fil src"
    table: ClassVar[str] = "source_files"
    file: Iid
    path: Name


class SourceLine(Record, frozen=True, gc=False):
    """A place in a source file, likewise; instruction pointers are numbers of such lines there, 0 is unknown."""

    tag: ClassVar[str] = "lin src"
    table: ClassVar[str] = "source_lines"
    line: Iid
    file: Iid
    function: Iid
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
"""All records, in the specification's order; of two with the same tag, the first one that fits counts."""

TAGS: dict[bytes, tuple[type[Record], ...]] = {}
"""Which classes begin with a type and subtype."""
for _cls in RECORDS:
    TAGS[_cls.tag.encode()] = (*TAGS.get(_cls.tag.encode(), ()), _cls)
# The other spellings: D0 has the two words of a stack sample in another order, the specification misprints another.
TAGS[b"str sam"] = TAGS[b"sam str"]
TAGS[b"thr crt"] = (ThreadCreated, ThreadDestroyed)
