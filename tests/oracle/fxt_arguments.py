"""FXT arguments for the oracle, in the order of the specification's section 'Argument types'."""

from __future__ import annotations

from construct import Array, BitsInteger, Mapping

from oracle.fxt_words import (
    ByteOrder,
    Framed,
    Layout,
    Word,
    field,
    i64,
    kind,
    length,
    reserved,
    size,
    stream,
    string_ref,
    string_ref_field,
    u64,
)

# spec: Argument header
ARGUMENT_HEADER = Word(
    "header",
    field(0, 3, "argument_type"),
    field(4, 15, "argument_size"),
    string_ref_field(16, 31, "name"),
    field(32, 63, "varies"),
)


def argument_size(first: bytes, byteorder: ByteOrder) -> int:
    """Return the number of words of the argument that starts with this header word."""
    return ARGUMENT_HEADER.construct.parse(first, byteorder=byteorder).argument_size  # type: ignore[no-any-return]


# spec: Null argument (argument type = 0)
NULL = Layout(
    "null",
    Word(
        "header",
        kind(0, 3, "argument_type", 0),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
)

# spec: 32-bit signed integer argument (argument type = 1)
INT32 = Layout(
    "int32",
    Word(
        "header",
        kind(0, 3, "argument_type", 1),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        field(32, 63, "value", signed=True),
    ),
    string_ref("name"),
)

# spec: 32-bit unsigned integer argument (argument type = 2)
UINT32 = Layout(
    "uint32",
    Word(
        "header",
        kind(0, 3, "argument_type", 2),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        field(32, 63, "value"),
    ),
    string_ref("name"),
)

# spec: 64-bit signed integer argument (argument type = 3)
INT64 = Layout(
    "int64",
    Word(
        "header",
        kind(0, 3, "argument_type", 3),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
    "value" / i64,
)

# spec: 64-bit unsigned integer argument (argument type = 4)
UINT64 = Layout(
    "uint64",
    Word(
        "header",
        kind(0, 3, "argument_type", 4),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
    "value" / u64,
)

# spec: Double-precision floating point argument (argument type = 5); kept as its bit pattern, so that NaN compares
DOUBLE = Layout(
    "double",
    Word(
        "header",
        kind(0, 3, "argument_type", 5),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
    "bits" / u64,
)

# spec: String argument (argument type = 6)
STRING = Layout(
    "string",
    Word(
        "header",
        kind(0, 3, "argument_type", 6),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        string_ref_field(32, 47, "value"),
        reserved(48, 63),
    ),
    string_ref("name"),
    string_ref("value"),
)

# spec: Pointer argument (argument type = 7)
POINTER = Layout(
    "pointer",
    Word(
        "header",
        kind(0, 3, "argument_type", 7),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
    "value" / u64,
)

# spec: Kernel object id argument (argument type = 8)
KOID = Layout(
    "koid",
    Word(
        "header",
        kind(0, 3, "argument_type", 8),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("name"),
    "value" / u64,
)

# spec: Boolean argument (argument type = 9); '[32 .. 63]: 1 bit padded with zeros'
BOOL = Layout(
    "bool",
    Word(
        "header",
        kind(0, 3, "argument_type", 9),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        field(32, 32, "value", as_type=Mapping(BitsInteger(1), {False: 0, True: 1})),
        reserved(33, 63),
    ),
    string_ref("name"),
)

# spec: Blob argument (argument type = 10)
BLOB = Layout(
    "blob",
    Word(
        "header",
        kind(0, 3, "argument_type", 10),
        size(4, 15),
        string_ref_field(16, 31, "name"),
        length(32, 63, "blob_size", of="value"),
    ),
    string_ref("name"),
    "value" / stream(lambda context: context.header.blob_size),
)

ARGUMENT = Framed(
    "type",
    argument_size,
    [NULL, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, POINTER, KOID, BOOL, BLOB],
)

# spec: 'argument data (repeats for each argument)'
arguments = "args" / Array(lambda context: context.header.number_of_arguments, ARGUMENT)
arguments_of_format_header = "args" / Array(lambda context: context.format_header.number_of_arguments, ARGUMENT)
