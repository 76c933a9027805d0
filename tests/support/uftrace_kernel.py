"""A kernel trace for tests, with the descriptions of events from tracefs of Linux 6 on x86-64."""

from __future__ import annotations

from pathlib import Path

from fxtio.uftrace import kernel
from fxtio.uftrace.info import InfoFile
from fxtio.uftrace.layout import Feature
from fxtio.uftrace.reader import UftraceTrace
from fxtio.uftrace.writer import UftraceWriter

HEADER_PAGE = b"""\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
COMMON = """format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
ENTRY = f"""name: funcgraph_entry
ID: 11
{COMMON}\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;
\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;

print fmt: "--> %ps (%d)", (void *)REC->func, REC->depth
"""
EXIT = f"""name: funcgraph_exit
ID: 10
{COMMON}\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned long long calltime;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned long long rettime;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long overrun;\toffset:32;\tsize:8;\tsigned:0;
\tfield:int depth;\toffset:40;\tsize:4;\tsigned:1;

print fmt: "<-- %ps (%d) (start: %llx  end: %llx)", (void *)REC->func, REC->depth, REC->calltime, REC->rettime
"""
SWITCH = f"""name: sched_switch
ID: 316
{COMMON}\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: "prev_comm=%s prev_pid=%d ==> next_comm=%s", REC->prev_comm, REC->prev_pid, REC->next_comm
"""
BLOCKS = [
    ("events/header_page", HEADER_PAGE),
    ("events/ftrace/funcgraph_entry/format", ENTRY.encode()),
    ("events/ftrace/funcgraph_exit/format", EXIT.encode()),
    ("events/sched/sched_switch/format", SWITCH.encode()),
]
BASE = 0xFFFF_FFFF_8100_0000
FUNCTIONS = {"do_syscall_64": BASE, "ksys_read": BASE + 0x100, "vfs_read": BASE + 0x200}


def kernel_trace(target: Path) -> list[tuple[int, bytes]]:
    """Write a task that reads a file in the kernel and is switched out; return the events of its CPU."""
    header = kernel.KernelHeader.of(BLOCKS)
    entry, leave, switch = (header.formats[number] for number in (11, 10, 316))
    begin = 1_000_000_000
    events: list[tuple[int, bytes]] = []
    names = list(FUNCTIONS)
    for depth, name in enumerate(names):
        time = begin + 1000 + 100 * depth
        events.append((time, kernel.build_data(entry, 100, {"func": FUNCTIONS[name], "depth": depth})))
    values = {"prev_comm": "game", "prev_pid": 100, "prev_state": 1, "next_comm": "swapper/0", "next_pid": 0}
    events.append((begin + 1500, kernel.build_data(switch, 100, values)))
    for depth, name in reversed(list(enumerate(names))):
        time = begin + 300_000_000 - 100 * depth
        data = {"func": FUNCTIONS[name], "depth": depth, "calltime": begin + 1000 + 100 * depth, "rettime": time}
        events.append((time, kernel.build_data(leave, 100, data)))
    with UftraceWriter(target, program="/usr/bin/game") as writer:
        task = writer.task(100)
        task.enter("main", begin)
        task.enter("read_file", begin + 500)
        task.leave(begin + 300_500_000)
        task.leave(begin + 301_000_000)
        writer.file(kernel.HEADER_FILE, header.to_bytes())
        lines = [f"{address:x} T {name}" for name, address in FUNCTIONS.items()]
        writer.file(kernel.SYMBOLS_FILE, "\n".join([*lines, f"{BASE + 0x300:x} T next", ""]).encode())
        writer.file("kernel-cpu0.dat", kernel.build_pages(events, header))
    info: InfoFile = UftraceTrace(target).info_file
    info.features |= Feature.KERNEL | Feature.EVENT
    (target / "info").write_bytes(info.to_bytes())
    return events
