"""A harness for `mprof-report`, the reader of Mono recordings that comes with Mono, in exec mode.

    fxtio conformance run --format mono --known conformance/known/mprof-report.toml -- \
        python conformance/harness/mprof_report_reader.py

`mprof-report --debug` prints a line for most events, with only some of their fields.  The harness returns these fields
as a timeline.  Types of events whose lines are ambiguous are left out: the program prints domains as threads, several
lines for samples and moves, and names instead of the addresses of methods.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # not there by itself if PYTHONSAFEPATH is set

from timelines import Refused, run, text

SECONDS = 20
MAX_LINES = 1_000_000

GC_EVENTS = (
    "start", "mark start", "mark end", "reclaim start", "reclaim end", "end", "pre stop", "post stop", "pre start",
    "post start", "pre stop lock", "post start unlock",
)  # fmt: skip
HANDLES = ("weak", "weaktrack", "normal", "pinned")
CLAUSES = {"catch": 0, "filter": 1, "finally": 2, "fault": 4}
MONITORS = {"contended": 1, "acquired": 2, "not taken": 3}
NUMBERS: dict[str, dict[str, int]] = {
    "g": {name: number for number, name in enumerate(GC_EVENTS)},
    "h": {name: number for number, name in enumerate(HANDLES)},
    "c": CLAUSES,
    "m": MONITORS,
}

# A line of each type of events.  A group that begins with n_ is a decimal number, with p_ a pointer, with t_ a text,
# and with another letter a name that `NUMBERS` turns into a number.
LINES = {
    "alloc": r"alloced object (?P<p_object>P), size (?P<n_size>N) \(.*\) at (?P<n_time>N)",
    "gc-event": r"gc event for gen(?P<n_generation>N): (?P<g_event_type>.*) at (?P<n_time>N) \(thread: P\)",
    "gc-resize": r"gc heap resized to (?P<n_heap_size>N)",
    "gc-handle-created": r"handle \((?P<h_handle_type>.*)\) (?P<n_handle>N) created for object (?P<p_object>P)",
    "gc-handle-destroyed": r"handle \((?P<h_handle_type>.*)\) (?P<n_handle>N) destroyed",
    "gc-finalize-start": r"gc finalizer queue being processed at (?P<n_time>N)",
    "gc-finalize-end": r"gc finalizer queue finished processing at (?P<n_time>N)",
    "gc-finalize-object-start": r"gc finalizing object (?P<p_object>P) at (?P<n_time>N)",
    "gc-finalize-object-end": r"gc finalized object (?P<p_object>P) at (?P<n_time>N)",
    "class-load": r"loaded class (?P<p_pointer>P) \((?P<t_name>.*) in (?P<p_image>P)\) at (?P<n_time>N)",
    "image-load": r"loaded image (?P<p_pointer>P) \((?P<t_name>.*)\) at (?P<n_time>N)",
    "image-unload": r"unloaded image (?P<p_pointer>P) \((?P<t_name>.*)\) at (?P<n_time>N)",
    "assembly-load": r"loaded assembly (?P<p_pointer>P) \((?P<t_name>.*)\) at (?P<n_time>N)",
    "assembly-unload": r"unloaded assembly (?P<p_pointer>P) \((?P<t_name>.*)\) at (?P<n_time>N)",
    "context-load": r"loaded context (?P<p_pointer>P) \((?P<p_domain>P)\) at (?P<n_time>N)",
    "context-unload": r"unloaded context (?P<p_pointer>P) \((?P<p_domain>P)\) at (?P<n_time>N)",
    "domain-name": r"domain (?P<p_pointer>P) named at (?P<n_time>N): (?P<t_name>.*)",
    "thread-name": r"thread (?P<p_pointer>P) named at (?P<n_time>N): (?P<t_name>.*)",
    "vtable-load": r"vtable (?P<p_pointer>P) for class (?P<p_class>P) in domain (?P<p_domain>P) at (?P<n_time>N)",
    "method-enter": r"enter method .*",
    "method-leave": r"leave method .*",
    "method-exceptional-leave": r"exleave method .*",
    "method-jit": r"jitted method (?P<p_method>P) \((?P<t_name>.*)\), size: (?P<n_code_size>N), "
    r"code: (?P<p_code_address>P)",
    "exception-throw": r"throw (?P<p_object>P)",
    "exception-clause": r"clause (?P<c_clause_type>\w+) \((?P<n_clause_index>N)\) in method .*",
    "monitor": r"monitor (?P<m_event>.*) for object (?P<p_object>P)",
    "heap-start": r"heap shot start",
    "heap-end": r"heap shot end",
    "root-register": r"root register address (?P<p_start>P) size (?P<n_size>N) type (?P<n_source>N) key (?P<p_key>P) "
    r"name (?P<t_description>.*)",
    "root-unregister": r"root unregister address (?P<p_start>P)",
    "sample-symbol": r"unmanaged symbol (?P<t_name>.*) at (?P<p_address>P)",
    "sample-binary": r"unmanaged binary (?P<t_name>.*) at (?P<p_address>P)",
    "jit-helper": r"jit helper .*, size: (?P<n_buffer_size>N), code: (?P<p_buffer_address>P)",
    "sync-point": r"sync point (?P<n_sync_point_type>N) \(.*\)",
    "aot-id": r"aot id (?P<t_id>.*)",
}
PATTERNS = {
    name: re.compile(re.sub(r"(?<![<?])\bP\b", r"(?:0x[0-9a-f]+|\\(nil\\))", re.sub(r"\bN\b", r"-?[0-9]+", line)))
    for name, line in LINES.items()
}


def read(path: Path) -> dict[str, Any]:
    """Run the program, and return its lines as a timeline."""
    try:
        done = subprocess.run(["mprof-report", "--debug", str(path)], capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError("mprof-report does not end") from None
    if done.returncode < 0:
        raise RuntimeError(f"mprof-report was ended by signal {-done.returncode}")
    if done.returncode:
        raise Refused(done.stdout.decode("utf-8", "replace")[-200:])
    output = done.stdout.decode("utf-8", "surrogateescape")
    lines = re.split(r"^(?:Mlpd statistics|Mono log profiler data)", output, maxsplit=1, flags=re.MULTILINE)[0]
    timeline: dict[str, Any] = {name: [] for name in LINES}
    for line in lines.splitlines()[:MAX_LINES]:
        for name, pattern in PATTERNS.items():
            match = pattern.fullmatch(line)
            if match:
                timeline[name].append({key[2:]: convert(key[0], value) for key, value in match.groupdict().items()})
                break
    return timeline


def convert(kind: str, value: str) -> Any:
    """Return the canonical form of a part of a line."""
    if kind == "t":
        return text(value)
    if kind == "p":
        return "0" if value == "(nil)" else str(int(value, 16))
    return str(NUMBERS[kind].get(value, value)) if kind in NUMBERS else value


if __name__ == "__main__":
    sys.exit(run("mprof-report", "", read, "mono"))
