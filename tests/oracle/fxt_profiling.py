"""FXT scheduling and profiler records for the oracle.

For scheduling headers the bit lists count, not the drawings: the drawings give the size field 8 bits and the type
specific field 48, the lists give them 12 and 44 as in all other records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from construct import Bytes, Computed, IfThenElse, Pass, this

from oracle.fxt_arguments import arguments
from oracle.fxt_words import (
    PROCESS,
    PROCESS_AND_THREAD,
    Context,
    Layout,
    Word,
    field,
    kind,
    length,
    reserved,
    size,
    stream,
    thread_ref,
    thread_ref_field,
    u64,
)

# --- spec: Scheduling Record (record type = 8) ----------------------------------------------------------------------

# spec: Context Switch Record (scheduling event record type = 1)
CONTEXT_SWITCH = Layout(
    "context_switch",
    Word(
        "header",
        kind(0, 3, "record_type", 8),
        size(4, 15),
        length(16, 19, "number_of_arguments", of="args"),
        field(20, 35, "cpu_number"),
        field(36, 39, "outgoing_thread_state"),
        reserved(40, 59),
        kind(60, 63, "scheduling_record_type", 1),
    ),
    "timestamp" / u64,
    "outgoing_thread_id" / u64,
    "incoming_thread_id" / u64,
    arguments,
)

# spec: Thread Wakeup Record (scheduling event record type = 2)
THREAD_WAKEUP = Layout(
    "thread_wakeup",
    Word(
        "header",
        kind(0, 3, "record_type", 8),
        size(4, 15),
        length(16, 19, "number_of_arguments", of="args"),
        field(20, 35, "cpu_number"),
        reserved(36, 59),
        kind(60, 63, "scheduling_record_type", 2),
    ),
    "timestamp" / u64,
    "waking_thread_id" / u64,
    arguments,
)

# spec: Legacy Context Switch Record (context switch record type = 0)
LEGACY_CONTEXT_SWITCH = Layout(
    "legacy_context_switch",
    Word(
        "header",
        kind(0, 3, "record_type", 8),
        size(4, 15),
        field(16, 23, "cpu_number"),
        field(24, 27, "outgoing_thread_state"),
        thread_ref_field(28, 35, "outgoing_thread"),
        thread_ref_field(36, 43, "incoming_thread"),
        field(44, 51, "outgoing_thread_priority"),
        field(52, 59, "incoming_thread_priority"),
        kind(60, 63, "scheduling_record_type", 0),
    ),
    "timestamp" / u64,
    thread_ref("outgoing_thread"),
    thread_ref("incoming_thread"),
)

SCHEDULING_RECORDS = [CONTEXT_SWITCH, THREAD_WAKEUP, LEGACY_CONTEXT_SWITCH]

# --- spec: Profiler record (record type = 10) -----------------------------------------------------------------------


def pid_only(full_size: Callable[[Context], int]) -> Any:
    """Extension: some writers leave out the thread id word of an inline thread.

    Told by the record's size, which then is one word short of the specification's form. True or None.
    """

    def recognized(context: Context) -> bool | None:
        one_short = context.header.size == full_size(context.header) - 1
        return True if context.header.thread == 0 and one_short else None

    return "pid_only" / IfThenElse(this._parsing, Computed(recognized), Pass)


PROFILER_THREAD = thread_ref("thread", inline=IfThenElse(this.pid_only, PROCESS, PROCESS_AND_THREAD))


def words_for(byte_length: int) -> int:
    return (byte_length + 7) // 8


# spec: Module Record (profiler record subtype = 0)
MODULE = Layout(
    "profiler_module",
    Word(
        "header",
        kind(0, 3, "record_type", 10),
        size(4, 15),
        kind(16, 19, "profiler_record_subtype", 0),
        thread_ref_field(20, 27, "thread"),
        field(28, 43, "module_id"),
        length(44, 51, "name_length", of="module_name"),
        length(52, 59, "build_id_length", of="build_id"),
        reserved(60, 63),
    ),
    "timestamp" / u64,
    pid_only(lambda header: 4 + words_for(header.name_length) + words_for(header.build_id_length)),
    PROFILER_THREAD,
    "module_name" / stream(lambda context: context.header.name_length),
    "build_id" / stream(lambda context: context.header.build_id_length),
    optional=["pid_only"],
)

# spec: Mmap Record (profiler record subtype = 1)
MMAP = Layout(
    "profiler_mmap",
    Word(
        "header",
        kind(0, 3, "record_type", 10),
        size(4, 15),
        kind(16, 19, "profiler_record_subtype", 1),
        thread_ref_field(20, 27, "thread"),
        field(28, 43, "module_id"),
        field(44, 46, "flags"),
        reserved(47, 63),
    ),
    "timestamp" / u64,
    pid_only(lambda _header: 7),
    PROFILER_THREAD,
    "start_address" / u64,
    "address_range" / u64,
    "vaddr" / u64,
    optional=["pid_only"],
)

# spec: Backtrace Record (profiler record subtype = 2)
BACKTRACE = Layout(
    "profiler_backtrace",
    Word(
        "header",
        kind(0, 3, "record_type", 10),
        size(4, 15),
        kind(16, 19, "profiler_record_subtype", 2),
        thread_ref_field(20, 27, "thread"),
        length(28, 35, "number_of_backtrace_records", of="backtrace_data", unit=8),
        reserved(36, 63),
    ),
    "timestamp" / u64,
    pid_only(lambda header: 4 + header.number_of_backtrace_records),
    PROFILER_THREAD,
    "backtrace_data" / Bytes(lambda context: 8 * context.header.number_of_backtrace_records),
    optional=["pid_only"],
)

PROFILER_RECORDS = [MODULE, MMAP, BACKTRACE]
