"""Descriptions of common kernel events, as tracefs of Linux 6 on 64-bit machines has them."""

from __future__ import annotations

FUNCTION_GRAPH = "ftrace"
"""The subsystem of the events that report calls of kernel functions."""

_COMMON = (
    ("unsigned short common_type", 0, 2, 0),
    ("unsigned char common_flags", 2, 1, 0),
    ("unsigned char common_preempt_count", 3, 1, 0),
    ("int common_pid", 4, 4, 1),
)
_EVENTS: dict[tuple[str, str, int], tuple[tuple[tuple[str, int, int, int], ...], str]] = {
    ("ftrace", "funcgraph_entry", 11): (
        (("unsigned long func", 8, 8, 0), ("int depth", 16, 4, 1)),
        '"--> %ps (%d)", (void *)REC->func, REC->depth',
    ),
    ("ftrace", "funcgraph_exit", 10): (
        (
            ("unsigned long func", 8, 8, 0),
            ("unsigned long long calltime", 16, 8, 0),
            ("unsigned long long rettime", 24, 8, 0),
            ("unsigned long overrun", 32, 8, 0),
            ("int depth", 40, 4, 1),
        ),
        '"<-- %ps (%d) (start: %llx  end: %llx)", (void *)REC->func, REC->depth, REC->calltime, REC->rettime',
    ),
    ("sched", "sched_switch", 316): (
        (
            ("char prev_comm[16]", 8, 16, 0),
            ("pid_t prev_pid", 24, 4, 1),
            ("int prev_prio", 28, 4, 1),
            ("long prev_state", 32, 8, 1),
            ("char next_comm[16]", 40, 16, 0),
            ("pid_t next_pid", 56, 4, 1),
            ("int next_prio", 60, 4, 1),
        ),
        '"prev_comm=%s prev_pid=%d ==> next_comm=%s", REC->prev_comm, REC->prev_pid, REC->next_comm',
    ),
    ("sched", "sched_wakeup", 318): (
        (
            ("char comm[16]", 8, 16, 0),
            ("pid_t pid", 24, 4, 1),
            ("int prio", 28, 4, 1),
            ("int target_cpu", 32, 4, 1),
        ),
        '"comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu',
    ),
    ("sched", "sched_process_exec", 309): (
        (("__data_loc char[] filename", 8, 4, 0), ("pid_t pid", 12, 4, 1), ("pid_t old_pid", 16, 4, 1)),
        '"filename=%s pid=%d old_pid=%d", __get_str(filename), REC->pid, REC->old_pid',
    ),
}

HEADER_PATH = "events/header_page"
"""The path of the description of a page of the ring buffer."""

HEADER_PAGE = """\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
"""The description of a page of the ring buffer."""


def path_of(system: str, name: str) -> str:
    """Return the path of the description of an event."""
    return f"events/{system}/{name}/format"


def _lines(fields: tuple[tuple[str, int, int, int], ...]) -> str:
    return "".join(
        f"\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n" for name, offset, size, signed in fields
    )


def _text(name: str, number: int, fields: tuple[tuple[str, int, int, int], ...], shown: str) -> str:
    return f"name: {name}\nID: {number}\nformat:\n{_lines(_COMMON)}\n{_lines(fields)}\nprint fmt: {shown}\n"


DESCRIPTIONS: dict[str, str] = {
    f"{system}:{name}": _text(name, number, fields, shown)
    for (system, name, number), (fields, shown) in _EVENTS.items()
}
"""The descriptions by names such as sched:sched_switch."""
