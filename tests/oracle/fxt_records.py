"""FXT records for the oracle, in the order of the specification's section 'Record Types'.

Atoms that the specification lacks but real traces have are marked 'extension'. Event records are in `fxt_events`,
scheduling and profiler records in `fxt_profiling`.
"""

from __future__ import annotations

from typing import Any

from construct import BitsInteger, Check, GreedyBytes, OneOf

from oracle.fxt_arguments import arguments, arguments_of_format_header
from oracle.fxt_events import EVENTS
from oracle.fxt_profiling import PROFILER_RECORDS, SCHEDULING_RECORDS
from oracle.fxt_words import (
    PROCESS,
    ByteOrder,
    Framed,
    Layout,
    Word,
    constant,
    field,
    if_more,
    kind,
    length,
    reserved,
    size,
    stream,
    string_ref,
    string_ref_field,
    thread_ref,
    thread_ref_field,
    u64,
)

# spec: Record header
RECORD_HEADER = Word(
    "header",
    field(0, 3, "record_type"),
    field(4, 15, "record_size"),
    field(16, 63, "varies"),
)

# spec: Large record header
LARGE_RECORD_TYPE = 15
LARGE_RECORD_HEADER = Word(
    "header",
    constant(0, 3, "record_type", LARGE_RECORD_TYPE),
    field(4, 35, "record_size"),
    field(36, 39, "large_record_type"),
    field(40, 63, "varies"),
)


def record_size(first: bytes, byteorder: ByteOrder) -> int:
    """Return the number of words of the record that starts with this header word."""
    header: Any = RECORD_HEADER.construct.parse(first, byteorder=byteorder)
    if header.record_type == LARGE_RECORD_TYPE:
        header = LARGE_RECORD_HEADER.construct.parse(first, byteorder=byteorder)
    return header.record_size  # type: ignore[no-any-return]


# --- spec: Metadata record (record type = 0) ------------------------------------------------------------------------

# spec: Provider info metadata (metadata type = 1)
PROVIDER_INFO = Layout(
    "provider_info",
    Word(
        "header",
        kind(0, 3, "record_type", 0),
        size(4, 15),
        kind(16, 19, "metadata_type", 1),
        field(20, 51, "provider_id"),
        length(52, 59, "name_length", of="provider_name"),
        reserved(60, 63),
    ),
    "provider_name" / stream(lambda context: context.header.name_length),
)

# spec: Provider section metadata (metadata type = 2)
PROVIDER_SECTION = Layout(
    "provider_section",
    Word(
        "header",
        kind(0, 3, "record_type", 0),
        size(4, 15),
        kind(16, 19, "metadata_type", 2),
        field(20, 51, "provider_id"),
        reserved(52, 63),
    ),
)

# spec: Provider event metadata (metadata type = 3)
PROVIDER_EVENT = Layout(
    "provider_event",
    Word(
        "header",
        kind(0, 3, "record_type", 0),
        size(4, 15),
        kind(16, 19, "metadata_type", 3),
        field(20, 51, "provider_id"),
        field(52, 55, "event_id"),
        reserved(56, 63),
    ),
)

# spec: Magic number record (trace info type = 0)
MAGIC = Layout(
    "magic",
    Word(
        "header",
        kind(0, 3, "record_type", 0),
        size(4, 15),
        kind(16, 19, "metadata_type", 4),
        kind(20, 23, "trace_info_type", 0),
        constant(24, 55, "magic_number", 0x16547846),
        constant(56, 63, "zero", 0),
    ),
)

# spec: Trace info metadata (metadata type = 4); any trace info type but the magic number, kept without meaning
TRACE_INFO = Layout(
    "trace_info",
    Word(
        "header",
        kind(0, 3, "record_type", 0),
        size(4, 15),
        kind(16, 19, "metadata_type", 4),
        field(20, 23, "trace_info_type", as_type=OneOf(BitsInteger(4), range(1, 16))),
        field(24, 63, "varies"),
    ),
    "payload" / GreedyBytes,
)

METADATA_RECORDS = [PROVIDER_INFO, PROVIDER_SECTION, PROVIDER_EVENT, MAGIC, TRACE_INFO]

# --- spec: Initialization record (record type = 1) ------------------------------------------------------------------

INITIALIZATION = Layout(
    "initialization",
    Word(
        "header",
        kind(0, 3, "record_type", 1),
        size(4, 15),
        reserved(16, 63),
    ),
    "ticks_per_second" / u64,
    if_more("base_ticks", u64),  # extension: the tick, and the wall-clock time in nanoseconds at that tick
    if_more("wall_clock_ns", u64),
    Check(lambda context: (context.base_ticks is None) == (context.wall_clock_ns is None)),
    optional=["base_ticks", "wall_clock_ns"],
)

# --- spec: String record (record type = 2) --------------------------------------------------------------------------

STRING = Layout(
    "string",
    Word(
        "header",
        kind(0, 3, "record_type", 2),
        size(4, 15),
        field(16, 30, "string_index"),
        constant(31, 31, "always_zero_31", 0),
        length(32, 46, "string_length", of="string_value"),
        constant(47, 47, "always_zero_47", 0),
        reserved(48, 63),
    ),
    "string_value" / stream(lambda context: context.header.string_length),
)

# --- spec: Thread record (record type = 3) --------------------------------------------------------------------------

THREAD = Layout(
    "thread",
    Word(
        "header",
        kind(0, 3, "record_type", 3),
        size(4, 15),
        field(16, 23, "thread_index"),
        reserved(24, 63),
    ),
    "process_id" / u64,
    "thread_id" / u64,
)

# --- spec: BLOB record (record type = 5) ----------------------------------------------------------------------------

BLOB = Layout(
    "blob",
    Word(
        "header",
        kind(0, 3, "record_type", 5),
        size(4, 15),
        string_ref_field(16, 31, "blob_name"),
        length(32, 46, "blob_payload_size", of="payload"),
        reserved(47, 47),
        field(48, 55, "blob_type"),
        reserved(56, 63),
    ),
    string_ref("blob_name"),
    "payload" / stream(lambda context: context.header.blob_payload_size),
)

# --- spec: Userspace object record (record type = 6) ----------------------------------------------------------------

USERSPACE_OBJECT = Layout(
    "userspace_object",
    Word(
        "header",
        kind(0, 3, "record_type", 6),
        size(4, 15),
        thread_ref_field(16, 23, "process"),
        string_ref_field(24, 39, "name"),
        length(40, 43, "number_of_arguments", of="args"),
        reserved(44, 63),
    ),
    "pointer" / u64,
    thread_ref("process", inline=PROCESS),
    string_ref("name"),
    arguments,
)

# --- spec: Kernel object record (record type = 7) -------------------------------------------------------------------

KERNEL_OBJECT = Layout(
    "kernel_object",
    Word(
        "header",
        kind(0, 3, "record_type", 7),
        size(4, 15),
        field(16, 23, "kernel_object_type"),
        string_ref_field(24, 39, "name"),
        length(40, 43, "number_of_arguments", of="args"),
        reserved(44, 63),
    ),
    "koid" / u64,
    string_ref("name"),
    arguments,
)

# --- spec: Log record (record type = 9) -----------------------------------------------------------------------------

LOG = Layout(
    "log",
    Word(
        "header",
        kind(0, 3, "record_type", 9),
        size(4, 15),
        length(16, 30, "log_message_length", of="log_message"),
        constant(31, 31, "always_zero", 0),
        thread_ref_field(32, 39, "thread"),
        reserved(40, 63),
    ),
    "timestamp" / u64,
    thread_ref("thread"),
    "log_message" / stream(lambda context: context.header.log_message_length),
)

# --- spec: Large BLOB record (record type = 15, large type = 0) -----------------------------------------------------

# spec: In Band Large Blob Record With Metadata (blob format = 0)
LARGE_BLOB = Layout(
    "large_blob",
    Word(
        "header",
        kind(0, 3, "record_type", LARGE_RECORD_TYPE),
        size(4, 35),
        kind(36, 39, "large_record_type", 0),
        kind(40, 43, "blob_format_type", 0),
        reserved(44, 63),
    ),
    Word(
        "format_header",
        string_ref_field(0, 15, "category"),
        string_ref_field(16, 31, "name"),
        length(32, 35, "number_of_arguments", of="args"),
        thread_ref_field(36, 43, "thread"),
        reserved(44, 63),
    ),
    string_ref("category", word="format_header"),
    string_ref("name", word="format_header"),
    "timestamp" / u64,
    thread_ref("thread", word="format_header"),
    arguments_of_format_header,
    Word("blob_size_word", length(0, 63, "blob_payload_size", of="payload")),
    "payload" / stream(lambda context: context.blob_size_word.blob_payload_size),
)

# spec: In Band Large Blob Record No Metadata (blob format = 1)
LARGE_BLOB_NO_METADATA = Layout(
    "large_blob_no_metadata",
    Word(
        "header",
        kind(0, 3, "record_type", LARGE_RECORD_TYPE),
        size(4, 35),
        kind(36, 39, "large_record_type", 0),
        kind(40, 43, "blob_format_type", 1),
        reserved(44, 63),
    ),
    Word(
        "format_header",
        string_ref_field(0, 15, "category"),
        string_ref_field(16, 31, "name"),
        reserved(32, 63),
    ),
    string_ref("category", word="format_header"),
    string_ref("name", word="format_header"),
    Word("blob_size_word", length(0, 63, "blob_payload_size", of="payload")),
    "payload" / stream(lambda context: context.blob_size_word.blob_payload_size),
)

RECORD = Framed(
    "kind",
    record_size,
    [
        *METADATA_RECORDS,
        INITIALIZATION,
        STRING,
        THREAD,
        *EVENTS,
        BLOB,
        USERSPACE_OBJECT,
        KERNEL_OBJECT,
        *SCHEDULING_RECORDS,
        LOG,
        *PROFILER_RECORDS,
        LARGE_BLOB,
        LARGE_BLOB_NO_METADATA,
    ],
)
