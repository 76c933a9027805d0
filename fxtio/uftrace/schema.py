"""The tables of a uftrace directory as declarations: their columns, and which of them a writer takes.

Times are nanoseconds.  Tables of records come first, in the order of the files of the tasks; then those of other files.
"""

from __future__ import annotations

from fxtio.schema import ADDED, BYTES, OPTIONAL, REQUIRED, TEXT, ColumnSpec, TableSpec, writable_tables

_RECORD = ColumnSpec("int64", "the number of the record in the trace, counted over all tasks")
_TID = ColumnSpec("int64", "the task", REQUIRED)
_TIME = ColumnSpec("int64", "the time", REQUIRED)
_CPU = ColumnSpec("int64", "the processor", REQUIRED)
_OFFSET = ColumnSpec("int64", "the place in the file of the task, in bytes")
_NAME = ColumnSpec(TEXT, "the name", REQUIRED)
_PATH = ColumnSpec(TEXT, "the path of the module")
_BUILD_ID = ColumnSpec(TEXT, "the build id of the module")
_FILE = ColumnSpec(TEXT, "the name of the file")


_FUNCTION = ColumnSpec(TEXT, "the name of the function", REQUIRED)
_START = ColumnSpec("int64", "the time of the entry", REQUIRED)
_DURATION = ColumnSpec("int64", "the length", REQUIRED)
_DEPTH = ColumnSpec("int64", "the number of calls around it", REQUIRED)
_STATE = ColumnSpec(TEXT, "`whole`, `no_exit`, `no_entry` or `open`", OPTIONAL)

SPECS: dict[str, TableSpec] = {
    "records": TableSpec(
        "Records of the tasks",
        {
            "record": _RECORD,
            "tid": _TID,
            "offset": _OFFSET,
            "type": ColumnSpec(TEXT, "`entry`, `exit`, `lost` or `event`", REQUIRED),
            "time": ColumnSpec("int64", "the time, 0 for `lost`", REQUIRED),
            "depth": ColumnSpec("int16", "the number of calls around it, modulo 1024", REQUIRED),
            "address": ColumnSpec("uint64", "the address; the id of an event, the count of lost records", REQUIRED),
            "name": ColumnSpec(TEXT, "the name of the function or event"),
            "payload": ColumnSpec(BYTES, "the bytes that follow the record", ADDED),
        },
    ),
    "slices": TableSpec(
        "Calls of functions, in any order",
        {
            "tid": _TID,
            "name": _FUNCTION,
            "start": _START,
            "duration": _DURATION,
            "depth": _DEPTH,
            "state": _STATE,
        },
        only_written=True,
    ),
    "args": TableSpec(
        "Values of arguments and results",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "`arg1`, `fparg1`, `retval` and so on"),
            "format": ColumnSpec(TEXT, "the letter of the specification"),
            "size": ColumnSpec("int16", "the number of bytes, 0 for a string"),
            "bits": ColumnSpec("uint64", "a sign-extended integer, or the bits of a double"),
            "text": ColumnSpec(TEXT, "the value of a string"),
            "type": ColumnSpec(TEXT, "the name of the enumeration or structure"),
            "meaning": ColumnSpec(
                TEXT, "the name of the value of an enumeration; what a pointer of the format `p` points to"
            ),
        },
    ),
    "structs": TableSpec(
        "Values of structures",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "the name of the argument"),
            "type": ColumnSpec(TEXT, "the name of the structure"),
            "bytes": ColumnSpec(BYTES, "the value"),
        },
    ),
    "payloads": TableSpec(
        "The bytes that follow records; only of records that have some",
        {"record": _RECORD, "payload": ColumnSpec(BYTES, "the bytes as they are")},
    ),
    "events": TableSpec(
        "Events of tasks",
        {
            "record": _RECORD,
            "tid": _TID,
            "time": _TIME,
            "id": ColumnSpec("uint64", "the id"),
            "name": _NAME,
            "data": ColumnSpec(BYTES, "the data", ADDED),
        },
    ),
    "event_values": TableSpec(
        "Values in the data of events",
        {
            "record": _RECORD,
            "name": ColumnSpec(TEXT, "the name"),
            "bits": ColumnSpec("uint64", 'the value; of a difference, `bits.view("int64")`'),
            "meaning": ColumnSpec(TEXT, "the function or variable at `address` and `caller`"),
        },
    ),
    "lost": TableSpec(
        "Places at which records were lost",
        {
            "record": _RECORD,
            "tid": _TID,
            "offset": _OFFSET,
            "count": ColumnSpec("uint64", "the number of lost records", REQUIRED),
        },
    ),
    "info": TableSpec(
        "The fields of the header of the file `info`, then its lines",
        {"key": ColumnSpec(TEXT, "the field"), "value": ColumnSpec(TEXT, "the value")},
    ),
    "tasks": TableSpec(
        "Tasks that have records",
        {
            "tid": ColumnSpec("int64", "the task"),
            "pid": ColumnSpec("int64", "its process"),
            "program": ColumnSpec(TEXT, "the path of its program"),
        },
    ),
    "task_events": TableSpec(
        "Lines of the file `task.txt`",
        {
            "time": ColumnSpec("int64", "the time"),
            "kind": ColumnSpec(TEXT, "`session`, `task`, `fork` or `library`"),
            "tid": ColumnSpec("int64", "the task"),
            "pid": ColumnSpec("int64?", "the process"),
            "parent": ColumnSpec("int64?", "the parent of a fork"),
            "sid": ColumnSpec(TEXT, "the session"),
            "path": ColumnSpec(TEXT, "the path of a program or library"),
            "address": ColumnSpec("uint64?", "the address of a library"),
        },
    ),
    "modules": TableSpec(
        "Lines of the memory maps of sessions",
        {
            "sid": ColumnSpec(TEXT, "the session"),
            "path": _PATH,
            "address": ColumnSpec("uint64", "the first address"),
            "end_address": ColumnSpec("uint64", "the address behind the last one"),
            "perms": ColumnSpec(TEXT, "what may be done there, such as `r-xp`"),
            "file_offset": ColumnSpec("uint64", "the place in the file, in bytes"),
            "device": ColumnSpec(TEXT, "the device of the file"),
            "inode": ColumnSpec("uint64", "the inode of the file"),
            "build_id": _BUILD_ID,
        },
    ),
    "symbols": TableSpec(
        "Symbols",
        {
            "file": _FILE,
            "path": _PATH,
            "build_id": _BUILD_ID,
            "address": ColumnSpec("uint64", "the address from the base of the module"),
            "size": ColumnSpec("int64?", "the number of bytes, null if the file has no sizes"),
            "type": ColumnSpec(TEXT, "the letter of the type"),
            "name": ColumnSpec(TEXT, "the name"),
        },
    ),
    "debug_functions": TableSpec(
        "Functions of which debug files tell more",
        {
            "file": _FILE,
            "path": _PATH,
            "build_id": _BUILD_ID,
            "address": ColumnSpec("uint64", "the address from the base of the module"),
            "name": ColumnSpec(TEXT, "the name"),
            "arguments": ColumnSpec(TEXT, "the specification of the arguments"),
            "returns": ColumnSpec(TEXT, "the specification of the result"),
            "source": ColumnSpec(TEXT, "the source file"),
            "line": ColumnSpec("int64?", "the line in it"),
        },
    ),
    "enums": TableSpec(
        "Values of enumerations",
        {
            "file": _FILE,
            "name": ColumnSpec(TEXT, "the name of the enumeration", REQUIRED),
            "label": ColumnSpec(TEXT, "the name of the value", REQUIRED),
            "value": ColumnSpec("int64", "the value", REQUIRED),
        },
    ),
    "sched": TableSpec(
        "Scheduler events, by time",
        {
            "time": _TIME,
            "cpu": _CPU,
            "pid": ColumnSpec("int64", "the process", REQUIRED),
            "tid": _TID,
            "kind": ColumnSpec(TEXT, "`sched-in`, `sched-out`, `task-new` and so on", REQUIRED),
            "name": ColumnSpec(TEXT, "the new name of the task", OPTIONAL),
            "parent": ColumnSpec("int64?", "the parent of a new task, or of one that ends", OPTIONAL),
            "parent_pid": ColumnSpec("int64?", "the process of the parent", OPTIONAL),
        },
    ),
    "kernel": TableSpec(
        "Kernel events, by time",
        {
            "event": ColumnSpec("int64", "the row, counted over all batches"),
            "time": _TIME,
            "cpu": _CPU,
            "tid": _TID,
            "id": ColumnSpec("int64", "the id of the kind of event"),
            "name": ColumnSpec(TEXT, "the name with the subsystem, such as `sched:sched_switch`", REQUIRED),
            "address": ColumnSpec("uint64", "the address of a function that is entered or left"),
            "function": ColumnSpec(TEXT, "the name of this function"),
            "depth": ColumnSpec("int64", "the number of calls around it"),
            "missed": ColumnSpec("bool", "whether events before this one are missing", OPTIONAL),
            "data": ColumnSpec(BYTES, "the bytes of the event", REQUIRED),
        },
    ),
    "kernel_values": TableSpec(
        "Values of kernel events, without the fields that all events have",
        {
            "event": ColumnSpec("int64", "the row in `kernel`"),
            "name": ColumnSpec(TEXT, "the name of the field"),
            "bits": ColumnSpec("uint64", "the value of a number"),
            "text": ColumnSpec(TEXT, "the value of a text, null for a number"),
        },
    ),
    "kernel_slices": TableSpec(
        "Calls of functions of the kernel",
        {
            "tid": _TID,
            "cpu": _CPU,
            "name": _FUNCTION,
            "start": _START,
            "duration": _DURATION,
            "depth": _DEPTH,
            "address": ColumnSpec("uint64", "an address in the function"),
            "state": _STATE,
            "entry": ColumnSpec("int64", "the row of the entry in `kernel`, or -1"),
            "exit": ColumnSpec("int64", "the row of the exit in `kernel`, or -1"),
        },
    ),
    "messages": TableSpec(
        "Lines of the file `extern.dat`", {"time": _TIME, "text": ColumnSpec(TEXT, "the text", REQUIRED)}
    ),
}
"""The columns of all tables."""

WRITABLE = writable_tables(SPECS)
"""The tables that can be written."""
