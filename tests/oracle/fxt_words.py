"""FXT encoding primitives for the oracle: words, streams, references, layouts and framing.

Strategy: a header word is written as the specification writes it, one `[low .. high]: name` line after the other from
the least significant bit up; `Word` turns these lines into a construct BitStruct (which counts from the other end),
swapped to the trace's byte order. Each line also knows which value of a record's dict it encodes, so header words are
computed before construct builds, and parsing and building walk through the same declaration.

A `Layout` is words and further atoms in the specification's order. `Framed` picks the layout whose type fields equal
those of a first word, after cutting the record (or argument) out by its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

from construct import (
    BitsInteger,
    Bitwise,
    Bytes,
    ByteSwapped,
    Computed,
    Const,
    Construct,
    Container,
    ExprAdapter,
    IfThenElse,
    Int64sb,
    Int64sl,
    Int64ub,
    Int64ul,
    ListContainer,
    Pass,
    Struct,
    Terminated,
    this,
)

ByteOrder = Literal["little", "big"]
Record = dict[str, Any]
Context = Any

WORD_SIZE = 8
INLINE_STRING = 0x8000


class OracleError(Exception):
    """The bytes are not what the specification allows, or the dict says what the format cannot."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise OracleError(message)


# --- Words and fields.  spec: Atoms ---------------------------------------------------------------------------------


def in_byte_order(big: Any, little: Any) -> Any:
    """Words are stored in machine word order."""
    return IfThenElse(this._params.byteorder == "big", big, little)


u64 = in_byte_order(Int64ub, Int64ul)
i64 = in_byte_order(Int64sb, Int64sl)


@dataclass(frozen=True)
class Field:
    """A line of the specification: `[low .. high]: name`, both bits inclusive."""

    low: int
    high: int
    name: str
    construct: Any
    source: Callable[[Record], Any]  # the value to write, taken from the dict of the whole record or argument
    shown: bool = False  # the dict has this value under the field's own name
    kind: int | None = None  # the value that makes a word belong to its layout


def _width(low: int, high: int) -> int:
    return high - low + 1


def field(low: int, high: int, name: str, *, signed: bool = False, as_type: Any = None) -> Field:
    """Return a field whose value the dict keeps under the same name."""
    bits = as_type or BitsInteger(_width(low, high), signed=signed)
    return Field(low, high, name, bits, lambda record: record[name], shown=True)


def _nothing(_: Record) -> None:
    """Return no value: constants take nothing from the dict."""


def kind(low: int, high: int, name: str, value: int) -> Field:
    """Return a type or subtype: together they decide to which layout a first word belongs."""
    return Field(low, high, name, Const(value, BitsInteger(_width(low, high))), _nothing, kind=value)


def constant(low: int, high: int, name: str, value: int) -> Field:
    """Return a field with a fixed value that does not distinguish layouts."""
    return Field(low, high, name, Const(value, BitsInteger(_width(low, high))), _nothing)


def reserved(low: int, high: int) -> Field:
    """spec: 'All unused bits are reserved for future use and must be set to 0.'"""
    return constant(low, high, f"reserved_{low}", 0)


def size(low: int, high: int) -> Field:
    """spec: 'size (inclusive of this word) as a multiple of 8 bytes'."""
    return Field(low, high, "size", BitsInteger(_width(low, high)), lambda record: record["size"])


def length(low: int, high: int, name: str, *, of: str, unit: int = 1) -> Field:
    """Return a field: the number of bytes in a stream (without padding) in a unit, or of arguments in a list."""
    return Field(low, high, name, BitsInteger(_width(low, high)), lambda record: -(-len(record[of]) // unit))


def string_ref_field(low: int, high: int, name: str) -> Field:
    """spec: String references. 16 bits: 0 empty, below 0x8000 an index, else the length of an inline string."""

    def encode(record: Record) -> int:
        ref = record[name]
        value = ref["index"] if "index" in ref else len(ref["inline"])
        require(0 <= value < INLINE_STRING, f"{name}: {value} does not fit a string ref")
        return int(value if "index" in ref else INLINE_STRING | value)

    return Field(low, high, name, BitsInteger(_width(low, high)), encode)


def thread_ref_field(low: int, high: int, name: str) -> Field:
    """spec: Thread references. 8 bits: 0 means inline, anything else is an index."""

    def encode(record: Record) -> int:
        ref = record[name]
        require(ref.get("index") != 0, f"{name}: thread index 0 means an inline thread")
        return int(ref.get("index", 0))

    return Field(low, high, name, BitsInteger(_width(low, high)), encode)


class Word:
    """A 64-bit word divided into fields, given from bit 0 to bit 63 without gap or overlap."""

    def __init__(self, name: str, *fields: Field) -> None:
        following = [f.low for f in fields[1:]] + [64]
        if fields[0].low != 0 or [f.high + 1 for f in fields] != following:
            raise AssertionError(f"{name}: the fields do not cover bits 0 to 63 once each")
        self.name = name
        self.fields = fields
        most_significant_first = Bitwise(Struct(*(f.name / f.construct for f in reversed(fields))))
        self.construct = in_byte_order(most_significant_first, ByteSwapped(most_significant_first))

    def values(self, record: Record) -> Record:
        """Return the value of each field for this record."""
        return {f.name: f.source(record) for f in self.fields}

    def has_kind_of(self, word: int) -> bool:
        """Return whether all type fields of this declaration equal those of the given word."""
        kinds = [f for f in self.fields if f.kind is not None]
        return all((word >> f.low) & ((1 << _width(f.low, f.high)) - 1) == f.kind for f in kinds)


# --- Streams and references -----------------------------------------------------------------------------------------


def stream(byte_length: Callable[[Context], int]) -> Any:
    """spec: 'A sequence of bytes padded with zeros to the next 8 byte boundary. ... stored in byte order.'"""

    def padded_length(context: Context) -> int:
        content = byte_length(context)
        return content + -content % WORD_SIZE

    def unpad(padded: bytes, context: Context) -> bytes:
        content = byte_length(context)
        require(not any(padded[content:]), "the padding of a stream is not zero")
        return padded[:content]

    def pad(content: bytes, context: Context) -> bytes:
        return content + bytes(-len(content) % WORD_SIZE)

    return ExprAdapter(Bytes(padded_length), unpad, pad)


def string_ref(name: str, *, word: str = "header") -> Any:
    """Return the stream of an inline string if the ref in the word denotes one, otherwise an index only."""
    return name / IfThenElse(
        lambda context: context[word][name] & INLINE_STRING,
        Struct("inline" / stream(lambda context: context._[word][name] & ~INLINE_STRING)),
        Struct("index" / Computed(lambda context: context._[word][name])),
    )


PROCESS = Struct("process" / u64)
PROCESS_AND_THREAD = Struct("process" / u64, "thread" / u64)


def thread_ref(name: str, *, word: str = "header", inline: Any = PROCESS_AND_THREAD) -> Any:
    """Return the koid words of an inline thread if the ref in the word is zero, otherwise an index only."""
    return name / IfThenElse(
        lambda context: context[word][name] == 0,
        inline,
        Struct("index" / Computed(lambda context: context._[word][name])),
    )


def if_more(name: str, construct: Any) -> Any:
    """Return an atom that later writers append, or None: 'detected by examining the record's size'."""

    def present(context: Context) -> bool:
        if context._building:
            return bool(context[name] is not None)
        here = context._io.tell()
        more = bool(context._io.read(1))
        context._io.seek(here)
        return more

    return name / IfThenElse(present, construct, Pass)


# --- Layouts and framing --------------------------------------------------------------------------------------------


class Layout:
    """All atoms of one kind of record or argument, in the specification's order."""

    def __init__(self, name: str, *parts: Any, optional: Sequence[str] = ()) -> None:
        self.name = name
        self.parts = parts
        self.words = [part for part in parts if isinstance(part, Word)]
        self.optional = optional
        self.struct = Struct(*(p.name / p.construct if isinstance(p, Word) else p for p in parts), Terminated)

    def parse(self, raw: bytes, byteorder: ByteOrder) -> Record:
        parsed = self.struct.parse(raw, byteorder=byteorder)
        record: Record = {}
        for part in self.parts:
            if isinstance(part, Word):
                record |= {f.name: parsed[part.name][f.name] for f in part.fields if f.shown}
            elif part.name:
                record[part.name] = plain(parsed[part.name])
        return {key: value for key, value in record.items() if value is not None or key not in self.optional}

    def build(self, record: Record, byteorder: ByteOrder) -> bytes:
        """Build the record twice: the size field is known only after all atoms are built."""
        unsized = self._build({**record, "size": 0}, byteorder)
        return self._build({**record, "size": len(unsized) // WORD_SIZE}, byteorder)

    def _build(self, record: Record, byteorder: ByteOrder) -> bytes:
        absent = dict.fromkeys(self.optional)
        words = {word.name: word.values(record) for word in self.words}
        return self.struct.build(absent | record | words, byteorder=byteorder)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """Return the value without construct's containers."""
    if isinstance(value, Container):
        return {key: plain(item) for key, item in value.items() if not key.startswith("_")}
    return [plain(item) for item in value] if isinstance(value, ListContainer) else value


class Framed(Construct):
    """A construct for the layouts after a size field: records, and arguments within records.

    What fits no layout is kept as it is, since both can be skipped by their size.
    """

    def __init__(self, key: str, size_of: Callable[[bytes, ByteOrder], int], layouts: Sequence[Layout]) -> None:
        super().__init__()
        self.key = key
        self.size_of = size_of
        self.layouts = layouts

    def _parse(self, stream: BytesIO, context: Context, _path: str) -> Record:
        byteorder = context._params.byteorder
        raw = self.cut(stream, byteorder)
        layout = self.layout_of(raw, byteorder)
        if layout is None:
            return {self.key: "unknown", "raw": raw}
        return {self.key: layout.name, **layout.parse(raw, byteorder)}

    def _build(self, obj: Record, stream: BytesIO, context: Context, _path: str) -> Record:
        byteorder = context._params.byteorder
        name = obj[self.key]
        if name == "unknown":
            raw = obj["raw"]
        else:
            (layout,) = [candidate for candidate in self.layouts if candidate.name == name]
            raw = layout.build(obj, byteorder)
        stream.write(raw)
        return obj

    def cut(self, stream: BytesIO, byteorder: ByteOrder) -> bytes:
        """Read as many words as the first one says."""
        first = stream.read(WORD_SIZE)
        require(len(first) == WORD_SIZE, "the bytes end within a header word")
        words = self.size_of(first, byteorder)
        require(words > 0, "a size of zero words does not even include the header")
        rest = stream.read((words - 1) * WORD_SIZE)
        require(len(rest) == (words - 1) * WORD_SIZE, f"a size of {words} words goes beyond the end")
        return first + rest

    def layout_of(self, raw: bytes, byteorder: ByteOrder) -> Layout | None:
        """Return the first layout whose type fields agree with the first word."""
        first = int.from_bytes(raw[:WORD_SIZE], byteorder)
        return next((layout for layout in self.layouts if layout.words[0].has_kind_of(first)), None)
