"""What the declarations are made of: kinds of items by the names of the specification, and compound items."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fxtio.coreprofiler.layout import (
    MAX_32,
    MAX_63,
    MAX_64,
    Decimal,
    Hexadecimal,
    OsThread,
    Pointer,
    Quoted,
    ThreadNumber,
    Word,
)

Num = Annotated[int, Decimal("num")]
Pid = Annotated[int, Decimal("pid")]
Ms = Annotated[int, Decimal("ms", low=-MAX_63 - 1)]
Us = Annotated[int, Decimal("us", high=MAX_64)]
Id = Annotated[int, Hexadecimal("id", form="pointer")]
Ptr = Annotated[int, Hexadecimal("ptr", form="pointer")]
Hr = Annotated[int, Hexadecimal("hr", form="hex32", high=MAX_32)]
Token = Annotated[int, Hexadecimal("token", form="hex32", high=MAX_32)]
Iid = Annotated[int | None, Hexadecimal("iid", form="hex32", high=MAX_32, unknown=True)]
Thread = Annotated[int | OsThread | None, ThreadNumber("iid")]
Name = Annotated[str, Quoted("qtn")]

# Within compound items: parts behind a colon.
Part = Annotated[int, Decimal("num", glue=":")]
HexPart = Annotated[int, Hexadecimal("hex", glue=":")]
IpPart = Annotated[int | None, Pointer("ip", glue=":", optional=True)]


class Compound(msgspec.Struct, frozen=True, gc=False):
    """Base of the compound items.

    Attributes:
        item: what the specification calls it.
    """

    item: ClassVar[str] = ""


class Frame(Compound, frozen=True, gc=False):
    """A frame of a call stack.

    Attributes:
        function: its Internal ID.
        ip: where the next frame was called from; None where it is not told, -1 where it is told as undefined.
    """

    item: ClassVar[str] = "frame"
    function: Annotated[int | None, Hexadecimal("iid", form="sample", high=MAX_32, unknown=True)]
    ip: IpPart = None


class AllocItem(Compound, frozen=True, gc=False):
    """Objects that were allocated.

    Attributes:
        class_iid: the Internal ID of their class.
        count: how many.
        size: bytes of all of them.
        ip: the instruction; None where it is not told, -1 where it is told as undefined.
    """

    item: ClassVar[str] = "alloc_item"
    class_iid: Annotated[int | None, Hexadecimal("iid", form="sample", high=MAX_32, unknown=True)]
    count: Part
    size: Part
    ip: IpPart = None


class AltItem(Compound, frozen=True, gc=False):
    """Objects of a class that remain in the heap.

    Attributes:
        class_iid: the Internal ID of their class.
        count: how many.
        size: bytes of all of them.
    """

    item: ClassVar[str] = "alt_item"
    class_iid: Iid
    count: Part
    size: Part


class CodeInfo(Compound, frozen=True, gc=False):
    """A block of native code.

    Attributes:
        start: its address.
        size: its bytes.
    """

    item: ClassVar[str] = "code_info"
    start: Id
    size: HexPart


class IlMap(Compound, frozen=True, gc=False):
    """Native code of some IL code.  The largest IL offsets are markers: no mapping, prolog, epilog.

    Attributes:
        il_offset: offset in the IL code.
        native_start: offset of the first native instruction.
        native_end: offset behind the last one.
    """

    item: ClassVar[str] = "il_map"
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
    name: Annotated[str, Word("str")]
    allocated: Part
    reserved: Part


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the records.

    Attributes:
        tag: type and subtype.
        table: the name of the table of all records of the class.
        spec: what the specification calls it; empty for what it does not know.
    """

    tag: ClassVar[str] = ""
    table: ClassVar[str] = ""
    spec: ClassVar[str] = ""
